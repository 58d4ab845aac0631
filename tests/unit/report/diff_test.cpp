// SPDX-License-Identifier: BSD-3-Clause
#include "report/diff/diff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/library_name.hpp"
#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::Category;
using testing::ProfileBuilder;

// Ranks that spend so many milliseconds in step() of FOLDER/train.py, in fast(), and in MPI_Barrier.
shard::ShardData run_of(std::uint64_t step_ms, std::uint64_t fast_ms, std::uint64_t barrier_ms,
                        std::uint32_t ranks = 2, const std::string& folder = "/home/a",
                        std::uint32_t start = 10) {
  ProfileBuilder b(ranks);
  const auto main = b.python("<module>", folder + "/train.py", 90, 1);
  const auto step = b.path({main, b.python("step", folder + "/train.py", start + 3, start)});
  const auto fast = b.path({main, b.python("fast", folder + "/train.py", 30, 28)});
  const auto barrier = b.path({main, b.mpi("MPI_Barrier")});
  for (std::uint32_t r = 0; r < ranks; ++r) {
    b.sampled(r, step, Category::kPython, step_ms);
    if (fast_ms != 0) b.sampled(r, fast, Category::kPython, fast_ms);
    b.called(r, barrier, 10, barrier_ms);
  }
  b.lasts(step_ms + fast_ms + barrier_ms);
  return std::move(b.data);
}

std::vector<RunFacts> facts(const std::vector<shard::ShardData>& runs, const std::string& name) {
  std::vector<RunFacts> all;
  for (const shard::ShardData& run : runs)
    all.push_back(facts_of(analyse(run), name + std::to_string(all.size() + 1)));
  return all;
}
Diff diff_of(const std::vector<shard::ShardData>& a, const std::vector<shard::ShardData>& b) {
  return compare(facts(a, "a"), facts(b, "b"));
}

const ComparedRow* find(const Diff& diff, DiffTable table, const std::string& name) {
  for (const ComparedRow& row : diff.of(table))
    if (row.subject.name == name) return &row;
  return nullptr;
}
const ComparedRow& row_of(const Diff& diff, DiffTable table, const std::string& name) {
  const ComparedRow* const row = find(diff, table, name);
  if (row != nullptr) return *row;
  ADD_FAILURE() << "there is no " << name;
  static const ComparedRow kNone{{}, 0, {ComparedValue{}, ComparedValue{}}};
  return kNone;
}

std::string json_of(const Diff& diff, const std::vector<Judgement>& judgements = {}) {
  std::string text;
  render_diff_json(diff, judgements, [&](std::string_view piece) { text += piece; });
  return text;
}

// --- statistics ------------------------------------------------------------------------------

TEST(DiffStatistics, StudentsQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_quantile(1), 12.706, 5e-4);
  EXPECT_NEAR(student_quantile(2), 4.303, 5e-4);
  EXPECT_NEAR(student_quantile(4), 2.776, 5e-4);
  EXPECT_NEAR(student_quantile(10), 2.228, 5e-4);
  EXPECT_NEAR(student_quantile(1e6), 1.960, 5e-4);
}

TEST(DiffStatistics, TheMeansIntervalIsStudents) {
  const std::vector<double> values{10, 12, 14};  // standard deviation 2
  const std::optional<Sample> sample = sample_of(values);
  ASSERT_TRUE(sample && sample->half_width);
  EXPECT_DOUBLE_EQ(sample->mean, 12);
  EXPECT_EQ(sample->min, 10);
  EXPECT_EQ(sample->max, 14);
  EXPECT_NEAR(*sample->half_width, 4.3027 * 2 / std::sqrt(3.0), 1e-3);
  EXPECT_FALSE(sample_of(std::vector<double>{5})->half_width);
  EXPECT_FALSE(sample_of({}));
}

TEST(DiffStatistics, TheDifferencesIntervalIsWelchs) {
  // Variances 4 and 1, three and four values: freedom (4/3 + 1/4)^2 / ((4/3)^2/2 + (1/4)^2/3).
  const std::vector<double> a{10, 12, 14}, b{20, 20, 21, 22};
  const double of_a = 4.0 / 3, of_b = (0.5625 * 2 + 0.0625 + 1.5625) / 3 / 4;
  const double freedom = (of_a + of_b) * (of_a + of_b) / (of_a * of_a / 2 + of_b * of_b / 3);
  EXPECT_NEAR(*half_width_of_difference(a, b), student_quantile(freedom) * std::sqrt(of_a + of_b), 1e-9);
  // A single run is taken to vary as the others do.
  EXPECT_NEAR(*half_width_of_difference(a, std::vector<double>{20}), 4.3027 * 2 * std::sqrt(1 + 1.0 / 3),
              1e-3);
  EXPECT_FALSE(half_width_of_difference(std::vector<double>{1}, std::vector<double>{2}));
  EXPECT_EQ(half_width_of_difference(std::vector<double>{1, 1}, std::vector<double>{2, 2}), 0.0);
}

// --- comparing -------------------------------------------------------------------------------

