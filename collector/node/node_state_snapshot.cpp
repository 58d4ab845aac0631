// SPDX-License-Identifier: BSD-3-Clause
// Makes a snapshot of the NodeState: numbers the ranks, adds up the processes of each rank, and finds out how
// each rank ended. Called by the server's event loop before each shard, on one thread.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "base/command_text.hpp"
#include "base/secrets.hpp"
#include "base/version.hpp"
#include "collector/node/node_state.hpp"
#include "collector/node/usage.hpp"

namespace clusterprof::collector {
namespace {

// A process that has not greeted by then is one without an agent.
constexpr std::uint64_t kGreetingNs = 2'000'000'000;

// Threads with rows of their own: of a whole job, and at least of each rank.
constexpr std::size_t kJobThreadRows = 65536, kMinThreadRows = 8;

// The amounts of a rank: `sum` of all its processes, `main` its main process.
void set_amounts(shard::Rank& rank, const ProcessReport& sum, const ProcessReport& main,
                 const SystemUsage& usage) {
  rank.user_ns = usage.user_ns;
  rank.system_ns = usage.system_ns;
  rank.cpu_ns = usage.user_ns + usage.system_ns;
  rank.samples = sum.samples;
  rank.threads = static_cast<std::uint32_t>(sum.threads);
  rank.processes = static_cast<std::uint32_t>(sum.processes);
  rank.mpi_ns = sum.mpi_ns;
  rank.mpi_init_end_ns = sum.mpi_init_end_ns;
  rank.mpi_finalize_begin_ns = sum.mpi_finalize_begin_ns;
  rank.mpi_helper_threads = sum.mpi_helpers.count;
  rank.mpi_helper_elapsed_ns = sum.mpi_helpers.elapsed_ns;
  rank.mpi_helper_ns = sum.mpi_helpers.mpi_ns;
  rank.max_rss_bytes = usage.max_rss_bytes;
  rank.read_bytes = usage.read_bytes;
  rank.write_bytes = usage.write_bytes;
  rank.minor_faults = usage.minor_faults;
  rank.major_faults = usage.major_faults;
  rank.voluntary_switches = usage.voluntary_switches;
  rank.involuntary_switches = usage.involuntary_switches;
  rank.handler_ns = sum.handler_ns;
  rank.truncated = sum.truncated;
  rank.merges_tried = sum.merges_tried;
  rank.merges_failed = sum.merges_failed;
  rank.python_version = main.python_version;
  rank.running_samples = sum.running_samples;
  rank.running_ns = sum.running_ns;
  rank.mpi_operations = sum.mpi_operations;
  rank.paused_ns = sum.paused_ns;
  rank.mpi_runnable_ns = std::min(sum.mpi_runnable_ns, sum.mpi_ns);
  rank.unsampled_threads = sum.unsampled_threads;
  rank.unsampled_cpu_ns = sum.unsampled_cpu_ns;
  for (const auto& [key, amount] : sum.values)
    if (key.main_thread) rank.main_thread_ns[static_cast<std::size_t>(key.category)] += amount.wall_ns;
}

// The windows in which the rank's main process was recorded, since its start, and what was left out between.
void set_windows(RankSnapshot& snapshot, const ProcessReport& sum, std::uint64_t start_ns,
                 std::uint64_t end_ns) {
  shard::Rank& rank = snapshot.rank;
  std::uint64_t recorded_ns = 0;
  for (const RecordedWindow& window : sum.windows) {
    const std::uint64_t begin = std::clamp(window.begin_ns, start_ns, end_ns),
                        end = std::clamp(window.end_ns, begin, end_ns);
    if (begin == end) continue;
    snapshot.windows.push_back({0, begin - start_ns, end - start_ns});
    recorded_ns += end - begin;
  }
  if (!sum.leaves_gaps) return;
  rank.standby_ns = rank.elapsed_ns - std::min(recorded_ns, rank.elapsed_ns);
  rank.paused_ns = std::max(rank.paused_ns, rank.standby_ns);
}

// What is known of a rank. `had_segment`: its main process has been recorded.
void set_flags(shard::Rank& rank, const ProcessReport& sum, const ProcessReport& main,
               const SystemUsage& usage, bool had_segment) {
  if (sum.knows_run_delay) rank.flags |= shard::kRunDelayKnown;
  if (usage.has_rss) rank.flags |= shard::kUsageKnown;
  if (usage.has_io) rank.flags |= shard::kIoKnown;
  // A process that never left MPI_Init still has the state "none".
  if (main.mpi_state != wire::MpiState::kNone || !main.calls_under_way.empty()) rank.flags |= shard::kUsedMpi;
  rank.flags |= had_segment ? shard::kFilesKnown : shard::kMpiUnwatched;
  if (sum.knows_page_faults) rank.flags |= shard::kFaultsApart;
  if (sum.samples != 0 && !sum.python_unread && !sum.python_partly) rank.flags |= shard::kGarbageApart;
  if (sum.python_unread) rank.flags |= shard::kPythonUnread;
  if ((sum.mpi_unseen & wire::kReceivesUnseen) != 0) rank.flags |= shard::kReceivesUnseen;
  if ((sum.mpi_unseen & wire::kSendsUnsure) != 0) rank.flags |= shard::kSendsUnsure;
}

// How a process ended; both empty while it runs, and if nobody knows.
struct End {
  std::optional<int> status, signal;
};

// What the kernel says counts more than what the process had announced.
End end_as_known(const ProcessReport& report, const std::optional<int>& wait_status, bool alive) {
  const std::uint32_t told = (report.exit_flags & wire::kExecuted) != 0 ? 0 : report.exit_flags;
  if (wait_status && WIFEXITED(*wait_status)) return {WEXITSTATUS(*wait_status), std::nullopt};
  if (wait_status && WIFSIGNALED(*wait_status)) return {std::nullopt, WTERMSIG(*wait_status)};
  if (alive) return {};
  if ((told & wire::kFatalSignalKnown) != 0)
    return {std::nullopt, static_cast<std::int32_t>(report.fatal_signal)};
  if ((told & wire::kExitStatusKnown) != 0) return {report.exit_status, std::nullopt};
  return {};
}

// How a rank ended. A rank is lost if a signal ended it, or if it ended without MPI_Finalize in a job of
// several ranks. A rank that still runs counts as lost, too: if this stays the last shard, nobody saw its
// end.
void set_end(shard::Rank& rank, const ProcessReport& main, const std::optional<int>& wait_status,
             bool alive) {
  const End end = end_as_known(main, wait_status, alive);
  if (end.status) {
    rank.flags |= shard::kExitStatusKnown;
    rank.exit_status = *end.status;
  }
  if (end.signal) {
    rank.flags |= shard::kExitSignalKnown;
    rank.exit_signal = *end.signal;
  }
  if (alive && !end.status && !end.signal) rank.flags |= shard::kStillRan;
  const bool left_mpi_open = main.mpi_state == wire::MpiState::kInitialised && main.mpi_size > 1;
  if (left_mpi_open || !end.status) rank.flags |= shard::kLost;
}

// What a rank that has failed left behind.
void set_failure(RankSnapshot& snapshot, const ProcessReport& main, const std::optional<int>& wait_status) {
  const shard::Rank& rank = snapshot.rank;
  if (!main.last_words || ((rank.flags & shard::kLost) == 0 && rank.exit_status == 0)) return;
  snapshot.failure = main.last_words;
  // Its handler had no stack to run on.
  const bool handler_ran = (main.exit_flags & wire::kFatalSignalKnown) != 0;
  if (wait_status && WIFSIGNALED(*wait_status) && WTERMSIG(*wait_status) == SIGSEGV && !handler_ran)
    snapshot.failure->flags |= shard::Failure::kStackOverflow;
}

// Keeps the rows of those that called MPI_Abort, which a launcher may have ended then, and of those that
// failed by themselves, and of them the first.
void bound_failures(std::vector<RankSnapshot>& ranks) {
  std::vector<RankSnapshot*> failed;
  for (RankSnapshot& rank : ranks)
    if (rank.failure) failed.push_back(&rank);
  if (failed.size() <= shard::kMaxFailureRows) return;
  const auto place = [](const RankSnapshot* snapshot) {
    const shard::Rank& rank = snapshot->rank;
    const bool ended_by_launcher = rank.exit_signal == SIGTERM || rank.exit_signal == SIGKILL;
    const bool aborted = (snapshot->failure->flags & shard::Failure::kCalledAbort) != 0;
    return std::tuple(!aborted, ended_by_launcher,
                      rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns));
  };
  std::ranges::stable_sort(failed, {}, place);
  for (std::size_t i = shard::kMaxFailureRows; i < failed.size(); ++i) failed[i]->failure.reset();
}

}  // namespace

