// SPDX-License-Identifier: BSD-3-Clause
// Cells and bars that the views of the terminal browser have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "report/format/numbers.hpp"
#include "report/text/table.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

inline constexpr std::size_t kNumber = 8;  // columns of a time or share, with a blank
inline constexpr std::size_t kBar = 10;

// Right-aligned in `width` columns, the last one a blank.
std::string cell(std::string_view text, std::size_t width = kNumber);
std::string time_cell(const format::TimeScale& scale, double value_s);
std::string time_cell(const format::TimeScale& scale, const Seconds& value);

// The columns that are left of `columns`; at least 8.
std::size_t rest_of(std::size_t columns, std::size_t used);

text::Style kind_style(shard::FrameKind kind);
Spans bar_spans(double share, std::size_t width, text::Style style);
void append(Spans& spans, Spans more);
// Made printable, cut at `width`, and padded to it where `padded`.
Spans fitted(Spans spans, std::size_t width, bool padded);

}  // namespace clusterprof::report::tui
