// SPDX-License-Identifier: BSD-3-Clause
// Merges shards of one run into one ShardData: interns strings, frames and call paths, translates every
// row to the merged indices, and adds up rows that agree in everything but their amounts. Used for whole
// merges in memory, and by run_merge.cpp for the part of a merge that is not stored by node.
#include "aggregator/merger.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/interned_rows.hpp"
#include "aggregator/notes.hpp"
#include "aggregator/path_series_merger.hpp"
#include "aggregator/record_quality.hpp"
#include "aggregator/unite.hpp"

namespace clusterprof::aggregator {
namespace {

using namespace shard;

std::uint64_t hash_of(const std::string& text) { return std::hash<std::string_view>()(text); }
std::uint64_t hash_of(const Path& path) { return path.id.low; }
std::uint64_t hash_of(const Frame& frame) {
  std::uint64_t hash = static_cast<std::uint64_t>(frame.kind) << 2 |
                       static_cast<std::uint64_t>(frame.inlined) << 1 |
                       static_cast<std::uint64_t>(frame.line_approximate);
  for (const std::uint32_t word : {frame.name, frame.file, frame.module, frame.line, frame.function_line})
    hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15ull + (hash >> 32);
  return hash ^ hash >> 29;
}

// One input, with the rows that can only be united when all inputs are known.
struct Source {
  Run run;
  std::vector<Node> nodes;
  std::vector<std::uint32_t> ranks;  // rows of State::ranks
  std::vector<MatrixCell> matrix;
  std::vector<MpiSize> mpi_sizes;  // op: interned string
  TimeAxis path_axis;
  std::vector<PathSeries> path_series;  // of an input that may be left out, like these
  std::vector<MemorySeries> memory_series;
  bool used = true;  // false: all its ranks were taken from elsewhere
};

struct RankRow {
  Rank rank;  // rank.node: row of the source's nodes
  std::uint32_t source = 0;
  bool used = true;
};

auto quality(const RankRow& row, const std::vector<Source>& sources) {
  return record_quality(row.rank, sources[row.source].nodes[row.rank.node].name);
}

std::int32_t lowest_rank(const Source& source, const std::vector<RankRow>& ranks) {
  std::int32_t lowest = std::numeric_limits<std::int32_t>::max();
  for (const std::uint32_t row : source.ranks)
    if (ranks[row].used) lowest = std::min(lowest, ranks[row].rank.rank);
  return lowest;
}

void unite_nodes(Node& into, const Node& node) {
  const auto end = [](const Node& n) { return n.start_utc_ns + static_cast<std::int64_t>(n.elapsed_ns); };
  const std::int64_t last = std::max(end(into), end(node));
  into.start_utc_ns = std::min(into.start_utc_ns, node.start_utc_ns);
  into.elapsed_ns = static_cast<std::uint64_t>(last - into.start_utc_ns);
  into.cpu_ns += node.cpu_ns;
  into.collector_cpu_ns += node.collector_cpu_ns;
  into.collector_max_rss_bytes = std::max(into.collector_max_rss_bytes, node.collector_max_rss_bytes);
  into.cpus = std::max(into.cpus, node.cpus);
  into.numa_nodes = std::max(into.numa_nodes, node.numa_nodes);
  into.memory_bytes = std::max(into.memory_bytes, node.memory_bytes);
  into.cache_bytes = std::max(into.cache_bytes, node.cache_bytes);
  into.cpu_model = std::max(into.cpu_model, node.cpu_model);
  const auto age_order = [](const Node& n) {
    return std::tuple(n.as_of_utc_ns == 0, n.as_of_utc_ns, n.next_within_ns, n.collector);
  };
  if (age_order(node) < age_order(into))
    std::tie(into.as_of_utc_ns, into.next_within_ns, into.collector) =
        std::tie(node.as_of_utc_ns, node.next_within_ns, node.collector);
  into.requested_memory_bytes = std::max(into.requested_memory_bytes, node.requested_memory_bytes);
  // One collector's alone: parts belong together.
  const auto of_group = [](const GroupMemory& g) {
    return std::tie(g.max_used_bytes, g.limit_bytes, g.limit_hits, g.used_bytes, g.anon_bytes, g.file_bytes,
                    g.shared_bytes, g.kernel_bytes, g.swap_bytes);
  };
  if (of_group(into.group) < of_group(node.group)) into.group = node.group;
  if (std::tie(into.held_peak_bytes, into.held_peak_utc_ns) <
      std::tie(node.held_peak_bytes, node.held_peak_utc_ns))
    std::tie(into.held_peak_bytes, into.held_peak_utc_ns) =
        std::tie(node.held_peak_bytes, node.held_peak_utc_ns);
}

// Sorts by (new rank, key), leaves out rows of unused ranks, and unites rows with equal keys. Takes one part
// per input and frees it as soon as its last row is copied: these tables are most of the memory. new_rank:
// per row of State::ranks its row in the final table of ranks, kNone for unused ones.
template <typename Row>
std::vector<Row> arrange(std::vector<std::vector<Row>> parts, const std::vector<std::uint32_t>& new_rank) {
  struct Piece {  // rows of one rank that are together
    std::uint32_t rank = 0, part = 0;
    std::size_t begin = 0, end = 0;
  };
  std::vector<Piece> pieces;
  std::vector<std::size_t> pieces_of(parts.size());
  std::size_t rows = 0;
  for (std::uint32_t p = 0; p < parts.size(); ++p) {
    const std::vector<Row>& part = parts[p];
    for (std::size_t begin = 0, end = 0; begin < part.size(); begin = end) {
      while (end < part.size() && part[end].rank == part[begin].rank) ++end;
      const std::uint32_t rank = new_rank[part[begin].rank];
      if (rank == kNone) continue;
      pieces.push_back({rank, p, begin, end});
      ++pieces_of[p];
      rows += end - begin;
    }
    if (pieces_of[p] == 0) parts[p] = {};
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.rank, a.part, a.begin) < std::tie(b.rank, b.part, b.begin);
  });

