// SPDX-License-Identifier: BSD-3-Clause
// github.com/google/perfetto, protos/perfetto/trace. Nothing here happened at an instant that was recorded
// but the start and the end of processes: all else are sums over the bins of a time axis.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/command_text.hpp"
#include "report/analysis/waiting.hpp"
#include "report/export/charged_rows.hpp"
#include "report/export/export.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report {
namespace {

using protozero::pbf_writer;
using shard::SeriesKind;
using shard::ShardData;

namespace field {
constexpr protozero::pbf_tag_type kPacket = 1;  // of Trace
enum TracePacket : protozero::pbf_tag_type {
  kClockSnapshot = 6,
  kTimestamp = 8,
  kTrustedPacketSequenceId = 10,
  kTrackEvent = 11,
  kTrackDescriptor = 60,
};
enum ClockSnapshot : protozero::pbf_tag_type { kClocks = 1, kPrimaryTraceClock = 2 };
enum Clock : protozero::pbf_tag_type { kClockId = 1, kClockTimestamp = 2 };
enum TrackDescriptor : protozero::pbf_tag_type {
  kUuid = 1,
  kTrackName = 2,
  kProcess = 3,
  kParentUuid = 5,
  kCounter = 8,
};
enum ProcessDescriptor : protozero::pbf_tag_type {
  kPid = 1,
  kCmdline = 2,
  kSortIndex = 3,
  kProcessName = 6,
  kStartTimestamp = 7,
  kProcessLabels = 8,
};
enum CounterDescriptor : protozero::pbf_tag_type { kUnit = 3, kUnitName = 6 };
enum TrackEvent : protozero::pbf_tag_type {
  kType = 9,
  kTrackUuid = 11,
  kCategories = 22,
  kEventName = 23,
  kDoubleCounterValue = 44,
};
}  // namespace field
constexpr std::int32_t kSliceBegin = 1, kSliceEnd = 2, kCounterType = 4;  // TrackEvent.Type
constexpr std::int32_t kSizeBytes = 3;                                    // CounterDescriptor.Unit
constexpr std::uint32_t kRealtime = 1, kBoottime = 6;                     // BuiltinClock

// How the values of a series are shown.
struct Shown {
  std::string name, unit;
  double factor = 1;  // of a bin's value
};

Shown shown(std::string_view name, SeriesKind kind, std::uint64_t bin_ns) {
  const double per_second = 1e9 / static_cast<double>(bin_ns);
  const auto without = [&](std::string_view end) {
    return std::string(name.substr(0, name.size() - end.size()));
  };
  if (kind == SeriesKind::kMaximum) {
    if (name.ends_with("_bytes")) return {without("_bytes"), "bytes", 1};
    return {std::string(name), "", 1};
  }
  if (name.ends_with("_ns")) return {without("_ns"), "%", 100 / static_cast<double>(bin_ns)};
  if (name.ends_with("_bytes")) return {without("_bytes"), "bytes/s", per_second};
  return {std::string(name), "1/s", per_second};
}

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const ExportSink& sink) : sink_(sink) {}

  // All times are of the real-time clock; the trace is told that the machine was started in 1970.
  void clocks(std::uint64_t utc_ns) {
    packet(utc_ns, [&](pbf_writer& packet) {
      pbf_writer snapshot(packet, field::kClockSnapshot);
      for (const std::uint32_t id : {kBoottime, kRealtime}) {
        pbf_writer clock(snapshot, field::kClocks);
        clock.add_uint32(field::kClockId, id);
        clock.add_uint64(field::kClockTimestamp, utc_ns);
      }
      snapshot.add_enum(field::kPrimaryTraceClock, kBoottime);
    });
  }
  template <typename Fill>
  std::uint64_t track(const std::string& name, std::uint64_t parent, const Fill& fill) {
    const std::uint64_t uuid = ++last_uuid_;
    packet({}, [&](pbf_writer& packet) {
      pbf_writer track(packet, field::kTrackDescriptor);
      track.add_uint64(field::kUuid, uuid);
      if (!name.empty()) track.add_string(field::kTrackName, format::replace_invalid(name));
      if (parent != 0) track.add_uint64(field::kParentUuid, parent);
      fill(track);
    });
    return uuid;
  }
  std::uint64_t counter(const std::string& name, const std::string& unit, std::uint64_t parent) {
    return track(unit.empty() ? name : name + " (" + unit + ")", parent, [&](pbf_writer& track) {
      pbf_writer counter(track, field::kCounter);
      if (unit == "bytes")
        counter.add_enum(field::kUnit, kSizeBytes);
      else
        counter.add_string(field::kUnitName, unit);
    });
  }
  void value(std::uint64_t track, std::uint64_t utc_ns, double value) {
    event(track, utc_ns, kCounterType,
          [&](pbf_writer& event) { event.add_double(field::kDoubleCounterValue, value); });
  }
  void slice(std::uint64_t track, std::uint64_t begin_ns, std::uint64_t end_ns, const std::string& name) {
    event(track, begin_ns, kSliceBegin, [&](pbf_writer& event) {
      event.add_string(field::kCategories, "clusterprof");
      event.add_string(field::kEventName, format::replace_invalid(name));
    });
    event(track, end_ns, kSliceEnd, [](pbf_writer&) {});
  }
  void finish() { flush(0); }

 private:
  static constexpr std::size_t kFlush_bytes = 1 << 16;

  template <typename Fill>
  void event(std::uint64_t track, std::uint64_t utc_ns, std::int32_t type, const Fill& fill) {
    packet(utc_ns, [&](pbf_writer& packet) {
      pbf_writer event(packet, field::kTrackEvent);
      event.add_enum(field::kType, type);
      event.add_uint64(field::kTrackUuid, track);
      fill(event);
    });
  }
  template <typename Fill>
  void packet(std::optional<std::uint64_t> utc_ns, const Fill& fill) {
    {
      pbf_writer trace(buffer_);
      pbf_writer packet(trace, field::kPacket);
      if (utc_ns) packet.add_uint64(field::kTimestamp, *utc_ns);
      packet.add_uint32(field::kTrustedPacketSequenceId, 1);
      fill(packet);
    }
    flush(kFlush_bytes);
  }
  void flush(std::size_t from_bytes) {
    if (buffer_.size() < from_bytes) return;
    sink_(buffer_);
    buffer_.clear();
  }

  const ExportSink& sink_;
  std::string buffer_;
  std::uint64_t last_uuid_ = 0;
};

