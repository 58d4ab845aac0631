// SPDX-License-Identifier: BSD-3-Clause
// Synthetic runs for tests of the analysis of waiting: events with true times, recorded by clocks that are
// wrong.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregator/merger.hpp"
#include "aggregator/wait_analyser.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::aggregator::test {

using wire::MpiEventKind;

inline constexpr std::int64_t kMs = 1'000'000;

struct MadeEvent {
  MpiEventKind kind = MpiEventKind::kSend;
  // The call path is one frame with the name of the site; of an MPI function below "calls MPI_...".
  std::string op, site;
  std::int64_t enter = 0, exit = 0;
  std::int32_t peer = -1, tag = 0;
  std::uint32_t sequence = 0;
  std::int64_t start = -1;  // -1: enter
  std::uint8_t flags = 0;
  std::uint64_t channel = 1;
  std::uint32_t thread = 0;
  // Since the call before. Names of MPI functions: calls without events, which are in MPI. "ready in work":
  // in work(), without a processor.
  std::vector<std::pair<std::string, std::int64_t>> gap = {};
  std::int64_t other_calls_ns = 0;  // since the call before, in calls without events that `gap` leaves out
  std::int64_t paused_ns = 0;       // since the call before, up to `resumed`
  std::int64_t resumed = 0;
};

inline MadeEvent made_call(MpiEventKind kind, const std::string& op, std::int64_t enter, std::int64_t exit,
                           std::uint32_t sequence, std::int32_t peer = -1) {
  MadeEvent made;
  made.kind = kind;
  made.op = made.site = op;
  made.enter = enter, made.exit = exit;
  made.peer = peer;
  made.sequence = sequence;
  return made;
}

struct MadeClock {
  std::int64_t ahead = 0;
  double drift = 0;
  [[nodiscard]] std::int64_t local(std::int64_t ns) const {
    return 100'000'000'000'000 + ns + ahead + std::llround(drift * static_cast<double>(ns));
  }
};

class MadeRun {
 public:
  // Rank r is on node r / ranks_per_node.
  MadeRun(std::int32_t ranks, std::int32_t ranks_per_node)
      : per_node_(ranks_per_node), events_(static_cast<std::size_t>(ranks)) {
    clocks.resize(static_cast<std::size_t>((ranks + ranks_per_node - 1) / ranks_per_node));
    sizes[1] = static_cast<std::uint32_t>(ranks);
  }
  explicit MadeRun(std::int32_t ranks) : MadeRun(ranks, ranks) {}

  void add(std::int32_t rank, MadeEvent event) {
    if (event.start < 0) event.start = event.enter;
    events_[static_cast<std::size_t>(rank)].push_back(std::move(event));
  }
  void send(std::int32_t rank, std::int32_t to, std::int64_t enter, std::int64_t exit,
            std::uint32_t sequence = 0) {
    add(rank, {MpiEventKind::kSend, "MPI_Send", "MPI_Send", enter, exit, to, 0, sequence});
  }
  void receive(std::int32_t rank, std::int32_t from, std::int64_t enter, std::int64_t exit,
               std::uint32_t sequence = 0) {
    add(rank, {MpiEventKind::kReceive, "MPI_Recv", "MPI_Recv", enter, exit, from, 0, sequence});
  }
  void collective(std::int32_t rank, const std::string& op, std::int64_t enter, std::int64_t exit,
                  std::uint32_t sequence, std::int32_t root = -1) {
    add(rank, {MpiEventKind::kCollective, op, op, enter, exit, root, 0, sequence});
  }
  // The rank's node against the reference rank's, `wrong` off, at most `error` by its own account.
  void measure_clock(std::int32_t rank, std::int32_t reference, std::int64_t at, std::int64_t wrong,
                     std::int64_t error) {
    measurements_.push_back({rank, reference, at, wrong, error});
  }

