// SPDX-License-Identifier: BSD-3-Clause
// The event loop of the collector. In this order: greetings of ranks and agents, the launcher's messages,
// processes and their ends, what is done on a timer, and the writing of shards. Everything runs on the main
// thread, but for the building and writing of a shard while ranks run (checkpoint()), which has a thread of
// its own.
#include "collector/server.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "collector/message.hpp"
#include "collector/os/os_node.hpp"
#include "collector/os/os_process.hpp"
#include "collector/os/processors.hpp"
#include "collector/os/received_message.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/shard/shard_builder.hpp"
#include "collector/shard/shard_file.hpp"
#include "formats/wire/hello.h"
#include "formats/wire/spawned_world.h"

namespace clusterprof::collector {
namespace {

namespace asio = boost::asio;
using shard::NoteCode;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLongestPoll{300};
constexpr milliseconds kFirstPoll{100};  // at most: what a program does first is not known
constexpr milliseconds kEndPoll{50};     // while the end of the run is being waited for
constexpr milliseconds kShortestPoll{5};
constexpr double kAimedFill = 0.35;     // of the fullest ring at each poll
constexpr seconds kFirstCheckpoint{1};  // soon: most names are looked up then, which makes the end quick
constexpr seconds kMostShardAge{5};     // if we or the node are killed, no more than that is lost
constexpr milliseconds kCheckpointSlack{500};  // of it, for the poll that begins one to come late
constexpr milliseconds kLinger{300};           // for ranks whose number is not known
constexpr seconds kLateRank{10};               // from our start, for ranks that are known to come
constexpr milliseconds kAcceptPause{100};      // when there are no files left
constexpr int kMostAtATime = 8192;             // connections, in case a process never stops connecting
constexpr int kSpareFiles = 24;                // for shards, and for what programs are read for their symbols
constexpr int kTriesAtTheEnd = 2;   // no shard follows the last one, and a clean-up may remove its file
constexpr seconds kChildStatus{5};  // for the launcher to say how its child ended
constexpr seconds kAfterTerminate{30};
constexpr seconds kUsageInterval{1};
constexpr seconds kProcessorsInterval{5};  // programs bind their threads, and batch systems change cpusets
// Where the ranks leave no processor time over, reading debug information may take this part of the time that
// has passed, and begins when that is as much as the C library's takes.
constexpr int kShareForLines = 200;
constexpr milliseconds kLinesOfOneModule{50};

template <typename T>
std::optional<T> greeting_as(const ReceivedMessage& message, std::uint64_t magic) {
  T value;
  if (message.bytes < static_cast<ssize_t>(sizeof value)) return std::nullopt;
  std::memcpy(&value, message.data, sizeof value);
  if (value.magic != magic || value.wire_major != wire::kWireMajor) return std::nullopt;
  return value;
}

// As it was called: "mpirun"; empty: not known.
std::string program_name(pid_t pid) {
  if (pid <= 0) return {};
  const std::string command = read_text("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
  const std::string path = command.substr(0, command.find('\0'));
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(ServerOptions options)
      : options_(std::move(options)),
        state_(options_.node),
        shard_file_(options_.run_directory, options_.node.node_name),
        launcher_processors_(processors_of(options_.mpi_launcher)),
        mpi_launcher_name_(program_name(options_.mpi_launcher)),
        mpi_launcher_(io_),
        listen_(io_, options_.listen_fd),
        accept_timer_(io_),
        timer_(io_),
        signals_(io_) {
    set_nonblocking(options_.listen_fd);
    (void)fcntl(options_.listen_fd, F_SETFD, FD_CLOEXEC);
    if (options_.control_fd >= 0) {
      // A copy to wait on; the program that prints the banner inherits the original.
      control_ = std::make_unique<asio::posix::stream_descriptor>(
          io_, fcntl(options_.control_fd, F_DUPFD_CLOEXEC, 3));
    }
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) file_limit_ = files.rlim_cur;
    // Half of what a ring holds at the asked rate, with 1 KiB per sample, is drained in time.
    const double interval_ms = 64'000.0 / std::max<std::uint32_t>(options_.node.rate_hz, 1);
    interval_ =
        std::clamp(milliseconds(static_cast<long>(std::min(interval_ms, 1e6))), kShortestPoll, kFirstPoll);
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (writer_.joinable()) writer_.join();
  }

  bool run() {
    install_truncation_guard();
    signal(SIGPIPE, SIG_IGN);
    signals_.add(SIGTERM);
    signals_.add(SIGINT);
    signals_.add(SIGHUP);
    // The launcher has blocked all, so that none came before.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    wait_for_signals();
    wait_for_connections();
    if (control_) wait_for_control();
    watch_mpi_launcher();
    last_checkpoint_ = Clock::now();
    last_left_ = Clock::now();
    (void)set_urgent(false);
    (void)processors_had_room();
    const Instant begin = instant_now();
    state_.begin(begin);
    state_.set_node_facts(machine_.facts());
    state_.update_node_series(begin.mono_ns, machine_.usage());
    tick();
    io_.run();
    if (writer_.joinable()) writer_.join();

    // The socket stays bound until the shard has its name: a launcher that comes now waits, is then turned
    // away, and its own collector finds the name taken.
    const Instant now = instant_now();
    poll_rings(now);
    const bool complete = alive_announced_ == 0;
    look_at_spawned_worlds();
    update_series();
    const bool written =
        write(state_.snapshot(now, complete), kTriesAtTheEnd, [](nanoseconds) { return true; });
    listen_.close();
    tell_launcher(wire::ControlType::kRanksSeen, static_cast<std::int32_t>(announced_ranks_.size()));
    return written;
  }

  [[nodiscard]] std::uint32_t world_size() const { return state_.world_size(); }
  [[nodiscard]] bool had_rank(std::int32_t rank) const { return state_.has_rank(rank); }
  [[nodiscard]] int absent_ranks() const {
    return std::max(0, options_.local_ranks - static_cast<int>(announced_ranks_.size()));
  }
  [[nodiscard]] bool used_mpi() const { return state_.mpi_progress() != wire::MpiState::kNone; }
  [[nodiscard]] milliseconds age() const {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - started_);
  }

