// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/formats/random_shard.hpp"

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include "base/command_text.hpp"

namespace clusterprof::testing {
namespace {

using namespace shard;

class Builder {
 public:
  Builder(std::uint64_t seed, const RandomShape& shape) : random_(seed), shape_(shape) {}

  ShardData build() {
    describe_run();
    describe_series();
    for (std::uint32_t i = 0; i < shape_.paths; ++i) add_path();
    for (std::size_t i = 0; i < shape_.ranks.size(); ++i) add_rank(static_cast<std::uint32_t>(i));
    // Unordered contents of one rank are not the subject here.
    std::sort(data_.values.begin(), data_.values.end(), [](const Value& a, const Value& b) {
      return std::tie(a.rank, a.path, a.category, b.main_thread) <
             std::tie(b.rank, b.path, b.category, a.main_thread);
    });
    std::sort(data_.mpi_calls.begin(), data_.mpi_calls.end(), [](const MpiCall& a, const MpiCall& b) {
      return std::tie(a.rank, a.path, a.communicator) < std::tie(b.rank, b.path, b.communicator);
    });
    std::sort(data_.collective_counts.begin(), data_.collective_counts.end(),
              [](const CollectiveCount& a, const CollectiveCount& b) {
                return std::tie(a.rank, a.path, a.communicator) < std::tie(b.rank, b.path, b.communicator);
              });
    std::sort(data_.mpi_errors.begin(), data_.mpi_errors.end(), [](const MpiError& a, const MpiError& b) {
      return std::tie(a.rank, a.path, a.communicator, a.error_class, a.peer, a.tag) <
             std::tie(b.rank, b.path, b.communicator, b.error_class, b.peer, b.tag);
    });
    std::sort(data_.open_requests.begin(), data_.open_requests.end(),
              [](const OpenRequests& a, const OpenRequests& b) {
                return std::tie(a.rank, a.path, a.communicator, a.kind, a.peer, a.tag) <
                       std::tie(b.rank, b.path, b.communicator, b.kind, b.peer, b.tag);
              });
    std::sort(data_.path_counters.begin(), data_.path_counters.end(),
              [](const PathCounter& a, const PathCounter& b) {
                return std::tie(a.rank, a.path, a.counter) < std::tie(b.rank, b.path, b.counter);
              });
    add_node_series();
    if (shape_.waiting) add_waiting();
    add_path_series();
    add_memory();
    return std::move(data_);
  }

 private:
  std::uint32_t below(std::size_t limit) {
    return static_cast<std::uint32_t>(std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_));
  }
  bool chance(std::uint32_t one_in) { return below(one_in) == 0; }
  // Small enough that sums of many do not wrap around.
  std::uint64_t amount() { return random_() >> (16 + below(40)); }

  std::string text(const char* what) {
    const std::uint32_t which = below(shape_.names);
    if (which == 0) return "";
    if (which == 1) return std::string(what) + " \xc3\xa9 \xff\xfe";
    if (which == 2) return std::string(what) + "\n\"quoted\"\t";
    return what + std::to_string(which);
  }

  Frame frame() {
    Frame value;
    value.kind = static_cast<FrameKind>(below(4));  // regions have places of their own
    value.inlined = chance(5);
    value.name = interner_.string(text("name"));
    value.file = interner_.string(text("file"));
    // Two directories for the same object file: the same path id, another frame.
    const std::string directory = chance(2) ? "/opt/a/" : "/opt/b/";
    value.module = interner_.string(chance(3) ? directory + text("module") : std::string());
    value.line = below(4);
    value.line_approximate = value.line == 3;
    value.function_line = chance(7) ? std::numeric_limits<std::uint32_t>::max() : 1;
    return value;
  }

  void add_path() {
    const std::uint32_t parent = tries_ == 0 ? 0 : below(data_.paths.size());
    Frame value = frame();
    if ((parent == 0 || is_region(parent)) && (tries_ == 0 || chance(3))) value.kind = FrameKind::kRegion;
    const std::uint32_t path = interner_.path(parent, interner_.frame(value));
    if (is_region(path)) regions_.insert(path);
    ++tries_;
  }
  bool is_region(std::uint32_t path) const {
    return path != 0 && data_.frames[data_.paths[path].frame].kind == FrameKind::kRegion;
  }

