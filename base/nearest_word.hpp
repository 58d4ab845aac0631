// SPDX-License-Identifier: BSD-3-Clause
// "Did you mean": finds the word that a mistyped option or command was probably meant to be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof {

// Optimal string alignment distance: Levenshtein's distance, but swapping two neighbours counts once.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, row(b.size() + 1), next(row.size());
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = row;
    row = next;
  }
  return row.back();
}

// The nearest of `words`, if at most a third of its letters differ; else empty.
template <typename Words>
std::string nearest_word(std::string_view word, const Words& words) {
  std::string best;
  std::size_t best_distance = 0;
  for (const auto& candidate : words) {
    const std::string_view text(candidate);
    const std::size_t distance = edit_distance(word, text);
    if (distance > std::max<std::size_t>(text.size() / 3, 1)) continue;
    if (best.empty() || distance < best_distance) best = text, best_distance = distance;
  }
  return best;
}

}  // namespace clusterprof
