// SPDX-License-Identifier: BSD-3-Clause
// Records a command: agrees on the run directory, elects the process that starts the node's collector,
// prepares the environment for the agent, and becomes the program or supervises it.
// docs/design/0001-launcher-and-collector.md.
#include "cli/record.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/command_text.hpp"
#include "base/end_patience.hpp"
#include "base/local_checkpoints.hpp"
#include "base/secrets.hpp"
#include "cli/command_name.hpp"
#include "cli/election.hpp"
#include "cli/install_layout.hpp"
#include "cli/library_token.hpp"
#include "cli/message.hpp"
#include "cli/program_environment.hpp"
#include "cli/run_directory_in_time.hpp"
#include "cli/supervisor.hpp"
#include "cli/system_call_filter.hpp"
#include "formats/run/run_directory.hpp"
#include "formats/wire/launch_evidence.h"
#include "formats/wire/segment.h"
#include "formats/wire/site_counts.h"
#include "formats/wire/site_switch.h"
#include "formats/wire/spawned_world.h"

namespace clusterprof::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
// How long the run directory's file system may take where the command was not started by `clusterprof`.
constexpr auto kDirectoryPatience = std::chrono::seconds(5);
// For files of the job to be removed or brought to the run directory; where the collector has been waited for
// in vain already, or it is for other runs.
constexpr auto kRemoval = std::chrono::milliseconds(5000), kRemovalIfStuck = std::chrono::milliseconds(500);
// How long a rank whose program has succeeded, and which may have another one to start, waits for the
// others'.
constexpr auto kOthersPatience = std::chrono::seconds(5);
// By then every rank of the job has found the run directory: launchers start them together.
constexpr auto kAllRanksStarted = std::chrono::seconds(10);
// What the collector may have at least. With fewer files it could take up no process, or not write the shard;
// the libraries that write shards and read symbols do not survive being without memory.
constexpr rlim_t kFilesOfCollector = 64;
constexpr rlim_t kDataOfCollector = 64 << 20, kAddressesOfCollector = 256 << 20, kStackOfCollector = 1 << 20;

std::vector<char*> as_argv(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  return argv;
}

// The status and the message of a command that exec refused.
int report_exec_error(const std::string& command, const std::string& path, int error) {
  say(command + ": " + std::strerror(error));
  // A file that is there but cannot be found by exec lacks its interpreter.
  return error == ENOENT && ::access(path.c_str(), F_OK) != 0 ? kExitNotFound : kExitNotExecutable;
}

