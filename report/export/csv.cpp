// SPDX-License-Identifier: BSD-3-Clause
// Exports the tables of a run as CSV: functions, lines, MPI calls, torch.distributed, ranks, processes,
// imports, threads, OpenMP's regions, memory and call paths. docs/exports.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <optional>
#include <stdexcept>
#include <string>

#include "report/export/charged_rows.hpp"
#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report {
namespace {

using shard::ShardData;

// Records of RFC 4180. What was not measured is an empty field.
class Csv {
 public:
  explicit Csv(const ExportSink& sink) : sink_(sink) {}

  template <typename... Ts>
  void row(const Ts&... values) {
    (field(values), ...);
    end_row();
  }
  void field(std::string_view value) {
    separate();
    std::string valid = format::replace_invalid(value);
    // Spreadsheets would calculate it.
    if (!valid.empty() && std::string_view("=+-@\t\r").find(valid.front()) != std::string_view::npos)
      valid.insert(valid.begin(), '\'');
    if (valid.find_first_of(",\"\r\n") == std::string::npos) {
      line_ += valid;
      return;
    }
    line_ += '"';
    for (const char c : valid) line_.append(c == '"' ? 2 : 1, c);
    line_ += '"';
  }
  void field(const char* value) { field(std::string_view(value)); }
  void field(const std::string& value) { field(std::string_view(value)); }
  template <std::integral T>
  void field(T value) {
    separate();
    line_ += fmt::format("{}", value);
  }
  void field(double seconds) {
    separate();
    if (!std::isfinite(seconds)) return;
    std::string text = fmt::format("{:.9f}", seconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    line_ += text == "-0" ? "0" : text;
  }
  template <typename T>
  void field(const std::optional<T>& value) {
    if (value)
      field(*value);
    else
      field(std::string_view());
  }
  template <typename T, std::size_t N>
  void field(const std::array<T, N>& values) {
    for (const T& value : values) field(value);
  }
  void ns(std::uint64_t value) {  // as seconds, exact
    separate();
    std::string text = fmt::format("{}.{:09}", value / 1'000'000'000, value % 1'000'000'000);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    line_ += text;
  }
  void end_row() {
    line_ += "\r\n";
    first_ = true;
    if (line_.size() >= kFlush_bytes) flush();
  }
  void flush() {
    sink_(line_);
    line_.clear();
  }

 private:
  static constexpr std::size_t kFlush_bytes = 1 << 16;
  void separate() {
    if (!first_) line_ += ',';
    first_ = false;
  }

  const ExportSink& sink_;
  std::string line_;
  bool first_ = true;
};

std::array<std::string, shard::kCategories> category_titles() {
  std::array<std::string, shard::kCategories> titles;
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    titles[c] = std::string(shard::kCategoryNames[c]) + "_s";
  return titles;
}

std::optional<std::uint32_t> known(std::uint32_t line) {
  return line == 0 ? std::optional<std::uint32_t>() : line;
}
Seconds imbalance(const RankSpread& spread) {
  return spread.mean_s > 0 ? Seconds(spread.max_s / spread.mean_s) : Seconds();
}

void write_functions(const Analysis& analysis, Csv& csv) {
  csv.row("name", "file", "line", "kind", "module", "self_s", "total_s", "cpu_s", category_titles(),
          "rank_min_s", "rank_mean_s", "rank_max_s", "rank_max", "imbalance", "active_self_s",
          "active_total_s", "active_rank_min_s", "active_rank_mean_s", "active_rank_max_s", "active_rank_max",
          "active_imbalance");
  for (const FunctionRow& row : analysis.functions) {
    const RankSpread &all = row.spread, &active = row.active_spread;
    csv.row(row.name, row.file, known(row.line), format::frame_kind_name(row.kind), row.module, row.self_s,
            row.total_s, row.cpu_s, row.category_s, all.min_s, all.mean_s, all.max_s, all.max_rank,
            imbalance(all), row.active_self_s, row.active_total_s, active.min_s, active.mean_s, active.max_s,
            active.max_rank, imbalance(active));
  }
}

void write_lines(const Analysis& analysis, Csv& csv) {
  csv.row("file", "line", "function", "self_s", "total_s", "cpu_s", category_titles(), "approximate_s",
          "active_self_s", "active_total_s", "active_rank_min_s", "active_rank_mean_s", "active_rank_max_s",
          "active_rank_max");
  for (const LineRow& row : analysis.lines) {
    const RankSpread& active = row.active_spread;
    csv.row(row.file, row.line, row.function, row.self_s, row.total_s, row.cpu_s, row.category_s,
            row.approximate_s, row.active_self_s, row.active_total_s, active.min_s, active.mean_s,
            active.max_s, active.max_rank);
  }
}

void write_ranks(const Analysis& analysis, Csv& csv) {
  csv.row("rank", "node", "pid", "elapsed_s", "cpu_s", "samples", "threads", category_titles(), "useful_s",
          "mpi_wait_s", "mpi_transfer_s", "max_rss_bytes", "read_bytes", "write_bytes", "exit_status",
          "exit_signal", "lost");
  for (const RankInfo& row : analysis.ranks)
    csv.row(row.rank, row.node < analysis.nodes.size() ? analysis.nodes[row.node].name : std::string(),
            row.pid, row.elapsed_s, row.cpu_s, row.samples, row.threads, row.category_s, row.useful_s,
            row.mpi_wait_s, row.mpi_transfer_s, row.max_rss_bytes, row.read_bytes, row.write_bytes,
            row.exit_status, row.exit_signal, row.lost ? 1 : 0);
}

void write_mpi_calls(const Analysis& analysis, Csv& csv) {
  csv.row("op", "file", "line", "function", "count", "time_s", "wait_s", "sent_bytes", "recv_bytes",
          "rank_min_s", "rank_mean_s", "rank_max_s", "rank_max");
  for (const MpiCallRow& row : analysis.mpi_calls)
    csv.row(row.op, row.file, known(row.line), row.function, row.count, row.time_s, row.wait_s,
            row.sent_bytes, row.recv_bytes, row.spread.min_s, row.spread.mean_s, row.spread.max_s,
            row.spread.max_rank);
}

void write_torch(const Analysis& analysis, Csv& csv) {
  csv.row("op", "kind", "file", "line", "function", "count", "samples", "time_s", "wait_s", "blocked_s",
          "runnable_s", "running_s", "rank_min_s", "rank_mean_s", "rank_max_s", "rank_max");
  for (const TorchRow& row : analysis.torch.rows)
    csv.row(row.op, name_of(row.kind), row.file, known(row.line), row.function, row.count, row.samples,
            row.time_s, row.wait_s, row.blocked_s, row.runnable_s, row.running_s, row.spread.min_s,
            row.spread.mean_s, row.spread.max_s, row.spread.max_rank);
}

void write_processes(const Analysis& analysis, Csv& csv) {
  csv.row("rank", "pid", "ppid", "how", "program", "command", "count", "start_s", "end_s", "cpu_s",
          "children_cpu_s", "created_by_file", "created_by_line", "created_by_function", "top_file",
          "top_line", "top_function", "top_s", "exit_status", "exit_signal", "unrecorded");
  for (const ProcessRow& row : analysis.processes)
    csv.row(row.rank, row.pid, row.parent_pid, kProcessHowNames[static_cast<std::size_t>(row.how)],
            analysis.process_groups[row.group].program, format::command_line(row.command), row.count,
            row.start_s, row.runs ? Seconds() : Seconds(row.start_s + row.elapsed_s), row.cpu_s,
            row.children_cpu_s, row.created_by.file, known(row.created_by.line), row.created_by.function,
            row.top.file, known(row.top.line), row.top.function, row.top_s, row.exit_status, row.exit_signal,
            shard::unrecorded_name(row.unrecorded));
}

void write_imports(const Analysis& analysis, Csv& csv) {
  csv.row("package", "time_s", "self_s", "main_thread_s", "ranks", "rank_min_s", "rank_mean_s", "rank_max_s",
          "rank_max", "direct", "own", "file", "line", "function");
  for (const ImportRow& row : analysis.imports)
    csv.row(row.package, row.time_s, row.self_s, row.main_thread_s, row.ranks, row.spread.min_s,
            row.spread.mean_s, row.spread.max_s, row.spread.max_rank, row.is_direct ? 1 : 0, row.own ? 1 : 0,
            row.file, known(row.line), row.function);
}

void write_threads(const Analysis& analysis, Csv& csv) {
  csv.row("rank", "pid", "tid", "name", "kind", "count", "start_s", "end_s", "elapsed_s", "cpu_s", "top_file",
          "top_line", "top_function");
  for (const ThreadRow& row : analysis.threads)
    csv.row(row.rank, row.pid, row.tid, row.name, shard::thread_kind_name(row.kind), row.count, row.start_s,
            row.runs ? Seconds() : Seconds(row.start_s + row.elapsed_s), row.elapsed_s, row.cpu_s,
            row.top.file, known(row.top.line), row.top.function);
}

void write_openmp(const Analysis& analysis, Csv& csv) {
  csv.row("file", "line", "function", "kind", "level", "count", "time_s", "threads", "threads_asked",
          "threads_s", "work_s", "wait_s", "end_wait_s", "serial_s", "schedule_s", "imbalance", "efficiency",
          "rank_min_s", "rank_mean_s", "rank_max_s", "rank_max", "load_balance", "scheduling",
          "serialization");
  if (!analysis.openmp) return;
  for (const OpenMpRegionRow& row : analysis.openmp->regions)
    csv.row(row.place.file, known(row.place.line), row.place.function, row.is_teams ? "teams" : "parallel",
            row.level, row.count, row.time_s, row.threads, known(row.threads_asked), row.thread_s, row.work_s,
            row.wait_s, row.end_wait_s, row.serial_s, row.schedule_s, row.imbalance, row.efficiency.parallel,
            row.spread.min_s, row.spread.mean_s, row.spread.max_s, row.spread.max_rank,
            row.efficiency.load_balance, row.efficiency.scheduling, row.efficiency.serialization);
}

void write_openmp_ranks(const Analysis& analysis, Csv& csv) {
  csv.row("file", "line", "function", "kind", "rank", "count", "time_s", "threads", "threads_s", "work_s",
          "wait_s", "serial_s", "schedule_s", "imbalance", "efficiency", "load_balance", "scheduling",
          "serialization");
  if (!analysis.openmp) return;
  for (const OpenMpRegionRow& region : analysis.openmp->regions)
    for (const OpenMpRegionRank& row : region.ranks)
      csv.row(region.place.file, known(region.place.line), region.place.function,
              region.is_teams ? "teams" : "parallel", row.rank, row.count, row.time_s, row.threads,
              row.thread_s, row.work_s, row.wait_s, row.serial_s, row.schedule_s, row.imbalance,
              row.efficiency.parallel, row.efficiency.load_balance, row.efficiency.scheduling,
              row.efficiency.serialization);
}

void write_openmp_threads(const Analysis& analysis, Csv& csv) {
  csv.row("file", "line", "function", "kind", "rank", "thread", "work_s", "wait_s");
  if (!analysis.openmp) return;
  for (const OpenMpRegionRow& region : analysis.openmp->regions)
    for (const OpenMpRegionRank& rank : region.ranks)
      for (const OpenMpThreadRow& row : rank.threads_of_team)
        csv.row(region.place.file, known(region.place.line), region.place.function,
                region.is_teams ? "teams" : "parallel", rank.rank, row.number, row.work_s, row.wait_s);
}

void write_locks(const Analysis& analysis, Csv& csv) {
  csv.row("name", "rank", "address", "mutexes", "wait_s", "waits", "longest_s", "rank_min_s", "rank_mean_s",
          "rank_max_s", "rank_max", "file", "line", "function", "holder_file", "holder_line",
          "holder_function", "kind");
  for (const LockRow& row : analysis.locks) {
    // Where threads waited and where it was held for longest.
    const SourceLocation line = row.lines.empty() ? SourceLocation() : row.lines.front().place;
    const SourceLocation holder = row.holders.empty() ? SourceLocation() : row.holders.front().place;
    csv.row(row.name, row.rank, row.address == 0 ? std::string() : fmt::format("{:#x}", row.address),
            row.mutexes, row.wait_s, row.waits, row.longest_s, row.spread.min_s, row.spread.mean_s,
            row.spread.max_s, row.spread.max_rank, line.file, known(line.line), line.function, holder.file,
            known(holder.line), holder.function, kLockKindNames[static_cast<std::size_t>(row.kind)]);
  }
}

void write_memory(const Analysis& analysis, Csv& csv) {
  csv.row("file", "line", "function", "library_function", "domain", "alloc_bytes", "alloc_count",
          "error_bytes", "freed_soon_bytes", "live_end_bytes", "rank_peak_bytes", "node_peak_bytes",
          "mapped_file_bytes", "copy_bytes", "copy_count", "rank_max", "rank_max_bytes", "leak",
          "leak_confidence", "growth_bytes_per_s");
  if (!analysis.memory) return;
  for (const MemoryLine& row : analysis.memory->lines)
    csv.row(row.file, known(row.line), row.function, row.called,
            shard::kMemoryDomainNames[static_cast<std::size_t>(row.domain)], row.alloc_bytes, row.alloc_count,
            row.error_bytes, row.soon_bytes, row.live_end_bytes, row.rank_peak_bytes, row.node_peak_bytes,
            row.file_bytes, row.copy_bytes, row.copy_count, row.max_rank, row.max_rank_bytes,
            row.leak ? 1 : 0, row.leak ? Seconds(row.leak_confidence) : Seconds(),
            row.leak ? Seconds(row.growth_bytes_per_s) : Seconds());
}

void write_memory_ranks(const Analysis& analysis, Csv& csv) {
  csv.row("rank", "node", "peak_bytes", "peak_at_s", "live_end_bytes", "untracked_bytes", "static_bytes",
          "max_anonymous_bytes", "live_at_max_anonymous_bytes", "mean_anonymous_bytes", "mean_live_bytes",
          "pss_bytes", "private_dirty_bytes", "huge_page_bytes", "swap_bytes", "near_bytes", "far_bytes");
  if (!analysis.memory) return;
  for (const HeldRank& row : analysis.memory->ranks)
    csv.row(row.rank, analysis.nodes[row.node].name, row.peak_bytes, row.peak_at_s, row.live_end_bytes,
            row.untracked_bytes, row.static_bytes, row.max_anon_bytes, row.live_at_max_anon_bytes,
            row.mean_anon_bytes, row.mean_live_bytes, row.pss_bytes, row.private_dirty_bytes, row.huge_bytes,
            row.swap_bytes, row.near_bytes, row.far_bytes);
}

// Rows tell idle helper threads apart by themselves, so they are all there.
ExportOptions with_idle_threads(ExportOptions options) {
  options.idle_threads = true;
  return options;
}

// Numbers are those of `clusterprof query RUN path`.
void write_paths(const ExportInput& input, const ExportOptions& options, Csv& csv) {
  const ShardData& head = input.head;
  const CallPaths paths(head, FrameMode::kAll);
  std::vector<std::array<std::uint64_t, shard::kCategories>> category_ns(paths.size());
  std::vector<Weights> self(paths.size());
  const ExportOptions all = with_idle_threads(options);
  ChargedRows(input, paths, all).for_each_rank([&](std::uint32_t, std::span<const ChargedRow> rows) {
    for (const ChargedRow& row : rows) {
      self[row.path] += row.of;
      category_ns[row.path][static_cast<std::size_t>(row.category)] += row.of.time_ns;
    }
  });
  std::vector<Weights> total = self;
  for (std::size_t path = total.size(); path-- > 1;)
    total[paths.parent(static_cast<std::uint32_t>(path))] += total[path];

  csv.row("path", "parent", "depth", "kind", "name", "file", "line", "module", "samples", "total_samples",
          "self_s", "total_s", "cpu_s", category_titles());
  std::vector<std::uint32_t> depth(paths.size(), 0);
  for (std::uint32_t path = 0; path < paths.size(); ++path) {
    if (path != 0) depth[path] = depth[paths.parent(path)] + 1;
    if (total[path].empty()) continue;
    const shard::Frame* const frame = paths.frame(path);
    csv.field(path);
    csv.field(path == 0 ? std::optional<std::uint32_t>() : paths.parent(path));
    csv.field(depth[path]);
    csv.field(frame == nullptr ? "" : format::frame_kind_name(frame->kind));
    csv.field(frame == nullptr ? "" : paths.text(frame->name));
    csv.field(frame == nullptr ? "" : paths.text(frame->file));
    csv.field(frame == nullptr ? std::optional<std::uint32_t>() : known(frame->line));
    csv.field(frame == nullptr ? "" : paths.text(frame->module));
    csv.field(self[path].samples);
    csv.field(total[path].samples);
    csv.ns(self[path].time_ns);
    csv.ns(total[path].time_ns);
    csv.ns(self[path].cpu_ns);
    for (const std::uint64_t time_ns : category_ns[path]) csv.ns(time_ns);
    csv.end_row();
  }
}

void write_rank_paths(const ExportInput& input, const ExportOptions& options, Csv& csv) {
  const ShardData& head = input.head;
  const CallPaths paths(head, FrameMode::kAll);
  csv.row("rank", "node", "path", "category", "thread", "samples", "self_s", "cpu_s");
  const ExportOptions all = with_idle_threads(options);
  ChargedRows(input, paths, all).for_each_rank([&](std::uint32_t at, std::span<const ChargedRow> rows) {
    const shard::Rank& rank = head.ranks[at];
    for (const ChargedRow& row : rows) {
      csv.field(rank.rank);
      csv.field(node_name(head, rank));
      csv.field(row.path);
      csv.field(shard::kCategoryNames[static_cast<std::size_t>(row.category)]);
      csv.field(row.main_thread ? "main" : "helper");
      csv.field(row.of.samples);
      csv.ns(row.of.time_ns);
      csv.ns(row.of.cpu_ns);
      csv.end_row();
    }
  });
}

void write_memory_labels(const Analysis& analysis, Csv& csv) {
  csv.row("space", "label", "ranks", "allocations", "frees", "alloc_bytes", "live_end_bytes", "peak_bytes",
          "space_peak_bytes", "rank_max", "rank_max_bytes");
  for (const MemorySpaceRow& space : analysis.labelled_memory.spaces)
    for (const MemoryLabelRow& row : space.labels)
      csv.row(space.name, row.name, row.ranks, row.allocations, row.frees, row.alloc_bytes,
              row.live_end_bytes, row.peak_bytes, row.space_peak_bytes, row.max_rank, row.max_rank_bytes);
}

struct AnalysisTable {
  std::string_view name;
  void (*write)(const Analysis&, Csv&);
};
constexpr AnalysisTable kAnalysisTables[] = {{"functions", write_functions},
                                             {"lines", write_lines},
                                             {"ranks", write_ranks},
                                             {"mpi_calls", write_mpi_calls},
                                             {"torch_distributed", write_torch},
                                             {"processes", write_processes},
                                             {"imports", write_imports},
                                             {"threads", write_threads},
                                             {"openmp", write_openmp},
                                             {"openmp_ranks", write_openmp_ranks},
                                             {"openmp_threads", write_openmp_threads},
                                             {"locks", write_locks},
                                             {"memory", write_memory},
                                             {"memory_ranks", write_memory_ranks},
                                             {"memory_labels", write_memory_labels}};

const AnalysisTable* table_of_analysis(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kAnalysisTables), std::end(kAnalysisTables),
                                         [&](const AnalysisTable& table) { return table.name == name; });
  return found == std::end(kAnalysisTables) ? nullptr : found;
}

}  // namespace

const std::vector<std::string_view>& csv_tables() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const AnalysisTable& table : kAnalysisTables) names.push_back(table.name);
    names.insert(names.end(), {kCsvPaths, kCsvRankPaths});
    return names;
  }();
  return kNames;
}

bool csv_table_of_analysis(std::string_view table) { return table_of_analysis(table) != nullptr; }

void export_csv(std::string_view table, const Analysis& analysis, const ExportSink& sink) {
  const AnalysisTable* const known_table = table_of_analysis(table);
  if (known_table == nullptr) throw std::invalid_argument("no such table of an analysis");
  Csv csv(sink);
  known_table->write(analysis, csv);
  csv.flush();
}

void export_csv(std::string_view table, const ExportInput& input, const ExportOptions& options,
                const ExportSink& sink) {
  Csv csv(sink);
  if (table == kCsvPaths)
    write_paths(input, options, csv);
  else if (table == kCsvRankPaths)
    write_rank_paths(input, options, csv);
  else
    throw std::invalid_argument("no such table of rows");
  csv.flush();
}

}  // namespace clusterprof::report
