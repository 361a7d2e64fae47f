// The C ABI: translates types and errors and decides nothing. No exception and no C++ type leaves it.
#include "spillway/checkpoint_c.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/key_source.h"
#include "checkpoint/run_env.h"

using spillway::checkpoint::CommittedCheckpoint;
using spillway::checkpoint::DType;
using spillway::checkpoint::Metadata;
using spillway::checkpoint::NoticeWatcher;
using spillway::checkpoint::Opened;
using spillway::checkpoint::Reader;
using spillway::checkpoint::Reporter;
using spillway::checkpoint::RetentionPolicy;
using spillway::checkpoint::RunEnv;
using spillway::checkpoint::SecretKey;
using spillway::checkpoint::Slice;
using spillway::checkpoint::StoredTensor;
using spillway::checkpoint::TensorTarget;
using spillway::checkpoint::TensorView;
using spillway::checkpoint::Writer;
using spillway::checkpoint::WriterOptions;

struct spw_writer {
  Writer writer;
  std::string saved_path;
  std::string pruning_error;
};

struct spw_reader {
  CommittedCheckpoint checkpoint;
  Reader reader;
  std::vector<StoredTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::pair<std::string, std::string>> skipped;
};

struct spw_run {
  RunEnv env;
  Reporter reporter;
  NoticeWatcher notice;
  std::string reason;
};

namespace {

thread_local std::string last_error;

int32_t Give(const absl::Status& status) {
  last_error = status.ok() ? "" : std::string(status.message());
  return static_cast<int32_t>(status.code());
}

// Runs what may throw for want of memory; a C caller must not see that.
template <typename F>
int32_t Guarded(F&& body) {
  try {
    return Give(body());
  } catch (const std::exception& e) {
    return Give(absl::ResourceExhaustedError(e.what()));
  }
}

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

absl::Status Missing(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(what, " is NULL")); }

// Views and targets differ only in whether data may be written.
template <typename T>
absl::StatusOr<T> TensorOf(const spw_tensor& given) {
  if (given.struct_size < sizeof(spw_tensor)) return absl::InvalidArgumentError("spw_tensor.struct_size is too small; set it to sizeof(spw_tensor)");
  if (given.name == nullptr) return Missing("spw_tensor.name");
  auto bad = [&](absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("tensor \"", given.name, "\": ", what)); };
  if (given.dims < 0 || given.dims > spillway::checkpoint::kDimsMax) return bad(absl::StrCat(given.dims, " dimensions; want 0 to 16"));
  if (given.dtype < 0 || given.dtype > UINT8_MAX) return bad(absl::StrCat("unknown dtype code ", given.dtype));
  if (given.dims > 0 && given.shape == nullptr) return bad("shape is NULL");
  if (given.data == nullptr && given.bytes != 0) return bad("data is NULL");
  if ((given.global_shape == nullptr) != (given.offset == nullptr)) return bad("global_shape and offset go together");
  T tensor;
  tensor.name = given.name;
  tensor.dtype = static_cast<DType>(given.dtype);
  tensor.shape.assign(given.shape, given.shape + given.dims);
  tensor.data = given.data;
  tensor.bytes = given.bytes;
  if (given.global_shape != nullptr) {
    tensor.slice = Slice{{given.global_shape, given.global_shape + given.dims}, {given.offset, given.offset + given.dims}, tensor.shape};
  }
  return tensor;
}

// A caller that was built against a shorter structure gets what it knows.
void Fill(const CommittedCheckpoint& checkpoint, spw_checkpoint* out) {
  if (out == nullptr) return;
  spw_checkpoint filled{};
  filled.struct_size = out->struct_size;
  filled.attempt = checkpoint.attempt;
  filled.step = checkpoint.step;
  filled.bytes = checkpoint.bytes;
  std::memcpy(filled.manifest_sha256, checkpoint.manifest_sha256.c_str(), std::min(checkpoint.manifest_sha256.size() + 1, sizeof(filled.manifest_sha256)));
  filled.manifest_sha256[64] = '\0';
  std::memcpy(out, &filled, std::min(out->struct_size, sizeof(filled)));
}

