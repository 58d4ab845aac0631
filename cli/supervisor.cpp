// SPDX-License-Identifier: BSD-3-Clause
// The parent of a recorded program: starts it, passes signals, stops and continues with it, waits for the
// collector at the end, and ends with the program's own status.
#include "cli/supervisor.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/leading_number.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::cli {
namespace {

constexpr int kPingSignal = 64;  // the kernel's highest: taken last among pending ones
constexpr int kPingValue = 0x70696e67;
constexpr auto kSecondLook = std::chrono::milliseconds(5);  // batch systems signal process by process
constexpr int kWithoutSignalfd_ms = 20;
constexpr auto kSecondRequest = std::chrono::milliseconds(500);  // and twice at once: as step and as job
constexpr int kLooksWhileWaiting = 20;  // at the collector, in the time that it may do nothing
// CPU time that is more than that of a wait that begins anew, as for file servers, and less than that of
// looking at ranks, or for other nodes' shards, or of any work.
constexpr auto kProgress = std::chrono::milliseconds(1);

void die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It went before the line above; 0 is one outside of a PID namespace that we are the first of.
  if (const pid_t now = ::getppid(); now != parent && now != 0) ::_exit(0);
}

void set_default_action(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
}

timespec to_timespec(std::chrono::nanoseconds duration) {
  return {static_cast<time_t>(duration.count() / 1'000'000'000),
          static_cast<long>(duration.count() % 1'000'000'000)};
}

std::atomic<int> g_threads_asked{0}, g_threads_blocked{0};

// It returns to what the thread did with all signals blocked.
void block_all_on_return(int, siginfo_t*, void* context) {
  sigset_t& mask = static_cast<ucontext_t*>(context)->uc_sigmask;
  std::memset(&mask, 0xff, 64 / 8);  // as much of it as the kernel has
  g_threads_blocked.fetch_add(1);
}

// Threads that a preloaded library has made in this process: they would take signals that are for us.
void block_signals_of_other_threads() {
  constexpr int kMoments = 100;
  const pid_t own = ::getpid();
  struct sigaction action {
  }, before{};
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    const pid_t thread = leading_number(it->path().filename().native()).value_or(0);
    if (thread <= 0 || thread == own) continue;
    if (g_threads_asked.load() == 0) {
      action.sa_sigaction = block_all_on_return;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigfillset(&action.sa_mask);
      ::sigaction(kPingSignal, &action, &before);
    }
    if (::syscall(SYS_tgkill, own, thread, kPingSignal) == 0) g_threads_asked.fetch_add(1);
  }
  if (g_threads_asked.load() == 0) return;
  for (int i = 0; i < kMoments && g_threads_blocked.load() < g_threads_asked.load(); ++i) {
    const timespec moment{0, 1'000'000};
    ::nanosleep(&moment, nullptr);
  }
  // The handler stays for one that has not come to it.
  if (g_threads_blocked.load() == g_threads_asked.load()) ::sigaction(kPingSignal, &before, nullptr);
}

// All that a process has used; none when it cannot be told.
std::optional<std::chrono::nanoseconds> cpu_time(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return std::nullopt;
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

SignalState::SignalState() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &mask_);
  block_signals_of_other_threads();
  // With SIGCHLD ignored there would be no wait status to pass on.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, &child_action_);
}

void SignalState::restore() const {
  ::sigaction(SIGCHLD, &child_action_, nullptr);
  ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

// --- canary ---

struct GroupSignalProbe::Counts {
  std::atomic<unsigned> seen[65];
  std::atomic<unsigned> pongs;
};

Result<GroupSignalProbe> GroupSignalProbe::start() {
  void* const memory =
      ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error{std::string("no shared memory: ") + std::strerror(errno)};
  auto* const counts = new (memory) Counts{};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    ::munmap(memory, sizeof(Counts));
    return Error{std::string("cannot start a process: ") + std::strerror(error)};
  }
  if (pid > 0) return GroupSignalProbe(pid, counts);

  die_with_parent(parent);
  ::closefrom(0);
  ::prctl(PR_SET_NAME, "clusterprof-sig");
  sigset_t all;
  ::sigfillset(&all);
  while (true) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&all, &info);
    if (signal < 1 || signal > 64) continue;
    if (signal == kPingSignal && info.si_code == SI_QUEUE && info.si_pid == parent &&
        info.si_value.sival_int == kPingValue) {
      counts->pongs.fetch_add(1);
      ::syscall(SYS_futex, &counts->pongs, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    } else {
      counts->seen[signal].fetch_add(1);
    }
  }
}

