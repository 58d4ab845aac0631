// SPDX-License-Identifier: BSD-3-Clause
// What processes of the doctor tell it on their standard output: lines of three columns, with tabs between.
#pragma once

#include <string>
#include <string_view>

namespace clusterprof::cli::doctor {

inline std::string fact_line(std::string_view key, std::string_view value, std::string_view more = {}) {
  std::string text(key);
  for (const std::string_view part : {value, more}) {
    text += '\t';
    for (const char c : part) text += c == '\t' || c == '\n' ? ' ' : c;
  }
  return text + '\n';
}

}  // namespace clusterprof::cli::doctor
