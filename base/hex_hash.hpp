// SPDX-License-Identifier: BSD-3-Clause
// A short name for a long text: the same text always gives the same name. Not for security.
#pragma once

#include <cstdint>
#include <string>

namespace clusterprof {

// 64-bit FNV-1a with a final mix, as 16 hex digits.
std::string hex_hash(const std::string& text);

// 16 hex digits.
std::string as_hex(std::uint64_t number);

}  // namespace clusterprof