// The present state of a process.
struct NodeState::ProcessView {
  const Process* process;
  ProcessReport report;  // all its segments
  bool had_segment;      // at some time
  SystemUsage usage;
  Instant start;
  std::uint64_t end_ns;
};

std::map<NodeState::RankKey, std::int32_t> NodeState::rank_numbers() const {
  std::map<RankKey, std::int32_t> numbers;
  std::set<std::int32_t> taken;
  // MPI's own rank number counts, as long as its job is the launcher's.
  for (const auto& [key, group] : ranks_) {
    // Where a launcher has started its ranks again, their own numbers are those of the first start.
    if (is_above_ranks(key) || !starts_.empty()) continue;
    for (const Process& process : group.processes) {
      std::int32_t rank = -1, size = -1, launched = -1;
      if (process.recorder) {
        rank = process.recorder->header().mpi_rank.load(std::memory_order_relaxed);
        size = process.recorder->header().mpi_size.load(std::memory_order_relaxed);
        launched = process.recorder->header().world_size;
      } else if (process.past) {
        rank = process.past->mpi_rank;
        size = process.past->mpi_size;
        launched = process.past->world_size;
      }
      if (launched <= 0) launched = static_cast<std::int32_t>(options_.world_size);
      const bool same_job = launched == 0 || size == launched;
      if (rank < 0 || size <= 1 || size > kMaxRanks || rank >= size || !same_job ||
          !taken.insert(rank).second)
        continue;
      numbers[key] = rank;
      break;
    }
  }
  for (const auto& [key, group] : ranks_) {
    if (numbers.contains(key) || is_above_ranks(key)) continue;
    std::int32_t rank = key >= 0 ? static_cast<std::int32_t>(key) : 0;
    while (!taken.insert(rank).second) ++rank;
    numbers[key] = rank;
  }
  return numbers;
}

