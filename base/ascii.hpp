// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace clusterprof {

// Whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace clusterprof
