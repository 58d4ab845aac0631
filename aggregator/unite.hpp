// SPDX-License-Identifier: BSD-3-Clause
// For tables with several rows per rank: which rows of one rank have the same key, and how two of them are
// united. Both are commutative and associative.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>

#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

using shard::unite;  // of rows in the matrix tables, and of memory_sites

inline auto key(const shard::Value& row) { return std::tuple(row.path, row.category, !row.main_thread); }

inline void unite(shard::MpiCall& into, const shard::MpiCall& row) {
  if (row.count != 0) {
    into.min_ns = into.count == 0 ? row.min_ns : std::min(into.min_ns, row.min_ns);
    into.max_ns = std::max(into.max_ns, row.max_ns);
  }
  into.count += row.count;
  into.time_ns += row.time_ns;
  into.sent_bytes += row.sent_bytes;
  into.recv_bytes += row.recv_bytes;
  into.unfinished += row.unfinished;
}
inline auto key(const shard::MpiCall& row) {
  return std::tuple(row.path, row.communicator, !row.main_thread);
}

// A thread is in only one call at a time, so both rows describe the same call.
inline void unite(shard::CallUnderWay& into, const shard::CallUnderWay& row) {
  into.lasted_ns = std::max(into.lasted_ns, row.lasted_ns);
  into.requests = std::max(into.requests, row.requests);
  into.open_requests = std::max(into.open_requests, row.open_requests);
  into.agreed_bytes = std::min(into.agreed_bytes, row.agreed_bytes);
}
inline auto key(const shard::CallUnderWay& row) {
  return std::tuple(row.tid, row.enter_ns, row.path, row.communicator, row.sequence, row.peer, row.tag,
                    row.root, row.main_thread);
}

inline void unite(shard::CollectiveCount& into, const shard::CollectiveCount& row) {
  if (row.count > into.count)
    into.agreed_bytes = row.agreed_bytes;
  else if (row.count == into.count)
    into.agreed_bytes = std::min(into.agreed_bytes, row.agreed_bytes);
  into.count = std::max(into.count, row.count);
}
inline auto key(const shard::CollectiveCount& row) { return std::tuple(row.path, row.communicator); }

inline auto key(const shard::GroupNumber& row) { return std::tuple(row.communicator); }
inline void unite(shard::GroupNumber& into, const shard::GroupNumber& row) {
  into.number = std::min(into.number, row.number);
}

inline auto key(const shard::GroupMessages& row) { return std::tuple(row.communicator, row.destination); }
inline void unite(shard::GroupMessages& into, const shard::GroupMessages& row) {
  into.messages += row.messages;
  into.bytes += row.bytes;
}

inline auto key(const shard::MpiError& row) {
  return std::tuple(row.path, row.communicator, row.error_class, row.peer, row.tag,
                    std::string_view(row.name), std::string_view(row.text));
}
inline void unite(shard::MpiError& into, const shard::MpiError& row) {
  if (row.first_ns < into.first_ns) {
    into.first_ns = row.first_ns;
    into.message = row.message;
  }
  into.count += row.count;
}
inline auto key(const shard::OpenRequests& row) {
  return std::tuple(row.path, row.communicator, row.kind, row.peer, row.tag);
}
inline void unite(shard::OpenRequests& into, const shard::OpenRequests& row) { into.count += row.count; }

inline void unite(shard::PendingRequest&, const shard::PendingRequest&) {}
inline auto key(const shard::PendingRequest& row) {
  return std::tuple(row.tid, row.enter_ns, row.kind, row.peer);
}

inline auto key(const shard::PathCounter& row) { return std::tuple(row.path, row.counter); }

inline void unite(shard::CounterValue& into, const shard::CounterValue& row) { into.value += row.value; }
inline auto key(const shard::CounterValue& row) { return std::tuple(row.counter); }

inline void unite(shard::Drop& into, const shard::Drop& row) { into.count += row.count; }
inline auto key(const shard::Drop& row) { return std::tuple(std::string_view(row.reason)); }

