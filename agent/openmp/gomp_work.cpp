// SPDX-License-Identifier: BSD-3-Clause
// Loops, sections and single constructs of programs that GCC has compiled. Of loops with a static schedule
// the program computes each thread's part itself: of these we see the barrier at the end.
#include "agent/openmp/gomp.h"

namespace clusterprof::agent {
namespace {

using wire::OmpActivity;
using wire::OmpConstruct;
using Long = long;
using Wide = unsigned long long;

template <typename Number>
std::uint64_t size_of(Number step) noexcept {
  const auto number = static_cast<std::int64_t>(step);
  return static_cast<std::uint64_t>(number < 0 ? -number : number);
}

template <typename Number>
std::uint64_t span_of(const Number* first, const Number* last) noexcept {
  return first == nullptr || last == nullptr ? 0 : size_of(static_cast<Number>(*last - *first));
}

// The program begins a loop, and gets its first chunk. Of a loop with reductions whose parts it computes
// itself, it asks for none.
template <typename Number, typename... Arguments>
[[gnu::always_inline]] inline bool start_loop(Gomp which, std::uint8_t schedules, const void* caller,
                                              const LoopRange<Number>& range, Number step, Number* first,
                                              Number* last, Arguments... arguments) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  if (runtime.function<bool(Arguments...)>(which) == nullptr)
    return first == nullptr || OneThread::of(range).take_range(first, last);
  OmpEntry* const entry = recorded_team(runtime, openmp_state());
  if (entry == nullptr) return pass_on<bool>(runtime, which, arguments...);
  entry->single_code = 0;
  begin_work(*entry, OmpConstruct::kLoop, code_of(caller), size_of(step), schedules);
  const bool got_one = pass_on<bool>(runtime, which, arguments...);
  end_part(*entry, 0, got_one && first != nullptr, got_one ? span_of(first, last) : 0);
  return got_one;
}

template <typename Number>
[[gnu::always_inline]] inline bool next_chunk(Gomp which, const void* caller, Number* first,
                                              Number* last) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  if (runtime.function<bool(Number*, Number*)>(which) == nullptr) return t_one_thread.take_range(first, last);
  OmpEntry* const entry = recorded_team(runtime, openmp_state());
  if (entry == nullptr) return pass_on<bool>(runtime, which, first, last);
  const std::uint64_t begin = begin_part(*entry);
  const bool got_one = pass_on<bool>(runtime, which, first, last);
  end_part(*entry, begin, got_one, got_one ? span_of(first, last) : 0);
  return got_one;
}

template <typename... Arguments>
[[gnu::always_inline]] inline unsigned start_sections(Gomp which, const void* caller, unsigned count,
                                                      Arguments... arguments) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  if (runtime.function<unsigned(unsigned, Arguments...)>(which) == nullptr) {
    t_one_thread = OneThread::of(count);
    return t_one_thread.take_section();
  }
  OmpEntry* const entry = recorded_team(runtime, openmp_state());
  if (entry == nullptr) return pass_on<unsigned>(runtime, which, count, arguments...);
  entry->single_code = 0;
  begin_work(*entry, OmpConstruct::kSections, code_of(caller), 0, 0);
  const unsigned section = pass_on<unsigned>(runtime, which, count, arguments...);
  end_part(*entry, 0, section != 0, 0);
  return section;
}

// The end of a loop or of sections, with a barrier.
template <typename Result>
[[gnu::always_inline]] inline Result end_and_wait(Gomp which, const void* caller) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  OmpState* const state = openmp_state();
  OmpEntry* const entry = recorded_team(runtime, state);
  if (entry == nullptr) return pass_on<Result>(runtime, which);
  end_work(*state, *entry);
  const bool known = entry->work.code != 0;
  const OmpConstruct construct = known ? entry->work.construct : OmpConstruct::kBarrier;
  const std::uint64_t code = known ? entry->work.code : code_of(caller);
  entry->work.code = 0;
  return waiting<Result>(runtime, *state, which, construct, OmpActivity::kBarrier, code);
}

[[gnu::always_inline]] inline void end_without_wait(Gomp which, const void* caller) noexcept {
  const OmpRuntime& runtime = runtime_of(caller);
  OmpState* const state = openmp_state();
  if (OmpEntry* const entry = recorded_team(runtime, state); entry != nullptr) {
    end_work(*state, *entry);
    entry->work.code = 0;
  }
  pass_on<void>(runtime, which);
}

}  // namespace
}  // namespace clusterprof::agent

using namespace clusterprof::agent;

// Parameters of each kind of function, and what it passes on.
#define CLUSTERPROF_LOOP_START(name)                                                                         \
  CLUSTERPROF_STANDS_FOR(bool, name, Long begin, Long end, Long step, Long chunk, Long* first, Long* last) { \
    return start_loop<Long>(Gomp::name, schedules_of(Gomp::name), CLUSTERPROF_CALLER,                        \
                            {begin, end, step > 0}, step, first, last, begin, end, step, chunk, first,       \
                            last);                                                                           \
  }