TEST(Diff, FunctionsAreNewChangedOrGone) {
  const Diff diff = diff_of({run_of(1000, 500, 100)}, {run_of(3000, 0, 100)});
  const ComparedRow& step = row_of(diff, DiffTable::kFunctions, "step");
  EXPECT_DOUBLE_EQ(step.values[0].all.a->mean, 2);
  EXPECT_DOUBLE_EQ(step.values[0].all.b->mean, 6);
  EXPECT_DOUBLE_EQ(*step.values[0].all.difference, 4);
  EXPECT_DOUBLE_EQ(*step.values[0].all.relative, 2);
  EXPECT_EQ(verdict_of(step.values[0]), Verdict::kWorse);
  EXPECT_EQ(step.values[0].key, "self_s");
  EXPECT_EQ(step.values[1].key, "total_s");
  EXPECT_EQ(diff.of(DiffTable::kFunctions)[0].subject.name, "step") << "the largest change comes first";
  const ComparedRow& fast = row_of(diff, DiffTable::kFunctions, "fast");
  EXPECT_DOUBLE_EQ(fast.values[0].all.b->mean, 0) << "not sampled is no time";
  const ComparedRow& elapsed = row_of(diff, DiffTable::kRun, "elapsed");
  EXPECT_NEAR(*elapsed.values[0].all.relative, 1.5 / 1.6, 1e-9);
  EXPECT_EQ(verdict_of(elapsed.values[0]), Verdict::kWorse) << "nearly twice as long is no chance";
  EXPECT_EQ(verdict_of(row_of(diff, DiffTable::kMpiCalls, "MPI_Barrier").values[0]), Verdict::kUndecided)
      << "one run says nothing of others";
}

TEST(Diff, SamplesHaveTheirError) {
  // 1 s and 1.1 s at 100 Hz on 2 ranks: 200 and 220 samples, a difference of 20 +- 40.
  const Diff diff = diff_of({run_of(1000, 0, 100)}, {run_of(1100, 0, 100)});
  const ComparedValue& self = row_of(diff, DiffTable::kFunctions, "step").values[0];
  EXPECT_TRUE(self.all.by_sampling);
  EXPECT_NEAR(*self.all.half_width, 1.96 * std::sqrt(420) / 100, 1e-3);
  EXPECT_EQ(verdict_of(self), Verdict::kNoise);
  const ComparedValue& mpi = row_of(diff, DiffTable::kMpiCalls, "MPI_Barrier").values[0];
  EXPECT_FALSE(mpi.all.half_width) << "calls are timed, not sampled";
}

TEST(Diff, SeveralRunsTellNoiseFromChange) {
  const Diff same = diff_of({run_of(1000, 0, 100), run_of(1200, 0, 100), run_of(1100, 0, 100)},
                            {run_of(1150, 0, 100), run_of(1000, 0, 100), run_of(1250, 0, 100)});
  const ComparedValue& noise = row_of(same, DiffTable::kRun, "elapsed").values[0];
  EXPECT_EQ(noise.all.a->runs, 3u);
  EXPECT_NEAR(noise.all.a->mean, 1.2, 1e-9);
  EXPECT_EQ(verdict_of(noise), Verdict::kNoise);
  const Diff faster = diff_of({run_of(1000, 0, 100), run_of(1020, 0, 100), run_of(1010, 0, 100)},
                              {run_of(800, 0, 100), run_of(810, 0, 100)});
  EXPECT_EQ(verdict_of(row_of(faster, DiffTable::kRun, "elapsed").values[0]), Verdict::kBetter);
  EXPECT_EQ(verdict_of(row_of(faster, DiffTable::kFunctions, "step").values[0]), Verdict::kBetter);
}

TEST(Diff, OtherNumbersOfRanksAreComparedPerRank) {
  const Diff diff = diff_of({run_of(1000, 0, 100, 2)}, {run_of(1000, 0, 100, 4)});
  EXPECT_TRUE(diff.ranks_differ);
  const ComparedValue& self = row_of(diff, DiffTable::kFunctions, "step").values[0];
  EXPECT_DOUBLE_EQ(*self.all.relative, 1);
  ASSERT_TRUE(self.per_rank);
  EXPECT_DOUBLE_EQ(*self.per_rank->relative, 0);
  EXPECT_FALSE(row_of(diff, DiffTable::kRun, "elapsed").values[0].per_rank);
  EXPECT_NE(render_diff_text(diff, {}, {}).find("per rank"), std::string::npos);
}

TEST(Diff, FoldersAndLinesMayMove) {
  const Diff diff =
      diff_of({run_of(1000, 0, 100, 2, "/home/a", 10)}, {run_of(2000, 0, 100, 2, "/scratch/b", 17)});
  std::size_t steps = 0;
  for (const ComparedRow& row : diff.of(DiffTable::kFunctions)) steps += row.subject.name == "step";
  EXPECT_EQ(steps, 1u);
  const auto& lines = diff.of(DiffTable::kLines);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].subject.line, 20u);
  EXPECT_EQ(lines[0].line_in_a, 13u);
  EXPECT_DOUBLE_EQ(*lines[0].values[0].all.difference, 2);
}

TEST(Diff, FilesOfOneNameInOneRunStayApart) {
  const auto run = [](std::uint64_t one_ms, std::uint64_t other_ms) {
    ProfileBuilder b(1);
    b.sampled(0, b.path({b.python("load", "/x/one/__init__.py", 5, 4)}), Category::kPython, one_ms);
    b.sampled(0, b.path({b.python("load", "/x/other/__init__.py", 5, 4)}), Category::kPython, other_ms);
    b.lasts(one_ms + other_ms);
    return std::move(b.data);
  };
  const Diff diff = diff_of({run(1000, 2000)}, {run(3000, 2000)});
  ASSERT_EQ(diff.of(DiffTable::kFunctions).size(), 2u);
  EXPECT_EQ(diff.of(DiffTable::kFunctions)[0].subject.file, "/x/one/__init__.py");
  EXPECT_DOUBLE_EQ(*diff.of(DiffTable::kFunctions)[0].values[0].all.difference, 2);
  EXPECT_DOUBLE_EQ(*diff.of(DiffTable::kFunctions)[1].values[0].all.difference, 0);
}

