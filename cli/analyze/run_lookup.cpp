// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/run_lookup.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <tuple>

#include "aggregator/run_directory.hpp"
#include "base/first_names.hpp"
#include "base/shared_directory.hpp"
#include "base/split.hpp"
#include "cli/analyze/live_shards.hpp"
#include "formats/run/run_control.hpp"
#include "formats/shard/run_files.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRunsInMessage = 8;

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// JOB[_TASK][.STEP], numbers all; views of what was parsed.
struct JobStep {
  std::string_view job, task, step;  // the last two: empty where there is none
};

std::optional<JobStep> parse(std::string_view text) {
  JobStep parts;
  const auto cut = [&](char mark, std::string_view& behind) {
    const std::size_t at = text.find(mark);
    if (at == std::string_view::npos) return true;
    behind = text.substr(at + 1);
    text = text.substr(0, at);
    return is_number(behind);
  };
  if (!cut('.', parts.step) || !cut('_', parts.task) || !is_number(text)) return std::nullopt;
  parts.job = text;
  return parts;
}

// What the run says that its job is called, one name or two; none of runs outside of jobs, and of older ones.
std::vector<std::string> recorded_jobs(const fs::path& run) {
  std::error_code error;
  const std::string names = fs::read_symlink(run / shard::kJobLink, error).string();
  return split(names, ' ');
}

bool holds_a_run(const fs::path& directory) {
  std::error_code error;
  if (fs::exists(directory / aggregator::kProfileName, error)) return true;
  const auto shards = aggregator::list_shards(directory);
  return shards && !shards.value().empty();
}

bool is_running(const fs::path& run) {
  if (!read_answers(run.string()).empty()) return true;
  const Result<LiveNodes> live = look_at_live_nodes(run);
  return live && live.value().state == report::RunState::kRunning;
}

// By job, and runs of one job step in the order of the numbers behind their names.
std::vector<fs::path> runs_of_job(const fs::path& root, std::string_view id, std::error_code& error) {
  std::vector<fs::path> runs;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    if (may_be_run(*entry) && run_is_of_job(entry->path(), id)) runs.push_back(entry->path());
  }
  const auto order = [](const fs::path& run) {
    const std::string job = job_of_run(run), name = run.filename().string();
    return std::make_tuple(job.size(), job, name.size(), name);
  };
  std::sort(runs.begin(), runs.end(),
            [&](const fs::path& x, const fs::path& y) { return order(x) < order(y); });
  return runs;
}

bool is_run_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == aggregator::kProfileName || shard::is_shard_name(name);
}

// The run that a file is of.
fs::path run_of_file(const fs::path& file) {
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const std::string name = fs::absolute(directory).lexically_normal().filename().string();
  return shard::is_shard_directory(name) ? directory / ".." : directory;
}

}  // namespace

fs::path run_root() {
  const char* const root = std::getenv("CLUSTERPROF_ROOT");
  return root == nullptr || *root == '\0' ? fs::path(".") : fs::path(root);
}

bool may_be_run(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error) &&
         !entry.path().filename().string().starts_with(shard::kRendezvousLinkPrefix);
}

std::string job_in_name(std::string_view name) {
  constexpr std::string_view kPrefix = "clusterprof-";
  constexpr std::size_t kDate = 8, kTime = 6, kShortestJob = 3;
  if (!name.starts_with(kPrefix) || name.find(kSnapshotMark) != std::string_view::npos) return {};
  name.remove_prefix(kPrefix.size());
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('-', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  const auto back = [&](std::size_t i) { return i < parts.size() ? parts[parts.size() - 1 - i] : ""; };
  const auto is_time = [&](std::size_t i) {
    return is_number(back(i)) && back(i).size() == kTime && is_number(back(i + 1)) &&
           back(i + 1).size() == kDate;
  };
  const auto is_job = [&](std::size_t i) { return i + 1 < parts.size() && parse(back(i)).has_value(); };
  for (const std::size_t i : {0, 1})  // 1: behind it a number that tells equal names apart
    if (is_time(i) && (i == 0 || is_number(back(0))))
      return std::string(back(i + 1)).append("-").append(back(i));
  const bool is_sure = back(1).find_first_of("._") != std::string_view::npos;
  if (is_number(back(0)) && is_job(1) && (is_sure || back(1).size() >= kShortestJob))
    return std::string(back(1));
  return is_job(0) ? std::string(back(0)) : "";
}

std::string job_of_run(const fs::path& run) {
  const std::vector<std::string> recorded = recorded_jobs(run);
  return recorded.empty() ? job_in_name(run.filename().string()) : recorded.front();
}

bool is_of_job(std::string_view job, std::string_view id) {
  if (job == id) return true;
  const auto of = parse(job), named = parse(id);
  if (!of || !named || of->job != named->job) return false;
  if (named->task.empty() && named->step.empty()) return true;
  return of->task == named->task && (named->step.empty() || of->step == named->step);
}

bool run_is_of_job(const fs::path& run, std::string_view id) {
  std::vector<std::string> jobs = recorded_jobs(run);
  if (jobs.empty()) jobs.push_back(job_in_name(run.filename().string()));
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const std::string& job) { return !job.empty() && is_of_job(job, id); });
}