CLUSTERPROF_LOOP_START(GOMP_loop_static_start)
CLUSTERPROF_LOOP_START(GOMP_loop_dynamic_start)
CLUSTERPROF_LOOP_START(GOMP_loop_guided_start)
CLUSTERPROF_LOOP_START(GOMP_loop_nonmonotonic_dynamic_start)
CLUSTERPROF_LOOP_START(GOMP_loop_nonmonotonic_guided_start)
CLUSTERPROF_LOOP_START(GOMP_loop_ordered_static_start)
CLUSTERPROF_LOOP_START(GOMP_loop_ordered_dynamic_start)
CLUSTERPROF_LOOP_START(GOMP_loop_ordered_guided_start)

#define CLUSTERPROF_RUNTIME_LOOP_START(name)                                                           \
  CLUSTERPROF_STANDS_FOR(bool, name, Long begin, Long end, Long step, Long* first, Long* last) {       \
    return start_loop<Long>(Gomp::name, schedules_of(Gomp::name), CLUSTERPROF_CALLER,                  \
                            {begin, end, step > 0}, step, first, last, begin, end, step, first, last); \
  }
CLUSTERPROF_RUNTIME_LOOP_START(GOMP_loop_runtime_start)
CLUSTERPROF_RUNTIME_LOOP_START(GOMP_loop_nonmonotonic_runtime_start)
CLUSTERPROF_RUNTIME_LOOP_START(GOMP_loop_maybe_nonmonotonic_runtime_start)
CLUSTERPROF_RUNTIME_LOOP_START(GOMP_loop_ordered_runtime_start)

#define CLUSTERPROF_GENERAL_LOOP_START(name)                                                              \
  CLUSTERPROF_STANDS_FOR(bool, name, Long begin, Long end, Long step, Long schedule, Long chunk,          \
                         Long* first, Long* last, std::uintptr_t* reductions, void** memory) {            \
    return start_loop<Long>(Gomp::name, schedules_given(schedule), CLUSTERPROF_CALLER,                    \
                            {begin, end, step > 0}, step, first, last, begin, end, step, schedule, chunk, \
                            first, last, reductions, memory);                                             \
  }
CLUSTERPROF_GENERAL_LOOP_START(GOMP_loop_start)
CLUSTERPROF_GENERAL_LOOP_START(GOMP_loop_ordered_start)

// With doacross dependences, counts has the iterations of each loop of the nest; chunks are of the outermost.
#define CLUSTERPROF_DOACROSS_START(name)                                                                    \
  CLUSTERPROF_STANDS_FOR(bool, name, unsigned loops, Long* counts, Long chunk, Long* first, Long* last) {   \
    return start_loop<Long>(Gomp::name, schedules_of(Gomp::name), CLUSTERPROF_CALLER, {0, counts[0], true}, \
                            1, first, last, loops, counts, chunk, first, last);                             \
  }
CLUSTERPROF_DOACROSS_START(GOMP_loop_doacross_static_start)
CLUSTERPROF_DOACROSS_START(GOMP_loop_doacross_dynamic_start)
CLUSTERPROF_DOACROSS_START(GOMP_loop_doacross_guided_start)
CLUSTERPROF_STANDS_FOR(bool, GOMP_loop_doacross_runtime_start, unsigned loops, Long* counts, Long* first,
                       Long* last) {
  return start_loop<Long>(Gomp::GOMP_loop_doacross_runtime_start,
                          schedules_of(Gomp::GOMP_loop_doacross_runtime_start), CLUSTERPROF_CALLER,
                          {0, counts[0], true}, 1, first, last, loops, counts, first, last);
}
CLUSTERPROF_STANDS_FOR(bool, GOMP_loop_doacross_start, unsigned loops, Long* counts, Long schedule,
                       Long chunk, Long* first, Long* last, std::uintptr_t* reductions, void** memory) {
  return start_loop<Long>(Gomp::GOMP_loop_doacross_start, schedules_given(schedule), CLUSTERPROF_CALLER,
                          {0, counts[0], true}, 1, first, last, loops, counts, schedule, chunk, first, last,
                          reductions, memory);
}

#define CLUSTERPROF_LOOP_NEXT(name)                                 \
  CLUSTERPROF_STANDS_FOR(bool, name, Long* first, Long* last) {     \
    return next_chunk(Gomp::name, CLUSTERPROF_CALLER, first, last); \
  }