TEST(Diff, LibrariesMayHaveOtherVersions) {
  const std::pair<const char*, const char*> names[] = {
      {"/usr/lib/libfoo.so.1.2.3", "libfoo.so"},
      {"/usr/lib/libfoo-1.2.so", "libfoo.so"},
      {"libpython3.11.so.1.0", "libpython.so"},
      {"libfoo.so", "libfoo.so"},
      {"libavx512.so.2", "libavx512.so"},
      {"libstdc++.so.6.0.30", "libstdc++.so"},
      {"_core.cpython-311-x86_64-linux-gnu.so", "_core.cpython-311-x86_64-linux-gnu.so"},
      {"/home/a/train.py", "train.py"},
      {"solver-2.1", "solver-2.1"},
      {"libfoo.so.old", "libfoo.so.old"},
      {"1.2.so", "1.2.so"},
      {".so.1", ".so.1"},
      {"", ""}};
  for (const auto& [path, name] : names) EXPECT_EQ(unversioned_name(path), name) << path;

  const auto run = [](std::initializer_list<std::pair<const char*, std::uint64_t>> libraries) {
    ProfileBuilder b(1);
    std::uint64_t all_ms = 0;
    for (const auto& [library, ms] : libraries) {
      b.sampled(0, b.path({b.native("solve", library)}), Category::kNative, ms);
      all_ms += ms;
    }
    b.lasts(all_ms);
    return std::move(b.data);
  };
  const Diff updated =
      diff_of({run({{"/opt/1/libfoo.so.1.2.3", 1000}})}, {run({{"/opt/2/libfoo.so.1.2.4", 3000}})});
  ASSERT_EQ(updated.of(DiffTable::kFunctions).size(), 1u) << "neither new nor gone";
  EXPECT_DOUBLE_EQ(*updated.of(DiffTable::kFunctions)[0].values[0].all.difference, 2);
  // Where a run has two versions, these stay apart, and each is compared with itself.
  const Diff both = diff_of({run({{"/opt/1/libfoo.so.1", 1000}})},
                            {run({{"/opt/2/libfoo.so.1", 1500}, {"/opt/2/libfoo.so.2", 4000}})});
  ASSERT_EQ(both.of(DiffTable::kFunctions).size(), 2u);
  EXPECT_DOUBLE_EQ(*both.of(DiffTable::kFunctions)[0].values[0].all.difference, 4);
  EXPECT_DOUBLE_EQ(*both.of(DiffTable::kFunctions)[1].values[0].all.difference, 0.5);
}

TEST(Diff, UnmeasuredValuesAreNotZero) {
  shard::ShardData unwatched = run_of(1000, 0, 100);
  unwatched.mpi_calls.clear();
  for (shard::Rank& rank : unwatched.ranks)
    rank.mpi_ns = 0, rank.flags = (rank.flags & ~shard::kUsedMpi) | shard::kMpiUnwatched;
  const Diff diff = diff_of({unwatched}, {run_of(1000, 0, 100)});
  const ComparedValue& calls = row_of(diff, DiffTable::kMpiCalls, "MPI_Barrier").values[0];
  EXPECT_FALSE(calls.all.a);
  EXPECT_FALSE(calls.all.difference);
  EXPECT_EQ(verdict_of(calls), Verdict::kUnknown);
  EXPECT_FALSE(row_of(diff, DiffTable::kEfficiency, "parallel").values[0].all.a);
}

TEST(Diff, MemoryIsComparedByLineAndDomain) {
  const auto run = [](std::uint64_t grid_bytes, std::uint64_t cache_bytes, bool recorded = true) {
    ProfileBuilder b(2);
    const auto main = b.python("<module>", "/home/a/train.py", 90, 1);
    const auto held = [&](std::string_view function, std::uint32_t line, std::uint64_t bytes) {
      if (bytes == 0) return;
      shard::MemorySite& site = b.data.memory_sites.emplace_back();
      site.rank = 1;
      site.path = b.path({main, b.python(function, "/home/a/train.py", line, line - 3)});
      site.domain = shard::MemoryDomain::kPython;
      site.alloc_bytes = 3 * bytes;
      site.rank_peak_bytes = site.node_peak_bytes = bytes;
      b.data.nodes[0].held_peak_bytes += bytes;
    };
    held("grid", 13, grid_bytes);
    held("cache", 43, cache_bytes);
    if (recorded) b.data.memory_ranks = {{0, 65'536, 100}, {1, 65'536, grid_bytes + cache_bytes}};
    return std::move(b.data);
  };
  const Diff diff = diff_of({run(50'000'000, 0)}, {run(80'000'000, 7'000'000)});
  EXPECT_DOUBLE_EQ(*row_of(diff, DiffTable::kRun, "memory_peak").values[0].all.difference, 37e6);
  EXPECT_DOUBLE_EQ(*row_of(diff, DiffTable::kRun, "node_memory_peak").values[0].all.difference, 37e6);
  ASSERT_EQ(diff.of(DiffTable::kMemory).size(), 2u);
  const ComparedRow& grid = diff.of(DiffTable::kMemory)[0];
  EXPECT_EQ(grid.subject.function, "grid") << "the largest difference first";
  EXPECT_EQ(grid.subject.name, "python");
  EXPECT_DOUBLE_EQ(*grid.values[0].all.difference, 30e6);
  EXPECT_DOUBLE_EQ(*diff.of(DiffTable::kMemory)[1].values[0].all.difference, 7e6) << "none is 0 here";
  const Json json = Json::parse(json_of(diff));
  EXPECT_EQ(json["memory"][0]["domain"], "python");
  EXPECT_EQ(json["memory"][0]["line"], 13);
  EXPECT_NE(render_diff_text(diff, {}, {}).find("grid() train.py:13 (python)"), std::string::npos)
      << render_diff_text(diff, {}, {});

  const Diff half = diff_of({run(50'000'000, 0, false)}, {run(80'000'000, 0)});
  EXPECT_FALSE(row_of(half, DiffTable::kRun, "memory_peak").values[0].all.difference) << "not recorded";
}

