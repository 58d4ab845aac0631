// SPDX-License-Identifier: BSD-3-Clause
// Which of our preload objects a program that is about to be executed can load. One that ld.so does not find,
// as after chroot, costs a line on the program's stderr; one that another C library loads ends the program.
// Such objects are left out of its LD_PRELOAD, and it runs unrecorded.
//
// May be called in a child of vfork, in signal handlers, and on small stacks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clusterprof::agent {

// Our entries of LD_PRELOAD by their places in Options::preload, one bit each.
using PreloadSet = std::uint64_t;

// What has to be left out of the environment of the program that these name, as in execveat(2). `path` may be
// a script.
PreloadSet unusable_preloads(int folder, const char* path, char* const* environment) noexcept;
// The same where PATH is searched for a name without a slash.
PreloadSet unusable_preloads_of_command(const char* file, char* const* environment) noexcept;

// An environment without these entries. It lives on the stack of the caller, which gets `bytes` from
// changed_environment_bytes().
std::size_t changed_environment_bytes(char* const* environment) noexcept;
char* const* changed_environment(PreloadSet left_out, char* const* environment, void* memory) noexcept;

}  // namespace clusterprof::agent
