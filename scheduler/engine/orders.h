// Effects with everything their executors need, copied out of the state on the engine's side, so that no executor ever looks into it.
// Keys are (cluster, id, attempt); carrying one out twice is the same as once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "scheduler/core/core.h"

namespace spillway::engine {

struct OfferOrder {  // to the node's session
  NodeId node = 0;
  AttemptId attempt;
  std::string spec_digest;  // 32 bytes
  std::string job_uid, job_name;
  std::string checkpoint_dir;  // relative: CLUSTER/JOB/TASK/aN
  std::string resume_path;     // relative; "" from the start
  int64_t resume_step = 0;
  std::vector<int> devices;
  std::string log_path;                 // relative to the log root: JOB/TASK/aN.log, of other members than the first aN.RANK.log
  int64_t rank = 0;                     // of the member
  std::vector<std::string> node_names;  // of all members, by rank
  std::string rendezvous;               // "HOST:PORT" of member 0, once all have accepted: of several members none starts before
};
struct StopOrder {  // to the node's session
  NodeId node = 0;
  AttemptId attempt;
  core::StopRequest stop;
};
struct ForgetOrder {  // to the node's session: ended, acked; drop what is kept
  NodeId node = 0;
  AttemptId attempt;
};
struct WelcomeOrder {  // answers a session's hello, after its commit
  NodeId node = 0;
  std::string cluster_uuid;
  int64_t incarnation = 0, lease_ms = 0, renew_every_ms = 0, report_ack = 0;
  std::vector<AttemptId> wanted;  // the full set
  std::vector<OfferOrder> offers;
  std::vector<StopOrder> stops;
};
struct SealOrder {  // to the sealer: answers with core::SealResult
  AttemptId attempt;
  std::string job_uid;
  std::string checkpoint_dir;  // relative
};
struct CreateOrder {  // to the provider: answers with InstanceCreated or InstanceRefused
  core::Node node;
  core::Offer offer;
  std::string client_token;  // idempotency: CLUSTER-NODE, the same for every try
};
struct TerminateOrder {  // to the provider: answers with InstanceGone once the provider says so
  NodeId node = 0;
  std::string provider, name, instance_id, client_token;
};

// Whether a listing shows what is to end alive: by its id where that is known, since an orphan whose name a living node has goes by another one with us.
inline bool ShowsAlive(const core::InstanceListing& listing, const TerminateOrder& order) {
  return std::any_of(listing.instances.begin(), listing.instances.end(), [&](const core::InstanceListing::Instance& instance) {
    return instance.alive && (order.instance_id.empty() ? instance.name == order.name : instance.instance_id == order.instance_id);
  });
}

// Where the engine's output goes. Calls come from the engine's thread, in order, only after the commit they rest on. Must not block.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  virtual void Welcome(int64_t session, const WelcomeOrder& welcome) = 0;
  virtual void Refuse(int64_t session, const absl::Status& why) = 0;  // the session ends
  virtual void Offer(int64_t session, const OfferOrder& offer) = 0;
  virtual void Stop(int64_t session, const StopOrder& stop) = 0;
  virtual void Forget(int64_t session, const ForgetOrder& forget) = 0;
  virtual void AckReports(int64_t session, int64_t seq) = 0;
  virtual void AckRenewal(int64_t session, int64_t renewal) = 0;
  virtual void Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) = 0;
};
class EffectSink {
 public:
  virtual ~EffectSink() = default;
  virtual void Seal(const SealOrder& order) = 0;
  virtual void Create(const CreateOrder& order) = 0;
  virtual void Terminate(const TerminateOrder& order) = 0;
  virtual void AskAbout(const std::string& provider) = 0;  // a node is silent: list the provider now
};

}  // namespace spillway::engine