  std::vector<Row> all;
  all.reserve(rows);
  std::vector<Row> of_rank;
  const auto before = [](const Row& a, const Row& b) { return key(a) < key(b); };
  for (std::size_t i = 0; i < pieces.size();) {
    const std::uint32_t rank = pieces[i].rank;
    of_rank.clear();
    for (; i < pieces.size() && pieces[i].rank == rank; ++i) {
      std::vector<Row>& part = parts[pieces[i].part];
      for (std::size_t row = pieces[i].begin; row < pieces[i].end; ++row)
        of_rank.push_back(std::move(part[row]));
      if (--pieces_of[pieces[i].part] == 0) part = {};
    }
    if (!std::is_sorted(of_rank.begin(), of_rank.end(), before))
      std::sort(of_rank.begin(), of_rank.end(), before);
    const std::size_t first = all.size();
    for (Row& row : of_rank) {
      row.rank = rank;
      if (all.size() > first && key(all.back()) == key(row))
        unite(all.back(), row);
      else
        all.push_back(std::move(row));
    }
  }
  return all;
}

// Windows of a rank that two inputs tell of may overlap.
void unite_overlapping(std::vector<RecordingWindow>& windows) {
  std::vector<RecordingWindow> united;
  for (const RecordingWindow& window : windows) {
    if (!united.empty() && united.back().rank == window.rank && window.begin_ns < united.back().end_ns)
      unite(united.back(), window);
    else
      united.push_back(window);
  }
  windows = std::move(united);
}

// Sorts the rows and unites those of equal places.
template <typename Row, typename Place, typename Unite>
void unite_equal(std::vector<Row>& rows, Place place, Unite unite_rows) {
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return place(a) < place(b); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept != 0 && place(rows[kept - 1]) == place(rows[i]))
      unite_rows(rows[kept - 1], rows[i]);
    else
      rows[kept++] = rows[i];
  }
  rows.resize(kept);
}

// For each row of a table, its row in another one.
struct NewRows {
  std::vector<std::uint32_t> rank, path, communicator, counter, file;
};

// Translates all references of a table's rows but their ranks: arrange() needs the ranks that were left out.
template <typename Row>
void renumber(std::vector<Row>& rows, const NewRows& to) {
  for (Row& row : rows) {
    if constexpr (requires { row.path; }) row.path = to.path[row.path];
    if constexpr (requires { row.top_path; }) row.top_path = to.path[row.top_path];
    if constexpr (requires { row.task_path; }) row.task_path = to.path[row.task_path];
    if constexpr (requires { row.last_path; }) row.last_path = to.path[row.last_path];
    if constexpr (requires { row.holder_path; }) row.holder_path = to.path[row.holder_path];
    if constexpr (requires { row.region_path; }) row.region_path = to.path[row.region_path];
    if constexpr (requires { row.communicator; })
      if (row.communicator != kNone) row.communicator = to.communicator[row.communicator];
    if constexpr (requires { row.counter; }) row.counter = to.counter[row.counter];
    if constexpr (requires { row.file; }) row.file = to.file[row.file];
  }
}

}  // namespace

struct Merger::State {
  std::vector<Source> sources;
  std::vector<RankRow> ranks;
  std::unordered_map<std::int32_t, std::uint32_t> row_of_rank;  // the used one
  std::set<std::int32_t> repeated_ranks;

