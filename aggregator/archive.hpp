// SPDX-License-Identifier: BSD-3-Clause
// Turns the data that members of a Team send each other into bytes and back. Only for processes of one
// program.
#pragma once

#include <cereal/archives/binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <streambuf>
#include <type_traits>
#include <vector>

#include "aggregator/team.hpp"
#include "base/byte_streams.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Counts the bytes that an archive will have.
class ByteCounter final : public std::streambuf {
 public:
  std::size_t bytes = 0;

 protected:
  std::streamsize xsputn(const char*, std::streamsize count) override {
    bytes += static_cast<std::size_t>(count);
    return count;
  }
  int_type overflow(int_type byte) override {
    bytes += byte != traits_type::eof() ? 1 : 0;
    return byte;
  }
};

template <typename T>
Bytes to_bytes(const T& value) {
  const auto write_to = [&](std::streambuf& buffer) {
    std::ostream stream(&buffer);
    cereal::BinaryOutputArchive archive(stream);
    archive(value);
  };
  ByteCounter counter;
  write_to(counter);
  Bytes bytes;
  bytes.reserve(counter.bytes);  // growing would take twice the memory
  ByteWriter writer(bytes);
  write_to(writer);
  return bytes;
}

template <typename T>
T from_bytes(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::istream stream(&reader);
  cereal::BinaryInputArchive archive(stream);
  T value;
  archive(value);
  return value;
}

// Rows without pointers, copied as one block.
template <typename Archive, typename Row>
void archive_rows(Archive& archive, std::vector<Row>& rows) {
  static_assert(std::is_trivially_copyable_v<Row>);
  std::uint64_t count = rows.size();
  archive(count);
  if constexpr (Archive::is_loading::value) rows.resize(count);
  archive(cereal::binary_data(rows.data(), count * sizeof(Row)));
}

}  // namespace clusterprof::aggregator

