// SPDX-License-Identifier: BSD-3-Clause
// Walking the Python frames of the calling thread, and merging them with its native stack.
#pragma once

#include <cstdint>

#include "agent/sigsafe/native_stack.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

struct PythonFrame {
  std::uint64_t code_id;       // key of the segment's code table
  std::uint32_t instruction;   // code units, wire::kInstructionNotStarted
  bool entry;                  // this frame was entered by a C eval loop activation of its own
  // What was read, so that the same frame can be recognised without describing it again:
  std::uint64_t code_address;
  std::uint64_t frame_address;
};

inline constexpr std::uint32_t kMaxPythonFrames = 1024;
inline constexpr std::uint32_t kMaxEntries = 256;

struct PythonStack {
  std::uint32_t count;          // frames, innermost first
  bool truncated;
  bool thread_has_state;        // false: not a Python thread (or none yet / no more)
  bool holds_gil;               // as far as the version tells
  bool gil_known;
  bool finalizing;
  PythonFrame frames[kMaxPythonFrames];
  // For each C eval loop activation, innermost first: an address inside that activation's C
  // frame (the entry shim or CFrame; 0 when the version has none) and the number of Python
  // frames it runs.
  std::uint32_t entries;
  std::uint64_t entry_address[kMaxEntries];
  std::uint32_t entry_frames[kMaxEntries];
};

// Finds an interpreter in this process (executable or libpython, however loaded), chooses the
// layout of its version and publishes it for the handler; sets python_state, python_version and
// python_note of the segment. Cheap when nothing changed; called at start and whenever
// modules changed. Not from a handler.
void python_attach(wire::SegmentHeader* segment) noexcept;

// Tells `segment` what is known already, without a call of the loader: in the child of a fork.
void python_report(wire::SegmentHeader* segment) noexcept;

// Reads the frames of the calling thread. Must run under a guard. Async-signal-safe. Describes
// code objects not seen before in the segment's code table. Does nothing (count 0) unless
// python_state is kActive.
void walk_python(wire::SegmentHeader* segment, PythonStack& out) noexcept;

// Writes the merged frames, leaf first, in the format of wire/sample.h to words[0..capacity) and
// returns how many words; sets SampleFlags (kMergeFailed, kHasPython, kNativeTruncated,
// kPythonTruncated, kWaitingForGil, kFinalizing) in `flags`. With no Python frames it writes the native
// stack; with no native frames the Python stack. Frames of the C eval loop are replaced by the
// Python frames they run.
// Async-signal-safe, no guard needed.
std::uint32_t merge_stacks(const NativeStack& native, const PythonStack& python, std::uint64_t* words,
                           std::uint32_t capacity, std::uint32_t& flags) noexcept;

}  // namespace clusterprof::agent
