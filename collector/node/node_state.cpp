// SPDX-License-Identifier: BSD-3-Clause
// Keeps what happened to the node's processes and what they used. node_state_snapshot.cpp makes snapshots of
// it. Called by the server's event loop, on one thread.
#include "collector/node/node_state.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "base/command_text.hpp"
#include "collector/node/usage.hpp"
#include "formats/wire/launchers.h"

namespace clusterprof::collector {
namespace {

// The first notes, and of each code in any case the first ones: the analysis reads some as facts. Of others
// that many are known, so as to be counted once.
constexpr std::size_t kMaxNotes = 50, kNotesOfEachCode = 8, kMaxNotesLeftOut = std::size_t{1} << 14;
constexpr std::size_t kMaxStarts = 1000;    // of ranks by a launcher below clusterprof
constexpr std::size_t kMaxMpiHelpers = 16;  // ended ones that are kept for each rank
constexpr std::size_t kMaxPrograms = 16;    // ended ones that launchers announced for a rank, but for one
// MPI events: a node's are written within seconds when the job ends, and a merge analyses a job's in memory.
constexpr std::size_t kJobEvents = std::size_t{1} << 25, kNodeEvents = std::size_t{1} << 22,
                      kMaxRankEvents = std::size_t{1} << 18, kMinRankEvents = std::size_t{1} << 12;
// Rows of processes that have ended: of a job, which a report has in memory, of a node, and at least of a
// rank.
constexpr std::size_t kJobProcessRows = std::size_t{1} << 17, kNodeProcessRows = std::size_t{1} << 13,
                      kMinProcessRows = 8;
constexpr std::size_t kMaxBaseFrames = 512;
constexpr std::size_t kMaxMade = 4096;  // processes that wait for take_made()
// A process that should record and ends within this time after its start has ended early.
constexpr std::uint64_t kEarlyNs = 2'000'000'000;

// `text`: of at most `room` bytes.
std::string stored_text(std::string_view text, std::size_t room, CommandDetail detail) {
  std::vector<std::string> words = command_words(std::string(text));
  // The last word is left out if it was cut off: half of a secret would not be recognised as one. Text from
  // the kernel is cut one byte earlier.
  if (text.size() + 1 >= room && text.back() != 0) words.back() = kWordsLeftOut;
  return command_text(stored_command(std::move(words), detail));
}

shard::ProcessOrigin origin_of(wire::CreationKind kind) {
  return kind <= wire::CreationKind::kShell ? static_cast<shard::ProcessOrigin>(kind)
                                            : shard::ProcessOrigin::kUnknown;
}

shard::Unrecorded unrecorded_for(wire::UnrecordedReason reason) {
  static_assert(wire::kUnrecordedReasons + 3 == shard::kUnrecordedKinds);
  return reason < wire::UnrecordedReason::kCount
             ? static_cast<shard::Unrecorded>(static_cast<std::uint8_t>(reason) + 1)
             : shard::Unrecorded::kSilent;
}

// The latest call of the parent's that may have started this process. Null: this is no shell, or there is
// none.
const wire::ShellCall* find_shell_call(const wire::SegmentHeader& parent, std::string_view command,
                                       std::uint64_t start_mono_ns) {
  constexpr std::string_view kBegin{"sh\0-c\0", 6};
  if (!command.starts_with(kBegin)) return nullptr;
  const wire::ShellCall* found = nullptr;
  std::uint64_t found_ns = 0;
  for (const wire::ShellCall& call : parent.shell_calls) {
    const std::uint64_t start_ns = call.start_mono_ns.load(std::memory_order_acquire);
    const std::uint64_t end_ns = call.end_mono_ns.load(std::memory_order_acquire);
    if (start_ns <= found_ns || start_ns > start_mono_ns) continue;
    if (end_ns != 0 && end_ns < start_mono_ns) continue;
    found = &call;
    found_ns = start_ns;
  }
  return found;
}

std::uint64_t hash_of(const shard::Note& note) {
  std::string all = fmt::format("{} {} {} {}", static_cast<unsigned>(note.code), note.number, note.first_rank,
                                note.last_rank);
  for (const std::string* const text : {&note.node, &note.text, &note.detail})
    all.append(1, '\0').append(*text);
  return XXH3_64bits(all.data(), all.size());
}

constexpr std::size_t kCheckpointEvents = std::size_t{1} << 16, kMinCheckpointEvents = 256;

}  // namespace

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
  process.start = {now.mono_ns, grid_.begun() ? grid_.utc_ns(now.mono_ns) : now.utc_ns};
  rank_of_[process.id] = key;
  return process;
}

void NodeState::move_to(ProcessId id, RankKey key, std::uint64_t now_ns) {
  const RankKey old = rank_of_.at(id);
  if (old == key) return;
  auto& from = ranks_[old].processes;
  const auto it = std::find_if(from.begin(), from.end(), [&](const Process& p) { return p.id == id; });
  ranks_[key].processes.splice(ranks_[key].processes.end(), from, it);
  rank_of_[id] = key;
  ProcessRecorder* const recorder = ranks_[key].processes.back().recorder.get();
  if (recorder != nullptr) memory_.add(old, recorder->take_memory_changes());
  bool has_moved = false;
  if (from.empty() && ranks_[old].helpers.processes == 0) {
    ranks_[key].series.add(std::move(ranks_[old].series));
    ranks_.erase(old);
    has_moved = memory_.rename(old, key);
  }
  if (has_moved || recorder == nullptr) return;
  // What it has goes along with it.
  const std::vector<MemoryChange> live = recorder->live_memory(now_ns);
  std::vector<MemoryChange> gone = live;
  for (MemoryChange& change : gone) change.bytes = -change.bytes;
  memory_.add(old, gone);  // first, so that no peak has it twice
  memory_.add(key, live);
}

