// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/native_callers.hpp"

#include <algorithm>
#include <limits>

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMostCalls = 1u << 16;

}  // namespace

void NativeCallers::sample(std::uint32_t slot, std::uint64_t time_ns, bool blocked, std::uint32_t path) {
  if (too_many_) return;
  if (samples_.size() == kMostThreads && !samples_.contains(slot)) {
    too_many_ = true;
    samples_.clear();
    return;
  }
  std::deque<Sample>& of_thread = samples_[slot];
  while (!of_thread.empty() &&
         (of_thread.size() == kMostSamples || of_thread.front().time_ns + kKeptNs < time_ns))
    of_thread.pop_front();
  of_thread.push_back({time_ns, path, blocked});
}

NativeCallers::Call NativeCallers::call_of(std::uint32_t path, std::uint32_t module,
                                           const RawTables& tables) {
  if (path == 0) return {};
  const std::uint64_t key = std::uint64_t{path} << 32 | module;
  if (const auto known = calls_.find(key); known != calls_.end()) return known->second;
  Call call;
  for (std::uint32_t at = path; at != 0 && call.line == 0; at = tables.nodes[at].parent) {
    RawFrame frame = tables.frames[tables.nodes[at].frame];
    if (frame.kind == RawKind::kPending) {
      if (!tables.pending[frame.a].resolved) return {};  // it may be known next time
      frame = tables.pending[frame.a].resolution;
    }
    const bool is_native = frame.kind == RawKind::kNativeExact || frame.kind == RawKind::kNativeReturn;
    if (frame.kind == RawKind::kPython)
      call.line = at;
    else if (is_native && frame.a == module)
      call.from = tables.nodes[at].parent;
  }
  if (call.line == 0 || call.from == 0) call = {};
  if (calls_.size() >= kMostCalls) calls_.clear();
  calls_.emplace(key, call);
  return call;
}

bool NativeCallers::goes_on(const std::deque<Sample>& of_thread, std::uint64_t time_ns, const Call& call,
                            std::uint32_t module, std::uint64_t period_ns, const RawTables& tables) {
  const Sample& last = of_thread.back();
  if (last.blocked) return true;
  std::uint64_t most_ns = 2 * period_ns;
  if (of_thread.size() > 1) {
    const Sample& before = of_thread[of_thread.size() - 2];
    if (call_of(before.path, module, tables).line == call.line)
      most_ns = std::max(most_ns, last.time_ns - std::min(last.time_ns, before.time_ns));
  }
  return time_ns - last.time_ns <= most_ns;
}

std::uint64_t NativeCallers::known_until_ns(std::uint32_t module, const RawTables& tables) {
  std::uint64_t until_ns = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [slot, of_thread] : samples_) {
    const Sample& last = of_thread.back();
    if (!last.blocked && call_of(last.path, module, tables).line != 0)
      until_ns = std::min(until_ns, last.time_ns);
  }
  return until_ns;
}

std::uint32_t NativeCallers::caller(std::uint64_t time_ns, std::uint32_t module, std::uint64_t period_ns,
                                    const RawTables& tables) {
  Call found;
  for (const auto& [slot, of_thread] : samples_) {
    const auto behind =
        std::upper_bound(of_thread.begin(), of_thread.end(), time_ns,
                         [](std::uint64_t ns, const Sample& sample) { return ns < sample.time_ns; });
    if (behind == of_thread.begin()) continue;
    Call call = call_of(std::prev(behind)->path, module, tables);
    if (call.line == 0) continue;
    if (behind == of_thread.end()) {
      if (!goes_on(of_thread, time_ns, call, module, period_ns, tables)) continue;
    } else if (const Call next = call_of(behind->path, module, tables); next.line == call.line) {
      // A walk that was cut lacks what is in between.
      if (call.from == call.line) call.from = next.from;
    } else if (!std::prev(behind)->blocked || behind->time_ns - time_ns < period_ns) {
      continue;
    }
    if (found.line != 0 && found.line != call.line) return 0;
    if (found.line == 0 || found.from == found.line) found = call;
  }
  return found.from;
}

}  // namespace clusterprof::collector
