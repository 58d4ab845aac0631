// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/openmp.h"

#include <sys/syscall.h>

#include <cstddef>
#include <cstring>

#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/segment.h"
#include "formats/wire/table_place.h"

namespace clusterprof::agent {

constinit std::atomic<std::uint32_t> g_openmp_method = 0;

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kMaxProbes = 64;

constinit std::atomic<std::uint32_t> g_flags = 0;  // wire::OmpFlags
constinit std::atomic<std::uint32_t> g_deciding = 0;
constinit char g_runtime[wire::kOmpRuntimeBytes] = {};

std::uint64_t get(const OmpWord& word) noexcept { return word.load(kRelaxed); }
void set(OmpWord& word, std::uint64_t value) noexcept { word.store(value, kRelaxed); }
void add(OmpWord& word, std::uint64_t value, bool shared) noexcept {
  if (shared) {
    word.fetch_add(value, kRelaxed);
  } else {
    set(word, get(word) + value);
  }
}

constexpr std::uint64_t mix(std::uint64_t value) noexcept {  // MurmurHash3's finalizer
  value = (value ^ (value >> 33)) * 0xff51'afd7'ed55'8ccdull;
  value = (value ^ (value >> 33)) * 0xc4ce'b9fe'1a85'ec53ull;
  value ^= value >> 33;
  return value != 0 ? value : 1;
}

template <typename Entry>
Entry* table_at(wire::SegmentHeader* segment, std::uint64_t offset) noexcept {
  return reinterpret_cast<Entry*>(reinterpret_cast<std::uint8_t*>(segment) + offset);
}
wire::OmpSite* sites_of(wire::SegmentHeader* segment) noexcept {
  return table_at<wire::OmpSite>(segment, segment->omp_sites_offset);
}
wire::OmpRow* rows_of(wire::SegmentHeader* segment) noexcept {
  return table_at<wire::OmpRow>(segment, segment->omp_rows_offset);
}

// The entry with the key; it is made if there is none. kNoOmpSite: no room. Whoever comes first may not get
// to the end of `describe` at once: all that have the key write the same.
template <typename Entry, typename Describe>
std::uint32_t find_entry(Entry* table, std::uint32_t count, std::uint64_t key, Describe describe) noexcept {
  for (std::uint32_t probe = 0; probe < kMaxProbes && probe < count; ++probe) {
    const std::uint32_t index = wire::table_place(key, probe, count);
    Entry& entry = table[index];
    std::uint64_t there = entry.key.load(std::memory_order_acquire);
    if (there == 0 && entry.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) there = key;
    if (there != key) continue;
    if (entry.ready.load(std::memory_order_acquire) == 0) {
      describe(entry);
      entry.ready.store(1, std::memory_order_release);
    }
    return index;
  }
  return wire::kNoOmpSite;
}

OmpState::Place& place_of(OmpState& state, std::uint64_t what, std::uint64_t whose) noexcept {
  static_assert(OmpState::kPlaces == 1u << 12);
  return state.places[(what ^ whose * 0xff51'afd7'ed55'8ccdull) * 0x9e37'79b9'7f4a'7c15ull >> (64 - 12)];
}

constexpr std::uint64_t row_key(std::uint64_t site_key, std::uint32_t number) noexcept {
  return mix(site_key + std::uint64_t{number + 1} * 0x9e37'79b9'7f4a'7c15ull);
}

// The thread's row of a site, of which `describe` completes what is new. It is remembered.
template <typename Describe>
[[gnu::noinline]] OmpState::Place find_row(OmpState& state, std::uint64_t what, std::uint64_t whose,
                                           std::uint64_t site_key, std::uint32_t number,
                                           Describe describe) noexcept {
  const std::uint64_t key = row_key(site_key, number);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr) return {what, whose, wire::kNoOmpSite, wire::kNoOmpSite, state.user};
  OmpState::Place found = {what, whose, find_entry(sites_of(segment), segment->omp_sites, site_key, describe),
                           wire::kNoOmpSite, state.user};
  if (found.site != wire::kNoOmpSite)
    found.row = find_entry(rows_of(segment), segment->omp_rows, key, [&](wire::OmpRow& row) {
      row.site = found.site;
      row.number = number;
    });
  if (found.row == wire::kNoOmpSite) count_drop(segment, wire::DropReason::kOpenMpTableFull);
  place_of(state, what, whose) = found;  // also that there is no room: nothing is ever removed
  return found;
}

// Null: there is no room for it, or it is not of the present segment.
wire::OmpRow* row_at(std::uint32_t row) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  return segment == nullptr || row >= segment->omp_rows ? nullptr : rows_of(segment) + row;
}

// A construct in the innermost team, as OmpState::Place knows it.
constexpr std::uint64_t what_of(wire::OmpConstruct construct, std::uint64_t code) noexcept {
  return code ^ static_cast<std::uint64_t>(construct) << 56;
}
std::uint64_t whose_construct(const OmpEntry& entry) noexcept {
  return std::uint64_t{entry.site} << 32 | entry.number;
}

// kNoOmpSite: the thread has not used it lately, or there is none.
std::uint32_t remembered_row(OmpState& state, const OmpEntry& entry, wire::OmpConstruct construct,
                             std::uint64_t code) noexcept {
  const std::uint64_t what = what_of(construct, code);
  const std::uint64_t whose = whose_construct(entry);
  const OmpState::Place& known = place_of(state, what, whose);
  return state.is(known, what, whose) ? known.row : wire::kNoOmpSite;
}

bool counts_in_epoch(const OmpEntry& entry) noexcept {
  return entry.epoch == openmp_epoch() && entry.site != wire::kNoOmpSite;
}

// Null: it is not counted.
wire::OmpRow* row_of(OmpState& state, const OmpEntry& entry, wire::OmpConstruct construct,
                     std::uint64_t code) noexcept {
  if (!counts_in_epoch(entry)) return nullptr;
  const std::uint64_t what = what_of(construct, code), whose = whose_construct(entry);
  if (const OmpState::Place& known = place_of(state, what, whose); state.is(known, what, whose)) [[likely]]
    return row_at(known.row);
  const std::uint64_t site_key = mix(what ^ (std::uint64_t{entry.site} + 1) * 0x9fb2'1c65'1e98'df25ull);
  const auto describe = [&](wire::OmpSite& site) {
    site.threads = entry.size;
    site.region = entry.site;
    site.code = code;
    site.construct = construct;
    site.shared = entry.shared ? 1 : 0;
  };
  return row_at(find_row(state, what, whose, site_key, entry.number, describe).row);
}

OmpState::Place row_of_region(OmpState& state, const OmpTeam& team, std::uint32_t size,
                              std::uint32_t number) noexcept {
  const std::uint64_t whose = std::uint64_t{size} << 32 | number;
  if (const OmpState::Place& known = place_of(state, team.identity, whose);
      state.is(known, team.identity, whose)) [[likely]]
    return known;
  const std::uint64_t site_key = mix(team.identity ^ std::uint64_t{size} * 0x9e37'79b9'7f4a'7c15ull);
  return find_row(state, team.identity, whose, site_key, number, [&](wire::OmpSite& site) {
    site.threads = size;
    site.region = wire::kNoOmpSite;
    site.path_words = team.path_words;
    site.path_offset = team.path_offset;
    site.code = team.body;
    site.construct = team.construct;
    site.level = team.level;
    site.shared = team.shared ? 1 : 0;
  });
}

void set_activity(OmpState& state, wire::OmpActivity activity) noexcept {
  state.activity = static_cast<std::uint8_t>(activity);
}

// After its part of the region.
wire::OmpActivity activity_at_end(const OmpEntry& entry) noexcept {
  if (entry.size == 1) return wire::OmpActivity::kWork;
  return entry.number == 0 ? wire::OmpActivity::kBarrier : wire::OmpActivity::kIdle;
}

// What the thread does when the innermost scope, or a region inside, has ended.
void go_on(OmpState& state, const OmpEntry& entry) noexcept {
  if (state.scopes > entry.scopes) return set_activity(state, state.scope[state.scopes - 1].activity);
  set_activity(state, entry.ended ? activity_at_end(entry) : wire::OmpActivity::kWork);
}

bool is_over(const OmpTeam& team) noexcept { return get(team.instance) % 2 == 0; }
bool is_under_way(const OmpEntry& entry) noexcept {
  return !is_over(*entry.team) && get(entry.team->instance) == entry.instance;
}

// Leaves the teams from `depth` on.
void go_back(OmpState& state, std::uint32_t depth) noexcept {
  if (depth >= state.depth) return;
  state.scopes = state.entry[depth].scopes;
  state.deeper_scopes = state.entry[depth].deeper_scopes;
  state.depth = depth;
}

// A thread whose part is over may begin a region nevertheless, in a task at the region's end that we do not
// know of. The other threads may not even have begun then: the team is still theirs.
void forget_over(OmpState& state) noexcept {
  std::uint32_t depth = state.depth;
  while (depth != 0 && !is_under_way(state.entry[depth - 1])) --depth;
  go_back(state, depth);
}

// The program has left the innermost region by a jump.
[[gnu::cold, gnu::noinline]] void forget_left(wire::SegmentHeader* segment, OmpState& state) noexcept {
  const std::uint32_t depth = state.depth - 1;
  const OmpEntry& entry = state.entry[depth];
  // Other threads of the team may not even have begun. They look into it then: it stays theirs.
  if (entry.size > 1 && state.teams[depth] == entry.team) state.teams[depth] = nullptr;
  go_back(state, depth);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (depth == 0) {
    set_activity(state, wire::OmpActivity::kNone);
  } else {
    go_on(state, state.entry[depth - 1]);
  }
  if (!entry.shared) segment->openmp.region_since_ns.store(0, std::memory_order_release);
}

// A team's threads may be bound to processors of their own.
[[gnu::cold, gnu::noinline]] void tell_processors(wire::SegmentHeader* segment) noexcept {
  std::uint64_t words[wire::kOmpProcessorWords] = {};
  const long bytes = raw_syscall(SYS_sched_getaffinity, 0, sizeof words, words);
  for (long i = 0; i < bytes / static_cast<long>(sizeof *words); ++i)
    segment->openmp.processors[i].fetch_or(words[i], kRelaxed);
}

void tell_beginning(wire::SegmentHeader* segment, const OmpTeam& team) noexcept {
  segment->openmp.region_site.store(team.site, kRelaxed);
  segment->openmp.region_mpi_ns.store(team.mpi_before_ns, kRelaxed);
  segment->openmp.region_since_ns.store(monotonic_at(team.fork), std::memory_order_release);
}

// Of one thread in an instance that ends `now`. Returns how long it worked.
std::uint64_t count_member(const OmpTeam& team, const OmpMember& member, std::uint64_t now) noexcept {
  const std::uint64_t begin = get(member.begin), told_end = get(member.end);
  const std::uint64_t end = told_end != 0 ? told_end : now;
  const std::uint64_t waited = get(member.waited), before_tasks = get(member.waited_at_end);
  const std::uint64_t part = fast_between(begin, end), at_end = fast_between(end, now) + before_tasks;
  const std::uint64_t worked = fast_between(waited + before_tasks, part);
  if (wire::OmpRow* const row = row_at(member.row.load(kRelaxed)); row != nullptr) {
    add(row->count, 1, team.shared);
    add(row->time_ns, fast_ns(fast_between(begin, now)), team.shared);
    if (at_end != 0) add(row->wait_ns, fast_ns(at_end), team.shared);
    if (waited != 0) add(row->inner_wait_ns, fast_ns(waited), team.shared);
    if (begin != team.fork) add(row->schedule_ns, fast_ns(fast_between(team.fork, begin)), team.shared);
  }
  return worked;
}

void count_instance(wire::SegmentHeader* segment, const OmpTeam& team, std::uint64_t now,
                    std::uint64_t mpi_ns) noexcept {
  if (team.site >= segment->omp_sites) return;
  const std::uint64_t instance = get(team.instance);
  const std::uint32_t members = team.size < OmpTeam::kMembers ? team.size : OmpTeam::kMembers;
  std::uint64_t longest = 0;
  for (std::uint32_t i = 0; i < members; ++i) {
    const OmpMember& member = team.members[i];
    if (member.instance.load(std::memory_order_acquire) != instance) continue;
    const std::uint64_t worked = count_member(team, member, now);
    if (worked > longest) longest = worked;
  }
  if (team.size > members) count_drop(segment, wire::DropReason::kOpenMpTableFull, team.size - members);
  wire::OmpSite& site = sites_of(segment)[team.site];
  add(site.count, 1, team.shared);
  add(site.time_ns, fast_ns(fast_between(team.fork, now)), team.shared);
  if (mpi_ns > team.mpi_before_ns) add(site.mpi_ns, mpi_ns - team.mpi_before_ns, team.shared);
  add(site.longest_ns, fast_ns(longest), team.shared);
  if (team.asked > get(site.asked)) set(site.asked, team.asked);
}

}  // namespace

void reset_openmp(OmpState& state) noexcept {
  state.depth = 0;
  memset(reinterpret_cast<std::uint8_t*>(&state), 0, offsetof(OmpState, teams));
  ++state.user;
}

void reset_openmp_after_fork() noexcept { store_if_other(g_deciding, 0u); }

void describe_openmp(wire::SegmentHeader* segment) noexcept {
  const std::uint32_t method = g_openmp_method.load(std::memory_order_acquire);
  if (method == 0) return;
  memcpy(segment->openmp.runtime, g_runtime, sizeof g_runtime);
  segment->openmp.flags.store(g_flags.load(kRelaxed), kRelaxed);
  segment->openmp.method.store(method, std::memory_order_release);
}

bool take_openmp_method(wire::OmpMethod method, const char* runtime) noexcept {
  // A handler of the program must not run, or jump out, meanwhile.
  const std::uint64_t mask = block_all_signals();
  wait_until([] { return g_deciding.exchange(1, std::memory_order_acquire) == 0; });
  if (g_openmp_method.load(kRelaxed) == 0) {
    choose_fast_clock();
    strncpy(g_runtime, runtime, sizeof g_runtime - 1);
    g_openmp_method.store(static_cast<std::uint32_t>(method), std::memory_order_release);
    wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
    if (segment != nullptr) describe_openmp(segment);
  }
  g_deciding.store(0, std::memory_order_release);
  restore_signals(mask);
  return openmp_method() == method;
}

void note_other_openmp_runtime() noexcept {
  if ((g_flags.load(kRelaxed) & wire::kOmpOtherRuntime) != 0) return;  // in each region
  if ((g_flags.fetch_or(wire::kOmpOtherRuntime, kRelaxed) & wire::kOmpOtherRuntime) != 0) return;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment != nullptr) segment->openmp.flags.fetch_or(wire::kOmpOtherRuntime, kRelaxed);
}

bool records_inner_region(wire::SegmentHeader* segment, std::uintptr_t frame) noexcept {
  const ThreadContext& context = t_context;
  OmpState& state = *context.openmp;
  forget_over(state);
  while (state.depth != 0 && is_left(context, state.entry[state.depth - 1].frame, frame + 1))
    forget_left(segment, state);
  if (state.depth < OmpState::kMostTeams) return true;
  count_drop(segment, wire::DropReason::kOpenMpTableFull);
  return false;
}

OmpTeam* new_team() noexcept { return static_cast<OmpTeam*>(map_memory(sizeof(OmpTeam))); }

void enter_team(OmpTeam* team, std::uint32_t size, std::uint32_t number) noexcept {
  const ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr || team->generation != g_process.generation) return;
  OmpState& state = *context.openmp;
  if (state.depth != 0) {
    if (number == 0) {
      forget_over(state);
    } else {
      go_back(state, 0);  // a worker works for one team at a time
    }
  }
  const std::uint32_t depth = state.depth;
  if (depth >= OmpState::kMostTeams) return;
  const OmpState::Place place = row_of_region(state, *team, size, number);
  OmpEntry& entry = state.entry[depth];
  entry.team = team;
  entry.member = number < OmpTeam::kMembers ? &team->members[number] : nullptr;
  entry.instance = get(team->instance);
  entry.site = place.site;
  entry.number = number;
  entry.size = size;
  entry.epoch = team->epoch;
  entry.frame = number == 0 ? team->frame : 0;
  entry.scopes = state.scopes;
  entry.deeper_scopes = state.deeper_scopes;
  state.deeper_scopes = 0;
  entry.shared = team->shared;
  entry.ended = false;
  entry.plain_starts = 0;
  entry.single_code = 0;
  entry.work.code = 0;
  if (number == 0) {
    team->size = size;
    team->site = place.site;
    if (!team->shared && team->epoch != kOmpNotRecorded) tell_beginning(segment, *team);
  }
  if (!state.told_processors) {
    state.told_processors = true;
    tell_processors(segment);
  }
  if (OmpMember* const member = entry.member; member != nullptr) {
    // Alone in its team, a thread begins with it.
    set(member->begin, size > 1 ? fast_now() : team->fork);
    set(member->end, 0);
    set(member->waited, 0);
    set(member->waited_at_end, 0);
    member->row.store(place.row, kRelaxed);
    member->instance.store(entry.instance, std::memory_order_release);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  state.depth = depth + 1;
  set_activity(state, wire::OmpActivity::kWork);
}

void leave_team(const OmpTeam* team) noexcept {
  OmpState* const state = openmp_state();
  OmpEntry* const entry = innermost_team(state);
  if (entry == nullptr || entry->team != team) return;
  state->scopes = entry->scopes;
  state->deeper_scopes = 0;
  if (entry->size > 1 && entry->member != nullptr) set(entry->member->end, fast_now());
  entry->ended = true;
  set_activity(*state, activity_at_end(*entry));
}

void end_team(OmpTeam* team) noexcept {
  // What others have written takes as long to get as all the rest: it is on its way meanwhile.
  for (std::uint32_t i = 1; i < team->size && i < OmpTeam::kMembers; ++i)
    __builtin_prefetch(&team->members[i]);
  const std::uint64_t now = fast_now();
  const ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr || team->generation != g_process.generation) return;
  OmpState& state = *context.openmp;
  std::uint32_t depth = state.depth;
  while (depth != 0 && state.entry[depth - 1].team != team) --depth;
  if (depth == 0 || is_over(*team)) return;
  go_back(state, --depth);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (depth == 0) {
    set_activity(state, wire::OmpActivity::kNone);
  } else {
    go_on(state, state.entry[depth - 1]);
  }
  // Before the region is counted, which may have been a long one.
  if (team->shared) {
    adjust_fast_clock_elsewhere(now);
  } else {
    adjust_fast_clock(now);
  }
  if (team->epoch == openmp_epoch())
    count_instance(segment, *team, now, context.slot->mpi_time_ns.load(kRelaxed));
  const OmpMember& own = team->members[0];
  if (depth != 0 && !state.entry[depth - 1].ended && state.entry[depth - 1].member != nullptr &&
      get(own.instance) == get(team->instance)) {
    // What it waited inside is no work of the region around.
    const std::uint64_t end = get(own.end);
    const std::uint64_t at_end = end != 0 ? fast_between(end, now) : 0;
    add(state.entry[depth - 1].member->waited, at_end + get(own.waited) + get(own.waited_at_end), false);
  }
  team->instance.store(get(team->instance) + 1, kRelaxed);
  if (team->shared) return;
  segment->openmp.region_since_ns.store(0, std::memory_order_release);
}