bool NodeState::is_spawned(std::int32_t rank) const {
  const auto behind = std::upper_bound(
      spawned_worlds_.begin(), spawned_worlds_.end(), rank,
      [](std::int32_t number, const SpawnedWorld& world) { return number < world.first_rank; });
  return behind != spawned_worlds_.begin() && rank - std::prev(behind)->first_rank < std::prev(behind)->size;
}

std::uint64_t NodeState::end_of(const Process& process, const ProcessReport& report) {
  const bool agent_saw_the_end = report.end_mono_ns != 0 && (report.exit_flags & wire::kExecuted) == 0;
  return agent_saw_the_end ? report.end_mono_ns : process.gone_ns;
}

shard::Process NodeState::row_of(const Process& process, const ProcessReport& report,
                                 const SystemUsage& usage, Instant start, std::uint64_t end_ns,
                                 const RawTables& tables) {
  shard::Process row;
  row.path = process.created_path;
  row.pid = report.pid != 0 ? report.pid : process.pid;
  row.parent_pid = process.parent_pid != 0 ? process.parent_pid : report.parent_pid;
  row.origin = process.announced ? shard::ProcessOrigin::kRank : process.origin;
  row.unrecorded = process.unrecorded;
  // A child that has just said that it ends is not seen to have ended yet.
  const bool has_told = report.end_mono_ns != 0 && (report.exit_flags & wire::kExecuted) == 0;
  if (has_told) end_ns = std::min(end_ns, report.end_mono_ns);
  const bool runs = process.alive && !has_told;
  const End end = end_as_known(report, process.wait_status, runs);
  if (runs) row.flags |= shard::Process::kRuns;
  if (end.status) {
    row.flags |= shard::Process::kExitStatusKnown;
    row.exit_status = *end.status;
  }
  if (end.signal) {
    row.flags |= shard::Process::kExitSignalKnown;
    row.exit_signal = *end.signal;
  }
  row.start_utc_ns = start.utc_ns;
  row.elapsed_ns = end_ns - std::min(end_ns, start.mono_ns);
  row.cpu_ns = row.cpu_min_ns = row.cpu_max_ns = usage.user_ns + usage.system_ns;
  // The kernel goes on counting when another program is executed, of which we may not know it yet.
  row.children_cpu_ns = report.usage.children_user_ns + report.usage.children_system_ns;
  if (process.past)
    row.children_cpu_ns = std::max(
        row.children_cpu_ns, process.past->usage.children_user_ns + process.past->usage.children_system_ns);
  std::map<std::uint32_t, std::uint64_t> busy_ns;
  // A thread that waits for others has nothing to do, but for a rank's main thread.
  const bool is_rank = row.origin == shard::ProcessOrigin::kRank;
  for (const auto& [key, amount] : report.values) {
    if (key.category == shard::Category::kIdle) continue;
    const bool waits = !(is_rank && key.main_thread) && is_wait_for_others(tables, key);
    busy_ns[key.path] += waits ? std::min(amount.cpu_ns, amount.wall_ns) : amount.wall_ns;
  }
  for (const auto& [path, ns] : busy_ns) {
    if (ns <= row.top_ns) continue;
    row.top_path = path;
    row.top_ns = ns;
  }
  row.command = process.command;
  return row;
}

