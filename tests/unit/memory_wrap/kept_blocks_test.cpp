// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/kept_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace clusterprof::agent {
namespace {

struct KeptBlocks : testing::Test {
  static constexpr std::uint32_t kBlocks = 4096;
  KeptBlocks() {
    const std::size_t addresses = sizeof(wire::SegmentHeader), blocks = addresses + 8 * kBlocks;
    const std::size_t bytes = blocks + sizeof(wire::MemoryBlock) * kBlocks;
    memory = std::make_unique<std::uint64_t[]>(bytes / 8 + 1);
    segment = reinterpret_cast<wire::SegmentHeader*>(memory.get());
    segment->memory_blocks = kBlocks;
    segment->memory_addresses_offset = addresses;
    segment->memory_blocks_offset = blocks;
    reset_kept_blocks();
  }
  Keeping keep(std::uint64_t address, std::uint64_t weight = 1) {
    return keep_block(segment, {address, 8, weight, 5, 2}, replaced);
  }
  std::unique_ptr<std::uint64_t[]> memory;
  wire::SegmentHeader* segment = nullptr;
  KeptBlock replaced = {};
};

TEST_F(KeptBlocks, AreTakenOnce) {
  EXPECT_EQ(keep_block(segment, {0x1000, 48, 65536, 77, 12}, replaced), Keeping::kNew);
  KeptBlock block = {};
  EXPECT_FALSE(has_block(segment, 0x2000));
  EXPECT_FALSE(take_block(segment, 0x2000, block));
  EXPECT_TRUE(has_block(segment, 0x1000));
  EXPECT_TRUE(has_block(segment, 0x1000)) << "it stays";
  ASSERT_TRUE(take_block(segment, 0x1000, block));
  EXPECT_FALSE(has_block(segment, 0x1000));
  EXPECT_FALSE(has_block(segment, wire::kNoBlock));
  EXPECT_EQ(block.address, 0x1000u);
  EXPECT_EQ(block.bytes, 48u);
  EXPECT_EQ(block.weight, 65536u);
  EXPECT_EQ(block.time_ns, 77u);
  EXPECT_EQ(block.site, 12u);
  EXPECT_FALSE(take_block(segment, 0x1000, block));
  EXPECT_FALSE(take_block(segment, 0, block));
  EXPECT_FALSE(take_block(segment, wire::kBusyBlock, block));
}

TEST_F(KeptBlocks, OneAtTheSameAddressIsReplaced) {
  EXPECT_EQ(keep(0x1000, 10), Keeping::kNew);
  EXPECT_EQ(keep(0x1000, 20), Keeping::kReplaced);
  EXPECT_EQ(replaced.weight, 10u);
  KeptBlock block = {};
  ASSERT_TRUE(take_block(segment, 0x1000, block));
  EXPECT_EQ(block.weight, 20u);
}

// As a program does that allocates and frees for a day: the table never fills, and knows what lives.
TEST_F(KeptBlocks, KnowWhatLivesAfterMuchChurn) {
  std::mt19937_64 random(1);
  std::map<std::uint64_t, std::uint64_t> live;
  std::uint64_t refused = 0;
  for (std::uint64_t i = 1; i <= 400'000; ++i) {
    if (live.size() < kBlocks / 2 && random() % 2 == 0) {
      const std::uint64_t address = 0x10000 + random() % 100'000 * 16;
      const Keeping keeping = keep(address, i);
      EXPECT_EQ(keeping == Keeping::kReplaced, live.contains(address));
      if (keeping == Keeping::kRefused)
        ++refused;
      else
        live[address] = i;
    } else if (!live.empty()) {
      auto it = live.lower_bound(0x10000 + random() % 100'000 * 16);
      if (it == live.end()) it = live.begin();
      KeptBlock block = {};
      ASSERT_TRUE(take_block(segment, it->first, block));
      EXPECT_EQ(block.weight, it->second);
      live.erase(it);
    }
  }
  EXPECT_EQ(refused, 0u);
  for (const auto& [address, weight] : live) {
    KeptBlock block = {};
    ASSERT_TRUE(take_block(segment, address, block));
    EXPECT_EQ(block.weight, weight);
  }
}

TEST_F(KeptBlocks, AreRefusedWhenThereIsNoRoom) {
  std::uint64_t kept = 0;
  for (std::uint64_t i = 1; i <= 2 * kBlocks; ++i) kept += keep(i * 4096) == Keeping::kNew ? 1 : 0;
  EXPECT_GT(kept, kBlocks * 3 / 4);
  EXPECT_LE(kept, kBlocks);
  KeptBlock block = {};
  std::uint64_t taken = 0;
  for (std::uint64_t i = 1; i <= 2 * kBlocks; ++i) taken += take_block(segment, i * 4096, block) ? 1 : 0;
  EXPECT_EQ(taken, kept);
}

}  // namespace
}  // namespace clusterprof::agent
