// SPDX-License-Identifier: BSD-3-Clause
// Fills the tables of a shard from a snapshot of the node: names the frames first, then adds the rows of each
// rank, then the tables of the whole node. Called by the server when it writes, mostly on a thread of its
// own.
#include "collector/shard/shard_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/base_name.hpp"
#include "base/thread_pools.hpp"
#include "collector/names/line_tables.hpp"
#include "collector/names/mount_table.hpp"
#include "collector/names/openmp_bodies.hpp"
#include "collector/names/syscalls.hpp"
#include "collector/os/os_process.hpp"
#include "formats/shard/openmp_sums.hpp"
#include "formats/shard/path_times.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/wire/c10d_functions.h"
#include "formats/wire/sample.h"

namespace clusterprof::collector {
namespace {

static_assert(shard::kOtherRegionsName == wire::kOtherRegionsName);

std::string_view mpi_name(std::uint32_t op) {
  return op < wire::kFunctionCount ? wire::function_name(op) : "MPI";
}

bool is_region(const shard::ShardData& data, std::uint32_t path) {
  return path != 0 && data.frames[data.paths[path].frame].kind == shard::FrameKind::kRegion;
}

// agreed: wire::agreed_of_bytes, or 0.
std::uint64_t agreed_bytes(std::uint64_t agreed) {
  return agreed == 0 ? shard::CallUnderWay::kNoBytes : agreed - 1;
}

// Frames below main() and below a thread's function, which are the same everywhere and of no interest.
bool is_start_up(std::string_view function) {
  constexpr std::array<std::string_view, 9> kNames = {
      "_start",   "__libc_start_main", "__libc_start_call_main", "start_thread", "clone3", "clone", "__clone",
      "__clone3", "thread_start"};
  if (function.starts_with("__libc_start_main")) return true;  // _impl, versioned
  return std::find(kNames.begin(), kNames.end(), function) != kNames.end();
}

std::string_view descriptor_name(std::uint32_t descriptor) {
  switch (static_cast<Descriptor>(descriptor)) {
    case Descriptor::kFile:
      return shard::kOnFileName;
    case Descriptor::kSocket:
      return shard::kOnSocketName;
    case Descriptor::kPipe:
      return shard::kOnPipeName;
    case Descriptor::kThread:
      return shard::kOnThreadName;
  }
  return {};
}

// The format of shard::Rank::last_call_path: a line per frame, the outermost first.
std::string call_path_text(const shard::ShardData& data, std::uint32_t path) {
  constexpr std::size_t kMaxFrames = 200;  // the innermost ones
  std::vector<std::string> lines;
  for (; path != 0 && lines.size() < kMaxFrames; path = data.paths[path].parent) {
    const shard::Frame& frame = data.frames[data.paths[path].frame];
    const auto field = [&](shard::StringIndex index) {
      std::string text = data.strings[index];
      for (char& c : text)
        if (c == '\n' || c == '\t') c = ' ';
      return text;
    };
    lines.push_back(fmt::format("{}\t{}\t{}\t{}\t{}", field(frame.name), field(frame.file), frame.line,
                                field(frame.module), static_cast<unsigned>(frame.kind)));
  }
  return fmt::to_string(fmt::join(lines.rbegin(), lines.rend(), "\n"));
}

// If a rank has more rows than this, further ones are joined with others of their function.
constexpr std::size_t kMaxAccessRows = 4096;
// Rows of memory of a job, which a report has in memory, and of a rank.
constexpr std::size_t kJobMemoryRows = std::size_t{1} << 20, kMinMemoryRows = 128, kMaxMemoryRows = 4096;

constexpr std::array<const char*, kRankColumns> kRankColumnNames = {
    "cpu_user_ns",          "cpu_system_ns", "minor_faults", "major_faults", "voluntary_switches",
    "involuntary_switches", "rss_bytes",     "read_bytes",   "write_bytes"};
constexpr std::array<const char*, kNodeColumns> kNodeColumnNames = {
    "cpu_busy_ns",        "memory_used_bytes", "network_received_bytes",
    "network_sent_bytes", "disk_read_bytes",   "disk_written_bytes"};

// Returns the counter's name, or another one if a series has that name. No two counters get the same.
std::string counter_series_name(const std::string& counter) {
  constexpr std::string_view kPrefix = "counter:";
  const auto is_it = [&](const char* name) { return counter == name; };
  const bool taken = counter.starts_with(kPrefix) || counter == shard::kMeasuredMpiSeries ||
                     counter == shard::kMpiRunnableSeries || counter == shard::kHeldSeries ||
                     std::any_of(kRankColumnNames.begin(), kRankColumnNames.end(), is_it) ||
                     std::any_of(kNodeColumnNames.begin(), kNodeColumnNames.end(), is_it) ||
                     std::any_of(shard::kCategoryNames.begin(), shard::kCategoryNames.end(),
                                 [&](const char* name) { return counter == std::string(name) + "_ns"; }) ||
                     std::any_of(shard::kOmpSeries.begin(), shard::kOmpSeries.end(),
                                 [&](const auto& series) { return counter == series.first; });
  return taken ? std::string(kPrefix) + counter : counter;
}

// The longest blocked turns of a loop, by begin. A report has those of all ranks in memory, so in a large job
// there are fewer of each.
std::vector<RawLoop::Turn> longest_turns(std::vector<RawLoop::Turn> turns, std::uint32_t world_size) {
  constexpr std::size_t kRanks = 128, kFewest = 8;  // ranks with LongestTurns::kMost each
  const std::size_t most = std::clamp(LongestTurns::kMost * kRanks / std::max<std::size_t>(world_size, 1),
                                      kFewest, LongestTurns::kMost);
  if (turns.size() <= most) return turns;
  std::nth_element(turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(most), turns.end(),
                   [](const RawLoop::Turn& a, const RawLoop::Turn& b) {
                     return std::pair(a.turn.length_ns, b.begin_utc_ns) >
                            std::pair(b.turn.length_ns, a.begin_utc_ns);
                   });
  turns.resize(most);
  std::sort(turns.begin(), turns.end(),
            [](const RawLoop::Turn& a, const RawLoop::Turn& b) { return a.begin_utc_ns < b.begin_utc_ns; });
  return turns;
}

std::string_view name_of_wait(std::uint32_t activity) {
  switch (static_cast<wire::OmpActivity>(activity)) {
    case wire::OmpActivity::kTasks:
      return shard::kOmpTasksName;
    case wire::OmpActivity::kLock:
      return shard::kOmpLockName;
    case wire::OmpActivity::kCritical:
      return shard::kOmpCriticalName;
    case wire::OmpActivity::kOrdered:
      return shard::kOmpOrderedName;
    case wire::OmpActivity::kIdle:
      return shard::kOmpIdleName;
    default:
      return shard::kOmpBarrierName;
  }
}

// Keeps those rows that have the largest shares of anything, and adds the others to the root, by domain.
std::vector<shard::MemorySite> largest_rows(std::vector<shard::MemorySite> rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  constexpr std::uint64_t shard::MemorySite::*kAmounts[] = {
      &shard::MemorySite::alloc_bytes, &shard::MemorySite::copy_bytes, &shard::MemorySite::live_end_bytes,
      &shard::MemorySite::rank_peak_bytes, &shard::MemorySite::node_peak_bytes};
  std::vector<std::pair<double, std::size_t>> shares;  // the largest of each row
  for (std::size_t i = 0; i < rows.size(); ++i) shares.emplace_back(0, i);
  for (const auto amount : kAmounts) {
    double sum = 0;
    for (const shard::MemorySite& row : rows) sum += static_cast<double>(row.*amount);
    if (sum <= 0) continue;
    for (auto& [share, i] : shares) share = std::max(share, static_cast<double>(rows[i].*amount) / sum);
  }
  const auto end = shares.begin() + static_cast<std::ptrdiff_t>(most - shard::kMemoryDomains);
  std::nth_element(shares.begin(), end, shares.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.first, a.second) < std::pair(-b.first, b.second);
  });
  std::map<std::pair<std::uint32_t, shard::MemoryDomain>, shard::MemorySite> kept;
  for (auto share = shares.begin(); share != shares.end(); ++share) {
    shard::MemorySite row = rows[share->second];
    if (share >= end) row.path = 0;
    const auto [place, added] = kept.try_emplace({row.path, row.domain}, row);
    if (!added) unite(place->second, row);
  }
  rows.clear();
  for (const auto& [key, row] : kept) rows.push_back(row);
  return rows;
}

