// SPDX-License-Identifier: BSD-3-Clause
// What a merge of a run knows between its steps, and what the members of a team send each other of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "aggregator/archive.hpp"
#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Identifies the file that a name stood for.
struct FileState {
  std::uint64_t size_bytes = 0, inode = 0;
  std::int64_t modified_s = 0, modified_ns = 0;
  friend bool operator==(const FileState&, const FileState&) = default;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(size_bytes, inode, modified_s, modified_ns);
  }
};

// For a missing file this returns a state unlike that of any file.
FileState state_of(const std::filesystem::path& path);
bool is_later(const FileState& a, const FileState& b);

struct Failure {
  enum Kind : std::uint8_t { kDamaged, kChanged, kOldProfile, kOther } kind = kOther;
  std::uint32_t shard = shard::kNone;
  std::string message;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(kind, shard, message);
  }
};

struct Shard {
  std::string name;
  FileState state;        // before it was read
  bool reused = false;    // the old profile stands for it
  bool left_out = false;  // as damaged
  // Per row of its ranks: whether another shard has a better record of the rank. Empty: none has.
  std::vector<bool> lost_ranks;
  std::int64_t moved_ns = 0;  // what its times are moved by, since its node has a wrong date
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, state, reused, left_out, lost_ranks, moved_ns);
  }
  [[nodiscard]] bool lost_all() const {
    return !lost_ranks.empty() && std::find(lost_ranks.begin(), lost_ranks.end(), false) == lost_ranks.end();
  }
};

// What to do next, as member 0 decided.
struct Plan {
  enum Kind : std::uint8_t { kMerge, kFailed, kDone } kind = kMerge;
  std::string error;
  ErrorKind error_kind = ErrorKind::kOther;
  std::vector<Shard> shards;
  FileState old_profile;    // when shards are reused
  bool old_events = false;  // they may have MPI events
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(kind, error, error_kind, shards, old_profile, old_events);
  }
};

// The facts on a shard that are needed to compare all shards.
struct Facts {
  std::uint32_t shard = 0;
  std::string run_id;
  bool complete = true;
  std::vector<std::string> nodes;
  std::vector<shard::Rank> ranks;
  std::uint64_t events = 0;
  std::uint32_t event_level = 0;
  template <typename Archive>
  void save(Archive& archive) const {
    archive(shard, run_id, complete, nodes, events, event_level);
    archive_rows(archive, const_cast<std::vector<shard::Rank>&>(ranks));
  }
  template <typename Archive>
  void load(Archive& archive) {
    archive(shard, run_id, complete, nodes, events, event_level);
    archive_rows(archive, ranks);
  }
};

// Result of the first pass over some of the shards.
struct Heads {
  std::vector<Facts> facts;  // by shard
  std::vector<Failure> failures;
  bool any = false;
  shard::ShardData head;  // when all are united
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(facts, failures, any, head);
  }
};

// What the numbers in the blocks of the old profile mean.
struct OldNumbers {
  std::vector<shard::PathId> paths;
  std::vector<std::int32_t> ranks;
  std::vector<std::string> nodes, counters;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive_rows(archive, paths);
    archive(ranks, nodes, counters);
  }
};

struct OldProfile {
  shard::ShardData head;  // until it is united with the others
  std::string run_id;
  OldNumbers numbers;
};

// Where the second pass finds rows.
struct ShardPlace {
  std::vector<std::string> nodes;
  std::vector<std::int32_t> ranks;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(nodes, ranks);
  }
};

// Result of the first pass, as member 0 united it.
struct Union {
  bool go_on = false;   // false: begin again
  bool writes = false;  // blocks are wanted
  shard::ShardData head;
  std::vector<ShardPlace> places;  // by shard
  OldNumbers old;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(go_on, writes);
    if (go_on) archive(head, places, old);
  }
};

struct Failures {
  std::vector<Failure> rows;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(rows);
  }
};

}  // namespace clusterprof::aggregator
