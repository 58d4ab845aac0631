// SPDX-License-Identifier: BSD-3-Clause
// The part of OpenMP's interface for tools (OMPT) that we use, after chapter 4 of the OpenMP 5.1
// specification. Not every compiler comes with omp-tools.h.
#pragma once

#include <cstdint>

namespace clusterprof::agent::ompt {

union Data {
  std::uint64_t value;
  void* pointer;
};

struct Frame;
using Function = void (*)();
using Lookup = Function (*)(const char* name);

struct StartToolResult {
  int (*initialize)(Lookup lookup, int initial_device, Data* tool_data);
  void (*finalize)(Data* tool_data);
  Data tool_data;
};

// The numbers of the callbacks that are set.
enum Callback : int {
  kParallelBegin = 3,
  kParallelEnd = 4,
  kTaskCreate = 5,
  kTaskSchedule = 6,
  kImplicitTask = 7,
  kSyncRegionWait = 16,
  kWork = 20,
  kMutexAcquire = 26,
  kMutexAcquired = 27,
  kDispatch = 32,
};
using SetCallback = int (*)(Callback which, Function callback);
inline constexpr int kSetNever = 1;  // this and less: it will not be called

enum Endpoint : int { kBegin = 1, kEnd = 2 };
enum ParallelFlags : unsigned { kLeague = 0x4000'0000u };
enum TaskFlags : int { kInitialTask = 1, kExplicitTask = 4 };
enum TaskStatus : int { kComplete = 1, kYield = 2, kCancelled = 3, kDetached = 4, kSwitch = 7 };

enum SyncRegion : int {
  kBarrierOld = 1,          // either of the next two
  kBarrierImplicitOld = 2,  // at the end of a region, or of a construct
  kBarrierExplicit = 3,
  kBarrierOfRuntime = 4,  // of its own making, as for copyprivate
  kTaskwait = 5,
  kTaskgroup = 6,
  kReduction = 7,
  kBarrierOfConstruct = 8,
  kBarrierOfRegion = 9,
  kBarrierOfTeams = 10,
};

enum WorkKind : int {
  kLoop = 1,
  kSections = 2,
  kSingleExecutor = 3,
  kSingleOther = 4,
  kLoopStatic = 10,  // 5.2: these four instead of kLoop
  kLoopDynamic = 11,
  kLoopGuided = 12,
  kLoopOther = 13,
};

enum DispatchKind : int { kSection = 2, kLoopChunk = 3 };  // 5.2: chunks
struct DispatchChunk {
  std::uint64_t start, iterations;
};

enum MutexKind : int { kLock = 1, kTestLock, kNestLock, kTestNestLock, kCritical, kAtomic, kOrdered };

}  // namespace clusterprof::agent::ompt
