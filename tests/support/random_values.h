// Random values of any type that has Fields(): every field set to something, extremes and zeros included. For tests of codecs and stores.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "scheduler/core/event.h"

namespace spillway::testing {

class RandomFields {
 public:
  explicit RandomFields(Rng* rng) : rng_(rng) {}

  template <typename T>
  void operator()(uint32_t, T& value) {
    Fill(&value);
  }

  template <typename T>
  T Make() {
    T value;
    Fill(&value);
    return value;
  }

  void Fill(bool* v) { *v = rng_->Below(2) == 1; }
  void Fill(int64_t* v) {
    switch (rng_->Below(6)) {
      case 0: *v = 0; break;
      case 1: *v = INT64_MIN; break;
      case 2: *v = INT64_MAX; break;
      case 3: *v = -rng_->Between(0, 1'000'000); break;
      default: *v = rng_->Between(0, 2'000'000'000'000); break;
    }
  }
  void Fill(uint64_t* v) { *v = rng_->Next(); }
  void Fill(std::string* v) {
    v->clear();
    // Printable: protobuf's own parser refuses text that is not UTF-8.
    for (uint64_t n = rng_->Below(12); n > 0; --n) v->push_back(static_cast<char>(rng_->Between(32, 126)));
  }
  template <typename T>
  void Fill(std::optional<T>* v) {
    v->reset();
    if (rng_->Below(2) == 1) Fill(&v->emplace());
  }
  template <typename T>
  void Fill(std::vector<T>* v) {
    v->clear();
    for (uint64_t n = rng_->Below(4); n > 0; --n) v->push_back(Make<T>());
  }
  template <typename T>
  void Fill(std::set<T>* v) {
    v->clear();
    for (uint64_t n = rng_->Below(4); n > 0; --n) v->insert(Make<T>());
  }
  template <typename K, typename V>
  void Fill(std::map<K, V>* v) {
    v->clear();
    for (uint64_t n = rng_->Below(4); n > 0; --n) v->insert_or_assign(Make<K>(), Make<V>());
  }
  template <typename T>
  void Fill(T* v) {
    if constexpr (std::is_enum_v<T>) {
      *v = static_cast<T>(rng_->Below(4));
    } else {
      T::Fields(*v, *this);
    }
  }

  // The alternative with this index, its fields random.
  template <size_t I = 0>
  core::Event MakeEvent(size_t index) {
    if constexpr (I + 1 < std::variant_size_v<core::Event>) {
      if (index != I) return MakeEvent<I + 1>(index);
    }
    return Make<std::variant_alternative_t<I, core::Event>>();
  }
  core::Event MakeEvent() { return MakeEvent(rng_->Below(std::variant_size_v<core::Event>)); }

 private:
  Rng* rng_;
};

}  // namespace spillway::testing