// Rank 1 has so many bytes of `grid` in Cuda, rank 0 a quarter of that and in Host views without a label.
shard::ShardData run_with_views(std::uint64_t grid, std::uint64_t unnamed, std::uint32_t ranks = 2) {
  ProfileBuilder b(ranks);
  const auto held = [&](std::uint32_t rank, std::string_view of,
                        const std::vector<std::pair<std::string, std::uint64_t>>& labels) {
    shard::MemorySpace space;
    space.rank = rank;
    space.name = of;
    for (const auto& [name, bytes] : labels) {
      if (bytes == 0) continue;
      shard::MemoryLabel& label = b.data.memory_labels.emplace_back();
      label.rank = rank;
      label.space = of;
      label.name = name;
      label.alloc_bytes = 5 * bytes;
      label.peak_bytes = label.space_peak_bytes = bytes;
      label.live_end_bytes = bytes / 2;
      space.alloc_bytes += label.alloc_bytes;
      space.peak_bytes += bytes;
      space.live_end_bytes += label.live_end_bytes;
    }
    b.data.memory_spaces.push_back(space);
  };
  held(0, "Cuda", {{"grid", grid / 4}});
  held(0, "Host", {{"", unnamed}, {"grid", 1000}});
  held(1, "Cuda", {{"grid", grid}});
  return std::move(b.data);
}

const ComparedRow& label_of(const Diff& diff, const std::string& space, const std::string& label) {
  for (const ComparedRow& row : diff.of(DiffTable::kMemoryLabels))
    if (row.subject.space == space && row.subject.name == label) return row;
  return row_of(diff, DiffTable::kMemoryLabels, label + " in " + space);
}

