// SPDX-License-Identifier: BSD-3-Clause
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "formats/run/run_control.hpp"

namespace clusterprof {

std::optional<double> parse_seconds(std::string_view text) {
  double value = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(stop, static_cast<std::size_t>(text.data() + text.size() - stop));
  const double unit_s = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  return std::isfinite(value) && value >= 0 && unit_s > 0 ? std::optional(value * unit_s) : std::nullopt;
}

std::optional<std::uint64_t> parse_lasting_ns(std::string_view text) {
  const std::optional<double> lasting_s = parse_seconds(text);
  if (!lasting_s || *lasting_s < 1 || *lasting_s > static_cast<double>(kLongestWindow_ns) / 1e9)
    return std::nullopt;
  return static_cast<std::uint64_t>(*lasting_s * 1e9);
}

}  // namespace clusterprof
