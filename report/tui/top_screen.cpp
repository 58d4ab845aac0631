// SPDX-License-Identifier: BSD-3-Clause
#include "report/tui/top_screen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "report/analysis/hang_search.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/view_parts.hpp"
#include "report/words/hang.hpp"
#include "report/words/run_state.hpp"
#include "report/words/where_now.hpp"

namespace clusterprof::report {

using namespace format;
using namespace text;
using tui::Spans;

namespace {

constexpr std::array<std::string_view, 15> kTopHelp = {
    "1 .. 4, Tab      ranks, nodes, functions, lines",
    "Up Down          the line before, the next one",
    "PgUp PgDn        a screen; Home and End: the first and the last line",
    "Enter            ranks of a node; ranks in a function, or in",
    "                 what it calls",
    "f, space         freeze, and go on",
    "v                the verdict in full",
    "/                filter: only what contains these letters",
    "s r              sort by the next column; the other way round",
    "Esc              back; no filter; all ranks",
    "q, Ctrl-C        leave",
    "",
    "still: how long the main thread has been at one place.",
    "Times are of the last seconds, as the first line says;",
    "functions count all ranks."};

enum ListPage : std::size_t { kRanks, kNodes, kFunctions, kLines, kPages };
enum RankSort : std::size_t { kByRank, kByStill, kByMpi, kByMemory, kRankSorts };
enum NodeSort : std::size_t { kByName, kByStillRanks, kByNodeMemory, kNodeSorts };
enum TimeSort : std::size_t { kBySelf, kByTotal, kTimeSorts };
constexpr std::array<std::size_t, kPages> kSorts = {kRankSorts, kNodeSorts, kTimeSorts, kTimeSorts};

constexpr std::size_t kNodeColumn = 12, kWideScreen = 90;
constexpr std::size_t kVerdictLines = 3;  // above the list; all of it by a key
constexpr double kMemoryIsShort = 0.9;

std::string amount(const std::optional<std::uint64_t>& value) {
  return value ? bytes(static_cast<double>(*value)) : "-";
}

std::string time(const Seconds& value) { return value ? seconds(*value) : "-"; }

std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  text::Page page(columns, false);
  page.paragraph({"", Style::kPlain}, text);
  const std::string all = page.take();
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    if (end != at) lines.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool is_still(const Seconds& unmoved_s) {
  return unmoved_s.value_or(0) * 1e9 >= static_cast<double>(kStill_ns);
}

}  // namespace

struct TopScreen::State {
  struct List {
    std::vector<std::uint32_t> rows;  // of what is listed, as filtered and sorted
    std::size_t cursor = 0, top = 0, sort = 0;
    bool reversed = false;
    std::string filter;
    bool stale = true;
  };

  // Ranks that are listed alone: those of a node, or in a function. Numbers change when the run is read anew.
  struct Opened {
    std::optional<std::string> node;
    std::optional<FunctionRow> function;
  };

  List& list() { return lists[page]; }

  [[nodiscard]] const std::string& node_name(std::size_t rank) const {
    static const std::string kNone;
    const std::uint32_t node = top.run.ranks[rank].node;
    return node < top.run.nodes.size() ? top.run.nodes[node].name : kNone;
  }

  [[nodiscard]] std::size_t count() const {
    switch (page) {
      case kRanks:
        return top.ranks.size();
      case kNodes:
        return top.nodes.size();
      case kFunctions:
        return top.functions.size();
      default:
        return top.lines.size();
    }
  }

  // By Top::stacks: whether the function that was opened is on it.
  [[nodiscard]] std::vector<bool> opened_stacks() const {
    std::vector<bool> opened_on(top.stacks.size(), false);
    const auto identity = [](const FunctionRow& row) {
      return std::tie(row.kind, row.name, row.file, row.line, row.module);
    };
    const auto function = std::find_if(top.entered.begin(), top.entered.end(), [&](const FunctionRow& row) {
      return identity(row) == identity(*opened.function);
    });
    const auto number = static_cast<std::uint32_t>(function - top.entered.begin());
    for (std::size_t i = 0; i < top.stacks.size(); ++i)
      opened_on[i] = std::find(top.stacks[i].begin(), top.stacks[i].end(), number) != top.stacks[i].end();
    return opened_on;
  }

