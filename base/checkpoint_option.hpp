// SPDX-License-Identifier: BSD-3-Clause
// What --checkpoint SECONDS|local says.
#pragma once

#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace clusterprof {

struct CheckpointOption {
  std::chrono::seconds interval{5};  // the most that a lost node loses
  bool local = false;                // kept on the node's own disk until the end
  friend bool operator==(const CheckpointOption&, const CheckpointOption&) = default;
};

inline constexpr int kLeastCheckpoint_s = 2, kMostCheckpoint_s = 86'400;
inline constexpr std::string_view kCheckpointValues = "a whole number of seconds from 2 to 86400, or local";

inline std::optional<CheckpointOption> parse_checkpoint_option(std::string_view text) {
  CheckpointOption option;
  if (text == "local") {
    option.local = true;
    return option;
  }
  int seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || rest != text.data() + text.size() || seconds < kLeastCheckpoint_s ||
      seconds > kMostCheckpoint_s)
    return std::nullopt;
  option.interval = std::chrono::seconds(seconds);
  return option;
}

inline std::string to_string(const CheckpointOption& option) {
  return option.local ? "local" : std::to_string(option.interval.count());
}

}  // namespace clusterprof