NodeState::ProcessView NodeState::view(Process& process, std::uint64_t now_ns, Events events,
                                       LiveTimes* live) {
  ProcessView view{&process, {}, process.recorder || process.past, {}, process.start, now_ns};
  if (process.recorder) {
    view.report = live != nullptr ? process.recorder->live_report(now_ns, *live)
                                  : process.recorder->report(now_ns, events);
    if (process.past) view.report.begin_with(*process.past);
  } else if (process.past) {
    view.report = *process.past;
  }
  view.report.processes = 1;
  view.usage = own_usage(usage_of(view.report, process.usage), process);
  if (view.had_segment) view.start = {view.report.start_mono_ns, view.report.start_utc_ns};
  if (!process.alive) view.end_ns = end_of(process, view.report);
  view.end_ns = std::max(view.end_ns, view.start.mono_ns);
  if (!process.recorder && process.past) view.report.paused_ns += unrecorded_ns(process, view.end_ns);
  return view;
}

std::size_t NodeState::main_process(const std::vector<ProcessView>& views) {
  const auto better = [](const ProcessView& a, const ProcessView& b) {
    const bool a_mpi = a.report.mpi_state != wire::MpiState::kNone;
    const bool b_mpi = b.report.mpi_state != wire::MpiState::kNone;
    if (a_mpi != b_mpi) return a_mpi;
    if (a.process->announced != b.process->announced) return a.process->announced;
    return a.process->id < b.process->id;
  };
  return static_cast<std::size_t>(std::min_element(views.begin(), views.end(), better) - views.begin());
}

