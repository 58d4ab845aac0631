// SPDX-License-Identifier: BSD-3-Clause
// OpenMP regions as fork, work of each thread, and a barrier: how long a region takes is what its last thread
// does; the others wait for that one. docs/whatif.md, "Threads of a process".
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

class Teams {
 public:
  // What work is multiplied by: of the main thread, or of another one of the team.
  using Factor = std::function<double(std::uint32_t rank, bool main, std::uint32_t path)>;
  // What is `inside` (per path) takes as long on each thread of a team as on all on average.
  struct Balance {
    std::vector<bool> inside;
    bool over_ranks = false;  // and as long as in the other ranks' teams
  };

  Teams() = default;
  explicit Teams(const shard::ShardData& merged);

  // Per path: the path of the region around it that a main thread has begun and that is in no other; 0: none.
  [[nodiscard]] const std::vector<std::uint32_t>& region_of() const { return region_of_; }
  // Whether it is known what each thread of the region's teams does.
  [[nodiscard]] bool knows(std::uint32_t rank, std::uint32_t region) const;

  // By rank << 32 | region: what the main thread's time there, outside MPI, is multiplied by.
  [[nodiscard]] std::unordered_map<std::uint64_t, double> factors(const Factor& factor,
                                                                  const std::vector<Balance>& balances) const;

 private:
  struct Part {
    std::uint32_t path = 0, phase = 0;
    double ns = 0;
  };
  struct Member {
    bool main = false;
    std::vector<Part> parts;  // that are no waiting; by samples
  };
  // All instances of a region on one rank.
  struct Team {
    std::uint32_t rank = 0, region = 0, threads = 1;
    double time_ns = 0, mpi_ns = 0, longest_ns = 0, work_ns = 0, inner_wait_ns = 0, schedule_ns = 0;
    std::vector<Member> members;
  };

  void find_members_by_thread(const shard::ShardData& merged);
  void find_members_by_number(const shard::ShardData& merged);
  [[nodiscard]] Team* team_at(std::uint32_t rank, std::uint32_t path);

  std::vector<std::uint32_t> region_of_, phase_of_;
  std::vector<bool> is_waiting_;  // per path
  std::vector<Team> teams_;
  std::unordered_map<std::uint64_t, std::uint32_t> row_of_;  // by rank << 32 | region
};

}  // namespace clusterprof::aggregator::whatif