  // By row of Top::ranks.
  [[nodiscard]] std::vector<bool> opened_ranks() const {
    std::vector<bool> is_opened(top.ranks.size(), true);
    if (opened.node)
      for (std::size_t row = 0; row < top.ranks.size(); ++row)
        is_opened[row] = node_name(row) == *opened.node;
    if (opened.function) {
      const std::vector<bool> stacks = opened_stacks();
      for (std::size_t row = 0; row < top.ranks.size(); ++row) {
        const std::uint32_t stack = top.ranks[row].stack;
        is_opened[row] = stack < stacks.size() && stacks[stack];
      }
    }
    return is_opened;
  }

  [[nodiscard]] bool shows_opened() const { return page == kRanks && (opened.node || opened.function); }

  [[nodiscard]] std::string opened_name() const {
    return opened.node ? "ranks of " + printable(*opened.node)
                       : "ranks in " + function_label(opened.function->name, opened.function->kind);
  }

  [[nodiscard]] bool is_wanted(std::size_t row, const std::string& filter) const {
    if (filter.empty()) return true;
    switch (page) {
      case kRanks: {
        const SourceLocation& place = top.ranks[row].place;
        return filter == std::to_string(top.run.ranks[row].rank) || tui::matches(node_name(row), filter) ||
               tui::matches(place.op, filter) || tui::matches(place.function, filter) ||
               tui::matches(place.file, filter);
      }
      case kNodes:
        return tui::matches(top.run.nodes[row].name, filter);
      case kFunctions:
        return tui::matches(top.functions[row].name, filter) || tui::matches(top.functions[row].file, filter);
      default:
        return tui::matches(top.lines[row].function, filter) || tui::matches(top.lines[row].file, filter);
    }
  }

  // The largest comes first; 0 leaves the order as it is.
  [[nodiscard]] double key(std::size_t row, std::size_t sort) const {
    const auto size = [](const std::optional<std::uint64_t>& value) {
      return value ? static_cast<double>(*value) : -1;
    };
    switch (page) {
      case kRanks: {
        const TopRank& rank = top.ranks[row];
        if (sort == kByStill) return rank.unmoved_s.value_or(-1);
        if (sort == kByMpi)
          return rank.category_s[static_cast<std::size_t>(shard::Category::kMpi)].value_or(-1);
        return sort == kByMemory ? size(rank.rss_bytes) : -static_cast<double>(top.run.ranks[row].rank);
      }
      case kNodes: {
        const TopNode& node = top.nodes[row];
        if (sort == kByStillRanks) return static_cast<double>(node.still);
        return sort == kByNodeMemory ? size(node.rss_bytes) : -static_cast<double>(row);
      }
      case kFunctions:
        return sort == kByTotal ? top.functions[row].total_s : top.functions[row].self_s;
      default:
        return sort == kByTotal ? top.lines[row].total_s : top.lines[row].self_s;
    }
  }

  void refresh() {
    List& at = list();
    if (!at.stale) return;
    at.stale = false;
    std::vector<std::pair<double, std::uint32_t>> wanted;
    const std::vector<bool> listed = shows_opened() ? opened_ranks() : std::vector<bool>(count(), true);
    for (std::uint32_t row = 0; row < count(); ++row)
      if (listed[row] && is_wanted(row, at.filter)) wanted.emplace_back(key(row, at.sort), row);
    std::stable_sort(wanted.begin(), wanted.end(), [&](const auto& a, const auto& b) {
      return at.reversed ? a.first < b.first : a.first > b.first;
    });
    at.rows.clear();
    for (const auto& [value, row] : wanted) at.rows.push_back(row);
    at.cursor = std::min(at.cursor, at.rows.empty() ? 0 : at.rows.size() - 1);
  }