struct ShardValueKey {
  std::uint32_t path;
  shard::Category category;
  bool main_thread;
  friend auto operator<=>(const ShardValueKey&, const ShardValueKey&) = default;
};

}  // namespace

namespace {

// A report has the rows of all ranks in memory, so in a job of more ranks than this there are fewer of each.
std::size_t most_per_rank(std::size_t most, std::uint32_t world_size) {
  constexpr std::size_t kRanks = 64, kPart = 16;
  return std::clamp(most * kRanks / std::max<std::size_t>(world_size, 1), most / kPart, most);
}

// Joins the labels of each space beyond `most` that held the least. The rows stay by space and name.
void join_small_labels(std::vector<shard::MemoryLabel>& rows, std::size_t most) {
  if (rows.size() <= most) return;
  const auto size = [](const shard::MemoryLabel& row) {
    return std::tuple(row.space_peak_bytes, row.peak_bytes, row.alloc_bytes);
  };
  std::vector<shard::MemoryLabel> ordered = std::move(rows);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return size(a) > size(b); });
  std::map<std::pair<std::string, std::string>, shard::MemoryLabel> kept;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    shard::MemoryLabel& row = ordered[i];
    if (i >= most) row.name = shard::kOtherLabelsName;
    const auto [known, is_new] = kept.try_emplace({row.space, row.name}, row);
    if (is_new) continue;
    shard::MemoryLabel& sum = known->second;
    add_amount(sum.allocations, row.allocations);
    add_amount(sum.frees, row.frees);
    add_amount(sum.alloc_bytes, row.alloc_bytes);
    add_amount(sum.live_end_bytes, row.live_end_bytes);
    add_amount(sum.space_peak_bytes, row.space_peak_bytes);
    sum.peak_bytes = std::max({sum.peak_bytes, row.peak_bytes, sum.space_peak_bytes});
  }
  rows.clear();
  for (auto& [name, row] : kept) rows.push_back(std::move(row));
}

// Joins the regions beyond `most` with the least time.
void leave_out_small(std::map<RawOmpRegionKey, RawOmpRegion>& regions, std::size_t most) {
  if (regions.size() <= most) return;
  std::vector<std::uint64_t> times;
  for (const auto& [key, region] : regions) times.push_back(region.time_ns * key.threads);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(most), times.end(),
                   std::greater<>());
  const std::uint64_t too_small = times[most];
  std::map<RawOmpRegionKey, RawOmpRegion> kept;
  for (auto& [key, region] : regions) {
    RawOmpRegionKey to = key;
    if (region.time_ns * key.threads <= too_small) {
      to.path = 0;
      std::map<RawOmpConstructKey, RawOmpConstruct> joined;
      for (const auto& [construct_key, construct] : region.constructs)
        joined[{0, construct_key.construct}].add(construct);
      region.constructs = std::move(joined);
    }
    kept[to].add(region);
  }
  regions = std::move(kept);
}

// The waits of each row lie within its time. Those of a sum that stayed at the largest number may not.
std::pair<std::uint64_t, std::uint64_t> waits_within(const RawOmpThread& thread) {
  const std::uint64_t wait_ns = std::min(thread.wait_ns, thread.time_ns);
  return {wait_ns, std::min(thread.inner_wait_ns, thread.time_ns - wait_ns)};
}

}  // namespace

// What names a region: RawFrame's a and b.
using RegionKey = std::pair<std::uint32_t, std::uint64_t>;

struct ShardBuilder::Interned {
  explicit Interned(shard::ShardData& of) : data(of), interner(of) {}
  shard::ShardData& data;
  shard::PathInterner interner;
  std::set<RegionKey> small_regions;
  std::set<std::uint32_t> process_roots;  // paths below which other processes begin
  // By the path of an OpenMP region whose function has left the stack by a tail call: the path without that
  // function.
  std::unordered_map<std::uint32_t, std::uint32_t> tail_callers;
};

// A frame that was pending, as what it has turned out to be.
static const RawFrame& resolved(const RawFrame& frame, const RawTables& tables) {
  const RawFrame* raw = &frame;
  while (raw->kind == RawKind::kPending && tables.pending[raw->a].resolved)
    raw = &tables.pending[raw->a].resolution;
  return *raw;
}

// A frame that means the same in every process. Pending frames have been resolved before.
shard::Frame ShardBuilder::named_frame(const RawFrame& raw, const RawTables& tables,
                                       shard::PathInterner& interner) {
  shard::Frame frame;
  const auto name = [&](shard::FrameKind kind, std::string_view text) {
    frame.kind = kind;
    frame.name = interner.string(text);
  };
  switch (raw.kind) {
    case RawKind::kPython: {
      const CodeInfo& code = *tables.codes[raw.a];
      name(shard::FrameKind::kPython, code.name);
      frame.file = interner.string(code.file);
      frame.line =
          python_line((code.python_version >> 16) & 0xff, code.first_line, code.line_table,
                      static_cast<std::uint32_t>(raw.b))
              .value_or(code.line_table.empty() ? 0 : code.first_line);  // closures begin without one
      frame.line_approximate = frame.line != 0 && (raw.b & wire::kApproximateLine) != 0;
      frame.function_line = code.first_line;
      break;
    }
    case RawKind::kMpi:
      name(shard::FrameKind::kMpi, mpi_name(raw.a));
      break;
    case RawKind::kKernel:
      name(shard::FrameKind::kKernel, syscall_name(static_cast<std::int32_t>(raw.a)));
      break;
    case RawKind::kGilWait:
      name(shard::FrameKind::kKernel, shard::kGilWaitName);
      break;
    case RawKind::kPageFault:
      name(shard::FrameKind::kKernel, shard::kPageFaultName);
      break;
    case RawKind::kRunnable:
      name(shard::FrameKind::kKernel, shard::kRunnableName);
      break;
    case RawKind::kDescriptor:
      name(shard::FrameKind::kKernel, descriptor_name(raw.a));
      break;
    case RawKind::kGarbage:
      name(shard::FrameKind::kNative, shard::kGarbageName);
      if (raw.a < tables.modules.size()) frame.module = interner.string(tables.modules[raw.a]->path);
      break;
    case RawKind::kNamed:
      name(shard::FrameKind::kNative, *tables.names[raw.a]);
      frame.module = interner.string(kGeneratedModule);
      break;
    case RawKind::kLeftOut:
      name(shard::FrameKind::kNative, shard::kCallersLeftOutName);
      break;
    case RawKind::kOtherSites:
      name(shard::FrameKind::kNative, shard::kOtherCallSitesName);
      break;
    case RawKind::kOmpWait:
      name(shard::FrameKind::kKernel, name_of_wait(raw.a));
      break;
    case RawKind::kPool:
      name(shard::FrameKind::kNative, pool_frame_name(tables.modules[raw.a]->path));
      break;
    case RawKind::kRegion:
      name(shard::FrameKind::kRegion, *tables.names[raw.a]);
      if (const std::uint32_t domain = RegionOf::read(raw.b).domain;
          domain != 0 && domain <= tables.names.size())
        frame.module = interner.string(*tables.names[domain - 1]);
      break;
    case RawKind::kPending:
      name(tables.pending[raw.a].kind, "[unknown]");
      break;
    case RawKind::kNativeExact:
    case RawKind::kNativeReturn:
      break;  // add_native_frames()
  }
  return frame;
}

