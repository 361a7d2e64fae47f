#include "scheduler/secrets/secret_store.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "scheduler/auth/token.h"
#include "spec/validate.h"
#include "spillway/v1/secret_service.pb.h"

namespace spillway::secrets {
namespace {

constexpr absl::string_view kMagic = "SPWSECR1";
constexpr absl::string_view kPurpose = "spillway secrets at rest";
constexpr size_t kFileBytesMax = limits::kSecretsMax * (limits::kSecretBytesMax + 2 * limits::kSecretNameBytesMax);

// Where the parts of the file lie.
constexpr size_t kSaltAt = kMagic.size(), kCommitmentAt = kSaltAt + sizeof(checkpoint::Salt), kTagAt = kCommitmentAt + sizeof(checkpoint::Commitment),
                 kSealedAt = kTagAt + sizeof(checkpoint::Tag);

// What was copied out of a message is wiped where it was; protobuf frees its own without that.
void Wipe(std::string* text) { checkpoint::Wipe(text->data(), text->size()); }

}  // namespace

absl::StatusOr<std::unique_ptr<SecretStore>> SecretStore::Open(const std::string& path, const std::string& key_path) {
  // A new key would open nothing, and would stand where the right one is to be put back.
  if (PathExists(path) && !PathExists(key_path)) {
    return absl::UnauthenticatedError(
        absl::StrCat(path, " needs the key ", key_path, ", which is not there: put it back, or delete ", path, " and set the secrets anew"));
  }
  ASSIGN_OR_RETURN(std::string text, auth::LoadOrCreateToken(key_path, "key"));
  std::string key = checkpoint::Hkdf(text, "", kPurpose, checkpoint::SecretKey::kBytes);
  auto store = absl::WrapUnique(new SecretStore(path, key_path, checkpoint::SecretKey::Of(key)));
  Wipe(&text), Wipe(&key);
  RETURN_IF_ERROR(store->Load());
  return store;
}

SecretStore::~SecretStore() {
  for (auto& [name, secret] : secrets_) Wipe(&secret.value);
}

absl::Status SecretStore::Load() {
  const absl::StatusOr<std::string> file = ReadFile(path_, kFileBytesMax);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  RETURN_IF_ERROR(file.status());
  if (file->size() < kSealedAt || !absl::StartsWith(*file, kMagic)) {
    return absl::DataLossError(absl::StrCat(path_, ": no file of secrets; put the right one back, or delete it and set the secrets anew"));
  }
  checkpoint::Salt salt;
  checkpoint::Tag tag;
  file->copy(reinterpret_cast<char*>(salt.data()), salt.size(), kSaltAt);
  file->copy(reinterpret_cast<char*>(tag.data()), tag.size(), kTagAt);
  const checkpoint::DerivedKey derived = checkpoint::Derive(key_, salt, kPurpose);
  if (file->substr(kCommitmentAt, derived.commitment.size()) != checkpoint::ViewOf(derived.commitment)) {
    return absl::UnauthenticatedError(absl::StrCat(path_, " was sealed under another key than that in ", key_path_, ": put the right key back, or delete ",
                                                   path_, " and set the secrets anew"));
  }
  std::string plain(file->size() - kSealedAt, '\0');
  v1::KeptSecrets kept;
  const bool whole = checkpoint::Gcm(derived.key).Open(checkpoint::NonceOf(0, true), kMagic, file->data() + kSealedAt, plain.size(), plain.data(), tag) &&
                     kept.ParseFromString(plain);
  Wipe(&plain);
  if (!whole) return absl::DataLossError(absl::StrCat(path_, ": damaged; put the right one back, or delete it and set the secrets anew"));
  MutexLock lock(&mutex_);
  for (v1::KeptSecrets::Kept& one : *kept.mutable_secrets()) {
    secrets_[one.name()] = {one.value(), one.set_utc_ms()};
    Wipe(one.mutable_value());
  }
  return absl::OkStatus();
}

absl::Status SecretStore::Write() const {
  v1::KeptSecrets kept;
  for (const auto& [name, secret] : secrets_) {
    v1::KeptSecrets::Kept* one = kept.add_secrets();
    one->set_name(name);
    one->set_value(secret.value);
    one->set_set_utc_ms(secret.set_utc_ms);
  }
  std::string plain = kept.SerializeAsString();
  for (v1::KeptSecrets::Kept& one : *kept.mutable_secrets()) Wipe(one.mutable_value());
  ASSIGN_OR_RETURN(const checkpoint::Salt salt, checkpoint::RandomSalt());
  const checkpoint::DerivedKey derived = checkpoint::Derive(key_, salt, kPurpose);
  checkpoint::Tag tag;
  checkpoint::Gcm(derived.key).Seal(checkpoint::NonceOf(0, true), kMagic, plain.data(), plain.size(), plain.data(), &tag);
  return WriteFileDurably(path_, absl::StrCat(kMagic, checkpoint::ViewOf(salt), checkpoint::ViewOf(derived.commitment), checkpoint::ViewOf(tag), plain), 0600);
}

absl::StatusOr<bool> SecretStore::Set(const std::string& name, std::string value, int64_t now_utc_ms) {
  if (const std::string wrong = spec::SecretNameProblem(name); !wrong.empty()) return absl::InvalidArgumentError(absl::StrCat("name: ", wrong));
  if (value.empty()) return absl::InvalidArgumentError(absl::StrCat("the value of ", name, " is empty"));
  if (value.size() > limits::kSecretBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the value of ", name, " has ", value.size(), " bytes; the most is ", limits::kSecretBytesMax));
  }
  MutexLock lock(&mutex_);
  const auto [found, is_new] = secrets_.try_emplace(name);
  if (is_new && secrets_.size() > limits::kSecretsMax) {
    secrets_.erase(found);
    return absl::ResourceExhaustedError(absl::StrCat("there are ", limits::kSecretsMax, " secrets, which is the most: remove some first"));
  }
  Secret before = std::exchange(found->second, {std::move(value), now_utc_ms});
  if (const absl::Status written = Write(); !written.ok()) {
    Wipe(&found->second.value);
    found->second = std::move(before);
    if (is_new) secrets_.erase(found);
    return written;
  }
  Wipe(&before.value);
  return !is_new;
}

absl::Status SecretStore::Remove(const std::string& name) {
  if (const std::string why_not = WhyNot(name); !why_not.empty()) return absl::NotFoundError(why_not);
  MutexLock lock(&mutex_);
  auto removed = secrets_.extract(name);
  if (removed.empty()) return absl::OkStatus();  // somebody else was faster
  if (const absl::Status written = Write(); !written.ok()) {
    secrets_.insert(std::move(removed));
    return written;
  }
  Wipe(&removed.mapped().value);
  return absl::OkStatus();
}

std::vector<std::pair<std::string, int64_t>> SecretStore::List() const {
  MutexLock lock(&mutex_);
  std::vector<std::pair<std::string, int64_t>> listed;
  for (const auto& [name, secret] : secrets_) listed.emplace_back(name, secret.set_utc_ms);
  return listed;
}

std::map<std::string, std::string> SecretStore::Values(const std::vector<std::string>& names) const {
  MutexLock lock(&mutex_);
  std::map<std::string, std::string> values;
  for (const std::string& name : names) {
    if (const auto found = secrets_.find(name); found != secrets_.end()) values[name] = found->second.value;
  }
  return values;
}

std::string SecretStore::WhyNot(const std::string& name, std::string* nearest) const {
  MutexLock lock(&mutex_);
  if (secrets_.contains(name)) return "";
  std::vector<std::string> names;
  for (const auto& [known, secret] : secrets_) names.push_back(known);
  const std::string meant = NearestName(name, names);
  if (nearest != nullptr) *nearest = meant;
  return absl::StrCat("there is no secret called `", Printable(name, 80), "`", meant.empty() ? "" : absl::StrCat(", did you mean `", meant, "`?"));
}

}  // namespace spillway::secrets
