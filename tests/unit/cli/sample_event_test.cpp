// SPDX-License-Identifier: BSD-3-Clause
#include "cli/sample_event.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/wire/segment.h"

namespace clusterprof::cli {
namespace {

bool opens(std::uint32_t type, std::uint64_t config) {
  perf_event_attr event = {};
  event.type = type;
  event.size = sizeof event;
  event.config = config;
  event.exclude_kernel = 1;
  const long fd = ::syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (fd >= 0) ::close(static_cast<int>(fd));
  return fd >= 0;
}

TEST(SampleEvent, SoftwareEventsGoByTheirNamesAndByPapis) {
  if (!opens(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS)) GTEST_SKIP() << "no performance events here";
  for (const char* name : {"page-faults", "PAGE-FAULTS", "perf::PAGE-FAULTS", "faults"}) {
    const auto event = resolve_sample_event({name, 50}, 100);
    ASSERT_TRUE(event) << name << ": " << event.error().message;
    EXPECT_EQ(event.value().type, static_cast<std::uint32_t>(PERF_TYPE_SOFTWARE));
    EXPECT_EQ(event.value().config, static_cast<std::uint64_t>(PERF_COUNT_SW_PAGE_FAULTS));
    EXPECT_EQ(event.value().period, 50u);
    EXPECT_EQ(event.value().kind, wire::SampleEventKind::kOther);
  }
  const auto clock = resolve_sample_event({"task-clock", 1'000'000}, 100);
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock.value().kind, wire::SampleEventKind::kNanoseconds);
  EXPECT_EQ(sample_event_text(clock.value()), "1,1,0,0,f4240,0");
}

// Those that have no entry in our own table.
TEST(SampleEvent, OtherNamesAreLibpfms) {
  if (!opens(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CGROUP_SWITCHES)) GTEST_SKIP() << "no performance events here";
  const auto event = resolve_sample_event({"perf::CGROUP-SWITCHES", 0}, 100);
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event.value().type, static_cast<std::uint32_t>(PERF_TYPE_SOFTWARE));
  EXPECT_EQ(event.value().config, static_cast<std::uint64_t>(PERF_COUNT_SW_CGROUP_SWITCHES));
}

TEST(SampleEvent, UnavailableEventGivesAShortReason) {
  const auto unknown = resolve_sample_event({"no-such-event", 0}, 100);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("unknown event"), std::string::npos) << unknown.error().message;
  if (opens(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)) {
    EXPECT_EQ(resolve_sample_event({"perf::CYCLES", 0}, 100).value().kind, wire::SampleEventKind::kCycles);
    return;
  }
  for (const char* name : {"perf::CYCLES", "PAPI_TOT_CYC"}) {
    const auto cycles = resolve_sample_event({name, 0}, 100);
    ASSERT_FALSE(cycles) << name;
    EXPECT_NE(cycles.error().message.find("no hardware counters on this machine"), std::string::npos)
        << cycles.error().message;
    EXPECT_LT(cycles.error().message.size(), wire::kCounterNameBytes);
  }
}

}  // namespace
}  // namespace clusterprof::cli
