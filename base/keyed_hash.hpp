// SPDX-License-Identifier: BSD-3-Clause
// A hash that nobody can foresee without the key: SipHash-2-4 (Aumasson and Bernstein, 2012), in 30 lines,
// since the launcher may link nothing but libc, which has none.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace clusterprof {

using HashKey = std::array<std::uint8_t, 16>;

std::uint64_t keyed_hash(const HashKey& key, std::string_view text);

}  // namespace clusterprof