  // Widths and origins that differ between shards, and bins at both ends.
  void describe_series() {
    const std::uint64_t width = TimeAxis::kFirstBin_ns << below(7);
    const std::uint64_t origin = 1'700'000'000'000'000'000 + below(40) * 1'000'000'000ull;
    data_.time_axis = {width, static_cast<std::int64_t>(origin / width * width)};
    std::set<std::pair<std::string, SeriesKind>> names{{"python_ns", SeriesKind::kSum},
                                                       {"rss_bytes", SeriesKind::kMaximum}};
    for (std::uint32_t i = below(5); i > 0; --i)
      names.emplace(text("series"), static_cast<SeriesKind>(below(2)));
    for (const auto& [name, kind] : names) data_.series.push_back({interner_.string(name), kind});
    std::shuffle(data_.series.begin(), data_.series.end(), random_);
  }
  std::set<std::uint32_t> some_bins() {
    std::set<std::uint32_t> bins;
    for (std::uint32_t i = below(20); i > 0; --i) bins.insert(below(TimeAxis::kMaxBins));
    if (chance(3)) bins.insert({0, TimeAxis::kMaxBins - 1});
    return bins;
  }
  void add_node_series() {
    for (std::uint32_t series = 0; series < data_.series.size(); ++series)
      for (const std::uint32_t bin : some_bins()) data_.node_series.push_back({0, series, bin, 1 + amount()});
  }

  void add_path_series() {
    const std::uint64_t width = TimeAxis::kFirstBin_ns << below(12);
    const std::uint64_t origin = 1'700'000'000'000'000'000 + below(40) * 1'000'000'000ull;
    data_.path_axis = {width, static_cast<std::int64_t>(origin / width * width)};
    for (std::uint32_t path = 0; path < data_.paths.size(); ++path)
      for (std::uint32_t bin = below(kMaxPathBins); bin < kMaxPathBins; bin += 1 + below(30))
        data_.path_series.push_back({path, bin, 1 + amount()});
  }

  void add_memory() {
    for (std::uint32_t row = 0; row < data_.ranks.size(); ++row) {
      if (row != 0 && chance(4)) continue;
      MemoryRank rank;
      rank.rank = row;
      for (std::uint64_t* const field :
           {&rank.interval_bytes, &rank.peak_bytes, &rank.peak_ns, &rank.live_end_bytes,
            &rank.untracked_bytes, &rank.static_bytes, &rank.max_anon_bytes, &rank.live_at_max_anon_bytes,
            &rank.mean_anon_bytes, &rank.mean_live_bytes, &rank.pss_bytes, &rank.private_dirty_bytes,
            &rank.huge_bytes, &rank.swap_bytes, &rank.near_bytes, &rank.far_bytes})
        *field = amount();
      data_.memory_ranks.push_back(rank);
      std::map<std::tuple<std::uint32_t, std::uint32_t>, MemorySite> sites;
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::tuple key(below(data_.paths.size()), below(kMemoryDomains));
        MemorySite site;
        site.rank = row;
        site.path = std::get<0>(key);
        site.domain = static_cast<MemoryDomain>(std::get<1>(key));
        for (std::uint64_t* const field :
             {&site.alloc_bytes, &site.alloc_count, &site.variance, &site.soon_bytes, &site.soon_count,
              &site.copy_bytes, &site.copy_count, &site.live_end_bytes, &site.rank_peak_bytes,
              &site.node_peak_bytes})
          *field = amount();
        for (std::uint64_t& bytes : site.live_by_age) bytes = amount();
        sites[key] = site;
      }
      for (const auto& [key, site] : sites) data_.memory_sites.push_back(site);
    }
    for (std::uint32_t path = below(3); path < data_.paths.size(); path += 1 + below(5))
      for (std::uint32_t bin = below(kMaxPathBins); bin < kMaxPathBins; bin += 1 + below(30))
        data_.memory_series.push_back({path, bin, 1 + amount()});
    Node& node = data_.nodes[0];
    for (std::uint64_t* const field :
         {&node.group.limit_bytes, &node.group.used_bytes, &node.group.max_used_bytes, &node.group.limit_hits,
          &node.group.anon_bytes, &node.group.file_bytes, &node.group.shared_bytes, &node.group.kernel_bytes,
          &node.group.swap_bytes, &node.requested_memory_bytes, &node.held_peak_bytes})
      *field = amount();
    node.held_peak_utc_ns = node.start_utc_ns + below(1000);
  }

