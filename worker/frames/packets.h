// Frames on a SOCK_SEQPACKET socket. A frame may be larger than what an unprivileged socket takes in one packet (net.core.wmem_max), so it
// travels in packets of at most kPacketBytesMax: one byte, 1 when more of the same frame follows and 0 on the last, then a piece of the frame.
// Pure: no descriptors.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"

namespace spillway::frames {

inline constexpr size_t kPacketBytesMax = 64 << 10;

// The packet at `offset` into `frame`; moves `offset` past it. The frame is done when offset == frame.size().
inline std::string TakePacket(absl::string_view frame, size_t& offset) {
  const absl::string_view piece = frame.substr(offset, kPacketBytesMax - 1);
  offset += piece.size();
  std::string packet(1, offset < frame.size() ? '\1' : '\0');
  packet.append(piece.data(), piece.size());
  return packet;
}

// Joins packets into frames; holds at most one unfinished frame.
class PacketJoiner {
 public:
  // The frame that `packet` completes, or nullopt when more must come. INVALID_ARGUMENT when the peer does not speak this: close the socket.
  absl::StatusOr<std::optional<std::string>> Add(absl::string_view packet) {
    if (packet.empty() || (packet[0] != '\0' && packet[0] != '\1')) return absl::InvalidArgumentError("not a packet of a supervisor frame");
    if (partial_.size() + packet.size() - 1 > limits::kSupervisorFrameBytesMax) return absl::InvalidArgumentError("frame too long");
    partial_.append(packet.data() + 1, packet.size() - 1);
    if (packet[0] == '\1') return std::nullopt;
    std::string frame;
    frame.swap(partial_);
    return frame;
  }

 private:
  std::string partial_;
};

}  // namespace spillway::frames
