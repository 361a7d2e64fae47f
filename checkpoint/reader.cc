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
absl::StatusOr<ContainerReader> OpenContainer(Io* io, const std::string& path, const Manifest& manifest, size_t rank, const SecretKey* data_key) {
  const ManifestFile& file = manifest.files[rank];
  const ContainerFile expected{file.bytes, file.header_sha256};
  auto reader = ContainerReader::Open(io, JoinPath(path, file.name), &expected, data_key);
  if (absl::IsNotFound(reader.status())) return absl::DataLossError(reader.status().message());
  if (!reader.ok()) return reader.status();
  const ContainerHeader& header = reader->header();
  if (header.rank != static_cast<int>(rank) || header.world_size != manifest.world_size || header.step != manifest.step) {
    return absl::DataLossError(absl::StrCat(JoinPath(path, file.name), " is of rank ", header.rank, " of ", header.world_size, ", step ", header.step));
  }
  if (header.encryption.has_value() != manifest.encryption.has_value()) {
    return absl::DataLossError(absl::StrCat(JoinPath(path, file.name), header.encryption ? " is encrypted" : " is not encrypted", ", unlike its manifest"));
  }
  return reader;
}

// Candidates for RestoreNewest, newest first: the steps of one attempt up to a step, then from the parent of that attempt on.
class FallBack {
 public:
  FallBack(std::string attempt_directory, int64_t step_max, Io* io) : directory_(std::move(attempt_directory)), step_max_(step_max), io_(io) {}

  // The steps of the present attempt, newest first.
  absl::StatusOr<std::vector<StepEntry>> Steps() const {
    ASSIGN_OR_RETURN(std::vector<StepEntry> steps, ListCommitted(directory_, io_));
    std::erase_if(steps, [&](const StepEntry& entry) { return entry.step > step_max_; });
    if (!ParseAttemptName(NameOf(directory_)).ok()) PutLaterAttemptsFirst(&steps);
    return steps;
  }

  // A directory outside the layout may hold several attempts, and what a later one wrote is newer at a lower step too: an earlier one that
  // did not know yet that it was replaced may have gone on for a while. The step that was asked for stays first. One whose manifest
  // cannot be read stays behind the next higher step.
  void PutLaterAttemptsFirst(std::vector<StepEntry>* steps) const {
    std::map<int64_t, int64_t> attempt_of;
    int64_t attempt = INT64_MAX;
    for (const StepEntry& entry : *steps) {
      const auto manifest = ReadManifest(entry.path, nullptr, io_);
      if (manifest.ok()) attempt = manifest->attempt;
      attempt_of[entry.step] = entry.step == step_max_ ? INT64_MAX : attempt;
    }
    std::stable_sort(steps->begin(), steps->end(), [&](const StepEntry& a, const StepEntry& b) { return attempt_of[a.step] > attempt_of[b.step]; });
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
  return !absl::IsUnauthenticated(status) && !absl::IsFailedPrecondition(status) && !absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status);
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

// Finds the newest checkpoint that is good to this level and that `use` makes something of; `found` gets it and what was skipped.
absl::Status UseNewest(const std::string& resume_from, const std::string& job_uid, VerifyLevel level, Io* io, const SecretKey* key, Restored* found,
                       const std::function<absl::Status(const std::string& path)>& use) {
  auto step = ParseStepName(NameOf(resume_from));
  FallBack fall_back(step.ok() ? ParentOf(resume_from) : resume_from, step.ok() ? *step : kStepMax, io);
  // The one asked for is named in the report even when it is not there any more.
  if (step.ok()) {
    ASSIGN_OR_RETURN(const bool exists, io->Exists(resume_from));
    if (!exists) found->skipped.push_back({resume_from, absl::NotFoundError(absl::StrCat(resume_from, " is not there"))});
  }
  do {
    ASSIGN_OR_RETURN(const std::vector<StepEntry> steps, fall_back.Steps());
    for (const StepEntry& entry : steps) {
      auto verified = Verify(entry.path, level, job_uid, io, key);
      absl::Status why = verified.status();
      if (why.ok()) why = use(entry.path);
      if (why.ok()) {
        found->checkpoint = *std::move(verified);
        return absl::OkStatus();
      }
      if (!FallingBackHelps(why)) return why;
      found->skipped.push_back({entry.path, why});
    }
  } while (fall_back.ToParent());
  return NothingRestored(resume_from, found->skipped);
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

absl::StatusOr<CommittedCheckpoint> Verify(const std::string& path, VerifyLevel level, const std::string& job_uid, Io* io, const SecretKey* key) {
  CommittedCheckpoint checkpoint{.path = path};
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(path, &checkpoint.manifest_sha256, io));
  RETURN_IF_ERROR(CheckPlace(path, manifest));
  if (!job_uid.empty() && manifest.job_uid != job_uid) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is of job ", Printable(manifest.job_uid), ", not of ", job_uid));
  }
  checkpoint.attempt = manifest.attempt;
  checkpoint.step = manifest.step;
  checkpoint.bytes = manifest.Bytes();
  std::optional<SecretKey> data_key;
  if (key != nullptr) {
    ASSIGN_OR_RETURN(data_key, Unlock(io, path, key, &manifest));
  }
  if (level == VerifyLevel::kManifest) return checkpoint;
  if (key == nullptr) RETURN_IF_ERROR(CheckKeyFile(io, path, manifest));
  for (size_t rank = 0; rank < manifest.files.size(); ++rank) {
    ASSIGN_OR_RETURN(const ContainerReader reader, OpenContainer(io, path, manifest, rank, data_key ? &*data_key : nullptr));
    if (level == VerifyLevel::kFull) RETURN_IF_ERROR(reader.VerifyAll());
  }
  return checkpoint;
}

