// SPDX-License-Identifier: BSD-3-Clause
// Finds the functions of an interpreter that are on the stack of a thread while it collects garbage: those
// that set `collecting` (gc_state.h) before the collection and clear it afterwards. In most builds they have
// no names, and compilers inline them into others. But PyGC_Collect, which has a name, is one of them or
// calls one.
#pragma once

#include <cstdint>

#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// The displacement at which the function stores 1 in an object by `mov dword [register + displacement], 1`; 0
// if it has no such instruction. x86-64.
std::uint32_t flag_displacement(const std::uint8_t* code, std::uint64_t bytes) noexcept;

// The first such instruction with this displacement in [from, end), or null.
const std::uint8_t* find_flag_set(const std::uint8_t* from, const std::uint8_t* end,
                                  std::uint32_t displacement) noexcept;

// Searches the interpreter's code, for some milliseconds, and publishes what it finds (g_collector_code). Not
// for signal handlers. The module table has to exist.
void find_collector_code(std::uint64_t gc_collect, const PythonRuntime& runtime) noexcept;

}  // namespace clusterprof::agent
