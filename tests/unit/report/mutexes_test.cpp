// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/mutexes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

// One rank of 10 s, whose main thread waits for a mutex in store() for 6 s.
class Mutexes : public ::testing::Test {
 protected:
  explicit Mutexes(std::uint32_t ranks = 1) : b_(ranks) {
    b_.sampled(0, store(), Category::kIdle, 6000);
    b_.sampled(0, native("compute", 90), Category::kNative, 4000);
  }
  std::uint32_t native(std::string_view name, std::uint32_t line) {
    return b_.path(
        {b_.native("main", "/u/a.out", "/u/a.c", 99), b_.native(name, "/u/a.out", "/u/a.c", line)});
  }
  std::uint32_t store() {
    const std::uint32_t locks =
        b_.child(native("store", 20), b_.native("pthread_mutex_lock", "/lib/libc.so.6"));
    return b_.child(locks, b_.kernel("futex"));
  }
  void wait(std::uint32_t path, std::uint32_t holder, std::uint64_t mutex, std::uint64_t ms) {
    b_.data.mutex_waits.push_back({0, path, holder, mutex, ms * kMs, 10, 0, {}});
  }
  ProfileBuilder b_;
};

class MutexesOfTwoRanks : public Mutexes {
 protected:
  MutexesOfTwoRanks() : Mutexes(2) {}
};

TEST_F(Mutexes, AreByTheLineThatWaited) {
  wait(store(), native("load", 30), 0x7000, 3000);
  wait(store(), native("load", 30), 0x8000, 1000);
  wait(store(), native("flush", 40), 0x7000, 1500);
  wait(store(), 0, 0x7000, 500);
  wait(native("close", 50), native("load", 30), 0x7000, 7000);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.mutexes.size(), 2u);
  EXPECT_EQ(a.mutexes[0].place.line, 50u) << "the longest first";
  const MutexRow& row = a.mutexes[1];
  EXPECT_EQ(row.place.function, "store");
  EXPECT_EQ(row.place.line, 20u);
  EXPECT_NEAR(row.wait_s, 6, 1e-9);
  EXPECT_NEAR(row.spread.max_s, 6, 1e-9);
  EXPECT_EQ(row.samples, 40u);
  EXPECT_EQ(row.mutexes, 2u);
  ASSERT_EQ(row.holders.size(), 2u) << "where it was held for 0.5 s is not known";
  EXPECT_EQ(row.holders[0].place.function, "load");
  EXPECT_NEAR(row.holders[0].wait_s, 4, 1e-9);
  EXPECT_NEAR(row.holders[1].wait_s, 1.5, 1e-9);
}

TEST_F(MutexesOfTwoRanks, AreAlsoOneByOne) {
  const auto named = [&](std::uint32_t rank, std::uint64_t mutex, std::uint64_t ms,
                         std::uint64_t longest_ms) {
    wait(store(), native("load", 30), mutex, ms);
    b_.data.mutex_waits.back().rank = rank;
    b_.data.mutex_waits.back().longest_ns = longest_ms * kMs;
    b_.data.mutex_waits.back().name = "queue_lock";
  };
  named(0, 0x7000, 1000, 300);
  named(1, 0x9000, 2000, 400);
  wait(native("close", 50), native("flush", 40), 0x8000, 700);
  wait(store(), 0, 0x8000, 800);
  wait(store(), 0, 0, 100);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.locks.size(), 3u);
  const LockRow &queue = a.locks[0], &other = a.locks[1], &rest = a.locks[2];
  EXPECT_EQ(queue.name, "queue_lock");
  EXPECT_EQ(queue.mutexes, 2u) << "each rank has one";
  EXPECT_EQ(queue.rank, std::nullopt);
  EXPECT_EQ(queue.waits, 20u);
  EXPECT_NEAR(queue.wait_s, 3, 1e-9);
  EXPECT_NEAR(queue.longest_s, 0.4, 1e-9);
  EXPECT_EQ(queue.spread.max_rank, 1);
  ASSERT_EQ(queue.holders.size(), 1u);
  EXPECT_EQ(queue.holders[0].place.function, "load");
  EXPECT_EQ(other.rank, 0);
  EXPECT_EQ(other.address, 0x8000u);
  EXPECT_NEAR(other.wait_s, 1.5, 1e-9);
  ASSERT_EQ(other.lines.size(), 2u);
  EXPECT_EQ(other.lines[0].place.function, "store");
  EXPECT_NEAR(other.lines[1].wait_s, 0.7, 1e-9);
  ASSERT_EQ(other.holders.size(), 1u);
  EXPECT_EQ(rest.address, 0u);
  const nlohmann::json rows = nlohmann::json::parse(render_json(a))["locks"];
  EXPECT_EQ(rows[0]["name"], "queue_lock");
  EXPECT_TRUE(rows[0]["address"].is_null());
  EXPECT_EQ(rows[1]["address"], "0x8000");
  EXPECT_EQ(rows[1]["lines"][0]["line"], 20);
  EXPECT_TRUE(rows[2]["address"].is_null());
  EXPECT_TRUE(rows[2]["mutexes"].is_null());
}

