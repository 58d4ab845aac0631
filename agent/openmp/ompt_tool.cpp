// SPDX-License-Identifier: BSD-3-Clause
// A tool of OpenMP's interface for tools (OMPT): how regions of LLVM's and Intel's run time are recorded.
// There can be one tool only, so the user's own comes first.
//
// The end of a worker's wait at the end of a region is told when the worker is needed again, which may be
// much later. So it is not used: the beginning of that wait is the end of the thread's part, and the rest is
// known when the region ends (lifecycle/openmp.h).
//
// How a loop is shared out is told by newer versions, as the kind of work (OpenMP 5.2). With older ones all
// loops are of one kind. But the end of a static one is told by the function that the program calls for it,
// and that of others by the one that has no more chunks.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdlib>

#include "agent/lifecycle/openmp.h"
#include "agent/lifecycle/start.h"
#include "agent/openmp/ompt_interface.h"
#include "agent/sigsafe/call_path.h"

namespace clusterprof::agent {
namespace {

using ompt::Data;
using wire::OmpActivity;
using wire::OmpConstruct;

// Where the program goes on after the call. Not known where the run time was called by ours.
std::uint64_t code_of(const void* code) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(code);
  return is_own_code(address) ? 0 : address;
}

OmpTeam* team_of(const Data* parallel) noexcept {
  return parallel != nullptr ? static_cast<OmpTeam*>(parallel->pointer) : nullptr;
}

// Where the run time ends loops with a static schedule. Set before there are callbacks; size 0: not known.
struct CodeRange {
  std::uintptr_t begin, size;
};
constinit CodeRange g_static_end = {};
// The run time tells the chunks of loops: it has done so.
constinit std::atomic<bool> g_tells_chunks = false;

// In the run time that has `code`.
CodeRange static_end_of(const void* code) noexcept {
  Dl_info info;
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return {};
  void* const handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  const void* const function = dlsym(handle, "__kmpc_for_static_fini");
  dlclose(handle);  // the run time stays
  const ElfW(Sym)* symbol = nullptr;
  if (function == nullptr ||
      dladdr1(function, &info, const_cast<void**>(reinterpret_cast<const void**>(&symbol)), RTLD_DL_SYMENT) ==
          0 ||
      symbol == nullptr || info.dli_saddr != function)
    return {};
  return {reinterpret_cast<std::uintptr_t>(function), symbol->st_size};
}

// Of a loop whose end was told by a call that returns to `here`. `given`: what the run time says of where the
// program is, to which it returns itself if it has left the call to us (a tail call).
std::uint8_t schedule_at_end(const void* here, const void* given) noexcept {
  if (g_static_end.size == 0 || here == given) return 0;
  const bool is_static = reinterpret_cast<std::uintptr_t>(here) - g_static_end.begin < g_static_end.size;
  return is_static ? wire::kOmpStatic : wire::kOmpHandedOut;
}

std::uint8_t schedule_of(int kind) noexcept {
  switch (kind) {
    case ompt::kLoopStatic:
      return wire::kOmpStatic;
    case ompt::kLoopDynamic:
      return wire::kOmpDynamic;
    case ompt::kLoopGuided:
      return wire::kOmpGuided;
    case ompt::kLoopOther:
      return wire::kOmpHandedOut;
    default:
      return 0;
  }
}

void begin_parallel(Data*, const ompt::Frame*, Data* parallel, unsigned asked, int flags, const void* code) {
  parallel->pointer = nullptr;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (!records_region(frame)) return;
  const bool is_league = (static_cast<unsigned>(flags) & ompt::kLeague) != 0;
  parallel->pointer = begin_team({clusterprof_call_path_entry(), code_of(code), asked,
                                  is_league ? OmpConstruct::kTeams : OmpConstruct::kParallel, 0, frame});
}

void end_parallel(Data* parallel, Data*, int, const void*) {
  OmpTeam* const team = team_of(parallel);
  if (team == nullptr) return;
  leave_team(team);  // of one thread: there is no wait at the end
  end_team(team);
  parallel->pointer = nullptr;
}

void implicit_task(ompt::Endpoint endpoint, Data* parallel, Data*, unsigned size, unsigned number, int) {
  OmpTeam* const team = team_of(parallel);
  // Of the end nothing is to be learned: a worker's comes late, and that of number 0 with the region's.
  if (endpoint != ompt::kBegin || team == nullptr) return;
  // A region of one thread runs after the call has returned to the program. And inside another one it has
  // that one's number.
  if (size == 1) {
    number = 0;
    team->frame = 0;
  }
  prepare_to_enter(team, number);
  enter_team(team, size, number);
}

bool is_implicit(int kind) noexcept {
  return kind == ompt::kBarrierOld || kind == ompt::kBarrierImplicitOld || kind == ompt::kBarrierOfRuntime ||
         kind == ompt::kBarrierOfConstruct;
}

// Older versions do not tell the barrier at the end of the region from others: there the workers do not know
// where the program is, and number 0 is where the region began.
bool is_at_end(const OmpEntry& entry, int kind, const void* given) noexcept {
  if (kind == ompt::kBarrierOfRegion || kind == ompt::kBarrierOfTeams) return true;
  const bool may_be = kind == ompt::kBarrierOld || kind == ompt::kBarrierImplicitOld;
  const std::uint64_t code = code_of(given);
  return may_be && (given == nullptr || (entry.number == 0 && code != 0 && code == entry.team->code));
}

void begin_sync(OmpState& state, OmpEntry& entry, int kind, const void* given) noexcept {
  if (is_at_end(entry, kind, given)) return leave_team(entry.team);
  std::uint64_t code = code_of(given);
  OmpWork& work = entry.work;
  OmpConstruct construct = OmpConstruct::kBarrier;
  OmpActivity activity = OmpActivity::kBarrier;
  if (kind == ompt::kTaskwait) {
    construct = OmpConstruct::kTaskwait;
    activity = OmpActivity::kTasks;
  } else if (kind == ompt::kTaskgroup) {
    construct = OmpConstruct::kTaskgroup;
    activity = OmpActivity::kTasks;
  } else if (kind == ompt::kReduction) {
    construct = OmpConstruct::kReduction;
  } else if (is_implicit(kind)) {
    construct = OmpConstruct::kImplicitBarrier;
    if (work.code != 0 && work.over) {
      construct = work.construct;
      code = work.code;
      work.code = 0;
    } else if (entry.single_code != 0) {
      construct = OmpConstruct::kSingle;
      code = entry.single_code;
    }
  }
  entry.single_code = 0;
  begin_wait(state, construct, activity, code);
}

void sync_region_wait(int kind, ompt::Endpoint endpoint, Data*, Data*, const void* code) {
  OmpState* const state = openmp_state();
  OmpEntry* const entry = innermost_team(state);
  if (entry == nullptr) return;
  if (endpoint == ompt::kBegin) {
    begin_sync(*state, *entry, kind, code);
  } else if (endpoint == ompt::kEnd) {
    end_wait(*state);
  }
}

void begin_shared(OmpEntry& entry, int kind, std::uint64_t code, std::uint64_t count) noexcept {
  entry.single_code = 0;
  if (kind == ompt::kSections) return begin_work(entry, OmpConstruct::kSections, code, 0, 0);
  begin_work(entry, OmpConstruct::kLoop, code, 1, schedule_of(kind));  // chunks are told in iterations
  // The iterations of the whole loop. Of a team of one thread, older versions tell the loop variable's span.
  const bool is_count = entry.size > 1 && count <= std::uint64_t{1} << 62;
  if (entry.number == 0 && is_count) entry.work.whole = count;
}

void end_shared(OmpState& state, OmpEntry& entry, const void* here, const void* given) noexcept {
  OmpWork& work = entry.work;
  if (work.construct == OmpConstruct::kLoop && work.schedules == 0)
    work.schedules = schedule_at_end(here, given);
  if (g_tells_chunks.load(std::memory_order_relaxed)) work.whole = 0;
  end_work(state, entry);
}

void work(int kind, ompt::Endpoint endpoint, Data*, Data*, std::uint64_t count, const void* given) {
  OmpState* const state = openmp_state();
  OmpEntry* const entry = innermost_team(state);
  if (entry == nullptr) return;
  const std::uint64_t code = code_of(given);
  switch (kind) {
    case ompt::kLoop:
    case ompt::kLoopStatic:
    case ompt::kLoopDynamic:
    case ompt::kLoopGuided:
    case ompt::kLoopOther:
    case ompt::kSections:
      if (endpoint == ompt::kBegin) {
        begin_shared(*entry, kind, code, count);
      } else if (endpoint == ompt::kEnd) {
        end_shared(*state, *entry, __builtin_return_address(0), given);
      }
      break;
    case ompt::kSingleExecutor:
    case ompt::kSingleOther:
      entry->work.code = 0;
      entry->single_code = code;
      break;
    default:
      break;
  }
}

// A thread has got a part of a loop or of sections.
void dispatch(Data*, Data*, int kind, Data instance) {
  OmpEntry* const entry = innermost_team(openmp_state());
  if (entry == nullptr || entry->work.code == 0 || entry->work.over) return;
  OmpWork& work = entry->work;
  if (kind == ompt::kSection && work.construct == OmpConstruct::kSections) {
    ++work.chunks;
  } else if (kind == ompt::kLoopChunk && work.construct == OmpConstruct::kLoop &&
             instance.pointer != nullptr) {
    if (!g_tells_chunks.load(std::memory_order_relaxed))
      g_tells_chunks.store(true, std::memory_order_relaxed);
    ++work.chunks;
    work.span += static_cast<const ompt::DispatchChunk*>(instance.pointer)->iterations;
  }
}

void mutex_acquire(int kind, unsigned, unsigned, std::uint64_t, const void* code) {
  OmpState* const state = openmp_state();
  if (innermost_team(state) == nullptr) return;
  switch (kind) {
    case ompt::kLock:
    case ompt::kNestLock:
      return begin_wait(*state, OmpConstruct::kLock, OmpActivity::kLock, code_of(code));
    case ompt::kCritical:
      return begin_wait(*state, OmpConstruct::kCritical, OmpActivity::kCritical, code_of(code));
    case ompt::kAtomic:
      return begin_wait(*state, OmpConstruct::kAtomic, OmpActivity::kCritical, code_of(code));
    case ompt::kOrdered:
      return begin_wait(*state, OmpConstruct::kOrdered, OmpActivity::kOrdered, code_of(code));
    default:
      return;  // a test does not wait
  }
}

void mutex_acquired(int kind, std::uint64_t, const void*) {
  OmpState* const state = openmp_state();
  if (innermost_team(state) == nullptr || kind == ompt::kTestLock || kind == ompt::kTestNestLock) return;
  end_wait(*state);
}

// An explicit task is known by where it was made; other tasks have 0.
void task_create(Data*, const ompt::Frame*, Data* made, int flags, int, const void* code) {
  if ((flags & ompt::kExplicitTask) != 0) made->value = code_of(code) | 1;
}

void task_schedule(Data* before, int status, Data* next) {
  OmpState* const state = openmp_state();
  if (state == nullptr || state->depth == 0) return;
  const bool ends = status == ompt::kComplete || status == ompt::kCancelled || status == ompt::kDetached;
  if (ends && before != nullptr && before->value != 0) return end_task(*state);
  if (!ends && next != nullptr && next->value != 0) begin_task(*state, next->value & ~std::uint64_t{1});
}

template <typename Callback>
bool set(ompt::SetCallback set_callback, ompt::Callback which, Callback* callback) noexcept {
  return set_callback(which, reinterpret_cast<ompt::Function>(callback)) > ompt::kSetNever;
}

int initialize(ompt::Lookup lookup, int, Data*) {
  const auto set_callback = reinterpret_cast<ompt::SetCallback>(lookup("ompt_set_callback"));
  if (set_callback == nullptr) return 0;
  const bool has_regions = set(set_callback, ompt::kParallelBegin, begin_parallel) &&
                           set(set_callback, ompt::kParallelEnd, end_parallel) &&
                           set(set_callback, ompt::kImplicitTask, implicit_task);
  if (!has_regions) return 0;
  g_static_end = static_end_of(reinterpret_cast<const void*>(lookup));
  set(set_callback, ompt::kDispatch, dispatch);
  set(set_callback, ompt::kSyncRegionWait, sync_region_wait);
  set(set_callback, ompt::kWork, work);
  set(set_callback, ompt::kMutexAcquire, mutex_acquire);
  set(set_callback, ompt::kMutexAcquired, mutex_acquired);
  set(set_callback, ompt::kTaskCreate, task_create);
  set(set_callback, ompt::kTaskSchedule, task_schedule);
  return 1;
}

void finalize(Data*) {}

constinit ompt::StartToolResult g_tool = {initialize, finalize, {0}};

using StartTool = ompt::StartToolResult* (*)(unsigned version, const char* runtime);

// Of the program, of another preloaded object, or the run time's own, which looks further on.
ompt::StartToolResult* tool_of_user(unsigned version, const char* runtime) noexcept {
  const auto next = reinterpret_cast<StartTool>(dlsym(RTLD_NEXT, "ompt_start_tool"));
  return next != nullptr ? next(version, runtime) : nullptr;
}

// The run time looks there itself if we are no tool: in the libraries that the user has named, and for a
// program with ThreadSanitizer in its own one, without which that finds errors that are none.
bool looks_elsewhere() noexcept {
  const char* const libraries = getenv("OMP_TOOL_LIBRARIES");
  return (libraries != nullptr && libraries[0] != 0) || dlsym(RTLD_DEFAULT, "__tsan_func_entry") != nullptr;
}

}  // namespace
}  // namespace clusterprof::agent

// Called by the run time when it starts.
extern "C" [[gnu::visibility("default")]] clusterprof::agent::ompt::StartToolResult* ompt_start_tool(
    unsigned version, const char* runtime) {
  using namespace clusterprof::agent;
  ensure_started();
  const char* const name = runtime != nullptr ? runtime : "OpenMP";
  if (ompt::StartToolResult* const theirs = tool_of_user(version, runtime); theirs != nullptr) {
    take_openmp_method(clusterprof::wire::OmpMethod::kOtherTool, name);
    return theirs;
  }
  if (g_process.segment.load(std::memory_order_acquire) == nullptr) return nullptr;
  if (looks_elsewhere()) {
    take_openmp_method(clusterprof::wire::OmpMethod::kOtherTool, name);
    return nullptr;
  }
  if (openmp_method() == clusterprof::wire::OmpMethod::kNone &&
      take_openmp_method(clusterprof::wire::OmpMethod::kOmpt, name))
    return &g_tool;
  note_other_openmp_runtime();
  return nullptr;
}
