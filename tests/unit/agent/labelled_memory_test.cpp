// SPDX-License-Identifier: BSD-3-Clause
// What is kept of memory with labels, beside a simple account of the same.
#include "agent/lifecycle/labelled_memory.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/sigsafe/process_state.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kTablesAt = (sizeof(wire::SegmentHeader) + 63) / 64 * 64;
constexpr std::uint64_t kBytes = kTablesAt + sizeof(wire::LabelledMemory);

class Labels : public testing::Test {
 protected:
  Labels() : memory_(new (std::align_val_t{64}) std::uint8_t[kBytes]()) {
    segment().labelled_memory_offset = kTablesAt;
    g_process.read_clock = clock_gettime;
    g_process.segment.store(&segment());
  }
  ~Labels() override {
    g_process.segment.store(nullptr);
    ::operator delete[](memory_, std::align_val_t{64});
  }
  wire::SegmentHeader& segment() { return *reinterpret_cast<wire::SegmentHeader*>(memory_); }
  wire::LabelledMemory& tables() { return *reinterpret_cast<wire::LabelledMemory*>(memory_ + kTablesAt); }

  const wire::MemorySpace* space(const std::string& name) {
    for (const wire::MemorySpace& row : tables().spaces)
      if (row.ready.load() == 1 && name == row.name) return &row;
    return nullptr;
  }
  const wire::MemoryLabel* label(const std::string& space_name, const std::string& name) {
    for (const wire::MemoryLabel& row : tables().labels)
      if (row.ready.load() == 1 && name == row.name && space_name == tables().spaces[row.space].name)
        return &row;
    return nullptr;
  }
  static std::uint64_t at_peak(const wire::MemorySpace& space, const wire::MemoryLabel& label) {
    return label.saved_peaks.load() == space.peaks.load() ? label.saved_bytes.load()
                                                          : label.live_bytes.load();
  }

 private:
  std::uint8_t* memory_;
};

// A name as Kokkos passes it.
struct SpaceName {
  explicit SpaceName(const std::string& text) { text.copy(name, sizeof name); }
  char name[wire::kSpaceNameBytes] = {};
};
void make(const std::string& space, const char* label, std::uint64_t bytes) {
  note_labelled_allocation(SpaceName(space).name, label, bytes);
}
void drop(const std::string& space, const char* label, std::uint64_t bytes) {
  note_labelled_free(SpaceName(space).name, label, bytes);
}

TEST_F(Labels, AgreeWithASimpleAccount) {
  struct Sum {
    std::uint64_t live = 0, peak = 0;
    std::map<std::string, std::uint64_t> now, then;
  };
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::map<std::string, Sum> sums;
    std::vector<std::tuple<std::string, std::string, std::uint64_t>> held;
    for (int i = 0; i < 2000; ++i) {
      if (!held.empty() && random() % 100 < 30 + random() % 40) {
        const std::size_t which = random() % held.size();
        const auto [space, name, bytes] = held[which];
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
        drop(space, name.c_str(), bytes);
        sums[space].live -= bytes;
        sums[space].now[name] -= bytes;
        continue;
      }
      const std::string space = std::to_string(seed) + (random() % 3 == 0 ? "a" : "b");
      const std::string name = "label " + std::to_string(random() % 20);
      const std::uint64_t bytes = random() % 1000;
      make(space, name.c_str(), bytes);
      held.emplace_back(space, name, bytes);
      Sum& sum = sums[space];
      sum.live += bytes;
      sum.now[name] += bytes;
      if (sum.live > sum.peak) sum.peak = sum.live, sum.then = sum.now;
    }
    for (auto& [name, sum] : sums) {
      const wire::MemorySpace* const row = space(name);
      ASSERT_NE(row, nullptr);
      EXPECT_EQ(row->live_bytes.load(), sum.live);
      EXPECT_EQ(row->peak_bytes.load(), sum.peak);
      EXPECT_EQ(row->unknown_frees.load(), 0u);
      for (const auto& [text, bytes] : sum.now) {
        const wire::MemoryLabel* const of = label(name, text);
        ASSERT_NE(of, nullptr);
        EXPECT_EQ(of->live_bytes.load(), bytes);
        EXPECT_EQ(at_peak(*row, *of), sum.then[text]) << text;
      }
    }
    for (const auto& [space, name, bytes] : held) drop(space, name.c_str(), bytes);
    new (&tables()) wire::LabelledMemory{};  // as in the child of a fork
  }
}

TEST_F(Labels, WithoutARecordingNothingIsKept) {
  g_process.segment.store(nullptr);
  make("Host", "view", 8);
  drop("Host", "view", 8);
  note_labelled_copy(SpaceName("Host").name, SpaceName("Host").name, 8);
  EXPECT_EQ(segment().has_labelled_memory.load(), 0u);
  EXPECT_EQ(space("Host"), nullptr);
}

TEST_F(Labels, WhatWasNotSeenIsFreedApart) {
  make("Host", "view", 8);
  drop("Host", "view", 9);
  drop("Host", "other", 5);
  drop("Host", "other", 0);
  drop("Host", "view", 8);
  drop("Host", "view", 0);
  const wire::MemorySpace* const row = space("Host");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->live_bytes.load(), 0u);
  EXPECT_EQ(row->frees.load(), 1u);
  EXPECT_EQ(row->unknown_frees.load(), 4u);
  EXPECT_EQ(row->unknown_bytes.load(), 14u);
  EXPECT_EQ(label("Host", "other"), nullptr) << "no row is made for it";
}

TEST_F(Labels, TheNameOfASpaceMayFillItsField) {
  const std::string name(wire::kSpaceNameBytes, 's');
  make(name, "view", 8);
  EXPECT_NE(space(name.substr(1)), nullptr) << "cut by the end mark";
}

TEST_F(Labels, CopiesAreBySpaces) {
  note_labelled_copy(SpaceName("Cuda").name, SpaceName("Host").name, 8);
  note_labelled_copy(SpaceName("Cuda").name, SpaceName("Host").name, 4);
  EXPECT_EQ(tables().copies[0][1].count.load(), 2u);
  EXPECT_EQ(tables().copies[0][1].bytes.load(), 12u);
  EXPECT_EQ(tables().changes.load() % 2, 0u);
}

}  // namespace
}  // namespace clusterprof::agent
