// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/gap_timeline.hpp"

#include <tuple>
#include <utility>

namespace clusterprof::collector {
namespace {

bool larger(const GapPathTime& a, const GapPathTime& b) {
  return std::tie(b.wall_ns, a.path) < std::tie(a.wall_ns, b.path);
}

}  // namespace

void GapTimeline::charge(std::vector<GapPathTime>& path_times, std::uint64_t ns, std::uint32_t path,
                         double ran) {
  if (ns == 0) return;
  const std::uint64_t cpu_ns = share_of(ns, ran);
  for (GapPathTime& time : path_times) {
    if (time.path == path) {
      time.wall_ns += ns;
      time.cpu_ns += cpu_ns;
      return;
    }
  }
  if (path_times.size() == kMaxPathsOfOpenGap) {
    std::nth_element(path_times.begin(), path_times.begin() + kMaxPathsOfOpenGap / 2, path_times.end(),
                     larger);
    path_times.resize(kMaxPathsOfOpenGap / 2);
  }
  path_times.push_back({path, ns, cpu_ns});
}

double GapTimeline::ran_outside(std::uint64_t begin_ns, std::uint64_t end_ns, double ran) const {
  if (ran <= 0 || ran >= 1 || end_ns <= begin_ns) return ran;
  std::uint64_t outside_ns = overlap(begin_ns, end_ns, call_.exit_ns, end_ns);
  for (const Call& call : waiting_) outside_ns += overlap(begin_ns, end_ns, call.gap_begin_ns, call.enter_ns);
  if (outside_ns == 0) return ran;
  const double ran_ns = ran * static_cast<double>(end_ns - begin_ns);
  return std::min(ran_ns / static_cast<double>(outside_ns), 1.0);
}

void GapTimeline::begin_call(const wire::MpiEvent& event) {
  const std::uint64_t gap_ns = event.enter_ns > call_.exit_ns ? event.enter_ns - call_.exit_ns : 0;
  // MPI calls in between that have no event.
  const std::uint64_t mpi_until_gap_ns = call_.mpi_ns + (call_.exit_ns - call_.enter_ns);
  const std::uint64_t mpi_ns =
      event.mpi_ns > mpi_until_gap_ns ? std::min(event.mpi_ns - mpi_until_gap_ns, gap_ns) : 0;
  Call& call = waiting_.emplace_back(Call{call_.exit_ns, event.enter_ns, gap_ns - mpi_ns, 1, {}});
  call.path_times = std::exchange(settled_, {});
  std::size_t kept = 0;
  for (const Interval& interval : open_) {
    const std::uint64_t ns = overlap(interval.begin_ns, interval.end_ns, call.gap_begin_ns, call.enter_ns);
    charge(call.path_times, share_of(ns, interval.share), interval.path, interval.ran);
    if (interval.end_ns > event.exit_ns) {
      open_[kept++] = {std::max(interval.begin_ns, event.exit_ns), interval.end_ns, interval.path,
                       interval.share, interval.ran};
    }
  }
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(kept), open_.end());
  call_ = {event.enter_ns, event.exit_ns, event.mpi_ns};
  any_call_ = true;
}

void GapTimeline::finish_gap() {
  Call& call = waiting_.front();
  std::uint64_t sum = 0;
  for (const GapPathTime& time : call.path_times) sum += time.wall_ns;
  if (sum > call.outside_ns) {
    const double scale = static_cast<double>(call.outside_ns) / static_cast<double>(sum);
    for (GapPathTime& time : call.path_times) {
      time.wall_ns = static_cast<std::uint64_t>(static_cast<double>(time.wall_ns) * scale);
      time.cpu_ns = static_cast<std::uint64_t>(static_cast<double>(time.cpu_ns) * scale);
    }
    std::erase_if(call.path_times, [](const GapPathTime& time) { return time.wall_ns == 0; });
  }
  std::sort(call.path_times.begin(), call.path_times.end(), larger);
  if (call.path_times.size() > most_paths_) call.path_times.resize(most_paths_);
}

}  // namespace clusterprof::collector