RankSnapshot NodeState::rank_snapshot(std::int32_t number, RankGroup& group, std::uint64_t now_ns,
                                      Events events, std::size_t thread_rows, std::vector<shard::Note>& notes,
                                      LiveTimes* live, const RawTables& tables) {
  std::vector<ProcessView> views;
  views.reserve(group.processes.size());
  for (Process& process : group.processes) views.push_back(view(process, now_ns, events, live));
  const std::size_t main_index = main_process(views);
  const ProcessView& main = views[main_index];

  RankSnapshot snapshot;
  shard::Rank& rank = snapshot.rank;
  ProcessReport& sum = snapshot.report;
  SystemUsage usage = group.helpers_usage;
  if (live == nullptr) sum.add_amounts(group.helpers, false);
  bool any_segment = group.helpers.processes != 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    sum.add_amounts(views[i].report, i == main_index);
    add_usage(usage, views[i].usage);
    any_segment = any_segment || views[i].had_segment;
  }
  const auto add_note = [&](shard::NoteCode code, std::uint64_t value) {
    notes.push_back(shard::note_of_ranks(code, {number, number}, value));
  };
  for (const auto& [code, value] : sum.notes) add_note(code, value);
  sum.world_size = main.report.world_size;
  sum.mpi_size = main.report.mpi_size;
  sum.mpi_library = main.report.mpi_library;

  rank.rank = number;
  rank.restart = static_cast<std::uint32_t>(std::max(group.restart, 0));
  rank.pid = main.had_segment ? main.report.pid : main.process->pid;
  rank.start_utc_ns = main.start.utc_ns;
  rank.elapsed_ns = main.end_ns - main.start.mono_ns;
  set_amounts(rank, sum, main.report, usage);
  set_windows(snapshot, sum, main.start.mono_ns, main.end_ns);
  set_flags(rank, sum, main.report, usage, main.had_segment);
  set_end(rank, main.report, main.process->wait_status, main.process->alive);
  if ((rank.flags & shard::kLost) != 0 || rank.exit_status != 0) snapshot.last_path = sum.last_path;
  if ((rank.flags & shard::kStillRan) == 0) set_failure(snapshot, main.report, main.process->wait_status);
  snapshot.command = group.command;
  snapshot.affinity = main.process->look.affinity;
  snapshot.numa_nodes = main.process->look.numa_nodes;
  snapshot.events = sum.events[static_cast<std::size_t>(events)];
  sum.events = {};
  ThreadTable threads;  // those of the main process have rows of their own first
  threads.add(main.report.thread_table);
  if (live == nullptr) threads.add(group.helpers.thread_table);
  for (std::size_t i = 0; i < views.size(); ++i)
    if (i != main_index) threads.add(views[i].report.thread_table);
  snapshot.threads = threads.rows(thread_rows);
  if (live != nullptr) {
    snapshot.rss_bytes = rss_bytes(group);
    return snapshot;
  }
  snapshot.series = group.series;
  snapshot.processes = group.ended;
  snapshot.processes.insert(snapshot.processes.end(), group.ended_alike.begin(), group.ended_alike.end());
  for (const ProcessView& each : views)
    snapshot.processes.push_back(
        row_of(*each.process, each.report, each.usage, each.start, each.end_ns, tables));
  std::sort(snapshot.processes.begin(), snapshot.processes.end(),
            [](const shard::Process& a, const shard::Process& b) {
              return std::pair(a.start_utc_ns, a.pid) < std::pair(b.start_utc_ns, b.pid);
            });
  // Without a budget there are no events, so there is no level.
  if (snapshot.events && snapshot.events->budget() != 0) rank.event_level = snapshot.events->level();

  if (!any_segment && (!main.process->alive || now_ns - main.start.mono_ns > kGreetingNs))
    add_note(shard::NoteCode::kNoSamples, 0);
  return snapshot;
}

void NodeState::add_memory(RankSnapshot& snapshot, RankKey key, const RankGroup& group) const {
  const ProcessReport& report = snapshot.report;
  if (report.memory_interval_bytes == 0) return;
  MemoryLedger::RankMemory held = memory_.rank(key);
  shard::MemoryRank& row = snapshot.memory.emplace();
  row.interval_bytes = report.memory_interval_bytes;
  row.peak_bytes = held.peak.bytes;
  if (held.peak.bytes != 0)
    row.peak_ns = static_cast<std::uint64_t>(
        std::max<std::int64_t>(grid_.utc_ns(held.peak.time_ns) - snapshot.rank.start_utc_ns, 0));
  row.live_end_bytes = held.live_end;
  row.untracked_bytes = report.memory_untracked_bytes;
  row.static_bytes = report.memory_static_bytes;
  const MemoryLooks& looks = group.memory;
  row.max_anon_bytes = looks.max_anon_bytes;
  row.live_at_max_anon_bytes = looks.live_at_max_anon_bytes;
  if (looks.looked_ns > 0) {
    row.mean_anon_bytes = static_cast<std::uint64_t>(looks.anon_byte_ns / looks.looked_ns);
    row.mean_live_bytes = static_cast<std::uint64_t>(looks.live_byte_ns / looks.looked_ns);
  }
  row.pss_bytes = looks.most.pss_bytes;
  row.private_dirty_bytes = looks.most.private_dirty_bytes;
  row.huge_bytes = looks.most.huge_bytes;
  row.swap_bytes = looks.most.swap_bytes;
  row.near_bytes = looks.most.near_bytes;
  row.far_bytes = looks.most.far_bytes;
  snapshot.held_rows = std::move(held.rows);
  snapshot.held = std::move(held.series);
}

