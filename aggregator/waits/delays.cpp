// SPDX-License-Identifier: BSD-3-Clause
// Finds the causes of each wait: directly what the late rank did in the meantime, and at the root by the
// delay analysis of Böhme, Geimer, Wolf and Arnold (header).
#include "aggregator/waits/delays.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace clusterprof::aggregator::waits {
namespace {

std::uint64_t rounded(double ns) {
  return ns > 0 ? static_cast<std::uint64_t>(std::llround(std::min(ns, 9e18))) : 0;
}

struct Share {
  std::uint32_t rank = 0, path = 0;
  float share = 0;  // of the wait
};

class DelayAnalysis {
 public:
  DelayAnalysis(const Trace& trace, const Matches& matches, const Waits& waits,
                const ActivityReader& activity)
      : trace_(trace), matches_(matches), waits_(waits), activity_(activity) {}

  // Resolves all waits in order of their ends. The waits of a late rank are then resolved before those that
  // it caused.
  void run() {
    const auto count = static_cast<std::uint32_t>(waits_.waits.size());
    first_.assign(count, 0);
    shares_of_.assign(count, 0);
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Wait &x = waits_.waits[a], &y = waits_.waits[b];
      return std::tie(x.end_ns, x.begin_ns, a) < std::tie(y.end_ns, y.begin_ns, b);
    });
    for (const std::uint32_t row : order) resolve(row);
  }

  template <typename Visit>
  void for_each_cause(std::uint32_t wait, Visit visit) const {
    for (std::uint32_t i = 0; i < shares_of_[wait]; ++i) visit(pool_[first_[wait] + i]);
  }

 private:
  void resolve(std::uint32_t row) {
    const Wait& wait = waits_.waits[row];
    const Lane& own = trace_.lanes[trace_.events[wait.event].lane];
    const Lane& late = trace_.lanes[trace_.events[wait.cause].lane];
    const std::uint32_t own_call = trace_.call_begin(wait.event);
    const std::uint32_t late_call = trace_.call_begin(wait.cause);
    std::int64_t since_ns = last_synchronised(wait, own, late);
    for (;;) {  // both over the same time
      mine_.clear();
      theirs_.clear();
      const std::int64_t looked_ns =
          std::max(activity_.read(late, late_call, since_ns, wait.late_ns, kMaxCallsBack, theirs_),
                   activity_.read(own, own_call, since_ns, wait.begin_ns, kMaxCallsBack, mine_));
      if (looked_ns <= since_ns) break;
      since_ns = looked_ns;
    }

    causes_.clear();
    for (const PathTime& theirs : theirs_.paths) {
      const double excess = theirs.ns - mine_.ns_of(theirs.path);
      if (excess <= 1e-9 * theirs.ns) continue;  // or the error of the sums
      causes_.push_back({late.rank, theirs.path, static_cast<float>(excess)});
    }
    const auto waited = [](const Activity& activity) {
      double ns = 0;
      for (const auto& [other, part] : activity.waits) ns += part;
      return ns;
    };
    const double their_wait = waited(theirs_), excess_wait = std::max(their_wait - waited(mine_), 0.0);
    if (excess_wait > 0) {
      for (const auto& [other, ns] : theirs_.waits) {
        const double passed_on = excess_wait * ns / their_wait;
        if (shares_of_[other] == 0)  // not resolved: it ended later, by clocks that are not exact
          causes_.push_back(
              {late.rank, trace_.events[waits_.waits[other].event].path, static_cast<float>(passed_on)});
        for (std::uint32_t i = 0; i < shares_of_[other]; ++i) {
          Share share = pool_[first_[other] + i];
          if (share.rank == own.rank) continue;  // nobody waits for what it did itself
          share.share = static_cast<float>(passed_on * static_cast<double>(share.share));
          causes_.push_back(share);
        }
      }
    }
    if (causes_.empty()) {
      // The late rank waited for this rank itself, or nothing is known about it.
      const std::uint32_t path = theirs_.waits.empty()
                                     ? trace_.outside[trace_.events[wait.cause].path]
                                     : trace_.events[waits_.waits[theirs_.waits.front().first].event].path;
      causes_.push_back({late.rank, path, 1});
    }
    keep(row);
  }

  // The time at which the two ranks were last synchronised before the wait, that is when both had finished
  // that operation before the late rank arrived.
  std::int64_t last_synchronised(const Wait& wait, const Lane& own, const Lane& late) const {
    std::uint32_t call = trace_.call_begin(wait.event);
    if (own.rank == late.rank) return wait.begin_ns;
    for (std::uint32_t calls = 0; calls < kMaxCallsBack && call > own.first; ++calls) {
      const std::uint32_t end = call;
      call = trace_.call_begin(call - 1);
      std::int64_t last_ns = INT64_MIN;
      for (std::uint32_t e = call; e < end; ++e)
        last_ns = std::max(last_ns, synchronised_in(e, own.rank, late.rank, wait.late_ns));
      if (last_ns != INT64_MIN && last_ns <= wait.begin_ns) return last_ns;
    }
    return call == own.first ? std::min(own.begin_ns, late.begin_ns) : trace_.events[call].enter_ns;
  }

  // Returns INT64_MIN when this operation did not synchronise them.
  std::int64_t synchronised_in(std::uint32_t e, std::uint32_t own, std::uint32_t late,
                               std::int64_t late_ns) const {
    const Event& event = trace_.events[e];
    if (event.match == kNone) return INT64_MIN;
    if (event.kind <= MpiEventKind::kProbe) {
      if (event.peer != late) return INT64_MIN;
      const std::uint32_t send = event.kind == MpiEventKind::kSend ? e : event.match;
      const std::uint32_t receive = trace_.events[send].match;
      const bool received = event.kind == MpiEventKind::kReceive || event.kind == MpiEventKind::kProbe;
      const std::uint32_t theirs = received ? send : receive;
      if (theirs == kNone || trace_.events[theirs].exit_ns > late_ns) return INT64_MIN;
      return trace_.events[send].enter_ns;
    }
    const Instance& instance = matches_.instances[event.match];
    if (!instance.whole) return INT64_MIN;
    const Sync sync = trace_.ops[instance.op].sync;
    const bool all = sync == Sync::kBarrier || sync == Sync::kNxN;
    if (!all && instance.root != own && instance.root != late) return INT64_MIN;
    const std::uint32_t theirs = matches_.member_of(instance, late);
    const std::uint32_t mine = matches_.member_of(instance, own);
    if (theirs == kNone || mine == kNone) return INT64_MIN;
    const std::uint32_t left = matches_.members[theirs].completion;
    if (left == kNone || trace_.events[left].exit_ns > late_ns) return INT64_MIN;
    if (all) return Matches::arrival_ns(trace_, matches_.members[waits_.last_member[event.match]]);
    return std::max(Matches::arrival_ns(trace_, matches_.members[theirs]),
                    Matches::arrival_ns(trace_, matches_.members[mine]));
  }

  // Unites equal causes, keeps the largest, and scales these to a sum of 1.
  void keep(std::uint32_t row) {
    std::sort(causes_.begin(), causes_.end(), [](const Share& a, const Share& b) {
      return std::tie(a.rank, a.path, a.share) < std::tie(b.rank, b.path, b.share);
    });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < causes_.size(); ++i) {
      if (kept != 0 && causes_[kept - 1].rank == causes_[i].rank && causes_[kept - 1].path == causes_[i].path)
        causes_[kept - 1].share += causes_[i].share;
      else
        causes_[kept++] = causes_[i];
    }
    causes_.resize(kept);
    if (kept > kMaxCauses) {
      std::stable_sort(causes_.begin(), causes_.end(),
                       [](const Share& a, const Share& b) { return a.share > b.share; });
      causes_.resize(kMaxCauses);
    }
    double total = 0;
    for (const Share& share : causes_) total += static_cast<double>(share.share);
    first_[row] = pool_.size();
    shares_of_[row] = static_cast<std::uint8_t>(causes_.size());
    for (Share share : causes_) {
      share.share = static_cast<float>(total > 0 ? static_cast<double>(share.share) / total
                                                 : 1 / static_cast<double>(causes_.size()));
      pool_.push_back(share);
    }
  }

  const Trace& trace_;
  const Matches& matches_;
  const Waits& waits_;
  const ActivityReader& activity_;
  std::vector<Share> pool_;
  std::vector<std::uint64_t> first_;     // row of pool_ per wait
  std::vector<std::uint8_t> shares_of_;  // 0: not resolved yet
  Activity mine_, theirs_;
  std::vector<Share> causes_;
};

