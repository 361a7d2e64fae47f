#include "client/commands/checkpoint_files.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/key_source.h"
#include "checkpoint/safetensors.h"

namespace spillway::client {
namespace {

using checkpoint::CommittedCheckpoint;
using checkpoint::DType;
using checkpoint::Manifest;
using checkpoint::Reader;
using checkpoint::SecretKey;
using checkpoint::StepEntry;
using checkpoint::StoredTensor;
using checkpoint::VerifyLevel;
using Json = nlohmann::json;

constexpr int64_t kCompareBytes = 16 << 20;

int Print(Context& context, const Json& json) {
  *context.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  return kExitOk;
}

// The steps below a directory, or the step that the path is.
absl::StatusOr<std::vector<StepEntry>> StepsAt(const std::string& path) {
  if (const auto step = checkpoint::ParseStepName(checkpoint::NameOf(path)); step.ok()) return std::vector<StepEntry>{{path, *step}};
  if (!PathExists(path)) return absl::NotFoundError(absl::StrCat(Printable(path), " is not there"));
  ASSIGN_OR_RETURN(std::vector<StepEntry> steps, checkpoint::ListCommitted(path));
  if (steps.empty()) return absl::NotFoundError(absl::StrCat(Printable(path), " holds no checkpoint: no directory like step-000000000120"));
  return steps;
}

// The one meant by a path: itself, or the newest good one of a directory. Which that is nobody needs a key for.
absl::StatusOr<std::string> OneAt(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<StepEntry> steps, StepsAt(path));
  if (steps.size() == 1) return steps[0].path;
  ASSIGN_OR_RETURN(const checkpoint::Opened newest, checkpoint::OpenNewestLocked(path));
  return newest.checkpoint.path;
}

const SecretKey* PointerTo(const std::optional<SecretKey>& key) { return key ? &*key : nullptr; }

int64_t BytesOf(const StoredTensor& tensor) { return checkpoint::ElementsOf(tensor.shape).value_or(0) * checkpoint::DTypeBytes(tensor.dtype); }

std::string RefText(const std::optional<checkpoint::CheckpointRef>& ref) {
  return ref ? absl::StrCat("step ", ref->step, " of attempt ", ref->attempt) : "nothing: it began anew";
}

struct Difference {
  std::string name;
  std::string what;
};

// Elements that are not the same bits.
absl::StatusOr<int64_t> DifferingElements(const Reader& a, const Reader& b, const StoredTensor& tensor) {
  const int64_t item = checkpoint::DTypeBytes(tensor.dtype);
  // Rows of the first dimension at a time, so that a large tensor does not need twice its size.
  const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  const int64_t bytes = BytesOf(tensor);
  if (bytes == 0) return 0;
  const int64_t row_bytes = bytes / rows;
  const int64_t rows_at_once = std::max<int64_t>(1, kCompareBytes / row_bytes);
  int64_t different = 0;
  std::string left, right;
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    const int64_t n = std::min(rows_at_once, rows - row);
    auto target = [&](std::string* into) {
      into->resize(static_cast<size_t>(n * row_bytes));
      checkpoint::TensorTarget part{tensor.name, tensor.dtype, tensor.shape, into->data(), n * row_bytes};
      if (!tensor.shape.empty()) {
        part.shape[0] = n;
        checkpoint::Slice slice{tensor.shape, std::vector<int64_t>(tensor.shape.size(), 0), part.shape};
        slice.offset[0] = row;
        part.slice = std::move(slice);
      }
      return part;
    };
    RETURN_IF_ERROR(a.Read(target(&left)));
    RETURN_IF_ERROR(b.Read(target(&right)));
    if (left == right) continue;
    for (size_t at = 0; at < left.size(); at += static_cast<size_t>(item)) {
      different += std::memcmp(left.data() + at, right.data() + at, static_cast<size_t>(item)) != 0;
    }
  }
  return different;
}

