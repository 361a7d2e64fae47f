#include "examples/trainer/backend.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "examples/trainer/cpu_backend.h"

namespace spillway::trainer {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name, const ModelConfig& config, const std::function<void(const std::string&)>& say) {
  if (name == "cuda") return absl::UnimplementedError("--backend cuda: this spillway-train is built without CUDA; use --backend cpu");
  if (name == "auto") {
    say("backend: built without CUDA, using the CPU");
  } else if (name != "cpu") {
    const std::string nearest = NearestName(name, {"auto", "cpu", "cuda"});
    return absl::InvalidArgumentError(
        absl::StrCat("--backend \"", Printable(name), "\": want auto, cpu or cuda", nearest.empty() ? "" : absl::StrCat("; nearest: ", nearest)));
  }
  return std::make_unique<CpuBackend>(config, BestKernels());
}

}  // namespace spillway::trainer
