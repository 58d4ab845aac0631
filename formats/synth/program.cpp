// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/program.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "formats/synth/random.hpp"

namespace clusterprof::synth {
namespace {

using namespace shard;

Frame python(PathInterner& in, const char* name, const char* file, std::uint32_t line, std::uint32_t start) {
  return {FrameKind::kPython, false, in.string(name), in.string(file), 0, line, start};
}

Landmarks intern_landmarks(PathInterner& in) {
  const char* file = "/home/user/stencil/solve.py";
  const auto below = [&](std::uint32_t path, const Frame& frame) { return in.path(path, in.frame(frame)); };
  const auto named = [&](FrameKind kind, std::string_view name) {
    return Frame{kind, false, in.string(name), 0, 0, 0, 0};
  };
  // main() within a region.
  const auto main = [&](std::uint32_t region, std::uint32_t line) {
    return below(below(region, python(in, "<module>", file, 97, 1)), python(in, "main", file, line, 70));
  };
  const auto system_call = [&](std::uint32_t path, std::string_view name) {
    return below(below(path, named(FrameKind::kKernel, name)), named(FrameKind::kKernel, kOnFileName));
  };
  Landmarks p{};
  p.setup = below(0, named(FrameKind::kRegion, "setup"));
  p.iteration = below(0, named(FrameKind::kRegion, "iteration"));
  p.exchange_region = below(p.iteration, named(FrameKind::kRegion, "exchange"));
  p.load = below(main(p.setup, 73), python(in, "load_input", file, 15, 12));
  p.reading = system_call(p.load, "read");
  p.step = below(main(p.iteration, 88), python(in, "Solver.step", file, 41, 38));
  p.exchange = below(below(main(p.exchange_region, 88), python(in, "Solver.step", file, 40, 38)),
                     python(in, "Solver.exchange", file, 27, 20));
  p.isend = below(p.exchange, named(FrameKind::kMpi, "MPI_Isend"));
  p.waitall = below(p.exchange, named(FrameKind::kMpi, "MPI_Waitall"));
  p.residual = below(main(p.iteration, 88), python(in, "Solver.residual", file, 58, 52));
  p.allreduce = below(p.residual, named(FrameKind::kMpi, "MPI_Allreduce"));
  p.save = below(main(p.iteration, 90), python(in, "Solver.checkpoint", file, 66, 61));
  p.writing = system_call(p.save, "write");
  p.sync = below(main(p.iteration, 90), python(in, "Solver.checkpoint", file, 67, 61));
  p.syncing = system_call(p.sync, "fsync");
  return p;
}

Frame library_frame(PathInterner& in, Random& random) {
  const std::uint64_t which = random.below(400);
  const std::string number = std::to_string(which);
  const auto start = static_cast<std::uint32_t>(20 + which % 37 * 25);
  const auto line = start + static_cast<std::uint32_t>(random.below(20));
  if (which % 3 == 0)
    return {FrameKind::kPython,
            false,
            in.string("Grid.method_" + number),
            in.string("/home/user/stencil/grid_" + std::to_string(which % 11) + ".py"),
            0,
            line,
            start};
  return {FrameKind::kNative,
          which % 7 == 0,
          in.string("kernel_" + number + "<double>(double*, long)"),
          in.string("/build/kernels/part_" + std::to_string(which % 17) + ".cpp"),
          in.string("/opt/stencil/lib/libkernels.so"),
          line,
          start};
}

// One rank in (i / hot)^kRarity has the i-th path, but for the hot ones, which all have.
constexpr double kRarity = 1.5;

// How often a rank has the i-th of `count` call paths when `hot` of them are everywhere.
double chance(std::size_t i, double hot) {
  const double place = static_cast<double>(i + 1) / hot;
  return place <= 1 ? 1 : std::pow(place, -kRarity);
}

}  // namespace

Program::Program(const Shape& shape) {
  PathInterner interner(tables);
  landmarks = intern_landmarks(interner);
  shared = {landmarks.step, landmarks.residual, landmarks.exchange};
  const std::uint32_t in_blocks = shape.paths_per_rank == 0 ? 0 : shape.paths / 10;
  Random random(shape.seed);
  while (shared.size() < shape.paths - in_blocks) {
    // Usually below one of the latest paths, so that the tree is deep rather than flat.
    const std::size_t recent = std::min<std::size_t>(shared.size(), 24);
    const std::size_t parent =
        random.below(3) != 0 ? shared.size() - 1 - random.below(recent) : random.below(shared.size());
    const std::size_t before = tables.paths.size();
    const std::uint32_t path = interner.path(shared[parent], interner.frame(library_frame(interner, random)));
    if (tables.paths.size() != before) shared.push_back(path);
  }
  if (shape.paths_per_rank == 0) return;

  paths_per_block = std::max<std::size_t>(1, shape.paths_per_rank / 50);
  const StringIndex file = interner.string("/home/user/stencil/blocks.py");
  while (blocks.size() + paths_per_block <= in_blocks) {
    const StringIndex name =
        interner.string("Block.solve_" + std::to_string(blocks.size() / paths_per_block));
    for (std::uint32_t i = 0; i < paths_per_block; ++i)
      blocks.push_back(interner.path(landmarks.step,
                                     interner.frame({FrameKind::kPython, false, name, file, 0, 10 + i, 9})));
  }
  // Chooses the number of hot paths so that ranks have paths_per_rank on average.
  const auto expected = [&](double hot) {
    double sum = static_cast<double>(blocks.empty() ? 0 : paths_per_block);
    for (std::size_t i = 0; i < shared.size(); ++i) sum += synth::chance(i, hot);
    return sum;
  };
  double low = 1, high = static_cast<double>(shared.size());
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (expected(middle) < shape.paths_per_rank ? low : high) = middle;
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const double share = synth::chance(i, high);
    chance.push_back(share >= 1 ? UINT64_MAX : static_cast<std::uint64_t>(share * 0x1p64));
    weight.push_back(1 / static_cast<double>(i + 1) + 3e-4);
  }
}

}  // namespace clusterprof::synth
