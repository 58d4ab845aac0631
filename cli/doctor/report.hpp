// SPDX-License-Identifier: BSD-3-Clause
// Prints the results: for people, for programs, and as the notes of a node.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/doctor/check.hpp"

namespace clusterprof::cli::doctor {

inline constexpr std::size_t kMaxNoteBytes = 200;

// "warn: TITLE: FOUND; COSTS", at most kMaxNoteBytes, without a line end.
std::string note_of(const Check& check);

struct TextOptions {
  std::string host;
  bool verbose = false;
  bool colour = false;
  std::size_t width = 80;
};
// The results by group. Details are given for checks that are not ok, or with `verbose` for all. The last
// line is the verdict.
std::string text_of(const std::vector<Check>& checks, const TextOptions& options);

// JSON as docs/doctor.md describes it, on one line or indented.
std::string json_of(const std::vector<Check>& checks, const std::string& host, bool indented);

// Puts a name in front of each line, so that the output of several processes can be distinguished.
std::string with_prefix(const std::string& text, const std::string& name);

// As an object of JSON.
std::string json_of(const std::vector<std::pair<std::string, std::uint64_t>>& counts);
// As a string of JSON.
std::string quoted(const std::string& text);

// Removes control characters and invalid UTF-8.
std::string printable(const std::string& text);

}  // namespace clusterprof::cli::doctor
