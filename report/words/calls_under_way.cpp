// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/calls_under_way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

std::string ranks_named(const std::vector<std::int32_t>& ranks, std::uint64_t all) {
  constexpr std::size_t kMost = 5;
  std::string out = fmt::format("{} {}", all == 1 ? "rank" : "ranks", format::rank_list(ranks, kMost));
  if (all > ranks.size()) out += fmt::format(" and {} more", all - ranks.size());
  return out;
}

// "from rank 3", "to ranks 0-1, from ranks 0-1"
std::string requests_of(const CallUnderWayRow& row) {
  std::vector<std::int32_t> from, to;
  bool any = false, collective = false;
  for (const PendingRow& request : row.pending) {
    collective = collective || request.kind == shard::PendingKind::kCollective;
    any = any || request.peer.any;
    if (request.peer.rank)
      (request.kind == shard::PendingKind::kSend ? to : from).push_back(*request.peer.rank);
  }
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  for (auto& [what, ranks] : {std::pair("receives from", &from), std::pair("sends to", &to)}) {
    if (ranks->empty()) continue;
    std::sort(ranks->begin(), ranks->end());
    add(fmt::format("{} {}", what, ranks_named(*ranks, ranks->size())));
  }
  if (any) add("receives from any rank");
  if (collective) add("collective operations");
  return out;
}

std::string what_of(const CallUnderWayRow& row) {
  std::string out;
  const std::string communicator = !row.communicator.empty() ? format::printable(row.communicator)
                                   : row.communicator_size != 0
                                       ? fmt::format("a communicator of {} ranks", row.communicator_size)
                                       : "a communicator";
  if (row.sequence) {
    out = fmt::format("operation {} of {}", *row.sequence, communicator);
    if (!row.waits_for.empty())
      out += ", without " + ranks_named(row.waits_for, row.waits_for_count);
    else if (row.waits_for_count != 0)
      out += fmt::format(", without {}", format::plural(row.waits_for_count, "rank"));
    return out;
  }
  if (row.requests > 1 || (row.requests == 1 && !row.pending.empty())) {
    const std::string parts = requests_of(row);
    out = fmt::format("{} when it began", format::plural(row.requests, "open request"));
    if (!parts.empty()) out += fmt::format(": {}", parts);
    return out;
  }
  if (row.peer.rank) out = fmt::format("other side: rank {}", *row.peer.rank);
  if (row.peer.any) out = "from any rank";
  if (!out.empty() && row.tag) out += fmt::format(", tag {}", *row.tag);
  return out;
}

}  // namespace

std::vector<CallUnderWayText> calls_under_way(const Analysis& analysis, const format::ShortPaths& names) {
  struct Group {
    std::set<std::int32_t> ranks;
    double age_s = 0;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;  // call, what it is about
  std::set<std::int32_t> in_calls, awaited;
  for (const CallUnderWayRow& row : analysis.calls_under_way) {
    std::string call = format::describe(row.place, names);
    if (row.main_thread)
      in_calls.insert(row.rank);
    else
      call += " on another thread";
    awaited.insert(row.waits_for.begin(), row.waits_for.end());
    Group& group = groups[{call, what_of(row)}];
    group.ranks.insert(row.rank);
    group.age_s = std::max(group.age_s, row.age_s);
  }
  std::vector<CallUnderWayText> result;
  for (const auto& [key, group] : groups) {
    const auto& [call, what] = key;
    CallUnderWayText& where = result.emplace_back();
    where.ranks.assign(group.ranks.begin(), group.ranks.end());
    where.text = fmt::format("{} for {}", call, format::seconds(group.age_s));
    if (!what.empty()) where.text += "; " + what;
  }
  std::stable_sort(result.begin(), result.end(), [](const CallUnderWayText& x, const CallUnderWayText& y) {
    return x.ranks.size() != y.ranks.size() ? x.ranks.size() > y.ranks.size() : x.ranks < y.ranks;
  });
  std::map<std::string, std::vector<std::int32_t>> elsewhere;
  for (const RankInfo& rank : analysis.ranks) {
    if (!awaited.contains(rank.rank) || in_calls.contains(rank.rank)) continue;
    const SourceLocation& seen = rank.last_seen;
    const bool known = !seen.function.empty() || !seen.op.empty();
    const bool ended = rank.exit_status == 0 && !rank.lost;
    elsewhere[ended   ? "has ended"
              : known ? "in no MPI call; last seen in " + format::describe(seen, names)
                      : "in no MPI call"]
        .push_back(rank.rank);
  }
  for (auto& [text, ranks] : elsewhere) {
    std::sort(ranks.begin(), ranks.end());
    result.push_back({ranks, text});
  }
  return result;
}

}  // namespace clusterprof::report::words
