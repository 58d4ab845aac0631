// SPDX-License-Identifier: BSD-3-Clause
// --checkpoint, --max-memory and --max-cpu: options of the collector. The Slurm plugin checks them, the
// launcher passes them on, and the collector obeys them; all three read them here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checkpoint_option.hpp"
#include "base/resource_limits.hpp"
#include "base/result.hpp"

namespace clusterprof {

// What was not given is left to the collector.
struct CollectorOptions {
  std::optional<CheckpointOption> checkpoint;
  std::optional<std::uint64_t> max_memory_bytes;  // of the collector
  std::optional<double> max_cpu_percent;          // of one processor
};

inline constexpr std::array<std::string_view, 3> kCollectorOptions = {"checkpoint", "max-memory", "max-cpu"};

// Stores the value of the option that `name` of kCollectorOptions says. The message of an error begins with
// `label`, which is what the user calls the option.
inline Result<void> set_collector_option(CollectorOptions& options, std::string_view name,
                                         const std::string& value, const std::string& label) {
  const auto store = [&](auto& option, const auto& parsed, std::string_view allowed) -> Result<void> {
    if (!parsed) return Error{label + ": " + std::string(allowed) + ", not '" + value + "'"};
    option = parsed;
    return {};
  };
  if (name == "checkpoint")
    return store(options.checkpoint, parse_checkpoint_option(value), kCheckpointValues);
  if (name == "max-memory") return store(options.max_memory_bytes, parse_max_memory(value), kMaxMemoryValues);
  return store(options.max_cpu_percent, parse_max_cpu(value), kMaxCpuValues);
}

// The same as words of a command line.
inline std::vector<std::string> words_of(const CollectorOptions& options) {
  std::vector<std::string> words;
  if (options.checkpoint) words.push_back("--checkpoint=" + to_string(*options.checkpoint));
  if (options.max_memory_bytes) words.push_back("--max-memory=" + std::to_string(*options.max_memory_bytes));
  if (options.max_cpu_percent) words.push_back("--max-cpu=" + std::to_string(*options.max_cpu_percent));
  return words;
}

}  // namespace clusterprof
