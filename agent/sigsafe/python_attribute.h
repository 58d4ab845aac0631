// SPDX-License-Identifier: BSD-3-Clause
// Attributes of an instance of a Python class, read from the interpreter's memory.
#pragma once

#include <cstdint>

#include "agent/pyabi/instance_layout.h"
#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// The value of an attribute that is among the first 64. 0: it was not found. Under a guard.
// Async-signal-safe.
std::uint64_t find_attribute(const PythonRuntime& runtime, const InstanceLayout& layout, std::uint64_t object,
                             const char* name, std::uint32_t length) noexcept;

}  // namespace clusterprof::agent