TEST(Diff, LabelledMemoryIsComparedBySpaceAndLabel) {
  const Diff diff = diff_of({run_with_views(40'000'000, 0)}, {run_with_views(80'000'000, 7'000'000)});
  ASSERT_EQ(diff.of(DiffTable::kMemorySpaces).size(), 2u);
  const ComparedRow& cuda = diff.of(DiffTable::kMemorySpaces)[0];
  EXPECT_EQ(cuda.subject.name, "Cuda") << "the largest difference first";
  EXPECT_EQ(cuda.values[0].key, "rank_max_bytes");
  EXPECT_DOUBLE_EQ(cuda.values[0].all.a->mean, 40e6);
  EXPECT_DOUBLE_EQ(*cuda.values[0].all.difference, 40e6);
  ASSERT_EQ(diff.of(DiffTable::kMemoryLabels).size(), 3u) << "one label in two spaces is two rows";
  const ComparedRow& grid = diff.of(DiffTable::kMemoryLabels)[0];
  EXPECT_EQ(grid.subject.name, "grid");
  EXPECT_EQ(grid.subject.space, "Cuda");
  EXPECT_EQ(grid.values[0].key, "peak_bytes");
  EXPECT_DOUBLE_EQ(*grid.values[0].all.difference, 40e6) << "the most on a rank";
  EXPECT_DOUBLE_EQ(*grid.values[1].all.difference, 50e6) << "of both ranks";
  EXPECT_DOUBLE_EQ(*label_of(diff, "Host", "").values[0].all.difference, 7e6) << "none is 0 here";
  EXPECT_DOUBLE_EQ(*label_of(diff, "Host", "grid").values[0].all.difference, 0);

  const Json json = Json::parse(json_of(diff));
  EXPECT_EQ(json["memory_spaces"][0]["name"], "Cuda");
  EXPECT_EQ(json["memory_spaces"][0]["node_max_bytes"]["difference"], 50e6);
  EXPECT_EQ(json["memory_spaces"][0]["peaks_bytes"]["a"]["mean"], 50e6);
  EXPECT_EQ(json["memory_spaces"][0]["live_end_bytes"]["b"]["mean"], 50e6);
  EXPECT_EQ(json["memory_spaces"][0]["alloc_bytes"]["a"]["mean"], 250e6);
  EXPECT_EQ(json["memory_labels"][0]["space"], "Cuda");
  EXPECT_EQ(json["memory_labels"][0]["label"], "grid");
  EXPECT_EQ(json["memory_labels"][0]["peak_bytes"]["unit"], "bytes");
  EXPECT_EQ(json["memory_labels"][0]["live_end_bytes"]["difference"], 25e6);
  EXPECT_EQ(json["memory_labels"][0]["alloc_bytes"]["difference"], 250e6);
  EXPECT_TRUE(json["memory_labels"][1]["label"].is_null());
  const std::string text = render_diff_text(diff, {}, {}), page = render_diff_html(diff, {});
  for (const char* const part : {"Memory spaces", "Memory by label", "grid (Cuda)", "(no label) (Host)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
}

TEST(Diff, LabelledMemoryIsPerRankWhereItIsSummed) {
  const Diff diff = diff_of({run_with_views(40'000'000, 0)}, {run_with_views(40'000'000, 0, 4)});
  const ComparedRow& grid = label_of(diff, "Cuda", "grid");
  EXPECT_FALSE(grid.values[0].per_rank) << "of one rank as it is";
  ASSERT_TRUE(grid.values[1].per_rank);
  EXPECT_DOUBLE_EQ(*grid.values[1].per_rank->relative, -0.5);
  const ComparedRow& cuda = row_of(diff, DiffTable::kMemorySpaces, "Cuda");
  EXPECT_FALSE(cuda.values[0].per_rank);
  EXPECT_FALSE(cuda.values[1].per_rank);
  EXPECT_TRUE(cuda.values[2].per_rank);
}

TEST(Diff, LabelsThatCouldNotBeSeenAreNotZero) {
  const Diff without = diff_of({run_of(1000, 0, 100)}, {run_with_views(40'000'000, 0)});
  EXPECT_FALSE(row_of(without, DiffTable::kMemorySpaces, "Cuda").values[0].all.a);
  EXPECT_FALSE(label_of(without, "Cuda", "grid").values[0].all.difference);

  shard::ShardData joined = run_with_views(40'000'000, 0);
  joined.memory_labels[1].name = shard::kOtherLabelsName;
  const Diff diff = diff_of({joined}, {run_with_views(40'000'000, 7'000'000)});
  EXPECT_FALSE(label_of(diff, "Host", "").values[0].all.difference) << "may be among the others";
  EXPECT_DOUBLE_EQ(*label_of(diff, "Cuda", "grid").values[0].all.difference, 0);
  EXPECT_DOUBLE_EQ(label_of(diff, "Host", std::string(shard::kOtherLabelsName)).values[0].all.b->mean, 0)
      << "B names all labels";
}

Finding finding_of(FindingKind kind, Severity severity, double share, std::string function,
                   std::uint32_t line) {
  Finding finding;
  finding.kind = kind, finding.severity = severity, finding.share = share;
  finding.place.function = std::move(function), finding.place.file = "/home/u/train.py";
  finding.place.line = line;
  finding.rank = 3;
  return finding;
}

TEST(Diff, FindingsThatDifferOnlyInNumbersAreTheSame) {
  Analysis a, b;
  a.findings = {finding_of(FindingKind::kLoadImbalance, Severity::kHigh, 0.3, "clean", 36),
                finding_of(FindingKind::kMpiTime, Severity::kLow, 0.1, "step", 88)};
  b.findings = {finding_of(FindingKind::kLoadImbalance, Severity::kMedium, 0.2, "clean", 40),
                finding_of(FindingKind::kSmallIo, Severity::kHigh, 0.5, "load", 12)};
  b.findings[0].rank = 7;
  const Diff diff = compare({facts_of(a, "a")}, {facts_of(b, "b")});
  ASSERT_EQ(diff.persisting.size(), 1u);
  EXPECT_EQ(diff.persisting[0].finding.rank, 7);
  EXPECT_EQ(diff.persisting[0].a_share, 0.3);
  EXPECT_EQ(diff.persisting[0].b_share, 0.2);
  ASSERT_EQ(diff.disappeared.size(), 1u);
  EXPECT_EQ(diff.disappeared[0].finding.severity, Severity::kLow);
  ASSERT_EQ(diff.appeared.size(), 1u);
  EXPECT_EQ(diff.appeared[0].finding.share, 0.5);
}

TEST(Diff, FixedDelayIsGoneAndTheOtherPersists) {
  Analysis a, b;
  a.run.elapsed_s = 10, b.run.elapsed_s = 6.5;
  a.findings = {finding_of(FindingKind::kDelay, Severity::kMedium, 0.2, "load_batch", 41),
                finding_of(FindingKind::kDelay, Severity::kLow, 0.05, "clean", 36)};
  b.findings = {finding_of(FindingKind::kDelay, Severity::kLow, 0.08, "clean", 36)};
  const Diff diff = compare({facts_of(a, "a")}, {facts_of(b, "b")});
  ASSERT_EQ(diff.disappeared.size(), 1u);
  EXPECT_EQ(diff.disappeared[0].finding.place.function, "load_batch");
  ASSERT_EQ(diff.persisting.size(), 1u);
  EXPECT_EQ(diff.persisting[0].finding.place.function, "clean");
  EXPECT_TRUE(diff.appeared.empty());
  const ComparedValue& elapsed = row_of(diff, DiffTable::kRun, "elapsed").values[0];
  EXPECT_EQ(verdict_of(elapsed), Verdict::kBetter)
      << "35 % less is more than chance, though there is one run a side";
  EXPECT_FALSE(elapsed.all.significant) << "there is no interval all the same";
  a.run.elapsed_s = 7;
  const Diff small = compare({facts_of(a, "a")}, {facts_of(b, "b")});
  EXPECT_EQ(verdict_of(row_of(small, DiffTable::kRun, "elapsed").values[0]), Verdict::kUndecided);
}

TEST(Diff, FindingsOfOneKindAndPlaceAreSummedWithinARun) {
  Analysis a, b;
  a.findings = {finding_of(FindingKind::kDelay, Severity::kMedium, 0.2, "clean", 36),
                finding_of(FindingKind::kDelay, Severity::kMedium, 0.1, "clean", 36)};
  b.findings = {finding_of(FindingKind::kDelay, Severity::kMedium, 0.1, "clean", 36)};
  const Diff diff = compare({facts_of(a, "a")}, {facts_of(b, "b")});
  ASSERT_EQ(diff.persisting.size(), 1u);
  EXPECT_DOUBLE_EQ(*diff.persisting[0].a_share, 0.3);
  EXPECT_DOUBLE_EQ(*diff.persisting[0].b_share, 0.1);
}

// A replay says what is gained, sums what that is at most.
TEST(Diff, GainsAreComparedByOneMethod) {
  const auto run_with = [](double gain_s, bool replayed) {
    Analysis run;
    run.findings = {finding_of(FindingKind::kDelay, Severity::kMedium, 0.2, "clean", 36)};
    run.findings[0].gain_s = gain_s;
    if (replayed) run.findings[0].gain_error_s = 0.1;
    return run;
  };
  const auto compared = [](const std::vector<Analysis>& a, const std::vector<Analysis>& b) {
    const auto facts = [](const std::vector<Analysis>& runs) {
      std::vector<RunFacts> all;
      for (const Analysis& run : runs) all.push_back(facts_of(run, "run"));
      return all;
    };
    const Diff diff = compare(facts(a), facts(b));
    const std::vector<FindingChange>& changes = diff.persisting.empty() ? diff.appeared : diff.persisting;
    return changes.empty() ? FindingChange() : changes.front();
  };
  const FindingChange mixed = compared({run_with(4, true)}, {run_with(9, false)});
  EXPECT_FALSE(mixed.a_gain_s);
  EXPECT_FALSE(mixed.b_gain_s);
  EXPECT_TRUE(mixed.gains_differ);
  const FindingChange sums = compared({run_with(4, false)}, {run_with(9, false)});
  EXPECT_EQ(sums.a_gain_s, 4);
  EXPECT_EQ(sums.b_gain_s, 9);
  EXPECT_EQ(sums.gain_method, GainMethod::kSums);
  EXPECT_FALSE(sums.gains_differ);
  // Of several runs those that were replayed, where both sides have some.
  const FindingChange some = compared({run_with(4, true), run_with(30, false)}, {run_with(2, true)});
  EXPECT_EQ(some.a_gain_s, 4);
  EXPECT_EQ(some.b_gain_s, 2);
  EXPECT_EQ(some.gain_method, GainMethod::kReplay);
  // One run has it twice, by both methods: their sum is neither.
  Analysis twice = run_with(4, true);
  twice.findings.push_back(run_with(3, false).findings[0]);
  EXPECT_TRUE(compared({twice}, {run_with(2, true)}).gains_differ);
  // On one side alone there is nothing to compare with.
  const FindingChange alone = compared({Analysis()}, {run_with(2, true)});
  EXPECT_EQ(alone.b_gain_s, 2);
  EXPECT_FALSE(alone.gains_differ);
  const auto json = nlohmann::json::parse([&] {
    std::string text;
    render_diff_json(compare({facts_of(run_with(4, true), "a")}, {facts_of(run_with(9, false), "b")}), {},
                     [&](std::string_view piece) { text += piece; });
    return text;
  }());
  EXPECT_EQ(json["findings"]["stayed"][0]["gain_method"], "differ");
}

// --- conditions ------------------------------------------------------------------------------

std::string error_of(const std::string& expression) {
  const auto parsed = parse_conditions(expression);
  return parsed ? "" : parsed.error().message;
}

TEST(DiffConditions, AreRead) {
  const auto parsed = parse_conditions(
      "elapsed > +5%, parallel<80% or function:step()>=-20ms,total:\"a<b>, c\"<=1.5min "
      "or line:train.py:88>+1% or counter:PAPI_TOT_INS>+2M");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const std::vector<Condition>& c = parsed.value();
  ASSERT_EQ(c.size(), 6u);
  EXPECT_EQ(c[0].text, "elapsed > +5%");
  EXPECT_EQ(c[0].of, Condition::Of::kRelativeChange);
  EXPECT_DOUBLE_EQ(c[0].value, 0.05);
  EXPECT_EQ(c[1].of, Condition::Of::kLevel);
  EXPECT_EQ(c[1].op, Condition::Op::kBelow);
  EXPECT_DOUBLE_EQ(c[1].value, 0.8);
  EXPECT_EQ(c[2].name, "step()");
  EXPECT_EQ(c[2].of, Condition::Of::kChange);
  EXPECT_EQ(c[2].op, Condition::Op::kAtLeast);
  EXPECT_DOUBLE_EQ(c[2].value, -0.02);
  EXPECT_EQ(c[3].name, "a<b>, c");
  EXPECT_DOUBLE_EQ(c[3].value, 90);
  EXPECT_EQ(c[4].name, "train.py:88");
  EXPECT_DOUBLE_EQ(c[5].value, 2e6);
}

TEST(DiffConditions, MeaninglessOnesAreRefused) {
  for (const char* expression : {"",
                                 "elapsed",
                                 "elapsed>",
                                 "elapsed>+",
                                 "speed>+5%",
                                 "elapsed=5s",
                                 "elapsed>5%",
                                 "elapsed>5",
                                 "elapsed>+5",
                                 "elapsed>+5pp",
                                 "parallel>+5s",
                                 "parallel>0.8",
                                 "function>+5%",
                                 "function:>+5%",
                                 "elapsed:x>+5%",
                                 "elapsed>+5% and parallel<80%",
                                 "elapsed>+5%,",
                                 "elapsed>+5% or",
                                 "elapsed>+1e3%",
                                 "elapsed>+inf%",
                                 "elapsed>+nan%",
                                 "elapsed>+5parsecs",
                                 "function:\"x>+5%",
                                 "elapsed>+-5%"})
    EXPECT_NE(error_of(expression), "") << expression;
  EXPECT_EQ(error_of("elapsed>5%"), "elapsed is no share; a change by so many per cent has a sign: +5%");
}

std::vector<Judgement> judged(const Diff& diff, const std::string& expression, bool any = false) {
  const auto parsed = parse_conditions(expression);
  EXPECT_TRUE(parsed) << expression << ": " << error_of(expression);
  return parsed ? judge(diff, parsed.value(), any) : std::vector<Judgement>();
}
std::optional<bool> holds(const Diff& diff, const std::string& expression, bool any = false) {
  const auto judgements = judged(diff, expression, any);
  return judgements.size() == 1 ? judgements[0].holds : std::nullopt;
}

TEST(DiffConditions, AreJudged) {
  const Diff diff = diff_of({run_of(1000, 500, 100)}, {run_of(3000, 0, 100)});  // 1.6 s -> 3.1 s
  EXPECT_EQ(holds(diff, "elapsed>+5%"), true);
  EXPECT_EQ(holds(diff, "elapsed>+90%"), true);
  EXPECT_EQ(holds(diff, "elapsed>+95%"), false);
  EXPECT_EQ(holds(diff, "elapsed<-1%"), false);
  EXPECT_EQ(holds(diff, "elapsed>+1.4s"), true);
  EXPECT_EQ(holds(diff, "elapsed>+1600ms"), false);
  EXPECT_EQ(holds(diff, "elapsed>3s"), true);
  EXPECT_EQ(holds(diff, "elapsed<=3s"), false);
  EXPECT_EQ(holds(diff, "function:step>+100%"), true);
  EXPECT_EQ(holds(diff, "function:step()>+300%"), false);
  EXPECT_EQ(holds(diff, "total:step>5s"), true);
  EXPECT_EQ(holds(diff, "function:fast<-99%"), true);
  EXPECT_EQ(holds(diff, "line:train.py:13>+1s"), true);
  EXPECT_EQ(holds(diff, "python>+1s"), true);
  EXPECT_EQ(holds(diff, "function:nowhere>+1%"), std::nullopt) << "an unknown name must not pass";
  EXPECT_EQ(holds(diff, "mpi_wait>+1%"), std::nullopt);
  EXPECT_EQ(holds(diff, "communication>+1pp"), true);
  const auto both = judged(diff, "elapsed<-50%, function:step>+1s");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].holds, false);
  EXPECT_EQ(both[1].holds, true);
}

