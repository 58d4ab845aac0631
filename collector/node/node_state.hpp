// SPDX-License-Identifier: BSD-3-Clause
// What the collector knows about its node: the ranks, their processes, and what these reported. Does no input
// or output: the server tells it what happened, and asks for snapshots.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/secrets.hpp"
#include "collector/charge/live_times.hpp"
#include "collector/charge/path_times.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/memory/memory_ledger.hpp"
#include "collector/node/node_snapshot.hpp"
#include "collector/os/os_facts.hpp"
#include "collector/process/process_recorder.hpp"
#include "collector/process/process_report.hpp"
#include "collector/stacks/raw_store.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::collector {

struct NodeOptions {
  std::string run_id;
  std::string node_name;
  std::vector<std::string> command;
  std::uint32_t world_size = 0;  // 0: not known
  std::uint32_t rate_hz = 0;
  std::string clock = "wall";
  bool watches_mpi = true;    // false: --no-mpi
  std::string sample_on{};    // --sample-on
  std::string launcher{};     // that has given the ranks; empty: none, or not known
  bool only_regions = false;  // --only-regions
  bool standby = false;       // --standby
  bool attached = false;      // the processes ran before, and may go on after (clusterprof attach)
  std::string only_ranks{};   // --ranks: the list; empty: all ranks of the job are recorded
  // MPI events kept per rank at most. Not given: 2^25 for the whole job and 2^22 for the node, but 2^12 to
  // 2^18 for a rank.
  std::optional<std::size_t> event_budget{};
  std::uint64_t max_memory_bytes = 0;                     // of the collector; 0: no limit
  std::uint32_t local_ranks = 0;                          // expected on this node; 0: not known
  std::uint64_t requested_memory_bytes = 0;               // by the job, of this node; 0: not known
  std::vector<shard::Note> notes{};                       // on these options
  std::vector<std::string> own{};                         // --own: absolute paths
  std::int64_t time_limit_utc_ns = 0;                     // when the job's time is up; 0: not known
  CommandDetail command_detail = CommandDetail::kMasked;  // what is stored of the command lines of processes
  std::shared_ptr<const SettingsSource> settings{};       // null: none are looked for
};

inline constexpr auto kMaxRanks = static_cast<std::int32_t>(shard::kMaxWorldSize);  // no run has more

class NodeState {
 public:
  // Identifies a process from when it is first seen to its end. exec does not change it. Never reused.
  using ProcessId = std::uint64_t;

  explicit NodeState(NodeOptions options);
  // Of a run whose directory is made later than this.
  void set_run_id(std::string run_id) { options_.run_id = std::move(run_id); }

  // The process with this pid will be the program of `rank`. It is a new process unless `known` is given.
  // `command`: as in base/command_text.hpp; empty: not known. `restart`: how often its launcher had started
  // this rank before.
  ProcessId announce(std::optional<ProcessId> known, std::int32_t rank, std::int32_t world_size,
                     std::int32_t pid, Instant now, const std::string& command = {},
                     std::int32_t restart = 0);

  // The launcher of an announced process has seen that its program will not record. What that executes may.
  void expect_no_agent(ProcessId process, wire::UnrecordedReason reason);

  // The process sent a segment. If it had one before, that ended with its exec. If a launcher below
  // clusterprof has given it a rank, announced processes are that launcher, or those around it, and no ranks.
  ProcessId hello(std::optional<ProcessId> known, std::int32_t pid, SegmentView segment, Instant now);

  // The process cannot be recorded, as its agent says. `command`: as in wire::SegmentHeader.
  ProcessId refused(std::optional<ProcessId> known, std::int32_t pid, const wire::Refusal& refusal,
                    std::string_view command, Instant now);

