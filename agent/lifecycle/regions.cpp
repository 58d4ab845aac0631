// SPDX-License-Identifier: BSD-3-Clause
// Regions and pauses that the program sets through include/clusterprof.h. Any thread, also in the program's
// signal handlers.
#include "agent/lifecycle/regions.h"

#include <sys/syscall.h>

#include <cstring>

#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

// Where a region is in the segment's table, by its name and its enclosing region. Entries are index + 1.
constexpr std::uint32_t kPlaces = 1024;
constinit std::atomic<std::uint16_t> g_places[kPlaces] = {};
constinit std::uint64_t g_hashes[kPlaces / 2] = {};  // of the names, by index
constinit std::uint32_t g_count = 0;

constinit std::atomic<std::uint32_t> g_lock = 0;
constinit bool g_main_is_outside = true;  // the main thread is outside all regions; under the lock

constinit RegionStack g_kept = {};  // in the child of a fork, what its thread was in

thread_local constinit bool t_was_sought = false;  // by find_context

// All signals are blocked while it is held, since a handler of the program may enter a region.
class Locked {
 public:
  Locked() noexcept : mask_(block_all_signals()) {
    while (g_lock.exchange(1, std::memory_order_acquire) != 0) raw_syscall(SYS_sched_yield);
  }
  ~Locked() {
    g_lock.store(0, std::memory_order_release);
    restore_signals(mask_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::uint64_t mask_;
};

wire::Region* table_of(const wire::SegmentHeader* segment) noexcept {
  return reinterpret_cast<wire::Region*>(reinterpret_cast<std::uintptr_t>(segment) + segment->regions_offset);
}

// Hash of the part of the name that the table keeps. FNV-1a.
std::uint64_t hash_of(const char* name) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull;
  for (std::uint32_t i = 0; i + 1 < wire::kRegionNameBytes && name[i] != 0; ++i)
    hash = (hash ^ static_cast<std::uint8_t>(name[i])) * 0x100'0000'01b3ull;
  return hash;
}

void copy_name(char (&to)[wire::kRegionNameBytes], const char* name) noexcept {
  std::size_t length = strnlen(name, sizeof to - 1);
  if (name[length] != 0)  // not in the middle of a character
    while (length != 0 && (static_cast<std::uint8_t>(name[length]) & 0xc0) == 0x80) --length;
  memcpy(to, name, length);
  to[length] = 0;
}

std::uint32_t place_of(std::uint64_t hash, std::uint32_t parent) noexcept {
  const std::uint64_t mixed = (hash ^ (std::uint64_t{parent} << 32 | parent)) * 0x9e37'79b9'7f4a'7c15ull;
  return static_cast<std::uint32_t>(mixed >> 54);
}
static_assert(kPlaces == 1u << (64 - 54));

// kNoRegion if it is not there. `place`: where it is or would be.
std::uint32_t find_region(const wire::Region* table, std::uint64_t hash, std::uint32_t parent,
                          std::uint32_t& place) noexcept {
  // Half of the places are free at least.
  for (place = place_of(hash, parent);; place = (place + 1) % kPlaces) {
    const std::uint32_t there = g_places[place].load(std::memory_order_acquire);
    if (there == 0) return wire::kNoRegion;
    if (g_hashes[there - 1] == hash && table[there - 1].parent == parent) return there - 1;
  }
}

std::uint32_t make_region(wire::SegmentHeader* segment, const char* name, std::uint64_t hash,
                          std::uint32_t parent) noexcept {
  wire::Region* const table = table_of(segment);
  const Locked locked;
  std::uint32_t place = 0;
  const std::uint32_t found = find_region(table, hash, parent, place);
  if (found != wire::kNoRegion) return found;
  if (g_count == segment->regions || g_count == kPlaces / 2) return wire::kNoRegion;
  const std::uint32_t index = g_count++;
  wire::Region& region = table[index];
  region.parent = parent;
  copy_name(region.name, name);
  region.min_ns.store(~std::uint64_t{0}, std::memory_order_relaxed);
  region.max_n.store(-1, std::memory_order_relaxed);
  region.ready.store(1, std::memory_order_release);
  g_hashes[index] = hash;
  g_places[place].store(static_cast<std::uint16_t>(index + 1), std::memory_order_release);
  return index;
}

// For a calling thread that existed before the agent and has not been sampled yet.
bool find_context(ThreadContext& context) noexcept {
  if (t_was_sought) return false;
  const std::uint64_t mask = block_all_signals();
  if (context.slot == nullptr) adopt(context);
  t_was_sought = true;
  restore_signals(mask);
  return context.slot != nullptr;
}

void count_instance(wire::SegmentHeader* segment, const RegionStack::Entry& entry,
                    std::uint64_t now_ns) noexcept {
  if (entry.index == wire::kNoRegion) return;
  // An instance counts if all of it is in one window of recording.
  if (recording_is_off() || !began_in_this_window(segment, entry.start_ns)) return;
  wire::Region& region = table_of(segment)[entry.index];
  const std::uint64_t duration_ns = now_ns > entry.start_ns ? now_ns - entry.start_ns : 0;
  region.time_ns.fetch_add(duration_ns, std::memory_order_relaxed);
  std::uint64_t shortest_ns = region.min_ns.load(std::memory_order_relaxed);
  while (duration_ns < shortest_ns &&
         !region.min_ns.compare_exchange_weak(shortest_ns, duration_ns, std::memory_order_relaxed)) {
  }
  // The first instance counts here, too, however long it lasted.
  if (duration_ns > region.max_ns.load(std::memory_order_relaxed) ||
      region.count.load(std::memory_order_relaxed) == 0) {
    const Locked locked;
    if (duration_ns > region.max_ns.load(std::memory_order_relaxed) ||
        region.count.load(std::memory_order_relaxed) == 0) {
      region.max_ns.store(duration_ns, std::memory_order_relaxed);
      region.max_n.store(entry.n, std::memory_order_relaxed);
    }
    region.count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  region.count.fetch_add(1, std::memory_order_relaxed);
}

// The program has paused recording, or no window is open.
bool is_held_back() noexcept {
  return g_process.paused.load(std::memory_order_relaxed) != 0 || recording_is_off();
}

// Call with the lock held.
void note_pause_of_main(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept {
  const bool paused = is_held_back() || (g_process.only_regions && g_main_is_outside);
  const std::uint64_t since_ns = segment->paused_since_ns.load(std::memory_order_relaxed);
  if (paused == (since_ns != 0)) return;
  if (paused) {
    segment->paused_since_ns.store(now_ns, std::memory_order_release);
  } else {
    segment->paused_since_ns.store(0, std::memory_order_relaxed);
    segment->paused_ns.fetch_add(now_ns - since_ns, std::memory_order_release);
  }
}

bool is_main(const ThreadContext& context) noexcept {
  return context.slot != nullptr && context.slot->is_main != 0;
}

// Where the thread is, for push_stop. Empty if it is not asked for.
struct Here {
  const std::uint64_t* words;
  std::uint32_t count;
};
Here find_here(const ThreadContext& context, const wire::SegmentHeader* segment) noexcept {
  if (context.slot == nullptr || context.handler_scratch->sent_words != 0 || !may_walk_stacks())
    return {nullptr, 0};
  const clusterprof_call_path path = clusterprof_call_path_entry();
  return {reinterpret_cast<const std::uint64_t*>(reinterpret_cast<std::uintptr_t>(segment) +
                                                 segment->path_arena_offset + path.offset),
          path.words};
}

}  // namespace

void begin_region(const char* name, std::int64_t n) noexcept {
  ThreadContext& context = t_context;
  if (context.slot == nullptr && !find_context(context)) return;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || recording_has_ended()) return;
  RegionStack& stack = *context.regions;
  const std::uint32_t depth = stack.depth;
  if (depth == RegionStack::kMost) {
    ++stack.deeper;
    count_drop(segment, wire::DropReason::kRegionTableFull);
    return;
  }
  const std::uint64_t hash = hash_of(name);
  const std::uint32_t parent = depth != 0 ? stack.entry[depth - 1].innermost : wire::kNoRegion;
  std::uint32_t place = 0;
  std::uint32_t index = find_region(table_of(segment), hash, parent, place);
  if (index == wire::kNoRegion) index = make_region(segment, name, hash, parent);
  if (index == wire::kNoRegion) count_drop(segment, wire::DropReason::kRegionTableFull);

  RegionStack::Entry& entry = stack.entry[depth];
  entry.index = index;
  entry.innermost = index != wire::kNoRegion ? index : parent;
  entry.name_hash = hash;
  entry.n = n;
  if (depth != 0 || !g_process.only_regions) {
    entry.start_ns = monotonic_ns();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stack.depth = depth + 1;
    return;
  }
  const Locked locked;
  const std::uint64_t now_ns = monotonic_ns();
  if (!is_held_back()) push_go_on(context, now_ns);
  entry.start_ns = now_ns;
  stack.depth = 1;
  if (!is_main(context)) return;
  g_main_is_outside = false;
  note_pause_of_main(segment, now_ns);
}

void end_region(const char* name) noexcept {
  ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr || recording_has_ended()) return;
  const std::uint64_t now_ns = monotonic_ns();
  RegionStack& stack = *context.regions;
  if (stack.deeper != 0) {
    --stack.deeper;
    return;
  }
  const std::uint32_t depth = stack.depth;
  std::uint32_t left = depth;  // how many remain, plus one
  if (name != nullptr) {
    const std::uint64_t hash = hash_of(name);
    while (left != 0 && stack.entry[left - 1].name_hash != hash) --left;
  }
  if (left != depth || left == 0) count_drop(segment, wire::DropReason::kRegionMismatch);
  if (left == 0) return;
  --left;
  for (std::uint32_t i = depth; i-- > left;) count_instance(segment, stack.entry[i], now_ns);
  if (left != 0 || !g_process.only_regions) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stack.depth = left;
    return;
  }
  const Here here = find_here(context, segment);
  const Locked locked;
  if (!is_held_back()) push_stop(context, now_ns, here.words, here.count);
  stack.depth = 0;
  if (!is_main(context)) return;
  g_main_is_outside = true;
  note_pause_of_main(segment, now_ns);
}

