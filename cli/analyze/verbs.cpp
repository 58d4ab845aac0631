// SPDX-License-Identifier: BSD-3-Clause
// The commands report, merge, banner and validate.
#include "cli/analyze/verbs.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "aggregator/merger.hpp"
#include "aggregator/run_directory.hpp"
#include "base/result.hpp"
#include "base/shared_directory.hpp"
#include "base/stderr_watchdog.hpp"
#include "base/unique_fd.hpp"
#include "cli/analyze/analysis_observer.hpp"
#include "cli/analyze/bounded_memory.hpp"
#include "cli/analyze/control.hpp"
#include "cli/analyze/dump.hpp"
#include "cli/analyze/html_page.hpp"
#include "cli/analyze/merge_bar.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/write_file.hpp"
#include "formats/profile/file_kind.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/analysis/end_of_run.hpp"
#include "report/analysis/run_state.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::format::plural;
using report::format::printable;
using shard::ShardData;

constexpr std::chrono::milliseconds kPollInterval{50};
// A banner waits no longer for ranks that no shard has once it has waited for kRanksPatience and the
// last shard to appear did so kQuiet ago.
constexpr std::chrono::seconds kRanksPatience{3};
constexpr std::chrono::seconds kQuiet{1};

std::string seconds_text(double seconds) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.1f s", seconds))};
}

// --- banner ----------------------------------------------------------------------------------

// What the shards of a run say about being finished, reading again only what has changed.
class Progress {
 public:
  explicit Progress(fs::path run) : run_(std::move(run)) {}

  // Whether all shards are complete and together have at least `ranks` ranks, or no more are to be
  // expected: jobs may have recorded some of their ranks only.
  bool finished(std::uint32_t ranks) {
    const Result<std::vector<fs::path>> shards = aggregator::list_shards(run_);
    if (!shards || shards.value().empty()) return false;
    std::set<std::int32_t> seen;
    bool complete = true;
    for (const fs::path& path : shards.value()) {
      if (!states_.contains(path)) newest_shard_ = Clock::now();
      const std::optional<State>& state = refresh(path);
      complete = complete && state && state->complete;
      if (state) seen.insert(state->ranks.begin(), state->ranks.end());
    }
    if (!complete) return false;
    const Clock::time_point now = Clock::now();
    return seen.size() >= ranks || (now - start_ >= kRanksPatience && now - newest_shard_ >= kQuiet);
  }

 private:
  struct State {
    std::uint64_t bytes = 0;
    fs::file_time_type modified;
    bool complete = false;
    std::vector<std::int32_t> ranks;
  };

  const std::optional<State>& refresh(const fs::path& path) {
    std::optional<State>& state = states_[path];
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(path, error);
    const fs::file_time_type modified = fs::last_write_time(path, error);
    if (state && state->bytes == bytes && state->modified == modified) return state;
    const Result<ShardData> data = shard::read_shard_summary(path);
    state.reset();
    if (error || !data) return state;  // being replaced, or damaged: the merge will tell
    state = State{bytes, modified, data.value().run.complete, {}};
    for (const shard::Rank& rank : data.value().ranks) state->ranks.push_back(rank.rank);
    return state;
  }

  using Clock = std::chrono::steady_clock;

  fs::path run_;
  Clock::time_point start_ = Clock::now(), newest_shard_ = start_;
  std::map<fs::path, std::optional<State>> states_;
};

// The run as a user would name it from here.
std::string run_for_people(const fs::path& run) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error || !run.is_absolute()) return run.string();
  const fs::path relative = run.lexically_relative(here);
  return relative.empty() || *relative.begin() == ".." ? run.string() : relative.string();
}

// --- validate --------------------------------------------------------------------------------

Result<void> check_file(const fs::path& path) {
  const Result<profile::FileKind> kind = profile::file_kind(path);
  if (!kind) return kind.error();
  if (kind.value() == profile::FileKind::kProfile) return profile::check_profile(path);
  const Result<ShardData> data = shard::read_shard(path);
  return data ? Result<void>() : Result<void>(data.error());
}

