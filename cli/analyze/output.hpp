// SPDX-License-Identifier: BSD-3-Clause
// What all analysis commands share: exit statuses, results on stdout, complaints on stderr.
#pragma once

#include <string>
#include <string_view>

namespace clusterprof::cli {

inline constexpr int kOk = 0;
inline constexpr int kNothingFound = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kBadInput = 3;

// Of the processes of a team, one speaks for all: afterwards the two below print nothing.
void be_silent();

// "clusterprof: TEXT" on stderr, one line and safe to print; returns `status`.
int complain(int status, const std::string& text);
// To stdout; kOk, or an exit status after complaining.
int print(std::string_view text);

// Standard output in pieces; after the first that cannot be written the others are dropped.
class Output {
 public:
  void operator()(std::string_view piece);
  int finish();  // as print()

 private:
  int error_ = 0;
};

int columns_of(int fd);  // of a terminal, or of $COLUMNS; 80 where neither is known
// Colours and cursor movements are understood, and wanted.
bool moves_cursor(int fd);
bool wants_colour(int fd);
// The same with --color: "auto", or "always" or "never" whatever there is.
bool wants_colour(int fd, std::string_view choice);
bool wants_unicode();

}  // namespace clusterprof::cli
