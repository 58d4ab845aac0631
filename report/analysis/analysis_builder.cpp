// SPDX-License-Identifier: BSD-3-Clause
// Computes the Analysis: feeds each rank's rows to the parts (functions, limits, regions, ...), keeps
// their partial sums, which builders in other processes can absorb, and lets each part finish its tables.
#include "report/analysis/analysis_builder.hpp"

#include <algorithm>
#include <array>
#include <cereal/archives/binary.hpp>
#include <cstring>
#include <istream>
#include <ostream>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/byte_streams.hpp"
#include "report/analysis/bottlenecks.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/call_tree.hpp"
#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/cells.hpp"
#include "report/analysis/choose_failure.hpp"
#include "report/analysis/counters.hpp"
#include "report/analysis/event_loops.hpp"
#include "report/analysis/file_io.hpp"
#include "report/analysis/findings.hpp"
#include "report/analysis/functions.hpp"
#include "report/analysis/gains.hpp"
#include "report/analysis/hang_search.hpp"
#include "report/analysis/held_memory.hpp"
#include "report/analysis/imports.hpp"
#include "report/analysis/labelled_memory.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/line_rows.hpp"
#include "report/analysis/location_numbers.hpp"
#include "report/analysis/memory.hpp"
#include "report/analysis/mpi_calls.hpp"
#include "report/analysis/mpi_collectives.hpp"
#include "report/analysis/mpi_problems.hpp"
#include "report/analysis/mutexes.hpp"
#include "report/analysis/off_cpu.hpp"
#include "report/analysis/openmp.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/path_time.hpp"
#include "report/analysis/processes.hpp"
#include "report/analysis/regions.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/analysis/tasks.hpp"
#include "report/analysis/threads.hpp"
#include "report/analysis/timeline.hpp"
#include "report/analysis/torch_calls.hpp"
#include "report/analysis/waiting.hpp"

namespace clusterprof::report {
namespace {

using shard::kCategories;
using shard::ShardData;

// What is known of one rank alone.
struct RankResult {
  std::uint32_t position = 0;
  ActivityTimes activity_ns{};
  Limits limits;
};

// Before the state of a builder.
struct StateHeader {
  static constexpr std::uint64_t kMagic = 0x6374'7369'6c61'6e61;  // "analistc"
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0, hash = 0;  // of what follows
};

}  // namespace

struct AnalysisBuilder::State {
  State(const ShardData& data, FrameMode frames)
      : head(data),
        ranks(data),
        paths(data, frames),
        places(data, paths),
        added(data.ranks.size(), false),
        cells(paths.size()),
        path_time(cells, slowest_rank(data, ranks)),
        functions(paths, cells),
        counts(data, paths),
        memory(data, paths),
        limits(data, paths, places, cells),
        off_cpu(data, paths, places),
        imports(data, paths),
        regions(data, paths, places),
        openmp(data, paths),
        torch(data, paths),
        waits(data) {}

  void add(const shard::RankRows& rows);
  void add_ranks_without_rows();
  // All but the lines.
  [[nodiscard]] LineRows finish(Analysis& analysis);
  [[nodiscard]] std::span<const shard::Value> usable(std::span<const shard::Value> values);

  // Sizes that an equal head has.
  [[nodiscard]] std::array<std::uint64_t, 6> shape() const {
    return {head.ranks.size(),    paths.size(),         paths.functions().size(),
            paths.lines().size(), head.counters.size(), places.size()};
  }
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    PathTime::each_table(self.path_time, table);
    FunctionTime::each_table(self.functions, table);
    PathCounts::each_table(self.counts, table);
    MemoryUse::each_table(self.memory, table);
    LimitTime::each_table(self.limits, table);
    OffCpuTime::each_table(self.off_cpu, table);
    ImportTime::each_table(self.imports, table);
    RegionTime::each_table(self.regions, table);
    OpenMpTime::each_table(self.openmp, table);
    TorchTime::each_table(self.torch, table);
    ChargedWaits::each_table(self.waits, table);
  }

  const ShardData& head;
  RankOrder ranks;
  CallPaths paths;
  LocationNumbers places;
  std::vector<shard::Value> kept;  // of the rank at hand
  std::vector<bool> added;         // by row of the head's ranks
  std::vector<RankResult> results;
  Cells cells;
  std::vector<std::uint32_t> cells_of_rank;  // RankInput::cells
  PathTime path_time;
  FunctionTime functions;
  PathCounts counts;
  MemoryUse memory;
  LimitTime limits;
  OffCpuTime off_cpu;
  ImportTime imports;
  RegionTime regions;
  OpenMpTime openmp;
  TorchTime torch;
  ChargedWaits waits;
  PredictGains predict;
};

