// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/verbs.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <variant>

#include "aggregator/merger.hpp"
#include "aggregator/run_directory.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "cli/analyze/analysis_observer.hpp"
#include "cli/analyze/dump.hpp"
#include "cli/analyze/merge_bar.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "formats/profile/file_kind.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/report.hpp"
#include "report/text/format.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::text::printable;
using shard::ShardData;

constexpr std::chrono::milliseconds kPollInterval{50};
// A banner waits no longer for ranks that no shard has once it has waited for kPatience and the
// last shard to appear did so kQuiet ago.
constexpr std::chrono::seconds kPatience{3};
constexpr std::chrono::seconds kQuiet{1};

// --- ls --------------------------------------------------------------------------------------

std::string utc_text(std::int64_t ns) {
  const std::time_t seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm parts{};
  char text[32];
  if (ns <= 0 || ::gmtime_r(&seconds, &parts) == nullptr) return "-";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string seconds_text(double seconds) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.1f s", seconds))};
}

Result<ShardData> summary_of_run(const fs::path& run) {
  if (aggregator::is_up_to_date(run)) return profile::read_profile_summary(run / aggregator::kProfileName);
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(run);
  if (!shards) return shards.error();
  if (shards.value().empty()) return profile::read_profile_summary(run / aggregator::kProfileName);
  aggregator::Merger merger;
  for (const fs::path& path : shards.value()) {
    const Result<ShardData> data = shard::read_shard_summary(path);
    if (!data) return data.error();
    merger.add(data.value());
  }
  ShardData data = merger.finish();
  aggregator::note_missing_ranks(data);
  return data;
}

struct ListedRun {
  std::string name;
  std::vector<std::string> cells;
  std::int64_t start_utc_ns = 0;
};

ListedRun listed(const std::string& name, const fs::path& run) {
  const Result<ShardData> summary = summary_of_run(run);
  if (!summary) return {name, {"-", "-", "-", "-", "damaged: " + printable(summary.error().message)}, 0};
  const ShardData& data = summary.value();
  std::int64_t first = 0, last = 0;
  for (const shard::Rank& rank : data.ranks) {
    const std::int64_t end = rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns);
    first = first == 0 ? rank.start_utc_ns : std::min(first, rank.start_utc_ns);
    last = std::max(last, end);
  }
  std::string command;
  for (const std::string& argument : data.run.command) {
    if (!command.empty()) command += ' ';
    command += argument;
  }
  command = report::text::shorten(printable(command), 60);
  return {name,
          {utc_text(data.run.start_utc_ns), std::to_string(data.ranks.size()),
           std::to_string(data.nodes.size()), seconds_text(static_cast<double>(last - first) * 1e-9),
           (data.run.complete ? "" : "(incomplete) ") + command},
          data.run.start_utc_ns};
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
    return seen.size() >= ranks || (now - start_ >= kPatience && now - newest_shard_ >= kQuiet);
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

// A name nobody can prepare, in the directory of `path`.
fs::path temporary_of(const fs::path& path) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random))
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  char suffix[48];
  std::snprintf(suffix, sizeof suffix, ".%d.%016llx.tmp", ::getpid(),
                static_cast<unsigned long long>(random));
  return path.parent_path() / ("." + path.filename().string() + suffix);
}

Result<void> write_text(const fs::path& path, const std::string& text) {
  const fs::path temporary = temporary_of(path);
  const auto failed = [&] { return Error{path.string() + ": cannot be written: " + std::strerror(errno)}; };
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) return failed();  // also when it exists: then it is not ours to remove
  const auto give_up = [&]() -> Result<void> {
    const Error error = failed();
    ::unlink(temporary.c_str());
    return error;
  };
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return give_up();
    done += static_cast<std::size_t>(n);
  }
  fd.reset();
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up();
  return {};
}

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

}  // namespace

