// SPDX-License-Identifier: BSD-3-Clause
#include "collector/node/usage.hpp"

#include <algorithm>

namespace clusterprof::collector {
namespace {

void raise(std::uint64_t& value, std::uint64_t other) { value = std::max(value, other); }

// For several processes this is all that their usage says together; it is no sum.
void raise_rest(SystemUsage& usage, const SystemUsage& other) {
  raise(usage.max_rss_bytes, other.max_rss_bytes);
  usage.has_io = usage.has_io || other.has_io;
  usage.has_rss = usage.has_rss || other.has_rss;
}

}  // namespace

void raise_usage(SystemUsage& usage, const SystemUsage& other) {
  for (const UsageField& field : kSummedUsage) raise(usage.*field.system, other.*field.system);
  raise_rest(usage, other);
}

SystemUsage larger_usage(const wire::ProcessUsage& agent, const std::optional<SystemUsage>& system) {
  SystemUsage usage{.max_rss_bytes = agent.max_rss_bytes,
                    .has_io = agent.usage_has_io != wire::kIoNotTold,
                    .has_rss = agent.max_rss_bytes != 0};
  for (const UsageField& field : kSummedUsage) usage.*field.system = agent.*field.agent;
  if (system) raise_usage(usage, *system);
  return usage;
}

SystemUsage usage_of(const ProcessReport& report, const std::optional<SystemUsage>& system) {
  SystemUsage usage = larger_usage(report.usage, system);
  if (report.end_mono_ns != 0) return usage;
  std::uint64_t sampled_ns = 0;
  for (const auto& [key, amount] : report.values) sampled_ns += amount.cpu_ns;
  const std::uint64_t known_ns = usage.user_ns + usage.system_ns;
  if (sampled_ns > known_ns) usage.user_ns += sampled_ns - known_ns;
  return usage;
}

void add_usage(SystemUsage& sum, const SystemUsage& usage) {
  for (const UsageField& field : kSummedUsage) sum.*field.system += usage.*field.system;
  raise_rest(sum, usage);
}

}  // namespace clusterprof::collector
