// How the processes that save one checkpoint together find each other and tell what they wrote, through files in the attempt's directory
// alone: no ports, no collectives, and nothing left by an earlier run is mistaken for an answer.
//
//   .group/a<attempt>-rank-<r>   rank r: I am here, under this nonce, fresh with each process
//   .group/a<attempt>            rank 0: the save it is in, under its owner id, and the nonces it has seen. Rank r takes part where it reads its own
//   <stage>/parts/rank-<r>       rank r: the container it wrote, or why it could not
//   .group/a<attempt>-failed     rank 0: the save that it gave up, and why
//
// The stage's name carries owner id and number of the save, so a process of an earlier run never reaches the stage of this one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/io.h"
#include "checkpoint/manifest.h"

namespace spillway::checkpoint {

class Group {
 public:
  Group(Io* io, std::string directory, int64_t attempt, int rank, int world_size);

  // One save of one rank 0.
  struct Call {
    std::string owner_id;
    int64_t save = 0;  // counted by rank 0, from 1
    int64_t step = 0;
  };
  // Rank 0, when it begins a save and while it waits for the parts of these ranks: calls whoever has come.
  absl::Status Announce(const Call& call, const std::vector<int>& missing);
  // Other ranks: one look whether rank 0 calls this rank to a save of `step` that it has not answered yet; nullopt: not now.
  // An error when rank 0 is past that step.
  absl::StatusOr<std::optional<Call>> Look(int64_t step);

  // What a rank says of its container, in the stage.
  static absl::Status WritePart(Io* io, const std::string& stage, int rank, const absl::StatusOr<ManifestFile>& written);
  struct Part {
    absl::StatusOr<ManifestFile> written;  // the rank's own words
  };
  // NOT_FOUND: not yet.
  static absl::StatusOr<Part> ReadPart(Io* io, const std::string& stage, int rank);

  // Rank 0 gives a save up.
  void GiveUp(const Call& call, const absl::Status& why);
  // Why rank 0 gave it up, or a later one; nullopt when it did not, or nobody can tell.
  std::optional<absl::Status> GivenUp(const Call& call);

 private:
  std::string Path(const std::string& suffix) const;
  absl::StatusOr<std::string> ReadJoin(int rank);

  Io* io_;
  std::string directory_;
  int64_t attempt_;
  int rank_;
  int world_size_;
  std::string nonce_;                 // of a rank that has said it is here
  Call answered_;                     // the last save that this rank took part in
  std::vector<std::string> members_;  // rank 0: the nonces seen; "" for none yet
  int64_t announced_save_ = 0;
};

}  // namespace spillway::checkpoint
