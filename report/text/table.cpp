// SPDX-License-Identifier: BSD-3-Clause
// Tables, bars and paragraphs of the text report, cut to the width of the terminal.
#include "report/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format/characters.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

constexpr std::string_view kIndent = "  ";
constexpr std::size_t kGap = 2;
constexpr std::size_t kLongestUnit = 4;  // " ms."
constexpr std::size_t kMinRoom = 20;     // for names in the last column of a page of that width

std::string escape_sequence(Style style) {
  const Look look = look_of(style);
  std::string codes = look.bold ? "1" : look.dim ? "2" : "";
  if (look.colour != Colour::kNone)
    codes += fmt::format("{}3{}", codes.empty() ? "" : ";", static_cast<int>(look.colour));
  return codes.empty() ? codes : fmt::format("\x1b[{}m", codes);
}

}  // namespace

Look look_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return {};
    case Style::kTitle:
      return {Colour::kNone, true, false};
    case Style::kDim:
    case Style::kIdle:
      return {Colour::kNone, false, true};
    case Style::kBad:
      return {Colour::kRed, true, false};
    case Style::kWarning:
    case Style::kIo:
      return {Colour::kYellow, false, false};
    case Style::kGood:
    case Style::kNative:
      return {Colour::kGreen, false, false};
    case Style::kPython:
      return {Colour::kBlue, false, false};
    case Style::kSystem:
      return {Colour::kMagenta, false, false};
    case Style::kMpi:
      return {Colour::kRed, false, false};
    case Style::kRunnable:
      return {Colour::kCyan, false, false};
  }
  return {};
}

void Page::line(const std::vector<Span>& spans) {
  std::vector<Span> shown;
  std::size_t left = width_;
  for (const Span& span : spans) {
    Span& copy = shown.emplace_back(Span{shorten(printable(span.text), left), span.style});
    left -= columns(copy.text);
  }
  // No blanks at the end of a line.
  while (!shown.empty()) {
    std::string& last = shown.back().text;
    last.erase(last.find_last_not_of(' ') + 1);
    if (!last.empty()) break;
    shown.pop_back();
  }
  for (const Span& span : shown) {
    const std::string escape = colour_ ? escape_sequence(span.style) : std::string();
    out_ += escape;
    out_ += span.text;
    if (!escape.empty()) out_ += "\x1b[0m";
  }
  out_ += '\n';
}

void Page::section(std::string_view title, std::string_view remark) {
  if (!out_.empty()) blank();
  const std::string left = shorten(printable(title), width_);
  const std::size_t room = width_ - columns(left);
  const std::string right = shorten(printable(remark), room > 2 ? room - 2 : 0);
  line({{left, Style::kTitle}, {pad_left("", room - columns(right)), Style::kPlain}, {right, Style::kDim}});
}

void Page::paragraph(const Span& first, std::string_view text) {
  const std::string words = printable(text);
  const std::size_t indent = columns(printable(first.text));
  const std::size_t room = width_ > indent + 10 ? width_ - indent : 10;
  Span head = first;
  std::string current;
  const auto flush = [&] {
    line({head, {current, Style::kPlain}});
    head = {std::string(indent, ' '), Style::kPlain};
    current.clear();
  };
  for (std::size_t at = 0; at < words.size();) {
    std::size_t end = std::min(words.find(' ', at), words.size());
    // A number and its unit stay together.
    if (end > at && end < words.size() && words[end - 1] >= '0' && words[end - 1] <= '9') {
      const std::size_t unit_end = std::min(words.find(' ', end + 1), words.size());
      if (unit_end - end <= kLongestUnit) end = unit_end;
    }
    const std::string word = shorten_middle(std::string_view(words).substr(at, end - at), room);
    if (!current.empty() && columns(current) + 1 + columns(word) > room) flush();
    if (!current.empty()) current += ' ';
    current += word;
    at = end + 1;
  }
  flush();
}

