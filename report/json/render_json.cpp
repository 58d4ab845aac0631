// SPDX-License-Identifier: BSD-3-Clause
// Writes an Analysis as JSON. Names and units are those of report.schema.json; keys are never renamed.
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "report/analysis/efficiency.hpp"
#include "report/analysis/regions.hpp"
#include "report/format/format.hpp"
#include "report/json/json_writer.hpp"
#include "report/report.hpp"
#include "report/words/bottlenecks.hpp"
#include "report/words/drops.hpp"
#include "report/words/findings.hpp"
#include "report/words/notes.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;

constexpr std::size_t index(Category category) { return static_cast<std::size_t>(category); }

using MaybeText = std::optional<std::string_view>;
MaybeText text_or_null(std::string_view value) { return value.empty() ? MaybeText() : MaybeText(value); }
template <std::unsigned_integral T>
std::optional<T> or_null(T value) {  // 0: not known
  return value == 0 ? std::optional<T>() : std::optional<T>(value);
}

const char* kind_name(shard::FrameKind kind) {
  switch (kind) {
    case shard::FrameKind::kPython:
      return "python";
    case shard::FrameKind::kNative:
      return "native";
    case shard::FrameKind::kMpi:
      return "mpi";
    case shard::FrameKind::kKernel:
      return "kernel";
    case shard::FrameKind::kRegion:
      break;  // is no function
  }
  return "native";
}

std::optional<std::string> utc_or_null(std::int64_t ns) {
  if (ns == 0) return {};
  std::string time = text::utc(ns);  // "2026-11-21 13:45:02 UTC"
  time[10] = 'T';
  return time.substr(0, 19) + "Z";
}

// "python" as "python_s", of names that do not change.
template <std::size_t N>
std::array<std::string, N> second_keys(const std::array<const char*, N>& names) {
  std::array<std::string, N> keys;
  for (std::size_t i = 0; i < N; ++i) keys[i] = std::string(names[i]) + "_s";
  return keys;
}

class Document {
 public:
  Document(const Analysis& analysis, const JsonSink& sink)
      : a_(analysis),
        out_(sink),
        names_(analysis),
        activity_keys_(second_keys(kActivityKeys)),
        category_keys_(second_keys(shard::kCategoryNames)) {}

  void threads_efficiency() {
    const Efficiency& threads = a_.threads_efficiency;
    if (!threads.parallel) {
      out_("threads_efficiency", nullptr)("threads_efficiency_above_one", above_one(threads));
      return;
    }
    out_.object("threads_efficiency", [&] {
      out_("parallel", threads.parallel)("load_balance", threads.load_balance);
      out_("communication", threads.communication)("slowest_rank", *a_.threads_slowest_rank);
    });
    out_("threads_efficiency_above_one", above_one(threads));
  }

  void write() {
    out_.object([&] {
      out_("schema", "clusterprof.report/1");
      run();
      nodes();
      ranks();
      const Efficiency& e = a_.efficiency;
      out_.object("efficiency", [&] {
        out_("parallel", e.parallel)("load_balance", e.load_balance)("communication", e.communication);
        out_("serialization", e.serialization)("transfer", e.transfer);
      });
      out_("efficiency_above_one", above_one(e));
      threads_efficiency();
      activities(a_.activity_s);
      seconds_by_name("native_modules", a_.native_modules);
      seconds_by_name("system_calls", a_.system_calls);
      functions();
      lines();
      call_tree();
      mpi();
      wait_analysis();
      root_causes();
      critical_path();
      windows();
      counters();
      io();
      off_cpu();
      timeline();
      regions();
      quality();
      bottleneck();
      findings();
    });
    out_.finish();
  }

 private:
  // --- the run, its nodes and ranks --------------------------------------------------------------

  void dropped() {
    out_.object("dropped", [&] {
      for (const auto& [reason, count] : a_.run.dropped) out_(reason, count);
    });
  }

