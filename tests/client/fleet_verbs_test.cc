// What operators see of nodes, offers, reservations and money.
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "tests/client/fake_api.h"
#include "tests/support/temporary_folder.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Node MakeNode(int64_t id, const std::string& name, v1::NodeState state) {
  v1::Node node;
  node.set_node_id(id);
  node.set_name(name);
  node.set_state(state);
  node.set_market(v1::SPOT);
  node.set_provider("cloud");
  node.mutable_total()->set_cpu_milli(4000);
  node.mutable_free()->set_cpu_milli(1000);
  node.set_price_micros_per_hour(1'200'000);
  node.set_last_seen_utc_ms(kNowMs - 40'000);
  return node;
}

TEST(Secrets, AValueComesFromAPipeAFileOrAVariableAndIsNeverShown) {
  Cli cli;
  cli.in.str("hf_piped\n");
  EXPECT_EQ(cli.Run({"secrets", "set", "HF_TOKEN"}), 0);
  EXPECT_EQ(cli.out, "HF_TOKEN: set\n");
  EXPECT_EQ(cli.api.calls.back(), "SetSecret name: \"HF_TOKEN\" value: \"hf_piped\"");
  TemporaryFolder folder;
  ASSERT_OK(WriteFileAtomically(folder.File("key"), "of a file\n", 0600));
  cli.api.set_secret.set_replaced(true);
  EXPECT_EQ(cli.Run({"secrets", "set", "HF_TOKEN", "--file", folder.File("key")}), 0);
  EXPECT_EQ(cli.out, "HF_TOKEN: replaced; attempts that run keep the old value\n");
  EXPECT_EQ(cli.api.calls.back(), "SetSecret name: \"HF_TOKEN\" value: \"of a file\\n\"") << "byte for byte";
  cli.environment["MY_KEY"] = "of a variable";
  EXPECT_EQ(cli.Run({"secrets", "set", "K", "--env", "MY_KEY"}), 0);
  EXPECT_EQ(cli.api.calls.back(), "SetSecret name: \"K\" value: \"of a variable\"");
  EXPECT_EQ(cli.Run({"secrets", "set", "K", "--env", "YOUR_KEY"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("YOUR_KEY is not set"));
  EXPECT_EQ(cli.Run({"secrets", "set", "K", "--file", folder.File("absent")}), 3);
  cli.in.str("");
  EXPECT_EQ(cli.Run({"secrets", "set", "K"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("the value is empty"));
}

TEST(Secrets, WhatIsMeantOtherwiseIsToldBeforeAnythingIsSent) {
  Cli cli;
  EXPECT_EQ(cli.Run({"secrets", "set", "HF_TOKEN=hf_123"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("a value does not belong on the command line"));
  EXPECT_THAT(cli.err, Not(HasSubstr("hf_123")));
  EXPECT_EQ(cli.Run({"secrets", "set", "HF-TOKEN"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("`HF-TOKEN` is not a name for a secret"));
  EXPECT_EQ(cli.Run({"secrets", "lst"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("do you mean `list`?"));
  EXPECT_EQ(cli.Run({"secrets", "rm"}), 2);
  EXPECT_EQ(cli.Run({"secrets", "rm", "K"}), 2) << "asks first, and there is nobody to ask";
  EXPECT_THAT(cli.api.calls, ElementsAre());
  EXPECT_EQ(cli.Run({"secrets", "rm", "K", "--yes"}), 0);
  EXPECT_THAT(cli.api.calls, ElementsAre("RemoveSecret name: \"K\""));
  EXPECT_EQ(cli.Run({"secrets", "list"}), 0);
  EXPECT_EQ(cli.out, "");
  v1::SecretInfo* one = cli.api.secrets.add_secrets();
  one->set_name("HF_TOKEN");
  one->set_set_utc_ms(1'767'225'600'000);
  EXPECT_EQ(cli.Run({"secrets", "list"}), 0);
  EXPECT_EQ(cli.out, "NAME      SET\nHF_TOKEN  2026-01-01 00:00:00Z\n");
}

TEST(Nodes, Table) {
  Cli cli;
  EXPECT_EQ(cli.Run({"nodes"}), 0);
  EXPECT_EQ(cli.out, "no nodes\n");
  v1::Node* ready = cli.api.nodes.add_nodes();
  *ready = MakeNode(1, "gpu-1", v1::READY);
  ready->set_connected(true);
  ready->set_cordoned(true);
  ready->add_attempts()->set_job_id(5);
  ready->mutable_attempts(0)->set_attempt(2);
  *cli.api.nodes.add_nodes() = MakeNode(2, "cloud-2", v1::READY);
  v1::Node* lost = cli.api.nodes.add_nodes();
  *lost = MakeNode(3, "cloud-3", v1::LOST);
  lost->set_gone_utc_ms(kNowMs - 60'000);
  lost->set_reason("reclaimed");
  EXPECT_EQ(cli.Run({"nodes", "--all"}), 0);
  EXPECT_EQ(cli.out,
            "ID  NAME     STATE           MARKET  PROVIDER  TOTAL   FREE   PRICE/H  RUNS   SESSION         REASON\n"
            " 1  gpu-1    READY cordoned  spot    cloud     4 cpus  1 cpu     1.20  5.0@2  connected\n"
            " 2  cloud-2  READY           spot    cloud     4 cpus  1 cpu     1.20         silent 40s\n"
            " 3  cloud-3  LOST            spot    cloud     4 cpus            1.20         gone 1m00s ago  reclaimed\n");
  EXPECT_EQ(cli.api.calls.back(), "ListNodes include_gone: true page_size: 1000");
}

TEST(Nodes, DescribeFindsByNameOrNumberTheOneThatLives) {
  Cli cli;
  *cli.api.nodes.add_nodes() = MakeNode(9, "gpu-1", v1::RELEASED);
  *cli.api.nodes.add_nodes() = MakeNode(4, "gpu-1", v1::READY);
  EXPECT_EQ(cli.Run({"describe", "node", "gpu-1"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("node 4  gpu-1  READY\n  provider    cloud\n  market      spot, 1.20 an hour\n"));
  EXPECT_THAT(cli.out, HasSubstr("session     silent for 40s"));
  EXPECT_EQ(cli.Run({"describe", "node", "9"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("node 9  gpu-1  RELEASED"));
  EXPECT_EQ(cli.Run({"describe", "node", "gpu-2"}), 3);
  EXPECT_EQ(cli.err, "spillway: no node is called `gpu-2`, did you mean `gpu-1`?\n");
}

TEST(Nodes, Actions) {
  Cli cli;
  EXPECT_EQ(cli.Run({"cordon", "gpu-1"}), 0);
  EXPECT_EQ(cli.out, "gpu-1: takes nothing new\n");
  EXPECT_EQ(cli.Run({"uncordon", "gpu-1"}), 0);
  EXPECT_EQ(cli.Run({"drain", "gpu-1", "--grace", "5m"}), 0);
  EXPECT_THAT(cli.api.calls, ElementsAre("Cordon node: \"gpu-1\" on: true", "Cordon node: \"gpu-1\"", "Drain node: \"gpu-1\" grace_ms: 300000"));
  EXPECT_EQ(cli.Run({"drain", "gpu-1", "--grace", "soon"}), 2);
}

TEST(Offers, Table) {
  Cli cli;
  EXPECT_EQ(cli.Run({"offers"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("no offers"));
  v1::Offer* offer = cli.api.offers.add_offers();
  offer->set_provider("cloud");
  offer->set_name("a100-spot");
  offer->set_market(v1::SPOT);
  offer->set_zone("z1");
  offer->mutable_resources()->set_cpu_milli(8000);
  offer->set_price_micros_per_hour(900'000);
  offer->set_billing_increment_ms(1000);
  offer->set_billing_minimum_ms(60'000);
  offer->set_notice_ms(120'000);
  offer->set_capacity(-1);
  offer->set_preemptions(3);
  offer->set_backoff_until_utc_ms(kNowMs + 90'000);
  offer->set_backoff_reason("preempted");
  EXPECT_EQ(cli.Run({"offers", "--provider", "cloud"}), 0);
  EXPECT_EQ(cli.out,
            "PROVIDER  OFFER      MARKET  ZONE  RESOURCES  PRICE/H  BILLED                  NOTICE  CAPACITY  PREEMPTED  USABLE\n"
            "cloud     a100-spot  spot    z1    8 cpus        0.90  per 1s, at least 1m00s  2m00s          ?          3  in 1m30s: preempted\n");
  EXPECT_EQ(cli.api.calls.back(), "ListOffers provider: \"cloud\"");
}

TEST(Reservations, Table) {
  Cli cli;
  v1::Reservation* reservation = cli.api.reservations.add_reservations();
  reservation->set_name("base");
  reservation->add_nodes("n1");
  reservation->add_nodes("n2");
  reservation->set_from_utc_ms(1767225600000);
  reservation->set_price_micros_per_hour(1'200'000);
  EXPECT_EQ(cli.Run({"reservations"}), 0);
  EXPECT_EQ(cli.out,
            "NAME  NODES  FROM                  TO    PRICE/H OF A NODE\n"
            "base  n1 n2  2026-01-01 00:00:00Z  open               1.20\n");
}

TEST(Cost, Report) {
  Cli cli;
  v1::JobCost* job = cli.api.cost.add_jobs();
  job->set_job_id(5);
  job->set_name("bert");
  job->set_run_ms(390'000);
  job->set_spot_micros(123'400);
  cli.api.cost.set_burst_micros(150'000);
  cli.api.cost.set_idle_micros(20'000);
  cli.api.cost.set_overhead_micros(6'600);
  cli.api.cost.set_reserved_used_micros(400'000);
  cli.api.cost.set_total_micros(550'000);
  cli.api.cost.set_running_estimate_micros(10'000);
  EXPECT_EQ(cli.Run({"cost", "report", "--from", "2026-01-01T00:00:00Z"}), 0);
  EXPECT_EQ(cli.out,
            "JOB  NAME    RAN    SPOT\n"
            "  5  bert  6m30s  0.1234\n"
            "\n"
            "burst (spot and on demand)    0.15\n"
            "  of it idle                  0.02\n"
            "  of it overhead            0.0066  boot, fencing, billing increments\n"
            "reserved, used by jobs        0.40  at the amortised price\n"
            "total                         0.55\n"
            "running, not charged yet      0.01  not in the total\n");
  EXPECT_THAT(cli.api.calls, ElementsAre("CostReport from_utc_ms: 1767225600000"));
  EXPECT_EQ(cli.Run({"cost", "report", "--to", "tomorrow"}), 2);
  EXPECT_EQ(cli.Run({"cost", "report", "--from", "2026-02-01T00:00:00Z", "--to", "2026-01-01T00:00:00Z"}), 2);
  EXPECT_EQ(cli.err, "spillway: --to 2026-01-01T00:00:00Z is not after --from 2026-02-01T00:00:00Z\n");
  EXPECT_EQ(cli.Run({"cost", "report", "--to", "1970-01-01T00:00:00Z"}), 2) << "which the scheduler would read as open";
  // What no job used of the reserved nodes stands in a line of its own, and with it the sum is that of the nodes.
  cli.api.cost.set_reserved_idle_micros(30'000);
  EXPECT_EQ(cli.Run({"cost", "report"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("total                         0.55\n"
                                 "reserved, idle                0.03  paid for all the same, used by no job; not in the total\n"
                                 "all charges                   0.58  what `nodes` shows as charged\n"));
}

TEST(Cost, WithoutAnyPriceItSaysSoAndWhatRan) {
  Cli cli;
  v1::Node* node = cli.api.nodes.add_nodes();
  node->set_name("local-1");
  v1::Job job = MakeJob(5, "bert", "SUCCEEDED");
  v1::Attempt* attempt = AddAttempt(&job, "local-1", v1::RESERVED, v1::ENDED);
  attempt->set_started_utc_ms(kNowMs - 100'000);
  attempt->set_ended_utc_ms(kNowMs - 10'000);
  cli.api.jobs[5] = job;
  EXPECT_EQ(cli.Run({"cost", "report"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("JOB  NAME    RAN\n  5  bert  1m30s\n"));
  EXPECT_THAT(cli.out, HasSubstr("\nno price declared: no node has one, so everything counts 0."));
  EXPECT_THAT(cli.out, HasSubstr("nodes: [local-1]"));
  node->set_price_micros_per_hour(1'200'000);
  EXPECT_EQ(cli.Run({"cost", "report"}), 0);
  EXPECT_THAT(cli.out, Not(HasSubstr("no price declared"))) << "nothing was charged yet";
}

TEST(Drain, GraceZeroIsNotTheJobsOwn) {
  Cli cli;
  EXPECT_EQ(cli.Run({"drain", "n1", "--grace", "0"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("--grace 0: without grace there is no checkpoint"));
  EXPECT_THAT(cli.api.calls, ::testing::IsEmpty());
}

void PutBackup(FakeApi* api, const std::string& bytes) {
  api->backup.assign(3, v1::BackupChunk());
  v1::BackupInfo* info = api->backup[0].mutable_info();
  info->set_cluster_uuid("0f1e2d3c-0000");
  info->set_event_seq(7);
  info->set_utc_ms(kNowMs);
  info->set_bytes(static_cast<int64_t>(bytes.size()));
  api->backup[1].set_data(bytes.substr(0, 3));
  api->backup[2].set_data(bytes.substr(3));
  const Sha256Digest digest = Sha256Of(bytes);
  api->backup[2].set_sha256(std::string(digest.begin(), digest.end()));
}

TEST(Backup, IsWrittenWholeIntoAFileOrAFolderAndReplacesNothing) {
  TemporaryFolder folder;
  Cli cli;
  PutBackup(&cli.api, "a database");
  const std::string file = folder.File("b");
  EXPECT_EQ(cli.Run({"backup", file}), 0) << cli.err;
  EXPECT_EQ(cli.out, file + ": 10B, cluster 0f1e2d3c-0000 as of turn 7, 2025-06-15T15:06:40Z\n");
  EXPECT_EQ(*ReadFile(file), "a database");
  EXPECT_EQ(cli.Run({"backup", file}), 2);
  EXPECT_THAT(cli.err, HasSubstr("replaces nothing"));
  ASSERT_OK(MakeDirectories(folder.File("d")));
  EXPECT_EQ(cli.Run({"backup", folder.File("d"), "-o", "json"}), 0) << cli.err;
  EXPECT_EQ(*ReadFile(folder.File("d/spillway-0f1e2d3c-20250615T150640Z.backup")), "a database");
  EXPECT_THAT(cli.out, HasSubstr("\"event_seq\": \"7\""));
}

TEST(Backup, OneThatIsCutShortOrAlteredIsNotKept) {
  TemporaryFolder folder;
  for (int what = 0; what < 3; ++what) {
    Cli cli;
    PutBackup(&cli.api, "a database");
    if (what == 0) cli.api.backup.pop_back();
    if (what == 1) cli.api.backup[1].set_data("b d");
    if (what == 2) cli.api.backup.erase(cli.api.backup.begin());
    EXPECT_EQ(cli.Run({"backup", folder.File("b")}), 4) << what << ": " << cli.err;
    EXPECT_THAT(*ListDirectory(folder.File("")), ElementsAre()) << what;
  }
}

}  // namespace
}  // namespace spillway::client
