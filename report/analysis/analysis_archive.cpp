// SPDX-License-Identifier: BSD-3-Clause
// An Analysis as bytes. cereal goes through the members; the archives are our own, because those of cereal
// allocate whatever a damaged size says, and send every number through a stream.
#include <libdeflate.h>

#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/version.hpp"
#include "report/analysis/analysis_builder.hpp"
#include "report/analysis/analysis_code.hpp"
#include "report/analysis/line_rows.hpp"

namespace clusterprof::report {
namespace {

struct Damaged : std::exception {};

// Written as they lie in memory.
template <typename T>
constexpr bool kPlain = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
template <>
constexpr bool kPlain<shard::MatrixCell> = std::has_unique_object_representations_v<shard::MatrixCell>;
static_assert(kPlain<shard::MatrixCell>);
template <>
constexpr bool kPlain<shard::RankRange> = std::has_unique_object_representations_v<shard::RankRange>;
static_assert(kPlain<shard::RankRange>);

// Both archives hold one block of plain bytes at a time: of a large run the whole would be several times that
// of the compressed bytes.
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr int kLevel = 1;
constexpr std::size_t kMaxRatio = 1100;  // deflate's is 1032

struct BlockHead {
  std::uint32_t plain_bytes = 0, stored_bytes = 0;
};

// Numbers as they are in memory, sizes and lists of counts with 7 bits per byte. flush() comes last.
class Writer : public cereal::OutputArchive<Writer, cereal::AllowEmptyClassElision> {
 public:
  // lines: to be written in place of Analysis::lines; null: those that the analysis has.
  explicit Writer(std::vector<std::byte>& out, const LineRows* lines = nullptr)
      : OutputArchive(this), out_(out), lines_(lines) {}
  [[nodiscard]] const LineRows* lines() const { return lines_; }

  void bytes(const void* data, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(data);
    block_.insert(block_.end(), begin, begin + size);
    if (block_.size() >= kBlockBytes) flush(false);
  }
  void number(std::uint64_t value) {
    std::byte text[10];
    std::size_t size = 0;
    for (; value >= 0x80; value >>= 7) text[size++] = static_cast<std::byte>(value | 0x80);
    text[size++] = static_cast<std::byte>(value);
    bytes(text, size);
  }
  // Compresses what there is in blocks of kBlockBytes; with `rest`, the last one may be smaller.
  void flush(bool rest = true) {
    std::size_t at = 0;
    while (block_.size() - at >= (rest ? 1 : kBlockBytes)) {
      const std::size_t size = std::min(kBlockBytes, block_.size() - at);
      compress(std::span(block_).subspan(at, size));
      at += size;
    }
    block_.erase(block_.begin(), block_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  [[nodiscard]] std::uint64_t plain_bytes() const { return plain_bytes_ + block_.size(); }

  // The number of this derived metric among those written, which are told apart by their texts: a constant
  // may have several addresses.
  struct Kind {
    std::size_t number = 0;
    bool is_new = false;
  };
  Kind kind(const Derived& derived) {
    const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const Derived& other) {
      return std::strcmp(other.name, derived.name) == 0 && std::strcmp(other.unit, derived.unit) == 0 &&
             std::strcmp(other.formula, derived.formula) == 0;
    });
    const Kind kind{static_cast<std::size_t>(known - kinds_.begin()), known == kinds_.end()};
    if (kind.is_new) kinds_.push_back(derived);
    return kind;
  }

 private:
  struct Free {
    void operator()(libdeflate_compressor* compressor) const { libdeflate_free_compressor(compressor); }
  };

  void compress(std::span<const std::byte> block) {
    if (!compressor_) compressor_.reset(libdeflate_alloc_compressor(kLevel));
    if (!compressor_) throw std::bad_alloc();
    const std::size_t head = out_.size();
    const std::size_t most = libdeflate_deflate_compress_bound(compressor_.get(), block.size());
    out_.resize(head + sizeof(BlockHead) + most);
    std::byte* const to = out_.data() + head + sizeof(BlockHead);
    const std::size_t stored =
        libdeflate_deflate_compress(compressor_.get(), block.data(), block.size(), to, most);
    const BlockHead sizes{static_cast<std::uint32_t>(block.size()), static_cast<std::uint32_t>(stored)};
    std::memcpy(out_.data() + head, &sizes, sizeof sizes);
    out_.resize(head + sizeof(BlockHead) + stored);
    plain_bytes_ += block.size();
  }

  std::vector<std::byte>& out_;
  const LineRows* lines_;
  std::vector<std::byte> block_;
  std::uint64_t plain_bytes_ = 0;  // compressed so far
  std::unique_ptr<libdeflate_compressor, Free> compressor_;
  std::vector<Derived> kinds_;
};

class Reader : public cereal::InputArchive<Reader, cereal::AllowEmptyClassElision> {
 public:
  // plain_bytes: of all blocks together.
  Reader(std::span<const std::byte> in, std::uint64_t plain_bytes)
      : InputArchive(this), in_(in), left_(plain_bytes), decompressor_(libdeflate_alloc_decompressor()) {
    if (!decompressor_) throw std::bad_alloc();
    if (plain_bytes / kMaxRatio > in.size()) throw Damaged();
  }

