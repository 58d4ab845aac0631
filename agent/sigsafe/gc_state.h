// SPDX-License-Identifier: BSD-3-Clause
// Tells whether an interpreter is in its cyclic garbage collector. The interpreter keeps this in `collecting`
// of its GC state, which is part of PyInterpreterState (3.8: of _PyRuntime). From 3.13 on, _Py_DebugOffsets
// gives the offset. Before, the offset differs between builds of one version. But from 3.8 to 3.12 the GC
// state itself always looks the same, so it is searched for by what it must contain.
#pragma once

#include <cstdint>

#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// What is checked at a place before `collecting` is read from it. Bytes from the start of the GC state up to
// 3.12, the same in all these versions.
inline constexpr std::uint32_t kGcEnabled = 12, kGcDebug = 16, kGcGenerations = 24, kGcGeneration0 = 96,
                               kGcPermanent = 104, kGcStats = 128, kGcCollecting = 200;
inline constexpr std::uint32_t kGcHeadPrevious = 8, kGcThreshold = 16, kGcCount = 20;  // of a generation
inline constexpr std::uint32_t kGcGenerationBytes = 24;

// The offset of `collecting` from `base` if exactly one place in [base, base + bytes) is a GC state, else 0.
// For the thread that holds the GIL; otherwise a running collection changes what is read. Under a guard;
// async-signal-safe.
std::uint32_t find_collecting(std::uint64_t base, std::uint64_t bytes) noexcept;

// Limit for a process. A collection, or the creation of an interpreter, is over after some samples. If no GC
// state was found by then, it is one that we do not know.
inline constexpr std::uint32_t kMaxGcSearches = 256;
struct GcSearch {
  std::atomic<std::uint32_t> searches;
  std::atomic<std::uint32_t> collecting;  // its offset, 0 not known
  // The interpreter that was last seen to collect, and the state of the thread that held its GIL when that
  // was first seen. 0 once the collection has been seen to be over.
  std::atomic<std::uint64_t> collects_in, collector;
  std::atomic<std::uint64_t> collection;  // how many were over by then, up to 3.12
};
extern GcSearch g_gc_search;

enum class GcKnown : std::uint8_t {
  kNo,       // not found yet
  kGivenUp,  // and will not be looked for any more
  kIdle,
  kCollecting,         // and no other thread was seen to, when it began
  kCollectsElsewhere,  // another thread was: what the collector called has let go of the GIL
};

// For the interpreter of `tstate`; its thread is the calling one and holds the GIL. Searches for the GC state
// until it is known, but only a limited number of times per process. The interpreter does not say which
// thread collects, so the first thread that is seen is taken. That is mostly right, but not if the collecting
// thread releases the GIL between two samples (merge_stacks looks at the stack). Under a guard;
// async-signal-safe.
GcKnown gc_state(const PythonRuntime& runtime, std::uint64_t tstate) noexcept;

}  // namespace clusterprof::agent
