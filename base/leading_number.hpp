// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace clusterprof {

// The whole number that the text begins with, whatever follows it: 30 of "30 sec". Nothing if it begins with
// none, or with one that does not fit.
template <typename Number = int>
std::optional<Number> leading_number(std::string_view text) {
  Number number{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace clusterprof
