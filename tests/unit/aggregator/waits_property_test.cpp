// SPDX-License-Identifier: BSD-3-Clause
// Random programs on a simulated machine that knows which rank waited how long.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/aggregator/waits_run.hpp"

namespace clusterprof::aggregator::test {
namespace {

class Machine {
 public:
  Machine(std::int32_t ranks, std::int32_t ranks_per_node, std::int64_t latency_ns, std::uint64_t seed)
      : run(ranks, ranks_per_node),
        ranks_(ranks),
        latency_ns_(latency_ns),
        random_(seed),
        now_(static_cast<std::size_t>(ranks)),
        gap_(now_.size()),
        useful(now_.size()) {}

  void step() {
    for (std::int32_t r = 0; r < ranks_; ++r) {
      const std::int64_t step = number(200'000, 400'000), late = number(0, 9) == 0 ? number(0, 3'000'000) : 0;
      at(now_, r) += step + late;
      at(useful, r) += step + late;
      at(gap_, r) = {{"step", step}};
      if (late != 0) at(gap_, r).emplace_back("late", late);
    }
    const auto root = static_cast<std::int32_t>(number(0, ranks_ - 1));
    switch (number(0, 7)) {
      case 0:
        return collective("MPI_Barrier", shard::WaitKind::kWaitAtBarrier, -1);
      case 1:
        return collective("MPI_Allreduce", shard::WaitKind::kWaitAtNxN, -1);
      case 2:
        return collective("MPI_Bcast", shard::WaitKind::kLateBroadcast, root);
      case 3:
        return collective("MPI_Reduce", shard::WaitKind::kEarlyReduce, root);
      case 4:
        return collective("MPI_Scan", shard::WaitKind::kEarlyScan, -1);
      case 5:
        return ring();
      case 6:
        return pairs(true);
      default:
        return pairs(false);
    }
  }
  [[nodiscard]] std::int64_t end() const { return *std::max_element(now_.begin(), now_.end()); }

  MadeRun run;
  std::map<std::pair<std::int32_t, shard::WaitKind>, std::int64_t> waited;
  std::int64_t all_waits = 0, waits = 0;

 private:
  template <typename T>
  static T& at(std::vector<T>& values, std::int32_t rank) {
    return values[static_cast<std::size_t>(rank)];
  }
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::int64_t latency() {
    const std::int64_t ns =
        number(1, 20);  // drawn also where it does not count, so that programs are the same
    return latency_ns_ * ns / 10;
  }
  // The rank waits in a call from now on until `ready`; returns when it leaves.
  std::int64_t wait(std::int32_t rank, std::int64_t ready, shard::WaitKind kind) {
    const std::int64_t ns = std::max<std::int64_t>(ready - at(now_, rank), 0);
    if (ns != 0) waited[{rank, kind}] += ns, all_waits += ns, ++waits;
    return at(now_, rank) + ns + latency();
  }
  void add(std::int32_t rank, MadeEvent event) {
    event.gap = std::move(at(gap_, rank));
    at(gap_, rank).clear();
    run.add(rank, std::move(event));
  }

  void collective(const std::string& op, shard::WaitKind kind, std::int32_t root) {
    std::int64_t last = 0, last_but_root = 0, before = 0;
    for (std::int32_t r = 0; r < ranks_; ++r) {
      last = std::max(last, at(now_, r));
      if (r != root) last_but_root = std::max(last_but_root, at(now_, r));
    }
    const std::int64_t root_came = root >= 0 ? at(now_, root) : 0;
    for (std::int32_t r = 0; r < ranks_; ++r) {
      std::int64_t ready = last;
      if (kind == shard::WaitKind::kLateBroadcast) ready = root_came;
      if (kind == shard::WaitKind::kEarlyReduce) ready = r == root ? last_but_root : 0;
      if (kind == shard::WaitKind::kEarlyScan) ready = before;
      before = std::max(before, at(now_, r));
      const std::int64_t enter = at(now_, r), exit = wait(r, ready, kind);
      add(r, {MpiEventKind::kCollective, op, op, enter, exit, root, 0, collectives_});
      at(now_, r) = exit;
    }
    ++collectives_;
  }

