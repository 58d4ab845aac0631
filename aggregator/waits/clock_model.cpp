// SPDX-License-Identifier: BSD-3-Clause
// Fits, for each pair of nodes, lines between the bounds that measurements and the order of messages set
// on their clock offset, and combines the pairs to one clock. docs/design/0007-clocks-of-nodes.md explains
// the method.
#include "aggregator/waits/clock_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace clusterprof::aggregator::waits {
namespace {

constexpr std::size_t kSlices = 64;
// If no line satisfies the bounds to within this error, several lines are used.
constexpr double kStraight = 1000;  // ns
// The largest lead and the largest error of a clock in a run.
constexpr std::int64_t kFarthest = std::int64_t{1} << 61;

// Whether the event shows the order of send and receive: MPI_Win_start may return before its MPI_Win_post;
// any other receive ends after its send.
bool shows_order(const Event& event) { return event.tag != wire::kTagWinPost; }

// Calls before(node_a, time_a, node_b, time_b) for every constraint between nodes: time_a on a is not later
// than time_b on b.
template <typename Before>
void for_each_constraint(const Trace& trace, const Matches& matches, std::uint32_t reference_node,
                         Before before) {
  const auto node_of = [&](const Event& event) { return trace.lanes[event.lane].node; };
  for (const Event& event : trace.events) {
    if (event.kind > MpiEventKind::kProbe || event.match == kNone || !shows_order(event)) continue;
    const bool is_send = event.kind == MpiEventKind::kSend;
    if (event.kind == MpiEventKind::kReceive || event.kind == MpiEventKind::kProbe) {
      const Event& send = trace.events[event.match];
      if (node_of(send) != node_of(event))
        before(node_of(send), send.enter_ns, node_of(event), event.exit_ns);
    } else if ((event.flags & wire::kEventSynchronous) != 0 &&
               (!is_send || (event.flags & wire::kEventNonblocking) == 0)) {
      const std::uint32_t receive = is_send ? event.match : trace.events[event.match].match;
      if (receive == kNone) continue;
      const Event& other = trace.events[receive];
      if (node_of(other) != node_of(event))
        before(node_of(other), other.start_ns, node_of(event), event.exit_ns);
    }
  }
  struct Extremes {
    std::uint32_t node;
    std::int64_t last_arrival, first_exit;
  };
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::vector<Extremes> extremes;
  std::vector<std::uint32_t> row_of_node;
  for (const Instance& instance : matches.instances) {
    const Op& op = trace.ops[instance.op];
    if (!instance.whole || instance.count < 2 || !op.always_synchronises) continue;
    if (op.sync == Sync::kOneToAll || op.sync == Sync::kAllToOne) {
      const std::uint32_t row = instance.root == kNone ? kNone : matches.member_of(instance, instance.root);
      if (row == kNone) continue;
      const Member& root = matches.members[row];
      const std::uint32_t root_node = node_of(trace.events[root.arrival]);
      for (std::uint32_t i = 0; i < instance.count; ++i) {
        const Member& member = matches.members[instance.first + i];
        const std::uint32_t node = node_of(trace.events[member.arrival]);
        if (node == root_node) continue;
        if (op.sync == Sync::kOneToAll) {
          if (member.completion != kNone)
            before(root_node, Matches::arrival_ns(trace, root), node,
                   trace.events[member.completion].exit_ns);
        } else if (root.completion != kNone) {
          before(node, Matches::arrival_ns(trace, member), root_node, trace.events[root.completion].exit_ns);
        }
      }
      continue;
    }
    if (op.sync == Sync::kScan) continue;
    for (const Extremes& row : extremes) row_of_node[row.node] = kNone;
    extremes.clear();
    for (std::uint32_t i = 0; i < instance.count; ++i) {
      const Member& member = matches.members[instance.first + i];
      const std::uint32_t node = node_of(trace.events[member.arrival]);
      if (node >= row_of_node.size()) row_of_node.resize(node + 1, kNone);
      if (row_of_node[node] == kNone) {
        row_of_node[node] = static_cast<std::uint32_t>(extremes.size());
        extremes.push_back({node, std::numeric_limits<std::int64_t>::min(), kNever});
      }
      Extremes& row = extremes[row_of_node[node]];
      row.last_arrival = std::max(row.last_arrival, Matches::arrival_ns(trace, member));
      if (member.completion != kNone)
        row.first_exit = std::min(row.first_exit, trace.events[member.completion].exit_ns);
    }
    if (extremes.size() < 2) continue;
    std::size_t center = 0;
    for (std::size_t i = 1; i < extremes.size(); ++i)
      if (extremes[i].node == reference_node ||
          (extremes[center].node != reference_node && extremes[i].node < extremes[center].node))
        center = i;
    for (std::size_t i = 0; i < extremes.size(); ++i) {
      const Extremes &a = extremes[center], &b = extremes[i];
      if (i == center) continue;
      if (b.first_exit != kNever) before(a.node, a.last_arrival, b.node, b.first_exit);
      if (a.first_exit != kNever) before(b.node, b.last_arrival, a.node, a.first_exit);
    }
  }
}

// Largest value of the concave function on [low, high].
template <typename Function>
double argmax(double low, double high, Function function) {
  for (int i = 0; i < 200 && high - low > 1e-15; ++i) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    const double fa = function(a), fb = function(b);
    if (fa <= fb) low = a;
    if (fb <= fa) high = b;
  }
  return (low + high) / 2;
}

}  // namespace