void pause_recording() noexcept {
  ThreadContext& context = t_context;
  if (context.slot == nullptr) find_context(context);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || recording_has_ended()) return;
  const bool stops = context.slot != nullptr && is_recording(context);
  const Here here = stops ? find_here(context, segment) : Here{nullptr, 0};
  const Locked locked;
  const std::uint64_t now_ns = monotonic_ns();
  if (stops && is_recording(context)) push_stop(context, now_ns, here.words, here.count);
  g_process.paused.fetch_add(1, std::memory_order_relaxed);
  note_pause_of_main(segment, now_ns);
}

void resume_recording() noexcept {
  ThreadContext& context = t_context;
  if (context.slot == nullptr) find_context(context);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || recording_has_ended()) return;
  const Locked locked;
  const std::uint32_t pauses = g_process.paused.load(std::memory_order_relaxed);
  if (pauses == 0) return;
  const std::uint64_t now_ns = monotonic_ns();
  if (pauses == 1 && context.slot != nullptr && !recording_is_off()) push_go_on(context, now_ns);
  g_process.paused.store(pauses - 1, std::memory_order_relaxed);
  note_pause_of_main(segment, now_ns);
}

void note_window(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept {
  const Locked locked;
  note_pause_of_main(segment, now_ns);
}

void keep_regions() noexcept {
  g_kept.depth = g_kept.deeper = 0;
  if (t_context.regions != nullptr && t_context.regions->depth != 0) g_kept = *t_context.regions;
}

void start_regions(wire::SegmentHeader* segment, const wire::SegmentHeader* parents) noexcept {
  if (g_count != 0)
    for (auto& place : g_places) place.store(0, std::memory_order_relaxed);
  g_count = 0;
  g_lock.store(0, std::memory_order_relaxed);
  ThreadContext& context = t_context;
  const std::uint64_t now_ns = monotonic_ns();
  if (parents != nullptr && context.slot != nullptr) {
    RegionStack& stack = *context.regions;
    std::uint32_t around = wire::kNoRegion;
    for (std::uint32_t i = 0; i < g_kept.depth; ++i) {
      RegionStack::Entry& entry = stack.entry[i];
      entry = g_kept.entry[i];
      entry.start_ns = now_ns;
      if (entry.index != wire::kNoRegion)
        entry.index = make_region(segment, table_of(parents)[entry.index].name, entry.name_hash, around);
      if (entry.index != wire::kNoRegion) around = entry.index;
      entry.innermost = around;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      stack.depth = i + 1;
    }
    stack.deeper = g_kept.deeper;
  }
  const Locked locked;
  g_main_is_outside = !is_main(context) || context.regions->depth == 0;
  note_pause_of_main(segment, now_ns);
}

}  // namespace clusterprof::agent
