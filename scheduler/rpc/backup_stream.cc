#include "scheduler/rpc/backup_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/status_macros.h"
#include "scheduler/store/backup.h"

namespace spillway::rpc {
namespace {

constexpr int64_t kBackupChunkBytes = 256 << 10;
constexpr int kBackupChunksPerRead = 8;

}  // namespace

BackupStream::~BackupStream() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Follow> BackupStream::Read(std::deque<v1::BackupChunk>* out) {
  if (fd_ < 0) RETURN_IF_ERROR(Begin(&out->emplace_back()));
  for (int i = 0; i < kBackupChunksPerRead && left_ > 0; ++i) {
    std::string data(static_cast<size_t>(std::min(kBackupChunkBytes, left_)), '\0');
    const ssize_t got = read(fd_, data.data(), data.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? ErrnoStatus(errno, CopyOf(database_)) : absl::DataLossError(CopyOf(database_) + " became shorter");
    data.resize(static_cast<size_t>(got));
    left_ -= got;
    hash_.Update(data);
    out->emplace_back().set_data(std::move(data));
  }
  if (left_ > 0) return Follow::kMore;
  const Sha256Digest digest = hash_.Finish();
  out->back().set_sha256(std::string(digest.begin(), digest.end()));
  return Follow::kEnd;
}

absl::Status BackupStream::Begin(v1::BackupChunk* first) {
  const std::string copy = CopyOf(database_);
  ASSIGN_OR_RETURN(const store::BackupInfo info, store::BackUp(database_, copy, go_on_));
  fd_ = open(copy.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = errno;
  unlink(copy.c_str());  // from here on it lives as long as this descriptor
  if (fd_ < 0) return ErrnoStatus(error, copy);
  left_ = info.bytes;
  v1::BackupInfo* about = first->mutable_info();
  about->set_cluster_uuid(info.cluster_uuid);
  about->set_incarnation(info.incarnation);
  about->set_event_seq(info.seq);
  about->set_utc_ms(info.now_ms);
  about->set_bytes(info.bytes);
  return absl::OkStatus();
}

}  // namespace spillway::rpc
