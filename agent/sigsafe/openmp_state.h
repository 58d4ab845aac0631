// SPDX-License-Identifier: BSD-3-Clause
// What a thread is doing in OpenMP. Written by the thread outside handlers (lifecycle/openmp.cpp), but for
// the teams of its regions, in which each member has a line. The handler reads where the thread is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/wire/openmp.h"

namespace clusterprof::agent {

using OmpWord = std::atomic<std::uint64_t>;

// One thread's part of an instance of a region. Times are of lifecycle/fast_clock.h.
struct alignas(64) OmpMember {
  OmpWord instance;                // that the rest is about; stored last
  OmpWord begin, end;              // end 0: it is not over
  OmpWord waited;                  // in constructs, but for tasks that it did meanwhile
  OmpWord waited_at_end;           // at the region's end, before tasks that it did there
  std::atomic<std::uint32_t> row;  // of wire::OmpRow; kNoOmpSite: there was no room
};

// An instance of a region. All but the members is written by the thread that began it.
//
// Each cache line that another processor has written takes as long to get as all else that a thread does at
// the beginning of its part. So all threads read the first line only, where the region is known, and what is
// written after they have begun is on another one.
struct alignas(64) OmpTeam {
  static constexpr std::uint32_t kMembers = 512;  // further ones are counted as lost
  // With GCC's run time, whose threads are called with the address of this instead of the program's data.
  // Some of its functions read what the first word of the data points to.
  struct Call {
    void* first_word;
    void (*function)(void*);
    void* data;
    const void* runtime;
  } call;
  OmpWord instance;          // grows by one when an instance begins and when it ends
  std::uint64_t epoch;       // of recording, when it began
  std::uint64_t identity;    // hash of path, body, construct, level and shared
  std::uint32_t generation;  // ProcessState's
  std::uint8_t level;
  bool shared;
  bool has_work;  // the region is a loop or sections: `work`, and the loop's step

  // Where the region is new to the thread, or has work.
  alignas(64) std::uint64_t path_offset;
  std::uint32_t path_words;
  std::uint32_t asked;
  std::uint64_t code;    // where the program goes on after the call
  std::uint64_t body;    // behind the first byte of the function that the threads run; 0: not known
  std::uintptr_t frame;  // on the stack of the thread that began it, which runs it below; 0: not known
  std::uint64_t step;
  wire::OmpConstruct construct, work;
  std::uint8_t schedules;  // of work that is a loop: wire::OmpSchedules
  bool goes_on;            // the program itself calls the function for number 0, and then GOMP_parallel_end

  // For the thread that began it.
  alignas(64) std::uint64_t fork;
  std::uint64_t mpi_before_ns;
  std::uint32_t size, site;  // known once the first thread has entered it
  OmpMember members[kMembers];
};
static_assert(offsetof(OmpTeam, call) == 0 && offsetof(OmpTeam, path_offset) == 64 &&
              offsetof(OmpTeam, fork) == 128 && offsetof(OmpTeam, members) == 192);

// The construct in which iterations or sections are shared out, that the thread is in or has just left.
struct OmpWork {
  std::uint64_t code, begin;  // code 0: none
  wire::OmpConstruct construct;
  bool over;                         // it has been left; what follows may be the barrier at its end
  std::uint8_t schedules;            // of loops: wire::OmpSchedules; 0 not known
  std::uint64_t calls, schedule;     // for parts; and the time of those that were measured
  std::uint64_t chunks, span, step;  // span: of all chunks, in units of the loop variable
  std::uint64_t whole;  // iterations of all threads together, for this one to count; 0: chunks tell, or none
};

// A team that the thread is in.
struct OmpEntry {
  OmpTeam* team;
  OmpMember* member;  // null: beyond kMembers
  std::uint64_t instance;
  std::uint32_t site, number, size;
  std::uint64_t epoch;
  std::uintptr_t frame;                 // of number 0; else 0
  std::uint32_t scopes, deeper_scopes;  // OmpState's when it began
  bool shared;
  bool ended;                  // its part is over, but for tasks at the region's end
  std::uint32_t plain_starts;  // calls of GOMP_parallel_start that are not recorded, and not ended
  // The single construct that it met last: code (0: what followed was not its barrier), and when another
  // thread had it.
  std::uint64_t single_code, not_single_at;
  OmpWork work;
};

// The thread waits in a construct, or does a task.
struct OmpScope {
  std::uint64_t begin;
  std::uint64_t in_tasks;  // of a wait: what was spent in tasks
  std::uint64_t code;
  std::uint32_t row;  // of a wait: OmpState's, if the thread had used it lately; else kNoOmpSite
  wire::OmpConstruct construct;
  wire::OmpActivity activity;
  bool is_task;
  bool at_end;  // a task at the end of the region, after the thread's part of it
};

struct OmpState {
  static constexpr std::uint32_t kMostTeams = 8, kMostScopes = 32, kPlaces = 4096;
  volatile std::uint32_t depth;    // an entry is complete before the depth includes it
  volatile std::uint8_t activity;  // wire::OmpActivity
  bool told_processors;
  std::uint32_t scopes, deeper_scopes;
  OmpEntry entry[kMostTeams];
  OmpScope scope[kMostScopes];
  // The objects whose calls were served last, the latest first, and their run times (openmp/runtimes.h).
  struct Caller {
    std::uintptr_t begin, end;
    void* runtime;
  };
  static constexpr std::uint32_t kCallers = 4;
  Caller callers[kCallers];
  OmpTeam* teams[kMostTeams];  // of regions that it begins, by depth; kept for the slot's next thread
  // Rows that the thread used last: many, since every call path has regions of its own (CP2K has thousands).
  // what: of regions OmpTeam::identity, of constructs code and kind; whose: size of the team or site of the
  // region, and the thread's number; user: OmpState's at the time, so that the slot's next thread has nothing
  // to clear.
  struct Place {
    std::uint64_t what, whose;
    std::uint32_t site, row, user;
  };
  std::uint32_t user;
  Place places[kPlaces];
  [[nodiscard]] bool is(const Place& place, std::uint64_t what, std::uint64_t whose) const noexcept {
    return place.what == what && place.whose == whose && place.user == user;
  }
};

// The region whose path a stack of the thread goes on with, since it begins in the run time; kNoOmpSite:
// none.
[[gnu::always_inline]] inline std::uint32_t joined_site(const OmpState* state) noexcept {
  if (state == nullptr || state->depth == 0) return wire::kNoOmpSite;
  const OmpEntry& outermost = state->entry[0];
  return outermost.number != 0 && !outermost.ended ? outermost.site : wire::kNoOmpSite;
}

}  // namespace clusterprof::agent
