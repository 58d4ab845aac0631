// SPDX-License-Identifier: BSD-3-Clause
// What torch-wrap, which is a part of the agent, tells it beside what agent_api.h has.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// torch.distributed has its first group of several ranks. False: its ranks are not the run's, since MPI or
// the launcher have numbered these otherwise.
bool c10d_started(std::int32_t rank, std::int32_t size, const char* library) noexcept;

// Of the launch by which this process has its rank, where the launcher was started by a recorded program: the
// same in all its ranks, and another one for each launch. Otherwise 0.
std::uint64_t launch_id() noexcept;

// It is used, but not recorded.
void c10d_not_recorded() noexcept;

}  // namespace clusterprof::agent
