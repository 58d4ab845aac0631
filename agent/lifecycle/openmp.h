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
wire::OmpMethod openmp_method() noexcept;
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
bool records_region(std::uintptr_t frame) noexcept;
// The calling thread begins a region. Null: it is not recorded.
OmpTeam* begin_team(const OmpBeginning& beginning) noexcept;
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

// A loop or sections, shared out in parts. step: of the loop variable; 0 not known.
void begin_work(OmpEntry& entry, wire::OmpConstruct construct, std::uint64_t code,
                std::uint64_t step) noexcept;
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
