// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/control.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "base/first_names.hpp"
#include "base/result.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "formats/run/run_control.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::format::plural;
using report::format::printable;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerLookInterval{100};
constexpr std::chrono::seconds kSeenPatience{12};  // more than the nodes need to see the request twice

std::string names_of(const std::vector<ControlAnswer>& nodes) {
  std::vector<std::string> names;
  for (const ControlAnswer& node : nodes) names.push_back(node.node);
  return first_names(names);
}

std::string what_was_done(const ControlRequest& request, const std::string& lasting,
                          const std::vector<ControlAnswer>& done) {
  std::uint64_t ranks = 0;
  for (const ControlAnswer& node : done) ranks += node.ranks;
  const bool light = done.front().light;
  std::string text = request.open ? (light ? "recording in full" : "recording")
                                  : (light ? "recording in light mode again" : "recording is stopped");
  text += " on " + plural(done.size(), "node") + ", " + plural(ranks, "rank");
  if (request.open && request.lasting_ns != 0) text += ", for " + lasting;
  return text + "\n";
}

int control(const ControlOptions& options, ControlRequest request) {
  const Result<fs::path> found = find_path(options.run, "run", Meant::kRunning);
  if (!found) return complain(found.error());
  const std::string run = found.value().string();
  std::error_code error;
  if (!fs::is_directory(run, error)) return complain(kBadUsage, options.run + ": is not a run directory");
  const std::vector<ControlAnswer> nodes = read_answers(run);
  if (nodes.empty())
    return complain(kNothingFound, printable(run) +
                                       ": nobody there can be asked: the run is not recorded with "
                                       "--standby or --mode light, or it is over");
  request.at_unix_ns = unix_now_ns() + control_ahead_ns(nodes.size());
  const Result<ControlRequest> asked = write_request(run, request);
  if (!asked) return complain(asked.error());

  const auto patience = kSeenPatience + 2 * (std::chrono::nanoseconds(control_interval_ns(nodes.size())) -
                                             std::chrono::seconds(1));
  std::vector<ControlAnswer> done, silent;
  for (const auto end = std::chrono::steady_clock::now() + patience;;) {
    done.clear();
    silent.clear();
    for (ControlAnswer& node : read_answers(run))
      (node.sequence >= asked.value().sequence ? done : silent).push_back(std::move(node));
    if ((silent.empty() && !done.empty()) || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kAnswerLookInterval);
  }
  const std::string within =
      " within " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s";
  if (done.empty())
    return complain(kNothingFound, printable(run) + ": no node has answered" + within +
                                       ": the run is over, or its nodes cannot be reached");
  if (!silent.empty()) complain(kOk, "no answer" + within + " from " + printable(names_of(silent)));
  return print(what_was_done(asked.value(), options.lasting, done));
}

}  // namespace

int start_recording(const ControlOptions& options) {
  ControlRequest request;
  request.open = true;
  if (!options.lasting.empty()) {
    const std::optional<std::uint64_t> lasting = parse_lasting_ns(options.lasting);
    if (!lasting)
      return complain(kBadUsage,
                      "--for: a time of at least a second, as 60s, 5m or 2h, not '" + options.lasting + "'");
    request.lasting_ns = *lasting;
  }
  return control(options, request);
}

int stop_recording(const ControlOptions& options) { return control(options, ControlRequest{}); }

int detach(const ControlOptions& options) {
  constexpr std::chrono::seconds kAnswerPatience{3};
  constexpr std::chrono::seconds kDetachPatience{60};  // for the last shard of a large run, too
  const Result<fs::path> found = find_path(options.run, "run", Meant::kRunning);
  if (!found) return complain(found.error());
  const std::string run = found.value().string();
  std::error_code error;
  if (!fs::is_directory(run, error)) return complain(kBadUsage, options.run + ": is not a run directory");
  // `clusterprof attach` may have returned a moment before the collector's answer is there.
  std::vector<ControlAnswer> nodes = read_answers(run);
  for (const auto end = std::chrono::steady_clock::now() + kAnswerPatience;
       nodes.empty() && std::chrono::steady_clock::now() < end; nodes = read_answers(run))
    std::this_thread::sleep_for(kAnswerLookInterval);
  if (nodes.empty())
    return complain(
        kNothingFound,
        printable(run) +
            ": nobody there can be asked: the run was not made by clusterprof attach, or it is over");
  ControlRequest request;
  request.at_unix_ns = unix_now_ns();
  const Result<ControlRequest> asked = write_request(run, request);
  if (!asked) return complain(asked.error());
  // A collector withdraws its answer when it has written its shard.
  std::vector<ControlAnswer> left;
  for (const auto end = std::chrono::steady_clock::now() + kDetachPatience;;) {
    left = read_answers(run);
    if (left.empty() || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kAnswerLookInterval);
  }
  if (!left.empty())
    return complain(kNothingFound, printable(run) + ": not yet done on " + printable(names_of(left)));
  return print("the processes are let go on " + plural(nodes.size(), "node") + "\n");
}

}  // namespace clusterprof::cli