  // Of any code but those that the merge makes anew.
  void add_note() {
    Note note;
    note.code =
        static_cast<NoteCode>(static_cast<std::uint32_t>(NoteCode::kOnlySomeRanks) +
                              below(kNoteCodes - static_cast<std::uint32_t>(NoteCode::kOnlySomeRanks)));
    if (note.code == NoteCode::kShardLeftOnNode)
      note.code = NoteCode::kOnlySomeRanks;  // the merge makes that one
    const NoteKind& kind = kind_of(note.code);
    if (kind.scope == NoteScope::kNode) note.node = "n" + std::to_string(shape_.node);
    if (kind.scope == NoteScope::kRanks) {
      note.first_rank = static_cast<std::int32_t>(below(60));
      note.last_rank = note.first_rank + static_cast<std::int32_t>(below(4));
    }
    if (kind.number != nullptr) note.number = below(3);
    if (kind.text != nullptr) note.text = text("note");
    if (kind.detail != nullptr) note.detail = text("detail");
    data_.run.notes.push_back(note);
  }

  void describe_run() {
    data_.run.id = "run-1";
    data_.run.command = {"./a.out", "", "--flag=\xff"};
    data_.run.own = {"/u/code", "/u/lib" + std::to_string(below(3))};
    data_.run.start_utc_ns = 1'700'000'000'000'000'000 + below(1000);
    data_.run.world_size = 64;
    data_.run.rate_hz = 100;
    data_.run.clock = "wall";
    data_.run.version = "0.1." + std::to_string(below(3));
    data_.run.mpi_library = chance(2) ? "" : "MPI 1";
    data_.run.complete = !chance(4);
    data_.run.sample_on = chance(2) ? "" : "page-faults";
    data_.run.launcher = chance(2) ? "" : "torchrun";
    data_.run.only_regions = chance(4);
    data_.run.standby = chance(4);
    data_.run.counters_multiplexed = chance(4);
    for (std::uint32_t i = below(4); i > 0; --i) add_note();
    unite(data_.run.notes);
    Node node;
    node.name = "n" + std::to_string(shape_.node);
    node.start_utc_ns = data_.run.start_utc_ns + below(1'000'000);
    node.elapsed_ns = 1'000'000'000 + below(1'000'000'000);
    node.cpu_ns = amount();
    node.collector_cpu_ns = amount();
    node.collector_max_rss_bytes = amount();
    node.cpus = below(300);
    node.numa_nodes = below(8);
    node.memory_bytes = amount();
    node.cache_bytes = amount();
    node.cpu_model = text("cpu");
    data_.nodes = {node};
    data_.communicators = {{1, 64, "MPI_COMM_WORLD"}, {0xffff'ffff'ffff'fff0 + below(4), 3, text("comm")}};
    // Which names exist differs from shard to shard.
    data_.counters = {"PAGE-FAULTS"};
    if (chance(2)) data_.counters.insert(data_.counters.begin() + below(2), "CONTEXT-SWITCHES");
    data_.unavailable_counters = {{"PAPI_TOT_INS", text("reason")}};
    std::set<Setting> settings;
    for (std::uint32_t i = below(5); i > 0; --i)
      settings.insert({static_cast<SettingKind>(below(kSettingKinds)), text("setting"), text("value")});
    data_.settings.assign(settings.begin(), settings.end());
    std::set<std::uint32_t> ops;
    for (std::uint32_t i = 0; i < 3; ++i) ops.insert(interner_.string(text("MPI_Op")));
    for (const std::uint32_t op : ops)
      for (std::uint64_t size = 1; size <= 16; size *= 4)
        data_.mpi_sizes.push_back({op, size, 1 + below(1000)});
  }

  void add_rank(std::uint32_t row) {
    Rank rank;
    rank.rank = shape_.ranks[row];
    rank.pid = 100 + static_cast<std::int32_t>(row);
    rank.flags = below(1u << 13);
    rank.start_utc_ns = data_.nodes[0].start_utc_ns + below(1000);
    for (std::uint64_t* field : {&rank.elapsed_ns,
                                 &rank.cpu_ns,
                                 &rank.user_ns,
                                 &rank.system_ns,
                                 &rank.samples,
                                 &rank.mpi_ns,
                                 &rank.mpi_wait_ns,
                                 &rank.max_rss_bytes,
                                 &rank.read_bytes,
                                 &rank.write_bytes,
                                 &rank.minor_faults,
                                 &rank.major_faults,
                                 &rank.voluntary_switches,
                                 &rank.involuntary_switches,
                                 &rank.handler_ns,
                                 &rank.truncated,
                                 &rank.merges_tried,
                                 &rank.merges_failed,
                                 &rank.running_samples,
                                 &rank.running_ns})
      *field = chance(9) ? std::numeric_limits<std::uint64_t>::max() : amount();
    rank.elapsed_ns =
        std::min(rank.elapsed_ns, static_cast<std::uint64_t>(kLatest_utc_ns - rank.start_utc_ns));
    for (std::uint64_t& ns : rank.main_thread_ns) ns = amount();
    rank.threads = below(100);
    rank.processes = below(100);
    rank.standby_ns = amount();
    rank.exit_status = static_cast<std::int32_t>(below(256));
    rank.restart = below(3);
    rank.exit_signal = -static_cast<std::int32_t>(below(3));
    rank.python_version = below(1u << 31);
    rank.event_level = below(25);
    rank.mpi_operations = amount();
    rank.paused_ns = amount();
    rank.mpi_init_end_ns = amount();
    rank.mpi_finalize_begin_ns = amount();
    rank.mpi_helper_threads = below(9);
    rank.mpi_helper_elapsed_ns = amount();
    rank.mpi_helper_ns = amount();
    rank.affinity = interner_.string(text("0-"));
    rank.numa_nodes = interner_.string(text("0,"));
    data_.ranks.push_back(rank);

    std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, Value> values;
    for (std::uint32_t i = 0; i < shape_.values_per_rank; ++i) {
      const std::tuple key(below(data_.paths.size()), below(kCategories), !chance(3));
      const auto& [path, category, main_thread] = key;
      values[key] = {row, path, static_cast<Category>(category), main_thread, amount(), amount(), amount()};
    }
    for (const auto& [key, value] : values) data_.values.push_back(value);
    std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, MpiCall> calls;
    for (std::uint32_t i = 0; i < 6; ++i) {
      const std::tuple key(below(data_.paths.size()), chance(3) ? kNone : below(2), chance(4));
      const auto& [path, communicator, helper] = key;
      calls[key] = {row,      path,     communicator, 1 + below(100),          amount(), amount(), amount(),
                    amount(), amount(), !helper,      chance(4) ? below(3) : 0};
    }
    for (const auto& [key, call] : calls) data_.mpi_calls.push_back(call);
    for (std::int32_t tid = 100; chance(2); ++tid)
      data_.calls_under_way.push_back(
          {row, tid, tid == 100, below(data_.paths.size()), chance(3) ? kNone : below(2), below(1000),
           static_cast<std::int32_t>(below(10)) - 2, static_cast<std::int32_t>(below(9)), -1, amount(),
           amount(), below(30), below(30), chance(3) ? CallUnderWay::kNoBytes : amount()});
    for (std::uint64_t i = 0; i < data_.calls_under_way.size(); ++i) {
      const CallUnderWay& call = data_.calls_under_way[i];
      if (call.rank != row) continue;
      for (std::int32_t peer = -2; chance(2); ++peer)
        data_.pending_requests.push_back(
            {row, call.tid, call.enter_ns, static_cast<PendingKind>(1 + below(3)), peer});
    }
    for (std::uint32_t communicator = 0; communicator < 2 && chance(2); ++communicator)
      data_.collective_counts.push_back({row, below(data_.paths.size()), communicator, below(1000),
                                         chance(3) ? CallUnderWay::kNoBytes : amount()});
    // Of members that no row names, so a merge leaves the messages as they are.
    if (row % 2 != 0) {
      data_.group_numbers.push_back({row, row % 4 / 2, static_cast<std::int32_t>(row % 100)});
      data_.group_messages.push_back({row, 0, 100, row, 512});
      data_.group_messages.push_back({row, 1, 101, 1, 8});
    }
    for (std::uint32_t i = below(3); i > 0; --i) {
      data_.mpi_errors.push_back(
          {row, below(data_.paths.size()), chance(3) ? kNone : below(2), static_cast<std::int32_t>(below(60)),
           static_cast<std::int32_t>(below(10)) - 2, static_cast<std::int32_t>(below(9)),
           chance(3) ? kNone : below(1000), amount(), amount(), chance(3) ? "" : "MPI_ERR_TRUNCATE",
           "message truncated"});
      data_.open_requests.push_back(
          {row, below(data_.paths.size()), chance(3) ? kNone : below(2), static_cast<std::uint8_t>(below(4)),
           static_cast<std::int32_t>(below(10)) - 2, static_cast<std::int32_t>(below(9)), amount()});
    }
    for (std::uint32_t counter = 0; counter < data_.counters.size(); ++counter) {
      data_.counter_values.push_back({row, counter, amount()});
      const std::uint32_t path = below(data_.paths.size());
      data_.path_counters.push_back({row, path, counter, amount()});
    }
    if (chance(2)) data_.drops.push_back({row, "ring_full", amount()});
    for (std::int32_t pid = 100; chance(2); ++pid) {
      Process process;
      process.rank = row;
      process.path = below(data_.paths.size());
      process.top_path = below(data_.paths.size());
      process.pid = pid;
      process.parent_pid = static_cast<std::int32_t>(below(100));
      process.origin = static_cast<ProcessOrigin>(below(kProcessOrigins));
      process.unrecorded = static_cast<Unrecorded>(below(kUnrecordedKinds));
      process.flags = static_cast<std::uint8_t>(below(8));
      process.exit_status = static_cast<std::int32_t>(below(256));
      process.exit_signal = static_cast<std::int32_t>(below(64));
      process.count = 1 + below(9);
      process.start_utc_ns = 1'700'000'000'000'000'000 + pid;
      process.elapsed_ns = amount();
      process.cpu_ns = amount();
      process.cpu_min_ns = amount();
      process.cpu_max_ns = amount();
      process.children_cpu_ns = amount();
      process.top_ns = amount();
      process.command = command_text({"python3", "worker.py"});
      data_.processes.push_back(std::move(process));
    }
    if (chance(2)) {
      std::set<std::uint32_t> waiting;
      for (std::uint32_t i = below(4); i > 0; --i) waiting.insert(below(data_.paths.size()));
      for (const std::uint32_t path : waiting)
        data_.mutex_waits.push_back({row, path, below(data_.paths.size()), amount(), amount(), amount(),
                                     amount(),
                                     chance(2) ? "lock_" + std::to_string(below(9)) : std::string()});
    }
    if (chance(2)) {
      for (const char* const space : {"Cuda", "Host"}) {
        data_.memory_spaces.push_back({row, 1 + below(3), amount(), amount(), amount(), amount(), amount(),
                                       1'700'000'000'000'000'000 + below(1000), amount(), amount(), space});
        for (const char* const label : {"a", "b\xff"})
          data_.memory_labels.push_back(
              {row, amount(), amount(), amount(), amount(), amount(), amount(), space, label});
      }
      data_.memory_copies.push_back({row, amount(), amount(), "Cuda", "Host"});
    }
    for (std::uint32_t thread = 0; chance(2); ++thread) {
      std::uint64_t at_ns = below(1000);
      for (std::uint32_t number = 0; number == 0 || chance(2); ++number) {
        const std::uint64_t call_ns = at_ns + below(1000), end_ns = call_ns + below(1000);
        data_.thread_spans.push_back({row, thread, number, chance(3) ? kNone : below(4),
                                      static_cast<SpanEnd>(below(kSpanEnds)), at_ns, call_ns, end_ns,
                                      chance(2) ? kNone : below(3)});
        at_ns = end_ns;
        std::set<std::uint32_t> paths;
        for (std::uint32_t i = below(4); i > 0; --i) paths.insert(below(data_.paths.size()));
        for (const std::uint32_t path : paths)
          data_.span_times.push_back({row, thread, number, path, amount()});
      }
    }
    if (chance(2)) {
      data_.omp_ranks.push_back({row, static_cast<OmpMethod>(below(kOmpMethods)),
                                 static_cast<std::uint8_t>(below(2)), below(65), "libgomp.so.1"});
      std::set<std::uint32_t> paths;
      for (std::uint32_t i = below(4); i > 0; --i) paths.insert(below(data_.paths.size()));
      for (const std::uint32_t path : paths) {
        const std::uint32_t threads = 1 + below(4);
        const auto level = static_cast<std::uint8_t>(below(3));
        const auto main = static_cast<std::uint8_t>(below(2));
        data_.omp_regions.push_back({row, path, threads, level, main, static_cast<OmpKind>(below(2)),
                                     below(64), amount(), below(2), amount(), amount(), amount(), 900,
                                     below(400), below(500), amount()});
        for (std::uint32_t number = 0; number < threads; ++number)
          data_.omp_threads.push_back(
              {row, path, threads, level, main, number, amount(), 500, below(200), below(300), amount()});
        data_.omp_constructs.push_back({row, path, threads, level, main, below(data_.paths.size()),
                                        static_cast<OmpKind>(2 + below(kOmpKinds - 2)), amount(), 700,
                                        below(700), amount(), amount(), amount(), amount(), below(5),
                                        static_cast<std::uint8_t>(below(1u << kOmpSchedules))});
      }
    }
    for (std::int32_t tid = 100; chance(2); ++tid) {
      EventLoop loop;
      loop.rank = row;
      loop.path = below(data_.paths.size());
      loop.pid = 100;
      loop.tid = tid;
      loop.main_thread = tid == 100 ? 1 : 0;
      loop.number = below(4);
      loop.start_utc_ns = 1'700'000'000'000'000'000;
      for (std::uint64_t* const word :
           {&loop.turns, &loop.idle_ns, &loop.busy_ns, &loop.blocked, &loop.blocked_ns, &loop.longest_ns})
        *word = amount();
      loop.longest_utc_ns = loop.start_utc_ns + below(1000);
      for (std::uint64_t& count : loop.lengths) count = amount();
      loop.thread = "loop";
      std::set<std::uint32_t> parts{0};
      for (std::uint32_t i = 0; i < 3; ++i) parts.insert(below(data_.paths.size()));
      const auto flags = static_cast<std::uint8_t>(below(4));
      std::uint64_t wall_ns = 100;
      for (const std::uint32_t path : parts)
        data_.loop_blocks.push_back({row, path, loop.pid, tid, loop.number, loop.start_utc_ns,
                                     loop.longest_utc_ns, 500, wall_ns--, flags});
      data_.event_loops.push_back(std::move(loop));
    }
    std::set<std::uint32_t> of_tasks;
    while (chance(2)) of_tasks.insert(below(data_.paths.size()));
    for (const std::uint32_t path : of_tasks)
      data_.task_times.push_back(
          {row, path, below(data_.paths.size()), amount(), amount(), amount(), chance(2) ? "crawler" : ""});
    for (std::int32_t tid = 300; chance(2); ++tid) {
      Thread thread;
      thread.rank = row;
      thread.path = below(data_.paths.size());
      thread.top_path = below(data_.paths.size());
      thread.last_path = below(data_.paths.size());
      thread.pid = static_cast<std::int32_t>(below(100));
      thread.tid = tid;
      thread.kind = static_cast<ThreadKind>(below(kThreadKinds));
      thread.flags = static_cast<std::uint8_t>(below(2));
      thread.count = 1 + below(9);
      thread.start_utc_ns = 1'700'000'000'000'000'000 + tid;
      thread.elapsed_ns = amount();
      thread.cpu_ns = amount();
      thread.cpu_min_ns = amount();
      thread.cpu_max_ns = amount();
      thread.unmoved_ns = amount();
      thread.unmoved_cpu_ns = amount();
      thread.last_category = static_cast<Category>(below(kCategories));
      if (chance(2)) thread.name = "loader-" + std::to_string(tid);
      data_.threads.push_back(std::move(thread));
    }
    for (std::uint64_t begin_ns = below(1000); chance(2); begin_ns += 2000)
      data_.recording_windows.push_back({row, begin_ns, begin_ns + 1 + below(1000)});
    if (chance(3)) {
      Failure failure;
      failure.rank = row;
      failure.flags = static_cast<std::uint8_t>(below(16));
      failure.signal = static_cast<std::int32_t>(below(16));
      failure.address = amount();
      failure.abort_code = -static_cast<std::int32_t>(below(3));
      failure.instruction = chance(2) ? "solver+0x11d3" : "";
      failure.message = chance(2) ? "double free or corruption" : "";
      failure.stderr_tail = chance(2) ? "Traceback\n" + std::to_string(row) + "\n" : "";
      data_.failures.push_back(std::move(failure));
    }
    for (std::uint64_t le_ns = 1024; le_ns <= 4096; le_ns *= 2)
      if (chance(2)) data_.handler_costs.push_back({row, le_ns, amount()});
    for (std::uint32_t series = 0; series < data_.series.size(); ++series)
      for (const std::uint32_t bin : some_bins())
        data_.rank_series.push_back({row, series, bin, 1 + amount()});
    add_files(row);
    std::set<std::uint32_t> paths;
    for (std::uint32_t i = 0; i < 6; ++i) paths.insert(below(data_.paths.size()));
    for (const std::uint32_t path : paths)
      data_.data_accesses.push_back({row,
                                     path,
                                     amount(),
                                     amount(),
                                     {random_() & random_(), random_(), 0, std::uint64_t{1} << below(64)}});
    for (const std::uint32_t region : regions_)
      if (!chance(4))
        data_.region_times.push_back({row, region, 1 + below(100), amount(), amount(), amount(),
                                      chance(2) ? -1 : static_cast<std::int64_t>(amount())});
    if (shape_.waiting) add_events(row);
    std::set<std::int32_t> peers{-1, static_cast<std::int32_t>(below(64)),
                                 static_cast<std::int32_t>(below(64))};
    for (const std::int32_t peer : peers) data_.matrix.push_back({rank.rank, peer, amount(), amount()});
  }

  void add_files(std::uint32_t row) {
    // Files in common with other shards, and one that only this rank uses.
    if (row == 0) data_.io_files.push_back({"/shared", "lustre /"});
    data_.io_files.push_back({"/own" + std::to_string(data_.ranks[row].rank), chance(3) ? "" : "ext4 /"});
    if (chance(2)) data_.io_files.push_back({text("/file"), "row " + std::to_string(row)});
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, IoCall> calls;
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::tuple key(below(data_.paths.size()), below(data_.io_files.size()), below(kIoOperations));
      const auto& [path, file, operation] = key;
      calls[key] = {
          row,      path,     file,    static_cast<IoOperation>(operation), 1 + below(100), below(10),
          amount(), amount(), amount()};
    }
    for (const auto& [key, call] : calls) data_.io_calls.push_back(call);
  }

