// SPDX-License-Identifier: BSD-3-Clause
// Our versions of the exec functions.
#pragma once

namespace clusterprof::agent {

void watch_exec() noexcept;

// execve and execveat, as the exec functions and syscall(2) call them.
int execute(const char* path, char* const* arguments, char* const* environment) noexcept;
int execute_at(int folder, const char* path, char* const* arguments, char* const* environment,
               int flags) noexcept;

}  // namespace clusterprof::agent
