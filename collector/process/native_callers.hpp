// SPDX-License-Identifier: BSD-3-Clause
// Which thread of a process uses a library's pool of threads, as far as samples tell. A pool's thread
// computes for a line of Python's if, at its sample, one other thread is in a call of the pool's library
// below that line:
//
//   the other thread's sample before, and the one behind     the line
//   both in a call below the same line                       is that one
//   the one before blocked in a call                         is that of the call until a period before the
//                                                            one behind
//   the one before in a call, none behind it yet             is that of the call if it was seen there not
//                                                            longer ago than two periods, or than two
//                                                            samples of this call were apart
//   anything else                                            is not known
//
// If other threads are in calls below different lines at that time, it is not known either. Bounded. Only the
// thread that polls the process may call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class NativeCallers {
 public:
  static constexpr std::size_t kMostThreads = 64, kMostSamples = 4096;  // of a thread
  // Rings are emptied more often than this.
  static constexpr std::uint64_t kKeptNs = 3'000'000'000;

  // A sample of the thread that has the slot, if it runs Python, in the order of its times. Path 0: it has
  // ended.
  void sample(std::uint32_t slot, std::uint64_t time_ns, bool blocked, std::uint32_t path);

  // Another thread has the slot now.
  void forget(std::uint32_t slot) { samples_.erase(slot); }

  // Until when it is known who called the library. Behind that, a running thread was last seen in a call, and
  // its next sample will tell whether the call went on.
  [[nodiscard]] std::uint64_t known_until_ns(std::uint32_t module, const RawTables& tables);

  // The path from which the library was called. 0: not known.
  [[nodiscard]] std::uint32_t caller(std::uint64_t time_ns, std::uint32_t module, std::uint64_t period_ns,
                                     const RawTables& tables);

 private:
  struct Sample {
    std::uint64_t time_ns = 0;
    std::uint32_t path = 0;
    bool blocked = false;
  };
  struct Call {
    std::uint32_t line = 0;  // the innermost Python frame; 0: there is no call of the library below Python
    std::uint32_t from = 0;  // what called the library: that, or below it
  };
  [[nodiscard]] Call call_of(std::uint32_t path, std::uint32_t module, const RawTables& tables);
  // Whether the thread was in this call until `time_ns`, which is behind its last sample.
  [[nodiscard]] bool goes_on(const std::deque<Sample>& of_thread, std::uint64_t time_ns, const Call& call,
                             std::uint32_t module, std::uint64_t period_ns, const RawTables& tables);

  bool too_many_ = false;  // threads: then nothing is known
  std::map<std::uint32_t, std::deque<Sample>> samples_;
  std::unordered_map<std::uint64_t, Call> calls_;  // by path and module
};

}  // namespace clusterprof::collector
