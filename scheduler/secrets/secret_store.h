// The secrets of jobs: names and values, in one file that is sealed as a whole (AES-256-GCM) under a key that lies in a file of its own.
//
//   HOME/data/secrets      "SPWSECR1", 32 bytes salt, 32 bytes commitment to the key, 16 bytes tag, the sealed KeptSecrets; replaced as a whole, durably
//   HOME/keys/secrets      a random text, mode 0600, made at the first start
//
// So a copy of the data folder or of the database alone gives nothing away; whoever has both files has the values. Never logs a value. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "checkpoint/crypto.h"

namespace spillway::secrets {

struct Secret {
  std::string value;
  int64_t set_utc_ms = 0;
};

class SecretStore {
 public:
  // Both files are made where they are absent. UNAUTHENTICATED: the file was sealed under another key; DATA_LOSS: it is no such file.
  static absl::StatusOr<std::unique_ptr<SecretStore>> Open(const std::string& path, const std::string& key_path);
  ~SecretStore();  // wipes

  // Durable when it returns; true: there was one of this name. INVALID_ARGUMENT for what is no name or too long, RESOURCE_EXHAUSTED for one too many.
  absl::StatusOr<bool> Set(const std::string& name, std::string value, int64_t now_utc_ms);
  absl::Status Remove(const std::string& name);

  std::vector<std::pair<std::string, int64_t>> List() const;  // name, when it was set
  // Those of `names` that there are.
  std::map<std::string, std::string> Values(const std::vector<std::string>& names) const;
  // "" where there is one of this name; else what to say of it, with the name that was perhaps meant.
  std::string WhyNot(const std::string& name, std::string* nearest = nullptr) const;

 private:
  SecretStore(std::string path, std::string key_path, const checkpoint::SecretKey& key) : path_(std::move(path)), key_path_(std::move(key_path)), key_(key) {}
  absl::Status Load();
  absl::Status Write() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_, key_path_;
  const checkpoint::SecretKey key_;
  mutable Mutex mutex_;
  std::map<std::string, Secret> secrets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway::secrets
