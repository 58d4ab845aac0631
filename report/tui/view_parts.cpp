// SPDX-License-Identifier: BSD-3-Clause
#include "report/tui/view_parts.hpp"

#include <utility>

#include "report/format/characters.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

std::string cell(std::string_view text, std::size_t width) {
  return pad_left(shorten(text, width - 1), width - 1) + " ";
}

std::string time_cell(const TimeScale& scale, double value_s) { return cell(scale(value_s)); }
std::string time_cell(const TimeScale& scale, const Seconds& value) {
  return cell(value ? scale(*value) : "-");
}

std::size_t rest_of(std::size_t columns, std::size_t used) { return columns > used + 8 ? columns - used : 8; }

Style kind_style(shard::FrameKind kind) {
  switch (kind) {
    case shard::FrameKind::kPython:
      return Style::kPython;
    case shard::FrameKind::kMpi:
      return Style::kMpi;
    case shard::FrameKind::kKernel:
      return Style::kSystem;
    case shard::FrameKind::kRegion:
      return Style::kTitle;
    case shard::FrameKind::kNative:
      break;
  }
  return Style::kPlain;
}

Spans bar_spans(double share, std::size_t width, Style style) {
  return {{pad_right(bar(std::clamp(share, 0.0, 1.0), width), width) + " ", style}};
}

void append(Spans& spans, Spans more) {
  for (Span& span : more) spans.push_back(std::move(span));
}

Spans fitted(Spans spans, std::size_t width, bool padded) {
  std::size_t used = 0;
  for (Span& span : spans) {
    span.text = shorten(printable(span.text), width - used);
    used += columns(span.text);
  }
  if (padded && used < width) spans.push_back({std::string(width - used, ' '), Style::kPlain});
  return spans;
}

}  // namespace clusterprof::report::tui
