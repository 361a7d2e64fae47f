// A scheduler for tests of the worker: a real gRPC server with the worker's service, that says what a test tells it to and remembers what it heard.
// It welcomes every hello, acks every renewal and, unless told otherwise, every report.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "spillway/v1/worker_service.grpc.pb.h"
#include "worker/session_wire.h"

namespace spillway::worker {

class SchedulerDouble final : public v1::WorkerService::Service {
 public:
  static constexpr long kWaitMs = 30'000;

  explicit SchedulerDouble(std::string store_url) {
    welcome.cluster_uuid = kClusterUuid, welcome.node_id = 7, welcome.lease_ms = 600'000, welcome.renew_every_ms = 500,
    welcome.store_url = std::move(store_url);
  }
  ~SchedulerDouble() override { Stop(); }

  static constexpr char kClusterUuid[] = "11111111-2222-4333-8444-555555555555";

  // Before Start, or between Stop and Start. `wanted` and `report_ack` of the welcome are filled in from what is known.
  Welcome welcome;
  bool ack_reports = true;

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  // Ends every session without a word.
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  int port() const { return port_; }

  // Offers go to the newest session; the attempt is wanted from now on.
  void Offer(const worker::Offer& offer, const std::string& spec) {
    SchedulerFrame frame;
    frame.specs.push_back({offer.spec_digest, spec});
    frame.offers.push_back(offer);
    {
      MutexLock lock(&mutex_);
      wanted_.push_back(offer.attempt);
    }
    Send(frame);
  }
  void Send(const SchedulerFrame& frame) {
    MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->Write(ToProto(frame));
  }

  // True when `condition` over what was heard held within kWaitMs.
  bool WaitFor(const std::function<bool(const SchedulerDouble&)>& condition) {
    MutexLock lock(&mutex_);
    for (long left = kWaitMs; left > 0; left -= 20) {
      if (condition(*this)) return true;
      changed_.WaitForMs(&mutex_, 20);
    }
    return condition(*this);
  }
  // The report of this kind about the attempt, waited for; an empty one (seq 0) when none came.
  Report WaitForReport(const AttemptId& attempt, Report::Kind kind) {
    Report found;
    WaitFor([&](const SchedulerDouble& heard) {
      for (const Report& report : heard.reports) {
        if (report.attempt == attempt && report.kind == kind) found = report;
      }
      return found.seq != 0;
    });
    return found;
  }
  size_t Sessions() {
    MutexLock lock(&mutex_);
    return hellos.size();
  }

  // What was heard; look at it inside WaitFor, or when nothing is running any more. Reports of one life of the node in the order of their
  // numbers, each once: a number that means two things, or a gap, is remembered in `broken`.
  std::vector<Hello> hellos;
  std::vector<Report> reports;
  std::vector<ProgressReport> progress;
  std::vector<NodeNotice> notices;
  std::vector<std::string> authorizations;
  int64_t renewals = 0;
  int64_t repeated = 0;
  std::string broken;

 private:
  using Stream = grpc::ServerReaderWriter<v1::SchedulerFrame, v1::WorkerFrame>;

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override {
    v1::WorkerFrame message;
    {
      MutexLock lock(&mutex_);
      const auto token = context->client_metadata().find("authorization");
      authorizations.push_back(token == context->client_metadata().end() ? "" : std::string(token->second.data(), token->second.size()));
    }
    while (stream->Read(&message)) {
      MutexLock lock(&mutex_);
      Take(FromProto(message), stream);
      changed_.SignalAll();
    }
    MutexLock lock(&mutex_);
    if (stream_ == stream) stream_ = nullptr;
    return grpc::Status::OK;
  }

  void Take(const WorkerFrame& frame, Stream* stream) {
    SchedulerFrame answer;
    if (frame.hello) {
      stream_ = stream;
      if (hellos.empty() || hellos.back().boot_id != frame.hello->boot_id) by_number_.clear();
      hellos.push_back(*frame.hello);
      answer.welcome = welcome;
      answer.welcome->wanted = wanted_;
      answer.welcome->report_ack = ack_reports ? static_cast<int64_t>(by_number_.size()) : acked_;
    }
    for (const Report& report : frame.reports) {
      const auto [it, is_new] = by_number_.emplace(report.seq, report);
      if (!is_new) {
        ++repeated;
        if (!(it->second == report)) broken = absl::StrCat("number ", report.seq, " means two things");
        continue;
      }
      if (report.seq != static_cast<int64_t>(by_number_.size())) broken = absl::StrCat("number ", report.seq, " after ", by_number_.size() - 1);
      reports.push_back(report);
    }
    if (!frame.reports.empty() && ack_reports) answer.report_ack = acked_ = static_cast<int64_t>(by_number_.size());
    if (frame.renewal > 0) renewals = answer.renewal_ack = frame.renewal;
    progress.insert(progress.end(), frame.progress.begin(), frame.progress.end());
    if (frame.notice) notices.push_back(*frame.notice);
    if (answer.welcome || answer.report_ack > 0 || answer.renewal_ack > 0) stream->Write(ToProto(answer));
  }

  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  Mutex mutex_;
  CondVar changed_;
  Stream* stream_ = nullptr;
  std::vector<AttemptId> wanted_;
  std::map<int64_t, Report> by_number_;
  int64_t acked_ = 0;
};

}  // namespace spillway::worker
