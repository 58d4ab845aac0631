// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/bottlenecks.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::words {
namespace {

using format::percent;
using format::seconds;
using Key = EvidenceKey;

constexpr double kMentioned = 0.02;  // of the class's time

std::int32_t rank_of(const Evidence& evidence, Key key) {
  return static_cast<std::int32_t>(evidence.number(key));
}

std::string of_imbalance(const Bottleneck& row, const Analysis& analysis, const format::ShortPaths& names) {
  const Evidence& e = row.evidence;
  std::string out =
      fmt::format("outside MPI rank {} takes {}, the mean rank {}", rank_of(e, Key::kSlowestRank),
                  seconds(e.number(Key::kMaxUseful)), seconds(e.number(Key::kMeanUseful)));
  if (e.has(Key::kCauseRank))
    out += fmt::format("; {} made {} wait {}",
                       culprit(rank_of(e, Key::kCauseRank), analysis.places[row.cause], names), who_waited(e),
                       seconds(e.number(Key::kWait)));
  return out;
}

std::string of_communication(const Bottleneck& row) {
  const Evidence& e = row.evidence;
  const bool region = !row.region.empty();
  std::string out;
  if (region)
    out = fmt::format("{} of its {} in MPI; ", seconds(e.number(Key::kMpi)), seconds(e.number(Key::kWhole)));
  out +=
      fmt::format("{} for only {} of {}",
                  e.has(Key::kThreads) ? "even on the busiest rank the threads that call MPI are outside it"
                                       : "even the busiest rank does useful work",
                  seconds(e.number(Key::kMaxUseful)), seconds(e.number(Key::kElapsed)));
  if (!region && e.has(Key::kMpi))
    out += fmt::format("; of {} in MPI {} are waiting", seconds(e.number(Key::kMpi)),
                       seconds(e.number(Key::kWait)));
  if (e.has(Key::kSerialization))
    out += fmt::format("; serialization {}, transfer {}", percent(e.number(Key::kSerialization)),
                       percent(e.number(Key::kTransfer)));
  return out;
}

// Of one rank, which MPI keeps.
std::string of_rank_in_mpi(const Bottleneck& row, const Analysis& analysis, const format::ShortPaths& names) {
  const Evidence& e = row.evidence;
  std::string out = row.kind == "imbalance"
                        ? fmt::format("works {} less than rank {}, the slowest",
                                      seconds(e.number(Key::kTime)), rank_of(e, Key::kSlowestRank))
                        : fmt::format("{} in MPI, {} of it not explained by imbalance",
                                      seconds(e.number(Key::kMpi)), seconds(e.number(Key::kTime)));
  if (e.has(Key::kWait)) out += fmt::format("; waits {}", seconds(e.number(Key::kWait)));
  if (e.has(Key::kCauseRank))
    out += fmt::format(", {} of it for {}", seconds(e.number(Key::kSiteWait)),
                       culprit(rank_of(e, Key::kCauseRank), analysis.places[row.cause], names));
  return out;
}

// "4.20 s of its 10.0 s: sleep 4.10 s, lock 100 ms; most in wait() a.py:3 (4.10 s)"; or "8.40 s of its
// 10.0 s, 7.00 s of it while it waited for processes that did this; most in work() a.py:3 (6.30 s)"; or
// "..., 7.00 s of it by other threads while it waited; ..."
std::string of_time(const Bottleneck& row, const Analysis& analysis, const format::ShortPaths& names) {
  const Evidence& e = row.evidence;
  const bool run = !row.rank && row.region.empty();
  const std::string whole = seconds(e.number(Key::kWhole));
  std::string out =
      fmt::format("{} of {}", seconds(e.number(Key::kTime)),
                  run ? fmt::format("the {} of all ranks' main threads", whole) : "its " + whole);
  if (e.has(Key::kWorkerKind))
    out += fmt::format(", {} of it by other {} while {} waited", seconds(e.number(Key::kWorkersTime)),
                       e.name(Key::kWorkerKind), run ? "they" : "it");
  else if (e.has(Key::kWorkersTime))
    out += fmt::format(", {} of it while {} waited for processes that did this",
                       seconds(e.number(Key::kWorkersTime)), run ? "they" : "it");
  const auto parts = [&out](const std::string& list) {
    if (!list.empty()) out += ": " + list;
  };
  if (row.kind == "idle") parts(idle_kinds(e, true));
  if (const double kernel_s = e.number(Key::kKernel);
      e.has(Key::kKernel) && kernel_s >= kMentioned * e.number(Key::kTime))
    out += fmt::format(", {} in system calls", seconds(kernel_s));
  if (row.kind == "memory")
    parts(listed({{"data that no cache holds", e.number(Key::kData)},
                  {"page faults", e.number(Key::kPageFault)},
                  {"mapping and unmapping", e.number(Key::kMapping)}}));
  if (row.place != 0)
    out += fmt::format("; most in {} ({})", name(analysis.places[row.place], names),
                       seconds(e.number(Key::kPlaceTime)));
  if (e.has(Key::kBandwidth) || e.has(Key::kAccesses))
    out += fmt::format("; {} has {}", row.cause == 0 ? "it" : name(analysis.places[row.cause], names),
                       memory_use(e));
  if (e.has(Key::kCall))
    out += fmt::format("; {} {} {}", io_calls(e), e.number(Key::kCalls) == 1 ? "takes" : "take",
                       seconds(e.number(Key::kCallTime)));
  if (e.has(Key::kMpiIo)) out += fmt::format("; besides, {} in MPI-IO", seconds(e.number(Key::kMpiIo)));
  return out;
}

// "4.50 s of its 10.0 s waiting for data, most at train() train.py:31; the worker processes are mostly in
// load() data.py:12"
std::string of_input(const Bottleneck& row, const Analysis& analysis, const format::ShortPaths& names) {
  const Evidence& e = row.evidence;
  const std::string whole = seconds(e.number(Key::kWhole));
  const std::string where = name(analysis.places[row.place], names);
  const std::string workers = name(analysis.places[row.cause], names);
  return fmt::format(
      "{} of {} waiting for data{}{}", seconds(e.number(Key::kTime)),
      row.rank ? "its " + whole : fmt::format("the {} of all ranks' main threads", whole),
      where.empty() ? "" : ", most at " + where,
      workers.empty() ? ""
                      : fmt::format("; the worker {} are mostly in {}", e.name(Key::kWorkerKind), workers));
}

}  // namespace

std::string evidence(const Bottleneck& row, const Analysis& analysis, const format::ShortPaths& names) {
  if (row.kind == "input") return of_input(row, analysis, names);
  const bool in_mpi = row.kind == "imbalance" || row.kind == "communication";
  if (!in_mpi) return of_time(row, analysis, names);
  if (row.rank) return of_rank_in_mpi(row, analysis, names);
  return row.kind == "imbalance" ? of_imbalance(row, analysis, names) : of_communication(row);
}

}  // namespace clusterprof::report::words