absl::StatusOr<std::vector<Difference>> Compare(const Reader& a, const Reader& b) {
  std::map<std::string, StoredTensor> left, right;
  for (StoredTensor& tensor : a.Tensors()) left[tensor.name] = tensor;
  for (StoredTensor& tensor : b.Tensors()) right[tensor.name] = tensor;
  std::vector<Difference> differences;
  for (const auto& [name, tensor] : left) {
    const auto other = right.find(name);
    if (other == right.end()) {
      differences.push_back({name, "only in the first"});
      continue;
    }
    auto form = [](const StoredTensor& t) { return absl::StrCat(checkpoint::DTypeName(t.dtype), checkpoint::ShapeText(t.shape)); };
    if (form(tensor) != form(other->second)) {
      differences.push_back({name, absl::StrCat(form(tensor), " and ", form(other->second))});
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t elements, DifferingElements(a, b, tensor));
    if (elements > 0) differences.push_back({name, absl::StrCat(elements, " of ", *checkpoint::ElementsOf(tensor.shape), " elements differ")});
  }
  for (const auto& [name, tensor] : right) {
    if (left.count(name) == 0) differences.push_back({name, "only in the second"});
  }
  return differences;
}

}  // namespace

int ListCheckpointDirectory(Context& context, const std::string& directory) {
  ASSIGN_OR_FAIL(context, const std::vector<StepEntry> steps, StepsAt(directory));
  Table table({">STEP", ">SIZE", "ATTEMPT", "SAVED", "STATE", "PATH"});
  Json json = Json::array();
  for (const StepEntry& entry : steps) {
    const auto good = checkpoint::Verify(entry.path, VerifyLevel::kHeaders);
    const auto manifest = good.ok() ? checkpoint::ReadManifest(entry.path) : good.status();
    if (manifest.ok()) {
      table.Add({absl::StrCat(entry.step), FormatBytes(manifest->Bytes()), absl::StrCat(manifest->attempt), manifest->created,
                 manifest->encryption ? "whole, encrypted" : "whole", Printable(entry.path)});
      json.push_back({{"step", entry.step},
                      {"bytes", manifest->Bytes()},
                      {"attempt", manifest->attempt},
                      {"created", manifest->created},
                      {"manifest_sha256", good->manifest_sha256},
                      {"encrypted", manifest->encryption.has_value()},
                      {"path", entry.path},
                      {"error", ""}});
    } else {
      table.Add({absl::StrCat(entry.step), "", "", "", Table::Cell("damaged", Colour::kRed), Printable(entry.path)});
      json.push_back({{"step", entry.step}, {"path", entry.path}, {"error", std::string(manifest.status().message())}});
    }
  }
  if (context.json) return Print(context, {{"checkpoints", json}});
  *context.out << table.Render(context.colours);
  return kExitOk;
}