  [[nodiscard]] bool at_end() const { return left_ == 0 && rest_.empty() && in_.empty(); }
  void bytes(void* to, std::size_t size) {
    if (size > left_) throw Damaged();
    auto* at = static_cast<std::byte*>(to);
    while (size != 0) {
      if (rest_.empty()) refill();
      const std::size_t part = std::min(size, rest_.size());
      std::memcpy(at, rest_.data(), part);
      take(part);
      at += part;
      size -= part;
    }
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (left_ == 0 || shift > 63) throw Damaged();
      if (rest_.empty()) refill();
      const auto byte = static_cast<std::uint64_t>(rest_.front());
      take(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  // How many elements follow, of at least `least_bytes` each.
  std::size_t size(std::size_t least_bytes) {
    const std::uint64_t size = number();
    if (size > left_ / least_bytes) throw Damaged();
    return size;
  }
  std::vector<Derived>& kinds() { return kinds_; }

 private:
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const {
      libdeflate_free_decompressor(decompressor);
    }
  };

  void take(std::size_t size) {
    rest_ = rest_.subspan(size);
    left_ -= size;
  }
  void refill() {
    BlockHead sizes;
    if (in_.size() < sizeof sizes) throw Damaged();
    std::memcpy(&sizes, in_.data(), sizeof sizes);
    in_ = in_.subspan(sizeof sizes);
    if (sizes.stored_bytes > in_.size() || sizes.plain_bytes == 0 || sizes.plain_bytes > kBlockBytes ||
        sizes.plain_bytes > left_)
      throw Damaged();
    block_.resize(sizes.plain_bytes);
    if (libdeflate_deflate_decompress(decompressor_.get(), in_.data(), sizes.stored_bytes, block_.data(),
                                      block_.size(), nullptr) != LIBDEFLATE_SUCCESS)
      throw Damaged();
    in_ = in_.subspan(sizes.stored_bytes);
    rest_ = block_;
  }

  std::span<const std::byte> in_;
  std::uint64_t left_;  // plain bytes, those of rest_ among them
  std::unique_ptr<libdeflate_decompressor, Free> decompressor_;
  std::vector<std::byte> block_;
  std::span<const std::byte> rest_;
  std::vector<Derived> kinds_;
};

}  // namespace
}  // namespace clusterprof::report

CEREAL_SETUP_ARCHIVE_TRAITS(clusterprof::report::Reader, clusterprof::report::Writer)

namespace clusterprof::report {
namespace {

// No analysis has a NaN, which nothing behind it expects.
template <typename T>
void check(const T& value) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(value)) throw Damaged();
}

template <typename T>
requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const T& value) { out.bytes(&value, sizeof value); }
template <typename T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    std::uint8_t byte = 0;
    in.bytes(&byte, 1);
    value = byte != 0;
  } else {
    in.bytes(&value, sizeof value);
    check(value);
  }
}
template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const cereal::NameValuePair<T>& pair) {
  out(pair.value);
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, cereal::NameValuePair<T>& pair) {
  in(pair.value);
}
template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const cereal::SizeTag<T>& tag) {
  out.number(tag.size);
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, cereal::SizeTag<T>& tag) {
  tag.size = in.size(1);
}
template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const cereal::BinaryData<T>& data) {
  out.bytes(data.data, static_cast<std::size_t>(data.size));
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, cereal::BinaryData<T>& data) {
  in.bytes(data.data, static_cast<std::size_t>(data.size));
}

// Texts that live as long as the program, as the constants do that Derived points to.
const char* constant(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  const std::scoped_lock lock(mutex);
  return texts.insert(text).first->c_str();
}

// The texts of each kind are written once.
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const Derived& derived) {
  const auto& [name, value, unit, formula] = derived;
  const Writer::Kind kind = out.kind(derived);
  out.number(kind.number);
  if (kind.is_new) out(std::string(name), std::string(unit), std::string(formula));
  out(value);
}
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, Derived& derived) {
  constexpr std::size_t kMaxKinds = 256;
  const std::uint64_t kind = in.number();
  std::vector<Derived>& kinds = in.kinds();
  if (kind == kinds.size() && kind < kMaxKinds) {
    std::string name, unit, formula;
    in(name, unit, formula);
    kinds.push_back({constant(name), 0, constant(unit), constant(formula)});
  }
  if (kind >= kinds.size()) throw Damaged();
  derived = kinds[kind];
  in(derived.value);
}

// Bytes that any T takes. A default one is the smallest: its lists are empty.
template <typename T>
std::size_t least_bytes() {
  static const std::size_t size = [] {
    std::vector<std::byte> bytes;
    Writer out(bytes);
    out(T());
    return out.plain_bytes();
  }();
  return size;
}
template <>
std::size_t least_bytes<Derived>() {
  return 1 + sizeof(double);
}
// The default value is a number; an empty text is smaller.
template <>
std::size_t least_bytes<Evidence::Entry>() {
  return sizeof(EvidenceKey) + 2;
}

template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const std::vector<T>& list) {
  if constexpr (std::is_same_v<T, LineRow>) {
    if (out.lines() != nullptr) {
      out.number(out.lines()->size());
      for (std::size_t i = 0; i < out.lines()->size(); ++i) out((*out.lines())[i]);
      return;
    }
  }
  out.number(list.size());
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    for (const std::uint64_t value : list) out.number(value);
  } else if constexpr (kPlain<T>) {
    out.bytes(list.data(), list.size() * sizeof(T));
  } else {
    for (const T& element : list) out(element);
  }
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, std::vector<T>& list) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    list.resize(in.size(1));
    for (std::uint64_t& value : list) value = in.number();
  } else if constexpr (kPlain<T>) {
    list.resize(in.size(sizeof(T)));
    in.bytes(list.data(), list.size() * sizeof(T));
    for (const T& value : list) check(value);
  } else {
    list.resize(in.size(least_bytes<T>()));
    for (T& element : list) in(element);
  }
}

