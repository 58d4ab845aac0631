// SPDX-License-Identifier: BSD-3-Clause
// Builds shards of an imaginary stencil program with known imbalance and waiting (header). Tests compare
// reports with what it knows; benchmarks use its size.
#include "formats/synth/synthetic_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/shard/path_times.hpp"
#include "formats/synth/random.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::synth {
namespace {

using namespace shard;

constexpr std::uint64_t kElapsed_ns = 60'000'000'000;
constexpr std::uint64_t kPeriod_ns = 10'000'000;  // 100 Hz
constexpr std::int64_t kStart_utc_ns = 1'790'000'000'000'000'000;
constexpr std::uint64_t kIterations = 1200;
constexpr std::uint64_t kHaloBytes = 65536;
constexpr std::uint64_t kCheckpoints = 10;
constexpr std::uint64_t kCyclesPerNs = 3;

// Frames that every rank has.
struct Landmarks {
  std::uint32_t setup, iteration, exchange_region;  // regions
  std::uint32_t step, exchange, isend, waitall, residual, allreduce;
  std::uint32_t load, save, sync;           // callers of I/O
  std::uint32_t reading, writing, syncing;  // where samples find it
};

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

Category category_of(const ShardData& data, std::uint32_t path, std::uint64_t salt) {
  if (path == 0) return Category::kNative;
  switch (data.frames[data.paths[path].frame].kind) {
    case FrameKind::kPython:
      return Category::kPython;
    case FrameKind::kMpi:
      return Category::kMpi;
    case FrameKind::kKernel:
      return Category::kIo;
    case FrameKind::kNative:
    case FrameKind::kRegion:
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

// When a rank uses files: it reads at its start, then writes at the end of every tenth of its time.
struct FileTimes {
  std::uint64_t read_ns = 0, write_ns = 0, sync_ns = 0;
  [[nodiscard]] std::uint64_t total_ns() const { return read_ns + write_ns + sync_ns; }
  // Until `now` since the start.
  [[nodiscard]] std::uint64_t reading(std::uint64_t now) const { return std::min(now, read_ns); }
  [[nodiscard]] std::uint64_t writing(std::uint64_t now) const {
    constexpr std::uint64_t kTenth_ns = kElapsed_ns / kCheckpoints;
    const std::uint64_t burst = (write_ns + sync_ns) / kCheckpoints, rest = now % kTenth_ns;
    return now / kTenth_ns * burst + (rest > kTenth_ns - burst ? rest - (kTenth_ns - burst) : 0);
  }
};

FileTimes file_times(std::uint64_t busy_ns) {
  FileTimes times;
  times.read_ns = busy_ns / 200;
  times.write_ns = busy_ns / 80 / kCheckpoints * kCheckpoints;
  times.sync_ns = busy_ns / 160 / kCheckpoints * kCheckpoints;
  return times;
}

// What of a total falls into the part of a whole.
std::uint64_t portion(std::uint64_t total, std::uint64_t part, std::uint64_t whole) {
  return static_cast<std::uint64_t>(static_cast<double>(total) *
                                    (static_cast<double>(part) / static_cast<double>(whole)));
}

constexpr std::array<const char*, 4> kCounters = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM",
                                                  "PAPI_BR_MSP"};

// The series, in the order of their rows.
enum SeriesRow : std::uint32_t {
  kCpuUser = kCategories,
  kCpuSystem,
  kMinorFaults,
  kVoluntarySwitches,
  kInvoluntarySwitches,
  kResident,
  kReadBytes,
  kWriteBytes,
  kFirstCounter,
};
// Those of nodes come behind the counters'.
enum NodeSeriesRow : std::uint32_t {
  kCpuBusy = 0,
  kMemoryUsed,
  kNetworkReceived,
  kNetworkSent,
  kDiskRead,
  kDiskWritten,
  kNodeSeries,
};

// One rank in (i / hot)^kRarity has the i-th path, but for the hot ones, which all have.
constexpr double kRarity = 1.5;

// How often a rank has the i-th of `count` call paths when `hot` of them are everywhere.
double chance(std::size_t i, double hot) {
  const double place = static_cast<double>(i + 1) / hot;
  return place <= 1 ? 1 : std::pow(place, -kRarity);
}

}  // namespace

// The call paths of the program, as tables that every node's begin with, and what is known of each path.
struct SyntheticRun::Program {
  explicit Program(const Shape& shape);

