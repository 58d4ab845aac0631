// SPDX-License-Identifier: BSD-3-Clause
// Findings on the memory that ranks hold: docs/metrics.md, "Findings".
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/analysis/finding_groups.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;
using shard::kNone;

constexpr std::size_t kMaxHeldShares = 8;

double number(std::uint64_t bytes) { return static_cast<double>(bytes); }

SourceLocation place_of(const MemoryLine& line) {
  SourceLocation place;
  place.function = line.function;
  place.file = line.file;
  place.line = line.line;
  place.kind = line.kind;
  place.called = line.called;
  return place;
}

class MemoryFindings {
 public:
  explicit MemoryFindings(FindingBuilder& builder) : builder_(builder), analysis_(builder.analysis()) {}

  void find_exhausted() {
    if (!analysis_.memory) return;
    const std::optional<std::uint32_t> full = full_node();
    if (!full) return;
    const auto node = std::ranges::find(analysis_.memory->nodes, *full, &HeldNode::node);
    if (node == analysis_.memory->nodes.end() || node->held.empty()) return;
    const NodeInfo& info = analysis_.nodes[*full];
    Finding& finding = builder_.add(Kind::kOutOfMemory, Severity::kHigh);
    finding.action = FindingAction::kFreeWhatIsHeld;
    finding.rank = node->held.front().rank;
    finding.place = place_of(line(node->held.front().line));
    finding.evidence.set(Key::kNode, info.name);
    if (analysis_.failure && analysis_.failure->kind == FailureKind::kOutOfMemory)
      finding.evidence.set(Key::kFailure, std::string(name_of(FailureKind::kOutOfMemory)));
    finding.evidence.set(Key::kHeld, number(node->peak_bytes));
    if (const std::uint64_t limit = limit_of(info); limit != 0)
      finding.evidence.set(Key::kLimit, number(limit));
    for (const HeldPart& part : node->held) {
      if (finding.held.size() == kMaxHeldShares) break;
      finding.held.push_back({place_of(line(part.line)), part.rank, number(part.bytes)});
    }
  }

  void find() {
    requested();
    if (!analysis_.memory) return;
    imbalance();
    growth();
    of_allocator();
    python_numbers();
    churn();
  }

 private:
  [[nodiscard]] const MemoryLine& line(std::uint32_t index) const { return analysis_.memory->lines[index]; }
  [[nodiscard]] static std::uint64_t limit_of(const NodeInfo& node) {
    return node.group.limit_bytes != 0 ? node.group.limit_bytes : node.memory_bytes;
  }

  // The node on which a rank was killed because memory was short. Where its collector was killed as well, the
  // one whose last data say that it was nearly used up.
  [[nodiscard]] std::optional<std::uint32_t> full_node() const {
    if (analysis_.failure && analysis_.failure->kind == FailureKind::kOutOfMemory) {
      const auto rank = std::ranges::find(analysis_.ranks, analysis_.failure->rank, &RankInfo::rank);
      if (rank != analysis_.ranks.end() && rank->node < analysis_.nodes.size()) return rank->node;
    }
    for (const NoteRecord& note : analysis_.run.notes) {
      if (note.code != shard::NoteCode::kJobMemoryShort) continue;
      for (const RankInfo& rank : analysis_.ranks) {
        if (!rank.lost || rank.node >= analysis_.nodes.size() ||
            rank.exit_signal.value_or(SIGKILL) != SIGKILL)
          continue;
        if (std::ranges::find(note.nodes, analysis_.nodes[rank.node].name) != note.nodes.end())
          return rank.node;
      }
    }
    return std::nullopt;
  }

