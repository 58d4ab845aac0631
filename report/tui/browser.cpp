// SPDX-License-Identifier: BSD-3-Clause
// State of the terminal browser: open views, cursor, filter and keys. Draws lines; the terminal is in
// cli/tui.
#include "report/tui/browser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report {

using namespace format;
using namespace text;

namespace {

constexpr std::array<std::string_view, 16> kBrowserHelp = {
    "1 .. 8, Tab      the pages: summary, hotspots, tree, ranks,",
    "                 communication, source, processes, threads;",
    "                 9, with --memory or Kokkos: memory",
    "Up Down          the line before, the next one",
    "PgUp PgDn        a screen; Home and End: the first and the last line",
    "Enter            open a function, a file, or one rank alone",
    "Left Right       close and open call paths and groups",
    "Esc              back; no filter; all ranks again",
    "/                filter: only what contains these letters",
    "s r              sort by the next column; the other way round",
    "e c              tree: open the hottest call paths; close all",
    "n p              source: the next and the previous line that took time",
    "a                all ranks again",
    "q                leave",
    "",
    "Times leave out idle helper threads; times in MPI are measured at its calls.",
};

// A view with its cursor.
struct Pane {
  std::unique_ptr<tui::View> view;
  std::size_t cursor = 0, top = 0;
  std::string filter;
  bool stale = true;
};

}  // namespace

struct Browser::State {
  static constexpr std::size_t kSource = 5;

  State(const Analysis& analysis, const PageData& data, bool unicode) : run(analysis, data, unicode) {
    panes[0].view = tui::summary_view(run);
    panes[1].view = tui::hotspots_view(run);
    panes[2].view = tui::tree_view(run);
    panes[3].view = tui::ranks_view(run);
    panes[4].view = tui::comm_view(run);
    auto source_view = tui::source_view(run);
    source = source_view.get();
    panes[kSource].view = std::move(source_view);
    panes[6].view = tui::processes_view(run);
    panes[7].view = tui::threads_view(run);
    const LabelledMemory& labelled = analysis.labelled_memory;
    if (analysis.memory || !labelled.spaces.empty() || !labelled.copies.empty())
      panes.push_back({tui::memory_view(run), 0, 0, {}, true});
  }

  Pane& pane() { return opened.empty() ? panes[page] : opened.back(); }

  void fresh(Pane& at) {
    if (!at.stale) return;
    at.view->refresh(at.filter);
    at.stale = false;
    at.cursor = std::min(at.cursor, at.view->size() == 0 ? 0 : at.view->size() - 1);
  }

  void choose(std::optional<std::uint32_t> group) {
    run.choose(group);
    for (Pane& at : panes) at.stale = true;
    for (Pane& at : opened) at.stale = true;
  }

  void go_to(std::size_t number) {
    opened.clear();
    page = number;
  }