int merge(const MergeVerbOptions& options, aggregator::Team* team) {
  const auto start = std::chrono::steady_clock::now();
  const std::variant<fs::path, int> directory = run_directory(options.run);
  if (const int* status = std::get_if<int>(&directory)) return *status;
  const fs::path& path = std::get<fs::path>(directory);
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(path);
  if (!shards) return complain(kBadInput, shards.error().message);
  if (shards.value().empty())
    return complain(kNothingFound, options.run + ": nothing found: no node-*.h5 in it");
  const bool speaks = team == nullptr || team->member() == 0;
  AnalysisObserver observer;
  MergeBarOnStderr bar(options.quiet || !speaks);
  aggregator::MergeOptions how;
  how.partial = options.partial;
  how.team = team;
  how.observer = &observer;
  how.progress = [&](const aggregator::MergeProgress& progress) { bar.update(progress); };
  const Result<aggregator::MergeReport> merged = aggregator::merge_run(path, how);
  bar.finish();
  if (!merged) return complain(kBadInput, merged.error().message);
  if (!speaks) return kOk;
  const aggregator::MergeReport& report = merged.value();
  for (const std::string& warning : report.warnings) complain(kOk, warning);
  if (report.write_error) return complain(kBadInput, report.write_error->message);
  const ShardData& head = report.head;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return print(printable((path / aggregator::kProfileName).string()) + ": " +
               std::to_string(head.ranks.size()) + " ranks, " + std::to_string(report.shards) + " shards" +
               (report.reused == 0 ? "" : " (" + std::to_string(report.reused) + " merged before)") + ", " +
               std::to_string(head.paths.size() - 1) + " call paths" +
               (head.run.complete ? "" : ", incomplete") + ", " + seconds_text(elapsed.count()) + "\n");
}

int report(const ReportOptions& options) {
  const std::vector<std::string>& known = report::section_names();
  for (const std::string& section : options.sections) {
    if (std::find(known.begin(), known.end(), section) != known.end()) continue;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    return complain(kBadUsage, "report: there is no section " + section + " (there are " + names + ")");
  }
  const std::variant<fs::path, int> directory = run_directory(options.run);
  if (const int* status = std::get_if<int>(&directory)) return *status;
  const fs::path& run = std::get<fs::path>(directory);
  const bool timeline =
      std::find(options.sections.begin(), options.sections.end(), "timeline") != options.sections.end();
  std::optional<report::Analysis> analysis;
  if (options.region.empty()) {
    Result<report::Analysis> whole = stored_analysis(run, options.json || timeline);
    if (!whole) return complain(kBadInput, whole.error().message);
    analysis = std::move(whole.value());
  } else {
    Result<profile::ProfileReader> profile = open_profile(run, nullptr);
    if (!profile) return complain(kBadInput, profile.error().message);
    const Result<const ShardData*> head = profile.value().head();
    if (!head) return complain(kBadInput, head.error().message);
    analysis = report::analyse_region(*head.value(), *profile.value().rows(), options.region);
    if (!analysis) return complain(kNothingFound, "report: there is no region " + options.region);
  }
  if (options.json) {
    Output output;
    report::render_json(*analysis, [&](std::string_view piece) { output(piece); });
    return output.finish();
  }
  report::TextOptions text;
  text.width = columns_of(STDOUT_FILENO);
  text.colour = wants_colour(STDOUT_FILENO);
  text.sections = options.sections;
  text.unicode = wants_unicode();
  return print(report::render_text(*analysis, text));
}