  struct SameId {
    bool operator()(const Path& a, const Path& b) const { return a.id == b.id; }
  };
  InternedRows<std::string> interned_strings;
  InternedRows<Frame> interned_frames;  // they refer to the interned strings
  InternedRows<Path, SameId> interned_paths;
  std::vector<std::string>& strings = interned_strings.rows;
  std::vector<Frame>& frames = interned_frames.rows;
  std::vector<Path>& paths = interned_paths.rows;

  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> communicator_index;  // identity, size
  std::vector<Communicator> communicators;
  std::vector<std::string> counters;
  std::set<std::pair<std::string, std::string>> unavailable;
  std::set<shard::Setting> settings;

  std::vector<std::vector<Value>> values;  // one part per input
  std::vector<std::vector<MpiCall>> mpi_calls;
  std::vector<std::vector<CallUnderWay>> calls_under_way;
  std::vector<std::vector<PendingRequest>> pending_requests;
  std::vector<std::vector<GroupNumber>> group_numbers;
  std::vector<std::vector<GroupMessages>> group_messages;
  std::vector<std::vector<CollectiveCount>> collective_counts;
  std::vector<std::vector<MpiError>> mpi_errors;
  std::vector<std::vector<OpenRequests>> open_requests;
  std::vector<std::vector<CounterValue>> counter_values;
  std::vector<std::vector<PathCounter>> path_counters;
  std::vector<std::vector<Drop>> drops;
  std::vector<std::vector<HandlerCost>> handler_costs;
  std::vector<std::vector<IoCall>> io_calls;
  std::vector<std::vector<DataAccess>> data_accesses;
  std::vector<std::vector<RegionTime>> region_times;
  std::vector<std::vector<MutexWait>> mutex_waits;
  std::vector<std::vector<OmpRank>> omp_ranks;
  std::vector<std::vector<OmpRegion>> omp_regions;
  std::vector<std::vector<OmpThread>> omp_threads;
  std::vector<std::vector<OmpConstruct>> omp_constructs;
  std::vector<std::vector<MemoryRank>> memory_ranks;
  std::vector<std::vector<MemorySite>> memory_sites;
  std::vector<std::vector<shard::MemorySpace>> memory_spaces;
  std::vector<std::vector<shard::MemoryLabel>> memory_labels;
  std::vector<std::vector<shard::MemoryCopies>> memory_copies;
  std::vector<std::vector<Process>> processes;
  std::vector<std::vector<EventLoop>> event_loops;
  std::vector<std::vector<LoopBlock>> loop_blocks;
  std::vector<std::vector<TaskTime>> task_times;
  std::vector<std::vector<Thread>> threads;
  std::vector<std::vector<shard::ThreadSpan>> thread_spans;
  std::vector<std::vector<shard::SpanTime>> span_times;
  std::vector<std::vector<RecordingWindow>> recording_windows;
  std::vector<std::vector<shard::Failure>> failures;

  std::vector<IoFile> io_files;
  std::map<std::pair<std::string, std::string>, std::uint32_t> io_file_index;  // path, file system
  SeriesMerger time_series;
  PathSeriesMerger path_series;

  explicit State(std::size_t most_series_rows) : time_series(most_series_rows) {
    string(std::string());
    path(Path{});
  }

  std::uint32_t string(const std::string& text) {
    return interned_strings.find_or_add(text, hash_of(text)).first;
  }
  std::uint32_t frame(const Frame& value) { return interned_frames.find_or_add(value, hash_of(value)).first; }
  std::uint32_t path(const Path& value) {
    const auto [row, added] = interned_paths.find_or_add(value, hash_of(value));
    if (!added && row != 0) {
      // The id leaves out the module's directory, which may differ between nodes. The choice must not depend
      // on which input came first.
      std::uint32_t& present = paths[row].frame;
      if (present != value.frame && strings[frames[value.frame].module] < strings[frames[present].module])
        present = value.frame;
    }
    return row;
  }

  std::vector<std::uint32_t> add_paths(const ShardData& input, const std::vector<std::uint32_t>& new_string) {
    std::vector<std::uint32_t> new_frame(input.frames.size()), new_path(input.paths.size());
    for (std::size_t i = 0; i < input.frames.size(); ++i) {
      Frame value = input.frames[i];
      value.name = new_string[value.name];
      value.file = new_string[value.file];
      value.module = new_string[value.module];
      new_frame[i] = frame(value);
    }
    for (std::size_t i = 1; i < input.paths.size(); ++i) {
      const Path& old = input.paths[i];
      new_path[i] = path({old.id, new_path[old.parent], new_frame[old.frame]});
    }
    return new_path;
  }

