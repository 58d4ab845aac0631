// SPDX-License-Identifier: BSD-3-Clause
// The section on parallel efficiency.
#include "report/analysis/efficiency.hpp"

#include <fmt/format.h>

#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

class EfficiencySection : private Section {
 public:
  using Section::Section;

  void print() {
    const Efficiency& e = a_.efficiency;
    const bool has_openmp = a_.openmp && a_.openmp->efficiency.parallel;
    if (!worth(e.parallel || has_openmp, "Efficiency", "Not known: no rank used MPI or OpenMP.")) return;
    page_.section("Efficiency", "100 % is ideal");
    if (e.parallel) print_mpi();
    if (has_openmp) print_openmp();
  }

 private:
  void show(std::string_view name, const std::optional<double>& share, std::string_view why) {
    page_.line(fmt::format("  {:<17}{:>8}  {:<20}  {}", name, share ? percent(*share) : "-",
                           bar(share.value_or(0), 20), why));
  }

  void print_openmp() {
    const OpenMp& all = *a_.openmp;
    const OpenMpEfficiency& e = all.efficiency;
    page_.line(all.hybrid_mpi ? "  with OpenMP's threads" : "  OpenMP's threads");
    if (all.hybrid_mpi) show("hybrid", all.hybrid_parallel, "MPI, as above, x OpenMP");
    show("  OpenMP", e.parallel, "product of the three below");
    show("    load balance", e.load_balance, fmt::format("{} waiting for others", seconds(all.imbalance_s)));
    show("    scheduling", e.scheduling, fmt::format("{} handing out work", seconds(all.schedule_s)));
    show("    serialization", e.serialization,
         fmt::format("{} idle while one works", seconds(all.serialization_s)));
  }

  void print_mpi() {
    const Efficiency& e = a_.efficiency;
    show("parallel", e.parallel, "load balance x communication");
    show("  load balance", e.load_balance,
         fmt::format("mean {} / max {} (@{})", seconds(*a_.mean_useful_s), seconds(*a_.max_useful_s),
                     *a_.slowest_rank));
    show("  communication", e.communication,
         fmt::format("max {} / run {}", seconds(*a_.max_useful_s), seconds(a_.focus_s)));
    if (e.serialization && e.transfer) {
      const std::string ideal = seconds(a_.wait_quality->ideal_s.value_or(0));
      show("    serialization", e.serialization,
           fmt::format("max {} / ideal {}", seconds(*a_.max_useful_s), ideal));
      show("    transfer", e.transfer, fmt::format("ideal {} / run {}", ideal, seconds(a_.focus_s)));
      page_.line("  ideal: of the same run on a network that takes no time", Style::kDim);
    } else if (!all_) {
      const char* const why = !a_.wait_quality                   ? "waiting was not analysed"
                              : a_.wait_quality->event_level > 0 ? "the events are a sample"
                                                                 : "the replay was not possible";
      show("    serialization", {}, why);
      show("    transfer", {}, why);
    }
    if (const Efficiency& threads = a_.threads_efficiency; threads.parallel) {
      page_.line("  over all threads that call MPI");
      show("parallel", threads.parallel, "load balance x communication");
      show("  load balance", threads.load_balance,
           fmt::format("mean {} / max {} (@{})", seconds(*a_.threads_mean_useful_s),
                       seconds(*a_.threads_max_useful_s), *a_.threads_slowest_rank));
      show("  communication", threads.communication,
           fmt::format("max {} / run {}", seconds(*a_.threads_max_useful_s), seconds(a_.focus_s)));
    }
    if (a_.startup_s > 0)
      page_.line(fmt::format("  run: without the {} that every rank was in MPI_Init and MPI_Finalize",
                             seconds(a_.startup_s)),
                 Style::kDim);
    page_.line("  mean, max: useful time per rank; @: the rank that has the max", Style::kDim);
    if (!above_one(e).empty() || !above_one(a_.threads_efficiency).empty())
      page_.line("  above 100 %: measuring errors", Style::kDim);
  }
};

}  // namespace

void print_efficiency(Report& report) { EfficiencySection(report).print(); }

}  // namespace clusterprof::report::text
