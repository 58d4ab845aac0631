// SPDX-License-Identifier: BSD-3-Clause
// OpenMP as JSON: efficiencies, parallel regions, what ran outside of them, ranks.
#include "report/json/report_document.hpp"

namespace clusterprof::report {

void ReportDocument::openmp() {
  if (!a_.openmp) {
    out_("openmp", nullptr);
    return;
  }
  const OpenMp& all = *a_.openmp;
  const auto where = [&](const SourceLocation& place) {
    out_("file", text_or_null(place.file))("line", or_null(place.line));
    out_("function", text_or_null(place.function));
  };
  const auto factors = [&](const OpenMpEfficiency& e) {
    out_("load_balance", e.load_balance)("scheduling", e.scheduling)("serialization", e.serialization);
  };
  const auto by_thread = [&](const std::vector<OpenMpThreadRow>& threads) {
    out_.rows("by_thread", threads, [&](const OpenMpThreadRow& thread) {
      out_("number", thread.number)("work_s", thread.work_s)("wait_s", thread.wait_s);
    });
  };
  out_.object("openmp", [&] {
    out_.object("efficiency", [&] {
      out_("parallel", all.efficiency.parallel);
      factors(all.efficiency);
    });
    out_.object("hybrid", [&] {
      out_("parallel", all.hybrid_parallel)("mpi", all.hybrid_mpi)("openmp", all.hybrid_openmp);
    });
    out_("work_s", all.work_s)("imbalance_s", all.imbalance_s)("schedule_s", all.schedule_s);
    out_("serialization_s", all.serialization_s);
    out_.rows("regions", all.regions, [&](const OpenMpRegionRow& row) {
      where(row.place);
      out_("called", text_or_null(row.place.called))("kind", row.is_teams ? "teams" : "parallel");
      out_("level", row.level)("count", row.count)("unfinished", row.unfinished)("time_s", row.time_s);
      spread(row.spread);
      out_("wait_s", row.wait_s)("end_wait_s", row.end_wait_s)("serial_s", row.serial_s);
      out_("work_s", row.work_s)("schedule_s", row.schedule_s)("threads_s", row.thread_s);
      out_("threads", row.threads)("threads_asked", or_null(row.threads_asked));
      out_("imbalance", row.imbalance)("efficiency", row.efficiency.parallel);
      factors(row.efficiency);
      out_.rows("constructs", row.constructs, [&](const OpenMpConstructRow& construct) {
        out_("kind", shard::omp_kind_name(construct.kind));
        where(construct.place);
        out_("count", construct.count)("time_s", construct.time_s)("wait_s", construct.wait_s);
        out_("schedule_s", construct.schedule_s)("chunks", or_null(construct.chunks));
        out_("iterations", or_null(construct.iterations))("imbalance", construct.imbalance);
        out_("schedules", shard::omp_schedule_names(construct.schedules));
      });
      by_thread(row.threads_of_team);
      out_.rows("by_rank", row.ranks, [&](const OpenMpRegionRank& rank) {
        out_("rank", rank.rank)("count", rank.count)("threads", rank.threads)("time_s", rank.time_s);
        out_("threads_s", rank.thread_s)("work_s", rank.work_s)("wait_s", rank.wait_s);
        out_("serial_s", rank.serial_s)("schedule_s", rank.schedule_s)("imbalance", rank.imbalance);
        out_("efficiency", rank.efficiency.parallel);
        factors(rank.efficiency);
        by_thread(rank.threads_of_team);
      });
    });
    out_.rows("serial", all.serial, [&](const OpenMpSerialRow& row) {
      where(row.place);
      out_("time_s", row.time_s)("lost_s", row.lost_s)("native_s", row.native_s);
    });
    if (all.windows.empty())
      out_("over_time", nullptr);
    else
      out_.rows("over_time", all.windows, [&](const OpenMpWindow& row) {
        out_("begin_s", row.begin_s)("end_s", row.end_s);
        out_.object("efficiency", [&] {
          out_("parallel", row.efficiency.parallel);
          factors(row.efficiency);
        });
        out_.object("hybrid", [&] {
          out_("parallel", row.hybrid_parallel)("mpi", row.hybrid_mpi)("openmp", row.efficiency.parallel);
        });
        out_("work_s", row.work_s)("imbalance_s", row.imbalance_s)("schedule_s", row.schedule_s);
        out_("serialization_s", row.serialization_s);
      });
    out_.rows("ranks", all.ranks, [&](const OpenMpRank& row) {
      out_("rank", row.rank)("recorded_by", shard::omp_method_name(row.method))("runtime",
                                                                                text_or_null(row.runtime));
      out_("other_runtime", row.other_runtime)("threads", or_null(row.threads));
      out_("processors", or_null(row.processors));
      out_("region_s", row.region_s)("serial_s", row.serial_s)("mpi_s", row.mpi_s);
      out_("work_s", row.work_s)("wait_s", row.wait_s);
    });
  });
}

}  // namespace clusterprof::report
