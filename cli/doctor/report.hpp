// SPDX-License-Identifier: BSD-3-Clause
// What was found, for people, for programs, and for the notes of a node.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/doctor/check.hpp"

namespace clusterprof::cli::doctor {

inline constexpr std::size_t kMaxNoteBytes = 200;

// "warn: TITLE: FOUND; COSTS", at most kMaxNoteBytes, without the line's end.
std::string note_of(const Check& check);

struct TextOptions {
  std::string host;
  bool verbose = false;
  bool colour = false;
  std::size_t width = 80;
};
// Grouped; in detail what is not ok, or all with `verbose`. The last line is the verdict.
std::string text_of(const std::vector<Check>& checks, const TextOptions& options);

// docs/doctor.md. On one line, or indented.
std::string json_of(const std::vector<Check>& checks, const std::string& host, bool indented);

// Each line with a name in front, so that those of several processes can be told apart.
std::string with_prefix(const std::string& text, const std::string& name);

// Without control characters and what is no UTF-8.
std::string printable(const std::string& text);

}  // namespace clusterprof::cli::doctor
