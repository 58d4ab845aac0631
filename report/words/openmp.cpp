// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/openmp.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::words {

std::vector<std::string> openmp_remarks(const OpenMp& openmp) {
  std::vector<std::int32_t> kept_out;
  std::map<std::string, std::vector<std::int32_t>> two;  // by the one that was recorded
  for (const OpenMpRank& rank : openmp.ranks) {
    if (rank.method == shard::OmpMethod::kOtherTool) kept_out.push_back(rank.rank);
    if (rank.other_runtime) two[rank.runtime].push_back(rank.rank);
  }
  const auto of = [](const std::vector<std::int32_t>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", format::rank_list(ranks));
  };
  std::vector<std::string> remarks;
  if (!kept_out.empty())
    remarks.push_back(
        fmt::format("Not recorded on {}: another tool has taken OpenMP's interface for tools, or the "
                    "program is built with ThreadSanitizer.",
                    of(kept_out)));
  for (const auto& [runtime, ranks] : two)
    remarks.push_back(
        fmt::format("Two OpenMP run times are used on {}: regions of {} are here, those of the other "
                    "are not.",
                    of(ranks), runtime.empty() ? "one" : format::printable(runtime)));
  return remarks;
}

}  // namespace clusterprof::report::words
