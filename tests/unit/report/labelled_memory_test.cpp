// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/labelled_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "profile_builder.hpp"
#include "report/format/characters.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using testing::kMs;
using testing::ProfileBuilder;

constexpr std::uint64_t kUnit = 1u << 20;

// Four ranks on two nodes. Rank 2 has the largest peak, after 3 s.
class LabelledMemoryTest : public ::testing::Test {
 protected:
  LabelledMemoryTest() {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const std::uint64_t most = (rank == 2 ? 9 : rank + 1) * kUnit;
      space(rank, "Cuda", most);
      label(rank, "Cuda", "grid", most - kUnit / 2);
      label(rank, "Cuda", "", kUnit / 2);
    }
    space(1, "Host", kUnit);
    label(1, "Host", "tables", kUnit);
    b_.data.memory_copies.push_back({0, 5, 5 * kUnit, "Cuda", "Host"});
    b_.data.memory_copies.push_back({3, 2, 6 * kUnit, "Cuda", "Host"});
  }
  shard::MemorySpace& space(std::uint32_t rank, std::string_view name, std::uint64_t peak) {
    shard::MemorySpace& row = b_.data.memory_spaces.emplace_back();
    row.rank = rank;
    row.name = name;
    row.processes = 1;
    row.allocations = 3;
    row.frees = 2;
    row.alloc_bytes = 2 * peak;
    row.peak_bytes = peak;
    row.peak_utc_ns = b_.data.run.start_utc_ns + static_cast<std::int64_t>((1 + rank) * 1000 * kMs);
    return row;
  }
  void label(std::uint32_t rank, std::string_view of, std::string_view name, std::uint64_t at_peak) {
    shard::MemoryLabel& row = b_.data.memory_labels.emplace_back();
    row.rank = rank;
    row.space = of;
    row.name = name;
    row.allocations = 2;
    row.alloc_bytes = 2 * at_peak;
    row.peak_bytes = at_peak + 1;
    row.space_peak_bytes = at_peak;
  }
  ProfileBuilder b_{4, 2};
};

TEST_F(LabelledMemoryTest, IsSummedOverRanks) {
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.labelled_memory.spaces.size(), 2u);
  const MemorySpaceRow& cuda = a.labelled_memory.spaces[0];
  EXPECT_EQ(cuda.name, "Cuda") << "the largest first";
  EXPECT_EQ(cuda.peaks_bytes, (1 + 2 + 9 + 4) * kUnit);
  EXPECT_EQ(cuda.allocations, 12u);
  EXPECT_EQ(cuda.processes, 4u);
  EXPECT_EQ(cuda.rank_count, 4u);
  ASSERT_EQ(cuda.ranks.size(), 4u);
  EXPECT_EQ(cuda.ranks[0].rank, 2);
  EXPECT_EQ(cuda.ranks[0].peak_bytes, 9 * kUnit);
  EXPECT_NEAR(cuda.ranks[0].peak_at_s, 3, 1e-9);
  EXPECT_EQ(cuda.ranks[3].rank, 0);
  EXPECT_EQ(cuda.node, 1u);
  EXPECT_EQ(cuda.node_peaks_bytes, 13 * kUnit);
  ASSERT_EQ(cuda.labels.size(), 2u);
  const MemoryLabelRow& grid = cuda.labels[0];
  EXPECT_EQ(grid.name, "grid");
  EXPECT_EQ(grid.space_peak_bytes, 14 * kUnit);
  EXPECT_EQ(grid.max_rank, 2);
  EXPECT_EQ(grid.max_rank_bytes, 9 * kUnit - kUnit / 2);
  EXPECT_EQ(grid.peak_bytes, 9 * kUnit - kUnit / 2 + 1);
  EXPECT_EQ(cuda.labels[1].max_rank, 0) << "of equal ones the first";
  ASSERT_EQ(a.labelled_memory.copies.size(), 1u);
  EXPECT_EQ(a.labelled_memory.copies[0].bytes, 11 * kUnit);
  EXPECT_EQ(a.labelled_memory.copies[0].count, 7u);
  EXPECT_EQ(a.labelled_memory.copies[0].max_rank, 3);
}

TEST_F(LabelledMemoryTest, TooManyLabelsAreOne) {
  for (std::uint32_t i = 0; i < 3000; ++i) label(1, "Host", "small " + std::to_string(i), 1);
  label(1, "Host", "(other labels)", 7);
  const Analysis a = analyse(b_.data);
  const MemorySpaceRow& host = a.labelled_memory.spaces[1];
  ASSERT_EQ(host.labels.size(), kMaxMemoryLabels);
  EXPECT_EQ(host.labels[0].name, "tables");
  std::uint64_t all = 0, allocations = 0, others = 0;
  for (const MemoryLabelRow& row : host.labels) {
    all += row.space_peak_bytes;
    allocations += row.allocations;
    others += row.name == "(other labels)" ? 1 : 0;
  }
  EXPECT_EQ(all, kUnit + 3000 + 7);
  EXPECT_EQ(allocations, 2u * (1 + 3000 + 1));
  EXPECT_EQ(others, 1u);
  EXPECT_EQ(host.labels.back().name, "(other labels)");
}

TEST_F(LabelledMemoryTest, TheJsonHasAllOfIt) {
  const auto document = nlohmann::json::parse(render_json(analyse(b_.data)));
  const auto& memory = document["labelled_memory"];
  EXPECT_FALSE(document.contains("memory"));
  const auto& cuda = memory["spaces"][0];
  EXPECT_EQ(cuda["rank_max"], 2);
  EXPECT_EQ(cuda["rank_max_bytes"], 9 * kUnit);
  EXPECT_EQ(cuda["node_max"], "n1");
  EXPECT_EQ(cuda["by_rank"].size(), 4u);
  EXPECT_EQ(cuda["labels"][0]["label"], "grid");
  EXPECT_TRUE(cuda["labels"][1]["label"].is_null());
  EXPECT_EQ(memory["copies"][0]["from"], "Host");
}

TEST_F(LabelledMemoryTest, ARunWithoutAnyHasNoKeyAndNoSection) {
  ProfileBuilder none(2);
  const Analysis a = analyse(none.data);
  EXPECT_FALSE(nlohmann::json::parse(render_json(a)).contains("labelled_memory"));
  EXPECT_EQ(render_text(a, {80, false, {"memory"}, 15}).find("by label"), std::string::npos);
}

TEST_F(LabelledMemoryTest, TheTextFits80Columns) {
  b_.data.memory_spaces[0].unknown_frees = 3;
  b_.data.memory_spaces[0].unknown_bytes = kUnit;
  label(3, "Cuda", std::string(100, 'w') + "\n\x1b[31m\xff", 3);
  space(0, std::string(63, 's'), 5);
  for (const bool all : {false, true}) {
    const std::string text = render_text(
        analyse(b_.data), all ? TextOptions{80, false, {}, 15} : TextOptions{80, false, {"memory"}, 15});
    for (const char* const part : {"Memory by label", "Cuda", "grid", "(no label)",
                                   "At the peaks of Cuda on 4 ranks", "freed 3 times in Cuda"})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(format::columns(line), 80u) << line;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find("--memory"), std::string::npos);
    EXPECT_EQ(text.find("Deep copies") != std::string::npos, !all);
  }
}

TEST_F(LabelledMemoryTest, TheArchiveKeepsIt) {
  const Analysis a = analyse(b_.data);
  const std::optional<Analysis> read = decode(encode(a));
  ASSERT_TRUE(read);
  EXPECT_EQ(render_json(*read), render_json(a));
}

}  // namespace
}  // namespace clusterprof::report
