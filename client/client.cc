#include "client/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/grpc_log.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "spillway/v1/billing_service.grpc.pb.h"
#include "spillway/v1/fleet_service.grpc.pb.h"
#include "spillway/v1/job_service.grpc.pb.h"
#include "spillway/v1/secret_service.grpc.pb.h"

namespace spillway::client {
namespace {

constexpr char kViolationsKey[] = "spillway-violations-bin";
constexpr char kRetryAfterKey[] = "spillway-retry-after-ms";
constexpr int64_t kBackoffMsMin = 50;
constexpr int64_t kBackoffMsMax = 2'000;
constexpr int64_t kRetryAfterMsMax = 10'000;  // in all, for a full queue

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& server) {
  LogGrpcAsDebug();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kGrpcMessageBytesMax));
  arguments.SetMaxSendMessageSize(static_cast<int>(limits::kGrpcMessageBytesMax));
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(limits::kGrpcMetadataBytesMax));
  // A follower may hear nothing for hours; the pings tell a quiet scheduler from a dead one. The server permits this rate.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);  // gRPC takes this as the time limit of one attempt to connect
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);     // ours know which calls are safe to repeat
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the token is for the scheduler alone
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), arguments);
}

std::string TrailerOf(const grpc::ClientContext& context, const char* key) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(key);
  return found == trailers.end() ? "" : std::string(found->second.data(), found->second.size());
}