  // One rank has much more than the others at its peak, and so each of them is given as much.
  void imbalance() {
    const std::vector<HeldRank>& ranks = analysis_.memory->ranks;
    if (ranks.size() < 2) return;
    double sum = 0;
    const HeldRank* most = &ranks.front();
    for (const HeldRank& rank : ranks) {
      sum += number(rank.peak_bytes);
      if (rank.peak_bytes > most->peak_bytes) most = &rank;
    }
    const double mean = sum / static_cast<double>(ranks.size()), excess = number(most->peak_bytes) - mean;
    if (excess < thresholds::kHeldBytes || excess < thresholds::kHeldImbalance * number(most->peak_bytes))
      return;
    Finding& finding = builder_.add(
        Kind::kMemoryImbalance, excess >= 0.5 * number(most->peak_bytes) ? Severity::kMedium : Severity::kLow,
        excess / number(most->peak_bytes));
    set_ranks(finding, {most->rank});
    finding.action = FindingAction::kSpreadData;
    finding.evidence.set(Key::kPeak, number(most->peak_bytes));
    finding.evidence.set(Key::kMeanPeak, mean);
    const MemoryLine* largest = nullptr;
    double beyond = 0;  // of the line, beyond its mean
    for (const MemoryLine& row : analysis_.memory->lines) {
      if (row.max_rank != most->rank) continue;
      const double here =
          number(row.max_rank_bytes) - number(row.rank_peak_bytes) / static_cast<double>(ranks.size());
      if (here <= beyond) continue;
      beyond = here;
      largest = &row;
    }
    if (largest == nullptr || beyond < thresholds::kBlame * excess) return;
    finding.place = place_of(*largest);
    finding.evidence.set(Key::kPlaceBytes, number(largest->max_rank_bytes));
  }

  // What the node has for the job and is not used in the end; empty: not known. Of files that were read no
  // more is in memory than there is room for, so that the kernel's count for a group is near its limit often.
  [[nodiscard]] static std::optional<double> room_of(const NodeInfo& node) {
    if (const shard::GroupMemory& group = node.group; group.limit_bytes != 0) {
      const std::uint64_t used = group.used_bytes - std::min(group.used_bytes, group.file_bytes);
      return number(group.limit_bytes) - number(used);
    }
    if (node.memory_bytes == 0 || !node.memory_used_bytes) return {};
    return number(node.memory_bytes) - number(*node.memory_used_bytes);
  }

  // Leaks that matter by their size, or because they will use up what the node has.
  void growth() {
    constexpr double kNever = 1e300;
    const HeldNode* worst = nullptr;
    double least_s = 0;
    for (const HeldNode& node : analysis_.memory->nodes) {
      if (node.growth_line == kNone || node.growth_bytes_per_s <= 0) continue;
      const std::optional<double> room = room_of(analysis_.nodes[node.node]);
      const double last_s = room ? std::max(0.0, *room) / node.growth_bytes_per_s : kNever;
      if (worst != nullptr && last_s >= least_s) continue;
      worst = &node;
      least_s = last_s;
    }
    if (worst == nullptr) return;
    const double grown = worst->growth_bytes_per_s * analysis_.run.elapsed_s / 2;
    double held = 0;
    for (const HeldRank& rank : analysis_.memory->ranks)
      if (rank.node == worst->node) held += number(rank.live_end_bytes);
    const bool will_be_full = least_s <= thresholds::kFullWithin * analysis_.run.lasted_s;
    if (!will_be_full && (grown < thresholds::kHeldBytes || grown < thresholds::kHeldGrowth * held)) return;
    Finding& finding = builder_.add(Kind::kMemoryGrowth, will_be_full ? Severity::kMedium : Severity::kLow);
    const MemoryLine& grows = line(worst->growth_line);
    finding.place = place_of(grows);
    if (grows.max_rank >= 0) finding.rank = grows.max_rank;
    finding.action = FindingAction::kFreeWhatIsHeld;
    finding.evidence.set(Key::kNode, analysis_.nodes[worst->node].name);
    finding.evidence.set(Key::kGrowth, worst->growth_bytes_per_s);
    finding.evidence.set(Key::kHeld, number(grows.live_end_bytes));
    if (least_s < kNever) {
      finding.evidence.set(Key::kFullIn, least_s);
      finding.evidence.set(Key::kLimit, number(limit_of(analysis_.nodes[worst->node])));
    }
  }

  void requested() {
    double requested = 0, used = 0, most_used = 0;
    const NodeInfo* most = nullptr;
    for (const NodeInfo& node : analysis_.nodes) {
      if (node.requested_memory_bytes == 0 || node.group.max_used_bytes == 0) return;  // not all are known
      requested += number(node.requested_memory_bytes);
      used += number(node.group.max_used_bytes);
      const double share = number(node.group.max_used_bytes) / number(node.requested_memory_bytes);
      if (most != nullptr && share <= most_used) continue;
      most = &node;
      most_used = share;
    }
    if (most == nullptr || most_used >= thresholds::kUnusedRequest ||
        requested - used < thresholds::kUnusedRequest_bytes)
      return;
    Finding& finding = builder_.add(Kind::kMemoryRequested, Severity::kLow);
    finding.action = FindingAction::kRequestLess;
    finding.evidence.set(Key::kNode, most->name);
    finding.evidence.set(Key::kRequested, number(most->requested_memory_bytes));
    finding.evidence.set(Key::kUsed, number(most->group.max_used_bytes));
  }

