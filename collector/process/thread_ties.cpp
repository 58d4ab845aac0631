// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/thread_ties.hpp"

#include <algorithm>
#include <tuple>

namespace clusterprof::collector {

void ThreadTies::begin(ThreadTimeline& thread, bool main, std::int32_t tid, std::uint64_t begin_ns) {
  thread = ThreadTimeline();
  if (too_many_) return;
  // A process that executes another program has a further main thread.
  const bool first_main = main && threads_.front().tid == 0;
  if (!first_main && threads_.size() == kMaxThreads) return give_up();
  const auto number = first_main ? 0u : static_cast<std::uint32_t>(threads_.size());
  if (!first_main) threads_.emplace_back();
  threads_[number] = {tid, begin_ns, begin_ns, 0, 0, 0, shard::kNone};
  thread.number = number;
  thread.timeline = GapTimeline(begin_ns, ThreadTimeline::kMostPaths);
}

bool ThreadTies::take(ThreadTimeline& thread, const wire::ThreadTie& tie, std::uint64_t latest_ns) {
  if (!thread.number || too_many_) return true;
  if (tie.begin_ns > tie.end_ns || tie.end_ns > latest_ns) return false;
  Known& known = threads_[*thread.number];
  switch (static_cast<wire::ThreadTieKind>(tie.header.detail)) {
    case wire::ThreadTieKind::kBegan:
      known.created_ns = tie.begin_ns;
      known.creator = tie.creator;
      known.pthread = tie.thread;
      return true;
    case wire::ThreadTieKind::kCreated:
      put(thread, shard::SpanEnd::kCreate, tie.begin_ns, tie.end_ns, 0);
      return true;
    case wire::ThreadTieKind::kJoined:
      put(thread, shard::SpanEnd::kJoin, tie.begin_ns, tie.end_ns, tie.thread);
      return true;
    case wire::ThreadTieKind::kWoke:
    case wire::ThreadTieKind::kWokeAll:
    case wire::ThreadTieKind::kUnlocked:
      break;  // Wakes
  }
  return false;
}

// The timeline knows events of MPI. Of one that stands for a tie it needs the times; what else there is to
// know goes with it.
void ThreadTies::put(ThreadTimeline& thread, shard::SpanEnd how, std::uint64_t call_ns, std::uint64_t end_ns,
                     std::uint64_t pthread) {
  wire::MpiEvent event{};
  event.start_ns = call_ns;
  event.enter_ns = std::max(call_ns, thread.timeline.last_exit_ns());
  event.exit_ns = std::max(event.enter_ns, end_ns);
  event.op = static_cast<std::uint16_t>(how);
  event.channel = pthread;
  // Two calls with the same times would be one.
  event.exit_ns = std::max(event.exit_ns, thread.timeline.last_exit_ns() + 1);
  const std::uint32_t number = *thread.number;
  thread.timeline.event(
      event, [&](const wire::MpiEvent& of, std::span<const GapPathTime> times) { keep(number, of, times); });
}

void ThreadTies::sampled_until(ThreadTimeline& thread, std::uint64_t time_ns) {
  if (!thread.number || too_many_) return;
  thread.timeline.sampled_until(time_ns, [&](const wire::MpiEvent& of, std::span<const GapPathTime> times) {
    keep(*thread.number, of, times);
  });
}

void ThreadTies::end(ThreadTimeline& thread, std::uint64_t end_ns, std::optional<std::uint32_t> mpi_thread) {
  if (thread.number && !too_many_) {
    threads_[*thread.number].mpi_thread = mpi_thread.value_or(shard::kNone);
    put(thread, shard::SpanEnd::kEnd, end_ns, end_ns, 0);
    thread.timeline.flush([&](const wire::MpiEvent& of, std::span<const GapPathTime> times) {
      keep(*thread.number, of, times);
    });
  }
  thread.number.reset();
}

void ThreadTies::keep(std::uint32_t number, const wire::MpiEvent& event, std::span<const GapPathTime> times) {
  if (too_many_) return;
  if (spans_.size() == kMaxSpans) return give_up();
  Known& known = threads_[number];
  Span& row = spans_.emplace_back();
  row.pthread = event.channel;
  row.created_ns = event.start_ns;
  row.span.thread = number;
  row.span.how = static_cast<shard::SpanEnd>(event.op);
  row.span.begin_ns = known.span_ns;
  row.span.call_ns = std::max(event.enter_ns, known.span_ns);
  row.span.end_ns = std::max(event.exit_ns, row.span.call_ns);
  known.span_ns = row.span.end_ns;
  // The longest come first.
  const std::size_t most = times_ + times.size() <= kManyTimes ? times.size() : GapTimeline::kMaxPathsOfGap;
  row.span.times.assign(times.begin(),
                        times.begin() + static_cast<std::ptrdiff_t>(std::min(most, times.size())));
  times_ += row.span.times.size();
}

void ThreadTies::give_up() {
  too_many_ = true;
  spans_ = {};
  threads_ = {};
}

std::uint32_t ThreadTies::other_of(const Span& row) const {
  std::uint32_t found = shard::kNone;
  for (std::uint32_t number = 0; number < threads_.size(); ++number) {
    const Known& other = threads_[number];
    const bool is_meant =
        row.span.how == shard::SpanEnd::kCreate
            ? other.created_ns == row.created_ns && other.creator == threads_[row.span.thread].tid
            : row.pthread != 0 && other.pthread == row.pthread && other.begin_ns <= row.span.end_ns;
    // A thread that has been joined may leave its pthread_t to a later one.
    if (is_meant && (found == shard::kNone || threads_[found].begin_ns <= other.begin_ns)) found = number;
  }
  return found;
}

std::vector<RawThreadSpan> ThreadTies::spans() const {
  std::vector<RawThreadSpan> all;
  all.reserve(spans_.size());
  for (const Span& row : spans_) {
    all.push_back(row.span);
    all.back().mpi_thread = threads_[row.span.thread].mpi_thread;
    if (row.span.how != shard::SpanEnd::kEnd) all.back().other = other_of(row);
  }
  std::stable_sort(all.begin(), all.end(), [](const RawThreadSpan& a, const RawThreadSpan& b) {
    return std::tie(a.thread, a.begin_ns) < std::tie(b.thread, b.begin_ns);
  });
  return all;
}

}  // namespace clusterprof::collector
