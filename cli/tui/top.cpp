// SPDX-License-Identifier: BSD-3-Clause
#include "cli/tui/top.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "cli/analyze/live_run.hpp"
#include "cli/analyze/output.hpp"
#include "cli/tui/terminal.hpp"
#include "report/tui/top_screen.hpp"

namespace clusterprof::cli {
namespace {

using Clock = std::chrono::steady_clock;
using report::PressedKey;

constexpr std::chrono::milliseconds kRefresh{1000};

}  // namespace

int top(const TopOptions& options) {
  if (options.once || options.json || ::isatty(STDIN_FILENO) == 0 || !moves_cursor(STDOUT_FILENO))
    return top_once(options);
  const Result<std::filesystem::path> directory = running_directory(options.run);
  if (!directory) return complain(directory.error());
  LiveRun run(directory.value(), options.run);
  // What is wrong with the run is said before the screen is ours.
  Result<report::Top> now = run.look();
  if (!now) return complain(now.error());
  bool is_running = now.value().run.run.state == report::RunState::kRunning;
  if (is_running)
    if (const Result<void> watched = run.watch(); !watched) complain(kOk, watched.error().message);
  report::TopScreen screen;
  screen.update(std::move(now).value());

  std::optional<Error> problem;
  {
    const Terminal terminal;
    if (!terminal.is_open()) return top_once(options);
    Clock::time_point refresh_at = Clock::now() + kRefresh;
    bool stays = true;
    while (stays && !problem) {
      terminal.show([&](std::size_t columns, std::size_t rows) { return screen.draw(columns, rows); });
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(refresh_at - Clock::now()).count();
      stays =
          terminal.await_key([&](PressedKey key, std::string_view text) { return screen.press(key, text); },
                             static_cast<int>(std::max<std::int64_t>(left, 0)));
      if (!stays || Clock::now() < refresh_at) continue;
      if (is_running && !screen.is_frozen()) {
        (void)run.watch();  // where it fails, shards say what ranks do
        Result<report::Top> next = run.look();
        if (next) {
          is_running = next.value().run.run.state == report::RunState::kRunning;
          if (!is_running) run.end_watch();
          screen.update(std::move(next).value());
        } else {
          problem = next.error();
        }
      }
      refresh_at = Clock::now() + kRefresh;
    }
  }
  return problem ? complain(*problem) : kOk;
}

}  // namespace clusterprof::cli
