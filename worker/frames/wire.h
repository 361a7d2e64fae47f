// Structs to bytes and back, in protobuf's wire format, driven by one list of fields a struct:
//   template <typename A> void Fields(A& a, Stop& s) { a(1, s.key); a(2, s.cause); ... }
// Owns the bytes of integers, text, lists and nested structs. Decoding is bounded: depth by the types, lists by `limit` of the field, text by the
// input. Unknown fields are skipped. Never allocates from a length it has not checked against what is there.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway::frames::wire {

inline void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// False when `in` does not begin with a whole varint of at most 64 bits.
inline bool TakeVarint(absl::string_view& in, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < in.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(in[i]);
    if (i == 9 && byte > 1) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      in.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

inline uint64_t Zigzag(int64_t v) { return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63); }
inline int64_t Unzigzag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
void EncodeFields(std::string& out, const T& value);
template <typename T>
bool DecodeFields(absl::string_view in, T& value);

// Writes each field; empty text and empty lists are left out (every default of theirs is empty).
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(uint32_t field, const T& value, size_t /*limit*/ = 0) {
    if constexpr (IsVector<T>::value) {
      for (const auto& element : value) One(field, element);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) One(field, value);
    } else {
      One(field, value);
    }
  }

 private:
  template <typename T>
  void One(uint32_t field, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      Bytes(field, value);
    } else if constexpr (std::is_same_v<T, double>) {
      PutVarint(out_, field << 3 | kFixed64);
      const auto bits = std::bit_cast<uint64_t>(value);
      for (int i = 0; i < 8; ++i) out_.push_back(static_cast<char>(bits >> (8 * i)));
    } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool> || std::is_unsigned_v<T>) {
      PutVarint(out_, field << 3 | kVarint);
      PutVarint(out_, static_cast<uint64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      PutVarint(out_, field << 3 | kVarint);
      PutVarint(out_, Zigzag(value));
    } else {
      std::string nested;
      EncodeFields(nested, value);
      Bytes(field, nested);
    }
  }
  void Bytes(uint32_t field, absl::string_view bytes) {
    PutVarint(out_, field << 3 | kBytes);
    PutVarint(out_, bytes.size());
    out_.append(bytes.data(), bytes.size());
  }
  std::string& out_;
};

// Offers one decoded field to a struct's list of fields; the one with its number takes it.
class Reader {
 public:
  Reader(uint32_t field, uint32_t type, uint64_t number, absl::string_view bytes) : field_(field), type_(type), number_(number), bytes_(bytes) {}

  template <typename T>
  void operator()(uint32_t field, T& value, size_t limit = 0) {
    if (field != field_) return;
    if constexpr (IsVector<T>::value) {
      if (value.size() >= limit) {
        ok_ = false;
        return;
      }
      value.emplace_back();
      One(value.back());
    } else {
      One(value);
    }
  }
  bool ok() const { return ok_; }

 private:
  template <typename T>
  void One(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if ((ok_ = type_ == kBytes)) value.assign(bytes_.data(), bytes_.size());
    } else if constexpr (std::is_same_v<T, double>) {
      if ((ok_ = type_ == kFixed64)) value = std::bit_cast<double>(number_);
    } else if constexpr (std::is_same_v<T, bool>) {
      if ((ok_ = type_ == kVarint)) value = number_ != 0;
    } else if constexpr (std::is_enum_v<T>) {
      // An enumerator this build does not know is kept as its number: Name says INVALID, comparisons say no.
      if ((ok_ = type_ == kVarint && number_ <= 0xffff)) value = static_cast<T>(number_);
    } else if constexpr (std::is_unsigned_v<T>) {
      value = static_cast<T>(number_);
      ok_ = type_ == kVarint && value == number_;
    } else if constexpr (std::is_integral_v<T>) {
      const int64_t wide = Unzigzag(number_);
      value = static_cast<T>(wide);
      ok_ = type_ == kVarint && value == wide;
    } else {
      ok_ = type_ == kBytes && DecodeFields(bytes_, value);
    }
  }
  const uint32_t field_, type_;
  const uint64_t number_;
  const absl::string_view bytes_;
  bool ok_ = true;
};

template <typename T>
void EncodeFields(std::string& out, const T& value) {
  Writer writer(out);
  Fields(writer, const_cast<T&>(value));  // the writer takes every field by const reference
}

template <typename T>
bool DecodeFields(absl::string_view in, T& value) {
  while (!in.empty()) {
    uint64_t tag = 0, number = 0;
    absl::string_view bytes;
    if (!TakeVarint(in, tag) || tag >> 3 == 0 || tag >> 3 > 0xffff) return false;
    const auto type = static_cast<uint32_t>(tag & 7);
    if (type == kVarint) {
      if (!TakeVarint(in, number)) return false;
    } else if (type == kFixed64) {
      if (in.size() < 8) return false;
      for (int i = 0; i < 8; ++i) number |= static_cast<uint64_t>(static_cast<uint8_t>(in[i])) << (8 * i);
      in.remove_prefix(8);
    } else if (type == kBytes) {
      if (!TakeVarint(in, number) || number > in.size()) return false;
      bytes = in.substr(0, number);
      in.remove_prefix(number);
    } else {
      return false;
    }
    Reader reader(static_cast<uint32_t>(tag >> 3), type, number, bytes);
    Fields(reader, value);
    if (!reader.ok()) return false;
  }
  return true;
}

}  // namespace spillway::frames::wire
