// SPDX-License-Identifier: BSD-3-Clause
// Makes any bytes safe to print, and counts and cuts them by the columns they take in a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace clusterprof::report::format {

// Control characters, invalid UTF-8 and characters that reorder or hide text become visible
// escapes (\x1b, \u202e). printable(printable(s)) == printable(s).
std::string printable(std::string_view text);

// The longest prefix that is UTF-8, and the whole with U+FFFD for every byte that is in no character.
std::string_view valid_prefix(std::string_view text);
std::string replace_invalid(std::string_view text);

// Whether printable() leaves the text as it is.
bool is_printable(std::string_view text);
// A string of JSON, with its quotes. All that printable() would escape is written as \u1234, so the document
// may be shown in a terminal; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

// Columns in a terminal of printable text: 2 for East Asian wide characters, 0 for combining.
std::size_t columns(std::string_view printable_text);

// Longest prefix of at most `width` columns.
std::string_view prefix(std::string_view printable_text, std::size_t width);
// Cut to at most `width` columns; ".." marks the place.
std::string shorten(std::string_view printable_text, std::size_t width);  // at the end
std::string shorten_middle(std::string_view printable_text, std::size_t width);

std::string pad_left(std::string_view printable_text, std::size_t width);  // right-aligned
std::string pad_right(std::string_view printable_text, std::size_t width);

}  // namespace clusterprof::report::format