  void run() {
    const RunInfo& run = a_.run;
    out_.object("run", [&] {
      out_("id", run.id)("command", run.command)("start_utc", utc_or_null(run.start_utc_ns));
      out_("elapsed_s", run.elapsed_s)("nodes", run.nodes)("ranks", run.ranks);
      out_("mpi_startup_s", a_.efficiency.parallel ? Seconds(a_.startup_s) : Seconds());
      out_("spawned_ranks", run.spawned_ranks)("world_size", or_null(run.world_size));
      out_("missing_ranks", run.missing_ranks)("rate_hz", run.rate_hz)("clock", run.clock);
      out_("region", text_or_null(run.region))("sample_on", text_or_null(run.sample_on));
      out_("only_regions", run.only_regions)("samples", run.samples);
      dropped();
      out_.object("dropped_meaning", [&] {
        for (const auto& [reason, count] : a_.run.dropped)
          if (const std::string_view meaning = words::meaning_of_drop(reason); !meaning.empty())
            out_(reason, meaning);
      });
      out_("complete", run.complete)("version", run.version);
      out_("mpi_library", text_or_null(run.mpi_library));
      std::vector<std::string> sentences;
      for (const NoteRecord& note : run.notes) sentences.push_back(words::sentence(note));
      out_("notes", sentences);
      out_.rows("note_records", run.notes, [&](const NoteRecord& note) { note_record(note); });
    });
  }

  void note_record(const NoteRecord& note) {
    const shard::NoteKind& kind = kind_of(note.code);
    out_("code", kind.name)("nodes", note.nodes)("node_count", note.node_count);
    std::vector<std::vector<std::int32_t>> ranges;
    for (const auto& [first, last] : note.ranks) ranges.push_back({first, last});
    out_("ranks", ranges)("rank_count", note.rank_count);
    out_.object("evidence", [&] {
      if (kind.number != nullptr) out_(kind.number, note.number);
      if (kind.text != nullptr) out_(kind.text, note.text);
      if (kind.detail != nullptr) out_(kind.detail, note.detail);
    });
  }

  void nodes() {
    out_.rows("nodes", a_.nodes, [&](const NodeInfo& node) {
      out_("name", node.name)("ranks", node.ranks)("elapsed_s", node.elapsed_s)("cpu_s", node.cpu_s);
      out_("collector_cpu_s", node.collector_cpu_s)("cpus", or_null(node.cpus));
      out_("numa_nodes", or_null(node.numa_nodes))("memory_bytes", or_null(node.memory_bytes));
      out_("cache_bytes", or_null(node.cache_bytes))("cpu_model", text_or_null(node.cpu_model));
      out_("cpu_busy", node.busy)("memory_used_bytes", node.memory_used_bytes);
      out_("network_received_bytes", node.received_bytes)("network_sent_bytes", node.sent_bytes);
      out_("disk_read_bytes", node.disk_read_bytes)("disk_written_bytes", node.disk_written_bytes);
    });
  }

  void activities(const OptionalActivitySeconds& seconds) {
    out_.object("activities", [&] {
      for (std::size_t i = 0; i < kActivities; ++i) out_(activity_keys_[i], seconds[i]);
    });
  }

  void derived(const std::vector<Derived>& list) {
    out_.rows("derived", list, [&](const Derived& row) {
      out_("name", row.name)("value", row.value)("unit", row.unit)("formula", row.formula);
    });
  }

