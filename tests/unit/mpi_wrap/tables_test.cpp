// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/tables.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "mpi-wrap/src/spin_lock.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// A segment with small tables.
class Segment {
 public:
  static constexpr std::uint32_t kOps = 3;
  Segment(std::uint32_t sites, std::uint32_t peers) : words_(1 << 20) {
    auto* header = get();
    header->mpi_sites_offset = (sizeof(wire::SegmentHeader) + 63) / 64 * 64;
    header->mpi_sites = sites;
    header->mpi_peers_offset =
        header->mpi_sites_offset + wire::all_mpi_sites(sites, kOps) * sizeof(wire::MpiSite);
    header->mpi_peers = peers;
    header->mpi_sizes_offset = header->mpi_peers_offset + peers * sizeof(wire::MpiPeer);
    header->mpi_ops = kOps;
  }
  wire::SegmentHeader* get() { return reinterpret_cast<wire::SegmentHeader*>(words_.data()); }
  wire::MpiSite& site(std::uint32_t i) { return table_at<wire::MpiSite>(get(), get()->mpi_sites_offset)[i]; }

 private:
  std::vector<std::uint64_t> words_;
};

TEST(SizeBin, FollowsTheWireFormat) {
  EXPECT_EQ(size_bin(0), 0u);
  EXPECT_EQ(size_bin(1), 1u);
  EXPECT_EQ(size_bin(2), 2u);
  for (std::uint32_t b = 3; b + 1 < wire::kSizeBins; ++b) {
    EXPECT_EQ(size_bin((std::uint64_t{1} << (b - 2)) + 1), b);
    EXPECT_EQ(size_bin(std::uint64_t{1} << (b - 1)), b);
  }
  EXPECT_EQ(size_bin(~std::uint64_t{0}), wire::kSizeBins - 1);
}

TEST(CountSize, CountsInTheBinOfTheSize) {
  Segment segment(4, 4);
  count_size(segment.get(), 2, 8, false);
  count_size(segment.get(), 2, 8, true);
  count_size(segment.get(), 3, 8, false);  // no such function: ignored
  const auto* bins = table_at<wire::MpiSizeBins>(segment.get(), segment.get()->mpi_sizes_offset);
  EXPECT_EQ(bins[2].bins[4], 2u);
  EXPECT_EQ(bins[0].bins[4], 0u);
  EXPECT_EQ(bins[1].bins[4], 0u);
}

TEST(FindSite, OnePerPathFunctionAndCommunicator) {
  Segment segment(256, 4);
  const clusterprof_call_path path{77, 640, 5}, other{78, 0, 0};
  const std::uint32_t first = find_site(segment.get(), path, 1, 0, false);
  ASSERT_NE(first, kNoSite);
  EXPECT_EQ(find_site(segment.get(), path, 1, 0, false), first);
  EXPECT_EQ(segment.site(first).ready.load(), 1u);
  EXPECT_EQ(segment.site(first).path_words, 5u);
  EXPECT_EQ(segment.site(first).path_offset, 640u);
  EXPECT_EQ(segment.site(first).op, 1u);
  EXPECT_EQ(segment.site(first).communicator, 0u);
  EXPECT_NE(find_site(segment.get(), other, 1, 0, false), first);
  EXPECT_NE(find_site(segment.get(), path, 2, 0, false), first);
  EXPECT_NE(find_site(segment.get(), path, 1, wire::kNoPath, false), first);
  const std::uint32_t helper = find_site(segment.get(), path, 1, 0, true);
  EXPECT_NE(helper, first);
  EXPECT_EQ(segment.site(helper).helper_thread, 1u);
  EXPECT_EQ(segment.site(first).helper_thread, 0u);
}

// Room is kept for every function, so no call is lost.
TEST(FindSite, CallsThatFindNoRoomCountForTheFunctionsOtherSites) {
  Segment segment(8, 4);
  std::uint32_t made = 0;
  for (std::uint64_t hash = 1; hash <= 20; ++hash) {
    const std::uint32_t site = find_site(segment.get(), {hash, 0, 1}, 1, 0, false);
    if (site < 8) {
      ++made;
    } else {
      EXPECT_EQ(site, wire::other_mpi_site(8, 1, false));
    }
    count_call(segment.site(site), hash, false);
  }
  EXPECT_EQ(made, 8u);
  const wire::MpiSite& others = segment.site(wire::other_mpi_site(8, 1, false));
  EXPECT_EQ(others.count, 12u);
  EXPECT_EQ(others.op, 1u);
  EXPECT_EQ(others.other_sites, 1u);
  EXPECT_EQ(others.path_words, 0u);
  EXPECT_EQ(others.communicator, wire::kNoPath);
  const std::uint32_t of_helper = find_site(segment.get(), {99, 0, 1}, 2, 0, true);
  EXPECT_EQ(of_helper, wire::other_mpi_site(8, 2, true));
  EXPECT_EQ(segment.site(of_helper).helper_thread, 1u);
  std::uint64_t calls = 0, time_ns = 0;
  for (std::uint32_t i = 0; i < wire::all_mpi_sites(8, Segment::kOps); ++i) {
    calls += segment.site(i).count;
    time_ns += segment.site(i).time_ns;
  }
  EXPECT_EQ(calls, 20u);
  EXPECT_EQ(time_ns, 210u);
}

