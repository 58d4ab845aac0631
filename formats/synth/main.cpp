// SPDX-License-Identifier: BSD-3-Clause
// synth --nodes N --ranks-per-node M --paths P --seed S RUN: writes a synthetic run.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "formats/shard/shard_writer.hpp"
#include "formats/synth/growing_run.hpp"
#include "formats/synth/synthetic_run.hpp"

namespace {

namespace fs = std::filesystem;
using namespace clusterprof;

// Programs with more call paths than this are large applications, of which a rank sees a part.
constexpr std::uint32_t kSmallProgram = 2000;
constexpr std::uint32_t kPathsPerRank = 2048;

int fail(int status, const std::string& text) {
  std::fprintf(stderr, "synth: %s\n", text.c_str());
  return status;
}

// Every jobs-th node from `first` on.
int write_nodes(const synth::SyntheticRun& run, std::uint32_t nodes, std::uint32_t first, std::uint32_t jobs,
                const fs::path& directory) {
  for (std::uint32_t node = first; node < nodes; node += jobs) {
    const shard::ShardData data = run.shard(node);
    const Result<void> written = shard::write_shard(data, directory / ("node-" + data.nodes[0].name + ".h5"));
    if (!written) return fail(3, written.error().message);
  }
  return 0;
}

int run(int argc, char** argv) {
  synth::Shape shape;
  std::string directory;
  std::uint32_t jobs = std::max(1u, std::thread::hardware_concurrency());
  CLI::App app{"Writes a synthetic run: shards of a job that never ran"};
  app.add_option("--nodes", shape.nodes, "number of nodes")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--ranks-per-node", shape.ranks_per_node, "ranks on each")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--paths", shape.paths, "call paths of the program, about")
      ->check(CLI::Range(3, 1'000'000))
      ->capture_default_str();
  CLI::Option* per_rank =
      app.add_option("--paths-per-rank", shape.paths_per_rank,
                     "of them, those of a rank, at least; 0: most of them, and some that no other rank has "
                     "(default: 0 up to 2000 paths, 2048 from there on)")
          ->check(CLI::Range(0, 1'000'000));
  CLI::Option* counters = app.add_option("--counters", shape.counters,
                                         "events counted (default: 4 with --paths-per-rank 0, 1 without)")
                              ->check(CLI::Range(0, 4));
  app.add_option("--seed", shape.seed, "the same seed gives the same run")->capture_default_str();
  app.add_option("--events", shape.events, "MPI events per rank, about; 0 for none")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  app.add_option("--bins", shape.bins, "bins of the time series, at most; 0 for none")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("-j,--jobs", jobs, "processes that write; the files do not depend on it")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  bool growing = false;
  synth::GrowingShape growing_shape;
  CLI::Option* const is_growing =
      app.add_flag("--growing", growing,
                   "instead a program whose functions follow known laws of the number of ranks, on one node");
  app.add_flag("--weak", growing_shape.weak, "each rank's work stays the same, not that of all together")
      ->needs(is_growing);
  app.add_option("--noise", growing_shape.noise, "of each function's time, as a share of it")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(is_growing)
      ->capture_default_str();
  app.add_option("RUN", directory, "directory to make")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(2, error.what());
  }
  if (per_rank->count() == 0 && shape.paths > kSmallProgram) shape.paths_per_rank = kPathsPerRank;
  if (shape.paths_per_rank > shape.paths) return fail(2, "--paths-per-rank: more than --paths");
  if (counters->count() == 0 && shape.paths_per_rank != 0) shape.counters = 1;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return fail(3, directory + ": cannot be made: " + error.message());
  if (!fs::is_empty(directory, error) || error)
    return fail(3, directory + ": is there already and not empty");

  if (growing) {
    growing_shape.ranks = shape.ranks_per_node;
    growing_shape.seed = shape.seed;
    const Result<void> written =
        shard::write_shard(synth::growing_run(growing_shape), fs::path(directory) / "node-node0000.h5");
    return written ? 0 : fail(3, written.error().message);
  }
  const synth::SyntheticRun made(shape);
  jobs = std::min(jobs, shape.nodes);
  std::vector<pid_t> children;  // HDF5 is for one thread, so these are processes
  int status = 0;
  for (std::uint32_t job = 1; job < jobs; ++job) {
    const pid_t child = fork();
    if (child < 0) {
      status = fail(3, std::string("cannot start a process: ") + std::strerror(errno));
      break;
    }
    if (child == 0) _exit(write_nodes(made, shape.nodes, job, jobs, directory));
    children.push_back(child);
  }
  if (status == 0) status = write_nodes(made, shape.nodes, 0, jobs, directory);
  for (const pid_t child : children) {
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(ended))
      status = fail(3, "a process that wrote shards was killed");
    else if (WEXITSTATUS(ended) != 0)
      status = WEXITSTATUS(ended);
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(3, error.what());
  }
}
