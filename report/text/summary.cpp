// SPDX-License-Identifier: BSD-3-Clause
// The summary of the text report: the run, where its time went, what limits it, findings, and MPI calls that
// had not returned.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"
#include "report/words/calls_under_way.hpp"
#include "report/words/findings.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using shard::kCategories;
using shard::kCategoryNames;

constexpr std::size_t kCommandLines = 8;
constexpr double kSmallActivity = 0.01;  // of the time of all threads without idle helpers

class Summary : private Section {
 public:
  using Section::Section;

  void print() {
    const RunInfo& run = a_.run;
    page_.section(fmt::format("clusterprof report  {}", printable(run.id)),
                  run.region.empty() ? "" : fmt::format("region {} alone", printable(run.region)));
    for (const std::string& line : command_lines(run, kCommandLines)) page_.line(fmt::format("  {}", line));
    std::string facts = fmt::format("{}, {}", ranks_and_nodes(run), seconds(run.elapsed_s));
    // Before what a narrow terminal may cut off.
    if (!run.complete) facts += ", " + words::state(run);
    if (run.start_utc_ns != 0) facts += fmt::format(", {}", utc(run.start_utc_ns));
    page_.line(fmt::format("  {}", facts));
    page_.line(fmt::format("  {}, {} Hz {} clock, {} samples{}", mpi_name(), run.rate_hz,
                           run.clock.empty() ? "wall" : run.clock, count(static_cast<double>(run.samples)),
                           run.complete ? ", " + words::state(run) : ""));
    if (const std::string commit = run.commit(); !commit.empty())
      page_.line(fmt::format("  commit {}", printable(commit)));
    if (const std::string windows = words::windows(run); !windows.empty())
      page_.line(fmt::format("  {}", windows));
    if (!run.was_never_recorded()) {
      categories();
      activities();
    }
    findings();
  }

 private:
  std::string mpi_name() const {
    // "Open MPI v4.1.4, package: ...": the rest is for the JSON.
    if (!a_.run.mpi_library.empty()) {
      // "MPICH Version:\t4.0.2"
      std::string name = a_.run.mpi_library.substr(0, a_.run.mpi_library.find_first_of(",\n"));
      std::replace(name.begin(), name.end(), '\t', ' ');
      return name;
    }
    if (a_.slowest_rank || !a_.mpi_calls.empty()) return "MPI";
    return a_.run.launcher.empty() ? "no MPI"
                                   : fmt::format("no MPI, ranks of {}", printable(a_.run.launcher));
  }

