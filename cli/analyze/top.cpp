// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/top.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "aggregator/shard_files.hpp"
#include "cli/analyze/live_run.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "formats/run/run_control.hpp"
#include "report/top.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPageLookInterval{200};
constexpr std::chrono::seconds kWatchInterval{1};
// Until a node that has seen that somebody watches has told twice what it does.
constexpr std::chrono::seconds kPagePatience{7};

}  // namespace

Result<fs::path> running_directory(const std::string& run) {
  const Result<fs::path> found = find_path(run, "run", Meant::kRunning);
  if (!found) return found;
  std::error_code error;
  if (fs::is_directory(found.value(), error)) return found;
  return run_directory(run, Meant::kRunning);  // a file of one
}

int top_once(const TopOptions& options) {
  const Result<fs::path> directory = running_directory(options.run);
  if (!directory) return complain(directory.error());
  LiveRun run(directory.value(), options.run);
  std::optional<report::Top> top;
  std::optional<Error> problem;
  bool can_watch = true;
  Clock::time_point watch_again;
  const Clock::time_point begin = Clock::now();
  for (;;) {
    Result<report::Top> now = run.look();
    problem = now ? std::optional<Error>() : now.error();
    if (problem && problem->kind != ErrorKind::kNotFound) break;
    if (now) {
      top = std::move(now).value();
      if (top->run.run.state != report::RunState::kRunning) run.end_watch();
      if (top->run.run.state != report::RunState::kRunning || run.knows_all()) break;
    }
    // In large jobs each node looks less often whether somebody watches.
    const std::size_t nodes = top ? top->nodes.size() : 1;
    const auto patience = kPagePatience + std::chrono::nanoseconds(watch_interval_ns(nodes));
    if (!can_watch || Clock::now() - begin >= patience) break;
    if (Clock::now() >= watch_again) {
      const Result<void> watched = run.watch();
      can_watch = watched.ok();
      if (!watched) complain(kOk, watched.error().message);
      watch_again = Clock::now() + kWatchInterval;
    }
    std::this_thread::sleep_for(kPageLookInterval);
  }
  if (!top)
    return problem ? complain(*problem) : complain(kNothingFound, options.run + ": nothing is known of it");
  if (options.json) {
    Output output;
    report::render_top_json(*top, [&](std::string_view piece) { output(piece); });
    return output.finish();
  }
  report::TextOptions text;
  text.width = columns_of(STDOUT_FILENO);
  text.colour = wants_colour(STDOUT_FILENO, options.colour);
  return print(report::render_top_text(*top, text));
}

}  // namespace clusterprof::cli