  // Returns per row of the input's table its row in the State's table.
  std::vector<std::uint32_t> add_ranks(const ShardData& input, const std::vector<std::uint32_t>& new_string,
                                       const std::vector<bool>& left_out) {
    const auto source = static_cast<std::uint32_t>(sources.size() - 1);
    std::vector<std::uint32_t> new_rank;
    new_rank.reserve(input.ranks.size());
    for (Rank rank : input.ranks) {
      for (const auto text : shard::kRankTexts) rank.*text = new_string[rank.*text];
      const auto row = static_cast<std::uint32_t>(ranks.size());
      const bool used = left_out.empty() || !left_out[new_rank.size()];
      ranks.push_back({rank, source, used});
      new_rank.push_back(row);
      if (!used) continue;
      const auto [entry, added] = row_of_rank.try_emplace(rank.rank, row);
      if (added) continue;
      repeated_ranks.insert(rank.rank);
      std::uint32_t worse = row;
      if (quality(ranks[entry->second], sources) < quality(ranks[row], sources))
        worse = std::exchange(entry->second, row);
      ranks[worse].used = false;
    }
    return new_rank;
  }

  // WaitAnalyser handles communicators that only events refer to: a run may have any number of them.
  std::vector<std::uint32_t> add_communicators(const ShardData& input) {
    std::vector<bool> called(input.communicators.size());
    for (const MpiCall& call : input.mpi_calls)
      if (call.communicator != kNone) called[call.communicator] = true;
    for (const CallUnderWay& call : input.calls_under_way)
      if (call.communicator != kNone) called[call.communicator] = true;
    for (const CollectiveCount& row : input.collective_counts) called[row.communicator] = true;
    for (const GroupNumber& row : input.group_numbers) called[row.communicator] = true;
    for (const GroupMessages& row : input.group_messages) called[row.communicator] = true;
    for (const MpiError& row : input.mpi_errors)
      if (row.communicator != kNone) called[row.communicator] = true;
    for (const OpenRequests& row : input.open_requests)
      if (row.communicator != kNone) called[row.communicator] = true;
    std::vector<std::uint32_t> new_communicator(input.communicators.size(), kNone);
    for (std::size_t i = 0; i < input.communicators.size(); ++i) {
      if (!called[i]) continue;
      const Communicator& communicator = input.communicators[i];
      const auto [entry, added] = communicator_index.try_emplace(
          {communicator.identity, communicator.size}, static_cast<std::uint32_t>(communicators.size()));
      new_communicator[i] = entry->second;
      if (added) {
        communicators.push_back(communicator);
        continue;
      }
      std::string& name = communicators[entry->second].name;
      if (name.empty() || (!communicator.name.empty() && communicator.name < name)) name = communicator.name;
    }
    return new_communicator;
  }

  std::vector<std::uint32_t> add_counters(const ShardData& input) {
    std::vector<std::uint32_t> new_counter;
    for (const std::string& name : input.counters) {
      const auto found = std::find(counters.begin(), counters.end(), name);
      new_counter.push_back(static_cast<std::uint32_t>(found - counters.begin()));
      if (found == counters.end()) counters.push_back(name);
    }
    for (const UnavailableCounter& counter : input.unavailable_counters)
      unavailable.emplace(counter.name, counter.reason);
    settings.insert(input.settings.begin(), input.settings.end());
    return new_counter;
  }

  std::vector<std::uint32_t> add_files(const ShardData& input) {
    std::vector<std::uint32_t> new_file;
    new_file.reserve(input.io_files.size());
    for (const IoFile& file : input.io_files) {
      const auto [entry, added] = io_file_index.try_emplace({file.path, file.file_system},
                                                            static_cast<std::uint32_t>(io_files.size()));
      if (added) io_files.push_back(file);
      new_file.push_back(entry->second);
    }
    return new_file;
  }

  // Calls use(parts, member of ShardData) for each table that has several rows per rank.
  template <typename Use>
  void for_each_table(Use use) {
    use(values, &ShardData::values);
    use(mpi_calls, &ShardData::mpi_calls);
    use(calls_under_way, &ShardData::calls_under_way);
    use(pending_requests, &ShardData::pending_requests);
    use(collective_counts, &ShardData::collective_counts);
    use(mpi_errors, &ShardData::mpi_errors);
    use(open_requests, &ShardData::open_requests);
    use(group_numbers, &ShardData::group_numbers);
    use(group_messages, &ShardData::group_messages);
    use(counter_values, &ShardData::counter_values);
    use(path_counters, &ShardData::path_counters);
    use(drops, &ShardData::drops);
    use(handler_costs, &ShardData::handler_costs);
    use(io_calls, &ShardData::io_calls);
    use(data_accesses, &ShardData::data_accesses);
    use(region_times, &ShardData::region_times);
    use(mutex_waits, &ShardData::mutex_waits);
    use(omp_ranks, &ShardData::omp_ranks);
    use(omp_regions, &ShardData::omp_regions);
    use(omp_threads, &ShardData::omp_threads);
    use(omp_constructs, &ShardData::omp_constructs);
    use(memory_ranks, &ShardData::memory_ranks);
    use(memory_sites, &ShardData::memory_sites);
    use(memory_spaces, &ShardData::memory_spaces);
    use(memory_labels, &ShardData::memory_labels);
    use(memory_copies, &ShardData::memory_copies);
    use(processes, &ShardData::processes);
    use(event_loops, &ShardData::event_loops);
    use(loop_blocks, &ShardData::loop_blocks);
    use(task_times, &ShardData::task_times);
    use(threads, &ShardData::threads);
    use(thread_spans, &ShardData::thread_spans);
    use(span_times, &ShardData::span_times);
    use(recording_windows, &ShardData::recording_windows);
    use(failures, &ShardData::failures);
  }

