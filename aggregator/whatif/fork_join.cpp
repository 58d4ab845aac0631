// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/fork_join.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "aggregator/whatif/few_samples.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

std::int64_t span_time(std::uint64_t ns) {
  return static_cast<std::int64_t>(std::min(ns, static_cast<std::uint64_t>(std::int64_t{1} << 60)));
}

}  // namespace

ForkJoin::ForkJoin(const shard::ShardData& merged, double period_s) {
  const std::vector<shard::ThreadSpan>& rows = merged.thread_spans;
  std::size_t time = 0;
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    const std::uint32_t number = rows[first].rank;
    while (end < rows.size() && rows[end].rank == number) ++end;
    const shard::Rank& of = merged.ranks[number];
    if ((of.flags & shard::kStillRan) != 0 || of.paused_ns != 0 || of.standby_ns != 0 ||
        rows[first].thread != 0)
      continue;
    Rank rank;
    std::unordered_map<std::uint32_t, std::uint32_t> row_of;  // by the thread's number
    std::vector<std::pair<std::size_t, std::size_t>> times;   // per span: rows of span_times
    const auto first_span = static_cast<std::uint32_t>(spans_.size());
    for (std::size_t i = first; i < end; ++i) {
      const shard::ThreadSpan& row = rows[i];
      const auto span = static_cast<std::uint32_t>(spans_.size());
      if (rank.threads.empty() || rank.threads.back().number != row.thread) {
        row_of.emplace(row.thread, static_cast<std::uint32_t>(rank.threads.size()));
        rank.threads.push_back({row.thread, span, span, kNobody, row.mpi_thread, 0});
      }
      rank.threads.back().end = span + 1;
      Span& made = spans_.emplace_back();
      made.how = row.how;
      made.other = row.how == shard::SpanEnd::kEnd ? kNobody : row.other;
      // Whatever the file says, a thread's spans follow each other.
      made.begin_ns = span_time(row.begin_ns);
      if (rank.threads.back().first != span) made.begin_ns = std::max(made.begin_ns, spans_[span - 1].end_ns);
      made.call_ns = std::max(span_time(row.call_ns), made.begin_ns);
      made.end_ns = std::max(span_time(row.end_ns), made.call_ns);
      const auto place = std::tuple(row.rank, row.thread, row.number);
      const auto place_of = [&](std::size_t t) {
        const shard::SpanTime& other = merged.span_times[t];
        return std::tuple(other.rank, other.thread, other.number);
      };
      while (time < merged.span_times.size() && place_of(time) < place) ++time;
      const std::size_t first_time = time;
      while (time < merged.span_times.size() && place_of(time) == place) ++time;
      times.emplace_back(first_time, time);
    }
    for (std::uint32_t t = 0; t < rank.threads.size(); ++t)
      for (std::uint32_t s = rank.threads[t].first; s < rank.threads[t].end; ++s) {
        Span& span = spans_[s];
        const auto found = row_of.find(span.other);
        span.other = found == row_of.end() || found->second == t ? kNobody : found->second;
        if (span.how == shard::SpanEnd::kCreate && span.other != kNobody && span.other != 0 &&
            rank.threads[span.other].creator == kNobody)
          rank.threads[span.other].creator = t;
      }
    const bool has_ended = spans_[rank.threads.front().end - 1].how == shard::SpanEnd::kEnd;
    if (!has_ended) {
      spans_.resize(first_span);
      continue;
    }
    divide(merged, period_s, number, times);
    find_groups(rank);
    find_waits(merged, rank);
    ranks_.emplace(number, std::move(rank));
  }
}

