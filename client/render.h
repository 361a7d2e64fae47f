// Text for people: aligned tables, durations, money, bars, colours. Pure; bytes that could harm a terminal are made visible.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "spillway/v1/common.pb.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::client {

enum class Colour { kNone, kRed, kGreen, kYellow, kCyan, kDim, kBold };
std::string Paint(absl::string_view text, Colour colour, bool colours_on);
Colour ColourOfState(absl::string_view state);  // of jobs, tasks, attempts and nodes

class Table {
 public:
  // A header beginning with '>' is aligned to the right.
  explicit Table(std::vector<std::string> headers);
  struct Cell {
    Cell(std::string text, Colour colour = Colour::kNone) : text(std::move(text)), colour(colour) {}  // NOLINT: cells are written as plain text
    Cell(const char* text) : text(text) {}                                                            // NOLINT
    std::string text;
    Colour colour = Colour::kNone;
  };
  void Add(std::vector<Cell> row);  // as many cells as headers
  bool empty() const { return rows_.empty(); }
  // Columns without any text are left out. No spaces at line ends.
  std::string Render(bool colours_on) const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<Cell>> rows_;
};

// "1 node", "2 nodes".
std::string Counted(int64_t n, absl::string_view one, absl::string_view many);
std::string HumanDuration(int64_t ms);                          // "250ms", "45s", "2m05s", "1h12m", "3d4h"
std::string HumanAge(int64_t now_utc_ms, int64_t then_utc_ms);  // HumanDuration, or "" when `then` is 0
std::string HumanMoney(int64_t micros);                         // "12.34", "0.0031", "<0.0001", "-1.20"
std::string HumanTime(int64_t utc_ms);                          // "2026-12-24 08:00:00Z", "" for 0
std::string Bar(int64_t step, int64_t total, int width);        // "[####----]"
std::string HumanProgress(int64_t step, int64_t total);         // "340/1000 34%", "340", ""
std::string HumanCounts(const v1::TaskCounts& counts);          // "812 queued, 50 active, 138 succeeded"
std::string HumanResources(const v1::Resources& resources);     // "2 cpus, 8GB, 1x simulated 16GB"
std::string HumanAttempt(const v1::AttemptKey& key);            // "5.17@3", "5.17", "5", ""

// Columns on a terminal that `text` takes.
size_t DisplayWidth(absl::string_view text);

// The proto's JSON with the proto's own field names; every field is there, also when it is zero. Ends with a newline.
std::string ToJson(const google::protobuf::Message& message, bool one_line = false);

}  // namespace spillway::client
