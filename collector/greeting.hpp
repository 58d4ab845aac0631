// SPDX-License-Identifier: BSD-3-Clause
// What the first message on a connection is (formats/wire/hello.h). Any thread may call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "collector/os/received_message.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::collector {

// All greetings begin with these, in all versions.
struct GreetingBegin {
  std::uint64_t magic;
  std::uint32_t wire_major;
};

// No value: the message is something else.
template <typename T>
std::optional<T> greeting_as(const ReceivedMessage& message, std::uint64_t magic) {
  T value;
  if (message.bytes < static_cast<ssize_t>(sizeof value)) return std::nullopt;
  std::memcpy(&value, message.data, sizeof value);
  if (value.magic != magic || value.wire_major != wire::kWireMajor) return std::nullopt;
  return value;
}

// A greeting of an agent or launcher of another version, whatever follows in it.
inline bool is_of_other_version(const ReceivedMessage& message) {
  GreetingBegin begin;
  constexpr std::size_t kBytes = offsetof(GreetingBegin, wire_major) + sizeof begin.wire_major;
  if (message.bytes < static_cast<ssize_t>(kBytes)) return false;
  std::memcpy(&begin, message.data, kBytes);
  const bool is_greeting = begin.magic == wire::kHelloMagic || begin.magic == wire::kRefusalMagic ||
                           begin.magic == wire::kAnnounceMagic;
  return is_greeting && begin.wire_major != wire::kWireMajor;
}

}  // namespace clusterprof::collector
