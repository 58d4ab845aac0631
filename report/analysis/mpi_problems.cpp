// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/mpi_problems.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;

class MpiProblems {
 public:
  MpiProblems(const shard::ShardData& head, const CallPaths& paths, Analysis& analysis)
      : head_(head), paths_(paths), analysis_(analysis) {}

  void errors() {
    for (const shard::MpiError& from : head_.mpi_errors) {
      if (!is_known(from)) continue;
      MpiErrorRow& row = analysis_.mpi_errors.emplace_back();
      fill(row, from);
      row.name = from.name;
      row.error_class = from.error_class;
      row.text = from.text;
      if (from.message != shard::kNone) row.message = std::uint64_t{from.message} + 1;
      const shard::Rank& rank = head_.ranks[from.rank];
      row.first_s =
          to_seconds(from.first_ns) + static_cast<double>(rank.start_utc_ns - head_.run.start_utc_ns) * 1e-9;
    }
    std::ranges::stable_sort(analysis_.mpi_errors, {},
                             [](const MpiErrorRow& row) { return std::tuple(row.first_s, row.rank); });
  }

  void open_requests() {
    for (const shard::OpenRequests& from : head_.open_requests) {
      if (!is_known(from)) continue;
      OpenRequestRow& row = analysis_.open_requests.emplace_back();
      fill(row, from);
      if (from.kind != shard::OpenRequests::kOther) row.kind = static_cast<shard::PendingKind>(from.kind);
    }
    std::ranges::stable_sort(analysis_.open_requests, {}, &OpenRequestRow::rank);
  }

  void unmatched() {
    for (const shard::UnmatchedMessages& from : head_.unmatched_messages) {
      if (!is_known(from) || from.receiver >= head_.ranks.size()) continue;
      UnmatchedRow& row = analysis_.unmatched_messages.emplace_back();
      row.place = place_of_path(paths_, from.path);
      row.rank = head_.ranks[from.rank].rank;
      row.receiver = head_.ranks[from.receiver].rank;
      row.tag = from.tag;
      row.communicator = communicator(from.communicator);
      row.count = from.count;
    }
    std::ranges::stable_sort(analysis_.unmatched_messages, std::greater(), &UnmatchedRow::count);
  }

 private:
  template <typename Row>
  [[nodiscard]] bool is_known(const Row& row) const {
    return row.path < paths_.size() && row.rank < head_.ranks.size() && row.count != 0 &&
           (row.communicator == shard::kNone || row.communicator < head_.communicators.size());
  }

  [[nodiscard]] std::string communicator(std::uint32_t row) const {
    return row == shard::kNone ? std::string() : head_.communicators[row].name;
  }

  template <typename Row, typename From>
  void fill(Row& row, const From& from) const {
    row.place = place_of_path(paths_, from.path);
    row.rank = head_.ranks[from.rank].rank;
    row.communicator = communicator(from.communicator);
    row.peer = {from.peer < 0 ? std::nullopt : std::optional(from.peer), from.peer == CallUnderWay::kAnyRank};
    row.any_tag = from.tag == CallUnderWay::kAnyTag;
    if (from.tag != CallUnderWay::kAnyTag && from.tag != CallUnderWay::kNoTag) row.tag = from.tag;
    row.count = from.count;
  }

  const shard::ShardData& head_;
  const CallPaths& paths_;
  Analysis& analysis_;
};

}  // namespace

void list_mpi_problems(const shard::ShardData& head, const CallPaths& paths, Analysis& analysis) {
  MpiProblems problems(head, paths, analysis);
  problems.errors();
  problems.open_requests();
  problems.unmatched();
}

}  // namespace clusterprof::report
