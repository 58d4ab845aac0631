// SPDX-License-Identifier: BSD-3-Clause
// A run directory: its shards, its profile, and getting from the ones to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aggregator/team.hpp"
#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

inline constexpr const char* kProfileName = "profile.h5";

// node-*.h5 of the directory, by name. Error when it cannot be listed.
Result<std::vector<std::filesystem::path>> list_shards(const std::filesystem::path& run_dir);
// The same once there is one, or none is to be expected soon. A job whose launchers are killed, as MPI_Abort
// of MPICH does, ends before its collectors, which write on: up to 10 s are waited for their first shards.
Result<std::vector<std::filesystem::path>> await_shards(const std::filesystem::path& run_dir);

// What a merge does with every rank besides statistics: the report's analysis. Its results have to be the
// same whatever the order of ranks and whoever of a team saw which.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  // `head`: complete but for the rows, and of a member other than 0 without rank_series; outlives what
  // follows. Once more when the merge has to begin again: what was before does not count then.
  virtual void begin(const shard::ShardData& head) = 0;
  virtual void add(const shard::RankRows& rows) = 0;
  [[nodiscard]] virtual Bytes state() const = 0;
  [[nodiscard]] virtual Result<void> absorb(std::span<const std::byte> state) = 0;
  // Member 0 alone: what to keep in the profile.
  [[nodiscard]] virtual Bytes finish() = 0;
};

// How far a merge is, of one member's work.
struct MergeProgress {
  enum class Phase { kHeads, kRows, kWriting } phase = Phase::kHeads;
  std::size_t done = 0, all = 0;  // shards; kWriting: blocks
  double share = 0;               // 0..1 of all the work, by bytes
};

struct MergeOptions {
  bool partial = false;     // leave damaged shards out, with a warning and a note, instead of failing
  bool write = true;        // profile.h5 into the run directory
  Team* team = nullptr;     // null: alone
  std::size_t threads = 0;  // of one that merges alone; 0: as many as are of use
  RankObserver* observer = nullptr;
  std::function<void(const MergeProgress&)> progress{};  // called often, by one thread at a time
  std::uint64_t most_events = std::uint64_t{1}
                              << 23;  // that the analysis of waiting looks at; more are thinned out
};

struct MergeReport {
  shard::ShardData head;              // without matrix rows; member 0 alone
  std::size_t shards = 0;             // merged
  std::size_t reused = 0;             // of them: taken over from the profile that was there
  std::vector<std::string> warnings;  // one line each, for people
  std::optional<Error> write_error;   // profile.h5 could not be written; the rest is good
};

// Merges all shards of a run, a node at a time: memory is that of the head, of the distinct call paths and of
// one node's rows. The profile is the same to the last byte whatever the order of shards, the size of the
// team and what was merged before. run.complete is true when every shard is complete, no rank is lost and
// none below run.world_size is missing; notes say what is missing. Error (of all members): no shard at all,
// or one is damaged (ErrorKind::kDamaged, unless options.partial), or all are.
Result<MergeReport> merge_run(const std::filesystem::path& run_dir, const MergeOptions& options = {});

// The profile of a run, which like a merge tidies up where ranks or collectors were killed
// (remove_leftovers): profile.h5 when it is up to date, or when there is nothing else; merged and stored
// otherwise. Where the directory cannot be written the profile lies in a temporary place until the reader is
// gone.
Result<profile::ProfileReader> open_run(const std::filesystem::path& run_dir,
                                        RankObserver* observer = nullptr,
                                        const std::function<void(const MergeProgress&)>& progress = {});

// Everything of it in memory, for small runs and tests.
Result<shard::ShardData> load_run(const std::filesystem::path& run_dir);

// Whether profile.h5 was made from the shards that are there now.
bool is_up_to_date(const std::filesystem::path& run_dir);

// What merge_run adds to the united data, for data merged by other means: completes
// run.complete and the notes by looking for lost and missing ranks, and sorts the notes.
void note_missing_ranks(shard::ShardData& data);

}  // namespace clusterprof::aggregator
