// What the scheduler answers, as plain calls on messages: the seam between the verbs of the command line and the wire.
// client/client.h implements it over gRPC; tests bring a fake. Safe to call from one thread at a time.
//
// Errors are those of job_service.proto by code. Two carry a payload: INVALID_ARGUMENT the field violations (ViolationsOf), and UNAVAILABLE or
// DEADLINE_EXCEEDED means that the scheduler could not be reached; whether a change was made is then unknown unless the call says it is safe to repeat.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spec/validate.h"
#include "spillway/v1/billing_service.pb.h"
#include "spillway/v1/fleet_service.pb.h"
#include "spillway/v1/job_service.pb.h"
#include "spillway/v1/secret_service.pb.h"

namespace spillway::client {

// Returns false to end the stream.
using OnEvent = std::function<bool(const v1::Event&)>;
using OnLog = std::function<bool(const v1::LogChunk&)>;
// An error ends the stream and is the answer.
using OnBackup = std::function<absl::Status(const v1::BackupChunk&)>;

class Api {
 public:
  virtual ~Api() = default;

  // Safe to repeat with the same request_id: the scheduler answers a repeated one as before.
  virtual absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> Get(const v1::GetJobRequest& request) = 0;
  virtual absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request) = 0;
  virtual absl::StatusOr<v1::ListTasksResponse> ListTasks(const v1::ListTasksRequest& request) = 0;
  virtual absl::StatusOr<v1::JobActionResponse> Cancel(const v1::CancelRequest& request) = 0;
  virtual absl::StatusOr<v1::JobActionResponse> Preempt(const v1::PreemptRequest& request) = 0;
  virtual absl::StatusOr<v1::JobActionResponse> Pause(const v1::PauseRequest& request) = 0;
  virtual absl::StatusOr<v1::JobActionResponse> Resume(const v1::ResumeRequest& request) = 0;
  virtual absl::StatusOr<v1::JobActionResponse> Update(const v1::UpdateRequest& request) = 0;
  virtual absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) = 0;
  virtual absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) = 0;

  // OK when the stream ended by itself, `on_event` said enough, or `timeout_ms` (0: none) passed. Reconnects where it was cut off:
  // no event is missed or given twice. OUT_OF_RANGE: fell behind, list anew.
  virtual absl::Status Watch(const v1::WatchRequest& request, int64_t timeout_ms, const OnEvent& on_event) = 0;
  // OK when everything was given. Reconnects at the byte where it was cut off.
  virtual absl::Status StreamLogs(const v1::StreamLogsRequest& request, const OnLog& on_log) = 0;

  virtual absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest& request) = 0;
  virtual absl::StatusOr<v1::ListOffersResponse> ListOffers(const v1::ListOffersRequest& request) = 0;
  virtual absl::StatusOr<v1::ListReservationsResponse> ListReservations(const v1::ListReservationsRequest& request) = 0;
  virtual absl::StatusOr<v1::NodeActionResponse> Cordon(const v1::CordonRequest& request) = 0;
  virtual absl::StatusOr<v1::NodeActionResponse> Drain(const v1::DrainRequest& request) = 0;
  virtual absl::StatusOr<v1::ServerInfo> GetServerInfo() = 0;
  // Never taken up where it was cut off: another try would be another copy.
  virtual absl::Status Backup(const OnBackup& on_chunk) = 0;

  virtual absl::StatusOr<v1::ListChargesResponse> ListCharges(const v1::ListChargesRequest& request) = 0;
  virtual absl::StatusOr<v1::CostReportResponse> CostReport(const v1::CostReportRequest& request) = 0;

  virtual absl::StatusOr<v1::SetSecretResponse> SetSecret(const v1::SetSecretRequest& request) = 0;
  virtual absl::StatusOr<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest& request) = 0;
  virtual absl::StatusOr<v1::RemoveSecretResponse> RemoveSecret(const v1::RemoveSecretRequest& request) = 0;
};

// The field violations an INVALID_ARGUMENT carries; empty when none.
void AttachViolations(const v1::FieldViolations& violations, absl::Status* status);
std::vector<spec::Violation> ViolationsOf(const absl::Status& status);

// What the program's exit says: 0 ok, 1 the job failed, 2 usage or invalid input, 3 not found, 4 refused, 5 unreachable.
enum ExitCode : int { kExitOk = 0, kExitJobFailed = 1, kExitUsage = 2, kExitNotFound = 3, kExitRefused = 4, kExitUnreachable = 5 };
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace spillway::client