// Names a frame in the body of an OpenMP construct as the function that has the construct, so that both are
// one function: `path` ends with the call that begins the construct, or is in another part of that function's
// body.
void ShardBuilder::name_as_origin(std::string_view origin, Interned& shard, std::uint32_t path,
                                  shard::Frame& frame) {
  const shard::Frame* const around = path != 0 && shard.data.paths[path].frame != shard::kNone
                                         ? &shard.data.frames[shard.data.paths[path].frame]
                                         : nullptr;
  const bool is_around = around != nullptr && around->kind == shard::FrameKind::kNative &&
                         around->module == frame.module && around->file == frame.file &&
                         (origin.empty() || is_same_function(shard.data.strings[around->name], origin));
  if (is_around) {
    frame.name = around->name;
    frame.function_line = around->function_line;
  } else if (!origin.empty()) {
    frame.name = shard.interner.string(origin);
  }
}

// Extends `path` by the functions at an address: none, one, or with inlining several. `body`: the beginning
// of the function that the threads of an OpenMP region run, if the address is behind the call that begins
// one.
void ShardBuilder::add_native_frames(const RawFrame& raw, const RawFrame* body, const RawTables& tables,
                                     const MayReadLines& may_read_lines, Interned& shard,
                                     std::uint32_t& path) {
  const ModuleInfo& module = *tables.modules[raw.a];
  const auto resolve = [&](const RawFrame& frame) -> const std::vector<SourceFrame>& {
    const auto detail = may_read_lines(LinesOf::kAnything, symbolizer_.time_on_lines())
                            ? Symbolizer::Detail::kLines
                            : Symbolizer::Detail::kSymbols;
    return symbolizer_.resolve(modules_[frame.a], frame.b, frame.kind == RawKind::kNativeReturn, detail);
  };
  std::span<const SourceFrame> sources = resolve(raw);
  const std::size_t on_stack = sources.size();
  std::vector<SourceFrame> at_region;
  if (body != nullptr && body->kind == RawKind::kNativeReturn) {
    at_region.assign(sources.begin(), sources.end());
    move_to_region(at_region, resolve(*body).back());
    sources = at_region;
  }
  for (auto source = sources.rbegin(); source != sources.rend(); ++source) {
    const bool outermost = path == 0 || is_region(shard.data, path) || shard.process_roots.contains(path);
    if (outermost && is_start_up(source->function)) continue;
    const std::optional<std::string_view> origin = made_from(source->function);
    // clang puts the body into a function of its own, which the outlined one calls.
    const auto next = std::next(source);
    if (origin && next != sources.rend() && made_from(next->function)) continue;
    shard::Frame frame;
    frame.kind = shard::FrameKind::kNative;
    frame.inlined = source->inlined;
    frame.name = shard.interner.string(source->function);
    frame.file = shard.interner.string(source->file);
    frame.module = shard.interner.string(module.path);
    frame.line = source->line;
    frame.function_line = source->function_line;
    if (origin) name_as_origin(*origin, shard, path, frame);
    const std::uint32_t caller = path;
    path = shard.interner.path(path, shard.interner.frame(frame));
    if (sources.size() > on_stack && next == sources.rend()) shard.tail_callers.emplace(path, caller);
  }
}

// False for a function that the caller of an OpenMP region's function calls itself. Where the region is begun
// by a tail call, both are right below that caller.
bool ShardBuilder::may_be_in_region(std::uint32_t number, const RawTables& tables) {
  const RawFrame& raw = resolved(tables.frames[number], tables);
  if (raw.kind != RawKind::kNativeExact && raw.kind != RawKind::kNativeReturn) return true;
  if (tables.modules[raw.a]->role != ModuleRole::kProgram) return true;
  const std::vector<SourceFrame>& functions = symbolizer_.resolve(
      modules_[raw.a], raw.b, raw.kind == RawKind::kNativeReturn, Symbolizer::Detail::kSymbols);
  return functions.empty() || made_from(functions.back().function).has_value();
}

// A backward operator has the line that called its forward one: `forward` is that frame's number, plus 1.
void ShardBuilder::place_region(std::uint32_t forward, const RawTables& tables,
                                const MayReadLines& may_read_lines, Interned& shard, shard::Frame& region) {
  if (forward == 0 || forward > tables.frames.size()) return;
  const RawFrame& raw = resolved(tables.frames[forward - 1], tables);
  if (raw.kind == RawKind::kPython) {
    const shard::Frame caller = named_frame(raw, tables, shard.interner);
    region.file = caller.file;
    region.line = caller.line;
  } else if (raw.kind == RawKind::kNativeReturn) {
    const auto detail = may_read_lines(LinesOf::kAnything, symbolizer_.time_on_lines())
                            ? Symbolizer::Detail::kLines
                            : Symbolizer::Detail::kSymbols;
    const std::vector<SourceFrame>& callers = symbolizer_.resolve(modules_[raw.a], raw.b, true, detail);
    if (callers.empty() || callers.front().line == 0) return;
    region.file = shard.interner.string(callers.front().file);
    region.line = callers.front().line;
  }
}

// Extends `path` by the frames that a raw frame stands for.
void ShardBuilder::add_frames(std::uint32_t number, const RawTables& tables,
                              const MayReadLines& may_read_lines, Interned& shard, std::uint32_t& path) {
  const RawFrame& raw = resolved(tables.frames[number], tables);
  if (raw.kind == RawKind::kNativeExact || raw.kind == RawKind::kNativeReturn) {
    const auto body = tables.region_bodies.find(number);
    return add_native_frames(raw, body != tables.region_bodies.end() ? &tables.frames[body->second] : nullptr,
                             tables, may_read_lines, shard, path);
  }
  shard::Frame frame = named_frame(raw, tables, shard.interner);
  if (raw.kind == RawKind::kRegion && shard.small_regions.contains({raw.a, raw.b}))
    frame.name = shard.interner.string(shard::kOtherRegionsName);
  else if (raw.kind == RawKind::kRegion)
    place_region(RegionOf::read(raw.b).forward, tables, may_read_lines, shard, frame);
  if (frame.kind == shard::FrameKind::kRegion && is_region(shard.data, path) &&
      shard.data.strings[frame.name] == shard::kOtherRegionsName &&
      shard.data.frames[shard.data.paths[path].frame] == frame)
    return;  // one that is left out inside another one
  // A rank may have written anything, and a single impossible path would keep the whole shard from being
  // written.
  if (frame.kind == shard::FrameKind::kRegion && path != 0 && !is_region(shard.data, path)) return;
  // What `python -c` executes, as multiprocessing starts its workers: the program's own code is below it.
  if (frame.kind == shard::FrameKind::kPython && shard.process_roots.contains(path) &&
      shard.data.strings[frame.name] == "<module>" && shard.data.strings[frame.file] == "<string>")
    return;
  path = shard.interner.path(path, shard.interner.frame(frame));
}

void ShardBuilder::add_events(const EventLog& events, std::uint32_t rank,
                              const std::vector<std::uint32_t>& path_of, Communicators& communicators,
                              Interned& shard, shard::ShardData& data) {
  std::map<std::uint32_t, shard::StringIndex> names;
  std::uint64_t channel = 0;
  std::uint32_t communicator = shard::kNone;  // of that channel
  events.for_each([&](std::uint32_t thread, const KeptEvent& from, std::span<const GapPathTime> gap) {
    if (data.mpi_events.size() >= shard::kNone - 1) return;
    const auto [name, added_name] = names.try_emplace(from.op, 0);
    if (added_name) name->second = shard.interner.string(mpi_name(from.op));
    if (from.channel != channel) {
      channel = from.channel;
      communicator = shard::kNone;
      if (channel != 0) {
        // A communicator without an entry in the process's table. Only its identity distinguishes its events.
        const auto [found, added] =
            communicators.try_emplace(channel, static_cast<std::uint32_t>(data.communicators.size()));
        if (added) data.communicators.push_back({channel, 0, {}});
        communicator = found->second;
      }
    }
    if (communicator != shard::kNone && data.communicators[communicator].size == 0)
      data.communicators[communicator].size = from.communicator_size;  // messages do not know it
    const auto event = static_cast<std::uint32_t>(data.mpi_events.size());
    data.mpi_events.push_back({rank, thread, path_of[from.path], communicator, name->second, from.kind,
                               from.flags, from.peer, from.tag, from.sequence, from.enter_ns, from.exit_ns,
                               from.start_ns, from.mpi_ns, from.bytes, from.paused_ns, from.resumed_ns});
    const std::size_t first = data.event_gaps.size();
    for (const GapPathTime& time : gap) {
      // Different addresses may be one line.
      const std::uint32_t path = path_of[time.path];
      const auto same =
          std::find_if(data.event_gaps.begin() + static_cast<std::ptrdiff_t>(first), data.event_gaps.end(),
                       [&](const shard::EventGap& row) { return row.path == path; });
      if (same != data.event_gaps.end()) {
        same->wall_ns += time.wall_ns;
        same->cpu_ns += time.cpu_ns;
      } else {
        data.event_gaps.push_back({event, path, time.wall_ns, time.cpu_ns});
      }
    }
    std::stable_sort(
        data.event_gaps.begin() + static_cast<std::ptrdiff_t>(first), data.event_gaps.end(),
        [](const shard::EventGap& a, const shard::EventGap& b) { return a.wall_ns > b.wall_ns; });
  });
}