void Table::row(std::vector<std::string> cells, Style style) {
  for (std::string& cell : cells) cell = printable(cell);
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), style});
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> result;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = columns(columns_[c].title);
    for (const Row& row : rows_) width = std::max(width, columns(row.cells[c]));
    const bool bounded = columns_[c].align == Align::kLeft && c + 1 < columns_.size();
    result.push_back(bounded ? std::min(width, columns_[c].most) : width);
  }
  return result;
}

std::vector<bool> Table::shown(std::size_t page_width, const std::vector<std::size_t>& widths) const {
  std::vector<bool> result(columns_.size(), true);
  const bool named = !columns_.empty() && columns_.back().align == Align::kLeft;
  const std::size_t least = named              ? page_width < kUsualColumns ? page_width / 2 : kMinRoom
                            : columns_.empty() ? 0
                                               : widths.back();
  for (std::size_t c = columns_.size(); c-- > 0 && room(page_width, widths, result) < least;)
    if (columns_[c].optional) result[c] = false;
  return result;
}

std::size_t Table::room(std::size_t page_width, const std::vector<std::size_t>& widths,
                        const std::vector<bool>& shown) const {
  std::size_t used = kIndent.size();
  for (std::size_t c = 0; c + 1 < widths.size(); ++c)
    if (shown[c]) used += widths[c] + kGap;
  return page_width > used ? page_width - used : 0;
}

std::size_t Table::room(std::size_t page_width) const {
  const std::vector<std::size_t> all = widths();
  return room(page_width, all, shown(page_width, all));
}

std::size_t Table::room_of_first(std::size_t page_width) const {
  const std::vector<std::size_t> all = widths();
  std::size_t used = kIndent.size();
  for (std::size_t c = 1; c < all.size(); ++c) used += kGap + all[c];
  return page_width > used ? page_width - used : 0;
}

std::vector<bool> Table::print(Page& page) const {
  std::vector<std::size_t> width = widths();
  const std::vector<bool> is_shown = shown(page.width(), width);
  width.back() = std::min(width.back(), room(page.width(), width, is_shown));
  const auto print_row = [&](const std::vector<std::string>& cells, Style style) {
    std::string text(kIndent);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (!is_shown[c]) continue;
      const std::string cell = shorten_middle(cells[c], width[c]);
      text += columns_[c].align == Align::kLeft ? pad_right(cell, width[c]) : pad_left(cell, width[c]);
      if (c + 1 < cells.size()) text.append(kGap, ' ');
    }
    page.line(text, style);
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  print_row(titles, Style::kDim);
  for (const Row& row : rows_) print_row(row.cells, row.style);
  return is_shown;
}

Style category_style(std::size_t category) {
  return static_cast<Style>(static_cast<std::size_t>(Style::kPython) + category);
}

Style severity_style(Severity severity) {
  switch (severity) {
    case Severity::kHigh:
      return Style::kBad;
    case Severity::kMedium:
      return Style::kWarning;
    case Severity::kLow:
      return Style::kPlain;
    case Severity::kInfo:
      return Style::kDim;
  }
  return Style::kPlain;
}

char category_letter(std::size_t category) { return "PNSMI.R"[category]; }

// Nothing of what is no number, as in a damaged file.
static double bounded(double share) { return share > 0 ? std::min(share, 1.0) : 0; }

std::string bar(double share, std::size_t width) {
  const double filled = std::round(bounded(share) * static_cast<double>(width));
  return std::string(static_cast<std::size_t>(filled), '#');
}

std::vector<Span> stacked_bar(const OptionalCategorySeconds& categories, double whole_s, std::size_t width) {
  std::vector<Span> spans;
  double sum = 0;
  std::size_t at = 0;
  for (const std::size_t c : kBarOrder) {
    sum += categories[c].value_or(0);
    const double share = whole_s > 0 ? bounded(sum / whole_s) : 0;
    const auto end = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
    if (end > at) spans.push_back({std::string(end - at, category_letter(c)), category_style(c)});
    at = std::max(at, end);
  }
  spans.push_back({std::string(width - at, ' '), Style::kPlain});
  return spans;
}

}  // namespace clusterprof::report::text