CLUSTERPROF_LOOP_NEXT(GOMP_loop_static_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_dynamic_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_guided_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_nonmonotonic_dynamic_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_nonmonotonic_guided_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_runtime_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_nonmonotonic_runtime_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_maybe_nonmonotonic_runtime_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_ordered_static_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_ordered_dynamic_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_ordered_guided_next)
CLUSTERPROF_LOOP_NEXT(GOMP_loop_ordered_runtime_next)

#define CLUSTERPROF_WIDE_START(name)                                                                    \
  CLUSTERPROF_STANDS_FOR(bool, name, bool up, Wide begin, Wide end, Wide step, Wide chunk, Wide* first, \
                         Wide* last) {                                                                  \
    return start_loop<Wide>(Gomp::name, schedules_of(Gomp::name), CLUSTERPROF_CALLER, {begin, end, up}, \
                            step, first, last, up, begin, end, step, chunk, first, last);               \
  }
CLUSTERPROF_WIDE_START(GOMP_loop_ull_static_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_dynamic_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_guided_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_nonmonotonic_dynamic_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_nonmonotonic_guided_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_ordered_static_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_ordered_dynamic_start)
CLUSTERPROF_WIDE_START(GOMP_loop_ull_ordered_guided_start)

#define CLUSTERPROF_WIDE_RUNTIME_START(name)                                                              \
  CLUSTERPROF_STANDS_FOR(bool, name, bool up, Wide begin, Wide end, Wide step, Wide* first, Wide* last) { \
    return start_loop<Wide>(Gomp::name, schedules_of(Gomp::name), CLUSTERPROF_CALLER, {begin, end, up},   \
                            step, first, last, up, begin, end, step, first, last);                        \
  }
CLUSTERPROF_WIDE_RUNTIME_START(GOMP_loop_ull_runtime_start)
CLUSTERPROF_WIDE_RUNTIME_START(GOMP_loop_ull_nonmonotonic_runtime_start)
CLUSTERPROF_WIDE_RUNTIME_START(GOMP_loop_ull_maybe_nonmonotonic_runtime_start)
CLUSTERPROF_WIDE_RUNTIME_START(GOMP_loop_ull_ordered_runtime_start)

#define CLUSTERPROF_WIDE_GENERAL_START(name)                                                              \
  CLUSTERPROF_STANDS_FOR(bool, name, bool up, Wide begin, Wide end, Wide step, Long schedule, Wide chunk, \
                         Wide* first, Wide* last, std::uintptr_t* reductions, void** memory) {            \
    return start_loop<Wide>(Gomp::name, schedules_given(schedule), CLUSTERPROF_CALLER, {begin, end, up},  \
                            step, first, last, up, begin, end, step, schedule, chunk, first, last,        \
                            reductions, memory);                                                          \
  }
CLUSTERPROF_WIDE_GENERAL_START(GOMP_loop_ull_start)
CLUSTERPROF_WIDE_GENERAL_START(GOMP_loop_ull_ordered_start)

#define CLUSTERPROF_WIDE_DOACROSS_START(name)                                                               \
  CLUSTERPROF_STANDS_FOR(bool, name, unsigned loops, Wide* counts, Wide chunk, Wide* first, Wide* last) {   \
    return start_loop<Wide>(Gomp::name, schedules_of(Gomp::name), CLUSTERPROF_CALLER, {0, counts[0], true}, \
                            1, first, last, loops, counts, chunk, first, last);                             \
  }
CLUSTERPROF_WIDE_DOACROSS_START(GOMP_loop_ull_doacross_static_start)
CLUSTERPROF_WIDE_DOACROSS_START(GOMP_loop_ull_doacross_dynamic_start)
CLUSTERPROF_WIDE_DOACROSS_START(GOMP_loop_ull_doacross_guided_start)
CLUSTERPROF_STANDS_FOR(bool, GOMP_loop_ull_doacross_runtime_start, unsigned loops, Wide* counts, Wide* first,
                       Wide* last) {
  return start_loop<Wide>(Gomp::GOMP_loop_ull_doacross_runtime_start,
                          schedules_of(Gomp::GOMP_loop_ull_doacross_runtime_start), CLUSTERPROF_CALLER,
                          {0, counts[0], true}, 1, first, last, loops, counts, first, last);
}
CLUSTERPROF_STANDS_FOR(bool, GOMP_loop_ull_doacross_start, unsigned loops, Wide* counts, Long schedule,
                       Wide chunk, Wide* first, Wide* last, std::uintptr_t* reductions, void** memory) {
  return start_loop<Wide>(Gomp::GOMP_loop_ull_doacross_start, schedules_given(schedule), CLUSTERPROF_CALLER,
                          {0, counts[0], true}, 1, first, last, loops, counts, schedule, chunk, first, last,
                          reductions, memory);
}

