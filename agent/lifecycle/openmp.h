// SPDX-License-Identifier: BSD-3-Clause
// OpenMP: what threads do in regions, and the sums of it (wire::OmpSite, wire::OmpRow). openmp/ calls this
// from in front of GCC's run time and from the callbacks of others. On the thread itself, outside handlers.
//
// A thread stamps the beginning and the end of its part of a region. That it waits afterwards is known only
// when all are done: whoever began the region reads the stamps then, and adds up. So a worker that is
// released late, or only at the next region, has waited until the end of this one and not longer.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"
#include "agent/lifecycle/fast_clock.h"
#include "agent/sigsafe/openmp_state.h"
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// Before a thread's memory is used again.
void reset_openmp(OmpState& state) noexcept;
// In the child of a fork, before it has a segment; and when it has one, which knows no run time yet.
void reset_openmp_after_fork() noexcept;
void describe_openmp(wire::SegmentHeader* segment) noexcept;

// How this process is recorded. The first to ask for a method gets it: true if that is this one. `runtime`:
// its name.
extern std::atomic<std::uint32_t> g_openmp_method;  // wire::OmpMethod
inline wire::OmpMethod openmp_method() noexcept {
  return static_cast<wire::OmpMethod>(g_openmp_method.load(std::memory_order_acquire));
}
bool take_openmp_method(wire::OmpMethod method, const char* runtime) noexcept;
void note_other_openmp_runtime() noexcept;

// The calling thread's state. Null: it is not recorded.
inline OmpState* openmp_state() noexcept { return t_context.openmp; }

// The innermost team that the thread works for; null: it works for none.
inline OmpEntry* innermost_team(OmpState* state) noexcept {
  if (state == nullptr || state->depth == 0) return nullptr;
  OmpEntry& entry = state->entry[state->depth - 1];
  return entry.ended ? nullptr : &entry;
}

struct OmpBeginning {
  clusterprof_call_path path;  // of the caller
  std::uint64_t code;          // where it goes on afterwards
  std::uint32_t asked;         // threads
  wire::OmpConstruct construct;
  std::uint64_t body;    // OmpTeam's
  std::uintptr_t frame;  // the same
};
// Whether a region that begins now is to be followed: ask before its path is looked for. That is so in a
// pause as well, since recording may go on within the region; but then it is not counted. `frame`: of the
// function that the program has called. Regions that began there or below it on the stack were left by a
// jump.
bool records_inner_region(wire::SegmentHeader* segment, std::uintptr_t frame) noexcept;
inline bool records_region(std::uintptr_t frame) noexcept {
  const ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (context.slot == nullptr || segment == nullptr || recording_has_ended()) return false;
  return context.openmp->depth == 0 || records_inner_region(segment, frame);
}
// What begins in one epoch of recording and ends in another is not counted.
inline constexpr std::uint64_t kOmpNotRecorded = ~std::uint64_t{0};
inline std::uint64_t openmp_epoch() noexcept {
  return std::uint64_t{g_process.record_phase.load(std::memory_order_relaxed)} << 32 |
         g_process.pauses.load(std::memory_order_relaxed);
}

OmpTeam* new_team() noexcept;  // null: there is no memory
// The calling thread begins a region. Null: it is not recorded. In place, since what is known of a region
// would be written twice otherwise.
[[gnu::always_inline]] inline OmpTeam* begin_team(const OmpBeginning& beginning) noexcept {
  const ThreadContext& context = t_context;
  OmpState& state = *context.openmp;
  const std::uint32_t depth = state.depth;
  OmpTeam* kept = state.teams[depth];
  if (kept == nullptr) [[unlikely]] {
    kept = state.teams[depth] = new_team();
    if (kept == nullptr) return nullptr;
  }
  OmpTeam& team = *kept;
  const std::uint64_t instance = team.instance.load(std::memory_order_relaxed);
  team.instance.store(instance + (instance % 2 == 0 ? 1 : 2),
                      std::memory_order_relaxed);  // the last one may have been left
  const auto level = static_cast<std::uint8_t>(depth == 0 ? 0 : state.entry[depth - 1].team->level + 1);
  const bool shared = depth != 0 || context.slot->is_main == 0;
  team.epoch = is_recording(context) ? openmp_epoch() : kOmpNotRecorded;
  team.identity = beginning.path.hash ^ beginning.body * 0x9fb2'1c65'1e98'df25ull ^
                  (std::uint64_t{level} << 40 | std::uint64_t{shared} << 48 |
                   static_cast<std::uint64_t>(beginning.construct) << 56);
  team.generation = g_process.generation;
  team.level = level;
  team.shared = shared;
  team.has_work = false;
  team.path_offset = beginning.path.offset;
  team.path_words = beginning.path.words;
  team.asked = beginning.asked;
  team.code = beginning.code;
  team.body = beginning.body;
  team.frame = beginning.frame;
  team.construct = beginning.construct;
  team.mpi_before_ns = context.slot->mpi_time_ns.load(std::memory_order_relaxed);
  team.size = 0;
  team.site = wire::kNoOmpSite;
  team.fork = fast_now();
  return kept;
}
// Asks for what another thread than number 0 will write in enter_team(): the one that began the region has
// looked at it last.
inline void prepare_to_enter(const OmpTeam* team, std::uint32_t number) noexcept {
  // Processors without the instruction take it for one that does nothing.
  if (number != 0 && number < OmpTeam::kMembers) asm volatile("prefetchw %0" : : "m"(team->members[number]));
}
// The calling thread is `number` of `size` in it. The one that has begun the region is number 0.
void enter_team(OmpTeam* team, std::uint32_t size, std::uint32_t number) noexcept;
// Its part is over: what follows is waiting, or tasks.
void leave_team(const OmpTeam* team) noexcept;
// All are done. On the thread that has begun it.
void end_team(OmpTeam* team) noexcept;

// Waits in constructs, and tasks, also those that a waiting thread does meanwhile. They nest. What is not
// ended when the thread's part of the region ends is forgotten.
void begin_wait(OmpState& state, wire::OmpConstruct construct, wire::OmpActivity activity,
                std::uint64_t code) noexcept;
void end_wait(OmpState& state) noexcept;
void forget_wait(OmpState& state) noexcept;  // it was none
void begin_task(OmpState& state, std::uint64_t code) noexcept;
void end_task(OmpState& state) noexcept;

// A loop or sections, shared out in parts. step: of the loop variable; 0 not known. schedules: of a loop,
// wire::OmpSchedules; 0 not known (yet: OmpWork::schedules).
void begin_work(OmpEntry& entry, wire::OmpConstruct construct, std::uint64_t code, std::uint64_t step,
                std::uint8_t schedules) noexcept;
// The thread asks for its next part. One in so many of these is measured, since measuring all would take as
// long as what they do: for that one, begin_part() returns the time.
inline constexpr std::uint64_t kPartsPerMeasured = 16;
inline std::uint64_t begin_part(OmpEntry& entry) noexcept {
  return entry.work.calls++ % kPartsPerMeasured == 0 ? fast_now() : 0;
}
inline void end_part(OmpEntry& entry, std::uint64_t begin, bool got_one, std::uint64_t span) noexcept {
  if (begin != 0) entry.work.schedule += fast_between(begin, fast_now());
  if (!got_one) return;
  ++entry.work.chunks;
  entry.work.span += span;
}
// It has no more parts. The wait at the end, if there is one, follows: begin_wait() with construct and code
// of OmpEntry::work.
void end_work(OmpState& state, OmpEntry& entry) noexcept;

}  // namespace clusterprof::agent
