// SPDX-License-Identifier: BSD-3-Clause
// Barriers, tasks, critical and ordered constructs, and locks, of programs that GCC has compiled.
#include <utility>

#include "agent/openmp/gomp.h"

namespace clusterprof::agent {
namespace {

using wire::OmpActivity;
using wire::OmpConstruct;

template <typename Result, typename... Arguments>
[[gnu::always_inline]] inline Result wait_in(Gomp which, const void* caller, OmpConstruct construct,
                                             OmpActivity activity, Arguments... arguments) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  OmpState* const state = openmp_state();
  if (recorded_team(runtime, state) == nullptr) return pass_on<Result>(runtime, which, arguments...);
  return waiting<Result>(runtime, *state, which, construct, activity, code_of(caller), arguments...);
}

// Threads that find a single construct taken come to its barrier at once. A barrier after a longer time is
// another one: single had nowait. More than an interruption takes, and less than work that is worth a thread.
constexpr std::uint64_t kAtOnceNs = 20'000;

template <typename Result>
[[gnu::always_inline]] inline Result wait_at_barrier(Gomp which, const void* caller) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  OmpState* const state = openmp_state();
  OmpEntry* const entry = recorded_team(runtime, state);
  if (entry == nullptr) return pass_on<Result>(runtime, which);
  OmpConstruct construct = OmpConstruct::kBarrier;
  std::uint64_t code = code_of(caller);
  if (entry->single_code != 0) {
    const bool at_once =
        entry->not_single_at == 0 || fast_ns(fast_between(entry->not_single_at, fast_now())) <= kAtOnceNs;
    if (at_once) {
      construct = OmpConstruct::kSingle;
      code = entry->single_code;
    }
    entry->single_code = 0;
  }
  return waiting<Result>(runtime, *state, which, construct, OmpActivity::kBarrier, code);
}

// --- tasks ---------------------------------------------------------------------------------
//
// The run time copies a task's data, and writes to them, so they cannot be put into data of ours. Instead
// each function that is used for tasks gets a function of ours that stands for it.

using Body = OmpBody;
constexpr std::uint32_t kTaskFunctions = 256;
constinit std::atomic<Body> g_task_functions[kTaskFunctions] = {};

void run_task(std::uint32_t number, void* data) {
  const Body body = g_task_functions[number].load(std::memory_order_acquire);
  OmpState* const state = openmp_state();
  if (state == nullptr) return body(data);
  // Where a call of the function would go on after its first instruction: its own line.
  begin_task(*state, reinterpret_cast<std::uintptr_t>(body) + 1);
  body(data);
  end_task(*state);
}

template <std::uint32_t number>
void stand_in(void* data) {
  run_task(number, data);
}

template <std::size_t... numbers>
struct StandIns {
  static constexpr Body kAll[] = {stand_in<static_cast<std::uint32_t>(numbers)>...};
};
template <std::size_t... numbers>
constexpr const Body* all_stand_ins(std::index_sequence<numbers...>) noexcept {
  return StandIns<numbers...>::kAll;
}

// The function itself if there is none left.
Body stand_in_for(Body body) noexcept {
  constexpr std::uint32_t kMostLooks = 32;
  const auto address = reinterpret_cast<std::uintptr_t>(body);
  const auto home = static_cast<std::uint32_t>((address * 0x9e37'79b9'7f4a'7c15ull) >> 56);
  for (std::uint32_t i = 0; i < kMostLooks; ++i) {
    const std::uint32_t number = (home + i) % kTaskFunctions;
    Body there = g_task_functions[number].load(std::memory_order_acquire);
    if (there == nullptr && g_task_functions[number].compare_exchange_strong(there, body)) there = body;
    if (there == body) return all_stand_ins(std::make_index_sequence<kTaskFunctions>())[number];
  }
  count_drop(g_process.segment.load(std::memory_order_acquire), wire::DropReason::kOpenMpTableFull);
  return body;
}

constexpr unsigned kUp = 1u << 8;        // of a taskloop: the variable grows
constexpr unsigned kNoGroup = 1u << 11;  // nobody waits for its tasks at its end

template <typename Number>
[[gnu::always_inline]] inline void start_taskloop(Gomp which, const void* caller, Body body, void* data,
                                                  OmpCopy copy, long bytes, long alignment, unsigned flags,
                                                  unsigned long tasks, int priority,
                                                  const LoopRange<Number>& range, Number step) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  auto* const real = runtime.function<void(Body, void*, OmpCopy, long, long, unsigned, unsigned long, int,
                                           Number, Number, Number)>(which);
  if (real == nullptr) return do_taskloop(body, data, copy, bytes, alignment, range);
  OmpState* const state = openmp_state();
  const bool is_recorded = recorded_team(runtime, state) != nullptr;
  const Body ours = is_recorded ? stand_in_for(body) : body;
  const bool waits = is_recorded && (flags & kNoGroup) == 0;
  if (waits) begin_wait(*state, OmpConstruct::kTaskgroup, OmpActivity::kTasks, code_of(caller));
  real(ours, data, copy, bytes, alignment, flags, tasks, priority, range.begin, range.end, step);
  if (waits) end_wait(*state);
}

}  // namespace
}  // namespace clusterprof::agent

using namespace clusterprof::agent;

