// SPDX-License-Identifier: BSD-3-Clause
// Finds the shards of a run directory, decides whether profile.h5 is up to date, and otherwise has it
// made. Entry point of the aggregator for the command line, the banner at the end of a job, and the tests.
#include "aggregator/run_directory.hpp"

#include <stdlib.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "aggregator/abandoned_files.hpp"
#include "aggregator/run_merge.hpp"

namespace clusterprof::aggregator {
namespace {

namespace fs = std::filesystem;

// A temporary directory. The destructor removes it with its contents.
class TemporaryPlace {
 public:
  TemporaryPlace() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "clusterprof-XXXXXX").string();
    if (!error && ::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;
  ~TemporaryPlace() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  // Empty when there is none.
  [[nodiscard]] fs::path profile() const { return path_.empty() ? fs::path() : path_ / kProfileName; }

 private:
  fs::path path_;
};

}  // namespace

Result<MergeReport> merge_run(const fs::path& run_dir, const MergeOptions& options) {
  Destination destination{run_dir / kProfileName, {}, {}};
  Result<MergeReport> merged = merge_shards(run_dir, options, destination);
  if (merged && options.write && (options.team == nullptr || options.team->member() == 0))
    remove_leftovers(run_dir, [&] { return progress_of(merged.value().head); });
  return merged;
}

Result<MergeReport> merge_snapshot(const fs::path& run_dir, const fs::path& profile, MergeOptions options) {
  options.snapshot = true;
  Destination destination{profile, {}, {}};
  return merge_shards(run_dir, options, destination);
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
    if (source.name != name_of_shard(run_dir, shard)) return false;
    if (fs::file_size(shard, error) != source.size_bytes || error) return false;
    if (fs::last_write_time(shard, error) > made || error) return false;
  }
  return true;
}

Result<profile::ProfileReader> open_run(const fs::path& run_dir, RankObserver* observer,
                                        const std::function<void(const MergeProgress&)>& progress) {
  const Result<std::vector<fs::path>> shards = list_shards(run_dir);
  if (!shards) return shards.error();
  const fs::path profile = run_dir / kProfileName;
  std::error_code error;
  if (shards.value().empty()) {
    remove_leftovers(run_dir, [] { return RunProgress{}; });
    if (!fs::exists(profile, error)) return Error{run_dir.string() + ": " + nothing_found(run_dir)};
    return profile::ProfileReader::open(profile);
  }
  if (is_up_to_date(run_dir)) {
    Result<profile::ProfileReader> reader = profile::ProfileReader::open(profile);
    if (reader && reader.value().summary()) {  // a damaged profile is made again
      remove_leftovers(run_dir, [&] {
        const Result<const shard::ShardData*> head = reader.value().head();
        return head ? progress_of(*head.value()) : RunProgress{};
      });
      return reader;
    }
  }
  const TemporaryPlace place;
  Destination destination{profile, place.profile(), {}};
  MergeOptions options;
  options.observer = observer;
  options.progress = progress;
  Result<MergeReport> merged = merge_shards(run_dir, options, destination);
  if (merged && destination.made.empty() && !place.profile().empty()) {
    // Writing failed only at the last bytes or at naming the file: use the temporary place.
    destination = {place.profile(), {}, {}};
    merged = merge_shards(run_dir, options, destination);
  }
  if (!merged) return merged.error();
  remove_leftovers(run_dir, [&] { return progress_of(merged.value().head); });
  if (destination.made.empty()) return *merged.value().write_error;
  // The file stays as long as it is open, whatever becomes of its name.
  return profile::ProfileReader::open(destination.made);
}

Result<shard::ShardData> load_run(const fs::path& run_dir) {
  Result<profile::ProfileReader> reader = open_run(run_dir);
  if (!reader) return reader.error();
  const Result<const shard::ShardData*> head = reader.value().head();
  if (!head) return head.error();
  shard::ShardData data = *head.value();
  for (std::uint32_t node = 0; node < data.nodes.size(); ++node) {
    const Result<shard::MatrixRows> rows = reader.value().node(node);
    if (!rows) return rows.error();
    data.values.insert(data.values.end(), rows.value().values.begin(), rows.value().values.end());
    data.path_counters.insert(data.path_counters.end(), rows.value().path_counters.begin(),
                              rows.value().path_counters.end());
    data.data_accesses.insert(data.data_accesses.end(), rows.value().data_accesses.begin(),
                              rows.value().data_accesses.end());
  }
  const auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
  std::stable_sort(data.values.begin(), data.values.end(), by_rank);
  std::stable_sort(data.path_counters.begin(), data.path_counters.end(), by_rank);
  std::stable_sort(data.data_accesses.begin(), data.data_accesses.end(), by_rank);
  return data;
}

}  // namespace clusterprof::aggregator
