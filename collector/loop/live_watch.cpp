// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/live_watch.hpp"

#include <time.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/process_mark.hpp"
#include "collector/loop/checkpointer.hpp"
#include "collector/loop/withdraw_patience.hpp"
#include "formats/run/run_control.hpp"
#include "formats/shard/live_state.hpp"

namespace clusterprof::collector {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr nanoseconds kShortest = seconds(1), kLongest = milliseconds(2500);
constexpr int kShareOfNode = 1000;
constexpr seconds kReadInterval{3};  // while somebody watches

nanoseconds thread_time() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return seconds(used.tv_sec) + nanoseconds(used.tv_nsec);
}

}  // namespace

nanoseconds live_interval(nanoseconds took, std::uint32_t processors) {
  return std::clamp<nanoseconds>(took * kShareOfNode / std::max(processors, 1u), kShortest, kLongest);
}

struct LiveWatch::Files {
  std::mutex mutex;
  std::condition_variable wake;
  bool has_thread = false, is_busy = false, is_closed = false, wants_work = false, withdraws = false;
  std::shared_ptr<const NodeSnapshot> to_write;
  bool reads = false;
  std::string run_directory, node_name;
  std::shared_ptr<SharedShardBuilder> builder;
  // Of the thread alone.
  const Clock::time_point started = Clock::now();
  const std::string own_mark = to_string(mark_of_this_process());
  std::uint64_t sequence = 0;

  // A failure shows as old data.
  void write(const NodeSnapshot& snapshot) {
    shard::LiveState state;
    {
      const std::lock_guard lock(builder->mutex);
      state = builder->builder.build_live(snapshot, [this](ShardBuilder::LinesOf of, nanoseconds spent) {
        return may_read_lines(of, spent, Clock::now() - started);
      });
    }
    state.sequence = ++sequence;
    state.data.nodes[0].collector = own_mark;
    (void)write_live(run_directory, node_name, encode_live(state));
  }

  // On a thread of its own. `done` gives the result to the event loop; it is called with the mutex locked.
  static void work(const std::shared_ptr<Files>& files,
                   const std::function<void(std::optional<std::uint64_t>, nanoseconds took)>& done) {
    std::unique_lock lock(files->mutex);
    for (;;) {
      files->wake.wait(lock, [&] { return files->is_closed || files->wants_work; });
      if (files->is_closed) return;
      files->wants_work = false;
      if (files->withdraws) {
        lock.unlock();
        withdraw_live(files->run_directory, files->node_name);
        lock.lock();
        files->is_busy = files->withdraws = false;
        files->wake.notify_all();
        continue;
      }
      std::shared_ptr<const NodeSnapshot> snapshot = std::exchange(files->to_write, nullptr);
      const bool reads = files->reads;
      lock.unlock();
      const nanoseconds before = thread_time();
      std::optional<std::uint64_t> number;
      try {
        if (snapshot) files->write(*snapshot);
        snapshot.reset();
        if (reads) number = read_watch(files->run_directory);
      } catch (const std::exception&) {  // no memory: the next look tries again
      }
      const nanoseconds took = thread_time() - before;
      lock.lock();
      files->is_busy = false;
      files->wake.notify_all();
      if (files->is_closed) return;
      if (files->withdraws) continue;
      try {
        done(number, took);
      } catch (const std::exception&) {
      }
    }
  }
};

LiveWatch::LiveWatch(asio::io_context& io, std::string run_directory, std::string node_name,
                     std::uint32_t nodes, std::uint32_t processors,
                     std::shared_ptr<SharedShardBuilder> builder, Node node)
    : io_(io),
      interval_(watch_interval_ns(nodes)),
      processors_(processors),
      node_(std::move(node)),
      timer_(io),
      files_(std::make_shared<Files>()) {
  files_->run_directory = std::move(run_directory);
  files_->node_name = std::move(node_name);
  files_->builder = std::move(builder);
}

// The thread may be waiting for a file server: it ends when it has waited, or with the process.
LiveWatch::~LiveWatch() {
  const std::lock_guard lock(files_->mutex);
  files_->is_closed = true;
  files_->wake.notify_all();
}

void LiveWatch::withdraw() {
  std::unique_lock lock(files_->mutex);
  if (!files_->has_thread || watch_ == 0) return;  // nothing was written
  files_->withdraws = files_->wants_work = true;
  files_->wake.notify_all();
  files_->wake.wait_for(lock, kWithdrawPatience, [this] { return !files_->withdraws; });
}

void LiveWatch::begin() { look(); }

void LiveWatch::wait_for_look() {
  timer_.expires_after(is_watched_ ? std::max(live_interval_, kShortest) : interval_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look();
  });
}

void LiveWatch::look() {
  const bool was_watched = std::exchange(is_watched_, watch_ != 0 && Clock::now() < watched_until_);
  if (was_watched && !is_watched_) node_.nobody_watches();
  bool is_busy = false;
  {
    const std::lock_guard lock(files_->mutex);
    is_busy = files_->is_busy;
  }
  if (!is_busy) {
    std::shared_ptr<const NodeSnapshot> snapshot;
    try {
      const nanoseconds before = thread_time();
      if (is_watched_) snapshot = node_.look(watch_, 2 * std::max(live_interval_, kShortest));
      snapshot_took_ = thread_time() - before;
    } catch (const std::exception&) {  // no memory: the next look tries again
    }
    const std::lock_guard lock(files_->mutex);
    try {
      if (!files_->has_thread) {
        const auto tell = [this](std::optional<std::uint64_t> number, nanoseconds took) {
          asio::post(io_, [this, number, took] { done(number, took); });
        };
        std::thread([files = files_, tell] { Files::work(files, tell); }).detach();
        files_->has_thread = true;
      }
      files_->to_write = std::move(snapshot);
      files_->reads = !is_watched_ || Clock::now() >= read_again_;
      if (files_->reads) read_again_ = Clock::now() + kReadInterval;
      files_->is_busy = files_->wants_work = true;
      files_->wake.notify_all();
    } catch (const std::exception&) {  // no thread: the next look tries again
    }
  }
  wait_for_look();
}

void LiveWatch::done(std::optional<std::uint64_t> number, nanoseconds took) {
  if (is_watched_) live_interval_ = live_interval(took + snapshot_took_, processors_);
  if (!number || *number == number_) return;
  number_ = *number;
  watched_until_ = Clock::now() + kWatched;
  if (is_watched_) return;
  ++watch_;
  live_interval_ = kShortest;
  look();
}

}  // namespace clusterprof::collector
