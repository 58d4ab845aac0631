// SPDX-License-Identifier: BSD-3-Clause
// The event loop of the collector: connects what happens outside (collector/loop/) with what is known of the
// node (NodeState). Connections become processes, processes end, the rings are read on a timer, and shards
// are written until the ranks are gone. Everything runs on the main thread, except for the writing of shards
// and what may have to wait for a file server or the kernel.
#include "collector/server.hpp"

#include <malloc.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/command_text.hpp"
#include "base/result.hpp"
#include "base/shared_directory.hpp"
#include "base/unique_fd.hpp"
#include "collector/greeting.hpp"
#include "collector/loop/checkpointer.hpp"
#include "collector/loop/control_watch.hpp"
#include "collector/loop/hang_watch.hpp"
#include "collector/loop/launcher_channel.hpp"
#include "collector/loop/listener.hpp"
#include "collector/loop/live_watch.hpp"
#include "collector/loop/page_watch.hpp"
#include "collector/loop/poll_interval.hpp"
#include "collector/loop/processor_share.hpp"
#include "collector/loop/watched_processes.hpp"
#include "collector/node/spawned_worlds.hpp"
#include "collector/os/memory_limit.hpp"
#include "collector/os/memory_reserve.hpp"
#include "collector/os/message.hpp"
#include "collector/os/os_node.hpp"
#include "collector/os/os_process.hpp"
#include "collector/os/process_memory.hpp"
#include "collector/os/processors.hpp"
#include "collector/os/received_message.hpp"
#include "collector/rings/segment_view.hpp"
#include "formats/wire/hello.h"
#include "formats/wire/site_switch.h"

