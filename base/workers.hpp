// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process that share numbered items of work.
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

// The largest useful number of threads. When merges and reports process a node's rows, only one thread at a
// time can add to the results and only one can be inside HDF5; each takes about a fifth of the work.
inline constexpr std::size_t kMaxThreads = 4;
inline constexpr std::size_t kMaxAhead = 8;  // items

// The number of threads to use: one for each processor that this process may run on, up to that limit.
[[nodiscard]] inline std::size_t useful_threads();

// Calls work(worker, item) once for each item below `items`. Each worker, 0 to `threads` - 1, has a thread of
// its own and works on one item at a time; worker 0 is the caller. Items are started in ascending order. An
// item is not started while an item kMaxAhead or more before it is unfinished, so only little has to be kept
// for later.
//
// If an item throws, no further item is started, and the first exception is thrown again. If the system
// cannot start enough threads, fewer are used.
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
        return is_over() || under_way_.empty() || next_ - *under_way_.begin() < kMaxAhead;
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
  return std::clamp<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&processors)), 1, kMaxThreads);
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
