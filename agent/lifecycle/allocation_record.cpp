// SPDX-License-Identifier: BSD-3-Clause
// No lock is taken: handlers of the program may interrupt this, and other threads may be anywhere in it.
#include "agent/lifecycle/allocation_record.h"

#include <sys/syscall.h>

#include <atomic>

#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/kept_blocks.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/table_place.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint32_t kSiteProbes = 128;

// The interval is doubled when events come faster than this. Each takes up to a microsecond here and in the
// collector.
constexpr std::uint64_t kEventsPerSecond = 20'000, kEventsBetweenLooks = 4096;
constexpr std::uint64_t kSecondNs = 1'000'000'000, kLongestInterval = 64u << 20;

constexpr auto kRelaxed = std::memory_order_relaxed;

constinit std::atomic<std::uint32_t> g_sites_used = 0;
constinit std::atomic<std::uint64_t> g_events = 0, g_look_ns = 0;
constinit std::atomic<bool> g_ended = false;

thread_local constinit bool t_is_ours = false;

// A child of vfork, and one that was forked past libc, write to their parent's tables otherwise.
bool is_this_process() noexcept { return raw_syscall(SYS_getpid) == g_process.pid; }

// What the interpreter frees while it is finalised counts as live at the end. Later it still says that it is,
// in a program that goes on, but then there is no interpreter any more.
bool python_finalizes() noexcept {
  const PythonRuntime* const runtime = python_runtime();
  return runtime != nullptr && runtime->is_finalizing() != 0 && runtime->first_interpreter() != nullptr;
}

std::uint64_t mix(std::uint64_t value) noexcept {  // MurmurHash3's finalizer
  value = (value ^ (value >> 33)) * 0xff51'afd7'ed55'8ccdull;
  value = (value ^ (value >> 33)) * 0xc4ce'b9fe'1a85'ec53ull;
  return value ^ (value >> 33);
}

wire::MemorySite* sites_of(wire::SegmentHeader* segment) noexcept {
  return reinterpret_cast<wire::MemorySite*>(reinterpret_cast<std::uint8_t*>(segment) +
                                             segment->memory_sites_offset);
}

void describe(wire::MemorySite& site, const clusterprof_call_path& path, wire::MemoryDomain domain,
              std::uint16_t mpi_op) noexcept {
  if (site.ready.load(std::memory_order_acquire) != 0) return;
  // Whoever comes first may not get to the end of this: all write the same.
  site.path_words = path.words;
  site.path_offset = path.offset;
  site.domain = domain;
  site.mpi_op = mpi_op;
  site.ready.store(1, std::memory_order_release);
}

std::uint32_t find_site(wire::SegmentHeader* segment, const clusterprof_call_path& path,
                        wire::MemoryDomain domain, std::uint16_t mpi_op) noexcept {
  wire::MemorySite* const sites = sites_of(segment);
  const std::uint32_t places = segment->memory_sites - wire::kMemoryDomains;
  const std::uint64_t what = std::uint64_t{mpi_op} << 8 | static_cast<std::uint64_t>(domain);
  // All that have no call path are one.
  std::uint64_t key = mix((path.words != 0 ? path.hash : 0) ^ (what + 1) * 0x9e37'79b9'7f4a'7c15ull);
  if (key == 0) key = 1;
  for (std::uint32_t probe = 0; probe < kSiteProbes; ++probe) {
    const std::uint32_t index = wire::kMemoryDomains + wire::table_place(key, probe, places);
    wire::MemorySite& site = sites[index];
    std::uint64_t there = site.key.load(std::memory_order_acquire);
    if (there == 0) {
      // A full table would be searched through by each new path.
      if (g_sites_used.load(kRelaxed) >= places - places / 16) break;
      if (site.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) {
        g_sites_used.fetch_add(1, kRelaxed);
        there = key;
      }
    }
    if (there != key) continue;
    describe(site, path, domain, mpi_op);
    return index;
  }
  count_drop(segment, wire::DropReason::kMemorySiteTableFull);
  const auto rest = static_cast<std::uint32_t>(domain);
  describe(sites[rest], {0, 0, 0}, domain, 0);
  sites[rest].key.store(1, kRelaxed);
  return rest;
}

// Called once for each event.
void keep_budget(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept {
  if ((g_events.fetch_add(1, kRelaxed) + 1) % kEventsBetweenLooks != 0) return;
  const std::uint64_t before_ns = g_look_ns.exchange(now_ns, kRelaxed);
  if (before_ns == 0 || now_ns - before_ns >= kEventsBetweenLooks * kSecondNs / kEventsPerSecond) return;
  const std::uint64_t interval = clusterprof_memory_wrap_v1.interval_bytes.load(kRelaxed);
  if (interval >= kLongestInterval) return;
  clusterprof_memory_wrap_v1.interval_bytes.store(2 * interval, kRelaxed);
  segment->memory.interval_bytes.store(2 * interval, kRelaxed);
}

void tell(wire::SegmentHeader* segment, std::uint64_t now_ns, std::int64_t bytes,
          std::uint32_t site) noexcept {
  auto* const ring = reinterpret_cast<wire::MemoryRing*>(reinterpret_cast<std::uint8_t*>(segment) +
                                                         segment->memory_rings_offset);
  if (!wire::push_memory_event(*ring, now_ns, bytes, site))
    segment->memory.events_lost.fetch_add(1, kRelaxed);
  keep_budget(segment, now_ns);
}

void end_block(wire::SegmentHeader* segment, const KeptBlock& block, std::uint64_t now_ns) noexcept {
  if (block.site >= segment->memory_sites) return;
  wire::MemorySite& site = sites_of(segment)[block.site];
  site.freed_bytes.fetch_add(block.weight, kRelaxed);
  if (now_ns - block.time_ns < wire::kFreedSoonNs) {
    site.soon_bytes.fetch_add(block.weight, kRelaxed);
    const bool is_one = block.weight <= block.bytes;
    site.soon_count.fetch_add(is_one ? 1 : (block.weight + block.bytes / 2) / block.bytes, kRelaxed);
  }
  tell(segment, now_ns, -static_cast<std::int64_t>(block.weight), block.site);
}

bool may_record(const void* caller) noexcept {
  return !t_is_ours && !is_own_code(reinterpret_cast<std::uintptr_t>(caller)) && is_recording(t_context) &&
         is_this_process() && !python_finalizes();
}

// The row of the calling thread's call path.
[[gnu::noinline]] std::uint32_t site_of_caller(wire::SegmentHeader* segment,
                                               wire::MemoryDomain domain) noexcept {
  const wire::ThreadSlot* const slot = slot_of(t_context);
  const std::uint32_t mpi_op = slot != nullptr ? slot->mpi_op.load(kRelaxed) : 0;
  if (mpi_op != 0 && (domain == wire::MemoryDomain::kNative || domain == wire::MemoryDomain::kMapping))
    domain = wire::MemoryDomain::kMpi;
  clusterprof_call_path path = {0, 0, 0};
  if (slot != nullptr && may_walk_stacks()) path = clusterprof_io_path_entry(PathUse::kMemory);
  return find_site(segment, path, domain, static_cast<std::uint16_t>(mpi_op));
}

}  // namespace

wire::SegmentHeader* segment_for_allocations() noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  const bool is_recorded =
      segment != nullptr && segment->memory_rings != 0 && !g_ended.load(kRelaxed) && !recording_has_ended();
  return is_recorded ? segment : nullptr;
}

