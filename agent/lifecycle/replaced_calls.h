// SPDX-License-Identifier: BSD-3-Clause
// In a process that was attached to: calls that lead to ours although the agent was not there when the
// program was loaded. The caller holds the watcher's lock (pause_watcher), or is the watcher.
#pragma once

namespace clusterprof::agent {

// A handle of the preload object for MPI; null: calls of MPI are left alone.
void replace_mpi_calls_by(void* wrappers) noexcept;

// Leads calls of MPI, and of the functions of libc that samples need to know of, to ours, in all objects that
// are loaded now. Calls through addresses that the program has from dlsym, or keeps elsewhere, go on as
// before.
void replace_calls() noexcept;
// Puts everything back, but for functions that set handlers (sigaction and the like). These lead to ours
// until the handlers are the program's again.
void restore_calls() noexcept;
void restore_calls_that_set_handlers() noexcept;

}  // namespace clusterprof::agent