  void ranks() {
    out_.rows("ranks", a_.ranks, [&](const RankInfo& rank) {
      out_("rank", rank.rank);
      out_("node", rank.node < a_.nodes.size() ? MaybeText(a_.nodes[rank.node].name) : MaybeText());
      out_("pid", rank.pid)("elapsed_s", rank.elapsed_s)("paused_s", rank.paused_s)("cpu_s", rank.cpu_s);
      out_("user_s", rank.user_s)("kernel_s", rank.kernel_s)("samples", rank.samples);
      out_("spawned", rank.spawned)("threads", rank.threads)("processes", rank.processes);
      for (std::size_t c = 0; c < shard::kCategories; ++c) out_(category_keys_[c], rank.category_s[c]);
      out_("mpi_runnable_s", rank.mpi_runnable_s);
      activities(rank.activity_s);
      out_("useful_s", rank.useful_s)("mpi_wait_s", rank.mpi_wait_s)("mpi_transfer_s", rank.mpi_transfer_s);
      out_("mpi_startup_s", rank.startup_s)("mpi_io_s", rank.mpi_io_s);
      out_("mpi_helper_threads", rank.mpi_helper_threads)("mpi_helper_elapsed_s", rank.mpi_helper_elapsed_s);
      out_("mpi_helper_s", rank.mpi_helper_s)("threads_useful_s", rank.threads_useful_s);
      out_("max_rss_bytes", rank.max_rss_bytes)("read_bytes", rank.read_bytes);
      out_("write_bytes", rank.write_bytes)("minor_faults", rank.minor_faults);
      out_("major_faults", rank.major_faults)("voluntary_switches", rank.voluntary_switches);
      out_("involuntary_switches", rank.involuntary_switches)("affinity", text_or_null(rank.affinity));
      out_("numa", text_or_null(rank.numa));
      out_("unsampled_threads", rank.unsampled_threads)("unsampled_cpu_s", rank.unsampled_cpu_s);
      out_("recording_s", rank.handler_s);
      derived(rank.derived);
      out_.object("exit", [&] {
        out_("status", rank.exit_status)("signal", rank.exit_signal)("lost", rank.lost);
        if (!rank.lost && rank.last_call_path.empty()) return;
        std::vector<std::string> path;
        for (const SourceLocation& frame : rank.last_call_path) path.push_back(words::frame(frame));
        out_("last_call_path", path);
      });
    });
  }

  // --- functions and lines -----------------------------------------------------------------------

  // Of which runnable may not be known.
  void categories(const CategorySeconds& seconds) {
    constexpr auto kRunnable = static_cast<std::size_t>(Category::kRunnable);
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      out_(category_keys_[c], c != kRunnable || a_.category_s[c] ? Seconds(seconds[c]) : Seconds());
  }

  // Parts of the self time of a function or line: the categories, and those activities that are not one.
  template <typename Row>
  void parts(const Row& row) {
    categories(row.category_s);
    for (const Activity part : {Activity::kGilWait, Activity::kGarbageCollection, Activity::kImport,
                                Activity::kPageFault, Activity::kSleep, Activity::kLock}) {
      const std::size_t i = report::index(part);
      out_(activity_keys_[i], a_.activity_s[i] ? Seconds(row.activity_s[i]) : Seconds());
    }
  }

  void amounts(const CounterAmounts& amounts) {
    out_.object("counters", [&] {
      for (const auto& [counter, value] : amounts) out_(a_.counters[counter], value);
    });
  }

  void seconds_by_name(std::string_view name, const std::map<std::string, double>& seconds) {
    if (a_.run.samples == 0) {
      out_(name, nullptr);
      return;
    }
    out_.object(name, [&] {
      for (const auto& [what, value] : seconds) out_(what, value);
    });
  }

  void functions() {
    out_.rows("functions", a_.functions, [&](const FunctionRow& row) {
      out_("name", row.name)("file", text_or_null(row.file))("line", or_null(row.line));
      out_("kind", kind_name(row.kind))("module", text_or_null(row.module));
      out_("self_s", row.self_s)("total_s", row.total_s)("cpu_s", row.cpu_s);
      out_("active_self_s", row.active_self_s)("active_total_s", row.active_total_s);
      spread(row.spread);
      out_("imbalance", row.spread.mean_s > 0 ? Seconds(row.spread.max_s / row.spread.mean_s) : Seconds());
      parts(row);
      if (!row.counters.empty()) amounts(row.counters);
      if (row.working_set_bytes) {
        out_("working_set_bytes", std::llround(*row.working_set_bytes));
        out_("working_set_is_more", row.working_set_is_more);
      }
    });
  }

  void lines() {
    out_.rows("lines", a_.lines, [&](const LineRow& row) {
      out_("file", row.file)("line", row.line)("function", row.function);
      out_("self_s", row.self_s)("total_s", row.total_s)("cpu_s", row.cpu_s)("called_s", row.called_s);
      parts(row);
      if (!row.counters.empty()) amounts(row.counters);
    });
    out_.object("all_threads", [&] {
      out_("time_s", a_.sampled_s)("without_function_s", a_.without_function_s);
      out_("without_line_s", a_.without_line_s);
    });
  }