  // Anonymous memory in RAM that neither allocations nor the data of object files explain. Where some malloc
  // is not seen, or blocks found no room in a table, that may be it.
  void of_allocator() {
    for (const NoteRecord& note : analysis_.run.notes)
      if (note.code >= shard::NoteCode::kMemoryNotWrapped &&
          note.code <= shard::NoteCode::kMemoryPythonNotSeen)
        return;
    const HeldRank* most = nullptr;
    double excess = 0;
    for (const HeldRank& rank : analysis_.memory->ranks) {
      if (!rank.mean_anon_bytes || !rank.mean_live_bytes || rank.untracked_bytes != 0) continue;
      const double here =
          number(*rank.mean_anon_bytes) - number(*rank.mean_live_bytes) - number(rank.static_bytes);
      if (here < thresholds::kOfAllocator * number(*rank.mean_anon_bytes) || here <= excess) continue;
      most = &rank;
      excess = here;
    }
    if (most == nullptr || excess < thresholds::kOfAllocator_bytes) return;
    Finding& finding = builder_.add(Kind::kMemoryOfAllocator, Severity::kLow);
    set_ranks(finding, {most->rank});
    finding.action = FindingAction::kTrimAllocator;
    finding.evidence.set(Key::kAnon, number(*most->mean_anon_bytes));
    finding.evidence.set(Key::kLive, number(*most->mean_live_bytes));
    for (const RankInfo& rank : analysis_.ranks)
      if (rank.rank == most->rank) finding.evidence.set(Key::kThreads, rank.threads);
  }

  // Many Python objects of the size of a float or an int.
  void python_numbers() {
    double all = 0;
    for (const HeldRank& rank : analysis_.memory->ranks) all += number(rank.peak_bytes);
    for (const MemoryLine& row : analysis_.memory->lines) {  // the largest first
      if (row.domain != shard::MemoryDomain::kPython || row.kind != shard::FrameKind::kPython ||
          row.alloc_count <= row.soon_count)
        continue;
      // What the line only computes with is gone at once, as the ints in [float(i) for i in range(n)].
      const std::uint64_t objects = row.alloc_count - row.soon_count;
      const double held = number(row.rank_peak_bytes), per = held / number(objects);
      if (held < thresholds::kHeldBytes || held < thresholds::kPythonNumbers * all) continue;
      if (per < thresholds::kNumberBytes || per > thresholds::kMostNumberBytes) continue;
      Finding& finding = builder_.add(Kind::kPythonNumbers, Severity::kLow);
      finding.is_estimate = true;
      finding.place = place_of(row);
      if (row.max_rank >= 0) finding.rank = row.max_rank;
      finding.action = FindingAction::kUseArrays;
      finding.evidence.set(Key::kHeld, held);
      finding.evidence.set(Key::kObjects, objects);
      finding.evidence.set(Key::kBytesPerObject, per);
      return;
    }
  }

  // Says which line causes the page faults that another finding is about.
  void churn() {
    const auto pages = std::ranges::find(analysis_.findings, Kind::kMemoryPages, &Finding::kind);
    if (pages == analysis_.findings.end()) return;
    double all = 0;
    const MemoryLine* most = nullptr;
    for (const MemoryLine& row : analysis_.memory->lines) {
      all += number(row.soon_bytes);
      if (row.alloc_count == 0 ||
          number(row.alloc_bytes) / number(row.alloc_count) < thresholds::kChurnBlock_bytes)
        continue;
      if (most == nullptr || row.soon_bytes > most->soon_bytes) most = &row;
    }
    if (most == nullptr || most->soon_bytes == 0 || number(most->soon_bytes) < thresholds::kChurn * all)
      return;
    pages->site = place_of(*most);
    pages->evidence.set(Key::kFreedSoon, number(most->soon_bytes));
  }

  FindingBuilder& builder_;
  Analysis& analysis_;
};

}  // namespace

void find_exhausted_memory(FindingBuilder& builder) { MemoryFindings(builder).find_exhausted(); }
void find_memory_holders(FindingBuilder& builder) { MemoryFindings(builder).find(); }

}  // namespace clusterprof::report
