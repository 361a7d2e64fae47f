// What a user may ask about jobs, over the wire, against a real engine and store.
#include <limits>
#include <set>

#include "tests/rpc/harness.h"

namespace spillway::rpc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class JobServiceTest : public ::testing::Test {
 protected:
  absl::Status TrySubmit(const v1::SubmitRequest& request, v1::SubmitResponse* response = nullptr, Call* call = nullptr) {
    v1::SubmitResponse unused;
    Call own;
    return StatusOf(daemon.jobs->Submit(call != nullptr ? *call : own, request, response != nullptr ? response : &unused));
  }
  absl::StatusOr<v1::ListJobsResponse> List(const std::function<void(v1::ListJobsRequest*)>& fill) {
    v1::ListJobsRequest request;
    fill(&request);
    v1::ListJobsResponse response;
    Call call;
    const absl::Status status = StatusOf(daemon.jobs->List(call, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  static std::vector<int64_t> IdsOf(const v1::ListJobsResponse& response) {
    std::vector<int64_t> ids;
    for (const v1::Job& job : response.jobs()) ids.push_back(job.job_id());
    return ids;
  }

  TemporaryFolder folder;
  Daemon daemon{folder.path()};
};

TEST_F(JobServiceTest, WhatWasSubmittedReadsBackAndSaysWhyItWaits) {
  v1::JobSpec spec = MakeSpec("bert");
  spec.mutable_resources()->mutable_gpu()->set_count(2);
  (*spec.mutable_env())["MODEL"] = "bert";
  v1::SubmitResponse response;
  ASSERT_OK(TrySubmit(SubmitOf({spec, MakeSpec("other")}), &response));
  EXPECT_THAT(response.job_ids(), ElementsAre(1, 2));
  EXPECT_FALSE(response.repeated_request());
  EXPECT_THAT(response.warnings(0), HasSubstr("waits until a node registers")) << "nothing is known yet: accepted, with a warning";
  const v1::Job job = GetJob(daemon, 1);
  EXPECT_EQ(job.name(), "bert");
  EXPECT_EQ(job.state(), "QUEUED");
  EXPECT_EQ(job.priority(), 50);
  EXPECT_EQ(job.spec().env().at("MODEL"), "bert");
  EXPECT_EQ(job.counts().queued(), 1);
  EXPECT_GT(job.submitted_utc_ms(), 1'600'000'000'000);
  EXPECT_EQ(job.uid().size(), 36u);
  ASSERT_EQ(job.tasks_size(), 1);
  EXPECT_EQ(job.tasks(0).state(), v1::QUEUED);
  EXPECT_NE(job.tasks(0).waiting(), "");
  v1::GetJobRequest by_name;
  by_name.set_name("bert");
  v1::Job same;
  Call call;
  ASSERT_OK(StatusOf(daemon.jobs->Get(call, by_name, &same)));
  EXPECT_EQ(same.job_id(), 1);
}

TEST_F(JobServiceTest, EveryCallNeedsItsToken) {
  for (const std::string& token : {std::string(), std::string("wrong"), std::string(kWorkerToken)}) {
    const auto refused = StatusIs(Code::kUnauthenticated, AllOf(HasSubstr(token.empty() ? "no token" : "wrong token"), Not(HasSubstr(kUserToken))));
    Call submit(token), get(token), list(token), preempt(token), info(token), charges(token), watch(token), logs(token), cordon(token), pause(token),
        tasks(token);
    v1::SubmitResponse submitted;
    EXPECT_THAT(StatusOf(daemon.jobs->Submit(submit, SubmitOf({MakeSpec()}), &submitted)), refused);
    v1::Job job;
    EXPECT_THAT(StatusOf(daemon.jobs->Get(get, {}, &job)), refused);
    v1::ListJobsResponse listed;
    EXPECT_THAT(StatusOf(daemon.jobs->List(list, {}, &listed)), refused);
    v1::PreemptRequest bad;
    bad.set_grace_ms(-1);
    v1::JobActionResponse acted;
    EXPECT_THAT(StatusOf(daemon.jobs->Preempt(preempt, bad, &acted)), refused) << "a stranger learns nothing about the request";
    EXPECT_THAT(StatusOf(daemon.jobs->Pause(pause, {}, &acted)), refused);
    v1::ListTasksResponse some;
    EXPECT_THAT(StatusOf(daemon.jobs->ListTasks(tasks, {}, &some)), refused);
    v1::ServerInfo about;
    EXPECT_THAT(StatusOf(daemon.fleet->GetServerInfo(info, {}, &about)), refused);
    v1::NodeActionResponse done;
    EXPECT_THAT(StatusOf(daemon.fleet->Cordon(cordon, {}, &done)), refused);
    v1::ListChargesResponse ledger;
    EXPECT_THAT(StatusOf(daemon.billing->ListCharges(charges, {}, &ledger)), refused);
    v1::Event event;
    auto events = daemon.jobs->Watch(watch, {});
    EXPECT_FALSE(events->Read(&event));
    EXPECT_THAT(StatusOf(events->Finish()), refused);
    v1::LogChunk chunk;
    auto chunks = daemon.jobs->StreamLogs(logs, {});
    EXPECT_FALSE(chunks->Read(&chunk));
    EXPECT_THAT(StatusOf(chunks->Finish()), refused);
  }
  EXPECT_OK(List([](auto*) {}));
}

TEST_F(JobServiceTest, TheSameRequestIsAnsweredAgainAndAnotherOneUnderItsIdRefused) {
  v1::SubmitResponse first, second;
  ASSERT_OK(TrySubmit(SubmitOf({MakeSpec("a"), MakeSpec("b")}, "request-1"), &first));
  ASSERT_OK(TrySubmit(SubmitOf({MakeSpec("a"), MakeSpec("b")}, "request-1"), &second));
  EXPECT_TRUE(second.repeated_request());
  EXPECT_THAT(second.job_ids(), ElementsAre(1, 2));
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec("a")}, "request-1")), StatusIs(Code::kAlreadyExists, AllOf(HasSubstr("request-1"), HasSubstr("jobs 1, 2"))));
  EXPECT_THAT(IdsOf(List([](auto*) {}).value()), ElementsAre(1, 2));
}

