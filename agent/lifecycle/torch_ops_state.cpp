// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/torch_ops_state.h"

#include <atomic>

#include "agent/lifecycle/options.h"
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {
namespace {

constinit std::atomic<wire::TorchOps> g_torch_ops = wire::TorchOps::kNotAsked;

}  // namespace

wire::TorchOps torch_ops_state() noexcept {
  const wire::TorchOps state = g_torch_ops.load(std::memory_order_relaxed);
  return state == wire::TorchOps::kNotAsked && g_options.torch_ops ? wire::TorchOps::kNoneSeen : state;
}

void set_torch_ops_state(wire::TorchOps state) noexcept {
  g_torch_ops.store(state, std::memory_order_relaxed);
  if (wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire))
    segment->torch_ops.store(static_cast<std::uint32_t>(state), std::memory_order_relaxed);
}

}  // namespace clusterprof::agent
