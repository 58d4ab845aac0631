// SPDX-License-Identifier: BSD-3-Clause
// The views of the terminal browser: summary, hotspots, call tree, ranks, communication, source and one
// function.
#include "report/tui/views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "report/report.hpp"

namespace clusterprof::report::tui {

using namespace text;

namespace {

constexpr std::size_t kNumber = 8;  // columns of a time or share, with a blank
constexpr std::size_t kBar = 10;

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::string cell(std::string_view text, std::size_t width = kNumber) {
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

// A list of texts made beforehand.
struct Item {
  Spans spans;
  bool selectable = false;
  ViewRequest request;
};

}  // namespace

bool matches(std::string_view text, std::string_view filter) {
  return filter.empty() ||
         std::search(text.begin(), text.end(), filter.begin(), filter.end(), same_letter) != text.end();
}

Run::Run(const Analysis& analysis_, const PageData& data_, bool unicode_)
    : analysis(analysis_), data(data_), unicode(unicode_), names(analysis_), time(selected_time(data_, {})) {}

void Run::choose(std::optional<std::uint32_t> group_) {
  group = group_;
  group_name.clear();
  time = selected_time(data, group);
  if (!group) return;
  std::vector<std::int32_t> ranks;
  for (std::size_t row = 0; row < data.group_of_rank.size() && row < analysis.ranks.size(); ++row)
    if (data.group_of_rank[row] == *group) ranks.push_back(analysis.ranks[row].rank);
  group_name = (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, 3);
}

std::string Run::share(double part_s) const {
  const double whole_s = time.all_s();
  return fmt::format("{:.1f}", whole_s > 0 ? 100 * part_s / whole_s : 0.0);
}

std::string Run::label(const PageFunction& function, std::size_t width) const {
  const std::string name = function_label(function.name, function.kind);
  return name_and_place(name, names.place(function.file, function.line), width);
}

namespace {

// --- summary -----------------------------------------------------------------------------------

class SummaryView final : public View {
 public:
  explicit SummaryView(const Run& run) : run_(run) {}

  std::string title() const override { return "Summary"; }
  void lay_out(std::size_t columns) override {
    if (columns == columns_) return;
    columns_ = columns;
    make_lines();
  }
  void refresh(std::string_view filter) override {
    filter_ = filter;
    make_lines();
  }
  std::size_t size() const override { return lines_.size(); }
  Spans heading(std::size_t) const override { return {}; }
  Spans render(std::size_t item, std::size_t columns) const override {
    return {{shorten(lines_[item], columns),
             !lines_[item].empty() && lines_[item][0] != ' ' ? Style::kTitle : Style::kPlain}};
  }

 private:
  void make_lines() {
    TextOptions options;
    options.width = static_cast<int>(columns_);
    options.sections = {"summary", "efficiency", "quality"};
    options.unicode = run_.unicode;
    const std::string text = render_text(run_.analysis, options);
    lines_.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (matches(line, filter_)) lines_.push_back(std::move(line));
      at = end + 1;
    }
  }

  const Run& run_;
  std::string filter_;
  std::size_t columns_ = 80;
  std::vector<std::string> lines_;
};

// --- hotspots ----------------------------------------------------------------------------------

class HotspotsView final : public View {
 public:
  explicit HotspotsView(const Run& run) : run_(run) {}

