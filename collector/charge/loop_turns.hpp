// SPDX-License-Identifier: BSD-3-Clause
// Where the time of an event loop's blocked turns went. A turn is the time from the return of a wait for
// events to the next wait. Its length is measured (wire::BlockedTurn). It is divided among the call paths of
// the samples that were taken of the thread in that time:
//
//   of the time between two samples     charged to
//   CPU time                            the later one
//   the rest                            the earlier one if it was blocked, else the later one
//
// The time after the last sample is charged to that sample's path. If older samples of the turn have been
// dropped, all of it is divided in the proportions of the others.
//
// Times are in nanoseconds of the monotonic clock. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace clusterprof::collector {

struct TurnPart {
  std::uint32_t path = 0;  // of the RawStore; 0: no sample says
  std::uint64_t ns = 0;
  friend bool operator==(const TurnPart&, const TurnPart&) = default;
};

// The latest samples of a thread that has event loops.
class TurnSamples {
 public:
  static constexpr std::size_t kMost = 4096;  // 40 s at 100 Hz, 100 KiB

  // `blocked`: the thread did not run, and waited on that path.
  void add(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, std::uint32_t path);
  // Divides all of the time from begin_ns to end_ns. The largest part comes first.
  [[nodiscard]] std::vector<TurnPart> divide(std::uint64_t begin_ns, std::uint64_t end_ns) const;

 private:
  struct Sample {
    std::uint64_t time_ns = 0, cpu_ns = 0;
    std::uint32_t path = 0;
    bool blocked = false;
  };
  std::deque<Sample> samples_;  // by time
  std::uint64_t forgotten_until_ns_ = 0;
};

// Adds up parts of the same path; then the largest is first.
void unite_parts(std::vector<TurnPart>& parts);

// While there are more than `most` parts, the smaller ones are charged to their callers' paths.
template <typename ParentOf>
void limit_parts(std::vector<TurnPart>& parts, std::size_t most, const ParentOf& parent_of) {
  while (parts.size() > most) {
    for (std::size_t i = most / 2; i < parts.size(); ++i) parts[i].path = parent_of(parts[i].path);
    unite_parts(parts);
  }
}

struct RawTurn {
  std::uint64_t begin_ns = 0, length_ns = 0;
  bool awaited = false;         // somebody waited for the loop: something was ready right behind it
  bool open = false;            // it had not ended yet
  std::vector<TurnPart> parts;  // the largest first
};

// The longest blocked turns of one loop.
class LongestTurns {
 public:
  static constexpr std::size_t kMost = 256;  // of a loop; the loop's sums have the others, too

  void add(RawTurn turn);
  [[nodiscard]] const std::vector<RawTurn>& turns() const noexcept { return turns_; }  // in no order

 private:
  std::vector<RawTurn> turns_;  // a heap once it is full: the shortest is in front
};

}  // namespace clusterprof::collector