  // Processes that recorded ones have made and that will not be recorded, those that are new since the last
  // call. The caller finds out whether they still run.
  struct Made {
    ProcessId parent = 0;
    std::int64_t rank_key = 0;
    std::int32_t pid = 0, parent_pid = 0;  // as the parent sees them
    shard::ProcessOrigin origin = shard::ProcessOrigin::kUnknown;
    shard::Unrecorded unrecorded = shard::Unrecorded::kNo;
    std::uint32_t created_path = 0;
    std::uint64_t start_ns = 0;
    std::string command;
  };
  [[nodiscard]] std::vector<Made> take_made() { return std::exchange(made_, {}); }
  // Adds such a process; one that does not run has ended already. No value: its rank is gone.
  std::optional<ProcessId> add_unrecorded(const Made& made, bool runs, std::uint64_t now_ns);
  // Whether a helper has lived for less than a second, and has said how it ends and what it has used.
  [[nodiscard]] bool has_told_of_short_life(ProcessId process) const;
  // Whether it is known why the process is not recorded.
  [[nodiscard]] bool is_unrecorded(ProcessId process) const;

  // Tells all processes, and those to come, to have a window of recording open or not. `number` grows.
  void want_window(std::uint32_t number, bool open);
  // How many ranks have processes that record or are about to, and in how many of them all have done that.
  struct WindowDone {
    std::uint32_t done = 0, all = 0;
  };
  [[nodiscard]] WindowDone window_done() const;

  // Tells all processes, and those to come, that nothing is to be recorded any more.
  void turn_off(std::uint64_t now_ns);
  // When the latest record of a process that lives was written; 0: there is none.
  [[nodiscard]] std::uint64_t latest_record_ns() const;

  // The connection of the process's agent has ended, but the process goes on: it has executed another
  // program, or has closed all its descriptors.
  void agent_left(ProcessId process, std::uint64_t now_ns);
  // Whether it may be another program by now, of which no agent has told. The caller asks the kernel and
  // tells look_for_exec() what that says (initial_stack() in os_process.hpp; 0: nothing).
  [[nodiscard]] bool may_have_executed(ProcessId process, std::uint64_t now_ns) const;
  void look_for_exec(ProcessId process, std::uint64_t initial_stack, std::uint64_t now_ns);
  // The segment gets no more records, but the process continues: it has executed something that is not
  // recorded. The time of the program that it was ends with that.
  void segment_ended(ProcessId process, std::uint64_t now_ns);

  // The process has ended. wait_status: as from waitpid, if it is known.
  void gone(ProcessId process, std::uint64_t now_ns, std::optional<int> wait_status);
  // The wait status became known later.
  void set_wait_status(ProcessId process, int wait_status);

  void set_usage(ProcessId process, const SystemUsage& usage);
  void set_look(ProcessId process, ProcessLook look);
  // What the kernel says about a process's memory, which may come rarely, and about that of the job.
  void set_memory(ProcessId process, const ProcessMemory& memory);
  void set_group_memory(const shard::GroupMemory& memory) { group_memory_ = memory; }
  // Whether a process records its memory, or has done so.
  [[nodiscard]] bool records_memory() const { return memory_.any(); }
  void set_node_facts(NodeFacts facts);

  // There is no memory for more: from now on new call paths are kept without their callers, and no more MPI
  // events than a checkpoint has. Says so in a note. code: kMemoryBound, which lasts, or kJobMemoryShort,
  // which lasts until job_has_memory_again().
  void save_memory(shard::NoteCode code, std::uint64_t limit_bytes);
  void job_has_memory_again();

  // How many processes the kernel has killed so far because memory was short.
  void set_memory_kills(std::uint64_t processes) { memory_kills_ = processes; }

  // Starts the time axis of the series. Otherwise it starts when the first process is seen.
  void begin(Instant now);
  // Adds what processes have used since the last call to their ranks' series. Call it about once a second,
  // after set_usage() and set_look().
  void update_series(std::uint64_t now_ns);
  void update_node_series(std::uint64_t now_ns, const NodeUsage& usage);