  Run united_run() const;
  std::vector<Node> united_nodes(std::vector<std::uint32_t>& first_node,
                                 std::vector<std::uint32_t>& new_node) const;
  std::vector<Rank> arrange_ranks(const std::vector<std::uint32_t>& first_node,
                                  const std::vector<std::uint32_t>& new_node,
                                  std::vector<std::uint32_t>& new_rank) const;
  std::vector<IoFile> arrange_files(const std::vector<std::uint32_t>& new_rank,
                                    std::vector<std::uint32_t>& new_file);
  std::vector<Communicator> arrange_communicators(const std::vector<std::uint32_t>& new_rank,
                                                  std::vector<std::uint32_t>& new_communicator) const;
  std::vector<std::string> arrange_counters(std::vector<std::uint32_t>& new_counter) const;
  void unite_tables_of_inputs(const NewRows& rows, const std::vector<std::uint32_t>& new_string,
                              ShardData& out);
  void arrange_paths(ShardData& out, std::vector<std::uint32_t>& new_path,
                     std::vector<std::uint32_t>& new_string);
};

Merger::Merger(std::size_t most_series_rows) : state_(std::make_unique<State>(most_series_rows)) {}
Merger::~Merger() = default;

void Merger::add(ShardData input) { add(std::move(input), nullptr); }

void Merger::add(ShardData input, const std::vector<bool>& left_out) { add(std::move(input), &left_out); }

void Merger::add(ShardData input, const std::vector<bool>* known_left_out) {
  State& state = *state_;
  const std::vector<bool> left_out = known_left_out == nullptr ? std::vector<bool>() : *known_left_out;
  state.sources.push_back({std::move(input.run),
                           std::move(input.nodes),
                           {},
                           std::move(input.matrix),
                           std::move(input.mpi_sizes),
                           {},
                           {},
                           {},
                           true});
  Source& source = state.sources.back();

  std::vector<std::uint32_t> new_string;
  new_string.reserve(input.strings.size());
  for (const std::string& text : input.strings) new_string.push_back(state.string(text));
  NewRows rows;
  rows.path = state.add_paths(input, new_string);
  rows.rank = state.add_ranks(input, new_string, left_out);
  rows.file = state.add_files(input);
  rows.communicator = state.add_communicators(input);
  rows.counter = state.add_counters(input);
  state.time_series.add(input, source.nodes.size(), new_string, left_out);
  source.ranks = rows.rank;
  for (PathSeries& row : input.path_series) row.path = rows.path[row.path];
  for (MemorySeries& row : input.memory_series) row.path = rows.path[row.path];
  if (known_left_out == nullptr) {
    source.path_axis = input.path_axis;
    source.path_series = std::move(input.path_series);
    source.memory_series = std::move(input.memory_series);
  } else if (left_out.empty() || std::find(left_out.begin(), left_out.end(), false) != left_out.end()) {
    state.path_series.add(input.path_axis, input.path_series, input.memory_series);
  }
  for (MpiSize& size : source.mpi_sizes) size.op = new_string[size.op];

  state.for_each_table([&](auto& parts, auto table) {
    auto& part = parts.emplace_back(std::move(input.*table));
    for (auto& row : part) row.rank = rows.rank[row.rank];
    renumber(part, rows);
  });
}

