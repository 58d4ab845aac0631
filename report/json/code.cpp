// SPDX-License-Identifier: BSD-3-Clause
// Functions, lines, the call tree, regions, the timeline and blocked time as JSON.
#include <fmt/format.h>

#include "report/analysis/efficiency.hpp"
#include "report/analysis/regions.hpp"
#include "report/format/names.hpp"
#include "report/json/report_document.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report {

void ReportDocument::functions() {
  out_.rows("functions", a_.functions, [&](const FunctionRow& row) {
    out_("name", row.name)("file", text_or_null(row.file))("line", or_null(row.line));
    out_("kind", format::frame_kind_name(row.kind))("module", text_or_null(row.module));
    out_("self_s", row.self_s)("total_s", row.total_s)("cpu_s", row.cpu_s);
    out_("active_self_s", row.active_self_s)("active_total_s", row.active_total_s);
    const auto imbalance = [](const RankSpread& of) {
      return of.mean_s > 0 ? Seconds(of.max_s / of.mean_s) : Seconds();
    };
    spread(row.spread);
    out_("imbalance", imbalance(row.spread));
    active_spread(row.active_spread);
    out_("active_imbalance", imbalance(row.active_spread));
    parts(row);
    if (!row.counters.empty()) amounts(row.counters);
    if (row.working_set_bytes) {
      out_("working_set_bytes", std::llround(*row.working_set_bytes));
      out_("working_set_is_more", row.working_set_is_more);
    }
  });
}

void ReportDocument::lines() {
  out_.rows("lines", a_.lines, [&](const LineRow& row) {
    out_("file", row.file)("line", row.line)("function", row.function);
    out_("self_s", row.self_s)("total_s", row.total_s)("cpu_s", row.cpu_s)("called_s", row.called_s);
    out_("approximate_s", row.approximate_s);
    out_("active_self_s", row.active_self_s)("active_total_s", row.active_total_s);
    active_spread(row.active_spread);
    parts(row);
    if (!row.counters.empty()) amounts(row.counters);
  });
  out_.object("all_threads", [&] {
    out_("time_s", a_.sampled_s)("without_function_s", a_.without_function_s);
    out_("without_line_s", a_.without_line_s);
  });
}

template <typename More>
void ReportDocument::tree(std::string_view name, const std::vector<CallTreeRow>& rows, const More& more) {
  out_.rows(name, rows, [&](const CallTreeRow& row) {
    out_("parent", row.parent == shard::kNone ? std::nullopt : std::optional(row.parent));
    static constexpr std::string_view kFolds[] = {"", "calls", "import"};
    out_("name", row.name)("fold", text_or_null(kFolds[static_cast<std::size_t>(row.fold)]));
    out_("file", text_or_null(row.file))("line", or_null(row.line));
    out_("kind", format::frame_kind_name(row.kind));
    out_("module", text_or_null(row.module))("self_s", row.self_s)("total_s", row.total_s);
    more(row);
  });
}

void ReportDocument::call_tree() {
  tree("call_tree", a_.call_tree, [&](const CallTreeRow& row) { categories(row.category_s); });
}

void ReportDocument::imports() {
  out_.rows("imports", a_.imports, [&](const ImportRow& row) {
    out_("package", text_or_null(row.package))("time_s", row.time_s)("self_s", row.self_s);
    out_("main_thread_s", row.main_thread_s)("ranks", row.ranks);
    spread(row.spread);
    out_("direct", row.is_direct)("own", row.own);
    out_("file", text_or_null(row.file))("line", or_null(row.line));
    out_("function", text_or_null(row.function));
  });
  out_.object("import_time", [&] {
    const ImportSum& all = a_.import_sum;
    out_("time_s", all.time_s)("main_thread_s", all.main_thread_s)("main_thread_io_s", all.main_thread_io_s);
    spread(all.main_spread);
  });
}

