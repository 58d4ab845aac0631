// SPDX-License-Identifier: BSD-3-Clause
// The text report: which sections it has, in which order, and when it has them. The sections on functions,
// ranks, MPI and so on are in files of their own (sections.hpp); those on files, blocked time, regions, the
// timeline and nodes too (resources.hpp).
#include <algorithm>
#include <string_view>
#include <utility>

#include "report/format/names.hpp"
#include "report/report.hpp"
#include "report/text/end_of_run.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"
#include "report/text/waiting.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using namespace text;

constexpr int kNarrowest = 40;             // columns
constexpr double kWorthMentioning = 0.01;  // of rank time: calls on files, torch.distributed, blocked loops
constexpr double kMuchImported = 0.05;     // of rank time: imports
constexpr double kMuchInTasks = 0.10;      // of rank time: tasks of asyncio
constexpr double kMuchBlocked = 0.10;      // of rank time: blocked time

// The sections with options of their own.
class ResourceSections : private Section {
 public:
  explicit ResourceSections(text::Report& report) : Section(report), unicode_(report.options.unicode) {}

  void waits() {
    if (!worth(
            a_.wait_quality.has_value(), "Waiting for other ranks",
            a_.mpi_calls.empty() ? "No MPI calls were recorded." : "Not analysed: there are no MPI events."))
      return;
    print_waits(page_, a_, paths_, {rows_, !all_, unicode_});
  }

  // Recorded calls are in the section on MPI already.
  void torch() {
    const double time_s = a_.torch.sum_s(false);
    if (all_ && (!is_sampled(a_.torch.source) || share_of(time_s, a_.rank_seconds) < kWorthMentioning))
      return;
    if (worth(!a_.torch.rows.empty(), "torch.distributed", "No time in it was seen."))
      print_torch(page_, a_, paths_, resource_options());
  }

  void io() {
    double time_s = 0;
    if (a_.io)
      for (const IoCallRow& row : a_.io->calls) time_s += row.time_s;
    if (all_ && share_of(time_s, a_.rank_seconds) < kWorthMentioning) return;
    const bool any = a_.io && !a_.io->calls.empty();
    if (worth(any, "File I/O", a_.io ? "No calls on files were recorded." : "Not measured."))
      print_io(page_, a_, paths_, resource_options());
  }

  void memory() {
    const LabelledMemory& labelled = a_.labelled_memory;
    const bool has_labels = !labelled.spaces.empty() || !labelled.copies.empty();
    if (a_.memory || !(all_ || has_labels)) held_memory();
    if (has_labels) print_labelled_memory(page_, a_, resource_options());
  }

  void held_memory() {
    if (worth(a_.memory && !a_.memory->lines.empty(), "Memory",
              a_.memory ? "Nothing was allocated." : "Not recorded: that takes --memory."))
      print_memory(page_, a_, paths_, resource_options());
  }

  void off_cpu() {
    double main_s = 0;
    if (a_.off_cpu)
      for (const OffCpuRow& row : *a_.off_cpu) main_s += row.main_thread_s;
    if (all_ && share_of(main_s, a_.rank_seconds) < kMuchBlocked) return;
    const bool any = a_.off_cpu && !a_.off_cpu->empty();
    if (worth(any, "Blocked outside MPI", a_.off_cpu ? "No thread was." : "Not measured."))
      print_off_cpu(page_, a_, paths_, resource_options());
  }

  void event_loops() {
    double blocked_s = 0;
    for (const EventLoopRow& row : a_.event_loops) blocked_s += row.blocked_s;
    if (all_ && share_of(blocked_s, a_.rank_seconds) < kWorthMentioning &&
        share_of(a_.tasks_s, a_.rank_seconds) < kMuchInTasks)
      return;
    if (worth(!a_.event_loops.empty() || !a_.tasks.empty(), "Event loops", "No thread had one."))
      print_event_loops(page_, a_, paths_, resource_options());
  }