namespace clusterprof::collector {
namespace {

namespace asio = boost::asio;
using shard::NoteCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kEndPoll{50};  // while waiting for the run to end
constexpr milliseconds kLinger{300};  // for more ranks, if their number is not known
constexpr seconds kLateRank{10};      // since our start: expected ranks may be this late
constexpr seconds kChildStatus{5};    // for the launcher to report how its child ended
constexpr seconds kAfterTerminate{30};
constexpr seconds kLetGo{15};  // for agents to undo what they have changed in their processes
constexpr seconds kUsageInterval{1}, kUsageIntervalIfLight{5};
constexpr double kPeakOfCheckpoint = 1.6;
constexpr double kMemoryIsShort = 0.95, kMemoryIsLowAgain = 0.9;  // of the job's limit
// With --memory, the limit is looked at more often than once a second when it is this near.
constexpr double kMemoryIsNear = 0.5;
constexpr milliseconds kNearLimitInterval{50};
constexpr seconds kProcessorsInterval{5};  // programs bind their threads, and batch systems change cpusets

static_assert(sizeof(wire::Announce) + kCommandTextBytes <= sizeof(ReceivedMessage::data));

// The program's name as it was called: "mpirun". Empty: not known.
std::string program_name(pid_t pid) {
  if (pid <= 0) return {};
  const std::string command = read_text("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
  const std::string path = command.substr(0, command.find('\0'));
  return path.substr(path.rfind('/') + 1);
}

CheckpointTimes times_of(const ServerOptions& options) {
  return {options.checkpoint.interval, checkpoint_phase(options.node.node_name), options.nodes};
}

NoteCode note_on_refused(ErrorKind why) {
  switch (why) {
    case ErrorKind::kOtherVersion:
      return NoteCode::kProcessOfOtherVersion;
    case ErrorKind::kDamaged:
      return NoteCode::kProcessDamaged;
    case ErrorKind::kOther:
    case ErrorKind::kNotFound:
    case ErrorKind::kBadArgument:
      break;
  }
  return NoteCode::kProcessNotMapped;
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(ServerOptions options)
      : options_(std::move(options)),
        state_(options_.node),
        launcher_processors_(processors_of(options_.mpi_launcher)),
        mpi_launcher_name_(program_name(options_.mpi_launcher)),
        mpi_launcher_(io_),
        listener_(io_, options_.listen_fd,
                  {[this](UniqueFd socket, pid_t peer) { connected(std::move(socket), peer); },
                   [this](NoteCode code, std::uint64_t number) { add_note(code, number); }}),
        launcher_(io_, options_.control_fd,
                  {[this](const wire::Control& message) { launcher_told(message); },
                   // Its ranks continue, and so does the collector.
                   [this] { finish_when_done(); }}),
        timer_(io_),
        signals_(io_),
        watched_(io_),
        interval_(options_.node.rate_hz, has_windows()),
        waiting_place_(is_on_trial() ? hold_waiting_place(options_.run_directory) : UniqueFd()) {
    if (!is_on_trial()) checkpointer_ = new_checkpointer(options_.run_directory);
    if (options_.hang.after > seconds(0)) hang_schedule_.emplace(options_.hang.after);
  }
  ~Impl() {
    if (maker_.joinable()) maker_.join();
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool run() {
    install_truncation_guard();
    (void)signal(SIGPIPE, SIG_IGN);
    signals_.add(SIGTERM);
    signals_.add(SIGINT);
    signals_.add(SIGHUP);
    // The launcher has blocked all signals, so none was lost until now.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    wait_for_signals();
    listener_.start();
    launcher_.start();
    watch_mpi_launcher();
    if (checkpointer_) checkpointer_->begin();
    if (checkpointer_) watch_run();
    last_left_ = Clock::now();
    (void)set_urgent(false);
    (void)processors_had_room();
    const Instant begin = instant_now();
    state_.begin(begin);
    state_.set_node_facts(machine_.facts());
    state_.update_node_series(begin.mono_ns, machine_.usage());
    tick();
    io_.run();
    if (checkpointer_) checkpointer_->wait();
    if (is_on_trial() && !end_trial()) return is_too_short_;

    // The socket stays bound until the shard has its name. A launcher that comes now waits and is then turned
    // away, and its own collector finds that the name is taken.
    const Instant now = recorded_until();
    poll_rings(now);
    const bool complete = alive_announced_ == 0 || lets_go_;
    if (used_mpi() || has_spawned_ranks_) look_at_spawned_worlds();
    update_series();
    if (const auto waited_ms = std::chrono::duration_cast<milliseconds>(waited_).count(); waited_ms > 0)
      add_note(NoteCode::kProcessorBound, static_cast<std::uint64_t>(waited_ms));
    state_.set_memory_kills(memory_limit_.kills());
    state_.set_group_memory(memory_limit_.follow());
    const bool written = checkpointer_->write_last(state_.snapshot(now, complete));
    listener_.close();
    if (is_on_trial()) clean_up_trial();
    launcher_.send(wire::ControlType::kRanksSeen, static_cast<std::int32_t>(announced_ranks_.size()));
    if (control_) control_->withdraw();
    if (live_) live_->withdraw();
    return written;
  }

  [[nodiscard]] std::filesystem::path run_directory() const {
    return checkpointer_ ? run_directory_path() : std::filesystem::path();
  }
  [[nodiscard]] std::uint32_t world_size() const { return state_.world_size(); }
  [[nodiscard]] bool had_rank(std::int32_t rank) const { return state_.has_rank(rank); }
  [[nodiscard]] int absent_ranks() const {
    return std::max(0, options_.local_ranks - static_cast<int>(announced_ranks_.size()));
  }
  [[nodiscard]] bool used_mpi() const { return state_.mpi_progress() != wire::MpiState::kNone; }
  [[nodiscard]] bool was_turned_off() const { return off_since_ && !lets_go_; }
  [[nodiscard]] milliseconds age() const {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - started_);
  }

 private:
  struct Connection {
    Connection(asio::io_context& io, int fd, pid_t peer) : socket(io, fd), pid(peer) {}
    asio::posix::stream_descriptor socket;
    pid_t pid;  // 0: in another PID namespace
    bool greeted = false;
    std::optional<NodeState::ProcessId> agent_of;
  };
  using ConnectionIt = std::list<Connection>::iterator;

  // --- greetings --------------------------------------------------------------------------

  void connected(UniqueFd socket, pid_t peer) {
    const auto it = connections_.emplace(connections_.end(), io_, socket.release(), peer);
    if (read_messages(it)) wait_for_messages(it);
  }

  void wait_for_messages(ConnectionIt it) {
    it->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                          [this, it](const boost::system::error_code& error) {
                            if (error == asio::error::operation_aborted) return;
                            if (read_messages(it)) wait_for_messages(it);
                          });
  }

  // False when the connection has ended; it is erased then. A process that sends more than its greeting,
  // perhaps without end, is turned away.
  bool read_messages(ConnectionIt it) {
    for (;;) {
      ReceivedMessage message = receive(it->socket.native_handle());
      if (message.would_block) return true;
      if (message.bytes > 0 && !it->greeted && handle(*it, message)) continue;
      const std::optional<NodeState::ProcessId> agent_of = it->agent_of;
      connections_.erase(it);
      if (agent_of) connection_ended(*agent_of);
      return false;
    }
  }

  void connection_ended(NodeState::ProcessId id) {
    const WatchedProcess* process = watched_.find(id);
    if (process != nullptr && process->pid == 0 && process->pidfd() < 0) {
      asio::post(io_, [this, id] { process_gone(id); });
    } else if (std::ranges::none_of(connections_, [id](const Connection& c) { return c.agent_of == id; })) {
      // Otherwise the next program has greeted by now.
      state_.agent_left(id, recorded_until().mono_ns);
    }
  }

  bool handle(Connection& connection, ReceivedMessage& message) {
    connection.greeted = true;
    // As where the site has put another version in the place of this one.
    if (is_of_other_version(message) && !off_since_)
      add_note(NoteCode::kProcessOfOtherVersion, static_cast<std::uint64_t>(connection.pid));
    if (const auto announce = greeting_as<wire::Announce>(message, wire::kAnnounceMagic))
      return handle_announce(connection, *announce, message);
    const auto hello = greeting_as<wire::Hello>(message, wire::kHelloMagic);
    if (hello && message.file) return handle_hello(connection, *hello, std::move(message.file));
    if (const auto refusal = greeting_as<wire::Refusal>(message, wire::kRefusalMagic))
      handle_refusal(connection, *refusal, {message.data + sizeof *refusal, message.data + message.bytes});
    if (message.cut) add_note(NoteCode::kMemoryNotReceived);
    return false;
  }

  // A launcher that is about to become the program of a rank.
  bool handle_announce(Connection& connection, const wire::Announce& announce, ReceivedMessage& message) {
    const int fd = connection.socket.native_handle();
    UniqueFd pidfd = open_peer_process(fd, connection.pid);
    if (!pidfd && connection.pid == 0 && is_process(message.file.get())) pidfd = std::move(message.file);
    const bool seen = pidfd || connection.pid != 0;
    if (seen) {
      const std::string command(message.data + sizeof announce, message.data + message.bytes);
      note_announced(watch(connection.pid, {announce.pid, announce.rank}, std::move(pidfd)), announce.rank,
                     announce.world_size, command, announce.restart, announce.unrecorded);
    } else if (!is_closed(fd)) {
      note_unseen();
    }
    const std::uint8_t answer = seen ? wire::kAnnounceAccepted : wire::kAnnounceUnseen;
    (void)send(fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
    return seen;
  }

  // An agent, which hands over its shared memory.
  bool handle_hello(Connection& connection, const wire::Hello& hello, UniqueFd memory) {
    auto segment = SegmentView::open(std::move(memory), hello.segment_bytes);
    if (off_since_) {
      // The agent may not see the site's file: in a container, or because it is gone again.
      if (segment)
        segment.value().header().turned_off_ns.store(off_since_->mono_ns, std::memory_order_release);
      return false;
    }
    if (!segment) {
      add_note(note_on_refused(segment.error().kind), static_cast<std::uint64_t>(connection.pid));
      return false;
    }
    WatchedProcess& process = watch(connection.pid, {hello.pid, hello.rank},
                                    open_peer_process(connection.socket.native_handle(), connection.pid));
    process.id =
        state_.hello(process.known_id(), process.shown_pid(), std::move(segment).value(), recorded_until());
    connection.agent_of = process.id;
    wait_for_end(process);
    return true;
  }

  // An agent that cannot record its process.
  void handle_refusal(Connection& connection, const wire::Refusal& refusal, std::string_view command) {
    if (off_since_) return;
    UniqueFd pidfd = open_peer_process(connection.socket.native_handle(), connection.pid);
    if (!pidfd && connection.pid == 0) return;  // its end would not be seen
    WatchedProcess& process = watch(connection.pid, {refusal.pid, refusal.rank}, std::move(pidfd));
    process.id = state_.refused(process.known_id(), process.shown_pid(), refusal, command, recorded_until());
    wait_for_end(process);
  }

  // Processes without an agent, which their parents have told of.
  void watch_unrecorded() {
    for (const NodeState::Made& made : state_.take_made()) {
      const WatchedProcess* const parent = watched_.find(made.parent);
      // Otherwise they are in another PID namespace, or their parent has ended and their pids may be others'.
      const bool sees_them = parent != nullptr && parent->pid != 0 && parent->pid == made.parent_pid;
      if (watched_.find_pid(made.pid) != nullptr) continue;  // it has an agent after all
      UniqueFd pidfd = sees_them ? open_process(made.pid) : UniqueFd();
      const bool runs = pidfd && !process_ended(pidfd.get());
      const auto id = state_.add_unrecorded(made, runs, recorded_until().mono_ns);
      if (!runs || !id) continue;
      WatchedProcess& process = watched_.add(made.pid, {}, std::move(pidfd));
      process.id = *id;
      wait_for_end(process);
    }
  }

  // --- processes that were attached to -----------------------------------------------------

  // Ends the recording of processes that go on. Their agents are told first to stop, and then, by the end of
  // their connections, to undo what they have changed; they answer by closing theirs.
  void let_go() {
    if (std::exchange(lets_go_, true) || off_since_) return;
    if (!told_off_at_) tell_off();
    told_off_at_ = Clock::now();
  }

  // The time counts from when all processes are attached to: whoever does that closes its connection then.
  void look_at_attached_time(Clock::time_point now) {
    if (options_.attached_for.count() == 0) return;
    if (!all_attached_ && !launcher_.connected()) all_attached_ = now;
    if (all_attached_ && now - *all_attached_ >= options_.attached_for) let_go();
  }

  void end_connections() {
    for (Connection& connection : connections_)
      if (connection.agent_of) (void)shutdown(connection.socket.native_handle(), SHUT_WR);
    let_go_by_ = Clock::now() + kLetGo;
  }

  [[nodiscard]] std::uint32_t agents() const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        connections_, [](const Connection& connection) { return connection.agent_of.has_value(); }));
  }