// All members of a struct, in their order: a structured binding that leaves one out does not compile.
#define CLUSTERPROF_MEMBERS(Type, ...)                                    \
  template <typename Archive>                                             \
  void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive_, Type& object_) { \
    auto& [__VA_ARGS__] = object_;                                        \
    archive_(__VA_ARGS__);                                                \
  }

CLUSTERPROF_MEMBERS(NoteRecord, code, number, text, detail, nodes, node_count, ranks, rank_count)
CLUSTERPROF_MEMBERS(CommandRow, words, ranks)
CLUSTERPROF_MEMBERS(RecordingWindow, begin_s, end_s, ranks)
CLUSTERPROF_MEMBERS(shard::Setting, kind, name, value)
CLUSTERPROF_MEMBERS(RunInfo, id, command, commands, start_utc_ns, elapsed_s, lasted_s, nodes, ranks,
                    spawned_ranks, world_size, rate_hz, clock, region, launcher, restarts, sample_on,
                    only_regions, standby, windows, version, mpi_library, samples, dropped, complete, state,
                    as_of_s, snapshot_utc_ns, missing, missing_ranks, notes, settings)
CLUSTERPROF_MEMBERS(Quality, truncated, merges_tried, merges_failed, merge_success, handler_median_s,
                    handler_p99_s, rate_reached_hz, unsampled_threads, unsampled_cpu_s, recording_s,
                    recording_share)
CLUSTERPROF_MEMBERS(shard::GroupMemory, limit_bytes, used_bytes, max_used_bytes, limit_hits, anon_bytes,
                    file_bytes, shared_bytes, kernel_bytes, swap_bytes)
CLUSTERPROF_MEMBERS(NodeInfo, name, ranks, elapsed_s, cpu_s, collector_cpu_s, collector_max_rss_bytes, cpus,
                    numa_nodes, memory_bytes, cache_bytes, cpu_model, busy, memory_used_bytes, received_bytes,
                    sent_bytes, disk_read_bytes, disk_written_bytes, as_of_utc_ns, next_within_ns, collector,
                    state, as_of_s, group, requested_memory_bytes)
CLUSTERPROF_MEMBERS(Limits, time_s, kernel_s, page_fault_s, mapping_s, idle_s, relayed_idle_s, relayed_io_s,
                    workers_s, threads_s, input_idle_s, input_io_s, input_relayed_s, input_path, most_path,
                    most_s)
CLUSTERPROF_MEMBERS(RankInfo, rank, node, pid, command, elapsed_s, paused_s, recorded_s, cpu_s, user_s,
                    kernel_s, samples, threads, processes, category_s, activity_s, useful_s, mpi_wait_s,
                    mpi_transfer_s, mpi_runnable_s, startup_s, mpi_io_s, mpi_helper_threads,
                    mpi_helper_elapsed_s, mpi_helper_s, threads_useful_s, max_rss_bytes, read_bytes,
                    write_bytes, minor_faults, major_faults, voluntary_switches, involuntary_switches,
                    affinity, numa, limits, derived, exit_status, exit_signal, lost, still_ran,
                    last_call_path, last_seen, spawned, restart, end_s, unsampled_threads, unsampled_cpu_s,
                    handler_s)
CLUSTERPROF_MEMBERS(RankSpread, min_s, mean_s, max_s, max_rank)
CLUSTERPROF_MEMBERS(Efficiency, parallel, load_balance, communication, serialization, transfer)
CLUSTERPROF_MEMBERS(FunctionRow, id, name, file, module, line, kind, self_s, total_s, cpu_s, spread,
                    category_s, activity_s, active_self_s, active_total_s, main_self_s, main_total_s,
                    active_spread, counters, working_set_bytes, working_set_is_more)
CLUSTERPROF_MEMBERS(LineRow, id, file, function, line, self_s, total_s, cpu_s, called_s, approximate_s,
                    category_s, activity_s, active_activity_s, active_self_s, active_total_s, main_self_s,
                    main_total_s, active_spread, counters)
CLUSTERPROF_MEMBERS(CallTreeRow, parent, fold, name, file, module, line, kind, self_s, total_s, main_total_s,
                    category_s)
CLUSTERPROF_MEMBERS(MemoryRow, path, time_s, rank, rank_time_s, by_counters, bandwidth, misses_per_kilo,
                    working_set_bytes, working_set_is_more, accesses, cache_bytes)
CLUSTERPROF_MEMBERS(MemoryLine, file, function, line, kind, called, domain, alloc_bytes, alloc_count,
                    error_bytes, soon_bytes, soon_count, copy_bytes, copy_count, live_end_bytes,
                    rank_peak_bytes, node_peak_bytes, file_bytes, max_rank, max_rank_bytes, leak,
                    leak_confidence, growth_bytes_per_s)
CLUSTERPROF_MEMBERS(HeldPart, line, rank, bytes)
CLUSTERPROF_MEMBERS(HeldRank, rank, node, peak_bytes, live_end_bytes, peak_at_s, untracked_bytes,
                    static_bytes, max_anon_bytes, live_at_max_anon_bytes, mean_anon_bytes, mean_live_bytes,
                    pss_bytes, private_dirty_bytes, huge_bytes, swap_bytes, near_bytes, far_bytes)
CLUSTERPROF_MEMBERS(HeldNode, node, peak_bytes, peak_at_s, held, growth_bytes_per_s, growth_line)
CLUSTERPROF_MEMBERS(MemoryTreeRow, parent, fold, name, file, module, line, kind, alloc_bytes, live_end_bytes,
                    rank_peak_bytes, node_peak_bytes)
