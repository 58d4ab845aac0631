// SPDX-License-Identifier: BSD-3-Clause
// Threads of one process that make and join each other, replayed with other costs: a thread begins when
// another one makes it, and a join ends no earlier than the thread that is joined. docs/whatif.md, "Threads
// of a process".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

class ForkJoin {
 public:
  // What the time of a thread on a path is multiplied by; `span`: a row of the spans.
  using Factor = std::function<double(std::uint32_t thread, std::uint32_t span, std::uint32_t path)>;
  // A part of the main thread's life: spans first .. end, from begin_ns on (of the node's clock).
  struct Window {
    std::uint32_t first = 0, end = 0;
    std::int64_t begin_ns = 0;
  };

  ForkJoin() = default;
  ForkJoin(const shard::ShardData& merged, double period_s);

  [[nodiscard]] bool is_known(std::uint32_t rank) const { return ranks_.contains(rank); }
  // All spans of the main thread; of ranks that are known, like all below.
  [[nodiscard]] Window life_of_main(std::uint32_t rank) const;
  // The spans of the main thread that end with a call between the two times.
  [[nodiscard]] Window between(std::uint32_t rank, std::int64_t begin_ns, std::int64_t end_ns) const;
  // The numbers of the threads that the main thread both makes and joins there, and of those that these do.
  [[nodiscard]] std::vector<std::uint32_t> joined_in(std::uint32_t rank, const Window& window) const;
  // When the last of the main thread's calls there returned.
  [[nodiscard]] std::int64_t last_ns(const Window& window) const;

  // How long the window takes the main thread until the last call returns. `own`: what its own time is
  // multiplied by; without a value, by `factor` of each path. Other threads take part if they are made there.
  [[nodiscard]] double play(std::uint32_t rank, const Window& window, std::optional<double> own,
                            const Factor& factor) const;

  // Threads that make MPI calls themselves are played by the replay of these: here they take as long as they
  // did. Of those that the main thread has made:
  struct Caller {
    std::uint32_t mpi_thread = 0;  // as shard::MpiEvent::thread
    std::int64_t created_ns = 0;   // when the main thread called what made it
    std::int64_t begin_ns = 0, end_ns = 0;
    std::int64_t join_ns = 0, joined_ns = 0;  // when the main thread began to join it, and had; 0: it has not
  };
  [[nodiscard]] std::vector<Caller> callers(std::uint32_t rank) const;

  // visit(thread, span, path, ns): what samples say of all threads of the rank.
  template <typename Visit>
  void for_each_part(std::uint32_t rank, const Visit& visit) const {
    for (const Thread& thread : ranks_.at(rank).threads)
      for (std::uint32_t s = thread.first; s < thread.end; ++s)
        for (std::uint32_t p = spans_[s].first; p < spans_[s].first + spans_[s].count; ++p)
          visit(thread.number, s, parts_[p].path, parts_[p].share * length_of(spans_[s]));
  }
  // Threads that are made together, until they are joined: the number of the group that a span of one of them
  // belongs to, and of the spans that the thread which makes them has meanwhile. 0: to none.
  [[nodiscard]] std::uint32_t group_of(std::uint32_t span) const { return spans_[span].group; }

 private:
  static constexpr std::uint32_t kNobody = shard::kNone;

  struct Part {
    std::uint32_t path = 0;
    double share = 0;  // of the span's length
  };
  struct Span {
    shard::SpanEnd how = shard::SpanEnd::kEnd;
    std::uint32_t other = kNobody;       // row of Rank::threads
    std::uint32_t first = 0, count = 0;  // rows of parts_
    std::uint32_t group = 0;
    std::int64_t begin_ns = 0, call_ns = 0, end_ns = 0;
  };
  struct Thread {
    std::uint32_t number = 0, first = 0, end = 0;  // rows of spans_
    std::uint32_t creator = kNobody;               // row of Rank::threads
    std::uint32_t mpi_thread = shard::kNone;
    double waits_ns = 0;  // for other threads, but in joins
  };
  struct Rank {
    std::vector<Thread> threads;
  };
  struct State;

  static double length_of(const Span& span) { return static_cast<double>(span.call_ns - span.begin_ns); }
  void divide(const shard::ShardData& merged, double period_s, std::uint32_t rank,
              const std::vector<std::pair<std::size_t, std::size_t>>& times);
  void find_groups(const Rank& rank);
  void find_waits(const shard::ShardData& merged, Rank& rank) const;
  void advance(State& state, std::uint32_t thread) const;
  [[nodiscard]] double work_ns(const State& state, std::uint32_t thread, std::uint32_t span,
                               std::int64_t from_ns) const;

  std::vector<Span> spans_;
  std::vector<Part> parts_;
  std::unordered_map<std::uint32_t, Rank> ranks_;
  std::uint32_t groups_ = 0;
};

}  // namespace clusterprof::aggregator::whatif
