#include "checkpoint/group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/layout.h"
#include "checkpoint/sealed_json.h"

namespace spillway::checkpoint {
namespace {

std::string RankName(int rank) { return absl::StrFormat("rank-%0*d", kRankDigits, rank); }

std::string PartPath(const std::string& stage, int rank) { return JoinPath(JoinPath(stage, kPartsName), RankName(rank)); }

// A save that fails must not fail again because of the words it fails with.
std::string Words(const absl::Status& why) { return Printable(why.message(), 1000); }

absl::Status StatusOf(int64_t code, const std::string& words) {
  const auto known = static_cast<absl::StatusCode>(code);
  return absl::Status(known == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : known, words);
}

}  // namespace

Group::Group(Io* io, std::string directory, int64_t attempt, int rank, int world_size)
    : io_(io), directory_(std::move(directory)), attempt_(attempt), rank_(rank), world_size_(world_size), members_(static_cast<size_t>(world_size)) {}

std::string Group::Path(const std::string& suffix) const { return JoinPath(JoinPath(directory_, kGroupName), absl::StrCat(AttemptName(attempt_), suffix)); }

absl::StatusOr<std::string> Group::ReadJoin(int rank) {
  const std::string path = Path("-" + RankName(rank));
  ASSIGN_OR_RETURN(const Json json, ReadSealed(io_, path));
  Fields fields(json, path);
  fields.Text("sha256");
  const std::string nonce = fields.Text("nonce");
  const int64_t world_size = fields.Integer("world_size", 1, kWorldSizeMax);
  RETURN_IF_ERROR(fields.Finish());
  if (world_size != world_size_) return absl::NotFoundError(absl::StrCat(path, " is of a group of ", world_size));
  return nonce;
}

absl::Status Group::Announce(const Call& call, const std::vector<int>& missing) {
  bool changed = announced_save_ != call.save;
  for (int rank : missing) {
    auto nonce = ReadJoin(rank);
    if (absl::IsNotFound(nonce.status()) || absl::IsDataLoss(nonce.status())) continue;  // not there yet
    if (!nonce.ok()) return nonce.status();
    std::string& known = members_[static_cast<size_t>(rank)];
    changed |= known != *nonce;
    known = *std::move(nonce);
  }
  if (!changed) return absl::OkStatus();
  RETURN_IF_ERROR(io_->MakeDirectory(JoinPath(directory_, kGroupName)));
  const std::string path = Path("");
  const Json json = {{"owner", call.owner_id}, {"save", call.save}, {"step", call.step}, {"members", members_}};
  RETURN_IF_ERROR(WriteSealed(io_, path, path + ".tmp", json, /*durable=*/false));
  announced_save_ = call.save;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Group::Call>> Group::Look(int64_t step) {
  if (nonce_.empty()) {
    const std::string nonce = NewUuid();
    RETURN_IF_ERROR(io_->MakeDirectory(JoinPath(directory_, kGroupName)));
    const std::string own = Path("-" + RankName(rank_));
    RETURN_IF_ERROR(WriteSealed(io_, own, own + ".tmp", {{"nonce", nonce}, {"world_size", world_size_}}, /*durable=*/false));
    nonce_ = nonce;
  }
  const std::string path = Path("");
  const auto json = ReadSealed(io_, path, world_size_);
  if (absl::IsNotFound(json.status()) || absl::IsDataLoss(json.status())) return std::nullopt;
  if (!json.ok()) return json.status();
  Fields fields(*json, path);
  fields.Text("sha256");
  Call call;
  call.owner_id = fields.Text("owner");
  call.save = fields.Integer("save", 1, INT64_MAX);
  call.step = fields.Integer("step", 0, kStepMax);
  const Json* members = fields.Get("members");
  RETURN_IF_ERROR(fields.Finish());
  const auto rank = static_cast<size_t>(rank_);
  if (!members->is_array() || members->size() <= rank || (*members)[rank] != nonce_) return std::nullopt;  // of an earlier run, or before this rank came
  if (call.owner_id == answered_.owner_id && call.save <= answered_.save) return std::nullopt;
  if (call.step > step) {
    // All save the same steps in the same order, so rank 0 has given this one up before this rank came to it.
    const auto given_up = GivenUp({call.owner_id, call.save - 1, step});
    return given_up.value_or(absl::AbortedError(absl::StrCat("rank 0 is saving step ", call.step, " already; step ", step, " was given up")));
  }
  if (call.step < step) return std::nullopt;  // it will come to it
  answered_ = call;
  return call;
}

absl::Status Group::WritePart(Io* io, const std::string& stage, int rank, const absl::StatusOr<ManifestFile>& written) {
  Json json = {{"rank", rank}, {"code", static_cast<int>(written.status().code())}, {"error", Words(written.status())}, {"bytes", 0}, {"header_sha256", ""}};
  if (written.ok()) {
    json["bytes"] = written->bytes;
    json["header_sha256"] = written->header_sha256;
  }
  RETURN_IF_ERROR(io->MakeDirectory(JoinPath(stage, kPartsName)));
  const std::string path = PartPath(stage, rank);
  return WriteSealed(io, path, path + ".tmp", json, /*durable=*/false);
}

absl::StatusOr<Group::Part> Group::ReadPart(Io* io, const std::string& stage, int rank) {
  const std::string path = PartPath(stage, rank);
  ASSIGN_OR_RETURN(const Json json, ReadSealed(io, path));
  Fields fields(json, path);
  fields.Text("sha256");
  ManifestFile file{.name = RankFileName(rank)};
  file.bytes = fields.Integer("bytes", 0, INT64_MAX);
  file.header_sha256 = fields.Text("header_sha256");
  const std::string error = fields.Text("error");
  const int64_t code = fields.Integer("code", 0, 16);
  if (fields.Integer("rank", 0, kWorldSizeMax) != rank) fields.Fail("is of another rank");
  RETURN_IF_ERROR(fields.Finish());
  if (code != 0) return Part{StatusOf(code, absl::StrCat("rank ", rank, ": ", error))};
  return Part{std::move(file)};
}

void Group::GiveUp(const Call& call, const absl::Status& why) {
  if (!io_->MakeDirectory(JoinPath(directory_, kGroupName)).ok()) return;
  const std::string path = Path("-failed");
  WriteSealed(io_, path, path + ".tmp", {{"owner", call.owner_id}, {"save", call.save}, {"code", static_cast<int>(why.code())}, {"error", Words(why)}},
              /*durable=*/false)
      .IgnoreError();  // without the word the others run into their own time limit
}

std::optional<absl::Status> Group::GivenUp(const Call& call) {
  const std::string path = Path("-failed");
  const auto json = ReadSealed(io_, path);
  if (!json.ok()) return std::nullopt;
  Fields fields(*json, path);
  fields.Text("sha256");
  const std::string owner = fields.Text("owner");
  const int64_t failed = fields.Integer("save", 1, INT64_MAX);
  const int64_t code = fields.Integer("code", 1, 16);
  const std::string error = fields.Text("error");
  // A later save that failed shows that rank 0 is through with this one too.
  if (!fields.Finish().ok() || owner != call.owner_id || failed < call.save) return std::nullopt;
  return StatusOf(code, absl::StrCat("rank 0 gave the save up: ", error));
}

}  // namespace spillway::checkpoint
