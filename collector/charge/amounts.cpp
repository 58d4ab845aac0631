// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/amounts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace clusterprof::collector {

std::uint64_t HandlerCosts::le_ns(std::size_t bin) noexcept {
  static const std::array<std::uint64_t, kBins> kLimits = [] {
    std::array<std::uint64_t, kBins> limits{};
    for (std::size_t i = 0; i < kBins; ++i)
      limits[i] = static_cast<std::uint64_t>(std::exp2(6 + static_cast<double>(i) / 4));  // from 64 ns on
    return limits;
  }();
  return kLimits[bin];
}

void HandlerCosts::add(std::uint32_t cost_ns) noexcept {
  // The octave is known without a search; four steps in it.
  const int octave = cost_ns <= 64 ? 0 : std::bit_width(cost_ns - 1) - 7;
  std::size_t bin = std::min(4u * static_cast<std::size_t>(octave), kBins - 1);
  while (bin + 1 < kBins && cost_ns > le_ns(bin)) ++bin;
  ++counts[bin];
}

void RawCall::add(const RawCall& other) {
  if (other.count != 0) min_ns = count == 0 ? other.min_ns : std::min(min_ns, other.min_ns);
  unfinished += other.unfinished;
  max_ns = std::max(max_ns, other.max_ns);
  count += other.count;
  time_ns += other.time_ns;
  sent_bytes += other.sent_bytes;
  recv_bytes += other.recv_bytes;
}

void RawRegion::add(const RawRegion& other) {
  if (other.count == 0) return;
  min_ns = count == 0 ? other.min_ns : std::min(min_ns, other.min_ns);
  if (count == 0 || other.max_ns > max_ns) {
    max_ns = other.max_ns;
    max_n = other.max_n;
  }
  count += other.count;
  time_ns += other.time_ns;
}

void RawIo::add(const RawIo& other) {
  count += other.count;
  failed += other.failed;
  bytes += other.bytes;
  time_ns += other.time_ns;
  max_ns = std::max(max_ns, other.max_ns);
}

void RawAccess::add(const RawAccess& other) {
  samples += other.samples;
  accesses += other.accesses;
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] |= other.blocks[i];
}

}  // namespace clusterprof::collector