// Each field follows a rule that does not depend on the order of sources. Fields that cannot be united (the
// command of an MPMD job) come from the lowest rank.
Run Merger::State::united_run() const {
  Run run;
  std::set<std::string> own;
  std::optional<std::tuple<std::int32_t, std::vector<std::string>>> command;
  std::optional<std::tuple<std::int32_t, std::string, std::string>> clock;  // and what samples were taken on
  bool any = false, complete = true;
  for (const Source& source : sources) {
    if (!source.used) continue;
    const Run& other = source.run;
    const std::int32_t lowest = lowest_rank(source, ranks);
    run.id = any ? std::min(run.id, other.id) : other.id;
    run.start_utc_ns = any ? std::min(run.start_utc_ns, other.start_utc_ns) : other.start_utc_ns;
    run.world_size = std::max(run.world_size, other.world_size);
    run.rate_hz = std::max(run.rate_hz, other.rate_hz);
    run.version = std::max(run.version, other.version);
    run.mpi_library = std::max(run.mpi_library, other.mpi_library);
    run.launcher = std::max(run.launcher, other.launcher);
    run.only_regions = run.only_regions || other.only_regions;
    run.standby = run.standby || other.standby;
    run.counters_multiplexed = run.counters_multiplexed || other.counters_multiplexed;
    complete = complete && other.complete;
    run.notes.insert(run.notes.end(), other.notes.begin(), other.notes.end());
    own.insert(other.own.begin(), other.own.end());
    const std::tuple their_command(lowest, other.command);
    if (!command || their_command < *command) command = their_command;
    const std::tuple their_clock(lowest, other.clock, other.sample_on);
    if (!clock || their_clock < *clock) clock = their_clock;
    any = true;
  }
  run.complete = any && complete;
  run.own.assign(own.begin(), own.end());
  if (command) run.command = std::get<1>(*command);
  if (clock) std::tie(std::ignore, run.clock, run.sample_on) = *clock;
  for (const std::int32_t rank : repeated_ranks)
    run.notes.push_back(note_of_ranks(shard::NoteCode::kRepeatedRanks, {rank, rank}));
  unite(run.notes);
  return run;
}

// first_node: per source, the index in new_node at which its nodes begin. new_node: row of the result.
std::vector<Node> Merger::State::united_nodes(std::vector<std::uint32_t>& first_node,
                                              std::vector<std::uint32_t>& new_node) const {
  std::map<std::string, Node> by_name;
  for (const Source& source : sources) {
    if (!source.used) continue;
    for (const Node& node : source.nodes) {
      const auto [entry, added] = by_name.try_emplace(node.name, node);
      if (!added) unite_nodes(entry->second, node);
    }
  }
  std::vector<Node> nodes;
  std::map<std::string, std::uint32_t> row_of_name;
  for (const auto& [name, node] : by_name) {
    row_of_name.emplace(name, static_cast<std::uint32_t>(nodes.size()));
    nodes.push_back(node);
  }
  for (const Source& source : sources) {
    first_node.push_back(static_cast<std::uint32_t>(new_node.size()));
    for (const Node& node : source.nodes) {
      const auto found = row_of_name.find(node.name);
      new_node.push_back(found == row_of_name.end() ? kNone : found->second);
    }
  }
  return nodes;
}

// Sorted by path and file system. Files that only left-out ranks used are dropped.
std::vector<IoFile> Merger::State::arrange_files(const std::vector<std::uint32_t>& new_rank,
                                                 std::vector<std::uint32_t>& new_file) {
  std::vector<bool> used(io_files.size());
  for (const std::vector<IoCall>& part : io_calls)
    for (const IoCall& call : part)
      if (new_rank[call.rank] != kNone) used[call.file] = true;
  std::vector<IoFile> files;
  new_file.assign(io_files.size(), kNone);
  for (const auto& [name, file] : io_file_index) {  // in order
    if (!used[file]) continue;
    new_file[file] = static_cast<std::uint32_t>(files.size());
    files.push_back(std::move(io_files[file]));
  }
  return files;
}

