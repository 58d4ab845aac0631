// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/attach.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/command_text.hpp"
#include "base/leading_number.hpp"
#include "base/unique_fd.hpp"
#include "base/write_all.hpp"
#include "cli/attach/collector_start.hpp"
#include "cli/attach/injection.hpp"
#include "cli/attach/job_processes.hpp"
#include "cli/attach/job_step.hpp"
#include "cli/attach/read_text.hpp"
#include "cli/attach/target.hpp"
#include "cli/attach/wait_for_end.hpp"
#include "cli/command_name.hpp"
#include "cli/identity.hpp"
#include "cli/install_layout.hpp"
#include "cli/message.hpp"
#include "formats/run/run_control.hpp"
#include "formats/run/run_directory.hpp"
#include "formats/wire/hello.h"

namespace clusterprof::cli::attach {
namespace {

using std::chrono::milliseconds;

constexpr int kNothingAttached = 1;
// The agent's thread may have to wait for the loader, as while a large library is imported.
constexpr milliseconds kAgentPatience{30'000};

// Of the process, as it was started.
Environment environment_of(const std::string& text) {
  return [text](const char* name) -> const char* {
    const std::size_t length = std::strlen(name);
    for (std::size_t at = 0; at < text.size(); at += std::strlen(text.c_str() + at) + 1)
      if (text.compare(at, length, name) == 0 && text.c_str()[at + length] == '=')
        return text.c_str() + at + length + 1;
    return nullptr;
  };
}

// Of this process, which is no rank wherever it is called.
Result<Identity> own_identity() {
  return identify([](const char* name) -> const char* {
    return std::strcmp(name, "CLUSTERPROF_NODE") == 0 ? std::getenv(name) : nullptr;
  });
}

struct Target {
  TargetFacts facts;
  std::vector<std::string> command;
  int rank = -1, world_size = -1;
};

std::string name_of(const Target& target) { return "process " + std::to_string(target.facts.pid); }

// What could be tried; the others are refused here.
std::vector<Target> usable_targets(const std::vector<int>& pids, const OwnFacts& own) {
  std::vector<Target> targets;
  for (const int pid : pids) {
    Target target{read_target(pid, "/proc"), {}, -1, -1};
    if (const auto refused = refusal_of(target.facts, own)) {
      say(name_of(target) + ": " + refused->text);
      continue;
    }
    const std::string directory = "/proc/" + std::to_string(pid);
    target.command = command_words(read_text(directory + "/cmdline"));
    if (target.command.empty()) target.command = {"process"};
    if (const auto identity = identify(environment_of(read_text(directory + "/environ")))) {
      target.rank = identity.value().rank;
      target.world_size = identity.value().world_size;
    }
    targets.push_back(std::move(target));
  }
  // Processes of which one has no rank are numbered.
  if (std::any_of(targets.begin(), targets.end(), [](const Target& target) { return target.rank < 0; }))
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i].rank = static_cast<int>(i);
      targets[i].world_size = static_cast<int>(targets.size());
    }
  return targets;
}

std::string options_for(const Target& target, const Options& options, const InstallLayout& layout,
                        const std::string& socket_name) {
  std::string text;
  const auto set = [&](const std::string& name, const std::string& value) {
    text += name + "=" + value + '\0';
  };
  set(wire::kSocketVariable, socket_name);
  set(wire::kRankVariable, std::to_string(target.rank));
  if (target.world_size >= 0) set(wire::kWorldSizeVariable, std::to_string(target.world_size));
  set("CLUSTERPROF_RATE", std::to_string(options.rate_hz));
  set("CLUSTERPROF_CLOCK", options.clock);
  if (options.no_python) set("CLUSTERPROF_NO_PYTHON", "1");
  if (options.no_native) set("CLUSTERPROF_NO_NATIVE", "1");
  const std::string wrap = layout.mpi_preload(flavour_of(target.facts));
  if (!options.no_mpi && !wrap.empty() && ::access(wrap.c_str(), R_OK) == 0)
    set(wire::kMpiWrapVariable, wrap);
  return text;
}

// In a child, so that the kernel lets go of every thread when it ends: one that did not stop in time would
// stop later, and stay.
std::variant<Injected, InjectionFailed> inject_in_child(const Injection& injection) {
  static_assert(std::is_trivially_copyable_v<Injected>);
  const auto failed = [](const std::string& text) { return InjectionFailed{InjectionProblem::kOther, text}; };
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return failed(std::strerror(errno));
  const UniqueFd from(pipe[0]);
  UniqueFd to(pipe[1]);
  const pid_t child = ::fork();
  if (child < 0) return failed(std::strerror(errno));
  if (child == 0) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    const auto result = inject(injection);
    std::string message(1, static_cast<char>(result.index()));
    if (const auto* const injected = std::get_if<Injected>(&result)) {
      message.append(reinterpret_cast<const char*>(injected), sizeof *injected);
    } else {
      const auto& problem = std::get<InjectionFailed>(result);
      message += static_cast<char>(problem.what);
      message += problem.text;
    }
    (void)write_all(to.get(), message);
    ::_exit(0);
  }
  to.reset();
  std::string message;
  std::array<char, 1024> part{};
  for (ssize_t got = 0; (got = ::read(from.get(), part.data(), part.size())) != 0;) {
    if (got > 0) message.append(part.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (message.size() == 1 + sizeof(Injected) && message[0] == 0) {
    static_assert(std::is_trivially_copyable_v<Injected>);
    Injected injected;
    std::memcpy(&injected, message.data() + 1, sizeof injected);
    return injected;
  }
  if (message.size() < 2) return failed("the attempt ended early");
  return InjectionFailed{static_cast<InjectionProblem>(message[1]), message.substr(2)};
}

// On what the loader says, in the words of glibc.
std::string advice_on(const std::string& said) {
  if (said.find("static TLS") == std::string::npos) return {};
  return " (other libraries have used up the room that glibc keeps for thread-local data: start it with "
         "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=2048, or with clusterprof --standby)";
}

// Why the agent has not begun; empty: it has.
std::string problem_of(const AgentAnswer& answer) {
  if (answer.is_gone) return "it has ended meanwhile";
  switch (answer.status) {
    case wire::AttachStatus::kAttached:
      return {};
    case wire::AttachStatus::kStarting:
      return "the agent has not answered within " +
             std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kAgentPatience).count()) +
             " s: the process is loading something; try again later";
    case wire::AttachStatus::kNotLoaded:
      return "it cannot load the agent: " + answer.text + advice_on(answer.text);
    case wire::AttachStatus::kRecordedAlready:
      return "it is recorded already: its run has what it does (clusterprof top, and start where it is on "
             "standby)";
    case wire::AttachStatus::kOtherVersion:
      return "an agent of another version of clusterprof was loaded into it before";
    case wire::AttachStatus::kNoCollector:
      return "its agent does not reach the collector, or has no memory";
    case wire::AttachStatus::kNoDescriptorTable:
      return "the kernel refuses a thread of its own table of files (close_range or unshare)";
  }
  return "unknown answer";
}