void ShardBuilder::add_io(const NodeSnapshot& snapshot, const std::vector<std::uint32_t>& path_of,
                          shard::ShardData& data) {
  const auto& files = snapshot.tables.files;
  if (file_systems_.size() < files.size()) {
    const MountTable mounts(read_text("/proc/self/mountinfo").value_or(std::string()));
    for (std::size_t i = file_systems_.size(); i < files.size(); ++i)
      file_systems_.push_back(mounts.file_system(files[i]->path, files[i]->device, files[i]->file_system));
  }
  // Processes may disagree on what they know of a file.
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> rows;
  using Key = std::tuple<std::uint32_t, std::uint32_t, wire::IoOperation>;
  for (std::size_t rank = 0; rank < snapshot.ranks.size(); ++rank) {
    std::map<Key, RawIo> calls;
    for (const auto& [key, amount] : snapshot.ranks[rank].report.io) {
      const auto [row, added] = rows.try_emplace({files[key.file]->path, file_systems_[key.file]},
                                                 static_cast<std::uint32_t>(data.io_files.size()));
      if (added) data.io_files.push_back({files[key.file]->path, file_systems_[key.file]});
      calls[{path_of[key.path], row->second, key.operation}].add(amount);
    }
    for (const auto& [key, amount] : calls) {
      const auto& [path, file, operation] = key;
      data.io_calls.push_back({static_cast<std::uint32_t>(rank), path, file,
                               static_cast<shard::IoOperation>(operation), amount.count, amount.failed,
                               amount.bytes, amount.time_ns, amount.max_ns});
    }
  }
}

// Of more than this many names those with the least time. Names of which no instance has ended are kept.
void ShardBuilder::find_small_regions(const NodeSnapshot& snapshot, Interned& shard) {
  constexpr std::size_t kMostNames = 256;
  const RawTables& tables = snapshot.tables;
  std::map<RegionKey, std::uint64_t> times;
  for (const RankSnapshot& rank : snapshot.ranks)
    for (const auto& [path, region] : rank.report.regions) {
      const RawFrame& raw = resolved(tables.frames[tables.nodes[path].frame], tables);
      if (raw.kind == RawKind::kRegion) times[{raw.a, raw.b}] += region.time_ns;
    }
  if (times.size() <= kMostNames) return;
  std::vector<std::pair<std::uint64_t, RegionKey>> order;
  for (const auto& [key, ns] : times) order.emplace_back(ns, key);
  std::sort(order.begin(), order.end(), std::greater<>());
  for (std::size_t i = kMostNames; i < order.size(); ++i) shard.small_regions.insert(order[i].second);
}

void ShardBuilder::add_regions(const ProcessReport& report, std::uint32_t rank,
                               const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  std::map<std::uint32_t, RawRegion> regions;
  for (const auto& [path, region] : report.regions) regions[path_of[path]].add(region);
  for (const auto& [path, region] : regions)
    if (is_region(data, path))
      data.region_times.push_back(
          {rank, path, region.count, region.time_ns, region.min_ns, region.max_ns, region.max_n});
}

void ShardBuilder::add_loops(const ProcessReport& report, std::uint32_t rank,
                             const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  static_assert(shard::EventLoop::kBins == wire::kTurnBins &&
                shard::EventLoop::kBlockedTurnNs == wire::kBlockedTurnNs);
  std::vector<const RawLoop*> loops;
  for (const RawLoop& loop : report.loops) loops.push_back(&loop);
  std::sort(loops.begin(), loops.end(), [](const RawLoop* a, const RawLoop* b) {
    return std::tie(a->pid, a->tid, a->start_utc_ns, a->number) <
           std::tie(b->pid, b->tid, b->start_utc_ns, b->number);
  });
  for (const RawLoop* const loop : loops) {
    shard::EventLoop& row = data.event_loops.emplace_back();
    row.rank = rank;
    row.path = path_of[loop->wait_path];
    row.pid = loop->pid;
    row.tid = loop->tid;
    row.main_thread = loop->main_thread ? 1 : 0;
    row.number = loop->number;
    row.start_utc_ns = loop->start_utc_ns;
    row.turns = loop->turns;
    row.idle_ns = loop->idle_ns;
    row.busy_ns = loop->busy_ns;
    row.blocked = loop->blocked;
    row.blocked_ns = loop->blocked_ns;
    row.longest_ns = loop->longest_ns;
    row.longest_utc_ns = loop->longest_utc_ns;
    row.lengths = loop->lengths;
    row.thread = loop->thread;
    for (const RawLoop::Turn& turn : longest_turns(loop->longest, data.run.world_size)) {
      std::map<std::uint32_t, std::uint64_t> parts;  // different addresses may be one line
      for (const TurnPart& part : turn.turn.parts) parts[path_of[part.path]] += part.ns;
      const std::size_t first = data.loop_blocks.size();
      const auto flags = static_cast<std::uint8_t>((turn.turn.awaited ? shard::LoopBlock::kAwaited : 0) |
                                                   (turn.turn.open ? shard::LoopBlock::kOpen : 0));
      for (const auto& [path, ns] : parts)
        data.loop_blocks.push_back({rank, path, loop->pid, loop->tid, loop->number, loop->start_utc_ns,
                                    turn.begin_utc_ns, turn.turn.length_ns, ns, flags});
      std::stable_sort(
          data.loop_blocks.begin() + static_cast<std::ptrdiff_t>(first), data.loop_blocks.end(),
          [](const shard::LoopBlock& a, const shard::LoopBlock& b) { return a.wall_ns > b.wall_ns; });
    }
  }
}

