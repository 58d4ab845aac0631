// SPDX-License-Identifier: BSD-3-Clause
// The object files that are loaded, without the loader's own functions for that: dlsym, dladdr and dlopen
// take a lock that a thread may hold which waits for the caller (in a static constructor, say), and change
// what dlerror says. Only the list of objects is walked, whose lock nobody holds while code of the program
// runs.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "agent/discovery/loaded_objects.h"

namespace clusterprof::memory_wrap {

using agent::AddressRange;

// This one.
bool is_in_ourselves(const void* address) noexcept;

// Where the object is that has this address. {0, 0}: there is none.
AddressRange object_at(std::uintptr_t address) noexcept;

// What an object tells of itself. Null: nothing.
struct Dynamic {
  std::uintptr_t base;
  const ElfW(Dyn) * entries;
  const ElfW(Sym) * symbols;
  const char* names;
  const ElfW(Rela) * calls;  // its jump table
  std::size_t call_count;
  const std::uint32_t *gnu_hash, *hash;
  const char* soname;
};
// base: link_map::l_addr; entries: link_map::l_ld.
Dynamic read_dynamic(std::uintptr_t base, const void* entries) noexcept;

// A function that the object defines for others. Null: it has none by that name.
void* function_in(const Dynamic& object, const char* name) noexcept;

struct ReachedFunction {
  void* function;       // null: nobody has it
  AddressRange caller;  // the object that calls; {0, 0}: none
  AddressRange object;  // that has it
};
// What a call from this address would have reached without us, where no object has it that all see: the
// function of the calling object, or of those that this was linked with. If these have none, that of the
// first object of all: the call may have come through another object by a jump, or the function's object has
// become one that all see.
ReachedFunction function_reached(const void* caller, const char* name) noexcept;

}  // namespace clusterprof::memory_wrap