CLUSTERPROF_MEMBERS(HeldOverTime::Row, line, values)
CLUSTERPROF_MEMBERS(HeldOverTime, bin_s, begin_s, bins, rows)
CLUSTERPROF_MEMBERS(HeldMemory, interval_bytes, ranks, nodes, lines, tree, over_time)
CLUSTERPROF_MEMBERS(MemoryLabelRow, name, ranks, allocations, frees, alloc_bytes, live_end_bytes, peak_bytes,
                    space_peak_bytes, max_rank, max_rank_bytes)
CLUSTERPROF_MEMBERS(MemorySpaceRank, rank, peak_bytes, peak_at_s)
CLUSTERPROF_MEMBERS(MemorySpaceRow, name, processes, allocations, frees, alloc_bytes, live_end_bytes,
                    unknown_frees, unknown_bytes, peaks_bytes, node, node_peaks_bytes, rank_count, ranks,
                    labels)
CLUSTERPROF_MEMBERS(MemoryCopiesRow, to, from, count, bytes, max_rank, max_rank_bytes)
CLUSTERPROF_MEMBERS(LabelledMemory, spaces, copies)
CLUSTERPROF_MEMBERS(IoFileRow, path, file_system, ranks, opens, reads, writes, read_bytes, written_bytes,
                    meta_calls, read_s, write_s, sync_s, meta_s)
CLUSTERPROF_MEMBERS(IoGroupRow, path, file_system, files, opens, reads, writes, read_bytes, written_bytes,
                    meta_calls, read_s, write_s, sync_s, meta_s)
CLUSTERPROF_MEMBERS(IoCallRow, operation, path, file, function, mpi, called, kind, line, of_kernel,
                    in_background, count, failed, bytes, time_s, max_s, longest_rank, max_rank, rank_time_s,
                    rank_count)
CLUSTERPROF_MEMBERS(FileSystemRow, name, of_kernel, calls, read_bytes, written_bytes, read_s, write_s, sync_s,
                    meta_s)
CLUSTERPROF_MEMBERS(IoIncomplete, operations, bytes, time_s)
CLUSTERPROF_MEMBERS(FileIo, files, calls, file_systems, directories, patterns, by_file_only)
CLUSTERPROF_MEMBERS(OffCpuRow, kind, file, function, called, frame_kind, line, time_s, main_thread_s,
                    max_rank)
CLUSTERPROF_MEMBERS(TimelineRow, rank, node, values)
CLUSTERPROF_MEMBERS(RegionMemory, alloc_bytes, live_end_bytes, rank_peak_bytes, node_peak_bytes, copy_bytes)
CLUSTERPROF_MEMBERS(OpenMpEfficiency, parallel, load_balance, scheduling, serialization)
CLUSTERPROF_MEMBERS(RegionRow, names, domain, is_of_library, forward_file, forward_line, count, time_s, min_s,
                    max_s, max_n, spread, sampled_s, share, category_s, efficiency, mean_useful_s,
                    max_useful_s, longest_s, focus_s, slowest_rank, limits, counters, counters_outside_mpi,
                    derived, bottleneck, memory, openmp, hybrid_parallel)
CLUSTERPROF_MEMBERS(MpiCallRow, op, file, function, line, count, sent_bytes, recv_bytes, unfinished, time_s,
                    wait_s, transfer_s, spread)
CLUSTERPROF_MEMBERS(TorchRow, op, kind, file, function, line, time_s, spread, count, wait_s, samples,
                    blocked_s, runnable_s, running_s, ranks, rank_count, min_rank, late_ranks, latest_rank,
                    late_s)
CLUSTERPROF_MEMBERS(TorchTimes, source, rows)
CLUSTERPROF_MEMBERS(PendingPeer, rank, any)
CLUSTERPROF_MEMBERS(PendingRow, kind, peer)
CLUSTERPROF_MEMBERS(Failure, kind, rank, status, signal, address, instruction, stack_overflow, ended_by_mpi,
                    abort_code, exception, message, place, call_path, stderr_tail, mismatch)
CLUSTERPROF_MEMBERS(CallUnderWayRow, place, rank, tid, main_thread, ended, age_s, communicator,
                    communicator_size, sequence, peer, tag, root, any_tag, requests, pending, waits_for,
                    waits_for_count, call_path)
CLUSTERPROF_MEMBERS(MpiErrorRow, place, rank, name, error_class, text, peer, tag, any_tag, communicator,
                    message, count, first_s)
CLUSTERPROF_MEMBERS(OpenRequestRow, place, rank, kind, peer, tag, any_tag, communicator, count)
CLUSTERPROF_MEMBERS(UnmatchedRow, place, rank, receiver, tag, communicator, count)
CLUSTERPROF_MEMBERS(ProcessRow, rank, pid, parent_pid, how, count, group, command, runs, unrecorded,
                    exit_status, exit_signal, start_s, elapsed_s, cpu_s, children_cpu_s, created_by, top,
                    top_s)
CLUSTERPROF_MEMBERS(ProcessGroup, rank, how, unrecorded, program, count, measured, cpu_s, cpu_min_s,
                    cpu_mean_s, cpu_max_s, start_s, end_s, created_by, creation_path, top, top_s)
CLUSTERPROF_MEMBERS(LoopBlockRow, time_s, awaited_s, count, longest_s, place, task)
CLUSTERPROF_MEMBERS(EventLoopRow, rank, pid, tid, main_thread, thread, kind, turns, blocked, idle_s, busy_s,
                    blocked_s, awaited_s, longest_s, longest_at_s, lengths, blocks)
CLUSTERPROF_MEMBERS(MutexHolderRow, place, wait_s)
CLUSTERPROF_MEMBERS(MutexRow, place, wait_s, samples, mutexes, spread, holders)
CLUSTERPROF_MEMBERS(LockRow, kind, name, rank, address, mutexes, waits, wait_s, longest_s, spread, lines,
                    holders)
