// SPDX-License-Identifier: BSD-3-Clause
#include "cli/merge_launch.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "cli/execute.hpp"
#include "cli/message.hpp"
#include "cli/mpi_flavour.hpp"
#include "cli/program_environment.hpp"
#include "formats/wire/hello.h"
#include "formats/wire/spawned_world.h"

namespace clusterprof::cli {
namespace {

// In the order they are tried. Where the process manager is Slurm's or another general one, its variables
// tell the protocol and not the library: the one named first is the one usually built for it.
std::vector<MpiFlavour> flavours_of_launcher(const Environment& environment) {
  if (any_set(environment, {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"})) return {MpiFlavour::kOpenMpi};
  if (any_set(environment, {"MPI_LOCALRANKID", "HYDI_CONTROL_FD"})) return {MpiFlavour::kMpich};
  if (any_set(environment, {"PMI_RANK", "PMI_FD"})) return {MpiFlavour::kMpich, MpiFlavour::kOpenMpi};
  if (any_set(environment, {"PMIX_RANK", "PMIX_NAMESPACE"}))
    return {MpiFlavour::kOpenMpi, MpiFlavour::kMpich};
  return {};
}

// Whether the parent is the same process to the launcher as this one, not the launcher.
bool stands_for(const Environment& parent, const Environment& environment) {
  bool any = false;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_hnp_uri", "MPI_LOCALRANKID", "PMIX_RANK",
                           "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD", "SLURM_PROCID", "SLURM_STEP_ID",
                           "FLUX_TASK_RANK", "PALS_RANKID", "ALPS_APP_PE"}) {
    const char* const mine = environment(name);
    const char* const theirs = parent(name);
    if (mine == nullptr) continue;
    if (theirs == nullptr || std::strcmp(mine, theirs) != 0) return false;
    any = true;
  }
  return any;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

std::optional<ProgramProblem> check_by_running(const std::string& program) {
  const auto problem = [&](std::string text) { return ProgramProblem{std::move(text), true}; };
  if (::access(program.c_str(), X_OK) != 0) {
    if (errno == ENOENT) return ProgramProblem{"this installation has no " + program, false};
    return problem(program + ": " + std::strerror(errno));
  }
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return problem(std::string("no pipe: ") + std::strerror(errno));
  const UniqueFd read_end(pipe[0]);
  UniqueFd write_end(pipe[1]);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::string name = program, option = "--can-run";
  char* const arguments[] = {name.data(), option.data(), nullptr};
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  if (error != 0) return problem(program + ": " + std::strerror(error));

  const std::string said = read_all(read_end.get());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  return problem(said.empty() ? program + " cannot run here" : said.substr(0, said.find('\n')));
}

MergeLaunch choose_merge_program(const InstallLayout& layout, const Environment& environment,
                                 const Environment& of_parent, const ProgramCheck& check) {
  const std::vector<MpiFlavour> flavours = flavours_of_launcher(environment);
  if (flavours.empty())
    return {"", {"the launcher offers nothing to MPI (srun: --mpi=pmix or --mpi=pmi2)", false}};
  if (stands_for(of_parent, environment))
    return {"",
            {"the launcher started a script, not clusterprof (exec clusterprof there to merge in parallel)",
             false}};
  std::optional<ProgramProblem> first;
  for (const MpiFlavour flavour : flavours) {
    const std::string program = layout.merge_program(flavour);
    const std::optional<ProgramProblem> problem = check(program);
    if (!problem) return {program, {}};
    if (!first) first = problem;
  }
  return {"", *first};
}

Environment environment_of_parent() {
  const std::string path = "/proc/" + std::to_string(::getppid()) + "/environ";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string text = fd ? read_all(fd.get()) : std::string();
  std::map<std::string, std::string, std::less<>> variables;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view entry = std::string_view(text).substr(at, text.find('\0', at) - at);
    at += entry.size() + 1;
    if (const std::size_t equals = entry.find('='); equals != std::string_view::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(std::string_view(name));
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

void remove_agent_from_environment() {
  EnvironmentChanges changes;
  if (const char* preload = ::getenv("LD_PRELOAD"))
    changes.emplace_back("LD_PRELOAD", merge_preloads({}, preload));
  for (const char* name : {wire::kSocketVariable, wire::kRankVariable, wire::kWorldSizeVariable,
                           wire::kPreloadVariable, wire::kSampleEventVariable, wire::kClockVariable,
                           wire::kSpawnVariable, wire::kWorldVariable, wire::kLaunchVariable})
    changes.emplace_back(name, "");
  apply(changes);
}

int launch_merge(int argc, char** argv, const Environment& environment) {
  const auto layout = find_install_layout();
  if (!layout) {
    say(layout.error().message);
    return kExitFailed;
  }
  remove_agent_from_environment();
  const auto identity = identify(environment);
  // Who knows no peers merges, and who has none to share MPI with, as under torchrun. (A name for the node,
  // which is what can be wrong, is of no use here.)
  if (!identity || !identity.value().has_peers || identity.value().launch != 0)
    return execute_reader(layout.value().analyze, argv);

  const bool speaks = identity.value().speaks_for_all();
  const MergeLaunch launch = choose_merge_program(layout.value(), environment, environment_of_parent());
  if (launch.program.empty()) {
    if (speaks) {
      say("merging in one process: " + launch.alone_because.text);
      return execute_reader(layout.value().analyze, argv);
    }
    // Should the others have the program, they will miss this node's.
    if (launch.alone_because.of_this_node && identity.value().speaks_for_node())
      say("node " + identity.value().node + " takes no part in merging: " + launch.alone_because.text);
    return 0;
  }
  // Behind its name the program finds whether to merge if MPI should know of no others.
  std::string role = speaks ? "first" : "other";
  std::vector<char*> arguments(argv, argv + argc + 1);
  arguments.insert(arguments.begin() + 1, role.data());
  return execute_reader(launch.program, arguments.data());
}

}  // namespace clusterprof::cli
