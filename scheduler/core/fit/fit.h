// Whether a machine of some kind could ever hold a member of a shape: the hard constraints, against everything the machine has when it is empty.
// Owns the meaning of every field of Shape. What is free right now is room.h's business.
#pragma once

#include <string>

#include "scheduler/core/model.h"

namespace spillway::core {

// Why not, as bits: one machine may fail for several reasons.
enum Misfit : uint32_t {
  kMisfitGpuModel = 1u << 0,
  kMisfitGpuCount = 1u << 1,
  kMisfitGpuMemory = 1u << 2,
  kMisfitCpu = 1u << 3,
  kMisfitMemory = 1u << 4,
  kMisfitDisk = 1u << 5,
  kMisfitMarket = 1u << 6,
  kMisfitInterruptible = 1u << 7,  // a spot machine for a job that must not be interrupted
  kMisfitRegion = 1u << 8,
  kMisfitZone = 1u << 9,
  kMisfitProvider = 1u << 10,
  kMisfitNodeName = 1u << 11,
  kMisfitPrice = 1u << 12,
};
inline constexpr uint32_t kMisfitsOfHardware = kMisfitGpuModel | kMisfitGpuCount | kMisfitGpuMemory | kMisfitCpu | kMisfitMemory | kMisfitDisk;

// 0 when it fits. Reserved machines are paid for whatever they do: the price limit does not count there.
uint32_t Misfits(const Shape& shape, const Node& node);
// Of all nodes of a kind alike: their names are not looked at.
uint32_t Misfits(const Shape& shape, const State::Indexes::NodeKind& kind);
uint32_t Misfits(const Shape& shape, const Offer& offer);

// How far a machine that does not fit is from one that does: what a user can allow is nearer than hardware that is not there, and other GPUs are
// nearer than none.
int Distance(uint32_t misfits, const Shape& shape, const Capacity& capacity);

// "has 4 GPUs, 8 needed; is on spot, and the job must not be interrupted".
std::string DescribeMisfits(uint32_t misfits, const Shape& shape, const Node& node);
std::string DescribeMisfits(uint32_t misfits, const Shape& shape, const Offer& offer);
// "8 x H100 (>= 80GB), 16 cpus, 128GB memory".
std::string DescribeNeed(const Shape& shape);
// "reserved or spot".
std::string DescribeMarkets(const std::set<Market>& allowed);
// "price", "market", ...: one word for one bit.
const char* MisfitWord(uint32_t bit);

}  // namespace spillway::core
