#include "tests/support/fault_vfs.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace spillway::testing {

struct FaultVfs::File {
  struct Change {
    bool truncate;
    int64_t at;
    std::string bytes;
  };
  bool exists = false, exists_durably = false;
  std::string now;          // what reads see
  std::string durable;      // as of the last sync
  bool begun_anew = false;  // deleted since: `now` is not `durable` and what changed
  std::vector<Change> unsynced;
  std::vector<std::unique_ptr<char[]>> shared_memory;

  static void Apply(const Change& change, std::string* to) {
    if (change.truncate) {
      to->resize(static_cast<size_t>(change.at));
      return;
    }
    const size_t end = static_cast<size_t>(change.at) + change.bytes.size();
    if (to->size() < end) to->resize(end);
    std::memcpy(to->data() + change.at, change.bytes.data(), change.bytes.size());
  }
  void Do(Change change) {
    Apply(change, &now);
    unsynced.push_back(std::move(change));
  }
};

struct FaultVfs::Impl {
  struct Handle {
    sqlite3_file base;
    FaultVfs* vfs;
    File* file;
    bool sync_folder;  // with the first sync, as SQLite's own file system does for journals and logs
  };
  static Handle* Of(sqlite3_file* f) { return reinterpret_cast<Handle*>(f); }
  static FaultVfs* Of(sqlite3_vfs* v) { return static_cast<FaultVfs*>(v->pAppData); }

