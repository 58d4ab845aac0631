// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/attachment.h"

#include <atomic>

#include "agent/lifecycle/options.h"
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {
namespace {

constinit std::atomic<bool> g_taken = false;

}  // namespace

bool take_attachment() noexcept { return !g_taken.exchange(true); }

void leave_attachment() noexcept { g_taken.store(false); }

void forget_attachment() noexcept {
  if (!g_process.attached) return;
  g_process.attached = false;
  g_options.record = false;
  leave_attachment();
}

}  // namespace clusterprof::agent