  [[nodiscard]] bool has_let_go() const {
    return lets_go_ && off_since_ && (agents() == 0 || Clock::now() >= let_go_by_);
  }

  // --- the launcher -----------------------------------------------------------------------

  // Ends are handled in the order in which they happen: a rank that still runs when the MPI launcher ends has
  // not failed before it.
  void watch_mpi_launcher() {
    UniqueFd launcher = open_process(options_.mpi_launcher);
    if (!launcher) return;
    mpi_launcher_.assign(launcher.release());
    mpi_launcher_.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this](const boost::system::error_code& error) {
                               if (!error) state_.launcher_gone(mpi_launcher_name_);
                             });
  }

  void launcher_told(const wire::Control& message) {
    if (message.type == wire::ControlType::kChildStarted) child_started(message.a, message.b);
    if (message.type == wire::ControlType::kChildExited) child_exited(message.a, message.b);
    if (message.type == wire::ControlType::kAttached) attached(message.a, message.b);
  }

  void child_started(pid_t pid, std::int32_t rank) {
    if (const auto ended = ended_pids_.find(pid);
        ended != ended_pids_.end() && watched_.find_pid(pid) == nullptr) {
      // It lived so briefly that its agent connected and left before the launcher announced it.
      child_ =
          state_.announce(ended->second, rank, -1, pid, recorded_until(), own_command(), options_.restart);
      (void)any_announced(rank, *child_);
    } else {
      WatchedProcess& process = watch(pid, {}, open_process(pid));
      note_announced(process, rank, -1, own_command(), options_.restart, options_.unrecorded);
      child_ = process.id;
    }
    ended_pids_.clear();
  }

  // The agent of that process has greeted before. It may have ended since.
  void attached(pid_t pid, std::int32_t rank) {
    listener_.accept_all();
    if (watched_.find_pid(pid) == nullptr) return;
    ++attached_processes_;
    note_announced(watch(pid, {}, open_process(pid)), rank, -1, "", 0, 0);
  }

  void child_exited(pid_t pid, int wait_status) {
    child_exited_ = true;
    if (const WatchedProcess* process = watched_.find_pid(pid)) process_gone(process->id);
    if (!child_) return;
    state_.set_wait_status(*child_, wait_status);
    const bool failed = wait_status != 0 || state_.left_mpi_open(*child_);
    const bool may_go_on = options_.others_patience > seconds(0);
    if ((failed || (may_go_on && ranks_go_on_)) && !done()) {
      write_and_release();
    } else if (may_go_on) {
      release_by_ = Clock::now() + options_.others_patience;
    }
    finish_when_done();
  }

  void write_and_release() {
    release_by_.reset();
    release_after_write_ = true;
    // The launcher has its own limit, which is shorter.
    release_at_latest_ = Clock::now() + options_.end_patience * 5 / 4;
    checkpoint();
  }

  void release_launcher() {
    if (!release_after_write_ || !launcher_.connected()) return;
    release_after_write_ = false;
    launcher_.send(wire::ControlType::kRanksSeen, static_cast<std::int32_t>(announced_ranks_.size()));
    launcher_.send(wire::ControlType::kRelease, 0);
  }

  // --- processes --------------------------------------------------------------------------

  // The watched process with this pid, or with this alias if it has no pid here. Adds it if it is new.
  WatchedProcess& watch(pid_t pid, const ProcessAlias& alias, UniqueFd pidfd) {
    const auto is_connected = [this](NodeState::ProcessId id) {
      return std::any_of(connections_.begin(), connections_.end(), [&](Connection& connection) {
        return connection.agent_of == id && !is_closed(connection.socket.native_handle());
      });
    };
    if (WatchedProcess* known = watched_.find_peer(pid, alias, pidfd, is_connected)) {
      if (!known->is_reused(pidfd)) return *known;
      process_gone(known->id);
    }
    return watched_.add(pid, alias, std::move(pidfd));
  }

  // Refuses an announced process whose end we would not see: we would wait for it for ever.
  void note_unseen() {
    add_note(NoteCode::kPidNamespaces);
    if (!std::exchange(told_unseen_, true))
      say("node {}: processes in PID namespaces of their own are not recorded: the collector could not see "
          "them end (that takes Linux 5.4 and permission for pidfd_open)",
          options_.node.node_name);
  }

  void add_note(NoteCode code, std::uint64_t number = 0) {
    state_.add_note(shard::note_of_node(code, options_.node.node_name, number));
  }

  // Whether it is the first process of its rank.
  bool any_announced(std::int32_t rank, NodeState::ProcessId id) {
    last_left_ = Clock::now();
    return announced_ranks_.insert(rank >= 0 ? rank : -static_cast<std::int64_t>(id)).second;
  }

  // Of the rank whose launcher started this collector.
  [[nodiscard]] std::string own_command() const { return command_text(options_.node.command); }

  void note_announced(WatchedProcess& process, std::int32_t rank, std::int32_t world_size,
                      const std::string& command, std::int32_t restart, std::int32_t unrecorded) {
    process.id = state_.announce(process.known_id(), rank, world_size, process.shown_pid(), recorded_until(),
                                 command, restart);
    if (unrecorded > 0 && unrecorded <= static_cast<std::int32_t>(wire::kUnrecordedReasons))
      state_.expect_no_agent(process.id, static_cast<wire::UnrecordedReason>(unrecorded - 1));
    if (options_.node.world_size > 0 && rank >= static_cast<std::int64_t>(options_.node.world_size))
      has_spawned_ranks_ = true;
    const bool is_new = !std::exchange(process.announced, true);
    if (is_new) ++alive_announced_;
    ranks_changed_ = true;
    const bool goes_on = !any_announced(rank, process.id) && is_new;
    wait_for_end(process);
    if (!goes_on) return;
    // Ranks start one program after the other, and may wait for what our launcher's rank starts next.
    ranks_go_on_ = true;
    if (release_by_) write_and_release();
  }

  void wait_for_end(WatchedProcess& process) {
    if (process.waited_for) return;
    process.waited_for = true;
    const NodeState::ProcessId id = process.id;
    if (process.pidfd() < 0) {  // look_at_processes() looks at it once a second, unless it is gone already
      if (process.has_ended()) asio::post(io_, [this, id] { process_gone(id); });
      return;
    }
    process.ended.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, id](const boost::system::error_code& error) {
                               if (!error) process_gone(id);
                             });
  }

  void process_gone(NodeState::ProcessId id) {
    // It may have sent its greeting just before it ended.
    listener_.accept_all();
    const WatchedProcess* process = watched_.find(id);
    if (process == nullptr) return;
    const pid_t pid = process->pid;
    for (auto c = connections_.begin(); c != connections_.end();) {
      if (c->pid != pid || c->greeted || (read_messages(c) && !c->greeted)) {
        ++c;
      } else {
        c = connections_.begin();  // a greeting can end other connections
      }
    }
    process = watched_.find(id);
    if (process == nullptr) return;
    // Of a short life the kernel knows no more than the agent has said, and its files cost more than the
    // life.
    const bool has_told = state_.has_told_of_short_life(id);
    std::optional<int> status;
    if (const int fd = process->pidfd(); fd >= 0)
      status = has_told ? kept_wait_status(fd) : exit_wait_status(fd, pid);
    if (const auto usage = off_since_ || has_told ? std::nullopt : read_usage(pid))
      state_.set_usage(id, *usage);
    state_.gone(id, recorded_until().mono_ns, status);
    if (process->announced) {
      ranks_changed_ = true;
      --alive_announced_;
      last_left_ = Clock::now();
    } else if (pid != 0 && launcher_.connected() && !child_) {
      ended_pids_[pid] = id;
    }
    watched_.remove(id);
    page_looks_.forget(id);
    finish_when_done();
  }

  // --- time -------------------------------------------------------------------------------

  void tick() {
    after_write();
    const double fullest = poll_rings(recorded_until());
    if (const bool was_urgent = urgency_.urgent(); urgency_.after_look(fullest) != was_urgent)
      (void)set_urgent(!was_urgent);
    interval_.after_poll(fullest);

    const Clock::time_point clock = Clock::now();
    if (window_closed_ && clock >= window_closed_by_) {
      window_closed_ = false;
      checkpoint();
    }
    if (clock - last_switch_look_ >= kUsageInterval) {
      last_switch_look_ = clock;
      look_at_site_switch(clock);
    }
    if (hang_schedule_ && clock - last_hang_look_ >= kUsageInterval) {
      last_hang_look_ = clock;
      look_for_hang(clock);
    }
    if (clock - last_usage_ >= (is_resting() ? kUsageIntervalIfLight : kUsageInterval)) {
      last_usage_ = clock;
      look_at_processes();
    } else if (memory_share_ >= kMemoryIsNear && clock - last_memory_look_ >= kNearLimitInterval &&
               state_.records_memory()) {
      last_memory_look_ = clock;
      if (memory_limit_.most_used_share() >= kMemoryIsShort) look_at_memory();
    }
    look_at_pages(clock);
    if (ranks_changed_ || clock - last_move_ >= kProcessorsInterval) follow_ranks();
    look_at_attached_time(clock);
    if (is_on_trial()) look_at_trial();
    if (checkpointer_ && !last_is_written_ &&
        (checkpointer_->is_due() || (off_since_ && !checkpointer_->is_writing()) ||
         (control_ && control_->is_open() && clock - last_checkpoint_ >= CheckpointTimes::kUsualAge)))
      checkpoint();
    if (release_by_ && clock >= *release_by_) write_and_release();
    if (release_after_write_ && launcher_.connected() && clock >= release_at_latest_) {
      say("the profile of node {} is still being written: the program's end waits no longer",
          options_.node.node_name);
      release_launcher();
    }
    finish_when_done();
    const milliseconds usual =
        alive_announced_ > 0 ? interval_.get() : std::min<milliseconds>(interval_.get(), kEndPoll);
    timer_.expires_after(std::max<std::chrono::nanoseconds>(usual, wait_for_processor_share(usual)));
    wait_for_tick();
  }

  void wait_for_tick() {
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) tick();
    });
  }

  // Where the collector has used more than it may, rings fill up meanwhile, and what does not fit is counted
  // there.
  std::chrono::nanoseconds wait_for_processor_share(milliseconds usual) {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    const std::chrono::nanoseconds wait = processor_share_.wait_after(
        Clock::now().time_since_epoch(), seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec));
    if (alive_announced_ == 0) return {};  // nobody would gain anything
    if (wait > usual) waited_ += wait - usual;
    return wait;
  }

  double poll_rings(const Instant& now) {
    if (off_since_) return 0;
    const double fullest = state_.poll(now.mono_ns);
    watch_unrecorded();
    return fullest;
  }

  // What is recorded ends here: now, or when the site turned recording off.
  [[nodiscard]] Instant recorded_until() const { return off_since_ ? *off_since_ : instant_now(); }

  // The site turns recording off for running jobs, too. The agents are told, and stop within a tenth of a
  // second; what they have written by then is read. One more shard is written, and the last when the ranks
  // have ended.
  void look_at_site_switch(Clock::time_point clock) {
    constexpr milliseconds kAgentsStop{500};
    if (off_since_) return;
    if (!told_off_at_) {
      if (wire::off_file([](const char* path) { return access(path, F_OK) == 0; }) == nullptr) return;
      told_off_at_ = clock;
      tell_off();
    } else if (clock - *told_off_at_ >= kAgentsStop) {
      Instant end = instant_now();
      poll_rings(end);
      // What comes after the last record is not of the run: nobody has looked at what the program did then.
      const std::uint64_t recorded_ns = std::max(told_off_ns_, state_.latest_record_ns());
      if (recorded_ns < end.mono_ns) {
        end.utc_ns -= static_cast<std::int64_t>(end.mono_ns - recorded_ns);
        end.mono_ns = recorded_ns;
      }
      update_series(end.mono_ns);
      if (lets_go_) {
        end_connections();
      } else {
        add_note(NoteCode::kTurnedOff,
                 static_cast<std::uint64_t>(std::chrono::duration_cast<seconds>(clock - started_).count()));
      }
      off_since_ = end;
    }
  }

  void tell_off() {
    told_off_ns_ = instant_now().mono_ns;
    state_.turn_off(told_off_ns_);
  }

  // Moves to the processors on which the ranks may run. Their launcher bound them, or they bind themselves.
  void follow_ranks() {
    ranks_changed_ = false;
    last_move_ = Clock::now();
    std::vector<Processors> ranks;
    for (const WatchedProcess& process : watched_)
      if (process.announced) ranks.push_back(processors_of_threads(process.pid));
    Processors chosen = choose_processors(launcher_processors_, ranks);
    if (chosen.empty() || chosen == processors_) return;
    if (move_to(chosen)) processors_ = std::move(chosen);
  }

  // Whether our processors were partly idle since the last call.
  bool processors_had_room() {
    const Processors processors = processors_.empty() ? processors_of(getpid()) : processors_;
    const std::optional<std::string> statistics = read_text("/proc/stat");
    return idle_watch_.had_room(statistics ? idle_time(*statistics, processors) : std::nullopt,
                                Clock::now().time_since_epoch());
  }

  // Finds out what nobody reports: the resources that programs without an agent use, which processes have
  // become such a program, and, on kernels without pidfds, which have ended.
  void look_at_processes() {
    std::vector<NodeState::ProcessId> ended;
    for (const WatchedProcess& process : watched_) {
      if (off_since_) {
        if (process.pidfd() < 0 && process.has_ended()) ended.push_back(process.id);
        continue;
      }
      if (const std::uint64_t now_ns = recorded_until().mono_ns; state_.may_have_executed(process.id, now_ns))
        state_.look_for_exec(process.id, process.pid != 0 ? initial_stack(process.pid) : 0, now_ns);
      if ((process.announced && !state_.has_segment(process.id)) || state_.is_unrecorded(process.id)) {
        if (const auto usage = read_usage(process.pid)) state_.set_usage(process.id, *usage);
      }
      if (process.pid != 0) {
        ProcessLook look = machine_.look_at(process.pid);
        if (state_.records_memory()) page_looks_.see(process.id, Clock::now(), look.rss_bytes);
        state_.set_look(process.id, std::move(look));
      }
      if (process.pidfd() < 0 && process.has_ended()) ended.push_back(process.id);
    }
    for (const NodeState::ProcessId id : ended) process_gone(id);
    update_series();
    look_at_own_memory();
    state_.set_group_memory(memory_limit_.follow());
    look_at_memory();
  }

  // Never while memory is short: the process needs the lock that this takes.
  void look_at_pages(Clock::time_point now) {
    if (off_since_ || memory_share_ >= kMemoryIsLowAgain || pages_.is_busy()) return;
    const std::optional<MemoryLookTimes::Due> due = page_looks_.due(now);
    const WatchedProcess* const process = due ? watched_.find(due->process) : nullptr;
    if (process == nullptr) return;
    std::string numa_nodes;
    if (due->with_nodes && machine_.facts().numa_nodes > 1)
      numa_nodes = machine_.numa_nodes_of(processors_of(process->pid));
    // Without a thread, the next tick tries.
    (void)pages_.look(process->id, process->pid, std::move(numa_nodes));
  }

  void looked_at_pages(NodeState::ProcessId id, const std::optional<ProcessMemory>& memory,
                       Clock::duration took) {
    page_looks_.looked(id, Clock::now(), took);
    if (memory && !off_since_ && watched_.find(id) != nullptr) state_.set_memory(id, *memory);
  }

  // Since Linux 5.10, looking does not hold up the process.
  static bool kernel_gives_up_lock() {
    utsname system{};
    return uname(&system) == 0 && lock_is_given_up(system.release);
  }

  void look_at_own_memory() {
    const bool records_memory = state_.records_memory();
    if (options_.node.max_memory_bytes == 0 && !records_memory) return;
    const std::uint64_t all_bytes = own_memory_bytes();
    const auto own_bytes = static_cast<double>(all_bytes - std::min(all_bytes, reserve_.bytes()));
    // While a shard is made, the collector has about 1.6 times as much as otherwise.
    if (options_.node.max_memory_bytes != 0 && !(checkpointer_ && checkpointer_->is_writing()) &&
        own_bytes * kPeakOfCheckpoint > static_cast<double>(options_.node.max_memory_bytes))
      state_.save_memory(NoteCode::kMemoryBound, options_.node.max_memory_bytes);
    if (records_memory && memory_share_ < kMemoryIsLowAgain)
      reserve_.hold(static_cast<std::uint64_t>(own_bytes * (kPeakOfCheckpoint - 1)));
  }

  void look_at_memory() {
    last_memory_look_ = Clock::now();
    // The kernel kills what it chooses when the job has no memory left. It should not be our doing, and what
    // is known until then is to be safe.
    const std::optional<MemoryUse> use = memory_limit_.look();
    const double share = use ? use->share() : 0;
    memory_share_ = share;
    if (share < kMemoryIsLowAgain && std::exchange(memory_was_short_, false)) state_.job_has_memory_again();
    if (share < kMemoryIsShort || std::exchange(memory_was_short_, true)) return;
    state_.set_group_memory(memory_limit_.follow());
    state_.save_memory(NoteCode::kJobMemoryShort, use->limit_bytes);
    reserve_.release();
    memory_is_short_ = true;
    checkpoint();
    malloc_trim(0);
  }

  // Debug information of large programs takes hundreds of megabytes, which must not be what kills the job.
  [[nodiscard]] bool has_room_for_lines() const {
    constexpr std::uint64_t kRoomForLines = 2ull << 30;
    return memory_limit_.left_bytes().value_or(kRoomForLines) >= kRoomForLines;
  }

  void update_series() {
    if (!off_since_) update_series(instant_now().mono_ns);
  }
  void update_series(std::uint64_t now_ns) {
    state_.update_series(now_ns);
    state_.update_node_series(now_ns, machine_.usage());
  }

  void wait_for_signals() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      // The collector ends when the ranks do. They get this SIGTERM, too, and SIGKILL may follow soon.
      if (number == SIGTERM) {
        if (!terminate_at_) terminate_at_ = Clock::now() + kAfterTerminate;
        checkpoint();
      }
      wait_for_signals();
    });
  }

  [[nodiscard]] bool done() const {
    const Clock::time_point now = Clock::now();
    if (terminate_at_ && now >= *terminate_at_) return true;
    if (has_let_go()) return true;
    if (alive_announced_ > 0) return false;
    const Clock::duration since = now - last_left_;
    if (launcher_.connected() && !child_exited_ && !(child_ && since >= kChildStatus)) return false;
    if (options_.local_ranks > 0) {
      if (announced_ranks_.size() >= static_cast<std::size_t>(options_.local_ranks)) return true;
      // Launchers start all ranks together, and no rank finishes MPI without the others.
      const bool all_have_started =
          now - started_ >= kLateRank || state_.mpi_progress() == wire::MpiState::kFinalised;
      if (!all_have_started) return false;
    }
    return since >= kLinger;
  }

  void finish_when_done() {
    if (!done()) return;
    listener_.accept_all();
    if (done()) io_.stop();
  }

  // --- shards -----------------------------------------------------------------------------

  void look_at_spawned_worlds() {
    state_.set_spawned_worlds(read_spawned_worlds(run_directory_path()));
    for (shard::Note& note : read_spawn_notes(run_directory_path())) state_.add_note(std::move(note));
  }

  [[nodiscard]] std::filesystem::path run_directory_path() const {
    return is_on_trial() ? std::filesystem::path(made_directory_.path) : options_.run_directory;
  }

  std::unique_ptr<Checkpointer> new_checkpointer(const std::filesystem::path& directory) {
    return std::make_unique<Checkpointer>(
        ShardPlace{directory, options_.node.node_name, options_.nodes, options_.checkpoint.local},
        times_of(options_), [this] { writer_is_done(); });
  }

  // --- requests from outside ---------------------------------------------------------------

  [[nodiscard]] bool has_windows() const { return options_.light || options_.node.standby; }
  // Little is recorded now, or nothing.
  [[nodiscard]] bool is_resting() const { return has_windows() && !(control_ && control_->is_open()); }

  void watch_control() {
    if (control_) return;
    ControlWatch::Node node = options_.node.attached ? what_detach_asks_for() : what_windows_ask_for();
    node.write = [this](std::uint64_t number) {
      write_asked_ = number;
      checkpoint();
    };
    node.hang = [this](const HangNotice& notice) { told_of_hang(notice); };
    // Until then nobody watches, and one look of a node at the run directory is enough.
    node.any = [this] {
      if (!std::exchange(is_asked_, true)) live_->begin();
    };
    const auto windows = options_.light                                    ? ControlWatch::Windows::kOfLight
                         : options_.node.standby || options_.node.attached ? ControlWatch::Windows::kOfStandby
                                                                           : ControlWatch::Windows::kNone;
    control_.emplace(io_, run_directory_path().string(), options_.node.node_name, options_.nodes, windows,
                     std::move(node));
    control_->begin(options_.node.attached);
  }

  ControlWatch::Node what_windows_ask_for() {
    const auto change = [this](std::uint32_t number, bool open) {
      if (off_since_ || told_off_at_) return;
      // What is in the rings is of what was recorded until now.
      poll_rings(recorded_until());
      state_.want_window(number, open);
      interval_ = PollInterval(options_.node.rate_hz, !open);
      timer_.expires_after(milliseconds(0));  // the next tick was to be late
      wait_for_tick();
      window_closed_ = window_closed_ || !open;
      window_closed_by_ = Clock::now() + ControlWatch::kDonePatience;
    };
    // Also writes the data of a closed window, once all ranks have closed it.
    const auto done = [this]() -> ControlWatch::Node::Done {
      if (off_since_ || told_off_at_) return {};  // by the site
      const NodeState::WindowDone ranks = state_.window_done();
      if (ranks.done == ranks.all && std::exchange(window_closed_, false)) checkpoint();
      return {ranks.done, ranks.all};
    };
    return {change, done, {}, {}, {}};
  }

  // `clusterprof detach` asks for the end as `clusterprof stop` asks for that of a window.
  ControlWatch::Node what_detach_asks_for() {
    const auto change = [this](std::uint32_t, bool open) {
      if (!open) let_go();
    };
    const auto done = [this]() -> ControlWatch::Node::Done {
      if (!lets_go_) return {attached_processes_, attached_processes_};
      const std::uint32_t left = off_since_ ? std::min(agents(), attached_processes_) : attached_processes_;
      return {attached_processes_ - left, attached_processes_};
    };
    return {change, done, {}, {}, {}};
  }

  void watch_run() {
    watch_control();
    if (live_) return;
    const auto look = [this](std::uint64_t watch,
                             std::chrono::nanoseconds next_within) -> std::shared_ptr<const NodeSnapshot> {
      if (off_since_) return nullptr;
      const Instant now = recorded_until();
      poll_rings(now);
      if (std::exchange(watch_, watch) != watch) state_.begin_live(watch);
      NodeSnapshot made = state_.live_snapshot(now);
      made.node.next_within_ns = static_cast<std::uint64_t>(next_within.count());
      if (const std::optional<MemoryUse> use = memory_limit_.look()) {
        made.memory_used_bytes = use->used_bytes;
        made.memory_limit_bytes = use->limit_bytes;
      }
      return std::make_shared<const NodeSnapshot>(std::move(made));
    };
    live_.emplace(io_, run_directory_path().string(), options_.node.node_name, options_.nodes,
                  machine_.facts().cpus, checkpointer_->builder(),
                  LiveWatch::Node{look, [this] { state_.end_live(); }});
  }

  // --- hangs -------------------------------------------------------------------------------

  void look_for_hang(Clock::time_point clock) {
    if (!checkpointer_ || off_since_ || told_off_at_) return;
    const std::chrono::nanoseconds still(state_.still_ns(instant_now().mono_ns));
    if (!hang_schedule_->is_due(still, clock) || !state_.has_rank(options_.hang.rank)) return;
    std::vector<std::string> words{options_.hang.analyze, "hang", "--after",
                                   std::to_string(options_.hang.after.count())};
    if (options_.hang.end_ranks) words.emplace_back("--abort");
    words.push_back(run_directory_path().string());
    beside_.start(std::move(words));
  }

  // All nodes stand still, as the one program has found that has looked at them.
  void told_of_hang(const HangNotice& notice) {
    if (options_.hang.after == seconds(0)) return;
    hang_schedule_.reset();
    const bool ends = notice.end_ranks && options_.hang.end_ranks;
    state_.add_note(
        shard::note_of_run(ends ? NoteCode::kEndedForHang : NoteCode::kNoProgress, notice.lasted_s));
    checkpoint();
    if (!ends) return;
    state_.hold_places();
    for (const NodeState::ProcessId id : state_.main_processes())
      if (const WatchedProcess* process = watched_.find(id)) process->send(SIGABRT);
  }

  // --- runs that are kept only if they last ------------------------------------------------

  [[nodiscard]] bool is_on_trial() const { return options_.trial.min_duration > seconds(0); }

  // Starts to make the run directory once the run has lasted long enough, and takes it over when it is made.
  // A thread of its own makes it, because the file server may not answer.
  void look_at_trial() {
    if (checkpointer_ || trial_has_failed_) return;
    if (!maker_.joinable()) {
      if (Clock::now() - started_ < options_.trial.min_duration || alive_announced_ == 0) return;
      try {
        maker_ = std::thread([this] {
          make_run_directory();
          is_made_.store(true, std::memory_order_release);
        });
      } catch (const std::exception&) {  // no thread: the next tick tries again
      }
    } else if (is_made_.load(std::memory_order_acquire)) {
      maker_.join();
      take_run_directory();
    }
  }

  // On any thread.
  void make_run_directory() {
    try {
      RunDirectoryRequest request = options_.trial.request;
      request.start_unix_s = started_unix_s_;
      Result<RunDirectory> made = agree_on_run_directory(request, options_.trial.step);
      if (!made) {
        trial_problem_ = made.error().message;
        return;
      }
      made_directory_ = std::move(made).value();
      restrict_umask_like(made_directory_.path);
      made_checkpointer_ = new_checkpointer(made_directory_.path);
    } catch (const std::exception& error) {
      trial_problem_ = error.what();
    }
  }

  void take_run_directory() {
    if (!made_checkpointer_) {
      trial_has_failed_ = true;
      say("node {} is not recorded: {}", options_.node.node_name, trial_problem_);
      return;
    }
    made_at_ = Clock::now();
    state_.set_run_id(std::filesystem::path(made_directory_.path).filename().string());
    checkpointer_ = std::move(made_checkpointer_);
    checkpointer_->begin();
    watch_run();
  }

  // The ranks have ended. True if the run is to be kept, and there is a run directory.
  bool end_trial() {
    if (maker_.joinable()) {
      maker_.join();
      take_run_directory();
    } else if (!checkpointer_ && !trial_has_failed_) {
      is_too_short_ = last_left_ - started_ < options_.trial.min_duration;
      if (!is_too_short_) {
        make_run_directory();
        take_run_directory();
      } else if (options_.trial.explain && (state_.has_rank(0) || state_.world_size() == 0)) {
        const auto lasted = std::chrono::duration_cast<milliseconds>(last_left_ - started_);
        say("nothing is kept of a run of {:.1f} s, which is less than {} s (too-short)",
            static_cast<double>(lasted.count()) / 1000.0, options_.trial.min_duration.count());
      }
    }
    if (!checkpointer_) {
      listener_.close();
      clean_up_trial();
    }
    return checkpointer_ != nullptr;
  }

  // What the launcher does for a run directory that it has made.
  void clean_up_trial() {
    remove_waiting_place(options_.run_directory);
    if (!checkpointer_) return;
    if (Clock::now() - made_at_ > kLateRank) {
      remove_rendezvous_link(made_directory_);
    } else {
      const int ranks = std::min(static_cast<int>(announced_ranks_.size()), options_.trial.ranks);
      leave_rendezvous(made_directory_, options_.node.node_name, ranks, options_.trial.ranks);
    }
  }

  void checkpoint() {
    last_checkpoint_ = Clock::now();
    if (!checkpointer_) {  // nothing is written yet, and nobody waits for it
      release_launcher();
      return;
    }
    if (checkpointer_->is_writing()) {
      write_again_ = true;
      return;
    }
    checkpointer_->begin();
    std::shared_ptr<const NodeSnapshot> snapshot;
    try {
      const Instant now = recorded_until();
      last_is_written_ = off_since_.has_value();
      poll_rings(now);
      // A file server that does not answer must not keep the rings waiting, and looking costs it something.
      // So only where spawned ranks have come, and when this may be the last shard.
      if (has_spawned_ranks_ || terminate_at_) look_at_spawned_worlds();
      state_.set_memory_kills(memory_limit_.kills());
      NodeSnapshot made = state_.snapshot(now, false, Events::kFew);
      made.node.next_within_ns =
          off_since_ ? 0 : static_cast<std::uint64_t>(checkpointer_->next_within().count());
      snapshot = std::make_shared<const NodeSnapshot>(std::move(made));
    } catch (const std::exception& error) {  // no memory: this checkpoint is left out
      checkpointer_->report_problem(error.what());
      release_launcher();
      return;
    }
    // With all lines if this may be the last shard. Where memory is short, first with those that are known.
    const bool memory_is_short = std::exchange(memory_is_short_, false);
    const bool lines_are_due = !memory_is_short && std::exchange(lines_are_due_, false);
    const bool all_lines = processors_had_room() || terminate_at_ || release_after_write_ || lines_are_due;
    if (memory_is_short && !all_lines && has_room_for_lines()) lines_are_due_ = write_again_ = true;
    write_begun_ = write_asked_;
    const bool urgent = terminate_at_ || release_after_write_ || write_begun_ != write_done_ ||
                        memory_is_short || lines_are_due;
    if (!checkpointer_->start(std::move(snapshot),
                              urgent ? ShardFile::Which::kUrgent : ShardFile::Which::kCheckpoint, all_lines))
      (void)set_urgent(urgency_.urgent());
  }

  // Called by the thread that writes.
  void writer_is_done() {
    try {
      asio::post(io_, [this] { after_write(); });
    } catch (const std::bad_alloc&) {  // the next tick notices it
    }
  }

  void after_write() {
    if (!checkpointer_ || !checkpointer_->take_finished()) return;
    if (write_begun_ != write_done_ && !checkpointer_->has_problem() && control_) {
      write_done_ = write_begun_;
      control_->wrote(write_done_);
    }
    if (std::exchange(write_again_, false)) {
      checkpoint();
    } else {
      release_launcher();
    }
  }

  ServerOptions options_;
  const Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> all_attached_;
  NodeState state_;
  Machine machine_;

  const Processors launcher_processors_;
  const std::string mpi_launcher_name_;
  Processors processors_;  // those that we have moved to; empty: those that we were started on
  bool ranks_changed_ = false;
  Clock::time_point last_move_;
  Urgency urgency_;
  IdleWatch idle_watch_;

  asio::io_context io_;
  asio::posix::stream_descriptor mpi_launcher_;  // pidfd
  Listener listener_;
  LauncherChannel launcher_;
  asio::steady_timer timer_;
  asio::signal_set signals_;
  std::list<Connection> connections_;
  WatchedProcesses watched_;
  // Processes that ended without having been announced, until the launcher has named its child
  // (child_started).
  std::map<pid_t, NodeState::ProcessId> ended_pids_;
  bool told_unseen_ = false;
  bool has_spawned_ranks_ = false;

  std::size_t alive_announced_ = 0;
  std::set<std::int64_t> announced_ranks_;
  std::optional<NodeState::ProcessId> child_;
  bool child_exited_ = false;
  bool release_after_write_ = false;
  Clock::time_point release_at_latest_;
  std::optional<Clock::time_point> release_by_;  // while the launcher waits for other ranks
  bool ranks_go_on_ = false;                     // one has started a second program
  Clock::time_point last_left_;
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point>
      told_off_at_;                   // when the agents were told that the site has turned recording off
  std::uint64_t told_off_ns_ = 0;     // likewise
  std::optional<Instant> off_since_;  // nothing is recorded from here on
  bool last_is_written_ = false;      // a shard with all that was recorded until then

  bool lets_go_ = false;  // of processes that were attached to
  Clock::time_point let_go_by_;
  std::uint32_t attached_processes_ = 0;

  std::optional<LiveWatch> live_;        // once there is a run directory
  std::uint64_t watch_ = 0;              // for which the node's times are kept
  bool is_asked_ = false;                // somebody has asked for something from outside, or has watched
  std::optional<ControlWatch> control_;  // once there is a run directory
  // Numbers of requests to write the shard: the latest one, the one that was there when the last checkpoint
  // began, and the one that has been answered.
  std::uint64_t write_asked_ = 0, write_begun_ = 0, write_done_ = 0;
  std::optional<HangSchedule> hang_schedule_;  // with --hang-after, until there was a hang
  BesideProgram beside_;
  bool window_closed_ = false;          // and its data are not written yet
  Clock::time_point window_closed_by_;  // then they are written, whatever ranks still have to do
  Clock::time_point last_checkpoint_ = Clock::now();

  PollInterval interval_;
  Clock::time_point last_usage_, last_switch_look_, last_hang_look_;
  ProcessorShare processor_share_{options_.max_cpu_percent / 100};
  std::chrono::nanoseconds waited_{};  // for it
  bool write_again_ = false;
  bool lines_are_due_ = false;  // in the shard after the one that was written because memory was short
  MemoryLimit memory_limit_{read_text("/proc/self/cgroup").value_or(""), options_.control_groups};
  MemoryLookTimes page_looks_{kernel_gives_up_lock()};
  PageWatch pages_{io_, [](pid_t pid, const std::string& nodes) { return read_process_memory(pid, nodes); },
                   [this](NodeState::ProcessId id, const std::optional<ProcessMemory>& memory,
                          Clock::duration took) { looked_at_pages(id, memory, took); }};
  MemoryReserve reserve_;
  double memory_share_ = 0;  // of the job's limit, at the last look
  Clock::time_point last_memory_look_;
  bool memory_is_short_ = false;  // the job's: a checkpoint is to go to the run directory
  bool memory_was_short_ = false;

  const UniqueFd waiting_place_;
  const std::int64_t started_unix_s_ = time(nullptr);
  bool trial_has_failed_ = false, is_too_short_ = false;
  Clock::time_point made_at_;
  // Set by maker_ before is_made_.
  RunDirectory made_directory_;
  std::string trial_problem_;
  std::unique_ptr<Checkpointer> made_checkpointer_;
  std::atomic<bool> is_made_{false};
  std::thread maker_;

  // None while it is not known whether the run is kept. The last member: destroyed first, it waits for the
  // thread that uses io_.
  std::unique_ptr<Checkpointer> checkpointer_;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() = default;
bool Server::run() { return impl_->run(); }
std::filesystem::path Server::run_directory() const { return impl_->run_directory(); }
std::uint32_t Server::world_size() const { return impl_->world_size(); }
bool Server::had_rank(std::int32_t rank) const { return impl_->had_rank(rank); }
int Server::absent_ranks() const { return impl_->absent_ranks(); }
bool Server::was_turned_off() const { return impl_->was_turned_off(); }
bool Server::used_mpi() const { return impl_->used_mpi(); }
std::chrono::milliseconds Server::age() const { return impl_->age(); }

}  // namespace clusterprof::collector
