// SPDX-License-Identifier: BSD-3-Clause
// The lines of a text report: columns, colours, bars. All text is made printable here, so that no name from a
// profile reaches the terminal as it is.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report::text {

// The styles of categories are in the order of shard::Category.
enum class Style {
  kPlain,
  kTitle,
  kDim,
  kBad,
  kWarning,
  kGood,
  kPython,
  kNative,
  kSystem,
  kMpi,
  kIo,
  kIdle,
  kRunnable
};

// How a style looks in a terminal, in reports and in the browser alike. Colours have the numbers that
// terminals know them by.
enum class Colour { kNone = 0, kRed = 1, kGreen, kYellow, kBlue, kMagenta, kCyan };
struct Look {
  Colour colour = Colour::kNone;  // the terminal's own
  bool bold = false, dim = false;
};
Look look_of(Style style);

struct Span {
  std::string text;
  Style style = Style::kPlain;
};

inline constexpr std::size_t kUsualColumns = 80;  // of a terminal, and so of a page

class Page {
 public:
  Page(std::size_t width, bool colour) : width_(width), colour_(colour) {}

  // Cut at the page's width.
  void line(const std::vector<Span>& spans);
  void line(std::string_view text, Style style = Style::kPlain) { line({{std::string(text), style}}); }
  void blank() { out_ += '\n'; }
  // A title on the left and a remark on the right, after an empty line.
  void section(std::string_view title, std::string_view remark = {});
  // Broken at blanks; `first` stands before the first line, as many blanks before the others.
  void paragraph(const Span& first, std::string_view text);

  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::size_t width_;
  bool colour_;
  std::string out_;
};

// Columns as wide as their content, two blanks between. The last column takes what is left of
// the page and is cut there.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
    bool optional = false;  // left out where the last column would have too little room, the rightmost first
    std::size_t most = 24;  // columns of the page, if it is aligned to the left and not the last one
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(std::vector<std::string> cells, Style style = Style::kPlain);
  // Columns left for the last column once all rows are in place.
  [[nodiscard]] std::size_t room(std::size_t page_width) const;
  // Columns left for the first one beside all others.
  [[nodiscard]] std::size_t room_of_first(std::size_t page_width) const;
  // Prints it. Returns the columns that there was room for.
  std::vector<bool> print(Page& page) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Style style;
  };
  [[nodiscard]] std::vector<std::size_t> widths() const;
  // Which columns there is room for.
  [[nodiscard]] std::vector<bool> shown(std::size_t page_width, const std::vector<std::size_t>& widths) const;
  [[nodiscard]] std::size_t room(std::size_t page_width, const std::vector<std::size_t>& widths,
                                 const std::vector<bool>& shown) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// MPI last: the boundary before it shows who works longer.
inline constexpr std::array<std::size_t, shard::kCategories> kBarOrder = {0, 1, 2, 4, 5, 6, 3};

Style category_style(std::size_t category);
Style severity_style(Severity severity);
// One character for a category in stacked bars.
char category_letter(std::size_t category);

// `share` (0..1) of `width` columns.
std::string bar(double share, std::size_t width);
// A rank's categories side by side in kBarOrder, `width` columns for `whole_s`; the rest is blank.
std::vector<Span> stacked_bar(const OptionalCategorySeconds& categories, double whole_s, std::size_t width);

}  // namespace clusterprof::report::text
