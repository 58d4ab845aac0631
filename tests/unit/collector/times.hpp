// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace clusterprof::collector {

inline constexpr std::uint64_t kMs = 1'000'000;
inline constexpr std::uint64_t kStart = 1'000'000'000;  // FakeSegment::kStart

}  // namespace clusterprof::collector
