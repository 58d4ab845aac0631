// SPDX-License-Identifier: BSD-3-Clause
// A command line as one text: each word is followed by a NUL, as in /proc/PID/cmdline. Messages and files
// have it in this form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof {

// A longer text loses words at its end, and gets this word instead of them.
inline constexpr std::size_t kCommandTextBytes = 16384;
inline constexpr std::string_view kWordsLeftOut = "...";

inline std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    // Room for the mark stays free unless this is the last word.
    const std::size_t reserved = i + 1 == words.size() ? 0 : kWordsLeftOut.size() + 1;
    if (text.size() + words[i].size() + 1 + reserved > kCommandTextBytes) {
      text.append(kWordsLeftOut).push_back('\0');
      break;
    }
    text.append(words[i]).push_back('\0');
  }
  return text;
}

// The words of such a text. The last one need not be terminated.
inline std::vector<std::string> command_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    words.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return words;
}

}  // namespace clusterprof
