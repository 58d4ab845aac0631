// SPDX-License-Identifier: BSD-3-Clause
// Why processes are not recorded, in words.
#pragma once

#include <string_view>

namespace clusterprof::report::words {

// The end of a sentence about programs that ran unrecorded: "they are linked statically". `reason`:
// shard::kUnrecordedNames.
std::string_view why_unrecorded(std::string_view reason);
// In a table: "linked statically".
std::string_view unrecorded_phrase(std::string_view reason);

}  // namespace clusterprof::report::words