  // Empties all rings. Returns how full the fullest one was, 0 to 1.
  double poll(std::uint64_t now_ns);

  [[nodiscard]] bool has_segment(ProcessId process) const;
  // Whether the process, or a helper of its rank, initialised MPI and did not finalise it.
  [[nodiscard]] bool left_mpi_open(ProcessId process) const;
  [[nodiscard]] bool has_rank(std::int32_t rank) const;
  // How long no rank that runs has moved at the most: as long as its main thread has been at one place or in
  // one MPI call. 0: one moves, or it is not known. What else a rank does is not looked at here.
  [[nodiscard]] std::uint64_t still_ns(std::uint64_t now_ns) const;
  // All ranks are being ended by a signal: where their threads were last stays what it is now.
  void hold_places();
  // Of each rank that runs, the process that stands for it: the one that uses MPI, or else the first.
  [[nodiscard]] std::vector<ProcessId> main_processes() const;
  // The furthest state of MPI that any process has reached, in worlds of several ranks.
  [[nodiscard]] wire::MpiState mpi_progress() const;

  // All worlds that MPI_Comm_spawn has made: their first rank in the run, and their size.
  struct SpawnedWorld {
    std::int32_t first_rank = 0, size = 0;
  };
  void set_spawned_worlds(std::vector<SpawnedWorld> worlds);
  // The number of ranks of the run. 0: not known.
  [[nodiscard]] std::uint32_t world_size() const;

  // The MPI launcher has ended. Adds a note about the ranks that still run.
  void launcher_gone(const std::string& launcher);
  // Adds a note. Only the first ones are kept, and the first ones of each code.
  void add_note(shard::Note note);

  // The content for a shard, as it is now. `complete`: all ranks have ended.
  [[nodiscard]] NodeSnapshot snapshot(Instant now, bool complete, Events events = Events::kAll);

  // Somebody begins to watch the run: from now on the time of call paths is kept for live_snapshot().
  void begin_live(std::uint64_t watch);
  void end_live();
  // The content for a live file, as it is now. begin_live() comes first.
  [[nodiscard]] NodeSnapshot live_snapshot(Instant now);

 private:
  struct Process {
    ProcessId id = 0;
    std::int32_t pid = 0;
    bool announced = false;
    bool alive = true;
    Instant start;
    std::uint64_t gone_ns = 0;
    std::optional<int> wait_status;
    std::optional<SystemUsage> usage;
    ProcessLook look;
    ProcessMemory memory;   // of the last time that it was looked at
    SystemUsage in_series;  // what is in the rank's series already, and up to when
    std::uint64_t in_series_until_ns = 0;
    std::unique_ptr<ProcessRecorder> recorder;  // of the segment it has now
    // The segments it had: amounts added up, the rest from the latest.
    std::optional<ProcessReport> past;
    // How it was made, on which path of its parent, and below which path its own begin.
    shard::ProcessOrigin origin = shard::ProcessOrigin::kUnknown;
    std::uint32_t created_path = 0, base_path = 0;
    std::int32_t parent_pid = 0;
    std::string command;
    shard::Unrecorded unrecorded = shard::Unrecorded::kNo;
    std::optional<std::uint64_t> executed_ns;  // a program that should greet and has not yet
    std::optional<std::uint64_t> agent_left_ns;
    std::optional<std::uint64_t> unrecorded_since_ns;  // it is another program since then
    // What was known before it noted that it executes another program: that may fail.
    struct Program {
      std::string command;
      shard::Unrecorded unrecorded;
    };
    std::optional<Program> before_exec;
    // By its children that have ended. The kernel adds that to its own account when it waits for them.
    std::uint64_t read_by_children = 0, written_by_children = 0;
  };
  // What a rank's living processes have in RAM, by looks at them.
  struct MemoryLooks {
    std::uint64_t max_anon_bytes = 0, live_at_max_anon_bytes = 0;
    double anon_byte_ns = 0, live_byte_ns = 0, looked_ns = 0;
    ProcessMemory most;  // of all of them, when PSS was the most
  };
  // A rank and its processes on this node. Helpers that ended are added up in `helpers`.
  struct RankGroup {
    std::list<Process> processes;
    std::string command;  // that its launcher announced
    std::int32_t restart = 0;
    ProcessReport helpers;
    SystemUsage helpers_usage;
    // Helpers, whose paths are nodes of the RawStore: each of the first ones, and then those that are alike.
    std::vector<shard::Process> ended, ended_alike;
    SeriesBlock series{kRankColumns, kRankLevels};
    std::uint64_t rss_until_ns = 0;  // that it has the memory of
    MemoryLooks memory;
  };
  struct ProcessView;  // a process as of now