  static int Close(sqlite3_file*) { return SQLITE_OK; }
  static int Read(sqlite3_file* f, void* into, int n, sqlite3_int64 at) {
    Handle* h = Of(f);
    if (h->vfs->dead_) return SQLITE_IOERR_READ;
    const std::string& bytes = h->file->now;
    const int64_t there = std::max<int64_t>(0, std::min<int64_t>(n, static_cast<int64_t>(bytes.size()) - at));
    if (there > 0) std::memcpy(into, bytes.data() + at, static_cast<size_t>(there));
    if (there == n) return SQLITE_OK;
    std::memset(static_cast<char*>(into) + there, 0, static_cast<size_t>(n - there));
    return SQLITE_IOERR_SHORT_READ;
  }
  static int Write(sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
    Handle* h = Of(f);
    File::Change change{false, at, std::string(static_cast<const char*>(from), static_cast<size_t>(n))};
    const bool grows = at + n > static_cast<int64_t>(h->file->now.size());
    switch (h->vfs->NextFault()) {
      case Fault::kNone: break;
      case Fault::kFull: return SQLITE_FULL;
      case Fault::kReadOnly: h->vfs->last_error_ = EROFS; return SQLITE_IOERR_WRITE;
      case Fault::kIoError: h->vfs->last_error_ = EIO; return SQLITE_IOERR_WRITE;
      case Fault::kCrash:
        if (h->vfs->tripped_) return SQLITE_IOERR_WRITE;
        h->vfs->tripped_ = true;
        change.bytes.resize(h->vfs->rng_.Below(change.bytes.size() + 1));
        if (!change.bytes.empty()) h->file->Do(std::move(change));
        return SQLITE_IOERR_WRITE;
    }
    if (h->vfs->full_ && grows) return SQLITE_FULL;
    h->file->Do(std::move(change));
    return SQLITE_OK;
  }
  static int Truncate(sqlite3_file* f, sqlite3_int64 size) {
    Handle* h = Of(f);
    switch (h->vfs->NextFault()) {
      case Fault::kNone: break;
      case Fault::kFull:
      case Fault::kReadOnly: break;
      default: h->vfs->tripped_ = true; return SQLITE_IOERR_TRUNCATE;
    }
    h->file->Do({true, size, ""});
    return SQLITE_OK;
  }
  static int Sync(sqlite3_file* f, int) {
    Handle* h = Of(f);
    switch (h->vfs->NextFault()) {
      case Fault::kNone: break;
      case Fault::kFull:
      case Fault::kReadOnly: break;
      default: h->vfs->tripped_ = true; return SQLITE_IOERR_FSYNC;
    }
    ++h->vfs->syncs_;
    if (std::exchange(h->file->begun_anew, false)) {
      h->file->durable = h->file->now;
    } else {
      for (const File::Change& change : h->file->unsynced) File::Apply(change, &h->file->durable);  // cheaper, and as good
    }
    h->file->unsynced.clear();
    h->file->exists_durably = h->file->exists;
    if (h->sync_folder) {
      h->sync_folder = false;
      for (auto& [path, file] : h->vfs->files_) {
        if (file->exists == file->exists_durably) continue;
        file->exists_durably = file->exists;
        file->durable.clear();
      }
    }
    return SQLITE_OK;
  }
  static int FileSize(sqlite3_file* f, sqlite3_int64* size) {
    if (Of(f)->vfs->dead_) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>(Of(f)->file->now.size());
    return SQLITE_OK;
  }
  static int Lock(sqlite3_file*, int) { return SQLITE_OK; }
  static int Unlock(sqlite3_file*, int) { return SQLITE_OK; }
  static int CheckReservedLock(sqlite3_file*, int* held) { return *held = 0, SQLITE_OK; }
  static int FileControl(sqlite3_file* f, int what, void* out) {
    if (what != SQLITE_FCNTL_LAST_ERRNO) return SQLITE_NOTFOUND;
    *static_cast<int*>(out) = Of(f)->vfs->last_error_;
    return SQLITE_OK;
  }
  static int SectorSize(sqlite3_file*) { return 4096; }
  static int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }
  static int ShmMap(sqlite3_file* f, int region, int size, int extend, void volatile** out) {
    auto& regions = Of(f)->file->shared_memory;
    *out = nullptr;
    while (static_cast<int>(regions.size()) <= region) {
      if (!extend) return SQLITE_OK;
      if (Of(f)->vfs->index_full_) return Of(f)->vfs->last_error_ = ENOSPC, SQLITE_IOERR_SHMSIZE;
      regions.push_back(std::make_unique<char[]>(static_cast<size_t>(size)));
    }
    *out = regions[static_cast<size_t>(region)].get();
    return SQLITE_OK;
  }
  static int ShmLock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
  static void ShmBarrier(sqlite3_file*) {}
  static int ShmUnmap(sqlite3_file* f, int remove) {
    if (remove) Of(f)->file->shared_memory.clear();
    return SQLITE_OK;
  }

  static int Open(sqlite3_vfs* v, const char* path, sqlite3_file* f, int flags, int* out_flags) {
    static const sqlite3_io_methods kMethods = {
        2,      Close,   Read,       Write,    Truncate, Sync,   FileSize, Lock, Unlock, CheckReservedLock, FileControl, SectorSize, DeviceCharacteristics,
        ShmMap, ShmLock, ShmBarrier, ShmUnmap, nullptr,  nullptr};
    f->pMethods = nullptr;
    FaultVfs* vfs = Of(v);
    if (vfs->dead_) return SQLITE_CANTOPEN;
    File* file = vfs->FileNamed(path == nullptr ? "(temporary)" : path);
    if (!file->exists && (flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
    file->exists = true;
    Handle* h = Of(f);
    h->vfs = vfs;
    h->file = file;
    h->sync_folder = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    h->base.pMethods = &kMethods;
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }
  static int Delete(sqlite3_vfs* v, const char* path, int sync_folder) {
    FaultVfs* vfs = Of(v);
    const Fault fault = vfs->NextFault();
    if (fault != Fault::kNone && fault != Fault::kFull && fault != Fault::kReadOnly) return vfs->tripped_ = true, SQLITE_IOERR_DELETE;
    File* file = vfs->FileNamed(path);
    if (!file->exists) return SQLITE_IOERR_DELETE_NOENT;
    file->exists = false;
    file->now.clear();
    file->unsynced.clear();
    file->begun_anew = true;
    if (sync_folder) {
      file->exists_durably = false;
      file->durable.clear();
    }
    return SQLITE_OK;
  }
  static int Access(sqlite3_vfs* v, const char* path, int, int* out) {
    if (Of(v)->dead_) return SQLITE_IOERR_ACCESS;
    const File* file = Of(v)->FileNamed(path);
    // An empty write-ahead log counts as none, as SQLite's own file systems have it.
    *out = file->exists && !file->now.empty();
    return SQLITE_OK;
  }
  static int FullPathname(sqlite3_vfs*, const char* path, int n, char* out) {
    sqlite3_snprintf(n, out, "%s", path);
    return SQLITE_OK;
  }
  static int Randomness(sqlite3_vfs* v, int n, char* out) {
    for (int i = 0; i < n; ++i) out[i] = static_cast<char>(Of(v)->rng_.Next());
    return n;
  }
  static int Sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
  static int CurrentTime(sqlite3_vfs*, double* days) { return *days = 2460000.5, SQLITE_OK; }
  static int GetLastError(sqlite3_vfs* v, int, char*) { return Of(v)->last_error_; }
};

FaultVfs::FaultVfs(std::string name, uint64_t seed) : name_(std::move(name)), rng_(seed), vfs_(std::make_unique<sqlite3_vfs>()) {
  *vfs_ = sqlite3_vfs{};
  vfs_->iVersion = 1;
  vfs_->szOsFile = sizeof(Impl::Handle);
  vfs_->mxPathname = 512;
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->xOpen = Impl::Open;
  vfs_->xDelete = Impl::Delete;
  vfs_->xAccess = Impl::Access;
  vfs_->xFullPathname = Impl::FullPathname;
  vfs_->xRandomness = Impl::Randomness;
  vfs_->xSleep = Impl::Sleep;
  vfs_->xCurrentTime = Impl::CurrentTime;
  vfs_->xGetLastError = Impl::GetLastError;
  CHECK(sqlite3_vfs_register(vfs_.get(), 0) == SQLITE_OK);
}

FaultVfs::~FaultVfs() { sqlite3_vfs_unregister(vfs_.get()); }

void FaultVfs::FailAt(int64_t k, Fault fault) {
  calls_ = 0;
  fail_at_ = k;
  fault_ = fault;
  stays_ = false;
  tripped_ = false;
}

void FaultVfs::FailFrom(int64_t k, Fault fault) {
  FailAt(k, fault);
  stays_ = true;
}

FaultVfs::Fault FaultVfs::NextFault() {
  if (dead_) return Fault::kCrash;
  ++calls_;
  if (fault_ == Fault::kNone || calls_ < fail_at_ || (calls_ > fail_at_ && !stays_)) return Fault::kNone;
  if (fault_ == Fault::kCrash) {
    dead_ = true;
  } else {
    tripped_ = true;
  }
  return fault_;
}

FaultVfs::File* FaultVfs::FileNamed(const std::string& path) {
  auto& file = files_[path];
  if (file == nullptr) file = std::make_unique<File>();
  return file.get();
}

void FaultVfs::PowerLoss(bool torn) {
  for (auto& [path, file] : files_) {
    if (torn && file->exists) {
      // Any subset of the unsynced changes may have reached the disk, in any order of arrival: later ones without earlier ones too.
      for (File::Change& change : file->unsynced) {
        if (rng_.Below(2) == 0) continue;
        if (!change.truncate && rng_.Below(4) == 0) change.bytes.resize(rng_.Below(change.bytes.size() + 1));
        File::Apply(change, &file->durable);
        file->exists_durably = true;
      }
    }
    file->unsynced.clear();
    file->exists = file->exists_durably;
    if (!file->exists) file->durable.clear();
    file->now = file->durable;
    file->begun_anew = false;
    file->shared_memory.clear();
  }
  dead_ = false;
  tripped_ = false;
  fault_ = Fault::kNone;
}

std::string FaultVfs::Contents(const std::string& path) const {
  const auto it = files_.find(path);
  return it == files_.end() ? "" : it->second->now;
}

void FaultVfs::SetContents(const std::string& path, std::string bytes) {
  File* file = FileNamed(path);
  file->exists = file->exists_durably = true;
  file->now = file->durable = std::move(bytes);
  file->begun_anew = false;
  file->unsynced.clear();
}

}  // namespace spillway::testing
