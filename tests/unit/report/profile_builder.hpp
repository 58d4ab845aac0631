// SPDX-License-Identifier: BSD-3-Clause
// Makes small profiles with known answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregator/corrected_time.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/report.hpp"

namespace clusterprof::report::testing {

inline constexpr std::uint64_t kMs = 1'000'000;
// Places in arrays by category.
inline constexpr auto kPythonIndex = static_cast<std::size_t>(shard::Category::kPython);
inline constexpr auto kMpiIndex = static_cast<std::size_t>(shard::Category::kMpi);
inline constexpr auto kIdleIndex = static_cast<std::size_t>(shard::Category::kIdle);

class ProfileBuilder {
 public:
  // `ranks` ranks of 10 s, filling the nodes one after the other.
  explicit ProfileBuilder(std::uint32_t ranks, std::uint32_t nodes = 1) {
    data.run.id = "run-1";
    data.run.command = {"python3", "train.py"};
    data.run.start_utc_ns = kStart;
    data.run.world_size = ranks;
    data.run.rate_hz = 100;
    data.run.clock = "wall";
    data.run.version = "0.1.0";
    data.run.complete = true;
    for (std::uint32_t n = 0; n < nodes; ++n) {
      shard::Node node;
      node.name = std::string("n").append(std::to_string(n));
      node.start_utc_ns = kStart;
      node.elapsed_ns = 10'000 * kMs;
      data.nodes.push_back(node);
    }
    for (std::uint32_t r = 0; r < ranks; ++r) {
      shard::Rank rank;
      rank.rank = static_cast<std::int32_t>(r);
      rank.node = r * nodes / ranks;
      rank.pid = 1000 + rank.rank;
      rank.start_utc_ns = kStart;
      rank.elapsed_ns = 10'000 * kMs;
      rank.threads = rank.processes = 1;
      rank.flags = shard::kRunDelayKnown;
      data.ranks.push_back(rank);
    }
  }

  shard::StringIndex string(std::string_view text) {
    const auto found = std::find(data.strings.begin(), data.strings.end(), text);
    if (found != data.strings.end()) return static_cast<std::uint32_t>(found - data.strings.begin());
    data.strings.emplace_back(text);
    return static_cast<std::uint32_t>(data.strings.size() - 1);
  }

  shard::Frame python(std::string_view name, std::string_view file, std::uint32_t line, std::uint32_t start) {
    shard::Frame f;
    f.kind = shard::FrameKind::kPython;
    f.name = string(name), f.file = string(file), f.line = line, f.function_line = start;
    return f;
  }
  shard::Frame native(std::string_view name, std::string_view module, std::string_view file = "",
                      std::uint32_t line = 0) {
    shard::Frame f;
    f.name = string(name), f.module = string(module), f.file = string(file), f.line = line;
    f.function_line = line == 0 ? 0 : 1;
    return f;
  }
  shard::Frame mpi(std::string_view name) {
    shard::Frame f;
    f.kind = shard::FrameKind::kMpi;
    f.name = string(name);
    return f;
  }
  shard::Frame kernel(std::string_view name) {
    shard::Frame f;
    f.kind = shard::FrameKind::kKernel;
    f.name = string(name);
    return f;
  }

  shard::Frame region(std::string_view name) {
    shard::Frame f;
    f.kind = shard::FrameKind::kRegion;
    f.name = string(name);
    return f;
  }

  // Root first.
  std::uint32_t path(std::initializer_list<shard::Frame> frames) {
    std::uint32_t at = 0;
    for (const shard::Frame& frame : frames) at = child(at, frame);
    return at;
  }
  std::uint32_t child(std::uint32_t parent, const shard::Frame& frame) {
    const auto known = std::find(data.frames.begin(), data.frames.end(), frame);
    const auto index = static_cast<std::uint32_t>(known - data.frames.begin());
    if (known == data.frames.end()) data.frames.push_back(frame);
    for (std::uint32_t p = parent + 1; p < data.paths.size(); ++p)
      if (data.paths[p].parent == parent && data.paths[p].frame == index) return p;
    data.paths.push_back({{}, parent, index});
    return static_cast<std::uint32_t>(data.paths.size() - 1);
  }

