// SPDX-License-Identifier: BSD-3-Clause
#include "cli/program_environment.hpp"

#include <gtest/gtest.h>

#include <map>

#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

TEST(MergePreloads, OursComeFirst) {
  EXPECT_EQ(merge_preloads({"/p/a.so", "/p/b.so"}, ""), "/p/a.so:/p/b.so");
  EXPECT_EQ(merge_preloads({"/p/a.so"}, "/u/x.so y.so"), "/p/a.so:/u/x.so:y.so");
}

TEST(MergePreloads, OursComeBehindAddressSanitizer) {
  EXPECT_EQ(merge_preloads({"/p/a.so"}, "/u/x.so:/lib/libasan.so.8"), "/lib/libasan.so.8:/p/a.so:/u/x.so");
}

TEST(MergePreloads, OfAnOuterClusterprofAreReplaced) {
  EXPECT_EQ(merge_preloads({"/new/libclusterprof_agent.so"}, "/old/libclusterprof_agent.so:x.so"),
            "/new/libclusterprof_agent.so:x.so");
}

TEST(ProgramEnvironment, SaysWhatTheAgentMustKnow) {
  Options options;
  options.rate_hz = 250;
  options.clock = SampleClock::kCpu;
  options.events = {"A", "B"};
  options.sample_on = {"page-faults", 7};
  options.no_children = true;
  options.no_stderr = true;
  options.only_regions = true;
  options.torch_ops = true;
  options.standby = true;
  options.memory_interval_bytes = 4096;
  ProgramEnvironment facts;
  facts.records_memory = true;
  facts.socket_name = "name";
  facts.sample_event = "1,2,0,0,7,2";
  facts.rank = 3;
  facts.preloads = {"/p/a.so", "/p/b.so"};
  facts.clock_rendezvous = "/run/.clocks";
  facts.spawn = "words";
  facts.world = "1:4:/run/.worlds";
  facts.launch = "0:1:2";
  const auto changes = program_environment(options, facts, fake_environment({{"LD_PRELOAD", "u.so"}}));
  const std::map<std::string, std::string> expected = {{"LD_PRELOAD", "/p/a.so:/p/b.so:u.so"},
                                                       {"CLUSTERPROF_AGENT_PRELOAD", "/p/a.so:/p/b.so"},
                                                       {"CLUSTERPROF_AGENT_SOCKET", "name"},
                                                       {"CLUSTERPROF_AGENT_RANK", "3"},
                                                       {"CLUSTERPROF_AGENT_WORLD_SIZE", ""},
                                                       {"CLUSTERPROF_AGENT_CLOCKS", "/run/.clocks"},
                                                       {"CLUSTERPROF_AGENT_SPAWN", "words"},
                                                       {"CLUSTERPROF_AGENT_WORLD", "1:4:/run/.worlds"},
                                                       {"CLUSTERPROF_AGENT_LAUNCH", "0:1:2"},
                                                       {"CLUSTERPROF_RATE", "250"},
                                                       {"CLUSTERPROF_CLOCK", "cpu"},
                                                       {"CLUSTERPROF_EVENT", "A,B"},
                                                       {"CLUSTERPROF_SAMPLE_ON", "page-faults:7"},
                                                       {"CLUSTERPROF_AGENT_SAMPLE_EVENT", "1,2,0,0,7,2"},
                                                       {"CLUSTERPROF_STANDBY", "1"},
                                                       {"CLUSTERPROF_MODE", ""},
                                                       {"CLUSTERPROF_MEMORY", "4096"},
                                                       {"CLUSTERPROF_NO_PYTHON", ""},
                                                       {"CLUSTERPROF_NO_NATIVE", ""},
                                                       {"CLUSTERPROF_NO_MPI", ""},
                                                       {"CLUSTERPROF_NO_CHILDREN", "1"},
                                                       {"CLUSTERPROF_NO_STDERR", "1"},
                                                       {"CLUSTERPROF_ONLY_REGIONS", "1"},
                                                       {"CLUSTERPROF_TORCH_OPS", "1"}};
  EXPECT_EQ((std::map<std::string, std::string>(changes.begin(), changes.end())), expected);
}

TEST(ProgramEnvironment, NamesTheAgentToOtherInterfaces) {
  ProgramEnvironment facts;
  facts.preloads = {"/p/libclusterprof_agent.so", "/p/b.so"};
  const std::map<std::string, std::string> before = {{"INTEL_LIBITTNOTIFY64", "/opt/vtune/collector.so"},
                                                     {"KOKKOS_TOOLS_LIBS", "/old/libclusterprof_agent.so"}};
  std::map<std::string, std::string> changes;
  for (const auto& [name, value] : program_environment({}, facts, fake_environment(before)))
    changes[name] = value;
  EXPECT_EQ(changes.at("NVTX_INJECTION64_PATH"), "/p/libclusterprof_agent.so");
  EXPECT_EQ(changes.count("INTEL_LIBITTNOTIFY64"), 0u) << "the user's is left alone";
  EXPECT_EQ(changes.at("KOKKOS_TOOLS_LIBS"), "/p/libclusterprof_agent.so")
      << "of a clusterprof around this one";
  EXPECT_EQ(changes.count("KOKKOS_PROFILE_LIBRARY"), 0u);
}

TEST(ProgramEnvironment, PreloadsAreNamedByTheTokenInLdPreloadOnly) {
  ProgramEnvironment facts;
  facts.preloads = {"/p/libclusterprof_agent.so", "/p/b.so"};
  facts.by_library_token = true;
  std::map<std::string, std::string> changes;
  const auto before = fake_environment({{"LD_PRELOAD", "/old/$LIB/libclusterprof_agent.so:/u/$LIB/u.so"}});
  for (const auto& [name, value] : program_environment({}, facts, before)) changes[name] = value;
  EXPECT_EQ(changes.at("LD_PRELOAD"), "/p/$LIB/libclusterprof_agent.so:/p/$LIB/b.so:/u/$LIB/u.so");
  EXPECT_EQ(changes.at("CLUSTERPROF_AGENT_PRELOAD"), "/p/libclusterprof_agent.so:/p/b.so");
  EXPECT_EQ(changes.at("KOKKOS_TOOLS_LIBS"), "/p/libclusterprof_agent.so");
}

TEST(ProgramEnvironment, SaysNothingOfMemoryWithoutItsPreload) {
  Options options;
  options.memory_interval_bytes = 4096;
  for (const auto& [name, value] : program_environment(options, {}, fake_environment({}))) {
    if (name == "CLUSTERPROF_MEMORY") {
      EXPECT_EQ(value, "");
    }
  }
  EXPECT_TRUE(asks_for_asan(fake_environment({{"LD_PRELOAD", "x.so:/lib/libasan.so.8"}})));
  EXPECT_FALSE(asks_for_asan(fake_environment({{"LD_PRELOAD", "x.so"}})));
}

TEST(ProgramEnvironment, KeepsAddressSanitizerGoing) {
  ProgramEnvironment facts;
  facts.preloads = {"/p/a.so"};
  facts.needs_asan = true;
  const auto asan_options = [&](const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : program_environment({}, facts, fake_environment(variables))) {
      if (name == "ASAN_OPTIONS") return value;
    }
    return std::string();
  };
  EXPECT_EQ(asan_options({}), "verify_asan_link_order=0");
  EXPECT_EQ(asan_options({{"ASAN_OPTIONS", "a=1"}}), "a=1:verify_asan_link_order=0");
  EXPECT_EQ(asan_options({{"LD_PRELOAD", "libasan.so.8"}}), "");
}

}  // namespace
}  // namespace clusterprof::cli
