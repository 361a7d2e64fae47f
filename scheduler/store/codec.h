// The persisted bytes: protobuf's wire format, made from the Fields() of model.h and event.h. proto/spillway/store/v1 describes the same bytes, and a test
// holds the two together, so that any protobuf tool reads a store.
//
//   int64 -> sint64 (zigzag), uint64, bool, enum -> varint, std::string -> bytes, struct -> nested message, vector and set -> repeated (numbers packed),
//   map -> repeated {1: key, 2: value}, optional -> a field that is there or not
//
// Zeros, empty texts and empty lists are left out. A reader therefore starts from zero, not from a struct's own defaults: a field that an old record lacks
// reads as 0. Equal values give equal bytes. Unknown field numbers are skipped. Garbage is DATA_LOSS, never a crash; what decoding allocates is bounded by
// the input (a small factor), its depth by the types.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/attempt_words.h"
#include "base/status_macros.h"
#include "base/varint.h"
#include "scheduler/core/event.h"

namespace spillway::store {

namespace codec_internal {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<std::vector<T>> : std::true_type {};
template <typename T>
struct IsList<std::set<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};

template <typename T>
inline constexpr bool kIsNumber = std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t> || std::is_enum_v<T>;

template <typename T>
uint64_t ToVarint(T number) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return ZigZagEncode(number);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<uint64_t>(static_cast<std::underlying_type_t<T>>(number));
  } else {
    return static_cast<uint64_t>(number);
  }
}

template <typename T>
absl::Status FromVarint(uint64_t bits, T* number) {
  if constexpr (std::is_same_v<T, int64_t>) {
    *number = ZigZagDecode(bits);
  } else if constexpr (std::is_same_v<T, bool>) {
    *number = bits != 0;
  } else if constexpr (std::is_enum_v<T>) {
    if (bits > 0x7fffffff) return absl::DataLossError(absl::StrCat("word number ", bits));
    *number = static_cast<T>(bits);
  } else {
    *number = bits;
  }
  return absl::OkStatus();
}

}  // namespace codec_internal

// Appends fields of one message to `out`.
class FieldWriter {
 public:
  explicit FieldWriter(std::string* out) : out_(out) {}

  template <typename T>
  void operator()(uint32_t field, const T& value) {
    using namespace codec_internal;
    if constexpr (kIsNumber<T>) {
      if (const uint64_t bits = ToVarint(value); bits != 0) AppendVarintField(out_, field, bits);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) AppendBytesField(out_, field, value);
    } else if constexpr (IsOptional<T>::value) {
      if (value.has_value()) Message(field, *value);
    } else if constexpr (IsMap<T>::value) {
      for (const auto& element : value) {
        AppendMessageField(out_, field, [&](std::string* out) {
          FieldWriter entry(out);
          entry(1, element.first), entry(2, element.second);
        });
      }
    } else if constexpr (IsList<T>::value) {
      List(field, value);
    } else {
      const size_t before = out_->size();
      Message(field, value);
      // A message of nothing but zeros is as good as none.
      if (out_->back() == 0 && out_->size() == before + TagSize(field) + 1) out_->resize(before);
    }
  }

  template <typename T>
  void Message(uint32_t field, const T& value) {
    AppendMessageField(out_, field, [&](std::string* out) {
      FieldWriter writer(out);
      T::Fields(value, writer);
    });
  }

 private:
  template <typename L>
  void List(uint32_t field, const L& list) {
    using T = typename L::value_type;
    if (list.empty()) return;
    if constexpr (codec_internal::kIsNumber<T>) {
      AppendMessageField(out_, field, [&](std::string* out) {
        for (const T& number : list) AppendVarint(out, codec_internal::ToVarint(number));
      });
    } else {
      for (const T& element : list) {
        if constexpr (std::is_same_v<T, std::string>) {
          AppendBytesField(out_, field, element);
        } else {
          Message(field, element);
        }
      }
    }
  }

  static size_t TagSize(uint32_t field) { return VarintSize(static_cast<uint64_t>(field) << 3); }

  std::string* out_;
};

// Sets every field to zero, nested ones too.
struct FieldZeroer {
  template <typename T>
  void operator()(uint32_t, T& value) {
    using namespace codec_internal;
    if constexpr (kIsNumber<T> || std::is_same_v<T, std::string> || IsOptional<T>::value || IsMap<T>::value || IsList<T>::value) {
      value = T();
    } else {
      T::Fields(value, *this);
    }
  }
};

