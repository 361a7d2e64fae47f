// A training program's view of a checkpoint: some GiB of float32 in huge pages that are saved and restored, beside what any program would do with
// them in their place: copy them in memory, or write them as plain safetensors with one thread.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/status_macros.h"
#include "checkpoint/background.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/digest.h"
#include "tests/bench/load.h"

namespace spillway::bench {
namespace {

using checkpoint::DType;
using checkpoint::TensorTarget;
using checkpoint::TensorView;

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kBlock = 1 << 20;    // of every write and read, as fio's
constexpr int64_t kTensorAlign = 64;  // what PyTorch gives: most tensors begin in the middle of a page

// Memory in huge pages, every one of them there.
class Arena {
 public:
  explicit Arena(int64_t bytes) : bytes_((static_cast<size_t>(bytes) + 2 * kHugePage - 1) / kHugePage * kHugePage) {
    mapped_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) return;
    madvise(mapped_, bytes_, MADV_HUGEPAGE);
    const uintptr_t at = reinterpret_cast<uintptr_t>(mapped_);
    data_ = reinterpret_cast<char*>((at + kHugePage - 1) / kHugePage * kHugePage);
    std::memset(data_, 1, static_cast<size_t>(bytes));
  }
  ~Arena() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, bytes_);
  }
  Arena(const Arena&) = delete;
  char* data() const { return data_; }  // nullptr: there was no memory

 private:
  const size_t bytes_;
  void* mapped_ = MAP_FAILED;
  char* data_ = nullptr;
};

struct Place {
  std::string name;
  int64_t offset = 0, elements = 0;
};

