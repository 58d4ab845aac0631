// SPDX-License-Identifier: BSD-3-Clause
// The call path of the caller of an MPI function, a file operation or an allocation (agent_api.h, call_path).
// Cheap if the path was seen before. Runs on the thread itself, not in one of our signal handlers. Takes no
// lock for a path that was seen before.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"
#include "agent/sigsafe/native_stack.h"
#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {

// A thread's memory of the paths it has seen. For each path it keeps all return addresses, where they were on
// the stack, and all Python frames (python_chain.h). A path is recognised if every one of them is unchanged.
// When its room is full, all are forgotten; that of a main thread is larger.
std::uint64_t path_memo_bytes(bool of_main_thread) noexcept;
// `memory`: path_memo_bytes() zeroed bytes, or what the same call made of them before.
PathMemo* make_path_memo(void* memory, bool of_main_thread) noexcept;
void forget_paths(PathMemo* memo) noexcept;

// Forgets what this process stored: for the child of a fork, which has a new path arena. `memory` holds
// path_table_bytes() zeroed bytes.
std::uint64_t path_table_bytes() noexcept;
void set_path_table(void* memory) noexcept;

// What a call path is for. Half of the arena and of the table of paths is reserved for paths of MPI calls. A
// further part is reserved for operations that transferred much or took long. Paths of allocations have a
// part of the arena of their own, which is there with --memory only. Paths of forward operators of PyTorch
// take room as large operations do.
enum class PathUse : std::uint32_t { kMpi = 0, kIo = 1, kLargeIo = 2, kMemory = 3, kForward = 4 };

// Stores text in the path arena and returns its place in `offset`. False if there is no room. No handler of
// the program may run meanwhile.
bool store_text(wire::SegmentHeader* segment, const char* text, std::uint32_t bytes,
                std::uint64_t& offset) noexcept;

}  // namespace clusterprof::agent

// call_path of agent_api.h. The caller's registers are those of the first frame.
extern "C" clusterprof_call_path clusterprof_call_path_entry(void);
// The same for a file operation or an allocation. What Python's import machinery does itself gets the path of
// the outermost import. What is done inside an MPI call gets the path of the caller of MPI.
extern "C" clusterprof_call_path clusterprof_io_path_entry(clusterprof::agent::PathUse use);
