// SPDX-License-Identifier: BSD-3-Clause
// How long the launcher waits at the end of a job for a collector that makes no progress.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>

namespace clusterprof {

inline constexpr const char* kEndPatienceVariable = "CLUSTERPROF_END_PATIENCE";  // in seconds
inline constexpr std::chrono::seconds kEndPatience{60};

// Parses the variable's value; nullptr gives the default. No value: it is not a number of seconds.
inline std::optional<std::chrono::seconds> end_patience(const char* text) {
  if (text == nullptr) return kEndPatience;
  constexpr std::uint32_t kMaxSeconds = 7 * 86400;
  std::uint32_t seconds = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, seconds);
  if (error != std::errc() || stop != end || seconds == 0 || seconds > kMaxSeconds) return std::nullopt;
  return std::chrono::seconds(seconds);
}

}  // namespace clusterprof
