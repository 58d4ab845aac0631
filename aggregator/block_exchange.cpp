// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/block_exchange.hpp"

#include <cstddef>
#include <map>
#include <utility>

namespace clusterprof::aggregator {
namespace {

// The most finished blocks in memory: on a member, those that member 0 has not taken; on member 0, those that
// wait until the blocks before them are written.
constexpr std::size_t kMaxPosted = 2;
constexpr std::size_t kMaxHeldBytes = std::size_t{64} << 20;

enum class Reply : std::uint8_t { kGoOn, kStop };

}  // namespace

void BlockExchange::post(const std::vector<std::uint32_t>& nodes) const {
  bool stop = false;
  std::size_t answers = 0;
  const auto wait_for_answer = [&] {
    const Bytes reply = team.take(0);
    ++answers;
    stop = stop || (reply.size() == 1 && reply[0] == static_cast<std::byte>(Reply::kStop));
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    while (answers < i && team.has_posted(0)) wait_for_answer();
    profile::EncodedBlock block;
    if (!stop) block = work(nodes[i]);
    block.bytes.push_back(static_cast<std::byte>(is_lost()));
    while (i - answers >= kMaxPosted) wait_for_answer();
    team.post(0, std::move(block.bytes));
  }
  while (answers < nodes.size()) wait_for_answer();
}

void BlockExchange::collect(const std::vector<std::vector<std::uint32_t>>& nodes_of) const {
  bool stop = false;
  std::size_t nodes = 0, held_bytes = 0;
  std::uint32_t next = 0;                               // to be written
  std::map<std::uint32_t, profile::EncodedBlock> held;  // by node
  std::vector<std::size_t> taken(nodes_of.size());      // of each member's
  for (const std::vector<std::uint32_t>& of_member : nodes_of) nodes += of_member.size();
  const auto is_there = [&](std::size_t member) { return taken[member] < nodes_of[member].size(); };
  const auto hold = [&](std::uint32_t node, profile::EncodedBlock block) {
    held_bytes += block.bytes.size();
    held.emplace(node, std::move(block));
    for (auto first = held.begin(); first != held.end() && first->first == next; first = held.erase(first)) {
      ++next;
      held_bytes -= first->second.bytes.size();
      if (!stop) write(first->second);
    }
  };
  const auto take = [&](std::size_t member) {
    const int from = static_cast<int>(member);
    profile::EncodedBlock block{team.take(from)};
    stop = stop || block.bytes.back() != std::byte{0};
    block.bytes.pop_back();
    team.post(from, Bytes(1, static_cast<std::byte>(stop ? Reply::kStop : Reply::kGoOn)));
    hold(nodes_of[member][taken[member]++], std::move(block));
  };
  while (next < nodes) {
    for (std::size_t member = 1; member < nodes_of.size(); ++member)
      while (is_there(member) && held_bytes < kMaxHeldBytes && team.has_posted(static_cast<int>(member)))
        take(member);
    if (next == nodes) return;
    if (is_there(0) && (held_bytes < kMaxHeldBytes || nodes_of[0][taken[0]] == next)) {
      const std::uint32_t node = nodes_of[0][taken[0]++];
      profile::EncodedBlock block;
      if (!stop) block = work(node);
      stop = stop || is_lost();
      hold(node, std::move(block));
      continue;
    }
    // All other blocks have to wait for the one that is written next.
    for (std::size_t member = 1; member < nodes_of.size(); ++member)
      if (is_there(member) && nodes_of[member][taken[member]] == next) {
        take(member);
        break;
      }
  }
}

}  // namespace clusterprof::aggregator
