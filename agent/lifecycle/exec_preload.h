// SPDX-License-Identifier: BSD-3-Clause
// Which of our preload objects a program that is about to be executed can load. One that ld.so does not find,
// as after chroot, costs a line on the program's stderr; one that another C library loads ends the program.
// Such objects are left out of its LD_PRELOAD, and it runs unrecorded. Where it is not known what the loader
// makes of the token in our entries (formats/wire/preload_entry.h), they are named without it.
//
// May be called in a child of vfork, in signal handlers, and on small stacks. What the pointers point to need
// not be readable: then nothing is left out, and the exec fails with EFAULT as it does without us.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Our entries of LD_PRELOAD by their places in Options::preload, one bit each.
using PreloadSet = std::uint64_t;

// What will become of our objects in a program that is about to be executed.
struct PreloadFate {
  PreloadSet left_out = 0;  // have to be left out of its environment
  PreloadSet plain = 0;     // have to be named there without the token
  // Why it will not be recorded. kCount: it will be, as far as can be seen, or is not to be.
  wire::UnrecordedReason unrecorded = wire::UnrecordedReason::kCount;
  bool readable = false;  // the program's name and all of its environment
  [[nodiscard]] bool keeps_environment() const noexcept { return left_out == 0 && plain == 0; }
  // Whether the table of processes may have the program: also if its environment lacks our preload. That
  // environment is left as it is.
  [[nodiscard]] bool may_be_noted() const noexcept {
    return readable || unrecorded == wire::UnrecordedReason::kOtherEnvironment;
  }
};

// For the program that these name, as in execveat(2). `path` may be a script.
PreloadFate preload_fate(int folder, const char* path, char* const* environment) noexcept;
// The same where PATH is searched for a name without a slash.
PreloadFate preload_fate_of_command(const char* file, char* const* environment) noexcept;

// Counts a program that runs unrecorded: before an exec, which does not return if it succeeds, with `change`
// 1, and if it does return, with -1. Does nothing for kCount.
void count_unrecorded(wire::UnrecordedReason reason, std::int64_t change) noexcept;

// Copies the words of a command to at most `room` bytes, each with its NUL, or the program's name if they
// cannot be read. The last one may be cut. Returns how many bytes there are.
std::uint32_t copy_command(const char* program, char* const* arguments, char* to,
                           std::uint32_t room) noexcept;

// Whether arguments and environment can be read, and are far below what the kernel takes on any machine.
bool are_small(char* const* arguments, char* const* environment) noexcept;

// An environment with the entries that fate says, and with `variable` ("NAME=value") in place of one of its
// name; null: none. It lives in `memory` of EnvironmentSize::bytes(). `variable` must live as long. Null: the
// environment has grown since it was measured, because another thread has changed it.
struct EnvironmentSize {
  std::size_t pointers, text_bytes;
  [[nodiscard]] std::size_t bytes() const noexcept {
    return (pointers + 2) * sizeof(char*) + text_bytes;  // the end, and one variable more
  }
};
EnvironmentSize environment_size(char* const* environment) noexcept;
char* const* changed_environment(const PreloadFate& fate, const char* variable, char* const* environment,
                                 EnvironmentSize size, void* memory) noexcept;

}  // namespace clusterprof::agent