GroupSignalProbe::GroupSignalProbe(GroupSignalProbe&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      counts_(std::exchange(other.counts_, nullptr)),
      taken_(std::move(other.taken_)),
      pings_(other.pings_) {}

GroupSignalProbe::~GroupSignalProbe() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (counts_ != nullptr) ::munmap(counts_, sizeof(Counts));
}

bool GroupSignalProbe::ping() {
  if (pid_ <= 0) return false;
  sigval value{};
  value.sival_int = kPingValue;
  if (::sigqueue(pid_, kPingSignal, value) != 0) return false;
  ++pings_;
  // Bounded, since someone may have stopped the canary.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (true) {
    const unsigned pongs = counts_->pongs.load();
    if (pongs == pings_) return true;
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    const timespec limit = to_timespec(left);
    ::syscall(SYS_futex, &counts_->pongs, FUTEX_WAIT, pongs, &limit, nullptr, 0);
  }
}

bool GroupSignalProbe::saw(int signal) {
  if (counts_ == nullptr || signal < 1 || signal > 64) return false;
  const auto index = static_cast<std::size_t>(signal);
  for (int look = 0; look < 2; ++look) {
    if (look == 1) {
      const timespec pause = to_timespec(kSecondLook);
      ::nanosleep(&pause, nullptr);
    }
    if (!ping()) return false;
    const unsigned seen = counts_->seen[index].load();
    if (seen == taken_[index]) continue;
    // Standard signals coalesce, real-time ones queue.
    taken_[index] = signal < 32 ? seen : taken_[index] + 1;
    return true;
  }
  return false;
}

bool GroupSignalProbe::has_more(int signal) {
  const auto index = static_cast<std::size_t>(signal);
  return counts_ != nullptr && ping() && counts_->seen[index].load() != taken_[index];
}

// --- program ---

StartedProgram start_program(const std::string& file, const std::vector<std::string>& words,
                             const SignalState& signals, const std::function<bool()>& prepare) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return {-1, errno, true};
  const UniqueFd report_read(report[0]);
  UniqueFd report_write(report[1]);

  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return {-1, errno, true};
  if (pid == 0) {
    die_with_parent(parent);
    int error = 0;
    try {
      if (prepare()) {
        signals.restore();
        ::execvp(file.c_str(), arguments.data());
        error = errno;
      }
    } catch (const std::bad_alloc&) {  // this process must not go on as a second launcher
      error = ENOMEM;
    }
    [[maybe_unused]] const ssize_t written = ::write(report_write.get(), &error, sizeof error);
    ::_exit(error == ENOENT ? 127 : 126);
  }
  report_write.reset();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(report_read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof error)) return {pid, 0};  // exec closed the pipe
  ::waitpid(pid, nullptr, 0);
  return {-1, error};
}

// --- supervision ---