void begin_wait(OmpState& state, wire::OmpConstruct construct, wire::OmpActivity activity,
                std::uint64_t code) noexcept {
  if (state.scopes == OmpState::kMostScopes) {
    ++state.deeper_scopes;
    return;
  }
  OmpScope& scope = state.scope[state.scopes++];
  scope.in_tasks = 0;
  scope.code = code;
  // Here, since others wait for what the thread does after it has got a lock.
  scope.row = state.depth != 0 ? remembered_row(state, state.entry[state.depth - 1], construct, code)
                               : wire::kNoOmpSite;
  scope.construct = construct;
  scope.activity = activity;
  scope.is_task = scope.at_end = false;
  set_activity(state, activity);
  scope.begin = fast_now();
}

void end_wait(OmpState& state) noexcept {
  const std::uint64_t now = fast_now();
  if (state.deeper_scopes != 0) {
    --state.deeper_scopes;
    return;
  }
  OmpEntry* const entry = innermost_team(&state);
  if (entry == nullptr || state.scopes <= entry->scopes || state.scope[state.scopes - 1].is_task) return;
  adjust_fast_clock_elsewhere(now);
  const OmpScope& scope = state.scope[--state.scopes];
  const std::uint64_t whole = fast_between(scope.begin, now), waited = fast_between(scope.in_tasks, whole);
  go_on(state, *entry);
  if (entry->member != nullptr) add(entry->member->waited, waited, false);
  wire::OmpRow* const row = scope.row == wire::kNoOmpSite ? row_of(state, *entry, scope.construct, scope.code)
                            : counts_in_epoch(*entry)     ? row_at(scope.row)
                                                          : nullptr;
  if (row == nullptr) return;
  // Those that share something out have been counted before the wait at their end.
  const bool was_counted =
      scope.construct == wire::OmpConstruct::kLoop || scope.construct == wire::OmpConstruct::kSections;
  if (!was_counted) add(row->count, 1, entry->shared);
  add(row->time_ns, fast_ns(whole), entry->shared);
  add(row->wait_ns, fast_ns(waited), entry->shared);
}