  // Everybody to the next, nonblocking.
  void ring() {
    const std::vector<std::int64_t> came = now_;
    for (std::int32_t r = 0; r < ranks_; ++r) {
      const std::int32_t to = (r + 1) % ranks_, from = (r + ranks_ - 1) % ranks_;
      const std::int64_t enter = at(now_, r);
      const auto flags = wire::kEventNonblocking;
      add(r, {MpiEventKind::kSend, "MPI_Isend", "MPI_Isend", enter, enter, to, 1, rings_, -1, flags});
      const std::int64_t exit = wait(r, came[static_cast<std::size_t>(from)], shard::WaitKind::kLateSender);
      // The send completes in the same call, and did not wait: its receive was posted before it began.
      add(r, {MpiEventKind::kSendDone, "MPI_Isend", "MPI_Waitall", enter, exit, to, 1, rings_, enter});
      add(r, {MpiEventKind::kReceive, "MPI_Irecv", "MPI_Waitall", enter, exit, from, 1, rings_, 0, flags});
      at(now_, r) = exit;
    }
    ++rings_;
  }

  // Even ranks send to the next one, synchronously or not; with answers.
  void pairs(bool synchronous) {
    for (std::int32_t r = 0; r + 1 < ranks_; r += 2) {
      const std::int64_t sent = at(now_, r), posted = at(now_, r + 1);
      const std::uint8_t flags = synchronous ? wire::kEventSynchronous : 0;
      const std::int64_t left = synchronous ? wait(r, posted, shard::WaitKind::kLateReceiver) : sent;
      const std::int64_t received = wait(r + 1, sent, shard::WaitKind::kLateSender);
      add(r, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", sent, left, r + 1, 2, pairs_, -1, flags});
      add(r + 1, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", posted, received, r, 2, pairs_});
      at(now_, r) = left;
      at(now_, r + 1) = received;
      const std::int64_t asked = at(now_, r), answered = wait(r, received, shard::WaitKind::kLateSender);
      add(r + 1, {MpiEventKind::kSend, "MPI_Send", "answer", received, received, r, 3, pairs_});
      add(r, {MpiEventKind::kReceive, "MPI_Recv", "ask", asked, answered, r + 1, 3, pairs_});
      at(now_, r) = answered;
    }
    ++pairs_;
  }

  std::int32_t ranks_;
  std::int64_t latency_ns_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> now_;
  std::vector<std::vector<std::pair<std::string, std::int64_t>>> gap_;
  std::uint32_t collectives_ = 0, rings_ = 0, pairs_ = 0;

 public:
  std::vector<std::int64_t> useful;
};

Machine ran(std::int32_t ranks, std::int32_t per_node, std::int64_t latency_ns, std::uint64_t seed,
            int steps) {
  Machine machine(ranks, per_node, latency_ns, seed);
  for (int i = 0; i < steps; ++i) machine.step();
  return machine;
}

auto measured(const shard::ShardData& data) {
  std::map<std::pair<std::int32_t, shard::WaitKind>, std::int64_t> waits;
  for (const shard::WaitState& row : data.wait_states)
    waits[{data.ranks[row.rank].rank, row.kind}] += static_cast<std::int64_t>(row.wait_ns);
  return waits;
}

TEST(WaitPropertyTest, IsExactOnOneNode) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 7);
    const Machine machine = ran(ranks, ranks, 2000, seed, 150);
    const shard::ShardData data = machine.run.analyse();
    const auto waits = measured(data);
    ASSERT_EQ(waits.size(), machine.waited.size()) << "seed " << seed;
    for (const auto& [key, ns] : machine.waited)  // rows are rounded one by one
      EXPECT_NEAR(static_cast<double>(waits.at(key)), static_cast<double>(ns), 50)
          << "seed " << seed << " rank " << key.first << " "
          << shard::kWaitKindNames[static_cast<std::size_t>(key.second)];
    EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
    EXPECT_EQ(data.wait_analysis.unmatched_collectives, 0u);

    std::int64_t roots = 0, count = 0;
    for (const shard::RootCause& row : data.root_causes) {
      roots += static_cast<std::int64_t>(row.wait_ns);
      EXPECT_GE(row.waiting_ranks, 1u);
      EXPECT_LE(row.waiting_ranks, static_cast<std::uint32_t>(ranks));
    }
    for (const shard::WaitState& row : data.wait_states) count += static_cast<std::int64_t>(row.count);
    EXPECT_NEAR(static_cast<double>(roots), static_cast<double>(machine.all_waits), 1000)
        << "nothing is lost on the way to the roots";
    EXPECT_EQ(count, machine.waits);

