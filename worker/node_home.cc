#include "worker/node_home.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process_lock.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace spillway::worker {

absl::StatusOr<NodeHome> NodeHome::Open(const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path, 0700));
  for (const char* folder : {"attempts", "secrets"}) RETURN_IF_ERROR(MakeDirectories(JoinPath(path, folder), 0700));
  const std::string pid_file = JoinPath(path, "worker.pid");
  ASSIGN_OR_RETURN(const int fd, LockFile(JoinPath(path, "worker.lock"), absl::StrCat("another worker has ", path)));
  NodeHome home(path, fd);
  ASSIGN_OR_RETURN(const int64_t start_ticks, ProcessStartTicks(getpid()));
  const absl::Status named = WriteFileAtomically(pid_file, absl::StrCat(getpid(), " ", start_ticks, "\n"), 0644);
  // The file only names the worker; a full disk must not keep a node from its running jobs. The one before is named no more.
  if (absl::IsResourceExhausted(named)) {
    LOG(WARNING) << named.message();
    unlink(pid_file.c_str());
  } else if (!named.ok()) {
    return named;
  }
  return home;
}

NodeHome::NodeHome(NodeHome&& other) noexcept : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

NodeHome::~NodeHome() {
  if (lock_fd_ >= 0) close(lock_fd_);  // worker.pid stays: it names a process that is gone for ever
}

std::string NodeHome::AttemptFolder(const AttemptId& attempt) const { return JoinPath(JoinPath(path_, "attempts"), attempt.ToString()); }

std::string NodeHome::SecretsFolder(const AttemptId& attempt) const { return JoinPath(JoinPath(path_, "secrets"), attempt.ToString()); }

std::set<AttemptId> NodeHome::AttemptFolders() const {
  std::set<AttemptId> found;
  for (const char* folder : {"attempts", "secrets"}) {
    const auto names = ListDirectory(JoinPath(path_, folder));
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      const auto attempt = ParseAttemptId(name);
      if (attempt.ok() && attempt->ToString() == name) found.insert(*attempt);
    }
  }
  return found;
}

absl::StatusOr<NodeIdentity> NodeHome::LoadIdentity() const {
  const std::string path = JoinPath(path_, "node.json");
  const auto text = ReadFile(path, 64 << 10);
  if (absl::IsNotFound(text.status())) return NodeIdentity{};
  RETURN_IF_ERROR(text.status());
  const nlohmann::json value = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* field, bool (nlohmann::json::*type)() const noexcept) { return value.contains(field) && (value[field].*type)(); };
  if (!value.is_object() || !is("cluster_uuid", &nlohmann::json::is_string) || !is("node_id", &nlohmann::json::is_number_integer) ||
      !is("store_url", &nlohmann::json::is_string)) {
    return absl::DataLossError(absl::StrCat(path, ": not what a worker wrote; delete it if this node may join any cluster"));
  }
  NodeIdentity identity{value["cluster_uuid"], value["node_id"], value["store_url"], 0};
  if (is("incarnation", &nlohmann::json::is_number_integer)) identity.incarnation = value["incarnation"];  // earlier versions wrote none
  return identity;
}

absl::Status NodeHome::SaveIdentity(const NodeIdentity& identity) const {
  const nlohmann::json value = {
      {"cluster_uuid", identity.cluster_uuid}, {"node_id", identity.node_id}, {"store_url", identity.store_url}, {"incarnation", identity.incarnation}};
  return WriteFileDurably(JoinPath(path_, "node.json"), value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", 0600);
}

}  // namespace spillway::worker