CLUSTERPROF_MEMBERS(OpenMpConstructRow, kind, place, count, time_s, wait_s, schedule_s, chunks, iterations,
                    imbalance, schedules)
CLUSTERPROF_MEMBERS(OpenMpThreadRow, number, work_s, wait_s)
CLUSTERPROF_MEMBERS(OpenMpRegionRank, rank, count, time_s, thread_s, work_s, wait_s, serial_s, schedule_s,
                    threads, imbalance, efficiency, threads_of_team)
CLUSTERPROF_MEMBERS(OpenMpRegionRow, place, is_teams, level, count, unfinished, time_s, work_s, wait_s,
                    end_wait_s, serial_s, schedule_s, thread_s, threads, threads_asked, imbalance, efficiency,
                    spread, wait_spread, constructs, threads_of_team, ranks)
CLUSTERPROF_MEMBERS(OpenMpSerialRow, place, time_s, lost_s, native_s)
CLUSTERPROF_MEMBERS(OpenMpRank, rank, method, runtime, other_runtime, threads, processors, region_s, serial_s,
                    mpi_s, serial_native_s, work_s, wait_s)
CLUSTERPROF_MEMBERS(OpenMpWindow, begin_s, end_s, work_s, imbalance_s, schedule_s, serialization_s,
                    efficiency, hybrid_parallel, hybrid_mpi)
CLUSTERPROF_MEMBERS(OpenMp, efficiency, hybrid_parallel, hybrid_mpi, hybrid_openmp, work_s, imbalance_s,
                    schedule_s, serialization_s, regions, serial, ranks, windows)
CLUSTERPROF_MEMBERS(TaskRow, rank, name, coroutine, file, line, time_s, cpu_s)
CLUSTERPROF_MEMBERS(ImportRow, package, file, function, line, is_direct, own, time_s, self_s, main_thread_s,
                    ranks, spread)
CLUSTERPROF_MEMBERS(ImportSum, time_s, main_thread_s, main_thread_io_s, main_spread)
CLUSTERPROF_MEMBERS(ThreadRow, rank, pid, tid, kind, count, group, name, runs, start_s, elapsed_s, cpu_s, top)
CLUSTERPROF_MEMBERS(ThreadGroup, rank, kind, name, count, cpu_s, cpu_min_s, cpu_mean_s, cpu_max_s, start_s,
                    end_s, top)
CLUSTERPROF_MEMBERS(CollectiveRow, op, count, ranks, communicators, sent_bytes, recv_bytes, bytes)
CLUSTERPROF_MEMBERS(MpiSizeRow, op, le_bytes, count)
CLUSTERPROF_MEMBERS(NodeCell, source, destination, messages, bytes)
CLUSTERPROF_MEMBERS(SourceLocation, op, function, file, module, line, kind, called)
CLUSTERPROF_MEMBERS(WaitPart, rank, place, wait_s, count, rest)
CLUSTERPROF_MEMBERS(WaitRow, kind, rank, wait_s, count, causes, where)
CLUSTERPROF_MEMBERS(DelayRow, kind, site, rank, place, wait_s, count, waiting_ranks, waiting_rank)
CLUSTERPROF_MEMBERS(RootCauseRow, rank, place, wait_s, share, waiting_ranks, at_least)
CLUSTERPROF_MEMBERS(CriticalRow, place, time_s, share, mean_s, max_rank)
CLUSTERPROF_MEMBERS(WindowRow, begin_s, end_s, parallel, communication, wait_s, load_balance, hybrid_parallel,
                    openmp_parallel)
CLUSTERPROF_MEMBERS(WaitQuality, event_level, operations, events, messages, unmatched_messages, collectives,
                    unmatched_collectives, clock_error_s, worst_violation_s, clock_violations, ideal_s,
                    unreceived_messages)
CLUSTERPROF_MEMBERS(CounterSpread, name, total, min, mean, max, max_rank)
CLUSTERPROF_MEMBERS(RankCounters, rank, values)
void CEREAL_SAVE_FUNCTION_NAME(Writer& out, const Evidence::Value& value) {
  out.number(value.index());
  std::visit([&](const auto& alternative) { out(alternative); }, value);
}
void CEREAL_LOAD_FUNCTION_NAME(Reader& in, Evidence::Value& value) {
  const auto load = [&]<typename T>(T alternative) {
    in(alternative);
    value = std::move(alternative);
  };
  switch (in.number()) {
    case 0:
      return load(double());
    case 1:
      return load(std::string());
    case 2:
      return load(std::vector<std::int32_t>());
    default:
      throw Damaged();
  }
}
CLUSTERPROF_MEMBERS(Evidence, entries)
CLUSTERPROF_MEMBERS(JoinedFinding, kind, share, rank, place, evidence, action)
CLUSTERPROF_MEMBERS(Bottleneck, rank, region, kind, share, evidence, place, cause)
CLUSTERPROF_MEMBERS(MissingRanks, ranks, state, place, for_s, exit_status, exit_signal)
CLUSTERPROF_MEMBERS(HangWait, ranks, place, communicator, communicator_size, sequence, for_s, missing_ranks,
                    missing)
CLUSTERPROF_MEMBERS(MismatchedRanks, ranks, op, root, bytes)
CLUSTERPROF_MEMBERS(Hang, is_deadlock, follows_failure, waiting, cycle, mismatch, rank, place, call_path)
CLUSTERPROF_MEMBERS(HeldShare, place, rank, bytes)
CLUSTERPROF_MEMBERS(Finding, kind, severity, share, gain_s, ranks, rank, place, site, evidence, action,
                    is_estimate, joined, hang, mismatch, held, change, gain_error_s)