// --- merge -----------------------------------------------------------------------------------

// What member 0 finds is right for all: a job may have one run more when the last of them look.
Result<fs::path> run_directory_of(const std::string& run, aggregator::Team* team) {
  if (team == nullptr) return run_directory(run);
  // 'P' and the path, or the kind of the error and its message.
  constexpr char kPath = 'P';
  aggregator::Bytes bytes;
  if (team->member() == 0) {
    const Result<fs::path> found = run_directory(run);
    const std::string text = found ? kPath + found.value().string()
                                   : static_cast<char>(found.error().kind) + found.error().message;
    bytes.resize(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    team->broadcast(bytes);
    return found;
  }
  team->broadcast(bytes);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text[0] != kPath) return Error{text.substr(1), static_cast<ErrorKind>(text[0])};
  restrict_umask_like(text.substr(1));
  return fs::path(text.substr(1));
}

}  // namespace

int merge(const MergeVerbOptions& options, aggregator::Team* team) {
  const auto start = std::chrono::steady_clock::now();
  const Result<fs::path> directory = run_directory_of(options.run, team);
  if (!directory) return complain(directory.error());
  const fs::path& path = directory.value();
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(path);
  if (!shards) return complain(shards.error());
  if (shards.value().empty())
    return complain(kNothingFound, options.run + ": " + aggregator::nothing_found(path));
  const bool speaks = team == nullptr || team->member() == 0;
  AnalysisObserver observer(path);
  MergeBarOnStderr bar(options.quiet || !speaks);
  aggregator::MergeOptions how;
  how.partial = options.partial;
  how.team = team;
  how.observer = &observer;
  how.progress = [&](const aggregator::MergeProgress& progress) { bar.update(progress); };
  const Result<aggregator::MergeReport> merged = aggregator::merge_run(path, how);
  bar.finish();
  if (!merged) return complain(merged.error());
  if (!speaks) return kOk;
  const aggregator::MergeReport& report = merged.value();
  for (const std::string& warning : report.warnings) complain(kOk, warning);
  if (report.write_error) return complain(kBadInput, report.write_error->message);
  const ShardData& head = report.head;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return print(printable((path / aggregator::kProfileName).string()) + ": " +
               plural(head.ranks.size(), "rank") + ", " + plural(report.shards, "shard") +
               (report.reused == 0 ? "" : " (" + std::to_string(report.reused) + " merged before)") + ", " +
               plural(head.paths.size() - 1, "call path") + (head.run.complete ? "" : ", incomplete") + ", " +
               seconds_text(elapsed.count()) + "\n");
}