 private:
  struct Connection {
    explicit Connection(asio::io_context& io, int fd) : socket(io, fd) {}
    asio::posix::stream_descriptor socket;
    pid_t pid = 0;
    bool greeted = false;
    std::optional<NodeState::ProcessId> agent_of;
  };
  // How a process of another PID namespace calls itself; it has no number here.
  struct Alias {
    pid_t pid = 0;
    std::int32_t rank = -1;
    friend bool operator==(const Alias&, const Alias&) = default;
  };
  // A process that is watched until it is gone.
  struct Watched {
    explicit Watched(asio::io_context& io) : ended(io) {}
    // pidfd. Not open when the kernel has none: then the number tells, and of a process without one the end
    // of its agent's connection.
    asio::posix::stream_descriptor ended;
    NodeState::ProcessId id = 0;
    pid_t pid = 0;  // 0: of another PID namespace
    Alias alias;
    bool announced = false;
    bool waited_for = false;
  };

  static void set_nonblocking(int fd) { (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

  // --- greetings --------------------------------------------------------------------------

  void wait_for_connections() {
    if (no_files_left_) {  // the socket stays readable
      accept_timer_.expires_after(kAcceptPause);
      accept_timer_.async_wait([this](const boost::system::error_code& error) {
        if (error) return;
        accept_all();
        wait_for_connections();
      });
      return;
    }
    listen_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (error) return;
                         accept_all();
                         wait_for_connections();
                       });
  }

  // A connection brings up to two more files.
  [[nodiscard]] bool has_files_left() const {
    const UniqueFd lowest_free(fcntl(options_.listen_fd, F_DUPFD_CLOEXEC, 0));
    return lowest_free && static_cast<rlim_t>(lowest_free.get()) + kSpareFiles < file_limit_;
  }

