// SPDX-License-Identifier: BSD-3-Clause
// Builds the shard of one node rank by rank: what each rank's calls, files, counters and regions would have
// been.
#include "formats/synth/node_builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/synth/random.hpp"
#include "formats/synth/series.hpp"
#include "formats/synth/timing.hpp"
#include "formats/synth/unused_rows.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::synth {
namespace {

using namespace shard;

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

// Divides `total` by weight. The shares add up to it exactly.
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

class NodeBuilder {
 public:
  NodeBuilder(const Shape& shape, const Program& program, std::uint32_t node)
      : shape_(shape),
        source_(program),
        node_(node),
        world_(world_of(shape)),
        iterations_(iterations(shape)),
        data_(program.tables),
        program_(program.landmarks),
        series_(shape, program.landmarks, node, data_, interner_) {}

  ShardData build() {
    describe_run();
    data_.communicators = {{1, world_, "MPI_COMM_WORLD"}};
    data_.counters.assign(kCounters.begin(), kCounters.begin() + shape_.counters);
    data_.unavailable_counters = {{"PAPI_DP_OPS", "the processor does not count it"}};
    if (shape_.bins != 0) series_.describe();
    for (std::uint32_t i = 0; i < shape_.ranks_per_node; ++i) add_rank(node_ * shape_.ranks_per_node + i);
    const std::uint64_t halos = 2 * iterations_ * shape_.ranks_per_node;
    data_.mpi_sizes = {{interner_.string("MPI_Isend"), kHaloBytes, world_ > 1 ? halos : 0},
                       {interner_.string("MPI_Allreduce"), 8, iterations_ * shape_.ranks_per_node}};
    if (shape_.bins != 0) series_.add_node();
    if (shape_.bins != 0) series_.add_paths();
    if (shape_.paths_per_rank != 0) leave_out_unused(data_);
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

  // The call paths that the rank spends its time in, with weights.
  std::vector<Weighted> parts_of(std::uint32_t number, Random& random) {
    return shape_.paths_per_rank != 0 ? limited_parts_of(number, random) : all_parts_of(number, random);
  }

  // With Shape::paths_per_rank: at least that many of the shared paths and of those of the rank's block.
  std::vector<Weighted> limited_parts_of(std::uint32_t number, Random& random) const {
    std::vector<Weighted> parts;
    const std::vector<std::uint32_t>& shared = source_.shared;
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

  // Most of the shared paths, and some that no other rank has.
  std::vector<Weighted> all_parts_of(std::uint32_t number, Random& random) {
    std::vector<Weighted> parts;
    const std::vector<std::uint32_t>& shared = source_.shared;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      // All ranks have the hot tenth; the rarer a path, the fewer ranks have it.
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
    (void)work_of(shape_, number, random);  // draws the same random numbers as busy_ns_of
    const std::uint64_t busy_ns = busy_ns_of(shape_, number);
    const FileTimes files = file_times(busy_ns);
    const std::vector<Weighted> parts = parts_of(number, random);
    Rank rank = describe_rank(number, row);
    const std::size_t first_value = data_.values.size();
    add_times(rank, row, parts, busy_ns, files, random);
    add_usage(rank, row, random);
    if (shape_.paths_per_rank != 0)
      std::sort(data_.values.begin() + static_cast<std::ptrdiff_t>(first_value), data_.values.end(),
                [](const Value& a, const Value& b) { return a.path < b.path; });
    const std::span<const Value> values(data_.values.begin() + static_cast<std::ptrdiff_t>(first_value),
                                        data_.values.end());
    const Counts counts = add_counters(values, row);
    add_data_accesses(values, row, random);
    add_files(row, rank, files);
    add_regions(values, row);
    if (shape_.bins != 0) series_.add_rank(row, rank, files, counts);
    if (random.below(16) == 0) data_.drops.push_back({row, "reentrant", 1 + random.below(3)});
    data_.nodes[0].cpu_ns += rank.cpu_ns;
    data_.ranks.push_back(rank);
  }

  Rank describe_rank(std::uint32_t number, std::uint32_t row) {
    Rank rank;
    rank.rank = static_cast<std::int32_t>(number);
    rank.pid = 4000 + static_cast<std::int32_t>(row);
    rank.flags = kRunDelayKnown | kExitStatusKnown | kUsageKnown | kIoKnown | kUsedMpi | kWaitKnown |
                 kFaultsApart | kGarbageApart | kFilesKnown;
    rank.affinity = interner_.string(std::to_string(row));
    std::string command;
    for (const std::string& word : data_.run.command) command.append(word).push_back('\0');
    rank.command = interner_.string(command);
    rank.numa_nodes = interner_.string(row < (shape_.ranks_per_node + 1) / 2 ? "0" : "1");
    rank.start_utc_ns = data_.nodes[0].start_utc_ns + row;
    rank.elapsed_ns = kElapsed_ns;
    rank.threads = rank.processes = 1;
    rank.python_version = 0x030b'02f0;
    return rank;
  }

  // Adds the values, calls and events that the rank's elapsed time consists of.
  void add_times(Rank& rank, std::uint32_t row, const std::vector<Weighted>& parts, std::uint64_t busy_ns,
                 const FileTimes& files, Random& random) {
    const auto number = static_cast<std::uint32_t>(rank.rank);
    const bool mpi = world_ > 1;
    const std::uint64_t mpi_ns = kElapsed_ns - busy_ns;
    // Samples are not exact: they miss MPI_Isend, which is too short, and find three quarters of MPI_Waitall.
    MpiTimes mpi_times;
    if (mpi) mpi_times = times_of_calls(number, mpi_ns);
    const std::uint64_t unseen_ns = mpi_times.isend_ns + mpi_times.waitall_ns / 4;
    const std::vector<std::uint64_t> shares = share(busy_ns - files.total_ns() + unseen_ns, parts);

    const auto add = [&](std::uint32_t path, std::uint64_t ns, bool running) {
      add_value(rank, row, path, ns, running, random);
    };
    bool waits = true;  // for a processor, in the path that it runs first
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (shares[i] == 0) continue;
      const std::uint64_t runnable_ns = std::exchange(waits, false) ? shares[i] / 50 : 0;
      add(parts[i].path, shares[i] - runnable_ns, true);
      if (runnable_ns == 0) continue;
      data_.values.push_back({row, parts[i].path, Category::kRunnable, true, runnable_ns, 0, 0});
      rank.main_thread_ns[static_cast<std::size_t>(Category::kRunnable)] += runnable_ns;
    }
    add(program_.reading, files.read_ns, false);
    add(program_.writing, files.write_ns, false);
    add(program_.syncing, files.sync_ns, false);
    if (!mpi) return;
    if (shape_.events != 0) {
      add_events(row, number, iteration_of(shape_, number));
      rank.mpi_operations = 5 * iterations_;
    }
    add(program_.allreduce, mpi_times.allreduce_ns, false);
    add(program_.waitall, mpi_times.waitall_ns - mpi_times.waitall_ns / 4, false);
    add_traffic(row, number, mpi_times);
    rank.mpi_ns = mpi_ns;
    rank.mpi_wait_ns = mpi_ns * 9 / 10;
    rank.mpi_runnable_ns = mpi_ns / 100;
  }

  void add_value(Rank& rank, std::uint32_t row, std::uint32_t path, std::uint64_t ns, bool running,
                 Random& random) {
    const Category category = category_of(data_, path, path);
    std::uint64_t samples = ns / kPeriod_ns + (random.below(kPeriod_ns) < ns % kPeriod_ns ? 1 : 0);
    std::uint64_t cpu_ns = running ? ns - ns / 50 : ns / 4;
    // In real runs, CPU time does not follow from wall time, and every path was found by a sample.
    if (shape_.paths_per_rank != 0) {
      samples = std::max<std::uint64_t>(samples, 1);
      cpu_ns -= random.below(cpu_ns / 16 + 1);
    }
    data_.values.push_back({row, path, category, true, ns, cpu_ns, samples});
    rank.main_thread_ns[static_cast<std::size_t>(category)] += ns;
    rank.samples += samples;
    rank.cpu_ns += cpu_ns;
  }

  void add_usage(Rank& rank, std::uint32_t row, Random& random) {
    rank.system_ns = rank.cpu_ns / 20;
    rank.user_ns = rank.cpu_ns - rank.system_ns;
    rank.max_rss_bytes = (200u << 20) + random.below(1u << 20);
    rank.read_bytes = 5'000'000 + random.below(1000);
    rank.write_bytes = 1'000'000 + random.below(1000);
    rank.minor_faults = 40'000 + random.below(500);
    rank.voluntary_switches = 2 * iterations_;
    rank.involuntary_switches = random.below(100);
    rank.handler_ns = rank.samples * 2000;
    // Three of four samples are of a running thread. A sample costs around 2 us, one in sixteen much more.
    rank.running_samples = rank.samples - rank.samples / 4;
    rank.running_ns = rank.running_samples * kPeriod_ns;
    data_.handler_costs.push_back({row, 1722, rank.samples / 2});
    data_.handler_costs.push_back({row, 2048, rank.samples - rank.samples / 2 - rank.samples / 16});
    data_.handler_costs.push_back({row, 8192, rank.samples / 16});
    rank.merges_tried = rank.samples;
  }

  // Plausible counts of a processor. Instructions per cycle and misses depend only on the call path.
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

  // Working sets of 2 MiB to 512 MiB, which also depend only on the call path.
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

  // All ranks read one input, each writes a checkpoint file of its own.
  void add_files(std::uint32_t row, const Rank& rank, const FileTimes& times) {
    if (data_.io_files.empty()) data_.io_files.push_back({"/data/stencil/input.h5", "lustre /data"});
    const auto own = static_cast<std::uint32_t>(data_.io_files.size());
    data_.io_files.push_back({"/scratch/stencil/checkpoint." + std::to_string(rank.rank), "lustre /scratch"});
    // Each call other than reads and writes takes a hundredth of the time.
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

  // The regions around a path, at most two. 0: none.
  const std::array<std::uint32_t, 2>& regions_of(std::uint32_t path) {
    for (std::size_t i = regions_.size(); i <= path; ++i) {  // parents come first
      regions_.push_back(i == 0 ? std::array<std::uint32_t, 2>{} : regions_[data_.paths[i].parent]);
      if (i != 0 && data_.frames[data_.paths[i].frame].kind == FrameKind::kRegion)
        regions_.back()[regions_.back()[0] == 0 ? 0 : 1] = static_cast<std::uint32_t>(i);
    }
    return regions_[path];
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
        data_.event_gaps.push_back({static_cast<std::uint32_t>(data_.mpi_events.size()), path, ns, ns});
      };
      using enum wire::MpiEventKind;
      // Messages up the ring have tag 0, messages down the ring have tag 1.
      const std::array<std::uint32_t, 2> peers = {(number + 1) % world_, (number + world_ - 1) % world_};
      gap(program_.step, iteration.isend);
      for (std::uint32_t tag = 0; tag < 2; ++tag) {
        const std::uint64_t enter = iteration.isend + tag * iteration.call;
        add(kSend, program_.isend, isend, peers[tag], enter, enter + iteration.call, enter).tag =
            static_cast<std::int32_t>(tag);
        call_done();
      }
      for (std::uint32_t tag = 0; tag < 2; ++tag) {
        add(kSendDone, program_.waitall, isend, peers[tag], iteration.waitall, iteration.waitall_exit,
            iteration.isend + tag * iteration.call)
            .tag = static_cast<std::int32_t>(tag);
        add(kReceive, program_.waitall, irecv, peers[1 - tag], iteration.waitall, iteration.waitall_exit,
            iteration.isend)
            .tag = static_cast<std::int32_t>(tag);
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

  const Shape& shape_;
  const Program& source_;
  std::uint32_t node_, world_;
  std::uint64_t iterations_;
  ShardData data_;
  PathInterner interner_{data_};
  const Landmarks& program_;
  SeriesBuilder series_;
  std::vector<std::array<std::uint32_t, 2>> regions_;  // by path
};

}  // namespace

ShardData build_node(const Shape& shape, const Program& program, std::uint32_t node) {
  return NodeBuilder(shape, program, node).build();
}

}  // namespace clusterprof::synth