void forget_wait(OmpState& state) noexcept {
  if (state.deeper_scopes != 0) {
    --state.deeper_scopes;
    return;
  }
  const OmpEntry* const entry = innermost_team(&state);
  if (entry == nullptr || state.scopes <= entry->scopes || state.scope[state.scopes - 1].is_task) return;
  --state.scopes;
  go_on(state, *entry);
}

void begin_task(OmpState& state, std::uint64_t code) noexcept {
  if (state.depth == 0) return;
  OmpEntry& entry = state.entry[state.depth - 1];
  if (!is_under_way(entry)) return;
  if (state.scopes == OmpState::kMostScopes) {
    ++state.deeper_scopes;
    return;
  }
  const std::uint64_t now = fast_now();
  OmpScope& scope = state.scope[state.scopes++];
  scope.begin = now;
  scope.in_tasks = 0;
  scope.code = code;
  scope.construct = wire::OmpConstruct::kTask;
  scope.activity = wire::OmpActivity::kWork;
  scope.is_task = true;
  scope.at_end = entry.ended;
  if (entry.ended) {
    entry.ended = false;
    OmpMember* const member = entry.member;
    // Alone in its team, a thread waits for nobody, and no end was noted.
    const std::uint64_t end = member != nullptr ? get(member->end) : 0;
    if (end != 0) add(member->waited_at_end, fast_between(end, now), false);
  }
  set_activity(state, wire::OmpActivity::kWork);
}

