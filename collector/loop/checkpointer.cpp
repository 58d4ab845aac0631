// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/checkpointer.hpp"

#include <malloc.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "collector/os/message.hpp"
#include "collector/os/processors.hpp"

namespace clusterprof::collector {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kPollSlack{500};  // the poll that starts a checkpoint may be late
constexpr int kShareForLines = 200;
constexpr milliseconds kLinesOfOneModule{50}, kLinesOfStacks{100};

}  // namespace

CheckpointTimes::Duration CheckpointTimes::first() const {
  const nanoseconds spread = std::min<nanoseconds>(kApart * (std::max(nodes, 1u) - 1), kMostApart);
  return kFirst + std::chrono::duration_cast<nanoseconds>(spread * phase);
}

CheckpointTimes::Duration CheckpointTimes::second(Duration last_write) const {
  const Duration usual = interval(last_write);
  if (max_age <= kUsualAge) return usual;
  return std::clamp<Duration>(std::chrono::duration_cast<Duration>(usual * phase),
                              CheckpointTimes{}.interval(last_write), usual);
}

// A shard is as old as its snapshot, and stays the newest until the next one is written. So the next one must
// begin early enough, even if it takes half as long again as the last. If that is impossible, writing takes
// at most half of the time.
CheckpointTimes::Duration CheckpointTimes::interval(Duration last_write) const {
  return std::max<Duration>(max_age - kPollSlack - last_write * 3 / 2, 2 * last_write);
}

double checkpoint_phase(std::string_view node_name) {
  return static_cast<double>(XXH3_64bits(node_name.data(), node_name.size()) >> 11) * 0x1p-53;
}

CheckpointSchedule::Clock::duration CheckpointSchedule::wait() const {
  if (written_ == 0) return times_.first();
  return written_ == 1 ? times_.second(last_write_) : times_.interval(last_write_);
}

// The one that begins now takes as long as the last one, and the next one no more than twice that.
CheckpointSchedule::Clock::duration CheckpointSchedule::next_within() const {
  const Clock::duration wait = written_ == 0 ? times_.second(last_write_) : times_.interval(last_write_);
  return std::max<Clock::duration>(wait, times_.max_age) + 3 * last_write_;
}

bool may_read_lines(ShardBuilder::LinesOf of, nanoseconds spent, nanoseconds running) {
  const nanoseconds share = running / kShareForLines;
  return of == ShardBuilder::LinesOf::kStacksNow ? spent < share + kLinesOfStacks
                                                 : spent + kLinesOfOneModule < share;
}

Checkpointer::Checkpointer(const ShardPlace& place, CheckpointTimes times, std::function<void()> written)
    : place_(place), written_callback_(std::move(written)), schedule_(times) {
  writing_ = claiming_ = true;
  const auto claim = [this] {
    claim_name();
    written_.store(true, std::memory_order_release);
    written_callback_();
  };
  try {
    writer_ = std::thread(claim);
  } catch (const std::exception&) {
    claim();
  }
}

// A failure shows when the shard is written.
void Checkpointer::claim_name() {
  try {
    if (!shard_file_) shard_file_.emplace(place_, builder_);
  } catch (const std::exception& error) {
    report_problem(error.what());
  }
}

Checkpointer::~Checkpointer() { wait(); }

void Checkpointer::wait() {
  if (writer_.joinable()) writer_.join();
}

void Checkpointer::begin() {
  if (!writing_) wait();
  schedule_.begin(Clock::now());
}

bool Checkpointer::start(std::shared_ptr<const NodeSnapshot> snapshot, ShardFile::Which which,
                         bool all_lines) {
  writing_ = true;
  auto write_it = [this, snapshot = std::move(snapshot), begin = schedule_.last(), which,
                   all_lines]() mutable {
    (void)set_urgent(false);
    // A failure is printed, and the last shard decides whether the run is recorded.
    (void)write(*snapshot, which, [this, all_lines](ShardBuilder::LinesOf of, nanoseconds spent) {
      return all_lines || may_read_lines(of, spent, Clock::now() - started_);
    });
    // A shard takes about as much memory as the snapshot. The node's programs may need it.
    snapshot.reset();
    malloc_trim(0);
    took_ = Clock::now() - begin;
    written_.store(true, std::memory_order_release);
    written_callback_();
  };
  try {
    writer_ = std::thread(write_it);
    return true;
  } catch (const std::exception&) {  // no thread, or no memory for one: then the rings have to wait
    write_it();
    return false;
  }
}

bool Checkpointer::take_finished() {
  if (!written_.exchange(false, std::memory_order_acquire)) return false;
  writing_ = false;
  if (!std::exchange(claiming_, false)) schedule_.wrote(took_);
  return true;
}

bool Checkpointer::write_last(const NodeSnapshot& snapshot) {
  return write(snapshot, ShardFile::Which::kLast, [](auto, auto) { return true; });
}

bool Checkpointer::write(const NodeSnapshot& snapshot, ShardFile::Which which,
                         const ShardBuilder::MayReadLines& may_read_lines) {
  try {
    claim_name();
    if (!shard_file_) return false;
    const Result<void> written = shard_file_->write(snapshot, which, may_read_lines);
    if (written) {
      has_problem_ = false;
      return true;
    }
    report_problem(written.error().message);
  } catch (const std::bad_alloc&) {  // there was no memory even for the message
    report_problem("no memory");
  }
  return false;
}

void Checkpointer::report_problem(std::string_view problem) {
  if (!std::exchange(has_problem_, true))
    say("cannot write the profile of node {}: {}", place_.node, problem);
}

}  // namespace clusterprof::collector
