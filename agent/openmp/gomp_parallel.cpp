// SPDX-License-Identifier: BSD-3-Clause
// Parallel regions of programs that GCC has compiled. The run time is given a function of ours, which stamps
// the beginning and the end of each thread's part.
#include "agent/openmp/gomp.h"
#include "agent/sigsafe/call_path.h"

namespace clusterprof::agent {
namespace {

using Body = OmpBody;

// What a combined construct shares out.
struct Shared {
  bool has_work;
  wire::OmpConstruct construct;
  std::uint64_t step;
  std::uint8_t schedules;
  OneThread all;
};
constexpr Shared kNothing = {false, wire::OmpConstruct::kLoop, 0, 0, {}};
Shared sections_of(unsigned count) noexcept {
  return {true, wire::OmpConstruct::kSections, 0, 0, OneThread::of(count)};
}
Shared loop_of(Gomp which, long first, long last, long step) noexcept {
  return {true, wire::OmpConstruct::kLoop, static_cast<std::uint64_t>(step < 0 ? -step : step),
          schedules_of(which), OneThread::of(LoopRange<long>{first, last, step > 0})};
}

[[gnu::always_inline]] inline void enter(OmpTeam* team, std::uint32_t number) noexcept {
  const auto& runtime = *static_cast<const OmpRuntime*>(team->call.runtime);
  const auto size = static_cast<std::uint32_t>(pass_on<int>(runtime, Gomp::omp_get_num_threads));
  enter_team(team, size, number);
  if (!team->has_work) return;
  OmpEntry* const entry = innermost_team(openmp_state());
  if (entry != nullptr && entry->team == team)
    begin_work(*entry, team->work, team->code, team->step, team->schedules);
}

// A thread's part of a region.
void run_part(void* given) {
  OmpTeam* const team = static_cast<OmpTeam*>(given);
  const Body body = team->call.function;
  void* const data = team->call.data;
  const auto& runtime = *static_cast<const OmpRuntime*>(team->call.runtime);
  const auto number = static_cast<std::uint32_t>(pass_on<int>(runtime, Gomp::omp_get_thread_num));
  prepare_to_enter(team, number);
  enter(team, number);
  body(data);
  leave_team(team);
}

bool is_recorded_so(const OmpRuntime& runtime) noexcept {
  const wire::OmpMethod method = openmp_method();
  if (method == wire::OmpMethod::kGomp) [[likely]]
    return !runtime.is_llvm;
  if (runtime.is_llvm) return false;
  if (method == wire::OmpMethod::kNone && t_context.slot != nullptr)
    return take_openmp_method(wire::OmpMethod::kGomp, runtime.name);
  if (method != wire::OmpMethod::kNone) note_other_openmp_runtime();
  return false;
}

// Of the function in front of the run time's, which calls that.
[[gnu::always_inline]] inline std::uintptr_t frame_here() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

// Null: it is not recorded.
OmpTeam* begin(const OmpRuntime& runtime, std::uint64_t code, std::uintptr_t frame, Body body, void* data,
               unsigned threads, const Shared& shared, bool goes_on) noexcept {
  if (runtime.is_llvm && openmp_method() == wire::OmpMethod::kGomp) note_other_openmp_runtime();
  if (!is_recorded_so(runtime) || !records_region(frame)) return nullptr;
  const std::uint32_t asked =
      threads != 0 ? threads : static_cast<std::uint32_t>(pass_on<int>(runtime, Gomp::omp_get_max_threads));
  OmpTeam* const team = begin_team({clusterprof_call_path_entry(), code, asked, wire::OmpConstruct::kParallel,
                                    reinterpret_cast<std::uintptr_t>(body) + 1,
                                    goes_on ? 0 : frame});  // such a region does not run below it
  if (team == nullptr) return nullptr;
  team->call = {nullptr, body, data, &runtime};
  team->goes_on = goes_on;
  if (shared.has_work) {
    team->has_work = true;
    team->work = shared.construct;
    team->step = shared.step;
    team->schedules = shared.schedules;
  }
  return team;
}

template <typename... Rest>
[[gnu::always_inline]] inline void run(Gomp which, const void* caller, const Shared& shared, Body body,
                                       void* data, unsigned threads, Rest... rest) {
  const OmpRuntime& runtime = runtime_of(caller);
  auto* const real = runtime.function<void(Body, void*, unsigned, Rest...)>(which);
  if (real == nullptr) {
    const OneThread around = t_one_thread;
    t_one_thread = shared.all;
    body(data);
    t_one_thread = around;
    return;
  }
  OmpTeam* const team = begin(runtime, code_of(caller), frame_here(), body, data, threads, shared, false);
  if (team == nullptr) return real(body, data, threads, rest...);
  real(run_part, team, threads, rest...);
  end_team(team);
}

// The old way: the program calls its function itself, and then GOMP_parallel_end.
template <typename... Rest>
[[gnu::always_inline]] inline void start(Gomp which, const void* caller, const Shared& shared, Body body,
                                         void* data, unsigned threads, Rest... rest) {
  const OmpRuntime& runtime = runtime_of(caller);
  auto* const real = runtime.function<void(Body, void*, unsigned, Rest...)>(which);
  if (real == nullptr) {
    t_one_thread = shared.all;
    return;
  }
  OmpTeam* const team = begin(runtime, code_of(caller), frame_here(), body, data, threads, shared, true);
  if (team == nullptr) {
    if (OmpEntry* const around = innermost_team(openmp_state()); around != nullptr) ++around->plain_starts;
    return real(body, data, threads, rest...);
  }
  real(run_part, team, threads, rest...);
  enter(team, 0);
}

// The team whose GOMP_parallel_end is called. Null: it is not recorded.
OmpTeam* team_that_ends() noexcept {
  OmpEntry* const entry = innermost_team(openmp_state());
  if (entry == nullptr || openmp_method() != wire::OmpMethod::kGomp) return nullptr;
  if (entry->plain_starts != 0) {
    --entry->plain_starts;
    return nullptr;
  }
  return entry->number == 0 && entry->team->goes_on ? entry->team : nullptr;
}

}  // namespace
}  // namespace clusterprof::agent

