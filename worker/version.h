#pragma once

namespace spillway::worker {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace spillway::worker