TEST(CountCall, KeepsTheExtremes) {
  Segment segment(8, 4);
  for (const bool shared : {false, true}) {
    wire::MpiSite& site = segment.site(find_site(segment.get(), {9, 0, 1}, 1, shared, false));
    for (const std::uint64_t ns : {50, 20, 90}) count_call(site, ns, shared);
    EXPECT_EQ(site.count, 3u);
    EXPECT_EQ(site.time_ns, 160u);
    EXPECT_EQ(site.min_ns, 20u);
    EXPECT_EQ(site.max_ns, 90u);
  }
}

TEST(CountMessage, AddsPerPair) {
  Segment segment(4, 4);
  EXPECT_TRUE(count_message(segment.get(), 0, 1, 10, false));
  EXPECT_TRUE(count_message(segment.get(), 0, 1, 5, false));
  EXPECT_TRUE(count_message(segment.get(), 1, 0, 7, false));
  EXPECT_TRUE(count_message(segment.get(), -1, 0, 1, false));
  EXPECT_TRUE(count_message(segment.get(), 0, 0, 1, false));
  EXPECT_FALSE(count_message(segment.get(), 5, 5, 1, false));
  const auto* peers = table_at<wire::MpiPeer>(segment.get(), segment.get()->mpi_peers_offset);
  std::uint64_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    bytes += peers[i].bytes;
    if (peers[i].key == (std::uint64_t{2} << 32 | 3)) {
      EXPECT_EQ(peers[i].messages, 2u);
      EXPECT_EQ(peers[i].bytes, 15u);
    }
  }
  EXPECT_EQ(bytes, 24u);
}

TEST(Tables, NothingIsLostBetweenThreads) {
  Segment segment(64, 64);
  constexpr std::uint64_t kCalls = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&segment] {
      for (std::uint64_t i = 0; i < kCalls; ++i) {
        const std::uint32_t site = find_site(segment.get(), {1 + i % 10, 0, 1}, 1, 0, false);
        count_call(segment.site(site), i + 1, true);
        count_message(segment.get(), 0, static_cast<std::int32_t>(i % 7), 3, true);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::uint64_t calls = 0, messages = 0;
  for (std::uint32_t i = 0; i < 64; ++i) {
    calls += segment.site(i).count;
    if (segment.site(i).key != 0) {
      EXPECT_LE(segment.site(i).min_ns, 10u);
    }
    messages += table_at<wire::MpiPeer>(segment.get(), segment.get()->mpi_peers_offset)[i].messages;
  }
  EXPECT_EQ(calls, 4 * kCalls);
  EXPECT_EQ(messages, 4 * kCalls);
}

// Another thread may have been preempted in the middle of what is short, even by the one that waits.
double cpu_ms_of_waiting(const std::function<void()>& wait, const std::function<void()>& go_on) {
  double waited_ms = 0;
  std::thread waiting([&] {
    wait();
    timespec used = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    waited_ms = static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  go_on();
  waiting.join();
  return waited_ms;
}

TEST(LongWaits, ForALockAreSlept) {
  SpinLock lock;
  lock.lock();
  EXPECT_LT(cpu_ms_of_waiting([&] { lock.lock(); }, [&] { lock.unlock(); }), 100);
}

TEST(LongWaits, ForASiteAreSlept) {
  Segment segment(64, 64);
  const clusterprof_call_path path{0x1234, 0, 0};
  wire::MpiSite& site = segment.site(find_site(segment.get(), path, 1, 2, false));
  site.ready.store(0);  // it is being written
  const double waited_ms = cpu_ms_of_waiting([&] { find_site(segment.get(), path, 1, 2, false); },
                                             [&] { site.ready.store(1, std::memory_order_release); });
  EXPECT_LT(waited_ms, 100);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