// Whether the process is recorded now. Otherwise that was said.
bool attach_to(const Target& target, const Options& options, const InstallLayout& layout, const OwnFacts& own,
               const Collector& collector) {
  Injection injection;
  injection.pid = target.facts.pid;
  injection.agent = layout.agent();
  injection.options = options_for(target, options, layout, collector.socket_name);
  auto result = inject_in_child(injection);
  const auto is_late = [&result] {
    const auto* const failed = std::get_if<InjectionFailed>(&result);
    return failed != nullptr && failed->what == InjectionProblem::kLate;
  };
  for (const auto end = std::chrono::steady_clock::now() + injection.patience;
       is_late() && std::chrono::steady_clock::now() < end;)
    result = inject_in_child(injection);
  if (const auto* const failed = std::get_if<InjectionFailed>(&result)) {
    const bool forbidden = failed->what == InjectionProblem::kNotPermitted;
    const bool busy = failed->what == InjectionProblem::kNoThread || is_late();
    say(name_of(target) + ": " +
        (forbidden ? not_permitted(target.facts, own).text
         : busy    ? "none of its threads could be used for " +
                      std::to_string(
                          std::chrono::duration_cast<std::chrono::seconds>(injection.patience).count()) +
                      " s: " + failed->text + "; try again later"
                : failed->text));
    return false;
  }
  const Injected& injected = std::get<Injected>(result);
  const std::string problem = problem_of(wait_for_agent(target.facts.pid, injected, kAgentPatience));
  if (!problem.empty()) {
    say(name_of(target) + ": " + problem);
    return false;
  }
  tell_attached(collector, target.facts.pid, target.rank);
  if (!options.quiet) {
    const auto ms = [](std::chrono::nanoseconds time) {
      return std::chrono::duration<double, std::milli>(time).count();
    };
    std::array<char, 240> line{};
    const int length = std::snprintf(
        line.data(), line.size(), "process %d: recorded as rank %d (thread %d was held for %.1f ms",
        static_cast<int>(target.facts.pid), target.rank, static_cast<int>(injected.thread), ms(injected.held));
    const auto at = static_cast<std::size_t>(std::max(length, 0));
    if (injected.refused == 0)
      std::snprintf(line.data() + at, line.size() - at, ")");
    else
      std::snprintf(line.data() + at, line.size() - at, "; before it, %u others for at most %.1f ms)",
                    injected.refused, ms(injected.refused_held));
    say(line.data());
  }
  return true;
}

