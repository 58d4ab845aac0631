// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/synthetic_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "formats/wire/mpi_event.h"

namespace clusterprof::synth {
namespace {

using namespace shard;

// SplitMix64: the standard library's distributions differ between implementations, and golden
// files must not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15ull;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9ull;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11ebull;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

constexpr std::uint64_t kElapsed_ns = 60'000'000'000;
constexpr std::uint64_t kPeriod_ns = 10'000'000;  // 100 Hz
constexpr std::int64_t kStart_utc_ns = 1'790'000'000'000'000'000;
constexpr std::uint64_t kIterations = 1200;
constexpr std::uint64_t kHaloBytes = 65536;

// Frames that every rank has.
struct Program {
  std::uint32_t main, step, exchange, isend, waitall, residual, allreduce;
};

Frame python(PathInterner& in, const char* name, const char* file, std::uint32_t line, std::uint32_t start) {
  return {FrameKind::kPython, false, in.string(name), in.string(file), 0, line, start};
}

Program intern_program(PathInterner& in) {
  const char* file = "/home/user/stencil/solve.py";
  const auto mpi = [&](const char* name) {
    return in.frame({FrameKind::kMpi, false, in.string(name), 0, 0, 0, 0});
  };
  const std::uint32_t module = in.path(0, in.frame(python(in, "<module>", file, 97, 1)));
  Program p{};
  p.main = in.path(module, in.frame(python(in, "main", file, 88, 70)));
  p.step = in.path(p.main, in.frame(python(in, "Solver.step", file, 41, 38)));
  p.exchange = in.path(p.step, in.frame(python(in, "Solver.exchange", file, 27, 20)));
  p.isend = in.path(p.exchange, mpi("MPI_Isend"));
  p.waitall = in.path(p.exchange, mpi("MPI_Waitall"));
  p.residual = in.path(p.main, in.frame(python(in, "Solver.residual", file, 58, 52)));
  p.allreduce = in.path(p.residual, mpi("MPI_Allreduce"));
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

Category category_of(const ShardData& data, std::uint32_t path, std::uint64_t salt) {
  if (path == 0) return Category::kNative;
  switch (data.frames[data.paths[path].frame].kind) {
    case FrameKind::kPython:
      return salt % 16 == 0 ? Category::kIo : Category::kPython;
    case FrameKind::kMpi:
      return Category::kMpi;
    case FrameKind::kKernel:
      return Category::kSystem;
    case FrameKind::kNative:
      break;
  }
  return salt % 32 == 0 ? Category::kIdle : Category::kNative;
}

struct Weighted {
  std::uint32_t path;
  double weight;
};

// Shares `total` by weight without losing a nanosecond.
std::vector<std::uint64_t> share(std::uint64_t total, const std::vector<Weighted>& parts) {
  double sum = 0;
  for (const Weighted& part : parts) sum += part.weight;
  std::vector<std::uint64_t> shares;
  std::uint64_t given = 0;
  for (const Weighted& part : parts) {
    shares.push_back(static_cast<std::uint64_t>(static_cast<double>(total) * (part.weight / sum) * 0.999));
    given += shares.back();
  }
  shares.front() += total - given;
  return shares;
}

// For every rank the same on all nodes: what it works, in units of the others' work.
double work_of(const Shape& shape, std::uint32_t rank, Random& random) {
  return rank == slowest_rank(shape) ? 1.5 : 1.0 + 0.02 * random.uniform();
}

Random random_of(const Shape& shape, std::uint32_t rank) {
  return Random(shape.seed * 0x1'0000'0001ull + rank + 1);
}

std::uint32_t world_of(const Shape& shape) { return shape.nodes * shape.ranks_per_node; }

std::uint64_t busy_ns_of(const Shape& shape, std::uint32_t rank) {
  if (world_of(shape) == 1) return kElapsed_ns;
  Random random = random_of(shape, rank);
  return static_cast<std::uint64_t>(static_cast<double>(kElapsed_ns) * 0.95 * work_of(shape, rank, random) /
                                    1.5);
}

// The monotonic clock of a node at a time since the start of the run.
std::uint64_t clock_of(std::uint32_t node, std::uint64_t ns) {
  const std::uint64_t ppm = node % 5 * 10;
  return 1'000'000'000'000 + node * 7'654'321'000ull + ns + ns / 1'000'000 * ppm;
}

class NodeBuilder {
 public:
  NodeBuilder(const Shape& shape, std::uint32_t node)
      : shape_(shape), node_(node), world_(world_of(shape)), iterations_(iterations(shape)) {}

  ShardData build() {
    describe_run();
    program_ = intern_program(interner_);
    shared_ = shared_paths();
    data_.communicators = {{1, world_, "MPI_COMM_WORLD"}};
    data_.counters = {"perf::PAGE-FAULTS"};
    data_.unavailable_counters = {{"PAPI_TOT_INS", "the machine has no hardware counters"}};
    for (std::uint32_t i = 0; i < shape_.ranks_per_node; ++i) add_rank(node_ * shape_.ranks_per_node + i);
    const std::uint64_t halos = 2 * iterations_ * shape_.ranks_per_node;
    data_.mpi_sizes = {{interner_.string("MPI_Isend"), kHaloBytes, world_ > 1 ? halos : 0},
                       {interner_.string("MPI_Allreduce"), 8, iterations_ * shape_.ranks_per_node}};
    return std::move(data_);
  }

 private:
  void describe_run() {
    data_.run.id = "synthetic-" + std::to_string(shape_.seed);
    data_.run.command = {"python3", "solve.py", "--iterations", std::to_string(iterations_)};
    data_.run.start_utc_ns = kStart_utc_ns;
    data_.run.world_size = world_;
    data_.run.rate_hz = 100;
    data_.run.clock = "wall";
    data_.run.version = "synthetic";
    data_.run.mpi_library = "Synthetic MPI 1.0";
    data_.run.complete = true;
    std::string number = std::to_string(node_);
    number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
    data_.nodes = {{"node" + number, kStart_utc_ns + static_cast<std::int64_t>(node_) * 1'000'000,
                    kElapsed_ns, 0, 250'000'000, 48u << 20}};
  }

  // The same on every node: made from the seed alone.
  std::vector<std::uint32_t> shared_paths() {
    Random random(shape_.seed);
    std::vector<std::uint32_t> paths{program_.step, program_.residual, program_.exchange};
    while (paths.size() < shape_.paths) {
      // Below one of the latest paths more often than not: deep rather than flat.
      const std::size_t recent = std::min<std::size_t>(paths.size(), 24);
      const std::size_t parent =
          random.below(3) != 0 ? paths.size() - 1 - random.below(recent) : random.below(paths.size());
      const std::size_t before = data_.paths.size();
      const std::uint32_t path =
          interner_.path(paths[parent], interner_.frame(library_frame(interner_, random)));
      if (data_.paths.size() != before) paths.push_back(path);
    }
    return paths;
  }

  void add_rank(std::uint32_t number) {
    Random random = random_of(shape_, number);
    const auto row = static_cast<std::uint32_t>(data_.ranks.size());
    (void)work_of(shape_, number, random);  // what busy_ns_of has drawn
    const bool mpi = world_ > 1;
    const std::uint64_t busy_ns = busy_ns_of(shape_, number);
    const std::uint64_t mpi_ns = kElapsed_ns - busy_ns;

    std::vector<Weighted> parts;
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      // The hot tenth is everywhere; the rarer a path, the fewer ranks have it.
      const double rarity = static_cast<double>(i) / static_cast<double>(shared_.size());
      if (rarity > 0.1 && random.uniform() > 1.0 - 0.6 * rarity) continue;
      parts.push_back(
          {shared_[i], std::pow(static_cast<double>(i + 1), -1.1) * (0.8 + 0.4 * random.uniform())});
    }
    const std::uint32_t own = std::max(1u, shape_.paths / 50);
    for (std::uint32_t i = 0; i < own; ++i) {
      const Frame frame{FrameKind::kPython,
                        false,
                        interner_.string("Block.solve_" + std::to_string(number)),
                        interner_.string("/home/user/stencil/blocks.py"),
                        0,
                        10 + i,
                        9};
      parts.push_back({interner_.path(program_.step, interner_.frame(frame)),
                       0.02 * random.uniform() / static_cast<double>(own)});
    }
    const std::vector<std::uint64_t> shares = share(busy_ns, parts);

    Rank rank;
    rank.rank = static_cast<std::int32_t>(number);
    rank.pid = 4000 + static_cast<std::int32_t>(row);
    rank.flags =
        kExitStatusKnown | kUsageKnown | kIoKnown | kUsedMpi | kWaitKnown | kFaultsApart | kGarbageApart;
    rank.start_utc_ns = data_.nodes[0].start_utc_ns + row;
    rank.elapsed_ns = kElapsed_ns;
    rank.threads = rank.processes = 1;
    const auto add_value = [&](std::uint32_t path, std::uint64_t ns, bool running) {
      const Category category = category_of(data_, path, path);
      const std::uint64_t samples = ns / kPeriod_ns + (random.below(kPeriod_ns) < ns % kPeriod_ns ? 1 : 0);
      data_.values.push_back({row, path, category, true, ns, running ? ns - ns / 50 : ns / 4, samples});
      rank.main_thread_ns[static_cast<std::size_t>(category)] += ns;
      rank.samples += samples;
      rank.cpu_ns += data_.values.back().cpu_ns;
    };
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (shares[i] != 0) add_value(parts[i].path, shares[i], true);
    if (mpi) {
      std::uint64_t isend_ns = mpi_ns / 100, allreduce_ns = mpi_ns / 10 * 9;
      if (shape_.events != 0) {
        const Iteration iteration = iteration_of(shape_, number);
        isend_ns = iterations_ * 2 * iteration.call;
        allreduce_ns = mpi_ns - isend_ns - iterations_ * (iteration.waitall_exit - iteration.waitall);
        add_events(row, number, iteration);
        rank.mpi_operations = 5 * iterations_;
      }
      const std::uint64_t waitall_ns = mpi_ns - allreduce_ns - isend_ns;
      add_value(program_.allreduce, allreduce_ns, false);
      add_value(program_.waitall, waitall_ns, false);
      add_value(program_.isend, isend_ns, false);
      add_traffic(row, number, {isend_ns, waitall_ns, allreduce_ns});
      rank.mpi_ns = mpi_ns;
      rank.mpi_wait_ns = mpi_ns * 9 / 10;
    }
    rank.system_ns = rank.cpu_ns / 20;
    rank.user_ns = rank.cpu_ns - rank.system_ns;
    rank.max_rss_bytes = (200u << 20) + random.below(1u << 20);
    rank.read_bytes = 5'000'000 + random.below(1000);
    rank.write_bytes = 1'000'000 + random.below(1000);
    rank.minor_faults = 40'000 + random.below(500);
    rank.voluntary_switches = 2 * iterations_;
    rank.involuntary_switches = random.below(100);
    rank.handler_ns = rank.samples * 2000;
    // Three of four samples of a running thread; costs around 2 us, one in sixteen much more.
    rank.running_samples = rank.samples - rank.samples / 4;
    rank.running_ns = rank.running_samples * kPeriod_ns;
    data_.handler_costs.push_back({row, 1722, rank.samples / 2});
    data_.handler_costs.push_back({row, 2048, rank.samples - rank.samples / 2 - rank.samples / 16});
    data_.handler_costs.push_back({row, 8192, rank.samples / 16});
    rank.merges_tried = rank.samples;
    rank.python_version = 0x030b'02f0;
    data_.counter_values.push_back({row, 0, rank.minor_faults});
    data_.path_counters.push_back({row, program_.step, 0, rank.minor_faults / 2});
    data_.path_counters.push_back({row, program_.residual, 0, rank.minor_faults - rank.minor_faults / 2});
    if (random.below(16) == 0) data_.drops.push_back({row, "reentrant", 1 + random.below(3)});
    data_.nodes[0].cpu_ns += rank.cpu_ns;
    data_.ranks.push_back(rank);
  }

  void add_events(std::uint32_t row, std::uint32_t number, const Iteration& iteration) {
    const StringIndex isend = interner_.string("MPI_Isend"), irecv = interner_.string("MPI_Irecv"),
                      allreduce = interner_.string("MPI_Allreduce");
    std::uint64_t mpi_ns = 0;
    for (std::uint64_t i = 0; i < iterations_; ++i) {
      const std::uint64_t begin = i * iteration.end;
      const auto clock = [&](std::uint64_t ns) { return clock_of(node_, begin + ns); };
      const auto add = [&](wire::MpiEventKind kind, std::uint32_t path, StringIndex op, std::uint32_t peer,
                           std::uint64_t enter, std::uint64_t exit, std::uint64_t start) -> MpiEvent& {
        const bool collective = kind == wire::MpiEventKind::kCollective;
        MpiEvent& event = data_.mpi_events.emplace_back();
        event.rank = row;
        event.path = path;
        event.communicator = 0;
        event.op = op;
        event.kind = static_cast<std::uint8_t>(kind);
        if (kind == wire::MpiEventKind::kSend || kind == wire::MpiEventKind::kReceive)
          event.flags = wire::kEventNonblocking;
        event.peer = collective ? -1 : static_cast<std::int32_t>(peer);
        event.sequence = static_cast<std::uint32_t>(i);
        event.enter_ns = clock(enter);
        event.exit_ns = clock(exit);
        event.start_ns = clock(start);
        event.mpi_ns = mpi_ns;
        event.tag = collective ? static_cast<std::int32_t>(number) : 0;
        event.bytes = collective ? 0 : kHaloBytes;
        return event;
      };
      const auto call_done = [&] {
        mpi_ns += data_.mpi_events.back().exit_ns - data_.mpi_events.back().enter_ns;
      };
      const auto gap = [&](std::uint32_t path, std::uint64_t ns) {
        data_.event_gaps.push_back({static_cast<std::uint32_t>(data_.mpi_events.size()), path, ns});
      };
      using enum wire::MpiEventKind;
      // What goes up the ring has tag 0, what goes down has tag 1.
      const std::array<std::uint32_t, 2> peers = {(number + 1) % world_, (number + world_ - 1) % world_};
      gap(program_.step, iteration.isend);
      for (std::uint32_t way = 0; way < 2; ++way) {
        const std::uint64_t enter = iteration.isend + way * iteration.call;
        add(kSend, program_.isend, isend, peers[way], enter, enter + iteration.call, enter).tag =
            static_cast<std::int32_t>(way);
        call_done();
      }
      for (std::uint32_t way = 0; way < 2; ++way) {
        add(kSendDone, program_.waitall, isend, peers[way], iteration.waitall, iteration.waitall_exit,
            iteration.isend + way * iteration.call)
            .tag = static_cast<std::int32_t>(way);
        add(kReceive, program_.waitall, irecv, peers[1 - way], iteration.waitall, iteration.waitall_exit,
            iteration.isend)
            .tag = static_cast<std::int32_t>(way);
      }
      call_done();
      gap(program_.residual, iteration.allreduce - iteration.waitall_exit);
      add(kCollective, program_.allreduce, allreduce, 0, iteration.allreduce, iteration.end,
          iteration.allreduce);
      call_done();
    }
    for (const std::uint64_t ns : {std::uint64_t{0}, kElapsed_ns}) {
      const std::uint64_t here = clock_of(node_, ns);
      data_.clock_offsets.push_back(
          {row, 0, here, static_cast<std::int64_t>(clock_of(0, ns)) - static_cast<std::int64_t>(here),
           node_ == 0 ? 0 : kClockError_ns});
    }
  }

  void add_traffic(std::uint32_t row, std::uint32_t number, const std::array<std::uint64_t, 3>& ns) {
    const auto call = [&](std::uint32_t path, std::uint32_t communicator, std::uint64_t count,
                          std::uint64_t time, std::uint64_t sent, std::uint64_t received) {
      data_.mpi_calls.push_back(
          {row, path, communicator, count, time, time / count / 2, time / count * 3, sent, received});
    };
    const std::uint64_t halo = 2 * iterations_ * kHaloBytes;
    call(program_.isend, 0, 2 * iterations_, ns[0], halo, 0);
    call(program_.waitall, kNone, iterations_, ns[1], 0, halo);
    call(program_.allreduce, 0, iterations_, ns[2], 8 * iterations_, 8 * iterations_);
    std::map<std::uint32_t, std::uint64_t> messages;
    messages[(number + 1) % world_] += iterations_;
    messages[(number + world_ - 1) % world_] += iterations_;
    for (const auto& [peer, count] : messages)
      data_.matrix.push_back(
          {static_cast<std::int32_t>(number), static_cast<std::int32_t>(peer), count, count * kHaloBytes});
  }

  Shape shape_;
  std::uint32_t node_, world_;
  std::uint64_t iterations_;
  ShardData data_;
  PathInterner interner_{data_};
  Program program_{};
  std::vector<std::uint32_t> shared_;
};

}  // namespace

std::uint32_t slowest_rank(const Shape& shape) {
  return static_cast<std::uint32_t>(shape.seed % (std::uint64_t{shape.nodes} * shape.ranks_per_node));
}

std::uint64_t iterations(const Shape& shape) {
  return shape.events == 0 ? kIterations : std::max(1u, shape.events / kEventsPerIteration);
}

Iteration iteration_of(const Shape& shape, std::uint32_t rank) {
  const std::uint32_t world = world_of(shape);
  const std::uint64_t count = iterations(shape);
  Iteration iteration;
  iteration.end = kElapsed_ns / count;
  iteration.call = std::min<std::uint64_t>(1000, iteration.end / 100);
  // Nine tenths of the work come before the exchange.
  const auto isend_of = [&](std::uint32_t other) { return busy_ns_of(shape, other) / count / 10 * 9; };
  iteration.isend = isend_of(rank);
  iteration.waitall = iteration.isend + 2 * iteration.call;
  const std::uint64_t last_send =
      std::max(isend_of((rank + 1) % world) + iteration.call, isend_of((rank + world - 1) % world));
  iteration.waitall_exit = std::max(iteration.waitall, last_send + iteration.call) + iteration.call;
  iteration.allreduce = iteration.waitall_exit + busy_ns_of(shape, rank) / count - iteration.isend;
  return iteration;
}

ShardData shard_of_node(const Shape& shape, std::uint32_t node) { return NodeBuilder(shape, node).build(); }

}  // namespace clusterprof::synth
