// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace clusterprof::report::words {

// What a reason in Analysis::run.dropped means for the reader. Completes a sentence that begins with the
// number: "samples are missing: ...". Empty for a reason that is not known.
std::string_view meaning_of_drop(std::string_view reason);

}  // namespace clusterprof::report::words