  void add_events(std::uint32_t row) {
    const StringIndex op = interner_.string("MPI_Op of events");
    for (std::uint32_t thread = 0; thread < 2; ++thread) {
      std::uint64_t now = amount();
      for (std::uint32_t i = below(30); i > 0; --i) {
        MpiEvent event;
        event.rank = row;
        event.thread = thread * 7;
        event.path = below(data_.paths.size());
        event.communicator = chance(5) ? kNone : below(2);
        event.op = op;
        event.kind = static_cast<std::uint8_t>(below(7));
        event.flags = static_cast<std::uint8_t>(below(4));
        event.peer = static_cast<std::int32_t>(below(64)) - 1;
        event.tag = static_cast<std::int32_t>(below(1000)) - 10;
        event.sequence = chance(5) ? std::numeric_limits<std::uint32_t>::max() : below(1000);
        event.enter_ns = chance(4) ? now : now + below(1000);
        event.exit_ns = now = event.enter_ns + below(1000);
        event.start_ns = event.enter_ns - std::min<std::uint64_t>(event.enter_ns, below(1000));
        event.mpi_ns = amount();
        event.bytes = amount();
        event.paused_ns = amount();
        event.resumed_ns = amount();
        for (std::uint32_t part = below(3); part > 0; --part)
          data_.event_gaps.push_back({static_cast<std::uint32_t>(data_.mpi_events.size()),
                                      below(data_.paths.size()), amount(), amount()});
        data_.mpi_events.push_back(event);
      }
    }
    std::uint64_t shared_ns = amount(), begin_ns = below(1'000'000);
    for (std::uint32_t i = below(4); i > 0; --i) {
      shared_ns += 1 + below(1000);
      const std::uint64_t end_ns = begin_ns + below(1000);
      data_.event_stretches.push_back({row, shared_ns, begin_ns, end_ns, chance(2)});
      begin_ns = end_ns + below(1000);
    }
    for (std::uint32_t i = below(3); i > 0; --i)
      data_.clock_offsets.push_back({row, static_cast<std::int32_t>(below(64)), amount(),
                                     -static_cast<std::int64_t>(amount()), amount()});
  }

