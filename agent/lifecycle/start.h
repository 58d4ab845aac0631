// SPDX-License-Identifier: BSD-3-Clause
// Start of the agent.
#pragma once

namespace clusterprof::agent {

// What is set once the options are known, before the process is opened.
void prepare_process() noexcept;

// Starts the agent if this process is to be recorded. Does nothing the second time. Interposed functions call
// it too, since constructors of other libraries may run before ours.
void ensure_started() noexcept;

}  // namespace clusterprof::agent