// Values of one owner: by series, then bin.
using Bins = std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>>;

class Series {
 public:
  Series(const ShardData& head, PerfettoWriter& writer) : head_(head), writer_(writer) {
    static constexpr std::uint32_t kNoCategory = shard::kCategories;
    for (const shard::Series& series : head.series) {
      const std::string_view name = series.name < head.strings.size()
                                        ? std::string_view(head.strings[series.name])
                                        : std::string_view();
      shown_.push_back(shown(name, series.kind, head.time_axis.bin_ns));
      std::uint32_t category = kNoCategory;
      for (std::uint32_t c = 0; c < shard::kCategories; ++c)
        if (name == std::string(shard::kCategoryNames[c]) + "_ns") category = c;
      category_.push_back(category);
      // Where the report corrects a category by measured times, samples alone say when it was.
      if (category != kNoCategory) shown_.back().name += " as sampled";
    }
  }

  void write(const Bins& bins, std::uint64_t parent) {
    write_mostly(bins, parent);
    for (const auto& [series, values] : bins) {
      const Shown& how = shown_[series];
      const std::uint64_t track = writer_.counter(how.name, how.unit, parent);
      std::optional<std::uint32_t> next;
      for (const auto& [bin, value] : values) {
        if (next && bin != *next) writer_.value(track, begin_of(*next), 0);
        writer_.value(track, begin_of(bin), static_cast<double>(value) * how.factor);
        next = bin + 1;
      }
      if (next) writer_.value(track, begin_of(*next), 0);
    }
  }
  // Of damaged tables nothing.
  [[nodiscard]] bool known(std::uint32_t series, std::uint32_t bin) const {
    return head_.time_axis.bin_ns != 0 && series < shown_.size() && bin < shard::TimeAxis::kMaxBins;
  }

 private:
  [[nodiscard]] std::uint64_t begin_of(std::uint32_t bin) const {
    return static_cast<std::uint64_t>(head_.time_axis.origin_utc_ns) + bin * head_.time_axis.bin_ns;
  }
  // The category with the most of each bin, as slices: colours for a view from afar.
  void write_mostly(const Bins& bins, std::uint64_t parent) {
    struct Most {
      std::uint32_t category = 0;
      std::uint64_t value_ns = 0;
    };
    std::map<std::uint32_t, Most> most;  // by bin
    for (const auto& [series, values] : bins) {
      if (category_[series] == shard::kCategories) continue;
      for (const auto& [bin, value] : values)
        if (Most& here = most[bin]; value > here.value_ns) here = {category_[series], value};
    }
    if (most.empty()) return;
    const double bin_ms = static_cast<double>(head_.time_axis.bin_ns) / 1e6;
    std::string name = std::to_string(bin_ms);
    name.erase(name.find_last_not_of('0') + 1);
    if (name.ends_with('.')) name.pop_back();
    const std::uint64_t track =
        writer_.track("main thread, mostly (of " + name + " ms)", parent, [](pbf_writer&) {});
    for (auto first = most.begin(); first != most.end();) {
      auto last = first;
      while (std::next(last) != most.end() && std::next(last)->first == last->first + 1 &&
             std::next(last)->second.category == first->second.category)
        ++last;
      writer_.slice(track, begin_of(first->first), begin_of(last->first + 1),
                    shard::kCategoryNames[first->second.category]);
      first = std::next(last);
    }
  }

