// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report::words {

// "On nodes n1, n2 and 3 more: ..." Texts of others (names of files, messages) stand in it as they are.
std::string sentence(const NoteRecord& note);

}  // namespace clusterprof::report::words