// The ranks of a timeline, by far the most of all, stand apart: most readers do without.
template <typename Archive>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive_, Timeline& object_) {
  auto& [bin_s, begin_s, bins, series, ranks, nodes] = object_;
  static_cast<void>(ranks);
  archive_(bin_s, begin_s, bins, series, nodes);
}
CLUSTERPROF_MEMBERS(EndOfRun, begin_s, end_s, functions_begin_s)
CLUSTERPROF_MEMBERS(profile::PredictedGain, change, file, function, line, rank, predicted_s, gain_s, error_s)
CLUSTERPROF_MEMBERS(profile::RefusedChange, change, reason)
CLUSTERPROF_MEMBERS(profile::Gains, from_sums, refused, elapsed_s, replayed_s, stretches, stretches_s,
                    candidates, tried, rows, refused_changes)
CLUSTERPROF_MEMBERS(Analysis, run, last, quality, nodes, ranks, processes, process_groups, creation_paths,
                    event_loops, tasks, task_tree, tasks_s, mutexes, locks, openmp, threads, thread_groups,
                    category_s, activity_s, active_activity_s, native_modules, system_calls,
                    active_system_calls, rank_seconds, recorded_s, startup_s, focus_s, limits,
                    memory_functions, memory, labelled_memory, io, off_cpu, imports, import_sum, timeline,
                    regions, counters_multiplexed, derived, mean_useful_s, max_useful_s, slowest_rank,
                    efficiency, threads_efficiency, threads_mean_useful_s, threads_max_useful_s,
                    threads_slowest_rank, functions, lines, call_tree, sampled_s, without_function_s,
                    without_line_s, helper_idle_s, mpi_watched, mpi_calls, hang, failure, calls_under_way,
                    call_paths_under_way, mpi_errors, open_requests, unmatched_messages, matrix, node_matrix,
                    mpi_sizes, collectives, collective_matrix, collective_node_matrix, torch, wait_quality,
                    mpi_wait_s, mpi_transfer_s, places, waits, delays, root_causes, root_functions,
                    critical_path, critical_functions, windows, counters, unavailable_counters, rank_counters,
                    counter_spreads, bottlenecks, findings, gains)

#undef CLUSTERPROF_MEMBERS

// --- what renderers take for granted ---------------------------------------------------------

template <typename E>
bool known(E value, std::size_t values) {
  return static_cast<std::size_t>(value) < values;
}

template <typename Rows, typename Good>
bool all(const Rows& rows, const Good& good) {
  return std::all_of(rows.begin(), rows.end(), good);
}

bool is_consistent(const Efficiency& efficiency, const Seconds& mean_s, const Seconds& max_s, bool slowest) {
  const bool all_of_it = efficiency.load_balance && efficiency.communication && mean_s && max_s && slowest;
  return !efficiency.parallel || all_of_it;
}

bool is_consistent(const Timeline& timeline, std::size_t nodes) {
  const auto good = [&](const TimelineRow& row) {
    return row.node < nodes &&
           all(row.values, [&](const auto& values) { return values.first < timeline.series.size(); });
  };
  const bool nodes_are = all(timeline.nodes, good);
  return nodes_are && all(timeline.ranks, [&](const TimelineRow& row) {
           return all(row.values, [&](const auto& values) { return values.first < timeline.series.size(); });
         });
}

// Parents stand before their children.
template <typename Row>
bool is_tree(const std::vector<Row>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if ((rows[i].parent != shard::kNone && rows[i].parent >= i) || !known(rows[i].kind, shard::kFrameKinds) ||
        rows[i].fold > Fold::kImport)
      return false;
  return true;
}

bool is_consistent(const HeldMemory& memory, std::size_t nodes) {
  const auto line = [&](std::uint32_t index) { return index < memory.lines.size(); };
  return is_tree(memory.tree) &&
         all(memory.lines,
             [](const MemoryLine& row) {
               return known(row.kind, shard::kFrameKinds) && known(row.domain, shard::kMemoryDomains);
             }) &&
         all(memory.ranks, [&](const HeldRank& row) { return row.node < nodes; }) &&
         all(memory.nodes,
             [&](const HeldNode& row) {
               return row.node < nodes && (row.growth_line == shard::kNone || line(row.growth_line)) &&
                      all(row.held, [&](const HeldPart& part) { return line(part.line); });
             }) &&
         all(memory.over_time.rows, [&](const HeldOverTime::Row& row) {
           return line(row.line) && row.values.size() <= memory.over_time.bins;
         });
}

bool is_consistent(const Evidence& evidence) {
  return all(evidence.entries,
             [](const Evidence::Entry& entry) { return known(entry.first, kEvidenceKeys); });
}

bool is_consistent(const Hang& hang) {
  const auto place = [](const SourceLocation& where) { return known(where.kind, shard::kFrameKinds); };
  return !hang.waiting.empty() && place(hang.place) && all(hang.call_path, place) &&
         all(hang.waiting, [&](const HangWait& wait) {
           return !wait.ranks.empty() && place(wait.place) &&
                  all(wait.missing, [&](const MissingRanks& missing) {
                    return known(missing.state, kMissingStates) && place(missing.place);
                  });
         });
}
bool is_consistent(const Finding& finding) {
  const auto place = [](const SourceLocation& where) { return known(where.kind, shard::kFrameKinds); };
  return known(finding.kind, kFindingKinds) && known(finding.severity, kSeverities) &&
         known(finding.action, kFindingActions) && place(finding.place) &&
         (!finding.site || place(*finding.site)) && is_consistent(finding.evidence) &&
         (!finding.hang || is_consistent(*finding.hang)) &&
         all(finding.held, [&](const HeldShare& held) { return place(held.place); }) &&
         all(finding.joined, [&](const JoinedFinding& joined) {
           return known(joined.kind, kFindingKinds) && known(joined.action, kFindingActions) &&
                  place(joined.place) && is_consistent(joined.evidence);
         });
}