  const ShardData& head_;
  PerfettoWriter& writer_;
  std::vector<Shown> shown_;
  std::vector<std::uint32_t> category_;  // kCategories: none
};

// A track for each process that the rank made.
void write_children(const std::vector<const shard::Process*>& processes, std::uint64_t rank_track,
                    PerfettoWriter& writer) {
  constexpr std::size_t kMostTracks = 256, kNameColumns = 60;
  std::size_t tracks = 0;
  for (const shard::Process* const process : processes) {
    if (process->origin == shard::ProcessOrigin::kRank || tracks == kMostTracks) continue;
    ++tracks;
    const auto begin = static_cast<std::uint64_t>(std::max<std::int64_t>(process->start_utc_ns, 0));
    const std::string command = format::shorten_middle(
        format::printable(format::command_line(command_words(process->command))), kNameColumns);
    const std::string who = process->count > 1 ? std::to_string(process->count) + " processes"
                                               : "pid " + std::to_string(process->pid);
    const std::uint64_t track = writer.track(who + ": " + command, rank_track, [](pbf_writer&) {});
    writer.slice(track, begin, begin + process->elapsed_ns, command.empty() ? who : command);
  }
}

// A track for each event loop of the rank: its blocked turns.
void write_blocked_turns(const std::vector<const shard::LoopBlock*>& blocks, std::uint64_t rank_track,
                         PerfettoWriter& writer) {
  const auto loop = [](const shard::LoopBlock& block) {
    return std::tuple(block.pid, block.tid, block.start_utc_ns, block.number);
  };
  const shard::LoopBlock* before = nullptr;
  std::uint64_t track = 0;
  for (const shard::LoopBlock* const block : blocks) {
    const bool is_new = before == nullptr || loop(*before) != loop(*block);
    if (is_new)
      track =
          writer.track("event loop of thread " + std::to_string(block->tid), rank_track, [](pbf_writer&) {});
    const bool is_same_turn = !is_new && before->begin_utc_ns == block->begin_utc_ns;
    before = block;
    if (is_same_turn) continue;
    const auto begin = static_cast<std::uint64_t>(std::max<std::int64_t>(block->begin_utc_ns, 0));
    writer.slice(track, begin, begin + block->turn_ns, "blocked");
  }
}

// A track for each thread of the rank other than main ones.
void write_threads(const std::vector<const shard::Thread*>& threads, std::uint64_t rank_track,
                   PerfettoWriter& writer) {
  constexpr std::size_t kMostTracks = 256, kNameColumns = 60;
  std::size_t tracks = 0;
  for (const shard::Thread* const thread : threads) {
    if (thread->kind == shard::ThreadKind::kMain || tracks == kMostTracks) continue;
    ++tracks;
    const auto begin = static_cast<std::uint64_t>(std::max<std::int64_t>(thread->start_utc_ns, 0));
    std::string name = format::shorten_middle(format::printable(thread->name), kNameColumns);
    if (name.empty()) name = shard::thread_kind_name(thread->kind);
    const std::string who =
        thread->count > 1 ? std::to_string(thread->count) + " threads" : "tid " + std::to_string(thread->tid);
    const std::uint64_t track = writer.track(who + ": " + name, rank_track, [](pbf_writer&) {});
    writer.slice(track, begin, begin + thread->elapsed_ns, name);
  }
}

void write_windows(const ShardData& head, std::uint64_t start_ns, PerfettoWriter& writer) {
  if (head.time_windows.empty()) return;
  const std::uint64_t run = writer.track("whole run", 0, [](pbf_writer&) {});
  const std::uint64_t mean = writer.counter("useful, mean rank", "%", run);
  const std::uint64_t most = writer.counter("useful, busiest rank", "%", run);
  const std::uint64_t wait = writer.counter("waiting, all ranks", "ranks", run);
  std::uint64_t end_ns = 0;
  const auto end = [&] {
    for (const std::uint64_t track : {mean, most, wait}) writer.value(track, start_ns + end_ns, 0);
  };
  // A counter keeps its value until the next one. So it goes back to 0 where windows are left out.
  for (const shard::TimeWindow& window : head.time_windows) {
    const auto length_ns = static_cast<double>(focus_ns(window));
    if (length_ns == 0) continue;
    if (end_ns != 0 && end_ns < window.begin_ns) end();
    const std::uint64_t at_ns = start_ns + window.begin_ns;
    writer.value(mean, at_ns, 100 * window.useful_mean_ns / length_ns);
    writer.value(most, at_ns, 100 * window.useful_max_ns / length_ns);
    writer.value(wait, at_ns, static_cast<double>(window.wait_ns) / length_ns);
    end_ns = window.end_ns;
  }
  if (end_ns != 0) end();
}

}  // namespace

