// SPDX-License-Identifier: BSD-3-Clause
// Registers threads of the program when they start, and ends their recording when they end.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// Allocates g_process.records, and prepares what detects that a thread ends.
bool prepare_threads(const wire::SegmentHeader* segment) noexcept;

// start_function: 0 if it is not known. inherited_name: 16 bytes, the kernel's name of the thread that made
// this one; null: not known.
void register_this_thread(std::uintptr_t start_function = 0, const char* inherited_name = nullptr) noexcept;
void unregister_this_thread() noexcept;
void attach_existing_threads() noexcept;        // those made before the agent started, but for this one
void attach_thread(std::int32_t tid) noexcept;  // one of them
bool is_recorded_thread(std::int32_t tid) noexcept;

// In the child of a fork: forgets all threads, but the calling one keeps its memory.
void forget_threads() noexcept;

}  // namespace clusterprof::agent