// Whether every index lies in its table, every enum has a known value, and what is only there together is.
bool is_consistent(const Analysis& a) {
  const auto counted = [&](const CounterAmounts& amounts) {
    return all(amounts, [&](const auto& amount) { return amount.first < a.counters.size(); });
  };
  const auto place = [&](LocationIndex index) { return index < a.places.size(); };
  const auto part = [&](const WaitPart& row) { return place(row.place); };
  const auto cause = [&](const RootCauseRow& row) { return place(row.place); };
  const auto critical = [&](const CriticalRow& row) { return place(row.place); };
  const auto frame = [](shard::FrameKind kind) { return known(kind, shard::kFrameKinds); };
  const auto wait = [](shard::WaitKind kind) { return known(kind, shard::kWaitKinds); };
  return all(a.run.notes, [](const NoteRecord& note) { return known(note.code, shard::kNoteCodes); }) &&
         all(a.run.commands, [](const CommandRow& row) { return !row.ranks.empty(); }) &&
         all(a.run.settings,
             [](const shard::Setting& row) { return known(row.kind, shard::kSettingKinds); }) &&
         known(a.run.state, kRunStateNames.size()) &&
         all(a.nodes, [](const NodeInfo& node) { return known(node.state, kRunStateNames.size()); }) &&
         all(a.ranks,
             [&](const RankInfo& rank) {
               return rank.command == shard::kNone || rank.command < a.run.commands.size();
             }) &&
         all(a.processes,
             [&](const ProcessRow& row) {
               return known(row.how, kProcessHows) && known(row.unrecorded, shard::kUnrecordedKinds) &&
                      row.group < a.process_groups.size() && frame(row.created_by.kind) &&
                      frame(row.top.kind);
             }) &&
         all(a.process_groups,
             [&](const ProcessGroup& row) {
               return known(row.how, kProcessHows) && known(row.unrecorded, shard::kUnrecordedKinds) &&
                      row.creation_path < a.creation_paths.size() && frame(row.created_by.kind) &&
                      frame(row.top.kind);
             }) &&
         all(a.threads,
             [&](const ThreadRow& row) {
               return known(row.kind, shard::kThreadKinds) && row.group < a.thread_groups.size() &&
                      frame(row.top.kind);
             }) &&
         all(a.thread_groups,
             [&](const ThreadGroup& row) {
               return known(row.kind, shard::kThreadKinds) && frame(row.top.kind);
             }) &&
         all(a.creation_paths,
             [&](const std::vector<SourceLocation>& path) {
               return all(path, [&](const SourceLocation& row) { return frame(row.kind); });
             }) &&
         all(a.event_loops,
             [&](const EventLoopRow& row) {
               return known(row.kind, kLoopKindNames.size()) &&
                      all(row.blocks, [&](const LoopBlockRow& block) { return frame(block.place.kind); });
             }) &&
         all(a.locks,
             [&](const LockRow& row) {
               const auto known_place = [&](const MutexHolderRow& spot) { return frame(spot.place.kind); };
               return known(row.kind, kLockKindNames.size()) && all(row.lines, known_place) &&
                      all(row.holders, known_place);
             }) &&
         all(a.mutexes,
             [&](const MutexRow& row) {
               return frame(row.place.kind) && all(row.holders, [&](const MutexHolderRow& holder) {
                        return frame(holder.place.kind);
                      });
             }) &&
         (!a.openmp ||
          (all(a.openmp->ranks,
               [](const OpenMpRank& row) { return known(row.method, shard::kOmpMethods); }) &&
           all(a.openmp->serial, [&](const OpenMpSerialRow& row) { return frame(row.place.kind); }) &&
           all(a.openmp->regions,
               [&](const OpenMpRegionRow& row) {
                 return frame(row.place.kind) &&
                        all(row.constructs, [&](const OpenMpConstructRow& construct) {
                          return known(construct.kind, shard::kOmpKinds) && frame(construct.place.kind) &&
                                 construct.schedules >> shard::kOmpSchedules == 0;
                        });
               }))) &&
         is_consistent(a.efficiency, a.mean_useful_s, a.max_useful_s, a.slowest_rank.has_value()) &&
         (!a.efficiency.serialization || a.wait_quality) &&
         is_consistent(a.threads_efficiency, a.threads_mean_useful_s, a.threads_max_useful_s,
                       a.threads_slowest_rank.has_value()) &&
         all(a.functions, [&](const FunctionRow& row) { return frame(row.kind) && counted(row.counters); }) &&
         all(a.lines, [&](const LineRow& row) { return counted(row.counters); }) && is_tree(a.call_tree) &&
         is_tree(a.task_tree) &&
         all(a.regions,
             [&](const RegionRow& row) {
               return !row.names.empty() && counted(row.counters) &&
                      is_consistent(row.efficiency, row.mean_useful_s, row.max_useful_s,
                                    row.slowest_rank.has_value() && row.focus_s.has_value());
             }) &&
         (!a.memory || is_consistent(*a.memory, a.nodes.size())) &&
         all(a.labelled_memory.spaces,
             [&](const MemorySpaceRow& row) {
               return row.node == shard::kNone || row.node < a.nodes.size();
             }) &&
         (!a.io || all(a.io->calls,
                       [&](const IoCallRow& row) {
                         return frame(row.kind) && known(row.operation, shard::kIoOperations);
                       })) &&
         (!a.off_cpu || all(*a.off_cpu,
                            [&](const OffCpuRow& row) {
                              return frame(row.frame_kind) && known(row.kind, kOffCpuKinds);
                            })) &&
         known(a.torch.source, kTorchSources) &&
         all(a.torch.rows, [](const TorchRow& row) { return known(row.kind, kTorchKinds); }) &&
         (!a.timeline || is_consistent(*a.timeline, a.nodes.size())) &&
         all(a.places, [&](const SourceLocation& row) { return frame(row.kind); }) &&
         all(a.waits,
             [&](const WaitRow& row) {
               return wait(row.kind) && all(row.causes, part) && all(row.where, part);
             }) &&
         all(a.delays,
             [&](const DelayRow& row) { return wait(row.kind) && place(row.site) && place(row.place); }) &&
         all(a.root_causes, cause) && all(a.root_functions, cause) && all(a.critical_path, critical) &&
         all(a.critical_functions, critical) &&
         all(a.ranks,
             [&](const RankInfo& rank) {
               return frame(rank.last_seen.kind) &&
                      all(rank.last_call_path, [&](const SourceLocation& row) { return frame(row.kind); });
             }) &&
         (!a.hang || is_consistent(*a.hang)) &&
         (!a.failure ||
          (known(a.failure->kind, kFailureKinds) && frame(a.failure->place.kind) &&
           all(a.failure->call_path, [&](const SourceLocation& row) { return frame(row.kind); }))) &&
         all(a.calls_under_way,
             [&](const CallUnderWayRow& row) {
               return frame(row.place.kind) && row.call_path < a.call_paths_under_way.size() &&
                      all(row.pending, [](const PendingRow& request) {
                        return request.kind >= shard::PendingKind::kSend &&
                               request.kind <= shard::PendingKind::kCollective;
                      });
             }) &&
         all(a.mpi_errors, [&](const MpiErrorRow& row) { return frame(row.place.kind); }) &&
         all(a.open_requests,
             [&](const OpenRequestRow& row) {
               return frame(row.place.kind) && (!row.kind || (*row.kind >= shard::PendingKind::kSend &&
                                                              *row.kind <= shard::PendingKind::kCollective));
             }) &&
         all(a.unmatched_messages, [&](const UnmatchedRow& row) { return frame(row.place.kind); }) &&
         all(a.call_paths_under_way,
             [&](const std::vector<SourceLocation>& path) {
               return all(path, [&](const SourceLocation& row) { return frame(row.kind); });
             }) &&
         all(a.bottlenecks,
             [&](const Bottleneck& row) {
               return place(row.place) && place(row.cause) && is_consistent(row.evidence);
             }) &&
         all(a.findings, [](const Finding& finding) { return is_consistent(finding); });
}

