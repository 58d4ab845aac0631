// SPDX-License-Identifier: BSD-3-Clause
// The collector process of a node, started by clusterprof (cli/); not meant to be called by hand.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "collector/server.hpp"

namespace {

constexpr int kFailed = 125;
constexpr int kNiceness = 5;
constexpr std::uint32_t kFastRateHz = 1000;  // from there on waking up late costs samples

// Becomes the program that prints the summary; returns only when that failed.
void exec_banner(const std::string& analyze, int world_size, const std::string& run_directory) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGBUS}) signal(number, SIG_DFL);
  const std::string ranks = std::to_string(world_size);
  std::vector<const char*> arguments{"analyze",   "banner", "--wait-ranks",        ranks.c_str(),
                                     "--timeout", "10",     run_directory.c_str(), nullptr};
  execv(analyze.c_str(), const_cast<char* const*>(arguments.data()));
  fmt::print(stderr, "clusterprof: cannot run {}: {}\n", analyze, std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace clusterprof::collector;
  ServerOptions options;
  std::string run_directory, analyze;
  int world_size = 0;
  bool banner = false, quiet = false;

  CLI::App app("clusterprof's collector, one per node; started by clusterprof");
  app.add_option("--listen-fd", options.listen_fd, "listening socket")->required();
  app.add_option("--control-fd", options.control_fd, "socket to the launcher");
  app.add_option("--run-dir", run_directory, "where the shard goes")->required();
  app.add_option("--run-id", options.node.run_id, "identity of the run")->required();
  app.add_option("--node", options.node.node_name, "name of this node")->required();
  app.add_option("--local-ranks", options.local_ranks, "ranks on this node, 0 unknown");
  app.add_option("--world-size", world_size, "ranks of the job, 0 unknown");
  app.add_option("--rate", options.node.rate_hz, "samples per second and thread");
  app.add_option("--clock", options.node.clock, "wall or cpu")->check(CLI::IsMember({"wall", "cpu"}));
  bool no_mpi = false;
  app.add_flag("--no-mpi", no_mpi, "the program runs without MPI wrappers");
  app.add_flag("--banner", banner, "print a summary at the end when rank 0 was here");
  app.add_flag("--quiet", quiet, "print nothing");
  app.add_option("--analyze", analyze, "program that prints the summary");
  app.add_option("command", options.node.command, "the recorded command");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.run_directory = run_directory;
  options.node.world_size = world_size > 0 ? static_cast<std::uint32_t>(world_size) : 0;
  options.node.watches_mpi = !no_mpi;
  const int control_fd = options.control_fd;

  // Whatever the launcher blocked for its own purposes.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The ranks come first.
  if (options.node.rate_hz < kFastRateHz) (void)setpriority(PRIO_PROCESS, 0, kNiceness);
  try {
    bool show = false;
    {
      Server server(std::move(options));
      if (!server.run()) return kFailed;
      show = banner && !quiet && !analyze.empty() && server.had_rank_zero();
    }
    if (!show) return 0;
    // Stays open until the summary is printed: its end is what the launcher waits for.
    if (control_fd >= 0) (void)fcntl(control_fd, F_SETFD, 0);
    exec_banner(analyze, world_size, run_directory);
  } catch (const std::exception& error) {
    fmt::print(stderr, "clusterprof: collector: {}\n", error.what());
  }
  return kFailed;
}
