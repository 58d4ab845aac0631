// SPDX-License-Identifier: BSD-3-Clause
// Regions and pauses that the program sets through include/clusterprof.h, and regions of other interfaces.
// Any thread, also in the program's signal handlers.
#include "agent/lifecycle/regions.h"

#include <cstring>

#include "agent/lifecycle/fast_clock.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/sample_handler.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

// Where a region is in the segment's table, by its name, its domain and its enclosing region. Entries are
// index + 1.
constexpr std::uint32_t kPlaces = 4096;
constinit std::atomic<std::uint16_t> g_places[kPlaces] = {};
constinit std::uint64_t g_keys[kPlaces / 2] = {};  // key_with_place, by index
// Whether the last instance was short, by index: then the next one is taken to be, too.
constinit std::atomic<bool> g_was_short[kPlaces / 2] = {};
constinit std::atomic<std::uint32_t> g_count = 0;

// A library may use a new name each time. Of the table's rows these are left for the program's own regions,
// and for those that stand for names without room.
constexpr std::uint32_t kLeftForOwn = 256, kLeftForOthers = 256;

// Ranges that have begun. A place is free where `key` is 0, and being written where it is kTaken.
struct Range {
  std::atomic<std::uint64_t>
      key;              // place + 1, and in the high half how often there was one: what the caller keeps
  std::uint32_t index;  // of wire::Region
  Moment start;
  std::int64_t n;
};
constexpr std::uint32_t kRanges = 1024;
constexpr std::uint64_t kTaken = ~std::uint64_t{0};
constinit Range g_ranges[kRanges] = {};
constinit std::atomic<std::uint32_t> g_started = 0;

CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<std::uint32_t> g_lock = 0;
// The main thread is outside all regions. Under the lock.
CLUSTERPROF_WRITTEN_BY_FORKS constinit bool g_main_is_outside = true;

constinit RegionStack g_kept = {};  // in the child of a fork, what its thread was in

thread_local constinit bool t_was_sought = false;  // by find_context

// All signals are blocked while it is held, since a handler of the program may enter a region.
class Locked {
 public:
  Locked() noexcept : mask_(block_all_signals()) {
    wait_until([] { return g_lock.exchange(1, std::memory_order_acquire) == 0; });
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

constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ x >> 32) * 0x9e37'79b9'7f4a'7c15ull;
  return x ^ x >> 29;
}

// As a number, the first one lowest; there are less than eight. A call of memcpy() would take as long as the
// rest.
std::uint64_t last_bytes(const char* text, std::size_t count, bool has_eight_before) noexcept {
  if (count == 0) return 0;
  if (has_eight_before) {
    std::uint64_t all = 0;
    memcpy(&all, text + count - sizeof all, sizeof all);
    return all >> 8 * (sizeof all - count);
  }
  std::uint32_t four = 0;
  std::uint16_t two = 0;
  std::uint8_t one = 0;
  if ((count & 4) != 0) memcpy(&four, text, sizeof four);
  if ((count & 2) != 0) memcpy(&two, text + (count & 4), sizeof two);
  if ((count & 1) != 0) memcpy(&one, text + (count & 6), sizeof one);
  return four | std::uint64_t{two} << 8 * (count & 4) | std::uint64_t{one} << 8 * (count & 6);
}

