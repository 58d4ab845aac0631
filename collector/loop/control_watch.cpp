// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/control_watch.hpp"

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "collector/loop/withdraw_patience.hpp"

namespace clusterprof::collector {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr seconds kClockSlack{2};  // between two machines
constexpr milliseconds kDoneInterval{20};

}  // namespace

struct ControlWatch::Files {
  std::mutex mutex;
  std::condition_variable wake;
  bool has_thread = false, is_busy = false, is_closed = false, wants_work = false, withdraws = false;
  struct Answers {
    std::optional<ControlAnswer> window;
    std::optional<WriteAnswer> write;
  };
  Answers to_write;
  std::string run_directory, node_name;

  // On a thread of its own. `done` gives the result to the event loop; it is called with the mutex locked.
  static void work(const std::shared_ptr<Files>& files,
                   const std::function<void(const ControlFiles&, const Answers& written)>& done) {
    std::unique_lock lock(files->mutex);
    for (;;) {
      files->wake.wait(lock, [&] { return files->is_closed || files->wants_work; });
      if (files->is_closed) return;
      files->wants_work = false;
      if (files->withdraws) {
        lock.unlock();
        withdraw_answer(files->run_directory, files->node_name);
        lock.lock();
        files->is_busy = files->withdraws = false;
        files->wake.notify_all();
        continue;
      }
      Answers answers = std::exchange(files->to_write, {});
      lock.unlock();
      ControlFiles found;
      try {
        // One that could not be written is written at the next look.
        if (answers.window && !write_answer(files->run_directory, *answers.window)) answers.window.reset();
        if (answers.write && !write_answer(files->run_directory, *answers.write)) answers.write.reset();
        found = read_control(files->run_directory);
      } catch (const std::exception&) {  // no memory: the next look tries again
      }
      lock.lock();
      files->is_busy = false;
      files->wake.notify_all();
      if (files->is_closed) return;
      if (files->withdraws) continue;
      try {
        done(found, answers);
      } catch (const std::exception&) {
      }
    }
  }
};

ControlWatch::ControlWatch(asio::io_context& io, std::string run_directory, std::string node_name,
                           std::uint32_t nodes, Windows windows, Node node)
    : io_(io),
      node_name_(std::move(node_name)),
      interval_(windows == Windows::kNone ? watch_interval_ns(nodes) : control_interval_ns(nodes)),
      windows_(windows),
      node_(std::move(node)),
      look_timer_(io),
      edge_timer_(io),
      answer_timer_(io),
      files_(std::make_shared<Files>()) {
  files_->run_directory = std::move(run_directory);
  files_->node_name = node_name_;
}

// The thread may be waiting for a file server: it ends when it has waited, or with the process.
ControlWatch::~ControlWatch() {
  const std::lock_guard lock(files_->mutex);
  files_->is_closed = true;
  files_->wake.notify_all();
}

void ControlWatch::withdraw() {
  std::unique_lock lock(files_->mutex);
  if (!files_->has_thread || !has_answered_) return;
  files_->withdraws = files_->wants_work = true;
  files_->wake.notify_all();
  files_->wake.wait_for(lock, kWithdrawPatience, [this] { return !files_->withdraws; });
}

void ControlWatch::begin(bool open) {
  is_open_ = open;
  if (windows_ != Windows::kNone)
    answer_ = ControlAnswer{node_name_, 0, windows_ == Windows::kOfLight, open, 0};
  look();
}

void ControlWatch::wrote(std::uint64_t number) {
  if (number == 0) return;
  write_answer_ = WriteAnswer{node_name_, number};
  look();
}

void ControlWatch::wait_for_look() {
  look_timer_.expires_after(interval_);
  look_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look();
  });
}

void ControlWatch::look() {
  {
    const std::lock_guard lock(files_->mutex);
    if (!files_->is_busy) {
      try {
        if (!files_->has_thread) {
          const auto done = [this](const ControlFiles& found, const Files::Answers& written) {
            asio::post(io_, [this, found, written] {
              if (written.window && answer_ == written.window) answer_.reset();
              if (written.write && write_answer_ == written.write) write_answer_.reset();
              seen(found);
            });
          };
          std::thread([files = files_, done] { Files::work(files, done); }).detach();
          files_->has_thread = true;
        }
        has_answered_ = has_answered_ || answer_ || write_answer_;
        files_->to_write = {answer_, write_answer_};
        files_->is_busy = files_->wants_work = true;
        files_->wake.notify_all();
      } catch (const std::exception&) {  // no thread: the next look tries again
      }
    }
  }
  wait_for_look();
}

void ControlWatch::seen(const ControlFiles& files) {
  // A notice that was there before this collector is about ranks that are gone.
  const bool is_first = !std::exchange(has_seen_, true);
  if (files.any) node_.any();
  if (windows_ != Windows::kNone) follow(files.window);
  if (files.write > write_asked_) {
    write_asked_ = files.write;
    node_.write(files.write);
  }
  if (files.hang && !std::exchange(knows_of_hang_, true) && !is_first) node_.hang(*files.hang);
}

void ControlWatch::follow(const std::optional<ControlRequest>& request) {
  const bool is_first = !std::exchange(has_looked_, true);
  if (!request || request->sequence <= request_.sequence) return;
  request_ = *request;
  const std::int64_t now_ns = unix_now_ns();
  const ControlSchedule schedule =
      schedule_of(request_, now_ns, nanoseconds(interval_ + kClockSlack).count(), is_first);
  const auto at = [now = Clock::now(), now_ns](std::int64_t unix_ns) {
    return std::optional(now + nanoseconds(unix_ns - now_ns));
  };
  opens_ = schedule.begin_unix_ns == 0 ? std::nullopt : at(schedule.begin_unix_ns);
  closes_ = schedule.end_unix_ns == 0 ? std::nullopt : at(schedule.end_unix_ns);
  // A second `start` goes on with the open window rather than beginning another one when the nodes would.
  if (is_open_ && request_.open) opens_ = Clock::now();
  // Whoever waits for the previous request's answer has been overtaken.
  answer_timer_.cancel();
  if (follow_schedule() || (opens_ && Clock::now() < *opens_)) return;
  // Nothing changes, as for a second `start`.
  answer_by_ = Clock::now() + kDonePatience;
  answer_when_done();
}

bool ControlWatch::follow_schedule() {
  const Clock::time_point now = Clock::now();
  const bool open = opens_ && now >= *opens_ && (!closes_ || now < *closes_);
  const bool changes = open != is_open_;
  if (changes) {
    is_open_ = open;
    node_.change(++number_, open);
    answer_by_ = now + kDonePatience;
    answer_when_done();
  }
  std::optional<Clock::time_point> next;
  if (opens_ && now < *opens_)
    next = opens_;
  else if (open)
    next = closes_;
  if (!next) {
    edge_timer_.cancel();
    return changes;
  }
  edge_timer_.expires_at(*next);
  edge_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) follow_schedule();
  });
  return changes;
}

void ControlWatch::answer_when_done() {
  const Node::Done done = node_.done();
  if (done.done < done.all && Clock::now() < answer_by_) {
    answer_timer_.expires_after(kDoneInterval);
    answer_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) answer_when_done();
    });
    return;
  }
  answer_timer_.cancel();
  answer_ = ControlAnswer{node_name_, request_.sequence, windows_ == Windows::kOfLight, is_open_, done.done};
  look();
}

}  // namespace clusterprof::collector
