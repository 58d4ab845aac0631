// SPDX-License-Identifier: BSD-3-Clause
#include "collector/node/node_state.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "base/version.hpp"

namespace clusterprof::collector {
namespace {

// A process that has not greeted by then is one without an agent.
constexpr std::uint64_t kGreetingNs = 2'000'000'000;
constexpr auto kMostRanks = static_cast<std::int32_t>(shard::kMaxWorldSize);  // more is nonsense
constexpr std::size_t kMostNotes = 50;
constexpr std::size_t kMostMpiHelpers = 16;  // that ended and are kept, of a rank
// MPI events. Those of a node are written within seconds when it ends, those of a job analysed in memory.
constexpr std::size_t kJobEvents = std::size_t{1} << 25, kNodeEvents = std::size_t{1} << 22,
                      kMostRankEvents = std::size_t{1} << 18, kFewestRankEvents = std::size_t{1} << 12;
constexpr std::size_t kCheckpointEvents = std::size_t{1} << 16, kFewestCheckpointEvents = 256;

SystemUsage larger(const wire::ProcessUsage& agent, const std::optional<SystemUsage>& system) {
  SystemUsage usage = system.value_or(SystemUsage{});
  const bool agent_knows = agent.max_rss_bytes != 0;
  usage.user_ns = std::max(usage.user_ns, agent.user_ns);
  usage.system_ns = std::max(usage.system_ns, agent.system_ns);
  usage.max_rss_bytes = std::max(usage.max_rss_bytes, agent.max_rss_bytes);
  usage.minor_faults = std::max(usage.minor_faults, agent.minor_faults);
  usage.major_faults = std::max(usage.major_faults, agent.major_faults);
  usage.voluntary_switches = std::max(usage.voluntary_switches, agent.voluntary_switches);
  usage.involuntary_switches = std::max(usage.involuntary_switches, agent.involuntary_switches);
  usage.read_bytes = std::max(usage.read_bytes, agent.read_bytes);
  usage.write_bytes = std::max(usage.write_bytes, agent.write_bytes);
  usage.has_io = usage.has_io || agent.usage_has_io != 0;
  usage.has_rss = usage.has_rss || agent_knows;
  return usage;
}

// Of one whose end the agent did not see, the kernel's figures may be a second old; its samples are not. They
// do not tell user time from system time.
SystemUsage usage_of(const ProcessReport& report, const std::optional<SystemUsage>& system) {
  SystemUsage usage = larger(report.usage, system);
  if (report.end_mono_ns != 0) return usage;
  std::uint64_t sampled_ns = 0;
  for (const auto& [key, amount] : report.values) sampled_ns += amount.cpu_ns;
  const std::uint64_t known_ns = usage.user_ns + usage.system_ns;
  if (sampled_ns > known_ns) usage.user_ns += sampled_ns - known_ns;
  return usage;
}

void add(SystemUsage& sum, const SystemUsage& usage) {
  sum.user_ns += usage.user_ns;
  sum.system_ns += usage.system_ns;
  sum.max_rss_bytes = std::max(sum.max_rss_bytes, usage.max_rss_bytes);
  sum.minor_faults += usage.minor_faults;
  sum.major_faults += usage.major_faults;
  sum.voluntary_switches += usage.voluntary_switches;
  sum.involuntary_switches += usage.involuntary_switches;
  sum.read_bytes += usage.read_bytes;
  sum.write_bytes += usage.write_bytes;
  sum.has_io = sum.has_io || usage.has_io;
  sum.has_rss = sum.has_rss || usage.has_rss;
}

}  // namespace

struct NodeState::ProcessView {
  const Process* process;
  ProcessReport report;  // all its segments
  bool has_said;         // it had a segment at some time
  SystemUsage usage;
  Instant start;
  std::uint64_t end_ns;
};

void NodeState::begin(Instant now) {
  grid_.begin(now.mono_ns, now.utc_ns);
  path_times_.grid().begin(now.mono_ns, now.utc_ns);
}

NodeState::NodeState(NodeOptions options) : options_(std::move(options)), notes_(options_.notes) {}

NodeState::Process* NodeState::find(ProcessId id) {
  return const_cast<Process*>(std::as_const(*this).find(id));
}

const NodeState::Process* NodeState::find(ProcessId id) const {
  const auto key = rank_of_.find(id);
  if (key == rank_of_.end()) return nullptr;
  const auto group = ranks_.find(key->second);
  if (group == ranks_.end()) return nullptr;
  for (const Process& process : group->second.processes) {
    if (process.id == id) return &process;
  }
  return nullptr;
}

NodeState::Process& NodeState::add_process(RankKey key, std::int32_t pid, Instant now) {
  begin(now);
  Process& process = ranks_[key].processes.emplace_back();
  process.id = next_id_++;
  process.pid = pid;
  process.start = now;
  rank_of_[process.id] = key;
  return process;
}

void NodeState::move_to(ProcessId id, RankKey key) {
  const RankKey old = rank_of_.at(id);
  if (old == key) return;
  auto& from = ranks_[old].processes;
  const auto it = std::find_if(from.begin(), from.end(), [&](const Process& p) { return p.id == id; });
  ranks_[key].processes.splice(ranks_[key].processes.end(), from, it);
  rank_of_[id] = key;
  if (from.empty() && ranks_[old].helpers.processes == 0) {
    ranks_[key].series.add(std::move(ranks_[old].series));
    ranks_.erase(old);
  }
}

NodeState::ProcessId NodeState::announce(std::optional<ProcessId> known, std::int32_t rank,
                                         std::int32_t world_size, std::int32_t pid, Instant now) {
  // Processes of a world that MPI_Comm_spawn made count those before them.
  if (world_size > 0 && world_size <= kMostRanks)
    options_.world_size = std::max(options_.world_size, static_cast<std::uint32_t>(world_size));
  grid_.set_ranks(options_.world_size);
  Process* process = known ? find(*known) : nullptr;
  if (process == nullptr) {
    const RankKey key = rank >= 0 ? rank : -static_cast<RankKey>(next_id_);
    process = &add_process(key, pid, now);
  } else if (rank >= 0) {
    move_to(process->id, rank);
  }
  process->announced = true;
  return process->id;
}

NodeState::RankKey NodeState::key_for_segment(const wire::SegmentHeader& header) const {
  if (header.rank >= 0) return header.rank;
  // A helper of a rank without a number belongs where its parent does.
  for (const auto& [key, group] : ranks_) {
    for (const Process& process : group.processes) {
      if (process.alive && process.pid == header.parent_pid) return key;
    }
  }
  return ranks_.empty() ? -static_cast<RankKey>(next_id_) : ranks_.begin()->first;
}

NodeState::ProcessId NodeState::hello(std::optional<ProcessId> known, std::int32_t pid, SegmentView segment,
                                      Instant now) {
  Process* process = known ? find(*known) : nullptr;
  if (process == nullptr) process = &add_process(key_for_segment(segment.header()), pid, now);
  if (process->recorder) close_segment(*process, now.mono_ns);
  grid_.reach_back(segment.header().start_mono_ns);
  path_times_.grid().reach_back(segment.header().start_mono_ns);
  process->recorder = std::make_unique<ProcessRecorder>(std::move(segment), store_, grid_, path_times_);
  set_event_budget(*process->recorder);
  return process->id;
}

void NodeState::close_segment(Process& process, std::uint64_t now_ns) {
  if (!process.recorder) return;
  const std::uint64_t said = process.recorder->header().end_mono_ns.load(std::memory_order_acquire);
  const std::uint64_t end = said != 0 && said < now_ns ? said : now_ns;
  process.recorder->finish(end);
  ProcessReport report = process.recorder->report(end);
  process.recorder.reset();
  if (!process.past) {
    process.past = std::move(report);
    return;
  }
  report.begin_with(*process.past);
  process.past = std::move(report);
}

void NodeState::segment_ended(ProcessId id, std::uint64_t now_ns) {
  if (Process* const process = find(id)) close_segment(*process, now_ns);
}

void NodeState::gone(ProcessId id, std::uint64_t now_ns, std::optional<int> wait_status) {
  Process* const process = find(id);
  if (process == nullptr || !process->alive) return;
  close_segment(*process, now_ns);
  RankGroup& group = ranks_.at(rank_of_.at(id));
  update_series(group, *process, now_ns);
  update_rss(group, now_ns);
  process->alive = false;
  process->gone_ns = now_ns;
  if (wait_status) process->wait_status = wait_status;

  add_up_helpers(group);
}

// Helpers that ended are added up, so that any number of them takes bounded memory.
void NodeState::add_up_helpers(RankGroup& group) {
  const bool has_main = std::any_of(group.processes.begin(), group.processes.end(),
                                    [](const Process& p) { return p.announced; });
  if (!has_main) return;
  // Of those that used MPI the first one may be the rank's main process; of the others nothing is lost but
  // what an earlier one, which stays, has said of MPI already.
  std::set<std::tuple<wire::MpiState, std::int32_t, std::int32_t, std::int32_t>> said;
  for (auto it = group.processes.begin(); it != group.processes.end();) {
    const Process& process = *it;
    const bool ended_helper = !process.announced && !process.alive && process.past;
    bool stays = !ended_helper;
    if (ended_helper && process.past->mpi_state != wire::MpiState::kNone) {
      const ProcessReport& past = *process.past;
      const bool is_first =
          said.size() < kMostMpiHelpers &&
          said.emplace(past.mpi_state, past.mpi_rank, past.mpi_size, past.world_size).second;
      stays = is_first;
    }
    if (stays) {
      ++it;
      continue;
    }
    it->past->processes = 1;
    group.helpers.add_amounts(*process.past, false);
    add(group.helpers_usage, usage_of(*process.past, process.usage));
    rank_of_.erase(process.id);
    it = group.processes.erase(it);
  }
}

void NodeState::set_wait_status(ProcessId id, int wait_status) {
  if (Process* const process = find(id)) process->wait_status = wait_status;
}

void NodeState::set_usage(ProcessId id, const SystemUsage& usage) {
  Process* const process = find(id);
  if (process == nullptr) return;
  const SystemUsage before = process->usage.value_or(SystemUsage{});
  SystemUsage& now = process->usage.emplace(usage);
  // A zombie has no memory and maybe no counts left to look at: keep what was seen before.
  now.has_rss = now.has_rss || before.has_rss;
  now.has_io = now.has_io || before.has_io;
  for (const auto field :
       {&SystemUsage::user_ns, &SystemUsage::system_ns, &SystemUsage::max_rss_bytes,
        &SystemUsage::minor_faults, &SystemUsage::major_faults, &SystemUsage::voluntary_switches,
        &SystemUsage::involuntary_switches, &SystemUsage::read_bytes, &SystemUsage::write_bytes}) {
    now.*field = std::max(now.*field, before.*field);
  }
}

void NodeState::set_look(ProcessId id, ProcessLook look) {
  Process* const process = find(id);
  if (process == nullptr) return;
  if (look.rss_bytes != 0) process->look.rss_bytes = look.rss_bytes;
  if (look.affinity.empty()) return;
  process->look.affinity = std::move(look.affinity);
  process->look.numa_nodes = std::move(look.numa_nodes);
}

void NodeState::set_node_facts(NodeFacts facts) { facts_ = std::move(facts); }

void NodeState::update_series(RankGroup& group, Process& process, std::uint64_t now_ns) {
  if (process.recorder) process.recorder->update_mpi_counters(now_ns);
  const SystemUsage usage = process.recorder ? larger(process.recorder->header().usage, process.usage)
                            : process.past   ? usage_of(*process.past, process.usage)
                                             : larger(wire::ProcessUsage{}, process.usage);
  const std::uint64_t since = std::max(process.in_series_until_ns, process.start.mono_ns);
  using Field = std::uint64_t SystemUsage::*;
  constexpr std::pair<RankColumn, Field> kFields[] = {
      {kCpuUser, &SystemUsage::user_ns},
      {kCpuSystem, &SystemUsage::system_ns},
      {kMinorFaults, &SystemUsage::minor_faults},
      {kMajorFaults, &SystemUsage::major_faults},
      {kVoluntarySwitches, &SystemUsage::voluntary_switches},
      {kInvoluntarySwitches, &SystemUsage::involuntary_switches},
      {kReadBytes, &SystemUsage::read_bytes},
      {kWriteBytes, &SystemUsage::write_bytes},
  };
  for (const auto& [column, field] : kFields) {
    std::uint64_t& known = process.in_series.*field;
    if (usage.*field <= known) continue;
    group.series.spread(grid_, column, since, now_ns, usage.*field - known);
    known = usage.*field;
    process.in_series_until_ns = now_ns;  // of one that told nothing new, what comes next is of this time too
  }
}

void NodeState::update_rss(RankGroup& group, std::uint64_t now_ns) {
  std::uint64_t rss_bytes = 0;
  std::uint64_t begin_ns = now_ns;
  for (const Process& process : group.processes) {
    begin_ns = std::min(begin_ns, process.start.mono_ns);
    if (!process.alive) continue;
    // Of one that was never looked at, what it had at most.
    const wire::ProcessUsage* const told = process.recorder ? &process.recorder->header().usage
                                           : process.past   ? &process.past->usage
                                                            : nullptr;
    const std::uint64_t most =
        std::max(told != nullptr ? told->max_rss_bytes : 0, process.usage ? process.usage->max_rss_bytes : 0);
    rss_bytes += process.look.rss_bytes != 0 ? process.look.rss_bytes : most;
  }
  if (rss_bytes == 0) return;
  group.series.level(grid_, kRss, std::max(group.rss_until_ns, begin_ns), now_ns, rss_bytes);
  group.rss_until_ns = now_ns;
}

void NodeState::update_series(std::uint64_t now_ns) {
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes)
      if (process.alive) update_series(group, process, now_ns);
    update_rss(group, now_ns);
  }
}

