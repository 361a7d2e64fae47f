#include "scheduler/rpc/needs.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/ids.h"
#include "base/text.h"

namespace spillway::rpc {
namespace {

template <typename Texts>
void Append(const std::string& field, const Texts& texts, bool any, std::vector<NamedNeed>* out) {
  for (int i = 0; i < texts.size(); ++i) out->push_back({absl::StrCat(field, "[", i, "]"), texts.Get(i), any});
}

// Where each name stands in the submission.
class NamePlaces {
 public:
  explicit NamePlaces(const std::vector<core::NewJob>& jobs) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      places_[jobs[i].name].push_back(static_cast<int64_t>(i));
      names_.push_back(jobs[i].name);
    }
  }
  const std::vector<int64_t>* Find(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &found->second;
  }
  std::string Nearest(const std::string& name) const { return NearestName(name, names_); }

 private:
  std::map<std::string, std::vector<int64_t>> places_;
  std::vector<std::string> names_;
};

absl::StatusOr<core::Job> RowOf(const std::string& text, store::Reader* reader) {
  const auto number = ParseTaskId(text);
  return number.ok() ? reader->GetJob(number->job) : reader->GetNewestJobNamed(text);
}

}  // namespace

std::vector<std::vector<NamedNeed>> NeedsNamedIn(const v1::SubmitRequest& request) {
  std::vector<std::vector<NamedNeed>> named(static_cast<size_t>(request.specs_size()));
  bool some = false;
  for (size_t i = 0; i < named.size(); ++i) {
    const v1::JobSpec& spec = request.specs(static_cast<int>(i));
    const std::string prefix = request.specs_size() == 1 ? "" : absl::StrCat("specs[", i, "].");
    Append(prefix + "after", spec.after(), false, &named[i]);
    Append(prefix + "after_ok", spec.after_ok(), false, &named[i]);
    Append(prefix + "after_any", spec.after_any(), true, &named[i]);
    some = some || !named[i].empty();
  }
  if (!some) named.clear();
  return named;
}

absl::Status ResolveNeeds(const std::vector<std::vector<NamedNeed>>& named, store::Reader* reader, std::vector<core::NewJob>* jobs,
                          std::vector<spec::Violation>* violations) {
  const NamePlaces names(*jobs);
  std::map<std::string, core::NewNeed> known;
  for (size_t i = 0; i < named.size(); ++i) {
    (*jobs)[i].needs.clear();
    for (const NamedNeed& need : named[i]) {
      const auto refuse = [&](absl::string_view what, absl::string_view nearest) {
        if (violations->size() < spec::kViolationsMax) violations->push_back({need.field, std::string(what), std::string(nearest)});
      };
      auto found = known.find(need.text);
      if (found == known.end()) {
        core::NewNeed one;
        if (const std::vector<int64_t>* places = names.Find(need.text); places != nullptr) {
          if (places->size() > 1) {
            refuse(absl::StrCat(places->size(), " jobs of this submission are called `", Printable(need.text, 60), "`"), "");
            continue;
          }
          one.place = places->front();
        } else {
          const absl::StatusOr<core::Job> row = RowOf(need.text, reader);
          if (absl::IsNotFound(row.status())) {
            const std::string nearest = names.Nearest(need.text);
            refuse(absl::StrCat("there is no job `", Printable(need.text, 60), "`, neither in this submission nor from an earlier one",
                                nearest.empty() ? "" : absl::StrCat("; did you mean `", nearest, "`?")),
                   nearest);
            continue;
          }
          if (!row.ok()) return row.status();
          one.job = row->id;
          if (row->ended_ms != 0) one.ended = core::FoldState(*row);
        }
        found = known.emplace(need.text, one).first;
      }
      (*jobs)[i].needs.push_back(found->second);
      (*jobs)[i].needs.back().any = need.any;
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway::rpc
