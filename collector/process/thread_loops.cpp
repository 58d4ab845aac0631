// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/thread_loops.hpp"

#include <algorithm>
#include <utility>

namespace clusterprof::collector {
namespace {

constexpr std::size_t kMostParts = 32;  // of a turn
constexpr std::size_t kMostDescriptors = 2 * wire::kThreadLoops;

std::uint64_t get(const std::atomic<std::uint64_t>& word) { return word.load(std::memory_order_relaxed); }

}  // namespace

void ThreadLoops::sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, bool waits,
                         std::uint32_t path) {
  if (waits) wait_path_ = path;
  samples_.add(time_ns, cpu_ns, blocked, path);
}

void ThreadLoops::look(const wire::ThreadSlot& slot) noexcept {
  has_loops_ = has_loops_ || slot.event_loops.loops[0].descriptor.load(std::memory_order_acquire) != 0;
  seen_ = slot.event_loops.blocked_turns.load(std::memory_order_acquire);
}

RawTurn ThreadLoops::turn_of(std::uint64_t begin_ns, std::uint64_t end_ns, const RawTables& tables) const {
  RawTurn turn;
  turn.begin_ns = begin_ns;
  turn.length_ns = end_ns - begin_ns;
  turn.parts = samples_.divide(begin_ns, end_ns);
  limit_parts(turn.parts, kMostParts, [&](std::uint32_t path) { return tables.nodes[path].parent; });
  return turn;
}

void ThreadLoops::charge(const wire::ThreadSlot& slot, std::uint64_t now_ns, bool last,
                         const RawTables& tables, DropCounts& drops) {
  if (charged_ > seen_) charged_ = seen_;  // damaged
  if (seen_ - charged_ > wire::kBlockedTurns) {
    drops.add("event_loop_turns", seen_ - charged_ - wire::kBlockedTurns);
    charged_ = seen_ - wire::kBlockedTurns;
  }
  for (; charged_ < seen_; ++charged_) {
    const wire::BlockedTurn& from = slot.event_loops.blocked[charged_ % wire::kBlockedTurns];
    const auto awaited = static_cast<wire::Awaited>(from.awaited.load(std::memory_order_acquire));
    const std::uint64_t begin_ns = get(from.begin_ns), end_ns = get(from.end_ns);
    const std::uint32_t descriptor = from.descriptor.load(std::memory_order_relaxed);
    // Its place may have been taken while it was read.
    if (slot.event_loops.blocked_turns.load(std::memory_order_acquire) - charged_ >= wire::kBlockedTurns) {
      drops.add("event_loop_turns");
      continue;
    }
    if (begin_ns >= end_ns || end_ns > now_ns || descriptor == 0) {
      drops.add("damaged_event_loop");
      continue;
    }
    // The wait after it has not returned, so it may still turn out that something was ready at once.
    if (awaited == wire::Awaited::kNotKnown && !last && now_ns - end_ns < 2 * wire::kAtOnceNs) break;
    if (longest_.size() == kMostDescriptors && !longest_.contains(descriptor)) longest_.clear();
    RawTurn turn = turn_of(begin_ns, end_ns, tables);
    turn.awaited = awaited == wire::Awaited::kYes;
    longest_[descriptor].add(std::move(turn));
  }
}

bool ThreadLoops::read(const wire::EventLoop& from, const Span& when, const RawTables& tables, RawLoop& loop,
                       std::uint64_t& longest_began_ns, std::vector<RawTurn>& turns) const {
  const std::uint32_t descriptor = from.descriptor.load(std::memory_order_acquire);
  loop.turns = get(from.turns);
  if (descriptor == 0 || loop.turns < wire::kFewestTurns) return false;
  const std::uint64_t first_ns = std::min(when.begin_ns, when.end_ns);
  const std::uint64_t lasted_ns = when.end_ns - first_ns;
  // Sums of times that do not overlap; more is damage.
  const auto time = [&](const std::atomic<std::uint64_t>& word) { return std::min(get(word), lasted_ns); };
  const auto instant = [&](std::uint64_t ns) { return std::clamp(ns, first_ns, when.end_ns); };
  loop.busy_ns = time(from.busy_ns);
  loop.idle_ns = time(from.idle_ns);
  loop.blocked = std::min(get(from.blocked), loop.turns);
  loop.blocked_ns = std::min(get(from.blocked_ns), loop.busy_ns);
  loop.longest_ns = std::min(get(from.longest_ns), loop.blocked_ns);
  loop.wait_path = wait_path_;
  longest_began_ns = instant(get(from.longest_began_ns));
  for (std::size_t bin = 0; bin < loop.lengths.size(); ++bin)
    loop.lengths[bin] = std::min(get(from.lengths[bin]), loop.turns);
  if (const std::uint64_t since_ns = get(from.wait_began_ns); since_ns != 0)
    loop.idle_ns = std::min(loop.idle_ns + when.end_ns - instant(since_ns), lasted_ns);
  if (const auto known = longest_.find(descriptor); known != longest_.end()) turns = known->second.turns();
  // A turn that has not ended is a blocked one, too, if it is long enough.
  if (const std::uint64_t began_ns = get(from.turn_began_ns);
      began_ns != 0 && when.end_ns - instant(began_ns) >= wire::kBlockedTurnNs) {
    RawTurn open = turn_of(instant(began_ns), when.end_ns, tables);
    open.open = true;
    loop.busy_ns = std::min(loop.busy_ns + open.length_ns, lasted_ns);
    loop.blocked_ns = std::min(loop.blocked_ns + open.length_ns, lasted_ns);
    ++loop.blocked;
    ++loop.turns;
    ++loop.lengths[wire::turn_bin(open.length_ns)];
    if (open.length_ns > loop.longest_ns) {
      loop.longest_ns = open.length_ns;
      longest_began_ns = open.begin_ns;
    }
    turns.push_back(std::move(open));
  }
  std::sort(turns.begin(), turns.end(),
            [](const RawTurn& a, const RawTurn& b) { return a.begin_ns < b.begin_ns; });
  return true;
}

}  // namespace clusterprof::collector
