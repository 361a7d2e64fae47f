#include "scheduler/store/codec.h"

namespace spillway::store {
namespace {

using core::Event;

// The alternative with index `number` - 1, read from `body`.
template <size_t I = 0>
absl::StatusOr<Event> ReadAlternative(uint32_t number, absl::string_view body) {
  if constexpr (I == std::variant_size_v<Event>) {
    return absl::FailedPreconditionError(absl::StrCat("event kind ", number, " is not known to this version (it knows ", I, "): written by a newer one"));
  } else {
    if (number != I + 1) return ReadAlternative<I + 1>(number, body);
    std::variant_alternative_t<I, Event> event;
    RETURN_IF_ERROR(FieldReader::Read(body, &event));
    return Event(std::move(event));
  }
}

absl::StatusOr<Event> DecodeEvent(absl::string_view bytes) {
  WireReader reader(bytes);
  if (reader.done()) return absl::DataLossError("an event without a kind");
  uint32_t number;
  WireType type;
  absl::string_view body;
  RETURN_IF_ERROR(reader.ReadTag(&number, &type));
  RETURN_IF_ERROR(reader.ReadBytesField(type, &body));
  if (!reader.done()) return absl::DataLossError("an event of two kinds");
  return ReadAlternative(number, body);
}

}  // namespace

std::string EncodeEvents(const std::vector<Event>& events) {
  std::string out;
  for (const Event& event : events) {
    AppendMessageField(&out, 1, [&](std::string* into) {
      FieldWriter writer(into);
      // The kind is there even when every field of it is zero.
      std::visit([&](const auto& body) { writer.Message(static_cast<uint32_t>(event.index() + 1), body); }, event);
    });
  }
  return out;
}

absl::StatusOr<std::vector<Event>> DecodeEvents(absl::string_view bytes) {
  // A turn may have very many, and each is large: the room for all is made once.
  std::vector<absl::string_view> bodies;
  WireReader reader(bytes);
  while (!reader.done()) {
    uint32_t field;
    WireType type;
    RETURN_IF_ERROR(reader.ReadTag(&field, &type));
    if (field != 1) {
      RETURN_IF_ERROR(reader.Skip(type));
      continue;
    }
    RETURN_IF_ERROR(reader.ReadBytesField(type, &bodies.emplace_back()));
  }
  std::vector<Event> events;
  events.reserve(bodies.size());
  for (const absl::string_view body : bodies) {
    ASSIGN_OR_RETURN(Event event, DecodeEvent(body));
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace spillway::store