NodeState::ProcessId NodeState::announce(std::optional<ProcessId> known, std::int32_t rank,
                                         std::int32_t world_size, std::int32_t pid, Instant now,
                                         const std::string& command, std::int32_t restart) {
  // A world that MPI_Comm_spawn made is numbered after the ranks before it.
  if (world_size > 0 && world_size <= kMaxRanks)
    options_.world_size = std::max(options_.world_size, static_cast<std::uint32_t>(world_size));
  grid_.set_ranks(options_.world_size);
  Process* process = known ? find(*known) : nullptr;
  if (process == nullptr) {
    const RankKey key = rank >= 0 ? key_announced(rank) : -static_cast<RankKey>(next_id_);
    process = &add_process(key, pid, now);
  } else if (rank >= 0) {
    move_to(process->id, key_announced(rank), now.mono_ns);
  }
  process->announced = true;
  RankGroup& group = ranks_.at(rank_of_.at(process->id));
  if (!command.empty()) group.command = command;
  group.restart = restart;
  return process->id;
}

void NodeState::expect_no_agent(ProcessId id, wire::UnrecordedReason reason) {
  Process* const process = find(id);
  if (process == nullptr || process->recorder || process->past) return;
  process->unrecorded = unrecorded_for(reason);
  process->command = ranks_.at(rank_of_.at(id)).command;
}

NodeState::Greeting NodeState::greeting_of(const wire::SegmentHeader& header) {
  const std::size_t command_bytes = std::min<std::size_t>(header.command_bytes, sizeof header.command);
  Greeting greeting{header.parent_pid,    header.rank,     header.world_size,
                    header.launcher,      header.forked,   header.launch,
                    header.start_mono_ns, header.creation, std::string(header.command, command_bytes)};
  // Nothing of this is read from there again.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return greeting;
}

NodeState::RankKey NodeState::key_for_segment(const Greeting& greeting) const {
  if (greeting.rank >= 0 && starts_.empty()) return greeting.rank;
  // The child of a process whose rank has no number belongs to the same rank as its parent.
  for (const auto& [key, group] : ranks_) {
    for (const Process& process : group.processes) {
      if (process.alive && process.pid == greeting.parent_pid) return key;
    }
  }
  if (greeting.rank >= 0) return key_announced(greeting.rank);
  return ranks_.empty() ? -static_cast<RankKey>(next_id_) : ranks_.begin()->first;
}

// The ranks that were announced are those of what has started these.
void NodeState::begin_start(const Greeting& greeting) {
  if (starts_.empty()) {
    std::map<RankKey, RankGroup> above;
    for (auto& [key, group] : ranks_) {
      const RankKey moved = key >= 0 ? kAboveRanks - key : key + kAboveRanks - kMaxRanks;
      for (const Process& process : group.processes) rank_of_[process.id] = moved;
      memory_.rename(key, moved);
      above.emplace(moved, std::move(group));
    }
    ranks_ = std::move(above);
    options_.launcher = wire::kLaunchers[greeting.launcher - 1].name;
  }
  const std::int32_t first = starts_.empty() ? 0 : starts_.back().first_rank + starts_.back().size;
  starts_.push_back({greeting.launch, first, greeting.world_size});
}

// `now`: where the process is already, if it is known.
NodeState::RankKey NodeState::key_of_worker(const Greeting& greeting, std::optional<RankKey> now) {
  const auto of_start = [&](const RankStart& start) { return RankKey{start.first_rank} + greeting.rank; };
  for (auto start = starts_.rbegin(); start != starts_.rend(); ++start) {
    if (start->launch != greeting.launch || start->size != greeting.world_size) continue;
    const RankKey key = of_start(*start);
    const auto group = ranks_.find(key);
    if (group == ranks_.end() || key == now || greeting.forked != 0) return key;
    // What a rank starts inherits its variables. Once it has ended, the launcher has started it again.
    for (const Process& process : group->second.processes)
      if (process.alive && (process.announced || process.pid == greeting.parent_pid)) return key;
    break;
  }
  begin_start(greeting);
  return of_start(starts_.back());
}

NodeState::Process* NodeState::find_segment(std::int32_t pid, std::uint64_t start_mono_ns) {
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes) {
      if (!process.recorder) continue;
      const wire::SegmentHeader& header = process.recorder->header();
      if (header.pid == pid && header.start_mono_ns == start_mono_ns) return &process;
    }
  }
  return nullptr;
}

NodeState::Process* NodeState::find_living_parent(const Process& child, std::int32_t pid) {
  // Of the same rank: others may be in other namespaces of process ids.
  for (Process& process : ranks_.at(rank_of_.at(child.id)).processes)
    if (&process != &child && process.alive && process.recorder && process.recorder->header().pid == pid)
      return &process;
  return nullptr;
}

NodeState::Requester NodeState::find_requester(const Process& child, std::uint32_t request) {
  for (Process& process : ranks_.at(rank_of_.at(child.id)).processes) {
    if (&process == &child || !process.recorder) continue;
    for (const wire::ForkRequest& row : process.recorder->header().fork_requests) {
      if (row.pipe.load(std::memory_order_acquire) != request) continue;
      if (const std::uint64_t path = row.path.load(std::memory_order_acquire); path != 0)
        return {&process, path};
    }
  }
  return {};
}

