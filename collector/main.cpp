// SPDX-License-Identifier: BSD-3-Clause
// The collector process of a node, started by clusterprof (cli/); not meant to be called by hand.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/collector_options.hpp"
#include "base/end_patience.hpp"
#include "base/shared_directory.hpp"
#include "base/standard_files.hpp"
#include "base/stderr_watchdog.hpp"
#include "collector/os/memory_limit.hpp"
#include "collector/os/message.hpp"
#include "collector/os/node_check.hpp"
#include "collector/os/os_process.hpp"
#include "collector/server.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/wire/site_counts.h"

namespace {

using clusterprof::collector::say;
namespace wire = clusterprof::wire;

constexpr int kFailed = 125;
constexpr int kNiceness = 5;
constexpr std::chrono::seconds kCheckpointIntervalIfLight{60};
// Of the memory that the job has left: that of the summary. The rest is for what it reads and writes.
constexpr double kMemoryOfBanner = 0.8;
constexpr std::uint32_t kFastRateHz = 1000;  // from this rate on, waking up late costs samples

// Each process on this node needs three.
void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

// CLUSTERPROF_EVENT_BUDGET: MPI events kept per rank.
void read_event_budget(clusterprof::collector::NodeOptions& node) {
  const char* const text = std::getenv("CLUSTERPROF_EVENT_BUDGET");
  if (text == nullptr) return;
  std::uint32_t budget = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, budget);
  if (error == std::errc() && stop == end) {
    node.event_budget = budget;
  } else {
    node.notes.push_back(
        clusterprof::shard::note_of_run(clusterprof::shard::NoteCode::kEventBudgetIgnored, 0, text));
  }
}

// Seconds since 1970, from Slurm 22.05 on.
std::int64_t time_limit_utc_ns() {
  const char* const text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return 0;
  std::int64_t end_s = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, end_s);
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  const bool is_time = error == std::errc() && stop == end && end_s > 0 &&
                       end_s < clusterprof::shard::kLatest_utc_ns / kSecondNs;
  return is_time ? end_s * kSecondNs : 0;
}

std::uint64_t number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return 0;
  std::uint64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end ? value : 0;
}

// That the job has asked for on this node. Slurm's numbers are MiB; 0 stands for all of it.
std::uint64_t requested_memory_bytes() {
  constexpr std::uint64_t kUnit = std::uint64_t{1} << 20, kMost = std::uint64_t{1} << 30;
  const std::uint64_t of_node = number_in("SLURM_MEM_PER_NODE");
  const std::uint64_t of_cpus =
      std::min(number_in("SLURM_MEM_PER_CPU"), kMost) * std::min(number_in("SLURM_CPUS_ON_NODE"), kMost);
  return std::min(of_node != 0 ? of_node : of_cpus, kMost) * kUnit;
}

// Batch systems signal every process of a step (scancel --full --signal=USR1, sbatch --signal). Such signals
// are meant for the program, and a collector that stopped at SIGTSTP would hold up its launcher. Faults of
// the collector itself still end it.
void ignore_signals_to_the_program() {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    switch (number) {
      case SIGTERM:  // the server looks at these
      case SIGINT:
      case SIGHUP:
      case SIGBUS:
      case SIGKILL:
      case SIGSTOP:
      case SIGCONT:
      case SIGCHLD:
        break;
      default:
        (void)signal(number, SIG_IGN);
    }
  }
}

// How long the summary waits for other nodes. MPI ranks end together. Without MPI, only their start is
// common, and that is over after kStartTogether.
int banner_patience_s(bool used_mpi, std::chrono::milliseconds age) {
  constexpr int kStartTogether = 10, kEndTogether = 3;
  if (used_mpi) return kStartTogether;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  return static_cast<int>(std::clamp<long>(kStartTogether - seconds, kEndTogether, kStartTogether));
}