class GrpcApi final : public Api {
 public:
  explicit GrpcApi(const ClientOptions& options)
      : options_(options),
        channel_(OpenChannel(options.server)),
        jobs_(v1::JobService::NewStub(channel_)),
        fleet_(v1::FleetService::NewStub(channel_)),
        billing_(v1::BillingService::NewStub(channel_)),
        secrets_(v1::SecretService::NewStub(channel_)) {}

  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request) override {
    return Call<v1::SubmitResponse>(!request.request_id().empty(), request, *jobs_, &v1::JobService::Stub::Submit);
  }
  absl::StatusOr<v1::Job> Get(const v1::GetJobRequest& request) override { return Call<v1::Job>(true, request, *jobs_, &v1::JobService::Stub::Get); }
  absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request) override {
    return Call<v1::ListJobsResponse>(true, request, *jobs_, &v1::JobService::Stub::List);
  }
  absl::StatusOr<v1::JobActionResponse> Cancel(const v1::CancelRequest& request) override {
    return Call<v1::JobActionResponse>(true, request, *jobs_, &v1::JobService::Stub::Cancel);
  }
  // Not repeated: a second one would stop the attempt that followed the first.
  absl::StatusOr<v1::JobActionResponse> Preempt(const v1::PreemptRequest& request) override {
    return Call<v1::JobActionResponse>(false, request, *jobs_, &v1::JobService::Stub::Preempt);
  }
  absl::StatusOr<v1::JobActionResponse> Pause(const v1::PauseRequest& request) override {
    return Call<v1::JobActionResponse>(true, request, *jobs_, &v1::JobService::Stub::Pause);
  }
  absl::StatusOr<v1::JobActionResponse> Resume(const v1::ResumeRequest& request) override {
    return Call<v1::JobActionResponse>(true, request, *jobs_, &v1::JobService::Stub::Resume);
  }
  absl::StatusOr<v1::JobActionResponse> Update(const v1::UpdateRequest& request) override {
    return Call<v1::JobActionResponse>(true, request, *jobs_, &v1::JobService::Stub::Update);
  }
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) override {
    return Call<v1::ExplainResponse>(true, request, *jobs_, &v1::JobService::Stub::Explain);
  }
  absl::StatusOr<v1::ListTasksResponse> ListTasks(const v1::ListTasksRequest& request) override {
    return Call<v1::ListTasksResponse>(true, request, *jobs_, &v1::JobService::Stub::ListTasks);
  }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) override {
    return Call<v1::ListCheckpointsResponse>(true, request, *jobs_, &v1::JobService::Stub::ListCheckpoints);
  }
  absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest& request) override {
    return Call<v1::ListNodesResponse>(true, request, *fleet_, &v1::FleetService::Stub::ListNodes);
  }
  absl::StatusOr<v1::ListOffersResponse> ListOffers(const v1::ListOffersRequest& request) override {
    return Call<v1::ListOffersResponse>(true, request, *fleet_, &v1::FleetService::Stub::ListOffers);
  }
  absl::StatusOr<v1::ListReservationsResponse> ListReservations(const v1::ListReservationsRequest& request) override {
    return Call<v1::ListReservationsResponse>(true, request, *fleet_, &v1::FleetService::Stub::ListReservations);
  }
  absl::StatusOr<v1::NodeActionResponse> Cordon(const v1::CordonRequest& request) override {
    return Call<v1::NodeActionResponse>(true, request, *fleet_, &v1::FleetService::Stub::Cordon);
  }
  absl::StatusOr<v1::NodeActionResponse> Drain(const v1::DrainRequest& request) override {
    return Call<v1::NodeActionResponse>(true, request, *fleet_, &v1::FleetService::Stub::Drain);
  }
  absl::StatusOr<v1::ServerInfo> GetServerInfo() override {
    return Call<v1::ServerInfo>(true, v1::GetServerInfoRequest(), *fleet_, &v1::FleetService::Stub::GetServerInfo);
  }
  absl::StatusOr<v1::ListChargesResponse> ListCharges(const v1::ListChargesRequest& request) override {
    return Call<v1::ListChargesResponse>(true, request, *billing_, &v1::BillingService::Stub::ListCharges);
  }
  absl::StatusOr<v1::CostReportResponse> CostReport(const v1::CostReportRequest& request) override {
    return Call<v1::CostReportResponse>(true, request, *billing_, &v1::BillingService::Stub::CostReport);
  }
  absl::StatusOr<v1::SetSecretResponse> SetSecret(const v1::SetSecretRequest& request) override {
    return Call<v1::SetSecretResponse>(true, request, *secrets_, &v1::SecretService::Stub::SetSecret);
  }
  absl::StatusOr<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest& request) override {
    return Call<v1::ListSecretsResponse>(true, request, *secrets_, &v1::SecretService::Stub::ListSecrets);
  }
  absl::StatusOr<v1::RemoveSecretResponse> RemoveSecret(const v1::RemoveSecretRequest& request) override {
    return Call<v1::RemoveSecretResponse>(false, request, *secrets_, &v1::SecretService::Stub::RemoveSecret);
  }

  absl::Status Watch(const v1::WatchRequest& request, int64_t timeout_ms, const OnEvent& on_event) override;
  absl::Status StreamLogs(const v1::StreamLogsRequest& request, const OnLog& on_log) override;
  absl::Status Backup(const OnBackup& on_chunk) override;

 private:
  // When to stop trying again: counted from the last sign of life.
  class Patience {
   public:
    Patience(GrpcApi* api, bool repeatable) : api_(api), repeatable_(repeatable) {}
    // True after a pause when the call should be made again; false when `status` is the answer.
    bool TryAgain(const grpc::Status& status, const grpc::ClientContext& context);
    void Heard() { silent_since_ms_ = 0, backoff_ms_ = kBackoffMsMin; }

   private:
    GrpcApi* api_;
    const bool repeatable_;
    int64_t silent_since_ms_ = 0;
    int64_t backoff_ms_ = kBackoffMsMin;
    int64_t waited_ms_ = 0;
  };

  void Prepare(grpc::ClientContext* context, int64_t timeout_ms) const {
    if (!options_.token.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
    if (timeout_ms > 0) context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  }

  absl::Status Explained(const grpc::Status& status, const grpc::ClientContext& context) const;

  template <typename Response, typename Request, typename Stub>
  absl::StatusOr<Response> Call(bool repeatable, const Request& request, Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
    for (Patience patience(this, repeatable);;) {
      grpc::ClientContext context;
      Prepare(&context, options_.call_timeout_ms);
      Response response;
      const grpc::Status status = (stub.*method)(&context, request, &response);
      if (status.ok()) {
        answered_ = true;
        return response;
      }
      if (!patience.TryAgain(status, context)) return Explained(status, context);
    }
  }

  const ClientOptions options_;
  RealClock clock_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::FleetService::Stub> fleet_;
  std::unique_ptr<v1::BillingService::Stub> billing_;
  std::unique_ptr<v1::SecretService::Stub> secrets_;
  bool answered_ = false;  // the scheduler has answered this client before
};

bool GrpcApi::Patience::TryAgain(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    // Nothing was done; the scheduler says when to come back.
    int64_t after_ms = 0;
    if (!absl::SimpleAtoi(TrailerOf(context, kRetryAfterKey), &after_ms) || after_ms <= 0 || waited_ms_ + after_ms > kRetryAfterMsMax) return false;
    waited_ms_ += after_ms;
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    return true;
  }
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || !repeatable_ || !api_->answered_) return false;
  const int64_t now_ms = api_->clock_.NowSteadyMs();
  if (silent_since_ms_ == 0) silent_since_ms_ = now_ms;
  if (now_ms - silent_since_ms_ > api_->options_.reconnect_ms) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(backoff_ms_));
  backoff_ms_ = std::min(backoff_ms_ * 2, kBackoffMsMax);
  return true;
}