  void call_tree() {
    out_.rows("call_tree", a_.call_tree, [&](const CallTreeRow& row) {
      out_("parent", row.parent == shard::kNone ? std::nullopt : std::optional(row.parent));
      static constexpr std::string_view kFolds[] = {"", "calls", "import"};
      out_("name", row.name)("fold", text_or_null(kFolds[static_cast<std::size_t>(row.fold)]));
      out_("file", text_or_null(row.file))("line", or_null(row.line));
      out_("kind", row.kind == shard::FrameKind::kRegion ? "region" : kind_name(row.kind));
      out_("module", text_or_null(row.module))("self_s", row.self_s)("total_s", row.total_s);
      categories(row.category_s);
    });
  }

  void spread(const RankSpread& spread) {
    out_("rank_min_s", spread.min_s)("rank_mean_s", spread.mean_s)("rank_max_s", spread.max_s);
    out_("rank_max", spread.max_rank);
  }

  // --- MPI ---------------------------------------------------------------------------------------

  void peer(const PendingPeer& peer) { out_("peer", peer.rank)("any_peer", peer.any); }

  void under_way(const CallUnderWayRow& row) {
    static constexpr const char* kKinds[] = {"", "send", "receive", "collective"};
    out_("rank", row.rank)("thread", row.tid)("main_thread", row.main_thread)("op", row.place.op);
    out_("file", text_or_null(row.place.file))("line", or_null(row.place.line));
    out_("function", text_or_null(row.place.function))("age_s", row.age_s)("ended", row.ended);
    out_("communicator", text_or_null(row.communicator));
    out_("communicator_size", or_null(row.communicator_size))("sequence", row.sequence);
    peer(row.peer);
    out_("tag", row.tag)("any_tag", row.any_tag)("root", row.root)("requests", row.requests);
    out_.rows("pending", row.pending, [&](const PendingRow& request) {
      out_("kind", kKinds[static_cast<std::size_t>(request.kind)]);
      peer(request.peer);
    });
    out_("waits_for", row.waits_for)("waits_for_count", row.waits_for_count);
    std::vector<std::string> path;
    for (const SourceLocation& frame : a_.call_paths_under_way[row.call_path])
      path.push_back(words::frame(frame));
    out_("call_path", path);
  }

  void mpi() {
    out_.object("mpi", [&] {
      if (!a_.mpi_watched) return;
      out_.rows("calls", a_.mpi_calls, [&](const MpiCallRow& row) {
        out_("op", row.op)("file", text_or_null(row.file))("line", or_null(row.line));
        out_("function", text_or_null(row.function))("count", row.count)("unfinished", row.unfinished);
        out_("time_s", row.time_s)("wait_s", row.wait_s)("sent_bytes", row.sent_bytes)("recv_bytes",
                                                                                       row.recv_bytes);
        spread(row.spread);
      });
      out_.rows("calls_under_way", a_.calls_under_way, [&](const CallUnderWayRow& row) { under_way(row); });
      out_.rows("matrix", a_.matrix, [&](const shard::MatrixCell& cell) {
        out_("src", cell.source)("dst", cell.destination)("messages", cell.messages)("bytes", cell.bytes);
      });
      out_.rows("collectives", a_.collectives, [&](const CollectiveRow& row) {
        out_("op", row.op)("count", row.count)("ranks", row.ranks)("communicators", row.communicators);
        out_("sent_bytes", row.sent_bytes)("recv_bytes", row.recv_bytes)("bytes", row.bytes);
      });
      out_.rows("collective_matrix", a_.collective_matrix, [&](const shard::MatrixCell& cell) {
        out_("src", cell.source)("dst", cell.destination)("bytes", cell.bytes);
      });
      const auto name = [&](const std::optional<std::uint32_t>& node) {
        return node && *node < a_.nodes.size() ? MaybeText(a_.nodes[*node].name) : MaybeText();
      };
      out_.rows("collective_node_matrix", a_.collective_node_matrix, [&](const NodeCell& cell) {
        out_("src", cell.source)("dst", cell.destination);
        out_("src_node", name(cell.source))("dst_node", name(cell.destination))("bytes", cell.bytes);
      });
      out_.rows("node_matrix", a_.node_matrix, [&](const NodeCell& cell) {
        out_("src", cell.source)("dst", cell.destination);
        out_("src_node", name(cell.source))("dst_node", name(cell.destination));
        out_("messages", cell.messages)("bytes", cell.bytes);
      });
      out_.rows("sizes", a_.mpi_sizes, [&](const MpiSizeRow& row) {
        out_("op", row.op)("le_bytes", row.le_bytes)("count", row.count);
      });
      if (a_.wait_quality) waits();
    });
  }

