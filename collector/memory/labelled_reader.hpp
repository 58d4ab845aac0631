// SPDX-License-Identifier: BSD-3-Clause
// Reads what a process keeps of memory with labels in its shared memory. Impossible rows are counted
// ("damaged_memory_label") and left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "collector/memory/labelled_amounts.hpp"
#include "collector/rings/segment_view.hpp"

namespace clusterprof::collector {

// The start: of the process, by both clocks. The rows belong together, unless the process changed them at
// each look, or was killed while it did.
[[nodiscard]] RawLabelledMemory read_labelled_memory(const SegmentView& segment, std::int64_t start_utc_ns,
                                                     std::uint64_t start_mono_ns, std::uint64_t now_ns,
                                                     std::map<std::string, std::uint64_t>& drops);

}  // namespace clusterprof::collector
