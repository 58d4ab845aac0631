// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/history.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "aggregator/run_directory.hpp"
#include "base/base_name.hpp"
#include "base/version.hpp"
#include "cli/analyze/history_index.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/write_file.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::HistoryRun;

enum class Unmerged { kMerge, kLeaveOut };

void add_stamp(const fs::path& path, std::string& stamp) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    stamp += " -";
    return;
  }
  const auto add_time = [&](const timespec& time) {
    stamp += ' ' + std::to_string(time.tv_sec) + '.' + std::to_string(time.tv_nsec);
  };
  add_time(status.st_mtim);
  add_time(status.st_ctim);
  stamp += ' ' + std::to_string(S_ISDIR(status.st_mode) ? 0 : status.st_size);
}

// Changes when a shard or the profile is replaced or may be read by others, and from version to version.
std::string stamp_of(const fs::path& run) {
  std::string stamp = kVersion;
  add_stamp(run, stamp);
  add_stamp(run / aggregator::kProfileName, stamp);
  return stamp;
}

bool is_run(const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / aggregator::kProfileName, error)) return true;
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(directory);
  return shards && !shards.value().empty();
}

// All runs of a directory; those that the index knows are not looked into.
Result<std::vector<HistoryRun>> read_runs(const fs::path& directory, Unmerged unmerged) {
  // What it has is of the usual view.
  HistoryIndex old = chosen_view().is_usual() ? read_history_index(directory) : HistoryIndex(), index;
  std::vector<HistoryRun> runs;
  bool is_new = false;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (!may_be_run(*entry)) continue;
    const std::string name = entry->path().filename().string();
    if (const auto known = old.find(name);
        known != old.end() && known->second.stamp == stamp_of(entry->path())) {
      index.insert(old.extract(known));
      continue;
    }
    if (!is_run(entry->path())) continue;
    if (unmerged == Unmerged::kLeaveOut && !aggregator::is_up_to_date(entry->path())) continue;
    const Result<report::Analysis> analysis = stored_analysis(entry->path(), false);
    HistoryRun run;
    if (analysis)
      run = report::history_run(analysis.value(), name);
    else
      run.name = name, run.error = analysis.error().message;
    // Errors other than damage, as of a permission or of memory, may be none the next time.
    const bool is_final = analysis ? analysis.value().run.state != report::RunState::kRunning
                                   : analysis.error().kind == ErrorKind::kDamaged;
    if (!is_final) {
      runs.push_back(std::move(run));
      continue;
    }
    index[name] = {stamp_of(entry->path()), std::move(run)};
    is_new = true;
  }
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return Error{directory.string() + ": nothing found: there is no such directory", ErrorKind::kNotFound};
  if (error) return Error{directory.string() + ": cannot be read: " + error.message()};
  // What is left of the old index is gone. Runs that were left out will be looked at again.
  if ((is_new || !old.empty()) && chosen_view().is_usual()) write_history_index(directory, index);
  for (auto& [name, indexed] : index) runs.push_back(std::move(indexed.run));
  return runs;
}

// Where the runs are, and which of them.
struct Asked {
  fs::path directory;
  std::string run;      // and those like it; empty: no run was named
  std::string program;  // a word of the command; empty: any
};
Result<Asked> asked_for(const std::string& what) {
  if (what.empty()) return Asked{run_root(), "", ""};
  std::error_code error;
  if (fs::is_directory(what, error) && !is_run(what)) return Asked{what, "", ""};
  const Result<fs::path> run = run_directory(what);
  if (run) {
    const fs::path real = fs::canonical(run.value(), error);
    if (error) return Error{what + ": cannot be read: " + error.message()};
    return Asked{real.parent_path(), real.filename().string(), ""};
  }
  if (run.error().kind != ErrorKind::kNotFound || what.find('/') != std::string::npos) return run.error();
  return Asked{run_root(), "", what};
}

void select(std::vector<HistoryRun>& runs, const Asked& asked) {
  if (!asked.run.empty()) {
    const auto named =
        std::find_if(runs.begin(), runs.end(), [&](const HistoryRun& run) { return run.name == asked.run; });
    if (named == runs.end()) return runs.clear();
    const HistoryRun like = *named;
    std::erase_if(runs, [&](const HistoryRun& run) {
      return run.name != like.name && (!run.error.empty() || !report::is_alike(run, like));
    });
  }
  if (!asked.program.empty())
    std::erase_if(runs, [&](const HistoryRun& run) {
      return std::none_of(run.command.begin(), run.command.end(),
                          [&](const std::string& word) { return base_name(word) == asked.program; });
    });
}

}  // namespace

int history(const HistoryOptions& options) {
  const Result<Asked> asked = asked_for(options.what);
  if (!asked) return complain(asked.error());
  Result<std::vector<HistoryRun>> read = read_runs(asked.value().directory, Unmerged::kMerge);
  if (!read) return complain(read.error());
  std::vector<HistoryRun> runs = std::move(read).value();
  select(runs, asked.value());
  if (runs.empty())
    return complain(kNothingFound, (options.what.empty() ? asked.value().directory.string() : options.what) +
                                       ": nothing found: no such runs");
  const report::History result = report::history(std::move(runs));

  if (!options.html.empty()) {
    const Result<void> written = write_named_file(options.html, report::render_history_html(result));
    if (!written) return complain(written.error());
  }
  if (!options.badge.empty()) {
    if (result.series.empty())
      return complain(kNothingFound, "history: no run can be read, so there is no badge");
    const Result<void> written =
        write_named_file(options.badge, report::render_badge(result.series.back().runs.back()));
    if (!written) return complain(written.error());
  }
  if (options.json) {
    Output output;
    report::render_history_json(result, [&](std::string_view piece) { output(piece); });
    return output.finish();
  }
  if (!options.html.empty() || !options.badge.empty()) return kOk;
  report::TextOptions text;
  text.width = columns_of(STDOUT_FILENO);
  text.colour = wants_colour(STDOUT_FILENO, options.colour);
  text.rows = options.top;
  return print(report::render_history_text(result, text));
}

Result<report::Noise> noise_in(const fs::path& directory, const HistoryRun& of,
                               const std::vector<std::string>& without) {
  Result<std::vector<HistoryRun>> read = read_runs(directory, Unmerged::kLeaveOut);
  if (!read) return read.error();
  std::vector<HistoryRun> runs = std::move(read).value();
  std::erase_if(runs, [&](const HistoryRun& run) {
    return !run.error.empty() || !report::is_alike(run, of) ||
           std::find(without.begin(), without.end(), run.id) != without.end();
  });
  if (runs.empty()) return report::Noise();
  return report::noise_of(report::history(std::move(runs)).series.back());
}

}  // namespace clusterprof::cli