// The same process, of which one shard may know more than the other.
inline void unite(shard::Process& into, const shard::Process& row) {
  const auto knows = [](const shard::Process& process) {
    return std::tuple(process.elapsed_ns, process.cpu_ns, process.top_ns, process.top_path, process.flags);
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::Process& row) {
  return std::tuple(row.start_utc_ns, row.pid, row.parent_pid, row.origin, row.path, row.count,
                    std::string_view(row.command));
}

// The same loop, which one shard may have seen for longer than the other.
inline void unite(shard::EventLoop& into, const shard::EventLoop& row) {
  const auto knows = [](const shard::EventLoop& loop) {
    return std::tuple(loop.turns, loop.busy_ns, loop.idle_ns, loop.path);
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::EventLoop& row) {
  return std::tuple(row.pid, row.tid, row.start_utc_ns, row.number);
}
inline void unite(shard::LoopBlock& into, const shard::LoopBlock& row) {
  into.wall_ns = std::min(into.wall_ns + row.wall_ns, into.turn_ns);  // of paths that are the same now
}
// The largest part first.
inline auto key(const shard::LoopBlock& row) {
  return std::tuple(row.pid, row.tid, row.start_utc_ns, row.number, row.begin_utc_ns, row.turn_ns,
                    ~row.wall_ns, row.path, row.flags);
}

inline void unite(shard::TaskTime& into, const shard::TaskTime& row) {
  into.wall_ns += row.wall_ns;
  into.cpu_ns += row.cpu_ns;
  into.samples += row.samples;
}
inline auto key(const shard::TaskTime& row) {
  return std::tuple(row.path, row.task_path, std::string_view(row.name));
}

inline void unite(shard::Thread& into, const shard::Thread& row) {
  const auto knows = [](const shard::Thread& thread) {
    return std::tuple(thread.elapsed_ns, thread.cpu_ns, thread.top_path, thread.last_path, thread.flags,
                      std::string_view(thread.name));
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::Thread& row) {
  return std::tuple(row.start_utc_ns, row.tid, row.pid, row.kind, row.path, row.count);
}

// A rank's main process is in one shard: both rows are the same span.
inline void unite(shard::ThreadSpan& into, const shard::ThreadSpan& row) {
  const auto knows = [](const shard::ThreadSpan& span) {
    return std::tuple(span.end_ns, span.call_ns, span.begin_ns, span.how, span.other, span.mpi_thread);
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::ThreadSpan& row) { return std::tuple(row.thread, row.number); }
inline void unite(shard::SpanTime& into, const shard::SpanTime& row) {
  into.wall_ns = std::max(into.wall_ns, row.wall_ns);
}
inline auto key(const shard::SpanTime& row) { return std::tuple(row.thread, row.number, row.path); }

inline void unite(shard::HandlerCost& into, const shard::HandlerCost& row) { into.count += row.count; }
inline auto key(const shard::HandlerCost& row) { return std::tuple(row.le_ns); }

inline void unite(shard::IoCall& into, const shard::IoCall& row) {
  into.count += row.count;
  into.failed += row.failed;
  into.bytes += row.bytes;
  into.time_ns += row.time_ns;
  into.max_ns = std::max(into.max_ns, row.max_ns);
}
inline auto key(const shard::IoCall& row) { return std::tuple(row.path, row.file, row.operation); }

inline auto key(const shard::DataAccess& row) { return std::tuple(row.path); }

inline void unite(shard::RegionTime& into, const shard::RegionTime& row) {
  if (row.count == 0) return;
  const auto longest = [](const shard::RegionTime& region) {
    return std::tuple(region.max_ns, region.max_n);
  };
  if (into.count == 0 || row.min_ns < into.min_ns) into.min_ns = row.min_ns;
  if (into.count == 0 || longest(into) < longest(row)) {
    into.max_ns = row.max_ns;
    into.max_n = row.max_n;
  }
  into.count += row.count;
  into.time_ns += row.time_ns;
}
inline auto key(const shard::RegionTime& row) { return std::tuple(row.path); }

inline void unite(shard::MutexWait& into, const shard::MutexWait& row) {
  into.wait_ns += row.wait_ns;
  into.samples += row.samples;
  into.longest_ns = std::max(into.longest_ns, row.longest_ns);
  if (into.name < row.name) into.name = row.name;  // a row of no name may be of a process of another program
}
inline auto key(const shard::MutexWait& row) { return std::tuple(row.path, row.holder_path, row.mutex); }

// A rank has one.
inline void unite(shard::OmpRank& into, const shard::OmpRank& row) {
  const auto knows = [](const shard::OmpRank& rank) {
    return std::tuple(rank.processors, rank.flags, rank.method, std::string_view(rank.runtime));
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::OmpRank&) { return std::tuple(0); }

inline void unite(shard::OmpRegion& into, const shard::OmpRegion& row) {
  into.asked = std::max(into.asked, row.asked);
  into.count += row.count;
  into.unfinished += row.unfinished;
  into.time_ns += row.time_ns;
  into.mpi_ns += row.mpi_ns;
  into.longest_ns += row.longest_ns;
  into.threads_ns += row.threads_ns;
  into.wait_ns += row.wait_ns;
  into.inner_wait_ns += row.inner_wait_ns;
  into.schedule_ns += row.schedule_ns;
}
inline auto key(const shard::OmpRegion& row) {
  return std::tuple(row.path, row.threads, row.level, row.main, row.kind);
}
inline void unite(shard::OmpThread& into, const shard::OmpThread& row) {
  into.count += row.count;
  into.time_ns += row.time_ns;
  into.wait_ns += row.wait_ns;
  into.inner_wait_ns += row.inner_wait_ns;
  into.schedule_ns += row.schedule_ns;
}
inline auto key(const shard::OmpThread& row) {
  return std::tuple(row.path, row.threads, row.level, row.main, row.number);
}
inline void unite(shard::OmpConstruct& into, const shard::OmpConstruct& row) {
  into.count += row.count;
  into.time_ns += row.time_ns;
  into.wait_ns += row.wait_ns;
  into.schedule_ns += row.schedule_ns;
  into.chunks += row.chunks;
  into.iterations += row.iterations;
  into.longest_ns += row.longest_ns;
  into.used = std::max(into.used, row.used);
  into.schedules |= row.schedules;
}
inline auto key(const shard::OmpConstruct& row) {
  return std::tuple(row.region_path, row.threads, row.level, row.main, row.path, row.kind);
}

inline auto key(const shard::MemorySite& row) { return std::tuple(row.path, row.domain); }

// The one that has seen more.
inline void unite(shard::MemoryRank& into, const shard::MemoryRank& row) {
  const auto knows = [](const shard::MemoryRank& rank) {
    return std::tuple(rank.peak_bytes, rank.peak_ns, rank.live_end_bytes, rank.max_anon_bytes, rank.pss_bytes,
                      rank.interval_bytes, rank.untracked_bytes, rank.static_bytes, rank.mean_anon_bytes,
                      rank.mean_live_bytes, rank.live_at_max_anon_bytes, rank.private_dirty_bytes,
                      rank.huge_bytes, rank.swap_bytes, rank.near_bytes, rank.far_bytes);
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::MemoryRank&) { return std::tuple(0); }  // a rank has one

inline void unite(shard::MemorySpace& into, const shard::MemorySpace& row) {
  if (std::tuple(into.peak_bytes, into.peak_utc_ns) < std::tuple(row.peak_bytes, row.peak_utc_ns)) {
    into.peak_bytes = row.peak_bytes;
    into.peak_utc_ns = row.peak_utc_ns;
  }
  into.processes += row.processes;
  into.allocations += row.allocations;
  into.frees += row.frees;
  into.alloc_bytes += row.alloc_bytes;
  into.live_end_bytes += row.live_end_bytes;
  into.unknown_frees += row.unknown_frees;
  into.unknown_bytes += row.unknown_bytes;
}
inline auto key(const shard::MemorySpace& row) { return std::tuple(std::string_view(row.name)); }
inline void unite(shard::MemoryLabel& into, const shard::MemoryLabel& row) {
  into.allocations += row.allocations;
  into.frees += row.frees;
  into.alloc_bytes += row.alloc_bytes;
  into.live_end_bytes += row.live_end_bytes;
  into.peak_bytes = std::max(into.peak_bytes, row.peak_bytes);
  into.space_peak_bytes = std::max(into.space_peak_bytes, row.space_peak_bytes);
}
inline auto key(const shard::MemoryLabel& row) {
  return std::tuple(std::string_view(row.space), std::string_view(row.name));
}
inline void unite(shard::MemoryCopies& into, const shard::MemoryCopies& row) {
  into.count += row.count;
  into.bytes += row.bytes;
}
inline auto key(const shard::MemoryCopies& row) {
  return std::tuple(std::string_view(row.to), std::string_view(row.from));
}

// What one shard says more of.
inline void unite(shard::Failure& into, const shard::Failure& row) {
  const auto knows = [](const shard::Failure& failure) {
    return std::tuple(failure.stderr_tail.size(), failure.flags, failure.signal, failure.address,
                      std::string_view(failure.message), std::string_view(failure.instruction),
                      failure.abort_code, std::string_view(failure.stderr_tail));
  };
  if (knows(into) < knows(row)) into = row;
}
inline auto key(const shard::Failure&) { return std::tuple(0); }  // a rank has one

// The same window, of which one shard may have seen more.
inline void unite(shard::RecordingWindow& into, const shard::RecordingWindow& row) {
  into.end_ns = std::max(into.end_ns, row.end_ns);
}
inline auto key(const shard::RecordingWindow& row) { return std::tuple(row.begin_ns); }

}  // namespace clusterprof::aggregator