absl::StatusOr<Reader> Reader::Open(const std::string& path, Io* io, const SecretKey* key) { return OpenWith(path, io, key, /*locked=*/false); }

absl::StatusOr<Reader> Reader::OpenLocked(const std::string& path, Io* io) { return OpenWith(path, io, nullptr, /*locked=*/true); }

absl::StatusOr<Reader> Reader::OpenWith(const std::string& path, Io* io, const SecretKey* key, bool locked) {
  Reader reader;
  ASSIGN_OR_RETURN(reader.manifest_, ReadManifest(path, &reader.manifest_sha256_, io));
  RETURN_IF_ERROR(CheckPlace(path, reader.manifest_));
  std::optional<SecretKey> data_key;
  if (!locked) {
    ASSIGN_OR_RETURN(data_key, Unlock(io, path, key, &reader.manifest_));
  }
  for (size_t rank = 0; rank < reader.manifest_.files.size(); ++rank) {
    ASSIGN_OR_RETURN(ContainerReader container, OpenContainer(io, path, reader.manifest_, rank, data_key ? &*data_key : nullptr));
    const std::vector<TensorEntry>& entries = container.header().tensors;
    for (size_t i = 0; i < entries.size(); ++i) reader.sources_[entries[i].name].push_back({rank, i});
    reader.containers_.push_back(std::move(container));
  }
  return reader;
}

std::vector<StoredTensor> Reader::Tensors() const {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, sources] : sources_) {
    const TensorEntry& entry = EntryOf(sources[0]);
    tensors.push_back({name, entry.dtype, entry.slice.global});
  }
  return tensors;
}

absl::StatusOr<Reader::Plan> Reader::PlanOf(const TensorTarget& target) const {
  Slice wanted;
  RETURN_IF_ERROR(CheckTensor(target.name, target.dtype, target.shape, target.slice, target.bytes, &wanted));
  auto misfit = [&](absl::string_view what) { return absl::FailedPreconditionError(absl::StrCat("tensor \"", Printable(target.name), "\" ", what)); };
  const auto found = sources_.find(target.name);
  if (found == sources_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, sources] : sources_) names.push_back(name);
    const std::string nearest = NearestName(target.name, names);
    return misfit(absl::StrCat("is not in the checkpoint", nearest.empty() ? "" : "; nearest: ", nearest));
  }
  const int64_t wanted_elements = *ElementsOf(wanted.extent);
  int64_t filled = 0;
  Plan plan{.wanted = wanted};
  std::vector<const Slice*> used;  // a replicated part is in several containers: read once
  for (const Source& source : found->second) {
    const TensorEntry& entry = EntryOf(source);
    if (entry.dtype != target.dtype || entry.slice.global != wanted.global) {
      return misfit(absl::StrCat("is ", DTypeName(entry.dtype), ShapeText(entry.slice.global), " in the checkpoint, wanted ", DTypeName(target.dtype),
                                 ShapeText(wanted.global)));
    }
    if (std::any_of(used.begin(), used.end(), [&](const Slice* slice) { return *slice == entry.slice; })) continue;
    used.push_back(&entry.slice);
    if (entry.slice == wanted) return Plan{{source}, true, wanted};
    const int64_t shared = OverlapElements(entry.slice, wanted);
    if (shared == 0) continue;
    plan.parts.push_back(source);
    filled += shared;
  }
  // Parts that overlap without being equal would count twice and are as wrong as a hole.
  if (filled != wanted_elements) return misfit(absl::StrCat("has ", filled, " of the ", wanted_elements, " elements wanted in the checkpoint's slices"));
  return plan;
}