void ReportDocument::processes() {
  const auto place = [&](std::string_view name, const SourceLocation& where, auto&& more) {
    if (where.function.empty() && where.file.empty() && where.op.empty()) {
      out_(name, nullptr);
      return;
    }
    out_.object(name, [&] {
      out_("file", text_or_null(where.file))("line", or_null(where.line));
      out_("function", text_or_null(where.function));
      more();
    });
  };
  const auto call_path = [&](std::uint32_t creation_path) {
    std::vector<std::string> path;
    for (const SourceLocation& frame : a_.creation_paths[creation_path]) path.push_back(words::frame(frame));
    out_("call_path", path);
  };
  out_.rows("processes", a_.processes, [&](const ProcessRow& row) {
    out_("pid", row.pid)("ppid", row.parent_pid)("rank", row.rank)("count", row.count)("group", row.group);
    out_("how", kProcessHowNames[static_cast<std::size_t>(row.how)]);
    out_("unrecorded", text_or_null(shard::unrecorded_name(row.unrecorded)));
    out_("command", row.command)("start_s", row.start_s);
    out_("end_s", row.runs ? Seconds() : Seconds(row.start_s + row.elapsed_s));
    out_("cpu_s", row.cpu_s)("children_cpu_s", row.children_cpu_s);
    place("created_by", row.created_by, [&] { call_path(a_.process_groups[row.group].creation_path); });
    place("top", row.top, [&] { out_("time_s", row.top_s); });
    out_.object("exit", [&] { out_("status", row.exit_status)("signal", row.exit_signal); });
  });
  out_.rows("process_groups", a_.process_groups, [&](const ProcessGroup& row) {
    out_("rank", row.rank)("how", kProcessHowNames[static_cast<std::size_t>(row.how)]);
    out_("unrecorded", text_or_null(shard::unrecorded_name(row.unrecorded)));
    out_("program", text_or_null(row.program))("count", row.count);
    const auto known = [&](double time_s) { return row.measured != 0 ? Seconds(time_s) : Seconds(); };
    out_("cpu_s", known(row.cpu_s))("cpu_min_s", known(row.cpu_min_s));
    out_("cpu_mean_s", known(row.cpu_mean_s))("cpu_max_s", known(row.cpu_max_s));
    out_("start_s", row.start_s)("end_s", row.end_s);
    place("created_by", row.created_by, [&] { call_path(row.creation_path); });
    place("top", row.top, [&] { out_("time_s", row.top_s); });
  });
}

void ReportDocument::event_loops() {
  out_.rows("event_loops", a_.event_loops, [&](const EventLoopRow& row) {
    out_("rank", row.rank)("pid", row.pid)("tid", row.tid)("main_thread", row.main_thread);
    out_("thread", text_or_null(row.thread))("kind", name_of(row.kind))("turns", row.turns);
    out_("idle_s", row.idle_s)("busy_s", row.busy_s)("blocked", row.blocked)("blocked_s", row.blocked_s);
    out_("awaited_s", row.awaited_s)("longest_block_s", row.longest_s)("longest_block_at_s",
                                                                       row.longest_at_s);
    out_.object("lengths", [&] {
      for (std::size_t bin = 0; bin < row.lengths.size(); ++bin)
        out_(shard::EventLoop::kBinNames[bin], row.lengths[bin]);
    });
    out_.rows("blocks", row.blocks, [&](const LoopBlockRow& block) {
      out_("time_s", block.time_s)("awaited_s", block.awaited_s)("count", block.count);
      out_("longest_s", block.longest_s)("function", text_or_null(block.place.function));
      out_("file", text_or_null(block.place.file))("line", or_null(block.place.line));
      out_("called", text_or_null(block.place.called))("task", text_or_null(block.task));
    });
  });
}

void ReportDocument::tasks() {
  out_.rows("tasks", a_.tasks, [&](const TaskRow& row) {
    out_("rank", row.rank)("name", text_or_null(row.name))("function", text_or_null(row.coroutine));
    out_("file", text_or_null(row.file))("line", or_null(row.line))("time_s", row.time_s)("cpu_s", row.cpu_s);
  });
  tree("task_tree", a_.task_tree, [](const CallTreeRow&) {});
}

