// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/where_now.hpp"

#include <fmt/format.h>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::words {

WhereNow where_now(const Top& top, std::size_t row, const format::ShortPaths& names, std::size_t width) {
  const RankInfo& rank = top.run.ranks[row];
  const SourceLocation& place = top.ranks[row].place;
  const bool is_known = !place.function.empty() || !place.op.empty();
  if (rank.exit_signal) {
    std::string text = "ended by " + format::signal_name(*rank.exit_signal);
    constexpr std::size_t kLeast = 12;  // columns that say where something is
    const std::size_t used = format::columns(text) + 5;
    if (is_known && used + kLeast <= width) text += ", in " + format::describe(place, names, width - used);
    return {text, true};
  }
  if (rank.exit_status) return {fmt::format("ended with status {}", *rank.exit_status), true};
  if (!is_known && rank.lost) return {"lost", true};
  const bool node_has_ended =
      rank.node < top.run.nodes.size() && top.run.nodes[rank.node].state == RunState::kEnded;
  if (!is_known && node_has_ended) return {"ended", true};
  return {format::describe(place, names, width), false};
}

}  // namespace clusterprof::report::words
