// Reading: what an attempt has committed, whether it is good, and the newest good one back into memory. Trusts names only as far as
// finding the files: the MANIFEST says what they are, and digests say whether they still are.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

namespace spillway::checkpoint {
namespace {

absl::Status InFile(const std::string& path, const absl::Status& status) { return absl::Status(status.code(), absl::StrCat(path, ": ", status.message())); }

// The manifest says the same as the names of the directories it lies in. A directory outside the layout has no attempt in its name.
absl::Status CheckPlace(const std::string& path, const Manifest& manifest) {
  ASSIGN_OR_RETURN(const int64_t step, ParseStepName(NameOf(path)));
  if (step != manifest.step) return absl::DataLossError(absl::StrCat(path, ": its manifest is of step ", manifest.step));
  auto attempt = ParseAttemptName(NameOf(ParentOf(path)));
  if (attempt.ok() && *attempt != manifest.attempt) {
    return absl::DataLossError(absl::StrCat(path, ": its manifest is of attempt ", manifest.attempt));
  }
  return absl::OkStatus();
}

// A file that its manifest names and that is not there is damage, not absence.
absl::StatusOr<ContainerReader> OpenContainer(Io* io, const std::string& path, const Manifest& manifest, size_t rank) {
  const ManifestFile& file = manifest.files[rank];
  const ContainerFile expected{file.bytes, file.header_sha256};
  auto reader = ContainerReader::Open(io, JoinPath(path, file.name), &expected);
  if (absl::IsNotFound(reader.status())) return absl::DataLossError(reader.status().message());
  if (!reader.ok()) return reader.status();
  const ContainerHeader& header = reader->header();
  if (header.rank != static_cast<int>(rank) || header.world_size != manifest.world_size || header.step != manifest.step) {
    return absl::DataLossError(absl::StrCat(JoinPath(path, file.name), " is of rank ", header.rank, " of ", header.world_size, ", step ", header.step));
  }
  return reader;
}

// Where the parts of a tensor lie.
struct Source {
  const ContainerReader* reader;
  const TensorEntry* entry;
};
using SourceMap = std::multimap<absl::string_view, Source>;

absl::Status FillTarget(const TensorTarget& target, const SourceMap& sources) {
  Slice wanted;
  RETURN_IF_ERROR(CheckTensor(target.name, target.dtype, target.shape, target.slice, target.bytes, &wanted));
  const auto [begin, end] = sources.equal_range(target.name);
  auto misfit = [&](absl::string_view what) { return absl::FailedPreconditionError(absl::StrCat("tensor \"", Printable(target.name), "\" ", what)); };
  if (begin == end) {
    std::vector<std::string> names;
    for (const auto& [name, source] : sources) names.emplace_back(name);
    const std::string nearest = NearestName(target.name, names);
    return misfit(absl::StrCat("is not in the checkpoint", nearest.empty() ? "" : "; nearest: ", nearest));
  }
  const int64_t element_bytes = DTypeBytes(target.dtype);
  const int64_t wanted_elements = *ElementsOf(wanted.extent);
  int64_t filled = 0;
  std::vector<const Slice*> used;  // a replicated part is in several containers: read once
  for (auto it = begin; it != end; ++it) {
    const TensorEntry& entry = *it->second.entry;
    if (entry.dtype != target.dtype || entry.slice.global != wanted.global) {
      return misfit(absl::StrCat("is ", DTypeName(entry.dtype), ShapeText(entry.slice.global), " in the checkpoint, wanted ", DTypeName(target.dtype),
                                 ShapeText(wanted.global)));
    }
    if (std::any_of(used.begin(), used.end(), [&](const Slice* slice) { return *slice == entry.slice; })) continue;
    used.push_back(&entry.slice);
    if (entry.slice == wanted) return it->second.reader->ReadTensor(entry, target.data);
    if (OverlapElements(entry.slice, wanted) == 0) continue;
    std::string part(static_cast<size_t>(entry.byte_length), '\0');
    RETURN_IF_ERROR(it->second.reader->ReadTensor(entry, part.data()));
    filled += CopyOverlap(entry.slice, part.data(), wanted, target.data, element_bytes);
  }
  // Parts that overlap without being equal would count twice and are as wrong as a hole.
  if (filled != wanted_elements) return misfit(absl::StrCat("has ", filled, " of the ", wanted_elements, " elements wanted in the checkpoint's slices"));
  return absl::OkStatus();
}

// Candidates for RestoreNewest, newest first: the steps of one attempt up to a step, then from the parent of that attempt on.
class FallBack {
 public:
  FallBack(std::string attempt_directory, int64_t step_max, Io* io) : directory_(std::move(attempt_directory)), step_max_(step_max), io_(io) {}