TEST_F(JobServiceTest, ManyWhoSendOneRequestAtOnceMakeOneJob) {
  std::vector<std::thread> threads;
  std::vector<v1::SubmitResponse> responses(8);
  for (v1::SubmitResponse& response : responses) threads.emplace_back([&] { EXPECT_OK(TrySubmit(SubmitOf({MakeSpec()}, "once"), &response)); });
  for (std::thread& thread : threads) thread.join();
  int made = 0;
  for (const v1::SubmitResponse& response : responses) {
    EXPECT_THAT(response.job_ids(), ElementsAre(1));
    made += !response.repeated_request();
  }
  EXPECT_EQ(made, 1);
}

TEST_F(JobServiceTest, WhatIsTooLargeIsRefusedWithItsSizeAndTheLimit) {
  v1::JobSpec large = MakeSpec();
  large.set_script(std::string(5 << 20, 'x'));
  EXPECT_THAT(TrySubmit(SubmitOf({large})), StatusIs(Code::kInvalidArgument, "spec is 5.0 MB; the limit is 1 MB"));
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec(), large})), StatusIs(Code::kInvalidArgument, "specs[1]: spec is 5.0 MB; the limit is 1 MB"));
  large.set_script(std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(TrySubmit(SubmitOf({large})), StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("spec is 10485"), HasSubstr(" bytes; the limit is 1 MB"))));
  large.set_script(std::string(17 << 20, 'x'));
  EXPECT_THAT(TrySubmit(SubmitOf({large})), StatusIs(Code::kResourceExhausted, HasSubstr("16777216"))) << "more than a message may hold";
  EXPECT_THAT(TrySubmit(SubmitOf({})), StatusIs(Code::kInvalidArgument, HasSubstr("no specs")));
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec()}, std::string(129, 'r'))), StatusIs(Code::kInvalidArgument, HasSubstr("128 bytes")));
  EXPECT_THAT(TrySubmit(SubmitOf(std::vector<v1::JobSpec>(10'001, MakeSpec()))),
              StatusIs(Code::kInvalidArgument, HasSubstr("10001 specs in one submit; the limit is 10000")));
  EXPECT_THAT(IdsOf(List([](auto*) {}).value()), SizeIs(0)) << "nothing is half-applied";
}

TEST_F(JobServiceTest, ViolationsComeAsFieldPathsInTheTrailer) {
  v1::JobSpec bad = MakeSpec("Not A Name");
  bad.mutable_resources()->mutable_gpu()->set_count(-2);
  bad.add_setup("pip install torch");
  Call call;
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec(), bad}), nullptr, &call), StatusIs(Code::kInvalidArgument, HasSubstr("specs[1].resources.gpu.count: ")));
  v1::FieldViolations violations;
  ASSERT_TRUE(violations.ParseFromString(call.Trailer("spillway-violations-bin")));
  std::set<std::string> fields;
  for (const v1::FieldViolation& violation : violations.violations()) fields.insert(violation.field());
  EXPECT_THAT(fields, ::testing::IsSupersetOf({"specs[1].name", "specs[1].resources.gpu.count"}));
  EXPECT_EQ(std::count_if(fields.begin(), fields.end(), [](const std::string& field) { return field.rfind("specs[1].setup", 0) == 0; }), 1)
      << "a key not built yet is refused by name";
  Call single;
  EXPECT_FALSE(TrySubmit(SubmitOf({bad}), nullptr, &single).ok());
  ASSERT_TRUE(violations.ParseFromString(single.Trailer("spillway-violations-bin")));
  EXPECT_EQ(violations.violations(0).field().rfind("specs", 0), std::string::npos) << "one spec: paths as in its file";
}