  // To the next item that the cursor may be on, in the direction of the move.
  void move(std::ptrdiff_t by) {
    Pane& at = pane();
    const auto size = static_cast<std::ptrdiff_t>(at.view->size());
    if (size == 0) return;
    auto cursor = std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(at.cursor) + by, 0, size - 1);
    at.cursor = static_cast<std::size_t>(cursor);
  }

  void open() {
    Pane& at = pane();
    fresh(at);
    if (at.view->size() == 0 || !at.view->selectable(at.cursor)) return;
    handle_request(at.view->open(at.cursor));
  }

  void handle_request(const tui::ViewRequest& request) {
    switch (request.kind) {
      case tui::ViewRequest::Kind::kNothing:
        return;
      case tui::ViewRequest::Kind::kFunction:
        opened.push_back({tui::function_view(run, request.function), 0, 0, {}, true});
        return;
      case tui::ViewRequest::Kind::kSource: {
        std::size_t item = 0;
        if (!source->show(request.file, request.line, item)) {
          message = "The report has no source of " + printable(request.file);
          return;
        }
        go_to(kSource);
        panes[kSource].filter.clear();
        panes[kSource].cursor = item;
        panes[kSource].top = item > kContext ? item - kContext : 0;
        return;
      }
      case tui::ViewRequest::Kind::kRanks:
        if (!request.rank_row || *request.rank_row >= run.data.group_of_rank.size()) {
          message = "Nothing is known of this rank alone";
          return;
        }
        choose(run.data.group_of_rank[*request.rank_row]);
        message = "Hotspots and tree are now of " + run.group_name + " alone (a: all ranks)";
        go_to(1);
        return;
    }
  }

  void back() {
    if (help) {
      help = false;
    } else if (!pane().filter.empty()) {
      pane().filter.clear();
      pane().stale = true;
    } else if (!opened.empty()) {
      opened.pop_back();
    } else if (page == kSource && source->left(pane().cursor)) {
      pane().stale = true;
    } else if (run.group) {
      choose({});
    }
  }

  bool letter(std::string_view text) {
    if (text == "q") return false;
    if (text == "?") {
      help = true;
    } else if (text == "/") {
      typing = true;
    } else if (text == "a") {
      choose({});
    } else if (text.size() == 1 && text[0] >= '1' && text[0] < static_cast<char>('1' + panes.size())) {
      go_to(static_cast<std::size_t>(text[0] - '1'));
    } else {
      Pane& at = pane();
      fresh(at);
      if (at.view->letter(text, at.cursor)) at.stale = true;
    }
    return true;
  }

  void sideways(bool right) {
    Pane& at = pane();
    fresh(at);
    if (at.view->size() == 0) return;
    if (!(right ? at.view->right(at.cursor) : at.view->left(at.cursor))) return;
    at.stale = true;
    if (at.view.get() == source) at.filter.clear();  // it was of the text of the file that is closed
  }

  void type(PressedKey key, std::string_view text) {
    Pane& at = pane();
    if (key == PressedKey::kEnter) {
      typing = false;
      return;
    }
    if (key == PressedKey::kBack) {
      typing = false;
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

  // Where there is no room for all names, the open page has its name.
  std::vector<Span> tabs(std::size_t width) const {
    static constexpr std::array<std::string_view, 9> kTitles = {
        "Summary", "Hotspots", "Tree", "Ranks", "Comm", "Source", "Procs", "Threads", "Memory"};
    std::vector<Span> spans;
    const auto add = [&](bool all) {
      std::size_t used = 0;
      spans.clear();
      for (std::size_t i = 0; i < panes.size(); ++i) {
        const bool is_open = i == page;
        const std::string title = is_open || all ? fmt::format(" {}", kTitles[i]) : "";
        spans.push_back({fmt::format("{}{}{}{}", is_open ? "[" : " ", i + 1, title, is_open ? "]" : " "),
                         is_open ? Style::kTitle : Style::kDim});
        used += spans.back().text.size();
      }
      return used <= width;
    };
    if (!add(true)) add(false);
    return spans;
  }

  std::string where() const {
    const RunInfo& info = run.analysis.run;
    const std::string whom = run.group ? run.group_name + " alone" : ranks_and_nodes(info);
    return fmt::format("{}  {}  {}", printable(info.id), whom, seconds(info.elapsed_s));
  }

  static constexpr std::size_t kContext = 5;  // lines of source above the one that was asked for

  tui::Run run;
  std::vector<Pane> panes = std::vector<Pane>(8);
  tui::SourceView* source = nullptr;
  std::vector<Pane> opened;  // functions, on top of the page
  std::size_t page = 0;
  std::size_t list_rows = 1;  // of the screen when it was last drawn
  bool typing = false, help = false;
  std::string message;  // until the next key
};

Browser::Browser(const Analysis& analysis, const PageData& data, bool unicode)
    : state_(std::make_unique<State>(analysis, data, unicode)) {}
Browser::~Browser() = default;

bool Browser::press(PressedKey key, std::string_view text) {
  State& s = *state_;
  s.message.clear();
  if (s.typing) {
    s.type(key, text);
    return true;
  }
  if (s.help && key != PressedKey::kBack) {
    s.help = false;
    return true;
  }
  s.fresh(s.pane());
  const auto page = static_cast<std::ptrdiff_t>(std::max<std::size_t>(s.list_rows, 2) - 1);
  const auto all = static_cast<std::ptrdiff_t>(s.pane().view->size());
  switch (key) {
    case PressedKey::kUp:
      s.move(-1);
      break;
    case PressedKey::kDown:
      s.move(1);
      break;
    case PressedKey::kPageUp:
      s.move(-page);
      break;
    case PressedKey::kPageDown:
      s.move(page);
      break;
    case PressedKey::kHome:
      s.move(-all);
      break;
    case PressedKey::kEnd:
      s.move(all);
      break;
    case PressedKey::kLeft:
      s.sideways(false);
      break;
    case PressedKey::kRight:
      s.sideways(true);
      break;
    case PressedKey::kEnter:
      s.open();
      break;
    case PressedKey::kErase:
    case PressedKey::kBack:
      s.back();
      break;
    case PressedKey::kTab:
      s.go_to((s.page + 1) % s.panes.size());
      break;
    case PressedKey::kBackTab:
      s.go_to((s.page + s.panes.size() - 1) % s.panes.size());
      break;
    case PressedKey::kText:
      return s.letter(text);
  }
  return true;
}

std::vector<ScreenLine> Browser::draw(std::size_t columns, std::size_t rows) {
  State& s = *state_;
  std::vector<ScreenLine> lines;
  const auto add = [&](std::vector<Span> spans, bool selected = false) {
    lines.push_back({tui::fitted(std::move(spans), columns, selected), selected});
  };
  if (columns < kMinColumns || rows < kMinRows) {
    add({{fmt::format("clusterprof needs {} columns and {} rows", kMinColumns, kMinRows), Style::kPlain}});
    add({{"q: leave", Style::kDim}});
    lines.resize(std::max<std::size_t>(rows, 1));
    return lines;
  }
  Pane& at = s.pane();
  at.view->lay_out(columns);
  s.fresh(at);
  std::vector<Span> heading = at.view->heading(columns);
  add(s.tabs(columns));
  if (s.help) {
    for (const std::string_view line : kBrowserHelp) add({{std::string(line), Style::kPlain}});
    lines.resize(rows - 1);
    add({{"any key: back", Style::kDim}});
    return lines;
  }
  if (!s.opened.empty() || s.page == State::kSource) add({{at.view->title(), Style::kTitle}});
  if (!heading.empty()) add(std::move(heading));

  s.list_rows = rows - lines.size() - 2;
  if (at.cursor < at.top) at.top = at.cursor;
  if (at.cursor >= at.top + s.list_rows) at.top = at.cursor - s.list_rows + 1;
  const std::size_t size = at.view->size();
  for (std::size_t item = at.top; item < std::min(size, at.top + s.list_rows); ++item)
    add(at.view->render(item, columns), item == at.cursor);
  if (size == 0) add({{at.filter.empty() ? "  nothing" : "  nothing that matches", Style::kDim}});
  lines.resize(rows - 2);

  if (!s.message.empty()) {
    add({{s.message, Style::kWarning}});
  } else if (s.typing || !at.filter.empty()) {
    add({{"/" + printable(at.filter) + (s.typing ? "_" : ""), Style::kTitle},
         {s.typing ? "  Enter: keep  Esc: no filter" : "  Esc: no filter", Style::kDim}});
  } else {
    add({{at.view->keys() + (at.view->keys().empty() ? "" : "  ") + "/ filter  ? help  q quit",
          Style::kDim}});
  }
  const std::string position = size == 0 ? "" : fmt::format("{}/{}", at.cursor + 1, size);
  const std::string where = shorten(s.where(), columns - std::min(columns, position.size() + 2));
  add({{where + std::string(columns - format::columns(where) - position.size(), ' ') + position,
        s.run.group ? Style::kWarning : Style::kDim}});
  return lines;
}

}  // namespace clusterprof::report