  // The number in the run. Negative: the launcher gave none, every process has its own. kAboveRanks - R and
  // below: R was given to what is above the ranks.
  using RankKey = std::int64_t;
  static constexpr RankKey kAboveRanks = -(RankKey{1} << 40);
  static constexpr bool is_above_ranks(RankKey key) { return key <= kAboveRanks; }
  // Ranks that a launcher below clusterprof has started together.
  struct RankStart {
    std::uint64_t launch = 0;  // wire::WorkerRank
    std::int32_t first_rank = 0, size = 0;
  };

  // What a process says of itself when it greets. A copy: the process may write to its segment at any time.
  struct Greeting {
    std::int32_t parent_pid = 0, rank = -1, world_size = 0;
    std::uint32_t launcher = 0, forked = 0;
    std::uint64_t launch = 0, start_mono_ns = 0;
    wire::Creation creation{};
    std::string command;
  };
  [[nodiscard]] static Greeting greeting_of(const wire::SegmentHeader& header);

  Process* find(ProcessId id);
  [[nodiscard]] const Process* find(ProcessId id) const;
  Process& add_process(RankKey key, std::int32_t pid, Instant now);
  void move_to(ProcessId id, RankKey key, std::uint64_t now_ns);
  // Why a segment is closed: the process has ended, or it has become another program.
  enum class Closing { kEnded, kExecuted };
  void close_segment(Process& process, std::uint64_t now_ns, Closing why);
  void end_memory(Process& process, std::uint64_t start_ns, std::uint64_t end_ns);
  void read_launches(Process& process, std::uint64_t now_ns, bool all);
  // For how long a process that has executed an unrecorded program has been that.
  [[nodiscard]] static std::uint64_t unrecorded_ns(const Process& process, std::uint64_t until_ns);
  static void forget_failed_exec(Process& process, std::uint64_t now_ns);
  // What the process used, its children's input and output included, and without them.
  [[nodiscard]] static SystemUsage usage_as_told(const Process& process);
  [[nodiscard]] static SystemUsage own_usage(SystemUsage told, const Process& process);
  void tell_parent_of_io(const Process& child);
  // The least one is the rank's main process.
  [[nodiscard]] static std::tuple<bool, bool, ProcessId> place_in_rank(const Process& process);
  void add_up_helpers(RankGroup& group);
  [[nodiscard]] RankKey key_for_segment(const Greeting& greeting) const;
  [[nodiscard]] static bool may_greet(const Process& process);
  [[nodiscard]] static shard::Unrecorded without_word(const Process& process, std::uint64_t end_ns);
  [[nodiscard]] RankKey key_announced(std::int32_t rank) const {
    return starts_.empty() ? rank : kAboveRanks - rank;
  }
  [[nodiscard]] RankKey key_of_worker(const Greeting& greeting, std::optional<RankKey> now);
  void begin_start(const Greeting& greeting);
  [[nodiscard]] const std::string& command_of(const Greeting& greeting);
  [[nodiscard]] Process* find_segment(std::int32_t pid, std::uint64_t start_mono_ns);
  [[nodiscard]] Process* find_living_parent(const Process& child, std::int32_t pid);
  // Who has asked a server for this process, and the path of that call as in wire::ShellCall.
  struct Requester {
    Process* process = nullptr;  // null: not known
    std::uint64_t path = 0;
  };
  [[nodiscard]] Requester find_requester(const Process& child, std::uint32_t request);
  void find_origin(Process& process, const Greeting& greeting);
  [[nodiscard]] static shard::Process row_of(const Process& process, const ProcessReport& report,
                                             const SystemUsage& usage, Instant start, std::uint64_t end_ns,
                                             const RawTables& tables);
  // When a process ended that is not alive.
  [[nodiscard]] static std::uint64_t end_of(const Process& process, const ProcessReport& report);
  void keep_ended(RankGroup& group, shard::Process row) const;
  [[nodiscard]] std::map<RankKey, std::int32_t> rank_numbers() const;
  [[nodiscard]] bool is_spawned(std::int32_t rank) const;
  void update_series(RankGroup& group, Process& process, std::uint64_t now_ns);
  void update_rss(RankKey key, RankGroup& group, std::uint64_t now_ns);
  // `live`: null, or for a live file.
  static ProcessView view(Process& process, std::uint64_t now_ns, Events events, LiveTimes* live);
  void set_event_budget(ProcessRecorder& recorder) const;
  // The clock by which all nodes keep the same stretches of events, as far as it is known.
  void set_shared_clock(ProcessRecorder& recorder) const;
  void find_shared_clock();
  // Leaves less room for call paths, the more the other tables take.
  void fit_store(std::uint64_t now_ns);
  static std::size_t main_process(const std::vector<ProcessView>& views);
  static RankSnapshot rank_snapshot(std::int32_t number, RankGroup& group, std::uint64_t now_ns,
                                    Events events, std::size_t thread_rows, std::vector<shard::Note>& notes,
                                    LiveTimes* live, const RawTables& tables);
  void add_memory(RankSnapshot& snapshot, RankKey key, const RankGroup& group) const;
  NodeSnapshot make_snapshot(Instant now, bool complete, Events events, LiveTimes* live);
  // What its living processes have; for one that was never looked at, the most it ever had.
  static std::uint64_t rss_bytes(const RankGroup& group);