// Becomes the program that prints the summary; returns only if that fails.
// `memory_bytes`: that the job still has, where that is limited.
void exec_banner(const std::string& analyze, int ranks_expected, int patience_s, bool no_html, bool no_source,
                 int launcher_fd, std::optional<std::uint64_t> memory_bytes,
                 const std::string& run_directory) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGBUS}) signal(number, SIG_DFL);
  const std::string ranks = std::to_string(ranks_expected), timeout = std::to_string(patience_s),
                    launcher = std::to_string(launcher_fd),
                    memory = std::to_string(static_cast<std::uint64_t>(
                        static_cast<double>(memory_bytes.value_or(0)) * kMemoryOfBanner));
  std::vector<const char*> arguments{"analyze",   "banner",        "--wait-ranks",  ranks.c_str(),
                                     "--timeout", timeout.c_str(), "--launcher-fd", launcher.c_str()};
  if (memory_bytes) arguments.insert(arguments.end(), {"--memory", memory.c_str()});
  if (no_html) arguments.push_back("--no-html");
  if (no_source) arguments.push_back("--no-source");
  arguments.push_back(run_directory.c_str());
  arguments.push_back(nullptr);
  execv(analyze.c_str(), const_cast<char* const*>(arguments.data()));
  say("cannot run {}: {}", analyze, std::strerror(errno));
}

struct Options {
  clusterprof::collector::ServerOptions server;
  int wait_ranks = -1;  // ranks that the summary waits for; negative: all of the run
  int banner_rank = 0;
  bool banner = false, quiet = false, no_html = false, no_source = false;
  std::string analyze;
};

void add_trial_options(CLI::App& app, clusterprof::collector::Trial& trial, int& min_duration_s) {
  app.add_option("--min-duration", min_duration_s,
                 "seconds a run must last to be kept; --run-dir is a waiting place");
  app.add_option("--output", trial.request.output, "the run directory that the user has chosen");
  app.add_option("--root", trial.request.root, "where to make the run directory otherwise");
  app.add_option("--command-name", trial.request.command_name, "part of its name");
  app.add_option("--step-key", trial.step.key, "identity of the job step");
  app.add_flag("--step-has-peers", trial.step.has_peers, "the step may have other processes");
  app.add_flag("--step-launched", trial.step.launched, "a launcher has given its processes ranks");
  app.add_option("--step-start", trial.step.job_start_unix_s, "Unix time; 0 if keys are never used again");
  app.add_option("--step-name", trial.step.batch_name, "the batch system's name of the step");
  app.add_option("--step-id", trial.step.batch_id, "the same with the number of a job of an array");
  app.add_option("--step-ranks", trial.ranks, "recorded ranks of the step, 0 unknown");
  app.add_flag("--explain", trial.explain, "say why nothing is kept");
}

