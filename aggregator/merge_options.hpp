// SPDX-License-Identifier: BSD-3-Clause
// Options and result of a merge, and the interface of an observer that sees every row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aggregator/team.hpp"
#include "base/result.hpp"
#include "formats/profile/gains.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Sees every rank of a merge; the report's analysis is one. Its results must depend neither on the order of
// the ranks nor on which member of a team saw which rank.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  // `head` is complete but for the rows; on members other than 0 it lacks rank_series too. It outlives the
  // calls that follow. begin() is called again when the merge has to start over; what was seen before does
  // not count then.
  virtual void begin(const shard::ShardData& head) = 0;
  virtual void add(const shard::RankRows& rows) = 0;
  [[nodiscard]] virtual Bytes state() const = 0;
  [[nodiscard]] virtual Result<void> absorb(std::span<const std::byte> state) = 0;
  // On member 0 only: returns what the profile is to keep.
  [[nodiscard]] virtual Bytes finish() = 0;
  // After finish(): what the profile is to keep of what changes of the program would gain.
  [[nodiscard]] virtual std::optional<profile::Gains> gains() { return {}; }
};

// Progress of one member's work.
struct MergeProgress {
  enum class Phase { kHeads, kEvents, kRows, kWriting } phase = Phase::kHeads;
  std::size_t done = 0, all = 0;  // shards; kWriting: blocks
  double share = 0;               // 0..1 of all the work, by bytes; reading MPI events is not counted
};

struct MergeOptions {
  bool partial = false;     // leave damaged shards out, with a warning and a note, instead of failing
  bool write = true;        // profile.h5 into the run directory
  bool snapshot = false;    // of a run that may be running: a note says as of when
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

}  // namespace clusterprof::aggregator
