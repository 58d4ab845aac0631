// SPDX-License-Identifier: BSD-3-Clause
// Start of the agent.
#pragma once

namespace clusterprof::agent {

// Starts the agent if this process is to be recorded; does nothing the second time. Interposed
// functions call it, since other libraries' constructors run before ours.
void ensure_started() noexcept;

}  // namespace clusterprof::agent
