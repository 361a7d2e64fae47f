#include "spec/resource_list.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway::spec {
namespace {

constexpr int64_t kDevicesMax = 64;
constexpr int64_t kCoresMax = 100'000;
constexpr int64_t kBytesMin = 1 << 20;  // less is a unit that was left out

// One list on its way in: every message names the list and the part.
class ListParser {
 public:
  explicit ListParser(absl::string_view source) : source_(source) {}

  absl::StatusOr<ResourceList> Parse(absl::string_view text) {
    if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(source_, ": the list is empty; write cpus=2,memory=8GB, or leave it out"));
    for (absl::string_view part : absl::StrSplit(text, ',')) RETURN_IF_ERROR(Part(part));
    return std::move(list_);
  }

 private:
  absl::Status Bad(absl::string_view part, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, ": '", Printable(part), "': ", why));
  }

  absl::Status Part(absl::string_view part) {
    static const std::vector<std::string> kKeys = {"cpus", "memory", "disk", "gpu"};
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::string_view key = pair.first, value = pair.second;
    if (key == "cpus") return Cores(part, value);
    if (key == "memory") return Bytes(part, value, kBytesMin, &list_.memory_bytes);
    if (key == "disk") return Bytes(part, value, 0, &list_.disk_bytes);
    if (key == "gpu") return Gpu(part, value);
    const std::string nearest = NearestName(key, kKeys);
    return Bad(part, part.empty() ? "a part of the list is empty"
                                  : absl::StrCat("no resource is called '", Printable(key), "'",
                                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"), " (cpus, memory, disk, gpu)"));
  }

  absl::Status Cores(absl::string_view part, absl::string_view value) {
    if (list_.cpu_milli.has_value()) return Bad(part, "cpus is given twice");
    const auto micros = ParseMicros(value);
    if (!micros.ok() || *micros > kCoresMax * kMicrosPerUnit) return Bad(part, "write a number of cores, such as 16 or 0.5");
    if (*micros % 1000 != 0) return Bad(part, "is finer than a thousandth of a core; the least is cpus=0.001");
    if (*micros == 0) return Bad(part, "a node without cores runs nothing; the least is cpus=0.001");
    list_.cpu_milli = *micros / 1000;
    return absl::OkStatus();
  }

  absl::Status Bytes(absl::string_view part, absl::string_view value, int64_t least, std::optional<int64_t>* into) {
    if (into->has_value()) return Bad(part, absl::StrCat(part.substr(0, part.find('=')), " is given twice"));
    ASSIGN_OR_RETURN(*into, Size(part, value, least));
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Size(absl::string_view part, absl::string_view value, int64_t least) const {
    const auto bytes = ParseBytes(value);
    if (!bytes.ok()) return Bad(part, bytes.status().message());
    if (*bytes >= kBytesMin || (*bytes == 0 && least == 0)) return *bytes;
    return Bad(part, absl::StrCat(FormatBytes(*bytes), " is less than 1MB; write the unit, such as 512MB or 8GB",
                                  *bytes == 0 ? ", or leave it out for what the machine has" : ""));
  }

  absl::Status Gpu(absl::string_view part, absl::string_view value) {
    const bool first = !list_.gpu_named;
    if (!first && (value == "none" || list_.gpus.empty())) return Bad(part, "gpu=none stands alone");
    list_.gpu_named = true;
    if (value == "none") return absl::OkStatus();
    const std::vector<std::string> fields = absl::StrSplit(value, ':');
    if (fields.size() < 3 || fields.size() > 4 || fields[0].empty())
      return Bad(part, "write gpu=MODEL:COUNT:MEMORY, gpu=MODEL:COUNT:MEMORY:simulated or gpu=none");
    DeclaredGpu gpu;
    gpu.model = fields[0];
    const bool printable = std::all_of(gpu.model.begin(), gpu.model.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (!printable || gpu.model.size() > limits::kNameBytesMax) {
      return Bad(part, absl::StrCat("a model is printable ASCII without spaces, at most ", limits::kNameBytesMax, " bytes, such as H100"));
    }
    if (!absl::SimpleAtoi(fields[1], &gpu.count) || gpu.count < 1 || gpu.count > kDevicesMax)
      return Bad(part, absl::StrCat("the count must be 1 to ", kDevicesMax));
    ASSIGN_OR_RETURN(gpu.memory_bytes, Size(part, fields[2], 0));
    if (fields.size() == 4 && fields[3] != "simulated") return Bad(part, "after the memory only 'simulated' may stand");
    gpu.simulated = fields.size() == 4;
    if (!list_.gpus.empty() && list_.gpus.back().simulated != gpu.simulated) return Bad(part, "real and simulated accelerators do not go together");
    list_.gpus.push_back(std::move(gpu));
    return absl::OkStatus();
  }

  const absl::string_view source_;
  ResourceList list_;
};

}  // namespace

absl::StatusOr<ResourceList> ParseResourceList(absl::string_view text, absl::string_view source) { return ListParser(source).Parse(text); }

}  // namespace spillway::spec
