// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/attachment.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "agent/lifecycle/options.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

constinit std::atomic<std::int32_t> g_thread = 0;  // 0: it is not attached to
constinit std::atomic<bool> g_is_to_end = false;

}  // namespace

bool take_attachment() noexcept {
  std::int32_t none = 0;
  if (!g_thread.compare_exchange_strong(none, own_tid())) return false;
  g_is_to_end.store(false);
  return true;
}

void leave_attachment() noexcept { g_thread.store(0); }

void forget_attachment() noexcept {
  if (!g_process.attached) return;
  g_process.attached = false;
  g_options.record = false;
  leave_attachment();
}

void end_attachment() noexcept {
  constexpr std::uint32_t kMostMoments = 10'000;  // ten seconds at least
  constexpr timespec kMoment = {0, 1'000'000};
  const std::int32_t thread = g_thread.load();
  if (thread == 0) return;
  g_is_to_end.store(true);
  for (std::uint32_t i = 0; i < kMostMoments; ++i) {
    if (raw_syscall(SYS_tgkill, g_process.pid, thread, 0) == -ESRCH) return;
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  }
}

bool attachment_is_to_end() noexcept { return g_is_to_end.load(); }

}  // namespace clusterprof::agent
