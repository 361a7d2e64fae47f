#include "scheduler/provider/static/static.h"

#include "absl/strings/str_cat.h"

namespace spillway::provider {
namespace {

class Static final : public Provider {
 public:
  explicit Static(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  Capabilities capabilities() const override { return {}; }
  absl::StatusOr<std::vector<core::Offer>> ListOffers() override { return std::vector<core::Offer>(); }
  absl::StatusOr<std::string> Create(const engine::CreateOrder& order) override {
    return absl::InvalidArgumentError(absl::StrCat("provider ", name_, " is static: its nodes register themselves"));
  }
  absl::Status Terminate(const engine::TerminateOrder& order) override { return absl::OkStatus(); }
  absl::StatusOr<core::InstanceListing> List() override {
    return absl::FailedPreconditionError(absl::StrCat("provider ", name_, " is static: it has no listing"));
  }

 private:
  const std::string name_;
};

}  // namespace

std::unique_ptr<Provider> MakeStatic(const v1::ProviderConfig& config) { return std::make_unique<Static>(config.name()); }

}  // namespace spillway::provider