template <typename T>
int32_t PairAt(const T& pairs, size_t index, const char** first, const char** second) {
  if (index >= pairs.size()) return Give(absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", pairs.size())));
  if (first != nullptr) *first = pairs[index].first.c_str();
  if (second != nullptr) *second = pairs[index].second.c_str();
  return Give(absl::OkStatus());
}

using Key = std::optional<SecretKey>;

Key KeyAt(const unsigned char* bytes) {
  if (bytes == nullptr) return std::nullopt;
  return SecretKey::Of({reinterpret_cast<const char*>(bytes), SecretKey::kBytes});
}

const SecretKey* PointerTo(const Key& key) { return key ? &*key : nullptr; }

spw_reader* Wrap(Opened opened) {
  auto wrapped = std::make_unique<spw_reader>(spw_reader{std::move(opened.checkpoint), std::move(opened.reader), {}, {}, {}});
  wrapped->tensors = wrapped->reader.Tensors();
  for (const auto& [key, value] : wrapped->reader.manifest().metadata) wrapped->metadata.emplace_back(key, value);
  for (const auto& skipped : opened.skipped) wrapped->skipped.emplace_back(skipped.path, std::string(skipped.why.message()));
  return wrapped.release();
}

// A call that takes no key asks the environment, and only once everything else about it is right.
using KeySource = std::function<absl::StatusOr<Key>()>;

absl::Status OpenWriter(const spw_writer_options* given, const KeySource& key, spw_writer** out) {
  if (out == nullptr) return Missing("out");
  *out = nullptr;
  if (given == nullptr) return Missing("options");
  if (given->struct_size < sizeof(*given)) return absl::InvalidArgumentError("options are not initialised: call spw_writer_options_init");
  WriterOptions options;
  options.directory = TextOf(given->directory);
  options.job_uid = TextOf(given->job_uid);
  options.attempt = given->attempt;
  if (given->parent_attempt != 0) options.parent = {given->parent_attempt, given->parent_step};
  options.rank = given->rank;
  options.world_size = given->world_size;
  options.peers_wait_ms = given->peers_wait_ms;
  if (given->keep_last == 0 && (given->keep_best != 0 || given->keep_every != 0)) return absl::InvalidArgumentError("keep_best and keep_every need keep_last");
  if (given->keep_last != 0) {
    options.retention = RetentionPolicy{given->keep_last, given->keep_best, TextOf(given->metric), given->maximize != 0, given->keep_every};
  }
  ASSIGN_OR_RETURN(options.key, key());
  ASSIGN_OR_RETURN(Writer writer, Writer::Open(std::move(options)));
  *out = new spw_writer{std::move(writer), "", ""};
  return absl::OkStatus();
}

absl::Status OpenReader(const char* path, const KeySource& key_source, spw_reader** out) {
  if (out == nullptr) return Missing("out");
  *out = nullptr;
  if (path == nullptr) return Missing("path");
  ASSIGN_OR_RETURN(const Key key, key_source());
  ASSIGN_OR_RETURN(Reader reader, Reader::Open(path, spillway::checkpoint::RealIo(), PointerTo(key)));
  CommittedCheckpoint checkpoint{path, reader.manifest().attempt, reader.manifest().step, reader.manifest_sha256(), reader.manifest().Bytes()};
  *out = Wrap({std::move(checkpoint), std::move(reader), {}});
  return absl::OkStatus();
}

absl::Status OpenNewestReader(const char* resume_from, const char* job_uid, const KeySource& key_source, spw_reader** out) {
  if (out == nullptr) return Missing("out");
  *out = nullptr;
  if (resume_from == nullptr) return Missing("resume_from");
  ASSIGN_OR_RETURN(const Key key, key_source());
  ASSIGN_OR_RETURN(Opened opened, spillway::checkpoint::OpenNewest(resume_from, TextOf(job_uid), spillway::checkpoint::RealIo(), PointerTo(key)));
  *out = Wrap(std::move(opened));
  return absl::OkStatus();
}

}  // namespace