void NodeState::update_node_series(std::uint64_t now_ns, const NodeUsage& usage) {
  if (node_usage_) {
    using Field = std::uint64_t NodeUsage::*;
    constexpr std::pair<NodeColumn, Field> kFields[] = {
        {kCpuBusy, &NodeUsage::cpu_busy_ns},
        {kNetworkReceived, &NodeUsage::network_received_bytes},
        {kNetworkSent, &NodeUsage::network_sent_bytes},
        {kDiskRead, &NodeUsage::disk_read_bytes},
        {kDiskWritten, &NodeUsage::disk_written_bytes},
    };
    for (const auto& [column, field] : kFields) {
      if (usage.*field > (*node_usage_).*field)
        series_.spread(grid_, column, node_usage_ns_, now_ns, usage.*field - (*node_usage_).*field);
    }
    series_.level(grid_, kMemoryUsed, node_usage_ns_, now_ns, usage.memory_used_bytes);
  }
  node_usage_ = usage;
  node_usage_ns_ = now_ns;
}

void NodeState::set_event_budget(ProcessRecorder& recorder) const {
  const wire::SegmentHeader& header = recorder.header();
  std::size_t world = std::max(1u, options_.world_size);
  for (const std::int32_t size : {header.world_size, header.mpi_size.load(std::memory_order_relaxed)})
    if (size > 0 && size <= kMostRanks) world = std::max(world, static_cast<std::size_t>(size));
  const std::size_t local = std::max<std::size_t>({1, options_.local_ranks, ranks_.size()});
  const std::size_t all = options_.event_budget.value_or(
      std::clamp(std::min(kJobEvents / world, kNodeEvents / local), kFewestRankEvents, kMostRankEvents));
  recorder.set_event_budget(all, std::max(kCheckpointEvents / local, kFewestCheckpointEvents));
}

