// Every bound of the product in one place. A limit that a peer or user can reach is an error message, never a crash.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::limits {

// Requests and specs.
inline constexpr size_t kSpecBytesMax = 1 << 20;          // one job spec; larger is INVALID_ARGUMENT
inline constexpr size_t kGrpcMessageBytesMax = 16 << 20;  // both directions, both sides
inline constexpr size_t kGrpcMetadataBytesMax = 16 << 10;
inline constexpr size_t kNameBytesMax = 128;
inline constexpr size_t kRequestIdBytesMax = 128;
inline constexpr size_t kArgvCountMax = 4096;
inline constexpr size_t kArgvBytesMax = 512 << 10;
inline constexpr size_t kEnvCountMax = 1024;
inline constexpr int64_t kJobsPerSubmitMax = 10'000;
inline constexpr int64_t kPageSizeMax = 1'000;
inline constexpr int64_t kPageSizeDefault = 100;

// Secrets.
inline constexpr size_t kSecretNameBytesMax = 64;
inline constexpr size_t kSecretBytesMax = 64 << 10;
inline constexpr size_t kSecretsMax = 1'000;
inline constexpr int kSecretsPerJobMax = 32;

// Queues of the scheduler. Full means RESOURCE_EXHAUSTED with a retry delay.
inline constexpr size_t kMailboxMax = 65'536;
inline constexpr size_t kTurnEventsMax = 8'192;
inline constexpr size_t kSessionOutboxFramesMax = 1'024;
inline constexpr size_t kWatchBacklogMax = 65'536;  // events a watcher may lag before OUT_OF_RANGE
inline constexpr int64_t kRequestIdTtlMs = 24LL * 3600 * 1000;
inline constexpr size_t kRequestIdsMax = 1'000'000;
inline constexpr int64_t kDecideCandidatesMax = 200'000;  // step budget of one Decide
inline constexpr size_t kAttemptHistoryMax = 64;          // attempts kept in a task row (the newest)

// Leases and liveness (milliseconds). See docs/GUARANTEES.md.
inline constexpr int64_t kLeaseMs = 10 * 60'000;
inline constexpr int64_t kRenewEveryMs = 10'000;
inline constexpr int64_t kSilenceMs = 60'000;                // after this the scheduler fences actively
inline constexpr int64_t kLeaseGraceMs = 15'000;             // static nodes: wait for lease end plus this
inline constexpr int64_t kNodeLeaseMs = 30 * 60'000;         // an instance we created ends itself after this without a scheduler
inline constexpr int64_t kLeaseCheckpointBeforeMs = 60'000;  // a cut-off worker: ask for a checkpoint this long before lease end,
inline constexpr int64_t kLeaseTermBeforeMs = 20'000;        // then SIGTERM,
inline constexpr int64_t kLeaseKillBeforeMs = 5'000;         // then SIGKILL of the tree

// Jobs.
inline constexpr int64_t kPriorityMax = 100;  // 0 to this, higher first
inline constexpr int64_t kArrayTasksMax = 1'000'000;
inline constexpr size_t kSkippedRangesMax = 1'000;  // apart from each other, of tasks of one job that were cancelled before they began
inline constexpr int64_t kStopGraceMs = 30'000;     // SIGTERM to SIGKILL when the spec says nothing
inline constexpr int64_t kIdleReleaseMs = 60'000;   // a burst node without work is released after this
inline constexpr int64_t kBootTimeoutMs = 10 * 60'000;
inline constexpr int64_t kGangMembersMax = 256;
inline constexpr int64_t kGangHoldMs = 10 * 60'000;  // nodes wait so long for the others of a gang
inline constexpr int64_t kRetryBackoffMsMin = 1'000;
inline constexpr int64_t kRetryBackoffMsMax = 5 * 60'000;
inline constexpr int64_t kExit85WithoutCheckpointMax = 3;

// Logs and the job's socket.
inline constexpr int64_t kLogBytesMax = 64LL << 20;  // of one attempt: head and tail, the gap marked
inline constexpr size_t kSocketMessageBytesMax = 16 << 10;
inline constexpr size_t kMetricsPerProgressMax = 32;

// Supervisor frames (SOCK_SEQPACKET).
inline constexpr size_t kSupervisorFrameBytesMax = 1 << 20;
inline constexpr size_t kSupervisorEventsMax = 65'536;  // unacknowledged events kept

// Checkpoints.
inline constexpr size_t kManifestBytesMax = 64 << 20;
inline constexpr size_t kTensorsMax = 1 << 20;
inline constexpr size_t kTensorNameBytesMax = 1024;

}  // namespace spillway::limits