  std::string title() const override { return "Hotspots"; }
  std::string keys() const override { return "s sort  r reverse  Enter callers, callees, ranks"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    for (std::uint32_t f = 0; f < run_.data.functions.size(); ++f) {
      const PageFunction& function = run_.data.functions[f];
      if (run_.time.functions[f].total_s <= 0) continue;
      if (matches(printable(function.name), filter) || matches(printable(function.file), filter) ||
          matches(printable(function.module), filter))
        items_.push_back(f);
    }
    std::stable_sort(items_.begin(), items_.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (sort_ == kByName) return reversed_ ? name(a) > name(b) : name(a) < name(b);
      return reversed_ ? key(a) < key(b) : key(a) > key(b);
    });
    double most_s = 0;
    for (const FunctionTime& time : run_.time.functions) most_s = std::max(most_s, time.total_s);
    scale_ = TimeScale(most_s);
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t columns) const override {
    const auto mark = [&](const char* title, int sort) {
      return cell(fmt::format("{}{}", sort_ == sort ? (reversed_ ? "^" : "v") : "", title));
    };
    std::string line = mark(fmt::format("self {}", scale_.unit()).c_str(), kBySelf) + cell("%", 6) +
                       mark("total", kByTotal) + cell("%", 6) + mark("imbal.", kByImbalance);
    if (columns >= 90) line += pad_right("", kBar + 1);
    return {{line + (sort_ == kByName ? (reversed_ ? "^function" : "vfunction") : "function"), Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const std::uint32_t f = items_[item];
    const FunctionTime& time = run_.time.functions[f];
    const FunctionRow* row = row_of(f);
    const std::string numbers =
        time_cell(scale_, time.self_s) + cell(run_.share(time.self_s), 6) + time_cell(scale_, time.total_s) +
        cell(run_.share(time.total_s), 6) +
        cell(row != nullptr && row->active_spread.mean_s > 0
                 ? fmt::format("{:.2f}", row->active_spread.max_s / row->active_spread.mean_s)
                 : "-");
    Spans spans{{numbers, Style::kPlain}};
    std::size_t used = text::columns(numbers);
    if (columns >= 90) {
      append(spans, bar_spans(run_.time.all_s() > 0 ? time.self_s / run_.time.all_s() : 0, kBar,
                              kind_style(run_.data.functions[f].kind)));
      used += kBar + 1;
    }
    spans.push_back({run_.label(run_.data.functions[f], rest_of(columns, used)),
                     kind_style(run_.data.functions[f].kind)});
    return spans;
  }

  ViewRequest open(std::size_t item) override {
    return {ViewRequest::Kind::kFunction, items_[item], {}, 0, {}};
  }
  bool letter(std::string_view text, std::size_t& item) override {
    if (text == "s") sort_ = (sort_ + 1) % kSorts;
    if (text == "r") reversed_ = !reversed_;
    if (text != "s" && text != "r") return false;
    item = 0;
    return true;
  }

 private:
  enum { kBySelf, kByTotal, kByImbalance, kByName, kSorts };

  const FunctionRow* row_of(std::uint32_t f) const {
    const std::uint32_t row = run_.data.functions[f].row;
    return row < run_.analysis.functions.size() ? &run_.analysis.functions[row] : nullptr;
  }
  const std::string& name(std::uint32_t f) const { return run_.data.functions[f].name; }
  double key(std::uint32_t f) const {
    const FunctionTime& time = run_.time.functions[f];
    if (sort_ == kBySelf) return time.self_s;
    if (sort_ == kByTotal) return time.total_s;
    // What balance would save comes before what is uneven and short.
    const FunctionRow* row = row_of(f);
    return row == nullptr ? 0 : row->active_spread.max_s - row->active_spread.mean_s;
  }

  const Run& run_;
  std::vector<std::uint32_t> items_;
  int sort_ = kBySelf;
  bool reversed_ = false;
  TimeScale scale_{1};
};

// --- tree --------------------------------------------------------------------------------------

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
    const std::size_t most = rest_of(columns, text::columns(numbers) + 30) / 2;
    const std::size_t indent = std::min<std::size_t>(depth, most) * 2;
    const bool has_children = std::any_of(children_[path].begin(), children_[path].end(),
                                          [&](std::uint32_t child) { return run_.time.total_s[child] > 0; });
    const char* sign = !has_children ? "  " : open_[path] ? "- " : "+ ";
    Spans spans{{numbers, Style::kPlain}, {std::string(indent, ' ') + sign, Style::kDim}};
    const std::size_t room = rest_of(columns, text::columns(numbers) + indent + 2);
    const std::uint32_t frame = run_.data.paths[path].frame;
    if (run_.data.paths[path].others || frame == shard::kNone) {
      spans.push_back({shorten("(smaller call paths)", room), Style::kDim});
      return spans;
    }
    const PageFrame& of = run_.data.frames[frame];
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
  struct SourceLocation {
    std::uint32_t path, depth;
  };

  std::string_view name(std::uint32_t path) const {
    const std::uint32_t frame = run_.data.paths[path].frame;
    return frame == shard::kNone ? std::string_view() : std::string_view(run_.data.frames[frame].name);
  }

  // Down the child with most of the time for as long as it has most of its parent's.
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
  std::vector<SourceLocation> items_;
  int sort_ = kByTotal;
  TimeScale scale_{1};
};

// --- ranks -------------------------------------------------------------------------------------

class RanksView final : public View {
 public:
  explicit RanksView(const Run& run) : run_(run) {}

