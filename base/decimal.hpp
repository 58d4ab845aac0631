// SPDX-License-Identifier: BSD-3-Clause
// Reads a decimal number such as "10", "2.5" or ".25", without sign and exponent, of at most 15 digits. As
// std::from_chars does for double, but without libm, which the launcher and the SPANK plugin do without.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace clusterprof {

inline std::optional<double> parse_decimal(std::string_view text) {
  constexpr int kMostDigits = 15;
  std::uint64_t number = 0, divisor = 1;
  int digits = 0;
  bool is_behind_point = false;
  for (const char c : text) {
    if (c == '.' && !is_behind_point) {
      is_behind_point = true;
    } else if (c >= '0' && c <= '9' && digits < kMostDigits) {
      ++digits;
      number = 10 * number + static_cast<std::uint64_t>(c - '0');
      if (is_behind_point) divisor *= 10;
    } else {
      return std::nullopt;
    }
  }
  if (digits == 0) return std::nullopt;
  return static_cast<double>(number) / static_cast<double>(divisor);
}

}  // namespace clusterprof