void NodeState::find_origin(Process& process, const Greeting& greeting) {
  const wire::Creation& creation = greeting.creation;
  process.parent_pid = greeting.parent_pid;
  Process* parent = creation.pid != 0 ? find_segment(creation.pid, creation.start_mono_ns) : nullptr;
  std::uint64_t offset = creation.path_offset;
  std::uint32_t words = creation.path_words;
  process.origin = origin_of(creation.kind);
  // A process that nobody told how it is made inherits what its parent was told. It may be a shell of libc's.
  Process* const real = creation.pid != greeting.parent_pid && creation.kind != wire::CreationKind::kFork
                            ? find_living_parent(process, greeting.parent_pid)
                            : nullptr;
  if (real != nullptr) {
    const wire::ShellCall* const call =
        find_shell_call(real->recorder->header(), greeting.command, greeting.start_mono_ns);
    parent = call != nullptr ? real : nullptr;
    const std::uint64_t path = call != nullptr ? call->path.load(std::memory_order_relaxed) : 0;
    offset = wire::shell_path_offset(path);
    words = wire::shell_path_words(path);
    process.origin = call != nullptr ? shard::ProcessOrigin::kShell : shard::ProcessOrigin::kUnknown;
  }
  if (creation.kind == wire::CreationKind::kFork && creation.request != 0) {
    if (const Requester requester = find_requester(process, creation.request); requester.process != nullptr) {
      parent = requester.process;
      offset = wire::shell_path_offset(requester.path);
      words = wire::shell_path_words(requester.path);
      process.origin = shard::ProcessOrigin::kRequest;
    }
  }
  if (parent == nullptr || parent == &process) return;
  process.created_path = parent->recorder->creation_path(offset, words).value_or(0);
  // A rank that another rank has started has call paths of its own. Those of a program that starts itself
  // again and again would become longer each time.
  if (rank_of_.at(process.id) != rank_of_.at(parent->id) ||
      !store_.is_at_most(process.created_path, kMaxBaseFrames))
    return;
  process.base_path = process.origin == shard::ProcessOrigin::kFork
                          ? (parent->announced ? 0 : parent->base_path)
                          : process.created_path;
}

const std::string& NodeState::command_of(const Greeting& greeting) {
  if (greeting.command != told_command_) {
    stored_command_ =
        stored_text(greeting.command, sizeof(wire::SegmentHeader::command), options_.command_detail);
    told_command_ = greeting.command;
  }
  return stored_command_;
}

NodeState::ProcessId NodeState::hello(std::optional<ProcessId> known, std::int32_t pid, SegmentView segment,
                                      Instant now) {
  Process* process = known ? find(*known) : nullptr;
  const bool is_new = process == nullptr;
  // Before it may move: what it had was its rank's until now.
  if (process != nullptr) close_segment(*process, now.mono_ns, Closing::kExecuted);
  const Greeting greeting = greeting_of(segment.header());
  const bool is_worker =
      greeting.launcher != 0 && greeting.launcher <= wire::kLauncherCount && greeting.rank >= 0 &&
      greeting.rank < greeting.world_size && greeting.world_size <= kMaxRanks &&
      starts_.size() < kMaxStarts &&
      (starts_.empty() || greeting.world_size <= kMaxRanks - starts_.back().first_rank - starts_.back().size);
  if (is_worker) {
    const RankKey key =
        key_of_worker(greeting, process != nullptr ? std::optional(rank_of_.at(process->id)) : std::nullopt);
    if (process == nullptr)
      process = &add_process(key, pid, now);
    else
      move_to(process->id, key, now.mono_ns);
    process = find(process->id);
    RankGroup& group = ranks_.at(key);
    process->announced =
        process->announced || std::none_of(group.processes.begin(), group.processes.end(),
                                           [](const Process& other) { return other.announced; });
    group.restart =
        static_cast<std::int32_t>(std::count_if(starts_.begin(), starts_.end(),
                                                [&](const RankStart& s) { return s.first_rank <= key; }) -
                                  1);
  }
  if (process == nullptr) process = &add_process(key_for_segment(greeting), pid, now);
  if (process->past)
    process->past->paused_ns += unrecorded_ns(*process, std::min(greeting.start_mono_ns, now.mono_ns));
  process->unrecorded_since_ns.reset();
  process->unrecorded = shard::Unrecorded::kNo;
  process->executed_ns.reset();
  process->agent_left_ns.reset();
  process->before_exec.reset();
  if (is_new) {
    find_origin(*process, greeting);
  } else if (process->past) {
    process->base_path = process->created_path;  // the executed program's stack does not have it
  }
  process->command = command_of(greeting);
  grid_.reach_back(greeting.start_mono_ns);
  path_times_.grid().reach_back(greeting.start_mono_ns);
  const std::uint32_t base = process->announced ? 0 : process->base_path;
  process->recorder = std::make_unique<ProcessRecorder>(std::move(segment), store_, grid_, path_times_, base);
  set_event_budget(*process->recorder);
  set_shared_clock(*process->recorder);
  if (turned_off_ns_ != 0) process->recorder->turn_off(turned_off_ns_);
  if (window_number_ != 0) process->recorder->want_window(window_number_, window_open_);
  return process->id;
}

NodeState::ProcessId NodeState::refused(std::optional<ProcessId> known, std::int32_t pid,
                                        const wire::Refusal& refusal, std::string_view command, Instant now) {
  Greeting greeting;
  greeting.parent_pid = refusal.parent_pid;
  greeting.rank = refusal.rank;
  greeting.start_mono_ns = refusal.start_mono_ns;
  greeting.creation = refusal.creation;
  greeting.command = command.substr(0, sizeof(wire::SegmentHeader::command));
  Process* process = known ? find(*known) : nullptr;
  if (process == nullptr) {
    process = &add_process(key_for_segment(greeting), pid, now);
    find_origin(*process, greeting);
  }
  close_segment(*process, now.mono_ns, Closing::kExecuted);
  process->command = command_of(greeting);
  process->unrecorded = unrecorded_for(refusal.reason);
  process->executed_ns.reset();
  process->before_exec.reset();
  return process->id;
}

