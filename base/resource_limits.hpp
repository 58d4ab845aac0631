// SPDX-License-Identifier: BSD-3-Clause
// What --max-memory BYTES, --memory BYTES and --max-cpu PERCENT say.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/decimal.hpp"

namespace clusterprof {

// Less would not do for the libraries that read symbols and write shards.
inline constexpr std::uint64_t kLeastMemory_bytes = 48 << 20;
inline constexpr std::string_view kMaxMemoryValues = "bytes, 48M or more, as in 500M or 2G";

// "500M": K, M and G are powers of 1024.
inline std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  int shift = 0;
  if (unit == "K" || unit == "k")
    shift = 10;
  else if (unit == "M" || unit == "m")
    shift = 20;
  else if (unit == "G" || unit == "g")
    shift = 30;
  else if (!unit.empty())
    return std::nullopt;
  if (number > (std::uint64_t{1} << 62) >> shift) return std::nullopt;
  return number << shift;
}

inline std::optional<std::uint64_t> parse_max_memory(std::string_view text) {
  const auto bytes = parse_bytes(text);
  return bytes && *bytes < kLeastMemory_bytes ? std::nullopt : bytes;
}

// The sampling interval of allocations. A shorter one would record each small object, for which there is no
// room.
inline constexpr std::uint64_t kMemoryInterval_bytes = 64 << 10;
inline constexpr std::uint64_t kLeastMemoryInterval_bytes = 512, kMostMemoryInterval_bytes = 1 << 30;
inline constexpr std::string_view kMemoryIntervalValues = "bytes from 512 to 1G, as in 64K";

// 0: allocations are not to be recorded. As a variable it may also be a switch.
inline std::optional<std::uint64_t> parse_memory_interval(std::string_view text) {
  for (const std::string_view on : {"", "1", "yes", "on", "true"})
    if (text == on) return kMemoryInterval_bytes;
  for (const std::string_view off : {"0", "no", "off", "false"})
    if (text == off) return 0;
  const auto bytes = parse_bytes(text);
  return bytes && (*bytes < kLeastMemoryInterval_bytes || *bytes > kMostMemoryInterval_bytes) ? std::nullopt
                                                                                              : bytes;
}

inline constexpr double kLeastCpu_percent = 0.1, kMostCpu_percent = 10'000;
inline constexpr std::string_view kMaxCpuValues = "percent of one processor from 0.1 to 10000";

inline std::optional<double> parse_max_cpu(std::string_view text) {
  const auto percent = parse_decimal(text);
  if (!percent || *percent < kLeastCpu_percent || *percent > kMostCpu_percent) return std::nullopt;
  return percent;
}

}  // namespace clusterprof
