// SPDX-License-Identifier: BSD-3-Clause
// Patterns in the site's lists of commands, users, partitions and accounts. Uses no libc: see start.cpp.
#pragma once

namespace clusterprof::start {

// Whether the pattern matches the whole text: `*` stands for any characters, `?` for one.
inline bool matches(const char* pattern, const char* pattern_end, const char* text) noexcept {
  const char* star = nullptr;    // the last `*` that was met
  const char* behind = nullptr;  // the text that is left when it stands for as little as has been tried
  while (*text != '\0') {
    if (pattern != pattern_end && *pattern == '*') {
      star = pattern++;
      behind = text;
    } else if (pattern != pattern_end && (*pattern == '?' || *pattern == *text)) {
      ++pattern;
      ++text;
    } else if (star != nullptr) {
      pattern = star + 1;
      text = ++behind;
    } else {
      return false;
    }
  }
  while (pattern != pattern_end && *pattern == '*') ++pattern;
  return pattern == pattern_end;
}

// Whether one of the patterns in the list, which are separated by commas, matches `text`. If `path` is given,
// patterns with a slash are compared with that instead.
inline bool matches_one(const char* list, const char* text, const char* path = nullptr) noexcept {
  for (const char* at = list; *at != '\0';) {
    const char* end = at;
    bool has_slash = false;
    for (; *end != '\0' && *end != ','; ++end) has_slash = has_slash || *end == '/';
    if (end != at && matches(at, end, has_slash && path != nullptr ? path : text)) return true;
    at = *end == '\0' ? end : end + 1;
  }
  return false;
}

}  // namespace clusterprof::start
