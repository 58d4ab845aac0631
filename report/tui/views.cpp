// SPDX-License-Identifier: BSD-3-Clause
// What all views of the terminal browser look at, and how they filter.
#include "report/tui/views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "report/format/numbers.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

}  // namespace

bool matches(std::string_view text, std::string_view filter) {
  return filter.empty() ||
         std::search(text.begin(), text.end(), filter.begin(), filter.end(), same_letter) != text.end();
}

Run::Run(const Analysis& analysis_, const PageData& data_, bool unicode_)
    : analysis(analysis_),
      data(data_),
      unicode(unicode_),
      names(analysis_),
      time(selected_time(analysis_, data_, {})) {}

void Run::choose(std::optional<std::uint32_t> group_) {
  group = group_;
  chosen.clear();
  group_name.clear();
  time = selected_time(analysis, data, group);
  if (!group) return;
  for (std::size_t row = 0; row < data.group_of_rank.size() && row < analysis.ranks.size(); ++row)
    if (data.group_of_rank[row] == *group) chosen.push_back(analysis.ranks[row].rank);
  std::sort(chosen.begin(), chosen.end());
  group_name = (chosen.size() == 1 ? "rank " : "ranks ") + rank_list(chosen, 3);
}

bool Run::is_chosen(std::int32_t rank) const {
  return !group || std::binary_search(chosen.begin(), chosen.end(), rank);
}

std::string Run::share(double part_s) const {
  const double whole_s = time.all_s();
  return fmt::format("{:.1f}", whole_s > 0 ? 100 * part_s / whole_s : 0.0);
}

std::string Run::label(const PageFunction& function, std::size_t width) const {
  const std::string name = function_label(function.name, function.kind);
  return name_and_place(name, names.place(function.file, function.line), width);
}

}  // namespace clusterprof::report::tui
