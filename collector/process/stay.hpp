// SPDX-License-Identifier: BSD-3-Clause
// Since when the samples of a thread have shown it at one place: blocked in one call, or in an empty loop.
// Whatever computes has more instructions, calls something, or uses other data, and so moves. A thread that
// is blocked has one sample: with the next one, it has woken up in between.
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// What a sample shows.
struct Place {
  // The instructions of a loop that only waits, from the first to the last: `while (!flag) {}` takes 10 bytes
  // of x86-64, `while not flag: pass` 7 code units, and 4 before Python 3.11. A native loop that adds
  // something up is not longer, but its data are elsewhere each time.
  static constexpr std::uint32_t kNativeLoopBytes = 16, kPythonLoopUnits = 8,
                                 kPythonLoopUnitsWithoutCaches = 5;

  std::uint32_t path = 0;  // node of the RawStore: of the whole path, or without `instruction`
  // Of a thread that runs: its function, where in it, and how far apart instructions of a loop may be. 0: it
  // does not run.
  std::uint64_t code = 0, instruction = 0;
  std::uint32_t loop = 0;
  shard::Category category = shard::Category::kNative;
  bool is_native = false;  // of a thread that runs: not Python
  std::uint64_t data = 0;  // is_native: the address of what its instructions use; 0: not known
};

class Stay {
 public:
  void sample(const Place& place, std::uint64_t time_ns, std::uint64_t cpu_ns) {
    cpu_ns_ = cpu_ns;
    const std::uint64_t low = std::min(low_, place.instruction), high = std::max(high_, place.instruction);
    const bool same_data = place.data == 0 || data_ == 0 || place.data == data_;
    const bool stays = samples_ != 0 && place.code != 0 && place.path == place_.path &&
                       place.code == place_.code && place.category == place_.category &&
                       high - low < place.loop && same_data;
    place_ = place;
    if (stays) {
      low_ = low;
      high_ = high;
      if (data_ == 0) data_ = place.data;
      ++samples_;
      return;
    }
    low_ = high_ = place.instruction;
    data_ = place.data;
    since_ns_ = time_ns;
    since_cpu_ns_ = cpu_ns;
    samples_ = 1;
  }

  // 0: not known. Few samples of a thread that runs say little: they may have met one instruction of many. A
  // native loop that reads nothing waits for nothing.
  [[nodiscard]] std::uint64_t unmoved_ns(std::uint64_t now_ns) const {
    constexpr std::uint32_t kFewestInLoop = 100;
    if (samples_ == 0) return 0;
    if (place_.code != 0 && (samples_ < kFewestInLoop || (place_.is_native && data_ == 0))) return 0;
    return now_ns - std::min(now_ns, since_ns_);
  }
  [[nodiscard]] std::uint64_t cpu_ns() const { return cpu_ns_ - std::min(cpu_ns_, since_cpu_ns_); }
  [[nodiscard]] shard::Category category() const { return place_.category; }

 private:
  Place place_;
  std::uint64_t low_ = 0, high_ = 0, data_ = 0;
  std::uint64_t since_ns_ = 0, since_cpu_ns_ = 0, cpu_ns_ = 0;
  std::uint32_t samples_ = 0;
};

}  // namespace clusterprof::collector
