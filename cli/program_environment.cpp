// SPDX-License-Identifier: BSD-3-Clause
#include "cli/program_environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/base_name.hpp"
#include "cli/library_token.hpp"
#include "formats/wire/hello.h"
#include "formats/wire/spawned_world.h"

namespace clusterprof::cli {
namespace {

std::string join(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

bool is_asan(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.find("libasan.so") == 0 || name.find("libclang_rt.asan") == 0;
}

}  // namespace

std::string merge_preloads(const std::vector<std::string>& ours, const std::string& users) {
  std::vector<std::string> first, rest;
  for (std::size_t at = 0; at < users.size();) {
    const std::size_t end = std::min(users.find_first_of(": ", at), users.size());
    const std::string entry = users.substr(at, end - at);
    at = end + 1;
    if (entry.empty()) continue;
    // Left by a clusterprof around this one.
    if (base_name(entry).find("libclusterprof_") == 0) continue;
    (is_asan(entry) ? first : rest).push_back(entry);
  }
  first.insert(first.end(), ours.begin(), ours.end());
  first.insert(first.end(), rest.begin(), rest.end());
  return join(first, ':');
}

EnvironmentChanges program_environment(const Options& options, const ProgramEnvironment& facts,
                                       const Environment& current) {
  EnvironmentChanges changes;
  const char* const users_preload = current("LD_PRELOAD");
  const std::string users = users_preload == nullptr ? "" : users_preload;
  const auto set = [&](const char* name, const std::string& value) { changes.emplace_back(name, value); };

  std::vector<std::string> entries = facts.preloads;
  if (facts.by_library_token)
    std::transform(entries.begin(), entries.end(), entries.begin(), with_library_token);
  set("LD_PRELOAD", merge_preloads(entries, users));
  set(wire::kPreloadVariable, join(facts.preloads, ':'));
  set(wire::kSocketVariable, facts.socket_name);
  set(wire::kRankVariable, facts.rank >= 0 ? std::to_string(facts.rank) : "");
  set(wire::kWorldSizeVariable, facts.world_size > 0 ? std::to_string(facts.world_size) : "");
  set(wire::kClockVariable, facts.clock_rendezvous);
  set(wire::kSpawnVariable, facts.spawn);
  set(wire::kWorldVariable, facts.world);
  set(wire::kLaunchVariable, facts.launch);
  set("CLUSTERPROF_RATE", std::to_string(options.rate_hz));
  set("CLUSTERPROF_CLOCK", options.clock == SampleClock::kWall ? "wall" : "cpu");
  set("CLUSTERPROF_EVENT", join(options.events, ','));
  const SampleOn& on = options.sample_on;
  set(wire::kSampleOnVariable, on.event + (on.period != 0 ? ":" + std::to_string(on.period) : ""));
  set(wire::kSampleEventVariable, facts.sample_event);
  set("CLUSTERPROF_STANDBY", options.standby ? "1" : "");
  set("CLUSTERPROF_MODE", options.light ? "light" : "");
  set("CLUSTERPROF_MEMORY", facts.records_memory ? std::to_string(options.memory_interval_bytes) : "");
  set("CLUSTERPROF_NO_PYTHON", options.no_python ? "1" : "");
  set("CLUSTERPROF_NO_NATIVE", options.no_native ? "1" : "");
  set("CLUSTERPROF_NO_MPI", options.no_mpi ? "1" : "");
  set("CLUSTERPROF_NO_CHILDREN", options.no_children ? "1" : "");
  set("CLUSTERPROF_NO_STDERR", options.no_stderr ? "1" : "");
  set("CLUSTERPROF_ONLY_REGIONS", options.only_regions ? "1" : "");
  set("CLUSTERPROF_TORCH_OPS", options.torch_ops ? "1" : "");

  const auto agent = std::find_if(facts.preloads.begin(), facts.preloads.end(), [](const std::string& path) {
    return base_name(path) == wire::kAgentFile;
  });
  for (std::uint32_t i = 0; agent != facts.preloads.end() && i < wire::kAnnotationsByLauncher; ++i) {
    const char* const users_library = current(wire::kAnnotationVariables[i]);
    const bool is_set = users_library != nullptr && *users_library != '\0' &&
                        base_name(users_library) != wire::kAgentFile;  // of a clusterprof around this one
    if (!is_set) set(wire::kAnnotationVariables[i], *agent);
  }

  if (facts.needs_asan && !asks_for_asan(current)) {
    // Its check would end the program for our being loaded before it. Our objects define none of
    // the functions it replaces: the one in front of malloc is left out then.
    const char* const options_now = current("ASAN_OPTIONS");
    const std::string before =
        options_now == nullptr || *options_now == '\0' ? "" : std::string(options_now) + ":";
    set("ASAN_OPTIONS", before + "verify_asan_link_order=0");
  }
  return changes;
}

bool asks_for_asan(const Environment& current) {
  const char* const users = current("LD_PRELOAD");
  return users != nullptr && merge_preloads({}, users).find("asan") != std::string::npos;
}

void apply(const EnvironmentChanges& changes) {
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
}

}  // namespace clusterprof::cli