namespace {

report::Job job_of(const ReportOptions& options) {
  return options.ended ? report::Job::kEnded : report::Job::kMayRun;
}

int page_to(const ReportOptions& options, const fs::path& run) {
  Result<AnalysedRun> analysed = analysed_run(run, true, job_of(options));
  if (!analysed) return complain(analysed.error());
  const Result<HtmlPage> page =
      html_page(analysed.value().profile, std::move(analysed.value().analysis), !options.no_source);
  if (!page) return complain(page.error());
  if (options.html == "-") return print(page.value().text);
  const Result<void> written = write_named_file(options.html, page.value().text, page.value().sources);
  return written ? kOk : complain(written.error());
}

int memory_at(const ReportOptions& options, const report::Analysis& analysis) {
  const std::optional<double> at_s = parse_seconds(options.at);
  if (!at_s)
    return complain(kBadUsage, "--at: a time since the start, as 12.5s, 3m or 1h, not '" + options.at + "'");
  const std::optional<report::HeldAt> held = report::held_at(analysis, *at_s);
  if (!held)
    return complain(kNothingFound, options.run + (analysis.memory ? ": nothing is known of that time"
                                                                  : ": recorded without --memory"));
  if (options.json) {
    Output output;
    report::render_json(analysis, *held, [&](std::string_view piece) { output(piece); });
    return output.finish();
  }
  report::TextOptions text;
  text.width = columns_of(STDOUT_FILENO);
  text.colour = wants_colour(STDOUT_FILENO, options.colour);
  text.unicode = wants_unicode();
  return print(report::render_text(analysis, *held, text));
}

// The first of these sections that the end of a run does not have.
std::optional<std::string> unknown_of_end(const std::vector<std::string>& sections) {
  const std::vector<std::string>& known = report::section_names_of_end();
  for (const std::string& section : sections)
    if (std::find(known.begin(), known.end(), section) == known.end()) return section;
  return std::nullopt;
}

// RUN/report.html at the end of a job. What the banner says of it: where it is, or how to make it; nothing
// where it cannot be made.
std::string leave_page(const BannerOptions& options, const fs::path& run, const report::Analysis& analysis) {
  const fs::path profile_path = run / aggregator::kProfileName;
  const char* const large = "large: made by clusterprof report RUN --html FILE";
  if (!is_quickly_made(profile_path)) return large;
  std::string problem;
  try {
    Result<profile::ProfileReader> profile = profile::ProfileReader::open(profile_path);
    const Result<HtmlPage> page = profile ? html_page(profile.value(), analysis, !options.no_source)
                                          : Result<HtmlPage>(profile.error());
    const Result<void> written = page ? write_file(run / kPageName, page.value().text, page.value().sources)
                                      : Result<void>(page.error());
    if (written) return (fs::path(run_for_people(run)) / kPageName).string();
    problem = written.error().message;
  } catch (const std::bad_alloc&) {
    return large;
  } catch (const std::exception& error) {  // the summary is worth more
    problem = std::string(kPageName) + ": " + error.what();
  }
  complain(kOk, problem);
  return "";
}

int wait_and_show(const BannerOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  Progress progress(options.run);
  while (!progress.finished(options.wait_ranks) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPollInterval);

  const Result<fs::path> directory = run_directory(options.run);
  if (!directory) return complain(directory.error());
  const fs::path& path = directory.value();
  std::optional<AnalysisObserver> observer;
  const auto merge = [&](bool partial) {
    observer.emplace(path, AnalysisObserver::Keep::kAnalysis);
    aggregator::MergeOptions how;
    how.partial = partial;
    how.observer = &*observer;
    return aggregator::merge_run(path, how);
  };
  // A shard that cannot be read for want of memory is not damaged.
  Result<aggregator::MergeReport> merged = merge(!options.memory_bytes);
  if (!merged && options.memory_bytes) {
    if (has_come_near_bound()) throw std::bad_alloc();
    merged = merge(true);
  }
  if (!merged) return complain(merged.error());
  if (const std::vector<std::string>& warnings = merged.value().warnings; !warnings.empty()) {
    const std::size_t others = warnings.size() - 1;  // the report's notes have them all
    complain(kOk, warnings[0] + (others == 0 ? "" : " (and " + std::to_string(others) + " more)"));
  }
  if (merged.value().write_error) complain(kOk, merged.value().write_error->message);
  report::Analysis analysis = std::move(observer->analysis()).value();
  report::find_run_state(analysis, report::Job::kEnded);
  const Result<void> written = write_file(path / "report.txt", report::render_text(analysis, {}));
  if (!written) complain(kOk, written.error().message);
  std::string page;
  if (!options.no_html && !merged.value().write_error) page = leave_page(options, path, analysis);
  const std::string text =
      report::render_banner(analysis, run_for_people(path), columns_of(STDERR_FILENO), page);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  return kOk;
}

}  // namespace