ClockPair::ClockPair(std::int64_t begin_ns, std::int64_t end_ns)
    : begin_ns_(begin_ns), end_ns_(std::max(begin_ns, end_ns)), slices_(kSlices) {}

ClockPair::Slice& ClockPair::slice_at(std::int64_t local_ns) {
  const double share =
      static_cast<double>(local_ns - begin_ns_) / static_cast<double>(end_ns_ - begin_ns_ + 1);
  return slices_[static_cast<std::size_t>(std::clamp(share, 0.0, 0.999999) * static_cast<double>(kSlices))];
}

void ClockPair::at_least(std::int64_t local_ns, std::int64_t ahead_ns) {
  if (!std::exchange(has_base_, true)) base_ns_ = ahead_ns;
  Slice& slice = slice_at(local_ns);
  slice.lower.push_back(
      {static_cast<double>(local_ns - begin_ns_), static_cast<double>(ahead_ns - base_ns_)});
  if (slice.lower.size() < slice.reduce_lower_at) return;
  reduce(slice.lower, 1);
  slice.reduce_lower_at = std::max(slice.reduce_lower_at, 2 * slice.lower.size());
}

void ClockPair::at_most(std::int64_t local_ns, std::int64_t ahead_ns) {
  if (!std::exchange(has_base_, true)) base_ns_ = ahead_ns;
  Slice& slice = slice_at(local_ns);
  slice.upper.push_back(
      {static_cast<double>(local_ns - begin_ns_), static_cast<double>(ahead_ns - base_ns_)});
  if (slice.upper.size() < slice.reduce_upper_at) return;
  reduce(slice.upper, -1);
  slice.reduce_upper_at = std::max(slice.reduce_upper_at, 2 * slice.upper.size());
}

// Reduces the bounds to their convex hull: a line above these bounds is above all bounds (sign 1; -1: below).
void ClockPair::reduce(std::vector<Bound>& bounds, double sign) {
  std::sort(bounds.begin(), bounds.end(), [&](const Bound& a, const Bound& b) {
    return std::pair(a.time, -sign * a.ahead) < std::pair(b.time, -sign * b.ahead);
  });
  std::vector<Bound> hull;
  for (const Bound& bound : bounds) {
    if (!hull.empty() && hull.back().time == bound.time) continue;  // the first is the tightest
    while (hull.size() >= 2) {
      const Bound &a = hull[hull.size() - 2], &b = hull.back();
      const double turn =
          (b.time - a.time) * (bound.ahead - a.ahead) - (bound.time - a.time) * (b.ahead - a.ahead);
      if (sign * turn < 0) break;
      hull.pop_back();
    }
    hull.push_back(bound);
  }
  bounds = std::move(hull);
}

