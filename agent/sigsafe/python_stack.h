// SPDX-License-Identifier: BSD-3-Clause
// Walks the Python frames of the calling thread, and merges them with its native stack.
#pragma once

#include <atomic>
#include <cstdint>

#include "agent/sigsafe/native_stack.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

struct PythonFrame {
  std::uint64_t code_id;      // key of the segment's code table
  std::uint32_t instruction;  // code units, wire::kInstructionNotStarted
  bool entry;                 // this frame was entered by a C eval loop activation of its own
  // What was read, so that the same frame can be recognised without describing it again.
  std::uint64_t code_address;
  std::uint64_t frame_address;
};

inline constexpr std::uint32_t kMaxPythonFrames = 1024;
inline constexpr std::uint32_t kMaxEntries = 256;

struct PythonStack {
  std::uint32_t count;  // frames, innermost first
  bool truncated;
  bool thread_has_state;  // false: not a Python thread (or none yet / no more)
  bool holds_gil;         // as far as the version tells
  bool gil_known;
  bool finalizing;
  // The thread holds the GIL of an interpreter that collects garbage; and another thread was seen to hold it
  // when the collection began. merge_stacks knows better which of the two runs the collector, or code that it
  // calls.
  bool collecting_garbage, collects_elsewhere;
  PythonFrame frames[kMaxPythonFrames];
  // For each C eval loop activation, innermost first: an address inside that activation's C
  // frame (the entry shim or CFrame; 0 when the version has none) and the number of Python
  // frames it runs.
  std::uint32_t entries;
  std::uint64_t entry_address[kMaxEntries];
  std::uint32_t entry_frames[kMaxEntries];
};

// Results for the first stacks of the process, which decide whether frames are published. All are numbers of
// stacks.
inline constexpr std::uint32_t kCheckedStacks = 64;
struct SelfCheck {
  std::atomic<std::uint32_t> walks, bad_walks;  // of those with frames, or with what is none
  std::atomic<std::uint32_t> passed;   // 1: a whole chain was as it has to be. Nothing is shown before
  std::atomic<std::uint32_t> missing;  // the eval loop is on the native stack, but no Python frame is there
  std::atomic<std::uint32_t> merges, bad_merges;  // of complete stacks
};
extern SelfCheck g_self_check;

// True if native and Python stacks could mostly not be merged: then Python frames are shown alone.
inline bool merging_is_given_up() noexcept {
  return g_self_check.bad_merges.load(std::memory_order_relaxed) > kCheckedStacks / 2 &&
         g_self_check.merges.load(std::memory_order_relaxed) >= kCheckedStacks;
}

// Reads the frames of the calling thread. Must run under a guard. Async-signal-safe. Describes
// code objects not seen before in the segment's code table. Does nothing (count 0) unless
// python_state is kActive.
void walk_python(wire::SegmentHeader* segment, PythonStack& out) noexcept;

// Writes the merged frames, leaf first, in the format of wire/sample.h to words[0..capacity) and returns the
// number of words. Sets SampleFlags (kMergeFailed, kHasPython, kNativeTruncated, kPythonTruncated,
// kWaitingForGil, kFinalizing, kCollectingGarbage) in `flags`. Without Python frames it writes the native
// stack, without native frames the Python stack. Frames of the C eval loop are replaced by the Python frames
// that they run. Async-signal-safe, no guard needed.
std::uint32_t merge_stacks(const NativeStack& native, const PythonStack& python, std::uint64_t* words,
                           std::uint32_t capacity, std::uint32_t& flags) noexcept;

}  // namespace clusterprof::agent