using namespace clusterprof::agent;

CLUSTERPROF_STANDS_FOR(void, GOMP_parallel, Body body, void* data, unsigned threads, unsigned flags) {
  run(Gomp::GOMP_parallel, CLUSTERPROF_CALLER, kNothing, body, data, threads, flags);
}

CLUSTERPROF_STANDS_FOR(unsigned, GOMP_parallel_reductions, Body body, void* data, unsigned threads,
                       unsigned flags) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  auto* const real =
      runtime.function<unsigned(Body, void*, unsigned, unsigned)>(Gomp::GOMP_parallel_reductions);
  if (real == nullptr) return 0;
  OmpTeam* const team =
      begin(runtime, code_of(CLUSTERPROF_CALLER), frame_here(), body, data, threads, kNothing, false);
  if (team == nullptr) return real(body, data, threads, flags);
  team->call.first_word = *static_cast<void**>(data);
  const unsigned got = real(run_part, team, threads, flags);
  end_team(team);
  return got;
}

CLUSTERPROF_STANDS_FOR(void, GOMP_parallel_sections, Body body, void* data, unsigned threads, unsigned count,
                       unsigned flags) {
  run(Gomp::GOMP_parallel_sections, CLUSTERPROF_CALLER, sections_of(count), body, data, threads, count,
      flags);
}

#define CLUSTERPROF_PARALLEL_LOOP(name)                                                                     \
  CLUSTERPROF_STANDS_FOR(void, name, Body body, void* data, unsigned threads, long first, long last,        \
                         long step, long chunk, unsigned flags) {                                           \
    run(Gomp::name, CLUSTERPROF_CALLER, loop_of(Gomp::name, first, last, step), body, data, threads, first, \
        last, step, chunk, flags);                                                                          \
  }
CLUSTERPROF_PARALLEL_LOOP(GOMP_parallel_loop_static)
CLUSTERPROF_PARALLEL_LOOP(GOMP_parallel_loop_dynamic)
CLUSTERPROF_PARALLEL_LOOP(GOMP_parallel_loop_guided)
CLUSTERPROF_PARALLEL_LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
CLUSTERPROF_PARALLEL_LOOP(GOMP_parallel_loop_nonmonotonic_guided)

#define CLUSTERPROF_PARALLEL_RUNTIME_LOOP(name)                                                             \
  CLUSTERPROF_STANDS_FOR(void, name, Body body, void* data, unsigned threads, long first, long last,        \
                         long step, unsigned flags) {                                                       \
    run(Gomp::name, CLUSTERPROF_CALLER, loop_of(Gomp::name, first, last, step), body, data, threads, first, \
        last, step, flags);                                                                                 \
  }
CLUSTERPROF_PARALLEL_RUNTIME_LOOP(GOMP_parallel_loop_runtime)
CLUSTERPROF_PARALLEL_RUNTIME_LOOP(GOMP_parallel_loop_nonmonotonic_runtime)
CLUSTERPROF_PARALLEL_RUNTIME_LOOP(GOMP_parallel_loop_maybe_nonmonotonic_runtime)

CLUSTERPROF_STANDS_FOR(void, GOMP_parallel_start, Body body, void* data, unsigned threads) {
  start(Gomp::GOMP_parallel_start, CLUSTERPROF_CALLER, kNothing, body, data, threads);
}

CLUSTERPROF_STANDS_FOR(void, GOMP_parallel_sections_start, Body body, void* data, unsigned threads,
                       unsigned count) {
  start(Gomp::GOMP_parallel_sections_start, CLUSTERPROF_CALLER, sections_of(count), body, data, threads,
        count);
}

#define CLUSTERPROF_PARALLEL_LOOP_START(name)                                                          \
  CLUSTERPROF_STANDS_FOR(void, name, Body body, void* data, unsigned threads, long first, long last,   \
                         long step, long chunk) {                                                      \
    start(Gomp::name, CLUSTERPROF_CALLER, loop_of(Gomp::name, first, last, step), body, data, threads, \
          first, last, step, chunk);                                                                   \
  }
CLUSTERPROF_PARALLEL_LOOP_START(GOMP_parallel_loop_static_start)
CLUSTERPROF_PARALLEL_LOOP_START(GOMP_parallel_loop_dynamic_start)
CLUSTERPROF_PARALLEL_LOOP_START(GOMP_parallel_loop_guided_start)

CLUSTERPROF_STANDS_FOR(void, GOMP_parallel_loop_runtime_start, Body body, void* data, unsigned threads,
                       long first, long last, long step) {
  start(Gomp::GOMP_parallel_loop_runtime_start, CLUSTERPROF_CALLER,
        loop_of(Gomp::GOMP_parallel_loop_runtime_start, first, last, step), body, data, threads, first, last,
        step);
}

CLUSTERPROF_STANDS_FOR(void, GOMP_parallel_end) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  OmpTeam* const team = team_that_ends();
  if (team != nullptr) leave_team(team);
  pass_on<void>(runtime, Gomp::GOMP_parallel_end);
  if (team != nullptr) end_team(team);
}