  void categories() {
    std::vector<std::size_t> order;
    for (std::size_t c = 0; c < kCategories; ++c)
      if (a_.category_s[c]) order.push_back(c);
    page_.section("Main threads by category",
                  fmt::format("{} of rank time in all", seconds(a_.rank_seconds)));
    if (order.empty()) {
      page_.line("  Not measured.");
      return;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](auto x, auto y) { return *a_.category_s[x] > *a_.category_s[y]; });
    const std::size_t bar_width = page_.width() - 34;
    for (const std::size_t c : order) {
      const double share = share_of(*a_.category_s[c], a_.rank_seconds);
      page_.line({{fmt::format("  {:<8}{:>8}  ", kCategoryNames[c], percent(share)), Style::kPlain},
                  {pad_right(bar(share, bar_width), bar_width), category_style(c)},
                  {fmt::format("  {:>9}", seconds(*a_.category_s[c])), Style::kPlain}});
    }
  }

  // "  native code   libopenblas.so.0 43.1 %, train 1.2 %"
  void shares(std::string_view title, std::vector<std::pair<std::string, double>> parts, double whole) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& x, const auto& y) { return x.second > y.second; });
    std::string text;
    for (const auto& [name, value] : parts)
      if (share_of(value, whole) >= kSmallActivity)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent(share_of(value, whole)));
    if (!text.empty()) page_.paragraph({fmt::format("  {:<14}", title)}, text);
  }

  void activities() {
    const double whole = a_.sampled_s - a_.helper_idle_s;
    if (a_.run.samples == 0 || whole <= 0) return;
    std::vector<std::pair<std::string, double>> parts;
    std::string unknown;
    for (std::size_t i = 0; i < kActivities; ++i) {
      if (a_.active_activity_s[i]) {
        parts.emplace_back(kActivityNames[i], *a_.active_activity_s[i]);
      } else {
        unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", kActivityNames[i]);
      }
    }
    page_.section(
        "All threads by activity",
        fmt::format("{}{}", seconds(whole), has_idle_helpers(a_) ? " without idle helper threads" : ""));
    shares("activities", std::move(parts), whole);
    if (!unknown.empty()) page_.paragraph({fmt::format("  {:<14}", "not known"), Style::kDim}, unknown);
    std::map<std::string, double> modules;
    for (const auto& [path, time_s] : a_.native_modules)
      modules[printable(path.substr(path.find_last_of('/') + 1))] += time_s;
    shares("native code", {modules.begin(), modules.end()}, whole);
    shares("system calls", {a_.active_system_calls.begin(), a_.active_system_calls.end()}, whole);
  }

  // "0-3, 7", with the number of ranks where the list is cut: "52 (0-3, 7, 9, ..)"
  static std::string counted_list(const std::vector<std::int32_t>& ascending) {
    constexpr std::size_t kMaxGroups = 6;
    const std::string list = rank_list(ascending, kMaxGroups);
    return list == rank_list(ascending, ascending.size())
               ? list
               : fmt::format("{} ({})", ascending.size(), rank_list(ascending, kMaxGroups / 2));
  }

  // "  bound by  compute 58.7 %, imbalance 23.7 %; ranks mostly: compute 0-3"
  void bound_by() {
    std::string text;
    std::map<std::string, std::vector<std::int32_t>> ranks;
    for (const Bottleneck& row : a_.bottlenecks) {
      if (row.rank)
        ranks[row.kind].push_back(*row.rank);
      else if (row.region.empty())
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.kind, percent(row.share));
    }
    if (text.empty()) return;
    if (a_.ranks.size() > 1)
      for (const auto& [kind, numbers] : ranks)
        text += fmt::format("{}{} {}", &numbers == &ranks.begin()->second ? "; ranks mostly: " : ", ", kind,
                            counted_list(numbers));
    page_.paragraph({"  bound by  "}, text);
  }

  std::string with_gain(const Finding& finding) const {
    const std::string gain = words::gain(finding);
    return words::sentences(finding, paths_) + (gain.empty() ? "" : " " + gain);
  }

  void findings() {
    page_.section("Findings");
    bound_by();
    if (a_.findings.empty())
      page_.line(a_.run.was_never_recorded() ? "  None: nothing was recorded (clusterprof start RUN)."
                                             : "  Nothing stands out.");
    for (const Finding& finding : a_.findings) {
      page_.paragraph({fmt::format("  {:<8}", name_of(finding.severity)), severity_style(finding.severity)},
                      with_gain(finding));
    }
    calls_under_way();
  }

  // For a run that hung: which rank was in which call.
  void calls_under_way() {
    constexpr std::size_t kMost = 8;
    const std::vector<words::CallUnderWayText> all = words::calls_under_way(a_, paths_);
    if (all.empty()) return;
    page_.section("MPI calls that had not returned", "when ranks were last looked at");
    for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i) {
      const std::string who =
          fmt::format("{} {}", all[i].ranks.size() == 1 ? "rank" : "ranks", rank_list(all[i].ranks, 3));
      page_.paragraph({fmt::format("  {:<12}  ", who)}, all[i].text);
    }
    note_the_rest(std::min(all.size(), kMost), all.size());
  }
};

}  // namespace

void print_summary(Report& report) { Summary(report).print(); }

}  // namespace clusterprof::report::text
