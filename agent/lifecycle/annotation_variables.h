// SPDX-License-Identifier: BSD-3-Clause
// Variables that name a library for what programs tell through other interfaces (wire::kAnnotationVariables).
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// A bit for each that names another library than the agent.
std::uint32_t annotations_elsewhere() noexcept;
// Where the program is linked with a Kokkos that knows only the old variable: names the agent in it. Setting
// it for all would make newer ones warn. Before the program runs.
void name_library_for_old_kokkos() noexcept;

}  // namespace clusterprof::agent
