// SPDX-License-Identifier: BSD-3-Clause
// What a process tells of its OpenMP regions: two tables of sums, and what its samples say of the moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace clusterprof::wire {

// How a process's OpenMP is recorded. One way for each process: with two, a run time that offers both would
// count everything twice.
enum class OmpMethod : std::uint32_t {
  kNone = 0,   // it has used no OpenMP
  kOmpt,       // the run time calls us (OMPT): LLVM's and Intel's
  kGomp,       // we stand in front of GCC's run time
  kOtherTool,  // not at all: a tool of the user's has the run time's interface for tools
};
enum OmpFlags : std::uint32_t {
  kOmpOtherRuntime = 1u << 0,  // another run time is used as well, and not recorded
};
inline constexpr std::uint32_t kOmpRuntimeBytes = 96;

// What a thread does, as a sample has it (SampleFlags). The ones after kWork wait.
enum class OmpActivity : std::uint8_t {
  kNone = 0,  // it is in no region that is recorded
  kWork,
  kBarrier,
  kTasks,  // taskwait, end of a taskgroup
  kLock,
  kCritical,  // and atomic
  kOrdered,
  kIdle,  // a worker, from the end of its part of a region to its next one
};
inline constexpr std::uint32_t kOmpActivities = 8;

enum class OmpConstruct : std::uint8_t {
  kParallel = 0,
  kTeams,
  kLoop,
  kSections,
  kSingle,
  kBarrier,  // with GCC also the one at the end of a loop whose schedule is static
  kImplicitBarrier,
  kReduction,
  kTask,
  kTaskwait,
  kTaskgroup,
  kLock,
  kCritical,
  kAtomic,
  kOrdered,
  kCount
};
inline constexpr std::uint32_t kOmpConstructs = static_cast<std::uint32_t>(OmpConstruct::kCount);

// How the iterations of a loop are shared out. Bits: one loop may have been met with several.
enum OmpSchedules : std::uint8_t {
  kOmpStatic = 1u << 0,
  kOmpDynamic = 1u << 1,
  kOmpGuided = 1u << 2,
  kOmpRuntime = 1u << 3,    // as OMP_SCHEDULE, the program or the run time has it (runtime, auto)
  kOmpHandedOut = 1u << 4,  // by the run time, chunk by chunk; it does not tell with which of these
};
inline constexpr std::uint32_t kOmpScheduleBits = 5;

inline constexpr std::uint32_t kNoOmpSite = 0xffff'ffffu;

// A parallel region on one call path with one number of threads, or a construct inside one. The sums are
// those of regions that have ended: by the thread that began the region.
struct OmpSite {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of the identity
  std::atomic<std::uint32_t> ready;  // 1 when the identity below is complete
  std::uint32_t threads;             // of the team
  std::uint32_t path_words;          // of regions: frame words (see SampleRecord) in the path arena,
  std::uint32_t region;              //   of constructs: the site of their region
  std::uint64_t path_offset;         //   at this byte offset; first the run time's frames, if any, then the
                                     //   caller. path_words 0: the path was dropped
  std::uint64_t code;                // of constructs: where the program goes on after the call; of regions:
                                     //   behind the first byte of the function that the threads run; 0 not
                                     //   known
  OmpConstruct construct;
  std::uint8_t level;   // of regions: how many there are around it
  std::uint8_t shared;  // 1: several teams may have been in it at a time
  std::uint8_t reserved[5];
  std::atomic<std::uint64_t> count,
      time_ns;                            // elapsed, from before the threads are there until they are done
  std::atomic<std::uint64_t> mpi_ns;      // of that, in MPI
  std::atomic<std::uint64_t> longest_ns;  // of each instance the time of the thread that worked longest
  std::atomic<std::uint64_t> asked;       // the most threads that were asked for
};
static_assert(sizeof(OmpSite) == 88);

// What one thread of the team, by its number, spent in a region or construct. Only this thread adds, or the
// one that began the region when all are done; of shared sites, all that have the number (atomic adds).
struct alignas(64) OmpRow {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of site and number
  std::atomic<std::uint32_t> ready;  // 1 when the rest is complete
  std::uint32_t site, number;
  std::atomic<std::uint32_t> schedules;  // of loops: OmpSchedules; 0: the run time does not tell
  std::atomic<std::uint64_t> count;
  // Regions: from where the thread began to where all were done. Constructs: all of it.
  std::atomic<std::uint64_t> time_ns;
  std::atomic<std::uint64_t> wait_ns;        // of that, waiting; of regions: at their end
  std::atomic<std::uint64_t> inner_wait_ns;  // of regions: of that, waiting in constructs
  // Regions: before time_ns, from the beginning of the region until the thread began. Loops and sections: of
  // time_ns, asking for the next part; from a part of the calls.
  std::atomic<std::uint64_t> schedule_ns;
  // Of loops whose chunks are handed out by the run time. Where it tells the iterations of a whole loop only,
  // number 0 has them, and there are no chunks.
  std::atomic<std::uint64_t> chunks, iterations;
};
static_assert(sizeof(OmpRow) == 128);

}  // namespace clusterprof::wire
