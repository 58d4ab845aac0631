// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof start RUN` and `clusterprof stop RUN`: ask the collectors of a running run to open or close a
// window of recording, and say what they did.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace clusterprof::cli {

struct ControlOptions {
  std::string run;
  std::string lasting;  // --for; empty: until it is stopped
};

// "60s", "1.5m", "2h"; seconds without a unit. No value: not a time.
std::optional<double> parse_seconds(std::string_view text);
// The same; no value also if it is too short (a second), or too long.
std::optional<std::uint64_t> parse_lasting_ns(std::string_view text);

// The exit status: 0 if any node did it.
int start_recording(const ControlOptions& options);
int stop_recording(const ControlOptions& options);

}  // namespace clusterprof::cli
