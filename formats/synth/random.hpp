// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace clusterprof::synth {

// SplitMix64: the standard library's distributions differ between implementations, and golden
// files must not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15ull;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9ull;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebull;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace clusterprof::synth
