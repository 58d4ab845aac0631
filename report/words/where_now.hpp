// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>

#include "report/analysis/top.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report::words {

struct WhereNow {
  std::string text;
  bool has_ended = false;
};

// Where the main thread of a rank is, or how the rank has ended, and where if a signal ended it: "step()
// train.py:31", "ended with status 0", "ended by SIGKILL, in step() train.py:31". `row`: of Top::ranks.
WhereNow where_now(const Top& top, std::size_t row, const format::ShortPaths& names,
                   std::size_t width = format::kAnyWidth);

}  // namespace clusterprof::report::words