int banner(const BannerOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  Progress progress(options.run);
  while (!progress.finished(options.wait_ranks) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPollInterval);

  const std::variant<fs::path, int> directory = run_directory(options.run);
  if (const int* status = std::get_if<int>(&directory)) return *status;
  const fs::path& path = std::get<fs::path>(directory);
  AnalysisObserver observer(AnalysisObserver::Keep::kAnalysis);
  aggregator::MergeOptions how;
  how.partial = true;
  how.observer = &observer;
  const Result<aggregator::MergeReport> merged = aggregator::merge_run(path, how);
  if (!merged) return complain(kBadInput, merged.error().message);
  if (const std::vector<std::string>& warnings = merged.value().warnings; !warnings.empty()) {
    const std::size_t others = warnings.size() - 1;  // the report's notes have them all
    complain(kOk, warnings[0] + (others == 0 ? "" : " (and " + std::to_string(others) + " more)"));
  }
  if (merged.value().write_error) complain(kOk, merged.value().write_error->message);
  const report::Analysis& analysis = observer.analysis().value();
  const Result<void> written = write_text(path / "report.txt", report::render_text(analysis, {}));
  if (!written) complain(kOk, written.error().message);
  const std::string text = report::render_banner(analysis, run_for_people(path), columns_of(STDERR_FILENO));
  std::fwrite(text.data(), 1, text.size(), stderr);
  return kOk;
}

int dump_file(const std::string& file) {
  fs::path path(file);
  std::error_code error;
  if (!fs::exists(path, error))
    return complain(kNothingFound, file + ": nothing found: there is no such file");
  if (fs::is_directory(path, error)) path /= aggregator::kProfileName;
  Output output;
  const Result<void> dumped = dump(path, [&](std::string_view text) { output(text); });
  if (!dumped) return complain(kBadInput, dumped.error().message);
  return output.finish();
}

int validate(const std::string& file_or_run) {
  const fs::path path(file_or_run);
  std::error_code error;
  if (!fs::exists(path, error))
    return complain(kNothingFound, file_or_run + ": nothing found: there is no such file");
  std::vector<fs::path> files{path};
  if (fs::is_directory(path, error)) {
    const std::variant<fs::path, int> directory = run_directory(file_or_run);
    if (const int* status = std::get_if<int>(&directory)) return *status;
    Result<std::vector<fs::path>> shards = aggregator::list_shards(path);
    if (!shards) return complain(kBadInput, shards.error().message);
    files = std::move(shards.value());
    if (fs::exists(path / aggregator::kProfileName, error)) files.push_back(path / aggregator::kProfileName);
  }
  int status = kOk;
  for (const fs::path& file : files) {
    const Result<void> checked = check_file(file);
    const int result =
        checked ? print(printable(file.string()) + ": ok\n") : complain(kBadInput, checked.error().message);
    status = std::max(status, result);
  }
  return status;
}

int list_runs(const std::string& directory) {
  std::vector<ListedRun> runs;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) continue;
    const Result<std::vector<fs::path>> shards = aggregator::list_shards(entry->path());
    if (!shards) continue;  // a directory we may not read is none of our runs
    if (shards.value().empty() && !fs::exists(entry->path() / aggregator::kProfileName, ignored)) continue;
    runs.push_back(listed(printable(entry->path().filename().string()), entry->path()));
  }
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return complain(kNothingFound, directory + ": nothing found: there is no such directory");
  if (error) return complain(kBadInput, directory + ": cannot be read: " + error.message());
  if (runs.empty()) return complain(kNothingFound, directory + ": nothing found: no runs in it");
  std::sort(runs.begin(), runs.end(), [](const ListedRun& a, const ListedRun& b) {
    return std::tie(a.start_utc_ns, a.name) < std::tie(b.start_utc_ns, b.name);
  });

  std::vector<std::vector<std::string>> rows{{"RUN", "START", "RANKS", "NODES", "ELAPSED", "COMMAND"}};
  for (ListedRun& run : runs) {
    run.cells.insert(run.cells.begin(), run.name);
    rows.push_back(std::move(run.cells));
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], report::text::columns(row[i]));
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool number = i >= 2 && i <= 4;
      const std::string padding(widths[i] - report::text::columns(row[i]), ' ');
      if (number) text += padding;
      text += row[i];
      if (i + 1 == row.size()) break;
      if (!number) text += padding;
      text += "  ";
    }
    text += '\n';
  }
  return print(text);
}

}  // namespace clusterprof::cli
