// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/reach.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace clusterprof::aggregator::whatif {
namespace {

using namespace waits;

// A member tells if others are so much later than what it needs.
constexpr std::int64_t kTellingDifference_ns = 50'000;

struct Told {
  std::int64_t waited = 0, did_not = 0;  // members
  bool contradicts = false;              // one left before: then it did not depend on the others

  // A member that needs what happened at needed_ns, and would wait until further_ns, left at exit_ns.
  void take(std::int64_t needed_ns, std::int64_t further_ns, std::int64_t exit_ns) {
    contradicts = contradicts || exit_ns < further_ns;
    if (further_ns <= later_by(needed_ns, kTellingDifference_ns)) return;
    ++(exit_ns >= further_ns ? waited : did_not);
  }
};

class Reader {
 public:
  Reader(const Trace& trace, const Matches& matches,
         const std::function<std::int64_t(std::uint32_t)>& entered_ns)
      : trace_(trace), matches_(matches), entered_ns_(entered_ns) {}

  // kNeeded: the operation cannot wait further.
  [[nodiscard]] Reach may_reach(const Instance& instance) const {
    if (!instance.whole || instance.count < 2) return Reach::kNeeded;
    std::uint32_t started = 0;
    for (std::uint32_t m = instance.first; m < instance.first + instance.count; ++m) {
      const Member& member = matches_.members[m];
      if (member.arrival == kNone || member.completion == kNone) return Reach::kNeeded;
      if (trace_.events[member.arrival].kind == MpiEventKind::kCollectiveStart) ++started;
    }
    const Sync sync = trace_.ops[instance.op].sync;
    if (started == instance.count) return sync == Sync::kScan ? Reach::kNeeded : Reach::kCompleting;
    const bool needs_all = sync == Sync::kBarrier || sync == Sync::kNxN;
    return started == 0 && !needs_all ? Reach::kAll : Reach::kNeeded;
  }

  [[nodiscard]] Told blocking(const Instance& instance) const {
    const std::uint32_t end = instance.first + instance.count;
    const Sync sync = trace_.ops[instance.op].sync;
    std::int64_t last_ns = arrived_ns(instance.first);
    for (std::uint32_t m = instance.first; m < end; ++m) last_ns = std::max(last_ns, arrived_ns(m));
    Told told;
    if (sync == Sync::kScan) {
      // A member needs all up to it, in the order of members.
      std::vector<std::uint32_t> order;
      for (std::uint32_t m = instance.first; m < end; ++m) order.push_back(m);
      std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return matches_.members[a].is_before(matches_.members[b]);
      });
      std::int64_t needed_ns = arrived_ns(order.front());
      for (const std::uint32_t m : order) {
        needed_ns = std::max(needed_ns, arrived_ns(m));
        told.take(needed_ns, last_ns, left_ns(m));
      }
      return told;
    }
    const std::uint32_t root = root_of(instance);
    for (std::uint32_t m = instance.first; m < end; ++m) {
      std::int64_t needed_ns = arrived_ns(m);
      if (sync == Sync::kOneToAll && root != kNone) needed_ns = std::max(needed_ns, arrived_ns(root));
      if (sync == Sync::kAllToOne && m == root) needed_ns = last_ns;
      told.take(needed_ns, last_ns, left_ns(m));
    }
    return told;
  }

  [[nodiscard]] Told nonblocking(const Instance& instance) const {
    const std::uint32_t end = instance.first + instance.count;
    const Sync sync = trace_.ops[instance.op].sync;
    const std::uint32_t root = root_of(instance);
    std::int64_t arrived = arrived_ns(instance.first), completing = completes_ns(instance.first);
    for (std::uint32_t m = instance.first; m < end; ++m) {
      arrived = std::max(arrived, arrived_ns(m));
      completing = std::max(completing, completes_ns(m));
    }
    Told told;
    for (std::uint32_t m = instance.first; m < end; ++m) {
      if (sync == Sync::kAllToOne && m != root) continue;
      const bool of_root = sync == Sync::kOneToAll;
      if (of_root && root == kNone) continue;
      told.take(std::max(of_root ? arrived_ns(root) : arrived, completes_ns(m)),
                of_root ? completes_ns(root) : completing, left_ns(m));
    }
    return told;
  }

 private:
  // The root's member; kNone: there is none.
  [[nodiscard]] std::uint32_t root_of(const Instance& instance) const {
    return instance.root == kNone ? kNone : matches_.member_of(instance, instance.root);
  }
  [[nodiscard]] std::int64_t arrived_ns(std::uint32_t m) const {
    return entered_ns_(matches_.members[m].arrival);
  }
  [[nodiscard]] std::int64_t completes_ns(std::uint32_t m) const {
    return entered_ns_(matches_.members[m].completion);
  }
  [[nodiscard]] std::int64_t left_ns(std::uint32_t m) const {
    return trace_.events[matches_.members[m].completion].exit_ns;
  }

  const Trace& trace_;
  const Matches& matches_;
  const std::function<std::int64_t(std::uint32_t)>& entered_ns_;
};

}  // namespace

std::vector<Reach> reaches_of(const Trace& trace, const Matches& matches,
                              const std::function<std::int64_t(std::uint32_t)>& entered_ns) {
  const Reader reader(trace, matches, entered_ns);
  std::vector<Reach> reaches(matches.instances.size(), Reach::kNeeded);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Told> of_op;  // operation, channel
  const auto key_of = [&](const Instance& instance) {
    const Event& event = trace.events[matches.members[instance.first].arrival];
    return std::pair<std::uint32_t, std::uint32_t>(instance.op, event.channel);
  };
  for (std::size_t i = 0; i < reaches.size(); ++i) {
    const Instance& instance = matches.instances[i];
    const Reach reach = reader.may_reach(instance);
    if (reach == Reach::kNeeded) continue;
    const Told told = reach == Reach::kAll ? reader.blocking(instance) : reader.nonblocking(instance);
    Told& sum = of_op[key_of(instance)];
    sum.waited += told.waited;
    sum.did_not += told.did_not;
    // What happened in the order of time makes no circle of dependences.
    if (!told.contradicts) reaches[i] = reach;
  }
  for (std::size_t i = 0; i < reaches.size(); ++i) {
    if (reaches[i] == Reach::kNeeded) continue;
    const Told& told = of_op[key_of(matches.instances[i])];
    if (told.waited <= told.did_not) reaches[i] = Reach::kNeeded;
  }
  return reaches;
}

}  // namespace clusterprof::aggregator::whatif
