#include "tests/core/world.h"

#include "absl/strings/str_cat.h"

namespace spillway::core {

absl::StatusOr<Reply> World::Try(const Command& command) {
  absl::StatusOr<Admission> admission = Admit(state, command, now_ms, policy);
  if (!admission.ok()) return admission.status();
  changes.Clear();
  for (const Event& event : admission->events) {
    Reduce(&state, event, now_ms, &changes);
    events.push_back(event);
    event_times.push_back(now_ms);
    EXPECT_EQ(BrokenInvariant(state), "") << "after " << EventKind(event);
  }
  for (const Charge& charge : changes.charges) charges.push_back(charge);
  for (const auto& [id, job] : changes.ended_jobs) ended_jobs[id] = job;
  for (const auto& [id, task] : changes.ended_tasks) ended_tasks[id] = task;
  for (const auto& [id, node] : changes.gone_nodes) gone_nodes[id] = node;
  return admission->reply;
}

Reply World::Do(const Command& command) {
  absl::StatusOr<Reply> reply = Try(command);
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  return reply.ok() ? *reply : Reply();
}

std::vector<Command> World::Turn() {
  std::vector<Command> commands = Decide(state, soft, policy, now_ms);
  for (const Command& command : commands) Do(command);
  return commands;
}

void World::Configure(std::vector<ProviderInfo> providers, std::vector<Reservation> reservations) {
  Do(core::Configure{"cluster-1", std::move(providers), std::move(reservations)});
}

Reply World::SubmitJobs(std::vector<NewJob> jobs, const std::string& request_id) { return Do(Submit{request_id, "digest", std::move(jobs)}); }

JobId World::SubmitJob(const Shape& shape, int64_t priority) {
  const Reply reply = SubmitJobs({MakeJob(shape, priority)});
  return reply.jobs.empty() ? 0 : reply.jobs.front();
}

NodeId World::Register(const std::string& name, const Capacity& capacity, const std::string& boot_id) {
  NodeHello hello;
  hello.name = name;
  hello.provider = "static";
  hello.boot_id = boot_id;
  hello.capacity = capacity;
  const NodeId id = Do(hello).node;
  soft.leases[id] = {1, now_ms, now_ms + policy.lease_ms, 0};
  return id;
}

void World::Boot(NodeId id, const std::string& boot_id) {
  const Node before = node(id);
  const std::string instance = absl::StrCat("i-", id);
  if (before.state == NodeState::kRequested) Do(InstanceCreated{id, instance});
  NodeHello hello;
  hello.name = before.name;
  hello.provider = before.provider;
  hello.instance_id = instance;
  hello.boot_id = boot_id;
  hello.capacity = before.capacity;
  EXPECT_EQ(Do(hello).node, id);
  soft.leases[id] = {1, now_ms, now_ms + policy.lease_ms, 0};
}

void World::Report(NodeId id, core::Report report) {
  report.seq = node(id).report_ack + 1;
  Do(NodeReports{id, node(id).boot_id, {std::move(report)}});
}

void World::Accept(AttemptId attempt) {
  core::Report report;
  report.attempt = attempt;
  report.kind = core::Report::Kind::kAccepted;
  Report(NodeOf(attempt), report);
}

void World::Start(AttemptId attempt) {
  core::Report report;
  report.attempt = attempt;
  report.kind = core::Report::Kind::kStarted;
  Report(NodeOf(attempt), report);
}

void World::Checkpoint(AttemptId attempt, int64_t step) {
  core::Report report;
  report.attempt = attempt;
  report.kind = core::Report::Kind::kCheckpoint;
  report.checkpoint = {attempt.number, step, absl::StrCat("a", attempt.number, "/step-", step), "ab", 100, 0, false};
  Report(NodeOf(attempt), report);
}

void World::End(AttemptId attempt, EndCause cause, Initiator initiator, const std::string& detail) {
  core::Report report;
  report.attempt = attempt;
  report.kind = core::Report::Kind::kEnded;
  report.cause = cause;
  report.initiator = initiator;
  report.detail = detail;
  Report(NodeOf(attempt), report);
}

void World::Seal(AttemptId attempt) { Do(SealResult{attempt, std::nullopt, 0}); }

void World::HearFromAll() {
  for (auto& [id, lease] : soft.leases) {
    lease.heard_ms = now_ms;
    lease.lease_end_ms = now_ms + policy.lease_ms;
  }
}

const Task& World::task(TaskId id) const {
  const Task* found = FindTask(state, id);
  EXPECT_NE(found, nullptr) << id.ToString();
  static const Task none;
  return found == nullptr ? none : *found;
}

const Node& World::node(NodeId id) const {
  const Node* found = FindNode(state, id);
  EXPECT_NE(found, nullptr) << id;
  static const Node none;
  return found == nullptr ? none : *found;
}

AttemptId World::Living(TaskId id) const {
  const Task* found = FindTask(state, id);
  return {id.job, id.index, found != nullptr && found->attempt ? found->attempt->number : 0};
}

NodeId World::NodeOf(AttemptId attempt) const {
  const Task* found = FindTask(state, attempt.task());
  if (found == nullptr || !found->attempt || found->attempt->number != attempt.number) {
    ADD_FAILURE() << attempt.ToString() << " does not live";
    return 0;
  }
  return found->attempt->members.front().node;
}

std::vector<NodeId> World::NodesIn(NodeState wanted) const {
  std::vector<NodeId> found;
  for (const auto& [id, node] : state.nodes) {
    if (node.state == wanted) found.push_back(id);
  }
  return found;
}

NewJob MakeJob(const Shape& shape, int64_t priority) {
  NewJob job;
  job.uid = "uid";
  job.name = "job";
  job.owner = "ada";
  job.spec_digest = std::string(32, 'd');
  job.spec_bytes = "spec";
  job.shape = shape;
  job.priority = priority;
  return job;
}

Shape Cpu(int64_t milli) {
  Shape shape;
  shape.cpu_milli = milli;
  return shape;
}

Shape Gpus(int64_t count, const std::string& model) {
  Shape shape;
  shape.gpu_count = count;
  if (!model.empty()) shape.gpu_models = {model};
  return shape;
}

Capacity Box(int64_t cpus, int64_t gpus, const std::string& model) {
  Capacity capacity;
  capacity.cpu_milli = cpus * 1000;
  capacity.memory_bytes = cpus * 4 * kGiB;
  capacity.disk_bytes = 100 * kGiB;
  if (gpus > 0) {
    capacity.gpu_model = model;
    capacity.gpu_count = gpus;
    capacity.gpu_memory_bytes = 80 * kGiB;
  }
  return capacity;
}

Offer MakeOffer(const std::string& provider, const std::string& name, Market market, int64_t price_micros_per_hour, const Capacity& capacity) {
  Offer offer;
  offer.provider = provider;
  offer.name = name;
  offer.market = market;
  offer.instance_type = name;
  offer.zone = "z1";
  offer.region = "r1";
  offer.capacity = capacity;
  offer.price_micros_per_hour = price_micros_per_hour;
  offer.billing = {1'000, 0};
  offer.notice_ms = market == Market::kSpot ? 30'000 : 0;
  return offer;
}

ProviderInfo Cloud(const std::string& name, int64_t max_nodes) {
  ProviderInfo info;
  info.name = name;
  info.kind = "playground";
  info.can_create = true;
  info.can_testify = true;
  info.max_nodes = max_nodes;
  info.idle_release_ms = 60'000;
  info.boot_timeout_ms = 600'000;
  return info;
}

}  // namespace spillway::core
