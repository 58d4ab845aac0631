// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof dump`: prints every table of a shard or profile as text, one row per line, for debugging
// and for tests.
#include "cli/analyze/dump.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/command_text.hpp"
#include "formats/profile/file_kind.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_reader.hpp"
#include "formats/wire/mpi_event.h"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"

namespace clusterprof::cli {
namespace {

using namespace shard;
using Sink = std::function<void(std::string_view)>;

constexpr std::size_t kFlushBytes = 1 << 16;

class Text {
 public:
  explicit Text(const Sink& sink) : sink_(sink) {}
  ~Text() { sink_(buffer_); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  void table(const char* name, std::size_t rows, const char* columns) {
    buffer_ += "\n[";
    buffer_ += name;
    buffer_ += "] " + std::to_string(rows) + " rows\n" + columns + "\n";
  }
  template <typename... Fields>
  void row(const Fields&... fields) {
    bool first = true;
    ((first ? void(first = false) : void(buffer_ += '\t'), field(fields)), ...);
    buffer_ += '\n';
    if (buffer_.size() > kFlushBytes) {
      sink_(buffer_);
      buffer_.clear();
    }
  }

 private:
  // Quotes and backslashes of the text are escaped first: those that printable() adds are then clear.
  void field(const std::string& text) {
    std::string quoted;
    for (const char c : text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    buffer_ += '"' + report::format::printable(quoted) + '"';
  }
  void field(const char* word) { buffer_ += word; }
  void field(const PathId& id) {
    hexadecimal(id.high);
    hexadecimal(id.low);
  }
  // A set of bits, the highest first.
  void field(const std::array<std::uint64_t, 4>& bits) {
    for (auto word = bits.rbegin(); word != bits.rend(); ++word) hexadecimal(*word);
  }
  void field(double value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    buffer_.append(text, static_cast<std::size_t>(end - text));
  }
  template <typename T>
  requires std::is_integral_v<T>
  void field(T value) {
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      if (value == kNone) {
        buffer_ += "none";
        return;
      }
    }
    buffer_ += std::to_string(value);
  }
  void hexadecimal(std::uint64_t value) {
    char text[16];
    for (int i = 15; i >= 0; --i, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
    buffer_.append(text, sizeof text);
  }

  const Sink& sink_;
  std::string buffer_;
};

constexpr std::array<const char*, wire::kMpiEventKinds> kEventKindNames = {
    "send", "send_done", "receive", "probe", "collective", "collective_start", "collective_done"};

void dump_series(const ShardData& data, Text& out) {
  out.table("time_axis", 1, "bin_ns\torigin_utc_ns");
  out.row(data.time_axis.bin_ns, data.time_axis.origin_utc_ns);
  out.table("series", data.series.size(), "row\tname\tkind");
  for (std::size_t i = 0; i < data.series.size(); ++i)
    out.row(i, data.strings[data.series[i].name],
            data.series[i].kind == SeriesKind::kMaximum ? "maximum" : "sum");
  out.table("rank_series", data.rank_series.size(), "rank_row\tseries\tbin\tvalue");
  for (const RankSeries& s : data.rank_series) out.row(s.rank, s.series, s.bin, s.value);
  out.table("node_series", data.node_series.size(), "node\tseries\tbin\tvalue");
  for (const NodeSeries& s : data.node_series) out.row(s.node, s.series, s.bin, s.value);
  out.table("path_axis", 1, "bin_ns\torigin_utc_ns");
  out.row(data.path_axis.bin_ns, data.path_axis.origin_utc_ns);
  out.table("path_series", data.path_series.size(), "path\tbin\twall_ns\traw_wall_ns");
  for (const PathSeries& s : data.path_series) out.row(s.path, s.bin, s.wall_ns, s.raw_wall_ns);
  out.table("memory_series", data.memory_series.size(), "path\tbin\tkib_ms");
  for (const MemorySeries& s : data.memory_series) out.row(s.path, s.bin, s.kib_ms);
}

void dump_memory(const ShardData& data, Text& out) {
  out.table(
      "memory_ranks", data.memory_ranks.size(),
      "rank_row\tinterval_bytes\tpeak_bytes\tpeak_ns\tlive_end_bytes\tuntracked_bytes\t"
      "static_bytes\tmax_anon_bytes\tlive_at_max_anon_bytes\tmean_anon_bytes\tmean_live_bytes\tpss_bytes\t"
      "private_dirty_bytes\thuge_bytes\tswap_bytes\tnear_bytes\tfar_bytes");
  for (const MemoryRank& m : data.memory_ranks)
    out.row(m.rank, m.interval_bytes, m.peak_bytes, m.peak_ns, m.live_end_bytes, m.untracked_bytes,
            m.static_bytes, m.max_anon_bytes, m.live_at_max_anon_bytes, m.mean_anon_bytes, m.mean_live_bytes,
            m.pss_bytes, m.private_dirty_bytes, m.huge_bytes, m.swap_bytes, m.near_bytes, m.far_bytes);
  out.table("memory_sites", data.memory_sites.size(),
            "rank_row\tpath\tdomain\talloc_bytes\talloc_count\tvariance\tsoon_bytes\tsoon_count\tcopy_bytes\t"
            "copy_count\tlive_end_bytes\trank_peak_bytes\tnode_peak_bytes\tlive_by_age_0\tlive_by_age_1\t"
            "live_by_age_2\tlive_by_age_3\tlive_by_age_4\tlive_by_age_5\tlive_by_age_6\tlive_by_age_7");
  for (const MemorySite& m : data.memory_sites) {
    const auto& a = m.live_by_age;
    static_assert(MemorySite::kAges == 8);
    out.row(m.rank, m.path, kMemoryDomainNames[static_cast<std::size_t>(m.domain)], m.alloc_bytes,
            m.alloc_count, m.variance, m.soon_bytes, m.soon_count, m.copy_bytes, m.copy_count,
            m.live_end_bytes, m.rank_peak_bytes, m.node_peak_bytes, a[0], a[1], a[2], a[3], a[4], a[5], a[6],
            a[7]);
  }
}

// The matrix tables: those of a profile do not fit into memory, and are read once for each of them.
struct Matrix {
  std::size_t values = 0, path_counters = 0, data_accesses = 0;  // rows
  std::function<Result<void>(const std::function<void(const RankRows&)>&)> for_each;
};

Matrix matrix_of(const ShardData& data) {
  const auto all = [&data](const std::function<void(const RankRows&)>& use) {
    use({0, data.values, data.path_counters, data.data_accesses});
    return Result<void>();
  };
  return {data.values.size(), data.path_counters.size(), data.data_accesses.size(), all};
}

Result<Matrix> matrix_of(profile::ProfileReader& reader, std::size_t nodes) {
  Matrix matrix;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    const Result<MatrixRows> rows = reader.node(n);
    if (!rows) return rows.error();
    matrix.values += rows.value().values.size();
    matrix.path_counters += rows.value().path_counters.size();
    matrix.data_accesses += rows.value().data_accesses.size();
  }
  matrix.for_each = [&reader, nodes](const std::function<void(const RankRows&)>& use) -> Result<void> {
    for (std::uint32_t n = 0; n < nodes; ++n) {
      Result<MatrixRows> rows = reader.node(n);
      if (!rows) return rows.error();
      for_each_rank_of(std::move(rows.value()), use);
    }
    return {};
  };
  return matrix;
}

Result<void> dump_files_and_regions(const ShardData& data, const Matrix& matrix, Text& out) {
  out.table("io_files", data.io_files.size(), "row\tpath\tfile_system");
  for (std::size_t i = 0; i < data.io_files.size(); ++i)
    out.row(i, data.io_files[i].path, data.io_files[i].file_system);
  out.table("io_calls", data.io_calls.size(),
            "rank_row\tpath\tfile\toperation\tcount\tfailed\tbytes\ttime_ns\tmax_ns");
  for (const IoCall& c : data.io_calls)
    out.row(c.rank, c.path, c.file, kIoOperationNames[static_cast<std::size_t>(c.operation)], c.count,
            c.failed, c.bytes, c.time_ns, c.max_ns);
  out.table("data_accesses", matrix.data_accesses, "rank_row\tpath\tsamples\taccesses\tblocks");
  const Result<void> read = matrix.for_each([&](const RankRows& rows) {
    for (const DataAccess& a : rows.data_accesses) out.row(a.rank, a.path, a.samples, a.accesses, a.blocks);
  });
  if (!read) return read;
  out.table("region_times", data.region_times.size(),
            "rank_row\tpath\tcount\ttime_ns\tmin_ns\tmax_ns\tmax_n");
  for (const RegionTime& r : data.region_times)
    out.row(r.rank, r.path, r.count, r.time_ns, r.min_ns, r.max_ns, r.max_n);
  return {};
}

void dump_events(const ShardData& data, Text& out) {
  out.table(
      "mpi_events", data.mpi_events.size(),
      "row\trank_row\tthread\tpath\tcommunicator\top\tkind\tflags\tpeer\ttag\tsequence\tenter_ns\texit_ns\t"
      "start_ns\tmpi_ns\tbytes\tpaused_ns\tresumed_ns");
  for (std::size_t i = 0; i < data.mpi_events.size(); ++i) {
    const MpiEvent& e = data.mpi_events[i];
    out.row(i, e.rank, e.thread, e.path, e.communicator, data.strings[e.op], kEventKindNames[e.kind],
            unsigned{e.flags}, e.peer, e.tag, std::uint64_t{e.sequence}, e.enter_ns, e.exit_ns, e.start_ns,
            e.mpi_ns, e.bytes, e.paused_ns, e.resumed_ns);
  }
  out.table("event_gaps", data.event_gaps.size(), "event\tpath\twall_ns\tcpu_ns");
  for (const EventGap& g : data.event_gaps) out.row(g.event, g.path, g.wall_ns, g.cpu_ns);
  out.table("event_stretches", data.event_stretches.size(),
            "rank\tshared_begin_ns\tbegin_ns\tend_ns\tcomplete");
  for (const EventStretch& s : data.event_stretches)
    out.row(s.rank, s.shared_begin_ns, s.begin_ns, s.end_ns, s.complete);
  out.table("clock_offsets", data.clock_offsets.size(),
            "rank_row\treference_rank\tlocal_ns\toffset_ns\terror_ns");
  for (const ClockOffset& c : data.clock_offsets)
    out.row(c.rank, c.reference_rank, c.local_ns, c.offset_ns, c.error_ns);
}

void dump_waiting(const ShardData& data, Text& out) {
  const WaitAnalysis& a = data.wait_analysis;
  out.table(
      "wait_analysis", 1,
      "done\tideal_ns\tevent_level\toperations\tevents\tmessages\tunmatched_messages\tcollectives\t"
      "unmatched_collectives\tunreceived_messages\tclock_error_ns\tclock_violations\tworst_violation_ns");
  const std::string clock_error =
      a.clock_error_ns == kClocksApart ? "not comparable" : std::to_string(a.clock_error_ns);
  out.row(a.done, a.ideal_ns, a.event_level, a.operations, a.events, a.messages, a.unmatched_messages,
          a.collectives, a.unmatched_collectives, a.unreceived_messages, clock_error.c_str(),
          a.clock_violations, a.worst_violation_ns);
  out.table("unmatched_messages", data.unmatched_messages.size(),
            "rank_row\tpath\tcommunicator\treceiver_row\ttag\tcount");
  for (const UnmatchedMessages& m : data.unmatched_messages)
    out.row(m.rank, m.path, m.communicator, m.receiver, m.tag, m.count);
  out.table("wait_states", data.wait_states.size(),
            "rank_row\tpath\tkind\tcause_rank_row\tcause_path\twait_ns\tcount");
  for (const WaitState& w : data.wait_states)
    out.row(w.rank, w.path, kWaitKindNames[static_cast<std::size_t>(w.kind)], w.cause_rank, w.cause_path,
            w.wait_ns, w.count);
  out.table("root_causes", data.root_causes.size(), "rank_row\tpath\twait_ns\twaiting_ranks");
  for (const RootCause& c : data.root_causes) out.row(c.rank, c.path, c.wait_ns, c.waiting_ranks);
  out.table("critical_times", data.critical_times.size(), "rank_row\tpath\twall_ns");
  for (const CriticalTime& c : data.critical_times) out.row(c.rank, c.path, c.wall_ns);
  out.table("time_windows", data.time_windows.size(),
            "begin_ns\tend_ns\tuseful_mean_ns\tuseful_max_ns\twait_ns\tstartup_ns");
  for (const TimeWindow& w : data.time_windows)
    out.row(w.begin_ns, w.end_ns, w.useful_mean_ns, w.useful_max_ns, w.wait_ns, w.startup_ns);
}

void dump_run(const Run& run, Text& out) {
  out.table("run", 1,
            "id\tstart_utc_ns\tworld_size\trate_hz\tclock\tversion\tmpi_library\tcomplete\tsample_on\t"
            "only_regions\tstandby\tcounters_multiplexed");
  out.row(run.id, run.start_utc_ns, run.world_size, run.rate_hz, run.clock, run.version, run.mpi_library,
          run.complete, run.sample_on, run.only_regions, run.standby, run.counters_multiplexed);
  out.table("run/command", run.command.size(), "argument");
  for (const std::string& argument : run.command) out.row(argument);
  out.table("run/own", run.own.size(), "path");
  for (const std::string& path : run.own) out.row(path);
  out.table("notes", run.notes.size(), "code\tnode\tfirst_rank\tlast_rank\tnumber\ttext\tdetail");
  for (const shard::Note& n : run.notes)
    out.row(std::string(name_of(n.code)), n.node, n.first_rank, n.last_rank, n.number, n.text, n.detail);
}

void dump_nodes_and_ranks(const ShardData& data, Text& out) {
  out.table("nodes", data.nodes.size(),
            "row\tname\tstart_utc_ns\telapsed_ns\tcpu_ns\tcollector_cpu_ns\tcollector_max_rss_bytes\tcpus\t"
            "numa_nodes\tmemory_bytes\tcache_bytes\tcpu_model\tas_of_utc_ns\tnext_within_ns\tcollector\t"
            "group_limit_bytes\tgroup_used_bytes\tgroup_max_used_bytes\tgroup_limit_hits\t"
            "group_anon_bytes\tgroup_file_bytes\tgroup_shared_bytes\tgroup_kernel_bytes\t"
            "group_swap_bytes\trequested_memory_bytes\theld_peak_bytes\theld_peak_utc_ns");
  for (std::size_t i = 0; i < data.nodes.size(); ++i) {
    const Node& n = data.nodes[i];
    out.row(i, n.name, n.start_utc_ns, n.elapsed_ns, n.cpu_ns, n.collector_cpu_ns, n.collector_max_rss_bytes,
            n.cpus, n.numa_nodes, n.memory_bytes, n.cache_bytes, n.cpu_model, n.as_of_utc_ns,
            n.next_within_ns, n.collector, n.group.limit_bytes, n.group.used_bytes, n.group.max_used_bytes,
            n.group.limit_hits, n.group.anon_bytes, n.group.file_bytes, n.group.shared_bytes,
            n.group.kernel_bytes, n.group.swap_bytes, n.requested_memory_bytes, n.held_peak_bytes,
            n.held_peak_utc_ns);
  }
  out.table(
      "ranks", data.ranks.size(),
      "row\trank\tnode\tpid\tflags\tstart_utc_ns\telapsed_ns\tcpu_ns\tuser_ns\tsystem_ns\tsamples\tthreads\t"
      "processes\tmain_thread_python_ns\tmain_thread_native_ns\tmain_thread_system_ns\tmain_thread_mpi_ns\t"
      "main_thread_io_ns\tmain_thread_idle_ns\tmain_thread_runnable_ns\tmpi_ns\tmpi_wait_ns\tmpi_runnable_"
      "ns\t"
      "unsampled_threads\tunsampled_cpu_ns\tmpi_init_end_ns\tmpi_finalize_begin_ns\t"
      "mpi_helper_threads\tmpi_helper_elapsed_ns\tmpi_helper_ns\tmax_rss_bytes\tread_bytes\twrite_bytes\t"
      "minor_faults\tmajor_faults\tvoluntary_switches\tinvoluntary_switches\texit_status\texit_signal\t"
      "handler_ns\ttruncated\tmerges_tried\tmerges_failed\tpython_version\trunning_samples\trunning_ns\t"
      "event_level\tmpi_operations\tpaused_ns\tstandby_ns\taffinity\tnuma_nodes\tlast_call_path\tcommand");
  for (std::size_t i = 0; i < data.ranks.size(); ++i) {
    const Rank& r = data.ranks[i];
    const auto& m = r.main_thread_ns;
    static_assert(shard::kCategories == 7);
    out.row(i, r.rank, r.node, r.pid, r.flags, r.start_utc_ns, r.elapsed_ns, r.cpu_ns, r.user_ns, r.system_ns,
            r.samples, r.threads, r.processes, m[0], m[1], m[2], m[3], m[4], m[5], m[6], r.mpi_ns,
            r.mpi_wait_ns, r.mpi_runnable_ns, r.unsampled_threads, r.unsampled_cpu_ns, r.mpi_init_end_ns,
            r.mpi_finalize_begin_ns, r.mpi_helper_threads, r.mpi_helper_elapsed_ns, r.mpi_helper_ns,
            r.max_rss_bytes, r.read_bytes, r.write_bytes, r.minor_faults, r.major_faults,
            r.voluntary_switches, r.involuntary_switches, r.exit_status, r.exit_signal, r.handler_ns,
            r.truncated, r.merges_tried, r.merges_failed, r.python_version, r.running_samples, r.running_ns,
            r.event_level, r.mpi_operations, r.paused_ns, r.standby_ns, data.strings[r.affinity],
            data.strings[r.numa_nodes], data.strings[r.last_call_path], data.strings[r.command]);
  }
}

void dump_paths(const ShardData& data, Text& out) {
  out.table("strings", data.strings.size(), "row\ttext");
  for (std::size_t i = 0; i < data.strings.size(); ++i) out.row(i, data.strings[i]);
  out.table("frames", data.frames.size(),
            "row\tkind\tinlined\tname\tfile\tmodule\tline\tfunction_line\tline_approximate");
  for (std::size_t i = 0; i < data.frames.size(); ++i) {
    const Frame& f = data.frames[i];
    out.row(i, report::format::frame_kind_name(f.kind), f.inlined, data.strings[f.name], data.strings[f.file],
            data.strings[f.module], f.line, f.function_line, f.line_approximate);
  }
  out.table("paths", data.paths.size(), "row\tid\tparent\tframe");
  for (std::size_t i = 0; i < data.paths.size(); ++i)
    out.row(i, data.paths[i].id, data.paths[i].parent, data.paths[i].frame);
}

Result<void> dump_values(const Matrix& matrix, Text& out) {
  out.table("values", matrix.values, "rank_row\tpath\tcategory\tmain_thread\twall_ns\tcpu_ns\tsamples");
  return matrix.for_each([&](const RankRows& rows) {
    for (const Value& v : rows.values)
      out.row(v.rank, v.path, kCategoryNames[static_cast<std::size_t>(v.category)], v.main_thread, v.wall_ns,
              v.cpu_ns, v.samples);
  });
}

void dump_mpi(const ShardData& data, Text& out) {
  out.table("mpi_calls", data.mpi_calls.size(),
            "rank_row\tpath\tcommunicator\tcount\ttime_ns\tmin_ns\tmax_ns\tsent_bytes\trecv_bytes\t"
            "main_thread\tunfinished");
  for (const MpiCall& c : data.mpi_calls)
    out.row(c.rank, c.path, c.communicator, c.count, c.time_ns, c.min_ns, c.max_ns, c.sent_bytes,
            c.recv_bytes, c.main_thread, c.unfinished);
  out.table("calls_under_way", data.calls_under_way.size(),
            "rank_row\ttid\tmain_thread\tpath\tcommunicator\tsequence\tpeer\ttag\troot\tenter_ns\tlasted_ns\t"
            "requests\topen_requests\tagreed_bytes");
  for (const CallUnderWay& c : data.calls_under_way)
    out.row(c.rank, c.tid, c.main_thread, c.path, c.communicator, c.sequence, c.peer, c.tag, c.root,
            c.enter_ns, c.lasted_ns, c.requests, c.open_requests, c.agreed_bytes);
  static constexpr const char* kPendingKinds[] = {"?", "send", "receive", "collective"};
  out.table("pending_requests", data.pending_requests.size(), "rank_row\ttid\tenter_ns\tkind\tpeer");
  for (const PendingRequest& r : data.pending_requests)
    out.row(r.rank, r.tid, r.enter_ns, kPendingKinds[static_cast<std::size_t>(r.kind)], r.peer);
  out.table("collective_counts", data.collective_counts.size(),
            "rank_row\tpath\tcommunicator\tcount\tagreed_bytes");
  for (const CollectiveCount& c : data.collective_counts)
    out.row(c.rank, c.path, c.communicator, c.count, c.agreed_bytes);
  out.table("group_numbers", data.group_numbers.size(), "rank_row\tcommunicator\tnumber");
  for (const GroupNumber& g : data.group_numbers) out.row(g.rank, g.communicator, g.number);
  out.table("group_messages", data.group_messages.size(),
            "rank_row\tcommunicator\tdestination\tmessages\tbytes");
  for (const GroupMessages& g : data.group_messages)
    out.row(g.rank, g.communicator, g.destination, g.messages, g.bytes);
  out.table("mpi_errors", data.mpi_errors.size(),
            "rank_row\tpath\tcommunicator\terror_class\tpeer\ttag\tmessage\tcount\tfirst_ns\tname\ttext");
  for (const MpiError& e : data.mpi_errors)
    out.row(e.rank, e.path, e.communicator, e.error_class, e.peer, e.tag, e.message, e.count, e.first_ns,
            e.name, e.text);
  out.table("open_requests", data.open_requests.size(),
            "rank_row\tpath\tcommunicator\tkind\tpeer\ttag\tcount");
  for (const OpenRequests& r : data.open_requests)
    out.row(r.rank, r.path, r.communicator, unsigned{r.kind}, r.peer, r.tag, r.count);
  out.table("communicators", data.communicators.size(), "row\tidentity\tsize\tname");
  for (std::size_t i = 0; i < data.communicators.size(); ++i)
    out.row(i, data.communicators[i].identity, data.communicators[i].size, data.communicators[i].name);
  out.table("matrix", data.matrix.size(), "source\tdestination\tmessages\tbytes");
  for (const MatrixCell& c : data.matrix) out.row(c.source, c.destination, c.messages, c.bytes);
  out.table("mpi_sizes", data.mpi_sizes.size(), "op\tle_bytes\tcount");
  for (const MpiSize& s : data.mpi_sizes) out.row(data.strings[s.op], s.le_bytes, s.count);
}

Result<void> dump_counters(const ShardData& data, const Matrix& matrix, Text& out) {
  out.table("counters", data.counters.size(), "row\tname");
  for (std::size_t i = 0; i < data.counters.size(); ++i) out.row(i, data.counters[i]);
  out.table("counter_values", data.counter_values.size(), "rank_row\tcounter\tvalue");
  for (const CounterValue& c : data.counter_values) out.row(c.rank, c.counter, c.value);
  out.table("path_counters", matrix.path_counters, "rank_row\tpath\tcounter\tvalue");
  return matrix.for_each([&](const RankRows& rows) {
    for (const PathCounter& c : rows.path_counters) out.row(c.rank, c.path, c.counter, c.value);
  });
}

void dump_losses(const ShardData& data, Text& out) {
  out.table("unavailable_counters", data.unavailable_counters.size(), "name\treason");
  for (const UnavailableCounter& c : data.unavailable_counters) out.row(c.name, c.reason);
  out.table("settings", data.settings.size(), "kind\tname\tvalue");
  for (const Setting& s : data.settings) out.row(static_cast<int>(s.kind), s.name, s.value);
  out.table("processes", data.processes.size(),
            "rank_row\tpath\tpid\tparent_pid\torigin\tunrecorded\tflags\texit_status\texit_"
            "signal\tcount\tstart_utc_ns\t"
            "elapsed_ns\tcpu_ns\tcpu_min_ns\tcpu_max_ns\tchildren_cpu_ns\ttop_path\ttop_ns\tcommand");
  for (const Process& p : data.processes)
    out.row(p.rank, p.path, p.pid, p.parent_pid, kProcessOriginNames[static_cast<std::size_t>(p.origin)],
            shard::unrecorded_name(p.unrecorded), unsigned{p.flags}, p.exit_status, p.exit_signal, p.count,
            p.start_utc_ns, p.elapsed_ns, p.cpu_ns, p.cpu_min_ns, p.cpu_max_ns, p.children_cpu_ns, p.top_path,
            p.top_ns, fmt::to_string(fmt::join(command_words(p.command), " ")));
  out.table("event_loops", data.event_loops.size(),
            "rank_row\tpath\tpid\ttid\tmain_thread\tnumber\tstart_utc_ns\tturns\tidle_ns\tbusy_ns\tblocked\t"
            "blocked_ns\tlongest_ns\tlongest_utc_ns\tlengths\tthread");
  for (const EventLoop& l : data.event_loops)
    out.row(l.rank, l.path, l.pid, l.tid, unsigned{l.main_thread}, l.number, l.start_utc_ns, l.turns,
            l.idle_ns, l.busy_ns, l.blocked, l.blocked_ns, l.longest_ns, l.longest_utc_ns,
            fmt::to_string(fmt::join(l.lengths, ",")), l.thread);
  out.table("loop_blocks", data.loop_blocks.size(),
            "rank_row\tpath\tpid\ttid\tnumber\tstart_utc_ns\tbegin_utc_ns\tturn_ns\twall_ns\tflags");
  for (const LoopBlock& b : data.loop_blocks)
    out.row(b.rank, b.path, b.pid, b.tid, b.number, b.start_utc_ns, b.begin_utc_ns, b.turn_ns, b.wall_ns,
            unsigned{b.flags});
  out.table("mutex_waits", data.mutex_waits.size(),
            "rank_row\tpath\tholder_path\tmutex\twait_ns\tsamples\tlongest_ns\tname");
  for (const MutexWait& w : data.mutex_waits)
    out.row(w.rank, w.path, w.holder_path, w.mutex, w.wait_ns, w.samples, w.longest_ns, w.name);
  out.table("memory_spaces", data.memory_spaces.size(),
            "rank_row\tprocesses\tallocations\tfrees\talloc_bytes\tlive_end_bytes\tpeak_bytes\tpeak_utc_ns\t"
            "unknown_frees\tunknown_bytes\tname");
  for (const MemorySpace& s : data.memory_spaces)
    out.row(s.rank, s.processes, s.allocations, s.frees, s.alloc_bytes, s.live_end_bytes, s.peak_bytes,
            s.peak_utc_ns, s.unknown_frees, s.unknown_bytes, s.name);
  out.table(
      "memory_labels", data.memory_labels.size(),
      "rank_row\tallocations\tfrees\talloc_bytes\tlive_end_bytes\tpeak_bytes\tspace_peak_bytes\tspace\tname");
  for (const MemoryLabel& l : data.memory_labels)
    out.row(l.rank, l.allocations, l.frees, l.alloc_bytes, l.live_end_bytes, l.peak_bytes, l.space_peak_bytes,
            l.space, l.name);
  out.table("memory_copies", data.memory_copies.size(), "rank_row\tcount\tbytes\tto\tfrom");
  for (const MemoryCopies& c : data.memory_copies) out.row(c.rank, c.count, c.bytes, c.to, c.from);
  out.table("thread_spans", data.thread_spans.size(),
            "rank_row\tthread\tnumber\tother\thow\tbegin_ns\tcall_ns\tend_ns\tmpi_thread");
  for (const ThreadSpan& s : data.thread_spans)
    out.row(s.rank, s.thread, s.number, s.other, shard::kSpanEndNames[static_cast<std::size_t>(s.how)],
            s.begin_ns, s.call_ns, s.end_ns, s.mpi_thread);
  out.table("span_times", data.span_times.size(), "rank_row\tthread\tnumber\tpath\twall_ns");
  for (const SpanTime& t : data.span_times) out.row(t.rank, t.thread, t.number, t.path, t.wall_ns);
  out.table("omp_ranks", data.omp_ranks.size(), "rank_row\tmethod\tflags\tprocessors\truntime");
  for (const OmpRank& r : data.omp_ranks)
    out.row(r.rank, omp_method_name(r.method), unsigned{r.flags}, r.processors, r.runtime);
  out.table("omp_regions", data.omp_regions.size(),
            "rank_row\tpath\tthreads\tlevel\tmain\tkind\tasked\tcount\tunfinished\ttime_ns\tmpi_ns\t"
            "longest_ns\tthreads_ns\twait_ns\tinner_wait_ns\tschedule_ns");
  for (const OmpRegion& r : data.omp_regions)
    out.row(r.rank, r.path, r.threads, unsigned{r.level}, unsigned{r.main}, omp_kind_name(r.kind), r.asked,
            r.count, r.unfinished, r.time_ns, r.mpi_ns, r.longest_ns, r.threads_ns, r.wait_ns,
            r.inner_wait_ns, r.schedule_ns);
  out.table("omp_threads", data.omp_threads.size(),
            "rank_row\tpath\tthreads\tlevel\tmain\tnumber\tcount\ttime_ns\twait_ns\tinner_wait_ns\t"
            "schedule_ns");
  for (const OmpThread& t : data.omp_threads)
    out.row(t.rank, t.path, t.threads, unsigned{t.level}, unsigned{t.main}, t.number, t.count, t.time_ns,
            t.wait_ns, t.inner_wait_ns, t.schedule_ns);
  out.table("omp_constructs", data.omp_constructs.size(),
            "rank_row\tregion_path\tthreads\tlevel\tmain\tpath\tkind\tcount\ttime_ns\twait_ns\tschedule_ns\t"
            "chunks\titerations\tlongest_ns\tused\tschedules");
  for (const OmpConstruct& c : data.omp_constructs)
    out.row(c.rank, c.region_path, c.threads, unsigned{c.level}, unsigned{c.main}, c.path,
            omp_kind_name(c.kind), c.count, c.time_ns, c.wait_ns, c.schedule_ns, c.chunks, c.iterations,
            c.longest_ns, c.used, unsigned{c.schedules});
  out.table("task_times", data.task_times.size(),
            "rank_row\tpath\ttask_path\twall_ns\tcpu_ns\tsamples\tname");
  for (const TaskTime& t : data.task_times)
    out.row(t.rank, t.path, t.task_path, t.wall_ns, t.cpu_ns, t.samples, t.name);
  out.table(
      "threads", data.threads.size(),
      "rank_row\tpath\ttop_path\tlast_path\tpid\ttid\tkind\tflags\tcount\tstart_utc_ns\telapsed_ns\tcpu_ns\t"
      "cpu_min_ns\tcpu_max_ns\tunmoved_ns\tunmoved_cpu_ns\tlast_category\tname");
  for (const Thread& t : data.threads)
    out.row(t.rank, t.path, t.top_path, t.last_path, t.pid, t.tid, shard::thread_kind_name(t.kind),
            unsigned{t.flags}, t.count, t.start_utc_ns, t.elapsed_ns, t.cpu_ns, t.cpu_min_ns, t.cpu_max_ns,
            t.unmoved_ns, t.unmoved_cpu_ns, kCategoryNames[static_cast<std::size_t>(t.last_category)],
            t.name);
  out.table("recording_windows", data.recording_windows.size(), "rank_row\tbegin_ns\tend_ns");
  for (const RecordingWindow& w : data.recording_windows) out.row(w.rank, w.begin_ns, w.end_ns);
  out.table("failures", data.failures.size(),
            "rank_row\tflags\tsignal\taddress\tinstruction\tabort_code\tmessage\tstderr_tail");
  for (const Failure& f : data.failures)
    out.row(f.rank, unsigned{f.flags}, f.signal, f.address, f.instruction, f.abort_code, f.message,
            f.stderr_tail);
  out.table("drops", data.drops.size(), "rank_row\treason\tcount");
  for (const Drop& d : data.drops) out.row(d.rank, d.reason, d.count);
  out.table("handler_costs", data.handler_costs.size(), "rank_row\tle_ns\tcount");
  for (const HandlerCost& c : data.handler_costs) out.row(c.rank, c.le_ns, c.count);
}

Result<void> dump_tables(const ShardData& data, const Matrix& matrix, Text& out) {
  dump_run(data.run, out);
  dump_nodes_and_ranks(data, out);
  dump_paths(data, out);
  if (Result<void> read = dump_values(matrix, out); !read) return read;
  dump_mpi(data, out);
  if (Result<void> read = dump_counters(data, matrix, out); !read) return read;
  dump_losses(data, out);
  dump_series(data, out);
  Result<void> read = dump_files_and_regions(data, matrix, out);
  dump_memory(data, out);
  dump_events(data, out);
  dump_waiting(data, out);
  return read;
}

std::string squares_text(profile::Squares value) {
  std::string digits;
  do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  while ((value /= 10) != 0);
  return digits;
}

void dump_raw_times(const ShardData& data, Text& out) {
  out.table("raw_main_thread", data.ranks.size() * kCategories, "rank_row\tcategory\twall_ns");
  for (std::size_t i = 0; i < data.ranks.size(); ++i)
    for (std::size_t c = 0; c < kCategories; ++c)
      out.row(i, kCategoryNames[c], data.ranks[i].raw_main_thread_ns[c]);
}

void dump_profile_tables(const profile::PathStatisticsTable& table,
                         const std::vector<profile::Source>& sources, Text& out) {
  const std::vector<profile::PathStatistics>& statistics = table.paths;
  out.table(
      "path_statistics", statistics.size(),
      "path\tranks\tinclusive_sum_ns\tinclusive_min_ns\tinclusive_max_ns\tinclusive_min_rank\t"
      "inclusive_max_rank\tinclusive_sum_squares_ns2\texclusive_sum_ns\texclusive_min_ns\texclusive_max_ns\t"
      "exclusive_min_rank\texclusive_max_rank\texclusive_sum_squares_ns2");
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    const profile::Spread& a = statistics[i].inclusive;
    const profile::Spread& b = statistics[i].exclusive;
    out.row(i, statistics[i].ranks, a.sum_ns, a.min_ns, a.max_ns, a.min_rank, a.max_rank,
            squares_text(a.sum_squares_ns2).c_str(), b.sum_ns, b.min_ns, b.max_ns, b.min_rank, b.max_rank,
            squares_text(b.sum_squares_ns2).c_str());
  }
  out.table("sources", sources.size(), "name\tsize_bytes\tmerged");
  for (const profile::Source& source : sources) out.row(source.name, source.size_bytes, source.merged);
}

void dump_gains(const profile::Gains& gains, Text& out) {
  out.table("gains", gains.rows.size(), "change\tfile\tline\tfunction\trank\tpredicted_s\tgain_s\terror_s");
  for (const profile::PredictedGain& row : gains.rows)
    out.row(row.change, row.file, row.line, row.function, row.rank, row.predicted_s, row.gain_s, row.error_s);
  out.table("gains_refused", gains.refused_changes.size(), "change\treason");
  for (const profile::RefusedChange& row : gains.refused_changes) out.row(row.change, row.reason);
  out.table("gains_run", 1,
            "from_sums\trefused\telapsed_s\treplayed_s\tstretches\tstretches_s\tcandidates\ttried");
  out.row(gains.from_sums, gains.refused, gains.elapsed_s, gains.replayed_s, gains.stretches,
          gains.stretches_s, gains.candidates, gains.tried);
}

void dump_quantiles(const profile::PathStatisticsTable& table, Text& out) {
  out.table("path_quantiles", table.quantile_bins.size(), "path\texclusive\tbin\tranks");
  for (const profile::QuantileBin& bin : table.quantile_bins)
    out.row(bin.path, bin.exclusive, bin.bin, bin.ranks);
}

}  // namespace

Result<void> dump(const std::filesystem::path& file, const Sink& write) {
  const Result<profile::FileKind> kind = profile::file_kind(file);
  if (!kind) return kind.error();
  if (kind.value() == profile::FileKind::kShard) {
    const Result<ShardData> data = read_shard(file);
    if (!data) return data.error();
    write("clusterprof-shard\n");
    Text text(write);
    return dump_tables(data.value(), matrix_of(data.value()), text);
  }
  Result<profile::ProfileReader> reader = profile::ProfileReader::open(file);
  if (!reader) return reader.error();
  const Result<const ShardData*> head = reader.value().head();
  if (!head) return head.error();
  const Result<profile::PathStatisticsTable> statistics = reader.value().statistics();
  if (!statistics) return statistics.error();
  const Result<std::vector<profile::Source>> sources = reader.value().sources();
  if (!sources) return sources.error();
  const Result<std::optional<profile::Gains>> gains = reader.value().gains();
  if (!gains) return gains.error();
  const Result<Matrix> matrix = matrix_of(reader.value(), head.value()->nodes.size());
  if (!matrix) return matrix.error();
  write("clusterprof-profile\n");
  Text text(write);
  const Result<void> tables = dump_tables(*head.value(), matrix.value(), text);
  if (!tables) return tables;
  dump_raw_times(*head.value(), text);
  dump_profile_tables(statistics.value(), sources.value(), text);
  dump_quantiles(statistics.value(), text);
  if (gains.value()) dump_gains(*gains.value(), text);
  return {};
}

}  // namespace clusterprof::cli
