// SPDX-License-Identifier: BSD-3-Clause
// Follows a run that is running. Its nodes tell what they do now, once they know that somebody watches
// (formats/run/run_control.hpp); of a node that does not tell, its shard says what it did last.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/live_state.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/top.hpp"

namespace clusterprof::cli {

class LiveRun {
 public:
  // How far back what ranks did lately is looked at.
  static constexpr std::chrono::seconds kWindow{5};

  // `name`: for messages.
  LiveRun(std::filesystem::path run, std::string name) : run_(std::move(run)), name_(std::move(name)) {}

  // Tells the run's nodes that somebody watches; to be repeated once a second.
  Result<void> watch();
  // Of a run that has ended: leaves nothing of that behind.
  void end_watch();

  // Reads what has changed, and says what the run does now. kNotFound: nothing is known of it yet.
  Result<report::Top> look();

  // After look(): whether what they did lately is known of all nodes that are running.
  [[nodiscard]] bool knows_all() const { return knows_all_; }
  // How many nodes have told what they do.
  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }

 private:
  struct Node {
    std::deque<shard::LiveState>
        states;  // the newest last; of the others only what is needed to compare them
    std::chrono::steady_clock::time_point changed;
  };
  struct Shard {
    std::filesystem::file_time_type modified;
    std::uintmax_t bytes = 0;
    std::string node;  // empty: it could not be read
    shard::ShardData data;
  };

  void read_live();
  Result<void> read_shards();
  [[nodiscard]] bool is_fresh(const Node& node) const;
  [[nodiscard]] bool needs(const Shard& shard) const;

  std::filesystem::path run_;
  std::string name_;
  std::map<std::string, Node> nodes_;
  std::map<std::filesystem::path, Shard> shards_;
  std::chrono::steady_clock::time_point list_again_;
  std::optional<shard::ShardData> profile_;  // of a run whose shards are gone
  bool knows_all_ = false, has_watched_ = false;
};

}  // namespace clusterprof::cli
