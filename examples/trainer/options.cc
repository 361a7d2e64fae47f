#include "examples/trainer/options.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/layout.h"

namespace spillway::trainer {
namespace {

constexpr int64_t kDelayMsMax = 3'600'000;

struct Flag {
  std::string name;
  std::string value;  // what the usage calls it; "" for a flag without one
  std::string help;
  std::function<absl::Status(absl::string_view)> set;
};

template <typename T>
std::function<absl::Status(absl::string_view)> Integer(T* out, int64_t low, int64_t high) {
  return [=](absl::string_view text) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
      return absl::InvalidArgumentError(absl::StrCat("\"", Printable(text), "\": want an integer from ", low, " to ", high));
    }
    *out = static_cast<T>(value);
    return absl::OkStatus();
  };
}

std::function<absl::Status(absl::string_view)> Text(std::string* out) {
  return [=](absl::string_view text) {
    if (text.empty()) return absl::InvalidArgumentError("is empty");
    *out = std::string(text);
    return absl::OkStatus();
  };
}

std::vector<Flag> FlagsOf(Options* o) {
  auto rate = [o](absl::string_view text) {
    if (!absl::SimpleAtod(text, &o->lr) || !(o->lr > 0 && o->lr <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", Printable(text), "\": want a number above 0, at most 1"));
    }
    return absl::OkStatus();
  };
  auto help = [o](absl::string_view) {
    o->help = true;
    return absl::OkStatus();
  };
  return {
      {"data", "FILE", "the text to learn (required)", Text(&o->data)},
      {"steps", "N", "train for N steps (400)", Integer(&o->steps, 1, checkpoint::kStepMax)},
      {"checkpoint-every", "K", "save a checkpoint every K steps; 0: only when stopped and at the end (50)",
       Integer(&o->checkpoint_every, 0, checkpoint::kStepMax)},
      {"seed", "S", "same seed, same weights, bit for bit (1)", Integer(&o->seed, 0, INT64_MAX)},
      {"layers", "N", "transformer layers (2)", Integer(&o->model.layers, 1, 64)},
      {"dim", "N", "width of the model (128)", Integer(&o->model.dim, 1, 4096)},
      {"heads", "N", "attention heads; divides --dim (4)", Integer(&o->model.heads, 1, 4096)},
      {"context", "N", "characters in a window (64)", Integer(&o->model.context, 1, 4096)},
      {"batch", "N", "windows in a step (12)", Integer(&o->model.batch, 1, 1024)},
      {"lr", "RATE", "highest learning rate (0.004)", rate},
      {"backend", "auto|cpu|cuda", "where to compute (auto)", Text(&o->backend)},
      {"out", "FILE", "write the final weights here too", Text(&o->out)},
      {"name", "NAME", "shown in the output (train)", Text(&o->name)},
      {"checkpoint-dir", "DIR", "outside Spillway: save to and resume from here", Text(&o->checkpoint_dir)},
      {"step-delay-ms", "MS", "sleep after each step (0)", Integer(&o->step_delay_ms, 0, kDelayMsMax)},
      {"log-every", "N", "print every N steps (10)", Integer(&o->log_every, 1, checkpoint::kStepMax)},
      {"hash", "PATH", "print the weights' hash of a checkpoint directory or weights file, and exit", Text(&o->hash)},
      {"help", "", "print this", help},
  };
}

}  // namespace

std::string Usage() {
  Options defaults;
  std::string text =
      "usage: spillway-train --data FILE [flags]\n       spillway-train --hash PATH\n\nTrains a small character-level transformer, and survives being "
      "stopped.\n\n";
  for (const Flag& flag : FlagsOf(&defaults)) {
    const std::string left = absl::StrCat("  --", flag.name, flag.value.empty() ? "" : " ", flag.value);
    absl::StrAppend(&text, left, std::string(left.size() < 28 ? 28 - left.size() : 1, ' '), flag.help, "\n");
  }
  absl::StrAppend(&text,
                  "\nExit codes: 0 done, 1 failed, 2 usage, 85 stopped with a new checkpoint (run me again), 143 stopped without one.\n"
                  "\nExamples:\n"
                  "  spillway-train --data /usr/share/common-licenses/GPL-3\n"
                  "      about half a minute of one core; prints the hash of the weights\n"
                  "  spillway-train --data TEXT --checkpoint-dir /tmp/mine --checkpoint-every 50\n"
                  "      saves as it goes; the same line again goes on where it was stopped\n"
                  "  spillway-train --hash /tmp/mine/step-000000000400\n"
                  "      the hash of a checkpoint, computed anew from the disk\n"
                  "  spillway run -- spillway-train --data /usr/share/common-licenses/GPL-3\n"
                  "      as a job: where it saves and resumes is then the scheduler's business\n");
  return text;
}

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  const std::vector<Flag> flags = FlagsOf(&options);
  std::vector<std::string> names;
  for (const Flag& flag : flags) names.push_back("--" + flag.name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    std::optional<std::string> value;
    const size_t equals = name.find('=');
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const Flag* found = nullptr;
    for (const Flag& flag : flags) {
      if (name == "--" + flag.name) found = &flag;
    }
    if (found == nullptr) {
      const std::string nearest = NearestName(name, names);
      return absl::InvalidArgumentError(absl::StrCat("unknown argument \"", Printable(name), "\"", nearest.empty() ? "" : "; nearest: ", nearest));
    }
    if (found->value.empty() && value) return absl::InvalidArgumentError(absl::StrCat(name, " takes no value"));
    if (!found->value.empty() && !value) {
      if (i + 1 == arguments.size()) return absl::InvalidArgumentError(absl::StrCat(name, " needs a value: ", name, " ", found->value));
      value = arguments[++i];
    }
    const absl::Status set = found->set(value.value_or(""));
    if (!set.ok()) return absl::InvalidArgumentError(absl::StrCat(name, " ", set.message()));
  }
  if (options.help || !options.hash.empty()) return options;
  if (options.data.empty()) return absl::InvalidArgumentError("--data FILE is required");
  RETURN_IF_ERROR(CheckConfig(options.model));
  return options;
}

}  // namespace spillway::trainer