int ShowCheckpoint(Context& context, const std::string& path) {
  ASSIGN_OR_FAIL(context, const std::string one, OneAt(path));
  ASSIGN_OR_FAIL(context, const std::optional<SecretKey> key, checkpoint::KeyFromEnvironment());
  ASSIGN_OR_FAIL(context, const Manifest found, checkpoint::ReadManifest(one));
  const bool locked = found.encryption && !key;
  ASSIGN_OR_FAIL(context, const Reader reader, found.encryption&& key ? Reader::Open(one, checkpoint::RealIo(), &*key) : Reader::OpenLocked(one));
  const Manifest& m = reader.manifest();
  if (context.json) {
    Json json = {{"path", one},
                 {"step", m.step},
                 {"attempt", m.attempt},
                 {"job_uid", m.job_uid},
                 {"parent", Json(nullptr)},
                 {"world_size", m.world_size},
                 {"bytes", m.Bytes()},
                 {"created", m.created},
                 {"library_version", m.library_version},
                 {"manifest_sha256", reader.manifest_sha256()},
                 {"encrypted", m.encryption.has_value()},
                 {"metadata", m.metadata},
                 {"tensors", Json::array()}};
    if (m.parent) json["parent"] = {{"attempt", m.parent->attempt}, {"step", m.parent->step}};
    if (locked) json["metadata"] = nullptr;
    for (const StoredTensor& tensor : reader.Tensors()) {
      json["tensors"].push_back(
          {{"name", tensor.name}, {"dtype", std::string(checkpoint::DTypeName(tensor.dtype))}, {"shape", tensor.shape}, {"bytes", BytesOf(tensor)}});
    }
    return Print(context, json);
  }
  *context.out << "path      " << Printable(one) << "\nstep      " << m.step << " of attempt " << m.attempt << "\nfrom      " << RefText(m.parent)
               << "\nsaved     " << Printable(m.created) << " by " << m.world_size << (m.world_size == 1 ? " process" : " processes") << ", library "
               << Printable(m.library_version, 40) << "\nsize      " << FormatBytes(m.Bytes()) << "\nmanifest  " << reader.manifest_sha256() << '\n';
  if (!m.job_uid.empty()) *context.out << "job       " << Printable(m.job_uid) << '\n';
  if (m.encryption)
    *context.out << "data key  " << m.encryption->data_key_id << (locked ? "\nlocked    no key is given: metadata and content are not shown" : "") << '\n';
  for (const auto& [name, value] : m.metadata) *context.out << "          " << Printable(name) << " = " << Printable(value) << '\n';
  Table table({"TENSOR", "TYPE", "SHAPE", ">SIZE"});
  for (const StoredTensor& tensor : reader.Tensors()) {
    table.Add({Printable(tensor.name), std::string(checkpoint::DTypeName(tensor.dtype)), checkpoint::ShapeText(tensor.shape), FormatBytes(BytesOf(tensor))});
  }
  *context.out << '\n' << (table.empty() ? "no tensors\n" : table.Render(context.colours));
  return kExitOk;
}

int VerifyCheckpoints(Context& context, const std::vector<std::string>& paths) {
  ASSIGN_OR_FAIL(context, const std::optional<SecretKey> key, checkpoint::KeyFromEnvironment());
  Json json = Json::array();
  int64_t damaged = 0;
  for (const std::string& path : paths) {
    ASSIGN_OR_FAIL(context, const std::vector<StepEntry> steps, StepsAt(path));
    for (const StepEntry& entry : steps) {
      const auto manifest = checkpoint::ReadManifest(entry.path);
      const bool encrypted = manifest.ok() && manifest->encryption.has_value(), authenticated = encrypted && key.has_value();
      const auto good = checkpoint::Verify(entry.path, VerifyLevel::kFull, "", checkpoint::RealIo(), authenticated ? &*key : nullptr);
      if (absl::IsUnauthenticated(good.status())) return context.Fail(good.status());  // nothing is said of the checkpoint by a wrong key
      damaged += !good.ok();
      json.push_back({{"path", entry.path},
                      {"ok", good.ok()},
                      {"encrypted", encrypted},
                      {"authenticated", good.ok() && authenticated},
                      {"error", good.ok() ? "" : std::string(good.status().message())}});
      if (context.json) continue;
      if (good.ok()) {
        *context.out << context.Painted("good     ", Colour::kGreen) << Printable(entry.path) << ", " << FormatBytes(good->bytes)
                     << (authenticated ? ", authenticated"
                         : encrypted   ? ", encrypted; without the key nobody can say whose it is"
                                       : "")
                     << '\n';
      } else {
        *context.out << context.Painted("damaged  ", Colour::kRed) << Printable(std::string(good.status().message()), 1000) << '\n';
      }
    }
  }
  if (context.json) Print(context, {{"checkpoints", json}});
  if (damaged == 0) return kExitOk;
  return context.Fail(absl::DataLossError(absl::StrCat(damaged, " of ", json.size(), json.size() == 1 ? " checkpoint is" : " checkpoints are", " damaged")));
}