// Divides each of the latest spans by its own samples, or if these are few by those of all short spans of the
// rank that end alike, of the main thread or of the others.
void ForkJoin::divide(const shard::ShardData& merged, double period_s, std::uint32_t rank,
                      const std::vector<std::pair<std::size_t, std::size_t>>& times) {
  const auto first_span = static_cast<std::uint32_t>(spans_.size() - times.size());
  const double few_ns = kFewSamples * period_s * 1e9, aside_ns = kSamplesAside * period_s * 1e9;
  using Times = std::map<std::uint32_t, double>;  // ns by path
  struct Kind {
    Times few, many;
    double few_ns = 0;
    std::pair<std::uint32_t, std::uint32_t> parts{0, 0};
    bool is_divided = false;
  };
  std::map<std::pair<bool, shard::SpanEnd>, Kind> kinds;
  std::vector<bool> is_main(times.size());
  const auto kind_of = [&](std::size_t i) -> Kind& {
    return kinds[{is_main[i], spans_[first_span + i].how}];
  };
  for (std::size_t i = 0; i < times.size(); ++i) {
    is_main[i] = i == 0 || (is_main[i - 1] && spans_[first_span + i - 1].how != shard::SpanEnd::kEnd);
    Kind& kind = kind_of(i);
    const bool is_short = length_of(spans_[first_span + i]) < few_ns;
    for (std::size_t t = times[i].first; t < times[i].second; ++t) {
      const shard::SpanTime& row = merged.span_times[t];
      if (row.rank != rank) continue;
      (is_short ? kind.few : kind.many)[row.path] += static_cast<double>(row.wall_ns);
      if (is_short) kind.few_ns += static_cast<double>(row.wall_ns);
    }
  }
  const auto add = [&](const Times& of, double left_ns) {
    double all = left_ns;
    for (const auto& [path, ns] : of) all += ns;
    const auto first = static_cast<std::uint32_t>(parts_.size());
    for (const auto& [path, ns] : of)
      if (all > 0) parts_.push_back({path, ns / all});
    return std::pair(first, static_cast<std::uint32_t>(parts_.size()) - first);
  };
  for (std::size_t i = 0; i < times.size(); ++i) {
    Span& span = spans_[first_span + i];
    if (length_of(span) >= few_ns) {
      Times own;
      double sampled_ns = 0;
      for (std::size_t t = times[i].first; t < times[i].second; ++t) {
        const shard::SpanTime& row = merged.span_times[t];
        own[row.path] += static_cast<double>(row.wall_ns);
        sampled_ns += static_cast<double>(row.wall_ns);
      }
      // What is more than samples can be wrong by is nobody's.
      const double left_ns = length_of(span) - sampled_ns;
      std::tie(span.first, span.count) = add(own, sampled_ns > 0 && left_ns > aside_ns ? left_ns : 0);
      continue;
    }
    Kind& kind = kind_of(i);
    if (!kind.is_divided) {
      kind.is_divided = true;
      if (kind.few_ns < few_ns)
        for (const auto& [path, ns] : kind.many) kind.few[path] += ns;
      kind.parts = add(kind.few, 0);
    }
    std::tie(span.first, span.count) = kind.parts;
  }
}

void ForkJoin::find_groups(const Rank& rank) {
  for (const Thread& thread : rank.threads) {
    std::uint32_t group = 0, first = thread.end, last = thread.end;
    const auto close = [&] {
      // Until the last join the thread works beside those that it has made.
      if (last != thread.end)
        for (std::uint32_t s = first; s <= last; ++s) spans_[s].group = group;
      group = 0;
      first = last = thread.end;
    };
    for (std::uint32_t s = thread.first; s < thread.end; ++s) {
      const Span& span = spans_[s];
      if (span.other == kNobody) continue;
      if (span.how == shard::SpanEnd::kCreate) {
        if (last != thread.end) close();
        if (group == 0) {
          group = ++groups_;
          first = s + 1;
        }
        const Thread& other = rank.threads[span.other];
        for (std::uint32_t o = other.first; o < other.end; ++o)
          if (spans_[o].group == 0) spans_[o].group = group;
      } else if (span.how == shard::SpanEnd::kJoin && group != 0) {
        last = s;
      }
    }
    close();
  }
}

