// SPDX-License-Identifier: BSD-3-Clause
// Functions that no object has behind us among those that all see, but some objects, each its own: plugins
// with an allocator in them. Looked up once for each object that calls one, and again whenever an object may
// have been unloaded.
#pragma once

#include <cstdint>

#include "agent/discovery/loaded_objects.h"

namespace clusterprof::memory_wrap {

// The function that the calling object would have reached. Null: nobody has it. `name`: a literal, the same
// one for each call of that function. Takes no lock that a thread may hold which runs the program's code.
void* plugin_function(const void* caller, const char* name) noexcept;

// Whether the address is in an object whose allocator was found so.
bool is_in_plugin_allocator(std::uintptr_t address) noexcept;

// Objects may have been unloaded.
void forget_plugin_functions() noexcept;

}  // namespace clusterprof::memory_wrap
