// Protobuf's wire format by hand, for codecs that must be fast and whose bytes are ours to fix: varints, zigzag, tags, fields.
// Owns the bytes of one field; what fields mean, which are required and which are unknown is the codec's business. Groups are refused.
// WireReader treats its input as hostile: it never reads past the end, and after an error it must not be read further.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace spillway {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline constexpr uint32_t kWireFieldMax = (1u << 29) - 1;
inline constexpr size_t kVarintBytesMax = 10;

// Small magnitudes of either sign become small numbers: 0, -1, 1, -2 -> 0, 1, 2, 3 (protobuf's sint64).
constexpr uint64_t ZigZagEncode(int64_t value) { return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63); }
constexpr int64_t ZigZagDecode(uint64_t value) { return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1))); }

constexpr size_t VarintSize(uint64_t value) {
  size_t n = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++n;
  }
  return n;
}

// Appending. `field` is in [1, kWireFieldMax]. ------------------------------------------------------------------------------------

inline void AppendVarint(std::string* out, uint64_t value) {
  char bytes[kVarintBytesMax];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = static_cast<char>(value);
  out->append(bytes, n);
}

inline void AppendZigZag(std::string* out, int64_t value) { AppendVarint(out, ZigZagEncode(value)); }

inline void AppendTag(std::string* out, uint32_t field, WireType type) {
  CHECK(field >= 1 && field <= kWireFieldMax) << "field " << field;
  AppendVarint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

template <typename Unsigned>
void AppendLittleEndian(std::string* out, Unsigned value) {
  char bytes[sizeof(Unsigned)];
  for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out->append(bytes, sizeof(bytes));
}

// uint64, bool, enum; and int64, whose negative numbers take ten bytes.
inline void AppendVarintField(std::string* out, uint32_t field, uint64_t value) {
  AppendTag(out, field, WireType::kVarint);
  AppendVarint(out, value);
}

// sint64.
inline void AppendZigZagField(std::string* out, uint32_t field, int64_t value) {
  AppendTag(out, field, WireType::kVarint);
  AppendZigZag(out, value);
}

inline void AppendFixed64Field(std::string* out, uint32_t field, uint64_t value) {
  AppendTag(out, field, WireType::kFixed64);
  AppendLittleEndian(out, value);
}

inline void AppendFixed32Field(std::string* out, uint32_t field, uint32_t value) {
  AppendTag(out, field, WireType::kFixed32);
  AppendLittleEndian(out, value);
}

inline void AppendDoubleField(std::string* out, uint32_t field, double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  AppendFixed64Field(out, field, bits);
}

// Length and bytes, without a tag.
inline void AppendLengthDelimited(std::string* out, absl::string_view bytes) {
  AppendVarint(out, bytes.size());
  out->append(bytes.data(), bytes.size());
}

// string, bytes, an encoded message, a packed list.
inline void AppendBytesField(std::string* out, uint32_t field, absl::string_view bytes) {
  AppendTag(out, field, WireType::kBytes);
  AppendLengthDelimited(out, bytes);
}

// A message (or packed list) that `append(out)` writes straight into `out`; the length is put before it afterwards.
template <typename Append>
void AppendMessageField(std::string* out, uint32_t field, Append&& append) {
  AppendTag(out, field, WireType::kBytes);
  const size_t start = out->size();
  append(out);
  std::string length;
  AppendVarint(&length, out->size() - start);
  out->insert(start, length);
}

// Reading. ------------------------------------------------------------------------------------------------------------------------

// Walks over bytes it does not own. Malformed input is DATA_LOSS with the position; the out-parameters are then unchanged.
//   while (!reader.done()) {
//     RETURN_IF_ERROR(reader.ReadTag(&field, &type));
//     if (field == 1) { RETURN_IF_ERROR(reader.ReadVarintField(type, &job)); } else { RETURN_IF_ERROR(reader.Skip(type)); }
//   }
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : bytes_(bytes) {}

  bool done() const { return at_ == bytes_.size(); }
  size_t position() const { return at_; }
  size_t remaining() const { return bytes_.size() - at_; }

  absl::Status ReadVarint(uint64_t* value) {
    uint64_t result = 0;
    for (size_t i = 0; i < kVarintBytesMax; ++i) {
      if (i == remaining()) return Malformed("ends within a number");
      const auto byte = static_cast<unsigned char>(bytes_[at_ + i]);
      // The tenth byte has room for one bit.
      if (i == kVarintBytesMax - 1 && byte > 1) break;
      result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        at_ += i + 1;
        *value = result;
        return absl::OkStatus();
      }
    }
    return Malformed("a number of more than 64 bits");
  }

  absl::Status ReadZigZag(int64_t* value) {
    uint64_t encoded;
    RETURN_IF_ERROR(ReadVarint(&encoded));
    *value = ZigZagDecode(encoded);
    return absl::OkStatus();
  }

  absl::Status ReadTag(uint32_t* field, WireType* type) {
    uint64_t tag;
    const size_t start = at_;
    RETURN_IF_ERROR(ReadVarint(&tag));
    const uint64_t number = tag >> 3;
    const auto kind = static_cast<uint32_t>(tag & 7);
    at_ = start;  // errors name the tag's own position
    if (number == 0 || number > kWireFieldMax) return Malformed(absl::StrCat("field number ", number));
    if (kind == 3 || kind == 4 || kind > 5) return Malformed(absl::StrCat("wire type ", kind, " in field ", number));
    RETURN_IF_ERROR(ReadVarint(&tag));
    *field = static_cast<uint32_t>(number);
    *type = static_cast<WireType>(kind);
    return absl::OkStatus();
  }

  // Length and bytes. The view lives as long as the reader's input.
  absl::Status ReadLengthDelimited(absl::string_view* bytes) {
    const size_t start = at_;
    uint64_t length;
    RETURN_IF_ERROR(ReadVarint(&length));
    if (length > remaining()) {
      const size_t left = remaining();
      at_ = start;
      return Malformed(absl::StrCat("a length of ", length, " bytes where ", left, " are left"));
    }
    *bytes = bytes_.substr(at_, length);
    at_ += length;
    return absl::OkStatus();
  }

  absl::Status ReadFixed64(uint64_t* value) { return ReadLittleEndian(value); }
  absl::Status ReadFixed32(uint32_t* value) { return ReadLittleEndian(value); }

  // The value after a tag: refused when the tag announced another wire type than the field has.
  absl::Status ReadVarintField(WireType type, uint64_t* value) {
    RETURN_IF_ERROR(Expect(type, WireType::kVarint));
    return ReadVarint(value);
  }
  absl::Status ReadVarintField(WireType type, int64_t* value) {  // int64
    uint64_t bits;
    RETURN_IF_ERROR(ReadVarintField(type, &bits));
    *value = static_cast<int64_t>(bits);
    return absl::OkStatus();
  }
  absl::Status ReadZigZagField(WireType type, int64_t* value) {
    RETURN_IF_ERROR(Expect(type, WireType::kVarint));
    return ReadZigZag(value);
  }
  absl::Status ReadBytesField(WireType type, absl::string_view* bytes) {
    RETURN_IF_ERROR(Expect(type, WireType::kBytes));
    return ReadLengthDelimited(bytes);
  }
  absl::Status ReadBytesField(WireType type, std::string* bytes) {
    absl::string_view view;
    RETURN_IF_ERROR(ReadBytesField(type, &view));
    bytes->assign(view.data(), view.size());
    return absl::OkStatus();
  }
  absl::Status ReadFixed64Field(WireType type, uint64_t* value) {
    RETURN_IF_ERROR(Expect(type, WireType::kFixed64));
    return ReadFixed64(value);
  }
  absl::Status ReadFixed32Field(WireType type, uint32_t* value) {
    RETURN_IF_ERROR(Expect(type, WireType::kFixed32));
    return ReadFixed32(value);
  }
  absl::Status ReadDoubleField(WireType type, double* value) {
    uint64_t bits;
    RETURN_IF_ERROR(ReadFixed64Field(type, &bits));
    std::memcpy(value, &bits, sizeof(bits));
    return absl::OkStatus();
  }

  // Passes over the value of a field that the codec does not know.
  absl::Status Skip(WireType type) {
    uint64_t number;
    uint32_t half;
    absl::string_view bytes;
    switch (type) {
      case WireType::kVarint: return ReadVarint(&number);
      case WireType::kFixed64: return ReadFixed64(&number);
      case WireType::kBytes: return ReadLengthDelimited(&bytes);
      case WireType::kFixed32: return ReadFixed32(&half);
    }
    return Malformed(absl::StrCat("wire type ", static_cast<uint32_t>(type)));
  }

 private:
  absl::Status Malformed(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("malformed record at byte ", at_, " of ", bytes_.size(), ": ", what));
  }

  absl::Status Expect(WireType type, WireType expected) const {
    if (type == expected) return absl::OkStatus();
    return Malformed(absl::StrCat("wire type ", static_cast<uint32_t>(type), " where ", static_cast<uint32_t>(expected), " is expected"));
  }

  template <typename Unsigned>
  absl::Status ReadLittleEndian(Unsigned* value) {
    if (remaining() < sizeof(Unsigned)) return Malformed("ends within a fixed-size number");
    Unsigned result = 0;
    for (size_t i = 0; i < sizeof(Unsigned); ++i) {
      result |= static_cast<Unsigned>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    }
    at_ += sizeof(Unsigned);
    *value = result;
    return absl::OkStatus();
  }

  absl::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace spillway
