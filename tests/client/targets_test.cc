// Every form in which people name jobs, and what each finds.
#include "client/targets.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_matchers.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Targets, ReadsEveryForm) {
  ASSERT_OK_AND_ASSIGN(Target target, ParseTarget("5"));
  EXPECT_EQ(target.kind, Target::Kind::kJobs);
  EXPECT_EQ(target.from, 5);
  EXPECT_EQ(target.to, 5);
  ASSERT_OK_AND_ASSIGN(target, ParseTarget("1-9"));
  EXPECT_EQ(target.from, 1);
  EXPECT_EQ(target.to, 9);
  ASSERT_OK_AND_ASSIGN(target, ParseTarget("5.17"));
  EXPECT_EQ(target.kind, Target::Kind::kTask);
  EXPECT_EQ(target.attempt, (AttemptId{5, 17, 0}));
  ASSERT_OK_AND_ASSIGN(target, ParseTarget("5.17@3"));
  EXPECT_EQ(target.kind, Target::Kind::kAttempt);
  EXPECT_EQ(target.attempt, (AttemptId{5, 17, 3}));
  ASSERT_OK_AND_ASSIGN(target, ParseTarget("last"));
  EXPECT_EQ(target.kind, Target::Kind::kLast);
  ASSERT_OK_AND_ASSIGN(target, ParseTarget("all"));
  EXPECT_EQ(target.kind, Target::Kind::kAll);
  ASSERT_OK_AND_ASSIGN(target, ParseTarget("bert-base.v2"));
  EXPECT_EQ(target.kind, Target::Kind::kName);
  EXPECT_EQ(target.name, "bert-base.v2");
}

TEST(Targets, RefusesWhatIsNone) {
  EXPECT_THAT(ParseTarget("Bert"), StatusIs(absl::StatusCode::kInvalidArgument,
                                            "`Bert` is not a job; write 5, 1-9, 5.17, 5.1-100, 5.17@3, last, all, or a name (did you mean `bert`?)"));
  EXPECT_THAT(ParseTarget("9-1"), StatusIs(absl::StatusCode::kInvalidArgument, "the range `9-1` ends before it begins"));
  EXPECT_THAT(ParseTarget("1-99999999"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is longer than 10000 jobs")));
  for (const char* text : {"", "0", "-3", "05", "5.", "5@", "5.1@0", "1-", "1-2-3", "5 ", "\x1b[2J", "99999999999999999999"})
    EXPECT_FALSE(ParseTarget(text).ok()) << text;
}

TEST(Targets, SaysTheNearestForm) {
  const std::pair<const char*, const char*> slips[] = {{"#5", "5"},      {"job 5", "5"}, {"Job5.1", "job5.1"}, {"5.1#3", "5.1@3"}, {"5.", "5"},
                                                       {"5.1@", "5.1"},  {"05", "5"},    {"5:17", "5.17"},     {"1..9", "1-9"},    {"1-", "1"},
                                                       {"5/17", "5.17"}, {" 5 ", "5"},   {"Bert", "bert"}};
  for (const auto& [slip, meant] : slips) {
    EXPECT_THAT(ParseTarget(slip), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat("(did you mean `", meant, "`?)")))) << slip;
  }
  for (const char* nonsense : {"", "-", "@", "0", "0.0", "5.1.2", "5,6", "-3", "\x1b[2J", "all of them", "2-3.1", "2.1-3.1"}) {
    EXPECT_THAT(ParseTarget(nonsense), StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("did you mean")))) << nonsense;
  }
}

TEST(Targets, FindsJobs) {
  FakeApi api;
  api.jobs[3] = MakeJob(3, "a", "ACTIVE");
  api.jobs[8] = MakeJob(8, "b", "QUEUED");
  ASSERT_OK_AND_ASSIGN(std::vector<JobId> jobs, ResolveJobs(api, {"2-4", "3", "last", "b", "7"}, false));
  EXPECT_THAT(jobs, ElementsAre(2, 3, 4, 8, 7));
  api.calls.clear();
  ASSERT_OK_AND_ASSIGN(jobs, ResolveJobs(api, {"all"}, false));
  EXPECT_THAT(jobs, ElementsAre(3, 8));
  EXPECT_THAT(api.calls, ElementsAre("List page_size: 1000 states: \"QUEUED\" states: \"HELD\" states: \"ACTIVE\""));
  EXPECT_THAT(ResolveJobs(api, {"nope"}, false), StatusIs(absl::StatusCode::kNotFound, "no job is called `nope`"));
  EXPECT_THAT(ResolveJobs(api, {"3.1"}, false), StatusIs(absl::StatusCode::kInvalidArgument, "`3.1` is one task; a job is meant here: 3"));
}

