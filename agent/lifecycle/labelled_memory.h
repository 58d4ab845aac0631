// SPDX-License-Identifier: BSD-3-Clause
// Memory that the program names by space and label, as Kokkos does with its views: exact sums in the segment
// (wire::LabelledMemory). Any thread, also in the program's signal handlers. `space` has
// wire::kSpaceNameBytes, terminated or not; `label` may be null.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

void note_labelled_allocation(const char* space, const char* label, std::uint64_t bytes) noexcept;
void note_labelled_free(const char* space, const char* label, std::uint64_t bytes) noexcept;
void note_labelled_copy(const char* to_space, const char* from_space, std::uint64_t bytes) noexcept;

void reset_labelled_memory_after_fork() noexcept;  // in the child, whose segment knows nothing yet

}  // namespace clusterprof::agent
