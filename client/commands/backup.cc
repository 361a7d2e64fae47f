// A copy of the scheduler's database, in a file of the user's: whole and verified, or not there.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"

namespace spillway::client {
namespace {

// The file while it is not whole: PATH.partial, gone again unless it is kept.
class Draft {
 public:
  ~Draft() {
    if (fd_ >= 0) close(fd_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  absl::Status Open(const std::string& target) {
    path_ = target + ".partial";
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd_ >= 0) return absl::OkStatus();
    const absl::Status failed = ErrnoStatus(errno, path_);
    path_.clear();
    return failed;
  }
  absl::Status Append(absl::string_view data) {
    hash_.Update(data);
    bytes_ += static_cast<int64_t>(data.size());
    return WriteAll(fd_, data, path_);
  }
  absl::Status Keep(const std::string& target) {
    if (fsync(fd_) != 0) return ErrnoStatus(errno, path_);
    if (rename(path_.c_str(), target.c_str()) != 0) return ErrnoStatus(errno, target);
    path_.clear();
    return FsyncDirectory(FolderOf(target));
  }
  bool is_open() const { return fd_ >= 0; }
  int64_t bytes() const { return bytes_; }
  std::string Digest() {
    const Sha256Digest digest = hash_.Finish();
    return std::string(digest.begin(), digest.end());
  }

 private:
  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  Sha256 hash_;
};

class Backup final : public Verb {
 public:
  std::string Name() const override { return "backup"; }
  std::string Summary() const override { return "copy the scheduler's database into a file, while it goes on"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway backup /backups", "a file named after the cluster and the time"},
            {"spillway backup spillway.backup", "this file, which must not be there"},
            {"spillwayd --home ~/.spillway --restore spillway.backup", "the way back, once the data folder is lost"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("DIR|FILE", &target_, "where to", true);
    builder.Output();
  }
  int Run(Context& context) override {
    const bool folder = ListDirectory(target_).ok();
    if (!folder && PathExists(target_)) return context.Fail(AlreadyThere(target_));
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    v1::BackupInfo info;
    Draft draft;
    std::string digest;
    OR_FAIL(context, api->Backup([&](const v1::BackupChunk& chunk) -> absl::Status {
      if (chunk.has_info()) {
        info = chunk.info();
        info.set_path(folder ? JoinPath(target_, NameOf(info)) : target_);
        if (PathExists(info.path())) return AlreadyThere(info.path());
        RETURN_IF_ERROR(draft.Open(info.path()));
      }
      if (!draft.is_open()) return absl::DataLossError("the backup began without saying what it is");
      digest = chunk.sha256();
      return draft.Append(chunk.data());
    }));
    if (!draft.is_open() || draft.bytes() != info.bytes() || draft.Digest() != digest) {
      return context.Fail(absl::DataLossError("the backup did not arrive whole; nothing was kept"));
    }
    OR_FAIL(context, draft.Keep(info.path()));
    if (context.json) return context.PrintJson(info);
    *context.out << Printable(info.path(), 400) << ": " << FormatBytes(info.bytes()) << ", cluster " << Printable(info.cluster_uuid(), 60) << " as of turn "
                 << info.event_seq() << ", " << FormatUtcMs(info.utc_ms()) << '\n';
    return kExitOk;
  }

 private:
  static absl::Status AlreadyThere(const std::string& path) {
    return absl::InvalidArgumentError(absl::StrCat(Printable(path, 200), " is there already; a backup replaces nothing"));
  }
  // spillway-0f1e2d3c-20250615T150640Z.backup
  static std::string NameOf(const v1::BackupInfo& info) {
    std::string cluster;
    for (const char c : info.cluster_uuid().substr(0, 8)) cluster.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
    return absl::StrCat("spillway-", cluster, "-", absl::StrReplaceAll(FormatUtcMs(info.utc_ms() / 1000 * 1000), {{"-", ""}, {":", ""}}), ".backup");
  }

  std::string target_;
};

}  // namespace

std::unique_ptr<Verb> MakeBackup() { return std::make_unique<Backup>(); }

}  // namespace spillway::client