TEST(DiffConditions, FunctionsWithoutFileAreNamedWithoutBlanks) {
  const auto run = [](std::uint64_t ms) {
    ProfileBuilder b(1);
    b.sampled(0, b.path({b.native("solve", "")}), Category::kNative, ms);
    b.lasts(ms);
    return std::move(b.data);
  };
  const auto judgements = judged(diff_of({run(1000)}, {run(2000)}), "function:solve>+10%");
  ASSERT_EQ(judgements.size(), 1u);
  EXPECT_TRUE(judgements[0].subject.starts_with("solve")) << judgements[0].subject;
  EXPECT_EQ(judgements[0].subject.find(' '), std::string::npos) << judgements[0].subject;
}

TEST(DiffConditions, NewTimeIsMoreThanAnyShare) {
  const Diff diff = diff_of({run_of(1000, 0, 100)}, {run_of(1000, 500, 100)});
  EXPECT_EQ(holds(diff, "function:fast>+1000%"), true);
}

TEST(DiffConditions, DifferenceWithinNoiseDoesNotHold) {
  const Diff diff = diff_of({run_of(1000, 0, 100), run_of(1200, 0, 100), run_of(1100, 0, 100)},
                            {run_of(1150, 0, 100), run_of(1000, 0, 100), run_of(1450, 0, 100)});
  EXPECT_EQ(holds(diff, "elapsed>+5%"), false);
  EXPECT_TRUE(judged(diff, "elapsed>+5%")[0].within_noise);
  EXPECT_EQ(holds(diff, "elapsed>+5%", true), true);
}

