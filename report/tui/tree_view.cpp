// SPDX-License-Identifier: BSD-3-Clause
// The call tree, a level at a time.
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

class TreeView final : public View {
 public:
  explicit TreeView(const Run& run) : run_(run) {
    const std::size_t paths = run.data.paths.size();
    open_.assign(paths, false);
    children_.resize(paths);
    for (std::uint32_t path = 1; path < paths; ++path) children_[run.data.paths[path].parent].push_back(path);
    if (paths > 0) expand_hottest(0);
  }

  std::string title() const override { return "Call tree"; }
  std::string keys() const override {
    return "Right open  Left close  e open the hottest  c close all  s sort";
  }

  void refresh(std::string_view filter) override {
    items_.clear();
    hits_.clear();
    if (!filter.empty()) find(filter);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> stack;  // path, depth
    const auto push_children = [&](std::uint32_t path, std::uint32_t depth) {
      std::vector<std::uint32_t> children = children_[path];
      std::stable_sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (sort_ == kByName) return name(a) < name(b);
        return sort_ == kBySelf ? run_.time.self_s[a] > run_.time.self_s[b]
                                : run_.time.total_s[a] > run_.time.total_s[b];
      });
      for (auto child = children.rbegin(); child != children.rend(); ++child)
        if (run_.time.total_s[*child] > 0 && (filter.empty() || hits_[*child]))
          stack.emplace_back(*child, depth);
    };
    if (!open_.empty()) push_children(0, 0);
    while (!stack.empty()) {
      const auto [path, depth] = stack.back();
      stack.pop_back();
      items_.push_back({path, depth});
      if (open_[path] || (!filter.empty() && hits_[path] == kAbove)) push_children(path, depth + 1);
    }
    scale_ = TimeScale(run_.time.all_s());
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t) const override {
    const auto mark = [&](std::string_view title, int sort) {
      return cell(fmt::format("{}{}", sort_ == sort ? "v" : "", title));
    };
    return {{mark("total", kByTotal) + cell("%", 6) + mark("self", kBySelf) +
                 fmt::format("{}call path, times in {}", sort_ == kByName ? "v" : "", scale_.unit()),
             Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const auto [path, depth] = items_[item];
    const double total_s = run_.time.total_s[path];
    const std::string numbers =
        time_cell(scale_, total_s) + cell(run_.share(total_s), 6) + time_cell(scale_, run_.time.self_s[path]);
    // Deep paths keep room for a name: the first levels lose their indentation.
    const std::size_t most = rest_of(columns, format::columns(numbers) + 30) / 2;
    const std::size_t indent = std::min<std::size_t>(depth, most) * 2;
    const bool has_children = std::any_of(children_[path].begin(), children_[path].end(),
                                          [&](std::uint32_t child) { return run_.time.total_s[child] > 0; });
    const char* sign = !has_children ? "  " : open_[path] ? "- " : "+ ";
    Spans spans{{numbers, Style::kPlain}, {std::string(indent, ' ') + sign, Style::kDim}};
    const std::size_t room = rest_of(columns, format::columns(numbers) + indent + 2);
    const std::uint32_t frame = run_.data.paths[path].frame;
    if (run_.data.paths[path].others || frame == shard::kNone) {
      spans.push_back({shorten("(smaller call paths)", room), Style::kDim});
      return spans;
    }
    const PageFrame& of = run_.data.frames[frame];
    if (of.kind == shard::FrameKind::kRegion) {
      spans.push_back({shorten_middle("region " + printable(of.name), room), kind_style(of.kind)});
      return spans;
    }
    spans.push_back(
        {name_and_place(function_label(of.name, of.kind), run_.names.place(of.file, of.line), room),
         kind_style(of.kind)});
    return spans;
  }

  ViewRequest open(std::size_t item) override {
    const std::uint32_t frame = run_.data.paths[items_[item].path].frame;
    if (frame == shard::kNone || run_.data.frames[frame].function == shard::kNone) return {};
    return {ViewRequest::Kind::kFunction, run_.data.frames[frame].function, {}, 0, {}};
  }
  bool right(std::size_t& item) override {
    const std::uint32_t path = items_[item].path;
    if (children_[path].empty()) return false;
    if (open_[path]) {
      if (item + 1 < items_.size()) ++item;
      return false;
    }
    open_[path] = true;
    return true;
  }
  bool left(std::size_t& item) override {
    const std::uint32_t path = items_[item].path;
    if (open_[path]) {
      open_[path] = false;
      return true;
    }
    for (std::size_t above = item; above-- > 0;) {
      if (items_[above].path != run_.data.paths[path].parent) continue;
      item = above;
      break;
    }
    return false;
  }
  bool letter(std::string_view text, std::size_t& item) override {
    if (text == "e") {
      if (!items_.empty()) expand_hottest(items_[item].path);
    } else if (text == "c") {
      open_.assign(open_.size(), false);
      item = 0;
    } else if (text == "s") {
      sort_ = (sort_ + 1) % kSorts;
    } else {
      return false;
    }
    return true;
  }

 private:
  enum { kByTotal, kBySelf, kByName, kSorts };
  enum Hit : std::uint8_t { kNoHit, kItself, kAbove };
  struct Row {
    std::uint32_t path, depth;
  };

  std::string_view name(std::uint32_t path) const {
    const std::uint32_t frame = run_.data.paths[path].frame;
    return frame == shard::kNone ? std::string_view() : std::string_view(run_.data.frames[frame].name);
  }

  // Opens the child with most time, and so on, as long as it has half of its parent's time.
  void expand_hottest(std::uint32_t path) {
    for (;;) {
      open_[path] = true;
      const auto& children = children_[path];
      const auto hottest = std::max_element(
          children.begin(), children.end(),
          [&](std::uint32_t a, std::uint32_t b) { return run_.time.total_s[a] < run_.time.total_s[b]; });
      if (hottest == children.end() || run_.time.total_s[*hottest] < 0.5 * run_.time.total_s[path]) return;
      path = *hottest;
    }
  }

  void find(std::string_view filter) {
    std::vector<bool> frame_hit(run_.data.frames.size());
    for (std::size_t frame = 0; frame < frame_hit.size(); ++frame) {
      const PageFrame& of = run_.data.frames[frame];
      frame_hit[frame] = matches(printable(of.name), filter) || matches(printable(of.file), filter);
    }
    hits_.assign(run_.data.paths.size(), kNoHit);
    for (std::size_t path = run_.data.paths.size(); path-- > 1;) {
      const std::uint32_t frame = run_.data.paths[path].frame;
      if (hits_[path] == kNoHit && frame != shard::kNone && frame_hit[frame]) hits_[path] = kItself;
      if (hits_[path] != kNoHit) hits_[run_.data.paths[path].parent] = kAbove;
    }
    // What a function that was found calls can be looked at, too.
    for (std::size_t path = 1; path < hits_.size(); ++path) {
      const std::uint32_t parent = run_.data.paths[path].parent;
      if (hits_[path] == kNoHit && parent != 0 && hits_[parent] != kNoHit && open_[parent])
        hits_[path] = kItself;
    }
  }

  const Run& run_;
  std::vector<std::vector<std::uint32_t>> children_;
  std::vector<bool> open_;
  std::vector<std::uint8_t> hits_;
  std::vector<Row> items_;
  int sort_ = kByTotal;
  TimeScale scale_{1};
};

}  // namespace

std::unique_ptr<View> tree_view(const Run& run) { return std::make_unique<TreeView>(run); }

}  // namespace clusterprof::report::tui