// Waiting for other threads is in the kernel's futex calls.
void ForkJoin::find_waits(const shard::ShardData& merged, Rank& rank) const {
  const auto is_futex = [&](std::uint32_t path) {
    for (int steps = 0; steps < 2 && path != 0; ++steps, path = merged.paths[path].parent) {
      const std::uint32_t frame = merged.paths[path].frame;
      if (frame == shard::kNone || merged.frames[frame].kind != shard::FrameKind::kKernel) return false;
      const std::string_view name = merged.strings[merged.frames[frame].name];
      if (name == "futex" || name == "futex_wait") return true;
    }
    return false;
  };
  for (Thread& thread : rank.threads)
    for (std::uint32_t s = thread.first; s < thread.end; ++s)
      for (std::uint32_t p = spans_[s].first; p < spans_[s].first + spans_[s].count; ++p)
        if (is_futex(parts_[p].path)) thread.waits_ns += parts_[p].share * length_of(spans_[s]);
}

ForkJoin::Window ForkJoin::life_of_main(std::uint32_t rank) const {
  const Thread& main = ranks_.at(rank).threads.front();
  return {main.first, main.end, spans_[main.first].begin_ns};
}

ForkJoin::Window ForkJoin::between(std::uint32_t rank, std::int64_t begin_ns, std::int64_t end_ns) const {
  const Thread& main = ranks_.at(rank).threads.front();
  const auto begin = spans_.begin() + static_cast<std::ptrdiff_t>(main.first);
  const auto end = spans_.begin() + static_cast<std::ptrdiff_t>(main.end);
  const auto first = std::lower_bound(begin, end, begin_ns,
                                      [](const Span& span, std::int64_t ns) { return span.call_ns < ns; });
  const auto last = std::partition_point(first, end, [end_ns](const Span& span) {
    return span.end_ns <= end_ns && span.how != shard::SpanEnd::kEnd;
  });
  return {static_cast<std::uint32_t>(first - spans_.begin()),
          static_cast<std::uint32_t>(last - spans_.begin()), begin_ns};
}

std::vector<std::uint32_t> ForkJoin::joined_in(std::uint32_t rank, const Window& window) const {
  std::vector<std::uint32_t> joined;
  if (window.first == window.end) return joined;
  const std::vector<Thread>& threads = ranks_.at(rank).threads;
  std::unordered_set<std::uint32_t> made, known;
  std::vector<std::uint32_t> rows;
  const auto look = [&](std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t s = first; s < end; ++s) {
      if (spans_[s].other == kNobody) continue;
      if (spans_[s].how == shard::SpanEnd::kCreate) made.insert(spans_[s].other);
      // A thread is joined once.
      if (spans_[s].how == shard::SpanEnd::kJoin && made.contains(spans_[s].other) &&
          threads[spans_[s].other].mpi_thread == shard::kNone && known.insert(spans_[s].other).second)
        rows.push_back(spans_[s].other);
    }
  };
  look(window.first, window.end);
  for (std::size_t i = 0; i < rows.size(); ++i) look(threads[rows[i]].first, threads[rows[i]].end);
  for (const std::uint32_t row : rows) joined.push_back(threads[row].number);
  std::sort(joined.begin(), joined.end());
  return joined;
}

std::vector<ForkJoin::Caller> ForkJoin::callers(std::uint32_t rank) const {
  const std::vector<Thread>& threads = ranks_.at(rank).threads;
  const Thread& main = threads.front();
  std::map<std::uint32_t, Caller> by_row;
  for (std::uint32_t s = main.first; s < main.end; ++s) {
    const Span& span = spans_[s];
    if (span.other == kNobody || span.other == 0 || threads[span.other].mpi_thread == shard::kNone) continue;
    const Thread& other = threads[span.other];
    if (span.how == shard::SpanEnd::kCreate) {
      by_row.try_emplace(span.other, Caller{other.mpi_thread, span.call_ns, spans_[other.first].begin_ns,
                                            spans_[other.end - 1].end_ns, 0, 0});
    } else if (const auto found = by_row.find(span.other);
               found != by_row.end() && found->second.joined_ns == 0) {
      found->second.join_ns = span.call_ns;
      found->second.joined_ns = span.end_ns;
    }
  }
  std::vector<Caller> all;
  for (const auto& [row, caller] : by_row) all.push_back(caller);
  return all;
}