double NodeState::poll(std::uint64_t now_ns) {
  double fullest = 0;
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes) {
      if (!process.recorder) continue;
      set_event_budget(*process.recorder);
      fullest = std::max(fullest, process.recorder->poll(now_ns));
    }
  }
  return fullest;
}

bool NodeState::has_segment(ProcessId id) const {
  const Process* const process = find(id);
  return process != nullptr && (process->recorder || process->past);
}

bool NodeState::said_exec(ProcessId id) const {
  const Process* const process = find(id);
  return process != nullptr && process->recorder &&
         (process->recorder->header().exit_flags.load(std::memory_order_acquire) & wire::kExecuted) != 0;
}

bool NodeState::left_mpi_open(ProcessId id) const {
  const auto key = rank_of_.find(id);
  if (key == rank_of_.end()) return false;
  for (const Process& process : ranks_.at(key->second).processes) {
    std::uint32_t state = 0;
    if (process.recorder) {
      state = process.recorder->header().mpi_state.load(std::memory_order_acquire);
    } else if (process.past) {
      state = static_cast<std::uint32_t>(process.past->mpi_state);
    }
    if (state == static_cast<std::uint32_t>(wire::MpiState::kInitialised)) return true;
  }
  return false;
}

std::map<NodeState::RankKey, std::int32_t> NodeState::rank_numbers() const {
  std::map<RankKey, std::int32_t> numbers;
  std::set<std::int32_t> taken;
  // MPI knows best, as long as it speaks of the same job as the launcher.
  for (const auto& [key, group] : ranks_) {
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
      if (rank < 0 || size <= 1 || size > kMostRanks || rank >= size || !same_job ||
          !taken.insert(rank).second)
        continue;
      numbers[key] = rank;
      break;
    }
  }
  for (const auto& [key, group] : ranks_) {
    if (numbers.contains(key)) continue;
    std::int32_t rank = key >= 0 ? static_cast<std::int32_t>(key) : 0;
    while (!taken.insert(rank).second) ++rank;
    numbers[key] = rank;
  }
  return numbers;
}

