// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "collector/node/node_snapshot.hpp"
#include "collector/shard/shard_builder.hpp"
#include "collector/shard/shard_file.hpp"

namespace clusterprof::collector {

// Decides when the next shard is due while ranks run. If the collector or the node is killed, no more than
// kMaxShardAge is lost.
class CheckpointSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFirst{1};  // soon: it looks up most names, so the end is quick
  static constexpr std::chrono::seconds kMaxShardAge{5};

  // How long to wait after the start of a checkpoint that took `last_write` before the next one starts. Zero:
  // the first one.
  [[nodiscard]] static Clock::duration interval(Clock::duration last_write);

  void begin(Clock::time_point now) { last_ = now; }
  void wrote(Clock::duration took) { last_write_ = took; }
  [[nodiscard]] bool is_due(Clock::time_point now) const { return now - last_ >= interval(last_write_); }
  [[nodiscard]] Clock::time_point last() const { return last_; }

 private:
  Clock::time_point last_ = Clock::now();
  Clock::duration last_write_{};
};

// Writes shards. While ranks run, a thread of its own looks up names and writes the file, and the rings are
// read meanwhile. The functions are for the main thread.
class Checkpointer {
 public:
  using Clock = CheckpointSchedule::Clock;

  // `written` is called by the writing thread when it is done. It must not throw.
  Checkpointer(const std::filesystem::path& run_directory, std::string node_name,
               std::function<void()> written);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  ~Checkpointer();

  [[nodiscard]] bool is_writing() const { return writing_; }
  [[nodiscard]] bool is_due() const { return !writing_ && schedule_.is_due(Clock::now()); }

  // Starts the interval to the next checkpoint. Call it before taking the snapshot.
  void begin();
  // Writes the snapshot. all_lines: read all debug information that is still missing, whatever it takes.
  // False if no thread could be started, so that it was written by this one.
  bool start(std::shared_ptr<const NodeSnapshot> snapshot, bool all_lines);
  // True once after each write has ended.
  [[nodiscard]] bool take_finished();
  void wait();

  // Writes the last shard, which no other follows, on this thread.
  bool write_last(const NodeSnapshot& snapshot);

  // Prints why a shard cannot be written: once until one is written again, because a full disk stops one
  // column this time and another the next.
  void report_problem(std::string_view problem);

 private:
  bool write(const NodeSnapshot& snapshot, int tries, const ShardBuilder::MayReadLines& may_read_lines);

  const std::string node_name_;
  const std::function<void()> written_callback_;
  const Clock::time_point started_ = Clock::now();
  ShardFile shard_file_;  // used by one thread at a time
  bool has_problem_ = false;
  CheckpointSchedule schedule_;
  std::thread writer_;
  Clock::duration took_{};            // set by the writer before written_
  std::atomic<bool> written_{false};  // set by the writer
  bool writing_ = false;
};

}  // namespace clusterprof::collector