namespace clusterprof::shard {

template <typename Archive>
void serialize(Archive& archive, Note& note) {
  archive(note.code, note.node, note.text, note.detail, note.number, note.first_rank, note.last_rank);
}

// A head: all of a shard's data but the matrix tables, the events and what belongs to these.
template <typename Archive>
void serialize(Archive& archive, Run& run) {
  archive(run.id, run.command, run.own, run.start_utc_ns, run.world_size, run.rate_hz, run.clock,
          run.sample_on, run.only_regions, run.standby, run.counters_multiplexed, run.version,
          run.mpi_library, run.launcher, run.complete, run.notes);
}
template <typename Archive>
void serialize(Archive& archive, Node& node) {
  archive(node.name, node.start_utc_ns, node.elapsed_ns, node.cpu_ns, node.collector_cpu_ns,
          node.collector_max_rss_bytes, node.cpus, node.numa_nodes, node.memory_bytes, node.cache_bytes,
          node.cpu_model, node.as_of_utc_ns, node.next_within_ns, node.collector,
          cereal::binary_data(&node.group, sizeof node.group), node.requested_memory_bytes,
          node.held_peak_bytes, node.held_peak_utc_ns);
}
template <typename Archive>
void serialize(Archive& archive, Communicator& communicator) {
  archive(communicator.identity, communicator.size, communicator.name);
}
template <typename Archive>
void serialize(Archive& archive, UnavailableCounter& counter) {
  archive(counter.name, counter.reason);
}
template <typename Archive>
void serialize(Archive& archive, Setting& setting) {
  archive(setting.kind, setting.name, setting.value);
}
template <typename Archive>
void serialize(Archive& archive, IoFile& file) {
  archive(file.path, file.file_system);
}
template <typename Archive>
void serialize(Archive& archive, Drop& drop) {
  archive(drop.rank, drop.reason, drop.count);
}
template <typename Archive>
void serialize(Archive& archive, Process& process) {
  archive(process.rank, process.path, process.pid, process.parent_pid, process.origin, process.unrecorded,
          process.flags, process.exit_status, process.exit_signal, process.count, process.start_utc_ns,
          process.elapsed_ns, process.cpu_ns, process.cpu_min_ns, process.cpu_max_ns, process.children_cpu_ns,
          process.top_path, process.top_ns, process.command);
}
template <typename Archive>
void serialize(Archive& archive, EventLoop& loop) {
  archive(loop.rank, loop.path, loop.pid, loop.tid, loop.main_thread, loop.number, loop.start_utc_ns,
          loop.turns, loop.idle_ns, loop.busy_ns, loop.blocked, loop.blocked_ns, loop.longest_ns,
          loop.longest_utc_ns, loop.lengths, loop.thread);
}
template <typename Archive>
void serialize(Archive& archive, OmpRank& row) {
  archive(row.rank, row.method, row.flags, row.processors, row.runtime);
}
template <typename Archive>
void serialize(Archive& archive, MutexWait& row) {
  archive(row.rank, row.path, row.holder_path, row.mutex, row.wait_ns, row.samples, row.longest_ns, row.name);
}
template <typename Archive>
void serialize(Archive& archive, MemorySpace& row) {
  archive(row.rank, row.processes, row.allocations, row.frees, row.alloc_bytes, row.live_end_bytes,
          row.peak_bytes, row.peak_utc_ns, row.unknown_frees, row.unknown_bytes, row.name);
}
template <typename Archive>
void serialize(Archive& archive, MemoryLabel& row) {
  archive(row.rank, row.allocations, row.frees, row.alloc_bytes, row.live_end_bytes, row.peak_bytes,
          row.space_peak_bytes, row.space, row.name);
}
template <typename Archive>
void serialize(Archive& archive, MemoryCopies& row) {
  archive(row.rank, row.count, row.bytes, row.to, row.from);
}
template <typename Archive>
void serialize(Archive& archive, TaskTime& task) {
  archive(task.rank, task.path, task.task_path, task.wall_ns, task.cpu_ns, task.samples, task.name);
}
template <typename Archive>
void serialize(Archive& archive, Thread& thread) {
  archive(thread.rank, thread.path, thread.top_path, thread.last_path, thread.pid, thread.tid, thread.kind,
          thread.flags, thread.count, thread.start_utc_ns, thread.elapsed_ns, thread.cpu_ns,
          thread.cpu_min_ns, thread.cpu_max_ns, thread.unmoved_ns, thread.unmoved_cpu_ns,
          thread.last_category, thread.name);
}
template <typename Archive>
void serialize(Archive& archive, Failure& failure) {
  archive(failure.rank, failure.flags, failure.signal, failure.address, failure.instruction,
          failure.abort_code, failure.message, failure.stderr_tail);
}
template <typename Archive>
void serialize(Archive& archive, MpiError& error) {
  archive(error.rank, error.path, error.communicator, error.error_class, error.peer, error.tag, error.message,
          error.count, error.first_ns, error.name, error.text);
}
template <typename Archive>
void serialize(Archive& archive, ShardData& head) {
  using aggregator::archive_rows;
  archive(head.run, head.strings, head.nodes, head.communicators, head.counters, head.unavailable_counters,
          head.settings, head.io_files, head.drops, head.processes, head.event_loops, head.threads,
          head.failures, head.mpi_errors);
  archive(head.mutex_waits, head.omp_ranks, head.memory_spaces, head.memory_labels, head.memory_copies);
  archive_rows(archive, head.omp_regions);
  archive_rows(archive, head.omp_threads);
  archive_rows(archive, head.omp_constructs);
  archive(head.task_times);
  archive_rows(archive, head.loop_blocks);
  archive_rows(archive, head.frames);
  archive_rows(archive, head.paths);
  archive_rows(archive, head.ranks);
  archive_rows(archive, head.mpi_calls);
  archive_rows(archive, head.calls_under_way);
  archive_rows(archive, head.pending_requests);
  archive_rows(archive, head.collective_counts);
  archive_rows(archive, head.open_requests);
  archive_rows(archive, head.group_numbers);
  archive_rows(archive, head.group_messages);
  archive_rows(archive, head.matrix);
  archive_rows(archive, head.mpi_sizes);
  archive_rows(archive, head.counter_values);
  archive_rows(archive, head.handler_costs);
  archive(head.time_axis.bin_ns, head.time_axis.origin_utc_ns);
  archive_rows(archive, head.series);
  archive_rows(archive, head.rank_series);
  archive_rows(archive, head.node_series);
  archive(head.path_axis.bin_ns, head.path_axis.origin_utc_ns);
  archive_rows(archive, head.path_series);
  archive_rows(archive, head.io_calls);
  archive_rows(archive, head.region_times);
  archive_rows(archive, head.memory_ranks);
  archive_rows(archive, head.memory_sites);
  archive_rows(archive, head.memory_series);
  archive_rows(archive, head.thread_spans);
  archive_rows(archive, head.span_times);
  archive_rows(archive, head.recording_windows);
  archive(cereal::binary_data(&head.wait_analysis, sizeof head.wait_analysis));
  archive_rows(archive, head.wait_states);
  archive_rows(archive, head.unmatched_messages);
  archive_rows(archive, head.root_causes);
  archive_rows(archive, head.critical_times);
  archive_rows(archive, head.time_windows);
}

}  // namespace clusterprof::shard