  void accept_all() {
    for (int i = 0; i < kMostAtATime; ++i) {
      no_files_left_ = !has_files_left();
      if (no_files_left_) {
        add_note(NoteCode::kTooManyFiles, file_limit_);
        return;
      }
      const int fd = accept4(listen_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN) return;
        no_files_left_ = true;  // in the whole system, or no memory
        add_note(NoteCode::kConnectionFailed, static_cast<std::uint64_t>(errno));
        return;
      }
      UniqueFd socket(fd);
      ucred peer{};
      socklen_t bytes = sizeof peer;
      if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) continue;
      if (peer.uid != geteuid() && peer.uid != 0) {
        add_note(NoteCode::kOtherUser, peer.uid);
        continue;
      }
      const auto it = connections_.emplace(connections_.end(), io_, socket.release());
      it->pid = peer.pid;
      if (read_messages(it)) wait_for_messages(it);
    }
  }

  using ConnectionIt = std::list<Connection>::iterator;

  void wait_for_messages(ConnectionIt it) {
    it->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                          [this, it](const boost::system::error_code& error) {
                            if (error == asio::error::operation_aborted) return;
                            if (read_messages(it)) wait_for_messages(it);
                          });
  }

  // False when the connection is over (and erased). After the greeting nothing may come but the end:
  // a process that sends more, perhaps without end, is turned away.
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
    const auto process =
        std::find_if(watched_.begin(), watched_.end(), [&](const Watched& p) { return p.id == id; });
    if (process != watched_.end() && process->pid == 0 && !process->ended.is_open()) {
      asio::post(io_, [this, id] { process_gone(id); });
    } else if (state_.announced_exec(id)) {
      state_.segment_ended(id, instant_now().mono_ns);
    }
  }

  bool handle(Connection& connection, ReceivedMessage& message) {
    connection.greeted = true;
    const int fd = connection.socket.native_handle();
    if (const auto announce = greeting_as<wire::Announce>(message, wire::kAnnounceMagic)) {
      UniqueFd pidfd = open_peer_process(fd, connection.pid);
      if (!pidfd && connection.pid == 0 && is_process(message.file.get())) pidfd = std::move(message.file);
      const bool seen = pidfd || connection.pid != 0;
      if (seen) {
        note_announced(watch(connection.pid, {announce->pid, announce->rank}, std::move(pidfd)),
                       announce->rank, announce->world_size);
      } else if (!is_closed(fd)) {
        note_unseen();
      }
      const std::uint8_t answer = seen ? wire::kAnnounceAccepted : wire::kAnnounceUnseen;
      (void)send(fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
      return seen;
    }
    const auto hello = greeting_as<wire::Hello>(message, wire::kHelloMagic);
    if (hello && message.file) {
      auto segment = SegmentView::open(std::move(message.file), hello->segment_bytes);
      if (!segment) {
        add_note(note_on_refused(segment.error().kind), static_cast<std::uint64_t>(connection.pid));
        return false;
      }
      Watched& process =
          watch(connection.pid, {hello->pid, hello->rank}, open_peer_process(fd, connection.pid));
      process.id =
          state_.hello(known(process), shown_pid(process), std::move(segment).value(), instant_now());
      connection.agent_of = process.id;
      wait_for_end(process);
      return true;
    }
    if (message.cut) add_note(NoteCode::kMemoryNotReceived);
    return false;
  }

  // Ends are handled in the order in which they happened: ranks that still run here failed later, if they do.
  void watch_mpi_launcher() {
    UniqueFd launcher = open_process(options_.mpi_launcher);
    if (!launcher) return;
    mpi_launcher_.assign(launcher.release());
    mpi_launcher_.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this](const boost::system::error_code& error) {
                               if (!error) state_.launcher_gone(mpi_launcher_name_);
                             });
  }

  // --- the launcher -----------------------------------------------------------------------

  void wait_for_control() {
    control_->async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const boost::system::error_code& error) {
                           if (error) return;
                           read_control();
                           if (control_) wait_for_control();
                         });
  }

  void read_control() {
    for (;;) {
      const ReceivedMessage message = receive(control_->native_handle());
      if (message.would_block) return;
      if (message.bytes <= 0) {
        control_.reset();  // the launcher is gone: its ranks go on, and so do we
        finish_when_done();
        return;
      }
      wire::Control control{};
      if (message.bytes < static_cast<ssize_t>(sizeof control)) continue;
      std::memcpy(&control, message.data, sizeof control);
      if (control.type == wire::ControlType::kChildStarted) child_started(control.a, control.b);
      if (control.type == wire::ControlType::kChildExited) child_exited(control.a, control.b);
    }
  }

  void child_started(pid_t pid, std::int32_t rank) {
    if (const auto ended = ended_pids_.find(pid); ended != ended_pids_.end() && !by_pid_.contains(pid)) {
      // So short-lived that its agent came and went before the launcher spoke.
      child_ = state_.announce(ended->second, rank, -1, pid, instant_now());
      any_announced(rank, *child_);
    } else {
      Watched& process = watch(pid, {}, open_process(pid));
      note_announced(process, rank, -1);
      child_ = process.id;
    }
    ended_pids_.clear();
  }

  void child_exited(pid_t pid, int wait_status) {
    child_exited_ = true;
    if (const auto it = by_pid_.find(pid); it != by_pid_.end()) process_gone(it->second->id);
    if (!child_) return;
    state_.set_wait_status(*child_, wait_status);
    const bool failed = wait_status != 0 || state_.left_mpi_open(*child_);
    if (failed && !done()) {
      release_after_write_ = true;
      release_at_latest_ = Clock::now() + options_.end_patience * 5 / 4;  // it may give up itself before
      checkpoint();
    }
    finish_when_done();
  }

  void release_launcher() {
    if (!release_after_write_ || !control_) return;
    release_after_write_ = false;
    tell_launcher(wire::ControlType::kRanksSeen, static_cast<std::int32_t>(announced_ranks_.size()));
    tell_launcher(wire::ControlType::kRelease, 0);
  }

  void tell_launcher(wire::ControlType type, std::int32_t value) const {
    if (options_.control_fd < 0) return;
    const wire::Control message{type, value, 0};
    (void)send(options_.control_fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  // --- processes --------------------------------------------------------------------------

  static std::optional<NodeState::ProcessId> known(const Watched& process) {
    return process.id != 0 ? std::optional(process.id) : std::nullopt;
  }

  static std::int32_t shown_pid(const Watched& process) {
    return process.pid != 0 ? process.pid : process.alias.pid;
  }

  static bool has_ended(const Watched& process) {
    if (process.ended.is_open()) return process_ended(const_cast<Watched&>(process).ended.native_handle());
    return process.pid != 0 && kill(process.pid, 0) != 0 && errno == ESRCH;
  }

  // Whether that process is the one behind a new connection that goes by the same alias.
  [[nodiscard]] bool is_same(const Watched& process, const UniqueFd& pidfd) const {
    if (process.ended.is_open() && pidfd) {
      const auto number = process_number(const_cast<Watched&>(process).ended.native_handle());
      if (number) return number == process_number(pidfd.get());
    }
    // Two namespaces within a rank may use a number twice. A program that makes place for the next has closed
    // its connection.
    return std::none_of(connections_.begin(), connections_.end(), [&](const Connection& c) {
      return c.agent_of == process.id && !is_closed(const_cast<Connection&>(c).socket.native_handle());
    });
  }

  // The watched process with that pid, or that alias where it has none here; or a new one.
  Watched& watch(pid_t pid, const Alias& alias, UniqueFd pidfd) {
    // A number was given to a new process when the old one has ended and this one has not.
    const auto is_reused = [&](const Watched& process) {
      return has_ended(process) && pidfd && !process_ended(pidfd.get());
    };
    if (pid == 0) {
      for (Watched& process : watched_)
        if (process.pid == 0 && process.alias == alias && !is_reused(process) && is_same(process, pidfd))
          return process;
    } else if (const auto found = by_pid_.find(pid); found != by_pid_.end()) {
      Watched& process = *found->second;
      if (!is_reused(process)) return process;
      process_gone(process.id);
    }
    const auto it = watched_.emplace(watched_.end(), io_);
    it->pid = pid;
    it->alias = alias;
    if (pid != 0) by_pid_[pid] = it;
    if (pidfd) it->ended.assign(pidfd.release());
    return *it;
  }

  // An announced process is waited for, so its end must be seen.
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

  static NoteCode note_on_refused(ErrorKind why) {
    switch (why) {
      case ErrorKind::kOtherVersion:
        return NoteCode::kProcessOfOtherVersion;
      case ErrorKind::kDamaged:
        return NoteCode::kProcessDamaged;
      case ErrorKind::kOther:
        break;
    }
    return NoteCode::kProcessNotMapped;
  }

  void any_announced(std::int32_t rank, NodeState::ProcessId id) {
    announced_ranks_.insert(rank >= 0 ? rank : -static_cast<std::int64_t>(id));
    last_left_ = Clock::now();
  }

  void note_announced(Watched& process, std::int32_t rank, std::int32_t world_size) {
    process.id = state_.announce(known(process), rank, world_size, shown_pid(process), instant_now());
    if (!process.announced) ++alive_announced_;
    process.announced = true;
    ranks_changed_ = true;
    any_announced(rank, process.id);
    wait_for_end(process);
  }

  void wait_for_end(Watched& process) {
    if (process.waited_for) return;
    process.waited_for = true;
    const NodeState::ProcessId id = process.id;
    if (!process.ended.is_open()) {  // gone already, or looked at once a second
      if (has_ended(process)) asio::post(io_, [this, id] { process_gone(id); });
      return;
    }
    process.ended.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, id](const boost::system::error_code& error) {
                               if (!error) process_gone(id);
                             });
  }

  void process_gone(NodeState::ProcessId id) {
    // It may have greeted in its last moments.
    accept_all();
    const auto find = [&] {
      return std::find_if(watched_.begin(), watched_.end(), [&](const Watched& p) { return p.id == id; });
    };
    auto it = find();
    if (it == watched_.end()) return;
    const pid_t pid = it->pid;
    for (auto c = connections_.begin(); c != connections_.end();) {
      if (c->pid != pid || c->greeted || (read_messages(c) && !c->greeted)) {
        ++c;
      } else {
        c = connections_.begin();  // a greeting can end others
      }
    }
    it = find();
    if (it == watched_.end()) return;
    const int pidfd = it->ended.is_open() ? it->ended.native_handle() : -1;
    const std::optional<int> status = pidfd >= 0 ? exit_wait_status(pidfd, it->pid) : std::nullopt;
    if (const auto usage = read_usage(it->pid)) state_.set_usage(id, *usage);
    state_.gone(id, instant_now().mono_ns, status);
    if (it->announced) {
      ranks_changed_ = true;
      --alive_announced_;
      last_left_ = Clock::now();
    } else if (it->pid != 0 && control_ && !child_) {
      ended_pids_[it->pid] = id;
    }
    if (by_pid_.contains(it->pid) && by_pid_[it->pid] == it) by_pid_.erase(it->pid);
    watched_.erase(it);
    finish_when_done();
  }

  // --- time -------------------------------------------------------------------------------

  void tick() {
    look_at_writer();
    const Instant now = instant_now();
    const double fullest = poll_rings(now);
    if (const bool was_urgent = urgency_.urgent(); urgency_.after_look(fullest) != was_urgent)
      (void)set_urgent(!was_urgent);
    if (fullest > kAimedFill) {
      const auto shorter = std::chrono::duration_cast<milliseconds>(interval_ * (kAimedFill / fullest));
      interval_ = std::max(kShortestPoll, shorter);
    } else if (fullest < kAimedFill / 3) {
      interval_ = std::min(kLongestPoll, interval_ + interval_ / 8 + milliseconds(1));
    }

    const Clock::time_point clock = Clock::now();
    if (clock - last_usage_ >= kUsageInterval) {
      last_usage_ = clock;
      look_at_processes();
    }
    if (ranks_changed_ || clock - last_move_ >= kProcessorsInterval) follow_ranks();
    if (!writing_ && clock - last_checkpoint_ >= checkpoint_pause()) checkpoint();
    if (release_after_write_ && control_ && clock >= release_at_latest_) {
      say("the profile of node {} is still being written: the program's end waits no longer",
          options_.node.node_name);
      release_launcher();
    }
    finish_when_done();
    timer_.expires_after(alive_announced_ > 0 ? interval_ : std::min(interval_, kEndPoll));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) tick();
    });
  }

  // From the beginning of a checkpoint to that of the next one. A shard is as old as its snapshot, and stays
  // the newest until the next one is written, so that must begin early enough, also when it takes half as
  // long again as the last. Where that cannot be had, at most half of the time is spent writing.
  [[nodiscard]] nanoseconds checkpoint_pause() const {
    if (last_write_ == Clock::duration{}) return kFirstCheckpoint;
    return std::max<nanoseconds>(kMostShardAge - kCheckpointSlack - last_write_ * 3 / 2, 2 * last_write_);
  }

  double poll_rings(const Instant& now) { return state_.poll(now.mono_ns); }

  // Runs where the ranks may, which were told by their launcher, or bind themselves.
  void follow_ranks() {
    ranks_changed_ = false;
    last_move_ = Clock::now();
    std::vector<Processors> ranks;
    for (const Watched& process : watched_)
      if (process.announced) ranks.push_back(processors_of_threads(process.pid));
    Processors chosen = choose_processors(launcher_processors_, ranks);
    if (chosen.empty() || chosen == processors_) return;
    if (move_to(chosen)) processors_ = std::move(chosen);
  }

  // Since the last question.
  bool processors_had_room() {
    const Processors processors = processors_.empty() ? processors_of(getpid()) : processors_;
    const std::optional<std::string> statistics = read_text("/proc/stat");
    return idle_watch_.had_room(statistics ? idle_time(*statistics, processors) : std::nullopt,
                                Clock::now().time_since_epoch());
  }

  // What nobody tells us: the use of resources by programs without an agent, and the end of processes on
  // kernels that have no descriptors for them.
  void look_at_processes() {
    std::vector<NodeState::ProcessId> ended;
    for (const Watched& process : watched_) {
      if (process.announced && !state_.has_segment(process.id)) {
        if (const auto usage = read_usage(process.pid)) state_.set_usage(process.id, *usage);
      }
      if (process.pid != 0) state_.set_look(process.id, machine_.look_at(process.pid));
      if (!process.ended.is_open() && has_ended(process)) ended.push_back(process.id);
    }
    for (const NodeState::ProcessId id : ended) process_gone(id);
    update_series();
  }

  void update_series() {
    const std::uint64_t now_ns = instant_now().mono_ns;
    state_.update_series(now_ns);
    state_.update_node_series(now_ns, machine_.usage());
  }

  void wait_for_signals() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      // We end when the ranks do. A SIGTERM is meant for them as well, and SIGKILL may follow soon.
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
    if (alive_announced_ > 0) return false;
    const Clock::duration since = now - last_left_;
    if (control_ && !child_exited_ && !(child_ && since >= kChildStatus)) return false;
    if (options_.local_ranks > 0) {
      if (announced_ranks_.size() >= static_cast<std::size_t>(options_.local_ranks)) return true;
      // Launchers start ranks together, and nobody gets through MPI without the others.
      const bool all_have_started =
          now - started_ >= kLateRank || state_.mpi_progress() == wire::MpiState::kFinalised;
      if (!all_have_started) return false;
    }
    return since >= kLinger;
  }

  void finish_when_done() {
    if (!done()) return;
    accept_all();
    if (done()) io_.stop();
  }

  // --- shards -----------------------------------------------------------------------------

  // What the ranks have left in the run directory of worlds that they have spawned.
  void look_at_spawned_worlds() {
    const std::filesystem::path directory = options_.run_directory / wire::kWorldsDirectory;
    wire::SpawnedWorld world{};
    std::vector<NodeState::SpawnedWorld> worlds;  // all anew: the last ones may have been given back
    while (wire::read_spawned_world(directory.c_str(), static_cast<int>(worlds.size()) + 1, world))
      worlds.push_back({world.first, world.size});
    state_.set_spawned_worlds(std::move(worlds));
    std::error_code error;
    for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
      std::int32_t rank = -1;
      unsigned obstacle = 0;
      if (std::sscanf(it->path().filename().c_str(), wire::kSpawnNoteFormat, &rank, &obstacle) != 2) continue;
      const std::optional<NoteCode> code = note_on_spawned(static_cast<wire::SpawnObstacle>(obstacle));
      if (code && rank >= 0 && rank < wire::kMostRunRanks)
        state_.add_note(shard::note_of_ranks(*code, {rank, rank}));
    }
  }

  static std::optional<NoteCode> note_on_spawned(wire::SpawnObstacle why) {
    switch (why) {
      case wire::SpawnObstacle::kLauncher:
        return NoteCode::kSpawnedWithoutLauncher;
      case wire::SpawnObstacle::kInfo:
        return NoteCode::kSpawnedWithInfo;
      case wire::SpawnObstacle::kCommand:
        return NoteCode::kSpawnedCommandNotFound;
      case wire::SpawnObstacle::kNumbers:
        return NoteCode::kSpawnedWithoutNumbers;
      default:
        return std::nullopt;
    }
  }

  // Names are looked up and the file is written on a thread of its own: rings fill meanwhile.
  void checkpoint() {
    if (writing_) {
      write_again_ = true;
      return;
    }
    if (writer_.joinable()) writer_.join();
    last_checkpoint_ = Clock::now();
    std::shared_ptr<const NodeSnapshot> snapshot;
    try {
      const Instant now = instant_now();
      poll_rings(now);
      look_at_spawned_worlds();
      snapshot = std::make_shared<const NodeSnapshot>(state_.snapshot(now, false, Events::kFew));
    } catch (const std::exception& error) {  // no memory: this one is left out
      note_problem(error.what());
      release_launcher();
      return;
    }
    writing_ = true;
    // It may be the last one.
    const bool all_lines = processors_had_room() || terminate_at_ || release_after_write_;
    auto write_it = [this, snapshot, begin = last_checkpoint_, all_lines]() mutable {
      (void)set_urgent(false);
      (void)write(
          *snapshot, 1, [this, all_lines](nanoseconds spent) {  // told on stderr; the last shard decides
            return all_lines || spent + kLinesOfOneModule < (Clock::now() - started_) / kShareForLines;
          });
      // A shard takes about as much memory as what it is made of. The programs of the node may need it.
      snapshot.reset();
      malloc_trim(0);
      took_ = Clock::now() - begin;
      written_.store(true, std::memory_order_release);
      try {
        asio::post(io_, [this] { look_at_writer(); });
      } catch (const std::bad_alloc&) {  // the next tick sees it
      }
    };
    try {
      writer_ = std::thread(write_it);
    } catch (const std::exception&) {  // no more threads, or no memory for one: rings wait
      write_it();
      (void)set_urgent(urgency_.urgent());
    }
  }

  void look_at_writer() {
    if (!written_.exchange(false, std::memory_order_acquire)) return;
    writing_ = false;
    last_write_ = took_;
    if (std::exchange(write_again_, false)) {
      checkpoint();
    } else {
      release_launcher();
    }
  }

  // By one thread at a time.
  bool write(const NodeSnapshot& snapshot, int tries, const ShardBuilder::MayReadLines& may_read_lines) {
    try {
      const Result<void> written = shard_file_.write(snapshot, tries, may_read_lines);
      if (written) {
        has_problem_ = false;
        return true;
      }
      note_problem(written.error().message);
    } catch (const std::bad_alloc&) {  // not even for what went wrong
      note_problem("no memory");
    }
    return false;
  }

  // Once until it is written again: a disk that is full stops one column this time and another the next.
  void note_problem(std::string_view problem) {
    if (!std::exchange(has_problem_, true))
      say("cannot write the profile of node {}: {}", options_.node.node_name, problem);
  }

  ServerOptions options_;
  const Clock::time_point started_ = Clock::now();
  NodeState state_;
  Machine machine_;
  ShardFile shard_file_;
  rlim_t file_limit_ = RLIM_INFINITY;
  bool has_problem_ = false;

  const Processors launcher_processors_;
  const std::string mpi_launcher_name_;
  Processors processors_;  // that it was moved to; empty: those that it was started on
  bool ranks_changed_ = false;
  Clock::time_point last_move_;
  Urgency urgency_;
  IdleWatch idle_watch_;

  asio::io_context io_;
  asio::posix::stream_descriptor mpi_launcher_;  // pidfd
  asio::posix::stream_descriptor listen_;
  std::unique_ptr<asio::posix::stream_descriptor> control_;
  asio::steady_timer accept_timer_, timer_;
  bool no_files_left_ = false;
  asio::signal_set signals_;
  std::list<Connection> connections_;
  std::list<Watched> watched_;
  std::map<pid_t, std::list<Watched>::iterator> by_pid_;
  // Not announced, until the launcher has named its child; see child_started.
  std::map<pid_t, NodeState::ProcessId> ended_pids_;
  bool told_unseen_ = false;

  std::size_t alive_announced_ = 0;
  std::set<std::int64_t> announced_ranks_;
  std::optional<NodeState::ProcessId> child_;
  bool child_exited_ = false;
  bool release_after_write_ = false;
  Clock::time_point release_at_latest_;
  Clock::time_point last_left_;
  std::optional<Clock::time_point> terminate_at_;

  milliseconds interval_{kLongestPoll};
  Clock::time_point last_usage_, last_checkpoint_;
  Clock::duration last_write_{};
  std::thread writer_;
  std::atomic<bool> written_{false};  // by it, with what that took
  Clock::duration took_{};
  bool writing_ = false, write_again_ = false;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() = default;
bool Server::run() { return impl_->run(); }
std::uint32_t Server::world_size() const { return impl_->world_size(); }
bool Server::had_rank(std::int32_t rank) const { return impl_->had_rank(rank); }
int Server::absent_ranks() const { return impl_->absent_ranks(); }
bool Server::used_mpi() const { return impl_->used_mpi(); }
std::chrono::milliseconds Server::age() const { return impl_->age(); }

}  // namespace clusterprof::collector