// Of the part of a text that the table keeps.
std::uint64_t hash_of(const char* text, std::uint32_t bytes) noexcept {
  const std::size_t length = strnlen(text, bytes - 1);
  std::uint64_t hash = length + 1, part = 0;
  std::size_t at = 0;
  const auto add = [&hash](std::uint64_t bits) { hash = mixed(hash * 0xbf58'476d'1ce4'e5b9ull + bits); };
  for (; at + sizeof part <= length; at += sizeof part) {
    memcpy(&part, text + at, sizeof part);
    add(part);
  }
  add(last_bytes(text + at, length - at, at != 0));
  return hash != 0 ? hash : 1;
}

std::uint64_t key_of(std::uint64_t domain_hash, std::uint64_t name_hash) noexcept {
  return name_hash + domain_hash * 0x94d0'49bb'1331'11ebull;
}

std::uint64_t key_with_place(std::uint64_t key, ForwardPlace forward) noexcept {
  return forward.packed == 0 ? key : mixed(key + forward.packed * 0x9fb2'1c65'1e98'df25ull);
}

template <std::size_t kBytes>
void copy_name(char (&to)[kBytes], const char* name) noexcept {
  std::size_t length = strnlen(name, kBytes - 1);
  if (name[length] != 0)  // not in the middle of a character
    while (length != 0 && (static_cast<std::uint8_t>(name[length]) & 0xc0) == 0x80) --length;
  memcpy(to, name, length);
  to[length] = 0;
}

std::uint32_t place_of(std::uint64_t key, std::uint32_t parent) noexcept {
  const std::uint64_t hash = (key ^ (std::uint64_t{parent} << 32 | parent)) * 0x9e37'79b9'7f4a'7c15ull;
  return static_cast<std::uint32_t>(hash >> 52);
}
static_assert(kPlaces == 1u << (64 - 52));

// kNoRegion if it is not there. `place`: where it is or would be.
std::uint32_t find_region(const wire::Region* table, std::uint64_t key, std::uint32_t parent,
                          std::uint32_t& place) noexcept {
  // Half of the places are free at least.
  for (place = place_of(key, parent);; place = (place + 1) % kPlaces) {
    const std::uint32_t there = g_places[place].load(std::memory_order_acquire);
    if (there == 0) return wire::kNoRegion;
    if (g_keys[there - 1] == key && table[there - 1].parent == parent) return there - 1;
  }
}

// How many rows there may be before one with this name is made.
std::uint32_t rows_for(const wire::SegmentHeader* segment, std::uint64_t domain, bool is_others) noexcept {
  const std::uint32_t all = segment->regions < kPlaces / 2 ? segment->regions : kPlaces / 2;
  if (is_others) return all;
  const std::uint32_t left = kLeftForOthers + (domain != 0 ? kLeftForOwn : 0);
  return all > left ? all - left : 0;
}

// kNoRegion where there is no room.
std::uint32_t make_region(wire::SegmentHeader* segment, std::uint64_t domain, const char* domain_name,
                          std::uint64_t key, const char* name, std::uint32_t parent, ForwardPlace forward,
                          bool is_others) noexcept {
  wire::Region* const table = table_of(segment);
  const std::uint32_t most = rows_for(segment, domain, is_others);
  if (g_count.load(std::memory_order_relaxed) >= most) return wire::kNoRegion;
  const Locked locked;
  std::uint32_t place = 0;
  const std::uint32_t found = find_region(table, key, parent, place);
  if (found != wire::kNoRegion) return found;
  const std::uint32_t index = g_count.load(std::memory_order_relaxed);
  if (index >= most) return wire::kNoRegion;
  g_count.store(index + 1, std::memory_order_relaxed);
  wire::Region& region = table[index];
  region.parent = parent;
  copy_name(region.name, name);
  copy_name(region.domain, domain_name);
  region.forward_offset = forward.offset();
  region.forward_words = forward.words();
  region.min_ns.store(~std::uint64_t{0}, std::memory_order_relaxed);
  region.max_n.store(-1, std::memory_order_relaxed);
  region.ready.store(1, std::memory_order_release);
  g_was_short[index].store(false, std::memory_order_relaxed);
  g_keys[index] = key;
  g_places[place].store(static_cast<std::uint16_t>(index + 1), std::memory_order_release);
  return index;
}

// The region, else the one that stands for all of the domain without room; kNoRegion: for that there is none
// either.
std::uint32_t region_of(wire::SegmentHeader* segment, std::uint64_t domain, const char* domain_name,
                        std::uint64_t key, const char* name, std::uint32_t parent,
                        ForwardPlace forward = {}) noexcept {
  key = key_with_place(key, forward);
  std::uint32_t place = 0;
  std::uint32_t index = find_region(table_of(segment), key, parent, place);
  if (index == wire::kNoRegion)
    index = make_region(segment, domain, domain_name, key, name, parent, forward, false);
  if (index != wire::kNoRegion) return index;
  const std::uint64_t others = key_of(domain, hash_of(wire::kOtherRegionsName, wire::kRegionNameBytes));
  index = find_region(table_of(segment), others, parent, place);
  if (index == wire::kNoRegion)
    index = make_region(segment, domain, domain_name, others, wire::kOtherRegionsName, parent, {}, true);
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

Moment begin_instance(std::uint32_t index) noexcept {
  return begin_interval(index != wire::kNoRegion && g_was_short[index].load(std::memory_order_relaxed));
}

void note_length(const wire::SegmentHeader* segment, std::uint32_t index,
                 std::uint64_t duration_ns) noexcept {
  // Windows need to know when an instance has begun.
  const bool is_short =
      duration_ns < kShortIntervalNs && segment->outside_windows != wire::OutsideWindows::kNothing;
  if (is_short != g_was_short[index].load(std::memory_order_relaxed))
    g_was_short[index].store(is_short, std::memory_order_relaxed);
}

void count_instance(wire::SegmentHeader* segment, std::uint32_t index, const Moment& start, std::int64_t n,
                    IntervalEnd& end) noexcept {
  if (index == wire::kNoRegion) return;
  // An instance counts if all of it is in one window of recording.
  if (recording_is_off() || (!start.in_ticks && !began_in_this_window(segment, start.at))) return;
  wire::Region& region = table_of(segment)[index];
  const std::uint64_t duration_ns = end.ns_since(start);
  note_length(segment, index, duration_ns);
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
      region.max_n.store(n, std::memory_order_relaxed);
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

RegionDomain region_domain(const char* name) noexcept {
  RegionDomain domain = {hash_of(name, wire::kRegionDomainBytes), {}};
  copy_name(domain.name, name);
  return domain;
}

RegionName region_name(const char* text) noexcept { return {text, hash_of(text, wire::kRegionNameBytes)}; }

void begin_region(const RegionDomain& domain, RegionName name, std::int64_t n) noexcept {
  begin_region(domain, name, n, {});
}

void begin_region(const RegionDomain& domain, RegionName name, std::int64_t n,
                  ForwardPlace forward) noexcept {
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
  const std::uint64_t key = key_of(domain.hash, name.hash);
  const std::uint32_t parent = depth != 0 ? stack.entry[depth - 1].innermost : wire::kNoRegion;
  const std::uint32_t index = region_of(segment, domain.hash, domain.name, key, name.text, parent, forward);
  if (index == wire::kNoRegion) count_drop(segment, wire::DropReason::kRegionTableFull);

  RegionStack::Entry entry;
  entry.index = index;
  entry.innermost = index != wire::kNoRegion ? index : parent;
  entry.key = key;
  entry.domain = domain.hash;
  entry.forward = forward.packed;
  entry.n = n;
  if (depth != 0 || !g_process.only_regions) {
    entry.start = begin_instance(index);
    stack.entry[depth] = entry;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stack.depth = depth + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stack.entry[depth] = entry;  // a handler may have begun and ended another one there
    return;
  }
  const Locked locked;
  const std::uint64_t now_ns = monotonic_ns();
  if (!is_held_back()) push_go_on(context, now_ns);
  const std::uint64_t recorded_ns = recorded_clock().at(now_ns);
  stack.outside.enter(recorded_ns, g_process.pause_clock.at(recorded_ns), now_ns);
  entry.start = {now_ns, false};
  stack.entry[0] = entry;
  stack.depth = 1;
  if (!is_main(context)) return;
  g_main_is_outside = false;
  note_pause_of_main(segment, now_ns);
}

namespace {

// Regions of other domains that were begun inside one that has ended stay: of the stack above `left`. Samples
// meanwhile do not show them, but the thread is never outside of all regions.
void move_up(wire::SegmentHeader* segment, RegionStack& stack, std::uint32_t left, std::uint64_t ended,
             std::uint32_t depth) noexcept {
  const wire::Region* const table = table_of(segment);
  std::uint32_t around = left != 0 ? stack.entry[left - 1].innermost : wire::kNoRegion;
  if (left != 0) stack.depth = left;
  for (std::uint32_t i = left + 1; i < depth; ++i) {
    if (stack.entry[i].domain == ended) continue;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    RegionStack::Entry& entry = stack.entry[left++];
    entry = stack.entry[i];
    if (entry.index != wire::kNoRegion) {
      const wire::Region& was = table[entry.index];
      entry.index =
          region_of(segment, entry.domain, was.domain, entry.key, was.name, around, {entry.forward});
    }
    if (entry.index != wire::kNoRegion) around = entry.index;
    entry.innermost = around;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  stack.depth = left;
}

void end_region(std::uint64_t domain, bool any, std::uint64_t key) noexcept {
  ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr || recording_has_ended()) return;
  IntervalEnd end;
  RegionStack& stack = *context.regions;
  if (stack.deeper != 0) {
    --stack.deeper;
    return;
  }
  const std::uint32_t depth = stack.depth;
  const auto ends = [&](const RegionStack::Entry& entry) {
    return entry.domain == domain && (any || entry.key == key);
  };
  std::uint32_t left = depth;  // how many remain, plus one
  while (left != 0 && !ends(stack.entry[left - 1])) --left;
  if (left == 0) return count_drop(segment, wire::DropReason::kRegionMismatch);
  --left;
  std::uint32_t ended = 0;
  for (std::uint32_t i = depth; i-- > left;) {
    const RegionStack::Entry& entry = stack.entry[i];
    if (entry.domain != domain) continue;
    ++ended;
    count_instance(segment, entry.index, entry.start, entry.n, end);
  }
  if (ended > 1) count_drop(segment, wire::DropReason::kRegionMismatch);
  if (ended != depth - left) return move_up(segment, stack, left, domain, depth);
  if (left != 0 || !g_process.only_regions) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stack.depth = left;
    return;
  }
  const Here here = find_here(context, segment);
  const std::uint64_t now_ns = end.ns();
  const Locked locked;
  if (!is_held_back()) push_stop(context, now_ns, here.words, here.count);
  const std::uint64_t recorded_ns = recorded_clock().at(now_ns);
  stack.outside.leave(recorded_ns, g_process.pause_clock.at(recorded_ns));
  stack.depth = 0;
  if (!is_main(context)) return;
  g_main_is_outside = true;
  note_pause_of_main(segment, now_ns);
}

}  // namespace

void end_region(const RegionDomain& domain, RegionName name) noexcept {
  end_region(domain.hash, false, key_of(domain.hash, name.hash));
}

void end_region(const RegionDomain& domain) noexcept { end_region(domain.hash, true, 0); }

std::uint64_t start_range(const RegionDomain& domain, RegionName name, std::int64_t n) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || recording_has_ended()) return 0;
  const std::uint32_t started = g_started.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint32_t place = (started + i) % kRanges;
    Range& range = g_ranges[place];
    std::uint64_t free = 0;
    if (!range.key.compare_exchange_strong(free, kTaken, std::memory_order_acquire)) continue;
    range.index = region_of(segment, domain.hash, domain.name, key_of(domain.hash, name.hash), name.text,
                            wire::kNoRegion);
    range.n = n;
    range.start = begin_instance(range.index);
    const std::uint64_t key = std::uint64_t{started} << 32 | (place + 1);
    range.key.store(key, std::memory_order_release);
    return key;
  }
  count_drop(segment, wire::DropReason::kRegionTableFull);
  return 0;
}

void stop_range(std::uint64_t key) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  const auto place = static_cast<std::uint32_t>(key) - 1;
  if (segment == nullptr || recording_has_ended() || place >= kRanges) return;
  IntervalEnd end;
  Range& range = g_ranges[place];
  std::uint64_t there = key;
  if (!range.key.compare_exchange_strong(there, kTaken, std::memory_order_acquire)) return;
  count_instance(segment, range.index, range.start, range.n, end);
  range.key.store(0, std::memory_order_release);
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
  g_process.pause_clock.pause(recorded_clock().at(now_ns));
  g_process.pauses.fetch_add(1, std::memory_order_relaxed);
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
  if (pauses == 1) {
    g_process.pause_clock.resume(recorded_clock().at(now_ns));
    g_process.resumed_ns.store(now_ns, std::memory_order_relaxed);
  }
  g_process.paused.store(pauses - 1, std::memory_order_relaxed);
  note_pause_of_main(segment, now_ns);
}