  void move(std::ptrdiff_t by) {
    refresh();
    const auto size = static_cast<std::ptrdiff_t>(list().rows.size());
    if (size == 0) return;
    list().cursor = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(list().cursor) + by, 0, size - 1));
  }

  void open() {
    refresh();
    if (list().rows.empty() || (page != kNodes && page != kFunctions)) return;
    const std::uint32_t row = list().rows[list().cursor];
    opened = {};
    if (page == kNodes)
      opened.node = top.run.nodes[row].name;
    else
      opened.function = top.functions[row];
    page = kRanks;
    list() = {{}, 0, 0, list().sort, list().reversed, {}, true};
  }

  void back() {
    if (list().filter.empty() && page == kRanks) opened = {};
    list().filter.clear();
    list().stale = true;
  }

  bool letter(std::string_view text) {
    List& at = list();
    if (text == "q") return false;
    if (text == "?") {
      help = true;
    } else if (text == "/") {
      typing = true;
    } else if (text == "v") {
      shows_verdict = !verdict().empty();
    } else if (text == "f" || text == " ") {
      frozen = !frozen;
    } else if (text == "s") {
      at.sort = (at.sort + 1) % kSorts[page];
      at.cursor = 0;
      at.stale = true;
    } else if (text == "r") {
      at.reversed = !at.reversed;
      at.cursor = 0;
      at.stale = true;
    } else if (text.size() == 1 && text[0] >= '1' && text[0] < static_cast<char>('1' + kPages)) {
      page = static_cast<std::size_t>(text[0] - '1');
    }
    return true;
  }

  void type(PressedKey key, std::string_view text) {
    List& at = list();
    if (key == PressedKey::kEnter || key == PressedKey::kBack) {
      typing = false;
      if (key == PressedKey::kEnter) return;
      at.filter.clear();
    } else if (key == PressedKey::kErase) {
      // A character of UTF-8: its last byte, and those before that go on from another one.
      while (!at.filter.empty() && (static_cast<unsigned char>(at.filter.back()) & 0xC0) == 0x80)
        at.filter.pop_back();
      if (!at.filter.empty()) at.filter.pop_back();
    } else if (key == PressedKey::kText) {
      at.filter += text;
    } else {
      return;
    }
    at.cursor = at.top = 0;
    at.stale = true;
  }

  [[nodiscard]] std::string titled(std::string_view title, std::size_t sort, std::size_t width) const {
    const List& at = lists[page];
    return tui::cell(fmt::format("{}{}", at.sort == sort ? (at.reversed ? "^" : "v") : "", title), width);
  }

  static constexpr std::size_t kRankWidth = 7, kTime = 9;

  [[nodiscard]] Spans heading(std::size_t columns) const {
    std::string text;
    switch (page) {
      case kRanks:
        text = titled("rank", kByRank, kRankWidth) + pad_right(titled("MPI", kByMpi, 5), tui::kBar + 1) +
               titled("memory", kByMemory, kTime) + titled("still", kByStill, kTime) +
               (columns >= kWideScreen ? pad_right("node", kNodeColumn + 1) : "") + "where";
        break;
      case kNodes:
        text = pad_right(lists[page].sort == kByName ? (lists[page].reversed ? "^node" : "vnode") : "node",
                         kNodeColumn + 1) +
               pad_right("categories", tui::kBar + 1) + tui::cell("ranks") +
               titled("still", kByStillRanks, 8) + titled("memory", kByNodeMemory, kTime) +
               tui::cell("limit", kTime) + "data";
        break;
      default:
        text = titled("self%", kBySelf, 8) + titled("total%", kByTotal, 8);
        break;
    }
    return {{text, Style::kDim}};
  }

  [[nodiscard]] Spans rank_line(std::uint32_t row, std::size_t columns) const {
    const TopRank& rank = top.ranks[row];
    const RankInfo& info = top.run.ranks[row];
    const bool is_wide = columns >= kWideScreen;
    Spans spans{{tui::cell(std::to_string(info.rank), kRankWidth), Style::kPlain}};
    tui::append(spans, stacked_bar(rank.category_s, rank.window_s.value_or(0), tui::kBar));
    spans.push_back({" " + tui::cell(amount(rank.rss_bytes), kTime), Style::kPlain});
    spans.push_back(
        {tui::cell(time(rank.unmoved_s), kTime), is_still(rank.unmoved_s) ? Style::kWarning : Style::kPlain});
    if (is_wide)
      spans.push_back(
          {pad_right(shorten(printable(node_name(row)), kNodeColumn), kNodeColumn + 1), Style::kDim});
    const std::size_t used = kRankWidth + tui::kBar + 1 + 2 * kTime + (is_wide ? kNodeColumn + 1 : 0);
    words::WhereNow where = words::where_now(top, row, *names, tui::rest_of(columns, used));
    const Style style = where.has_ended ? Style::kDim : rank.op_s ? Style::kMpi : Style::kPlain;
    spans.push_back({std::move(where.text), style});
    return spans;
  }

  [[nodiscard]] Spans node_line(std::uint32_t row) const {
    const TopNode& node = top.nodes[row];
    const NodeInfo& info = top.run.nodes[row];
    Spans spans{{pad_right(shorten(printable(info.name), kNodeColumn), kNodeColumn + 1), Style::kPlain}};
    tui::append(spans, stacked_bar(node.category_s, node.window_s, tui::kBar));
    spans.push_back({" " + tui::cell(std::to_string(info.ranks.size())), Style::kPlain});
    spans.push_back(
        {tui::cell(std::to_string(node.still)), node.still != 0 ? Style::kWarning : Style::kPlain});
    spans.push_back({tui::cell(amount(node.rss_bytes), kTime), Style::kPlain});
    const bool is_short =
        node.memory_limit_bytes && static_cast<double>(node.memory_used_bytes.value_or(0)) >=
                                       kMemoryIsShort * static_cast<double>(*node.memory_limit_bytes);
    spans.push_back(
        {tui::cell(amount(node.memory_limit_bytes), kTime), is_short ? Style::kBad : Style::kPlain});
    spans.push_back({info.as_of_s ? seconds(*info.as_of_s) + " old" : name_of(info.state),
                     info.state == RunState::kLost ? Style::kBad : Style::kDim});
    return spans;
  }

  [[nodiscard]] std::string shares(double self_s, double total_s) const {
    const auto share = [&](double part_s) {
      return tui::cell(top.sampled_s > 0 ? fmt::format("{:.1f}", 100 * part_s / top.sampled_s) : "-");
    };
    return share(self_s) + share(total_s);
  }

  [[nodiscard]] Spans line(std::uint32_t row, std::size_t columns) const {
    const std::size_t room = tui::rest_of(columns, 2 * tui::kNumber);
    switch (page) {
      case kRanks:
        return rank_line(row, columns);
      case kNodes:
        return node_line(row);
      case kFunctions: {
        const FunctionRow& function = top.functions[row];
        return {{shares(function.self_s, function.total_s), Style::kPlain},
                {describe(function, *names, room), tui::kind_style(function.kind)}};
      }
      default: {
        const LineRow& at = top.lines[row];
        return {{shares(at.self_s, at.total_s), Style::kPlain},
                {names->place(at.file, at.line, at.is_approximate()) + "  ", Style::kPlain},
                {printable(at.function), Style::kDim}};
      }
    }
  }

  [[nodiscard]] Spans tabs(std::size_t columns) const {
    static constexpr std::array<std::string_view, kPages> kTitles = {"Ranks", "Nodes", "Functions", "Lines"};
    Spans spans;
    for (std::size_t i = 0; i < kPages; ++i) {
      const bool is_open = i == page;
      spans.push_back({fmt::format("{}{} {}{}", is_open ? "[" : " ", i + 1, kTitles[i], is_open ? "]" : " "),
                       is_open ? Style::kTitle : Style::kDim});
    }
    if (frozen) spans.push_back({"  frozen", Style::kWarning});
    if (top.window_s && top.run.run.state != RunState::kEnded) {
      spans.push_back({"  the last " + seconds(*top.window_s), Style::kDim});
      std::size_t used = 0;
      for (const Span& span : spans) used += format::columns(span.text);
      if (used > columns) spans.pop_back();
    }
    return spans;
  }

  [[nodiscard]] std::string verdict() const { return printable(words::what_is_wrong(top.run, *names)); }

  Top top;
  std::optional<ShortPaths> names;
  std::array<List, kPages> lists;
  Opened opened;
  std::size_t page = kRanks, list_rows = 1;
  bool typing = false, help = false, shows_verdict = false, frozen = false;
};

