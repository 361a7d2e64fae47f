#include "tests/simulation/watch.h"

#include "tests/simulation/fault_disk.h"

namespace spillway::sim {

Watches::Watches() {
  watches_.push_back(MakeStateWatch(&world_));
  watches_.push_back(MakeJobWatch(&world_));
  watches_.push_back(MakeAuthorityWatch(&world_));
  watches_.push_back(MakeCheckpointWatch(&world_));
  watches_.push_back(MakeMoneyWatch(&world_));
  watches_.push_back(MakeProbeWatch(&world_));
}

SimResult RunWatched(SimOptions options) {
  if (!options.make_power_disk) options.make_power_disk = [](uint64_t seed, bool synchronous) { return std::make_unique<FaultDisk>(seed, synchronous); };
  Watches watches;
  Simulation simulation(std::move(options), &watches);
  watches.SetWorld(simulation.world());
  SimResult result = simulation.Run();
  if (result.failure.empty()) watches.AtEnd(simulation);
  result.failure = simulation.world()->failure();
  result.reached = simulation.world()->reached();
  return result;
}

}  // namespace spillway::sim