TEST_F(Mutexes, OtherLocksAreToldApart) {
  const auto at = [&](std::initializer_list<std::string_view> functions) {
    std::uint32_t path = native("store", 20);
    for (const std::string_view function : functions)
      path = b_.child(path, b_.native(function, "/lib/libc.so.6"));
    return b_.child(path, b_.kernel("futex"));
  };
  wait(store(), native("load", 30), 0x7000, 1000);
  wait(at({"std::condition_variable::wait", "pthread_cond_wait"}), native("fill", 40), 0x8000, 2000);
  wait(at({"PyThread_acquire_lock_timed", "sem_clockwait"}), native("fill", 40), 0x9000, 3000);
  wait(at({"sem_wait"}), 0, 0xa000, 4000);
  wait(at({"pthread_rwlock_rdlock"}), native("change", 50), 0xb000, 5000);
  wait(at({"pthread_barrier_wait"}), 0, 0xc000, 6000);
  wait(at({"acquire", "syscall"}), native("fill", 40), 0xd000, 7000);
  wait(at({"syscall"}), 0, 0xe000, 8000);
  wait(at({"gomp_team_barrier_wait_end"}), 0, 0xf000, 9000);
  const Analysis a = analyse(b_.data);
  std::vector<LockKind> kinds;
  for (const LockRow& row : a.locks) kinds.push_back(row.kind);
  EXPECT_EQ(kinds, (std::vector<LockKind>{LockKind::kFutex, LockKind::kBarrier, LockKind::kRwLock,
                                          LockKind::kSemaphore, LockKind::kPython, LockKind::kCondition,
                                          LockKind::kMutex}))
      << "waits in libraries whose end is not known are left out";
  ASSERT_EQ(a.mutexes.size(), 1u);
  EXPECT_NEAR(a.mutexes[0].wait_s, 1, 1e-9) << "of mutexes alone";
  const nlohmann::json rows = nlohmann::json::parse(render_json(a))["locks"];
  EXPECT_EQ(rows.back()["kind"], "mutex");
  EXPECT_EQ(rows[rows.size() - 2]["kind"], "condition");
  EXPECT_EQ(rows[rows.size() - 2]["holders"][0]["line"], 40);
}

TEST_F(Mutexes, ASpinLockIsNone) {
  wait(b_.child(native("update", 60), b_.native("pthread_spin_lock", "/lib/libc.so.6")),
       native("publish", 70), 0x7000, 300);
  wait(b_.child(native("look", 61), b_.native("__pthread_spin_lock", "/lib/libc.so.6")), 0, 0x7000, 100);
  const Analysis a = analyse(b_.data);
  EXPECT_TRUE(a.mutexes.empty());
  ASSERT_EQ(a.locks.size(), 1u);
  EXPECT_EQ(a.locks[0].kind, LockKind::kSpinlock);
  EXPECT_STREQ(kLockKindNames[static_cast<std::size_t>(a.locks[0].kind)], "spinlock");
  EXPECT_DOUBLE_EQ(a.locks[0].wait_s, 0.4);
  ASSERT_EQ(a.locks[0].lines.size(), 2u);
  EXPECT_EQ(a.locks[0].lines[0].place.line, 60u);
  ASSERT_EQ(a.locks[0].holders.size(), 1u);
  EXPECT_EQ(a.locks[0].holders[0].place.line, 70u);
}

TEST_F(Mutexes, WhatFoundNoRoomIsOfAnyKindAndHasNoPlace) {
  wait(0, 0, 0, 1000);
  const Analysis a = analyse(b_.data);
  EXPECT_TRUE(a.mutexes.empty());
  ASSERT_EQ(a.locks.size(), 1u);
  EXPECT_NEAR(a.locks[0].wait_s, 1, 1e-9);
  const nlohmann::json row = nlohmann::json::parse(render_json(a))["locks"][0];
  EXPECT_EQ(row["kind"], "several");
  EXPECT_TRUE(row["address"].is_null());
  EXPECT_TRUE(row["mutexes"].is_null());
  EXPECT_TRUE(row["lines"].empty());
  EXPECT_TRUE(row["holders"].empty());
}

TEST_F(Mutexes, FindingNamesWhereItIsHeld) {
  wait(store(), native("load", 30), 0x7000, 4000);
  wait(store(), native("flush", 40), 0x7000, 2000);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kBlocked);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->action, FindingAction::kHoldLockLess);
  ASSERT_TRUE(finding->site.has_value());
  EXPECT_EQ(finding->site->line, 30u);
  EXPECT_NE(text_of(a, *finding).find("The lock is mostly held in load()"), std::string::npos)
      << text_of(a, *finding);
}

TEST_F(Mutexes, FindingNamesNoHolderWhereThereAreMany) {
  wait(store(), native("load", 30), 0x7000, 2000);
  wait(store(), native("flush", 40), 0x7000, 2000);
  wait(store(), native("sync", 50), 0x7000, 2000);
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kBlocked);
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->site.has_value());
}

}  // namespace
}  // namespace clusterprof::report
