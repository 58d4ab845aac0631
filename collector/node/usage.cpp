// SPDX-License-Identifier: BSD-3-Clause
#include "collector/node/usage.hpp"

#include <algorithm>

namespace clusterprof::collector {

SystemUsage larger_usage(const wire::ProcessUsage& agent, const std::optional<SystemUsage>& system) {
  SystemUsage usage = system.value_or(SystemUsage{});
  const bool agent_knows = agent.max_rss_bytes != 0;
  usage.user_ns = std::max(usage.user_ns, agent.user_ns);
  usage.system_ns = std::max(usage.system_ns, agent.system_ns);
  usage.max_rss_bytes = std::max(usage.max_rss_bytes, agent.max_rss_bytes);
  usage.minor_faults = std::max(usage.minor_faults, agent.minor_faults);
  usage.major_faults = std::max(usage.major_faults, agent.major_faults);
  usage.voluntary_switches = std::max(usage.voluntary_switches, agent.voluntary_switches);
  usage.involuntary_switches = std::max(usage.involuntary_switches, agent.involuntary_switches);
  usage.read_bytes = std::max(usage.read_bytes, agent.read_bytes);
  usage.write_bytes = std::max(usage.write_bytes, agent.write_bytes);
  usage.has_io = usage.has_io || agent.usage_has_io != 0;
  usage.has_rss = usage.has_rss || agent_knows;
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
  sum.user_ns += usage.user_ns;
  sum.system_ns += usage.system_ns;
  sum.max_rss_bytes = std::max(sum.max_rss_bytes, usage.max_rss_bytes);
  sum.minor_faults += usage.minor_faults;
  sum.major_faults += usage.major_faults;
  sum.voluntary_switches += usage.voluntary_switches;
  sum.involuntary_switches += usage.involuntary_switches;
  sum.read_bytes += usage.read_bytes;
  sum.write_bytes += usage.write_bytes;
  sum.has_io = sum.has_io || usage.has_io;
  sum.has_rss = sum.has_rss || usage.has_rss;
}

}  // namespace clusterprof::collector
