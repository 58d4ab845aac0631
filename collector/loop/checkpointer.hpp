// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "collector/node/node_snapshot.hpp"
#include "collector/shard/shard_builder.hpp"
#include "collector/shard/shard_file.hpp"

namespace clusterprof::collector {

// When the checkpoints of this node are. The nodes of a job start together. So that they do not write
// together as well, the first checkpoint of some comes later than that of others, by `phase`: 0 to 1, of
// which each node has its own. With a long interval, the second one comes so much earlier.
struct CheckpointTimes {
  using Duration = std::chrono::nanoseconds;
  static constexpr std::chrono::seconds kFirst{1};  // soon: it looks up most names, so the end is quick
  static constexpr std::chrono::seconds kUsualAge{5};
  static constexpr std::chrono::milliseconds kApart{2};  // between two nodes of a job
  static constexpr std::chrono::seconds kMostApart{4};   // between all of them

  std::chrono::seconds max_age = kUsualAge;  // no more is lost if the collector or the node is killed
  double phase = 1;
  std::uint32_t nodes = 1;  // of the job

  [[nodiscard]] Duration first() const;
  // Between the first and the second one, and between all others. last_write: how long the last one took.
  [[nodiscard]] Duration second(Duration last_write) const;
  [[nodiscard]] Duration interval(Duration last_write) const;
};
// The phase of a node: equal names have equal phases, others differ as if by chance.
[[nodiscard]] double checkpoint_phase(std::string_view node_name);

// Decides when the next shard is due while ranks run.
class CheckpointSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CheckpointSchedule(CheckpointTimes times) : times_(times) {}

  void begin(Clock::time_point now) { last_ = now; }
  void wrote(Clock::duration took) {
    last_write_ = took;
    ++written_;
  }
  [[nodiscard]] bool is_due(Clock::time_point now) const { return now - last_ >= wait(); }
  [[nodiscard]] Clock::time_point last() const { return last_; }
  // How long after a checkpoint that begins now the next one is written at the latest, as far as it can be
  // told.
  [[nodiscard]] Clock::duration next_within() const;

 private:
  [[nodiscard]] Clock::duration wait() const;

  CheckpointTimes times_;
  Clock::time_point last_ = Clock::now();
  Clock::duration last_write_{};
  std::uint64_t written_ = 0;
};

// Whether a collector that has run for so long may read more debug information while the ranks leave no
// processor idle: a part of the elapsed time. Where threads are now may take a tenth of a second more, and
// may begin with it at once: `stacks` and `top` show that, and somebody who looks at a job that hangs is not
// to wait for lines. At the end everything is read anyway.
[[nodiscard]] bool may_read_lines(ShardBuilder::LinesOf of, std::chrono::nanoseconds spent,
                                  std::chrono::nanoseconds running);

// Writes shards. While ranks run, a thread of its own looks up names and writes the file, and the rings are
// read meanwhile. The functions are for the main thread.
class Checkpointer {
 public:
  using Clock = CheckpointSchedule::Clock;

  // `written` is called by the writing thread when it is done. It must not throw. That thread begins by
  // claiming the shard's name, because a file server may take its time, and rings are to be read meanwhile.
  Checkpointer(const ShardPlace& place, CheckpointTimes times, std::function<void()> written);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  ~Checkpointer();

  // Names call paths, for whoever has its mutex.
  [[nodiscard]] const std::shared_ptr<SharedShardBuilder>& builder() const { return builder_; }

  [[nodiscard]] bool is_writing() const { return writing_; }
  [[nodiscard]] bool is_due() const { return !writing_ && schedule_.is_due(Clock::now()); }

  // Starts the interval to the next checkpoint. Call it before taking the snapshot.
  void begin();
  [[nodiscard]] Clock::duration next_within() const { return schedule_.next_within(); }
  // Writes the snapshot. all_lines: read all debug information that is still missing, whatever it takes.
  // False if no thread could be started, so that it was written by this one.
  bool start(std::shared_ptr<const NodeSnapshot> snapshot, ShardFile::Which which, bool all_lines);
  // True once after each write has ended.
  [[nodiscard]] bool take_finished();
  // Whether the last write failed. Not while one is under way.
  [[nodiscard]] bool has_problem() const { return has_problem_; }
  void wait();

  // Writes the last shard, which no other follows, on this thread.
  bool write_last(const NodeSnapshot& snapshot);

  // Prints why a shard cannot be written: once until one is written again, because a full disk stops one
  // column this time and another the next.
  void report_problem(std::string_view problem);

 private:
  void claim_name();
  bool write(const NodeSnapshot& snapshot, ShardFile::Which which,
             const ShardBuilder::MayReadLines& may_read_lines);

  const ShardPlace place_;
  const std::shared_ptr<SharedShardBuilder> builder_ = std::make_shared<SharedShardBuilder>();
  const std::function<void()> written_callback_;
  const Clock::time_point started_ = Clock::now();
  std::optional<ShardFile> shard_file_;  // used by one thread at a time
  bool has_problem_ = false;
  CheckpointSchedule schedule_;
  std::thread writer_;
  Clock::duration took_{};            // set by the writer before written_
  std::atomic<bool> written_{false};  // set by the writer
  bool writing_ = false, claiming_ = false;
};

}  // namespace clusterprof::collector