  // The steps of the present attempt, newest first.
  absl::StatusOr<std::vector<StepEntry>> Steps() const {
    ASSIGN_OR_RETURN(std::vector<StepEntry> steps, ListCommitted(directory_, io_));
    std::erase_if(steps, [&](const StepEntry& entry) { return entry.step > step_max_; });
    return steps;
  }

  // Goes to the attempt that the present one resumed from; false when it started anew or nobody can tell. Parents have lower numbers,
  // so this ends.
  bool ToParent() {
    auto attempt = ParseAttemptName(NameOf(directory_));
    if (!attempt.ok()) return false;
    auto all = ListCommitted(directory_, io_);  // all manifests of an attempt name the same parent: any readable one will do
    if (!all.ok()) return false;
    for (const StepEntry& entry : *all) {
      auto manifest = ReadManifest(entry.path, nullptr, io_);
      if (!manifest.ok() || !CheckPlace(entry.path, *manifest).ok()) continue;
      if (!manifest->parent || manifest->parent->attempt >= *attempt) return false;
      directory_ = JoinPath(ParentOf(directory_), AttemptName(manifest->parent->attempt));
      step_max_ = manifest->parent->step;
      return true;
    }
    return false;
  }

 private:
  std::string directory_;
  int64_t step_max_;
  Io* const io_;
};

bool FallingBackHelps(const absl::Status& status) {
  return !absl::IsFailedPrecondition(status) && !absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status);
}

absl::Status NothingRestored(const std::string& resume_from, const std::vector<SkippedCheckpoint>& skipped) {
  absl::StatusCode code = absl::StatusCode::kNotFound;
  std::string reasons;
  for (const SkippedCheckpoint& skip : skipped) {
    const absl::StatusCode why = skip.why.code();
    const bool disk = why != absl::StatusCode::kDataLoss && why != absl::StatusCode::kNotFound;
    if (disk)
      code = why;  // worth a retry, so it is what the caller must hear
    else if (code == absl::StatusCode::kNotFound)
      code = why;
    absl::StrAppend(&reasons, reasons.empty() ? ": " : "; ", skip.why.message());
  }
  return absl::Status(code, absl::StrCat("no usable checkpoint from ", resume_from, " back", reasons));
}

}  // namespace

absl::StatusOr<std::vector<StepEntry>> ListCommitted(const std::string& attempt_directory, Io* io) {
  std::vector<StepEntry> steps;
  auto names = io->List(attempt_directory);
  if (absl::IsNotFound(names.status())) return steps;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    auto step = ParseStepName(name);
    if (step.ok()) steps.push_back({JoinPath(attempt_directory, name), *step});
  }
  std::sort(steps.begin(), steps.end(), [](const StepEntry& a, const StepEntry& b) { return a.step > b.step; });
  return steps;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path, std::string* sha256, Io* io) {
  const std::string file = JoinPath(path, kManifestName);
  auto text = ReadWhole(io, file, static_cast<int64_t>(limits::kManifestBytesMax));
  if (absl::IsInvalidArgument(text.status())) return absl::DataLossError(text.status().message());  // impossible size, not a file
  if (!text.ok()) return text.status();
  auto manifest = DecodeManifest(*text, sha256);
  if (!manifest.ok()) return InFile(file, manifest.status());
  return manifest;
}

