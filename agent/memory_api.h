// SPDX-License-Identifier: BSD-3-Clause
// What the agent and memory-wrap offer each other. memory-wrap is the preload object in front of malloc,
// which is there with --memory only. It chooses which allocations are recorded, and remembers by a counter
// for each hashed address which blocks may have been. The agent records. Both are of one build.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/wire/memory.h"

namespace clusterprof::agent {

// An allocation that is recorded.
struct SampledBlock {
  const void* address;
  std::uint64_t bytes;
  std::uint64_t weight_bytes, weight_calls;  // what it stands for
  std::uint64_t variance;                    // of weight_bytes, in units of wire::kVarianceUnit
  wire::MemoryDomain domain;
};

// What was recorded of a block.
struct KeptBlock {
  std::uint64_t address, bytes, weight, time_ns;
  std::uint32_t site;
};

// What was recorded of mappings that are about to be moved.
struct MovingMappings {
  static constexpr std::uint32_t kMost = 4;  // the kernel moves one, which may have been mapped in parts
  std::uint32_t count;
  KeptBlock parts[kMost];
};

enum class Keeping : std::uint8_t {
  kRefused,   // the block is not known
  kNew,       // it is
  kReplaced,  // it is, and another one was known at its address, whose end was not seen
};

// Any thread, also in handlers of the program, and with locks of the loader held. Not from a handler of the
// agent, where it does nothing. None of these allocates, waits or changes errno.
struct MemoryRecorder {
  // `caller`: the return address of the interposed function.
  Keeping (*allocated)(const SampledBlock& block, const void* caller);
  // Takes what is known of a block that is about to be freed. False: nothing is. Then either of the other
  // two.
  bool (*take)(const void* address, KeptBlock& block);
  void (*put_back)(const KeptBlock& block);
  void (*freed)(const KeptBlock& block);
  // Bytes copied, and calls that copied them: what one call stands for.
  void (*copied)(std::uint64_t bytes, std::uint64_t calls, const void* caller);
  // Memory from the kernel, but for mmap, which the agent sees itself. `unmapped`: before it is given back.
  void (*mapped)(const void* address, std::uint64_t bytes, wire::MemoryDomain domain, const void* caller);
  void (*unmapped)(const void* address, std::uint64_t bytes);
  // A segment of System V shared memory is there now.
  void (*attached)(int segment, const void* address, const void* caller);
  // Around mremap. `to`, with its new size: null if that has failed.
  void (*moves)(const void* address, std::uint64_t bytes, MovingMappings& moving);
  void (*moved)(const MovingMappings& moving, const void* to, std::uint64_t bytes, const void* caller);
  // Exit handlers are about to run. What they free counts as live at the end.
  void (*ends)();
};

enum class MemoryPhase : std::uint32_t {
  kNotStarted = 0,  // the agent has not started
  kOn,
  kOff,  // nothing is recorded in this process
};

// What becomes of a sampled object of the interpreter.
enum class ObjectRecording : std::uint8_t {
  kDiverted,  // malloc gives it out, in place of a pool
  kInPlace,   // it stays where it is
};

struct MemoryWrap {
  // Stored by the agent, the phase last.
  std::atomic<MemoryPhase> phase;
  std::atomic<std::uint64_t> interval_bytes;
  std::atomic<const MemoryRecorder*> recorder;

  // Where the object file is.
  const void* object_begin;
  const void* object_end;
  // Looks up the functions behind the interposed ones. The agent calls it before it begins.
  void (*find_functions)();
  // Whether calls of malloc come to memory-wrap, and the functions behind are known.
  bool (*sees_malloc)();
  // Whether this object file's calls of malloc lead elsewhere, as far as it has made one.
  // base: link_map::l_addr; dynamic: link_map::l_ld.
  bool (*calls_other_malloc)(std::uintptr_t base, const void* dynamic);
  // Object files were loaded or unloaded. memory-wrap sees most of that itself, and sooner.
  void (*objects_changed)();
  // In the child of a fork: no block is known any more.
  void (*forget_blocks)();
  // Samples the interpreter's allocator of small objects; not free-threaded ones. handle: as for dlsym.
  // False: it has not got the functions for that, or the objects are malloc's, and sampled there.
  bool (*hook_python)(void* handle, ObjectRecording how);
  // Whether those hooks have been called.
  std::atomic<bool> python_hooked, python_called;
  // Whether a call of mmap from here, by this thread, is an allocator's own, whose blocks are seen.
  bool (*maps_for_heap)(const void* caller);
};

}  // namespace clusterprof::agent

// Null when memory-wrap is not loaded.
extern "C" clusterprof::agent::MemoryWrap clusterprof_memory_wrap_v1 [[gnu::weak]];
