#include "tests/checkpoint/fault_io.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"

namespace spillway::checkpoint {
namespace {

inline constexpr int kExitAtFault = 77;

bool Within(const std::string& path, const std::string& tree) { return path == tree || absl::StartsWith(path, tree + "/"); }

}  // namespace

class FaultFile final : public File {
 public:
  FaultFile(FaultIo* io, std::unique_ptr<File> file, std::string path) : io_(io), file_(std::move(file)), path_(std::move(path)) {}
  absl::Status WriteAt(const void* data, size_t bytes, int64_t offset) override {
    RETURN_IF_ERROR(io_->Before(FaultIo::Kind::kTakesSpace, [&] { file_->WriteAt(data, bytes / 2, offset).IgnoreError(); }));
    return file_->WriteAt(data, bytes, offset);
  }
  absl::Status ReadAt(void* data, size_t bytes, int64_t offset) override {
    RETURN_IF_ERROR(io_->Before(FaultIo::Kind::kReads));
    return file_->ReadAt(data, bytes, offset);
  }
  absl::Status Allocate(int64_t bytes) override {
    RETURN_IF_ERROR(io_->Before(FaultIo::Kind::kTakesSpace));
    return file_->Allocate(bytes);
  }
  int64_t PreferDirect() override { return file_->PreferDirect(); }
  absl::Status Sync() override {
    RETURN_IF_ERROR(io_->Before(FaultIo::Kind::kOther));
    io_->safe_content_.erase(path_);
    return file_->Sync();
  }
  absl::StatusOr<int64_t> Bytes() override {
    RETURN_IF_ERROR(io_->Before(FaultIo::Kind::kReads));
    return file_->Bytes();
  }

 private:
  FaultIo* const io_;
  const std::unique_ptr<File> file_;
  const std::string path_;
};

absl::Status FaultIo::Before(Kind kind, const std::function<void()>& half) {
  MutexLock lock(&mutex_);
  ++calls_;
  if (power_is_back_ || at_ == 0 || calls_ < at_) return absl::OkStatus();
  switch (fault_) {
    case Fault::kNone: return absl::OkStatus();
    case Fault::kErrorOnce: return calls_ == at_ ? error_ : absl::OkStatus();
    case Fault::kErrorStays: return kind == Kind::kTakesSpace ? error_ : absl::OkStatus();
    case Fault::kReadOnly: return kind == Kind::kReads ? absl::OkStatus() : error_;
    case Fault::kAllFail: return error_;
    case Fault::kExit:
      if (half) half();
      _exit(kExitAtFault);
    case Fault::kHook:
      if (calls_ == at_) hook_();
      return absl::OkStatus();
    case Fault::kPowerCut:
      if (half && calls_ == at_) half();
      return absl::AbortedError("the power is off");
  }
  return absl::OkStatus();
}

void FaultIo::Rename(const std::string& from, const std::string& to) {
  auto moved = [&](const std::string& path) { return Within(path, from) ? to + path.substr(from.size()) : path; };
  for (Pending& p : pending_) p = {moved(p.directory), p.from.empty() ? "" : moved(p.from), moved(p.to)};
  std::map<std::string, std::string> content;
  for (auto& [path, bytes] : safe_content_) content[moved(path)] = std::move(bytes);
  safe_content_ = std::move(content);
}

absl::Status FaultIo::BeforeCreate(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kTakesSpace));
  if (PathExists(path)) {
    ASSIGN_OR_RETURN(safe_content_[path], ReadFile(path));
  } else {
    pending_.push_back({ParentOf(path), "", path});
    safe_content_[path] = "";
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<File>> FaultIo::Create(const std::string& path) {
  RETURN_IF_ERROR(BeforeCreate(path));
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, RealIo()->Create(path));
  return std::make_unique<FaultFile>(this, std::move(file), path);
}

absl::StatusOr<std::unique_ptr<File>> FaultIo::CreateAlone(const std::string& path) {
  RETURN_IF_ERROR(BeforeCreate(path));
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, RealIo()->CreateAlone(path));
  return std::make_unique<FaultFile>(this, std::move(file), path);
}

absl::StatusOr<std::unique_ptr<File>> FaultIo::Open(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kReads));
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, RealIo()->Open(path));
  return std::make_unique<FaultFile>(this, std::move(file), path);
}

absl::Status FaultIo::MakeDirectory(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kTakesSpace));
  if (!PathExists(path)) pending_.push_back({ParentOf(path), "", path});
  return RealIo()->MakeDirectory(path);
}

absl::Status FaultIo::SyncDirectory(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kOther));
  std::erase_if(pending_, [&](const Pending& p) { return p.directory == path; });
  return RealIo()->SyncDirectory(path);
}

absl::Status FaultIo::RenameNoReplace(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(Before(Kind::kOther));
  RETURN_IF_ERROR(RealIo()->RenameNoReplace(from, to));
  Rename(from, to);
  pending_.push_back({ParentOf(to), from, to});
  return absl::OkStatus();
}

// Only used for the hint, which may be lost: what it replaces is not tracked.
absl::Status FaultIo::RenameReplace(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(Before(Kind::kOther));
  safe_content_.erase(to);
  std::erase_if(pending_, [&](const Pending& p) { return p.to == from; });
  Rename(from, to);
  return RealIo()->RenameReplace(from, to);
}

absl::Status FaultIo::RemoveTree(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kOther));
  if (graveyard_.empty() || !PathExists(path)) return RealIo()->RemoveTree(path);
  const std::string grave = absl::StrCat(graveyard_, "/", ++graves_);
  RETURN_IF_ERROR(RealIo()->RenameNoReplace(path, grave));
  Rename(path, grave);
  pending_.push_back({ParentOf(path), path, grave});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultIo::List(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kReads));
  return RealIo()->List(path);
}

absl::StatusOr<bool> FaultIo::Exists(const std::string& path) {
  RETURN_IF_ERROR(Before(Kind::kReads));
  return RealIo()->Exists(path);
}

void FaultIo::LosePower(Rng* rng, const std::string& graveyard) {
  power_is_back_ = true;
  // Unsynced bytes: all, none, a part, or zeros in the place of them.
  for (const auto& [path, before] : safe_content_) {
    auto now = ReadFile(path);
    if (!now.ok()) continue;
    std::string after = *now;
    switch (rng->Below(4)) {
      case 0: after = before; break;
      case 1: after.resize(rng->Below(after.size() + 1)); break;
      case 2: std::fill(after.begin() + static_cast<int64_t>(rng->Below(after.size() + 1)), after.end(), '\0'); break;
      default: break;
    }
    WriteFileAtomically(path, after).IgnoreError();
  }
  safe_content_.clear();
  // Unsynced directory changes: a journal loses its tail.
  size_t lost = rng->Below(pending_.size() + 1);
  for (; lost > 0; --lost) {
    const Pending last = pending_.back();
    pending_.pop_back();
    if (last.from.empty()) {
      RealIo()->RenameReplace(last.to, absl::StrCat(graveyard, "/", ++graves_)).IgnoreError();
    } else {
      RealIo()->RenameReplace(last.to, last.from).IgnoreError();
      Rename(last.to, last.from);
    }
  }
  pending_.clear();
}

}  // namespace spillway::checkpoint
