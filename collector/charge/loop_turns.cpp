// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/loop_turns.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace clusterprof::collector {

void TurnSamples::add(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, std::uint32_t path) {
  if (samples_.size() == kMost) {
    forgotten_until_ns_ = samples_.front().time_ns;
    samples_.pop_front();
  }
  samples_.push_back({time_ns, cpu_ns, path, blocked});
}

std::vector<TurnPart> TurnSamples::divide(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  const std::uint64_t length_ns = end_ns - std::min(end_ns, begin_ns);
  std::map<std::uint32_t, std::uint64_t> times;
  const auto first = std::lower_bound(samples_.begin(), samples_.end(), begin_ns,
                                      [](const Sample& s, std::uint64_t ns) { return s.time_ns < ns; });
  std::uint64_t since_ns = std::max(begin_ns, std::min(forgotten_until_ns_, end_ns));
  const std::uint64_t known_ns = end_ns - std::min(end_ns, since_ns);
  const Sample* before = nullptr;  // in the same turn
  for (auto sample = first; sample != samples_.end() && sample->time_ns <= end_ns; ++sample) {
    const std::uint64_t wall_ns = sample->time_ns - std::min(sample->time_ns, since_ns);
    const std::uint64_t waited_ns =
        before == nullptr || !before->blocked
            ? 0
            : wall_ns - std::min(wall_ns, sample->cpu_ns - std::min(sample->cpu_ns, before->cpu_ns));
    if (waited_ns != 0) times[before->path] += waited_ns;
    times[sample->path] += wall_ns - waited_ns;
    since_ns = std::max(since_ns, sample->time_ns);
    before = &*sample;
  }
  times[before != nullptr ? before->path : 0] += end_ns - std::min(end_ns, since_ns);
  std::vector<TurnPart> parts;
  std::uint64_t given_ns = 0;
  for (const auto& [path, ns] : times) {
    if (ns == 0) continue;
    const std::uint64_t scaled_ns =
        known_ns == length_ns
            ? ns
            : static_cast<std::uint64_t>(static_cast<double>(ns) * static_cast<double>(length_ns) /
                                         static_cast<double>(known_ns));
    parts.push_back({path, std::min(scaled_ns, length_ns - given_ns)});
    given_ns += parts.back().ns;
  }
  if (parts.empty()) parts.push_back({0, 0});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const TurnPart& a, const TurnPart& b) { return a.ns > b.ns; });
  parts.front().ns += length_ns - given_ns;
  return parts;
}

void unite_parts(std::vector<TurnPart>& parts) {
  std::sort(parts.begin(), parts.end(), [](const TurnPart& a, const TurnPart& b) { return a.path < b.path; });
  std::size_t kept = 0;
  for (const TurnPart& part : parts) {
    if (kept != 0 && parts[kept - 1].path == part.path)
      parts[kept - 1].ns += part.ns;
    else
      parts[kept++] = part;
  }
  parts.resize(kept);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const TurnPart& a, const TurnPart& b) { return a.ns > b.ns; });
}

void LongestTurns::add(RawTurn turn) {
  const auto longer = [](const RawTurn& a, const RawTurn& b) { return a.length_ns > b.length_ns; };
  turns_.push_back(std::move(turn));
  if (turns_.size() < kMost) return;
  if (turns_.size() == kMost) {
    std::make_heap(turns_.begin(), turns_.end(), longer);
    return;
  }
  std::push_heap(turns_.begin(), turns_.end(), longer);
  std::pop_heap(turns_.begin(), turns_.end(), longer);
  turns_.pop_back();
}

}  // namespace clusterprof::collector
