#include "client/render.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/money.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway::client {

std::string Paint(absl::string_view text, Colour colour, bool colours_on) {
  static constexpr const char* kCodes[] = {"", "31", "32", "33", "36", "2", "1"};
  if (!colours_on || colour == Colour::kNone || text.empty()) return std::string(text);
  return absl::StrCat("\x1b[", kCodes[static_cast<int>(colour)], "m", text, "\x1b[0m");
}

Colour ColourOfState(absl::string_view state) {
  if (state == "SUCCEEDED" || state == "READY" || state == "COMPLETED") return Colour::kGreen;
  if (state == "FAILED" || state == "LOST" || state == "USER_ERROR") return Colour::kRed;
  if (state == "ACTIVE" || state == "RUNNING" || state == "STARTING" || state == "BOOTING") return Colour::kCyan;
  if (state == "QUEUED" || state == "HELD" || state == "STOPPING" || state == "DRAINING" || state == "REQUESTED") return Colour::kYellow;
  return Colour::kDim;
}

size_t DisplayWidth(absl::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) == 0x80) continue;
    // Characters of East Asian scripts take two columns; those of three bytes from U+2E80 on and of four bytes are counted so.
    width += byte >= 0xF0 || (byte >= 0xE3 && byte <= 0xED) || (byte == 0xE2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0xBA) ? 2 : 1;
  }
  return width;
}

Table::Table(std::vector<std::string> headers) {
  for (std::string& header : headers) {
    right_.push_back(!header.empty() && header[0] == '>');
    headers_.push_back(right_.back() ? header.substr(1) : header);
  }
}

void Table::Add(std::vector<Cell> row) {
  CHECK(row.size() == headers_.size()) << "a row of " << row.size() << " cells under " << headers_.size() << " headers";
  for (Cell& cell : row) cell.text = Printable(cell.text, 400);
  rows_.push_back(std::move(row));
}

std::string Table::Render(bool colours_on) const {
  std::vector<size_t> widths(headers_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
  }
  std::vector<size_t> shown;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == 0 && !rows_.empty()) continue;
    shown.push_back(i);
    widths[i] = std::max(widths[i], headers_[i].size());
  }
  std::string out;
  const auto line = [&](auto cell_of) {
    for (size_t k = 0; k < shown.size(); ++k) {
      const size_t i = shown[k];
      const Cell cell = cell_of(i);
      const std::string padding(widths[i] - DisplayWidth(cell.text), ' ');
      const std::string painted = Paint(cell.text, cell.colour, colours_on);
      absl::StrAppend(&out, k == 0 ? "" : "  ", right_[i] ? padding : "", painted, right_[i] || k + 1 == shown.size() ? "" : padding);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  line([&](size_t i) { return Cell(headers_[i], Colour::kBold); });
  for (const auto& row : rows_) line([&](size_t i) { return row[i]; });
  return out;
}

std::string Counted(int64_t n, absl::string_view one, absl::string_view many) { return absl::StrCat(n, " ", n == 1 ? one : many); }

std::string HumanDuration(int64_t ms) {
  if (ms < 0) return absl::StrCat("-", HumanDuration(-ms));
  if (ms < 1000) return ms == 0 ? "0s" : absl::StrCat(ms, "ms");
  const int64_t seconds = ms / 1000;
  if (seconds < 60) return ms < 10'000 && ms % 1000 >= 100 ? absl::StrCat(seconds, ".", ms % 1000 / 100, "s") : absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  if (seconds < 86'400) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds % 3600 / 60);
  return absl::StrFormat("%dd%dh", seconds / 86'400, seconds % 86'400 / 3600);
}

std::string HumanAge(int64_t now_utc_ms, int64_t then_utc_ms) { return then_utc_ms == 0 ? "" : HumanDuration(std::max<int64_t>(0, now_utc_ms - then_utc_ms)); }

std::string HumanMoney(int64_t micros) {
  if (micros < 0) return absl::StrCat("-", HumanMoney(-micros));
  if (micros == 0) return "0.00";
  if (micros < 100) return "<0.0001";
  // Two decimals where they say enough, four where they would hide the amount.
  if (micros >= kMicrosPerUnit) return absl::StrFormat("%d.%02d", (micros + 5'000) / kMicrosPerUnit, (micros + 5'000) % kMicrosPerUnit / 10'000);
  return FormatMicros((micros + 50) / 100 * 100);
}

std::string HumanTime(int64_t utc_ms) {
  if (utc_ms == 0) return "";
  std::string text = FormatUtcMs(utc_ms - utc_ms % 1000);
  if (text.size() > 10) text[10] = ' ';
  return text;
}

std::string Bar(int64_t step, int64_t total, int width) {
  if (total <= 0) return "";
  const int64_t done = std::clamp<int64_t>(step, 0, total);
  const auto filled = static_cast<size_t>(static_cast<double>(done) / static_cast<double>(total) * width);
  return absl::StrCat("[", std::string(filled, '#'), std::string(static_cast<size_t>(width) - filled, '-'), "]");
}

std::string HumanProgress(int64_t step, int64_t total) {
  if (total <= 0) return step > 0 ? absl::StrCat(step) : "";
  return absl::StrCat(step, "/", total, " ", static_cast<int64_t>(static_cast<double>(step) * 100.0 / static_cast<double>(total)), "%");
}

std::string HumanCounts(const v1::TaskCounts& counts) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, absl::string_view state) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", state));
  };
  add(counts.queued(), "queued"), add(counts.held(), "held"), add(counts.active(), "active");
  add(counts.succeeded(), "succeeded"), add(counts.failed(), "failed"), add(counts.cancelled(), "cancelled");
  return absl::StrJoin(parts, ", ");
}

std::string HumanResources(const v1::Resources& resources) {
  std::vector<std::string> parts;
  if (resources.cpu_milli() > 0) {
    parts.push_back(resources.cpu_milli() % 1000 == 0 ? absl::StrCat(resources.cpu_milli() / 1000, resources.cpu_milli() == 1000 ? " cpu" : " cpus")
                                                      : absl::StrFormat("%.2f cpus", static_cast<double>(resources.cpu_milli()) / 1000));
  }
  if (resources.memory_bytes() > 0) parts.push_back(FormatBytes(resources.memory_bytes()));
  if (resources.disk_bytes() > 0) parts.push_back(absl::StrCat(FormatBytes(resources.disk_bytes()), " disk"));
  for (const v1::Accelerator& accelerator : resources.accelerators()) {
    parts.push_back(absl::StrCat(accelerator.count(), "x ", Printable(accelerator.model(), 40),
                                 accelerator.memory_bytes() > 0 ? absl::StrCat(" ", FormatBytes(accelerator.memory_bytes())) : ""));
  }
  return absl::StrJoin(parts, ", ");
}

std::string HumanAttempt(const v1::AttemptKey& key) {
  if (key.job_id() == 0) return "";
  if (key.attempt() > 0) return absl::StrCat(key.job_id(), ".", key.task_index(), "@", key.attempt());
  return key.task_index() > 0 ? absl::StrCat(key.job_id(), ".", key.task_index()) : absl::StrCat(key.job_id());
}

std::string ToJson(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !one_line;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string out;
  const auto status = google::protobuf::util::MessageToJsonString(message, &out, options);
  CHECK(status.ok()) << status.ToString();
  if (out.empty() || out.back() != '\n') out += '\n';
  return out;
}

}  // namespace spillway::client