void ShardBuilder::add_openmp(const ProcessReport& report, std::uint32_t rank,
                              const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  static_assert(shard::kOmpKinds == wire::kOmpConstructs);
  static_assert(shard::kOmpSchedules == wire::kOmpScheduleBits &&
                std::uint8_t{shard::kOmpHandedOut} == std::uint8_t{wire::kOmpHandedOut});
  const RawOpenMp& all = report.openmp;
  if (all.method == wire::OmpMethod::kNone) return;
  std::uint32_t processors = 0;
  for (const std::uint64_t word : all.processors)
    processors += static_cast<std::uint32_t>(std::popcount(word));
  data.omp_ranks.push_back({rank, static_cast<shard::OmpMethod>(all.method),
                            static_cast<std::uint8_t>(all.flags & wire::kOmpOtherRuntime), processors,
                            all.runtime});

  // Different addresses may be one line.
  std::map<RawOmpRegionKey, RawOmpRegion> regions;
  for (const auto& [raw_key, region] : all.regions) {
    RawOmpRegionKey key = raw_key;
    key.path = path_of[key.path];
    RawOmpRegion named = region;
    named.constructs.clear();
    for (const auto& [construct_key, construct] : region.constructs)
      named.constructs[{path_of[construct_key.path], construct_key.construct}].add(construct);
    regions[key].add(named);
  }
  leave_out_small(regions, most_per_rank(shard::kMaxOmpRegions, data.run.world_size));
  std::vector<const std::pair<const RawOmpRegionKey, RawOmpRegion>*> largest;
  for (const auto& row : regions) largest.push_back(&row);
  std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) {
    return a->second.time_ns * a->first.threads > b->second.time_ns * b->first.threads;
  });
  const std::size_t first_region = data.omp_regions.size(), first_thread = data.omp_threads.size(),
                    first_construct = data.omp_constructs.size();
  std::size_t rows_left = most_per_rank(shard::kMaxOmpRows, data.run.world_size);
  for (const auto* const of : largest) {
    const auto& [key, region] = *of;
    const std::uint8_t main = key.main ? 1 : 0;
    shard::OmpRegion row;
    row.rank = rank;
    row.path = key.path;
    row.threads = key.threads;
    row.level = key.level;
    row.main = main;
    row.kind = static_cast<shard::OmpKind>(key.construct);
    row.asked = static_cast<std::uint32_t>(std::min<std::uint64_t>(region.asked, shard::kMaxOmpThreads));
    row.count = region.count;
    row.unfinished = region.unfinished;
    row.time_ns = region.time_ns;
    row.mpi_ns = std::min(region.mpi_ns, region.time_ns);
    row.longest_ns = region.longest_ns;
    RawOmpThread threads;
    for (const auto& [number, thread] : region.threads) threads.add(thread);
    const auto [wait_ns, inner_wait_ns] = waits_within(threads);
    row.threads_ns = threads.time_ns;
    row.wait_ns = wait_ns;
    row.inner_wait_ns = inner_wait_ns;
    row.schedule_ns = threads.schedule_ns;
    data.omp_regions.push_back(row);
    for (const auto& [number, thread] : region.threads) {
      if (rows_left == 0) break;
      if (thread.count == 0) continue;
      --rows_left;
      const auto [waited_ns, inner_waited_ns] = waits_within(thread);
      data.omp_threads.push_back({rank, key.path, key.threads, key.level, main, number, thread.count,
                                  thread.time_ns, waited_ns, inner_waited_ns, thread.schedule_ns});
    }
    for (const auto& [construct_key, construct] : region.constructs) {
      if (rows_left == 0) break;
      --rows_left;
      data.omp_constructs.push_back({rank, key.path, key.threads, key.level, main, construct_key.path,
                                     static_cast<shard::OmpKind>(construct_key.construct), construct.count,
                                     construct.time_ns, std::min(construct.wait_ns, construct.time_ns),
                                     construct.schedule_ns, construct.chunks, construct.iterations,
                                     construct.longest_ns, std::min(construct.threads, shard::kMaxOmpThreads),
                                     construct.schedules});
    }
  }
  const auto sort_from = [](auto& rows, std::size_t first, auto place) {
    std::sort(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end(),
              [&](const auto& a, const auto& b) { return place(a) < place(b); });
  };
  sort_from(data.omp_regions, first_region,
            [](const shard::OmpRegion& r) { return std::tuple(r.path, r.threads, r.level, r.main, r.kind); });
  sort_from(data.omp_threads, first_thread, [](const shard::OmpThread& t) {
    return std::tuple(t.path, t.threads, t.level, t.main, t.number);
  });
  sort_from(data.omp_constructs, first_construct, [](const shard::OmpConstruct& c) {
    return std::tuple(c.region_path, c.threads, c.level, c.main, c.path, c.kind);
  });
}

void ShardBuilder::add_mutex_waits(const ProcessReport& report, std::uint32_t rank,
                                   const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  std::map<RawMutexKey, RawMutexWait> waits;  // different addresses may be one line
  for (const auto& [key, wait] : report.mutex_waits)
    waits[{path_of[key.path], path_of[key.holder_path], key.address, key.module, key.elf_address}].add(wait);
  const std::size_t most = most_per_rank(shard::kMaxMutexRows, data.run.world_size);
  if (waits.size() > most) {
    std::vector<std::pair<RawMutexKey, RawMutexWait>> rows(waits.begin(), waits.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.wait_ns > b.second.wait_ns; });
    waits.clear();
    for (std::size_t i = 0; i < rows.size(); ++i)
      waits[i < most ? rows[i].first : RawMutexKey()].add(rows[i].second);
  }
  for (const auto& [key, wait] : waits) {
    shard::MutexWait row = {rank,         key.path,     key.holder_path, key.address,
                            wait.wait_ns, wait.samples, wait.longest_ns, {}};
    if (key.module < modules_.size()) row.name = symbolizer_.variable(modules_[key.module], key.elf_address);
    data.mutex_waits.push_back(std::move(row));
  }
}

// Of a process with one thread there is nothing to tell.
void ShardBuilder::add_thread_spans(const ProcessReport& report, std::uint32_t rank,
                                    const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  constexpr std::size_t kMostPaths = 64, kFewPaths = 8;  // of a span
  const std::vector<RawThreadSpan>& spans = report.thread_spans;
  const bool is_alone =
      std::all_of(spans.begin(), spans.end(), [](const RawThreadSpan& span) { return span.thread == 0; });
  if (is_alone || spans.size() > most_per_rank(shard::kMaxThreadSpans, data.run.world_size)) return;
  std::size_t times_left = most_per_rank(shard::kMaxSpanTimes, data.run.world_size);
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const RawThreadSpan& span = spans[i];
    number = i != 0 && spans[i - 1].thread == span.thread ? number + 1 : 0;
    data.thread_spans.push_back({rank, span.thread, number, span.other, span.how, span.begin_ns, span.call_ns,
                                 span.end_ns, span.mpi_thread});
    std::map<std::uint32_t, std::uint64_t> times;  // different instructions may be one line
    for (const GapPathTime& time : span.times) times[path_of[time.path]] += time.wall_ns;
    std::vector<shard::SpanTime> rows;
    for (const auto& [path, wall_ns] : times)
      if (path != 0) rows.push_back({rank, span.thread, number, path, wall_ns});
    const std::size_t most = std::clamp(times_left, kFewPaths, kMostPaths);
    if (rows.size() > most) {
      std::stable_sort(rows.begin(), rows.end(), [](const shard::SpanTime& a, const shard::SpanTime& b) {
        return a.wall_ns > b.wall_ns;
      });
      rows.resize(most);
      std::sort(rows.begin(), rows.end(),
                [](const shard::SpanTime& a, const shard::SpanTime& b) { return a.path < b.path; });
    }
    times_left -= std::min(times_left, rows.size());
    data.span_times.insert(data.span_times.end(), rows.begin(), rows.end());
  }
}

// A report has those of all ranks in memory, so in a large job there are fewer of each.
void ShardBuilder::add_tasks(const ProcessReport& report, std::uint32_t rank,
                             const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  constexpr std::size_t kRanks = 16, kFewest = 64;  // ranks with kMaxTaskRows each
  RawTasks tasks;                                   // different instructions may be one line
  for (const auto& [key, amount] : report.tasks)
    tasks[{path_of[key.path], path_of[key.task_path], key.name}].add(amount);
  limit_tasks(tasks,
              std::clamp(shard::kMaxTaskRows * kRanks / std::max<std::size_t>(data.run.world_size, 1),
                         kFewest, shard::kMaxTaskRows),
              [&](std::uint32_t path) { return data.paths[path].parent; });
  for (const auto& [key, amount] : tasks)
    data.task_times.push_back(
        {rank, key.path, key.task_path, amount.wall_ns, amount.cpu_ns, amount.samples, key.name});
}