  // Sampled time; the main thread's also goes to the rank's categories, as the collector does.
  void sampled(std::uint32_t rank, std::uint32_t at, shard::Category category, std::uint64_t ms,
               bool main_thread = true) {
    shard::Value value;
    value.rank = rank, value.path = at, value.category = category, value.main_thread = main_thread;
    value.wall_ns = ms * kMs;
    value.samples = ms / 10;
    data.values.push_back(value);
    data.ranks[rank].samples += value.samples;
    if (main_thread) data.ranks[rank].main_thread_ns[static_cast<std::size_t>(category)] += value.wall_ns;
  }

  void called(std::uint32_t rank, std::uint32_t at, std::uint64_t count, std::uint64_t ms,
              std::uint64_t sent = 0, std::uint64_t received = 0) {
    shard::MpiCall call;
    call.rank = rank, call.path = at, call.count = count, call.time_ns = ms * kMs;
    call.sent_bytes = sent, call.recv_bytes = received;
    data.mpi_calls.push_back(call);
    data.ranks[rank].mpi_ns += call.time_ns;
    data.ranks[rank].flags |= shard::kUsedMpi;
  }

  void waited(std::uint32_t rank, std::uint32_t at, shard::WaitKind kind, std::uint32_t cause_rank,
              std::uint32_t cause_path, std::uint64_t ms, std::uint64_t count = 1) {
    if (!data.wait_analysis.done)
      for (shard::Rank& each : data.ranks) each.flags |= shard::kWaitKnown;
    data.wait_analysis.done = true;
    data.wait_states.push_back({rank, at, kind, cause_rank, cause_path, ms * kMs, count});
    data.ranks[rank].mpi_wait_ns += ms * kMs;
  }

  void file_called(std::uint32_t rank, std::uint32_t at, std::string_view path, shard::IoOperation operation,
                   std::uint64_t count, std::uint64_t ms, std::uint64_t bytes = 0) {
    std::uint32_t file = 0;
    while (file < data.io_files.size() && data.io_files[file].path != path) ++file;
    if (file == data.io_files.size()) data.io_files.push_back({std::string(path), "ext4 /"});
    data.io_calls.push_back({rank, at, file, operation, count, 0, bytes, ms * kMs, 5 * kMs});
  }

  // `accesses` random ones to `blocks` different blocks, at `samples` samples.
  void accessed(std::uint32_t rank, std::uint32_t at, std::uint64_t blocks, std::uint64_t accesses,
                std::uint64_t samples) {
    shard::DataAccess row;
    row.rank = rank, row.path = at, row.samples = samples, row.accesses = accesses;
    for (std::uint64_t i = 0; i < accesses; ++i) {
      random_ = mixed(random_);
      const std::uint64_t bit = mixed(random_ % blocks + 1) % 256;
      row.blocks[bit / 64] |= std::uint64_t{1} << bit % 64;
    }
    data.data_accesses.push_back(row);
  }

  void series(std::string_view name, std::uint32_t rank, std::initializer_list<std::uint64_t> values,
              shard::SeriesKind kind = shard::SeriesKind::kSum) {
    const std::uint32_t index = series_index(name, kind);
    std::uint32_t bin = 0;
    for (const std::uint64_t value : values) data.rank_series.push_back({rank, index, bin++, value});
  }
  void node_series(std::string_view name, std::uint32_t node, std::initializer_list<std::uint64_t> values,
                   shard::SeriesKind kind = shard::SeriesKind::kSum) {
    const std::uint32_t index = series_index(name, kind);
    std::uint32_t bin = 0;
    for (const std::uint64_t value : values) data.node_series.push_back({node, index, bin++, value});
  }

  // Every rank's elapsed time, so that shares are of what was sampled.
  void lasts(std::uint64_t ms) {
    for (shard::Rank& rank : data.ranks) rank.elapsed_ns = ms * kMs;
    for (shard::Node& node : data.nodes) node.elapsed_ns = ms * kMs;
  }