TEST(Targets, FindsTasks) {
  const auto said = [](const std::vector<std::string>& texts) {
    FakeApi api;
    const auto found = ResolveJobTasks(api, texts, false);
    if (!found.ok()) return std::string(found.status().message());
    return absl::StrJoin(*found, " ", [](std::string* out, const JobTasks& one) { absl::StrAppend(out, one.ToString()); });
  };
  EXPECT_EQ(said({"5.17"}), "5.17");
  EXPECT_EQ(said({"5.1-100"}), "5.1-100");
  EXPECT_EQ(said({"5.1-3,7", "6", "5.9"}), "5.1-3,7,9 job 6") << "what is said of one job comes together";
  EXPECT_EQ(said({"5.1", "5", "5.2"}), "job 5") << "all of it is more";
  EXPECT_EQ(said({"5.3-1"}), "the range `3-1` ends before it begins");
  EXPECT_EQ(said({"5.1@2"}), "`5.1@2` is one attempt; a task is meant here: 5.1");
  FakeApi api;
  EXPECT_THAT(ResolveJobs(api, {"3.1-2"}, false), StatusIs(absl::StatusCode::kInvalidArgument, "`3.1-2` is some tasks; a job is meant here: 3"));
  EXPECT_THAT(ResolveAttempt(api, "3.1-2"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("means several tasks")));
}

TEST(Targets, FindsOneTask) {
  FakeApi api;
  EXPECT_THAT(ResolveAttempt(api, "last"), StatusIs(absl::StatusCode::kNotFound, "there is no job yet, so there is no last one"));
  api.jobs[8] = MakeJob(8, "b", "QUEUED");
  ASSERT_OK_AND_ASSIGN(AttemptId task, ResolveAttempt(api, "last"));
  EXPECT_EQ(task, (AttemptId{8, 0, 0}));
  ASSERT_OK_AND_ASSIGN(task, ResolveAttempt(api, "b"));
  EXPECT_EQ(task, (AttemptId{8, 0, 0}));
  ASSERT_OK_AND_ASSIGN(task, ResolveAttempt(api, "5.1@2"));
  EXPECT_EQ(task, (AttemptId{5, 1, 2}));
  EXPECT_THAT(ResolveAttempt(api, "1-3"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("means several jobs")));
  EXPECT_THAT(ResolveAttempt(api, "all"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("means several jobs")));
}

TEST(Targets, ListsPageAfterPage) {
  class Pages final : public Api {
   public:
    absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request) override {
      v1::ListJobsResponse response;
      const int page = request.page_token().empty() ? 0 : std::stoi(request.page_token());
      for (int i = 0; i < 2; ++i) response.add_jobs()->set_job_id(page * 2 + i + 1);
      response.set_event_seq(50 + page);
      if (page < 2) response.set_next_page_token(std::to_string(page + 1));
      return response;
    }
    absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::Job> Get(const v1::GetJobRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListTasksResponse> ListTasks(const v1::ListTasksRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::JobActionResponse> Cancel(const v1::CancelRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::JobActionResponse> Preempt(const v1::PreemptRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::JobActionResponse> Pause(const v1::PauseRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::JobActionResponse> Resume(const v1::ResumeRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::JobActionResponse> Update(const v1::UpdateRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest&) override { return absl::UnimplementedError(""); }
    absl::Status Watch(const v1::WatchRequest&, int64_t, const OnEvent&) override { return absl::UnimplementedError(""); }
    absl::Status StreamLogs(const v1::StreamLogsRequest&, const OnLog&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListOffersResponse> ListOffers(const v1::ListOffersRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListReservationsResponse> ListReservations(const v1::ListReservationsRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::NodeActionResponse> Cordon(const v1::CordonRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::NodeActionResponse> Drain(const v1::DrainRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ServerInfo> GetServerInfo() override { return absl::UnimplementedError(""); }
    absl::Status Backup(const OnBackup&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListChargesResponse> ListCharges(const v1::ListChargesRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::CostReportResponse> CostReport(const v1::CostReportRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::SetSecretResponse> SetSecret(const v1::SetSecretRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::ListSecretsResponse> ListSecrets(const v1::ListSecretsRequest&) override { return absl::UnimplementedError(""); }
    absl::StatusOr<v1::RemoveSecretResponse> RemoveSecret(const v1::RemoveSecretRequest&) override { return absl::UnimplementedError(""); }
  } pages;
  ASSERT_OK_AND_ASSIGN(v1::ListJobsResponse all, ListJobs(pages, {}, 100));
  EXPECT_EQ(all.jobs_size(), 6);
  EXPECT_EQ(all.event_seq(), 50) << "the first page's: watching from there misses nothing";
  EXPECT_THAT(all.next_page_token(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(all, ListJobs(pages, {}, 4));
  EXPECT_EQ(all.jobs_size(), 4);
  EXPECT_EQ(all.next_page_token(), "2") << "there is more";
}

}  // namespace
}  // namespace spillway::client