#define CLUSTERPROF_WIDE_NEXT(name)                                 \
  CLUSTERPROF_STANDS_FOR(bool, name, Wide* first, Wide* last) {     \
    return next_chunk(Gomp::name, CLUSTERPROF_CALLER, first, last); \
  }
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_static_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_dynamic_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_guided_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_nonmonotonic_dynamic_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_nonmonotonic_guided_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_runtime_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_nonmonotonic_runtime_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_maybe_nonmonotonic_runtime_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_ordered_static_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_ordered_dynamic_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_ordered_guided_next)
CLUSTERPROF_WIDE_NEXT(GOMP_loop_ull_ordered_runtime_next)

CLUSTERPROF_STANDS_FOR(void, GOMP_loop_end) { end_and_wait<void>(Gomp::GOMP_loop_end, CLUSTERPROF_CALLER); }
CLUSTERPROF_STANDS_FOR(bool, GOMP_loop_end_cancel) {
  return end_and_wait<bool>(Gomp::GOMP_loop_end_cancel, CLUSTERPROF_CALLER);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_loop_end_nowait) {
  end_without_wait(Gomp::GOMP_loop_end_nowait, CLUSTERPROF_CALLER);
}

CLUSTERPROF_STANDS_FOR(unsigned, GOMP_sections_start, unsigned count) {
  return start_sections(Gomp::GOMP_sections_start, CLUSTERPROF_CALLER, count);
}
CLUSTERPROF_STANDS_FOR(unsigned, GOMP_sections2_start, unsigned count, std::uintptr_t* reductions,
                       void** memory) {
  return start_sections(Gomp::GOMP_sections2_start, CLUSTERPROF_CALLER, count, reductions, memory);
}
CLUSTERPROF_STANDS_FOR(unsigned, GOMP_sections_next) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  if (runtime.function<unsigned()>(Gomp::GOMP_sections_next) == nullptr) return t_one_thread.take_section();
  OmpEntry* const entry = recorded_team(runtime, openmp_state());
  if (entry == nullptr) return pass_on<unsigned>(runtime, Gomp::GOMP_sections_next);
  const std::uint64_t begin = begin_part(*entry);
  const unsigned section = pass_on<unsigned>(runtime, Gomp::GOMP_sections_next);
  end_part(*entry, begin, section != 0, 0);
  return section;
}
CLUSTERPROF_STANDS_FOR(void, GOMP_sections_end) {
  end_and_wait<void>(Gomp::GOMP_sections_end, CLUSTERPROF_CALLER);
}
CLUSTERPROF_STANDS_FOR(bool, GOMP_sections_end_cancel) {
  return end_and_wait<bool>(Gomp::GOMP_sections_end_cancel, CLUSTERPROF_CALLER);
}
CLUSTERPROF_STANDS_FOR(void, GOMP_sections_end_nowait) {
  end_without_wait(Gomp::GOMP_sections_end_nowait, CLUSTERPROF_CALLER);
}

// The barrier at the end of a single construct is a call of GOMP_barrier.
CLUSTERPROF_STANDS_FOR(bool, GOMP_single_start) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  if (runtime.function<bool()>(Gomp::GOMP_single_start) == nullptr) return true;
  OmpEntry* const entry = recorded_team(runtime, openmp_state());
  const bool mine = pass_on<bool>(runtime, Gomp::GOMP_single_start);
  if (entry == nullptr) return mine;
  entry->single_code = code_of(CLUSTERPROF_CALLER);
  entry->not_single_at = mine ? 0 : fast_now();
  return mine;
}

// With copyprivate, the others wait here until one has done it, and then all for each other.
CLUSTERPROF_STANDS_FOR(void*, GOMP_single_copy_start) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  OmpState* const state = openmp_state();
  OmpEntry* const entry = recorded_team(runtime, state);
  if (entry == nullptr) return pass_on<void*>(runtime, Gomp::GOMP_single_copy_start);
  entry->single_code = code_of(CLUSTERPROF_CALLER);
  begin_wait(*state, OmpConstruct::kSingle, OmpActivity::kBarrier, entry->single_code);
  void* const copied = pass_on<void*>(runtime, Gomp::GOMP_single_copy_start);
  if (copied == nullptr) {
    forget_wait(*state);
  } else {
    end_wait(*state);
  }
  return copied;
}
CLUSTERPROF_STANDS_FOR(void, GOMP_single_copy_end, void* copied) {
  const OmpRuntime& runtime = runtime_of(CLUSTERPROF_CALLER);
  OmpState* const state = openmp_state();
  OmpEntry* const entry = recorded_team(runtime, state);
  if (entry == nullptr) return pass_on<void>(runtime, Gomp::GOMP_single_copy_end, copied);
  const std::uint64_t code = entry->single_code != 0 ? entry->single_code : code_of(CLUSTERPROF_CALLER);
  waiting<void>(runtime, *state, Gomp::GOMP_single_copy_end, OmpConstruct::kSingle, OmpActivity::kBarrier,
                code, copied);
  entry->single_code = 0;
}