absl::Status GrpcApi::Explained(const grpc::Status& status, const grpc::ClientContext& context) const {
  const std::string said = Printable(status.error_message(), 2000);
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      // gRPC's text names the address several times; what went wrong stands last.
      return absl::UnavailableError(absl::StrCat("the scheduler at ", options_.server, " does not answer (",
                                                 said.substr(said.rfind(": ") == std::string::npos ? 0 : said.rfind(": ") + 2), ")",
                                                 options_.advise ? "; start it with `spillway up`, or say where it is with --server" : ""));
    case grpc::StatusCode::UNAUTHENTICATED:
      return absl::UnauthenticatedError(
          absl::StrCat("the scheduler at ", options_.server, " does not accept this token (", options_.token.empty() ? "none was found" : said,
                       options_.token_source.empty() ? "" : absl::StrCat("; it stands in ", options_.token_source),
                       "); set SPILLWAY_TOKEN, SPILLWAY_TOKEN_FILE or SPILLWAY_HOME; on a shared machine it may be somebody else's: "
                       "`listen` in your config.yaml gives yours ports of its own"));
    case grpc::StatusCode::UNIMPLEMENTED:
      if (said.empty()) {  // gRPC's own word
        return absl::UnimplementedError(absl::StrCat(
            "what answers at ", options_.server,
            " is no scheduler for users, or an older one: is it the workers' port? Users call 7070 unless `listen` in config.yaml says otherwise"));
      }
      break;
    default: break;
  }
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()), said);
  v1::FieldViolations violations;
  if (const std::string bytes = TrailerOf(context, kViolationsKey); !bytes.empty() && violations.ParseFromString(bytes)) AttachViolations(violations, &out);
  return out;
}

absl::Status GrpcApi::Watch(const v1::WatchRequest& request, int64_t timeout_ms, const OnEvent& on_event) {
  const int64_t end_ms = timeout_ms > 0 ? clock_.NowSteadyMs() + timeout_ms : 0;
  // Many events share one number. To go on in the middle of them, the stream is asked for again from the number before, and what was given is skipped.
  int64_t last_seq = 0;
  int64_t given_of_last = 0;
  for (Patience patience(this, true);;) {
    v1::WatchRequest from = request;
    if (last_seq > 0) from.set_after_seq(last_seq > 1 ? last_seq - 1 : -1);
    int64_t to_skip = given_of_last;
    const int64_t left_ms = end_ms == 0 ? 0 : std::max<int64_t>(1, end_ms - clock_.NowSteadyMs());
    grpc::ClientContext context;
    Prepare(&context, left_ms);
    const auto reader = jobs_->Watch(&context, from);
    bool enough = false;
    for (v1::Event event; !enough && reader->Read(&event);) {
      answered_ = true;
      patience.Heard();
      if (last_seq > 0 && event.seq() == last_seq && to_skip > 0) {
        --to_skip;
        continue;
      }
      given_of_last = event.seq() == last_seq ? given_of_last + 1 : 1;
      last_seq = event.seq();
      enough = !on_event(event);
    }
    if (enough) context.TryCancel();
    const grpc::Status status = reader->Finish();
    if (enough || status.ok()) return absl::OkStatus();
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && end_ms != 0) return absl::OkStatus();
    if (end_ms != 0 && clock_.NowSteadyMs() >= end_ms) return absl::OkStatus();
    if (!patience.TryAgain(status, context)) return Explained(status, context);
  }
}

absl::Status GrpcApi::StreamLogs(const v1::StreamLogsRequest& request, const OnLog& on_log) {
  v1::StreamLogsRequest from = request;
  for (Patience patience(this, true);;) {
    grpc::ClientContext context;
    Prepare(&context, 0);
    const auto reader = jobs_->StreamLogs(&context, from);
    bool enough = false;
    for (v1::LogChunk chunk; !enough && reader->Read(&chunk);) {
      answered_ = true;
      patience.Heard();
      if (chunk.attempt().attempt() > 0) *from.mutable_attempt() = chunk.attempt();  // "the newest" must stay the same one
      from.set_offset(chunk.offset() + static_cast<int64_t>(chunk.data().size()));
      enough = !on_log(chunk);
    }
    if (enough) context.TryCancel();
    const grpc::Status status = reader->Finish();
    if (enough || status.ok()) return absl::OkStatus();
    if (!patience.TryAgain(status, context)) return Explained(status, context);
  }
}

absl::Status GrpcApi::Backup(const OnBackup& on_chunk) {
  grpc::ClientContext context;
  Prepare(&context, 0);
  const auto reader = fleet_->Backup(&context, v1::BackupRequest());
  absl::Status taken;
  for (v1::BackupChunk chunk; taken.ok() && reader->Read(&chunk);) taken = on_chunk(chunk);
  if (!taken.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!taken.ok()) return taken;
  return status.ok() ? absl::OkStatus() : Explained(status, context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Api>> Connect(const ClientOptions& options) {
  const size_t colon = options.server.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(options.server.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("`", Printable(options.server, 100), "` is not HOST:PORT, such as 127.0.0.1:7070"));
  }
  for (const char c : options.token) {
    if (c <= ' ' || c > '~') {
      return absl::InvalidArgumentError(
          absl::StrCat("the token holds a character that no token has", options.token_source.empty() ? "" : "; it stands in ", options.token_source));
    }
  }
  return std::make_unique<GrpcApi>(options);
}

}  // namespace spillway::client
