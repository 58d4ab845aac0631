// SPDX-License-Identifier: BSD-3-Clause
// The rows of a profile, charged to the call paths that exports show.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "report/analysis/call_paths.hpp"
#include "report/export/export.hpp"

namespace clusterprof::report {

// With a weight of memory: `samples` is its bytes, and the others are 0.
struct Weights {
  std::uint64_t samples = 0, time_ns = 0, cpu_ns = 0;
  Weights& operator+=(const Weights& other) {
    samples += other.samples, time_ns += other.time_ns, cpu_ns += other.cpu_ns;
    return *this;
  }
  [[nodiscard]] bool empty() const { return samples == 0 && time_ns == 0 && cpu_ns == 0; }
};

// Of one rank, united by the call path that they count for. Path 0: outside all calls.
struct ChargedRow {
  std::uint32_t path = 0;
  shard::Category category = shard::Category::kNative;
  bool main_thread = true;
  Weights of;
};

class ChargedRows {
 public:
  // Refers to all of them.
  ChargedRows(const ExportInput& input, const CallPaths& paths, const ExportOptions& options);

  [[nodiscard]] bool selected(std::uint32_t rank) const {
    return options_.ranks.empty() || options_.ranks[rank];
  }
  // Once per rank that is selected and has any that are exported; sorted by path, category, the main thread's
  // first.
  void for_each_rank(const std::function<void(std::uint32_t rank, std::span<const ChargedRow>)>& use) const;
  // Over the selected ranks, by path.
  [[nodiscard]] std::vector<Weights> sums() const;
  // Calls of MPI functions, by path: 0 where they were not counted.
  [[nodiscard]] std::vector<std::uint64_t> mpi_calls() const;

 private:
  void for_each_rank_of_memory(
      const std::function<void(std::uint32_t rank, std::span<const ChargedRow>)>& use) const;

  ExportInput input_;
  const CallPaths& paths_;
  const ExportOptions& options_;
};

// "clusterprof 0.7.0": who wrote an export.
std::string creator();
// The words of a rank's command; those of the run where the rank's is not known.
std::vector<std::string> command_of(const shard::ShardData& head, const shard::Rank& rank);
// The command line of the run, unquoted; of several commands "ranks 0-1: ./a; ranks 2-3: ./b".
std::string command_of(const shard::ShardData& head);
// "rank 3 (node0001)"
std::string rank_name(const shard::ShardData& head, std::uint32_t row);
std::string_view node_name(const shard::ShardData& head, const shard::Rank& rank);
// Rows of the selected ranks, by rank number.
std::vector<std::uint32_t> ranks_in_order(const shard::ShardData& head, const std::vector<bool>& selected);

}  // namespace clusterprof::report