void ShardBuilder::add_accesses(const ProcessReport& report, std::uint32_t rank,
                                const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  std::map<std::uint32_t, RawAccess> by_path;
  for (const auto& [path, access] : report.accesses) by_path[path_of[path]].add(access);
  std::vector<std::pair<std::uint32_t, RawAccess>> rows(by_path.begin(), by_path.end());
  if (rows.size() > kMaxAccessRows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.samples > b.second.samples; });
    using Function = std::tuple<shard::StringIndex, shard::StringIndex, shard::StringIndex>;
    std::map<Function, std::size_t> largest;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint32_t frame = data.paths[rows[i].first].frame;
      Function function{};
      if (frame != shard::kNone)
        function = {data.frames[frame].name, data.frames[frame].file, data.frames[frame].module};
      const auto [first, is_first] = largest.try_emplace(function, kept);
      if (i < kMaxAccessRows || is_first) {
        rows[kept++] = rows[i];
      } else {
        rows[first->second].second.add(rows[i].second);
      }
    }
    rows.resize(kept);
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  for (const auto& [path, access] : rows)
    data.data_accesses.push_back({rank, path, access.samples, access.accesses, access.blocks});
}

void ShardBuilder::add_series(const NodeSnapshot& snapshot, Interned& shard, shard::ShardData& data) {
  const TimeGrid& grid = snapshot.grid;
  if (!grid.begun()) return;
  data.time_axis = {grid.width_ns(), static_cast<std::int64_t>(grid.first() * grid.width_ns())};
  std::map<std::string, std::uint32_t> numbers;
  const auto series = [&](const std::string& name, shard::SeriesKind kind) {
    const auto [found, added] = numbers.try_emplace(name, static_cast<std::uint32_t>(data.series.size()));
    if (added) data.series.push_back({shard.interner.string(name), kind});
    return found->second;
  };
  // Same columns, one after the other: looked up once per column and block.
  const auto add = [&](SeriesBlock block, std::uint32_t levels, const auto& name_of, auto& rows,
                       std::uint32_t owner) {
    std::uint32_t column = shard::kNone, number = 0;
    block.for_each(grid, [&](std::uint32_t of, std::uint32_t bin, std::uint64_t value) {
      if (of != column) {
        column = of;
        const bool level = of < 32 && (levels >> of & 1u) != 0;
        number = series(name_of(of), level ? shard::SeriesKind::kMaximum : shard::SeriesKind::kSum);
      }
      rows.push_back({owner, number, bin, value});
    });
  };
  const auto category = [](std::uint32_t column) {
    if (column == kMeasuredMpiColumn) return std::string(shard::kMeasuredMpiSeries);
    if (column == kMpiRunnableColumn) return std::string(shard::kMpiRunnableSeries);
    return std::string(shard::kCategoryNames[column]) + "_ns";
  };
  const auto rank_column = [](std::uint32_t column) { return std::string(kRankColumnNames[column]); };
  const auto node_column = [](std::uint32_t column) { return std::string(kNodeColumnNames[column]); };
  const auto counter = [&](std::uint32_t column) {
    return counter_series_name(snapshot.tables.counters[column]);
  };
  const auto openmp = [](std::uint32_t column) { return std::string(shard::kOmpSeries[column].first); };
  const auto held = [](std::uint32_t) { return std::string(shard::kHeldSeries); };
  for (std::size_t i = 0; i < snapshot.ranks.size(); ++i) {
    const RankSnapshot& rank = snapshot.ranks[i];
    const auto owner = static_cast<std::uint32_t>(i);
    const std::size_t first = data.rank_series.size();
    add(rank.report.main_series, 0, category, data.rank_series, owner);
    add(rank.series, kRankLevels, rank_column, data.rank_series, owner);
    add(rank.report.counter_series, 0, counter, data.rank_series, owner);
    add(rank.report.openmp_series, 0, openmp, data.rank_series, owner);
    add(rank.held, 1, held, data.rank_series, owner);
    std::stable_sort(data.rank_series.begin() + static_cast<std::ptrdiff_t>(first), data.rank_series.end(),
                     [](const shard::RankSeries& a, const shard::RankSeries& b) {
                       return std::pair(a.series, a.bin) < std::pair(b.series, b.bin);
                     });
  }
  add(snapshot.series, kNodeLevels, node_column, data.node_series, 0);
  add(snapshot.held, 1, held, data.node_series, 0);
  std::stable_sort(data.node_series.begin(), data.node_series.end(),
                   [](const shard::NodeSeries& a, const shard::NodeSeries& b) {
                     return std::pair(a.series, a.bin) < std::pair(b.series, b.bin);
                   });
}

void ShardBuilder::add_path_series(const NodeSnapshot& snapshot, const std::vector<std::uint32_t>& path_of,
                                   shard::ShardData& data) {
  const PathTimes::Cells& times = snapshot.path_times;
  if (times.axis.bin_ns == 0) return;
  data.path_axis = times.axis;
  shard::PathTimeTable table(data.paths.size());
  for (const PathTimes::Cell& cell : times.cells) table.add(path_of[cell.path], cell.bin, cell.wall_ns);
  const std::size_t most_rows = shard::max_path_series_rows(snapshot.ranks.size());
  data.path_series = table.rows(data.paths, most_rows);
  shard::PathTimeTable held(data.paths.size());
  for (const MemoryLedger::Cell& cell : snapshot.held_cells)
    held.add(path_of[cell.path], cell.bin, cell.kib_ms);
  for (const shard::PathSeries& row : held.rows(data.paths, most_rows))
    data.memory_series.push_back({row.path, row.bin, row.wall_ns});
}

void ShardBuilder::add_memory(const RankSnapshot& from, std::uint32_t rank,
                              const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  if (!from.memory) return;
  data.memory_ranks.push_back(*from.memory);
  data.memory_ranks.back().rank = rank;
  std::map<std::pair<std::uint32_t, shard::MemoryDomain>, shard::MemorySite> sites;
  const auto site = [&](const RawMemoryKey& key) -> shard::MemorySite& {
    const std::uint32_t path = path_of[key.path];
    const auto domain = static_cast<shard::MemoryDomain>(key.domain);
    shard::MemorySite& row = sites[{path, domain}];
    row.rank = rank;
    row.path = path;
    row.domain = domain;
    return row;
  };
  for (const auto& [key, raw] : from.report.memory) {
    shard::MemorySite& row = site(key);
    row.alloc_bytes += raw.alloc_bytes;
    row.alloc_count += raw.alloc_count;
    row.variance += raw.variance;
    row.soon_bytes += raw.soon_bytes;
    row.soon_count += raw.soon_count;
    row.copy_bytes += raw.copy_bytes;
    row.copy_count += raw.copy_count;
    add_ages(row.live_by_age, raw.live_by_age);
  }
  for (const MemoryLedger::Row& held : from.held_rows) {
    shard::MemorySite& row = site(held.of);
    row.live_end_bytes += held.live_end;
    row.rank_peak_bytes += held.rank_peak;
    row.node_peak_bytes += held.node_peak;
    add_ages(row.live_by_age, held.left_by_age);
  }
  std::vector<shard::MemorySite> rows;
  for (const auto& [key, row] : sites) rows.push_back(row);
  const std::size_t most = std::clamp(kJobMemoryRows / std::max<std::size_t>(data.run.world_size, 1),
                                      kMinMemoryRows, kMaxMemoryRows);
  rows = largest_rows(std::move(rows), most);
  data.memory_sites.insert(data.memory_sites.end(), rows.begin(), rows.end());
}

void ShardBuilder::add_labelled_memory(const ProcessReport& report, std::uint32_t rank,
                                       shard::ShardData& data) {
  static_assert(shard::kMaxLabelRows >= wire::kMaxLabels + wire::kMemorySpaces);
  const RawLabelledMemory& memory = report.labelled_memory;
  std::vector<shard::MemoryLabel> rows;
  for (const auto& [name, space] : memory.spaces) {
    data.memory_spaces.push_back(
        {rank, static_cast<std::uint32_t>(std::min<std::uint64_t>(space.processes, UINT32_MAX)),
         space.allocations, space.frees, space.alloc_bytes, space.live_bytes, space.peak_bytes,
         space.peak_utc_ns, space.unknown_frees, space.unknown_bytes, name});
    for (const auto& [label, row] : space.labels)
      rows.push_back({rank, row.allocations, row.frees, row.alloc_bytes, row.live_bytes, row.peak_bytes,
                      row.space_peak_bytes, name, label});
  }
  join_small_labels(rows, most_per_rank(shard::kMaxLabelRows, data.run.world_size));
  data.memory_labels.insert(data.memory_labels.end(), std::make_move_iterator(rows.begin()),
                            std::make_move_iterator(rows.end()));
  for (const auto& [between, copies] : memory.copies)
    data.memory_copies.push_back({rank, copies.count, copies.bytes, between.first, between.second});
}

