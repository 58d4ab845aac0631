// SPDX-License-Identifier: BSD-3-Clause
// What --max-memory BYTES and --max-cpu PERCENT say.
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
inline std::optional<std::uint64_t> parse_max_memory(std::string_view text) {
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
  number <<= shift;
  return number < kLeastMemory_bytes ? std::nullopt : std::optional(number);
}

inline constexpr double kLeastCpu_percent = 0.1, kMostCpu_percent = 10'000;
inline constexpr std::string_view kMaxCpuValues = "percent of one processor from 0.1 to 10000";

inline std::optional<double> parse_max_cpu(std::string_view text) {
  const auto percent = parse_decimal(text);
  if (!percent || *percent < kLeastCpu_percent || *percent > kMostCpu_percent) return std::nullopt;
  return percent;
}

}  // namespace clusterprof