absl::Status Reader::Read(const std::vector<TensorTarget>& targets) const {
  // What does not fit is told before anything is read.
  std::vector<Plan> plans;
  std::vector<std::vector<ContainerReader::Wanted>> whole(containers_.size());
  for (const TensorTarget& target : targets) {
    ASSIGN_OR_RETURN(Plan plan, PlanOf(target));
    if (plan.whole) whole[plan.parts[0].container].push_back({&EntryOf(plan.parts[0]), target.data});
    plans.push_back(std::move(plan));
  }
  for (size_t i = 0; i < containers_.size(); ++i) RETURN_IF_ERROR(containers_[i].ReadTensors(whole[i]));
  for (size_t i = 0; i < targets.size(); ++i) {
    if (plans[i].whole) continue;
    for (const Source& source : plans[i].parts) {
      const TensorEntry& entry = EntryOf(source);
      std::string part(static_cast<size_t>(entry.byte_length), '\0');
      RETURN_IF_ERROR(containers_[source.container].ReadTensor(entry, part.data()));
      CopyOverlap(entry.slice, part.data(), plans[i].wanted, targets[i].data, DTypeBytes(targets[i].dtype));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> Restore(const std::string& path, const std::vector<TensorTarget>& targets, Io* io, const SecretKey* key) {
  ASSIGN_OR_RETURN(const Reader reader, Reader::Open(path, io, key));
  RETURN_IF_ERROR(reader.Read(targets));
  return reader.manifest();
}

absl::StatusOr<Restored> RestoreNewest(const std::string& resume_from, const std::vector<TensorTarget>& targets, const std::string& job_uid, Io* io,
                                       const SecretKey* key) {
  Restored restored;
  RETURN_IF_ERROR(UseNewest(resume_from, job_uid, VerifyLevel::kHeaders, io, key, &restored, [&](const std::string& path) -> absl::Status {
    ASSIGN_OR_RETURN(restored.manifest, Restore(path, targets, io, key));
    return absl::OkStatus();
  }));
  return restored;
}

namespace {

absl::StatusOr<Opened> OpenNewestWith(const std::string& resume_from, const std::string& job_uid, VerifyLevel level, Io* io, const SecretKey* key,
                                      const std::function<absl::StatusOr<Reader>(const std::string& path)>& open) {
  Restored found;
  std::optional<Reader> reader;
  RETURN_IF_ERROR(UseNewest(resume_from, job_uid, level, io, key, &found, [&](const std::string& path) -> absl::Status {
    ASSIGN_OR_RETURN(reader, open(path));
    return absl::OkStatus();
  }));
  return Opened{std::move(found.checkpoint), *std::move(reader), std::move(found.skipped)};
}

}  // namespace

absl::StatusOr<Opened> OpenNewest(const std::string& resume_from, const std::string& job_uid, Io* io, const SecretKey* key) {
  return OpenNewestWith(resume_from, job_uid, VerifyLevel::kFull, io, key, [&](const std::string& path) { return Reader::Open(path, io, key); });
}

absl::StatusOr<Opened> OpenNewestLocked(const std::string& resume_from, const std::string& job_uid, Io* io) {
  return OpenNewestWith(resume_from, job_uid, VerifyLevel::kHeaders, io, nullptr, [&](const std::string& path) { return Reader::OpenLocked(path, io); });
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