void NodeState::read_launches(Process& process, std::uint64_t now_ns, bool all) {
  const wire::SegmentHeader& header = process.recorder->header();
  for (const ProcessRecorder::Launched& launched : process.recorder->take_launches(now_ns, all)) {
    std::string command = stored_text(launched.command, wire::kLaunchCommandBytes, options_.command_detail);
    const bool will_record = launched.reason == wire::UnrecordedReason::kCount;
    if (launched.pid == header.pid) {  // it goes on as that program
      if (!process.before_exec)
        process.before_exec = Process::Program{std::move(process.command), process.unrecorded};
      process.unrecorded = will_record ? shard::Unrecorded::kNo : unrecorded_for(launched.reason);
      process.executed_ns = will_record ? std::optional(launched.time_ns) : std::nullopt;
      process.command = std::move(command);
    } else if (!will_record && made_.size() < kMaxMade) {
      made_.push_back({process.id, rank_of_.at(process.id), launched.pid, header.pid,
                       origin_of(launched.kind), unrecorded_for(launched.reason),
                       process.recorder->creation_path(launched.path_offset, launched.path_words).value_or(0),
                       std::max(launched.time_ns, process.start.mono_ns), std::move(command)});
    }
  }
}

// What is not known to be unrecorded may only be about to greet.
std::uint64_t NodeState::unrecorded_ns(const Process& process, std::uint64_t until_ns) {
  const std::uint64_t since_ns = process.unrecorded_since_ns.value_or(until_ns);
  const std::uint64_t ns = until_ns - std::min(until_ns, since_ns);
  return process.unrecorded == shard::Unrecorded::kNo && ns < kEarlyNs ? 0 : ns;
}

// An exec that waits for a file server may fail after it was believed.
void NodeState::forget_failed_exec(Process& process, std::uint64_t now_ns) {
  if (!process.before_exec || process.recorder->executes_since_ns(now_ns)) return;
  process.command = std::move(process.before_exec->command);
  process.unrecorded = process.before_exec->unrecorded;
  process.before_exec.reset();
  process.executed_ns.reset();
}

std::optional<NodeState::ProcessId> NodeState::add_unrecorded(const Made& made, bool runs,
                                                              std::uint64_t now_ns) {
  if (!ranks_.contains(made.rank_key)) return std::nullopt;
  const Instant start{made.start_ns, grid_.utc_ns(made.start_ns)};
  Process& process = add_process(made.rank_key, made.pid, start);
  process.parent_pid = made.parent_pid;
  process.origin = made.origin;
  process.unrecorded = made.unrecorded;
  process.created_path = made.created_path;
  process.command = made.command;
  const ProcessId id = process.id;
  if (!runs) gone(id, now_ns, std::nullopt);  // or before
  return id;
}

bool NodeState::has_told_of_short_life(ProcessId id) const {
  constexpr std::uint64_t kShortNs = 1'000'000'000;
  const Process* const process = find(id);
  if (process == nullptr || process->announced || !process->recorder || process->past) return false;
  const wire::SegmentHeader& header = process->recorder->header();
  const std::uint64_t end_ns = header.end_mono_ns.load(std::memory_order_acquire);
  return header.exit_flags.load(std::memory_order_relaxed) == wire::kExitStatusKnown &&
         end_ns > header.start_mono_ns && end_ns - header.start_mono_ns < kShortNs;
}

bool NodeState::is_unrecorded(ProcessId id) const {
  const Process* const process = find(id);
  return process != nullptr && process->unrecorded != shard::Unrecorded::kNo;
}

// Whether an agent is expected: the process has been announced, or executes a program that will be recorded,
// and is not known to be unable to record.
bool NodeState::may_greet(const Process& process) {
  return process.alive && process.unrecorded == shard::Unrecorded::kNo &&
         (process.executed_ns || (process.announced && !process.past));
}

// Of a process that has ended and that should have recorded, as far as was known.
shard::Unrecorded NodeState::without_word(const Process& process, std::uint64_t end_ns) {
  const bool never = process.announced && !process.past;
  if (process.unrecorded != shard::Unrecorded::kNo || (!never && !process.executed_ns))
    return process.unrecorded;
  const std::uint64_t since_ns = process.executed_ns.value_or(process.start.mono_ns);
  return end_ns < since_ns + kEarlyNs ? shard::Unrecorded::kEndedEarly : shard::Unrecorded::kSilent;
}

void NodeState::want_window(std::uint32_t number, bool open) {
  window_number_ = number;
  window_open_ = open;
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes)
      if (process.recorder) process.recorder->want_window(number, open);
  }
}

NodeState::WindowDone NodeState::window_done() const {
  WindowDone ranks;
  for (const auto& [key, group] : ranks_) {
    bool any = false, all = true;
    for (const Process& process : group.processes) {
      if (!process.recorder && !may_greet(process)) continue;
      any = true;
      all = all && process.recorder && process.recorder->has_done(window_number_, window_open_);
    }
    if (!any || is_above_ranks(key)) continue;
    ++ranks.all;
    if (all) ++ranks.done;
  }
  return ranks;
}

void NodeState::turn_off(std::uint64_t now_ns) {
  turned_off_ns_ = now_ns;
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes)
      if (process.recorder) process.recorder->turn_off(now_ns);
  }
}

std::uint64_t NodeState::latest_record_ns() const {
  std::uint64_t latest_ns = 0;
  for (const auto& [key, group] : ranks_)
    for (const Process& process : group.processes)
      if (process.recorder) latest_ns = std::max(latest_ns, process.recorder->latest_record_ns());
  return latest_ns;
}