int report(const ReportOptions& options) {
  const Result<fs::path> directory = run_directory(options.run);
  if (!directory) return complain(directory.error());
  const fs::path& run = directory.value();
  const bool timeline =
      std::find(options.sections.begin(), options.sections.end(), "timeline") != options.sections.end();
  if (!options.html.empty()) return page_to(options, run);
  std::optional<report::Analysis> analysis;
  if (!options.last.empty()) {
    const std::optional<std::uint64_t> last_ns = parse_lasting_ns(options.last);
    if (!last_ns)
      return complain(kBadUsage,
                      "--last: a time of at least a second, as 60s, 5m or 2h, not '" + options.last + "'");
    if (const auto unknown = unknown_of_end(options.sections))
      return complain(kBadUsage,
                      "--section " + *unknown +
                          ": known of the whole run only, so leave --last out. With it there are " +
                          fmt::to_string(fmt::join(report::section_names_of_end(), ", ")));
    Result<AnalysedRun> whole = analysed_run(run, true, job_of(options));
    if (!whole) return complain(whole.error());
    const Result<const ShardData*> head = whole.value().profile.head();
    if (!head) return complain(head.error());
    analysis = report::analyse_end(*head.value(), whole.value().analysis, static_cast<double>(*last_ns) / 1e9,
                                   chosen_view().frames);
    if (!analysis) return complain(kNothingFound, options.run + ": nothing of it is known by time");
  } else if (options.region.empty()) {
    Result<report::Analysis> whole =
        stored_analysis(run, options.json || timeline || !options.at.empty(), job_of(options));
    if (!whole) return complain(whole.error());
    analysis = std::move(whole.value());
  } else {
    do {
      Result<profile::ProfileReader> profile = open_profile(run, nullptr);
      if (!profile) return complain(profile.error());
      const Result<const ShardData*> head = profile.value().head();
      if (!head) return complain(head.error());
      const bool again = analysis.has_value();
      analysis = report::analyse_region(*head.value(), *profile.value().rows(), options.region,
                                        chosen_view().frames);
      if (!analysis) return complain(kNothingFound, "report: there is no region " + options.region);
      if (again) break;
    } while (report::has_collector_that_ended(*analysis));
    report::find_run_state(*analysis, job_of(options));
  }
  if (!options.at.empty()) return memory_at(options, *analysis);
  if (options.json) {
    Output output;
    report::render_json(*analysis, [&](std::string_view piece) { output(piece); });
    return output.finish();
  }
  if (options.oneline) return print(report::render_oneline(*analysis));
  report::TextOptions text;
  text.width = columns_of(STDOUT_FILENO);
  text.colour = wants_colour(STDOUT_FILENO, options.colour);
  text.sections = options.sections;
  text.unicode = wants_unicode();
  return print(report::render_text(*analysis, text));
}

int banner(const BannerOptions& options) {
  start_stderr_watchdog(options.launcher_fd);
  if (!options.memory_bytes) return wait_and_show(options);
  const std::string run = run_for_people(options.run);
  const std::string text =
      run + ": the summary takes more memory than the job has left; clusterprof report " + run + " shows it";
  if (!bound_memory(*options.memory_bytes, printable(text))) return complain(kOk, text);
  try {
    return wait_and_show(options);
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {  // no thread
    if (!has_come_near_bound()) throw;
  }
  return complain(kOk, text);
}

int dump_file(const std::string& file) {
  const Result<fs::path> found = find_path(file, "file");
  if (!found) return complain(found.error());
  fs::path path = found.value();
  std::error_code error;
  if (fs::is_directory(path, error)) path /= aggregator::kProfileName;
  Output output;
  const Result<void> dumped = dump(path, [&](std::string_view text) { output(text); });
  if (!dumped) return complain(dumped.error());
  return output.finish();
}

int validate(const std::string& file_or_run) {
  const Result<fs::path> found = find_path(file_or_run, "file");
  if (!found) return complain(found.error());
  const fs::path& path = found.value();
  std::error_code error;
  std::vector<fs::path> files{path};
  if (fs::is_directory(path, error)) {
    if (const Result<fs::path> directory = run_directory(path.string()); !directory)
      return complain(directory.error());
    Result<std::vector<fs::path>> shards = aggregator::list_shards(path);
    if (!shards) return complain(shards.error());
    files = std::move(shards.value());
    if (fs::exists(path / aggregator::kProfileName, error)) files.push_back(path / aggregator::kProfileName);
  }
  int status = kOk;
  for (const fs::path& file : files) {
    const Result<void> checked = check_file(file);
    const int result = checked ? print(printable(file.string()) + ": ok\n") : complain(checked.error());
    status = std::max(status, result);
  }
  return status;
}

}  // namespace clusterprof::cli
