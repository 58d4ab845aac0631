// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/signal_mask.h"

#include <sys/syscall.h>

#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kSampleBit = std::uint64_t{1} << (kSampleSignal - 1);

}  // namespace

std::uint64_t change_mask(int how, std::uint64_t mask) noexcept {
  std::uint64_t before = 0;
  raw_syscall(SYS_rt_sigprocmask, how, &mask, &before, sizeof mask);
  return before;
}

std::uint64_t block_sample_signal() noexcept { return change_mask(SIG_BLOCK, kSampleBit); }

std::uint64_t block_all_signals() noexcept { return change_mask(SIG_SETMASK, kAllSignals); }

void restore_signals(std::uint64_t mask) noexcept { change_mask(SIG_SETMASK, mask); }

}  // namespace clusterprof::agent