NodeSnapshot NodeState::snapshot(Instant now, bool complete, Events events) {
  return make_snapshot(now, complete, events, nullptr);
}

void NodeState::begin_live(std::uint64_t watch) {
  live_.emplace(store_);
  watch_ = watch;
  for (auto& [key, group] : ranks_)
    for (Process& process : group.processes)
      if (process.recorder) process.recorder->take_new_times(nullptr);
}

void NodeState::end_live() {
  live_.reset();
  for (auto& [key, group] : ranks_)
    for (Process& process : group.processes)
      if (process.recorder) process.recorder->stop_taking_times();
}

NodeSnapshot NodeState::live_snapshot(Instant now) {
  live_->begin_look();
  NodeSnapshot snapshot = make_snapshot(now, false, Events::kFew, &*live_);
  snapshot.live_times = live_->rows();
  snapshot.watch = watch_;
  return snapshot;
}

NodeSnapshot NodeState::make_snapshot(Instant now, bool complete, Events events, LiveTimes* live) {
  NodeSnapshot snapshot;
  shard::Run& run = snapshot.run;
  run.id = options_.run_id;
  run.command = options_.command;
  run.own = options_.own;
  run.rate_hz = options_.rate_hz;
  run.clock = options_.clock;
  run.version = kVersion;
  run.complete = complete;
  run.world_size = world_size();
  run.notes = notes_;
  if (notes_left_out_ != 0)
    run.notes.push_back(
        shard::note_of_node(shard::NoteCode::kMoreNotes, options_.node_name, notes_left_out_));
  if (!options_.only_ranks.empty())
    run.notes.push_back(shard::note_of_run(shard::NoteCode::kOnlySomeRanks, 0, options_.only_ranks));

  snapshot.settings = options_.settings;
  run.sample_on = options_.sample_on;
  run.launcher = options_.launcher;
  run.only_regions = options_.only_regions;
  run.standby = options_.standby;

  snapshot.node.name = options_.node_name;
  snapshot.node.cpus = facts_.cpus;
  snapshot.node.numa_nodes = facts_.numa_nodes;
  snapshot.node.memory_bytes = facts_.memory_bytes;
  snapshot.node.cache_bytes = facts_.cache_bytes;
  snapshot.node.cpu_model = facts_.cpu_model;
  snapshot.node.group = group_memory_;
  snapshot.node.requested_memory_bytes = options_.requested_memory_bytes;
  // By the clock of the ranks' starts, even if it has been set since.
  snapshot.node.start_utc_ns = grid_.begun() ? grid_.utc_ns(now.mono_ns) : now.utc_ns;
  snapshot.node.as_of_utc_ns = now.utc_ns;
  std::int64_t end_utc_ns = 0;
  if (memory_.any()) memory_.advance(now.mono_ns);
  std::vector<PathTime> open_times;
  const auto numbers = rank_numbers();
  const std::size_t thread_rows =
      std::clamp(kJobThreadRows / std::max(1u, world_size()), kMinThreadRows, shard::kMaxThreadRows);
  for (auto& [key, group] : ranks_) {
    if (group.processes.empty() || is_above_ranks(key)) continue;
    snapshot.ranks.push_back(rank_snapshot(numbers.at(key), group, now.mono_ns, events, thread_rows,
                                           run.notes, live, store_.tables()));
    if (live == nullptr) {
      snapshot.ranks.back().report.call_waiting_helpers_idle(store_.tables());
      add_memory(snapshot.ranks.back(), key, group);
    }
    // One that was attached to was running before, and may go on.
    if (options_.attached && (snapshot.ranks.back().rank.flags & shard::kStillRan) != 0)
      snapshot.ranks.back().rank.flags &= ~shard::kLost;
    if (!options_.watches_mpi) snapshot.ranks.back().rank.flags |= shard::kMpiUnwatched;
    if (is_spawned(snapshot.ranks.back().rank.rank)) snapshot.ranks.back().rank.flags |= shard::kSpawned;
    const shard::Rank& rank = snapshot.ranks.back().rank;
    const ProcessReport& report = snapshot.ranks.back().report;
    open_times.insert(open_times.end(), report.open_times.begin(), report.open_times.end());
    snapshot.node.start_utc_ns = std::min(snapshot.node.start_utc_ns, rank.start_utc_ns);
    end_utc_ns = std::max(end_utc_ns, rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns));
    snapshot.node.cpu_ns += rank.cpu_ns;
    run.counters_multiplexed = run.counters_multiplexed || report.counters_multiplexed;
    if (run.mpi_library.empty()) run.mpi_library = report.mpi_library;
    for (const std::int32_t size : {report.world_size, report.mpi_size}) {
      if (options_.world_size == 0 && size > 0 && size <= kMaxRanks)
        run.world_size = std::max(run.world_size, static_cast<std::uint32_t>(size));
    }
  }
  bound_failures(snapshot.ranks);
  if (options_.command_detail != CommandDetail::kFull)
    for (RankSnapshot& rank : snapshot.ranks)
      if (rank.failure) {
        rank.failure->message = mask_secrets_in_text(rank.failure->message);
        rank.failure->stderr_tail = mask_secrets_in_text(rank.failure->stderr_tail);
      }
  for (std::uint32_t i = 0; i < wire::kUnrecordedReasons; ++i) {
    std::uint64_t programs = 0;
    for (const RankSnapshot& rank : snapshot.ranks) programs += rank.report.unrecorded_programs[i];
    if (programs != 0)
      run.notes.push_back(shard::note_of_node(shard::NoteCode::kUnrecordedPrograms, options_.node_name,
                                              programs, wire::kUnrecordedReasonNames[i]));
  }
  if (memory_kills_ != 0)
    run.notes.push_back(
        shard::note_of_node(shard::NoteCode::kMemoryKills, options_.node_name, memory_kills_));
  if (options_.time_limit_utc_ns != 0 && now.utc_ns >= options_.time_limit_utc_ns)
    run.notes.push_back(
        shard::note_of_node(shard::NoteCode::kTimeLimit, options_.node_name,
                            static_cast<std::uint64_t>(options_.time_limit_utc_ns / 1'000'000'000)));
  if (!options_.only_ranks.empty()) run.world_size = 0;  // the others are not missing
  std::sort(snapshot.ranks.begin(), snapshot.ranks.end(),
            [](const RankSnapshot& a, const RankSnapshot& b) { return a.rank.rank < b.rank.rank; });
  // Of the lowest rank, in whatever order the ranks of a job with several commands were started.
  if (!snapshot.ranks.empty() && !snapshot.ranks.front().command.empty() &&
      snapshot.ranks.front().command != command_text(run.command))
    run.command = command_words(snapshot.ranks.front().command);
  run.start_utc_ns = snapshot.node.start_utc_ns;
  if (end_utc_ns > run.start_utc_ns) {
    snapshot.node.elapsed_ns = static_cast<std::uint64_t>(end_utc_ns - run.start_utc_ns);
  }
  if (run.counters_multiplexed) run.notes.push_back(shard::note_of_run(shard::NoteCode::kCountersTookTurns));
  unite(run.notes);
  if (live == nullptr) {
    const MemoryLedger::Peak peak = memory_.node_peak();
    if (peak.bytes != 0) {
      snapshot.node.held_peak_bytes = peak.bytes;
      snapshot.node.held_peak_utc_ns = grid_.utc_ns(peak.time_ns);
      snapshot.held = memory_.node_series();
      path_times_.grid().reach(now.mono_ns);  // so that what follows has the same bins
    }
    snapshot.grid = grid_;
    snapshot.series = series_;
    snapshot.path_times = path_times_.cells(open_times);
    if (peak.bytes != 0) snapshot.held_cells = memory_.cells(now.mono_ns);
  }
  snapshot.tables = store_.tables();  // after the reports, which add call paths of MPI call sites
  return snapshot;
}

}  // namespace clusterprof::collector