bool NodeState::has_rank(std::int32_t rank) const {
  const auto numbers = rank_numbers();
  return std::any_of(numbers.begin(), numbers.end(), [&](const auto& entry) { return entry.second == rank; });
}

wire::MpiState NodeState::mpi_progress() const {
  auto furthest = wire::MpiState::kNone;
  for (const auto& [key, group] : ranks_) {
    for (const Process& process : group.processes) {
      auto state = wire::MpiState::kNone;
      std::int32_t size = -1;
      if (process.recorder) {
        const wire::SegmentHeader& header = process.recorder->header();
        state = static_cast<wire::MpiState>(header.mpi_state.load(std::memory_order_acquire));
        size = header.mpi_size.load(std::memory_order_relaxed);
      } else if (process.past) {
        state = process.past->mpi_state;
        size = process.past->mpi_size;
      }
      if (size > 1 && state <= wire::MpiState::kFinalised) furthest = std::max(furthest, state);
    }
  }
  return furthest;
}

void NodeState::set_spawned_worlds(std::vector<SpawnedWorld> worlds) {
  std::sort(worlds.begin(), worlds.end(),
            [](const SpawnedWorld& a, const SpawnedWorld& b) { return a.first_rank < b.first_rank; });
  spawned_worlds_ = std::move(worlds);
}