absl::StatusOr<CommittedCheckpoint> Verify(const std::string& path, VerifyLevel level, const std::string& job_uid, Io* io) {
  CommittedCheckpoint checkpoint{.path = path};
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(path, &checkpoint.manifest_sha256, io));
  RETURN_IF_ERROR(CheckPlace(path, manifest));
  if (!job_uid.empty() && manifest.job_uid != job_uid) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is of job ", Printable(manifest.job_uid), ", not of ", job_uid));
  }
  checkpoint.attempt = manifest.attempt;
  checkpoint.step = manifest.step;
  checkpoint.bytes = manifest.Bytes();
  if (level == VerifyLevel::kManifest) return checkpoint;
  for (size_t rank = 0; rank < manifest.files.size(); ++rank) {
    ASSIGN_OR_RETURN(const ContainerReader reader, OpenContainer(io, path, manifest, rank));
    if (level == VerifyLevel::kFull) RETURN_IF_ERROR(reader.VerifyAll());
  }
  return checkpoint;
}

absl::StatusOr<Manifest> Restore(const std::string& path, const std::vector<TensorTarget>& targets, Io* io) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(path, nullptr, io));
  RETURN_IF_ERROR(CheckPlace(path, manifest));
  std::vector<ContainerReader> readers;
  readers.reserve(manifest.files.size());
  for (size_t rank = 0; rank < manifest.files.size(); ++rank) {
    ASSIGN_OR_RETURN(ContainerReader reader, OpenContainer(io, path, manifest, rank));
    readers.push_back(std::move(reader));
  }
  SourceMap sources;
  for (const ContainerReader& reader : readers) {
    for (const TensorEntry& entry : reader.header().tensors) sources.insert({entry.name, {&reader, &entry}});
  }
  for (const TensorTarget& target : targets) RETURN_IF_ERROR(FillTarget(target, sources));
  return manifest;
}

absl::StatusOr<Restored> RestoreNewest(const std::string& resume_from, const std::vector<TensorTarget>& targets, const std::string& job_uid, Io* io) {
  auto step = ParseStepName(NameOf(resume_from));
  FallBack fall_back(step.ok() ? ParentOf(resume_from) : resume_from, step.ok() ? *step : kStepMax, io);
  Restored restored;
  // The one asked for is named in the report even when it is not there any more.
  if (step.ok()) {
    ASSIGN_OR_RETURN(const bool exists, io->Exists(resume_from));
    if (!exists) restored.skipped.push_back({resume_from, absl::NotFoundError(absl::StrCat(resume_from, " is not there"))});
  }
  do {
    ASSIGN_OR_RETURN(const std::vector<StepEntry> steps, fall_back.Steps());
    for (const StepEntry& entry : steps) {
      auto verified = Verify(entry.path, VerifyLevel::kHeaders, job_uid, io);
      absl::Status why = verified.status();
      if (why.ok()) {
        auto manifest = Restore(entry.path, targets, io);
        if (manifest.ok()) {
          restored.checkpoint = *std::move(verified);
          restored.manifest = *std::move(manifest);
          return restored;
        }
        why = manifest.status();
      }
      if (!FallingBackHelps(why)) return why;
      restored.skipped.push_back({entry.path, why});
    }
  } while (fall_back.ToParent());
  return NothingRestored(resume_from, restored.skipped);
}

absl::StatusOr<ScanResult> ScanAttempt(const std::string& attempt_directory, const ScanOptions& options) {
  ScanResult result;
  ASSIGN_OR_RETURN(const std::vector<StepEntry> steps, ListCommitted(attempt_directory, options.io));
  for (const StepEntry& entry : steps) {
    auto checkpoint = Verify(entry.path, options.level, options.job_uid, options.io);
    if (!checkpoint.ok()) {
      result.bad.push_back({entry.path, checkpoint.status()});
      continue;
    }
    result.committed.push_back(*std::move(checkpoint));
    if (options.newest_only) break;
  }
  return result;
}

}  // namespace spillway::checkpoint