// Layers of a model: a large weight, a smaller one and a bias each.
std::vector<Place> PlacesOf(int64_t bytes) {
  std::vector<Place> places;
  int64_t at = 0;
  const auto add = [&](std::string name, int64_t elements) {
    places.push_back({std::move(name), at, elements});
    at = (at + elements * 4 + kTensorAlign - 1) / kTensorAlign * kTensorAlign;
  };
  for (int64_t layer = 0; at < bytes; ++layer) {
    add(absl::StrCat("layer.", layer, ".up"), 12 << 20);
    add(absl::StrCat("layer.", layer, ".down"), 4 << 20);
    add(absl::StrCat("layer.", layer, ".bias"), 4'112);
  }
  return places;
}

int64_t EndOf(const std::vector<Place>& places) { return places.back().offset + places.back().elements * 4; }

double ProcessorSeconds() {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Program {
 public:
  explicit Program(int64_t bytes) : places_(PlacesOf(bytes)), bytes_(EndOf(places_)), data_(bytes_), other_(bytes_) {}

  absl::Status Fill() {
    if (data_.data() == nullptr || other_.data() == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for twice ", bytes_, " bytes"));
    Rng rng(20'26);
    auto* words = reinterpret_cast<uint64_t*>(data_.data());
    for (int64_t i = 0; i < bytes_ / 8; ++i) words[i] = rng.Next();
    return absl::OkStatus();
  }

  nlohmann::json Shape() const {
    nlohmann::json tensors = nlohmann::json::array();
    for (const Place& place : places_) tensors.push_back({place.name, place.elements});
    return {{"ready", true}, {"bytes", bytes_}, {"tensors", tensors}};
  }

  // "save DIRECTORY plain|encrypted", "restore STEP_DIRECTORY plain|encrypted", "stall DIRECTORY", "copy", "digest", "write FILE", "read FILE".
  Measured Do(const std::string& line) {
    std::istringstream words(line);
    std::string verb, path, how;
    words >> verb >> path >> how;
    const double began = MonotonicSeconds(), used = ProcessorSeconds();
    nlohmann::json told;
    if (verb == "save") {
      ASSIGN_OR_RETURN(told["path"], Save(path, how));
    } else if (verb == "restore") {
      RETURN_IF_ERROR(Restore(path, how));
    } else if (verb == "stall") {
      ASSIGN_OR_RETURN(const double seconds, Stall(path));
      told["committed_seconds"] = MonotonicSeconds() - began;
      told["seconds"] = seconds;
      return told;
    } else if (verb == "copy") {
      std::memcpy(other_.data(), data_.data(), static_cast<size_t>(bytes_));
    } else if (verb == "digest") {
      told["digest"] = Digest();
    } else if (verb == "write") {
      RETURN_IF_ERROR(WriteSafetensors(path));
    } else if (verb == "read") {
      RETURN_IF_ERROR(ReadSafetensors(path));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("what is '", line, "'?"));
    }
    told["seconds"] = MonotonicSeconds() - began;
    told["processor_seconds"] = ProcessorSeconds() - used;
    if (verb == "restore" || verb == "read") {
      for (const Place& place : places_) {
        const auto length = static_cast<size_t>(place.elements * 4);
        if (std::memcmp(data_.data() + place.offset, other_.data() + place.offset, length) != 0) {
          return absl::DataLossError(absl::StrCat(place.name, " is not what was written"));
        }
      }
      std::memset(other_.data(), 1, static_cast<size_t>(bytes_));  // the next one has to bring all of it again
    }
    return told;
  }

 private:
  static std::optional<checkpoint::SecretKey> KeyOf(const std::string& how) {
    if (how != "encrypted") return std::nullopt;
    return checkpoint::SecretKey::Of(std::string(checkpoint::SecretKey::kBytes, 'k'));
  }

  std::vector<TensorView> Views() const {
    std::vector<TensorView> views;
    for (const Place& place : places_) views.push_back({place.name, DType::kF32, {place.elements}, data_.data() + place.offset, place.elements * 4});
    return views;
  }

  // How long a save beside the training held it up; back when it is committed.
  absl::StatusOr<double> Stall(const std::string& directory) {
    if (!saver_) {
      ASSIGN_OR_RETURN(saver_, checkpoint::BackgroundWriter::Open({.directory = directory, .retention = checkpoint::RetentionPolicy{.keep_last = 2}}));
    }
    const double began = MonotonicSeconds();
    RETURN_IF_ERROR(saver_->Save(++step_, Views()));
    const double seconds = MonotonicSeconds() - began;
    for (const auto& ended : saver_->Drain()) RETURN_IF_ERROR(ended.saved.status());
    return seconds;
  }

  absl::StatusOr<std::string> Save(const std::string& directory, const std::string& how) {
    checkpoint::WriterOptions options;
    options.directory = directory;
    options.read_back = how != "trusted";
    options.key = KeyOf(how);
    ASSIGN_OR_RETURN(auto writer, checkpoint::Writer::Open(options));
    ASSIGN_OR_RETURN(const auto saved, writer.Save(1, Views()));
    return saved.path;
  }

  absl::Status Restore(const std::string& path, const std::string& how) {
    std::vector<TensorTarget> targets;
    for (const Place& place : places_) targets.push_back({place.name, DType::kF32, {place.elements}, other_.data() + place.offset, place.elements * 4});
    const auto key = KeyOf(how);
    return checkpoint::RestoreNewest(path, targets, "", checkpoint::RealIo(), key ? &*key : nullptr).status();
  }

  // Of every chunk, by one thread.
  int Digest() const {
    int folded = 0;
    for (const Place& place : places_) {
      for (int64_t at = 0; at < place.elements * 4; at += static_cast<int64_t>(kBlock)) {
        folded ^= checkpoint::Xxh3Of(data_.data() + place.offset + at, std::min(kBlock, static_cast<size_t>(place.elements * 4 - at)))[0];
      }
    }
    return folded;
  }

  // Eight bytes of length, the header, all tensors without gaps.
  absl::Status WriteSafetensors(const std::string& path) {
    nlohmann::json header;
    int64_t end = 0;
    for (const Place& place : places_) {
      header[place.name] = {{"dtype", "F32"}, {"shape", {place.elements}}, {"data_offsets", {end, end + place.elements * 4}}};
      end += place.elements * 4;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return ErrnoStatus(errno, path);
    const absl::Cleanup shut = [&] { close(fd); };
    const auto put = [&](const char* at, size_t left) -> absl::Status {
      while (left > 0) {
        const ssize_t n = write(fd, at, std::min(left, kBlock));
        if (n < 0) return ErrnoStatus(errno, path);
        at += n;
        left -= static_cast<size_t>(n);
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(put(reinterpret_cast<const char*>(&length), sizeof(length)));
    RETURN_IF_ERROR(put(text.data(), text.size()));
    for (const Place& place : places_) RETURN_IF_ERROR(put(data_.data() + place.offset, static_cast<size_t>(place.elements * 4)));
    return fsync(fd) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
  }

  absl::Status ReadSafetensors(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, path);
    const absl::Cleanup shut = [&] { close(fd); };
    const auto get = [&](char* at, size_t left) -> absl::Status {
      while (left > 0) {
        const ssize_t n = read(fd, at, std::min(left, kBlock));
        if (n <= 0) return n < 0 ? ErrnoStatus(errno, path) : absl::DataLossError(absl::StrCat(path, " is too short"));
        at += n;
        left -= static_cast<size_t>(n);
      }
      return absl::OkStatus();
    };
    uint64_t length = 0;
    RETURN_IF_ERROR(get(reinterpret_cast<char*>(&length), sizeof(length)));
    if (length > 64 << 20) return absl::DataLossError(absl::StrCat(path, ": its header is too long"));
    std::string text(length, '\0');
    RETURN_IF_ERROR(get(text.data(), text.size()));
    const auto header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object() || header.size() != places_.size()) return absl::DataLossError(absl::StrCat(path, ": its header is not the one written"));
    for (const Place& place : places_) RETURN_IF_ERROR(get(other_.data() + place.offset, static_cast<size_t>(place.elements * 4)));
    return absl::OkStatus();
  }

  const std::vector<Place> places_;
  const int64_t bytes_;
  const Arena data_, other_;
  std::unique_ptr<checkpoint::BackgroundWriter> saver_;
  int64_t step_ = 0;
};

}  // namespace

Measured PlayTraining(int64_t bytes) {
  Program program(bytes);
  RETURN_IF_ERROR(program.Fill());
  std::cout << program.Shape() << std::endl;
  int64_t done = 0;
  for (std::string line; std::getline(std::cin, line); ++done) {
    ASSIGN_OR_RETURN(const nlohmann::json told, program.Do(line));
    std::cout << told << std::endl;
  }
  return nlohmann::json{{"done", done}};
}

}  // namespace spillway::bench