void note_window(wire::SegmentHeader* segment, std::uint64_t now_ns) noexcept {
  const Locked locked;
  note_pause_of_main(segment, now_ns);
}

void keep_regions() noexcept {
  if (g_kept.depth != 0) g_kept.depth = g_kept.deeper = 0;
  // Not those of an earlier recording, whose memory is gone.
  if (slot_of(t_context) != nullptr && t_context.regions->depth != 0) g_kept = *t_context.regions;
}

void start_regions(wire::SegmentHeader* segment, const wire::SegmentHeader* parents) noexcept {
  if (g_count.load(std::memory_order_relaxed) != 0)
    for (auto& place : g_places) place.store(0, std::memory_order_relaxed);
  store_if_other(g_count, 0u);
  if (g_started.load(std::memory_order_relaxed) != 0)
    for (Range& range : g_ranges) range.key.store(0, std::memory_order_relaxed);
  g_lock.store(0, std::memory_order_relaxed);
  ThreadContext& context = t_context;
  const std::uint64_t now_ns = monotonic_ns();
  if (parents != nullptr && context.slot != nullptr) {
    RegionStack& stack = *context.regions;
    std::uint32_t around = wire::kNoRegion;
    for (std::uint32_t i = 0; i < g_kept.depth; ++i) {
      RegionStack::Entry& entry = stack.entry[i];
      entry = g_kept.entry[i];
      entry.start = {now_ns, false};
      entry.forward = 0;  // it is a place in the parent's segment
      if (entry.index != wire::kNoRegion) {
        const wire::Region& was = table_of(parents)[entry.index];
        entry.index = region_of(segment, entry.domain, was.domain, entry.key, was.name, around);
      }
      if (entry.index != wire::kNoRegion) around = entry.index;
      entry.innermost = around;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      stack.depth = i + 1;
    }
    stack.deeper = g_kept.deeper;
  }
  const Locked locked;
  const std::uint64_t recorded_ns = recorded_clock().at(now_ns);
  g_process.pause_clock.restart(recorded_ns, g_process.paused.load(std::memory_order_relaxed) != 0);
  if (slot_of(context) != nullptr && context.regions->depth == 0)
    context.regions->outside.leave(recorded_ns, g_process.pause_clock.at(recorded_ns));
  g_main_is_outside = !is_main(context) || context.regions->depth == 0;
  note_pause_of_main(segment, now_ns);
}

}  // namespace clusterprof::agent