int on_this_node(const Options& options, std::vector<int> pids,
                 std::optional<std::chrono::nanoseconds> lasting) {
  auto layout = find_install_layout_of_helper();
  auto identity = own_identity();
  if (!layout || !identity) {
    say(layout ? identity.error().message : layout.error().message);
    return kExitFailed;
  }
  const OwnFacts own = read_own("/proc");
  if (!options.here.empty())
    for (const JobProcess& process : choose_ranks(find_job_processes(options.here, "/proc")))
      pids.push_back(process.pid);
  if (pids.empty()) {
    say("node " + identity.value().node + ": no process of job " + options.here + " is a rank");
    return kNothingAttached;
  }
  const std::vector<Target> targets = usable_targets(pids, own);
  if (targets.empty()) return kNothingAttached;

  RunDirectory directory;
  if (options.run.empty()) {
    const char* const root = std::getenv("CLUSTERPROF_ROOT");
    const RunDirectoryRequest request{options.output, root == nullptr ? "" : root,
                                      command_name(targets[0].command)};
    bool refused = false;
    auto agreed = agree_on_run_directory(request, identity.value(), &refused);
    if (!agreed) {
      say(agreed.error().message);
      return refused ? kExitUsage : kExitFailed;
    }
    directory = std::move(agreed).value();
  } else {
    directory.path = options.run;
  }
  CollectorRequest request{directory.path, 0, 1, lasting.value_or(std::chrono::nanoseconds(0)),
                           targets[0].command};
  for (const Target& target : targets) request.world_size = std::max(request.world_size, target.world_size);
  auto collector = start_collector(layout.value(), identity.value(), options, request, directory.secret);
  if (!collector) {
    say(collector.error().message);
    withdraw_run_directory(directory);
    return kExitFailed;
  }
  int attached = 0;
  for (const Target& target : targets)
    if (attach_to(target, options, layout.value(), own, collector.value())) ++attached;
  if (attached == 0) {
    ::kill(collector.value().pid, SIGKILL);
    ::waitpid(collector.value().pid, nullptr, 0);
    if (options.run.empty()) {
      remove_shards(directory, identity.value().node);
      withdraw_run_directory(directory);
    }
    return kNothingAttached;
  }
  if (!lasting && options.run.empty()) {
    if (!options.quiet) say("recording to " + directory.path + " until: clusterprof detach " + directory.path);
    return 0;
  }
  if (!lasting) (void)write_all(STDERR_FILENO, line_of_step(attached));
  collector.value().control.reset();
  const auto ask = [&directory] {
    return static_cast<bool>(write_request(directory.path, ControlRequest{}));
  };
  if (!wait_for_end(collector.value().pid, ask)) {
    say("the recording goes on, until: clusterprof detach " + directory.path);
    return kExitFailed;
  }
  if (!options.quiet && options.run.empty()) say("recorded to " + directory.path);
  return 0;
}

