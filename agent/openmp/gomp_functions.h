// SPDX-License-Identifier: BSD-3-Clause
// The functions of GCC's run time, libgomp, that we stand in front of. Not among them: those that neither
// wait nor hand out work, and GOMP_teams_reg, which calls its function once for each team, one after the
// other.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// X(name). Loops come in two kinds, for variables of type long and of type unsigned long long.
#define CLUSTERPROF_GOMP_LOOPS(X, kind)             \
  X(GOMP_##kind##_static_start)                     \
  X(GOMP_##kind##_dynamic_start)                    \
  X(GOMP_##kind##_guided_start)                     \
  X(GOMP_##kind##_nonmonotonic_dynamic_start)       \
  X(GOMP_##kind##_nonmonotonic_guided_start)        \
  X(GOMP_##kind##_runtime_start)                    \
  X(GOMP_##kind##_nonmonotonic_runtime_start)       \
  X(GOMP_##kind##_maybe_nonmonotonic_runtime_start) \
  X(GOMP_##kind##_start)                            \
  X(GOMP_##kind##_ordered_static_start)             \
  X(GOMP_##kind##_ordered_dynamic_start)            \
  X(GOMP_##kind##_ordered_guided_start)             \
  X(GOMP_##kind##_ordered_runtime_start)            \
  X(GOMP_##kind##_ordered_start)                    \
  X(GOMP_##kind##_doacross_static_start)            \
  X(GOMP_##kind##_doacross_dynamic_start)           \
  X(GOMP_##kind##_doacross_guided_start)            \
  X(GOMP_##kind##_doacross_runtime_start)           \
  X(GOMP_##kind##_doacross_start)                   \
  X(GOMP_##kind##_static_next)                      \
  X(GOMP_##kind##_dynamic_next)                     \
  X(GOMP_##kind##_guided_next)                      \
  X(GOMP_##kind##_nonmonotonic_dynamic_next)        \
  X(GOMP_##kind##_nonmonotonic_guided_next)         \
  X(GOMP_##kind##_runtime_next)                     \
  X(GOMP_##kind##_nonmonotonic_runtime_next)        \
  X(GOMP_##kind##_maybe_nonmonotonic_runtime_next)  \
  X(GOMP_##kind##_ordered_static_next)              \
  X(GOMP_##kind##_ordered_dynamic_next)             \
  X(GOMP_##kind##_ordered_guided_next)              \
  X(GOMP_##kind##_ordered_runtime_next)

#define CLUSTERPROF_GOMP_FUNCTIONS(X)              \
  X(GOMP_barrier)                                  \
  X(GOMP_barrier_cancel)                           \
  X(GOMP_critical_start)                           \
  X(GOMP_critical_name_start)                      \
  X(GOMP_atomic_start)                             \
  X(GOMP_ordered_start)                            \
  X(GOMP_doacross_wait)                            \
  X(GOMP_doacross_ull_wait)                        \
  X(GOMP_parallel)                                 \
  X(GOMP_parallel_reductions)                      \
  X(GOMP_parallel_sections)                        \
  X(GOMP_parallel_loop_static)                     \
  X(GOMP_parallel_loop_dynamic)                    \
  X(GOMP_parallel_loop_guided)                     \
  X(GOMP_parallel_loop_nonmonotonic_dynamic)       \
  X(GOMP_parallel_loop_nonmonotonic_guided)        \
  X(GOMP_parallel_loop_runtime)                    \
  X(GOMP_parallel_loop_nonmonotonic_runtime)       \
  X(GOMP_parallel_loop_maybe_nonmonotonic_runtime) \
  X(GOMP_parallel_start)                           \
  X(GOMP_parallel_sections_start)                  \
  X(GOMP_parallel_loop_static_start)               \
  X(GOMP_parallel_loop_dynamic_start)              \
  X(GOMP_parallel_loop_guided_start)               \
  X(GOMP_parallel_loop_runtime_start)              \
  X(GOMP_parallel_end)                             \
  X(GOMP_loop_end)                                 \
  X(GOMP_loop_end_cancel)                          \
  X(GOMP_loop_end_nowait)                          \
  X(GOMP_sections_start)                           \
  X(GOMP_sections2_start)                          \
  X(GOMP_sections_next)                            \
  X(GOMP_sections_end)                             \
  X(GOMP_sections_end_cancel)                      \
  X(GOMP_sections_end_nowait)                      \
  X(GOMP_single_start)                             \
  X(GOMP_single_copy_start)                        \
  X(GOMP_single_copy_end)                          \
  X(GOMP_task)                                     \
  X(GOMP_taskloop)                                 \
  X(GOMP_taskloop_ull)                             \
  X(GOMP_taskwait)                                 \
  X(GOMP_taskwait_depend)                          \
  X(GOMP_taskgroup_end)                            \
  X(omp_set_lock)                                  \
  X(omp_set_lock_)                                 \
  X(omp_set_nest_lock)                             \
  X(omp_set_nest_lock_)                            \
  CLUSTERPROF_GOMP_LOOPS(X, loop)                  \
  CLUSTERPROF_GOMP_LOOPS(X, loop_ull)

// Those that it offers and that we call ourselves.
#define CLUSTERPROF_GOMP_QUESTIONS(X) \
  X(omp_get_thread_num)               \
  X(omp_get_num_threads)              \
  X(omp_get_max_threads)

enum class Gomp : std::uint32_t {
#define CLUSTERPROF_GOMP_NAME(name) name,
  CLUSTERPROF_GOMP_FUNCTIONS(CLUSTERPROF_GOMP_NAME) CLUSTERPROF_GOMP_QUESTIONS(CLUSTERPROF_GOMP_NAME)
#undef CLUSTERPROF_GOMP_NAME
      kCount
};
inline constexpr std::uint32_t kGompFunctions = static_cast<std::uint32_t>(Gomp::kCount);

}  // namespace clusterprof::agent