void NodeState::close_segment(Process& process, std::uint64_t now_ns, Closing why) {
  if (!process.recorder) return;
  forget_failed_exec(process, now_ns);
  read_launches(process, now_ns, true);
  const std::uint64_t told = process.recorder->header().end_mono_ns.load(std::memory_order_acquire);
  const bool has_told = told != 0 && told < now_ns;
  std::uint64_t end = has_told ? told : now_ns;
  // What ends without a word after such a note was that program.
  const std::optional<std::uint64_t> noted_ns = process.recorder->executes_since_ns(now_ns);
  const bool executed = why == Closing::kExecuted || (noted_ns && !has_told);
  if (executed && !has_told)
    end = process.recorder->finish(noted_ns.value_or(process.agent_left_ns.value_or(now_ns)), now_ns);
  else
    process.recorder->finish(end);
  if (live_) process.recorder->take_new_times(&*live_);
  ProcessReport report = process.recorder->report(end);
  if (executed) {
    report.exit_flags |= wire::kExecuted;
    report.last_path.reset();   // the process is not there any more,
    report.last_words.reset();  // and how it ends, its next program does not say
    process.unrecorded_since_ns = end;
  }
  end_memory(process, report.start_mono_ns, end);
  process.recorder.reset();
  if (!process.past) {
    process.past = std::move(report);
    return;
  }
  process.past->limit_ended();
  report.begin_with(*process.past);
  process.past = std::move(report);
}

// What is live when a worker of short life ends is no memory that the rank has at its end. Lives are compared
// from the start of the process: its program begins milliseconds later, and may be over after one.
void NodeState::end_memory(Process& process, std::uint64_t start_ns, std::uint64_t end_ns) {
  const RankKey key = rank_of_.at(process.id);
  const std::uint64_t process_start_ns = std::min(start_ns, process.start.mono_ns);
  std::uint64_t rank_start_ns = process_start_ns;
  for (const Process& other : ranks_.at(key).processes)
    rank_start_ns = std::min(rank_start_ns, other.start.mono_ns);
  memory_.add(key, process.recorder->take_memory_changes());
  if (end_ns - process_start_ns >= (end_ns - rank_start_ns) / 2)
    memory_.leave(key, start_ns, end_ns, process.recorder->memory_left(end_ns));
  memory_.add(key, process.recorder->release_memory(end_ns));
}

void NodeState::agent_left(ProcessId id, std::uint64_t now_ns) {
  if (Process* const process = find(id); process != nullptr && process->recorder)
    process->agent_left_ns = now_ns;
}

bool NodeState::may_have_executed(ProcessId id, std::uint64_t now_ns) const {
  // Children that the old program has made may greet a moment later, and look for their parent's segment.
  constexpr std::uint64_t kLateGreetingNs = 1'000'000'000;
  const Process* const process = find(id);
  if (process == nullptr || !process->recorder) return false;
  std::optional<std::uint64_t> since_ns = process->recorder->executes_since_ns(now_ns);
  if (!since_ns) since_ns = process->agent_left_ns;
  return since_ns && now_ns >= *since_ns + kLateGreetingNs;
}

void NodeState::look_for_exec(ProcessId id, std::uint64_t initial_stack, std::uint64_t now_ns) {
  Process* const process = find(id);
  if (process == nullptr || !process->recorder) return;
  const std::uint64_t known = process->recorder->header().initial_stack;
  const bool is_other = initial_stack != 0 && known != 0
                            ? initial_stack != known
                            : process->agent_left_ns && process->recorder->executes_since_ns(now_ns);
  if (is_other) segment_ended(id, now_ns);
}

void NodeState::segment_ended(ProcessId id, std::uint64_t now_ns) {
  if (Process* const process = find(id)) close_segment(*process, now_ns, Closing::kExecuted);
}

void NodeState::gone(ProcessId id, std::uint64_t now_ns, std::optional<int> wait_status) {
  Process* const process = find(id);
  if (process == nullptr || !process->alive) return;
  close_segment(*process, now_ns, Closing::kEnded);
  const RankKey key = rank_of_.at(id);
  RankGroup& group = ranks_.at(key);
  update_series(group, *process, now_ns);
  update_rss(key, group, now_ns);
  tell_parent_of_io(*process);
  process->alive = false;
  process->gone_ns = now_ns;
  if (turned_off_ns_ == 0) process->unrecorded = without_word(*process, now_ns);
  // Nobody else counts it. Not earlier, since the program that it executes may find room.
  if (process->unrecorded == shard::Unrecorded::kNoMemory)
    ++group.helpers.unrecorded_programs[static_cast<std::size_t>(wire::UnrecordedReason::kNoMemory)];
  if (wait_status) process->wait_status = wait_status;

  add_up_helpers(group);
}

SystemUsage NodeState::usage_as_told(const Process& process) {
  if (process.recorder) return larger_usage(process.recorder->header().usage, process.usage);
  if (process.past) return usage_of(*process.past, process.usage);
  return larger_usage(wire::ProcessUsage{}, process.usage);
}

SystemUsage NodeState::own_usage(SystemUsage told, const Process& process) {
  told.read_bytes -= std::min(told.read_bytes, process.read_by_children);
  told.write_bytes -= std::min(told.write_bytes, process.written_by_children);
  return told;
}

// Otherwise a rank would have what such a child reads and writes twice.
void NodeState::tell_parent_of_io(const Process& child) {
  if (child.parent_pid == 0 || (child.past && child.past->usage.usage_has_io == wire::kIoOfItsOwn)) return;
  for (Process& process : ranks_.at(rank_of_.at(child.id)).processes) {
    const std::int32_t pid = process.recorder ? process.recorder->header().pid : process.pid;
    if (!process.alive || &process == &child || pid != child.parent_pid) continue;
    // A parent that has read its account before its child ended does not have what the child used in it. By
    // the time of this look, one that has waited for the child may have ended, too.
    if (process.recorder) {
      const std::uint64_t parent_end_ns =
          process.recorder->header().end_mono_ns.load(std::memory_order_acquire);
      const std::uint64_t child_end_ns = child.past ? child.past->end_mono_ns : 0;
      if (parent_end_ns != 0 && (child_end_ns == 0 || child_end_ns >= parent_end_ns)) return;
    }
    // A child that has told nothing has left its account to its parent, with what its own children told.
    const SystemUsage told = usage_as_told(child);
    process.read_by_children += std::max(told.read_bytes, child.read_by_children);
    process.written_by_children += std::max(told.write_bytes, child.written_by_children);
    return;
  }
}