  shard::ShardData data;

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e37'79b9'7f4a'7c15ull;
    x = (x ^ x >> 30) * 0xbf58'476d'1ce4'e5b9ull;
    x = (x ^ x >> 27) * 0x94d0'49bb'1331'11ebull;
    return x ^ x >> 31;
  }
  std::uint32_t series_index(std::string_view name, shard::SeriesKind kind) {
    data.time_axis.bin_ns = 1024 * kMs;
    data.time_axis.origin_utc_ns = kStart - 500'000'000;
    const shard::StringIndex text = string(name);
    for (std::uint32_t i = 0; i < data.series.size(); ++i)
      if (data.series[i].name == text) return i;
    data.series.push_back({text, kind});
    return static_cast<std::uint32_t>(data.series.size() - 1);
  }
  std::uint64_t random_ = 1;
  static constexpr std::int64_t kStart = 1'700'000'000'000'000'000;
};

// A call path: main() calls that function.
inline std::uint32_t native(ProfileBuilder& b, std::string_view name, std::uint32_t line) {
  return b.path({b.native("main", "/u/a.out", "/u/a.c", 99), b.native(name, "/u/a.out", "/u/a.c", line)});
}

// What the golden files show: four ranks on two nodes train a model, rank 3 has twice the work.
inline shard::ShardData training_run() {
  using shard::Category;
  ProfileBuilder b(4, 2);
  b.data.run.id = "clusterprof-train-20231114";
  b.data.run.command = {"python3", "examples/train.py", "--epochs", "3"};
  b.data.run.mpi_library = "Open MPI v4.1.4";
  const auto module = b.python("<module>", "/home/u/examples/train.py", 120, 1);
  const auto step_compute = b.python("step", "/home/u/examples/train.py", 86, 80);
  const auto step_reduce = b.python("step", "/home/u/examples/train.py", 88, 80);
  const auto gradient = b.python("gradient", "/home/u/examples/train.py", 57, 50);
  const auto loop = b.python("gradient", "/home/u/examples/train.py", 55, 50);
  const auto load = b.python("load", "/home/u/examples/data/__init__.py", 12, 10);
  const auto interpreter = b.native("long_add", "/usr/bin/python3.11");
  const auto matmul = b.native("DOUBLE_matmul", "/usr/lib/python3/numpy/_multiarray_umath.so");
  const auto dgemm = b.native("dgemm_kernel_HASWELL", "/usr/lib/libopenblas.so.0");
  const auto cython = b.native("__pyx_pw_Allreduce", "/usr/lib/python3/mpi4py/MPI.so");
  const auto wait = b.native("__futex_wait", "/usr/lib/libc.so.6");
  const auto worker = b.native("blas_thread_server", "/usr/lib/libopenblas.so.0");

  const auto blas = b.path({module, step_compute, gradient, matmul, dgemm});
  const auto bytecode = b.path({module, step_compute, loop, interpreter});
  const auto reduce = b.path({module, step_reduce, cython, b.mpi("MPI_Allreduce")});
  const auto broadcast = b.path({module, cython, b.mpi("MPI_Bcast")});
  const auto read = b.path({module, load, b.native("__read", "/usr/lib/libc.so.6"), b.kernel("read")});
  const auto pool = b.path({worker, wait});
  for (std::uint32_t r = 0; r < 4; ++r) {
    const bool slow = r == 3;
    b.sampled(r, blas, Category::kNative, slow ? 7000 : 3500 + 100 * r);
    b.sampled(r, bytecode, Category::kPython, slow ? 1500 : 1000);
    b.sampled(r, read, Category::kIo, 500);
    b.sampled(r, reduce, Category::kMpi, slow ? 900 : 4900 - 100 * r);
    b.sampled(r, broadcast, Category::kMpi, 100);
    b.sampled(r, pool, Category::kIdle, 9000, false);
    b.called(r, reduce, 300, slow ? 900 : 4900 - 100 * r, 2'400'000, 2'400'000);
    b.called(r, broadcast, 1, 100, r == 0 ? 8192 : 0, r == 0 ? 0 : 8192);
    shard::Rank& rank = b.data.ranks[r];
    rank.threads = 2;
    rank.cpu_ns = (slow ? 9900 : 9700) * kMs;
    rank.flags |= shard::kUsageKnown | shard::kIoKnown | shard::kExitStatusKnown;
    rank.flags |= shard::kFaultsApart | shard::kGarbageApart;
    rank.running_samples = rank.samples - 900;
    rank.running_ns = rank.running_samples * 10 * kMs + 50 * kMs;
    b.data.handler_costs.push_back({r, 1448, rank.samples / 2});
    b.data.handler_costs.push_back({r, 1722, rank.samples / 2});
    b.data.handler_costs.push_back({r, 16384, 30});
    rank.max_rss_bytes = 84'500'000 + 1'000'000 * r;
    rank.read_bytes = 5'200'000;
    rank.write_bytes = 120;
    rank.handler_ns = 12 * kMs;
    rank.truncated = 3;
    rank.merges_tried = rank.samples;
    rank.merges_failed = r;
    b.data.matrix.push_back(
        {static_cast<std::int32_t>(r), static_cast<std::int32_t>((r + 1) % 4), 40 + r, 1'000'000 * (r + 1)});
    b.data.counter_values.push_back({r, 0, 30'000'000'000ull + r * 1'000'000'000ull});
    b.data.counter_values.push_back({r, 1, 20'000'000'000ull});
  }
  for (shard::Node& node : b.data.nodes) {
    node.cpu_ns = 19'500 * kMs;
    node.collector_cpu_ns = 45 * kMs;
    node.collector_max_rss_bytes = 21'000'000;
  }
  b.data.counters = {"PAPI_TOT_INS", "PAPI_TOT_CYC"};
  b.data.unavailable_counters = {{"PAPI_L3_TCM", "event does not exist"}};
  b.data.mpi_sizes = {{b.string("MPI_Allreduce"), 8192, 1200}, {b.string("MPI_Bcast"), 8192, 4}};
  b.data.drops = {{2, "ring_full", 7}};
  b.data.run.notes = {note_of_ranks(shard::NoteCode::kStartNotKnown, {2, 2})};
  return std::move(b.data);
}

// Four ranks on two nodes whose waiting is explained. Rank 3 loads its batch slowly, which costs the others
// 16.5 s in MPI_Allreduce. Rank 0 sends late to rank 1, which therefore sends late to rank 2.
inline shard::ShardData delayed_run() {
  using shard::Category;
  using shard::WaitKind;
  ProfileBuilder b(4, 2);
  const auto main = b.python("<module>", "/home/u/train.py", 120, 1);
  const auto step = b.python("step", "/home/u/train.py", 88, 80);
  const auto relay = b.python("relay", "/home/u/train.py", 61, 60);
  const auto cython = b.native("__pyx_pw_Allreduce", "/usr/lib/python3/mpi4py/MPI.so");
  const auto compute = b.path({main, b.python("compute", "/home/u/train.py", 70, 66),
                               b.native("dgemm_kernel_HASWELL", "/usr/lib/libopenblas.so.0")});
  const auto load_41 = b.path({main, b.python("load_batch", "/home/u/data.py", 41, 40)});
  const auto load_42 = b.path({main, b.python("load_batch", "/home/u/data.py", 42, 40),
                               b.native("__read", "/usr/lib/libc.so.6"), b.kernel("read")});
  const auto prepare = b.path({main, b.python("prepare", "/home/u/train.py", 50, 49)});
  const auto reduce = b.path({main, step, cython, b.mpi("MPI_Allreduce")});
  const auto receive = b.path({main, relay, cython, b.mpi("MPI_Recv")});
  const std::uint64_t recv_ms[] = {0, 900, 700, 0}, load_ms[] = {100, 100, 100, 6000};
  for (std::uint32_t r = 0; r < 4; ++r) {
    const std::uint64_t reduce_ms = r == 3 ? 1000 : 5900;
    if (recv_ms[r] != 0) b.called(r, receive, 30, recv_ms[r], 0, 240);
    b.called(r, reduce, 300, reduce_ms, 2400, 2400);
    b.sampled(r, load_41, Category::kPython, load_ms[r] * 3 / 4);
    b.sampled(r, load_42, Category::kIo, load_ms[r] / 4);
    if (r == 0) b.sampled(r, prepare, Category::kPython, 900);
    b.sampled(r, compute, Category::kNative,
              10'000 - reduce_ms - recv_ms[r] - load_ms[r] - (r == 0 ? 900 : 0));
    if (r < 3) {
      b.waited(r, reduce, WaitKind::kWaitAtNxN, 3, load_41, 4000, 200);
      b.waited(r, reduce, WaitKind::kWaitAtNxN, 3, load_42, 1500, 100);
    }
    b.data.matrix.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>((r + 1) % 4), 30, 240});
  }
  b.waited(1, receive, WaitKind::kLateSender, 0, prepare, 850, 30);
  b.waited(2, receive, WaitKind::kLateSender, 1, receive, 650, 25);
  b.data.root_causes = {
      {3, load_42, 4500 * kMs, 3}, {3, load_41, 12'000 * kMs, 3}, {0, prepare, 1500 * kMs, 2}};
  b.data.critical_times = {{3, compute, 3000 * kMs}, {3, load_41, 4500 * kMs}, {3, load_42, 1500 * kMs},
                           {3, reduce, 400 * kMs},   {0, reduce, 200 * kMs},   {0, 0, 400 * kMs}};
  for (std::uint64_t i = 0; i < 10; ++i) {
    const double ms = 1e6;
    b.data.time_windows.push_back({i * 1000 * kMs, (i + 1) * 1000 * kMs, i < 5 ? 950 * ms : 250 * ms,
                                   i < 5 ? 1000 * ms : 900 * ms, i < 5 ? 0 : 3600 * kMs});
  }
  b.data.wait_analysis.ideal_ns = 9400 * kMs;
  b.data.wait_analysis.operations = 1320, b.data.wait_analysis.events = 1380;  // nonblocking sends
  b.data.wait_analysis.messages = 60;
  b.data.wait_analysis.collectives = 300;
  b.data.wait_analysis.clock_error_ns = 1800;
  return std::move(b.data);
}

// Two ranks that compute, sweep over memory, write a log and sleep, in regions, on a node that is all theirs.
inline shard::ShardData resources_run() {
  using shard::Category;
  ProfileBuilder b(2);
  b.data.run.id = "clusterprof-bound-20231114";
  b.data.run.command = {"./bound", "all"};
  shard::Node& node = b.data.nodes[0];
  node.cpus = 2, node.numa_nodes = 1, node.memory_bytes = 8'000'000'000, node.cache_bytes = 32 << 20;
  node.cpu_model = "EPYC 9000";
  const auto epoch = b.region("epoch"), step = b.region("step");
  const auto main = b.native("main", "/u/bound", "/u/bound.c", 120);
  const auto libc = b.native("__write", "/usr/lib/libc.so.6");
  const auto store_71 = b.native("store", "/u/bound", "/u/bound.c", 71);
  const auto store_72 = b.native("store", "/u/bound", "/u/bound.c", 72);
  const auto compute = b.path({epoch, step, main, b.native("compute", "/u/bound", "/u/bound.c", 40)});
  const auto sweep = b.path({epoch, step, main, b.native("sweep", "/u/bound", "/u/bound.c", 55)});
  const auto write = b.path({epoch, main, store_71, libc, b.kernel("write"), b.kernel(shard::kOnFileName)});
  const auto sync = b.path({epoch, main, store_72, libc, b.kernel("fsync")});
  const auto write_site = b.path({epoch, main, store_71}), sync_site = b.path({epoch, main, store_72});
  const auto rest = b.path({main, b.native("rest", "/u/bound", "/u/bound.c", 80), b.kernel("nanosleep")});
  const auto barrier = b.path({epoch, main, b.mpi("MPI_Barrier")});
  const auto in_epoch = b.path({epoch}), in_step = b.path({epoch, step});
  for (std::uint32_t r = 0; r < 2; ++r) {
    b.sampled(r, compute, Category::kNative, r == 0 ? 1500 : 2500);
    b.sampled(r, sweep, Category::kNative, 3000);
    b.sampled(r, write, Category::kIo, 500);
    b.sampled(r, sync, Category::kIo, 1500);
    b.sampled(r, rest, Category::kIdle, 2000);
    b.called(r, barrier, 10, r == 0 ? 1500 : 500);
    b.accessed(r, sweep, 1536, 280, 300);
    b.file_called(r, write_site, "/scratch/run/out.dat", shard::IoOperation::kWrite, 12'000, 500, 480'000);
    b.file_called(r, sync_site, "/scratch/run/out.dat", shard::IoOperation::kSync, 12'000, 1500);
    b.file_called(r, write_site, "/scratch/run/in.dat", shard::IoOperation::kRead, 10, 20, 5'000'000);
    b.data.region_times.push_back({r, in_epoch, 3, 8000 * kMs, 2000 * kMs, 3500 * kMs, 2});
    b.data.region_times.push_back({r, in_step, 30, 5000 * kMs, 100 * kMs, (900 + r) * kMs, 7});
    for (std::int32_t i = 0; i < (r == 0 ? 4 : 1); ++i) {
      shard::Process& process = b.data.processes.emplace_back();
      process.rank = r;
      process.pid = static_cast<std::int32_t>(500 + 10 * r) + i;
      process.parent_pid = i == 0 ? 1 : 500;
      process.origin = i == 0 ? shard::ProcessOrigin::kRank : shard::ProcessOrigin::kPosixSpawn;
      process.path = i == 0 ? 0 : write_site;
      process.flags = shard::Process::kExitStatusKnown;
      process.start_utc_ns = b.data.run.start_utc_ns + i * static_cast<std::int64_t>(100 * kMs);
      process.elapsed_ns = 1000 * kMs;
      process.cpu_ns = process.cpu_min_ns = process.cpu_max_ns = (i == 0 ? 5000 : 400 + 100 * i) * kMs;
      process.top_path = i == 0 ? compute : sweep;
      process.top_ns = 300 * kMs;
      process.command = i == 0 ? std::string("./bound\0", 8) : std::string("/usr/bin/gzip\0out.dat\0", 22);
    }
    b.data.path_counters.push_back({r, sweep, 0, 2'000'000 + r});
    b.data.path_counters.push_back({r, compute, 0, 1'000'000});
    b.data.counter_values.push_back({r, 0, 4'000'000});
    shard::Rank& rank = b.data.ranks[r];
    rank.flags |= shard::kUsageKnown | shard::kFaultsApart;
    rank.cpu_ns = 5000 * kMs, rank.user_ns = 4500 * kMs, rank.system_ns = 500 * kMs;
    rank.minor_faults = 2500, rank.voluntary_switches = 600, rank.involuntary_switches = 30;
    rank.affinity = b.string(r == 0 ? "0" : "1"), rank.numa_nodes = b.string("0");
    b.series("native_ns", r,
             {500 * kMs, 900 * kMs, 1000 * kMs, 900 * kMs, 300 * kMs, 0, 0, 100 * kMs, 800 * kMs});
    b.series("io_ns", r, {0, 100 * kMs, 0, 100 * kMs, 700 * kMs, 900 * kMs});
    b.series("idle_ns", r, {0, 0, 0, 0, 0, 100 * kMs, 1000 * kMs, 900 * kMs});
    b.series("rss_bytes", r, {10, 400, 400}, shard::SeriesKind::kMaximum);
  }
  b.node_series("cpu_busy_ns", 0, {1000 * kMs, 1800 * kMs, 2000 * kMs, 1800 * kMs, 600 * kMs});
  b.node_series("memory_used_bytes", 0, {1'000'000'000, 3'000'000'000}, shard::SeriesKind::kMaximum);
  b.node_series("network_received_bytes", 0, {1000, 2000});
  b.data.counters = {"page-faults"};
  b.data.unavailable_counters = {{"PAPI_TOT_CYC", "this machine has no performance counters"}};
  return std::move(b.data);
}

}  // namespace clusterprof::report::testing

namespace clusterprof::report {

// What a merge and a report compute from shard data.
inline Analysis analyse(shard::ShardData data) {
  aggregator::correct_times(data);
  return analyse(data, shard::InMemoryRows(data));
}
inline std::optional<Analysis> analyse_region(shard::ShardData data, std::string_view name) {
  aggregator::correct_times(data);
  return analyse_region(data, shard::InMemoryRows(data), name);
}

}  // namespace clusterprof::report
