// SPDX-License-Identifier: BSD-3-Clause
// Calls by which a thread takes data that other threads or processes make, or gives what it has made: of
// queues, pipes and PyTorch's DataLoader, as seen on call paths.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// What a thread waits for in a call of a library: to take what others have made, or to give what it has made.
enum class Channel : std::uint8_t { kNone, kTake, kGive };
// Between whom.
enum class Between : std::uint8_t { kThreads, kProcesses, kEither };
struct ChannelCall {
  Channel channel = Channel::kNone;
  Between between = Between::kEither;
};

// Pools, and calls that wait for the end or the result of what somebody else does.
bool awaits_results(std::string_view file, std::string_view name);
// Of a Python function of a library.
ChannelCall channel_in(std::string_view file, std::string_view name);

class InputCalls {
 public:
  explicit InputCalls(const CallPaths& paths) : paths_(paths) {}
  // The library's call in which the user's code is blocked at the end of the path, kNone if it is in none.
  [[nodiscard]] ChannelCall wait_at(std::uint32_t path);

 private:
  // The frames at the end of a path, up to the user's innermost function.
  struct LibraryFrames {
    ChannelCall outermost;
    bool has_python = false;
    bool is_refused = false;  // somebody's result is awaited there, or a frame is not known
    bool is_known = false;    // of this row itself
  };
  [[nodiscard]] LibraryFrames frames_at(std::uint32_t path, const LibraryFrames& above) const;

  const CallPaths& paths_;
  std::vector<LibraryFrames> library_frames_;  // by path
};

}  // namespace clusterprof::report