// Finds the line with the largest distance from all bounds of the slices [first, end).
bool ClockPair::line_through(std::size_t first, std::size_t end, Line& line, double& violation) const {
  std::vector<Bound> lower, upper;
  for (std::size_t i = first; i < end; ++i) {
    lower.insert(lower.end(), slices_[i].lower.begin(), slices_[i].lower.end());
    upper.insert(upper.end(), slices_[i].upper.begin(), slices_[i].upper.end());
  }
  if (lower.empty() || upper.empty()) return false;
  reduce(lower, 1);
  reduce(upper, -1);
  const auto lowest = [&](double slope) {  // ahead at begin_ns_ that a line of this slope may have at least
    double value = -std::numeric_limits<double>::infinity();
    for (const Bound& bound : lower) value = std::max(value, bound.ahead - slope * bound.time);
    return value;
  };
  const auto highest = [&](double slope) {
    double value = std::numeric_limits<double>::infinity();
    for (const Bound& bound : upper) value = std::min(value, bound.ahead - slope * bound.time);
    return value;
  };
  const auto room = [&](double slope) { return highest(slope) - lowest(slope); };
  line.slope = argmax(-kMaxDrift, kMaxDrift, room);
  line.ahead = (highest(line.slope) + lowest(line.slope)) / 2;
  const double width = static_cast<double>(end_ns_ - begin_ns_ + 1) / static_cast<double>(kSlices);
  const double begin = width * static_cast<double>(first), finish = width * static_cast<double>(end);
  line.begin_ns =
      first == 0 ? std::numeric_limits<std::int64_t>::min() : begin_ns_ + static_cast<std::int64_t>(begin);
  violation = -room(line.slope) / 2;
  if (violation > 0) {
    line.error = violation;
    return true;
  }
  violation = 0;
  // How far another line that satisfies all bounds may be from this one.
  const auto last_slope = [&](double other) {
    double good = line.slope, bad = other;
    if (room(bad) >= 0) return bad;
    for (int i = 0; i < 100; ++i) {
      const double middle = (good + bad) / 2;
      (room(middle) >= 0 ? good : bad) = middle;
    }
    return good;
  };
  const double least = last_slope(-kMaxDrift), most = last_slope(kMaxDrift);
  for (const double time : {begin, finish}) {
    const auto above = [&](double slope) { return highest(slope) + slope * time; };
    const auto below = [&](double slope) { return -(lowest(slope) + slope * time); };
    const double here = line.ahead + line.slope * time;
    line.error = std::max(
        {line.error, above(argmax(least, most, above)) - here, here + below(argmax(least, most, below))});
  }
  return true;
}

bool ClockPair::fit(std::size_t first, std::size_t end, std::vector<Line>& lines) const {
  Line line;
  double violation = 0;
  if (!line_through(first, end, line, violation)) return false;
  if (violation > kStraight && end - first > 1) {
    const std::size_t middle = first + (end - first) / 2;
    const std::size_t before = lines.size();
    if (fit(first, middle, lines) && fit(middle, end, lines)) return true;
    lines.resize(before);
  }
  lines.push_back(line);
  return true;
}

bool ClockPair::fit() {
  lines_.clear();
  for (Slice& slice : slices_) {
    reduce(slice.lower, 1);
    reduce(slice.upper, -1);
  }
  const bool good = fit(0, slices_.size(), lines_);
  double error = 0;
  for (const Line& line : lines_) error = std::max(error, line.error);
  error_ns_ = static_cast<std::int64_t>(std::ceil(std::min(error, static_cast<double>(kFarthest))));
  slices_.clear();
  return good;
}

std::int64_t ClockPair::ahead_ns(std::int64_t local_ns) const {
  auto line = std::upper_bound(lines_.begin(), lines_.end(), local_ns,
                               [](std::int64_t ns, const Line& l) { return ns < l.begin_ns; });
  --line;
  return base_ns_ + std::llround(line->ahead + line->slope * static_cast<double>(local_ns - begin_ns_));
}

std::int64_t ClockPair::local_ns(std::int64_t first_clock_ns) const {
  std::int64_t local = first_clock_ns - base_ns_;
  for (int i = 0; i < 6; ++i) local = first_clock_ns - ahead_ns(local);
  return local;
}