// Adds up helpers that have ended, so that any number of them takes bounded memory. So it does with the
// programs that a rank's script has started one after the other, but for those that ended last and for the
// first, which is the rank's main process.
void NodeState::add_up_helpers(RankGroup& group) {
  const bool has_main = std::any_of(group.processes.begin(), group.processes.end(),
                                    [](const Process& p) { return p.announced; });
  if (!has_main) return;
  const auto has_ended = [](const Process& process) {
    return !process.alive && (process.past || process.unrecorded != shard::Unrecorded::kNo);
  };
  const Process& main = *std::ranges::min_element(group.processes, {}, place_in_rank);
  std::vector<std::pair<std::uint64_t, ProcessId>> programs;
  for (const Process& process : group.processes)
    if (process.announced && &process != &main && has_ended(process))
      programs.emplace_back(process.gone_ns, process.id);
  const std::size_t surplus = programs.size() - std::min(programs.size(), kMaxPrograms);
  std::ranges::sort(programs);
  const auto is_surplus = [&](const Process& process) {
    return std::ranges::binary_search(programs.begin(),
                                      programs.begin() + static_cast<std::ptrdiff_t>(surplus),
                                      std::pair(process.gone_ns, process.id));
  };
  // The first process that used MPI may be the rank's main process, so it stays. The others know nothing
  // about MPI that it has not told.
  std::set<std::tuple<wire::MpiState, std::int32_t, std::int32_t, std::int32_t>> told;
  for (auto it = group.processes.begin(); it != group.processes.end();) {
    const Process& process = *it;
    const bool adds_up =
        has_ended(process) && &process != &main && (!process.announced || is_surplus(process));
    bool stays = !adds_up;
    if (has_ended(process) && process.past && process.past->mpi_state != wire::MpiState::kNone) {
      const ProcessReport& past = *process.past;
      const bool is_first =
          told.size() < kMaxMpiHelpers &&
          told.emplace(past.mpi_state, past.mpi_rank, past.mpi_size, past.world_size).second;
      stays = stays || is_first;
    }
    if (stays) {
      ++it;
      continue;
    }
    const Instant start =
        process.past ? Instant{process.past->start_mono_ns, process.past->start_utc_ns} : process.start;
    if (!process.past) it->past.emplace();
    it->past->processes = 1;
    group.helpers.add_amounts(*process.past, false);
    group.helpers.limit_ended();
    group.helpers.thread_table.add(process.past->thread_table);
    const SystemUsage usage = own_usage(usage_of(*process.past, process.usage), process);
    add_usage(group.helpers_usage, usage);
    keep_ended(group,
               row_of(process, *process.past, usage, start, end_of(process, *process.past), store_.tables()));
    rank_of_.erase(process.id);
    it = group.processes.erase(it);
  }
}

// One row for each process at first. Further ones that are alike share a row, so that any number of them
// takes bounded memory.
void NodeState::keep_ended(RankGroup& group, shard::Process row) const {
  const std::size_t local = std::max<std::size_t>({1, options_.local_ranks, ranks_.size()});
  const std::size_t single_rows =
      std::clamp(std::min(kJobProcessRows / std::max(1u, world_size()), kNodeProcessRows / local),
                 kMinProcessRows, shard::kMaxProcessRows);
  if (group.ended.size() < single_rows) {
    group.ended.push_back(std::move(row));
    return;
  }
  std::vector<shard::Process>& rows = group.ended_alike;
  const auto is_like = [&row](const shard::Process& other) {
    return other.path == row.path && other.origin == row.origin && other.unrecorded == row.unrecorded &&
           other.command == row.command;
  };
  auto found = std::find_if(rows.begin(), rows.end(), is_like);
  if (found == rows.end() && rows.size() >= single_rows / 4) {
    row.path = 0;
    row.origin = shard::ProcessOrigin::kUnknown;
    row.unrecorded = shard::Unrecorded::kNo;
    row.command.clear();
    found = std::find_if(rows.begin(), rows.end(), is_like);
  }
  if (found == rows.end()) {
    row.flags = 0;  // several may end differently
    row.exit_status = row.exit_signal = 0;
    rows.push_back(std::move(row));
    return;
  }
  const std::int64_t start = std::min(found->start_utc_ns, row.start_utc_ns);
  const std::int64_t end = std::max(found->start_utc_ns + static_cast<std::int64_t>(found->elapsed_ns),
                                    row.start_utc_ns + static_cast<std::int64_t>(row.elapsed_ns));
  found->start_utc_ns = start;
  found->elapsed_ns = static_cast<std::uint64_t>(end - start);
  ++found->count;
  found->cpu_ns += row.cpu_ns;
  found->cpu_min_ns = std::min(found->cpu_min_ns, row.cpu_min_ns);
  found->cpu_max_ns = std::max(found->cpu_max_ns, row.cpu_max_ns);
  found->children_cpu_ns += row.children_cpu_ns;
  if (row.top_path == found->top_path) {
    found->top_ns += row.top_ns;
  } else if (row.top_ns > found->top_ns) {
    found->top_path = row.top_path;
    found->top_ns = row.top_ns;
  }
}

void NodeState::set_wait_status(ProcessId id, int wait_status) {
  if (Process* const process = find(id)) process->wait_status = wait_status;
}

void NodeState::set_usage(ProcessId id, const SystemUsage& usage) {
  Process* const process = find(id);
  if (process == nullptr) return;
  // A zombie has no memory, and perhaps no counts, left to look at: keep what was seen before.
  if (process->usage) {
    raise_usage(*process->usage, usage);
  } else {
    process->usage = usage;
  }
}

