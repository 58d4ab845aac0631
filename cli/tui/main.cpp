// SPDX-License-Identifier: BSD-3-Clause
// clusterprof tui RUN: report::Browser on a terminal, with ncurses; and clusterprof top RUN. A program of its
// own, so that nothing else needs its library.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <clocale>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/shared_directory.hpp"
#include "base/standard_files.hpp"
#include "cli/analyze/analyze.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/top.hpp"
#include "cli/tui/terminal.hpp"
#include "cli/tui/top.hpp"
#include "report/page/page_builder.hpp"
#include "report/tui/browser.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::PressedKey;

int browse(const std::string& argument) {
  const Result<fs::path> directory = run_directory(argument);
  if (!directory) return complain(directory.error());
  if (::isatty(STDIN_FILENO) == 0 || !moves_cursor(STDOUT_FILENO))
    return complain(kBadUsage, "tui needs a terminal; `clusterprof report` does not");
  Result<AnalysedRun> run = analysed_run(directory.value(), true);
  if (!run) return complain(run.error());
  const report::Analysis& analysis = run.value().analysis;
  report::PageOptions options;
  options.report_functions = analysis.functions.size();  // nothing of them is stored
  const Result<report::PageData> data = report::make_page_data(run.value().profile, analysis, options);
  if (!data) return complain(data.error());

  report::Browser browser(analysis, data.value(), wants_unicode());
  const Terminal terminal;
  if (!terminal.is_open())
    return complain(kBadUsage,
                    "tui needs a terminal that this machine knows (TERM); `clusterprof report` does not");
  do terminal.show([&](std::size_t columns, std::size_t rows) { return browser.draw(columns, rows); });
  while (terminal.await_key([&](PressedKey key, std::string_view text) { return browser.press(key, text); }));
  return kOk;
}

// No value: it has not been parsed; the exit status.
std::optional<int> parse(CLI::App& app, int argc, char** argv, const std::string& verb) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp& help) {
    const int status = app.exit(help);
    print("\nManual page: clusterprof help " + verb + "\n");
    return status;
  } catch (const CLI::ParseError& error) {
    return complain(kBadUsage, std::string(error.what()) + " (see clusterprof " + verb + " --help)");
  }
}

// The launcher passes the verb on.
int run(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const int words = verb == "tui" || verb == "top" ? 1 : 0;
  CLI::App app;
  if (verb == "top") {
    TopOptions options;
    define_top(app, options);
    const std::optional<int> status = parse(app, argc - words, argv + words, verb);
    return status ? *status : top(options);
  }
  std::string run;
  define_browser(app, run);
  const std::optional<int> status = parse(app, argc - words, argv + words, "tui");
  return status ? *status : browse(run);
}

}  // namespace
}  // namespace clusterprof::cli

int main(int argc, char** argv) {
  clusterprof::take_closed_standard_files();
  clusterprof::deny_world_write();
  (void)std::setlocale(LC_ALL, "");  // ncurses writes characters in the terminal's encoding
  try {
    return clusterprof::cli::run(argc, argv);
  } catch (const std::exception& error) {
    return clusterprof::cli::complain(clusterprof::cli::kBadInput, error.what());
  }
}