// Sorts call paths in preorder with children by id, frames by content and strings by their bytes. Drops what
// is not used.
void Merger::State::arrange_paths(ShardData& out, std::vector<std::uint32_t>& new_path,
                                  std::vector<std::uint32_t>& new_string) {
  const std::size_t count = paths.size();
  std::vector<std::uint32_t> by_id(count - 1);
  std::iota(by_id.begin(), by_id.end(), 1u);
  std::sort(by_id.begin(), by_id.end(),
            [&](std::uint32_t a, std::uint32_t b) { return paths[a].id > paths[b].id; });
  // Lists of children: pushing in front in descending order leaves each ascending.
  std::vector<std::uint32_t> first_child(count, kNone), next_sibling(count, kNone);
  for (const std::uint32_t path : by_id) {
    next_sibling[path] = first_child[paths[path].parent];
    first_child[paths[path].parent] = path;
  }
  std::vector<std::uint32_t> order;  // new row -> old row
  order.reserve(count);
  std::vector<std::uint32_t> stack{0};
  while (!stack.empty()) {
    const std::uint32_t path = stack.back();
    stack.pop_back();
    order.push_back(path);
    if (path != 0 && next_sibling[path] != kNone) stack.push_back(next_sibling[path]);
    if (first_child[path] != kNone) stack.push_back(first_child[path]);
  }
  new_path.assign(count, 0);
  for (std::size_t i = 0; i < order.size(); ++i) new_path[order[i]] = static_cast<std::uint32_t>(i);

  std::vector<bool> frame_used(frames.size()), string_used(strings.size());
  string_used[0] = true;
  for (std::size_t i = 1; i < count; ++i) frame_used[paths[i].frame] = true;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!frame_used[i]) continue;
    for (const std::uint32_t text : {frames[i].name, frames[i].file, frames[i].module})
      string_used[text] = true;
  }
  for (const Source& source : sources)
    if (source.used)
      for (const MpiSize& size : source.mpi_sizes) string_used[size.op] = true;
  for (const Series& series : time_series.series()) string_used[series.name] = true;
  for (const RankRow& row : ranks)
    if (row.used)
      for (const auto text : shard::kRankTexts) string_used[row.rank.*text] = true;

  std::vector<std::uint32_t> string_order;
  for (std::uint32_t i = 0; i < strings.size(); ++i)
    if (string_used[i]) string_order.push_back(i);
  std::sort(string_order.begin(), string_order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return strings[a] < strings[b]; });
  new_string.assign(strings.size(), kNone);
  out.strings.clear();
  for (const std::uint32_t text : string_order) {
    new_string[text] = static_cast<std::uint32_t>(out.strings.size());
    out.strings.push_back(std::move(strings[text]));
  }

  std::vector<std::uint32_t> frame_order;
  for (std::uint32_t i = 0; i < frames.size(); ++i) {
    if (!frame_used[i]) continue;
    frame_order.push_back(i);
    for (std::uint32_t* text : {&frames[i].name, &frames[i].file, &frames[i].module})
      *text = new_string[*text];
  }
  const auto content = [&](std::uint32_t i) {
    const Frame& f = frames[i];
    return std::tuple(f.name, f.file, f.line, f.function_line, f.module, f.kind, f.inlined,
                      f.line_approximate);
  };
  std::sort(frame_order.begin(), frame_order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return content(a) < content(b); });
  std::vector<std::uint32_t> new_frame(frames.size(), kNone);
  for (const std::uint32_t frame : frame_order) {
    new_frame[frame] = static_cast<std::uint32_t>(out.frames.size());
    out.frames.push_back(frames[frame]);
  }

  out.paths.clear();
  out.paths.reserve(count);
  out.paths.push_back(Path{});
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Path& path = paths[order[i]];
    out.paths.push_back({path.id, new_path[path.parent], new_frame[path.frame]});
  }
  paths = std::vector<Path>();
  frames = std::vector<Frame>();
  strings = std::vector<std::string>();
}

// Sorted by world rank. new_rank: as for arrange().
std::vector<Rank> Merger::State::arrange_ranks(const std::vector<std::uint32_t>& first_node,
                                               const std::vector<std::uint32_t>& new_node,
                                               std::vector<std::uint32_t>& new_rank) const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].used) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return ranks[a].rank.rank < ranks[b].rank.rank; });
  std::vector<Rank> arranged;
  new_rank.assign(ranks.size(), kNone);
  for (const std::uint32_t row : order) {
    new_rank[row] = static_cast<std::uint32_t>(arranged.size());
    arranged.push_back(ranks[row].rank);
    std::uint32_t& node = arranged.back().node;
    node = new_node[first_node[ranks[row].source] + node];
  }
  return arranged;
}

// Sorted by identity and size. Communicators that only left-out ranks used are dropped.
std::vector<Communicator> Merger::State::arrange_communicators(
    const std::vector<std::uint32_t>& new_rank, std::vector<std::uint32_t>& new_communicator) const {
  std::vector<bool> called(communicators.size());
  const auto mark_called = [&](const auto& parts) {
    for (const auto& part : parts)
      for (const auto& call : part)
        if (new_rank[call.rank] != kNone && call.communicator != kNone) called[call.communicator] = true;
  };
  mark_called(mpi_calls);
  mark_called(calls_under_way);
  mark_called(collective_counts);
  mark_called(mpi_errors);
  mark_called(open_requests);
  mark_called(group_numbers);
  mark_called(group_messages);
  std::vector<Communicator> arranged;
  new_communicator.assign(communicators.size(), kNone);
  for (const auto& [identity, row] : communicator_index) {  // in order
    if (!called[row]) continue;
    new_communicator[row] = static_cast<std::uint32_t>(arranged.size());
    arranged.push_back(communicators[row]);
  }
  return arranged;
}

// Sorted by name.
std::vector<std::string> Merger::State::arrange_counters(std::vector<std::uint32_t>& new_counter) const {
  std::vector<std::string> arranged = counters;
  std::sort(arranged.begin(), arranged.end());
  for (const std::string& name : counters)
    new_counter.push_back(static_cast<std::uint32_t>(
        std::lower_bound(arranged.begin(), arranged.end(), name) - arranged.begin()));
  return arranged;
}