void ShardBuilder::add_values(const ProcessReport& report, std::uint32_t rank,
                              const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  std::map<ShardValueKey, RawAmount> values;
  for (const auto& [key, amount] : report.values) {
    if (amount.wall_ns == 0 && amount.cpu_ns == 0 && amount.samples == 0) continue;
    values[{path_of[key.path], key.category, key.main_thread}].add(amount);
  }
  for (const auto& [key, amount] : values)
    data.values.push_back(
        {rank, key.path, key.category, key.main_thread, amount.wall_ns, amount.cpu_ns, amount.samples});
}

void ShardBuilder::add_counters(const ProcessReport& report, std::uint32_t rank,
                                const std::vector<std::uint32_t>& path_of, shard::ShardData& data) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> path_counters;
  std::map<std::uint32_t, std::uint64_t> counters;
  for (const auto& [key, value] : report.counters) {
    path_counters[{path_of[key.path], key.counter}] += value;
    counters[key.counter] += value;
  }
  for (const auto& [key, value] : path_counters)
    data.path_counters.push_back({rank, key.first, key.second, value});
  for (const auto& [counter, value] : counters) data.counter_values.push_back({rank, counter, value});
}

void ShardBuilder::add_mpi_calls(const ProcessReport& report, std::uint32_t rank,
                                 const std::vector<std::uint32_t>& path_of, Communicators& communicators,
                                 shard::ShardData& data) {
  for (const auto& [identity, info] : report.communicators) {
    const auto [found, added] =
        communicators.try_emplace(identity, static_cast<std::uint32_t>(data.communicators.size()));
    if (added) data.communicators.push_back({identity, info.size, info.name});
    if (data.communicators[found->second].name.empty()) data.communicators[found->second].name = info.name;
    if (info.number >= 0) data.group_numbers.push_back({rank, found->second, info.number});
  }
  for (const auto& [member, cell] : report.group_traffic)
    if (const auto group = communicators.find(member.first); group != communicators.end())
      data.group_messages.push_back({rank, group->second, member.second, cell.messages, cell.bytes});
  const auto communicator_of = [&](std::uint64_t identity) {
    const auto communicator = communicators.find(identity);
    return communicator == communicators.end() ? shard::kNone : communicator->second;
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, RawCall> calls;
  for (const auto& [key, call] : report.calls)
    calls[{path_of[key.path], communicator_of(key.communicator), !key.main_thread}].add(call);
  for (const auto& [key, call] : calls) {
    const auto& [path, communicator, helper] = key;
    data.mpi_calls.push_back({rank, path, communicator, call.count, call.time_ns, call.min_ns, call.max_ns,
                              call.sent_bytes, call.recv_bytes, !helper, call.unfinished});
  }
  for (const RawCallUnderWay& call : report.calls_under_way) {
    data.calls_under_way.push_back({rank, call.tid, call.main_thread, path_of[call.path],
                                    communicator_of(call.channel), call.sequence, call.peer, call.tag,
                                    call.root, call.enter_ns, call.lasted_ns, call.requests,
                                    call.open_requests, agreed_bytes(call.agreed)});
    for (const RawCallUnderWay::Pending& pending : call.pending)
      data.pending_requests.push_back(
          {rank, call.tid, call.enter_ns, static_cast<shard::PendingKind>(pending.kind), pending.peer});
  }
  // A communicator without an entry in the process's table gets a row of its own, as for events.
  const auto row_of_communicator = [&](std::uint64_t identity) {
    if (identity == 0) return shard::kNone;
    const auto [found, added] =
        communicators.try_emplace(identity, static_cast<std::uint32_t>(data.communicators.size()));
    if (added) data.communicators.push_back({identity, 0, {}});
    return found->second;
  };
  const std::size_t first_error = data.mpi_errors.size(), first_open = data.open_requests.size();
  for (const RawMpiError& error : report.mpi_errors)
    data.mpi_errors.push_back({rank, path_of[error.path], row_of_communicator(error.channel),
                               error.error_class, error.peer, error.tag, error.message, error.count,
                               error.first_ns, error.name, error.text});
  std::stable_sort(data.mpi_errors.begin() + static_cast<std::ptrdiff_t>(first_error), data.mpi_errors.end(),
                   [](const auto& a, const auto& b) { return a.path < b.path; });
  for (const RawOpenRequests& open : report.open_requests)
    data.open_requests.push_back({rank, path_of[open.path], row_of_communicator(open.channel), open.kind,
                                  open.peer, open.tag, open.count});
  std::stable_sort(data.open_requests.begin() + static_cast<std::ptrdiff_t>(first_open),
                   data.open_requests.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  // Nobody waits for others on a communicator of one.
  for (const auto& [identity, begun] : report.collectives)
    if (const std::uint32_t communicator = communicator_of(identity);
        communicator != shard::kNone && data.communicators[communicator].size > 1)
      data.collective_counts.push_back(
          {rank, path_of[begun.last_path], communicator, begun.count, agreed_bytes(begun.agreed)});
}

void ShardBuilder::add_node_totals(const NodeSnapshot& snapshot, Interned& shard, shard::ShardData& data) {
  std::map<std::pair<std::int32_t, std::int32_t>, RawTraffic> traffic;
  std::map<std::uint32_t, SizeBins> sizes;
  std::map<std::string, std::string> unavailable;
  for (const RankSnapshot& rank : snapshot.ranks) {
    for (const auto& [pair, cell] : rank.report.traffic) {
      traffic[pair].messages += cell.messages;
      traffic[pair].bytes += cell.bytes;
    }
    for (const auto& [op, bins] : rank.report.sizes) {
      SizeBins& sum = sizes.try_emplace(op).first->second;
      for (std::size_t i = 0; i < bins.size(); ++i) sum[i] += bins[i];
    }
    unavailable.insert(rank.report.unavailable_counters.begin(), rank.report.unavailable_counters.end());
  }
  for (const auto& [pair, cell] : traffic)
    data.matrix.push_back({pair.first, pair.second, cell.messages, cell.bytes});
  for (const auto& [op, bins] : sizes) {
    const shard::StringIndex name = shard.interner.string(mpi_name(op));
    for (std::uint32_t bin = 0; bin < bins.size(); ++bin) {
      const std::uint64_t le_bytes = bin == 0 ? 0 : std::uint64_t{1} << (bin - 1);
      if (bins[bin] != 0) data.mpi_sizes.push_back({name, le_bytes, bins[bin]});
    }
  }
  for (const auto& [name, reason] : unavailable) data.unavailable_counters.push_back({name, reason});
}

void ShardBuilder::add_rank(const RankSnapshot& from, const std::vector<std::uint32_t>& path_of,
                            Communicators& communicators, Interned& shard, shard::ShardData& data) {
  const auto rank = static_cast<std::uint32_t>(data.ranks.size());
  const ProcessReport& report = from.report;
  data.ranks.push_back(from.rank);
  data.ranks.back().affinity = shard.interner.string(from.affinity);
  data.ranks.back().command = shard.interner.string(from.command);
  data.ranks.back().numa_nodes = shard.interner.string(from.numa_nodes);
  if (from.last_path)
    data.ranks.back().last_call_path = shard.interner.string(call_path_text(data, path_of[*from.last_path]));
  add_regions(report, rank, path_of, data);
  add_mutex_waits(report, rank, path_of, data);
  add_thread_spans(report, rank, path_of, data);
  add_accesses(report, rank, path_of, data);
  add_loops(report, rank, path_of, data);
  add_openmp(report, rank, path_of, data);
  add_tasks(report, rank, path_of, data);
  add_values(report, rank, path_of, data);
  add_counters(report, rank, path_of, data);
  add_mpi_calls(report, rank, path_of, communicators, data);
  add_memory(from, rank, path_of, data);
  add_labelled_memory(report, rank, data);
  for (std::size_t bin = 0; bin < HandlerCosts::kBins; ++bin) {
    if (const std::uint64_t count = report.handler_costs.counts[bin]; count != 0)
      data.handler_costs.push_back({rank, HandlerCosts::le_ns(bin), count});
  }
  for (const shard::Process& process : from.processes) {
    shard::Process& row = data.processes.emplace_back(process);
    row.rank = rank;
    row.path = path_of[process.path];
    row.top_path = path_of[process.top_path];
  }
  for (const shard::Thread& thread : from.threads) {
    shard::Thread& row = data.threads.emplace_back(thread);
    row.rank = rank;
    row.path = path_of[thread.path];
    row.top_path = path_of[thread.top_path];
    row.last_path = path_of[thread.last_path];
  }
  for (const shard::RecordingWindow& window : from.windows) {
    data.recording_windows.push_back(window);
    data.recording_windows.back().rank = rank;
  }
  if (from.failure) {
    data.failures.push_back(*from.failure);
    data.failures.back().rank = rank;
  }
  for (const auto& [reason, count] : report.drops) data.drops.push_back({rank, reason, count});
  for (const ClockReading& clock : report.clocks)
    data.clock_offsets.push_back(
        {rank, clock.reference_rank, clock.local_ns, clock.offset_ns, clock.error_ns});
  if (!from.events) return;
  add_events(*from.events, rank, path_of, communicators, shard, data);
  for (const KeptStretch& stretch : from.events->kept_stretches())
    data.event_stretches.push_back(
        {rank, stretch.shared_begin_ns, stretch.begin_ns, stretch.end_ns, stretch.complete});
}

void ShardBuilder::open_modules(const RawTables& tables) {
  while (modules_.size() < tables.modules.size()) {
    const ModuleInfo& module = *tables.modules[modules_.size()];
    modules_.push_back(
        module.object.empty()
            ? symbolizer_.add_module(module.path, module.build_id)
            : symbolizer_.add_object(module.path, {tables.modules[modules_.size()], &module.object}));
  }
}

// By raw node: whether a thread is there now, or a call was made there that is under way.
static std::vector<bool> nodes_now(const NodeSnapshot& snapshot) {
  std::vector<bool> nodes(snapshot.tables.nodes.size());
  for (const RankSnapshot& rank : snapshot.ranks) {
    for (const shard::Thread& thread : rank.threads) nodes[thread.last_path] = true;
    for (const RawCallUnderWay& call : rank.report.calls_under_way) nodes[call.path] = true;
    for (const auto& [identity, begun] : rank.report.collectives) nodes[begun.last_path] = true;
  }
  return nodes;
}

static void add_callers(const RawTables& tables, std::vector<bool>& nodes) {
  for (std::size_t i = nodes.size(); i-- > 1;)  // parents come first
    if (nodes[i]) nodes[tables.nodes[i].parent] = true;
}

// The program's own code before that of libraries, whose lines are of less use and may take longer.
void ShardBuilder::read_lines_now(const NodeSnapshot& snapshot, const MayReadLines& may_read_lines) {
  const RawTables& tables = snapshot.tables;
  open_modules(tables);
  std::vector<bool> nodes = nodes_now(snapshot);
  add_callers(tables, nodes);
  const auto is_library = [&](const RawFrame& frame) {
    const ModuleInfo& module = *tables.modules[frame.a];
    return module.role != ModuleRole::kProgram || module.path.starts_with("/usr/lib") ||
           module.path.starts_with("/lib");
  };
  for (const bool libraries : {false, true}) {
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (!nodes[i]) continue;
      const RawFrame& frame = resolved(tables.frames[tables.nodes[i].frame], tables);
      if (frame.kind != RawKind::kNativeExact && frame.kind != RawKind::kNativeReturn) continue;
      if (is_library(frame) != libraries) continue;
      if (!may_read_lines(LinesOf::kStacksNow, symbolizer_.time_on_lines())) return;
      (void)symbolizer_.resolve(modules_[frame.a], frame.b, frame.kind == RawKind::kNativeReturn);
    }
  }
}

std::vector<std::uint32_t> ShardBuilder::add_paths(const RawTables& tables, const std::vector<bool>& wanted,
                                                   const MayReadLines& may_read_lines, Interned& shard) {
  open_modules(tables);
  std::vector<std::uint32_t> path_of(tables.nodes.size(), 0);  // parents come first
  std::vector<bool> is_root(tables.nodes.size());
  for (const std::uint32_t node : tables.process_roots) is_root[node] = true;
  for (std::size_t i = 1; i < tables.nodes.size(); ++i) {
    if (!wanted.empty() && !wanted[i]) continue;
    std::uint32_t path = path_of[tables.nodes[i].parent];
    if (const auto left = shard.tail_callers.find(path);
        left != shard.tail_callers.end() && !may_be_in_region(tables.nodes[i].frame, tables))
      path = left->second;
    add_frames(tables.nodes[i].frame, tables, may_read_lines, shard, path);
    path_of[i] = path;
    // Below the name of a pool, too, the functions that only start a thread say nothing.
    const bool is_pool = tables.frames[tables.nodes[i].frame].kind == RawKind::kPool;
    if (path != 0 && (is_root[i] || is_pool)) shard.process_roots.insert(path);
  }
  return path_of;
}

shard::LiveState ShardBuilder::build_live(const NodeSnapshot& snapshot, const MayReadLines& may_read_lines) {
  const RawTables& tables = snapshot.tables;
  read_lines_now(snapshot, may_read_lines);
  std::vector<bool> wanted = nodes_now(snapshot);
  for (const LiveTimes::Row& row : snapshot.live_times) wanted[row.path] = true;
  add_callers(tables, wanted);

  shard::LiveState state;
  state.watch = snapshot.watch;
  state.memory_used_bytes = snapshot.memory_used_bytes;
  state.memory_limit_bytes = snapshot.memory_limit_bytes;
  state.data.run = snapshot.run;
  state.data.nodes.push_back(snapshot.node);
  Interned shard(state.data);
  const std::vector<std::uint32_t> path_of = add_paths(tables, wanted, may_read_lines, shard);
  Communicators communicators;
  for (const RankSnapshot& from : snapshot.ranks) {
    add_rank(from, path_of, communicators, shard, state.data);
    state.rss_bytes.push_back(from.rss_bytes);
  }
  std::map<std::pair<std::uint32_t, shard::Category>, std::uint64_t>
      times;  // different addresses may be one line
  for (const LiveTimes::Row& row : snapshot.live_times)
    times[{path_of[row.path], row.category}] += row.wall_ns;
  for (const auto& [key, ns] : times) state.times.push_back({key.first, key.second, ns});
  return state;
}

shard::ShardData ShardBuilder::build(const NodeSnapshot& snapshot, const MayReadLines& may_read_lines) {
  const RawTables& tables = snapshot.tables;
  shard::ShardData data;
  data.run = snapshot.run;
  data.nodes.push_back(snapshot.node);
  data.counters = tables.counters;
  Interned shard(data);
  find_small_regions(snapshot, shard);
  read_lines_now(snapshot, may_read_lines);
  const std::vector<std::uint32_t> path_of = add_paths(tables, {}, may_read_lines, shard);

  std::size_t events = 0;
  for (const RankSnapshot& from : snapshot.ranks)
    if (from.events) events += from.events->size();
  data.mpi_events.reserve(events);
  Communicators communicators;
  for (const RankSnapshot& from : snapshot.ranks) add_rank(from, path_of, communicators, shard, data);

  add_io(snapshot, path_of, data);
  add_series(snapshot, shard, data);
  add_path_series(snapshot, path_of, data);
  add_node_totals(snapshot, shard, data);
  data.run.notes.insert(data.run.notes.end(), symbolizer_.notes().begin(), symbolizer_.notes().end());
  unite(data.run.notes);
  return data;
}

}  // namespace clusterprof::collector