// Some runs of B fulfil a condition and others do not.
TEST(DiffConditions, RunsThatDisagree) {
  const auto elapsed = [](std::initializer_list<std::uint64_t> ms) {
    std::vector<shard::ShardData> runs;
    for (const std::uint64_t one : ms) runs.push_back(run_of(one - 100, 0, 100));
    return runs;
  };
  const Diff diff =
      diff_of(elapsed({1000, 1010}), elapsed({1190, 1210, 1195, 1215, 1205}));  // 1203 ms +/- 13 ms
  const Judgement near = judged(diff, "elapsed>1.2s")[0];
  EXPECT_EQ(near.holds, false);
  EXPECT_EQ(near.undecided, Undecided::kRunsDisagree);
  EXPECT_EQ(near.b_runs, 5u);
  EXPECT_EQ(near.b_runs_alike, 3u);
  EXPECT_TRUE(judgement_text(near).starts_with(
      "elapsed>1.2s: not decided: 3 of 5 runs fulfil it, and the limit is in the interval of their mean ("))
      << judgement_text(near);
  const std::string page = render_diff_html(diff, {near});
  EXPECT_NE(page.find("<b class=\"noise\">not decided</b>"), std::string::npos) << page;
  EXPECT_TRUE(judged(diff, "elapsed<1.2s")[0].undecided) << "whatever the mean says";
  EXPECT_EQ(holds(diff, "elapsed>1.2s", true), true) << "the mean decides";
  EXPECT_EQ(holds(diff, "elapsed<1.2s", true), false);
  EXPECT_FALSE(judged(diff, "elapsed>1.216s")[0].undecided);
  // All agree, although the limit is within the interval of the mean, 1205 ms +/- 64 ms.
  const Judgement agreed = judged(diff_of(elapsed({1000}), elapsed({1200, 1210})), "elapsed>1.19s")[0];
  EXPECT_EQ(agreed.holds, true);
  EXPECT_EQ(agreed.b_runs_alike, 2u);
  EXPECT_EQ(judgement_text(agreed).find("runs"), std::string::npos) << judgement_text(agreed);
  // One does not, but the mean is certain.
  const Diff far =
      diff_of(elapsed({1000, 1010}), elapsed({1190, 1230, 1231, 1229, 1232, 1230, 1231, 1230, 1229, 1231}));
  EXPECT_EQ(holds(far, "elapsed>1.2s"), true);
  EXPECT_EQ(judged(far, "elapsed>1.2s")[0].b_runs_alike, 9u);
  EXPECT_FALSE(judged(far, "elapsed>1.2s")[0].undecided);
  // Of changes, each run is compared with the mean of A.
  EXPECT_EQ(judged(diff, "elapsed>+20%")[0].b_runs_alike, 2u);
  EXPECT_EQ(judged(diff, "elapsed regressed by 20%")[0].b_runs_alike, 2u);
  EXPECT_EQ(judged(diff, "elapsed>+100ms")[0].b_runs_alike, 5u);
  EXPECT_EQ(holds(diff, "elapsed>+100ms"), true);
  const Json json = Json::parse(json_of(diff, judged(diff, "elapsed>1.2s")));
  EXPECT_EQ(json["conditions"][0]["b_runs"], 5);
  EXPECT_EQ(json["conditions"][0]["b_runs_alike"], 3);
  EXPECT_EQ(json["conditions"][0]["undecided"], true);
  EXPECT_EQ(json["conditions"][0]["undecided_because"], "runs_disagree");
  const Json decided = Json::parse(json_of(diff, judged(diff, "elapsed>1.216s")));
  EXPECT_TRUE(decided["conditions"][0]["undecided_because"].is_null());
  // A single run decides.
  EXPECT_EQ(holds(diff_of(elapsed({1000}), elapsed({1210})), "elapsed>1.2s"), true);
}