// Reads one message. The fields are visited in passes; in-order input (all that FieldWriter makes) takes one.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : reader_(bytes) {}

  template <typename T>
  static absl::Status Read(absl::string_view bytes, T* value) {
    FieldZeroer zero;
    T::Fields(*value, zero);
    FieldReader fields(bytes);
    fields.NextTag();
    while (fields.status_.ok() && fields.has_tag_) {
      fields.taken_ = false;
      T::Fields(*value, fields);
      if (fields.status_.ok() && fields.has_tag_ && !fields.taken_) fields.SkipField();
    }
    return fields.status_;
  }

  template <typename T>
  void operator()(uint32_t field, T& value) {
    while (has_tag_ && field_ == field && status_.ok()) {
      taken_ = true;
      status_ = One(&value);
      NextTag();
    }
  }

 private:
  template <typename T>
  absl::Status One(T* value) {
    using namespace codec_internal;
    if constexpr (kIsNumber<T>) {
      uint64_t bits;
      RETURN_IF_ERROR(reader_.ReadVarintField(type_, &bits));
      return FromVarint(bits, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return reader_.ReadBytesField(type_, value);
    } else if constexpr (IsOptional<T>::value) {
      return One(&value->emplace());
    } else if constexpr (IsMap<T>::value) {
      absl::string_view bytes;
      RETURN_IF_ERROR(reader_.ReadBytesField(type_, &bytes));
      MapEntry<typename T::key_type, typename T::mapped_type> entry;
      RETURN_IF_ERROR(Read(bytes, &entry));
      value->insert_or_assign(std::move(entry.key), std::move(entry.value));
      return absl::OkStatus();
    } else if constexpr (IsList<T>::value) {
      return Element(value);
    } else {
      absl::string_view bytes;
      RETURN_IF_ERROR(reader_.ReadBytesField(type_, &bytes));
      return Read(bytes, value);
    }
  }

  template <typename L>
  absl::Status Element(L* list) {
    using T = typename L::value_type;
    if constexpr (codec_internal::kIsNumber<T>) {
      if (type_ == WireType::kBytes) {  // packed
        absl::string_view bytes;
        RETURN_IF_ERROR(reader_.ReadBytesField(type_, &bytes));
        WireReader packed(bytes);
        while (!packed.done()) {
          uint64_t bits;
          T number;
          RETURN_IF_ERROR(packed.ReadVarint(&bits));
          RETURN_IF_ERROR(codec_internal::FromVarint(bits, &number));
          list->insert(list->end(), number);
        }
        return absl::OkStatus();
      }
    }
    T element;
    RETURN_IF_ERROR(One(&element));
    list->insert(list->end(), std::move(element));
    return absl::OkStatus();
  }

  template <typename K, typename V>
  struct MapEntry {
    K key{};
    V value{};
    template <typename S, typename A>
    static void Fields(S& s, A& a) {
      a(1, s.key), a(2, s.value);
    }
  };

  void NextTag() {
    has_tag_ = status_.ok() && !reader_.done();
    if (has_tag_) status_ = reader_.ReadTag(&field_, &type_);
  }
  void SkipField() {
    status_ = reader_.Skip(type_);
    NextTag();
  }

  WireReader reader_;
  absl::Status status_;
  uint32_t field_ = 0;
  WireType type_ = WireType::kVarint;
  bool has_tag_ = false;
  bool taken_ = false;
};

template <typename T>
std::string Encode(const T& value) {
  std::string out;
  FieldWriter writer(&out);
  T::Fields(value, writer);
  return out;
}

template <typename T>
absl::StatusOr<T> Decode(absl::string_view bytes) {
  T value;
  RETURN_IF_ERROR(FieldReader::Read(bytes, &value));
  return value;
}

// The events of one turn: message EventBatch { repeated Event events = 1 } where Event has one field, numbered by the alternative's index + 1.
// An alternative this version does not know is FAILED_PRECONDITION: a record must be replayed whole or not at all.
std::string EncodeEvents(const std::vector<core::Event>& events);
absl::StatusOr<std::vector<core::Event>> DecodeEvents(absl::string_view bytes);

}  // namespace spillway::store