  void openmp() {
    double region_s = 0;
    bool is_recorded = true;
    if (a_.openmp)
      for (const OpenMpRank& rank : a_.openmp->ranks) {
        region_s += rank.region_s;
        is_recorded = is_recorded && rank.method != shard::OmpMethod::kOtherTool;
      }
    if (all_ && is_recorded && share_of(region_s, a_.rank_seconds) < kWorthMentioning) return;
    if (worth(a_.openmp && !a_.openmp->ranks.empty(), "OpenMP", "No rank has used it."))
      print_openmp(page_, a_, paths_, resource_options());
  }

  void imports() {
    if (all_ && share_of(a_.import_sum.main_thread_s, a_.rank_seconds) < kMuchImported) return;
    if (worth(!a_.imports.empty(), "Imports", "No imports were seen."))
      print_imports(page_, a_, paths_, resource_options());
  }

  void processes() {
    if (worth(has_child_processes(a_), "Processes", "The ranks made no processes that are known."))
      print_processes(page_, a_, paths_, resource_options());
  }

  void threads() {
    if (worth(has_busy_threads(a_), "Threads", "Only main threads have done anything."))
      print_threads(page_, a_, paths_, resource_options());
  }

  void regions() {
    if (worth(!a_.regions.empty(), "Regions", "The program named none."))
      print_regions(page_, a_, resource_options());
  }

  void timeline() {
    if (all_) return;
    if (worth(a_.timeline && a_.timeline->bins != 0, "Over time", "Not measured."))
      print_timeline(page_, a_, resource_options());
  }

  void nodes() {
    if (all_) return;
    if (worth(!a_.nodes.empty(), "Nodes", "There are none.")) print_nodes(page_, a_, resource_options());
  }

 private:
  [[nodiscard]] ResourceOptions resource_options() const { return {rows_, !all_, unicode_}; }

  const bool unicode_;
};

using Print = void (*)(text::Report&);
template <void (ResourceSections::*kSection)()>
void print_resources(text::Report& report) {
  (ResourceSections(report).*kSection)();
}

constexpr std::pair<std::string_view, Print> kSections[] = {
    {"summary", print_summary},
    {"gains", print_gains},
    {"efficiency", print_efficiency},
    {"ranks", print_ranks},
    {"hotspots", print_hotspots},
    {"lines", print_lines},
    {"tree", print_call_tree},
    {"comm", print_mpi},
    {"matrix", print_matrix},
    {"waits", print_resources<&ResourceSections::waits>},
    {"torch", print_resources<&ResourceSections::torch>},
    {"io", print_resources<&ResourceSections::io>},
    {"memory", print_resources<&ResourceSections::memory>},
    {"off-cpu", print_resources<&ResourceSections::off_cpu>},
    {"event-loops", print_resources<&ResourceSections::event_loops>},
    {"openmp", print_resources<&ResourceSections::openmp>},
    {"imports", print_resources<&ResourceSections::imports>},
    {"processes", print_resources<&ResourceSections::processes>},
    {"threads", print_resources<&ResourceSections::threads>},
    {"regions", print_resources<&ResourceSections::regions>},
    {"timeline", print_resources<&ResourceSections::timeline>},
    {"nodes", print_resources<&ResourceSections::nodes>},
    {"counters", print_counters},
    {"quality", print_quality}};

}  // namespace

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, print] : kSections) names.emplace_back(name);
    return names;
  }();
  return kNames;
}

const std::vector<std::string>& section_names_of_end() {
  static const std::vector<std::string> kNames = text::names_of_end_sections();
  return kNames;
}

std::string render_text(const Analysis& analysis, const TextOptions& options) {
  const auto width = static_cast<std::size_t>(std::max(options.width, kNarrowest));
  text::Report report{analysis, options, ShortPaths(analysis), Page(width, options.colour)};
  if (analysis.last) {
    text::print_end_of_run(report);
    return report.page.take();
  }
  const std::vector<std::string>& asked = options.sections;
  for (const auto& [name, print] : kSections)
    if (asked.empty() || std::find(asked.begin(), asked.end(), name) != asked.end()) print(report);
  return report.page.take();
}

std::string render_text(const Analysis& analysis, const HeldAt& held, const TextOptions& options) {
  Page page(static_cast<std::size_t>(std::max(options.width, kNarrowest)), options.colour);
  text::print_memory_at(page, analysis, held, ShortPaths(analysis), {options.rows, true, options.unicode});
  return page.take();
}

}  // namespace clusterprof::report