namespace {

class Supervisor {
 public:
  Supervisor(pid_t program, int rank, CollectorHandle& collector, GroupSignalProbe& signal_probe,
             std::chrono::milliseconds patience)
      : program_(program), collector_(collector), signal_probe_(signal_probe), patience_(patience) {
    send_control(wire::ControlType::kChildStarted, program, rank);
    sigset_t all;
    ::sigfillset(&all);
    signals_.reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  SupervisedEnd run() {
    while (!done()) {
      pollfd events[2] = {{signals_.get(), POLLIN, 0},
                          {control_open_ ? collector_.control.get() : -1, POLLIN, 0}};
      if (::poll(events, 2, next_look_ms()) < 0 && errno != EINTR) break;
      if (events[1].revents != 0) read_control();
      if (events[0].revents != 0) read_signals();
      if (!signals_) take_signals();
      if (program_gone_) look_at_collector();
    }
    while (read_control()) {
    }
    return end_;
  }

 private:
  [[nodiscard]] bool done() const { return program_gone_ && (released_ || given_up_ || collector_.pid <= 0); }

  void send_control(wire::ControlType type, std::int32_t a, std::int32_t b) {
    const wire::Control message{type, a, b};
    // A collector that is gone is noticed by the end of file.
    [[maybe_unused]] const ssize_t sent =
        ::send(collector_.control.get(), &message, sizeof message, MSG_NOSIGNAL);
  }

  [[nodiscard]] int next_look_ms() const {
    if (!signals_) return kWithoutSignalfd_ms;
    return program_gone_ ? static_cast<int>((patience_ / kLooksWhileWaiting).count()) : -1;
  }

  void look_at_collector() {
    using std::chrono::steady_clock;
    const steady_clock::time_point now = steady_clock::now();
    const std::optional<std::chrono::nanoseconds> used = cpu_time(collector_.pid);
    if (!last_look_ || (used && *used - used_before_ >= kProgress)) {
      idle_ = {};
      used_before_ = used.value_or(std::chrono::nanoseconds(0));
    } else {
      // No more than that: who stops this process, or all, stops the clock of its patience too.
      idle_ += std::min<steady_clock::duration>(now - *last_look_, 2 * patience_ / kLooksWhileWaiting);
    }
    last_look_ = now;
    if (idle_ < patience_ || collector_.pid <= 0 || released_) return;
    given_up_ = end_.collector_stuck = true;
  }

  // False when there was no message.
  bool read_control() {
    wire::Control message{};
    const ssize_t got = ::recv(collector_.control.get(), &message, sizeof message, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof message)) {
      if (message.type == wire::ControlType::kRelease) released_ = true;
      if (message.type == wire::ControlType::kRanksSeen) end_.ranks_seen = message.a;
      return true;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      control_open_ = false;
      if (!program_gone_) end_.collector_died_early = true;
    }
    return false;
  }

