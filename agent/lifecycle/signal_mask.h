// SPDX-License-Identifier: BSD-3-Clause
// The signal mask of the calling thread as the kernel has it. Async-signal-safe.
#pragma once

#include <signal.h>

#include <cstdint>

namespace clusterprof::agent {

inline constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

// rt_sigprocmask(2) itself, without changing what the program believes to be blocked (signals.h). Returns the
// mask before.
std::uint64_t change_mask(int how, std::uint64_t mask) noexcept;

// Blocks kSampleSignal for the calling thread; returns the mask before.
std::uint64_t block_sample_signal() noexcept;
std::uint64_t block_all_signals() noexcept;
void restore_signals(std::uint64_t mask) noexcept;

}  // namespace clusterprof::agent
