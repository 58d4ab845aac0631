// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/run_directory.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "aggregator/merger.hpp"
#include "aggregator/wait_analyser.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/profile/profile_writer.hpp"
#include "formats/shard/shard_reader.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

bool is_shard_name(std::string_view name) {
  return name.size() > 8 && name.starts_with("node-") && name.ends_with(".h5");
}

struct Absent {
  std::string ranges;  // "0, 2-4"; at most a few dozen ranges, so that one line stays one line
  std::size_t count = 0;
};
Absent absent_from(const std::vector<bool>& present) {
  constexpr std::size_t kMaxRanges = 24;
  Absent absent;
  std::size_t listed = 0;
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (present[i]) continue;
    const std::size_t first = i;
    while (i + 1 < present.size() && !present[i + 1]) ++i;
    absent.count += i - first + 1;
    if (++listed > kMaxRanges) continue;
    if (listed > 1) absent.ranges += ", ";
    absent.ranges += std::to_string(first);
    if (i != first) {
      absent.ranges += '-';
      absent.ranges += std::to_string(i);
    }
  }
  if (listed > kMaxRanges) absent.ranges += ", ...";
  return absent;
}

void add_note(shard::ShardData& data, std::string note) {
  std::vector<std::string>& notes = data.run.notes;
  const auto place = std::lower_bound(notes.begin(), notes.end(), note);
  if (place == notes.end() || *place != note) notes.insert(place, std::move(note));
}

}  // namespace

Result<std::vector<fs::path>> list_shards(const fs::path& run_dir) {
  std::vector<fs::path> shards;
  std::error_code error;
  for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (is_shard_name(entry->path().filename().string()) && entry->is_regular_file(ignored))
      shards.push_back(entry->path());
  }
  if (error) return Error{run_dir.string() + ": cannot be read: " + error.message()};
  std::sort(shards.begin(), shards.end());
  return shards;
}

void note_missing_ranks(shard::ShardData& data) {
  std::vector<bool> present(std::min(data.run.world_size, shard::kMaxWorldSize));
  for (const shard::Rank& rank : data.ranks)
    if (rank.rank >= 0 && static_cast<std::size_t>(rank.rank) < present.size())
      present[static_cast<std::size_t>(rank.rank)] = true;
  const Absent absent = absent_from(present);
  if (absent.count == 0) return;
  const bool one = absent.count == 1;
  data.run.complete = false;
  add_note(data, (one ? "rank " : "ranks ") + absent.ranges + " of " + std::to_string(data.run.world_size) +
                     (one ? " is" : " are") + " missing: no shard has a record of " + (one ? "it" : "them"));
}

Result<MergeReport> merge_run(const fs::path& run_dir, const MergeOptions& options) {
  const Result<std::vector<fs::path>> shards = list_shards(run_dir);
  if (!shards) return shards.error();
  if (shards.value().empty()) return Error{run_dir.string() + ": nothing found: no node-*.h5 in it"};

  MergeReport report;
  Merger merger;
  WaitAnalyser analyser;
  std::vector<profile::Source> sources;
  std::vector<std::string> notes;
  std::set<std::string> run_ids;
  for (const fs::path& path : shards.value()) {
    // The size from before reading: a shard replaced meanwhile makes the profile out of date.
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(path, error);
    const std::string name = path.filename().string();
    Result<shard::ShardData> data = shard::read_shard(path);
    if (!data) {
      if (!options.partial) return data.error();
      report.warnings.push_back(data.error().message + "; left out");
      notes.push_back(name + " is damaged and was left out");
      sources.push_back({name, bytes, false});
      continue;
    }
    merger.add(data.value());
    analyser.add(data.value());
    run_ids.insert(data.value().run.id);
    if (!data.value().run.complete)
      notes.push_back(name + " is incomplete: it was written while ranks of its node still ran");
    sources.push_back({name, bytes, true});
    ++report.shards;
  }
  if (report.shards == 0) return Error{run_dir.string() + ": every shard in it is damaged"};
  if (run_ids.size() > 1) notes.push_back("the shards are of different runs");

  report.profile = merger.finish();
  analyser.finish(report.profile);
  for (std::string& note : notes) add_note(report.profile, std::move(note));
  if (report.shards != sources.size()) report.profile.run.complete = false;
  note_missing_ranks(report.profile);
  if (options.write) {
    const Result<void> written = profile::write_profile(report.profile, run_dir / kProfileName, sources);
    if (!written) report.write_error = written.error();
  }
  return report;
}

bool is_up_to_date(const fs::path& run_dir) {
  const fs::path profile = run_dir / kProfileName;
  std::error_code error;
  const fs::file_time_type made = fs::last_write_time(profile, error);
  if (error) return false;
  const Result<std::vector<fs::path>> shards = list_shards(run_dir);
  if (!shards) return false;
  const Result<std::vector<profile::Source>> sources = profile::read_sources(profile);
  if (!sources || sources.value().size() != shards.value().size()) return false;
  for (std::size_t i = 0; i < shards.value().size(); ++i) {
    const fs::path& shard = shards.value()[i];
    const profile::Source& source = sources.value()[i];
    if (source.name != shard.filename().string()) return false;
    if (fs::file_size(shard, error) != source.size_bytes || error) return false;
    if (fs::last_write_time(shard, error) > made || error) return false;
  }
  return true;
}

Result<shard::ShardData> load_run(const fs::path& run_dir) {
  const Result<std::vector<fs::path>> shards = list_shards(run_dir);
  if (!shards) return shards.error();
  const fs::path profile = run_dir / kProfileName;
  std::error_code error;
  if (shards.value().empty()) {
    if (!fs::exists(profile, error))
      return Error{run_dir.string() + ": nothing found: neither node-*.h5 nor " + kProfileName + " in it"};
    return profile::read_profile(profile);
  }
  if (is_up_to_date(run_dir)) {
    Result<shard::ShardData> data = profile::read_profile(profile);
    if (data) return data;  // a damaged profile is made again
  }
  Result<MergeReport> merged = merge_run(run_dir);
  if (!merged) return merged.error();
  return std::move(merged.value().profile);
}

}  // namespace clusterprof::aggregator