int ExportCheckpoint(Context& context, const std::string& path, const std::string& target, const CheckpointFileOptions& options) {
  int64_t shard_bytes = 0;
  if (!options.shard_size.empty()) {
    ASSIGN_OR_FAIL(context, shard_bytes, ParseBytes(options.shard_size));
    if (shard_bytes < 1) return context.Fail(absl::InvalidArgumentError("--shard-size is 0; want a size such as 5GB"));
  }
  ASSIGN_OR_FAIL(context, const std::string one, OneAt(path));
  // A file that others load is no place for bytes that were not checked.
  ASSIGN_OR_FAIL(context, const std::optional<SecretKey> key, checkpoint::KeyFromEnvironment());
  OR_FAIL(context, checkpoint::Verify(one, VerifyLevel::kFull, "", checkpoint::RealIo(), PointerTo(key)).status());
  ASSIGN_OR_FAIL(context, const std::vector<checkpoint::ExportedFile> files,
                 checkpoint::ExportSafetensors(one, target, shard_bytes, checkpoint::RealIo(), PointerTo(key)));
  Json json = Json::array();
  for (const checkpoint::ExportedFile& file : files) {
    json.push_back({{"path", file.path}, {"bytes", file.bytes}, {"tensors", file.tensors}});
    if (!context.json) *context.out << Printable(file.path) << ": " << Counted(file.tensors, "tensor", "tensors") << ", " << FormatBytes(file.bytes) << '\n';
  }
  return context.json ? Print(context, {{"files", json}}) : kExitOk;
}

int ImportCheckpoint(Context& context, const std::string& source, const std::string& directory, const CheckpointFileOptions& options) {
  if (!options.step) return context.Fail(absl::InvalidArgumentError("which step is it to be? Say --step N"));
  ASSIGN_OR_FAIL(context, const checkpoint::LoadedSafetensors loaded, checkpoint::LoadSafetensors(source));
  checkpoint::WriterOptions writing;
  writing.directory = directory;
  writing.attempt = 0;
  ASSIGN_OR_FAIL(context, writing.key, checkpoint::KeyFromEnvironment());
  ASSIGN_OR_FAIL(context, checkpoint::Writer writer, checkpoint::Writer::Open(std::move(writing)));
  ASSIGN_OR_FAIL(context, const CommittedCheckpoint saved, writer.Save(*options.step, loaded.tensors, loaded.metadata));
  if (context.json) return Print(context, {{"path", saved.path}, {"step", saved.step}, {"bytes", saved.bytes}, {"manifest_sha256", saved.manifest_sha256}});
  *context.out << Printable(saved.path) << ", " << FormatBytes(saved.bytes) << '\n';
  return kExitOk;
}

int PruneCheckpoints(Context& context, const std::string& directory, const CheckpointFileOptions& options) {
  const checkpoint::RetentionPolicy policy{options.keep_last, options.keep_best, options.metric, options.maximize, options.keep_every};
  checkpoint::PruneOptions pruning;
  pruning.dry_run = true;
  std::optional<SecretKey> key;
  if (policy.keep_best > 0) {
    ASSIGN_OR_FAIL(context, key, checkpoint::KeyFromEnvironment());
    pruning.key = PointerTo(key);
  }
  ASSIGN_OR_FAIL(context, checkpoint::Pruned pruned, checkpoint::Prune(AbsolutePath(directory), policy, pruning));
  if (!options.dry_run && !pruned.removed.empty()) {
    OR_FAIL(context, context.Confirm(absl::StrCat("Remove ", Counted(static_cast<int64_t>(pruned.removed.size()), "checkpoint", "checkpoints"), ", ",
                                                  FormatBytes(pruned.bytes()), ", from ", Printable(directory), "?")));
    pruning.dry_run = false;
    ASSIGN_OR_FAIL(context, pruned, checkpoint::Prune(AbsolutePath(directory), policy, pruning));
  }
  if (context.json) {
    Json json = {{"dry_run", options.dry_run}, {"removed", Json::array()}, {"kept", Json::array()}, {"damaged", pruned.damaged}, {"bytes", pruned.bytes()}};
    for (const auto& item : pruned.removed) json["removed"].push_back(item.path);
    for (const auto& item : pruned.kept) json["kept"].push_back(item.path);
    return Print(context, json);
  }
  for (const auto& item : pruned.removed) *context.out << (options.dry_run ? "would go  " : "removed   ") << Printable(item.path) << '\n';
  for (const std::string& path : pruned.damaged) *context.out << "damaged   " << Printable(path) << ", left for inspection\n";
  *context.out << Counted(static_cast<int64_t>(pruned.removed.size()), "checkpoint", "checkpoints") << (options.dry_run ? " would go, " : " removed, ")
               << FormatBytes(pruned.bytes()) << "; " << pruned.kept.size() << " kept\n";
  return kExitOk;
}

