// SPDX-License-Identifier: BSD-3-Clause
// Writes an Analysis as JSON. Names and units are those of report.schema.json; keys are never renamed.
#include "report/analysis/efficiency.hpp"
#include "report/format/numbers.hpp"
#include "report/json/failure.hpp"
#include "report/json/report_document.hpp"
#include "report/report.hpp"
#include "report/words/drops.hpp"
#include "report/words/notes.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report {
namespace {

// "python" as "python_s", of names that do not change.
template <std::size_t N>
std::array<std::string, N> second_keys(const std::array<const char*, N>& names) {
  std::array<std::string, N> keys;
  for (std::size_t i = 0; i < N; ++i) keys[i] = std::string(names[i]) + "_s";
  return keys;
}

}  // namespace

ReportDocument::ReportDocument(const Analysis& analysis, const JsonSink& sink)
    : a_(analysis),
      out_(sink),
      names_(analysis),
      activity_keys_(second_keys(kActivityKeys)),
      category_keys_(second_keys(shard::kCategoryNames)) {}

void ReportDocument::write() {
  if (a_.last) {
    write_end(*a_.last);
    return;
  }
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
    torch_distributed();
    wait_analysis();
    root_causes();
    critical_path();
    windows();
    counters();
    io();
    memory();
    labelled_memory();
    off_cpu();
    mutexes();
    imports();
    timeline();
    processes();
    event_loops();
    openmp();
    tasks();
    threads();
    regions();
    quality();
    bottleneck();
    write_failure(out_, a_);
    findings();
    gains();
  });
  out_.finish();
}

void ReportDocument::dropped() {
  out_.object("dropped", [&] {
    for (const auto& [reason, count] : a_.run.dropped) out_(reason, count);
  });
}

void ReportDocument::run() {
  const RunInfo& run = a_.run;
  out_.object("run", [&] {
    out_("id", run.id)("command", run.command)("start_utc", utc_or_null(run.start_utc_ns));
    out_.rows("commands", run.commands,
              [&](const CommandRow& row) { out_("command", row.words)("ranks", row.ranks); });
    out_("elapsed_s", run.elapsed_s)("nodes", run.nodes)("ranks", run.ranks);
    out_("mpi_startup_s", a_.efficiency.parallel ? Seconds(a_.startup_s) : Seconds());
    out_("spawned_ranks", run.spawned_ranks)("world_size", or_null(run.world_size));
    out_("missing_ranks", run.missing_ranks)("rate_hz", run.rate_hz)("clock", run.clock);
    out_("launcher", text_or_null(run.launcher))("restarts", run.restarts);
    out_("region", text_or_null(run.region))("sample_on", text_or_null(run.sample_on));
    out_("only_regions", run.only_regions)("samples", run.samples);
    out_("standby", run.standby)("lasted_s", run.lasted_s);
    out_.rows("windows", run.windows, [&](const RecordingWindow& window) {
      out_("begin_s", window.begin_s)("end_s", window.end_s)("ranks", window.ranks);
    });
    dropped();
    out_.object("dropped_meaning", [&] {
      for (const auto& [reason, count] : a_.run.dropped)
        if (const std::string_view meaning = words::meaning_of_drop(reason); !meaning.empty())
          out_(reason, meaning);
    });
    out_("complete", run.complete)("state", name_of(run.state))("as_of_s", run.as_of_s);
    out_("snapshot_utc", utc_or_null(run.snapshot_utc_ns));
    out_("version", run.version);
    out_("mpi_library", text_or_null(run.mpi_library));
    settings(run.settings);
    std::vector<std::string> sentences;
    for (const NoteRecord& note : run.notes) sentences.push_back(words::sentence(note));
    out_("notes", sentences);
    out_.rows("note_records", run.notes, [&](const NoteRecord& note) { note_record(note); });
  });
}

void ReportDocument::settings(const std::vector<shard::Setting>& settings) {
  using shard::SettingKind;
  out_("commit", text_or_null(a_.run.commit()));
  std::vector<std::string> modules, compilers;
  std::vector<shard::Setting> variables;  // nodes may differ
  for (const shard::Setting& setting : settings) {
    if (setting.kind == SettingKind::kModule)
      modules.push_back(setting.name + (setting.value.empty() ? "" : "/" + setting.value));
    if (setting.kind == SettingKind::kCompiler) compilers.push_back(setting.value);
    if (setting.kind == SettingKind::kVariable) variables.push_back(setting);
  }
  out_("modules", modules)("compilers", compilers);
  out_.rows("environment", variables,
            [&](const shard::Setting& setting) { out_("name", setting.name)("value", setting.value); });
}

