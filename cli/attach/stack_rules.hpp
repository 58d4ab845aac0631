// SPDX-License-Identifier: BSD-3-Clause
// Which thread of a process may be made to call pthread_create between two of its instructions. It must not
// be where that function, or malloc, which it calls, may hold a lock of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace clusterprof::cli::attach {

enum class Place : std::uint8_t {
  kProgram,    // any code but the following
  kLibc,       // with libpthread and the like
  kLoader,     // ld.so
  kAllocator,  // a library that has malloc in libc's place
  kVdso,       // code for reading clocks that the kernel maps into each process
};

struct StackFrame {
  Place place = Place::kProgram;
  std::string function;  // of libc's; empty: not known
};

struct ThreadStack {
  long call = -1;                  // the system call that it is in; -1: none
  std::vector<StackFrame> frames;  // the innermost first
  bool complete = false;           // down to where the thread began
};

// What kind of an object this is, by its file name.
Place place_of_object(const std::string& path);

// A thread in this system call can be stopped there, and the kernel goes on with the call as if nothing had
// happened. If it ends the call instead (EINTR), that has moved nothing, and may be made again.
bool may_stop_in(long call);

// How well a thread that is found in `state` (of /proc) and in this call suits: 0 best; -1: not at all.
int suits(char state, long call);

// Why the thread must be left alone now; empty: it may be used. `own_malloc`: the program itself has a
// malloc.
std::string objection_to(const ThreadStack& stack, bool own_malloc);

}  // namespace clusterprof::cli::attach