std::uint32_t NodeState::world_size() const {
  std::uint32_t size = options_.world_size;
  if (size == 0) return 0;  // without that of the first world the others say nothing of the whole
  for (const SpawnedWorld& world : spawned_worlds_) {
    if (world.first_rank >= 0 && world.size <= kMostRanks - world.first_rank)
      size = std::max(size, static_cast<std::uint32_t>(world.first_rank + world.size));
  }
  return size;
}

bool NodeState::is_spawned(std::int32_t rank) const {
  const auto behind = std::upper_bound(
      spawned_worlds_.begin(), spawned_worlds_.end(), rank,
      [](std::int32_t number, const SpawnedWorld& world) { return number < world.first_rank; });
  return behind != spawned_worlds_.begin() && rank - std::prev(behind)->first_rank < std::prev(behind)->size;
}

void NodeState::add_note(shard::Note note) {
  if (std::find(notes_.begin(), notes_.end(), note) != notes_.end()) return;
  if (notes_.size() < kMostNotes) {
    notes_.push_back(std::move(note));
  } else {
    ++notes_left_out_;
  }
}

NodeState::ProcessView NodeState::view(Process& process, std::uint64_t now_ns, Events events) {
  ProcessView view{&process, {}, process.recorder || process.past, {}, process.start, now_ns};
  if (process.recorder) {
    view.report = process.recorder->report(now_ns, events);
    if (process.past) {
      view.report.begin_with(*process.past);
    }
  } else if (process.past) {
    view.report = *process.past;
  }
  view.report.processes = 1;
  view.usage = usage_of(view.report, process.usage);
  if (view.has_said) view.start = {view.report.start_mono_ns, view.report.start_utc_ns};
  if (!process.alive) {
    const bool agent_saw_the_end =
        view.report.end_mono_ns != 0 && (view.report.exit_flags & wire::kExecuted) == 0;
    view.end_ns = agent_saw_the_end ? view.report.end_mono_ns : process.gone_ns;
  }
  view.end_ns = std::max(view.end_ns, view.start.mono_ns);
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
                                      Events events, std::vector<shard::Note>& notes) {
  std::vector<ProcessView> views;
  views.reserve(group.processes.size());
  for (Process& process : group.processes) views.push_back(view(process, now_ns, events));
  const std::size_t main_index = main_process(views);
  const ProcessView& main = views[main_index];

  RankSnapshot snapshot;
  shard::Rank& rank = snapshot.rank;
  ProcessReport& sum = snapshot.report;
  SystemUsage usage = group.helpers_usage;
  sum.add_amounts(group.helpers, false);
  bool anybody_said = group.helpers.processes != 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    sum.add_amounts(views[i].report, i == main_index);
    add(usage, views[i].usage);
    anybody_said = anybody_said || views[i].has_said;
  }
  const auto add_note = [&](shard::NoteCode code, std::uint64_t value) {
    notes.push_back(shard::note_of_ranks(code, {number, number}, value));
  };
  for (const auto& [code, value] : sum.notes) add_note(code, value);
  sum.world_size = main.report.world_size;
  sum.mpi_size = main.report.mpi_size;
  sum.mpi_library = main.report.mpi_library;

  rank.rank = number;
  rank.pid = main.has_said ? main.report.pid : main.process->pid;
  rank.start_utc_ns = main.start.utc_ns;
  rank.elapsed_ns = main.end_ns - main.start.mono_ns;
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
  rank.python_version = main.report.python_version;
  rank.running_samples = sum.running_samples;
  rank.running_ns = sum.running_ns;
  rank.mpi_operations = sum.mpi_operations;
  rank.paused_ns = sum.paused_ns;
  rank.mpi_runnable_ns = std::min(sum.mpi_runnable_ns, sum.mpi_ns);
  if (sum.knows_run_delay) rank.flags |= shard::kRunDelayKnown;
  rank.unsampled_threads = sum.unsampled_threads;
  rank.unsampled_cpu_ns = sum.unsampled_cpu_ns;
  snapshot.series = group.series;
  snapshot.affinity = main.process->look.affinity;
  snapshot.numa_nodes = main.process->look.numa_nodes;
  snapshot.events = sum.events[static_cast<std::size_t>(events)];
  sum.events = {};
  // Without a budget there are no events that the level could speak of.
  if (snapshot.events && snapshot.events->budget() != 0) rank.event_level = snapshot.events->level();
  for (const auto& [key, amount] : sum.values) {
    if (key.main_thread) rank.main_thread_ns[static_cast<std::size_t>(key.category)] += amount.wall_ns;
  }
  if (usage.has_rss) rank.flags |= shard::kUsageKnown;
  if (usage.has_io) rank.flags |= shard::kIoKnown;
  // In MPI_Init, which it never left, the state is still none.
  if (main.report.mpi_state != wire::MpiState::kNone || !main.report.calls_under_way.empty())
    rank.flags |= shard::kUsedMpi;
  rank.flags |= main.has_said ? shard::kFilesKnown : shard::kMpiUnwatched;
  if (sum.knows_page_faults) rank.flags |= shard::kFaultsApart;
  if (sum.samples != 0 && !sum.python_unread && !sum.python_partly) rank.flags |= shard::kGarbageApart;
  if (sum.python_unread) rank.flags |= shard::kPythonUnread;

  // How it ended. What the kernel says counts more than what the process was about to do. Lost is what did
  // not end as it should: by a signal, or without MPI_Finalize among others. One that still runs counts as
  // lost, too: in the last shard there is, it is one whose end nobody saw.
  const std::uint32_t said = (main.report.exit_flags & wire::kExecuted) != 0 ? 0 : main.report.exit_flags;
  const std::optional<int>& status = main.process->wait_status;
  const bool left_mpi_open =
      main.report.mpi_state == wire::MpiState::kInitialised && main.report.mpi_size > 1;
  bool lost = left_mpi_open;
  if (status && WIFEXITED(*status)) {
    rank.flags |= shard::kExitStatusKnown;
    rank.exit_status = WEXITSTATUS(*status);
  } else if (status && WIFSIGNALED(*status)) {
    rank.flags |= shard::kExitSignalKnown;
    rank.exit_signal = WTERMSIG(*status);
    lost = true;
  } else if (main.process->alive) {
    lost = true;
  } else if ((said & wire::kFatalSignalKnown) != 0) {
    rank.flags |= shard::kExitSignalKnown;
    rank.exit_signal = static_cast<std::int32_t>(main.report.fatal_signal);
    lost = true;
  } else if ((said & wire::kExitStatusKnown) != 0) {
    rank.flags |= shard::kExitStatusKnown;
    rank.exit_status = main.report.exit_status;
  } else {
    lost = true;
  }
  if (lost) rank.flags |= shard::kLost;
  if (lost || rank.exit_status != 0) snapshot.last_path = sum.last_path;

  if (!anybody_said && (!main.process->alive || now_ns - main.start.mono_ns > kGreetingNs))
    add_note(shard::NoteCode::kNoSamples, 0);
  return snapshot;
}