// --- the whole -------------------------------------------------------------------------------

struct Header {
  std::uint64_t made_by = 0;  // this program, on a machine with this order of bytes
  struct Part {
    std::uint64_t bytes = 0, plain_bytes = 0;  // stored, and when they are decompressed
    std::uint64_t checksum = 0;                // of what is stored
  };
  Part whole, rank_timelines;  // whole: all but these
};
static_assert(std::has_unique_object_representations_v<Header>);

std::uint64_t this_program() {
  const std::string name =
      std::string(kVersion) + (std::endian::native == std::endian::little ? " little" : " big");
  return XXH3_64bits_withSeed(name.data(), name.size(), kAnalysisCode);
}

template <typename T>
void load(std::span<const std::byte> bytes, const Header::Part& part, T& to) {
  if (XXH3_64bits(bytes.data(), bytes.size()) != part.checksum) throw Damaged();
  Reader in(bytes, part.plain_bytes);
  in(to);
  if (!in.at_end()) throw Damaged();
}

}  // namespace

namespace {

std::vector<std::byte> encode(const Analysis& analysis, const LineRows* lines) {
  std::vector<std::byte> bytes(sizeof(Header));
  Header header;
  header.made_by = this_program();
  const auto append = [&](const auto& what, Header::Part& part) {
    const std::size_t begin = bytes.size();
    Writer out(bytes, lines);
    out(what);
    out.flush();
    part = {bytes.size() - begin, out.plain_bytes(), XXH3_64bits(bytes.data() + begin, bytes.size() - begin)};
  };
  append(analysis, header.whole);
  if (analysis.timeline) append(analysis.timeline->ranks, header.rank_timelines);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

std::vector<std::byte> encode(const Analysis& analysis) { return encode(analysis, nullptr); }
std::vector<std::byte> encode(const Analysis& analysis, const LineRows& lines) {
  return encode(analysis, &lines);
}

std::optional<Analysis> decode(std::span<const std::byte> bytes, bool rank_timelines) {
  Header header;
  if (bytes.size() < sizeof header) return {};
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  if (header.made_by != this_program() || header.whole.bytes > bytes.size() ||
      header.rank_timelines.bytes != bytes.size() - header.whole.bytes)
    return {};
  try {
    std::optional<Analysis> analysis(std::in_place);
    load(bytes.first(header.whole.bytes), header.whole, *analysis);
    if (analysis->timeline && rank_timelines)
      load(bytes.subspan(header.whole.bytes), header.rank_timelines, analysis->timeline->ranks);
    if (!is_consistent(*analysis)) return {};
    return analysis;
  } catch (const Damaged&) {
    return {};
  }
}

}  // namespace clusterprof::report
