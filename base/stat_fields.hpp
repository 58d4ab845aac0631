// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof {

// The fields of /proc/PID/stat (proc(5)) from the third one, the state, on: field n is at n - 3. The second
// is the program's name, which may hold blanks and parentheses. Empty: it is no such text.
inline std::vector<std::string> stat_fields(std::string_view text) {
  std::vector<std::string> fields;
  std::size_t at = text.rfind(')');
  if (at == std::string_view::npos) return fields;
  at += 2;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    fields.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

}  // namespace clusterprof
