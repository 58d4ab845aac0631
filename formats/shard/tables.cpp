// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes the tables that shards and profiles share. One visit_...() function per table lists its
// columns and serves both directions.
#include "formats/shard/tables.hpp"

#include <string>
#include <tuple>

#include "formats/shard/table_archive.hpp"

namespace clusterprof::shard {
namespace {

template <typename Archive, typename Data>
void visit_ranks(Archive& archive, Data& data) {
  archive.table("ranks", data.ranks, [&archive](auto& table) {
    table.column("rank", &Rank::rank);
    table.column("node", &Rank::node);
    table.column("pid", &Rank::pid);
    table.column("flags", &Rank::flags);
    table.column("start_utc_ns", &Rank::start_utc_ns);
    table.column("elapsed_ns", &Rank::elapsed_ns);
    table.column("cpu_ns", &Rank::cpu_ns);
    table.column("user_ns", &Rank::user_ns);
    table.column("system_ns", &Rank::system_ns);
    table.column("samples", &Rank::samples);
    table.column("threads", &Rank::threads);
    table.column("processes", &Rank::processes);
    for (std::size_t i = 0; i < kCategories; ++i) {
      const std::string name = std::string("main_thread_") + kCategoryNames[i] + "_ns";
      table.column(
          name.c_str(), [i](auto& row) -> auto& { return row.main_thread_ns[i]; });
    }
    if (archive.is_profile())
      for (std::size_t i = 0; i < kCategories; ++i) {
        const std::string name = std::string("raw_main_thread_") + kCategoryNames[i] + "_ns";
        table.column(
            name.c_str(), [i](auto& row) -> auto& { return row.raw_main_thread_ns[i]; });
      }
    table.column("mpi_ns", &Rank::mpi_ns);
    table.column("mpi_wait_ns", &Rank::mpi_wait_ns);
    table.column("mpi_runnable_ns", &Rank::mpi_runnable_ns);
    table.column("unsampled_threads", &Rank::unsampled_threads);
    table.column("unsampled_cpu_ns", &Rank::unsampled_cpu_ns);
    table.column("mpi_init_end_ns", &Rank::mpi_init_end_ns);
    table.column("mpi_finalize_begin_ns", &Rank::mpi_finalize_begin_ns);
    table.column("mpi_helper_threads", &Rank::mpi_helper_threads);
    table.column("mpi_helper_elapsed_ns", &Rank::mpi_helper_elapsed_ns);
    table.column("mpi_helper_ns", &Rank::mpi_helper_ns);
    table.column("max_rss_bytes", &Rank::max_rss_bytes);
    table.column("read_bytes", &Rank::read_bytes);
    table.column("write_bytes", &Rank::write_bytes);
    table.column("minor_faults", &Rank::minor_faults);
    table.column("major_faults", &Rank::major_faults);
    table.column("voluntary_switches", &Rank::voluntary_switches);
    table.column("involuntary_switches", &Rank::involuntary_switches);
    table.column("restart", &Rank::restart);
    table.column("exit_status", &Rank::exit_status);
    table.column("exit_signal", &Rank::exit_signal);
    table.column("handler_ns", &Rank::handler_ns);
    table.column("truncated", &Rank::truncated);
    table.column("merges_tried", &Rank::merges_tried);
    table.column("merges_failed", &Rank::merges_failed);
    table.column("python_version", &Rank::python_version);
    table.column("running_samples", &Rank::running_samples);
    table.column("running_ns", &Rank::running_ns);
    table.column("event_level", &Rank::event_level);
    table.column("mpi_operations", &Rank::mpi_operations);
    table.column("paused_ns", &Rank::paused_ns);
    table.column("standby_ns", &Rank::standby_ns);
    table.column("affinity", &Rank::affinity);
    table.column("numa_nodes", &Rank::numa_nodes);
    table.column("last_call_path", &Rank::last_call_path);
    table.column("command", &Rank::command);
  });
}

template <typename Archive, typename Data>
void visit_summary(Archive& archive, Data& data) {
  archive.run(data.run);
  archive.table("notes", data.run.notes, [](auto& table) {
    table.named("code", &Note::code, name_of, note_code);
    table.strings("node", &Note::node);
    table.column("first_rank", &Note::first_rank);
    table.column("last_rank", &Note::last_rank);
    table.column("number", &Note::number);
    table.strings("text", &Note::text);
    table.strings("detail", &Note::detail);
  });
  archive.table("nodes", data.nodes, [](auto& table) {
    table.strings("name", &Node::name);
    table.column("start_utc_ns", &Node::start_utc_ns);
    table.column("elapsed_ns", &Node::elapsed_ns);
    table.column("cpu_ns", &Node::cpu_ns);
    table.column("collector_cpu_ns", &Node::collector_cpu_ns);
    table.column("collector_max_rss_bytes", &Node::collector_max_rss_bytes);
    table.column("cpus", &Node::cpus);
    table.column("numa_nodes", &Node::numa_nodes);
    table.column("memory_bytes", &Node::memory_bytes);
    table.column("cache_bytes", &Node::cache_bytes);
    table.strings("cpu_model", &Node::cpu_model);
    table.column("as_of_utc_ns", &Node::as_of_utc_ns);
    table.column("next_within_ns", &Node::next_within_ns);
    table.strings("collector", &Node::collector);
    const auto group = [&table](const char* name, std::uint64_t GroupMemory::*field) {
      table.column(
          name, [field](auto& row) -> auto& { return row.group.*field; });
    };
    group("group_limit_bytes", &GroupMemory::limit_bytes);
    group("group_used_bytes", &GroupMemory::used_bytes);
    group("group_max_used_bytes", &GroupMemory::max_used_bytes);
    group("group_limit_hits", &GroupMemory::limit_hits);
    group("group_anon_bytes", &GroupMemory::anon_bytes);
    group("group_file_bytes", &GroupMemory::file_bytes);
    group("group_shared_bytes", &GroupMemory::shared_bytes);
    group("group_kernel_bytes", &GroupMemory::kernel_bytes);
    group("group_swap_bytes", &GroupMemory::swap_bytes);
    table.column("requested_memory_bytes", &Node::requested_memory_bytes);
    table.column("held_peak_bytes", &Node::held_peak_bytes);
    table.column("held_peak_utc_ns", &Node::held_peak_utc_ns);
  });
  visit_ranks(archive, data);
  archive.table("drops", data.drops, [](auto& table) {
    table.column("rank", &Drop::rank);
    table.strings("reason", &Drop::reason);
    table.column("count", &Drop::count);
  });
  archive.table("handler_costs", data.handler_costs, [](auto& table) {
    table.column("rank", &HandlerCost::rank);
    table.column("le_ns", &HandlerCost::le_ns);
    table.column("count", &HandlerCost::count);
  });
}

template <typename Archive, typename Data>
void visit_recording_windows(Archive& archive, Data& data) {
  archive.table("recording_windows", data.recording_windows, [](auto& table) {
    table.column("rank", &RecordingWindow::rank);
    table.column("begin_ns", &RecordingWindow::begin_ns);
    table.column("end_ns", &RecordingWindow::end_ns);
  });
}

template <typename Archive, typename Data>
void visit_failures(Archive& archive, Data& data) {
  archive.table("failures", data.failures, [](auto& table) {
    table.column("rank", &Failure::rank);
    table.column("flags", &Failure::flags);
    table.column("signal", &Failure::signal);
    table.column("address", &Failure::address);
    table.strings("instruction", &Failure::instruction);
    table.column("abort_code", &Failure::abort_code);
    table.strings("message", &Failure::message);
    table.strings("stderr_tail", &Failure::stderr_tail);
  });
}

template <typename Archive, typename Data>
void visit_processes(Archive& archive, Data& data) {
  archive.table("processes", data.processes, [](auto& table) {
    table.column("rank", &Process::rank);
    table.column("path", &Process::path);
    table.column("pid", &Process::pid);
    table.column("parent_pid", &Process::parent_pid);
    table.column("origin", &Process::origin);
    table.column("unrecorded", &Process::unrecorded);
    table.column("flags", &Process::flags);
    table.column("exit_status", &Process::exit_status);
    table.column("exit_signal", &Process::exit_signal);
    table.column("count", &Process::count);
    table.column("start_utc_ns", &Process::start_utc_ns);
    table.column("elapsed_ns", &Process::elapsed_ns);
    table.column("cpu_ns", &Process::cpu_ns);
    table.column("cpu_min_ns", &Process::cpu_min_ns);
    table.column("cpu_max_ns", &Process::cpu_max_ns);
    table.column("children_cpu_ns", &Process::children_cpu_ns);
    table.column("top_path", &Process::top_path);
    table.column("top_ns", &Process::top_ns);
    table.strings("command", &Process::command);
  });
}

template <typename Archive, typename Data>
void visit_event_loops(Archive& archive, Data& data) {
  archive.table("event_loops", data.event_loops, [](auto& table) {
    table.column("rank", &EventLoop::rank);
    table.column("path", &EventLoop::path);
    table.column("pid", &EventLoop::pid);
    table.column("tid", &EventLoop::tid);
    table.column("main_thread", &EventLoop::main_thread);
    table.column("number", &EventLoop::number);
    table.column("start_utc_ns", &EventLoop::start_utc_ns);
    table.column("turns", &EventLoop::turns);
    table.column("idle_ns", &EventLoop::idle_ns);
    table.column("busy_ns", &EventLoop::busy_ns);
    table.column("blocked", &EventLoop::blocked);
    table.column("blocked_ns", &EventLoop::blocked_ns);
    table.column("longest_ns", &EventLoop::longest_ns);
    table.column("longest_utc_ns", &EventLoop::longest_utc_ns);
    for (std::size_t bin = 0; bin < EventLoop::kBins; ++bin)
      table.column(
          EventLoop::kBinNames[bin], [bin](auto& row) -> auto& { return row.lengths[bin]; });
    table.strings("thread", &EventLoop::thread);
  });
  archive.table("loop_blocks", data.loop_blocks, [](auto& table) {
    table.column("rank", &LoopBlock::rank);
    table.column("path", &LoopBlock::path);
    table.column("pid", &LoopBlock::pid);
    table.column("tid", &LoopBlock::tid);
    table.column("number", &LoopBlock::number);
    table.column("start_utc_ns", &LoopBlock::start_utc_ns);
    table.column("begin_utc_ns", &LoopBlock::begin_utc_ns);
    table.column("turn_ns", &LoopBlock::turn_ns);
    table.column("wall_ns", &LoopBlock::wall_ns);
    table.column("flags", &LoopBlock::flags);
  });
}

template <typename Archive, typename Data>
void visit_mutex_waits(Archive& archive, Data& data) {
  archive.table("mutex_waits", data.mutex_waits, [](auto& table) {
    table.column("rank", &MutexWait::rank);
    table.column("path", &MutexWait::path);
    table.column("holder_path", &MutexWait::holder_path);
    table.column("mutex", &MutexWait::mutex);
    table.column("wait_ns", &MutexWait::wait_ns);
    table.column("samples", &MutexWait::samples);
    table.column("longest_ns", &MutexWait::longest_ns);
    table.strings("name", &MutexWait::name);
  });
}

template <typename Archive, typename Data>
void visit_thread_spans(Archive& archive, Data& data) {
  archive.table("thread_spans", data.thread_spans, [](auto& table) {
    table.column("rank", &ThreadSpan::rank);
    table.column("thread", &ThreadSpan::thread);
    table.column("number", &ThreadSpan::number);
    table.column("other", &ThreadSpan::other);
    table.column("how", &ThreadSpan::how);
    table.column("begin_ns", &ThreadSpan::begin_ns);
    table.column("call_ns", &ThreadSpan::call_ns);
    table.column("end_ns", &ThreadSpan::end_ns);
    table.column("mpi_thread", &ThreadSpan::mpi_thread);
  });
  archive.table("span_times", data.span_times, [](auto& table) {
    table.column("rank", &SpanTime::rank);
    table.column("thread", &SpanTime::thread);
    table.column("number", &SpanTime::number);
    table.column("path", &SpanTime::path);
    table.column("wall_ns", &SpanTime::wall_ns);
  });
}

template <typename Archive, typename Data>
void visit_openmp(Archive& archive, Data& data) {
  archive.table("omp_ranks", data.omp_ranks, [](auto& table) {
    table.column("rank", &OmpRank::rank);
    table.column("method", &OmpRank::method);
    table.column("flags", &OmpRank::flags);
    table.column("processors", &OmpRank::processors);
    table.strings("runtime", &OmpRank::runtime);
  });
  archive.table("omp_regions", data.omp_regions, [](auto& table) {
    table.column("rank", &OmpRegion::rank);
    table.column("path", &OmpRegion::path);
    table.column("threads", &OmpRegion::threads);
    table.column("level", &OmpRegion::level);
    table.column("main", &OmpRegion::main);
    table.column("kind", &OmpRegion::kind);
    table.column("asked", &OmpRegion::asked);
    table.column("count", &OmpRegion::count);
    table.column("unfinished", &OmpRegion::unfinished);
    table.column("time_ns", &OmpRegion::time_ns);
    table.column("mpi_ns", &OmpRegion::mpi_ns);
    table.column("longest_ns", &OmpRegion::longest_ns);
    table.column("threads_ns", &OmpRegion::threads_ns);
    table.column("wait_ns", &OmpRegion::wait_ns);
    table.column("inner_wait_ns", &OmpRegion::inner_wait_ns);
    table.column("schedule_ns", &OmpRegion::schedule_ns);
  });
  archive.table("omp_threads", data.omp_threads, [](auto& table) {
    table.column("rank", &OmpThread::rank);
    table.column("path", &OmpThread::path);
    table.column("threads", &OmpThread::threads);
    table.column("level", &OmpThread::level);
    table.column("main", &OmpThread::main);
    table.column("number", &OmpThread::number);
    table.column("count", &OmpThread::count);
    table.column("time_ns", &OmpThread::time_ns);
    table.column("wait_ns", &OmpThread::wait_ns);
    table.column("inner_wait_ns", &OmpThread::inner_wait_ns);
    table.column("schedule_ns", &OmpThread::schedule_ns);
  });
  archive.table("omp_constructs", data.omp_constructs, [](auto& table) {
    table.column("rank", &OmpConstruct::rank);
    table.column("region_path", &OmpConstruct::region_path);
    table.column("threads", &OmpConstruct::threads);
    table.column("level", &OmpConstruct::level);
    table.column("main", &OmpConstruct::main);
    table.column("path", &OmpConstruct::path);
    table.column("kind", &OmpConstruct::kind);
    table.column("count", &OmpConstruct::count);
    table.column("time_ns", &OmpConstruct::time_ns);
    table.column("wait_ns", &OmpConstruct::wait_ns);
    table.column("schedule_ns", &OmpConstruct::schedule_ns);
    table.column("chunks", &OmpConstruct::chunks);
    table.column("iterations", &OmpConstruct::iterations);
    table.column("longest_ns", &OmpConstruct::longest_ns);
    table.column("used", &OmpConstruct::used);
    table.column("schedules", &OmpConstruct::schedules);
  });
}

template <typename Archive, typename Data>
void visit_task_times(Archive& archive, Data& data) {
  archive.table("task_times", data.task_times, [](auto& table) {
    table.column("rank", &TaskTime::rank);
    table.column("path", &TaskTime::path);
    table.column("task_path", &TaskTime::task_path);
    table.column("wall_ns", &TaskTime::wall_ns);
    table.column("cpu_ns", &TaskTime::cpu_ns);
    table.column("samples", &TaskTime::samples);
    table.strings("name", &TaskTime::name);
  });
}

template <typename Archive, typename Data>
void visit_threads(Archive& archive, Data& data) {
  archive.table("threads", data.threads, [](auto& table) {
    table.column("rank", &Thread::rank);
    table.column("path", &Thread::path);
    table.column("top_path", &Thread::top_path);
    table.column("last_path", &Thread::last_path);
    table.column("pid", &Thread::pid);
    table.column("tid", &Thread::tid);
    table.column("kind", &Thread::kind);
    table.column("flags", &Thread::flags);
    table.column("count", &Thread::count);
    table.column("start_utc_ns", &Thread::start_utc_ns);
    table.column("elapsed_ns", &Thread::elapsed_ns);
    table.column("cpu_ns", &Thread::cpu_ns);
    table.column("cpu_min_ns", &Thread::cpu_min_ns);
    table.column("cpu_max_ns", &Thread::cpu_max_ns);
    table.column("unmoved_ns", &Thread::unmoved_ns);
    table.column("unmoved_cpu_ns", &Thread::unmoved_cpu_ns);
    table.column("last_category", &Thread::last_category);
    table.strings("name", &Thread::name);
  });
}

template <typename Archive, typename Data>
void visit_events(Archive& archive, Data& data) {
  archive.table("mpi_events", data.mpi_events, [](auto& table) {
    table.column("rank", &MpiEvent::rank);
    table.column("thread", &MpiEvent::thread);
    table.column("path", &MpiEvent::path);
    table.column("communicator", &MpiEvent::communicator);
    table.column("op", &MpiEvent::op);
    table.column("kind", &MpiEvent::kind);
    table.column("flags", &MpiEvent::flags);
    table.column("peer", &MpiEvent::peer);
    table.column("tag", &MpiEvent::tag);
    table.column("sequence", &MpiEvent::sequence);
    table.column("enter_ns", &MpiEvent::enter_ns);
    table.column("exit_ns", &MpiEvent::exit_ns);
    table.column("start_ns", &MpiEvent::start_ns);
    table.column("mpi_ns", &MpiEvent::mpi_ns);
    table.column("bytes", &MpiEvent::bytes);
    table.column("paused_ns", &MpiEvent::paused_ns);
    table.column("resumed_ns", &MpiEvent::resumed_ns);
  });
  archive.table("event_gaps", data.event_gaps, [](auto& table) {
    table.column("event", &EventGap::event);
    table.column("path", &EventGap::path);
    table.column("wall_ns", &EventGap::wall_ns);
    table.column("cpu_ns", &EventGap::cpu_ns);
  });
}

template <typename Archive, typename Data>
void visit_clocks(Archive& archive, Data& data) {
  archive.table("event_stretches", data.event_stretches, [](auto& table) {
    table.column("rank", &EventStretch::rank);
    table.column("shared_begin_ns", &EventStretch::shared_begin_ns);
    table.column("begin_ns", &EventStretch::begin_ns);
    table.column("end_ns", &EventStretch::end_ns);
    table.column("complete", &EventStretch::complete);
  });
  archive.table("clock_offsets", data.clock_offsets, [](auto& table) {
    table.column("rank", &ClockOffset::rank);
    table.column("reference_rank", &ClockOffset::reference_rank);
    table.column("local_ns", &ClockOffset::local_ns);
    table.column("offset_ns", &ClockOffset::offset_ns);
    table.column("error_ns", &ClockOffset::error_ns);
  });
}

template <typename Archive, typename Data>
void visit_waiting(Archive& archive, Data& data) {
  archive.attributes("wait_analysis", [&](auto field) {
    auto& analysis = data.wait_analysis;
    field("done", analysis.done);
    field("ideal_ns", analysis.ideal_ns);
    field("event_level", analysis.event_level);
    field("operations", analysis.operations);
    field("events", analysis.events);
    field("messages", analysis.messages);
    field("unmatched_messages", analysis.unmatched_messages);
    field("collectives", analysis.collectives);
    field("unmatched_collectives", analysis.unmatched_collectives);
    field("unreceived_messages", analysis.unreceived_messages);
    field("clock_error_ns", analysis.clock_error_ns);
    field("clock_violations", analysis.clock_violations);
    field("worst_violation_ns", analysis.worst_violation_ns);
  });
  archive.table("wait_states", data.wait_states, [](auto& table) {
    table.column("rank", &WaitState::rank);
    table.column("path", &WaitState::path);
    table.column("kind", &WaitState::kind);
    table.column("cause_rank", &WaitState::cause_rank);
    table.column("cause_path", &WaitState::cause_path);
    table.column("wait_ns", &WaitState::wait_ns);
    table.column("count", &WaitState::count);
  });
  archive.table("unmatched_messages", data.unmatched_messages, [](auto& table) {
    table.column("rank", &UnmatchedMessages::rank);
    table.column("path", &UnmatchedMessages::path);
    table.column("communicator", &UnmatchedMessages::communicator);
    table.column("receiver", &UnmatchedMessages::receiver);
    table.column("tag", &UnmatchedMessages::tag);
    table.column("count", &UnmatchedMessages::count);
  });
  archive.table("root_causes", data.root_causes, [](auto& table) {
    table.column("rank", &RootCause::rank);
    table.column("path", &RootCause::path);
    table.column("wait_ns", &RootCause::wait_ns);
    table.column("waiting_ranks", &RootCause::waiting_ranks);
  });
  archive.table("critical_times", data.critical_times, [](auto& table) {
    table.column("rank", &CriticalTime::rank);
    table.column("path", &CriticalTime::path);
    table.column("wall_ns", &CriticalTime::wall_ns);
  });
  archive.table("time_windows", data.time_windows, [](auto& table) {
    table.column("begin_ns", &TimeWindow::begin_ns);
    table.column("end_ns", &TimeWindow::end_ns);
    table.column("useful_mean_ns", &TimeWindow::useful_mean_ns);
    table.column("useful_max_ns", &TimeWindow::useful_max_ns);
    table.column("wait_ns", &TimeWindow::wait_ns);
    table.column("startup_ns", &TimeWindow::startup_ns);
  });
}

template <typename Archive, typename Data>
void visit_series(Archive& archive, Data& data) {
  archive.attributes("time_axis", [&](auto field) {
    field("bin_ns", data.time_axis.bin_ns);
    field("origin_utc_ns", data.time_axis.origin_utc_ns);
  });
  archive.table("series", data.series, [](auto& table) {
    table.column("name", &Series::name);
    table.column("kind", &Series::kind);
  });
  archive.ranked_table("rank_series", data.rank_series, data.ranks.size(), [](auto& table) {
    table.column("series", &RankSeries::series);
    table.column("bin", &RankSeries::bin);
    table.column("value", &RankSeries::value);
  });
  archive.table("node_series", data.node_series, [](auto& table) {
    table.column("node", &NodeSeries::node);
    table.column("series", &NodeSeries::series);
    table.column("bin", &NodeSeries::bin);
    table.column("value", &NodeSeries::value);
  });
  archive.attributes("path_axis", [&](auto field) {
    field("bin_ns", data.path_axis.bin_ns);
    field("origin_utc_ns", data.path_axis.origin_utc_ns);
  });
  archive.table("path_series", data.path_series, [&](auto& table) {
    table.column("path", &PathSeries::path);
    table.column("bin", &PathSeries::bin);
    table.column("wall_ns", &PathSeries::wall_ns);
    if (archive.is_profile()) table.column("raw_wall_ns", &PathSeries::raw_wall_ns);
  });
}

template <typename Archive, typename Data>
void visit_files_and_regions(Archive& archive, Data& data) {
  archive.table("io_files", data.io_files, [](auto& table) {
    table.strings("path", &IoFile::path);
    table.strings("file_system", &IoFile::file_system);
  });
  archive.ranked_table("io_calls", data.io_calls, data.ranks.size(), [](auto& table) {
    table.column("path", &IoCall::path);
    table.column("file", &IoCall::file);
    table.column("operation", &IoCall::operation);
    table.column("count", &IoCall::count);
    table.column("failed", &IoCall::failed);
    table.column("bytes", &IoCall::bytes);
    table.column("time_ns", &IoCall::time_ns);
    table.column("max_ns", &IoCall::max_ns);
  });
  archive.ranked_table("region_times", data.region_times, data.ranks.size(), [](auto& table) {
    table.column("path", &RegionTime::path);
    table.column("count", &RegionTime::count);
    table.column("time_ns", &RegionTime::time_ns);
    table.column("min_ns", &RegionTime::min_ns);
    table.column("max_ns", &RegionTime::max_ns);
    table.column("max_n", &RegionTime::max_n);
  });
}

template <typename Archive, typename Data>
void visit_memory(Archive& archive, Data& data) {
  archive.table("memory_ranks", data.memory_ranks, [](auto& table) {
    table.column("rank", &MemoryRank::rank);
    table.column("interval_bytes", &MemoryRank::interval_bytes);
    table.column("peak_bytes", &MemoryRank::peak_bytes);
    table.column("peak_ns", &MemoryRank::peak_ns);
    table.column("live_end_bytes", &MemoryRank::live_end_bytes);
    table.column("untracked_bytes", &MemoryRank::untracked_bytes);
    table.column("static_bytes", &MemoryRank::static_bytes);
    table.column("max_anon_bytes", &MemoryRank::max_anon_bytes);
    table.column("live_at_max_anon_bytes", &MemoryRank::live_at_max_anon_bytes);
    table.column("mean_anon_bytes", &MemoryRank::mean_anon_bytes);
    table.column("mean_live_bytes", &MemoryRank::mean_live_bytes);
    table.column("pss_bytes", &MemoryRank::pss_bytes);
    table.column("private_dirty_bytes", &MemoryRank::private_dirty_bytes);
    table.column("huge_bytes", &MemoryRank::huge_bytes);
    table.column("swap_bytes", &MemoryRank::swap_bytes);
    table.column("near_bytes", &MemoryRank::near_bytes);
    table.column("far_bytes", &MemoryRank::far_bytes);
  });
  archive.ranked_table("memory_sites", data.memory_sites, data.ranks.size(), [](auto& table) {
    table.column("path", &MemorySite::path);
    table.column("domain", &MemorySite::domain);
    table.column("alloc_bytes", &MemorySite::alloc_bytes);
    table.column("alloc_count", &MemorySite::alloc_count);
    table.column("variance", &MemorySite::variance);
    table.column("soon_bytes", &MemorySite::soon_bytes);
    table.column("soon_count", &MemorySite::soon_count);
    table.column("copy_bytes", &MemorySite::copy_bytes);
    table.column("copy_count", &MemorySite::copy_count);
    table.column("live_end_bytes", &MemorySite::live_end_bytes);
    table.column("rank_peak_bytes", &MemorySite::rank_peak_bytes);
    table.column("node_peak_bytes", &MemorySite::node_peak_bytes);
    for (std::size_t i = 0; i < MemorySite::kAges; ++i) {
      const std::string name = "live_by_age_" + std::to_string(i);
      table.column(
          name.c_str(), [i](auto& row) -> auto& { return row.live_by_age[i]; });
    }
  });
  archive.table("memory_series", data.memory_series, [](auto& table) {
    table.column("path", &MemorySeries::path);
    table.column("bin", &MemorySeries::bin);
    table.column("kib_ms", &MemorySeries::kib_ms);
  });
  archive.table("memory_spaces", data.memory_spaces, [](auto& table) {
    table.column("rank", &MemorySpace::rank);
    table.column("processes", &MemorySpace::processes);
    table.column("allocations", &MemorySpace::allocations);
    table.column("frees", &MemorySpace::frees);
    table.column("alloc_bytes", &MemorySpace::alloc_bytes);
    table.column("live_end_bytes", &MemorySpace::live_end_bytes);
    table.column("peak_bytes", &MemorySpace::peak_bytes);
    table.column("peak_utc_ns", &MemorySpace::peak_utc_ns);
    table.column("unknown_frees", &MemorySpace::unknown_frees);
    table.column("unknown_bytes", &MemorySpace::unknown_bytes);
    table.strings("name", &MemorySpace::name);
  });
  archive.table("memory_labels", data.memory_labels, [](auto& table) {
    table.column("rank", &MemoryLabel::rank);
    table.column("allocations", &MemoryLabel::allocations);
    table.column("frees", &MemoryLabel::frees);
    table.column("alloc_bytes", &MemoryLabel::alloc_bytes);
    table.column("live_end_bytes", &MemoryLabel::live_end_bytes);
    table.column("peak_bytes", &MemoryLabel::peak_bytes);
    table.column("space_peak_bytes", &MemoryLabel::space_peak_bytes);
    table.strings("space", &MemoryLabel::space);
    table.strings("name", &MemoryLabel::name);
  });
  archive.table("memory_copies", data.memory_copies, [](auto& table) {
    table.column("rank", &MemoryCopies::rank);
    table.column("count", &MemoryCopies::count);
    table.column("bytes", &MemoryCopies::bytes);
    table.strings("to", &MemoryCopies::to);
    table.strings("from", &MemoryCopies::from);
  });
}

// ranks: number of rows of table ranks.
template <typename Archive, typename Data>
void visit_matrix(Archive& archive, Data& data, std::size_t ranks) {
  archive.ranked_table("values", data.values, ranks, [](auto& table) {
    table.column("path", &Value::path);
    table.column("category", &Value::category);
    table.column("main_thread", &Value::main_thread);
    table.column("wall_ns", &Value::wall_ns);
    table.column("cpu_ns", &Value::cpu_ns);
    table.column("samples", &Value::samples);
  });
  archive.ranked_table("path_counters", data.path_counters, ranks, [](auto& table) {
    table.column("path", &PathCounter::path);
    table.column("counter", &PathCounter::counter);
    table.column("value", &PathCounter::value);
  });
  archive.ranked_table("data_accesses", data.data_accesses, ranks, [](auto& table) {
    table.column("path", &DataAccess::path);
    table.column("samples", &DataAccess::samples);
    table.column("accesses", &DataAccess::accesses);
    for (std::size_t i = 0; i < std::tuple_size_v<decltype(DataAccess::blocks)>; ++i) {
      const std::string name = "blocks_" + std::to_string(i);
      table.column(
          name.c_str(), [i](auto& row) -> auto& { return row.blocks[i]; });
    }
  });
}

template <typename Archive, typename Data>
void visit_call_paths(Archive& archive, Data& data) {
  archive.table("frames", data.frames, [](auto& table) {
    table.column("kind", &Frame::kind);
    table.column("inlined", &Frame::inlined);
    table.column("name", &Frame::name);
    table.column("file", &Frame::file);
    table.column("module", &Frame::module);
    table.column("line", &Frame::line);
    table.column("function_line", &Frame::function_line);
    table.column("line_approximate", &Frame::line_approximate);
  });
  archive.table("paths", data.paths, [](auto& table) {
    table.column(
        "id_high", [](auto& row) -> auto& { return row.id.high; });
    table.column(
        "id_low", [](auto& row) -> auto& { return row.id.low; });
    table.column("parent", &Path::parent);
    table.column("frame", &Path::frame);
  });
}

template <typename Archive, typename Data>
void visit_communication_matrix(Archive& archive, Data& data) {
  archive.table("matrix", data.matrix, [](auto& table) {
    table.column("source", &MatrixCell::source);
    table.column("destination", &MatrixCell::destination);
    table.column("messages", &MatrixCell::messages);
    table.column("bytes", &MatrixCell::bytes);
  });
}

template <typename Archive, typename Data>
void visit_mpi_calls(Archive& archive, Data& data) {
  archive.ranked_table("mpi_calls", data.mpi_calls, data.ranks.size(), [](auto& table) {
    table.column("path", &MpiCall::path);
    table.column("communicator", &MpiCall::communicator);
    table.column("count", &MpiCall::count);
    table.column("time_ns", &MpiCall::time_ns);
    table.column("min_ns", &MpiCall::min_ns);
    table.column("max_ns", &MpiCall::max_ns);
    table.column("sent_bytes", &MpiCall::sent_bytes);
    table.column("recv_bytes", &MpiCall::recv_bytes);
    table.column("main_thread", &MpiCall::main_thread);
    table.column("unfinished", &MpiCall::unfinished);
  });
  archive.ranked_table("calls_under_way", data.calls_under_way, data.ranks.size(), [](auto& table) {
    table.column("tid", &CallUnderWay::tid);
    table.column("main_thread", &CallUnderWay::main_thread);
    table.column("path", &CallUnderWay::path);
    table.column("communicator", &CallUnderWay::communicator);
    table.column("sequence", &CallUnderWay::sequence);
    table.column("peer", &CallUnderWay::peer);
    table.column("tag", &CallUnderWay::tag);
    table.column("root", &CallUnderWay::root);
    table.column("enter_ns", &CallUnderWay::enter_ns);
    table.column("lasted_ns", &CallUnderWay::lasted_ns);
    table.column("requests", &CallUnderWay::requests);
    table.column("open_requests", &CallUnderWay::open_requests);
    table.column("agreed_bytes", &CallUnderWay::agreed_bytes);
  });
  archive.ranked_table("pending_requests", data.pending_requests, data.ranks.size(), [](auto& table) {
    table.column("tid", &PendingRequest::tid);
    table.column("enter_ns", &PendingRequest::enter_ns);
    table.column("kind", &PendingRequest::kind);
    table.column("peer", &PendingRequest::peer);
  });
  archive.ranked_table("collective_counts", data.collective_counts, data.ranks.size(), [](auto& table) {
    table.column("path", &CollectiveCount::path);
    table.column("communicator", &CollectiveCount::communicator);
    table.column("count", &CollectiveCount::count);
    table.column("agreed_bytes", &CollectiveCount::agreed_bytes);
  });
  archive.ranked_table("mpi_errors", data.mpi_errors, data.ranks.size(), [](auto& table) {
    table.column("path", &MpiError::path);
    table.column("communicator", &MpiError::communicator);
    table.column("error_class", &MpiError::error_class);
    table.column("peer", &MpiError::peer);
    table.column("tag", &MpiError::tag);
    table.column("message", &MpiError::message);
    table.column("count", &MpiError::count);
    table.column("first_ns", &MpiError::first_ns);
    table.strings("name", &MpiError::name);
    table.strings("text", &MpiError::text);
  });
  archive.ranked_table("open_requests", data.open_requests, data.ranks.size(), [](auto& table) {
    table.column("path", &OpenRequests::path);
    table.column("communicator", &OpenRequests::communicator);
    table.column("kind", &OpenRequests::kind);
    table.column("peer", &OpenRequests::peer);
    table.column("tag", &OpenRequests::tag);
    table.column("count", &OpenRequests::count);
  });
  archive.table("communicators", data.communicators, [](auto& table) {
    table.column("identity", &Communicator::identity);
    table.column("size", &Communicator::size);
    table.strings("name", &Communicator::name);
  });
  archive.ranked_table("group_numbers", data.group_numbers, data.ranks.size(), [](auto& table) {
    table.column("communicator", &GroupNumber::communicator);
    table.column("number", &GroupNumber::number);
  });
  archive.ranked_table("group_messages", data.group_messages, data.ranks.size(), [](auto& table) {
    table.column("communicator", &GroupMessages::communicator);
    table.column("destination", &GroupMessages::destination);
    table.column("messages", &GroupMessages::messages);
    table.column("bytes", &GroupMessages::bytes);
  });
  visit_communication_matrix(archive, data);
  archive.table("mpi_sizes", data.mpi_sizes, [](auto& table) {
    table.column("op", &MpiSize::op);
    table.column("le_bytes", &MpiSize::le_bytes);
    table.column("count", &MpiSize::count);
  });
}

template <typename Archive, typename Data>
void visit_counter_values(Archive& archive, Data& data) {
  archive.table("counter_values", data.counter_values, [](auto& table) {
    table.column("rank", &CounterValue::rank);
    table.column("counter", &CounterValue::counter);
    table.column("value", &CounterValue::value);
  });
  archive.table("unavailable_counters", data.unavailable_counters, [](auto& table) {
    table.strings("name", &UnavailableCounter::name);
    table.strings("reason", &UnavailableCounter::reason);
  });
  archive.table("settings", data.settings, [](auto& table) {
    table.column("kind", &Setting::kind);
    table.strings("name", &Setting::name);
    table.strings("value", &Setting::value);
  });
}

template <typename Archive, typename Data>
void visit_tables(Archive& archive, Data& data, Tables which) {
  visit_summary(archive, data);
  if (which == Tables::kSummary) return;
  archive.list("strings", "text", data.strings);
  visit_call_paths(archive, data);
  if (which == Tables::kPaths) {
    archive.list("counters", "name", data.counters);
    visit_communication_matrix(archive, data);
    return;
  }
  visit_mpi_calls(archive, data);
  archive.list("counters", "name", data.counters);
  visit_counter_values(archive, data);
  visit_series(archive, data);
  visit_files_and_regions(archive, data);
  visit_memory(archive, data);
  visit_processes(archive, data);
  visit_event_loops(archive, data);
  visit_mutex_waits(archive, data);
  visit_openmp(archive, data);
  visit_task_times(archive, data);
  visit_threads(archive, data);
  visit_thread_spans(archive, data);
  visit_recording_windows(archive, data);
  visit_failures(archive, data);
  visit_clocks(archive, data);
  visit_waiting(archive, data);
  if (which != Tables::kHead) visit_events(archive, data);
  if (which == Tables::kAll) visit_matrix(archive, data, data.ranks.size());
}

}  // namespace

void write_tables(h5::Group& root, const ShardData& data, Tables which) {
  // Only profiles keep the matrix tables apart from the others.
  Writer writer(root, which == Tables::kNoMatrix);
  visit_tables(writer, data, which);
}

ShardData read_tables(const h5::Group& root, Tables which) {
  ShardData data;
  Reader reader(root);
  visit_tables(reader, data, which);
  if (which == Tables::kSummary)  // the strings that these refer to were not read
    for (Rank& rank : data.ranks)
      for (const auto text : kRankTexts) rank.*text = 0;
  return data;
}

MatrixRows read_matrix(const h5::Group& root, std::size_t ranks) {
  MatrixRows rows;
  Reader reader(root);
  visit_matrix(reader, rows, ranks);
  return rows;
}

}  // namespace clusterprof::shard