// Messages to members whose ranks the inputs tell become cells of the matrix. Other inputs may tell the rest.
void resolve_group_messages(ShardData& out) {
  if (out.group_messages.empty()) return;
  using Member = std::tuple<std::uint32_t, std::uint32_t, std::int32_t>;  // communicator, restart, number
  std::map<Member, std::int32_t> ranks;
  for (const GroupNumber& row : out.group_numbers)
    ranks.try_emplace({row.communicator, out.ranks[row.rank].restart, row.number}, out.ranks[row.rank].rank);
  std::erase_if(out.group_messages, [&](const GroupMessages& row) {
    const Rank& from = out.ranks[row.rank];
    const auto member = ranks.find({row.communicator, from.restart, row.destination});
    if (member == ranks.end()) return false;
    out.matrix.push_back({from.rank, member->second, row.messages, row.bytes});
    return true;
  });
}

// Unites tables that belong to whole inputs, so that single ranks cannot be left out of them.
void Merger::State::unite_tables_of_inputs(const NewRows& rows, const std::vector<std::uint32_t>& new_string,
                                           ShardData& out) {
  for (Source& source : sources) {
    if (!source.used) continue;
    std::set<std::int32_t> left_out;
    for (const std::uint32_t row : source.ranks)
      if (!ranks[row].used) left_out.insert(ranks[row].rank.rank);
    for (const MatrixCell& cell : source.matrix)
      if (!left_out.contains(cell.source)) out.matrix.push_back(cell);
    for (const MpiSize& size : source.mpi_sizes)
      out.mpi_sizes.push_back({new_string[size.op], size.le_bytes, size.count});
    source.matrix = {};
    path_series.add(source.path_axis, source.path_series, source.memory_series);
    source.path_series = {};
    source.memory_series = {};
  }
  path_series.finish(rows.path, out);
  resolve_group_messages(out);
  unite_equal(
      out.matrix, [](const MatrixCell& cell) { return std::tie(cell.source, cell.destination); },
      [](MatrixCell& into, const MatrixCell& cell) {
        into.messages += cell.messages;
        into.bytes += cell.bytes;
      });
  unite_equal(
      out.mpi_sizes, [](const MpiSize& size) { return std::tie(size.op, size.le_bytes); },
      [](MpiSize& into, const MpiSize& size) { into.count += size.count; });
}

ShardData Merger::finish() {
  const std::unique_ptr<State> taken =
      std::exchange(state_, std::make_unique<State>(state_->time_series.most_rows()));
  State& state = *taken;
  ShardData out;
  state.interned_strings.end_search();
  state.interned_frames.end_search();
  state.interned_paths.end_search();

  for (Source& source : state.sources)
    source.used =
        source.ranks.empty() || std::any_of(source.ranks.begin(), source.ranks.end(),
                                            [&](std::uint32_t row) { return state.ranks[row].used; });
  out.run = state.united_run();
  std::vector<std::uint32_t> first_node, new_node, new_string;
  NewRows rows;
  out.nodes = state.united_nodes(first_node, new_node);
  out.ranks = state.arrange_ranks(first_node, new_node, rows.rank);
  state.arrange_paths(out, rows.path, new_string);
  for (Rank& rank : out.ranks) {
    for (const auto text : shard::kRankTexts) rank.*text = new_string[rank.*text];
  }
  out.io_files = state.arrange_files(rows.rank, rows.file);
  out.communicators = state.arrange_communicators(rows.rank, rows.communicator);
  out.counters = state.arrange_counters(rows.counter);
  for (const auto& [name, reason] : state.unavailable) out.unavailable_counters.push_back({name, reason});
  out.settings.assign(state.settings.begin(), state.settings.end());

  state.for_each_table([&](auto& parts, auto table) {
    for (auto& part : parts) renumber(part, rows);
    out.*table = arrange(std::move(parts), rows.rank);
  });
  unite_overlapping(out.recording_windows);

  // If a node is taken from another input, its time series here are left out with its ranks.
  for (std::size_t i = 0; i < state.sources.size(); ++i)
    if (!state.sources[i].used)
      std::fill_n(new_node.begin() + first_node[i], state.sources[i].nodes.size(), kNone);
  state.time_series.finish(rows.rank, new_node, new_string, out);
  state.unite_tables_of_inputs(rows, new_string, out);
  return out;
}

void merge_into(ShardData& a, const ShardData& b, std::size_t most_series_rows) {
  Merger merger(most_series_rows);
  merger.add(std::move(a));
  merger.add(b);
  a = merger.finish();
}

}  // namespace clusterprof::aggregator
