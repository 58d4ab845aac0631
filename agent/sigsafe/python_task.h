// SPDX-License-Identifier: BSD-3-Clause
// The asyncio task that runs on the calling thread, its name, and the coroutines and tasks that await it
// (docs/design/0018-event-loops.md).
#pragma once

#include <atomic>
#include <cstdint>

#include "agent/pyabi/asyncio_offsets.h"
#include "agent/sigsafe/python_stack.h"
#include "formats/wire/sample.h"

namespace clusterprof::agent {

struct TaskStack {
  struct Frame {
    std::uint64_t code_id;
    std::uint32_t instruction;
  };
  static constexpr std::uint32_t kMost = wire::kMaxAwaitWords / 2;
  // How many of the thread's Python frames are the task's, counted from the innermost. 0: no task runs.
  std::uint32_t running;
  std::uint32_t awaiting;  // of `frames`: those that await the task, the innermost first
  std::uint32_t name_bytes;
  char name[wire::kTaskNameBytes];
  Frame frames[kMost];
};

// What _asyncio says of itself (CPython 3.14 and later). Null: nothing yet. What it points to stays.
extern std::atomic<const AsyncioOffsets*> g_asyncio_offsets;

// False: no task can be running.
bool may_run_task(const PythonStack& python) noexcept;

// `python`: the calling thread's frames. Reads the interpreter's memory: under a guard. What was found before
// a fault counts. Async-signal-safe.
void find_task(wire::SegmentHeader& segment, const PythonStack& python, TaskStack& out) noexcept;

}  // namespace clusterprof::agent