// Rows without time are of samples at MPI calls that were not counted there; indices may be damaged.
std::span<const shard::Value> AnalysisBuilder::State::usable(std::span<const shard::Value> values) {
  const auto is_usable = [&](const shard::Value& value) {
    return value.wall_ns + value.cpu_ns != 0 && value.path < paths.size() &&
           static_cast<std::size_t>(value.category) < kCategories;
  };
  if (std::all_of(values.begin(), values.end(), is_usable)) return values;
  kept.clear();
  std::copy_if(values.begin(), values.end(), std::back_inserter(kept), is_usable);
  return kept;
}

void AnalysisBuilder::State::add(const shard::RankRows& rows) {
  if (rows.rank >= head.ranks.size()) return;
  added[rows.rank] = true;
  RankInput rank;
  rank.index = rows.rank;
  rank.position = ranks.position[rows.rank];
  rank.of = &head.ranks[rows.rank];
  rank.sampled = rank.of->samples != 0;
  rank.values = usable(rows.values);
  cells_of_rank.clear();
  for (const shard::Value& value : rank.values)
    cells_of_rank.push_back(cells.find_or_add(value.path, value.category));
  rank.cells = cells_of_rank;
  rank.path_counters = rows.path_counters;
  rank.data_accesses = rows.data_accesses;

  path_time.add(rank);
  RankResult& result = results.emplace_back();
  result.position = rank.position;
  result.activity_ns = functions.add(rank);
  counts.add(rank);
  memory.add(rank);
  result.limits = limits.add(rank, memory);
  off_cpu.add(rank);
  imports.add(rank);
  regions.add(rank);
  openmp.add(rank);
  torch.add(rank);
  waits.add(rank);
}

void AnalysisBuilder::State::add_ranks_without_rows() {
  for (std::uint32_t rank = 0; rank < added.size(); ++rank)
    if (!added[rank]) add({rank, {}, {}, {}});
}

LineRows AnalysisBuilder::State::finish(Analysis& analysis) {
  add_ranks_without_rows();
  analysis.run = describe_run(head);
  describe_ranks(head, ranks, analysis);
  describe_mpi_time(head, paths, ranks.ascending, analysis);
  find_efficiency(head, ranks, analysis);
  find_quality(head, analysis);
  for (const RankResult& result : results) {
    RankInfo& info = analysis.ranks[result.position];
    give_activities(head.ranks[ranks.ascending[result.position]], result.activity_ns, head.run.clock == "cpu",
                    info);
    info.limits = result.limits;
  }
  LineRows lines(paths, path_time, functions, counts, ranks, functions.finish(path_time, ranks, analysis));
  find_call_tree(path_time, paths, analysis);
  count_mpi_calls(head, paths, ranks.ascending, analysis);
  copy_mpi_tables(head, paths, analysis);
  count_collectives(head, paths, analysis);
  analysis.mpi_watched = !analysis.mpi_calls.empty() ||
                         std::any_of(head.ranks.begin(), head.ranks.end(), [](const shard::Rank& rank) {
                           return (rank.flags & shard::kMpiUnwatched) == 0;
                         });
  torch.finish(ranks, analysis);
  list_calls_under_way(head, paths, analysis);
  list_mpi_problems(head, paths, analysis);
  find_last_seen(paths, analysis);
  list_processes(head, paths, analysis);
  list_event_loops(head, paths, analysis);
  list_tasks(head, paths, analysis);
  find_task_tree(head, paths, analysis);
  list_threads(head, paths, analysis);
  list_mutexes(head, paths, ranks, analysis);
  openmp.finish(ranks, analysis);
  explain_waiting(head, path_time, waits, paths, analysis);
  count_counters(head, ranks.ascending, analysis);
  counts.finish(analysis);
  memory.finish(analysis.functions);
  limits.finish(ranks, analysis);
  find_file_io(head, paths, ranks.ascending, analysis);
  find_held_memory(head, paths, ranks.ascending, analysis);
  find_labelled_memory(head, ranks, analysis);
  off_cpu.finish(path_time, ranks, analysis);
  imports.finish(ranks, analysis);
  find_timeline(head, ranks.ascending, analysis);
  openmp.find_windows(analysis);
  regions.finish(path_time, limits, counts, openmp, ranks, analysis);
  analysis.hang = find_hang(head, paths);
  analysis.failure = choose_failure(head, paths, analysis);
  find_findings(head, path_time, paths, analysis);
  find_bottlenecks(paths, analysis);
  if (predict)
    if (std::optional<profile::Gains> gains =
            predict(analysis, gain_candidates(analysis, FunctionNames(head), lines)))
      apply_gains(analysis, std::move(*gains));
  return lines;
}

