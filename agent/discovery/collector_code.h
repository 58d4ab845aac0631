// SPDX-License-Identifier: BSD-3-Clause
// Which functions of an interpreter are on the stack of a thread while it collects garbage: those that set
// `collecting` (gc_state.h) before and clear it behind. They have no names in most builds, and compilers copy
// them into others; but PyGC_Collect is one of them, or calls it, and has a name.
#pragma once

#include <cstdint>

#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// Where in an object the function that stores 1 in it as `mov dword [register + displacement], 1` finds it;
// 0: it does not. x86-64.
std::uint32_t flag_displacement(const std::uint8_t* code, std::uint64_t bytes) noexcept;

// The first such instruction with this displacement in [from, end), or null.
const std::uint8_t* find_flag_set(const std::uint8_t* from, const std::uint8_t* end,
                                  std::uint32_t displacement) noexcept;

// Looks through the interpreter's code, for some milliseconds, and publishes what it finds
// (g_collector_code). Not in a handler; the module table has to be there.
void find_collector_code(std::uint64_t gc_collect, const PythonRuntime& runtime) noexcept;

}  // namespace clusterprof::agent
