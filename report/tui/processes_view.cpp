// SPDX-License-Identifier: BSD-3-Clause
// The processes that ranks made. Those that are alike are one line, which opens.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"
#include "report/words/unrecorded.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class ProcessesView final : public View {
 public:
  explicit ProcessesView(const Run& run) : run_(run) {}

  std::string title() const override { return "Processes"; }
  std::string keys() const override { return "Right Left open and close  Enter the line that made them"; }

  void refresh(std::string_view filter) override {
    const Analysis& a = run_.analysis;
    std::vector<std::uint32_t> groups;
    double most_s = 0;
    for (std::uint32_t i = 0; i < a.process_groups.size(); ++i) {
      const ProcessGroup& group = a.process_groups[i];
      if (group.how == ProcessHow::kRank || !run_.is_chosen(group.rank)) continue;
      if (!matches(printable(group.program), filter) && !matches(how(group.how), filter)) continue;
      groups.push_back(i);
      most_s = std::max(most_s, group.cpu_s);
    }
    std::stable_sort(groups.begin(), groups.end(), [&](std::uint32_t x, std::uint32_t y) {
      return a.process_groups[x].cpu_s > a.process_groups[y].cpu_s;
    });
    scale_ = TimeScale(most_s);
    items_.clear();
    for (const std::uint32_t group : groups) {
      items_.push_back({group, shard::kNone});
      if (!open_.contains(group)) continue;
      for (std::uint32_t row = 0; row < a.processes.size(); ++row)
        if (a.processes[row].group == group) items_.push_back({group, row});
    }
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t columns) const override {
    static_cast<void>(columns);
    return {{cell(fmt::format("cpu {}", scale_.unit())) + cell("min") + cell("mean") + cell("max") +
                 cell("rank", 6) + pad_right("how", kHow) + "processes, mostly in",
             Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const auto& [index, row] = items_[item];
    const ProcessGroup& group = run_.analysis.process_groups[index];
    const std::size_t room = rest_of(columns, 4 * kNumber + 6 + kHow);
    if (row != shard::kNone) return render_row(run_.analysis.processes[row], room);
    const std::string name = counted_name(group.count, group.program);
    const std::string mark = open_.contains(index) ? "- " : "+ ";
    const auto time = [&](double time_s) {
      return group.measured == 0 ? cell("-") : time_cell(scale_, time_s);
    };
    Spans spans{{time(group.cpu_s) + time(group.cpu_min_s) + time(group.cpu_mean_s) + time(group.cpu_max_s) +
                 cell(std::to_string(group.rank), 6) + pad_right(how(group.how), kHow)},
                {shorten(mark + name, room)}};
    const std::size_t left = room - std::min(room, columns_of(mark + name));
    if (left > 12 && group.unrecorded != shard::Unrecorded::kNo)
      spans.push_back(
          {shorten(fmt::format("  not recorded: {}",
                               words::unrecorded_phrase(shard::unrecorded_name(group.unrecorded))),
                   left),
           Style::kDim});
    else if (left > 12 && !group.top.function.empty())
      spans.push_back({"  " + describe(group.top, run_.names, left - 2), Style::kDim});
    return spans;
  }

  ViewRequest open(std::size_t item) override {
    const SourceLocation& place = run_.analysis.process_groups[items_[item].group].created_by;
    if (place.file.empty() || place.line == 0) return {};
    return {ViewRequest::Kind::kSource, 0, place.file, place.line, {}};
  }
  bool right(std::size_t& item) override { return open_.insert(items_[item].group).second; }
  bool left(std::size_t& item) override {
    const std::uint32_t group = items_[item].group;
    while (item > 0 && items_[item].row != shard::kNone) --item;
    return open_.erase(group) != 0;
  }

 private:
  static constexpr std::size_t kHow = 12;
  struct Item {
    std::uint32_t group, row;  // row: kNone for the line of the group
  };

  static std::string how(ProcessHow how) { return kProcessHowNames[static_cast<std::size_t>(how)]; }
  static std::size_t columns_of(std::string_view text) { return format::columns(text); }

  Spans render_row(const ProcessRow& row, std::size_t room) const {
    std::string ending = row.runs ? "running" : "";
    if (row.exit_status) ending = fmt::format("exit {}", *row.exit_status);
    if (row.exit_signal) ending = signal_name(*row.exit_signal);
    const std::string name =
        row.count > 1 ? fmt::format("{} that ended", row.count) : fmt::format("pid {}  {}", row.pid, ending);
    return {
        {time_cell(scale_, row.cpu_s) + std::string(3 * kNumber + 6 + kHow, ' ')},
        {shorten(fmt::format("    {}  {:.3f} s to {:.3f} s", name, row.start_s, row.start_s + row.elapsed_s),
                 room),
         row.exit_signal ? Style::kBad : Style::kPlain}};
  }

  const Run& run_;
  std::vector<Item> items_;
  std::set<std::uint32_t> open_;  // groups
  TimeScale scale_{1};
};

}  // namespace

std::unique_ptr<View> processes_view(const Run& run) { return std::make_unique<ProcessesView>(run); }

}  // namespace clusterprof::report::tui