void ReportDocument::note_record(const NoteRecord& note) {
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

void ReportDocument::nodes() {
  out_.rows("nodes", a_.nodes, [&](const NodeInfo& node) {
    out_("name", node.name)("ranks", node.ranks)("elapsed_s", node.elapsed_s)("cpu_s", node.cpu_s);
    out_("collector_cpu_s", node.collector_cpu_s)("cpus", or_null(node.cpus));
    out_("numa_nodes", or_null(node.numa_nodes))("memory_bytes", or_null(node.memory_bytes));
    out_("cache_bytes", or_null(node.cache_bytes))("cpu_model", text_or_null(node.cpu_model));
    out_("cpu_busy", node.busy)("memory_used_bytes", node.memory_used_bytes);
    out_("network_received_bytes", node.received_bytes)("network_sent_bytes", node.sent_bytes);
    out_("disk_read_bytes", node.disk_read_bytes)("disk_written_bytes", node.disk_written_bytes);
    out_("memory_limit_bytes", or_null(node.group.limit_bytes));
    out_("memory_max_used_bytes", or_null(node.group.max_used_bytes));
    out_("memory_requested_bytes", or_null(node.requested_memory_bytes));
    out_("state", name_of(node.state))("as_of_s", node.as_of_s);
  });
}

void ReportDocument::ranks() {
  out_.rows("ranks", a_.ranks, [&](const RankInfo& rank) {
    out_("rank", rank.rank);
    out_("node", rank.node < a_.nodes.size() ? MaybeText(a_.nodes[rank.node].name) : MaybeText());
    out_("pid", rank.pid);
    if (rank.command < a_.run.commands.size())
      out_("command", a_.run.commands[rank.command].words);
    else
      out_("command", nullptr);
    out_("elapsed_s", rank.elapsed_s)("paused_s", rank.paused_s)("cpu_s", rank.cpu_s);
    out_("user_s", rank.user_s)("kernel_s", rank.kernel_s)("samples", rank.samples);
    out_("restart", rank.restart);
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

void ReportDocument::threads_efficiency() {
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

void ReportDocument::activities(const OptionalActivitySeconds& seconds) {
  out_.object("activities", [&] {
    for (std::size_t i = 0; i < kActivities; ++i) out_(activity_keys_[i], seconds[i]);
  });
}

void ReportDocument::derived(const std::vector<Derived>& list) {
  out_.rows("derived", list, [&](const Derived& row) {
    out_("name", row.name)("value", row.value)("unit", row.unit)("formula", row.formula);
  });
}

void ReportDocument::spread(const RankSpread& spread) {
  out_("rank_min_s", spread.min_s)("rank_mean_s", spread.mean_s)("rank_max_s", spread.max_s);
  out_("rank_max", spread.max_rank);
}

void ReportDocument::active_spread(const RankSpread& active) {
  out_("active_rank_min_s", active.min_s)("active_rank_mean_s", active.mean_s);
  out_("active_rank_max_s", active.max_s)("active_rank_max", active.max_rank);
}

// Of which runnable may not be known.
void ReportDocument::categories(const CategorySeconds& seconds) {
  constexpr auto kRunnable = static_cast<std::size_t>(shard::Category::kRunnable);
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    out_(category_keys_[c], c != kRunnable || a_.category_s[c] ? Seconds(seconds[c]) : Seconds());
}

void ReportDocument::place(LocationIndex place_index) {
  const SourceLocation& place = a_.places[place_index];
  out_("op", text_or_null(place.op))("file", text_or_null(place.file))("line", or_null(place.line));
  out_("function", text_or_null(place.function));
}

void ReportDocument::amounts(const CounterAmounts& amounts) {
  out_.object("counters", [&] {
    for (const auto& [counter, value] : amounts) out_(a_.counters[counter], value);
  });
}

void ReportDocument::seconds_by_name(std::string_view name, const std::map<std::string, double>& seconds) {
  if (a_.run.samples == 0) {
    out_(name, nullptr);
    return;
  }
  out_.object(name, [&] {
    for (const auto& [what, value] : seconds) out_(what, value);
  });
}

void render_json(const Analysis& analysis, const JsonSink& sink) { ReportDocument(analysis, sink).write(); }

std::string render_json(const Analysis& analysis) {
  std::string text;
  render_json(analysis, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace clusterprof::report
