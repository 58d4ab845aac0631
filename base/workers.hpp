// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process that share numbered pieces of work.
#pragma once

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <system_error>
#include <vector>

namespace clusterprof {

// Of what merges and reports do with a node's rows, adding them to the results and being inside of HDF5 take
// one thread at a time, each about a fifth of the work.
inline constexpr std::size_t kMostThreads = 4;
inline constexpr std::size_t kMostAhead = 8;  // items

// How many threads are of use for that: one for each processor this process may run on.
[[nodiscard]] inline std::size_t useful_threads();

// Calls work(worker, item) once for each item below `items`. Each worker, 0 to `threads` - 1, has a thread
// and one item at a time; worker 0 is the caller. Items begin in ascending order, and none begins while one
// that is kMostAhead or more before it lasts: so what has to be kept until an earlier item has ended is
// limited.
//
// When an item throws, no further one begins, and the first exception is thrown again. Where the system has
// no room for a thread, there are fewer.
inline void share_work(std::size_t threads, std::size_t items,
                       const std::function<void(std::size_t worker, std::size_t item)>& work);

namespace workers {

class Items {
 public:
  explicit Items(std::size_t count) : count_(count) {}

  // Until there is none: calls use(item) for one after the other.
  void take_all(const std::function<void(std::size_t item)>& use) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ended_.wait(lock, [this] {
        return is_over() || under_way_.empty() || next_ - *under_way_.begin() < kMostAhead;
      });
      if (is_over()) return;
      const std::size_t item = next_++;
      under_way_.insert(item);
      lock.unlock();
      std::exception_ptr error;
      try {
        use(item);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      under_way_.erase(item);
      if (error && !error_) error_ = error;
      ended_.notify_all();
    }
  }
  void throw_error() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  [[nodiscard]] bool is_over() const { return error_ || next_ == count_; }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t next_ = 0;
  const std::size_t count_;
  std::set<std::size_t> under_way_;
  std::exception_ptr error_;
};

}  // namespace workers

inline std::size_t useful_threads() {
  ::cpu_set_t processors;
  if (::sched_getaffinity(0, sizeof processors, &processors) != 0) return 1;
  return std::clamp<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&processors)), 1, kMostThreads);
}

inline void share_work(std::size_t threads, std::size_t items,
                       const std::function<void(std::size_t worker, std::size_t item)>& work) {
  workers::Items all(items);
  {
    std::vector<std::future<void>> others;  // are waited for when they go
    for (std::size_t worker = 1; worker < std::min(threads, items); ++worker) {
      try {
        others.push_back(std::async(std::launch::async, [&all, &work, worker] {
          all.take_all([&work, worker](std::size_t item) { work(worker, item); });
        }));
      } catch (const std::system_error&) {
        break;
      }
    }
    all.take_all([&work](std::size_t item) { work(0, item); });
  }
  all.throw_error();
}

}  // namespace clusterprof