CLUSTERPROF_STANDS_FOR(void, GOMP_barrier) { wait_at_barrier<void>(Gomp::GOMP_barrier, CLUSTERPROF_CALLER); }
CLUSTERPROF_STANDS_FOR(bool, GOMP_barrier_cancel) {
  return wait_at_barrier<bool>(Gomp::GOMP_barrier_cancel, CLUSTERPROF_CALLER);
}

CLUSTERPROF_STANDS_FOR(void, GOMP_critical_start) {
  wait_in<void>(Gomp::GOMP_critical_start, CLUSTERPROF_CALLER, OmpConstruct::kCritical,
                OmpActivity::kCritical);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_critical_name_start, void** name) {
  wait_in<void>(Gomp::GOMP_critical_name_start, CLUSTERPROF_CALLER, OmpConstruct::kCritical,
                OmpActivity::kCritical, name);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_atomic_start) {
  wait_in<void>(Gomp::GOMP_atomic_start, CLUSTERPROF_CALLER, OmpConstruct::kAtomic, OmpActivity::kCritical);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_ordered_start) {
  wait_in<void>(Gomp::GOMP_ordered_start, CLUSTERPROF_CALLER, OmpConstruct::kOrdered, OmpActivity::kOrdered);
}

// They have an argument for each loop of the nest, whose number is not among them. Those beyond the registers
// are passed on with some more words of the caller's stack, which nobody looks at.
#define CLUSTERPROF_DOACROSS_WAIT(name, Number)                                                            \
  CLUSTERPROF_STANDS_FOR(void, name, Number a, Number b, Number c, Number d, Number e, Number f, Number g, \
                         Number h, Number i, Number j, Number k, Number l) {                               \
    using Variadic = void(Number, ...);                                                                    \
    const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);                                            \
    auto* const real = runtime.function<Variadic>(Gomp::name);                                             \
    OmpState* const state = openmp_state();                                                                \
    if (real == nullptr) return;                                                                           \
    if (recorded_team(runtime, state) == nullptr) return real(a, b, c, d, e, f, g, h, i, j, k, l);         \
    begin_wait(*state, OmpConstruct::kOrdered, OmpActivity::kOrdered, code_of(CLUSTERPROF_CALLER));        \
    real(a, b, c, d, e, f, g, h, i, j, k, l);                                                              \
    end_wait(*state);                                                                                      \
  }
CLUSTERPROF_DOACROSS_WAIT(GOMP_doacross_wait, long)
CLUSTERPROF_DOACROSS_WAIT(GOMP_doacross_ull_wait, unsigned long long)

// detach: since GCC 11; older programs pass whatever is on their stack, and older run times do not look.
CLUSTERPROF_STANDS_FOR(void, GOMP_task, Body body, void* data, OmpCopy copy, long bytes, long alignment,
                       bool deferred, unsigned flags, void** depend, int priority, void* detach) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  auto* const real =
      runtime.function<void(Body, void*, OmpCopy, long, long, bool, unsigned, void**, int, void*)>(
          Gomp::GOMP_task);
  if (real == nullptr) return do_task(body, data, copy, bytes, alignment, [](void*) {});
  const Body ours = recorded_team(runtime, openmp_state()) != nullptr ? stand_in_for(body) : body;
  real(ours, data, copy, bytes, alignment, deferred, flags, depend, priority, detach);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_taskloop, Body body, void* data, OmpCopy copy, long bytes, long alignment,
                       unsigned flags, unsigned long tasks, int priority, long begin, long end, long step) {
  start_taskloop<long>(Gomp::GOMP_taskloop, CLUSTERPROF_CALLER, body, data, copy, bytes, alignment, flags,
                       tasks, priority, {begin, end, step > 0}, step);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_taskloop_ull, Body body, void* data, OmpCopy copy, long bytes,
                       long alignment, unsigned flags, unsigned long tasks, int priority,
                       unsigned long long begin, unsigned long long end, unsigned long long step) {
  start_taskloop<unsigned long long>(Gomp::GOMP_taskloop_ull, CLUSTERPROF_CALLER, body, data, copy, bytes,
                                     alignment, flags, tasks, priority, {begin, end, (flags & kUp) != 0},
                                     step);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_taskwait) {
  wait_in<void>(Gomp::GOMP_taskwait, CLUSTERPROF_CALLER, OmpConstruct::kTaskwait, OmpActivity::kTasks);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_taskwait_depend, void** depend) {
  wait_in<void>(Gomp::GOMP_taskwait_depend, CLUSTERPROF_CALLER, OmpConstruct::kTaskwait, OmpActivity::kTasks,
                depend);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_taskgroup_end) {
  wait_in<void>(Gomp::GOMP_taskgroup_end, CLUSTERPROF_CALLER, OmpConstruct::kTaskgroup, OmpActivity::kTasks);
}

// The last one has an underscore for Fortran. A program of before GCC 4.4 means the older version of these,
// which differs for locks that nest.
#define CLUSTERPROF_SET_LOCK(name)                                                                \
  CLUSTERPROF_STANDS_FOR(void, name, void* lock) {                                                \
    wait_in<void>(Gomp::name, CLUSTERPROF_CALLER, OmpConstruct::kLock, OmpActivity::kLock, lock); \
  }
CLUSTERPROF_SET_LOCK(omp_set_lock)
CLUSTERPROF_SET_LOCK(omp_set_lock_)
CLUSTERPROF_SET_LOCK(omp_set_nest_lock)
CLUSTERPROF_SET_LOCK(omp_set_nest_lock_)
