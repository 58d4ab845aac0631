// SPDX-License-Identifier: BSD-3-Clause
// The words in which loaded objects keep the addresses of functions of other objects (the GOT): finding and
// changing them in a program that runs. Not for signal handlers: uses the loader.
#pragma once

#include <link.h>

namespace clusterprof::agent {

// An object while it cannot be unloaded.
struct LoadedObject {
  ElfW(Addr) base;
  const ElfW(Phdr) * headers;
  unsigned header_count;
  const char* name;  // the loader's; empty: the program

  // Whether the address is in one of its segments.
  bool contains(ElfW(Addr) address) const noexcept;
};

// Calls act(object, given) for every object that the loader has completed, while it cannot be unloaded.
void for_each_object(void (*act)(const LoadedObject& object, void* given), void* given) noexcept;

// A word that the loader fills with the address of the function or variable of that name: when it loads the
// object, or at the first call.
struct CallSlot {
  const char* name;
  void** place;
  bool defined_here;  // the object has one of that name itself
};
void for_each_slot(const LoadedObject& object, void (*act)(const CallSlot& slot, void* given),
                   void* given) noexcept;

// Changes a slot from `before` to `after` in one step, also where the loader has made it read-only (RELRO),
// which it is again afterwards. False: it had another value, or cannot be written.
bool change_slot(const LoadedObject& object, void** slot, void* before, void* after) noexcept;

}  // namespace clusterprof::agent
