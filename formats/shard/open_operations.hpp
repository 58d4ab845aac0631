// SPDX-License-Identifier: BSD-3-Clause
// Finds the ranks that MPI calls under way (ShardData::calls_under_way) wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

class OpenOperations {
 public:
  static constexpr std::size_t kMaxAbsent = 64;

  // The ranks that belong to a collective operation and are not in it.
  struct Absent {
    std::vector<std::uint32_t> ranks;  // their rows, kMaxAbsent at most; those in no MPI call come first
    std::size_t inside = 0;            // how many ranks are in it
    // How many members are neither inside nor known to be beyond it. No value: the communicator's size is not
    // known. Larger than `ranks` if there are too many, or if not all members are known.
    std::optional<std::size_t> all;
  };

  // `data` must outlive this.
  explicit OpenOperations(const ShardData& data);

  static bool is_collective(const CallUnderWay& call) {
    return call.sequence != kNone && call.communicator != kNone;
  }
  // `call` must be collective.
  [[nodiscard]] const Absent& absent(const CallUnderWay& call) const {
    return absent_.at({call.communicator, call.sequence});
  }
  [[nodiscard]] bool is_inside(const CallUnderWay& operation, std::uint32_t rank) const {
    return inside_.at({operation.communicator, operation.sequence}).contains(rank);
  }
  // Whether the rank has left the operation: it is in a later one of the same communicator.
  [[nodiscard]] bool is_beyond(const CallUnderWay& operation, std::uint32_t rank) const;
  // The requests that a call like MPI_Waitall waits for.
  [[nodiscard]] std::span<const PendingRequest> pending(const CallUnderWay& call) const;
  // The call that the rank's main thread is in. null: none.
  [[nodiscard]] const CallUnderWay* main_call(std::uint32_t rank) const {
    const auto call = main_call_.find(rank);
    return call == main_call_.end() ? nullptr : call->second;
  }
  // The row of a world rank.
  [[nodiscard]] std::optional<std::uint32_t> row(std::int32_t rank) const {
    const auto found = row_of_.find(rank);
    return found == row_of_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  using Operation = std::pair<std::uint32_t, std::uint32_t>;  // communicator, sequence

  void find_absent(const Operation& operation, const std::set<std::uint32_t>& inside,
                   const std::vector<std::uint32_t>& members);

  const ShardData& data_;
  std::unordered_map<std::int32_t, std::uint32_t> row_of_;
  std::unordered_map<std::uint32_t, const CallUnderWay*> main_call_;
  std::map<Operation, std::set<std::uint32_t>> inside_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> latest_;  // by communicator and rank
  std::map<Operation, Absent> absent_;
  std::vector<PendingRequest> pending_;  // by call
};

}  // namespace clusterprof::shard
