// SPDX-License-Identifier: BSD-3-Clause
#include "cli/mask_arguments.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/secrets.hpp"

namespace clusterprof::cli {

void mask_argument_secrets(std::span<char* const> words) {
  const std::vector<std::string> plain(words.begin(), words.end());
  std::vector<std::string> masked = plain;
  mask_secrets(masked);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (masked[i] == plain[i]) continue;
    // There is room for as many stars as the value has letters.
    const std::size_t both = std::min(plain[i].size(), masked[i].size());
    std::size_t before = 0, behind = 0;
    while (before < both && plain[i][before] == masked[i][before]) ++before;
    while (behind < both - before && plain[i].rbegin()[static_cast<std::ptrdiff_t>(behind)] ==
                                         masked[i].rbegin()[static_cast<std::ptrdiff_t>(behind)])
      ++behind;
    std::fill(words[i] + before, words[i] + plain[i].size() - behind, '*');
  }
}

}  // namespace clusterprof::cli
