// SPDX-License-Identifier: BSD-3-Clause
// One task beside the caller: what has been read is worked on while the next is read.
#pragma once

#include <functional>
#include <future>
#include <system_error>

namespace clusterprof::aggregator {

// Tasks run in the order of start(), each after the one before has ended. Not thread-safe.
class ParallelTask {
 public:
  // threads: false runs each task within start(), as is done where there is no second processor or no room
  // for a thread.
  explicit ParallelTask(bool threads) : threads_(threads) {}
  ~ParallelTask() {
    if (running_.valid()) running_.wait();
  }
  ParallelTask(const ParallelTask&) = delete;
  ParallelTask& operator=(const ParallelTask&) = delete;

  // Waits for the task before. `task` must not use what the caller changes until wait() has returned.
  void start(std::function<void()> task) {
    wait();
    if (threads_) {
      try {
        running_ = std::async(std::launch::async, task);
        return;
      } catch (const std::system_error&) {
        threads_ = false;
      }
    }
    task();
  }
  // Until no task runs. Throws what the task has thrown.
  void wait() {
    if (running_.valid()) running_.get();
  }

 private:
  bool threads_;
  std::future<void> running_;
};

}  // namespace clusterprof::aggregator