  void add_waiting() {
    WaitAnalysis& analysis = data_.wait_analysis;
    analysis.done = true;
    analysis.event_level = below(25);
    for (std::uint64_t* field :
         {&analysis.ideal_ns, &analysis.operations, &analysis.events, &analysis.messages,
          &analysis.unmatched_messages, &analysis.collectives, &analysis.unmatched_collectives,
          &analysis.clock_error_ns, &analysis.clock_violations, &analysis.worst_violation_ns,
          &analysis.unreceived_messages})
      *field = chance(9) ? std::numeric_limits<std::int64_t>::max() : amount();
    const auto rank = [&] { return below(data_.ranks.size()); };
    const auto path = [&] { return below(data_.paths.size()); };
    for (std::uint32_t i = below(20); i > 0; --i) {
      data_.wait_states.push_back({rank(), path(), static_cast<WaitKind>(below(kWaitKinds)),
                                   chance(4) ? kNone : rank(), path(), amount(), amount()});
      data_.root_causes.push_back({rank(), path(), amount(), below(64)});
      data_.critical_times.push_back({rank(), path(), amount()});
      data_.unmatched_messages.push_back({rank(), path(), chance(4) ? kNone : below(2), rank(),
                                          static_cast<std::int32_t>(below(9)), amount()});
    }
    std::uint64_t now = 0;
    for (std::uint32_t i = below(20); i > 0; --i) {
      const std::uint64_t begin = now;
      now += amount();
      data_.time_windows.push_back(
          {begin, now, 1.0 / (1 + below(99)), 3e9 / (1 + below(99)), amount(), amount()});
    }
  }

  std::mt19937_64 random_;
  const RandomShape& shape_;
  ShardData data_;
  std::uint32_t tries_ = 0;  // at paths
  std::set<std::uint32_t> regions_;
  PathInterner interner_{data_};
};

}  // namespace

ShardData random_shard(std::uint64_t seed, const RandomShape& shape) { return Builder(seed, shape).build(); }

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "clusterprof-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::uint8_t> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace clusterprof::testing