TEST_F(JobServiceTest, ASecretThatIsNotThereIsRefusedAndNoneIsEverGivenBack) {
  const auto stub = v1::SecretService::NewStub(daemon.user_channel);
  v1::SetSecretRequest set;
  set.set_name("HF_TOKEN");
  set.set_value("hf_0123456789");
  v1::SetSecretResponse was;
  Call first;
  ASSERT_TRUE(stub->SetSecret(first, set, &was).ok());
  EXPECT_FALSE(was.replaced());
  v1::JobSpec spec = MakeSpec();
  spec.add_secrets("HF_TOKEN");
  EXPECT_OK(TrySubmit(SubmitOf({spec})));
  spec.add_secrets("HF_TOKN");
  Call call;
  EXPECT_THAT(TrySubmit(SubmitOf({spec}), nullptr, &call), StatusIs(Code::kInvalidArgument, HasSubstr("did you mean `HF_TOKEN`?")));
  v1::FieldViolations violations;
  ASSERT_TRUE(violations.ParseFromString(call.Trailer("spillway-violations-bin")));
  EXPECT_EQ(violations.violations(0).field(), "secrets[1]");
  EXPECT_EQ(violations.violations(0).nearest(), "HF_TOKEN");
  v1::ListSecretsResponse listed;
  Call list;
  ASSERT_TRUE(stub->ListSecrets(list, {}, &listed).ok());
  ASSERT_EQ(listed.secrets_size(), 1);
  EXPECT_EQ(listed.secrets(0).name(), "HF_TOKEN");
  EXPECT_GT(listed.secrets(0).set_utc_ms(), 0);
  EXPECT_THAT(listed.DebugString(), ::testing::Not(HasSubstr("hf_0123")));
  grpc::ClientContext stranger;
  EXPECT_EQ(stub->ListSecrets(&stranger, {}, &listed).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(JobServiceTest, AHostileSpecsViolationsStillFitIntoWhatAnyClientTakes) {
  v1::JobSpec bad = MakeSpec();
  for (int i = 0; i < 200; ++i) (*bad.mutable_env())[absl::StrCat(i, std::string(900, '\x7f'))] = "v";
  Call call;
  EXPECT_THAT(TrySubmit(SubmitOf({bad}), nullptr, &call), StatusIs(Code::kInvalidArgument, HasSubstr("more")));
  v1::FieldViolations violations;
  ASSERT_TRUE(violations.ParseFromString(call.Trailer("spillway-violations-bin")));
  EXPECT_GT(violations.violations_size(), 0);
}

TEST_F(JobServiceTest, WhatNeverFitsIsRefusedAndNamesTheNearest) {
  WorkerClient worker(daemon);
  worker.Open();  // two A100
  v1::JobSpec spec = MakeSpec();
  spec.mutable_resources()->mutable_gpu()->set_count(16);
  EXPECT_THAT(TrySubmit(SubmitOf({spec})), StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("never fits"), HasSubstr("nearest: node n1"))));
  spec.mutable_resources()->mutable_gpu()->set_count(2);
  EXPECT_OK(TrySubmit(SubmitOf({spec})));
}

