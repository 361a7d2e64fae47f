// The scheduler's side of the workers' streams: frames become calls of the engine, the engine's orders become frames, specs go along once a session.
// The same translation as scheduler/rpc makes, without protobuf. Lives and dies with the scheduler's process.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/engine/orders.h"
#include "sim/network.h"
#include "sim/scheduler_host.h"

namespace spillway::sim {

class SchedulerEdge final : public SchedulerEnd, public engine::SessionSink {
 public:
  SchedulerEdge(World* world, Network* network, SchedulerHost* host, const Hooks* hooks) : world_(world), network_(network), host_(host), hooks_(hooks) {}

  // SchedulerEnd
  void StreamOpened(StreamId stream) override;
  void StreamFrame(StreamId stream, const worker::WorkerFrame& frame) override;
  void StreamBroken(StreamId stream) override;

  // SessionSink
  void Welcome(int64_t session, const engine::WelcomeOrder& order) override;
  void Refuse(int64_t session, const absl::Status& why) override;
  void Offer(int64_t session, const engine::OfferOrder& order) override;
  void Stop(int64_t session, const engine::StopOrder& order) override;
  void Forget(int64_t session, const engine::ForgetOrder& order) override;
  void AckReports(int64_t session, int64_t seq) override;
  void AckRenewal(int64_t session, int64_t renewal) override;
  void Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) override;

 private:
  struct Session {
    StreamId stream = 0;
    bool greeted = false;
    std::set<std::string> specs;  // sent
  };
  Session* Find(int64_t session);
  void Send(int64_t session, worker::SchedulerFrame frame);
  void End(int64_t session, const std::string& why);
  void Relabel(std::vector<core::Report>* reports) const;
  void AddSpec(Session* session, const std::string& digest, std::vector<worker::SpecData>* specs);

  World* const world_;
  Network* const network_;
  SchedulerHost* const host_;
  const Hooks* const hooks_;
  std::map<int64_t, Session> sessions_;
  std::map<StreamId, int64_t> by_stream_;
  int64_t next_session_ = 1;
};

}  // namespace spillway::sim