AnalysisBuilder::AnalysisBuilder(const ShardData& head, FrameMode frames)
    : state_(std::make_unique<State>(head, frames)) {}
AnalysisBuilder::~AnalysisBuilder() = default;
AnalysisBuilder::AnalysisBuilder(AnalysisBuilder&&) noexcept = default;
AnalysisBuilder& AnalysisBuilder::operator=(AnalysisBuilder&&) noexcept = default;

void AnalysisBuilder::predict_with(PredictGains predict) { state_->predict = std::move(predict); }

void AnalysisBuilder::add(const shard::RankRows& rows) { state_->add(rows); }

std::vector<std::byte> AnalysisBuilder::state() const {
  std::vector<std::byte> bytes(sizeof(StateHeader));
  ByteWriter writer(bytes);
  std::ostream stream(&writer);
  cereal::BinaryOutputArchive archive(stream);
  const auto shape = state_->shape();
  archive(cereal::binary_data(shape.data(), sizeof shape),
          static_cast<std::uint64_t>(state_->results.size()));
  archive(cereal::binary_data(state_->results.data(), state_->results.size() * sizeof(RankResult)));
  const SumsWriter writer_of_sums(archive);
  writer_of_sums.cells(state_->cells);
  State::each_table(static_cast<const State&>(*state_), writer_of_sums);

  StateHeader header;
  header.bytes = bytes.size() - sizeof header;
  header.hash = XXH3_64bits(bytes.data() + sizeof header, header.bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<void> AnalysisBuilder::absorb(std::span<const std::byte> bytes) {
  Error damaged{"the partial analysis of a process is damaged"};
  StateHeader header;
  if (bytes.size() < sizeof header) return damaged;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto content = bytes.subspan(sizeof header);
  if (header.magic != StateHeader::kMagic || header.bytes != content.size() ||
      header.hash != XXH3_64bits(content.data(), content.size()))
    return damaged;
  ByteReader reader(content);
  std::istream stream(&reader);
  try {
    cereal::BinaryInputArchive archive(stream);
    std::array<std::uint64_t, 6> shape{};
    std::uint64_t count = 0;
    archive(cereal::binary_data(shape.data(), sizeof shape), count);
    if (shape != state_->shape()) return Error{"the partial analysis of a process is of another run"};
    if (count > state_->head.ranks.size()) return damaged;
    for (std::uint64_t i = 0; i < count; ++i) {
      RankResult result;
      archive(cereal::binary_data(&result, sizeof result));
      if (result.position >= state_->added.size()) return damaged;
      for (const std::uint32_t path : result.limits.most_path)
        if (path >= state_->paths.size()) return damaged;
      if (result.limits.input_path >= state_->paths.size()) return damaged;
      const std::uint32_t rank = state_->ranks.ascending[result.position];
      if (state_->added[rank]) return Error{"a rank was analysed by two processes"};
      state_->added[rank] = true;
      state_->results.push_back(result);
    }
    SumsReader reader_of_sums(archive);
    reader_of_sums.cells(state_->paths.size(), state_->cells);
    State::each_table(*state_, reader_of_sums);
  } catch (const cereal::Exception&) {
    return damaged;
  }
  return {};
}

Analysis AnalysisBuilder::finish() {
  Analysis analysis;
  const LineRows lines = state_->finish(analysis);
  analysis.lines.reserve(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) analysis.lines.push_back(lines[i]);
  return analysis;
}

std::vector<std::byte> AnalysisBuilder::finish_encoded() {
  Analysis analysis;
  const LineRows lines = state_->finish(analysis);
  return encode(analysis, lines);
}

Analysis analyse(const ShardData& head, const shard::RowSource& rows, FrameMode frames) {
  AnalysisBuilder builder(head, frames);
  rows.for_each_rank([&](const shard::RankRows& rank) { builder.add(rank); });
  return builder.finish();
}

}  // namespace clusterprof::report
