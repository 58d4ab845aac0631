// SPDX-License-Identifier: BSD-3-Clause
// Source files, and the lines of one of them.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class Sources final : public SourceView {
 public:
  explicit Sources(const Run& run) : run_(run) {
    for (std::uint32_t file = 0; file < run.data.sources.size(); ++file) {
      double self_s = 0;
      for (const PageLine& line : run.data.lines)
        if (line.file == file && line.row < run.analysis.lines.size())
          self_s += run.analysis.lines[line.row].active_self_s;
      file_self_s_.push_back(self_s);
    }
  }

  std::string title() const override {
    return file_ ? "Source  " + printable(run_.data.sources[*file_].file) : "Source";
  }
  std::string keys() const override { return file_ ? "n p next hot line  Left files" : "Enter open"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    if (!file_) {
      for (std::uint32_t file = 0; file < run_.data.sources.size(); ++file)
        if (matches(printable(run_.data.sources[file].file), filter)) items_.push_back(file);
      return;
    }
    for (std::uint32_t at = 0; at < lines_.size(); ++at)
      if (matches(lines_[at].text, filter)) items_.push_back(at);
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t) const override {
    if (!file_) return {{cell("self", 10) + cell("%") + "file, of all ranks", Style::kDim}};
    const PageSourceFile& source = run_.data.sources[*file_];
    return {{cell("self", 10) + cell("total", 10) + cell("line") +
                 (source.text ? "" : "(" + printable(source.why_not) + ")"),
             Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    if (!file_) {
      const std::uint32_t file = items_[item];
      const double whole_s = run_.analysis.sampled_s - run_.analysis.helper_idle_s;
      return {{cell(seconds(file_self_s_[file]), 10) +
                   cell(fmt::format("{:.1f}", whole_s > 0 ? 100 * file_self_s_[file] / whole_s : 0.0)),
               Style::kPlain},
              {shorten_middle(printable(run_.data.sources[file].file), rest_of(columns, 18)), Style::kPlain}};
    }
    const Line& line = lines_[items_[item]];
    const bool hot = line.self_s > 0.02 * file_self_s_[*file_];
    const std::string times = line.total_s > 0
                                  ? cell(seconds(line.self_s), 10) + cell(seconds(line.total_s), 10)
                                  : pad_left("", 20);
    return {
        {times, hot ? Style::kBad : Style::kPlain},
        {cell((2 * line.approximate_s > line.self_s ? "~" : "") + std::to_string(line.number)), Style::kDim},
        {shorten(line.text, rest_of(columns, 28)), hot ? Style::kTitle : Style::kPlain}};
  }

  ViewRequest open(std::size_t item) override {
    if (!file_) return {ViewRequest::Kind::kSource, 0, run_.data.sources[items_[item]].file, 0, {}};
    return {};
  }
  bool left(std::size_t& item) override {
    if (!file_) return false;
    item = *file_;
    file_.reset();
    return true;
  }
  bool letter(std::string_view text, std::size_t& item) override {
    if (!file_ || (text != "n" && text != "p")) return false;
    const std::ptrdiff_t step = text == "n" ? 1 : -1;
    for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(item) + step;
         at >= 0 && at < static_cast<std::ptrdiff_t>(items_.size()); at += step) {
      if (lines_[items_[static_cast<std::size_t>(at)]].self_s <= 0) continue;
      item = static_cast<std::size_t>(at);
      break;
    }
    return false;
  }

  bool show(std::string_view file, std::uint32_t number, std::size_t& item) override {
    const auto& sources = run_.data.sources;
    const auto found = std::find_if(sources.begin(), sources.end(),
                                    [&](const PageSourceFile& source) { return source.file == file; });
    if (found == sources.end()) return false;
    file_ = static_cast<std::uint32_t>(found - sources.begin());
    read_lines(*found);
    refresh({});
    item = 0;
    for (std::size_t at = 0; at < lines_.size(); ++at) {
      if (number != 0 ? lines_[at].number <= number : lines_[at].self_s > lines_[item].self_s) item = at;
    }
    return true;
  }

 private:
  struct Line {
    std::uint32_t number = 0;
    double self_s = 0, total_s = 0, approximate_s = 0;  // the last: LineRow::is_approximate
    std::string text;                                   // printable
  };

  void read_lines(const PageSourceFile& source) {
    lines_.clear();
    if (source.text) {
      const std::string& text = *source.text;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string shown;
        for (const char c : text.substr(at, end - at)) {
          if (c == '\t') {
            shown.append(8 - shown.size() % 8, ' ');
          } else if (c != '\r') {
            shown += c;
          }
        }
        lines_.push_back({static_cast<std::uint32_t>(lines_.size() + 1), 0, 0, 0, printable(shown)});
        at = end + 1;
      }
    }
    std::vector<Line> without_text;
    for (const PageLine& line : run_.data.lines) {
      if (line.file != *file_ || line.row >= run_.analysis.lines.size()) continue;
      const LineRow& row = run_.analysis.lines[line.row];
      if (row.line == 0) continue;
      if (row.line <= lines_.size() && source.text) {
        Line& known = lines_[row.line - 1];
        known.self_s += row.active_self_s;
        if (row.is_approximate()) known.approximate_s += row.active_self_s;
        known.total_s = std::max(known.total_s, row.active_total_s);
      } else {
        without_text.push_back({row.line, row.active_self_s, row.active_total_s,
                                row.is_approximate() ? row.active_self_s : 0,
                                function_label(row.function, shard::FrameKind::kNative)});
      }
    }
    std::stable_sort(without_text.begin(), without_text.end(),
                     [](const Line& a, const Line& b) { return a.number < b.number; });
    lines_.insert(lines_.end(), std::make_move_iterator(without_text.begin()),
                  std::make_move_iterator(without_text.end()));
  }

  const Run& run_;
  std::vector<double> file_self_s_;
  std::optional<std::uint32_t> file_;
  std::vector<Line> lines_;
  std::vector<std::uint32_t> items_;
};

}  // namespace

std::unique_ptr<SourceView> source_view(const Run& run) { return std::make_unique<Sources>(run); }

}  // namespace clusterprof::report::tui
