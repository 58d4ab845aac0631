// SPDX-License-Identifier: BSD-3-Clause
// The section on counters.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

// "IPC  1.57  PAPI_TOT_INS / PAPI_TOT_CYC": a line each.
void print_derived(Page& page, const std::vector<Derived>& derived) {
  for (const Derived& row : derived) {
    const std::string_view unit = row.unit;
    std::string value;
    if (unit == "B/s")
      value = bytes(row.value) + "/s";
    else if (unit == "share")
      value = percent(row.value);
    else if (unit == "1/s")
      value = count(row.value) + "/s";
    else
      value = fmt::format("{:.2f}", row.value);
    page.line({{fmt::format("  {:<24}{:>12}  ", row.name, value)}, {row.formula, Style::kDim}});
  }
}

class CountersSection : private Section {
 public:
  using Section::Section;

  void print() {
    const bool any = !a_.rank_counters.empty() || !a_.unavailable_counters.empty();
    if (!worth(any || (!all_ && !a_.derived.empty()), "Counters", "None were asked for.")) return;
    page_.section("Counters", a_.counters_multiplexed ? "per rank; they took turns: estimates" : "per rank");
    Table table({{"event", Align::kLeft}, {"total"}, {"min"}, {"mean"}, {"max"}, {"@rank"}});
    bool counted = false;
    for (const CounterSpread& row : a_.counter_spreads) {
      if (row.max_rank < 0) continue;
      counted = true;
      const auto amount = [is_time = counts_ns(row.name)](double value) {
        return is_time ? seconds(value / 1e9) : count(value);
      };
      table.row({row.name, amount(row.total), amount(row.min), amount(row.mean), amount(row.max),
                 std::to_string(row.max_rank)});
    }
    if (counted) table.print(page_);
    if (counted && !a_.derived.empty()) page_.blank();
    print_derived(page_, a_.derived);
    std::map<std::string, std::string> by_reason;
    for (const auto& [name, reason] : a_.unavailable_counters) {
      std::string& names = by_reason[reason];
      names += fmt::format("{}{}", names.empty() ? "" : ", ", printable(name));
    }
    for (const auto& [reason, names] : by_reason)
      page_.paragraph({"  not available  ", Style::kDim}, fmt::format("{}: {}", names, reason));
  }

 private:
  // Whether the event is one of the kernel's clocks, by any of its names.
  static bool counts_ns(std::string_view event) {
    std::string name(event);
    std::replace(name.begin(), name.end(), '_', '-');
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return name.ends_with("task-clock") || name.ends_with("cpu-clock");
  }
};

}  // namespace

void print_counters(Report& report) { CountersSection(report).print(); }

}  // namespace clusterprof::report::text
