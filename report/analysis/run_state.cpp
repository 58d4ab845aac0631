// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/run_state.hpp"

#include <algorithm>
#include <vector>

#include "base/process_mark.hpp"

namespace clusterprof::report {
namespace {

using std::chrono::duration;

// Between nodes' clocks, until another machine sees what a node has written, and for a node that has few
// processors to spare.
constexpr duration<double> kLate{30};
// Until the first checkpoints of all nodes of a large job are there.
constexpr double kFirstCheckpoints_s = 15;

bool has_ended_early(const NodeInfo& node) {
  if (node.as_of_utc_ns == 0) return false;
  const auto collector = parse_process_mark(node.collector);
  return collector && has_ended(*collector);
}

bool is_much_too_old(const NodeInfo& node) {
  const double next_s = static_cast<double>(node.next_within_ns) / 1e9;
  return next_s > 0 && *node.as_of_s > next_s + kLate.count();
}

bool still_ran_on(const RankInfo& rank, const Analysis& analysis, RunState state) {
  return rank.still_ran && rank.node < analysis.nodes.size() && analysis.nodes[rank.node].state == state;
}

// No finding says that a rank fell silent whose node goes on.
void keep_silent_ranks(Analysis& analysis) {
  std::vector<const RankInfo*> silent;
  for (const RankInfo& rank : analysis.ranks)
    if (still_ran_on(rank, analysis, RunState::kLost)) silent.push_back(&rank);
  std::erase_if(analysis.findings, [&](const Finding& finding) {
    return finding.kind == FindingKind::kRanksSilent && silent.empty();
  });
  const bool is_node = analysis.failure && analysis.failure->kind == FailureKind::kNode;
  if (silent.empty()) {
    if (is_node) analysis.failure.reset();
    return;
  }
  const RankInfo& first = **std::ranges::min_element(silent, {}, &RankInfo::end_s);
  if (is_node) {
    analysis.failure->rank = first.rank;
    analysis.failure->place = first.last_seen;
    analysis.failure->call_path = first.last_call_path;
  }
  for (Finding& finding : analysis.findings) {
    if (finding.kind != FindingKind::kRanksSilent) continue;
    finding.ranks.clear();
    for (const RankInfo* const rank : silent) finding.ranks.push_back(rank->rank);
    finding.rank = first.rank;
    finding.place = first.last_seen;
    finding.evidence.set(EvidenceKey::kElapsed, first.end_s);
  }
}

}  // namespace

bool has_collector_that_ended(const Analysis& analysis) {
  if (analysis.run.snapshot_utc_ns != 0) return false;  // what became of the run is not in it
  return std::any_of(analysis.nodes.begin(), analysis.nodes.end(), has_ended_early);
}

void find_run_state(Analysis& analysis, Job job, std::chrono::system_clock::time_point now) {
  RunInfo& run = analysis.run;
  const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  run.state = RunState::kEnded;
  run.as_of_s.reset();
  for (NodeInfo& node : analysis.nodes) {
    node.state = RunState::kEnded;
    node.as_of_s.reset();
    if (node.as_of_utc_ns == 0) continue;
    node.as_of_s = std::max(0.0, static_cast<double>(now_ns - node.as_of_utc_ns) / 1e9);
    const bool is_snapshot = run.snapshot_utc_ns != 0;
    const bool lost = !is_snapshot && (job == Job::kEnded || has_ended_early(node) || is_much_too_old(node));
    node.state = lost ? RunState::kLost : RunState::kRunning;
    run.state = std::max(run.state, node.state);
    run.as_of_s = std::max(run.as_of_s, node.as_of_s);
  }
  for (RankInfo& rank : analysis.ranks)
    if (still_ran_on(rank, analysis, RunState::kRunning)) rank.lost = false;
  keep_silent_ranks(analysis);
  if (run.state != RunState::kRunning) {
    run.as_of_s.reset();
    return;
  }
  const bool has_just_begun = run.elapsed_s < kFirstCheckpoints_s;
  std::erase_if(run.notes, [&](const NoteRecord& note) {
    return note.code == shard::NoteCode::kIncompleteShard ||
           (note.code == shard::NoteCode::kMissingRanks && has_just_begun);
  });
  std::erase_if(analysis.findings, [&](const Finding& finding) {
    return finding.kind == FindingKind::kRanksMissing && has_just_begun;
  });
}

}  // namespace clusterprof::report
