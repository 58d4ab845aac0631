// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/reach.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace clusterprof::aggregator::whatif {
namespace {

using namespace waits;

// A member tells if others are so much later than what it needs.
constexpr std::int64_t kTellingDifference_ns = 50'000;

struct Told {
  std::int64_t waited = 0, did_not = 0;  // members

  [[nodiscard]] bool tells() const { return waited != 0 || did_not != 0; }
  [[nodiscard]] bool mostly_waited() const { return waited > did_not; }
  void add(const Told& other) {
    waited += other.waited;
    did_not += other.did_not;
  }
};

// A member of an operation.
struct Seen {
  Told told;
  bool may_wait;  // it did not leave before the others had come so far

  // One that needs what happened at needed_ns, and would wait until further_ns, left at exit_ns.
  Seen(std::int64_t needed_ns, std::int64_t further_ns, std::int64_t exit_ns)
      : may_wait(exit_ns >= further_ns) {
    if (further_ns > later_by(needed_ns, kTellingDifference_ns)) ++(may_wait ? told.waited : told.did_not);
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

  // take(row of Matches::members, Seen), here and below: of those that might wait further.
  template <typename Take>
  void blocking(const Instance& instance, const Take& take) const {
    const std::uint32_t end = instance.first + instance.count;
    const Sync sync = trace_.ops[instance.op].sync;
    std::int64_t last_ns = arrived_ns(instance.first);
    for (std::uint32_t m = instance.first; m < end; ++m) last_ns = std::max(last_ns, arrived_ns(m));
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
        take(m, Seen(needed_ns, last_ns, left_ns(m)));
      }
      return;
    }
    const std::uint32_t root = root_of(instance);
    for (std::uint32_t m = instance.first; m < end; ++m) {
      std::int64_t needed_ns = arrived_ns(m);
      if (sync == Sync::kOneToAll && root != kNone) needed_ns = std::max(needed_ns, arrived_ns(root));
      if (sync == Sync::kAllToOne && m == root) needed_ns = last_ns;
      take(m, Seen(needed_ns, last_ns, left_ns(m)));
    }
  }

  template <typename Take>
  void nonblocking(const Instance& instance, const Take& take) const {
    const std::uint32_t end = instance.first + instance.count;
    const Sync sync = trace_.ops[instance.op].sync;
    const std::uint32_t root = root_of(instance);
    std::int64_t arrived = arrived_ns(instance.first), completing = completes_ns(instance.first);
    for (std::uint32_t m = instance.first; m < end; ++m) {
      arrived = std::max(arrived, arrived_ns(m));
      completing = std::max(completing, completes_ns(m));
    }
    const bool of_root = sync == Sync::kOneToAll;
    if (of_root && root == kNone) return;
    for (std::uint32_t m = instance.first; m < end; ++m) {
      if (sync == Sync::kAllToOne && m != root) continue;
      take(m, Seen(std::max(of_root ? arrived_ns(root) : arrived, completes_ns(m)),
                   of_root ? completes_ns(root) : completing, left_ns(m)));
    }
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

Reaches reaches_of(const Trace& trace, const Matches& matches,
                   const std::function<std::int64_t(std::uint32_t)>& entered_ns) {
  const Reader reader(trace, matches, entered_ns);
  const auto operation_of = [&](const Instance& instance) {
    const Event& event = trace.events[matches.members[instance.first].arrival];
    return std::pair<std::uint32_t, std::uint32_t>(instance.op, event.channel);
  };
  std::vector<bool> may_wait(matches.members.size());
  std::vector<Reach> reach_of(matches.instances.size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, Told> of_all;                   // operation, channel
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Told> of_rank;  // and rank
  for (std::size_t i = 0; i < matches.instances.size(); ++i) {
    const Instance& instance = matches.instances[i];
    reach_of[i] = reader.may_reach(instance);
    if (reach_of[i] == Reach::kNeeded) continue;
    const auto operation = operation_of(instance);
    Told& all = of_all[operation];
    const auto take = [&](std::uint32_t m, const Seen& member) {
      may_wait[m] = member.may_wait;
      all.add(member.told);
      of_rank[{operation.first, operation.second, matches.members[m].rank}].add(member.told);
    };
    if (reach_of[i] == Reach::kAll)
      reader.blocking(instance, take);
    else
      reader.nonblocking(instance, take);
  }
  Reaches reaches{std::vector<Reach>(matches.members.size(), Reach::kNeeded),
                  std::vector<bool>(matches.instances.size())};
  for (std::size_t i = 0; i < matches.instances.size(); ++i) {
    if (reach_of[i] == Reach::kNeeded) continue;
    const Instance& instance = matches.instances[i];
    const auto operation = operation_of(instance);
    const bool most_waited = of_all[operation].mostly_waited();
    for (std::uint32_t m = instance.first; m < instance.first + instance.count; ++m) {
      // What happened in the order of time makes no circle of dependences.
      if (!may_wait[m]) continue;
      const Told& own = of_rank[{operation.first, operation.second, matches.members[m].rank}];
      if (!(own.tells() ? own.mostly_waited() : most_waited)) continue;
      reaches.of_member[m] = reach_of[i];
      if (reach_of[i] == Reach::kCompleting) reaches.is_completed_late[i] = true;
    }
  }
  return reaches;
}

}  // namespace clusterprof::aggregator::whatif