  [[nodiscard]] std::vector<shard::ShardData> shards() const {
    std::vector<shard::ShardData> all;
    for (std::size_t n = 0; n < clocks.size(); ++n) {
      shard::ShardData& data = all.emplace_back();
      data.run.id = "made";
      data.run.world_size = world_size != 0 ? world_size : static_cast<std::uint32_t>(events_.size());
      shard::Node node;
      node.name = "n" + std::to_string(1000 + n);
      data.nodes = {node};
      shard::PathInterner interner(data);
      const auto path = [&](const std::string& name) {
        const bool mpi = name.starts_with("MPI_"), ready = name.starts_with(kReadyIn);
        const auto below = [&](std::uint32_t parent, shard::FrameKind kind, const std::string& function) {
          return interner.path(parent, interner.frame({kind, false, interner.string(function)}));
        };
        if (ready)
          return below(below(0, shard::FrameKind::kNative, name.substr(kReadyIn.size())),
                       shard::FrameKind::kKernel, std::string(shard::kRunnableName));
        return mpi ? below(below(0, shard::FrameKind::kNative, "calls " + name), shard::FrameKind::kMpi, name)
                   : below(0, shard::FrameKind::kNative, name);
      };
      const auto cpu_ns = [&](const std::string& name, std::int64_t ns) {
        if (name.starts_with("MPI_") || name.starts_with(kReadyIn)) return std::uint64_t{0};
        const auto share = ran.find(name);
        return static_cast<std::uint64_t>(
            std::llround(static_cast<double>(ns) * (share == ran.end() ? 1.0 : share->second)));
      };
      std::map<std::uint64_t, std::uint32_t> channels;
      for (const auto& [identity, size] : sizes) {
        channels[identity] = static_cast<std::uint32_t>(data.communicators.size());
        data.communicators.push_back({identity, size, ""});
      }
      const auto first = static_cast<std::int32_t>(n) * per_node_;
      for (std::int32_t r = first; r < first + per_node_ && r < static_cast<std::int32_t>(events_.size());
           ++r) {
        if (left_out.contains(r)) continue;
        const std::vector<MadeEvent>& events = events_[static_cast<std::size_t>(r)];
        shard::Rank rank;
        rank.rank = r;
        rank.flags = shard::kUsedMpi | shard::kExitStatusKnown;
        rank.event_level = level;
        if (const auto known = restarts.find(r); known != restarts.end()) rank.restart = known->second;
        const auto index = static_cast<std::uint32_t>(data.ranks.size());
        std::map<std::pair<std::uint32_t, std::uint32_t>, shard::MpiCall> calls;
        std::map<std::uint32_t, std::int64_t> mpi_ns, paused_ns;
        std::int64_t resumed = 0;
        const MadeClock& clock = clocks[n];
        std::int64_t last = 0;
        for (std::uint32_t thread = 0; thread < 4; ++thread) {
          const MadeEvent* before = nullptr;
          for (const MadeEvent& event : events) {
            if (event.thread != thread) continue;
            const bool new_call =
                before == nullptr || before->enter != event.enter || before->exit != event.exit;
            if (before != nullptr && new_call)
              mpi_ns[thread] += clock.local(before->exit) - clock.local(before->enter);
            for (const auto& [name, ns] : event.gap)
              if (name.starts_with("MPI_")) mpi_ns[thread] += ns;
            mpi_ns[thread] += event.other_calls_ns;
            paused_ns[thread] += event.paused_ns;
            if (event.paused_ns != 0) resumed = event.resumed;
            if (new_call) {
              shard::MpiCall& call =
                  calls.try_emplace({path(event.site), channels.at(event.channel)}).first->second;
              ++call.count;
            }
            before = &event;
            last = std::max(last, event.exit);
            if (event.kind != MpiEventKind::kSendDone && event.kind != MpiEventKind::kCollectiveDone &&
                event.kind != MpiEventKind::kProbe)
              ++rank.mpi_operations;
            const std::uint64_t stream =
                wire::event_stream(event.kind, event.channel, r, event.peer, event.tag, event.flags);
            const bool in_stretch = stretch_period != 0 && event.exit % stretch_period < stretch_length;
            if (!in_stretch && !wire::event_is_selected(stream, event.sequence, level)) continue;
            for (const auto& [name, ns] : event.gap)
              data.event_gaps.push_back({static_cast<std::uint32_t>(data.mpi_events.size()), path(name),
                                         static_cast<std::uint64_t>(ns), cpu_ns(name, ns)});
            shard::MpiEvent& row = data.mpi_events.emplace_back();
            row.rank = index;
            row.thread = thread;
            row.path = path(event.site);
            row.communicator = channels.at(event.channel);
            row.op = interner.string(event.op);
            row.kind = static_cast<std::uint8_t>(event.kind);
            row.flags = event.flags;
            row.peer = event.peer;
            row.tag = event.tag;
            row.sequence = event.sequence;
            row.enter_ns = static_cast<std::uint64_t>(clock.local(event.enter));
            row.exit_ns = static_cast<std::uint64_t>(clock.local(event.exit));
            row.start_ns = static_cast<std::uint64_t>(clock.local(event.start));
            row.mpi_ns = static_cast<std::uint64_t>(mpi_ns[thread] + paused_ns[thread]);
            row.paused_ns = static_cast<std::uint64_t>(paused_ns[thread]);
            if (paused_ns[thread] != 0) row.resumed_ns = static_cast<std::uint64_t>(clock.local(resumed));
          }
          if (before != nullptr) mpi_ns[thread] += clock.local(before->exit) - clock.local(before->enter);
        }
        const auto begin = begins.find(r), end = ends.find(r);
        const std::int64_t began = begin == begins.end() ? 0 : begin->second;
        rank.start_utc_ns = 1'700'000'000'000'000'000 + began;
        rank.elapsed_ns = static_cast<std::uint64_t>((end == ends.end() ? last : end->second) - began);
        rank.mpi_ns = static_cast<std::uint64_t>(mpi_ns[0]);
        const auto paused_elsewhere = other_pauses.find(r);
        rank.paused_ns = static_cast<std::uint64_t>(
            paused_ns[0] + (paused_elsewhere == other_pauses.end() ? 0 : paused_elsewhere->second));
        data.ranks.push_back(rank);
        for (const Number& number : numbers)
          if (number.rank == r)
            data.group_numbers.push_back({index, channels.at(number.channel), number.number});
        for (auto& [key, call] : calls) {
          call.rank = index;
          std::tie(call.path, call.communicator) = key;
          data.mpi_calls.push_back(call);
        }
        for (const Measurement& m : measurements_) {
          if (m.rank != r) continue;
          const MadeClock& other = clocks[static_cast<std::size_t>(m.reference / per_node_)];
          data.clock_offsets.push_back({index, m.reference, static_cast<std::uint64_t>(clock.local(m.at)),
                                        other.local(m.at) - clock.local(m.at) + m.wrong,
                                        static_cast<std::uint64_t>(m.error)});
        }
      }
    }
    return all;
  }