// Returns the status to exit with if the command line is wrong.
std::optional<int> read_command_line(int argc, char** argv, Options& options) {
  using clusterprof::collector::node_check_file;
  using clusterprof::collector::node_check_notes;
  clusterprof::collector::NodeOptions& node = options.server.node;
  std::string run_directory;
  int world_size = 0;
  int min_duration_s = 0, hang_after_s = 0, others_patience_s = 0;
  double attached_for_s = 0;
  bool no_mpi = false;
  std::map<std::string_view, std::string> of_collector;  // by kCollectorOptions
  std::string command_detail = "masked";
  clusterprof::collector::SettingsSource settings;
  CLI::App app("clusterprof's collector, one per node; started by clusterprof");
  app.add_option("--listen-fd", options.server.listen_fd, "listening socket")->required();
  app.add_option("--control-fd", options.server.control_fd, "socket to the launcher");
  app.add_option("--run-dir", run_directory, "where the shard goes")->required();
  add_trial_options(app, options.server.trial, min_duration_s);
  app.add_option("--run-id", node.run_id, "identity of the run")->required();
  app.add_option("--node", node.node_name, "name of this node")->required();
  app.add_option("--local-ranks", options.server.local_ranks, "ranks on this node, 0 unknown");
  app.add_option("--launcher", node.launcher, "name of the launcher that has given the ranks");
  app.add_option("--restart", options.server.restart, "how often it had started them before");
  app.add_option("--others-patience", others_patience_s,
                 "seconds that the launcher is kept waiting for other ranks; 0: without a limit");
  app.add_option("--unrecorded", options.server.unrecorded,
                 "why our own rank's program will not be recorded");
  app.add_option("--mpi-launcher", options.server.mpi_launcher,
                 "process that started the ranks of this node, 0 none");
  app.add_option("--world-size", world_size, "ranks of the job, 0 unknown");
  app.add_option("--rate", node.rate_hz, "samples per second and thread");
  app.add_option("--clock", node.clock, "wall or cpu")->check(CLI::IsMember({"wall", "cpu"}));
  app.add_option("--command-detail", command_detail, "what is stored of the command lines of processes")
      ->check(CLI::IsMember({"name", "hash", "masked", "full"}));
  app.add_option("--max-memory", of_collector["max-memory"], "bytes that the collector may use");
  app.add_option("--max-cpu", of_collector["max-cpu"], "percent of one processor that it may use");
  app.add_option("--nodes", options.server.nodes, "nodes of the job; 1: not known");
  app.add_option("--checkpoint", of_collector["checkpoint"], "seconds between checkpoints, or local");
  app.add_flag("--no-mpi", no_mpi, "the program runs without MPI wrappers");
  app.add_option("--sample-on", node.sample_on, "event whose overflows samples are taken at");
  app.add_flag("--light", options.server.light,
               "light mode: no MPI events outside of windows, and processes are looked at less often");
  app.add_flag("--standby", node.standby, "nothing is recorded but in windows that are opened from outside");
  app.add_flag("--attached", node.attached, "the processes were started without clusterprof");
  app.add_option("--attached-for", attached_for_s,
                 "seconds until they are let go; 0: when that is asked for");
  app.add_flag("--only-regions", node.only_regions, "only what is in regions is recorded");
  app.add_option("--own", node.own, "a path of the user's own code")->allow_extra_args(false);
  app.add_option("--program", settings.program, "the executable, where it is the user's own");
  app.add_option("--ranks", node.only_ranks, "the only ranks that are recorded");
  app.add_option("--wait-ranks", options.wait_ranks, "ranks the summary waits for; all of the job");
  app.add_option("--hang-after", hang_after_s,
                 "seconds without progress after which somebody is told; 0: never");
  app.add_flag("--hang-abort", options.server.hang.end_ranks, "then the ranks are ended by SIGABRT");
  app.add_flag("--banner", options.banner, "print a summary at the end when the banner rank was here");
  app.add_option("--banner-rank", options.banner_rank, "0");
  app.add_flag("--quiet", options.quiet, "print nothing");
  app.add_flag("--no-html", options.no_html, "the summary leaves no page");
  app.add_flag("--no-source", options.no_source, "the page has no source text");
  app.add_option("--analyze", options.analyze, "program that prints the summary");
  // The recorded command follows "--". It is kept from CLI11, which would take "[a,b]" for a list.
  char** const end = argv + argc;
  char** const own_end =
      std::find_if(argv, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  if (own_end != end) node.command.assign(own_end + 1, end);
  try {
    app.parse(static_cast<int>(own_end - argv), argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.server.run_directory = run_directory;
  node.command_detail = *clusterprof::command_detail(command_detail);
  options.server.trial.min_duration = std::chrono::seconds(min_duration_s);
  options.server.others_patience = std::chrono::seconds(others_patience_s);
  if (hang_after_s > 0 && options.analyze.empty())
    say("--hang-after: the program that looks for hangs is not installed");
  else
    options.server.hang.after = std::chrono::seconds(std::max(hang_after_s, 0));
  options.server.hang.analyze = options.analyze;
  options.server.hang.rank = options.banner_rank;
  clusterprof::CollectorOptions given;
  for (const auto& [name, value] : of_collector) {
    if (value.empty()) continue;
    const auto set = clusterprof::set_collector_option(given, name, value, "--" + std::string(name));
    if (set) continue;
    say("{}", set.error().message);
    return 2;
  }
  if (given.checkpoint)
    options.server.checkpoint = *given.checkpoint;
  else if (options.server.light || node.standby)
    options.server.checkpoint.interval = kCheckpointIntervalIfLight;
  node.max_memory_bytes = given.max_memory_bytes.value_or(0);
  options.server.max_cpu_percent = given.max_cpu_percent.value_or(0);
  if (const clusterprof::CheckpointOption& kept = options.server.checkpoint; kept.local)
    node.notes.push_back(clusterprof::shard::note_of_run(clusterprof::shard::NoteCode::kCheckpointsLocal));
  else if (kept.interval > clusterprof::CheckpointOption{}.interval)
    node.notes.push_back(clusterprof::shard::note_of_run(clusterprof::shard::NoteCode::kCheckpointInterval,
                                                         static_cast<std::uint64_t>(kept.interval.count())));
  options.server.end_patience = clusterprof::end_patience(std::getenv(clusterprof::kEndPatienceVariable))
                                    .value_or(clusterprof::kEndPatience);
  const bool plausible = world_size > 0 && world_size <= static_cast<int>(clusterprof::shard::kMaxWorldSize);
  node.world_size = plausible ? static_cast<std::uint32_t>(world_size) : 0;
  node.watches_mpi = !no_mpi;
  node.local_ranks = static_cast<std::uint32_t>(std::max(0, options.server.local_ranks));
  options.server.attached_for =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(attached_for_s));
  if (node.attached)
    node.notes.push_back(clusterprof::shard::note_of_run(clusterprof::shard::NoteCode::kAttached));
  if (options.server.light) {
    node.notes.push_back(
        clusterprof::shard::note_of_run(clusterprof::shard::NoteCode::kLightRecording, node.rate_hz));
  }
  settings.folders = node.own;
  settings.folders.emplace_back(".");
  settings.variables = node.command_detail == clusterprof::CommandDetail::kMasked ||
                       node.command_detail == clusterprof::CommandDetail::kFull;
  for (char** variable = environ; *variable != nullptr; ++variable)
    settings.environment.emplace_back(*variable);
  node.settings = std::make_shared<const clusterprof::collector::SettingsSource>(std::move(settings));
  read_event_budget(node);
  node.time_limit_utc_ns = time_limit_utc_ns();
  node.requested_memory_bytes = requested_memory_bytes();
  if (const char* const groups = std::getenv("CLUSTERPROF_CGROUP_ROOT"))
    options.server.control_groups = groups;
  for (clusterprof::shard::Note& note :
       node_check_notes(node_check_file(std::getenv("SLURM_JOB_ID")), node.node_name))
    node.notes.push_back(std::move(note));
  return std::nullopt;
}

// For the site (formats/wire/site_counts.h).
void count(const char* what, const char* reason) {
  const auto call = [](long number, long a, long b, long c, long d) {
    const long result = syscall(number, a, b, c, d);
    return result < 0 ? -static_cast<long>(errno) : result;
  };
  wire::count_recording(call, wire::kCountsDirectory, std::getenv("SLURM_JOB_ID"),
                        std::getenv("SLURM_STEP_ID"), what, reason);
}

// Becomes the summary's program when all ranks are gone, if this node prints it. Returns the status to exit
// with.
int record(Options options) {
  const int control_fd = options.server.control_fd;
  const std::filesystem::path control_groups = options.server.control_groups;
  std::string run_directory;
  int patience_s = 0;
  {
    clusterprof::collector::Server server(std::move(options.server));
    if (!server.run()) return kFailed;
    run_directory = server.run_directory();
    if (run_directory.empty()) {
      count(wire::kCountUnrecorded, wire::kWhyTooShort);
      return 0;
    }
    server.was_turned_off() ? count(wire::kCountIncomplete, wire::kWhyTurnedOff)
                            : count(wire::kCountRecorded, nullptr);
    const bool shows =
        options.banner && !options.quiet && !options.analyze.empty() && server.had_rank(options.banner_rank);
    if (!shows) return 0;
    if (options.wait_ranks < 0) options.wait_ranks = static_cast<int>(server.world_size());
    // Ranks that did not come here will not come to another node, either.
    options.wait_ranks = std::max(0, options.wait_ranks - server.absent_ranks());
    patience_s = banner_patience_s(server.used_mpi(), server.age());
  }
  // Stays open until the summary is printed, because the launcher waits for it to close.
  if (control_fd >= 0) (void)fcntl(control_fd, F_SETFD, 0);
  const clusterprof::collector::MemoryLimit limit(
      clusterprof::collector::read_text("/proc/self/cgroup").value_or(""), control_groups);
  exec_banner(options.analyze, options.wait_ranks, patience_s, options.no_html, options.no_source, control_fd,
              limit.left_bytes(), run_directory);
  return kFailed;
}

int run(int argc, char** argv) {
  Options options;
  if (const std::optional<int> status = read_command_line(argc, argv, options)) return *status;
  ignore_signals_to_the_program();
  allow_many_files();
  clusterprof::start_stderr_watchdog(options.server.control_fd);
  if (options.server.trial.min_duration == std::chrono::seconds(0))
    clusterprof::restrict_umask_like(options.server.run_directory);
  // The ranks come first.
  if (options.server.node.rate_hz < kFastRateHz) (void)setpriority(PRIO_PROCESS, 0, kNiceness);
  return record(std::move(options));
}

}  // namespace

int main(int argc, char** argv) {
  clusterprof::take_closed_standard_files();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    say("collector: {}", error.what());
  }
  return kFailed;
}
