// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/finding_phrases.hpp"

#include <fmt/format.h>

#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {

std::string FindingPhrases::nodes() const {
  const int number = whole(Key::kNodes);
  return number > 1 ? fmt::format("{} nodes (most on {})", number, node()) : fmt::format("node {}", node());
}

std::string FindingPhrases::node() const {
  return format::shorten_middle(format::printable(e_.name(Key::kNode)), 32);
}

std::string FindingPhrases::who() const {
  return fmt::format("{} {}", f_.ranks.size() == 1 ? "Rank" : "Ranks", format::rank_list(f_.ranks));
}

std::string FindingPhrases::last_seen(std::string_view of_several) const {
  const std::string where = name(f_.place, names_);
  const std::string which = f_.ranks.size() > 1 && f_.rank && !(where.empty() && f_.kind != Kind::kRankFailed)
                                ? fmt::format(fmt::runtime(of_several), rank())
                                : "";
  if (where.empty()) return which;
  return fmt::format("{} in {}", which, where);
}

std::string FindingPhrases::ends() const {
  std::vector<std::string> how;
  for (const std::int32_t signal : e_.list(Key::kSignals)) how.push_back(format::signal_name(signal));
  for (const std::int32_t status : e_.list(Key::kStatuses)) how.push_back(fmt::format("status {}", status));
  return fmt::format("{}", fmt::join(how, ", "));
}

std::string FindingPhrases::most_in(std::string_view remark) const {
  if (f_.place.op.empty()) return {};
  return fmt::format("; most in {} ({}{})", format::describe(f_.place, names_), time(Key::kPlaceTime),
                     remark);
}

std::string FindingPhrases::of_it_in() const {
  if (!e_.has(Key::kPlaceShare)) return {};
  return fmt::format("; {} of it in {}", format::percent(e_.number(Key::kPlaceShare)),
                     name(f_.place, names_));
}

std::string FindingPhrases::comma_place() const {
  const std::string place = name(f_.place, names_);
  return place.empty() ? "" : ", " + place;
}

FindingText FindingPhrases::of_rank_time(std::string_view verb, std::string_view remark) const {
  return {fmt::format("{} {} of all rank time{}{}.", verb, share(), remark, of_it_in()), ""};
}

}  // namespace clusterprof::report::words
