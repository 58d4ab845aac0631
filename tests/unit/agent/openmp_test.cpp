// SPDX-License-Identifier: BSD-3-Clause
// What is counted of OpenMP's regions and constructs, and where.
#include "agent/lifecycle/openmp.h"

#include <gtest/gtest.h>
#include <time.h>

#include <memory>
#include <thread>
#include <vector>

namespace clusterprof::agent {
namespace {

using wire::OmpActivity;
using wire::OmpConstruct;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kCode = 0x40'1234;

void sleep_ms(long ms) {
  const timespec time = {0, ms * 1'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

// The calling thread is recorded.
class Recorded {
 public:
  explicit Recorded(bool is_main)
      : state_(std::make_unique<OmpState>()), slot_(std::make_unique<wire::ThreadSlot>()) {
    slot_->is_main = is_main ? 1 : 0;
    t_context.slot = slot_.get();
    t_context.openmp = state_.get();
    t_context.generation = g_process.generation;
  }
  ~Recorded() {
    t_context.slot = nullptr;
    t_context.openmp = nullptr;
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  OmpState& state() { return *state_; }

 private:
  std::unique_ptr<OmpState> state_;
  std::unique_ptr<wire::ThreadSlot> slot_;
};

class OpenMpCounts : public testing::Test {
 protected:
  explicit OpenMpCounts(std::uint32_t rows = 64)
      : memory_(new (std::align_val_t{64}) std::uint8_t[kBytes]()), main_(true) {
    segment().omp_sites = kSites;
    segment().omp_rows = rows;
    segment().omp_sites_offset = kSitesAt;
    segment().omp_rows_offset = kRowsAt;
    g_process.read_clock = clock_gettime;
    g_process.segment.store(&segment());
  }
  ~OpenMpCounts() override {
    g_process.segment.store(nullptr);
    ::operator delete[](memory_, std::align_val_t{64});
  }

  wire::SegmentHeader& segment() { return *reinterpret_cast<wire::SegmentHeader*>(memory_); }
  OmpState& state() { return main_.state(); }

  // The main thread's team, in a region of this path.
  OmpTeam* begin(std::uint64_t path) {
    EXPECT_TRUE(records_region(0));
    return begin_team({{path, 8, 1}, kCode, 2, OmpConstruct::kParallel, kCode + 1, 0});
  }
  void one_thread(std::uint64_t path) {
    OmpTeam* const team = begin(path);
    enter_team(team, 1, 0);
    leave_team(team);
    end_team(team);
  }
  void critical() {
    begin_wait(state(), OmpConstruct::kCritical, OmpActivity::kCritical, kCode);
    end_wait(state());
  }

  std::vector<const wire::OmpRow*> rows_of(OmpConstruct construct) {
    std::vector<const wire::OmpRow*> found;
    const auto* const sites = reinterpret_cast<const wire::OmpSite*>(memory_ + kSitesAt);
    const auto* const rows = reinterpret_cast<const wire::OmpRow*>(memory_ + kRowsAt);
    for (std::uint32_t i = 0; i < segment().omp_rows; ++i)
      if (rows[i].ready != 0 && sites[rows[i].site].construct == construct) found.push_back(&rows[i]);
    return found;
  }
  std::uint64_t lost() {
    return segment().drops[static_cast<std::uint32_t>(wire::DropReason::kOpenMpTableFull)].load();
  }

 private:
  static constexpr std::uint32_t kSites = 64;
  static constexpr std::size_t kSitesAt = (sizeof(wire::SegmentHeader) + 63) / 64 * 64,
                               kRowsAt = kSitesAt + (kSites * sizeof(wire::OmpSite) + 63) / 64 * 64,
                               kBytes = kRowsAt + 64 * sizeof(wire::OmpRow);
  std::uint8_t* memory_;
  Recorded main_;
};

TEST_F(OpenMpCounts, EachPathHasItsRow) {
  for (int i = 0; i < 3; ++i)
    for (std::uint64_t path = 1; path <= 20; ++path) one_thread(path);
  const auto rows = rows_of(OmpConstruct::kParallel);
  ASSERT_EQ(rows.size(), 20u);
  for (const wire::OmpRow* const row : rows) {
    EXPECT_EQ(row->count, 3u);
    EXPECT_GT(row->time_ns, 0u);
    EXPECT_EQ(row->wait_ns, 0u);
    EXPECT_EQ(row->schedule_ns, 0u);
  }
  EXPECT_EQ(lost(), 0u);
}

// The one that is done first has waited until the other one was, and not until its own next region.
TEST_F(OpenMpCounts, TheEndOfTheRegionEndsTheWait) {
  OmpTeam* const team = begin(1);
  std::thread worker([team] {
    Recorded recorded(false);
    prepare_to_enter(team, 1);
    enter_team(team, 2, 1);
    leave_team(team);
  });
  worker.join();
  enter_team(team, 2, 0);
  sleep_ms(5);
  leave_team(team);
  end_team(team);
  sleep_ms(5);
  const auto rows = rows_of(OmpConstruct::kParallel);
  ASSERT_EQ(rows.size(), 2u);
  const wire::OmpRow& main = *rows[rows[0]->number == 0 ? 0 : 1];
  const wire::OmpRow& other = *rows[rows[0]->number == 0 ? 1 : 0];
  EXPECT_EQ(main.count, 1u);
  EXPECT_EQ(other.count, 1u);
  EXPECT_GE(other.wait_ns, 5 * kMs);
  EXPECT_GE(main.time_ns, 5 * kMs);
  EXPECT_LT(main.wait_ns, main.time_ns);
  EXPECT_GE(other.time_ns + other.schedule_ns, main.time_ns);
  EXPECT_GE(main.schedule_ns, other.schedule_ns) << "it began after the other one";
}

TEST_F(OpenMpCounts, AWaitHasTheSameRowEachTime) {
  OmpTeam* const team = begin(1);
  enter_team(team, 1, 0);
  for (int i = 0; i < 5; ++i) critical();
  begin_wait(state(), OmpConstruct::kBarrier, OmpActivity::kBarrier, kCode);
  sleep_ms(2);
  end_wait(state());
  leave_team(team);
  end_team(team);
  const auto criticals = rows_of(OmpConstruct::kCritical), barriers = rows_of(OmpConstruct::kBarrier);
  ASSERT_EQ(criticals.size(), 1u);
  EXPECT_EQ(criticals[0]->count, 5u);
  ASSERT_EQ(barriers.size(), 1u) << "another construct at the same place";
  EXPECT_EQ(barriers[0]->count, 1u);
  EXPECT_GE(barriers[0]->wait_ns, 2 * kMs);
  EXPECT_GE(rows_of(OmpConstruct::kParallel)[0]->inner_wait_ns, 2 * kMs);
}

TEST_F(OpenMpCounts, WhatAPauseIsInDoesNotCount) {
  OmpTeam* const team = begin(1);
  enter_team(team, 1, 0);
  critical();
  begin_wait(state(), OmpConstruct::kCritical, OmpActivity::kCritical, kCode);
  g_process.pauses.fetch_add(1);
  end_wait(state());
  critical();
  leave_team(team);
  end_team(team);
  ASSERT_EQ(rows_of(OmpConstruct::kCritical).size(), 1u);
  EXPECT_EQ(rows_of(OmpConstruct::kCritical)[0]->count, 1u);
  EXPECT_EQ(rows_of(OmpConstruct::kParallel)[0]->count, 0u);
}

TEST_F(OpenMpCounts, ALoopHasItsScheduleAndItsIterations) {
  OmpTeam* const team = begin(1);
  enter_team(team, 1, 0);
  OmpEntry& entry = *innermost_team(&state());
  // GCC's: chunks are in units of the loop variable.
  begin_work(entry, OmpConstruct::kLoop, kCode, 2, wire::kOmpDynamic);
  for (int chunk = 0; chunk < 3; ++chunk) end_part(entry, begin_part(entry), true, 20);
  end_part(entry, begin_part(entry), false, 0);
  end_work(state(), entry);
  ASSERT_EQ(rows_of(OmpConstruct::kLoop).size(), 1u);
  const wire::OmpRow& row = *rows_of(OmpConstruct::kLoop)[0];
  EXPECT_EQ(row.schedules.load(), std::uint32_t{wire::kOmpDynamic});
  EXPECT_EQ(row.chunks, 3u);
  EXPECT_EQ(row.iterations, 30u);
  // LLVM's, which tells all of the loop and its schedule at the end only.
  begin_work(entry, OmpConstruct::kLoop, kCode, 1, 0);
  entry.work.whole = 70;
  entry.work.schedules = wire::kOmpStatic;
  end_work(state(), entry);
  ASSERT_EQ(rows_of(OmpConstruct::kLoop).size(), 1u);
  EXPECT_EQ(row.schedules.load(), 0u + wire::kOmpDynamic + wire::kOmpStatic);
  EXPECT_EQ(row.count, 2u);
  EXPECT_EQ(row.chunks, 3u);
  EXPECT_EQ(row.iterations, 100u);
  leave_team(team);
  end_team(team);
}

class WithRoomForOne : public OpenMpCounts {
 protected:
  WithRoomForOne() : OpenMpCounts(1) {}
};

TEST_F(WithRoomForOne, OthersAreLostOnce) {
  OmpTeam* const team = begin(1);
  enter_team(team, 1, 0);
  for (int i = 0; i < 3; ++i) critical();
  leave_team(team);
  end_team(team);
  EXPECT_EQ(lost(), 1u) << "the thread remembers that there is no room";
  ASSERT_EQ(rows_of(OmpConstruct::kParallel).size(), 1u);
  EXPECT_EQ(rows_of(OmpConstruct::kParallel)[0]->count, 1u);
}

}  // namespace
}  // namespace clusterprof::agent