  void place(LocationIndex place_index) {
    const SourceLocation& place = a_.places[place_index];
    out_("op", text_or_null(place.op))("file", text_or_null(place.file))("line", or_null(place.line));
    out_("function", text_or_null(place.function));
  }

  void wait_parts(std::string_view name, const std::vector<WaitPart>& parts, bool causes) {
    out_.rows(name, parts, [&](const WaitPart& part) {
      if (causes) out_("rank", part.rank);
      out_("wait_s", part.wait_s)("count", part.count);
      place(part.place);
      if (part.rest != 0) out_("rest", part.rest);
    });
  }

  void waits() {
    out_.rows("waits", a_.waits, [&](const WaitRow& row) {
      out_("kind", shard::kWaitKindNames[static_cast<std::size_t>(row.kind)])("rank", row.rank);
      out_("wait_s", row.wait_s)("count", row.count);
      wait_parts("caused_by", row.causes, true);
      wait_parts("where", row.where, false);
    });
  }

  void wait_analysis() {
    if (!a_.wait_quality) {
      out_("wait_analysis", nullptr);
      return;
    }
    const WaitQuality& q = *a_.wait_quality;
    out_.object("wait_analysis", [&] {
      out_("operations", q.operations)("events", q.events)("event_level", q.event_level);
      out_("messages", q.messages)("unmatched_messages", q.unmatched_messages);
      out_("collectives", q.collectives)("unmatched_collectives", q.unmatched_collectives);
      out_("clock_error_s", q.clock_error_s)("clock_violations", q.clock_violations);
      out_("worst_violation_s", q.worst_violation_s)("ideal_s", q.ideal_s);
    });
  }

  void root_causes() {
    if (!a_.wait_quality) {
      out_("root_causes", nullptr);
      return;
    }
    out_.rows("root_causes", a_.root_causes, [&](const RootCauseRow& cause) {
      out_("rank", cause.rank);
      place(cause.place);
      out_("wait_s", cause.wait_s)("share", cause.share)("waiting_ranks", cause.waiting_ranks);
    });
  }

  void critical_path() {
    if (a_.critical_path.empty()) {
      out_("critical_path", nullptr);
      return;
    }
    out_.rows("critical_path", a_.critical_path, [&](const CriticalRow& part) {
      const SourceLocation& where = a_.places[part.place];
      const bool known = part.place != 0;
      place(part.place);
      out_("kind", !known ? MaybeText() : MaybeText(where.op.empty() ? kind_name(where.kind) : "mpi"));
      out_("time_s", part.time_s)("share", part.share)("mean_s", known ? Seconds(part.mean_s) : Seconds());
      out_("imbalance", known && part.mean_s > 0 ? Seconds(part.time_s / part.mean_s) : Seconds());
      out_("rank_max", part.max_rank);
    });
  }

  void windows() {
    if (a_.windows.empty()) {
      out_("efficiency_windows", nullptr);
      return;
    }
    out_.rows("efficiency_windows", a_.windows, [&](const WindowRow& row) {
      out_("begin_s", row.begin_s)("end_s", row.end_s)("parallel", row.parallel);
      out_("load_balance", row.load_balance)("communication", row.communication)("wait_s", row.wait_s);
    });
  }

  // --- resources ---------------------------------------------------------------------------------

  void counters() {
    out_.object("counters", [&] {
      out_("available", a_.counters);
      out_.object("unavailable", [&] {
        for (const auto& [name, reason] : a_.unavailable_counters) out_(name, reason);
      });
      out_("multiplexed", a_.counters_multiplexed);
      derived(a_.derived);
      out_.rows("ranks", a_.rank_counters, [&](const RankCounters& row) {
        out_("rank", row.rank);
        for (const auto& [name, value] : row.values) out_(name, value);
      });
    });
  }

