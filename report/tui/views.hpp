// SPDX-License-Identifier: BSD-3-Clause
// The views of the terminal browser. Each is a list of items; only those on the screen are rendered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"
#include "report/page/page_data.hpp"
#include "report/text/table.hpp"
#include "report/tui/selected_time.hpp"

namespace clusterprof::report::tui {

using Spans = std::vector<text::Span>;

// What all views look at.
struct Run {
  const Analysis& analysis;
  const PageData& data;
  bool unicode;
  format::ShortPaths names;
  std::optional<std::uint32_t> group;  // of ranks that was chosen; empty: all
  std::vector<std::int32_t> chosen;    // its ranks, ascending
  std::string group_name;              // "rank 17", "ranks 16-31"
  SelectedTime time;

  Run(const Analysis& analysis_, const PageData& data_, bool unicode_);
  void choose(std::optional<std::uint32_t> group_);
  [[nodiscard]] bool is_chosen(std::int32_t rank) const;
  [[nodiscard]] std::string share(double part_s) const;  // of all the chosen time, "12.3"
  [[nodiscard]] std::string label(const PageFunction& function, std::size_t width) const;
};

// What opening an item asks the browser for.
struct ViewRequest {
  enum class Kind { kNothing, kFunction, kSource, kRanks };
  Kind kind = Kind::kNothing;
  std::uint32_t function = 0;             // kFunction
  std::string file;                       // kSource
  std::uint32_t line = 0;                 // kSource
  std::optional<std::uint32_t> rank_row;  // kRanks: row of Analysis::ranks
};

class View {
 public:
  virtual ~View() = default;
  [[nodiscard]] virtual std::string title() const = 0;
  // Keys of its own, for the last line of the screen: "s sort  r reverse".
  [[nodiscard]] virtual std::string keys() const { return {}; }
  // Called before the other functions when the width of the screen changes, for views whose items depend on
  // it.
  virtual void lay_out(std::size_t columns) { static_cast<void>(columns); }
  // Called after a change of the selection or the filter, or after a key.
  virtual void refresh(std::string_view filter) = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;
  // The line above the list; may be empty.
  [[nodiscard]] virtual Spans heading(std::size_t columns) const = 0;
  [[nodiscard]] virtual Spans render(std::size_t item, std::size_t columns) const = 0;
  [[nodiscard]] virtual bool selectable(std::size_t item) const {
    static_cast<void>(item);
    return true;
  }
  virtual ViewRequest open(std::size_t item) {
    static_cast<void>(item);
    return {};
  }
  // Left, right and letters: true when refresh() is needed. `item`: where the cursor is; may be moved.
  virtual bool right(std::size_t& item) {
    static_cast<void>(item);
    return false;
  }
  virtual bool left(std::size_t& item) {
    static_cast<void>(item);
    return false;
  }
  virtual bool letter(std::string_view text, std::size_t& item) {
    static_cast<void>(text);
    static_cast<void>(item);
    return false;
  }
};

std::unique_ptr<View> summary_view(const Run& run);
std::unique_ptr<View> hotspots_view(const Run& run);
std::unique_ptr<View> tree_view(const Run& run);
std::unique_ptr<View> ranks_view(const Run& run);
std::unique_ptr<View> comm_view(const Run& run);
std::unique_ptr<View> processes_view(const Run& run);
std::unique_ptr<View> threads_view(const Run& run);
std::unique_ptr<View> memory_view(const Run& run);  // of a run with --memory, or with labels
std::unique_ptr<View> function_view(const Run& run, std::uint32_t function);

// Files, and the lines of one of them.
class SourceView : public View {
 public:
  // False: the file is not there, and nothing changes. `item`: where the line is.
  virtual bool show(std::string_view file, std::uint32_t line, std::size_t& item) = 0;
};
std::unique_ptr<SourceView> source_view(const Run& run);

// Whether the text contains the filter, in upper or lower case. An empty filter matches every text.
bool matches(std::string_view text, std::string_view filter);

}  // namespace clusterprof::report::tui