ClockModel::ClockModel(const Trace& trace, const Matches& matches,
                       const std::vector<shard::ClockOffset>& offsets, const shard::ShardData& merged)
    : nodes_(merged.nodes.size()) {
  if (trace.lanes.empty()) return;
  const std::uint32_t reference = trace.lanes[0].node;
  struct Span {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(),
                 end = std::numeric_limits<std::int64_t>::min();
  };
  std::vector<Span> spans(nodes_.size());
  for (const Lane& lane : trace.lanes) {
    Span& span = spans[lane.node];
    span.begin = std::min(span.begin, trace.events[lane.first].enter_ns);
    span.end = std::max(span.end, trace.events[lane.end - 1].exit_ns);
  }
  // Which pairs of nodes to compare: those with measurements, those with the reference node, and of the
  // others those with most messages in both directions.
  struct Candidate {
    bool measured = false;
    std::uint64_t there = 0, back = 0;
    std::uint32_t pair = kNone;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Candidate> candidates;
  const auto candidate = [&](std::uint32_t a, std::uint32_t b) -> Candidate& {
    return candidates[std::minmax(a, b)];
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> offset_nodes;  // reference, own
  for (const shard::ClockOffset& offset : offsets) {
    const auto other =
        std::lower_bound(merged.ranks.begin(), merged.ranks.end(), offset.reference_rank,
                         [](const shard::Rank& rank, std::int32_t number) { return rank.rank < number; });
    const std::uint32_t own = merged.ranks[offset.rank].node;
    if (other == merged.ranks.end() || other->rank != offset.reference_rank || other->node == own ||
        spans[own].begin > spans[own].end || spans[other->node].begin > spans[other->node].end) {
      offset_nodes.emplace_back(kNone, kNone);
      continue;
    }
    offset_nodes.emplace_back(other->node, own);
    candidate(other->node, own).measured = true;
  }
  for_each_constraint(trace, matches, reference,
                      [&](std::uint32_t a, std::int64_t, std::uint32_t b, std::int64_t) {
                        Candidate& pair = candidate(a, b);
                        ++(a < b ? pair.there : pair.back);
                      });
  std::vector<std::map<std::pair<std::uint32_t, std::uint32_t>, Candidate>::iterator> order;
  for (auto i = candidates.begin(); i != candidates.end(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const auto rank = [&](const auto& i) {
      return std::tuple(!i->second.measured, i->first.first != reference && i->first.second != reference,
                        ~std::min(i->second.there, i->second.back), i->first);
    };
    return rank(a) < rank(b);
  });
  std::vector<std::uint32_t> component(nodes_.size());
  std::iota(component.begin(), component.end(), 0u);
  const auto find = [&](std::uint32_t node) {
    while (component[node] != node) node = component[node] = component[component[node]];
    return node;
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pair_nodes;
  for (const auto& i : order) {
    const auto [a, b] = i->first;
    const bool connects = find(a) != find(b);
    if (pairs_.size() >= 8 * nodes_.size() && !connects) continue;
    component[find(a)] = find(b);
    i->second.pair = static_cast<std::uint32_t>(pairs_.size());
    pairs_.emplace_back(spans[b].begin, spans[b].end);
    pair_nodes.push_back(i->first);
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto [other, own] = offset_nodes[i];
    if (other == kNone) continue;
    const shard::ClockOffset& offset = offsets[i];
    const std::uint32_t row = candidate(other, own).pair;
    if (row == kNone) continue;  // of too many pairs
    ClockPair& pair = pairs_[row];
    const auto local = static_cast<std::int64_t>(offset.local_ns);
    const auto error = static_cast<std::int64_t>(offset.error_ns);
    const bool own_is_second = other < own;
    const std::int64_t at = own_is_second ? local : local + offset.offset_ns;
    const std::int64_t ahead = own_is_second ? offset.offset_ns : -offset.offset_ns;
    pair.at_least(at, ahead - error);
    pair.at_most(at, ahead + error);
  }
  for_each_constraint(trace, matches, reference,
                      [&](std::uint32_t a, std::int64_t sent, std::uint32_t b, std::int64_t received) {
                        const std::uint32_t row = candidate(a, b).pair;
                        if (row == kNone) return;
                        if (a < b)
                          pairs_[row].at_least(received, sent - received);
                        else
                          pairs_[row].at_most(sent, received - sent);
                      });
  // Finds for each node the path to the reference node with the smallest error.
  std::vector<bool> done(nodes_.size()), fitted(pairs_.size());
  std::vector<std::vector<std::uint32_t>> pairs_of(nodes_.size());
  for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
    fitted[i] = pairs_[i].fit();
    if (!fitted[i]) continue;
    pairs_of[pair_nodes[i].first].push_back(i);
    pairs_of[pair_nodes[i].second].push_back(i);
  }
  nodes_[reference].known = true;
  for (;;) {
    std::uint32_t next = kNone;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n)
      if (nodes_[n].known && !done[n] && (next == kNone || nodes_[n].error_ns < nodes_[next].error_ns))
        next = n;
    if (next == kNone) break;
    done[next] = true;
    for (const std::uint32_t i : pairs_of[next]) {
      const auto [a, b] = pair_nodes[i];
      const std::uint32_t other = a == next ? b : a;
      const std::int64_t error = std::min(nodes_[next].error_ns + pairs_[i].error_ns(), kFarthest);
      if (done[other] || (nodes_[other].known && nodes_[other].error_ns <= error)) continue;
      nodes_[other] = {next, i, other == a, true, 0, error};
    }
  }
  // Without any measurement, the nodes' real-time clocks are taken to be right.
  struct Start {
    std::int64_t utc_ns = std::numeric_limits<std::int64_t>::max(), begin_ns = 0;
  };
  std::vector<Start> starts(nodes_.size());
  for (const Lane& lane : trace.lanes) {
    const std::int64_t utc_ns =
        std::clamp(merged.ranks[lane.rank].start_utc_ns, std::int64_t{0}, 2 * kFarthest - 1);
    Start& start = starts[lane.node];
    if (lane.thread == 0 && utc_ns < start.utc_ns) start = {utc_ns, lane.begin_ns};
  }
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    const Start &start = starts[n], &first = starts[reference];
    if (nodes_[n].known || std::max(start.utc_ns, first.utc_ns) == std::numeric_limits<std::int64_t>::max())
      continue;
    // global = local + what brings the starts as far apart as they were
    nodes_[n].utc_ahead_ns =
        std::clamp((first.begin_ns - start.begin_ns) + (start.utc_ns - first.utc_ns), -kFarthest, kFarthest);
  }
}

