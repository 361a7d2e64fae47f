// The frames of a worker's session with the scheduler, as plain structs: what proto/spillway/v1/worker_service.proto says, for logic that
// sees no generated code. session_wire.h translates. Comments here only say what the proto does not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/attempt_words.h"
#include "base/ids.h"

namespace spillway::worker {

struct Accelerator {
  std::string model;
  int64_t count = 0;
  int64_t memory_bytes = 0;  // of one device
  bool simulated = false;
  bool operator==(const Accelerator&) const = default;
};

struct NodeResources {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  std::vector<Accelerator> accelerators;
  bool operator==(const NodeResources&) const = default;
};

struct InventoryItem {
  AttemptId attempt;
  AttemptState state = AttemptState::kUnspecified;
  bool operator==(const InventoryItem&) const = default;
};

struct Hello {
  std::string node_name, provider, instance_id, boot_id;
  NodeResources resources;
  std::string zone, region;
  Market market = Market::kUnspecified;
  std::string isolation;
  std::vector<InventoryItem> inventory;
  std::string worker_version;
  std::string cluster_uuid;
  NodeId node_id = 0;
};

struct CheckpointFound {
  int64_t step = 0;
  std::string path;  // relative to the checkpoint root
  std::string manifest_sha256;
  int64_t bytes = 0;
  bool operator==(const CheckpointFound&) const = default;
};

struct EndFacts {
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;
  int64_t last_step = 0, total_steps = 0;
  int64_t log_bytes = 0;
  int64_t run_ms = 0;
  bool operator==(const EndFacts&) const = default;
};

struct Report {
  enum class Kind { kAccepted = 1, kStarted = 2, kCheckpoint = 3, kEnded = 4 };
  int64_t seq = 0;
  AttemptId attempt;
  Kind kind = Kind::kAccepted;
  CheckpointFound checkpoint;  // kCheckpoint
  EndFacts end;                // kEnded
  std::string rendezvous;      // kAccepted
  bool operator==(const Report&) const = default;
};

struct ProgressReport {
  AttemptId attempt;
  int64_t step = 0;
  int64_t total = 0;
  std::vector<std::pair<std::string, double>> metrics;
};

struct NodeNotice {
  int64_t in_ms = 0;
  std::string source;
  bool advisory = false;
};

struct WorkerFrame {
  std::optional<Hello> hello;
  int64_t renewal = 0;
  std::vector<Report> reports;
  std::vector<ProgressReport> progress;
  std::optional<NodeNotice> notice;
};

struct Offer {
  AttemptId attempt;
  std::string spec_digest;  // 32 bytes
  std::string job_uid, job_name;
  std::string checkpoint_dir;
  std::string resume_from;
  int64_t resume_step = 0;
  std::vector<int> devices;
  std::string log_path;
  int64_t rank = 0, members = 1;
  std::string node_list, rendezvous;
  std::map<std::string, std::string> secrets;
  bool operator==(const Offer&) const = default;
};
inline bool IsGang(const Offer& offer) { return offer.members > 1; }

struct Stop {
  AttemptId attempt;
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  int64_t grace_ms = 0;
  std::string reason;
};

struct SpecData {
  std::string digest;
  std::string spec;
};

struct Welcome {
  std::string cluster_uuid;
  int64_t incarnation = 0;
  NodeId node_id = 0;
  int64_t lease_ms = 0;
  int64_t renew_every_ms = 0;
  std::string store_url;
  int64_t report_ack = 0;
  std::vector<AttemptId> wanted;
  std::vector<Offer> offers;
  std::vector<Stop> stops;
  std::vector<SpecData> specs;
};

struct Goodbye {
  std::string code, message;
  bool come_back = true;
};

struct SchedulerFrame {
  std::optional<Welcome> welcome;
  int64_t renewal_ack = 0;
  int64_t report_ack = 0;
  std::vector<Offer> offers;
  std::vector<Stop> stops;
  std::optional<Goodbye> goodbye;
  std::vector<SpecData> specs;
  std::vector<AttemptId> forget;
};

}  // namespace spillway::worker