struct StateKey {
  std::uint32_t rank, path, cause_rank, cause_path;
  shard::WaitKind kind;
  friend bool operator==(const StateKey&, const StateKey&) = default;
};
struct StateHash {
  std::size_t operator()(const StateKey& key) const noexcept {
    std::uint64_t hash = static_cast<std::uint64_t>(key.kind);
    for (const std::uint32_t word : {key.rank, key.path, key.cause_rank, key.cause_path}) {
      hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15ull;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

}  // namespace

std::vector<shard::WaitState> direct_causes(const Trace& trace, const Waits& waits,
                                            const ActivityReader& activity, const Scale& scale) {
  struct Sum {
    double ns = 0, count = 0;
  };
  std::unordered_map<StateKey, Sum, StateHash> sums;
  Activity meanwhile;
  for (const Wait& wait : waits.waits) {
    const Event& event = trace.events[wait.event];
    const std::uint32_t rank = trace.lanes[event.lane].rank;
    const Lane& late = trace.lanes[trace.events[wait.cause].lane];
    // If the call gave up its wait before the late rank arrived, the wait is explained by what that rank did
    // until then.
    meanwhile.clear();
    activity.read(late, trace.call_begin(wait.cause), wait.begin_ns, wait.late_ns, kMaxCallsBack, meanwhile);
    for (const auto& [other, ns] : meanwhile.waits)
      meanwhile.add(trace.events[waits.waits[other].event].path, ns);
    double total = 0;
    for (const PathTime& row : meanwhile.paths) total += row.ns;
    if (total <= 0) {
      meanwhile.add(trace.outside[trace.events[wait.cause].path], 1);
      total = 1;
    }
    const double factor = scale(wait);
    const double ns = static_cast<double>(wait.end_ns - wait.begin_ns) * factor;
    const auto longest = std::max_element(
        meanwhile.paths.begin(), meanwhile.paths.end(),
        [](const PathTime& a, const PathTime& b) { return a.ns != b.ns ? a.ns < b.ns : a.path > b.path; });
    for (auto row = meanwhile.paths.begin(); row != meanwhile.paths.end(); ++row) {
      Sum& sum = sums[{rank, event.path, late.rank, row->path, wait.kind}];
      sum.ns += ns * row->ns / total;
      if (row == longest) sum.count += factor;
    }
  }
  std::vector<shard::WaitState> rows;
  rows.reserve(sums.size());
  for (const auto& [key, sum] : sums) {
    const std::uint64_t ns = rounded(sum.ns), count = rounded(sum.count);
    if (ns != 0 || count != 0)
      rows.push_back({key.rank, key.path, key.kind, key.cause_rank, key.cause_path, ns, count});
  }
  std::sort(rows.begin(), rows.end(), [](const shard::WaitState& a, const shard::WaitState& b) {
    return std::tie(a.rank, a.path, a.kind, a.cause_rank, a.cause_path) <
           std::tie(b.rank, b.path, b.kind, b.cause_rank, b.cause_path);
  });
  return rows;
}

std::vector<shard::RootCause> root_causes(const Trace& trace, const Matches& matches, const Waits& waits,
                                          const ActivityReader& activity, const Scale& scale) {
  DelayAnalysis analysis(trace, matches, waits, activity);
  analysis.run();
  struct Sum {
    double ns = 0;
    std::uint32_t last_rank = kNone, ranks = 0;
  };
  std::unordered_map<std::uint64_t, Sum> sums;                    // rank << 32 | path
  for (std::uint32_t row = 0; row < waits.waits.size(); ++row) {  // by rank
    const Wait& wait = waits.waits[row];
    const Event& event = trace.events[wait.event];
    const std::uint32_t rank = trace.lanes[event.lane].rank;
    const double ns = static_cast<double>(wait.end_ns - wait.begin_ns) * scale(wait);
    analysis.for_each_cause(row, [&](const Share& share) {
      Sum& sum = sums[std::uint64_t{share.rank} << 32 | share.path];
      sum.ns += ns * static_cast<double>(share.share);
      if (std::exchange(sum.last_rank, rank) != rank) ++sum.ranks;
    });
  }
  std::vector<shard::RootCause> rows;
  for (const auto& [key, sum] : sums)
    if (const std::uint64_t ns = rounded(sum.ns); ns != 0)
      rows.push_back({static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key), ns, sum.ranks});
  std::sort(rows.begin(), rows.end(), [](const shard::RootCause& a, const shard::RootCause& b) {
    return std::tie(a.rank, a.path) < std::tie(b.rank, b.path);
  });
  return rows;
}

}  // namespace clusterprof::aggregator::waits
