// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/snapshot.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "aggregator/run_directory.hpp"
#include "base/first_names.hpp"
#include "base/result.hpp"
#include "base/shared_directory.hpp"
#include "cli/analyze/analysis_observer.hpp"
#include "cli/analyze/live_shards.hpp"
#include "cli/analyze/merge_bar.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::format::plural;
using report::format::printable;

// Makes a directory that was not there.
Result<fs::path> make_directory(const std::string& output, const fs::path& run) {
  constexpr mode_t kMode = 0777;  // less the umask, which is like that of the run
  if (!output.empty()) {
    if (::mkdir(output.c_str(), kMode) == 0) return fs::path(output);
    return Error{output + ": " + std::strerror(errno),
                 errno == EEXIST ? ErrorKind::kBadArgument : ErrorKind::kOther};
  }
  fs::path beside = run.lexically_normal();
  if (!beside.has_filename()) beside = beside.parent_path();  // it ends with a slash
  if (beside.filename() == "." || beside.filename() == "..") beside = fs::absolute(beside).lexically_normal();
  for (int number = 1;; ++number) {
    const std::string name = beside.string() + std::string(kSnapshotMark) + std::to_string(number);
    if (::mkdir(name.c_str(), kMode) == 0) return fs::path(name);
    if (errno != EEXIST) return Error{name + ": " + std::strerror(errno) + " (-o DIR: elsewhere)"};
  }
}

// Why there is nothing to keep.
std::string why_not_running(report::RunState state) {
  return state == report::RunState::kLost ? "is not running: its collectors have ended without their last "
                                            "data (clusterprof report shows what is known)"
                                          : "has ended: clusterprof report shows all of it";
}

}  // namespace

int snapshot(const SnapshotOptions& options) {
  const Result<fs::path> found = find_path(options.run, "run", Meant::kRunning);
  if (!found) return complain(found.error());
  const fs::path& run = found.value();
  std::error_code error;
  if (!fs::is_directory(run, error)) return complain(kBadUsage, options.run + ": is not a run directory");
  restrict_umask_like(run.string());
  const Result<LiveNodes> live = look_at_live_nodes(run);
  if (!live) return complain(live.error());
  const std::string name = printable(run.string());
  if (live.value().nodes.empty())
    return complain(kNothingFound, name + ": " + why_not_running(live.value().state));
  const Result<WrittenShards> written = have_shards_written(run, live.value().nodes);
  if (!written) return complain(written.error());
  const std::vector<std::string>& silent = written.value().silent;
  if (!silent.empty())
    complain(kOk, "no answer within " + std::to_string(written.value().patience.count()) + " s from " +
                      printable(first_names(silent)) + ": of " + (silent.size() == 1 ? "it" : "them") +
                      " the snapshot has what was written before");

  const Result<fs::path> directory = make_directory(options.output, run);
  if (!directory) return complain(directory.error());
  const fs::path profile = directory.value() / aggregator::kProfileName;
  AnalysisObserver observer(run);
  MergeBarOnStderr bar(false);
  aggregator::MergeOptions how;
  how.observer = &observer;
  how.progress = [&](const aggregator::MergeProgress& progress) { bar.update(progress); };
  const Result<aggregator::MergeReport> merged = aggregator::merge_snapshot(run, profile, how);
  bar.finish();
  if (!merged || merged.value().write_error) {
    (void)::rmdir(directory.value().c_str());
    return merged ? complain(kBadInput, merged.value().write_error->message) : complain(merged.error());
  }
  for (const std::string& warning : merged.value().warnings) complain(kOk, warning);
  const shard::ShardData& head = merged.value().head;
  const std::int64_t as_of = report::snapshot_utc_ns(head);
  return print(printable(directory.value().string()) + ": " + plural(head.ranks.size(), "rank") + ", " +
               plural(head.nodes.size(), "node") + ", " +
               (as_of == 0 ? "the run has ended meanwhile" : "as of " + report::format::utc(as_of)) + "\n");
}

}  // namespace clusterprof::cli