TopScreen::TopScreen() : state_(std::make_unique<State>()) { state_->names.emplace(state_->top.run); }
TopScreen::~TopScreen() = default;

void TopScreen::update(Top top) {
  State& s = *state_;
  if (s.frozen) return;
  s.top = std::move(top);
  s.names.emplace(s.top.run);
  for (State::List& list : s.lists) list.stale = true;
}

bool TopScreen::is_frozen() const { return state_->frozen; }

bool TopScreen::press(PressedKey key, std::string_view text) {
  State& s = *state_;
  if (s.typing) {
    s.type(key, text);
    return true;
  }
  if (s.help || s.shows_verdict) {
    s.help = s.shows_verdict = false;
    return true;
  }
  const auto screen = static_cast<std::ptrdiff_t>(std::max<std::size_t>(s.list_rows, 2) - 1);
  const auto all = static_cast<std::ptrdiff_t>(s.count());
  switch (key) {
    case PressedKey::kUp:
      s.move(-1);
      break;
    case PressedKey::kDown:
      s.move(1);
      break;
    case PressedKey::kPageUp:
      s.move(-screen);
      break;
    case PressedKey::kPageDown:
      s.move(screen);
      break;
    case PressedKey::kHome:
      s.move(-all);
      break;
    case PressedKey::kEnd:
      s.move(all);
      break;
    case PressedKey::kEnter:
      s.open();
      break;
    case PressedKey::kTab:
      s.page = (s.page + 1) % kPages;
      break;
    case PressedKey::kBackTab:
      s.page = (s.page + kPages - 1) % kPages;
      break;
    case PressedKey::kErase:
    case PressedKey::kBack:
      s.back();
      break;
    case PressedKey::kText:
      return s.letter(text);
    case PressedKey::kLeft:
    case PressedKey::kRight:
      break;
  }
  return true;
}

