// SPDX-License-Identifier: BSD-3-Clause
// Findings on errors that MPI calls returned, requests that stayed open, and messages that nobody received.
// Each is one finding, on the line with the most of them.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "report/analysis/finding_groups.hpp"

namespace clusterprof::report {
namespace {

using Key = EvidenceKey;
using Kind = FindingKind;

auto place_of(const SourceLocation& place) {
  return std::tuple(place.file, place.line, place.function, place.op);
}

class MpiProblemFindings {
 public:
  explicit MpiProblemFindings(FindingBuilder& builder) : builder_(builder), analysis_(builder.analysis()) {}

  void find() {
    errors();
    open_requests();
    unmatched();
  }

 private:
  // Rows of one line that are alike, and how many calls, requests or messages they have.
  template <typename Row>
  struct Group {
    const Row* first = nullptr;
    std::set<std::int32_t> ranks;
    std::uint64_t count = 0;

    void add(const Row& row) {
      if (first == nullptr) first = &row;
      count += row.count;
      ranks.insert(row.rank);
    }
  };

  template <typename Row, typename KeyOf>
  static auto groups_of(const std::vector<Row>& rows, KeyOf key_of) {
    std::map<std::invoke_result_t<KeyOf, const Row&>, Group<Row>> groups;
    for (const Row& row : rows) groups[key_of(row)].add(row);
    return groups;
  }

  template <typename Groups>
  static const auto& largest(const Groups& groups) {
    return std::ranges::max_element(groups, {}, [](const auto& group) { return group.second.count; })->second;
  }

  template <typename Row>
  Finding& add(Kind kind, Severity severity, const Group<Row>& group, std::size_t groups) {
    Finding& finding = builder_.add(kind, severity);
    finding.ranks.assign(group.ranks.begin(), group.ranks.end());
    finding.rank = group.first->rank;
    finding.place = group.first->place;
    finding.evidence.set(Key::kCallSites, groups);
    return finding;
  }

  // The program goes on after an error that it expects. Where a rank has failed, its last error may be why.
  void errors() {
    if (analysis_.mpi_errors.empty()) return;
    const auto key_of = [](const MpiErrorRow& row) {
      return std::tuple(place_of(row.place), row.name, row.error_class);
    };
    const auto groups = groups_of(analysis_.mpi_errors, key_of);
    const MpiErrorRow* last = nullptr;  // of the rank that failed
    if (analysis_.failure && analysis_.failure->kind != FailureKind::kDeadlock)
      for (const MpiErrorRow& row : analysis_.mpi_errors)
        if (row.rank == analysis_.failure->rank) last = &row;
    const Group<MpiErrorRow>& group = last != nullptr ? groups.at(key_of(*last)) : largest(groups);
    const MpiErrorRow& row = last != nullptr ? *last : *group.first;
    Finding& finding =
        add(Kind::kMpiErrors, last != nullptr ? Severity::kMedium : Severity::kInfo, group, groups.size());
    finding.rank = row.rank;
    finding.evidence.set(Key::kErrorClass, row.name.empty() ? std::to_string(row.error_class) : row.name);
    if (!row.text.empty()) finding.evidence.set(Key::kErrorText, row.text);
    finding.evidence.set(Key::kCalls, group.count);
    if (row.peer.rank) finding.evidence.set(Key::kPeerRank, *row.peer.rank);
    if (row.tag) finding.evidence.set(Key::kTag, *row.tag);
    if (row.message) finding.evidence.set(Key::kMessageNumber, *row.message);
  }

  void open_requests() {
    if (analysis_.open_requests.empty()) return;
    const auto groups =
        groups_of(analysis_.open_requests, [](const OpenRequestRow& row) { return place_of(row.place); });
    std::uint64_t all = 0;
    for (const auto& [place, group] : groups) all += group.count;
    const Group<OpenRequestRow>& group = largest(groups);
    Finding& finding = add(Kind::kRequestsOpen, Severity::kLow, group, groups.size());
    finding.evidence.set(Key::kRequests, group.count);
    finding.evidence.set(Key::kOf, all);
  }

  void unmatched() {
    if (analysis_.unmatched_messages.empty()) return;
    const UnmatchedRow& most = analysis_.unmatched_messages.front();
    Group<UnmatchedRow> group;
    group.add(most);
    Finding& finding =
        add(Kind::kMessagesUnmatched, Severity::kLow, group, analysis_.unmatched_messages.size());
    finding.evidence.set(Key::kUnreceived, most.count);
    finding.evidence.set(Key::kOf,
                         analysis_.wait_quality ? analysis_.wait_quality->unreceived_messages : most.count);
    finding.evidence.set(Key::kPeerRank, most.receiver);
    finding.evidence.set(Key::kTag, most.tag);
  }

  FindingBuilder& builder_;
  Analysis& analysis_;
};

}  // namespace

void find_mpi_problems(FindingBuilder& builder) { MpiProblemFindings(builder).find(); }

}  // namespace clusterprof::report