  static shard::ShardData analyse(const std::vector<shard::ShardData>& shards, bool backwards = false) {
    Merger merger;
    WaitAnalyser analyser;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const shard::ShardData& shard = shards[backwards ? shards.size() - 1 - i : i];
      merger.add(shard);
      analyser.add(shard);
    }
    shard::ShardData merged = merger.finish();
    analyser.finish(merged);
    return merged;
  }
  [[nodiscard]] shard::ShardData analyse() const { return analyse(shards()); }

  std::vector<MadeClock> clocks;                 // per node
  std::map<std::uint64_t, std::uint32_t> sizes;  // per channel
  // Above level 0 all events are kept of the first part of each period.
  std::int64_t stretch_period = 0, stretch_length = 0;
  std::map<std::int32_t, std::int64_t> begins, ends;
  std::map<std::int32_t, std::int64_t> other_pauses;  // per rank, what no event tells of
  std::map<std::int32_t, bool> left_out;              // ranks that no shard has
  std::map<std::int32_t, std::uint32_t> restarts;     // by rank
  struct Number {                                     // of a rank on a channel
    std::int32_t rank;
    std::uint64_t channel;
    std::int32_t number;
  };
  std::vector<Number> numbers;
  std::uint32_t world_size = 0, level = 0;
  std::map<std::string, double> ran;  // the share of a function's time on a processor; otherwise 1

 private:
  static constexpr std::string_view kReadyIn = "ready in ";
  struct Measurement {
    std::int32_t rank, reference;
    std::int64_t at, wrong, error;
  };
  std::int32_t per_node_;
  std::vector<std::vector<MadeEvent>> events_;
  std::vector<Measurement> measurements_;
};

inline std::string name_of(const shard::ShardData& data, std::uint32_t path) {
  const std::uint32_t frame = data.paths[path].frame;
  return frame == shard::kNone ? "?" : data.strings[data.frames[frame].name];
}

// Rows as text and amount, for comparison: "1 MPI_Recv late_sender 0 work" -> ns.
inline std::map<std::string, std::int64_t> waits_of(const shard::ShardData& data) {
  std::map<std::string, std::int64_t> rows;
  for (const shard::WaitState& row : data.wait_states)
    rows[std::to_string(data.ranks[row.rank].rank) + " " + name_of(data, row.path) + " " +
         shard::kWaitKindNames[static_cast<std::size_t>(row.kind)] + " " +
         std::to_string(data.ranks[row.cause_rank].rank) + " " + name_of(data, row.cause_path)] +=
        static_cast<std::int64_t>(row.wait_ns);
  return rows;
}
inline std::map<std::string, std::int64_t> roots_of(const shard::ShardData& data) {
  std::map<std::string, std::int64_t> rows;
  for (const shard::RootCause& row : data.root_causes)
    rows[std::to_string(data.ranks[row.rank].rank) + " " + name_of(data, row.path)] =
        static_cast<std::int64_t>(row.wait_ns);
  return rows;
}
inline std::map<std::string, std::int64_t> critical_of(const shard::ShardData& data) {
  std::map<std::string, std::int64_t> rows;
  for (const shard::CriticalTime& row : data.critical_times)
    rows[std::to_string(data.ranks[row.rank].rank) + " " + name_of(data, row.path)] =
        static_cast<std::int64_t>(row.wall_ns);
  return rows;
}

}  // namespace clusterprof::aggregator::test