void export_perfetto(const ShardData& head, const ExportOptions& options, const ExportSink& sink) {
  std::vector<std::uint32_t> ranks = ranks_in_order(head, options.ranks);
  if (ranks.size() > kMaxRanksApart && !options.each_rank) {
    ranks.clear();
    for (const ChosenRank& one : chosen_ranks(head, options.ranks)) ranks.push_back(one.row);
  }
  std::int64_t start_ns = head.run.start_utc_ns;
  for (const shard::Rank& rank : head.ranks)
    start_ns = &rank == &head.ranks.front() ? rank.start_utc_ns : std::min(start_ns, rank.start_utc_ns);
  const auto start = static_cast<std::uint64_t>(std::max<std::int64_t>(start_ns, 0));

  PerfettoWriter writer(sink);
  writer.clocks(start);
  Series series(head, writer);
  std::vector<Bins> of_rank(head.ranks.size());
  std::vector<bool> wanted(head.ranks.size(), false);
  for (const std::uint32_t row : ranks) wanted[row] = true;
  for (const shard::RankSeries& row : head.rank_series)
    if (row.rank < wanted.size() && wanted[row.rank] && series.known(row.series, row.bin))
      of_rank[row.rank][row.series][row.bin] = row.value;
  std::vector<std::vector<const shard::Process*>> processes_of(head.ranks.size());
  for (const shard::Process& process : head.processes)
    if (process.rank < wanted.size() && wanted[process.rank]) processes_of[process.rank].push_back(&process);
  std::vector<std::vector<const shard::LoopBlock*>> blocks_of(head.ranks.size());
  for (const shard::LoopBlock& block : head.loop_blocks)
    if (block.rank < wanted.size() && wanted[block.rank]) blocks_of[block.rank].push_back(&block);
  std::vector<std::vector<const shard::Thread*>> threads_of(head.ranks.size());
  for (const shard::Thread& thread : head.threads)
    if (thread.rank < wanted.size() && wanted[thread.rank]) threads_of[thread.rank].push_back(&thread);
  write_windows(head, start, writer);
  std::int32_t order = 0;
  for (const std::uint32_t row : ranks) {
    const shard::Rank& rank = head.ranks[row];
    const auto begin = static_cast<std::uint64_t>(std::max<std::int64_t>(rank.start_utc_ns, 0));
    const std::uint64_t main = writer.track("", 0, [&](pbf_writer& track) {
      pbf_writer process(track, field::kProcess);
      // Numbers of processes are not unique among nodes; 0 is the kernel's.
      process.add_int32(field::kPid, rank.rank + 1);
      for (const std::string& word : command_of(head, rank))
        process.add_string(field::kCmdline, format::replace_invalid(word));
      process.add_int32(field::kSortIndex, order++);
      process.add_string(field::kProcessName, format::replace_invalid(rank_name(head, row)));
      process.add_int64(field::kStartTimestamp, static_cast<std::int64_t>(begin));
      process.add_string(field::kProcessLabels, "pid " + std::to_string(rank.pid));
    });
    writer.slice(main, begin, begin + rank.elapsed_ns, rank_name(head, row));
    write_children(processes_of[row], main, writer);
    write_blocked_turns(blocks_of[row], main, writer);
    write_threads(threads_of[row], main, writer);
    series.write(of_rank[row], main);
    of_rank[row] = {};
  }

  std::vector<bool> nodes(head.nodes.size(), false);
  for (const std::uint32_t row : ranks)
    if (head.ranks[row].node < nodes.size()) nodes[head.ranks[row].node] = true;
  std::map<std::uint32_t, Bins> of_node;
  for (const shard::NodeSeries& row : head.node_series)
    if (row.node < nodes.size() && nodes[row.node] && series.known(row.series, row.bin))
      of_node[row.node][row.series][row.bin] = row.value;
  for (const auto& [node, bins] : of_node) {
    const std::uint64_t track = writer.track("node " + head.nodes[node].name, 0, [](pbf_writer&) {});
    series.write(bins, track);
  }
  writer.finish();
}

}  // namespace clusterprof::report