  NodeOptions options_;
  bool memory_is_bound_ = false, job_memory_is_short_ = false;
  RawStore store_{limits_within(options_.max_memory_bytes)};
  TableSizes sizes_;  // for which the store has its limits
  TimeGrid grid_;
  PathTimes path_times_{store_};
  MemoryLedger memory_{grid_, path_times_.grid()};
  NodeFacts facts_;
  SeriesBlock series_{kNodeColumns, kNodeLevels};
  std::optional<NodeUsage> node_usage_;
  std::uint64_t node_usage_ns_ = 0;  // when that was
  std::map<RankKey, RankGroup> ranks_;
  std::map<ProcessId, RankKey> rank_of_;
  ProcessId next_id_ = 1;
  std::vector<SpawnedWorld> spawned_worlds_;  // by first rank
  std::vector<RankStart> starts_;
  std::vector<Made> made_;
  std::string told_command_, stored_command_;  // of the latest greeting: children of a fork say the same
  std::vector<shard::Note> notes_;
  std::uint64_t notes_left_out_ = 0;
  std::unordered_set<std::uint64_t> known_left_out_;  // hashes of the first ones
  std::uint64_t memory_kills_ = 0;
  shard::GroupMemory group_memory_;
  std::uint64_t turned_off_ns_ = 0;  // 0: recording is on
  std::optional<LiveTimes> live_;    // while somebody watches
  std::uint64_t watch_ = 0;
  std::uint32_t window_number_ = 0;
  bool window_open_ = false;
  // The clock of rank 0's node minus this one, once the job has measured it.
  std::optional<std::int64_t> reference_clock_ns_;
};

}  // namespace clusterprof::collector