std::string output_of(const std::string& command) {
  std::string text;
  std::array<char, 256> part{};
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
  ::pclose(pipe);
  return text;
}

// By srun, which calls clusterprof attach on each node of the job.
int on_nodes_of_job(const Options& options) {
  const bool is_id = !options.job.empty() && std::all_of(options.job.begin(), options.job.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '_';
  });
  if (!is_id) {
    say("--job: the number of a Slurm job, not '" + options.job + "'");
    return kExitUsage;
  }
  auto layout = find_install_layout_of_helper();
  auto identity = own_identity();
  if (!layout || !identity) {
    say(layout ? identity.error().message : layout.error().message);
    return kExitFailed;
  }
  const int nodes =
      leading_number(
          output_of("squeue --noheader --states=running --format=%D --jobs=" + options.job + " 2>/dev/null"))
          .value_or(0);
  if (nodes <= 0) {
    say("job " + options.job + " is not running, or squeue does not work here");
    return kNothingAttached;
  }
  const char* const root = std::getenv("CLUSTERPROF_ROOT");
  JobStep step = identity.value();
  step.batch_name = step.batch_id = options.job;
  bool refused = false;
  const auto directory =
      agree_on_run_directory({options.output, root == nullptr ? "" : root, "attach"}, step, &refused);
  if (!directory) {
    say(directory.error().message);
    return refused ? kExitUsage : kExitFailed;
  }
  std::vector<std::string> words = {"srun",
                                    "--overlap",
                                    "--jobid=" + options.job,
                                    "--nodes=" + std::to_string(nodes),
                                    "--ntasks-per-node=1",
                                    "--mpi=none",
                                    // Nodes without ranks are ready at once.
                                    "--kill-on-bad-exit=0",
                                    "--wait=0",
                                    layout.value().launcher,
                                    "attach",
                                    "--here=" + options.job,
                                    "--run=" + directory.value().path,
                                    "--rate=" + std::to_string(options.rate_hz),
                                    "--clock=" + options.clock};
  if (!options.lasting.empty()) words.push_back("--for=" + options.lasting);
  if (options.no_python) words.emplace_back("--no-python");
  if (options.no_native) words.emplace_back("--no-native");
  if (options.no_mpi) words.emplace_back("--no-mpi");
  if (options.quiet) words.emplace_back("--quiet");
  if (!options.quiet)
    say("recording to " + directory.value().path +
        (options.lasting.empty() ? " until: clusterprof detach " + directory.value().path : ""));
  if (options.lasting.empty()) return begin_step(words, nodes);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  say(std::string("srun: ") + std::strerror(errno));
  return kExitFailed;
}

}  // namespace

int attach(const Options& options) {
  std::optional<std::chrono::nanoseconds> lasting;
  if (!options.lasting.empty()) {
    const auto parsed = parse_lasting_ns(options.lasting);
    if (!parsed) {
      say("--for: a time of at least a second, as 60s, 5m or 2h, not '" + options.lasting + "'");
      return kExitUsage;
    }
    lasting = std::chrono::nanoseconds(static_cast<std::int64_t>(*parsed));
  }
  if (options.job.empty() && options.here.empty() && options.pids.empty()) {
    say("attach: process ids, or --job JOBID");
    return kExitUsage;
  }
  if (!options.job.empty()) return on_nodes_of_job(options);
  const int status = on_this_node(options, options.pids, lasting);
  if (status != 0 && !options.run.empty() && !lasting)
    (void)write_all(STDERR_FILENO, line_of_step(0));  // other nodes may have ranks
  return status;
}

}  // namespace clusterprof::cli::attach
