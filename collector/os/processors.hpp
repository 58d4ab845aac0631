// SPDX-License-Identifier: BSD-3-Clause
// Where the collector runs: on the processors of its job, and nowhere else.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace clusterprof::collector {

// The numbers of processors, sorted.
using Processors = std::vector<std::uint32_t>;

// Where the main thread of a process may run. Empty: the process is gone, or cannot be seen from here.
[[nodiscard]] Processors processors_of(pid_t pid);

// Where any of its threads but ours may run: programs bind threads to processors that the main thread may not
// run on.
[[nodiscard]] Processors processors_of_threads(pid_t pid);

// Where the collector is to run. `launcher`: where the MPI launcher's process on this node may run, empty
// without one. `ranks`: where each rank may run. Processors of the launcher that no rank may run on come
// first, then those of the ranks. Empty when nothing is known of any rank: the collector stays where it is.
[[nodiscard]] Processors choose_processors(const Processors& launcher, const std::vector<Processors>& ranks);

// Moves all threads of this process. False when the kernel refuses, as when a cpuset has none of them.
bool move_to(const Processors& processors);

// How the thread that empties the ranks' rings is scheduled. As a rule it does not interrupt a rank that runs
// (SCHED_BATCH); once a ring has become so full that samples may be lost, it does, until the rings are empty
// enough again. Both are open to every user, unlike a way back from SCHED_IDLE or from a higher nice value.
class Urgency {
 public:
  // After each look at the rings; `fullest`: how full the fullest one was, 0 to 1. True: the thread is
  // urgent.
  bool after_look(double fullest) noexcept {
    if (fullest > kBecomesUrgent) urgent_ = true;
    if (fullest < kNoLongerUrgent) urgent_ = false;
    return urgent_;
  }
  [[nodiscard]] bool urgent() const noexcept { return urgent_; }

 private:
  static constexpr double kBecomesUrgent = 0.5, kNoLongerUrgent = 0.2;
  bool urgent_ = false;
};

// How long processors had nothing to do, added up over them, from what /proc/stat says (`text`). None: it
// says nothing of any of them.
[[nodiscard]] std::optional<std::chrono::nanoseconds> idle_time(std::string_view text,
                                                                const Processors& processors);

// Whether there is room on processors for what can wait.
class IdleWatch {
 public:
  // `idle`: as idle_time tells now, `now` by any clock. True when since the last call at least a tenth of the
  // time of one processor was left over, or nothing is known.
  bool had_room(std::optional<std::chrono::nanoseconds> idle, std::chrono::nanoseconds now) noexcept;

 private:
  std::optional<std::chrono::nanoseconds> idle_;
  std::chrono::nanoseconds at_{};
};

// Of the calling thread. False when the kernel refuses.
bool set_urgent(bool urgent);

}  // namespace clusterprof::collector
