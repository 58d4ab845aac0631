// SPDX-License-Identifier: BSD-3-Clause
// The layout of what report::encode() makes: see report/analysis/analysis_archive.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace clusterprof::fuzz {

// All but the timelines of ranks, and these.
inline constexpr std::size_t kAnalysisParts = 2;
using AnalysisParts = std::array<std::vector<std::byte>, kAnalysisParts>;

// Blocks as they are stored; what they hold when they are inflated.
[[nodiscard]] AnalysisParts stored_parts(std::span<const std::byte> encoded);
[[nodiscard]] AnalysisParts plain_parts(std::span<const std::byte> encoded);

// The other way round, with a header that fits. of_stored_parts() believes the sizes before the blocks.
[[nodiscard]] std::vector<std::byte> of_stored_parts(const AnalysisParts& parts);
[[nodiscard]] std::vector<std::byte> of_plain_parts(const AnalysisParts& parts);

}  // namespace clusterprof::fuzz