// 95 % are of all intervals together: of counting samples, 2.2414 errors for each of two.
TEST(DiffConditions, IntervalsOfSeveralAreWider) {
  const Diff diff = diff_of({run_of(1000, 1000, 100)}, {run_of(1000, 1300, 100)});
  const auto error = [](double a_s, double b_s) { return std::sqrt((a_s + b_s) * 0.01); };
  const auto one = judged(diff, "function:fast>+1%");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_NEAR(*one[0].comparison.half_width, 1.9599640 * error(2, 2.6), 1e-6);
  const auto two = judged(diff, "function:fast>+1% or function:step>+1%");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(*two[0].comparison.half_width, 2.2414027 * error(2, 2.6), 1e-6);
  EXPECT_NEAR(*two[1].comparison.half_width, 2.2414027 * error(2, 2), 1e-6);
  const auto beside = judged(diff, "function:fast>+1% or elapsed>1ms or parallel<1%");
  EXPECT_NEAR(*beside[0].comparison.half_width, 1.9599640 * error(2, 2.6), 1e-6) << "levels are no tests";
}

// --- renderers -------------------------------------------------------------------------------

constexpr const char* kEvil = "<script>alert(1)</script>\x1b[31m\xe2\x80\xae&\"'";

Diff evil_diff() {
  const auto run = [](std::uint64_t ms) {
    ProfileBuilder b(1);
    b.data.run.command = {kEvil};
    b.sampled(0, b.path({b.python(kEvil, std::string("/x/") + kEvil, 5, 4)}), Category::kPython, ms);
    b.data.counters = {kEvil};
    b.data.counter_values = {{0, 0, ms}};
    shard::MemorySpace& space = b.data.memory_spaces.emplace_back();
    space.name = kEvil;
    space.peak_bytes = ms;
    shard::MemoryLabel& label = b.data.memory_labels.emplace_back();
    label.space = label.name = kEvil;
    label.peak_bytes = ms;
    return std::move(b.data);
  };
  std::vector<RunFacts> a{facts_of(analyse(run(9000)), kEvil)}, b{facts_of(analyse(run(3000)), kEvil)};
  return compare(std::move(a), std::move(b));
}

TEST(DiffText, NamesHaveNoControlCharacters) {
  const std::string text = render_diff_text(evil_diff(), judged(evil_diff(), "elapsed>+5%"), {});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_NE(text.find("\\x1b"), std::string::npos);
}

TEST(DiffText, FitsThePage) {
  shard::ShardData resources = testing::resources_run();
  resources.memory_spaces.emplace_back().name = std::string(63, 's');
  shard::MemoryLabel& label = resources.memory_labels.emplace_back();
  label.space = resources.memory_spaces.back().name;
  label.name = std::string(111, 'w');
  label.peak_bytes = resources.memory_spaces.back().peak_bytes = 123'456'789;
  const Diff diff = diff_of({testing::training_run(), testing::delayed_run()}, {resources});
  for (const int width : {80, 120}) {
    TextOptions options;
    options.width = width;
    const std::string text = render_diff_text(diff, judged(diff, "elapsed>+5%"), options);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      EXPECT_LE(format::columns(text.substr(at, end - at)), static_cast<std::size_t>(width));
      at = end + 1;
    }
  }
}

TEST(DiffText, LongNamesLeaveRoomForTheVerdict) {
  const auto run = [](std::uint64_t grid) {
    shard::ShardData data = run_with_views(grid, 0);
    for (shard::MemoryLabel& label : data.memory_labels)
      if (label.space == "Cuda") label.name = "Solver::" + std::string(90, 'w') + "::values";
    return data;
  };
  const Diff diff =
      diff_of({run(140'000'000), run(141'000'000)}, {run(283'000'000), run(280'000'000), run(282'000'000)});
  for (const int width : {80, 120}) {
    TextOptions options;
    options.width = width;
    const std::string text = render_diff_text(diff, {}, options);
    const std::size_t name = text.find("(Cuda)");
    ASSERT_NE(name, std::string::npos) << text;
    const std::string line = text.substr(name, text.find('\n', name) - name);
    EXPECT_TRUE(line.ends_with("worse")) << line;
  }
}

TEST(DiffHtml, NamesAreNeverMarkup) {
  const std::string page = render_diff_html(evil_diff(), judged(evil_diff(), "function:nowhere>+5%"));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* outside : {"http://", "https://", "src=", "href=", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_LT(page.size(), 20'000u);
}

TEST(DiffJson, HasWhatWasCompared) {
  const Diff diff = diff_of({run_of(1000, 500, 100)}, {run_of(3000, 0, 100, 4)});
  const Json json = Json::parse(json_of(diff, judged(diff, "elapsed>+5%,function:nowhere>+1%")));
  EXPECT_EQ(json["schema"], "clusterprof.diff/1");
  EXPECT_EQ(json["a"][0]["run"], "a1");
  EXPECT_EQ(json["b"][0]["ranks"], 4);
  EXPECT_EQ(json["ranks_differ"], true);
  const Json& step = json["functions"][0];
  EXPECT_EQ(step["name"], "step");
  EXPECT_DOUBLE_EQ(step["self_s"]["difference"], 10);
  EXPECT_DOUBLE_EQ(step["self_s"]["per_rank"]["difference"], 2);
  EXPECT_EQ(step["self_s"]["noise"], "sampling");
  EXPECT_TRUE(step["self_s"]["a"]["half_width"].is_null());
  EXPECT_EQ(json["conditions"][0]["holds"], true);
  EXPECT_TRUE(json["conditions"][1]["holds"].is_null());
}

}  // namespace
}  // namespace clusterprof::report
