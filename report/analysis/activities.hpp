// SPDX-License-Identifier: BSD-3-Clause
// Activities: what a thread was doing at a sample, in more detail than the category. Each sample has one.
// Definitions, and which one wins: docs/metrics.md, "Activities".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

enum class Activity : std::uint8_t {
  kInterpreter = 0,
  kNative,
  kImport,
  kGarbageCollection,
  kPageFault,
  kSystemCall,
  kMpi,
  kIo,
  kGilWait,
  kSleep,
  kLock,
  kOtherWait,
  kRunnable,
};
inline constexpr std::size_t kActivities = 13;
// For readers.
inline constexpr std::array<const char*, kActivities> kActivityNames = {
    "interpreter", "native code", "import", "garbage collection", "page faults", "system calls", "MPI", "I/O",
    "GIL",         "sleep",       "locks",  "other waits",        "no processor"};
// Short, for tables.
inline constexpr std::array<const char*, kActivities> kActivityTags = {
    "python", "native", "import", "gc",   "fault", "system", "mpi",
    "io",     "gil",    "sleep",  "lock", "wait",  "ready"};
// In JSON, before "_s".
inline constexpr std::array<const char*, kActivities> kActivityKeys = {
    "interpreter", "native", "import", "gc",   "page_fault", "system_call", "mpi",
    "io",          "gil",    "sleep",  "lock", "other_wait", "runnable"};

constexpr std::size_t index(Activity activity) { return static_cast<std::size_t>(activity); }

// The activity of a value that was recorded on this call path, which need not be the path that it counts for.
Activity activity_of(const CallPaths& paths, std::uint32_t path, shard::Category category);

// Whether a helper thread's value counts as work, and not as idling. Waiting for the GIL counts as work.
bool is_work(const CallPaths& paths, std::uint32_t path, shard::Category category);

// The system call that a path ends in; empty without one.
std::string_view system_call_of(const CallPaths& paths, std::uint32_t path);

// Whether the system call maps or unmaps memory.
bool maps_memory(std::string_view system_call);

// What a blocked thread waits for: docs/metrics.md, "Off-CPU".
enum class OffCpu : std::uint8_t {
  kSleep = 0,
  kLock,
  kGil,
  kPoll,
  kFile,
  kNetwork,
  kPipe,
  kJoin,   // the end of threads of its own
  kChild,  // its own child processes
  kOpenMp,
  kOther
};
inline constexpr std::size_t kOffCpuKinds = 11;
inline constexpr std::array<const char*, kOffCpuKinds> kOffCpuNames = {
    "sleep", "lock", "gil", "poll", "file", "network", "pipe", "join", "child", "openmp", "other"};

// Whether a call path ends with a wait in an OpenMP run time.
bool is_openmp_wait(const CallPaths& paths, std::uint32_t path);

// For a call path with a value of category idle or io.
OffCpu off_cpu_of(const CallPaths& paths, std::uint32_t path);

// For one of kind kLock: whether it is for a lock that another thread holds, and not for a condition or the
// result of another thread.
bool waits_for_holder(const CallPaths& paths, std::uint32_t path);

}  // namespace clusterprof::report
