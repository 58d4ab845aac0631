// SPDX-License-Identifier: BSD-3-Clause
// clusterprof tui RUN: report::Browser on a terminal, with ncurses. A program of its own, so that nothing
// else needs its library.
#include <curses.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <clocale>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "base/shared_directory.hpp"
#include "cli/analyze/analyze.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "report/page/page_builder.hpp"
#include "report/tui/browser.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::Key;
using report::ScreenLine;
using report::text::Style;

constexpr int kEscapeDelay_ms = 25;

// Ends also when something is thrown: a terminal that is left in this state cannot be used.
class Terminal {
 public:
  Terminal() {
    ::initscr();
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
      static constexpr short kColours[] = {COLOR_RED,  COLOR_YELLOW, COLOR_GREEN,
                                           COLOR_BLUE, COLOR_CYAN,   COLOR_MAGENTA};
      for (short i = 0; i < 6; ++i) ::init_pair(static_cast<short>(i + 1), kColours[i], -1);
    }
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { ::endwin(); }

  void show(report::Browser& browser) const {
    ::erase();
    int row = 0;
    for (const ScreenLine& line :
         browser.draw(static_cast<std::size_t>(COLS), static_cast<std::size_t>(LINES))) {
      ::move(row++, 0);
      for (const report::text::Span& span : line.spans) {
        ::attrset(static_cast<int>(line.selected ? A_REVERSE : attributes(span.style)));
        ::addstr(span.text.c_str());  // into the last column too: an error that leaves the text in place
      }
    }
    ::attrset(A_NORMAL);
    ::refresh();
  }

 private:
  [[nodiscard]] chtype attributes(Style style) const {
    const auto pair = [&](int number) { return colour_ ? COLOR_PAIR(number) : A_NORMAL; };
    switch (style) {
      case Style::kPlain:
        return A_NORMAL;
      case Style::kTitle:
        return A_BOLD;
      case Style::kDim:
        return A_DIM;
      case Style::kBad:
        return pair(1) | A_BOLD;
      case Style::kWarning:
        return pair(2);
      case Style::kGood:
        return pair(3);
      case Style::kPython:
        return pair(3);
      case Style::kNative:
        return pair(4);
      case Style::kSystem:
        return pair(1);
      case Style::kMpi:
        return pair(2);
      case Style::kIo:
        return pair(6);
      case Style::kIdle:
        return A_DIM;
      case Style::kRunnable:
        return pair(5);
    }
    return A_NORMAL;
  }

  bool colour_ = false;
};

// False: the user has left, or the terminal has gone.
bool press_next(report::Browser& browser) {
  wint_t typed = 0;
  const int what = ::get_wch(&typed);
  if (what == ERR) return false;
  if (what == KEY_CODE_YES) {
    switch (typed) {
      case KEY_UP:
        return browser.press(Key::kUp);
      case KEY_DOWN:
        return browser.press(Key::kDown);
      case KEY_LEFT:
        return browser.press(Key::kLeft);
      case KEY_RIGHT:
        return browser.press(Key::kRight);
      case KEY_PPAGE:
        return browser.press(Key::kPageUp);
      case KEY_NPAGE:
        return browser.press(Key::kPageDown);
      case KEY_HOME:
        return browser.press(Key::kHome);
      case KEY_END:
        return browser.press(Key::kEnd);
      case KEY_ENTER:
        return browser.press(Key::kEnter);
      case KEY_BTAB:
        return browser.press(Key::kBackTab);
      case KEY_BACKSPACE:
        return browser.press(Key::kErase);
      default:
        return true;  // among them KEY_RESIZE: what is on the screen is drawn again
    }
  }
  constexpr wint_t kControlC = 3, kControlH = 8, kEscape = 27, kDelete = 127;
  if (typed == kControlC) return false;
  if (typed == '\t') return browser.press(Key::kTab);
  if (typed == '\r' || typed == '\n') return browser.press(Key::kEnter);
  if (typed == kEscape) return browser.press(Key::kBack);
  if (typed == kControlH || typed == kDelete) return browser.press(Key::kErase);
  if (typed < ' ') return true;
  char bytes[MB_LEN_MAX];
  std::mbstate_t state{};
  const std::size_t length = std::wcrtomb(bytes, static_cast<wchar_t>(typed), &state);
  if (length == static_cast<std::size_t>(-1)) return true;
  return browser.press(Key::kText, {bytes, length});
}

int browse(const std::string& argument) {
  const Result<fs::path> directory = run_directory(argument);
  if (!directory) return complain(directory.error());
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    return complain(kBadUsage, "tui needs a terminal; `clusterprof report` does not");
  Result<AnalysedRun> run = analysed_run(directory.value(), true);
  if (!run) return complain(run.error());
  const report::Analysis& analysis = run.value().analysis;
  const Result<report::PageData> data = report::make_page_data(run.value().profile, analysis, {});
  if (!data) return complain(data.error());

  report::Browser browser(analysis, data.value(), wants_unicode());
  const Terminal terminal;
  do terminal.show(browser);
  while (press_next(browser));
  return kOk;
}

int run(int argc, char** argv) {
  CLI::App app;
  std::string run;
  define_browser(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    const int status = app.exit(help);
    print("\nManual page: clusterprof help tui\n");
    return status;
  } catch (const CLI::ParseError& error) {
    return complain(kBadUsage, std::string(error.what()) + " (see clusterprof tui --help)");
  }
  return browse(run);
}

}  // namespace
}  // namespace clusterprof::cli

int main(int argc, char** argv) {
  clusterprof::deny_world_write();
  std::setlocale(LC_ALL, "");  // ncurses writes characters in the terminal's encoding
  try {
    // The launcher passes the verb on.
    const int verb = argc > 1 && std::string_view(argv[1]) == "tui" ? 1 : 0;
    return clusterprof::cli::run(argc - verb, argv + verb);
  } catch (const std::exception& error) {
    return clusterprof::cli::complain(clusterprof::cli::kBadInput, error.what());
  }
}