  std::string title() const override { return "Ranks"; }
  std::string keys() const override { return "s sort  r reverse  Enter look at this rank alone"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    double most_s = 0;
    for (std::uint32_t row = 0; row < run_.analysis.ranks.size(); ++row) {
      const RankInfo& rank = run_.analysis.ranks[row];
      most_s = std::max(most_s, rank.elapsed_s);
      if (filter == std::to_string(rank.rank) || matches(node(rank), filter)) items_.push_back(row);
    }
    scale_ = TimeScale(most_s);
    if (sort_ != kByRank || reversed_) {
      std::stable_sort(items_.begin(), items_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return reversed_ ? key(a) < key(b) : key(a) > key(b);
      });
    }
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t columns) const override {
    const auto mark = [&](std::string_view title, int sort) {
      return cell(fmt::format("{}{}", sort_ == sort ? (reversed_ ? "^" : "v") : "", title));
    };
    return {{mark("rank", kByRank) + mark(fmt::format("ran {}", scale_.unit()), kByElapsed) +
                 mark("useful", kByUseful) + mark("MPI wt.", kByWait) + mark("memory", kByMemory) +
                 pad_right("categories", bar_width(columns)) + " node",
             Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const RankInfo& rank = run_.analysis.ranks[items_[item]];
    Spans spans{
        {cell(std::to_string(rank.rank)) + time_cell(scale_, rank.elapsed_s) +
             time_cell(scale_, rank.useful_s) + time_cell(scale_, rank.mpi_wait_s) +
             cell(rank.max_rss_bytes ? bytes(static_cast<double>(*rank.max_rss_bytes)) : "-", kNumber + 1)
                 .substr(1),
         rank.lost ? Style::kBad : Style::kPlain}};
    append(spans, stacked_bar(rank.category_s, rank.recorded_s, bar_width(columns)));
    spans.push_back({" " + shorten(rank.lost ? "lost, " + node(rank) : node(rank), kNode), Style::kDim});
    return spans;
  }

  ViewRequest open(std::size_t item) override { return {ViewRequest::Kind::kRanks, 0, {}, 0, items_[item]}; }
  bool letter(std::string_view text, std::size_t& item) override {
    if (text == "s") sort_ = (sort_ + 1) % kSorts;
    if (text == "r") reversed_ = !reversed_;
    if (text != "s" && text != "r") return false;
    item = 0;
    return true;
  }

 private:
  enum { kByRank, kByElapsed, kByUseful, kByWait, kByMemory, kSorts };
  static constexpr std::size_t kNode = 12;
  static std::size_t bar_width(std::size_t columns) { return rest_of(columns, 5 * kNumber + kNode + 1); }

  std::string node(const RankInfo& rank) const {
    return rank.node < run_.analysis.nodes.size() ? printable(run_.analysis.nodes[rank.node].name) : "";
  }
  double key(std::uint32_t row) const {
    const RankInfo& rank = run_.analysis.ranks[row];
    switch (sort_) {
      case kByElapsed:
        return rank.elapsed_s;
      case kByUseful:
        return rank.useful_s.value_or(-1);
      case kByWait:
        return rank.mpi_wait_s.value_or(-1);
      case kByMemory:
        return rank.max_rss_bytes ? static_cast<double>(*rank.max_rss_bytes) : -1;
      default:
        return -rank.rank;
    }
  }

  const Run& run_;
  std::vector<std::uint32_t> items_;
  int sort_ = kByRank;
  bool reversed_ = false;
  TimeScale scale_{1};
};

// --- lists made of texts -----------------------------------------------------------------------

class ListView : public View {
 public:
  explicit ListView(const Run& run) : run_(run) {}
  std::size_t size() const override { return items_.size(); }
  Spans heading(std::size_t) const override { return {}; }
  Spans render(std::size_t item, std::size_t) const override { return items_[item].spans; }
  bool selectable(std::size_t item) const override { return items_[item].selectable; }
  ViewRequest open(std::size_t item) override { return items_[item].request; }

 protected:
  void blank_and_title(std::string_view title, std::string_view remark = {}) {
    if (!items_.empty()) items_.push_back({});
    items_.push_back({{{std::string(title), Style::kTitle},
                       {remark.empty() ? "" : "  " + std::string(remark), Style::kDim}},
                      false,
                      {}});
  }
  void note(std::string_view text) {
    items_.push_back({{{"  " + std::string(text), Style::kDim}}, false, {}});
  }
  void row(std::string numbers, const text::Span& label, ViewRequest request, std::string remark = {}) {
    items_.push_back({{{std::move(numbers), Style::kPlain}, label, {std::move(remark), Style::kDim}},
                      true,
                      std::move(request)});
  }

  const Run& run_;
  std::vector<Item> items_;
};

// --- communication -----------------------------------------------------------------------------

class CommView final : public ListView {
 public:
  using ListView::ListView;
  std::string title() const override { return "Communication"; }
  std::string keys() const override { return "Enter source  (of all ranks)"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    const Analysis& a = run_.analysis;
    if (a.mpi_calls.empty()) {
      note(a.mpi_watched ? "No MPI function was called." : "MPI was not looked at.");
      return;
    }
    const TimeScale scale(a.mpi_calls.front().time_s);
    blank_and_title("Calls", "of all ranks");
    items_.push_back({{{cell(fmt::format("time {}", scale.unit())) + cell("waiting") + cell("count") +
                            cell("sent", 10) + "call site",
                        Style::kDim}},
                      false,
                      {}});
    for (const MpiCallRow& call : a.mpi_calls) {
      const std::string label = describe(call, run_.names);
      if (!matches(label, filter)) continue;
      row(time_cell(scale, call.time_s) + time_cell(scale, call.wait_s) +
              cell(count(static_cast<double>(call.count))) +
              cell(bytes(static_cast<double>(call.sent_bytes)), 10),
          {label, Style::kMpi}, source_of(call.file, call.line));
    }
    root_causes(filter);
    delays(filter);
    critical_path(filter);
  }

 private:
  static ViewRequest source_of(const std::string& file, std::uint32_t line) {
    return file.empty() ? ViewRequest{} : ViewRequest{ViewRequest::Kind::kSource, 0, file, line, {}};
  }
  std::string place(LocationIndex index) const {
    return index < run_.analysis.places.size() ? describe(run_.analysis.places[index], run_.names)
                                               : "code that is not known";
  }
  ViewRequest source_of(LocationIndex index) const {
    if (index >= run_.analysis.places.size()) return {};
    return source_of(run_.analysis.places[index].file, run_.analysis.places[index].line);
  }

  void root_causes(std::string_view filter) {
    const auto& rows = run_.analysis.root_causes;
    if (rows.empty()) return;
    const TimeScale scale(rows.front().wait_s);
    blank_and_title("What all waiting goes back to",
                    fmt::format("{} of waiting, share of all ranks' time", scale.unit()));
    for (const RootCauseRow& cause : rows) {
      const std::string label = fmt::format("rank {} in {}", cause.rank, place(cause.place));
      if (!matches(label, filter)) continue;
      row(time_cell(scale, cause.wait_s) + cell(percent(cause.share), 9), {label, Style::kBad},
          source_of(cause.place),
          fmt::format("  {} {} for it", plural(cause.waiting_ranks, "rank"),
                      cause.waiting_ranks == 1 ? "waits" : "wait"));
    }
  }

  void delays(std::string_view filter) {
    const auto& rows = run_.analysis.delays;
    if (rows.empty()) return;
    const TimeScale scale(rows.front().wait_s);
    blank_and_title("Who waits for whom", fmt::format("{} of waiting", scale.unit()));
    for (const DelayRow& delay : rows) {
      const std::string who = delay.rank ? fmt::format("rank {} in {}", *delay.rank, place(delay.place))
                                         : "a rank that is not known";
      const std::string label = fmt::format("{}: {} in {} for {}", wait_kind(delay.kind),
                                            plural(delay.waiting_ranks, "rank"), place(delay.site), who);
      if (!matches(label, filter)) continue;
      row(time_cell(scale, delay.wait_s), {label, Style::kPlain}, source_of(delay.place));
    }
  }

  void critical_path(std::string_view filter) {
    const auto& rows = run_.analysis.critical_path;
    if (rows.empty()) return;
    const TimeScale scale(rows.front().time_s);
    blank_and_title("Critical path", fmt::format("{}, share", scale.unit()));
    for (const CriticalRow& part : rows) {
      const std::string label = place(part.place);
      if (!matches(label, filter)) continue;
      row(time_cell(scale, part.time_s) + cell(percent(part.share), 9), {label, Style::kPlain},
          source_of(part.place), part.max_rank >= 0 ? fmt::format("  mostly rank {}", part.max_rank) : "");
    }
  }
};

// --- one function ------------------------------------------------------------------------------

class FunctionView final : public ListView {
 public:
  FunctionView(const Run& run, std::uint32_t function) : ListView(run), function_(function) {}
  std::string title() const override { return "Function"; }
  std::string keys() const override { return "Enter go there  Esc back"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    const PageFunction& function = run_.data.functions[function_];
    const FunctionTime& time = run_.time.functions[function_];
    items_.push_back({{{function_label(function.name, function.kind), Style::kTitle}}, false, {}});
    if (!function.file.empty()) {
      const std::string at = function.line == 0 ? "" : fmt::format(":{}", function.line);
      items_.push_back({{{"  " + printable(function.file) + at, Style::kPlain}},
                        true,
                        {ViewRequest::Kind::kSource, 0, function.file, function.line, {}}});
    }
    if (!function.module.empty()) note(printable(function.module));
    note(fmt::format("self {} ({} %), total {} ({} %){}", seconds(time.self_s), run_.share(time.self_s),
                     seconds(time.total_s), run_.share(time.total_s),
                     run_.group ? ", of " + run_.group_name : ""));
    const Neighbours near = neighbours(run_.data, run_.time, function_);
    list("Called by", near.callers, time.total_s, filter);
    list("Calls", near.callees, time.total_s, filter);
    ranks(function);
  }

 private:
  static constexpr std::size_t kMostRanks = 10;

  void list(std::string_view title, const std::vector<Neighbour>& rows, double whole_s,
            std::string_view filter) {
    blank_and_title(title, "share of its total time");
    if (rows.empty()) note("nothing that was seen");
    for (const Neighbour& row : rows) {
      const bool known = row.function != shard::kNone;
      const std::string label = known ? run_.label(run_.data.functions[row.function], kAnyWidth)
                                      : std::string("(the beginning of a thread)");
      if (!matches(label, filter)) continue;
      const double share = whole_s > 0 ? row.total_s / whole_s : 0;
      Spans spans{{cell(seconds(row.total_s), 10) + cell(percent(share), 9), Style::kPlain}};
      append(spans, bar_spans(share, kBar, Style::kPlain));
      spans.push_back({label, known ? kind_style(run_.data.functions[row.function].kind) : Style::kDim});
      items_.push_back(
          {std::move(spans),
           known,
           {known ? ViewRequest::Kind::kFunction : ViewRequest::Kind::kNothing, row.function, {}, 0, {}}});
    }
  }

  void ranks(const PageFunction& function) {
    if (function.row < run_.analysis.functions.size()) {
      const RankSpread& spread = run_.analysis.functions[function.row].active_spread;
      blank_and_title("Ranks", "total time; of the whole run");
      note(fmt::format("least {}, mean {}, most {} on rank {}", seconds(spread.min_s), seconds(spread.mean_s),
                       seconds(spread.max_s), spread.max_rank));
    }
    if (function_ >= run_.data.row_functions) return;
    const std::size_t rows = run_.data.rows.size();
    const float* times = run_.data.function_row_s.data() + std::size_t{function_} * rows;
    std::vector<std::size_t> order(rows);
    for (std::size_t row = 0; row < rows; ++row) order[row] = row;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
    const double most_s = rows == 0 ? 0 : double{times[order[0]]};
    for (std::size_t i = 0; i < std::min(rows, kMostRanks); ++i) {
      const PageRow& row = run_.data.rows[order[i]];
      const std::string name = row.first_rank == row.last_rank
                                   ? fmt::format("rank {}", row.first_rank)
                                   : fmt::format("ranks {}-{}, mean", row.first_rank, row.last_rank);
      Spans spans{{cell(seconds(double{times[order[i]]}), 10), Style::kPlain}};
      append(spans, bar_spans(most_s > 0 ? double{times[order[i]]} / most_s : 0, 2 * kBar, Style::kPlain));
      spans.push_back({name, Style::kPlain});
      items_.push_back({std::move(spans), false, {}});
    }
    if (rows > kMostRanks) note(fmt::format("and {} more", rows - kMostRanks));
  }

  std::uint32_t function_;
};

// --- source ------------------------------------------------------------------------------------

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
    return {{times, hot ? Style::kBad : Style::kPlain},
            {cell(std::to_string(line.number)), Style::kDim},
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
    double self_s = 0, total_s = 0;
    std::string text;  // printable
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
        lines_.push_back({static_cast<std::uint32_t>(lines_.size() + 1), 0, 0, printable(shown)});
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
        known.total_s = std::max(known.total_s, row.active_total_s);
      } else {
        without_text.push_back({row.line, row.active_self_s, row.active_total_s,
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

std::unique_ptr<View> summary_view(const Run& run) { return std::make_unique<SummaryView>(run); }
std::unique_ptr<View> hotspots_view(const Run& run) { return std::make_unique<HotspotsView>(run); }
std::unique_ptr<View> tree_view(const Run& run) { return std::make_unique<TreeView>(run); }
std::unique_ptr<View> ranks_view(const Run& run) { return std::make_unique<RanksView>(run); }
std::unique_ptr<View> comm_view(const Run& run) { return std::make_unique<CommView>(run); }
std::unique_ptr<View> function_view(const Run& run, std::uint32_t function) {
  return std::make_unique<FunctionView>(run, function);
}
std::unique_ptr<SourceView> source_view(const Run& run) { return std::make_unique<Sources>(run); }

}  // namespace clusterprof::report::tui