  void io() {
    if (!a_.io) {
      out_("io", nullptr);
      return;
    }
    const auto amounts_and_times = [&](const auto& row) {
      out_("read_bytes", row.read_bytes)("written_bytes", row.written_bytes);
      out_("read_s", row.read_s)("write_s", row.write_s)("sync_s", row.sync_s)("meta_s", row.meta_s);
    };
    const auto group = [&](const IoGroupRow& row) {
      out_("path", row.path)("file_system", text_or_null(row.file_system))("files", row.files);
      out_("opens", row.opens)("reads", row.reads)("writes", row.writes)("meta_calls", row.meta_calls);
      amounts_and_times(row);
    };
    out_.object("io", [&] {
      out_.rows("files", a_.io->files, [&](const IoFileRow& row) {
        out_("path", text_or_null(row.path))("file_system", text_or_null(row.file_system));
        out_("ranks", row.ranks)("opens", row.opens)("reads", row.reads)("writes", row.writes);
        out_("meta_calls", row.meta_calls);
        amounts_and_times(row);
      });
      out_.rows("directories", a_.io->directories, group);
      out_.rows("patterns", a_.io->patterns, group);
      out_.rows("calls", a_.io->calls, [&](const IoCallRow& row) {
        out_("operation", shard::kIoOperationNames[static_cast<std::size_t>(row.operation)]);
        out_("file", text_or_null(row.file))("line", or_null(row.line));
        out_("function", text_or_null(row.function))("path", text_or_null(row.path));
        out_("library_function", text_or_null(row.called));
        out_("mpi", text_or_null(row.mpi))("background", row.in_background);
        out_("count", row.count)("failed", row.failed)("bytes", row.bytes);
        out_("time_s", row.time_s)("max_s", row.max_s)("rank_max", row.max_rank);
      });
      out_.rows("file_systems", a_.io->file_systems, [&](const FileSystemRow& row) {
        out_("name", text_or_null(row.name))("kernel", row.of_kernel)("calls", row.calls);
        amounts_and_times(row);
      });
      out_.object("by_file_only", [&] {
        const IoIncomplete& some = a_.io->by_file_only;
        out_("operations", some.operations)("bytes", some.bytes)("time_s", some.time_s);
      });
    });
  }

  void off_cpu() {
    if (!a_.off_cpu) {
      out_("off_cpu", nullptr);
      return;
    }
    out_.rows("off_cpu", *a_.off_cpu, [&](const OffCpuRow& row) {
      out_("kind", kOffCpuNames[static_cast<std::size_t>(row.kind)])("file", text_or_null(row.file));
      out_("line", or_null(row.line))("function", text_or_null(row.function));
      out_("library_function", text_or_null(row.called));
      out_("time_s", row.time_s)("main_thread_s", row.main_thread_s)("rank_max", row.max_rank);
    });
  }

  void timeline() {
    if (!a_.timeline) {
      out_("timeline", nullptr);
      return;
    }
    const Timeline& timeline = *a_.timeline;
    const auto values = [&](const TimelineRow& row) {
      out_.object("values", [&] {
        for (const auto& [series, bins] : row.values) out_(timeline.series[series], bins);
      });
    };
    out_.object("timeline", [&] {
      out_("bin_s", timeline.bin_s)("bins", timeline.bins)("begin_s", timeline.begin_s);
      out_("series", timeline.series);
      out_.rows("ranks", timeline.ranks, [&](const TimelineRow& row) {
        out_("rank", row.rank);
        values(row);
      });
      out_.rows("nodes", timeline.nodes, [&](const TimelineRow& row) {
        out_("name", a_.nodes[row.node].name);
        values(row);
      });
    });
  }

  void regions() {
    out_.rows("regions", a_.regions, [&](const RegionRow& row) {
      out_("name", region_name(row))("count", row.count)("time_s", row.time_s)("min_s", row.min_s);
      out_("max_s", row.max_s)("max_n", row.max_n)("sampled_s", row.sampled_s)("share", row.share);
      categories(row.category_s);
      spread(row.spread);
      out_.object("efficiency", [&] {
        out_("parallel", row.efficiency.parallel)("load_balance", row.efficiency.load_balance);
        out_("communication", row.efficiency.communication);
      });
      out_("efficiency_above_one", above_one(row.efficiency));
      out_("mpi_startup_s", row.focus_s ? Seconds(*row.longest_s - *row.focus_s) : Seconds());
      amounts(row.counters);
      derived(row.derived);
      out_("bottleneck", text_or_null(row.bottleneck));
    });
  }

