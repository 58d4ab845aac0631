// SPDX-License-Identifier: BSD-3-Clause
// How the blocks of nodes come from the members of a team to member 0, which writes them in the order of
// nodes.
//
// Members post one message for each of their nodes: the block, and whether the merge has failed. Member 0
// answers each: go on, or stop. A stopped member posts its remaining messages without doing the work.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "aggregator/team.hpp"
#include "formats/profile/node_matrix.hpp"

namespace clusterprof::aggregator {

struct BlockExchange {
  Team& team;
  std::function<profile::EncodedBlock(std::uint32_t node)> work;
  std::function<bool()> is_lost;                                  // whether the merge has failed here
  std::function<void(const profile::EncodedBlock& block)> write;  // of member 0

  // Of the other members.
  void post(const std::vector<std::uint32_t>& nodes) const;
  // Of member 0. nodes_of: by member.
  void collect(const std::vector<std::vector<std::uint32_t>>& nodes_of) const;
};

}  // namespace clusterprof::aggregator
