// SPDX-License-Identifier: BSD-3-Clause
// Whether an interpreter is in its cyclic garbage collector. It says so in `collecting` of its GC state,
// which lies in PyInterpreterState (3.8: in _PyRuntime). From 3.13 on _Py_DebugOffsets tells where. Before,
// the place differs between builds of one version, but what the GC state looks like does not, from 3.8 to
// 3.12: it is looked for by what it has to hold.
#pragma once

#include <cstdint>

#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// What there is to know about a place before `collecting` is read from it. Bytes from the start of the
// GC state up to 3.12, the same in all these versions.
inline constexpr std::uint32_t kGcEnabled = 12, kGcDebug = 16, kGcGenerations = 24, kGcGeneration0 = 96,
                               kGcPermanent = 104, kGcStats = 128, kGcCollecting = 200;
inline constexpr std::uint32_t kGcHeadPrevious = 8, kGcThreshold = 16, kGcCount = 20;  // of a generation
inline constexpr std::uint32_t kGcGenerationBytes = 24;

// The offset of `collecting` from `base`, when exactly one place in [base, base + bytes) is a GC state;
// else 0. Meant for the thread that holds the GIL, or a collection on its way changes what is read.
// Under a guard; async-signal-safe.
std::uint32_t find_collecting(std::uint64_t base, std::uint64_t bytes) noexcept;

// Of a process. A collection that is on its way, or an interpreter that is being made, is over after some
// samples: what looks like no GC state then is none that we know.
inline constexpr std::uint32_t kMostGcSearches = 256;
struct GcSearch {
  std::atomic<std::uint32_t> searches;
  std::atomic<std::uint32_t> collecting;  // its offset, 0 not known
  // The interpreter that was last seen to collect, and the state of the thread that held its GIL when that
  // was seen first: 0 once it has been seen to be over.
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

// About the interpreter of `tstate`, whose thread is the calling one and holds the GIL. Looks for the
// GC state as long as it is not known, a limited number of times per process. Which thread collects the
// interpreter does not say, so it is the one that is met first: mostly, but not when it lets go of the GIL
// between two samples (merge_stacks looks at the stack). Under a guard; async-signal-safe.
GcKnown gc_state(const PythonRuntime& runtime, std::uint64_t tstate) noexcept;

}  // namespace clusterprof::agent
