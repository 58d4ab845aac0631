// SPDX-License-Identifier: BSD-3-Clause
// The call path of the caller of an MPI function, or of one that works on files, cheap when it was seen
// before: agent_api.h call_path. Runs on the thread itself, not in a handler of ours; takes no lock on the
// way that was seen before.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"
#include "agent/sigsafe/native_stack.h"
#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {

// Where a thread keeps the paths it has seen: for each, all return addresses and where on the stack they
// were, and all Python frames (python_chain.h). A path is found again when every one of them is unchanged.
std::uint64_t path_memo_bytes() noexcept;  // size of a PathMemo; made of zeroed memory
void forget_paths(PathMemo* memo) noexcept;

// Forgets what this process stored: in the child of a fork, which has a new path arena. `memory` holds
// path_table_bytes() zeroed bytes.
std::uint64_t path_table_bytes() noexcept;
void set_path_table(void* memory) noexcept;

// What a call path is for. Those of MPI calls have half of the arena and of the table of paths to
// themselves, and those of operations that moved much or took long a part that the others leave.
enum class PathUse : std::uint32_t { kMpi = 0, kIo = 1, kLargeIo = 2 };

// Puts text into the path arena, at `offset`. False when there is no room for it. No handler of the program
// may come meanwhile.
bool store_text(wire::SegmentHeader* segment, const char* text, std::uint32_t bytes,
                std::uint64_t& offset) noexcept;

}  // namespace clusterprof::agent

// agent_api.h call_path: the registers of its caller are those of the first frame.
extern "C" clusterprof_call_path clusterprof_call_path_entry(void);
// The same of an operation on a file. What the import machinery of Python does itself has the path of the
// outermost import, and what is done inside an MPI call that of the caller of MPI.
extern "C" clusterprof_call_path clusterprof_io_path_entry(clusterprof::agent::PathUse use);
