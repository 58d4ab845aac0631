// SPDX-License-Identifier: BSD-3-Clause
// --hang-after: when nothing has moved on this node for that long, has all nodes looked at. This is left to
// another program (`analyze hang`), since only that reads shards and knows what they say.
// docs/design/0023-hang-after.md.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace clusterprof::collector {

// When it is time to look. Where this node only waits for others that get on, looks become rarer: each of
// them costs all nodes a shard.
class HangSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFirstRetry{5};  // the others may have stopped a moment later

  explicit HangSchedule(std::chrono::nanoseconds after) : after_(after) {}

  // `still`: how long no rank of the node has moved. True: a look begins now.
  bool is_due(std::chrono::nanoseconds still, Clock::time_point now);

 private:
  const std::chrono::nanoseconds after_;
  Clock::time_point next_;
  std::chrono::nanoseconds wait_ = kFirstRetry;
};

// Runs one program at a time, and waits for it on a thread of its own. The program is to end when that thread
// does (PR_SET_PDEATHSIG).
class BesideProgram {
 public:
  // False if the last one still runs, or there is no room for another one.
  bool start(std::vector<std::string> words);

 private:
  std::shared_ptr<struct BesideState> state_;
};

}  // namespace clusterprof::collector