  ShardData tables;  // strings, frames and paths alone
  Landmarks landmarks{};
  std::vector<std::uint32_t> shared;  // the hottest first
  // With Shape::paths_per_rank alone:
  std::vector<std::uint64_t> chance;  // of a rank to have the path: of 2^64, by index into `shared`
  std::vector<double> weight;         // of its time, likewise
  std::vector<std::uint32_t> blocks;  // paths of parts of the grid, `paths_per_block` of each
  std::size_t paths_per_block = 0;
};

SyntheticRun::Program::Program(const Shape& shape) {
  PathInterner interner(tables);
  landmarks = intern_landmarks(interner);
  shared = {landmarks.step, landmarks.residual, landmarks.exchange};
  const std::uint32_t in_blocks = shape.paths_per_rank == 0 ? 0 : shape.paths / 10;
  Random random(shape.seed);
  while (shared.size() < shape.paths - in_blocks) {
    // Below one of the latest paths more often than not: deep rather than flat.
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
  // As many hot ones as make the ranks have paths_per_rank on average.
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

namespace {

class NodeBuilder {
 public:
  NodeBuilder(const Shape& shape, const SyntheticRun::Program& program, std::uint32_t node)
      : shape_(shape),
        source_(program),
        node_(node),
        world_(world_of(shape)),
        iterations_(iterations(shape)),
        data_(program.tables),
        program_(program.landmarks) {}

  ShardData build() {
    describe_run();
    data_.communicators = {{1, world_, "MPI_COMM_WORLD"}};
    data_.counters.assign(kCounters.begin(), kCounters.begin() + shape_.counters);
    data_.unavailable_counters = {{"PAPI_DP_OPS", "the processor does not count it"}};
    if (shape_.bins != 0) describe_series();
    for (std::uint32_t i = 0; i < shape_.ranks_per_node; ++i) add_rank(node_ * shape_.ranks_per_node + i);
    const std::uint64_t halos = 2 * iterations_ * shape_.ranks_per_node;
    data_.mpi_sizes = {{interner_.string("MPI_Isend"), kHaloBytes, world_ > 1 ? halos : 0},
                       {interner_.string("MPI_Allreduce"), 8, iterations_ * shape_.ranks_per_node}};
    if (shape_.bins != 0) add_node_series();
    if (shape_.bins != 0) add_path_series();
    if (shape_.paths_per_rank != 0) leave_out_unused();
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
    Node node;
    node.name = "node" + number;
    node.start_utc_ns = kStart_utc_ns + static_cast<std::int64_t>(node_) * 1'000'000;
    node.elapsed_ns = kElapsed_ns;
    node.collector_cpu_ns = 250'000'000;
    node.collector_max_rss_bytes = 48u << 20;
    node.cpus = shape_.ranks_per_node;
    node.numa_nodes = shape_.ranks_per_node > 1 ? 2 : 1;
    node.memory_bytes = std::uint64_t{256} << 30;
    node.cache_bytes = 32u << 20;
    node.cpu_model = "Synthetic CPU @ 3.00GHz";
    data_.nodes = {node};
  }

  void describe_series() {
    const auto add = [&](std::string_view name, SeriesKind kind = SeriesKind::kSum) {
      data_.series.push_back({interner_.string(name), kind});
    };
    for (const char* category : kCategoryNames) add(std::string(category) + "_ns");
    for (const char* name :
         {"cpu_user_ns", "cpu_system_ns", "minor_faults", "voluntary_switches", "involuntary_switches"})
      add(name);
    add("rss_bytes", SeriesKind::kMaximum);
    add("read_bytes");
    add("write_bytes");
    for (const std::string& name : data_.counters) add(name);
    first_node_series_ = static_cast<std::uint32_t>(data_.series.size());
    add("cpu_busy_ns");
    add("memory_used_bytes", SeriesKind::kMaximum);
    for (const char* name :
         {"network_received_bytes", "network_sent_bytes", "disk_read_bytes", "disk_written_bytes"})
      add(name);

    data_.time_axis = axis_of(shape_.bins);
    bins_ = bins_of(data_.time_axis);
  }

  // Of the node's time.
  [[nodiscard]] std::uint64_t start_ns() const {
    return static_cast<std::uint64_t>(data_.nodes[0].start_utc_ns);
  }
  [[nodiscard]] std::uint32_t bins_of(const TimeAxis& axis) const {
    const std::uint64_t end_ns = start_ns() + shape_.ranks_per_node + kElapsed_ns;
    return static_cast<std::uint32_t>((end_ns - 1) / axis.bin_ns - start_ns() / axis.bin_ns + 1);
  }
  [[nodiscard]] TimeAxis axis_of(std::uint32_t most_bins) const {
    TimeAxis axis{TimeAxis::kFirstBin_ns, 0};
    while (bins_of(axis) > most_bins && axis.bin_ns < TimeAxis::kWidestBin_ns) axis.bin_ns *= 2;
    axis.origin_utc_ns = static_cast<std::int64_t>(start_ns() / axis.bin_ns * axis.bin_ns);
    return axis;
  }

  // What the rank spends its time on, by path, and how much of it.
  std::vector<Weighted> parts_of(std::uint32_t number, Random& random) {
    std::vector<Weighted> parts;
    const std::vector<std::uint32_t>& shared = source_.shared;
    if (shape_.paths_per_rank != 0) {
      const auto add = [&](std::size_t i) {
        parts.push_back({shared[i], source_.weight[i] * (0.8 + 0.4 * random.uniform())});
      };
      const std::size_t blocks = source_.blocks.size() / source_.paths_per_block;
      const std::size_t of_blocks = blocks == 0 ? 0 : source_.paths_per_block;
      std::vector<std::size_t> passed;
      for (std::size_t i = 0; i < shared.size(); ++i) {
        if (source_.chance[i] == UINT64_MAX || random.next() < source_.chance[i])
          add(i);
        else if (parts.size() + passed.size() + of_blocks < shape_.paths_per_rank)
          passed.push_back(i);
      }
      for (const std::size_t i : passed) {
        if (parts.size() + of_blocks >= shape_.paths_per_rank) break;
        add(i);
      }
      for (std::size_t i = 0; i < of_blocks; ++i)
        parts.push_back({source_.blocks[number % blocks * of_blocks + i], 1e-3 * (0.1 + random.uniform())});
      std::sort(parts.begin(), parts.end(),
                [](const Weighted& a, const Weighted& b) { return a.path < b.path; });
      return parts;
    }
    for (std::size_t i = 0; i < shared.size(); ++i) {
      // The hot tenth is everywhere; the rarer a path, the fewer ranks have it.
      const double rarity = static_cast<double>(i) / static_cast<double>(shared.size());
      if (rarity > 0.1 && random.uniform() > 1.0 - 0.6 * rarity) continue;
      parts.push_back(
          {shared[i], std::pow(static_cast<double>(i + 1), -1.1) * (0.8 + 0.4 * random.uniform())});
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
    return parts;
  }

  struct MpiTimes {
    std::uint64_t isend_ns = 0, waitall_ns = 0, allreduce_ns = 0;
  };
  [[nodiscard]] MpiTimes times_of_calls(std::uint32_t number, std::uint64_t mpi_ns) const {
    MpiTimes times{mpi_ns / 100, 0, mpi_ns / 10 * 9};
    if (shape_.events != 0) {
      const Iteration iteration = iteration_of(shape_, number);
      times.isend_ns = iterations_ * 2 * iteration.call;
      times.allreduce_ns =
          mpi_ns - times.isend_ns - iterations_ * (iteration.waitall_exit - iteration.waitall);
    }
    times.waitall_ns = mpi_ns - times.isend_ns - times.allreduce_ns;
    return times;
  }

  void add_rank(std::uint32_t number) {
    Random random = random_of(shape_, number);
    const auto row = static_cast<std::uint32_t>(data_.ranks.size());
    (void)work_of(shape_, number, random);  // what busy_ns_of has drawn
    const bool mpi = world_ > 1;
    const std::uint64_t busy_ns = busy_ns_of(shape_, number);
    const std::uint64_t mpi_ns = kElapsed_ns - busy_ns;
    const FileTimes files = file_times(busy_ns);

    const std::vector<Weighted> parts = parts_of(number, random);
    // Samples are not exact: MPI_Isend is too short to be found, and of MPI_Waitall they find three quarters.
    MpiTimes mpi_times;
    if (mpi) mpi_times = times_of_calls(number, mpi_ns);
    const std::uint64_t unseen_ns = mpi_times.isend_ns + mpi_times.waitall_ns / 4;
    const std::vector<std::uint64_t> shares = share(busy_ns - files.total_ns() + unseen_ns, parts);

    Rank rank;
    rank.rank = static_cast<std::int32_t>(number);
    rank.pid = 4000 + static_cast<std::int32_t>(row);
    rank.flags = kRunDelayKnown | kExitStatusKnown | kUsageKnown | kIoKnown | kUsedMpi | kWaitKnown |
                 kFaultsApart | kGarbageApart | kFilesKnown;
    rank.affinity = interner_.string(std::to_string(row));
    rank.numa_nodes = interner_.string(row < (shape_.ranks_per_node + 1) / 2 ? "0" : "1");
    rank.start_utc_ns = data_.nodes[0].start_utc_ns + row;
    rank.elapsed_ns = kElapsed_ns;
    rank.threads = rank.processes = 1;
    const auto add_value = [&](std::uint32_t path, std::uint64_t ns, bool running) {
      const Category category = category_of(data_, path, path);
      std::uint64_t samples = ns / kPeriod_ns + (random.below(kPeriod_ns) < ns % kPeriod_ns ? 1 : 0);
      std::uint64_t cpu_ns = running ? ns - ns / 50 : ns / 4;
      // One clock does not follow from the other, and a sample found the path.
      if (shape_.paths_per_rank != 0) {
        samples = std::max<std::uint64_t>(samples, 1);
        cpu_ns -= random.below(cpu_ns / 16 + 1);
      }
      data_.values.push_back({row, path, category, true, ns, cpu_ns, samples});
      rank.main_thread_ns[static_cast<std::size_t>(category)] += ns;
      rank.samples += samples;
      rank.cpu_ns += data_.values.back().cpu_ns;
    };
    const std::size_t first_value = data_.values.size();
    bool waits = true;  // for a processor, where it computes first
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (shares[i] == 0) continue;
      const std::uint64_t runnable_ns = std::exchange(waits, false) ? shares[i] / 50 : 0;
      add_value(parts[i].path, shares[i] - runnable_ns, true);
      if (runnable_ns == 0) continue;
      data_.values.push_back({row, parts[i].path, Category::kRunnable, true, runnable_ns, 0, 0});
      rank.main_thread_ns[static_cast<std::size_t>(Category::kRunnable)] += runnable_ns;
    }
    add_value(program_.reading, files.read_ns, false);
    add_value(program_.writing, files.write_ns, false);
    add_value(program_.syncing, files.sync_ns, false);
    if (mpi) {
      if (shape_.events != 0) {
        add_events(row, number, iteration_of(shape_, number));
        rank.mpi_operations = 5 * iterations_;
      }
      add_value(program_.allreduce, mpi_times.allreduce_ns, false);
      add_value(program_.waitall, mpi_times.waitall_ns - mpi_times.waitall_ns / 4, false);
      add_traffic(row, number, mpi_times);
      rank.mpi_ns = mpi_ns;
      rank.mpi_wait_ns = mpi_ns * 9 / 10;
      rank.mpi_runnable_ns = mpi_ns / 100;
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
    if (shape_.paths_per_rank != 0)
      std::sort(data_.values.begin() + static_cast<std::ptrdiff_t>(first_value), data_.values.end(),
                [](const Value& a, const Value& b) { return a.path < b.path; });
    const std::span<const Value> values(data_.values.begin() + static_cast<std::ptrdiff_t>(first_value),
                                        data_.values.end());
    const Counts counts = add_counters(values, row);
    add_data_accesses(values, row, random);
    add_files(row, rank, files);
    add_regions(values, row);
    if (shape_.bins != 0) add_series(row, rank, files, counts);
    if (random.below(16) == 0) data_.drops.push_back({row, "reentrant", 1 + random.below(3)});
    data_.nodes[0].cpu_ns += rank.cpu_ns;
    data_.ranks.push_back(rank);
  }

  using Counts = std::array<std::uint64_t, kCounters.size()>;

  // What a processor would have counted: how well it does depends on the call path alone.
  Counts add_counters(std::span<const Value> values, std::uint32_t row) {
    Counts totals{};
    for (const Value& value : values) {
      if (value.samples == 0) continue;
      const std::uint64_t salt = data_.paths[value.path].id.low;
      const std::uint64_t cycles = value.cpu_ns * kCyclesPerNs;
      const std::uint64_t instructions = cycles * (40 + salt % 200) / 100;
      const Counts counts = {cycles, instructions, instructions * (salt / 256 % 20) / 1000,
                             instructions * (salt / 65536 % 8) / 1000};
      for (std::uint32_t i = 0; i < shape_.counters; ++i) {
        if (counts[i] == 0) continue;
        data_.path_counters.push_back({row, value.path, i, counts[i]});
        totals[i] += counts[i];
      }
    }
    for (std::uint32_t i = 0; i < shape_.counters; ++i) data_.counter_values.push_back({row, i, totals[i]});
    return totals;
  }

  // Working sets of 2 MiB to 512 MiB, again by call path.
  void add_data_accesses(std::span<const Value> values, std::uint32_t row, Random& random) {
    for (const Value& value : values) {
      if (value.category != Category::kNative || value.samples == 0) continue;
      DataAccess access{row, value.path, value.samples, value.samples * 2 / 5, {}};
      if (shape_.paths_per_rank != 0 && access.accesses == 0) continue;
      const std::uint64_t blocks = 8u << data_.paths[value.path].id.low % 9;
      for (std::uint64_t i = 0; i < access.accesses; ++i) {
        const std::uint64_t bit = Random(random.below(blocks)).next() % 256;
        access.blocks[bit / 64] |= std::uint64_t{1} << bit % 64;
      }
      data_.data_accesses.push_back(access);
    }
  }

  // One input for all, a checkpoint file for each.
  void add_files(std::uint32_t row, const Rank& rank, const FileTimes& times) {
    if (data_.io_files.empty()) data_.io_files.push_back({"/data/stencil/input.h5", "lustre /data"});
    const auto own = static_cast<std::uint32_t>(data_.io_files.size());
    data_.io_files.push_back({"/scratch/stencil/checkpoint." + std::to_string(rank.rank), "lustre /scratch"});
    // Of a time, a hundredth goes to each of the calls beside reading and writing.
    const auto call = [&](std::uint32_t path, std::uint32_t file, IoOperation operation, std::uint64_t count,
                          std::uint64_t failed, std::uint64_t bytes, std::uint64_t time_ns) {
      data_.io_calls.push_back({row, path, file, operation, count, failed, bytes, time_ns,
                                count == 1 ? time_ns : time_ns / count * 3 / 2});
    };
    const std::uint64_t read_part = times.read_ns / 100, write_part = times.write_ns / 100;
    call(program_.load, 0, IoOperation::kMetadata, 2, 1, 0, read_part);
    call(program_.load, 0, IoOperation::kOpen, 1, 0, 0, read_part);
    call(program_.load, 0, IoOperation::kRead, rank.read_bytes / 65536 + 1, 0, rank.read_bytes,
         times.read_ns - 3 * read_part);
    call(program_.load, 0, IoOperation::kClose, 1, 0, 0, read_part);
    call(program_.save, own, IoOperation::kOpen, kCheckpoints, 0, 0, write_part);
    call(program_.save, own, IoOperation::kWrite, 2 * kCheckpoints, 0, rank.write_bytes,
         times.write_ns - 2 * write_part);
    call(program_.save, own, IoOperation::kClose, kCheckpoints, 0, 0, write_part);
    call(program_.sync, own, IoOperation::kSync, kCheckpoints, 0, 0, times.sync_ns);
  }

  void add_regions(std::span<const Value> values, std::uint32_t row) {
    std::map<std::uint32_t, std::uint64_t> time_ns;  // by region
    for (const Value& value : values) {
      const std::array<std::uint32_t, 2>& regions = regions_of(value.path);
      for (const std::uint32_t region : regions)
        if (region != 0) time_ns[region] += value.wall_ns;
    }
    for (const auto& [path, ns] : time_ns) {
      const std::uint64_t count = path == program_.setup ? 1 : iterations_;
      const bool one = count == 1;
      data_.region_times.push_back({row, path, count, ns, one ? ns : ns / count / 10 * 9,
                                    one ? ns : ns / count * 2,
                                    path == program_.iteration ? static_cast<std::int64_t>(count / 2) : -1});
    }
  }

  // The regions around a path, at most two; 0 none.
  const std::array<std::uint32_t, 2>& regions_of(std::uint32_t path) {
    for (std::size_t i = regions_.size(); i <= path; ++i) {  // parents come first
      regions_.push_back(i == 0 ? std::array<std::uint32_t, 2>{} : regions_[data_.paths[i].parent]);
      if (i != 0 && data_.frames[data_.paths[i].frame].kind == FrameKind::kRegion)
        regions_.back()[regions_.back()[0] == 0 ? 0 : 1] = static_cast<std::uint32_t>(i);
    }
    return regions_[path];
  }

  // Everything evenly but for what has to do with files. Sums are those of the rank.
  void add_series(std::uint32_t row, const Rank& rank, const FileTimes& files, const Counts& counts) {
    const std::uint64_t skew = static_cast<std::uint64_t>(rank.start_utc_ns - data_.time_axis.origin_utc_ns);
    const std::uint64_t elsewhere_ns = kElapsed_ns - files.total_ns();
    // The rank's time at the end of a bin, and what it had spent outside files by then.
    const auto now = [&](std::uint32_t bin) {
      const std::uint64_t end = (bin + std::uint64_t{1}) * data_.time_axis.bin_ns;
      return std::min(kElapsed_ns, end > skew ? end - skew : 0);
    };
    const auto elsewhere = [&](std::uint64_t ns) { return ns - files.reading(ns) - files.writing(ns); };
    const auto add = [&](std::uint32_t series, auto until) {
      std::uint64_t before = 0;
      for (std::uint32_t bin = 0; bin < bins_; ++bin) {
        const std::uint64_t sum = until(now(bin));
        if (sum != before) data_.rank_series.push_back({row, series, bin, sum - before});
        before = sum;
      }
    };
    const auto spread = [&](std::uint32_t series, std::uint64_t total) {
      add(series, [&](std::uint64_t ns) { return portion(total, elsewhere(ns), elsewhere_ns); });
    };
    for (std::uint32_t i = 0; i < kCategories; ++i) {
      if (i == static_cast<std::uint32_t>(Category::kIo))
        add(i, [&](std::uint64_t ns) { return files.reading(ns) + files.writing(ns); });
      else
        spread(i, rank.main_thread_ns[i]);
    }
    spread(kCpuUser, rank.user_ns);
    spread(kCpuSystem, rank.system_ns);
    spread(kMinorFaults, rank.minor_faults);
    spread(kVoluntarySwitches, rank.voluntary_switches);
    spread(kInvoluntarySwitches, rank.involuntary_switches);
    for (std::uint32_t bin = 0; bin < bins_; ++bin)
      data_.rank_series.push_back(
          {row, kResident, bin,
           rank.max_rss_bytes / 2 +
               portion(rank.max_rss_bytes - rank.max_rss_bytes / 2, now(bin), kElapsed_ns)});
    add(kReadBytes,
        [&](std::uint64_t ns) { return portion(rank.read_bytes, files.reading(ns), files.read_ns); });
    add(kWriteBytes, [&](std::uint64_t ns) {
      return portion(rank.write_bytes, files.writing(ns), files.write_ns + files.sync_ns);
    });
    for (std::uint32_t i = 0; i < shape_.counters; ++i) spread(kFirstCounter + i, counts[i]);
  }

  // The processors and files of its ranks; messages of those at its ends.
  void add_node_series() {
    std::array<std::vector<std::uint64_t>, kNodeSeries> sums;
    for (std::vector<std::uint64_t>& sum : sums) sum.assign(bins_, 0);
    for (const RankSeries& value : data_.rank_series) {
      const auto add = [&](std::uint32_t series) { sums[series][value.bin] += value.value; };
      if (value.series == kCpuUser || value.series == kCpuSystem) add(kCpuBusy);
      if (value.series == kResident) add(kMemoryUsed);
      if (value.series == kReadBytes) add(kDiskRead);
      if (value.series == kWriteBytes) add(kDiskWritten);
    }
    for (std::uint32_t bin = 0; bin < bins_; ++bin) {
      sums[kMemoryUsed][bin] += std::uint64_t{8} << 30;
      if (shape_.nodes < 2) continue;
      const std::uint64_t bytes = 2 * iterations_ * kHaloBytes;
      const std::uint64_t share = portion(bytes, bin + 1, bins_) - portion(bytes, bin, bins_);
      sums[kNetworkReceived][bin] = sums[kNetworkSent][bin] = share;
    }
    for (std::uint32_t i = 0; i < sums.size(); ++i)
      for (std::uint32_t bin = 0; bin < bins_; ++bin)
        if (sums[i][bin] != 0) data_.node_series.push_back({0, first_node_series_ + i, bin, sums[i][bin]});
  }

  // The solver's own paths all the time, of the others one in three in the first half alone and one in three
  // in the second; files when they are used.
  void add_path_series() {
    data_.path_axis = axis_of(std::min(shape_.bins, kMostPathBins));
    const std::uint32_t bins = bins_of(data_.path_axis);
    std::vector<std::uint64_t> time_ns(data_.paths.size());
    for (const Value& value : data_.values) time_ns[value.path] += value.wall_ns;
    PathTimeTable table(data_.paths.size());
    const FileTimes files = file_times(kElapsed_ns);
    for (std::uint32_t path = 0; path < time_ns.size(); ++path) {
      if (time_ns[path] == 0) continue;
      const std::uint64_t phase = data_.paths[path].id.low % 3;
      // How much of its time is over by then.
      const auto passed = [&](std::uint64_t now) {
        if (path == program_.reading) return portion(time_ns[path], files.reading(now), files.read_ns);
        if (path == program_.writing || path == program_.syncing)
          return portion(time_ns[path], files.writing(now), files.write_ns + files.sync_ns);
        if (path <= program_.syncing || phase == 0) return portion(time_ns[path], now, kElapsed_ns);
        constexpr std::uint64_t kHalf_ns = kElapsed_ns / 2;
        if (phase == 1) return portion(time_ns[path], std::min(now, kHalf_ns), kHalf_ns);
        return portion(time_ns[path], std::max(now, kHalf_ns) - kHalf_ns, kHalf_ns);
      };
      const std::uint64_t skew_ns = start_ns() - static_cast<std::uint64_t>(data_.path_axis.origin_utc_ns);
      Random random(shape_.seed ^ data_.paths[path].id.low ^ node_);
      std::uint64_t even = 0, before = 0;
      for (std::uint32_t bin = 0; bin < bins; ++bin) {
        const std::uint64_t end_ns = (bin + std::uint64_t{1}) * data_.path_axis.bin_ns;
        const std::uint64_t now = std::min(kElapsed_ns, end_ns > skew_ns ? end_ns - skew_ns : 0);
        const std::uint64_t amount = (bin + 1 == bins ? time_ns[path] : passed(now)) - even;
        even += amount;
        // Real ones are not that even.
        const std::uint64_t until = bin + 1 == bins ? even : even - random.below(amount / 4 + 1);
        if (until != before) table.add(path, bin, until - before);
        before = until;
      }
    }
    data_.path_series = table.rows(data_.paths, most_path_series_rows(shape_.ranks_per_node));
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

  void add_traffic(std::uint32_t row, std::uint32_t number, const MpiTimes& times) {
    const auto call = [&](std::uint32_t path, std::uint32_t communicator, std::uint64_t count,
                          std::uint64_t time, std::uint64_t sent, std::uint64_t received) {
      data_.mpi_calls.push_back(
          {row, path, communicator, count, time, time / count / 2, time / count * 3, sent, received});
    };
    const std::uint64_t halo = 2 * iterations_ * kHaloBytes;
    call(program_.isend, 0, 2 * iterations_, times.isend_ns, halo, 0);
    call(program_.waitall, kNone, iterations_, times.waitall_ns, 0, halo);
    call(program_.allreduce, 0, iterations_, times.allreduce_ns, 8 * iterations_, 8 * iterations_);
    std::map<std::uint32_t, std::uint64_t> messages;
    messages[(number + 1) % world_] += iterations_;
    messages[(number + world_ - 1) % world_] += iterations_;
    for (const auto& [peer, count] : messages)
      data_.matrix.push_back(
          {static_cast<std::int32_t>(number), static_cast<std::int32_t>(peer), count, count * kHaloBytes});
  }

  // A collector knows of its own ranks' call paths alone.
  void leave_out_unused() {
    std::vector<bool> path_used(data_.paths.size()), frame_used(data_.frames.size()),
        string_used(data_.strings.size());
    const auto mark_paths = [&](const auto&... tables) {
      const auto mark = [&](const auto& rows) {
        for (const auto& row : rows) path_used[row.path] = true;
      };
      (mark(tables), ...);
    };
    mark_paths(data_.values, data_.path_counters, data_.data_accesses, data_.mpi_calls, data_.io_calls,
               data_.region_times, data_.mpi_events, data_.event_gaps, data_.path_series);
    path_used[0] = string_used[0] = true;
    for (std::size_t i = data_.paths.size(); --i != 0;)
      if (path_used[i]) {
        path_used[data_.paths[i].parent] = true;
        frame_used[data_.paths[i].frame] = true;
      }
    // Every index that refers to a string, but for those of frames.
    const auto each_string = [&](auto&& use) {
      for (Rank& rank : data_.ranks)
        for (const auto text : shard::kRankTexts) use(rank.*text);
      for (Series& series : data_.series) use(series.name);
      for (MpiSize& size : data_.mpi_sizes) use(size.op);
      for (MpiEvent& event : data_.mpi_events) use(event.op);
    };
    for (std::size_t i = 0; i < data_.frames.size(); ++i)
      if (frame_used[i])
        for (const StringIndex text : {data_.frames[i].name, data_.frames[i].file, data_.frames[i].module})
          string_used[text] = true;
    each_string([&](const StringIndex& text) { string_used[text] = true; });

    // Moves the used rows together; says where each went.
    const auto compact = [](auto& rows, const std::vector<bool>& used) {
      std::vector<std::uint32_t> now(rows.size());
      std::uint32_t kept = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!used[i]) continue;
        if (kept != i) rows[kept] = std::move(rows[i]);
        now[i] = kept++;
      }
      rows.resize(kept);
      return now;
    };
    const std::vector<std::uint32_t> string_now = compact(data_.strings, string_used);
    const std::vector<std::uint32_t> frame_now = compact(data_.frames, frame_used);
    const std::vector<std::uint32_t> path_now = compact(data_.paths, path_used);
    each_string([&](StringIndex& text) { text = string_now[text]; });
    for (Frame& frame : data_.frames)
      for (StringIndex* text : {&frame.name, &frame.file, &frame.module}) *text = string_now[*text];
    for (std::size_t i = 1; i < data_.paths.size(); ++i) {
      data_.paths[i].parent = path_now[data_.paths[i].parent];
      data_.paths[i].frame = frame_now[data_.paths[i].frame];
    }
    const auto renumber = [&](auto&... tables) {
      const auto one = [&](auto& rows) {
        for (auto& row : rows) row.path = path_now[row.path];
      };
      (one(tables), ...);
    };
    renumber(data_.values, data_.path_counters, data_.data_accesses, data_.mpi_calls, data_.io_calls,
             data_.region_times, data_.mpi_events, data_.event_gaps, data_.path_series);
  }

  const Shape& shape_;
  const SyntheticRun::Program& source_;
  std::uint32_t node_, world_;
  std::uint64_t iterations_;
  std::uint32_t bins_ = 0, first_node_series_ = 0;
  ShardData data_;
  PathInterner interner_{data_};
  const Landmarks& program_;
  std::vector<std::array<std::uint32_t, 2>> regions_;  // by path
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

SyntheticRun::SyntheticRun(const Shape& shape)
    : shape_(shape), program_(std::make_unique<const Program>(shape)) {
  shape_.counters = std::min<std::uint32_t>(shape_.counters, kCounters.size());
}
SyntheticRun::~SyntheticRun() = default;

ShardData SyntheticRun::shard(std::uint32_t node) const {
  return NodeBuilder(shape_, *program_, node).build();
}

ShardData shard_of_node(const Shape& shape, std::uint32_t node) { return SyntheticRun(shape).shard(node); }

}  // namespace clusterprof::synth