void NodeState::set_look(ProcessId id, ProcessLook look) {
  Process* const process = find(id);
  if (process == nullptr) return;
  if (look.rss_bytes != 0) {
    process->look.rss_bytes = look.rss_bytes;
    process->look.anon_bytes = look.anon_bytes;
  }
  if (look.affinity.empty()) return;
  process->look.affinity = std::move(look.affinity);
  process->look.numa_nodes = std::move(look.numa_nodes);
}

void NodeState::set_memory(ProcessId id, const ProcessMemory& memory) {
  Process* const process = find(id);
  if (process == nullptr) return;
  process->memory = memory;
  RankGroup& group = ranks_.at(rank_of_.at(id));
  ProcessMemory sum;
  for (const Process& each : group.processes) {
    if (!each.alive) continue;
    sum.pss_bytes += each.memory.pss_bytes;
    sum.private_dirty_bytes += each.memory.private_dirty_bytes;
    sum.huge_bytes += each.memory.huge_bytes;
    sum.swap_bytes += each.memory.swap_bytes;
    sum.near_bytes += each.memory.near_bytes;
    sum.far_bytes += each.memory.far_bytes;
  }
  if (sum.pss_bytes > group.memory.most.pss_bytes) group.memory.most = sum;
}

void NodeState::set_node_facts(NodeFacts facts) { facts_ = std::move(facts); }

void NodeState::update_series(RankGroup& group, Process& process, std::uint64_t now_ns) {
  if (process.recorder) process.recorder->update_mpi_counters(now_ns);
  const SystemUsage usage = own_usage(usage_as_told(process), process);
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
    process.in_series_until_ns = now_ns;  // without new values, the next ones cover this time, too
  }
}

std::uint64_t NodeState::rss_bytes(const RankGroup& group) {
  std::uint64_t rss_bytes = 0;
  for (const Process& process : group.processes) {
    if (!process.alive) continue;
    const wire::ProcessUsage* const told = process.recorder ? &process.recorder->header().usage
                                           : process.past   ? &process.past->usage
                                                            : nullptr;
    const std::uint64_t most =
        std::max(told != nullptr ? told->max_rss_bytes : 0, process.usage ? process.usage->max_rss_bytes : 0);
    rss_bytes += process.look.rss_bytes != 0 ? process.look.rss_bytes : most;
  }
  return rss_bytes;
}

void NodeState::update_rss(RankKey key, RankGroup& group, std::uint64_t now_ns) {
  std::uint64_t begin_ns = now_ns;
  for (const Process& process : group.processes) begin_ns = std::min(begin_ns, process.start.mono_ns);
  const std::uint64_t bytes = rss_bytes(group);
  if (bytes == 0) return;
  begin_ns = std::max(group.rss_until_ns, begin_ns);
  group.series.level(grid_, kRss, begin_ns, now_ns, bytes);
  group.rss_until_ns = now_ns;
  if (!memory_.any()) return;

  std::uint64_t anon_bytes = 0;
  for (const Process& process : group.processes)
    if (process.alive) anon_bytes += process.look.anon_bytes;
  const std::uint64_t live_bytes = memory_.live(key);
  MemoryLooks& looks = group.memory;
  if (anon_bytes > looks.max_anon_bytes) {
    looks.max_anon_bytes = anon_bytes;
    looks.live_at_max_anon_bytes = live_bytes;
  }
  const auto ns = static_cast<double>(now_ns - std::min(begin_ns, now_ns));
  looks.looked_ns += ns;
  looks.anon_byte_ns += static_cast<double>(anon_bytes) * ns;
  looks.live_byte_ns += static_cast<double>(live_bytes) * ns;
}

void NodeState::update_series(std::uint64_t now_ns) {
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes)
      if (process.alive) update_series(group, process, now_ns);
    update_rss(key, group, now_ns);
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
    if (size > 0 && size <= kMaxRanks) world = std::max(world, static_cast<std::size_t>(size));
  const std::size_t local = std::max<std::size_t>({1, options_.local_ranks, ranks_.size()});
  const std::size_t all = options_.event_budget.value_or(
      std::clamp(std::min(kJobEvents / world, kNodeEvents / local), kMinRankEvents, kMaxRankEvents));
  const std::size_t few = std::max(kCheckpointEvents / local, kMinCheckpointEvents);
  const bool saves_memory = memory_is_bound_ || job_memory_is_short_;
  recorder.set_event_budget(saves_memory ? std::min(all, few) : all, few);
}

void NodeState::find_shared_clock() {
  for (const auto& [key, group] : ranks_) {
    if (reference_clock_ns_) return;
    for (const Process& process : group.processes) {
      if (!process.recorder) continue;
      const wire::ClockMeasurement& clock = process.recorder->header().clock_at_init;
      if (clock.ready.load(std::memory_order_acquire) == 1) reference_clock_ns_ = clock.offset_ns;
    }
  }
}

// Without a measurement the time of day, which is the same on all nodes but for milliseconds as a rule.
void NodeState::set_shared_clock(ProcessRecorder& recorder) const {
  if (reference_clock_ns_)
    recorder.set_shared_clock(static_cast<std::uint64_t>(*reference_clock_ns_));
  else if (grid_.begun())
    recorder.set_shared_clock(static_cast<std::uint64_t>(grid_.utc_ns(grid_.start_mono_ns())) -
                              grid_.start_mono_ns());
}

void NodeState::save_memory(shard::NoteCode code, std::uint64_t limit_bytes) {
  store_.close();
  bool& is_known = code == shard::NoteCode::kJobMemoryShort ? job_memory_is_short_ : memory_is_bound_;
  if (std::exchange(is_known, true)) return;
  const auto is_same = [code](const shard::Note& note) { return note.code == code; };
  if (std::none_of(notes_.begin(), notes_.end(), is_same))
    add_note(note_of_node(code, options_.node_name, limit_bytes));
}