  void read_signals() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) handle(info);
    stop_with_program();
  }

  // Where there is no signalfd (a filter of system calls, no file left in the system).
  void take_signals() {
    sigset_t all;
    ::sigfillset(&all);
    const timespec now{};
    siginfo_t taken{};
    while (::sigtimedwait(&all, &taken, &now) > 0) {
      signalfd_siginfo info{};
      info.ssi_signo = static_cast<std::uint32_t>(taken.si_signo);
      info.ssi_code = taken.si_code;
      info.ssi_ptr = reinterpret_cast<std::uintptr_t>(taken.si_value.sival_ptr);
      handle(info);
    }
    stop_with_program();
  }

  void handle(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    const bool by_kernel = info.ssi_code > 0;
    if (signal == SIGCHLD && by_kernel) {
      reap();
      return;
    }
    if (program_gone_) {
      // Everybody's SIGTERM at the end of a job comes while the collector still writes; whoever
      // asks twice does not want to wait.
      if (signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP) {
        const auto now = std::chrono::steady_clock::now();
        if (!asked_to_end_at_) asked_to_end_at_ = now;
        given_up_ = given_up_ || now - *asked_to_end_at_ >= kSecondRequest;
      }
      return;
    }
    // The kernel's own (keys at the terminal, hang-up) go to the foreground group.
    const bool group_wide = by_kernel || signal_probe_.saw(signal);
    if (group_wide) {
      drop_merged(signal);
    } else if (signal != SIGCONT || !stop_follows()) {
      forward(signal, info);
    }
    if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) stop_requested_ = true;
    if (signal == SIGCONT) stop_requested_ = false;
  }

  // Of two group-wide signals in quick succession the canary may have got one: a standard signal
  // that is pending already is not queued again. What came for us meanwhile, and not for the
  // canary, is then most likely the second; to hand that on would be one too many.
  void drop_merged(int signal) {
    sigset_t just_this;
    ::sigpending(&just_this);
    if (signal >= SIGRTMIN || ::sigismember(&just_this, signal) != 1 || signal_probe_.has_more(signal))
      return;
    ::sigemptyset(&just_this);
    ::sigaddset(&just_this, signal);
    const timespec now{};
    ::sigtimedwait(&just_this, nullptr, &now);
  }

  // A stop signal takes a pending SIGCONT away, from the canary too: what we could not tell is
  // then out of date, and to hand it on would undo the stop.
  [[nodiscard]] bool stop_follows() {
    sigset_t pending;
    ::sigpending(&pending);
    for (const int stop : {SIGTSTP, SIGTTIN, SIGTTOU}) {
      if (::sigismember(&pending, stop) == 1 || signal_probe_.has_more(stop)) return true;
    }
    return false;
  }

  void forward(int signal, const signalfd_siginfo& info) {
    if (info.ssi_code == SI_QUEUE) {
      sigval value{};
      value.sival_ptr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(info.ssi_ptr));
      ::sigqueue(program_, signal, value);
    } else {
      ::kill(program_, signal);
    }
  }

  // As PID 1 of a container we inherit orphans: reap whoever is there.
  void reap() {
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
      if (pid <= 0) return;
      const bool ended = WIFEXITED(status) || WIFSIGNALED(status);
      if (pid == program_) {
        program_stopped_ = WIFSTOPPED(status);
        if (program_stopped_) stop_signal_ = WSTOPSIG(status);
        if (!ended) continue;
        program_gone_ = true;
        end_.wait_status = status;
        send_control(wire::ControlType::kChildExited, program_, status);
        if (collector_stopped_ && collector_.pid > 0) ::kill(collector_.pid, SIGCONT);
      } else if (pid == collector_.pid && !ended) {
        // While the program runs that costs nobody but us. Then it would keep the job from ending.
        collector_stopped_ = WIFSTOPPED(status);
        if (collector_stopped_ && program_gone_) ::kill(collector_.pid, SIGCONT);
      } else if (pid == collector_.pid && ended) {
        end_.collector_status = status;
        collector_stopped_ = false;
        if (!program_gone_) end_.collector_died_early = true;
        collector_.pid = -1;
      } else if (pid == signal_probe_.pid() && ended) {
        signal_probe_.forget();
      }
    }
  }

  // Job control: what waits for us must see us stop. Only when we were asked to, too: a program
  // that is stopped by its own pid is continued by it, and would leave us behind.
  void stop_with_program() {
    if (program_gone_ || !program_stopped_ || !stop_requested_) return;
    stop_requested_ = false;
    sigset_t pending;
    ::sigpending(&pending);
    if (::sigismember(&pending, SIGCONT) == 1) return;  // stopping now would discard it
    set_default_action(stop_signal_);
    sigset_t just_this;
    ::sigemptyset(&just_this);
    ::sigaddset(&just_this, stop_signal_);
    ::kill(::getpid(), stop_signal_);
    ::sigprocmask(SIG_UNBLOCK, &just_this, nullptr);  // here we stop until SIGCONT
    ::sigprocmask(SIG_BLOCK, &just_this, nullptr);
  }

  const pid_t program_;
  CollectorHandle& collector_;
  GroupSignalProbe& signal_probe_;
  const std::chrono::milliseconds patience_;
  UniqueFd signals_;
  SupervisedEnd end_;
  bool control_open_ = true, released_ = false, given_up_ = false;
  bool program_gone_ = false, program_stopped_ = false, stop_requested_ = false;
  bool collector_stopped_ = false;
  int stop_signal_ = 0;
  std::optional<std::chrono::steady_clock::time_point> asked_to_end_at_, last_look_;
  std::chrono::nanoseconds used_before_{0};
  std::chrono::steady_clock::duration idle_{0};
};

}  // namespace

SupervisedEnd supervise(pid_t program, int rank, CollectorHandle& collector, GroupSignalProbe& signal_probe,
                        std::chrono::milliseconds patience) {
  return Supervisor(program, rank, collector, signal_probe, patience).run();
}

void end_as(int wait_status) {
  if (!WIFSIGNALED(wait_status)) ::_exit(WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  // Without what says that a core was dumped: the kernel says so only of who has dumped one.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0);  // a core_pattern that is a pipe does not look at the limit
  set_default_action(signal);
  sigset_t just_this;
  ::sigemptyset(&just_this);
  ::sigaddset(&just_this, signal);
  ::kill(::getpid(), signal);
  ::sigprocmask(SIG_UNBLOCK, &just_this, nullptr);
  // As PID 1 of a container one cannot kill oneself.
  ::_exit(128 + signal);
}

}  // namespace clusterprof::cli