Result<fs::path> find_path(const std::string& argument, std::string_view what, Meant meant) {
  fs::path path(argument);
  const bool is_job = parse(argument).has_value();
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  // A file that is called like a job is no run; a directory is taken for one.
  if (fs::exists(status) && (!is_job || fs::is_directory(status))) return path;
  if (!fs::exists(status) && status.type() != fs::file_type::not_found)
    return Error{argument + ": cannot be read: " + error.message()};

  const fs::path root = run_root();
  const std::string nothing = argument + ": nothing found: there is no such " + std::string(what);
  if (argument.empty() || argument.find('/') != std::string::npos)
    return Error{nothing, ErrorKind::kNotFound};
  status = fs::status(root / path, error);
  if (root != "." && fs::is_directory(status)) return root / path;

  std::vector<fs::path> runs = runs_of_job(root, argument, error);
  if (runs.empty()) {
    if (!is_job) return Error{nothing, ErrorKind::kNotFound};
    if (error && error != std::errc::no_such_file_or_directory)
      return Error{root.string() + ": cannot be read: " + error.message()};
    return Error{argument + ": nothing found: no run of that job in " + root.string() +
                     (root == "." ? " (CLUSTERPROF_ROOT is not set)" : ""),
                 ErrorKind::kNotFound};
  }
  if (runs.size() > 1) {  // jobs that did not come to record anything leave directories, too
    const auto without = [](const fs::path& run) { return !holds_a_run(run); };
    if (!std::all_of(runs.begin(), runs.end(), without)) std::erase_if(runs, without);
  }
  if (runs.size() > 1 && meant == Meant::kRunning) {  // those of steps that have ended are not
    const auto ended = [](const fs::path& run) { return !is_running(run); };
    if (!std::all_of(runs.begin(), runs.end(), ended)) std::erase_if(runs, ended);
  }
  if (runs.size() == 1) return runs.front();
  std::vector<std::string> names;
  for (const fs::path& run : runs) names.push_back(run.filename().string());
  std::string text = first_names(names, kRunsInMessage);
  if (runs.size() > kRunsInMessage) text += " (clusterprof ls --job " + argument + ")";
  return Error{argument + ": which of these runs: " + text, ErrorKind::kBadArgument};
}

Result<fs::path> run_directory(const std::string& argument, Meant meant) {
  const Result<fs::path> found = find_path(argument, "run", meant);
  if (!found) return found;
  const fs::path& path = found.value();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return Error{argument + ": cannot be read: " + error.message()};
  restrict_umask_like(path.string());
  if (status.type() != fs::file_type::directory) {
    if (is_run_file(path)) return run_of_file(path);
    return Error{argument + ": is neither a run directory nor a file of one"};
  }
  const Result<std::vector<fs::path>> shards = fs::exists(path / aggregator::kProfileName, error)
                                                   ? aggregator::list_shards(path)
                                                   : aggregator::await_shards(path);
  if (!shards) return shards.error();
  if (shards.value().empty() && !fs::exists(path / aggregator::kProfileName, error)) {
    const std::string name = path == argument ? argument : argument + " (" + path.filename().string() + ")";
    return Error{name + ": " + aggregator::nothing_found(path), ErrorKind::kNotFound};
  }
  return path;
}

}  // namespace clusterprof::cli