void NodeState::job_has_memory_again() {
  job_memory_is_short_ = false;
  if (!memory_is_bound_) store_.open();
}

void NodeState::fit_store(std::uint64_t now_ns) {
  if (options_.max_memory_bytes == 0) return;
  TableSizes sizes;
  for (const auto& [key, group] : ranks_) {
    sizes.ended += group.ended.size() + group.ended_alike.size();
    for (const Process& process : group.processes) {
      if (!process.recorder) continue;
      ++sizes.processes;
      sizes.threads += process.recorder->count_threads(now_ns);
      sizes.wakes += process.recorder->count_wakes();
    }
  }
  // Limits are never raised, so the most that there were at a time counts.
  sizes.wakes = std::max(sizes.wakes, sizes_.wakes);
  sizes.generated_bytes = store_.generated_bytes();
  if (sizes == sizes_) return;
  sizes_ = sizes;
  store_.lower_limits(limits_within(options_.max_memory_bytes, sizes));
}

double NodeState::poll(std::uint64_t now_ns) {
  fit_store(now_ns);
  find_shared_clock();
  double fullest = 0;
  for (auto& [key, group] : ranks_) {
    for (Process& process : group.processes) {
      if (!process.recorder) continue;
      set_event_budget(*process.recorder);
      set_shared_clock(*process.recorder);
      fullest = std::max(fullest, process.recorder->poll(now_ns));
      memory_.add(key, process.recorder->take_memory_changes());
      forget_failed_exec(process, now_ns);
      read_launches(process, now_ns, false);
    }
  }
  if (memory_.any()) memory_.advance(now_ns);
  return fullest;
}

bool NodeState::has_segment(ProcessId id) const {
  const Process* const process = find(id);
  return process != nullptr && (process->recorder || (process->past && !process->unrecorded_since_ns));
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

bool NodeState::has_rank(std::int32_t rank) const {
  const auto numbers = rank_numbers();
  return std::any_of(numbers.begin(), numbers.end(), [&](const auto& entry) { return entry.second == rank; });
}

std::uint64_t NodeState::still_ns(std::uint64_t now_ns) const {
  std::optional<std::uint64_t> shortest;
  for (const auto& [key, group] : ranks_) {
    if (is_above_ranks(key)) continue;
    bool runs = false;
    std::uint64_t longest = 0;  // a rank's shell or launcher waits for it; which it is does not matter here
    for (const Process& process : group.processes) {
      runs = runs || process.alive;
      if (process.alive && process.recorder)
        longest = std::max(longest, process.recorder->main_thread_still_ns(now_ns));
    }
    if (runs) shortest = std::min(shortest.value_or(longest), longest);
  }
  return shortest.value_or(0);
}

void NodeState::hold_places() {
  for (auto& [key, group] : ranks_)
    for (Process& process : group.processes)
      if (process.recorder) process.recorder->hold_places();
}

std::tuple<bool, bool, NodeState::ProcessId> NodeState::place_in_rank(const Process& process) {
  auto state = static_cast<std::uint32_t>(wire::MpiState::kNone);
  if (process.recorder)
    state = process.recorder->header().mpi_state.load(std::memory_order_acquire);
  else if (process.past)
    state = static_cast<std::uint32_t>(process.past->mpi_state);
  return {state == static_cast<std::uint32_t>(wire::MpiState::kNone), !process.announced, process.id};
}

std::vector<NodeState::ProcessId> NodeState::main_processes() const {
  std::vector<ProcessId> found;
  for (const auto& [key, group] : ranks_) {
    if (is_above_ranks(key)) continue;
    const Process* main = nullptr;
    for (const Process& process : group.processes)
      if (process.alive && (main == nullptr || place_in_rank(process) < place_in_rank(*main)))
        main = &process;
    if (main != nullptr) found.push_back(main->id);
  }
  return found;
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
  if (!starts_.empty()) return static_cast<std::uint32_t>(starts_.back().first_rank + starts_.back().size);
  std::uint32_t size = options_.world_size;
  if (size == 0) return 0;  // the total is unknown while the size of the first world is
  for (const SpawnedWorld& world : spawned_worlds_) {
    if (world.first_rank >= 0 && world.size <= kMaxRanks - world.first_rank)
      size = std::max(size, static_cast<std::uint32_t>(world.first_rank + world.size));
  }
  return size;
}

void NodeState::launcher_gone(const std::string& launcher) {
  std::vector<shard::Note> running;
  for (const auto& [key, rank] : rank_numbers()) {
    const std::list<Process>& processes = ranks_.at(key).processes;
    if (std::none_of(processes.begin(), processes.end(), [](const Process& p) { return p.alive; })) continue;
    running.push_back(shard::note_of_ranks(shard::NoteCode::kLauncherGone, {rank, rank}));
    running.back().text = launcher;
  }
  shard::unite(running);  // to ranges
  for (shard::Note& note : running) add_note(std::move(note));
}

void NodeState::add_note(shard::Note note) {
  if (std::find(notes_.begin(), notes_.end(), note) != notes_.end()) return;
  const auto is_of_code = [&note](const shard::Note& other) { return other.code == note.code; };
  if (notes_.size() < kMaxNotes ||
      std::count_if(notes_.begin(), notes_.end(), is_of_code) < std::ptrdiff_t{kNotesOfEachCode}) {
    notes_.push_back(std::move(note));
    return;
  }
  const std::uint64_t hash = hash_of(note);
  if (known_left_out_.contains(hash)) return;
  if (known_left_out_.size() < kMaxNotesLeftOut) known_left_out_.insert(hash);
  ++notes_left_out_;
}

}  // namespace clusterprof::collector