    std::int64_t critical = 0;
    for (const shard::CriticalTime& row : data.critical_times)
      critical += static_cast<std::int64_t>(row.wall_ns);
    EXPECT_NEAR(static_cast<double>(critical), static_cast<double>(machine.end()), 100) << "seed " << seed;
    double windows = 0;
    for (const shard::TimeWindow& window : data.time_windows) windows += static_cast<double>(window.wait_ns);
    EXPECT_NEAR(windows, static_cast<double>(machine.all_waits), 100);
  }
}

TEST(WaitPropertyTest, ReplayEqualsARunWithoutLatency) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 7);
    const Machine real = ran(ranks, ranks, 30'000, seed, 150);
    const Machine ideal = ran(ranks, ranks, 0, seed, 150);
    EXPECT_EQ(static_cast<std::int64_t>(real.run.analyse().wait_analysis.ideal_ns), ideal.end())
        << "seed " << seed;
    EXPECT_GT(real.end(), ideal.end() + 1'000'000);
  }
}

// Most of the waiting goes back to the functions that made ranks late, not to the work that all ranks do.
TEST(WaitPropertyTest, RootCausesAreTheDelaysPutIn) {
  const Machine machine = ran(6, 6, 1000, 99, 600);
  double late = 0, all = 0;
  for (const auto& [row, ns] : roots_of(machine.run.analyse())) {
    all += static_cast<double>(ns);
    if (row.ends_with(" late")) late += static_cast<double>(ns);
  }
  EXPECT_GT(late / all, 0.8);
}

TEST(WaitPropertyTest, ResultDoesNotDependOnTheOrderOfShards) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Machine machine = ran(9, 3, 2000, seed, 60);
    machine.run.clocks = {{0, 0}, {5'000'000, 20e-6}, {-7'000'000, -10e-6}};
    const std::vector<shard::ShardData> shards = machine.run.shards();
    EXPECT_EQ(MadeRun::analyse(shards), MadeRun::analyse(shards, true));
  }
}

TEST(WaitPropertyTest, CorrectsWrongClocks) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const bool is_measured : {false, true}) {
      Machine machine = ran(6, 2, 2000, seed, 400);
      machine.run.clocks = {{0, 0}, {123'456'789'000, 80e-6}, {-9'876'543, -40e-6}};
      if (is_measured)
        for (const std::int32_t rank : {2, 4})
          for (const std::int64_t at : {std::int64_t{0}, machine.end()})
            machine.run.measure_clock(rank, 0, at, rank == 2 ? 800 : -700, 1500);
      const shard::ShardData data = machine.run.analyse();
      EXPECT_LT(data.wait_analysis.clock_error_ns, is_measured ? 4'000u : 20'000u) << "seed " << seed;
      EXPECT_EQ(data.wait_analysis.clock_violations, 0u);
      std::int64_t all = 0;
      for (const auto& [key, ns] : measured(data)) all += ns;
      const auto allowed =
          static_cast<double>(static_cast<std::uint64_t>(machine.waits) * data.wait_analysis.clock_error_ns);
      EXPECT_NEAR(static_cast<double>(all), static_cast<double>(machine.all_waits), allowed)
          << "seed " << seed;
      EXPECT_NEAR(static_cast<double>(all) / static_cast<double>(machine.all_waits), 1, 0.01)
          << "seed " << seed;
      for (const auto& [key, ns] : machine.waited) {
        const double mine = static_cast<double>(measured(data)[key]), theirs = static_cast<double>(ns);
        EXPECT_NEAR(mine, theirs, 0.05 * theirs + 1e6) << "seed " << seed << " rank " << key.first;
      }
    }
  }
}

TEST(WaitPropertyTest, ScalesUpASampleOfEvents) {
  double ratio = 0;
  constexpr int kSeeds = 6;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Machine machine = ran(4, 4, 2000, seed, 6000);
    machine.run.level = 3;
    const shard::ShardData data = machine.run.analyse();
    EXPECT_EQ(data.wait_analysis.event_level, 3u);
    EXPECT_LT(data.wait_analysis.events, 6000u * 4 / 3);
    EXPECT_EQ(data.wait_analysis.ideal_ns, 0u);
    EXPECT_TRUE(data.critical_times.empty());
    EXPECT_EQ(data.wait_analysis.unmatched_messages, 0u);
    std::int64_t all = 0;
    for (const auto& [key, ns] : measured(data)) all += ns;
    const double share = static_cast<double>(all) / static_cast<double>(machine.all_waits);
    EXPECT_NEAR(share, 1, 0.15) << "seed " << seed;
    ratio += share / kSeeds;
  }
  EXPECT_NEAR(ratio, 1, 0.04);
}

}  // namespace
}  // namespace clusterprof::aggregator::test
