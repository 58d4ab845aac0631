// SPDX-License-Identifier: BSD-3-Clause
// Whether a thread that runs is in glibc's pthread_spin_lock and waits there for a lock that another one has.
// The function is not ours: it keeps the lock's address in its first argument's register, in assembly of two
// known forms.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace clusterprof::agent {

// `function`: pthread_spin_lock of libc, or null. Reads its code; of one that is not known nothing is told.
// Call before there are samples.
void know_spin_lock(const void* function) noexcept;

// The lock's address; 0: the thread waits for none. Async-signal-safe.
std::uint64_t awaited_spin_lock(const ucontext_t& interrupted) noexcept;

}  // namespace clusterprof::agent