NodeSnapshot NodeState::snapshot(Instant now, bool complete, Events events) {
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

  run.sample_on = options_.sample_on;
  run.only_regions = options_.only_regions;

  snapshot.node.name = options_.node_name;
  snapshot.node.cpus = facts_.cpus;
  snapshot.node.numa_nodes = facts_.numa_nodes;
  snapshot.node.memory_bytes = facts_.memory_bytes;
  snapshot.node.cache_bytes = facts_.cache_bytes;
  snapshot.node.cpu_model = facts_.cpu_model;
  snapshot.node.start_utc_ns = now.utc_ns;
  std::int64_t end_utc_ns = 0;
  std::vector<PathTime> open_times;
  const auto numbers = rank_numbers();
  for (auto& [key, group] : ranks_) {
    if (group.processes.empty()) continue;
    snapshot.ranks.push_back(rank_snapshot(numbers.at(key), group, now.mono_ns, events, run.notes));
    snapshot.ranks.back().report.call_waiting_helpers_idle(store_.tables());
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
      if (options_.world_size == 0 && size > 0 && size <= kMostRanks)
        run.world_size = std::max(run.world_size, static_cast<std::uint32_t>(size));
    }
  }
  if (!options_.only_ranks.empty()) run.world_size = 0;  // the others are not missing
  std::sort(snapshot.ranks.begin(), snapshot.ranks.end(),
            [](const RankSnapshot& a, const RankSnapshot& b) { return a.rank.rank < b.rank.rank; });
  run.start_utc_ns = snapshot.node.start_utc_ns;
  if (end_utc_ns > run.start_utc_ns) {
    snapshot.node.elapsed_ns = static_cast<std::uint64_t>(end_utc_ns - run.start_utc_ns);
  }
  if (run.counters_multiplexed) run.notes.push_back(shard::note_of_run(shard::NoteCode::kCountersTookTurns));
  unite(run.notes);
  snapshot.grid = grid_;
  snapshot.series = series_;
  snapshot.path_times = path_times_.cells(open_times);
  snapshot.tables = store_.tables();  // after the reports: they add call paths of MPI call sites
  return snapshot;
}

}  // namespace clusterprof::collector