int DiffCheckpoints(Context& context, const std::string& a, const std::string& b) {
  ASSIGN_OR_FAIL(context, const std::string left, OneAt(a));
  ASSIGN_OR_FAIL(context, const std::string right, OneAt(b));
  ASSIGN_OR_FAIL(context, const std::optional<SecretKey> key, checkpoint::KeyFromEnvironment());
  ASSIGN_OR_FAIL(context, const Reader first, Reader::Open(left, checkpoint::RealIo(), PointerTo(key)));
  ASSIGN_OR_FAIL(context, const Reader second, Reader::Open(right, checkpoint::RealIo(), PointerTo(key)));
  ASSIGN_OR_FAIL(context, const std::vector<Difference> differences, Compare(first, second));
  if (context.json) {
    Json json = {{"first", left}, {"second", right}, {"equal", differences.empty()}, {"differences", Json::array()}};
    for (const Difference& difference : differences) json["differences"].push_back({{"tensor", difference.name}, {"what", difference.what}});
    Print(context, json);
  } else {
    for (const Difference& difference : differences) *context.out << Printable(difference.name) << ": " << difference.what << '\n';
    if (differences.empty()) *context.out << Counted(static_cast<int64_t>(first.Tensors().size()), "tensor", "tensors") << ", all equal bit for bit\n";
  }
  return differences.empty() ? kExitOk : kExitJobFailed;
}

int RewrapCheckpoints(Context& context, const std::vector<std::string>& paths, const CheckpointFileOptions& options) {
  if (options.new_key_file.empty()) return context.Fail(absl::InvalidArgumentError("which key is to open them? Say --new-key-file FILE"));
  ASSIGN_OR_FAIL(context, const std::optional<SecretKey> old_key, checkpoint::KeyFromEnvironment());
  if (!old_key) {
    return context.Fail(absl::UnauthenticatedError(absl::StrCat("no key is given: set ", checkpoint::kKeyFileVariable, " to the one that opens them now")));
  }
  ASSIGN_OR_FAIL(context, const SecretKey new_key, checkpoint::KeyFromFile(options.new_key_file));
  Json json = Json::array();
  int64_t failed = 0;
  absl::Status first;
  for (const std::string& path : paths) {
    ASSIGN_OR_FAIL(context, const std::vector<StepEntry> steps, StepsAt(path));
    for (const StepEntry& entry : steps) {
      absl::Status done = checkpoint::RewrapKey(entry.path, *old_key, new_key, options.keep_old);
      const bool plain = absl::IsFailedPrecondition(done);  // nothing to do, in a run that began without a key
      if (plain) done = absl::OkStatus();
      if (!done.ok() && failed++ == 0) first = done;
      json.push_back({{"path", entry.path}, {"ok", done.ok()}, {"encrypted", !plain}, {"error", std::string(done.message())}});
      if (context.json) continue;
      if (done.ok()) {
        *context.out << (plain ? "plain      " : "rewrapped  ") << Printable(entry.path) << '\n';
      } else {
        *context.out << context.Painted("failed     ", Colour::kRed) << Printable(std::string(done.message()), 1000) << '\n';
      }
    }
  }
  if (context.json) Print(context, {{"checkpoints", json}});
  if (failed == 0) return kExitOk;
  return context.Fail(absl::Status(first.code(), absl::StrCat(failed, " of ", json.size(), json.size() == 1 ? " checkpoint was" : " checkpoints were",
                                                              " not rewrapped: ", first.message())));
}

}  // namespace spillway::client