void ReportDocument::threads() {
  const auto top = [&](const SourceLocation& where) {
    if (where.function.empty() && where.file.empty()) {
      out_("top", nullptr);
      return;
    }
    out_.object("top", [&] {
      out_("file", text_or_null(where.file))("line", or_null(where.line));
      out_("function", text_or_null(where.function));
    });
  };
  out_.rows("threads", a_.threads, [&](const ThreadRow& row) {
    out_("rank", row.rank)("pid", row.pid)("tid", row.tid)("name", text_or_null(row.name));
    out_("kind", shard::thread_kind_name(row.kind));
    out_("elapsed_s", row.elapsed_s)("cpu_s", row.cpu_s)("count", row.count)("group", row.group);
    out_("start_s", row.start_s)("end_s", row.runs ? Seconds() : Seconds(row.start_s + row.elapsed_s));
    top(row.top);
  });
  out_.rows("thread_groups", a_.thread_groups, [&](const ThreadGroup& row) {
    out_("rank", row.rank)("name", text_or_null(row.name));
    out_("kind", shard::thread_kind_name(row.kind));
    out_("count", row.count)("cpu_s", row.cpu_s);
    out_("cpu_min_s", row.cpu_min_s)("cpu_mean_s", row.cpu_mean_s)("cpu_max_s", row.cpu_max_s);
    out_("start_s", row.start_s)("end_s", row.end_s);
    top(row.top);
  });
}

void ReportDocument::regions() {
  out_.rows("regions", a_.regions, [&](const RegionRow& row) {
    out_("name", region_name(row))("domain", text_or_null(row.domain))("library", row.is_of_library);
    out_("count", row.count)("time_s", row.time_s)("min_s", row.min_s);
    out_("max_s", row.max_s)("max_n", row.max_n)("sampled_s", row.sampled_s)("share", row.share);
    categories(row.category_s);
    spread(row.spread);
    out_.object("efficiency", [&] {
      out_("parallel", row.efficiency.parallel)("load_balance", row.efficiency.load_balance);
      out_("communication", row.efficiency.communication);
    });
    out_.object("openmp", [&] {
      out_("parallel", row.openmp.parallel)("load_balance", row.openmp.load_balance);
      out_("scheduling", row.openmp.scheduling)("serialization", row.openmp.serialization);
      out_("hybrid", row.hybrid_parallel);
    });
    out_("efficiency_above_one", above_one(row.efficiency));
    out_("mpi_startup_s", row.focus_s ? Seconds(*row.longest_s - *row.focus_s) : Seconds());
    amounts(row.counters);
    derived(row.derived);
    out_("bottleneck", text_or_null(row.bottleneck));
    if (!row.forward_file.empty())  // of a backward operator of PyTorch
      out_.object("forward", [&] { out_("file", row.forward_file)("line", or_null(row.forward_line)); });
    if (!row.memory) return;  // recorded without --memory
    out_.object("memory", [&] {
      out_("alloc_bytes", row.memory->alloc_bytes)("live_end_bytes", row.memory->live_end_bytes);
      out_("rank_peak_bytes", row.memory->rank_peak_bytes)("node_peak_bytes", row.memory->node_peak_bytes);
      out_("copy_bytes", row.memory->copy_bytes);
    });
  });
}

void ReportDocument::timeline() {
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

void ReportDocument::off_cpu() {
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

void ReportDocument::mutexes() {
  const auto where = [&](const SourceLocation& place) {
    out_("file", text_or_null(place.file))("line", or_null(place.line));
    out_("function", text_or_null(place.function));
  };
  const auto parts = [&](std::string_view name, const std::vector<MutexHolderRow>& rows) {
    out_.rows(name, rows, [&](const MutexHolderRow& part) {
      where(part.place);
      out_("wait_s", part.wait_s);
    });
  };
  out_.rows("mutexes", a_.mutexes, [&](const MutexRow& row) {
    where(row.place);
    out_("wait_s", row.wait_s)("samples", row.samples)("mutexes", or_null(row.mutexes));
    spread(row.spread);
    parts("holders", row.holders);
  });
  out_.rows("locks", a_.locks, [&](const LockRow& row) {
    out_("kind", kLockKindNames[static_cast<std::size_t>(row.kind)]);
    out_("name", text_or_null(row.name))("rank", row.rank);
    const std::string address = row.address == 0 ? std::string() : fmt::format("{:#x}", row.address);
    out_("address", text_or_null(address));
    out_("mutexes", or_null(row.mutexes))("wait_s", row.wait_s)("waits", row.waits);
    out_("longest_s", row.longest_s);
    spread(row.spread);
    parts("lines", row.lines);
    parts("holders", row.holders);
  });
}

}  // namespace clusterprof::report
