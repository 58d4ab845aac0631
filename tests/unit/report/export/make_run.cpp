// SPDX-License-Identifier: BSD-3-Clause
// export_make_run RUN: writes RUN/profile.h5, the profile of a run whose call paths and names are as bad as
// they may be. tests/e2e/export_test.py exports it and adds up its rows by itself.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "formats/profile/profile_writer.hpp"
#include "tests/unit/report/profile_builder.hpp"

using namespace clusterprof;
using report::testing::kMs;
using report::testing::ProfileBuilder;
using shard::Category;

namespace {

shard::ShardData bad_run() {
  ProfileBuilder b(6, 2);
  b.data.run.id = "run with \"quotes\", <b>markup</b>";
  b.data.run.command = {"./prog\n", "a b;c"};
  b.data.nodes[0].name = "node,\"0\"";
  const auto epoch = b.region("epoch; 1"), step = b.region("step");
  const auto module = b.python("<module>", "/u/my prog.py", 3, 1);
  const auto first_run_5 = b.python("run", "/u/my prog.py", 5, 4),
             first_run_6 = b.python("run", "/u/my prog.py", 6, 4);
  const auto second_run = b.python("run", "/u/my prog.py", 15, 14);
  const auto interpreter = b.native("long_add", "/usr/bin/python3.11");
  const auto evil = b.native("evil;\"name\",\n<script>\x01\xff\u202e 12", "/u/lib;x.so", "/u/a,b.c", 7);
  const auto fake = b.native("(1) fake", "/u/lib1.so"), same = b.native("(1) fake", "/u/other/lib1.so");
  const auto nothing = b.native("", "/u/lib1.so");
  const auto f_40 = b.native("f", "/u/prog", "/u/f.c", 40), f_41 = b.native("f", "/u/prog", "/u/f.c", 41);
  const auto g = b.native("g", "/u/prog", "/u/f.c", 60);
  const auto jit = b.native("js|loop", "[jit]");
  const auto worker = b.native("worker", "/u/prog", "/u/f.c", 90);
  const auto send = b.mpi("MPI_Send");
  const auto read = b.kernel("read");

  // A parent before its children, and a subtree is a range, as a merge has them.
  const auto in_region = b.path({epoch});
  const auto regions_code = b.path({epoch, step, module, first_run_5});
  const auto bytecode = b.path({epoch, step, module, first_run_5, interpreter});
  const auto recursion = b.path({epoch, step, module, first_run_6, second_run, first_run_5});
  const auto deep = b.path({epoch, step, module, first_run_6, second_run, first_run_5, evil});
  const auto no_region = b.path({module});
  const auto evil_path = b.path({module, evil});
  const auto fake_path = b.path({module, fake}), same_path = b.path({module, same});
  const auto f_path = b.path({f_40}), ff = b.path({f_40, f_41}), ffg = b.path({f_40, f_41, g});
  const auto ffgf = b.path({f_40, f_41, g, f_40}), ffgfg = b.path({f_40, f_41, g, f_40, g});
  const auto fg = b.path({f_40, g}), send_path = b.path({f_40, g, send});
  const auto f_send = b.path({f_40, send});
  const auto on_file = b.path({g, read, b.kernel(shard::kOnFileName)});
  const auto on_socket = b.path({g, read, b.kernel(shard::kOnSocketName)});
  const auto empty_name = b.path({worker, nothing}), jit_path = b.path({worker, jit});

  std::uint64_t ms = 10;
  for (std::uint32_t r = 0; r < 6; ++r) {
    shard::Rank& rank = b.data.ranks[r];
    rank.rank = static_cast<std::int32_t>(r == 5 ? 9 : r);
    rank.start_utc_ns += r;
    if (r == 4) continue;  // without rows
    if (r == 3) {          // without samples
      b.called(r, send_path, 3, 21);
      b.called(r, f_send, 2, 22);
      continue;
    }
    const auto sample = [&](std::uint32_t path, Category category, bool main = true) {
      b.sampled(r, path, category, ms += 10, main);
      b.data.values.back().wall_ns += r * 1'237 + 1;
      b.data.values.back().cpu_ns = b.data.values.back().wall_ns / 3;
    };
    sample(0, Category::kNative);
    sample(in_region, Category::kNative);
    sample(regions_code, Category::kNative);
    sample(bytecode, Category::kPython);
    sample(bytecode, Category::kSystem);
    sample(recursion, Category::kPython);
    sample(deep, Category::kNative);
    sample(no_region, Category::kPython);
    sample(evil_path, Category::kNative);
    sample(fake_path, Category::kNative);
    sample(same_path, Category::kNative, false);
    for (const std::uint32_t path : {f_path, ff, ffg, ffgf, ffgfg, fg}) sample(path, Category::kNative);
    sample(on_file, Category::kIo);
    sample(on_socket, Category::kIo, false);
    sample(empty_name, Category::kIdle, false);
    sample(jit_path, Category::kNative, false);
    sample(send_path, Category::kMpi);
    sample(send_path, Category::kMpi, false);
    if (r == 5) continue;  // not an MPI program: sampled time stands
    b.called(r, send_path, 100 + r, 1000 + 200 * r);
    b.called(r, send_path, 7, 13);
    b.called(r, f_send, 1, 5);
  }
  const auto thread = [&](std::uint32_t r, std::int32_t tid, shard::ThreadKind kind, std::string_view name,
                          std::uint64_t begin_ms, std::uint64_t elapsed_ms, std::uint32_t count = 1) {
    shard::Thread& row = b.data.threads.emplace_back();
    row.rank = r;
    row.pid = b.data.ranks[r].pid;
    row.tid = tid;
    row.kind = kind;
    row.count = count;
    row.name = name;
    row.start_utc_ns = b.data.ranks[r].start_utc_ns + static_cast<std::int64_t>(begin_ms * kMs);
    row.elapsed_ns = elapsed_ms * kMs;
  };
  thread(0, 1000, shard::ThreadKind::kMain, "main", 0, 10'000);
  thread(0, 1001, shard::ThreadKind::kPython, "loader;\x01", 1000, 2000);
  thread(0, 1002, shard::ThreadKind::kOpenMp, "", 500, 7000);
  thread(0, 1003, shard::ThreadKind::kPython, "pool-*", 0, 4000, 5);
  thread(5, 1501, shard::ThreadKind::kNative, "writer", 3000, 1000);
  for (std::uint32_t r = 0; r < 3; ++r) {
    b.series("python_ns", r, {600 * kMs, 0, 100 * kMs, 1000 * kMs});
    b.series("native_ns", r, {300 * kMs, 1000 * kMs, (r + 5) * 100 * kMs, 0});
    b.series("rss_bytes", r, {1000, 2000 + r, 2000, 10}, shard::SeriesKind::kMaximum);
    b.series("read_bytes", r, {0, 1024, 0, 2048});
    b.series("context-switches", r, {0, 7});
  }
  b.node_series("cpu_busy_ns", 0, {1000 * kMs, 500 * kMs});
  b.data.time_axis.origin_utc_ns -=
      b.data.time_axis.origin_utc_ns % static_cast<std::int64_t>(b.data.time_axis.bin_ns);
  std::erase_if(b.data.rank_series, [](const shard::RankSeries& row) { return row.value == 0; });
  std::sort(b.data.rank_series.begin(), b.data.rank_series.end(),
            [](const shard::RankSeries& x, const shard::RankSeries& y) {
              return std::tie(x.rank, x.series, x.bin) < std::tie(y.rank, y.series, y.bin);
            });
  for (const std::uint32_t r : {0u, 1u, 5u}) {
    b.data.memory_ranks.push_back({r, 65'536, 20'000'000 + r, 1000 * kMs, 7'000'000});
    std::uint64_t bytes = 1'000'000 + 17 * r;
    for (const std::uint32_t path : {0u, bytecode, deep, evil_path, on_file})
      for (const auto domain :
           {shard::MemoryDomain::kNative, shard::MemoryDomain::kPython, shard::MemoryDomain::kFile}) {
        shard::MemorySite& site = b.data.memory_sites.emplace_back();
        site.rank = r, site.path = path, site.domain = domain;
        site.alloc_bytes = bytes += 4321;
        site.alloc_count = bytes / 1000;
        site.live_end_bytes = bytes / 3;
        site.rank_peak_bytes = domain == shard::MemoryDomain::kPython ? 0 : bytes / 2;
        site.node_peak_bytes = r == 1 ? 0 : bytes / 2 + 1;
      }
  }
  for (std::uint64_t i = 0; i < 4; ++i)
    b.data.time_windows.push_back(
        {i * 100 * kMs, (i + 1) * 100 * kMs, 25e6 * static_cast<double>(i), 1e8, 50 * kMs});
  // Recorded for less than half of it, not at all, and again.
  b.data.time_windows.push_back({400 * kMs, 500 * kMs, 2e7, 4e7, 10 * kMs, 60 * kMs});
  b.data.time_windows.push_back({500 * kMs, 600 * kMs, 0, 0, 0, 100 * kMs});
  b.data.time_windows.push_back({600 * kMs, 700 * kMs, 25e6, 1e8, 50 * kMs});
  for (std::size_t i = 1; i < b.data.paths.size(); ++i) {
    shard::Path& path = b.data.paths[i];
    path.id = shard::path_id(b.data.paths[path.parent].id, b.data.frames[path.frame], b.data.strings);
  }
  return std::move(b.data);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path run(argv[1]);
  std::filesystem::create_directories(run);
  shard::ShardData data = bad_run();
  aggregator::correct_times(data);
  const Result<void> written = profile::write_profile(data, run / "profile.h5");
  if (written) return 0;
  std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return 1;
}