// What a process that was to become the collector tells the launcher.
[[noreturn]] void end_as_failed(int report, int error) {
  [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(kExitFailed);
}

// The limits of the program are not the collector's, as far as they can be raised. 0, or the error that it
// would run into.
int raise_limits() {
  struct Limit {
    __rlimit_resource what;
    rlim_t enough, at_least;
    int error;
  };
  constexpr rlim_t kAll = RLIM_INFINITY, kUsualStack = 8 << 20;
  for (const Limit& limit : {Limit{RLIMIT_NOFILE, kAll, kFilesOfCollector, EMFILE},
                             {RLIMIT_DATA, kAll, kDataOfCollector, ENOMEM},
                             {RLIMIT_AS, kAll, kAddressesOfCollector, ENOMEM},
                             {RLIMIT_STACK, kUsualStack, kStackOfCollector, ENOMEM},
                             {RLIMIT_CPU, kAll, 0, 0},
                             {RLIMIT_FSIZE, kAll, 0, 0}}) {
    rlimit now{};
    if (::getrlimit(limit.what, &now) != 0) continue;
    const rlim_t wanted = std::min(limit.enough, now.rlim_max);
    if (now.rlim_cur < wanted) {
      now.rlim_cur = wanted;
      ::setrlimit(limit.what, &now);
    }
    if (now.rlim_cur < limit.at_least) return limit.error;
  }
  return 0;
}

// Does what looks at files in a process of its own, which a file server may keep waiting: nobody else does
// for longer than that. `must`: it is done here, without a limit, where no process can be made.
void run_with_timeout(std::chrono::milliseconds patience, const std::function<void()>& act,
                      bool must = true) {
  const pid_t pid = ::fork();
  if (pid < 0) {  // there may be no more processes
    if (must) act();
    return;
  }
  if (pid == 0) {
    ::closefrom(0);  // nobody is to wait for it either
    try {
      act();
    } catch (const std::exception&) {  // no memory. This process must not go on as the launcher
    }
    ::_exit(0);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);  // blocked, as all are
  while (::waitpid(pid, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < end) {
    const timespec limit{0, 20'000'000};
    ::sigtimedwait(&child, nullptr, &limit);
  }
}

bool is_explained(const Environment& environment) {
  const char* const text = environment(kExplainVariable);
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

std::string describe(int wait_status) {
  return WIFSIGNALED(wait_status) ? std::string("killed by signal ") + std::to_string(WTERMSIG(wait_status)) +
                                        ", " + ::strsignal(WTERMSIG(wait_status))
                                  : "exit status " + std::to_string(WEXITSTATUS(wait_status));
}

// For the site (formats/wire/site_counts.h).
void count(const char* what, const char* reason) {
  const auto call = [](long number, long a, long b, long c, long d) {
    const long result = ::syscall(number, a, b, c, d);
    return result < 0 ? -static_cast<long>(errno) : result;
  };
  wire::count_recording(call, wire::kCountsDirectory, std::getenv("SLURM_JOB_ID"),
                        std::getenv("SLURM_STEP_ID"), what, reason);
}

class Recording {
 public:
  Recording(const Options& options, const Environment& environment)
      : options_(options), environment_(environment) {}

  int run();

 private:
  [[nodiscard]] std::vector<std::string> program_words() const;
  int become_program(const EnvironmentChanges& changes);
  int without_recording(const char* word, const std::string& reason, bool same_everywhere);
  // Nothing is broken: this run is not to be recorded. `reason` is said only to those who ask.
  int not_worth_recording(const std::string& reason);
  Result<RunDirectory> find_run_directory(bool& refused) const;
  // The run has no run directory until it has lasted long enough; the collector makes it.
  [[nodiscard]] bool is_on_trial() const {
    return options_.min_duration > std::chrono::seconds(0) && identity_.world == 0;
  }
  Result<void> join_launch();
  Result<void> prepare();
  int as_elected(UniqueFd listening);
  int without_program(const StartedProgram& program, const CollectorHandle& handle,
                      const SignalState& signals, GroupSignalProbe probe);
  void clean_up_after(const SupervisedEnd& end, std::chrono::seconds patience);
  Result<CollectorHandle> start_collector(UniqueFd listening);
  [[noreturn]] void become_collector(const std::vector<char*>& command, int listening, int control,
                                     int report);
  [[nodiscard]] std::string evidence() const;
  [[nodiscard]] std::string clock_rendezvous() const;
  [[nodiscard]] std::string worlds() const { return directory_.path + "/" + wire::kWorldsDirectory; }
  [[nodiscard]] std::string spawn_words() const;
  [[nodiscard]] std::vector<std::string> collector_command() const;
  [[nodiscard]] Announcement announcement(pid_t pid) const;

  const Options& options_;
  const Environment& environment_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Identity identity_;
  CommandLookup command_;
  InstallLayout layout_;
  RunDirectory directory_;
  std::string socket_name_;
  bool samples_event_ = false;
  std::int32_t unrecorded_ = 0;  // as in wire::Announce
  EnvironmentChanges changes_;
};

// What the program is called with: its first word need not be what is executed.
std::vector<std::string> Recording::program_words() const {
  std::vector<std::string> words = options_.command;
  if (!options_.argv0.empty()) words[0] = options_.argv0;
  return words;
}

int Recording::become_program(const EnvironmentChanges& changes) {
  apply(changes);
  ::execvp(options_.command[0].c_str(), as_argv(program_words()).data());
  return report_exec_error(options_.command[0], command_.path, errno);
}

// Something of ours is missing or broken: the user's job goes first, unless told otherwise.
int Recording::without_recording(const char* word, const std::string& reason, bool same_everywhere) {
  if (identity_.speaks_for_node()) count(wire::kCountUnrecorded, word);
  const bool speak = same_everywhere ? identity_.speaks_for_all() : identity_.speaks_for_node();
  if (options_.strict) {
    if (speak) say(reason);
    return kExitFailed;
  }
  if (speak) say(reason + "; the command runs unrecorded");
  return become_program({{kStartProblemVariable, ""}});
}

int Recording::not_worth_recording(const std::string& reason) {
  if (is_explained(environment_) && identity_.speaks_for_all()) say("not recorded: " + reason);
  return become_program({{kStartProblemVariable, ""}});
}

Result<RunDirectory> Recording::find_run_directory(bool& refused) const {
  if (is_on_trial()) return agree_on_waiting_place(identity_);
  const char* const root = environment_("CLUSTERPROF_ROOT");
  const RunDirectoryRequest request{options_.output, root == nullptr ? "" : root,
                                    command_name(options_.command)};
  const auto agree = [&] { return agree_on_run_directory(request, identity_, &refused); };
  const std::string place =
      request.output.empty() ? (request.root.empty() ? "." : request.root) : request.output;
  return options_.started ? in_time(kDirectoryPatience, place, agree) : agree();
}

// Finds out whether the launcher has started this rank before, as after a failure. Its numbers in the run
// follow those of the earlier ones.
Result<void> Recording::join_launch() {
  if (identity_.launch == 0 || is_on_trial()) return {};
  const auto start = join_start(directory_, identity_.launch, identity_.rank, identity_.world_size);
  if (!start) return start.error();
  identity_.restart = start.value().restart;
  identity_.first_rank = start.value().first_rank;
  return {};
}

// What every rank does the same way: find the parts, choose the preloads.
Result<void> Recording::prepare() {
  auto layout = find_install_layout();
  if (!layout) return layout.error();
  layout_ = std::move(layout).value();
  if (::access(layout_.collector.c_str(), X_OK) != 0)
    return Error{layout_.collector + ": " + std::strerror(errno)};
  const auto usable = [](const std::string& path) { return ::access(path.c_str(), R_OK) == 0; };
  if (!usable(layout_.agent())) return Error{layout_.agent() + ": " + std::strerror(errno)};
  if (layout_.preload_directory.find_first_of(": ") != std::string::npos) {
    return Error{layout_.preload_directory + ": LD_PRELOAD cannot name a path with a blank or colon"};
  }

  ProgramEnvironment facts;
  facts.preloads.push_back(layout_.agent());
  const ProgramFacts program = inspect_program(command_.path, environment_);
  if (program.needs_other_libc) return Error{command_.path + " is not linked to glibc"};
  if (program.lacks_glibcs_libraries) return Error{"there is no libdl.so.2 or libpthread.so.0 here"};
  // What such a program starts may be recorded all the same.
  if (program.ignores_preloads != wire::UnrecordedReason::kCount) {
    const bool is_static = program.ignores_preloads == wire::UnrecordedReason::kStaticProgram;
    const std::string problem =
        command_.path + (is_static
                             ? " is linked statically"
                             : " gets privileges (set-user-ID, capabilities), so that LD_PRELOAD is ignored");
    if (options_.strict) return Error{problem};
    if (identity_.speaks_for_all())
      say(problem + (is_static && !options_.no_children
                         ? "; it runs unrecorded, only programs that it starts are recorded"
                         : "; it runs unrecorded"));
    unrecorded_ = static_cast<std::int32_t>(program.ignores_preloads) + 1;
  }
  facts.needs_asan = program.needs_asan;
  if (!options_.no_mpi) {
    for (const MpiFlavour flavour :
         choose_flavours(program, is_interpreter(options_.command[0]), environment_,
                         usable(layout_.mpi_preload(MpiFlavour::kOpenMpi)),
                         usable(layout_.mpi_preload(MpiFlavour::kMpich)),
                         usable(layout_.mpi_preload(MpiFlavour::kStandard)))) {
      const std::string preload = layout_.mpi_preload(flavour);
      if (usable(preload)) {
        facts.preloads.push_back(preload);
        continue;
      }
      const std::string problem = preload + ": " + std::strerror(errno);
      if (options_.strict) return Error{problem};
      if (identity_.speaks_for_all()) say(problem + "; MPI calls are not recorded");
    }
  }
  if (options_.memory_interval_bytes != 0) {
    const std::string preload = layout_.memory_preload();
    std::string problem;
    // Both stand in for malloc, and either has to come first.
    if (facts.needs_asan || asks_for_asan(environment_))
      problem = "--memory does not go with AddressSanitizer";
    else if (!usable(preload))
      problem = preload + ": " + std::strerror(errno);
    if (!problem.empty() && options_.strict) return Error{problem};
    if (!problem.empty() && identity_.speaks_for_all()) say(problem + "; allocations are not recorded");
    facts.records_memory = problem.empty();
    if (facts.records_memory) facts.preloads.push_back(preload);
  }
  facts.by_library_token = finds_by_library_token(loader_of_program(command_.path), facts.preloads);
  socket_name_ =
      collector_socket_name(directory_.secret, identity_.key + "\n" + directory_.path, identity_.node);
  facts.socket_name = socket_name_;
  facts.rank = identity_.run_rank();
  facts.world_size = identity_.run_size();
  facts.clock_rendezvous = clock_rendezvous();
  facts.spawn = spawn_words();
  facts.launch = launch_words(environment_);
  if (identity_.world != 0) {
    facts.world = evidence() + std::to_string(identity_.world) + ":" + std::to_string(identity_.first_rank) +
                  ":" + worlds();
  }
  if (!options_.sample_on.event.empty()) {
    const auto event = resolve_sample_event(options_.sample_on, options_.rate_hz);
    samples_event_ = static_cast<bool>(event);
    facts.sample_event = event ? sample_event_text(event.value()) : "!" + event.error().message;
    if (!event) {
      const std::string problem = "--sample-on " + options_.sample_on.event + ": " + event.error().message;
      if (options_.strict) return Error{problem};
      if (identity_.speaks_for_all()) say(problem + "; sampled by the clock");
    }
  }
  if (identity_.speaks_for_all() && identity_.world == 0) {
    const std::string unknown = unknown_counters(options_.events);
    if (!unknown.empty()) say("--event " + unknown + "; not counted");
  }
  changes_ = program_environment(options_, facts, environment_);
  return {};
}

std::string Recording::evidence() const {
  char text[24];
  std::snprintf(text, sizeof text,
                "%016llx:", static_cast<unsigned long long>(wire::launch_evidence(environment_)));
  return text;
}

// What processes that the program spawns are started with; their environment is not that of the program.
std::string Recording::spawn_words() const {
  if (options_.no_children || options_.no_mpi || is_on_trial()) return "";
  std::vector<std::string> words = {worlds(), layout_.launcher, "--output=" + directory_.path};
  words.insert(words.end(), options_.words.begin(), options_.words.end());
  words.push_back("--spawned=" + identity_.key + ":");
  std::string text;
  for (const std::string& word : words) {
    if (word.find(wire::kWordEnd) != std::string::npos) return "";
    text += (text.empty() ? "" : std::string(1, wire::kWordEnd)) + word;
  }
  return evidence() + text;
}

std::string Recording::clock_rendezvous() const {
  const bool one_node = identity_.local_size > 0 && identity_.local_size == identity_.world_size;
  if (options_.clock_sync == ClockSync::kNever || !identity_.has_peers || one_node) return "";
  const bool vouched = options_.clock_sync == ClockSync::kAlways;
  if (!vouched && (!options_.ranks.empty() || is_on_trial())) return "";
  return evidence() +
         (vouched ? std::string(wire::kClockVouched) : clock_rendezvous_path(directory_, identity_.world));
}

Announcement Recording::announcement(pid_t pid) const {
  return {{wire::kAnnounceMagic, wire::kWireMajor, wire::kWireMinor, pid, identity_.run_rank(),
           identity_.run_size(), identity_.local_size, identity_.restart, unrecorded_},
          command_text(stored_command(options_.command, options_.command_detail))};
}

std::vector<std::string> Recording::collector_command() const {
  // Ranks that do not take part are not waited for; how many of this node do nobody knows.
  const int local_ranks = options_.ranks.empty() ? std::max(identity_.local_size, 0) : 0;
  // Names are of the user's choice: as words of their own they could look like options.
  std::vector<std::string> words = {layout_.collector,
                                    "--listen-fd",
                                    "3",
                                    "--control-fd",
                                    "4",
                                    "--run-dir=" + directory_.path,
                                    "--run-id=" + std::filesystem::path(directory_.path).filename().string(),
                                    "--node=" + identity_.node,
                                    "--local-ranks",
                                    std::to_string(local_ranks),
                                    "--world-size",
                                    std::to_string(std::max(identity_.run_size(), 0)),
                                    "--rate",
                                    std::to_string(options_.rate_hz),
                                    "--clock",
                                    options_.clock == SampleClock::kWall ? "wall" : "cpu",
                                    "--command-detail",
                                    std::string(name_of(options_.command_detail))};
  if (const pid_t launcher = find_mpi_launcher(environment_); launcher != 0)
    words.push_back("--mpi-launcher=" + std::to_string(launcher));
  if (!options_.ranks.empty()) {
    const auto [lowest, count] = options_.selected_ranks(identity_.run_size());
    words.push_back("--ranks=" + options_.rank_list());
    words.push_back("--wait-ranks=" + std::to_string(count));
    words.push_back("--banner-rank=" +
                    std::to_string(lowest < 0 ? std::max(identity_.run_rank(), 0) : lowest));
  }
  if (is_on_trial()) {
    const auto add = [&words](const char* name, const std::string& value) {
      if (!value.empty()) words.push_back(std::string("--") + name + "=" + value);
    };
    const char* const root = environment_("CLUSTERPROF_ROOT");
    add("min-duration", std::to_string(options_.min_duration.count()));
    add("output", options_.output);
    add("root", root == nullptr ? "" : root);
    add("command-name", command_name(options_.command));
    add("step-key", identity_.key);
    if (identity_.has_peers) words.push_back("--step-has-peers");
    if (identity_.launched) words.push_back("--step-launched");
    add("step-start", std::to_string(identity_.job_start_unix_s));
    add("step-name", identity_.batch_name);
    add("step-id", identity_.batch_id);
    add("step-ranks", std::to_string(options_.selected_ranks(identity_.world_size).count));
    if (is_explained(environment_)) words.push_back("--explain");
  }
  // Ranks that are started again run on the same nodes.
  const int ranks = identity_.launch != 0 ? identity_.world_size : identity_.run_size();
  if (identity_.local_size > 0 && ranks > identity_.local_size)
    words.push_back("--nodes=" + std::to_string((ranks + identity_.local_size - 1) / identity_.local_size));
  if (!identity_.launcher.empty()) words.push_back("--launcher=" + identity_.launcher);
  if (identity_.is_below_rank)
    words.push_back("--others-patience=" + std::to_string(kOthersPatience.count()));
  if (identity_.restart != 0) words.push_back("--restart=" + std::to_string(identity_.restart));
  if (unrecorded_ != 0) words.push_back("--unrecorded=" + std::to_string(unrecorded_));
  for (std::string& word : words_of(options_.collector)) words.push_back(std::move(word));
  if (samples_event_) words.push_back("--sample-on=" + options_.sample_on.event);
  if (options_.no_mpi) words.push_back("--no-mpi");
  if (options_.light) words.push_back("--light");
  if (options_.standby) words.push_back("--standby");
  if (options_.hang_after != std::chrono::seconds(0))
    words.push_back("--hang-after=" + std::to_string(options_.hang_after.count()));
  if (options_.hang_abort) words.push_back("--hang-abort");
  if (options_.only_regions) words.push_back("--only-regions");
  std::vector<std::string> own = options_.own;
  if (const std::string program = program_directory(options_.command, command_.path); !program.empty())
    own.push_back(program);
  for (const std::string& path : own) words.push_back("--own=" + path);
  if (!is_interpreter(options_.command[0])) words.push_back("--program=" + command_.path);
  words.push_back(options_.quiet ? "--quiet" : "--banner");
  if (options_.no_html) words.push_back("--no-html");
  if (options_.no_source) words.push_back("--no-source");
  if (::access(layout_.analyze.c_str(), X_OK) == 0) {
    words.push_back("--analyze=" + layout_.analyze);
  }
  words.push_back("--");
  // Masked here and not in the collector, because everybody on the node can see the collector's command line.
  const std::vector<std::string> command = stored_command(options_.command, options_.command_detail);
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// In a process of its own, which takes no memory: an exception would leave it a second launcher.
void Recording::become_collector(const std::vector<char*>& command, int listening, int control, int report) {
  ::setsid();
  if (const int error = raise_limits(); error != 0) end_as_failed(report, error);
  // The program's files are not ours to keep open: launchers take their end for the rank's.
  int keep[3] = {listening, control, report};
  for (int& fd : keep) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 10);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(keep[0], 3);
  ::dup2(keep[1], 4);
  ::fcntl(keep[2], F_SETFD, 0);
  const int report_fd = ::dup3(keep[2], 5, O_CLOEXEC);
  ::closefrom(6);

  for (const char* variable :
       {"LD_PRELOAD", wire::kSocketVariable, wire::kRankVariable, wire::kWorldSizeVariable,
        wire::kPreloadVariable, wire::kSampleEventVariable, wire::kClockVariable, wire::kSpawnVariable,
        wire::kWorldVariable, wire::kLaunchVariable}) {
    ::unsetenv(variable);
  }
  ::execv(layout_.collector.c_str(), command.data());
  end_as_failed(report_fd, errno);
}

Result<CollectorHandle> Recording::start_collector(UniqueFd listening) {
  const auto failed = [] {
    return Error{std::string("cannot start the collector: ") + std::strerror(errno)};
  };
  int pair[2], pipe[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return failed();
  CollectorHandle handle{-1, UniqueFd(pair[0])};
  const UniqueFd theirs(pair[1]);
  if (::pipe2(pipe, O_CLOEXEC) != 0) return failed();
  const UniqueFd report_read(pipe[0]);
  UniqueFd report_write(pipe[1]);

  const std::vector<std::string> words = collector_command();
  const std::vector<char*> command = as_argv(words);
  handle.pid = ::fork();
  if (handle.pid < 0) return failed();
  if (handle.pid == 0) {
    // With all signals blocked: it lets in those of the job when it can answer them.
    become_collector(command, listening.get(), theirs.get(), report_write.get());
  }
  report_write.reset();
  int error = 0;
  if (::read(report_read.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(handle.pid, nullptr, 0);
    errno = error;
    return failed();
  }
  return handle;
}

// The program did not start, so nobody watches over the collector. Returns the exit status.
int Recording::without_program(const StartedProgram& program, const CollectorHandle& handle,
                               const SignalState& signals, GroupSignalProbe probe) {
  if (!identity_.has_peers) {
    // There is nothing worth writing, and nobody else that it works for.
    ::kill(handle.pid, SIGKILL);
    ::waitpid(handle.pid, nullptr, 0);
    remove_shards(directory_, identity_.node);
    withdraw_run_directory(directory_);
  }  // else it sees the control socket close, and leaves when the other ranks have
  if (program.exec_error == 0) return kExitFailed;
  if (program.no_process) {
    // For a program that takes this one's place there may be room. It has no children but its own.
    if (identity_.has_peers) {
      ::kill(handle.pid, SIGKILL);
      ::waitpid(handle.pid, nullptr, 0);
    }
    { const GroupSignalProbe ended = std::move(probe); }
    signals.restore();
    return without_recording(wire::kWhyCollector,
                             std::string("cannot start a process: ") + std::strerror(program.exec_error),
                             false);
  }
  if (options_.started) {
    signals.restore();
    return without_recording(wire::kWhyInstallation,
                             options_.command[0] + ": " + std::strerror(program.exec_error), false);
  }
  return report_exec_error(options_.command[0], command_.path, program.exec_error);
}

// After the program's end: what is of no more use goes, and what went wrong is said.
void Recording::clean_up_after(const SupervisedEnd& end, std::chrono::seconds patience) {
  run_with_timeout(end.collector_stuck ? kRemovalIfStuck : kRemoval, [&] {
    if (is_on_trial()) {  // the collector knows the run directory, if there is one
      if (end.collector_died_early || end.collector_status >= 0) remove_waiting_place(directory_.path);
      return;
    }
    remove_clock_rendezvous(directory_, identity_.world);
    if (std::chrono::steady_clock::now() - started_ > kAllRanksStarted) {
      remove_rendezvous_link(directory_);
    } else if (end.ranks_seen > 0) {
      const int all_ranks = options_.selected_ranks(identity_.world_size).count;
      // The node may have had spawned ones besides.
      leave_rendezvous(directory_, identity_.node, std::min(end.ranks_seen, all_ranks), all_ranks);
    }
  });
  // Checkpoints that collectors left on this node, of this run or an earlier one. Who has not asked for such
  // checkpoints does not wait for long: the other run's file server may not answer.
  run_with_timeout(
      options_.collector.checkpoint.value_or(CheckpointOption{}).local && !end.collector_stuck
          ? kRemoval
          : kRemovalIfStuck,
      [] { bring_home_checkpoints(places_for_checkpoints()); }, false);
  if (end.collector_stuck) {
    say("the collector of node " + identity_.node + " has done nothing for " +
        std::to_string(patience.count()) +
        " s, as when a file server does not answer, and is not waited for; it goes on by itself");
  }
  // A collector that fails in an orderly way says so itself.
  if (end.collector_died_early || end.collector_stuck || (end.collector_status > 0))
    count(wire::kCountIncomplete, wire::kWhyCollector);
  if (end.collector_died_early || (end.collector_status >= 0 && WIFSIGNALED(end.collector_status))) {
    say("the collector of node " + identity_.node + " ended early" +
        (end.collector_status >= 0 ? " (" + describe(end.collector_status) + ")" : "") +
        ": this node's profile is incomplete or missing");
  }
}

int Recording::as_elected(UniqueFd listening) {
  const std::optional<std::chrono::seconds> asked_patience = end_patience(environment_(kEndPatienceVariable));
  if (!asked_patience && identity_.speaks_for_all())
    say(std::string(kEndPatienceVariable) + " is no number of seconds and was ignored");
  const std::chrono::seconds patience = asked_patience.value_or(kEndPatience);
  const SignalState signals;
  const auto give_up = [&](const std::string& reason) {
    withdraw_run_directory(directory_);
    signals.restore();
    return without_recording(wire::kWhyCollector, reason, false);
  };
  auto signal_probe = GroupSignalProbe::start();
  if (!signal_probe) return give_up(signal_probe.error().message);
  auto collector = start_collector(std::move(listening));
  if (!collector) {
    { const GroupSignalProbe ended = std::move(signal_probe).value(); }
    return give_up(collector.error().message);
  }

  const StartedProgram program = start_program(options_.command[0], program_words(), signals, [this] {
    if (options_.strict) {
      // The collector's answer proves that it works.
      const auto announced = announce_to(socket_name_, announcement(::getpid()), kPatience);
      if (!announced) {
        say(announced.error().message);
        return false;
      }
    }
    apply(changes_);
    return true;
  });
  count(wire::kCountStarted, nullptr);
  CollectorHandle& handle = collector.value();
  if (program.pid < 0) return without_program(program, handle, signals, std::move(signal_probe).value());

  // From here on this process only waits. Pipes and launcher sockets end with the program.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  for (int fd = 3; fd < handle.control.get(); ++fd) ::close(fd);
  ::closefrom(handle.control.get() + 1);

  SupervisedEnd end;
  {
    GroupSignalProbe watching = std::move(signal_probe).value();
    end = supervise(program.pid, identity_.run_rank(), handle, watching, patience);
  }
  try {
    clean_up_after(end, patience);
  } catch (const std::exception&) {  // no memory. The program has run, and its end is ours
  }
  end_as(end.wait_status);
}

int Recording::run() {
  auto identity = identify(environment_);
  if (!identity) {
    if (options_.started) {
      // The rank at least, so that one of them speaks.
      const auto nameless = identify([this](const char* name) {
        return std::strcmp(name, "CLUSTERPROF_NODE") == 0 ? nullptr : environment_(name);
      });
      if (nameless) identity_ = nameless.value();
      return without_recording(wire::kWhyBadEnvironment, identity.error().message, true);
    }
    say(identity.error().message);
    return kExitFailed;
  }
  identity_ = std::move(identity).value();
  if (const char* const off = wire::off_file([](const char* path) { return ::access(path, F_OK) == 0; }))
    return without_recording(wire::kWhyTurnedOff,
                             std::string("this site has turned recording off (") + off + ")", true);
  if (!options_.problem.empty()) return without_recording(wire::kWhyBadRequest, options_.problem, true);
  if (options_.spawned.world != 0) {
    if (const auto joined = join_run(options_.spawned, identity_); !joined)
      return without_recording(wire::kWhyBadEnvironment, joined.error().message, true);
  }
  if (!identity_.has_peers && identity_.rank < 0) {
    identity_.rank = 0;
    identity_.world_size = identity_.local_size = 1;
    identity_.local_rank = 0;
  }
  if (!options_.wants_rank(identity_.run_rank())) return become_program({});
  if (const int ranks = identity_.run_size(); ranks >= 0 && ranks < options_.min_ranks)
    return not_worth_recording(std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + ", fewer than " +
                               std::to_string(options_.min_ranks) + " (too-few-ranks)");

  command_ = find_command(options_.command[0]);
  if (command_.status != 0) {
    if (options_.started) return become_program({});
    const std::string meant =
        options_.command[0].find('/') == std::string::npos && command_.status == kExitNotFound
            ? meant_verb(options_.command[0])
            : "";
    if (identity_.speaks_for_node())
      say(command_.problem + (meant.empty() ? "" : "; did you mean clusterprof " + meant + "?"));
    return command_.status;
  }
  if (filter_kills_recording()) {
    return without_recording(wire::kWhySystemCallFilter,
                             "a filter of system calls (seccomp) kills for what recording needs", true);
  }
  bool refused = false;
  auto directory = find_run_directory(refused);
  if (!directory) {
    if (options_.started || !refused)
      return without_recording(wire::kWhyRunDirectory, directory.error().message, true);
    if (identity_.speaks_for_all()) say(directory.error().message);
    return kExitFailed;
  }
  directory_ = std::move(directory).value();
  if (!directory_.taken.empty() && directory_.created)  // one rank did
    say(directory_.taken + "; this run is recorded in " + directory_.path);
  if (const auto joined = join_launch(); !joined)
    return without_recording(wire::kWhyRunDirectory, joined.error().message, false);
  if (const auto prepared = prepare(); !prepared) {
    withdraw_run_directory(directory_);
    return without_recording(wire::kWhyInstallation, prepared.error().message, true);
  }
  auto election = elect(socket_name_, announcement(::getpid()), kPatience);
  if (!election) return without_recording(wire::kWhyCollector, election.error().message, false);
  if (election.value().listening) return as_elected(std::move(election.value().listening));
  if (election.value().not_recorded)
    return options_.strict ? kExitFailed : become_program({{kStartProblemVariable, ""}});
  return become_program(changes_);
}

}  // namespace

int record(const Options& options, const Environment& environment) {
  return Recording(options, environment).run();
}

}  // namespace clusterprof::cli