  // --- conclusions -------------------------------------------------------------------------------

  void quality() {
    const Quality& q = a_.quality;
    out_.object("quality", [&] {
      out_("samples", a_.run.samples)("rate_reached_hz", q.rate_reached_hz);
      out_("handler_median_s", q.handler_median_s)("handler_p99_s", q.handler_p99_s);
      dropped();
      out_("truncated", q.truncated)("merges_tried", q.merges_tried)("merges_failed", q.merges_failed);
      out_("merge_success_percent", q.merge_success ? Seconds(100 * *q.merge_success) : Seconds());
      out_("unsampled_threads", q.unsampled_threads)("unsampled_cpu_s", q.unsampled_cpu_s);
    });
  }

  void bottleneck() {
    out_.rows("bottleneck", a_.bottlenecks, [&](const Bottleneck& row) {
      out_("scope", !row.region.empty() ? "region" : row.rank ? "rank" : "run")("rank", row.rank);
      out_("region", text_or_null(row.region))("class", row.kind)("share", row.share);
      out_("evidence", words::evidence(row, a_, names_));
      out_.object("numbers", [&] { numbers(row.evidence); });
    });
  }

  void evidence_value(const char* name, double value) {
    constexpr double kExact = 0x1p53;
    if (value == std::floor(value) && std::abs(value) < kExact)
      out_(name, static_cast<std::int64_t>(value));
    else
      out_(name, value);
  }
  template <typename T>
  void evidence_value(const char* name, const T& value) {
    out_(name, value);
  }

  void numbers(const Evidence& evidence) {
    for (const auto& [key, value] : evidence.entries)
      std::visit([&, name = name_of(key)](const auto& known) { evidence_value(name, known); }, value);
  }

  void evidence(const Finding& row) {
    out_.object("evidence", [&] {
      numbers(row.evidence);
      if (row.site)
        out_.object("site", [&] {
          out_("op", text_or_null(row.site->op))("file", text_or_null(row.site->file));
          out_("line", or_null(row.site->line))("function", text_or_null(row.site->function));
        });
    });
  }

  void findings() {
    out_.rows("findings", a_.findings, [&](const Finding& row) {
      const SourceLocation& place = row.place;
      out_("kind", name_of(row.kind))("severity", name_of(row.severity))("share", row.share);
      out_("gain_s", row.gain_s)("estimate", row.is_estimate)("text", words::sentences(row, names_));
      out_("action", row.action == FindingAction::kNone ? MaybeText() : MaybeText(name_of(row.action)));
      evidence(row);
      out_("file", text_or_null(place.file))("line", or_null(place.line));
      out_("function", text_or_null(place.function))("op", text_or_null(place.op));
      out_("library_function", text_or_null(place.called));
      out_("rank", row.rank)("ranks", row.ranks);
      out_.rows("joined", row.joined, [&](const JoinedFinding& other) {
        out_("kind", name_of(other.kind))("share", other.share)("rank", other.rank);
        out_("action", other.action == FindingAction::kNone ? MaybeText() : MaybeText(name_of(other.action)));
        out_("file", text_or_null(other.place.file))("line", or_null(other.place.line));
        out_("function", text_or_null(other.place.function));
        out_("library_function", text_or_null(other.place.called));
        out_.object("evidence", [&] { numbers(other.evidence); });
      });
    });
  }

  const Analysis& a_;
  JsonWriter out_;
  const text::ShortPaths names_;
  const std::array<std::string, kActivities> activity_keys_;
  const std::array<std::string, shard::kCategories> category_keys_;
};

}  // namespace

void render_json(const Analysis& analysis, const JsonSink& sink) { Document(analysis, sink).write(); }

std::string render_json(const Analysis& analysis) {
  std::string text;
  render_json(analysis, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace clusterprof::report
