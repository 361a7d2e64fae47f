#include "examples/trainer/run_state.h"

#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "checkpoint/key_source.h"

namespace spillway::trainer {
namespace {

using checkpoint::DType;

constexpr char kModelPrefix[] = "model/";

template <typename Tensor, typename Floats>
void AddParameters(const char* prefix, const std::vector<Parameter>& parameters, Floats* floats, std::vector<Tensor>* out) {
  for (const Parameter& p : parameters) {
    out->push_back(Tensor{absl::StrCat(prefix, p.name), DType::kF32, p.shape, floats->data() + p.offset, static_cast<int64_t>(p.size * sizeof(float))});
  }
}

template <typename Tensor, typename State>
std::vector<Tensor> AllTensors(const std::vector<Parameter>& parameters, State* state) {
  std::vector<Tensor> tensors;
  AddParameters(kModelPrefix, parameters, &state->training.weights, &tensors);
  AddParameters("adam.m/", parameters, &state->training.first_moment, &tensors);
  AddParameters("adam.v/", parameters, &state->training.second_moment, &tensors);
  tensors.push_back(Tensor{"state/sampler", DType::kU64, {Sampler::kStateWords}, state->sampler.data(), 8 * Sampler::kStateWords});
  tensors.push_back(Tensor{"state/step", DType::kI64, {}, &state->step, 8});
  return tensors;
}

std::string HashOf(absl::string_view bytes) { return HexOf(Sha256Of(bytes)); }

}  // namespace

std::vector<checkpoint::TensorView> TensorsOf(const std::vector<Parameter>& parameters, const RunState& state) {
  return AllTensors<checkpoint::TensorView>(parameters, &state);
}

std::vector<checkpoint::TensorTarget> TargetsOf(const std::vector<Parameter>& parameters, RunState* state) {
  const size_t count = WeightCount(parameters);
  for (std::vector<float>* v : {&state->training.weights, &state->training.first_moment, &state->training.second_moment}) v->resize(count);
  return AllTensors<checkpoint::TensorTarget>(parameters, state);
}

checkpoint::Metadata MetadataOf(const Options& o, const Dataset& data) {
  return {{"program", "spillway-train"},
          {"--steps", absl::StrCat(o.steps)},  // the learning rate's schedule depends on it
          {"--seed", absl::StrCat(o.seed)},
          {"--layers", absl::StrCat(o.model.layers)},
          {"--dim", absl::StrCat(o.model.dim)},
          {"--heads", absl::StrCat(o.model.heads)},
          {"--context", absl::StrCat(o.model.context)},
          {"--batch", absl::StrCat(o.model.batch)},
          {"--lr", absl::StrFormat("%.17g", o.lr)},
          {"--data", absl::StrCat("sha256 ", data.sha256)}};
}

absl::Status CheckSameRun(const checkpoint::Metadata& wanted, const checkpoint::Metadata& found) {
  for (const auto& [key, value] : wanted) {
    auto it = found.find(key);
    if (it != found.end() && it->second == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint is of another run: ", key, " is ", value, " here and ", it == found.end() ? "not given" : it->second, " there"));
  }
  return absl::OkStatus();
}

std::string WeightsHash(const TrainingState& state) {
  return HashOf(absl::string_view(reinterpret_cast<const char*>(state.weights.data()), state.weights.size() * sizeof(float)));
}

absl::StatusOr<std::string> HashOnDisk(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return absl::NotFoundError(absl::StrCat(path, " is not there"));
  std::string file = path, named;
  std::optional<checkpoint::SecretKey> data_key;
  if (S_ISDIR(st.st_mode)) {
    RETURN_IF_ERROR(checkpoint::Verify(path, checkpoint::VerifyLevel::kFull).status());
    ASSIGN_OR_RETURN(checkpoint::Manifest manifest, checkpoint::ReadManifest(path));
    ASSIGN_OR_RETURN(const std::optional<checkpoint::SecretKey> key, checkpoint::KeyFromEnvironment());
    ASSIGN_OR_RETURN(data_key, checkpoint::Unlock(checkpoint::RealIo(), path, key ? &*key : nullptr, &manifest));
    if (manifest.world_size != 1) return absl::FailedPreconditionError(absl::StrCat(path, " is of ", manifest.world_size, " processes, not of spillway-train"));
    auto it = manifest.metadata.find(kWeightsHashKey);
    if (it != manifest.metadata.end()) named = it->second;
    file = JoinPath(path, manifest.files[0].name);
  }
  ASSIGN_OR_RETURN(const checkpoint::ContainerReader reader,
                   checkpoint::ContainerReader::Open(checkpoint::RealIo(), file, nullptr, data_key ? &*data_key : nullptr));
  Sha256 sha256;
  bool any = false;
  for (const checkpoint::TensorEntry& entry : reader.header().tensors) {
    if (!absl::StartsWith(entry.name, kModelPrefix)) continue;
    std::string bytes(static_cast<size_t>(entry.byte_length), '\0');
    RETURN_IF_ERROR(reader.ReadTensor(entry, bytes.data()));
    sha256.Update(bytes);
    any = true;
  }
  if (!any) return absl::FailedPreconditionError(absl::StrCat(path, " holds no model/ tensors: it is not of spillway-train"));
  const std::string hash = HexOf(sha256.Finish());
  if (!named.empty() && named != hash) return absl::DataLossError(absl::StrCat(path, ": its manifest names ", named, ", its weights have ", hash));
  return hash;
}

absl::Status WriteWeightsFile(const std::string& path, const std::vector<Parameter>& parameters, const RunState& state) {
  std::vector<checkpoint::TensorView> tensors;
  AddParameters(kModelPrefix, parameters, &state.training.weights, &tensors);
  checkpoint::Io* io = checkpoint::RealIo();
  const std::string target = AbsolutePath(path), temporary = target + ".tmp";
  RETURN_IF_ERROR(checkpoint::WriteContainer(io, temporary, 0, 1, state.step, tensors).status());
  RETURN_IF_ERROR(io->RenameReplace(temporary, target));
  return io->SyncDirectory(checkpoint::ParentOf(target));
}

}  // namespace spillway::trainer
