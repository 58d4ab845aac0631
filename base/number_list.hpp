// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace clusterprof {

inline constexpr std::uint32_t kMaxProcessors = 65536;

// "0-3,8": numbers in ascending order; empty where the text is no such list, or one beyond 65535.
inline std::optional<std::vector<std::uint32_t>> parse_number_list(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](std::uint32_t& to) {
    const auto [next, error] = std::from_chars(at, end, to);
    if (error != std::errc() || to >= kMaxProcessors) return false;
    at = next;
    return true;
  };
  while (at != end) {
    std::uint32_t first = 0;
    if (!number(first)) return {};
    std::uint32_t last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(last) || last < first) return {};
    }
    for (std::uint32_t i = first; i <= last; ++i) numbers.push_back(i);
    if (at == end) break;
    if (*at != ',' || ++at == end || numbers.size() > kMaxProcessors) return {};
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.empty()) return {};
  return numbers;
}

}  // namespace clusterprof
