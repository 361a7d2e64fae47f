// Where notices come from: one source for each cloud's metadata service, and a file for everybody else (a Slurm prolog, an operator, a test).
// A source knows its protocol and its provider's lead; it holds no clock and no thread, and decides nothing (notice.h does).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/preemption/notice.h"

namespace spillway::preemption {

class NoticeSource {
 public:
  virtual ~NoticeSource() = default;
  virtual const std::string& name() const = 0;
  virtual ProviderLead lead() const = 0;
  // The least time between two looks that the provider asks for.
  virtual int64_t period_ms_min() const { return 0; }
  // One look; at most a few requests of 2 s each. An error means that nothing is known, not that there is no notice.
  virtual absl::StatusOr<Reading> Poll() = 0;
  // The machine is empty: the provider may take it before the time. OK where a provider has no such call.
  virtual absl::Status Acknowledge() { return absl::OkStatus(); }
};

struct SourceOptions {
  std::string base_url;       // "" is the provider's own link-local address
  std::string vm_name;        // azure: events of other machines of the set are passed over
  std::string path;           // file: the file that appears
  int64_t usual_lead_ms = 0;  // > 0 in place of the provider's usual lead (a GCP machine that asked for 120 s)
};

std::vector<std::string> NoticeSourceNames();  // "aws", "gcp", "azure", "alibaba", "tencent", "file"
// INVALID_ARGUMENT naming the nearest source, or the option that is missing or wrong.
absl::StatusOr<std::unique_ptr<NoticeSource>> MakeNoticeSource(const std::string& name, const SourceOptions& options);

}  // namespace spillway::preemption