extern "C" {

uint32_t spw_abi_version(void) { return 2; }
const char* spw_library_version(void) { return spillway::checkpoint::kLibraryVersion; }
const char* spw_last_error(void) { return last_error.c_str(); }

int32_t spw_key_from_file(const char* path, unsigned char* key) {
  return Guarded([&]() -> absl::Status {
    if (path == nullptr || key == nullptr) return Missing(path == nullptr ? "path" : "key");
    ASSIGN_OR_RETURN(const SecretKey read, spillway::checkpoint::KeyFromFile(path));
    std::memcpy(key, read.view().data(), SecretKey::kBytes);
    return absl::OkStatus();
  });
}

int32_t spw_rewrap(const char* path, const unsigned char* old_key, const unsigned char* new_key, int32_t keep_old) {
  return Guarded([&]() -> absl::Status {
    if (path == nullptr || old_key == nullptr || new_key == nullptr) return Missing("an argument");
    return spillway::checkpoint::RewrapKey(path, *KeyAt(old_key), *KeyAt(new_key), keep_old != 0);
  });
}

void spw_writer_options_init(spw_writer_options* options) {
  *options = spw_writer_options{};
  options->struct_size = sizeof(*options);
  options->world_size = 1;
  options->peers_wait_ms = WriterOptions().peers_wait_ms;
}

int32_t spw_writer_open(const spw_writer_options* given, spw_writer** out) {
  return Guarded([&] { return OpenWriter(given, spillway::checkpoint::KeyFromEnvironment, out); });
}

int32_t spw_writer_open_with_key(const spw_writer_options* given, const unsigned char* key, spw_writer** out) {
  return Guarded([&] {
    return OpenWriter(
        given, [&] { return KeyAt(key); }, out);
  });
}

void spw_writer_close(spw_writer* writer) { delete writer; }

int64_t spw_writer_attempt(const spw_writer* writer) { return writer->writer.options().attempt; }

int32_t spw_writer_save(spw_writer* writer, int64_t step, const spw_tensor* tensors, size_t tensor_count, const char* const* metadata, size_t metadata_count,
                        spw_checkpoint* out) {
  return Guarded([&]() -> absl::Status {
    if (writer == nullptr) return Missing("writer");
    if (tensors == nullptr && tensor_count > 0) return Missing("tensors");
    if (metadata == nullptr && metadata_count > 0) return Missing("metadata");
    std::vector<TensorView> views;
    for (size_t i = 0; i < tensor_count; ++i) {
      ASSIGN_OR_RETURN(TensorView view, TensorOf<TensorView>(tensors[i]));
      views.push_back(std::move(view));
    }
    Metadata pairs;
    for (size_t i = 0; i < metadata_count; ++i) {
      if (metadata[2 * i] == nullptr || metadata[2 * i + 1] == nullptr) return Missing(absl::StrCat("metadata pair ", i));
      pairs[metadata[2 * i]] = metadata[2 * i + 1];
    }
    ASSIGN_OR_RETURN(const CommittedCheckpoint saved, writer->writer.Save(step, views, pairs));
    writer->saved_path = saved.path;
    writer->pruning_error = std::string(writer->writer.standing().pruning.message());
    Fill(saved, out);
    return absl::OkStatus();
  });
}

const char* spw_writer_saved_path(const spw_writer* writer) { return writer->saved_path.c_str(); }
const char* spw_writer_pruning_error(const spw_writer* writer) { return writer->pruning_error.c_str(); }

int32_t spw_reader_open(const char* path, spw_reader** out) {
  return Guarded([&] { return OpenReader(path, spillway::checkpoint::KeyFromEnvironment, out); });
}

int32_t spw_reader_open_with_key(const char* path, const unsigned char* key, spw_reader** out) {
  return Guarded([&] {
    return OpenReader(
        path, [&] { return KeyAt(key); }, out);
  });
}

int32_t spw_reader_open_newest(const char* resume_from, const char* job_uid, spw_reader** out) {
  return Guarded([&] { return OpenNewestReader(resume_from, job_uid, spillway::checkpoint::KeyFromEnvironment, out); });
}

int32_t spw_reader_open_newest_with_key(const char* resume_from, const char* job_uid, const unsigned char* key, spw_reader** out) {
  return Guarded([&] {
    return OpenNewestReader(
        resume_from, job_uid, [&] { return KeyAt(key); }, out);
  });
}

void spw_reader_close(spw_reader* reader) { delete reader; }

void spw_reader_checkpoint(const spw_reader* reader, spw_checkpoint* out) { Fill(reader->checkpoint, out); }
const char* spw_reader_path(const spw_reader* reader) { return reader->checkpoint.path.c_str(); }
size_t spw_reader_tensor_count(const spw_reader* reader) { return reader->tensors.size(); }

int32_t spw_reader_tensor(const spw_reader* reader, size_t index, spw_tensor_info* out) {
  if (index >= reader->tensors.size()) return Give(absl::InvalidArgumentError(absl::StrCat("tensor ", index, " of ", reader->tensors.size())));
  const StoredTensor& tensor = reader->tensors[index];
  const spw_tensor_info info{out->struct_size, tensor.name.c_str(), static_cast<int32_t>(tensor.dtype), static_cast<int32_t>(tensor.shape.size()),
                             tensor.shape.data()};
  std::memcpy(out, &info, std::min(out->struct_size, sizeof(info)));
  return Give(absl::OkStatus());
}

size_t spw_reader_metadata_count(const spw_reader* reader) { return reader->metadata.size(); }
int32_t spw_reader_metadata(const spw_reader* reader, size_t index, const char** key, const char** value) {
  return PairAt(reader->metadata, index, key, value);
}
size_t spw_reader_skipped_count(const spw_reader* reader) { return reader->skipped.size(); }
int32_t spw_reader_skipped(const spw_reader* reader, size_t index, const char** path, const char** why) { return PairAt(reader->skipped, index, path, why); }

int32_t spw_reader_read(const spw_reader* reader, const spw_tensor* target) {
  return Guarded([&]() -> absl::Status {
    if (reader == nullptr || target == nullptr) return Missing(reader == nullptr ? "reader" : "target");
    ASSIGN_OR_RETURN(const TensorTarget tensor, TensorOf<TensorTarget>(*target));
    return reader->reader.Read(tensor);
  });
}

int32_t spw_run_from_environment(spw_run** out) {
  return Guarded([&]() -> absl::Status {
    if (out == nullptr) return Missing("out");
    *out = nullptr;
    ASSIGN_OR_RETURN(RunEnv env, RunEnv::FromEnvironment());
    ASSIGN_OR_RETURN(Reporter reporter, Reporter::Open(env.socket));
    NoticeWatcher notice(env.notice_file);
    *out = new spw_run{std::move(env), std::move(reporter), std::move(notice), ""};
    return absl::OkStatus();
  });
}

void spw_run_close(spw_run* run) { delete run; }
int32_t spw_run_under_spillway(const spw_run* run) { return run->env.under_spillway ? 1 : 0; }
int64_t spw_run_attempt(const spw_run* run) { return run->env.attempt; }
const char* spw_run_job_uid(const spw_run* run) { return run->env.job_uid.c_str(); }
const char* spw_run_checkpoint_dir(const spw_run* run) { return run->env.checkpoint_dir.c_str(); }
const char* spw_run_resume_from(const spw_run* run) { return run->env.resume_from.c_str(); }

int32_t spw_run_notice(spw_run* run, const char** reason, int64_t* ms_left) {
  const auto notice = run->notice.Check();
  if (!notice) return 0;
  run->reason = notice->reason;
  if (reason != nullptr) *reason = run->reason.c_str();
  if (ms_left != nullptr) *ms_left = notice->ms_left.value_or(-1);
  return 1;
}

void spw_run_progress(spw_run* run, int64_t step, int64_t total, const char* const* metric_names, const double* metric_values, size_t metric_count) {
  std::map<std::string, double> metrics;
  for (size_t i = 0; i < metric_count; ++i) metrics[metric_names[i]] = metric_values[i];
  run->reporter.Progress(step, total, metrics);
}

int32_t spw_run_report_checkpoint(spw_run* run, const spw_checkpoint* checkpoint, const char* path) {
  return Guarded([&]() -> absl::Status {
    if (run == nullptr || checkpoint == nullptr || path == nullptr) return Missing("an argument");
    if (checkpoint->struct_size < sizeof(*checkpoint)) return absl::InvalidArgumentError("spw_checkpoint.struct_size is too small");
    return run->reporter.Checkpoint(checkpoint->step, path, checkpoint->manifest_sha256, checkpoint->bytes);
  });
}

int32_t spw_run_report_completed(spw_run* run) {
  return Guarded([&] { return run->reporter.Completed(); });
}

}  // extern "C"
