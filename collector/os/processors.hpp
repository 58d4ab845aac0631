// SPDX-License-Identifier: BSD-3-Clause
// Chooses the processors that the collector runs on: those of its job, and no others.
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

// The processors that the main thread of a process may run on. Empty: the process is gone, or cannot be seen.
[[nodiscard]] Processors processors_of(pid_t pid);

// The processors that any of its threads, except our own, may run on. Programs may bind threads to processors
// that the main thread may not use.
[[nodiscard]] Processors processors_of_threads(pid_t pid);

// The processors that the collector should run on. `launcher`: those that the MPI launcher's process on this
// node may use; empty without one. `ranks`: those that each rank may use. If the launcher has processors that
// no rank may use, these are chosen, otherwise those of the ranks. Empty if nothing is known about any rank:
// the collector stays where it is.
[[nodiscard]] Processors choose_processors(const Processors& launcher, const std::vector<Processors>& ranks);

// Moves all threads of this process. False when the kernel refuses, as when a cpuset has none of them.
bool move_to(const Processors& processors);

// How the thread that empties the ranks' rings is scheduled. Normally it does not interrupt a running rank
// (SCHED_BATCH). When a ring is so full that samples may be lost, it does, until the rings are empty enough.
// Every user may switch between the two, but not back from SCHED_IDLE or from a higher nice value.
class Urgency {
 public:
  // Call this after each look at the rings. `fullest`: how full the fullest one was, 0 to 1. Returns whether
  // the thread is urgent.
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

// How long the processors have been idle, added up over all of them. `text`: the content of /proc/stat. No
// value: it has none of them.
[[nodiscard]] std::optional<std::chrono::nanoseconds> idle_time(std::string_view text,
                                                                const Processors& processors);

// Tells whether processors have time left for work that can wait.
class IdleWatch {
 public:
  // `idle`: what idle_time() says now. `now`: by any clock. True if, since the last call, at least a tenth of
  // one processor's time was idle, or if nothing is known.
  bool had_room(std::optional<std::chrono::nanoseconds> idle, std::chrono::nanoseconds now) noexcept;

 private:
  std::optional<std::chrono::nanoseconds> idle_;
  std::chrono::nanoseconds at_{};
};

// Changes the calling thread. False if the kernel refuses.
bool set_urgent(bool urgent);

}  // namespace clusterprof::collector