Keeping record_allocated(const SampledBlock& block, const void* caller) noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  if (segment == nullptr || !may_record(caller)) return Keeping::kRefused;
  const std::uint32_t index = site_of_caller(segment, block.domain);
  wire::MemorySite& site = sites_of(segment)[index];
  site.alloc_bytes.fetch_add(block.weight_bytes, kRelaxed);
  site.alloc_count.fetch_add(block.weight_calls, kRelaxed);
  site.variance.fetch_add(block.variance, kRelaxed);
  const std::uint64_t now_ns = monotonic_ns();
  const KeptBlock kept = {reinterpret_cast<std::uint64_t>(block.address), block.bytes, block.weight_bytes,
                          now_ns, index};
  KeptBlock replaced = {};
  const Keeping keeping = keep_block(segment, kept, replaced);
  if (keeping == Keeping::kReplaced) end_block(segment, replaced, now_ns);
  if (keeping == Keeping::kRefused) {
    count_drop(segment, wire::DropReason::kMemoryBlockTableFull);
    segment->memory.untracked_bytes.fetch_add(block.weight_bytes, kRelaxed);
    site.freed_bytes.fetch_add(block.weight_bytes, kRelaxed);
  } else {
    tell(segment, now_ns, static_cast<std::int64_t>(block.weight_bytes), index);
  }
  return keeping;
}

bool record_take(const void* address, KeptBlock& block) noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  const auto at = reinterpret_cast<std::uint64_t>(address);
  // Mostly it is not known: that is found out without a system call.
  return segment != nullptr && has_block(segment, at) && is_this_process() && !python_finalizes() &&
         take_block(segment, at, block);
}

void record_put_back(const KeptBlock& block) noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  KeptBlock replaced = {};
  if (segment == nullptr) return;
  const Keeping keeping = keep_block(segment, block, replaced);
  if (keeping == Keeping::kReplaced) end_block(segment, replaced, monotonic_ns());
  if (keeping == Keeping::kRefused) end_block(segment, block, monotonic_ns());
}

void record_freed(const KeptBlock& block) noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  if (segment != nullptr) end_block(segment, block, monotonic_ns());
}

wire::MemoryDomain domain_of_block(const KeptBlock& block) noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  if (segment == nullptr || block.site >= segment->memory_sites) return wire::MemoryDomain::kMapping;
  const wire::MemoryDomain domain = sites_of(segment)[block.site].domain;
  return domain == wire::MemoryDomain::kMpi ? wire::MemoryDomain::kMapping : domain;
}

void record_copied(std::uint64_t bytes, std::uint64_t calls, const void* caller) noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  if (segment == nullptr || !may_record(caller)) return;
  const wire::ThreadSlot* const slot = slot_of(t_context);
  // Inside MPI it is the library that copies.
  if (slot == nullptr || slot->mpi_op.load(kRelaxed) != 0) return;
  wire::MemorySite& site = sites_of(segment)[site_of_caller(segment, wire::MemoryDomain::kNative)];
  site.copy_bytes.fetch_add(bytes, kRelaxed);
  site.copy_count.fetch_add(calls, kRelaxed);
}

void begin_record_of_allocations() noexcept {
  g_sites_used.store(0, kRelaxed);
  g_look_ns.store(0, kRelaxed);
  g_ended.store(false, kRelaxed);
  reset_kept_blocks();
}

void end_record_of_allocations(wire::SegmentHeader* segment) noexcept {
  g_ended.store(true, kRelaxed);
  segment->memory.ended.store(1, std::memory_order_release);
}

void leave_out_own_allocations() noexcept { t_is_ours = true; }

}  // namespace clusterprof::agent
