// SPDX-License-Identifier: BSD-3-Clause
#include "cli/tui/terminal.hpp"

#include <curses.h>
#include <errno.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <string>

#include "cli/analyze/output.hpp"

namespace clusterprof::cli {
namespace {

using report::PressedKey;
using report::ScreenLine;
using report::text::Colour;
using report::text::Style;

constexpr int kEscapeDelay_ms = 25;

static_assert(COLOR_RED == static_cast<int>(Colour::kRed) && COLOR_CYAN == static_cast<int>(Colour::kCyan));

// Pairs have the numbers of their colours.
chtype attributes(Style style, bool colour) {
  const report::text::Look look = report::text::look_of(style);
  chtype set = look.bold ? A_BOLD : look.dim ? A_DIM : A_NORMAL;
  if (colour && look.colour != Colour::kNone) set |= COLOR_PAIR(static_cast<int>(look.colour));
  return set;
}

// Machines of clusters do not know the newer terminals by name, but nearly all of these obey what is meant
// for xterm.
SCREEN* open_screen() {
  if (SCREEN* const known = ::newterm(nullptr, stdout, stdin)) return known;
  const char* const name = std::getenv("TERM");
  if (name == nullptr || *name == '\0') return nullptr;
  for (const char* const usual : {"xterm-256color", "xterm"})
    if (SCREEN* const similar = ::newterm(usual, stdout, stdin)) return similar;
  return nullptr;
}

}  // namespace

Terminal::Terminal() : screen_(open_screen()) {
  if (screen_ == nullptr) return;
  ::def_prog_mode();
  ::raw();  // Ctrl-C must not kill us before the terminal is what it was
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::set_escdelay(kEscapeDelay_ms);
  ::curs_set(0);
  colour_ = wants_colour(STDOUT_FILENO) && ::has_colors();
  if (colour_) {
    ::start_color();
    ::use_default_colors();
    for (auto number = static_cast<short>(Colour::kRed); number <= static_cast<short>(Colour::kCyan);
         ++number)
      ::init_pair(number, number, -1);
  }
}

Terminal::~Terminal() {
  if (screen_ == nullptr) return;
  ::endwin();
  ::delscreen(screen_);
}

void Terminal::show(const Draw& draw) const {
  ::erase();
  int row = 0;
  for (const ScreenLine& line : draw(static_cast<std::size_t>(COLS), static_cast<std::size_t>(LINES))) {
    ::move(row++, 0);
    for (const report::text::Span& span : line.spans) {
      ::attrset(static_cast<int>(line.selected ? A_REVERSE : attributes(span.style, colour_)));
      ::addstr(span.text.c_str());  // into the last column too: an error that leaves the text in place
    }
  }
  ::attrset(A_NORMAL);
  ::refresh();
}

bool Terminal::await_key(const Press& press, int most_ms) const {
  ::timeout(most_ms);
  wint_t typed = 0;
  errno = 0;
  const int what = ::get_wch(&typed);
  // Nothing was typed in time, or a signal came.
  if (what == ERR)
    return most_ms >= 0 && (errno == 0 || errno == EINTR || errno == EAGAIN) && ::isatty(STDIN_FILENO) == 1;
  if (what == KEY_CODE_YES) {
    switch (typed) {
      case KEY_UP:
        return press(PressedKey::kUp, {});
      case KEY_DOWN:
        return press(PressedKey::kDown, {});
      case KEY_LEFT:
        return press(PressedKey::kLeft, {});
      case KEY_RIGHT:
        return press(PressedKey::kRight, {});
      case KEY_PPAGE:
        return press(PressedKey::kPageUp, {});
      case KEY_NPAGE:
        return press(PressedKey::kPageDown, {});
      case KEY_HOME:
        return press(PressedKey::kHome, {});
      case KEY_END:
        return press(PressedKey::kEnd, {});
      case KEY_ENTER:
        return press(PressedKey::kEnter, {});
      case KEY_BTAB:
        return press(PressedKey::kBackTab, {});
      case KEY_BACKSPACE:
        return press(PressedKey::kErase, {});
      default:
        return true;  // among them KEY_RESIZE: what is on the screen is drawn again
    }
  }
  constexpr wint_t kControlC = 3, kControlH = 8, kEscape = 27, kDelete = 127;
  if (typed == kControlC) return false;
  if (typed == '\t') return press(PressedKey::kTab, {});
  if (typed == '\r' || typed == '\n') return press(PressedKey::kEnter, {});
  if (typed == kEscape) return press(PressedKey::kBack, {});
  if (typed == kControlH || typed == kDelete) return press(PressedKey::kErase, {});
  if (typed < ' ') return true;
  char bytes[MB_LEN_MAX];
  std::mbstate_t state{};
  const std::size_t length = std::wcrtomb(bytes, static_cast<wchar_t>(typed), &state);
  if (length == static_cast<std::size_t>(-1)) return true;
  return press(PressedKey::kText, {bytes, length});
}

}  // namespace clusterprof::cli
