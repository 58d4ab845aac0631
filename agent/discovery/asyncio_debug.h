// SPDX-License-Identifier: BSD-3-Clause
// Finds where _asyncio of CPython 3.14 and later describes its tasks, and publishes what it says
// (sigsafe/python_task.h). Not for signal handlers: uses the loader and reads files.
#pragma once

#include <cstdint>

#include "agent/sigsafe/python_runtime.h"

namespace clusterprof::agent {

// A section of an ELF file: where it is in memory, before the load bias is added.
struct Section {
  std::uint64_t address, bytes;
};

// False if the file cannot be read or has no such section that is loaded.
bool find_section(const char* path, const char* name, Section& section) noexcept;

// Looks at the object files that are new since the last call. Nothing for older versions, and once it is
// found.
void find_asyncio_debug(const PythonRuntime& runtime) noexcept;

}  // namespace clusterprof::agent