std::vector<ScreenLine> TopScreen::draw(std::size_t columns, std::size_t rows) {
  State& s = *state_;
  std::vector<ScreenLine> lines;
  const auto add = [&](Spans spans, bool selected = false) {
    lines.push_back({tui::fitted(std::move(spans), columns, selected), selected});
  };
  if (columns < kMinColumns || rows < kMinRows) {
    add({{fmt::format("clusterprof needs {} columns and {} rows", kMinColumns, kMinRows), Style::kPlain}});
    add({{"q: leave", Style::kDim}});
    lines.resize(std::max<std::size_t>(rows, 1));
    return lines;
  }
  s.refresh();
  add(s.tabs(columns));
  const std::string verdict = s.verdict();
  if (s.help || s.shows_verdict) {
    if (s.help)
      for (const std::string_view line : kTopHelp) add({{std::string(line), Style::kPlain}});
    if (s.shows_verdict)
      for (const std::string& line : wrapped(verdict, columns)) add({{line, Style::kPlain}});
    lines.resize(rows - 1);
    add({{"any key: back", Style::kDim}});
    return lines;
  }
  const bool is_bad = (s.top.run.hang && s.top.run.hang->is_deadlock) ||
                      (s.top.run.failure && !s.top.run.failure->mismatch.empty());
  std::vector<std::string> wrong = wrapped(verdict, columns);
  if (wrong.size() > kVerdictLines) {
    wrong.resize(kVerdictLines);
    wrong.back() = shorten(wrong.back(), columns - 2) + "..";
  }
  for (const std::string& line : wrong) add({{line, is_bad ? Style::kBad : Style::kWarning}});
  add(s.heading(columns));

  State::List& at = s.list();
  s.list_rows = rows - lines.size() - 2;
  if (at.cursor < at.top) at.top = at.cursor;
  if (at.cursor >= at.top + s.list_rows) at.top = at.cursor - s.list_rows + 1;
  for (std::size_t item = at.top; item < std::min(at.rows.size(), at.top + s.list_rows); ++item)
    add(s.line(at.rows[item], columns), item == at.cursor);
  const bool lists_all = at.filter.empty() && !s.shows_opened();
  if (at.rows.empty()) add({{lists_all ? "  nothing yet" : "  nothing that matches", Style::kDim}});
  lines.resize(rows - 2);

  const bool is_filtered = s.typing || !at.filter.empty();
  if (is_filtered || s.shows_opened()) {
    Spans spans;
    if (s.shows_opened()) spans.push_back({shorten(s.opened_name(), columns / 2) + "  ", Style::kTitle});
    if (is_filtered) spans.push_back({"/" + printable(at.filter) + (s.typing ? "_  " : "  "), Style::kTitle});
    spans.push_back({s.typing      ? "Enter: keep  Esc: no filter"
                     : is_filtered ? "Esc: no filter"
                                   : "Esc: all ranks",
                     Style::kDim});
    add(std::move(spans));
  } else {
    add({{"s sort  r reverse  / filter  f freeze  v verdict  ? help  q quit", Style::kDim}});
  }
  const RunInfo& run = s.top.run.run;
  const std::string position = at.rows.empty() ? "" : fmt::format("{}/{}", at.cursor + 1, at.rows.size());
  std::string where = fmt::format("{}  {}", words::state(run), ranks_and_nodes(run));
  if (run.state != RunState::kRunning) where += "  its last state";
  where += "  " + printable(run.id);
  where = shorten(where, columns - std::min(columns, position.size() + 2));
  add({{where + std::string(columns - format::columns(where) - position.size(), ' ') + position,
        run.state == RunState::kRunning ? Style::kDim : Style::kWarning}});
  return lines;
}

}  // namespace clusterprof::report
