// SPDX-License-Identifier: BSD-3-Clause
// What all analysis commands share: exit statuses, results on stdout, complaints on stderr.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace clusterprof::cli {

// Exit statuses.
inline constexpr int kOk = 0;
inline constexpr int kNothingFound = 1;  // also: --fail-if is true
inline constexpr int kBadUsage = 2;
inline constexpr int kBadInput = 3;  // or output that cannot be written

// The exit status for a kind of error: the one place that decides it.
int exit_status_of(ErrorKind kind);

// Makes complain() and print() print nothing: of the processes of a parallel merge, only one speaks.
void be_silent();

// "clusterprof: TEXT" on stderr, one line and safe to print; returns `status`.
int complain(int status, const std::string& text);
// The error's message; returns the exit status of its kind.
int complain(const Error& error);
// Prints to stdout. Returns kOk, or the exit status after complaining.
int print(std::string_view text);

// Writes to stdout in pieces. After a piece that cannot be written, the others are dropped.
class Output {
 public:
  void operator()(std::string_view piece);
  int finish();  // returns what print() returns

 private:
  int error_ = 0;
};

// Makes text that other programs are to read harmless for a terminal: names in it may contain control
// characters, which then become visible escapes (report/format). Line ends and tabs stay. Pieces may end
// inside a character.
class VisibleText {
 public:
  // What can be shown of the text so far.
  std::string operator()(std::string_view piece);
  // What is left at the end.
  std::string finish();

 private:
  std::string rest_;
};

// The width of a terminal, or $COLUMNS; 80 where neither is known.
int columns_of(int fd);
// Whether the terminal understands cursor movements and colours, and the user wants them.
bool moves_cursor(int fd);
bool wants_colour(int fd);
// The same with the value of --color: "auto", or "always" or "never" whatever the terminal is.
bool wants_colour(int fd, std::string_view choice);
bool wants_unicode();

}  // namespace clusterprof::cli