TEST_F(JobServiceTest, TenThousandJobsInOneSubmitAreAllThere) {
  std::vector<v1::JobSpec> specs;
  for (int i = 0; i < 10'000; ++i) specs.push_back(MakeSpec(absl::StrCat("job-", i % 10)));
  EXPECT_THAT(Submit(daemon, std::move(specs)), SizeIs(10'000));
  std::set<int64_t> seen;
  std::string token;
  do {
    ASSERT_OK_AND_ASSIGN(const v1::ListJobsResponse page, List([&](v1::ListJobsRequest* request) {
                           request->set_page_size(1'000);
                           request->set_page_token(token);
                         }));
    for (const int64_t id : IdsOf(page)) EXPECT_TRUE(seen.insert(id).second);
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 10'000u);
  EXPECT_EQ(*seen.rbegin(), 10'000);
}

TEST_F(JobServiceTest, ListsComeInPagesBothWaysAndFiltered) {
  std::vector<v1::JobSpec> specs;
  for (int i = 0; i < 25; ++i) specs.push_back(MakeSpec(i % 5 == 0 ? "five" : "other"));
  Submit(daemon, std::move(specs));
  const auto page = [&](bool newest_first, const std::string& token) {
    return List([&](v1::ListJobsRequest* request) {
             request->set_page_size(10);
             request->set_newest_first(newest_first);
             request->set_page_token(token);
           })
        .value();
  };
  v1::ListJobsResponse last;
  std::vector<int64_t> all;
  std::vector<size_t> sizes;
  for (std::string token;; token = last.next_page_token()) {
    last = page(true, token);
    const std::vector<int64_t> ids = IdsOf(last);
    all.insert(all.end(), ids.begin(), ids.end());
    sizes.push_back(ids.size());
    if (last.next_page_token().empty()) break;
  }
  EXPECT_THAT(sizes, ElementsAre(10, 10, 5));
  ASSERT_EQ(all.size(), 25u);
  EXPECT_EQ(all.front(), 25);
  EXPECT_EQ(all.back(), 1);
  EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
  EXPECT_GT(last.event_seq(), 0);

  EXPECT_THAT(IdsOf(List([](auto* request) { request->set_name("five"); }).value()), ElementsAre(1, 6, 11, 16, 21));
  ASSERT_OK_AND_ASSIGN(const v1::ListJobsResponse whole, List([](auto* request) {
                         request->set_name("five");
                         request->set_page_size(1);
                         request->set_include_spec(true);
                         request->set_include_tasks(true);
                         request->add_states("queued");
                       }));
  EXPECT_EQ(whole.jobs(0).spec().name(), "five");
  EXPECT_NE(whole.jobs(0).tasks(0).waiting(), "");
  EXPECT_THAT(IdsOf(List([](auto* request) { request->add_states("FAILED"); }).value()), SizeIs(0));
  EXPECT_THAT(List([](auto* request) { request->add_states("QUEUD"); }), StatusIs(Code::kInvalidArgument, HasSubstr("did you mean QUEUED")));
  EXPECT_THAT(List([](auto* request) { request->set_page_token("../etc"); }), StatusIs(Code::kInvalidArgument, HasSubstr("page_token")));
  EXPECT_THAT(List([](auto* request) { request->set_page_token("-3"); }), StatusIs(Code::kInvalidArgument, HasSubstr("page_token")));
  EXPECT_THAT(List([](auto* request) { request->set_page_size(1'001); }), StatusIs(Code::kInvalidArgument, HasSubstr("1 to 1000, not 1001")));
  EXPECT_THAT(List([](auto* request) { request->set_page_size(-1); }), StatusIs(Code::kInvalidArgument, HasSubstr("page_size")));
}

TEST_F(JobServiceTest, AQueuedJobIsCancelledAtOnceAndOnlyOnce) {
  Submit(daemon, {MakeSpec()});
  v1::CancelRequest request;
  request.set_job_id(1);
  request.set_reason("not needed");
  v1::JobActionResponse response;
  Call first, second, unknown;
  ASSERT_OK(StatusOf(daemon.jobs->Cancel(first, request, &response)));
  EXPECT_EQ(response.tasks_affected(), 1);
  EXPECT_EQ(GetJob(daemon, 1).state(), "CANCELLED");
  EXPECT_THAT(StatusOf(daemon.jobs->Cancel(second, request, &response)), StatusIs(Code::kFailedPrecondition, HasSubstr("job 1 has ended")));
  request.set_job_id(77);
  EXPECT_THAT(StatusOf(daemon.jobs->Cancel(unknown, request, &response)), StatusIs(Code::kNotFound, HasSubstr("no job 77")));
}

TEST_F(JobServiceTest, WhatIsNotThereAndWhatIsNotBuiltAreSaidPlainly) {
  Submit(daemon, {MakeSpec()});
  v1::GetJobRequest get;
  v1::Job job;
  Call nothing, absent, nameless;
  EXPECT_THAT(StatusOf(daemon.jobs->Get(nothing, get, &job)), StatusIs(Code::kInvalidArgument, HasSubstr("job_id or a name")));
  get.set_job_id(9);
  EXPECT_THAT(StatusOf(daemon.jobs->Get(absent, get, &job)), StatusIs(Code::kNotFound, HasSubstr("job 9")));
  get.set_job_id(0);
  get.set_name("no\x1bname");
  EXPECT_THAT(StatusOf(daemon.jobs->Get(nameless, get, &job)), StatusIs(Code::kNotFound, HasSubstr("no\\x1bname")));
  Call update, pause, resume, preempt;
  v1::JobActionResponse acted;
  v1::UpdateRequest change;
  change.set_job_id(1);
  EXPECT_THAT(StatusOf(daemon.jobs->Update(update, change, &acted)), StatusIs(Code::kInvalidArgument, HasSubstr("nothing to change")));
  EXPECT_THAT(StatusOf(daemon.jobs->Pause(pause, {}, &acted)), StatusIs(Code::kNotFound, HasSubstr("no job 0")));
  EXPECT_THAT(StatusOf(daemon.jobs->Resume(resume, {}, &acted)), StatusIs(Code::kNotFound, HasSubstr("no job 0")));
  v1::PreemptRequest stop;
  stop.set_job_id(1);
  EXPECT_THAT(StatusOf(daemon.jobs->Preempt(preempt, stop, &acted)), StatusIs(Code::kFailedPrecondition, HasSubstr("not running")));
}

TEST_F(JobServiceTest, OffersOfAProviderThatIsNotThere) {
  Call nope, fixed;
  v1::ListOffersRequest request;
  v1::ListOffersResponse response;
  request.set_provider("nope");
  EXPECT_THAT(StatusOf(daemon.fleet->ListOffers(nope, request, &response)), StatusIs(Code::kNotFound, "no provider is called nope; there is static"));
  request.set_provider("static");
  EXPECT_OK(StatusOf(daemon.fleet->ListOffers(fixed, request, &response)));
}

TEST_F(JobServiceTest, PausedResumedAndUpdated) {
  v1::SubmitRequest request = SubmitOf({MakeSpec("held")});
  request.set_hold(true);
  ASSERT_OK(TrySubmit(request));
  EXPECT_EQ(GetJob(daemon, 1).state(), "HELD");
  EXPECT_TRUE(GetJob(daemon, 1).paused());
  EXPECT_EQ(GetJob(daemon, 1).tasks(0).hold_reason(), v1::PAUSED);
  EXPECT_EQ(GetJob(daemon, 1).tasks(0).waiting(), "paused by the user");
  v1::ResumeRequest resume;
  resume.set_job_id(1);
  v1::PauseRequest pause;
  pause.set_job_id(1);
  v1::UpdateRequest update;
  update.set_job_id(1);
  update.set_priority(80);
  v1::JobActionResponse acted;
  Call resuming, updating, pausing;
  ASSERT_OK(StatusOf(daemon.jobs->Resume(resuming, resume, &acted)));
  EXPECT_EQ(acted.message(), "resumed");
  EXPECT_EQ(acted.tasks_affected(), 1);
  EXPECT_EQ(GetJob(daemon, 1).state(), "QUEUED");
  ASSERT_OK(StatusOf(daemon.jobs->Update(updating, update, &acted)));
  EXPECT_EQ(GetJob(daemon, 1).priority(), 80);
  ASSERT_OK(StatusOf(daemon.jobs->Pause(pausing, pause, &acted)));
  EXPECT_EQ(GetJob(daemon, 1).counts().held(), 1);
}

TEST_F(JobServiceTest, JobsMayWaitForOthersByNumberAndByName) {
  v1::JobSpec by_number = MakeSpec("b"), by_name = MakeSpec("c"), together = MakeSpec("d");
  Submit(daemon, {MakeSpec("a")});
  by_number.add_after("1");
  by_name.add_after_ok("a");
  together.add_after_any("b");  // the one of its own submission
  EXPECT_THAT(Submit(daemon, {together, by_number, by_name}), ElementsAre(2, 3, 4));
  EXPECT_EQ(GetJob(daemon, 2).tasks(0).waiting(), "waits for job 3 (b) to end; it is HELD");
  EXPECT_EQ(GetJob(daemon, 3).tasks(0).waiting(), "waits for job 1 (a) to succeed; it is QUEUED");
  EXPECT_EQ(GetJob(daemon, 4).tasks(0).hold_reason(), v1::DEPENDENCY);
  v1::CancelRequest cancel;
  cancel.set_job_id(1);
  v1::JobActionResponse acted;
  Call call;
  ASSERT_OK(StatusOf(daemon.jobs->Cancel(call, cancel, &acted)));
  ASSERT_TRUE(Eventually([&] { return GetJob(daemon, 4).state() == "FAILED"; }));
  EXPECT_EQ(GetJob(daemon, 4).end_cause(), v1::DEPENDENCY_FAILED);
  EXPECT_EQ(GetJob(daemon, 4).end_detail(), "job 1, which it needs, ended CANCELLED");
  ASSERT_TRUE(Eventually([&] { return GetJob(daemon, 2).state() == "QUEUED"; })) << "its own need has ended, however";
  v1::ExplainRequest why;
  why.set_job_id(4);
  v1::ExplainResponse said;
  Call explain;
  ASSERT_OK(StatusOf(daemon.jobs->Explain(explain, why, &said)));
  EXPECT_EQ(said.summary(), "its job ended with DEPENDENCY_FAILED: job 1, which it needs, ended CANCELLED");
  // What has ended before is looked up in the rows.
  v1::SubmitResponse late;
  ASSERT_OK(TrySubmit(SubmitOf({by_number}), &late));
  EXPECT_THAT(late.warnings(late.warnings_size() - 1), HasSubstr("job 1 ended CANCELLED"));
  ASSERT_TRUE(Eventually([&] { return GetJob(daemon, late.job_ids(0)).state() == "FAILED"; }));
}

TEST_F(JobServiceTest, WhoWaitsForNobodyThereIsRefusedByFieldAndWhoWaitsInACircleToo) {
  v1::JobSpec unknown = MakeSpec("train");
  unknown.add_after("99");
  unknown.add_after("prepar");
  Call call;
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec("prepare"), unknown}), nullptr, &call), StatusIs(Code::kInvalidArgument, HasSubstr("specs[1].after[0]: ")));
  v1::FieldViolations violations;
  ASSERT_TRUE(violations.ParseFromString(call.Trailer("spillway-violations-bin")));
  ASSERT_EQ(violations.violations_size(), 2);
  EXPECT_EQ(violations.violations(0).message(), "there is no job `99`, neither in this submission nor from an earlier one");
  EXPECT_EQ(violations.violations(1).nearest(), "prepare");
  v1::JobSpec a = MakeSpec("a"), b = MakeSpec("b");
  a.add_after("b");
  b.add_after_any("a");
  EXPECT_THAT(TrySubmit(SubmitOf({a, b})), StatusIs(Code::kInvalidArgument, "jobs[0]: jobs of this submission wait for each other: a -> b -> a"));
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec("b"), MakeSpec("b"), a})), StatusIs(Code::kInvalidArgument, HasSubstr("2 jobs of this submission are called `b`")));
  EXPECT_THAT(IdsOf(List([](auto*) {}).value()), SizeIs(0)) << "nothing is half-applied";
}

// Jobs end all the while that others are submitted who wait for them: each is taken, whichever comes first.
TEST_F(JobServiceTest, ANeedThatEndsWhileItIsLookedUpIsNoError) {
  for (int i = 0; i < 40; ++i) {
    const int64_t first = Submit(daemon, {MakeSpec("first")}).at(0);
    v1::JobSpec second = MakeSpec("second");
    second.add_after_any(absl::StrCat(first));
    std::thread canceller([&] {
      v1::CancelRequest cancel;
      cancel.set_job_id(first);
      v1::JobActionResponse acted;
      Call call;
      EXPECT_OK(StatusOf(daemon.jobs->Cancel(call, cancel, &acted)));
    });
    v1::SubmitResponse response;
    EXPECT_OK(TrySubmit(SubmitOf({second}), &response));
    canceller.join();
    EXPECT_TRUE(Eventually([&] { return GetJob(daemon, response.job_ids(0)).state() == "QUEUED"; }));
  }
}

TEST_F(JobServiceTest, EveryTaskCanSayHowItStands) {
  Submit(daemon, {MakeSpec(), MakeSpec()});
  v1::ExplainRequest request;
  request.set_job_id(1);
  v1::ExplainResponse response;
  Call waiting, ended, absent, cancel;
  ASSERT_OK(StatusOf(daemon.jobs->Explain(waiting, request, &response)));
  EXPECT_EQ(response.state(), v1::QUEUED);
  ASSERT_GT(response.reasons_size(), 0);
  EXPECT_EQ(response.summary(), response.reasons(0).message());
  EXPECT_NE(response.reasons(0).code(), "");
  v1::CancelRequest end;
  end.set_job_id(1);
  v1::JobActionResponse acted;
  ASSERT_OK(StatusOf(daemon.jobs->Cancel(cancel, end, &acted)));
  response.Clear();
  ASSERT_OK(StatusOf(daemon.jobs->Explain(ended, request, &response)));
  EXPECT_EQ(response.state(), v1::CANCELLED_STATE);
  EXPECT_EQ(response.reasons(0).code(), "ENDED");
  request.set_task_index(3);
  EXPECT_THAT(StatusOf(daemon.jobs->Explain(absent, request, &response)), StatusIs(Code::kNotFound, HasSubstr("its only task is 1.0")));
}

TEST_F(JobServiceTest, AnyPageOfAnArrayIsTheOneThatWasAskedFor) {
  v1::JobSpec spec = MakeSpec("array");
  spec.mutable_array()->set_count(1'000'000);
  spec.mutable_array()->set_parallel(50);
  Submit(daemon, {spec, MakeSpec("one")});
  v1::Job job = GetJob(daemon, 1);
  EXPECT_EQ(job.task_count(), 1'000'000);
  EXPECT_EQ(job.parallel(), 50);
  EXPECT_EQ(job.counts().queued(), 1'000'000);
  EXPECT_EQ(job.tasks_size(), 1'000) << "the first ones; ListTasks has all";
  const auto page = [&](int64_t first, int32_t size, const std::string& token = "", int64_t id = 1) -> absl::StatusOr<v1::ListTasksResponse> {
    v1::ListTasksRequest request;
    request.set_job_id(id);
    request.set_first_index(first);
    request.set_page_size(size);
    request.set_page_token(token);
    v1::ListTasksResponse response;
    Call call;
    const absl::Status status = StatusOf(daemon.jobs->ListTasks(call, request, &response));
    if (!status.ok()) return status;
    return response;
  };
  const auto cancel = [&](std::vector<std::pair<int64_t, int64_t>> ranges, v1::JobActionResponse* acted) {
    v1::CancelRequest request;
    request.set_job_id(1);
    for (const auto& [first, last] : ranges) {
      request.add_tasks()->set_first(first);
      request.mutable_tasks(request.tasks_size() - 1)->set_last(last);
    }
    Call call;
    return StatusOf(daemon.jobs->Cancel(call, request, acted));
  };
  v1::JobActionResponse acted;
  ASSERT_OK(cancel({{500'001, 500'001}, {999'000, 999'999}}, &acted));
  EXPECT_EQ(acted.tasks_affected(), 1'001);
  ASSERT_OK_AND_ASSIGN(v1::ListTasksResponse tasks, page(500'000, 3));
  ASSERT_EQ(tasks.tasks_size(), 3);
  EXPECT_EQ(tasks.tasks(0).task_index(), 500'000);
  EXPECT_EQ(tasks.tasks(0).state(), v1::QUEUED);
  EXPECT_NE(tasks.tasks(0).waiting(), "") << "what has no row says why it waits too";
  EXPECT_EQ(tasks.tasks(1).state(), v1::CANCELLED_STATE);
  EXPECT_EQ(tasks.tasks(1).waiting(), "");
  EXPECT_EQ(tasks.tasks(2).state(), v1::QUEUED);
  ASSERT_OK_AND_ASSIGN(tasks, page(0, 3, tasks.next_page_token()));
  EXPECT_EQ(tasks.tasks(0).task_index(), 500'003);
  ASSERT_OK_AND_ASSIGN(tasks, page(999'999, 0));
  EXPECT_EQ(tasks.tasks_size(), 1);
  EXPECT_EQ(tasks.next_page_token(), "");
  EXPECT_THAT(page(1'000'000, 1), StatusIs(Code::kNotFound, "job 1 has no task 1000000; its tasks are 0 to 999999"));
  EXPECT_THAT(page(1, 1, "", 2), StatusIs(Code::kNotFound, "job 2 has no task 1; its only task is 2.0"));
  EXPECT_THAT(page(0, 1, "", 9), StatusIs(Code::kNotFound, HasSubstr("9")));
  EXPECT_THAT(page(-1, 1), StatusIs(Code::kInvalidArgument, HasSubstr("first_index must be 0 to")));
  EXPECT_THAT(page(0, 1'001), StatusIs(Code::kInvalidArgument, HasSubstr("page_size must be 1 to 1000")));
  EXPECT_THAT(page(0, 1, "x"), StatusIs(Code::kInvalidArgument, HasSubstr("page_token")));
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(cancel({{0, kLast}}, &acted), StatusIs(Code::kNotFound, HasSubstr("no task 1000000")));
  EXPECT_THAT(cancel({{5, 4}}, &acted), StatusIs(Code::kInvalidArgument, HasSubstr("ends before it begins")));
  EXPECT_THAT(cancel({{kLast, kLast}}, &acted), StatusIs(Code::kInvalidArgument, HasSubstr("ends before it begins")));
  EXPECT_EQ(GetJob(daemon, 1).counts().cancelled(), 1'001) << "nothing is half-applied";
  v1::UpdateRequest update;
  update.set_job_id(1);
  update.set_parallel(2'000'000);
  Call updated;
  ASSERT_OK(StatusOf(daemon.jobs->Update(updated, update, &acted)));
  EXPECT_EQ(GetJob(daemon, 1).parallel(), 0) << "as many as it has tasks is no limit";
}

TEST(Restart, WhatWasAnsweredIsThereAgain) {
  TemporaryFolder folder;
  for (const bool again : {false, true}) {
    Daemon daemon(folder.path());
    if (again) {
      EXPECT_EQ(GetJob(daemon, 1).name(), "kept");
    }
    v1::SubmitResponse response;
    Call call;
    ASSERT_OK(StatusOf(daemon.jobs->Submit(call, SubmitOf({MakeSpec("kept")}, "request-1"), &response)));
    EXPECT_EQ(response.repeated_request(), again);
    EXPECT_THAT(response.job_ids(), ElementsAre(1));
  }
}

TEST_F(JobServiceTest, WithAFullDiskNothingIsAcceptedNothingIsLostAndTheServerStillStops) {
  daemon.gate->full = true;
  Call waits(kUserToken, 300);
  EXPECT_THAT(TrySubmit(SubmitOf({MakeSpec()}, "early"), nullptr, &waits), StatusIs(Code::kDeadlineExceeded, ::testing::_)) << "not durable, so not answered";
  absl::Status refused;
  std::string retry;
  ASSERT_TRUE(Eventually([&] {
    Call call(kUserToken, 300);
    refused = TrySubmit(SubmitOf({MakeSpec()}), nullptr, &call);
    retry = call.Trailer("spillway-retry-after-ms");
    return absl::IsResourceExhausted(refused);
  })) << refused;
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted, HasSubstr("no space left on device")));
  EXPECT_EQ(retry, "1000");
  daemon.gate->full = false;
  ASSERT_TRUE(Eventually([&] { return TrySubmit(SubmitOf({MakeSpec()})).ok(); }));
  v1::SubmitResponse response;
  ASSERT_OK(TrySubmit(SubmitOf({MakeSpec()}, "early"), &response));
  EXPECT_TRUE(response.repeated_request()) << "the caller had left, what it asked for was kept";

  daemon.gate->full = true;
  std::thread stuck([&] { EXPECT_FALSE(TrySubmit(SubmitOf({MakeSpec()}, "late")).ok()); });
  ASSERT_TRUE(Eventually([&] { return daemon.engine->counters().commits_refused > 0; }));
  daemon.Stop();
  stuck.join();
}

absl::Status TakeBackup(const Daemon& daemon, const std::string& token, std::string* bytes, v1::BackupInfo* info, std::string* sha256) {
  Call call(token);
  const auto stream = daemon.fleet->Backup(call, v1::BackupRequest());
  for (v1::BackupChunk chunk; stream->Read(&chunk);) {
    if (chunk.has_info()) *info = chunk.info();
    bytes->append(chunk.data());
    *sha256 = chunk.sha256();
  }
  return StatusOf(stream->Finish());
}

TEST_F(JobServiceTest, ABackupIsWholeAndLeavesNothingBehind) {
  Submit(daemon, {MakeSpec("a"), MakeSpec("b")});
  std::string bytes, sha256;
  v1::BackupInfo info;
  EXPECT_THAT(TakeBackup(daemon, "wrong", &bytes, &info, &sha256), StatusIs(absl::StatusCode::kUnauthenticated, ::testing::_));
  for (int i = 0; i < 2; ++i) {
    bytes.clear();
    ASSERT_OK(TakeBackup(daemon, kUserToken, &bytes, &info, &sha256));
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), info.bytes());
    const Sha256Digest digest = Sha256Of(bytes);
    EXPECT_EQ(sha256, std::string(digest.begin(), digest.end()));
    EXPECT_EQ(info.cluster_uuid(), kCluster);
    EXPECT_EQ(bytes.substr(0, 15), "SQLite format 3");
  }
  EXPECT_FALSE(PathExists(folder.File("spillway.db.backup")));
}

}  // namespace
}  // namespace spillway::rpc
