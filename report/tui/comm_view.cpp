// SPDX-License-Identifier: BSD-3-Clause
// Communication: MPI calls, and who waits for whom.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/list_view.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class CommView final : public ListView {
 public:
  using ListView::ListView;
  std::string title() const override { return "Communication"; }
  std::string keys() const override { return "Enter source  (of all ranks)"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    const Analysis& a = run_.analysis;
    if (a.mpi_calls.empty()) {
      note(a.mpi_watched ? "No MPI function was called." : "MPI was not recorded.");
      return;
    }
    const TimeScale scale(a.mpi_calls.front().time_s);
    blank_and_title("Calls", "of all ranks");
    column_titles(cell(fmt::format("time {}", scale.unit())) + cell("waiting") + cell("count") +
                  cell("sent", 10) + "call site");
    for (const MpiCallRow& call : a.mpi_calls) {
      const std::string label = describe(call, run_.names);
      if (!matches(label, filter)) continue;
      row(time_cell(scale, call.time_s) + time_cell(scale, call.wait_s) +
              cell(count(static_cast<double>(call.count))) +
              cell(bytes(static_cast<double>(call.sent_bytes)), 10),
          {label, Style::kMpi}, source_of(call.file, call.line));
    }
    root_causes(filter);
    delays(filter);
    critical_path(filter);
  }

 private:
  static constexpr std::size_t kShare = 9;

  void column_titles(std::string titles) {
    items_.push_back({{{std::move(titles), Style::kDim}}, false, {}});
  }
  static ViewRequest source_of(const std::string& file, std::uint32_t line) {
    return file.empty() ? ViewRequest{} : ViewRequest{ViewRequest::Kind::kSource, 0, file, line, {}};
  }
  std::string place(LocationIndex index) const {
    return index < run_.analysis.places.size() ? describe(run_.analysis.places[index], run_.names)
                                               : "code that is not known";
  }
  ViewRequest source_of(LocationIndex index) const {
    if (index >= run_.analysis.places.size()) return {};
    return source_of(run_.analysis.places[index].file, run_.analysis.places[index].line);
  }

  void root_causes(std::string_view filter) {
    const auto& rows = run_.analysis.root_causes;
    if (rows.empty()) return;
    const TimeScale scale(rows.front().wait_s);
    blank_and_title("Root causes of waiting", "share of all ranks' time");
    column_titles(cell(fmt::format("wait {}", scale.unit())) + cell("share", kShare) + "rank, was in");
    for (const RootCauseRow& cause : rows) {
      const std::string label = fmt::format("rank {} in {}", cause.rank, place(cause.place));
      if (!matches(label, filter)) continue;
      row(time_cell(scale, cause.wait_s) + cell(percent(cause.share), kShare), {label, Style::kBad},
          source_of(cause.place),
          fmt::format("  {} {} for it", plural(cause.waiting_ranks, "rank"),
                      cause.waiting_ranks == 1 ? "waits" : "wait"));
    }
  }

  void delays(std::string_view filter) {
    const auto& rows = run_.analysis.delays;
    if (rows.empty()) return;
    const TimeScale scale(rows.front().wait_s);
    blank_and_title("Who waits for whom");
    column_titles(cell(fmt::format("wait {}", scale.unit())) + "kind of waiting, for whom");
    for (const DelayRow& delay : rows) {
      const std::string who = delay.rank ? fmt::format("rank {} in {}", *delay.rank, place(delay.place))
                                         : "a rank that is not known";
      const std::string label = fmt::format("{}: {} in {} for {}", wait_kind(delay.kind),
                                            plural(delay.waiting_ranks, "rank"), place(delay.site), who);
      if (!matches(label, filter)) continue;
      row(time_cell(scale, delay.wait_s), {label, Style::kPlain}, source_of(delay.place));
    }
  }

  void critical_path(std::string_view filter) {
    const auto& rows = run_.analysis.critical_path;
    if (rows.empty()) return;
    const TimeScale scale(rows.front().time_s);
    blank_and_title("Critical path");
    column_titles(cell(fmt::format("time {}", scale.unit())) + cell("share", kShare) + "where");
    for (const CriticalRow& part : rows) {
      const std::string label = place(part.place);
      if (!matches(label, filter)) continue;
      row(time_cell(scale, part.time_s) + cell(percent(part.share), kShare), {label, Style::kPlain},
          source_of(part.place), part.max_rank >= 0 ? fmt::format("  mostly rank {}", part.max_rank) : "");
    }
  }
};

}  // namespace

std::unique_ptr<View> comm_view(const Run& run) { return std::make_unique<CommView>(run); }

}  // namespace clusterprof::report::tui