std::int64_t ClockModel::global_ns(std::uint32_t node, std::int64_t local_ns) const {
  std::int64_t time = local_ns;
  while (nodes_[node].parent != kNone) {
    const NodeClock& clock = nodes_[node];
    const ClockPair& pair = pairs_[clock.pair];
    // The pair gives the lead of its first node's clock as a function of its second node's time.
    time =
        std::clamp(clock.is_first ? pair.local_ns(time) : time + pair.ahead_ns(time), -kFarthest, kFarthest);
    node = clock.parent;
  }
  return time + nodes_[node].utc_ahead_ns;
}

std::int64_t ClockModel::error_ns(std::uint32_t a, std::uint32_t b) const {
  if (a == b) return 0;
  if (!nodes_[a].known || !nodes_[b].known) return kUnknown;
  return nodes_[a].error_ns + nodes_[b].error_ns;
}

void ClockModel::adjust(Trace& trace) const {
  for (Lane& lane : trace.lanes) {
    const bool identical = nodes_[lane.node].parent == kNone && nodes_[lane.node].utc_ahead_ns == 0;
    if (identical) continue;
    Event before;  // as it was
    for (std::uint32_t e = lane.first; e < lane.end; ++e) {
      Event& event = trace.events[e];
      const Event old = event;
      if (e > lane.first && old.enter_ns == before.enter_ns && old.exit_ns == before.exit_ns) {
        event.enter_ns = trace.events[e - 1].enter_ns;
        event.exit_ns = trace.events[e - 1].exit_ns;
      } else {  // lines that follow each other need not meet: calls of a thread do not overlap all the same
        event.enter_ns = global_ns(lane.node, event.enter_ns);
        if (e > lane.first) event.enter_ns = std::max(event.enter_ns, trace.events[e - 1].exit_ns);
        event.exit_ns = std::max(event.enter_ns, global_ns(lane.node, event.exit_ns));
      }
      event.start_ns = old.start_ns == old.enter_ns
                           ? event.enter_ns
                           : std::min(event.enter_ns, global_ns(lane.node, event.start_ns));
      before = old;
    }
    lane.begin_ns = global_ns(lane.node, lane.begin_ns);
    lane.end_ns = global_ns(lane.node, lane.end_ns);
  }
}

ClockCheck ClockModel::check(const Trace& trace) const {
  ClockCheck check;
  std::int64_t largest = 0, second = 0;
  std::vector<bool> used(nodes_.size());
  for (const Lane& lane : trace.lanes) used[lane.node] = true;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!used[n]) continue;
    if (!nodes_[n].known) {
      ++check.nodes_apart;
      continue;
    }
    second = std::max(second, std::min(largest, nodes_[n].error_ns));
    largest = std::max(largest, nodes_[n].error_ns);
  }
  check.error_ns = largest + second;
  for (const Event& event : trace.events) {
    if (event.kind != MpiEventKind::kReceive || event.match == kNone || !shows_order(event)) continue;
    const Event& send = trace.events[event.match];
    if (event.exit_ns >= send.enter_ns) continue;
    if (error_ns(trace.lanes[event.lane].node, trace.lanes[send.lane].node) == kUnknown) continue;
    ++check.violations;
    check.worst_violation_ns = std::max(check.worst_violation_ns, send.enter_ns - event.exit_ns);
  }
  return check;
}

}  // namespace clusterprof::aggregator::waits
