// SPDX-License-Identifier: BSD-3-Clause
// The threads of the program come and go.
#pragma once

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

// Memory for g_process.records, and what notices that a thread ends.
bool prepare_threads(const wire::SegmentHeader* segment) noexcept;

// start_function: 0 where it is not known.
void register_this_thread(std::uintptr_t start_function = 0) noexcept;
void unregister_this_thread() noexcept;
void attach_existing_threads() noexcept;  // those made before the agent started, but for this one

// In the child of a fork: forgets all threads; the calling one keeps its memory for itself.
void forget_threads() noexcept;

}  // namespace clusterprof::agent
