// SPDX-License-Identifier: BSD-3-Clause
// synth --nodes N --ranks-per-node M --paths P --seed S --events E --bins B RUN: writes a synthetic run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "formats/shard/shard_writer.hpp"
#include "formats/synth/synthetic_run.hpp"

namespace {

int fail(int status, const std::string& text) {
  std::fprintf(stderr, "synth: %s\n", text.c_str());
  return status;
}

int run(int argc, char** argv) {
  namespace fs = std::filesystem;
  using namespace clusterprof;
  synth::Shape shape;
  std::string directory;
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
  app.add_option("--seed", shape.seed, "the same seed gives the same run")->capture_default_str();
  app.add_option("--events", shape.events, "MPI events per rank, about; 0 for none")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  app.add_option("--bins", shape.bins, "bins of the time series, at most; 0 for none")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("RUN", directory, "directory to make")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(2, error.what());
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return fail(3, directory + ": cannot be made: " + error.message());
  if (!fs::is_empty(directory, error) || error)
    return fail(3, directory + ": is there already and not empty");
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    const shard::ShardData data = synth::shard_of_node(shape, node);
    const Result<void> written =
        shard::write_shard(data, fs::path(directory) / ("node-" + data.nodes[0].name + ".h5"));
    if (!written) return fail(3, written.error().message);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(3, error.what());
  }
}