std::int64_t ForkJoin::last_ns(const Window& window) const {
  return window.first == window.end ? window.begin_ns : spans_[window.end - 1].end_ns;
}

struct ForkJoin::State {
  struct Running {
    bool has_begun = false, runs = false, has_ended = false;
    double clock_ns = 0;
  };
  const Rank& rank;
  const Window& window;
  std::optional<double> own;
  const Factor& factor;
  std::vector<Running> threads;
};

double ForkJoin::work_ns(const State& state, std::uint32_t thread, std::uint32_t s,
                         std::int64_t from_ns) const {
  const Span& span = spans_[s];
  const auto length_ns = static_cast<double>(std::max<std::int64_t>(span.call_ns - from_ns, 0));
  if (thread == 0 && state.own) return length_ns * *state.own;
  double left = 1, sum = 0;
  for (std::uint32_t p = span.first; p < span.first + span.count; ++p) {
    sum += parts_[p].share * state.factor(state.rank.threads[thread].number, s, parts_[p].path);
    left -= parts_[p].share;
  }
  return length_ns * (sum + std::max(left, 0.0));
}

// Runs a thread that has begun to its end; the main thread, to that of the window.
void ForkJoin::advance(State& state, std::uint32_t t) const {
  const Thread& thread = state.rank.threads[t];
  State::Running& own = state.threads[t];
  own.runs = true;
  const std::uint32_t first = t == 0 ? state.window.first : thread.first;
  const std::uint32_t end = t == 0 ? state.window.end : thread.end;
  for (std::uint32_t s = first; s < end; ++s) {
    const Span& span = spans_[s];
    const std::int64_t from_ns =
        t == 0 && s == first ? std::max(span.begin_ns, state.window.begin_ns) : span.begin_ns;
    own.clock_ns += work_ns(state, t, s, from_ns);
    const auto call_ns = static_cast<double>(span.end_ns - span.call_ns);
    if (span.other == kNobody || span.how == shard::SpanEnd::kEnd) {
      own.clock_ns += call_ns;
      continue;
    }
    const Thread& other = state.rank.threads[span.other];
    State::Running& with = state.threads[span.other];
    if (span.how == shard::SpanEnd::kCreate) {
      if (!with.has_begun && other.creator == t && other.mpi_thread == shard::kNone) {
        with.has_begun = true;
        with.clock_ns = own.clock_ns + static_cast<double>(std::max<std::int64_t>(
                                           spans_[other.first].begin_ns - span.call_ns, 0));
      }
      own.clock_ns += call_ns;
      continue;
    }
    if (!with.has_begun && other.creator != kNobody && state.threads[other.creator].has_begun &&
        !state.threads[other.creator].runs)
      advance(state, other.creator);
    if (with.has_begun && !with.runs) advance(state, span.other);
    if (!with.has_ended) {  // it was made elsewhere
      own.clock_ns += call_ns;
      continue;
    }
    // A thread that waits for others, and for whose end this one hardly had to wait, has waited for this one:
    // then it ends as much earlier as this one comes, as far as it waits.
    const std::int64_t ended_ns = spans_[other.end - 1].end_ns;
    const auto waited_ns = static_cast<double>(std::max<std::int64_t>(ended_ns - span.call_ns, 0));
    const double elastic_ns = std::max(other.waits_ns - waited_ns, 0.0);
    const double ends_ns =
        std::max(with.clock_ns - elastic_ns, std::min(with.clock_ns, own.clock_ns + waited_ns));
    own.clock_ns = std::max(own.clock_ns, ends_ns) + static_cast<double>(std::max<std::int64_t>(
                                                         span.end_ns - std::max(ended_ns, span.call_ns), 0));
  }
  own.has_ended = true;
}

double ForkJoin::play(std::uint32_t rank, const Window& window, std::optional<double> own,
                      const Factor& factor) const {
  const Rank& of = ranks_.at(rank);
  State state{of, window, own, factor, std::vector<State::Running>(of.threads.size())};
  state.threads[0].has_begun = true;
  advance(state, 0);
  return state.threads[0].clock_ns;
}

}  // namespace clusterprof::aggregator::whatif