void end_task(OmpState& state) noexcept {
  if (state.depth == 0) return;
  if (state.deeper_scopes != 0) {
    --state.deeper_scopes;
    return;
  }
  OmpEntry& entry = state.entry[state.depth - 1];
  if (state.scopes <= entry.scopes || !state.scope[state.scopes - 1].is_task) return;
  const std::uint64_t now = fast_now();
  adjust_fast_clock_elsewhere(now);
  const OmpScope& scope = state.scope[--state.scopes];
  const std::uint64_t lasted = fast_between(scope.begin, now);
  if (wire::OmpRow* const row = row_of(state, entry, wire::OmpConstruct::kTask, scope.code); row != nullptr) {
    add(row->count, 1, entry.shared);
    add(row->time_ns, fast_ns(lasted), entry.shared);
  }
  if (scope.at_end) {
    if (entry.member != nullptr) set(entry.member->end, now);
    entry.ended = true;
    set_activity(state, activity_at_end(entry));
    return;
  }
  if (state.scopes > entry.scopes && !state.scope[state.scopes - 1].is_task)
    state.scope[state.scopes - 1].in_tasks += lasted;
  go_on(state, entry);
}

void begin_work(OmpEntry& entry, wire::OmpConstruct construct, std::uint64_t code, std::uint64_t step,
                std::uint8_t schedules) noexcept {
  entry.work = {code, fast_now(), construct, false, schedules, 0, 0, 0, 0, step, 0};
}

void end_work(OmpState& state, OmpEntry& entry) noexcept {
  OmpWork& work = entry.work;
  if (work.code == 0 || work.over) return;
  work.over = true;
  const std::uint64_t now = fast_now();
  adjust_fast_clock_elsewhere(now);
  wire::OmpRow* const row = row_of(state, entry, work.construct, work.code);
  if (row == nullptr) return;
  add(row->count, 1, entry.shared);
  add(row->time_ns, fast_ns(fast_between(work.begin, now)), entry.shared);
  if ((row->schedules.load(kRelaxed) & work.schedules) != work.schedules)
    row->schedules.fetch_or(work.schedules, kRelaxed);
  if (work.calls != 0) {
    const std::uint64_t measured = (work.calls + kPartsPerMeasured - 1) / kPartsPerMeasured;
    add(row->schedule_ns, fast_ns(work.schedule) * work.calls / measured, entry.shared);
  }
  if (work.chunks == 0) {
    if (work.whole != 0) add(row->iterations, work.whole, entry.shared);
    return;
  }
  add(row->chunks, work.chunks, entry.shared);
  if (work.step != 0) add(row->iterations, work.span / work.step, entry.shared);
}

}  // namespace clusterprof::agent
