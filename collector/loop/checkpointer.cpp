// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/checkpointer.hpp"

#include <malloc.h>

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
constexpr int kTriesAtTheEnd = 2;        // a clean-up may remove the file that is being written
// While the ranks leave no processor idle, reading debug information may take this part of the elapsed time.
// It starts once that is enough for the C library's.
constexpr int kShareForLines = 200;
constexpr milliseconds kLinesOfOneModule{50};

}  // namespace

// A shard is as old as its snapshot, and stays the newest until the next one is written. So the next one must
// begin early enough, even if it takes half as long again as the last. If that is impossible, writing takes
// at most half of the time.
CheckpointSchedule::Clock::duration CheckpointSchedule::interval(Clock::duration last_write) {
  if (last_write == Clock::duration{}) return kFirst;
  return std::max<nanoseconds>(kMaxShardAge - kPollSlack - last_write * 3 / 2, 2 * last_write);
}

Checkpointer::Checkpointer(const std::filesystem::path& run_directory, std::string node_name,
                           std::function<void()> written)
    : node_name_(std::move(node_name)),
      written_callback_(std::move(written)),
      shard_file_(run_directory, node_name_) {}

Checkpointer::~Checkpointer() { wait(); }

void Checkpointer::wait() {
  if (writer_.joinable()) writer_.join();
}

void Checkpointer::begin() {
  wait();
  schedule_.begin(Clock::now());
}

bool Checkpointer::start(std::shared_ptr<const NodeSnapshot> snapshot, bool all_lines) {
  writing_ = true;
  auto write_it = [this, snapshot = std::move(snapshot), begin = schedule_.last(), all_lines]() mutable {
    (void)set_urgent(false);
    // A failure is printed, and the last shard decides whether the run is recorded.
    (void)write(*snapshot, 1, [this, all_lines](nanoseconds spent) {
      return all_lines || spent + kLinesOfOneModule < (Clock::now() - started_) / kShareForLines;
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
  schedule_.wrote(took_);
  return true;
}

bool Checkpointer::write_last(const NodeSnapshot& snapshot) {
  return write(snapshot, kTriesAtTheEnd, [](nanoseconds) { return true; });
}

bool Checkpointer::write(const NodeSnapshot& snapshot, int tries,
                         const ShardBuilder::MayReadLines& may_read_lines) {
  try {
    const Result<void> written = shard_file_.write(snapshot, tries, may_read_lines);
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
  if (!std::exchange(has_problem_, true)) say("cannot write the profile of node {}: {}", node_name_, problem);
}

}  // namespace clusterprof::collector
