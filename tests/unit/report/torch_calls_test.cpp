// SPDX-License-Identifier: BSD-3-Clause
// Time in torch.distributed from call paths, and the ranks that come late to it.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "as_sampled.hpp"
#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::Category;
using testing::as_sampled;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

const std::string kTorch = "/usr/lib/python3/dist-packages/torch/";

class Torch : public ::testing::Test {
 protected:
  explicit Torch(std::uint32_t ranks = 2) : b(ranks) {}

  shard::Frame user(std::string_view name, std::uint32_t line, std::string_view file = "/home/u/train.py") {
    return b.python(name, file, line, 1);
  }
  shard::Frame c10d(std::string_view name, std::uint32_t line = 100) {
    return b.python(name, kTorch + "distributed/distributed_c10d.py", line, 90);
  }
  shard::Frame native(std::string_view name) { return b.native(name, kTorch + "lib/libtorch_cpu.so"); }
  shard::Frame futex() { return b.kernel("futex"); }

  // By operation and line: "all_reduce 30".
  const TorchRow& row(const Analysis& a, std::string_view call) {
    for (const TorchRow& one : a.torch.rows)
      if (one.op + " " + std::to_string(one.line) == call) return one;
    ADD_FAILURE() << "no row " << call;
    static const TorchRow kNo;
    return kNo;
  }

  ProfileBuilder b;
};

TEST_F(Torch, TimeIsByOperationAndLineOfTheUsers) {
  const auto main = user("<module>", 90), step = user("step", 30);
  const auto logger = b.python("wrapper", kTorch + "distributed/c10d_logger.py", 47, 40);
  const auto wait =
      b.path({main, step, logger, c10d("all_reduce"), native("c10d::Work::wait(long)"), futex()});
  const auto copy = b.path({main, step, logger, c10d("all_reduce"), native("at::native::copy_")});
  const auto second =
      b.path({main, user("step", 35), c10d("all_reduce", 105), native("gloo::wait"), futex()});
  b.sampled(0, wait, Category::kIdle, 3000);
  b.sampled(1, wait, Category::kIo, 200);
  b.sampled(0, copy, Category::kNative, 400);
  b.sampled(1, copy, Category::kNative, 300);
  b.sampled(1, copy, Category::kRunnable, 50);
  b.sampled(1, second, Category::kIdle, 70);
  b.data.values[0].cpu_ns = 10 * kMs;
  const Analysis a = analyse(as_sampled(b.data));
  EXPECT_EQ(a.torch.source, TorchSource::kNoGlooCall);
  ASSERT_EQ(a.torch.rows.size(), 2u);
  const TorchRow& reduce = row(a, "all_reduce 30");
  EXPECT_EQ(&reduce, &a.torch.rows[0]) << "the one with most time first";
  EXPECT_EQ(reduce.kind, TorchKind::kCollective);
  EXPECT_EQ(reduce.function, "step");
  EXPECT_EQ(reduce.file, "/home/u/train.py");
  EXPECT_NEAR(reduce.time_s, 3.95, 1e-9);
  EXPECT_NEAR(*reduce.blocked_s, 3.19, 1e-9);
  EXPECT_NEAR(*reduce.runnable_s, 0.05, 1e-9);
  EXPECT_NEAR(*reduce.running_s, 0.71, 1e-9);
  EXPECT_NEAR(reduce.spread.min_s, 0.55, 1e-9);
  EXPECT_NEAR(reduce.spread.mean_s, 1.975, 1e-9);
  EXPECT_NEAR(reduce.spread.max_s, 3.4, 1e-9);
  EXPECT_EQ(reduce.spread.max_rank, 0);
  EXPECT_EQ(reduce.min_rank, 1);
  EXPECT_EQ(*reduce.samples, 395u);
  EXPECT_FALSE(reduce.count || reduce.wait_s);
  const TorchRow& other = row(a, "all_reduce 35");
  EXPECT_NEAR(other.time_s, 0.07, 1e-9);
  EXPECT_EQ(other.spread.min_s, 0);
  EXPECT_EQ(other.min_rank, 0) << "was not seen in it";
  EXPECT_EQ(other.ranks, (std::vector<shard::RankRange>{{1, 1}}));
  EXPECT_EQ(other.rank_count, 1u);
}

TEST_F(Torch, WhatAnOperationCallsIsPartOfIt) {
  const auto main = user("<module>", 90);
  const auto init = b.path({main, c10d("init_process_group", 100), c10d("barrier", 200), futex()});
  const auto object = b.path({main, c10d("all_gather_object", 300), c10d("all_gather", 301), futex()});
  const auto barrier = b.path({main, c10d("barrier", 200), futex()});
  const auto helper = b.path({main, c10d("get_rank", 400)});
  b.sampled(0, init, Category::kIdle, 500);
  b.sampled(1, object, Category::kIdle, 300);
  b.sampled(1, barrier, Category::kIdle, 200);
  b.sampled(1, helper, Category::kPython, 100);
  const Analysis a = analyse(as_sampled(b.data));
  ASSERT_EQ(a.torch.rows.size(), 3u);
  EXPECT_NEAR(row(a, "init_process_group 90").time_s, 0.5, 1e-9);
  EXPECT_EQ(row(a, "init_process_group 90").kind, TorchKind::kRendezvous);
  EXPECT_NEAR(row(a, "all_gather_object 90").time_s, 0.3, 1e-9);
  EXPECT_NEAR(row(a, "barrier 90").time_s, 0.2, 1e-9);
}

TEST_F(Torch, NativeCodeIsKnownByItsNames) {
  const auto step = user("step", 31);
  const auto tensor = b.python("Tensor.backward", kTorch + "_tensor.py", 488, 480);
  const auto autograd = b.python("backward", kTorch + "autograd/__init__.py", 197, 100);
  const auto hook = native("c10d::Reducer::autograd_hook(unsigned long)");
  const auto final = native("c10d::Reducer::finalize_backward()");
  b.sampled(0, b.path({step, tensor, autograd, hook, final, futex()}), Category::kIdle, 700);
  b.sampled(0, b.path({step, tensor, autograd, hook, native("memcpy")}), Category::kNative, 100);
  b.sampled(0, b.path({native("torch::autograd::Engine::thread_main"), hook}), Category::kNative, 40, false);
  const auto gloo = native("c10d::ProcessGroupGloo::SendWork::wait(std::chrono::duration<long>)");
  b.sampled(0, b.path({user("step", 40), gloo, futex()}), Category::kIdle, 600);
  const auto store = native("c10d::TCPStore::wait(std::vector<std::string> const&)");
  b.sampled(0, b.path({user("step", 41), store, futex()}), Category::kIdle, 300);
  const Analysis a = analyse(as_sampled(b.data));
  ASSERT_EQ(a.torch.rows.size(), 4u);
  EXPECT_NEAR(row(a, "Reducer.finalize_backward 31").time_s, 0.7, 1e-9);
  EXPECT_EQ(row(a, "Reducer.finalize_backward 31").kind, TorchKind::kWait);
  EXPECT_NEAR(row(a, "Reducer 31").time_s, 0.1, 1e-9);
  EXPECT_NEAR(row(a, "Reducer 0").time_s, 0.04, 1e-9) << "a thread without Python";
  EXPECT_NEAR(row(a, "Work.wait 40").time_s, 0.6, 1e-9);
}

TEST_F(Torch, CallerIsTheUsersWhereThereIsOne) {
  const std::string trainer = "/usr/lib/python3/dist-packages/lightning/trainer.py";
  const auto through = b.path({user("main", 12), b.python("fit", trainer, 7, 1), c10d("barrier"), futex()});
  const auto library = b.path({b.python("fit", trainer, 8, 1), c10d("barrier"), futex()});
  const auto own = b.path({user("sync", 5, "/home/u/torch/tools.py"), c10d("barrier"), futex()});
  const auto no = b.path({user("barrier", 9, "/home/u/distributed_c10d.py"), futex()});
  b.sampled(0, through, Category::kIdle, 100);
  b.sampled(0, library, Category::kIdle, 200);
  b.sampled(0, own, Category::kIdle, 300);
  b.sampled(0, no, Category::kIdle, 400);
  const Analysis a = analyse(as_sampled(b.data));
  ASSERT_EQ(a.torch.rows.size(), 3u);
  EXPECT_EQ(row(a, "barrier 12").function, "main");
  EXPECT_EQ(row(a, "barrier 8").function, "fit");
  EXPECT_EQ(row(a, "barrier 5").file, "/home/u/torch/tools.py");
}

TEST_F(Torch, RecordedCallsAreTheRowsWhereThereAreSome) {
  const auto call = b.path({user("step", 30), c10d("all_reduce"), b.mpi("all_reduce")});
  const auto made = b.path({user("step", 5), c10d("init_process_group"), b.mpi("new_process_group")});
  const auto wait = b.path({user("step", 31), b.mpi("Work.wait")});
  b.called(0, call, 10, 300);
  b.called(1, call, 10, 500);
  b.called(0, wait, 10, 100);
  b.called(0, made, 1, 20);
  b.called(0, b.path({user("step", 50), b.mpi("MPI_Barrier")}), 1, 900);
  b.sampled(0, b.path({user("step", 30), c10d("all_reduce")}), Category::kPython, 5000);
  const Analysis a = analyse(b.data);
  EXPECT_EQ(a.torch.source, TorchSource::kCalls);
  ASSERT_EQ(a.torch.rows.size(), 3u);
  const TorchRow& reduce = row(a, "all_reduce 30");
  EXPECT_NEAR(reduce.time_s, 0.8, 1e-9);
  EXPECT_EQ(*reduce.count, 20u);
  EXPECT_EQ(reduce.spread.max_rank, 1);
  EXPECT_FALSE(reduce.samples || reduce.blocked_s);
  EXPECT_TRUE(reduce.late_ranks.empty());
  EXPECT_EQ(row(a, "Work.wait 31").kind, TorchKind::kWait);
  EXPECT_EQ(row(a, "new_process_group 5").kind, TorchKind::kRendezvous);
}

TEST_F(Torch, ReportSaysWhyThereAreOnlySamples) {
  const auto wait = b.path({user("step", 30), c10d("all_reduce"), futex()});
  EXPECT_EQ(analyse(b.data).torch.source, TorchSource::kNone);
  EXPECT_TRUE(Json::parse(render_json(analyse(b.data)))["torch_distributed"]["method"].is_null());
  b.sampled(0, wait, Category::kIdle, 1000);
  EXPECT_EQ(analyse(b.data).torch.source, TorchSource::kNoGlooCall);
  b.data.run.notes.push_back(note_of_ranks(shard::NoteCode::kTorchNotRecorded, {0, 0}));
  EXPECT_EQ(analyse(b.data).torch.source, TorchSource::kOtherLibtorch);
  for (shard::Rank& rank : b.data.ranks) rank.flags |= shard::kMpiUnwatched;
  EXPECT_EQ(analyse(b.data).torch.source, TorchSource::kNotWatched);
}

TEST_F(Torch, TextAndJsonHaveTheRows) {
  const auto wait = b.path({user("step", 30), c10d("all_reduce"), futex()});
  b.sampled(0, wait, Category::kIdle, 1000);
  b.sampled(1, wait, Category::kIdle, 500);
  const Analysis a = analyse(as_sampled(b.data));
  const Json json = Json::parse(render_json(a))["torch_distributed"];
  EXPECT_EQ(json["method"], "samples");
  EXPECT_TRUE(json["why"].is_string());
  ASSERT_EQ(json["rows"].size(), 1u);
  EXPECT_EQ(json["rows"][0]["op"], "all_reduce");
  EXPECT_EQ(json["rows"][0]["line"], 30);
  EXPECT_EQ(json["rows"][0]["ranks"], Json::parse("[[0, 1]]"));
  EXPECT_EQ(json["rows"][0]["rank_min"], 1);
  EXPECT_TRUE(json["rows"][0]["count"].is_null());
  TextOptions options;
  options.width = 140;
  EXPECT_NE(render_text(a, options).find("all_reduce <- step() train.py:30"), std::string::npos);
}

TEST_F(Torch, WithoutWallTimeNothingIsBlocked) {
  const auto run = b.path({user("step", 30), c10d("all_reduce"), native("at::native::copy_")});
  b.data.run.clock = "cpu";
  b.sampled(0, run, Category::kNative, 3000);
  b.sampled(1, run, Category::kNative, 100);
  const Analysis a = analyse(as_sampled(b.data));
  ASSERT_EQ(a.torch.rows.size(), 1u);
  EXPECT_FALSE(a.torch.rows[0].blocked_s || a.torch.rows[0].running_s || a.torch.rows[0].runnable_s);
  EXPECT_TRUE(a.torch.rows[0].late_ranks.empty());
}

TEST_F(Torch, BuildersOfDifferentRanksMakeOneTable) {
  const auto wait = b.path({user("step", 30), c10d("all_reduce"), futex()});
  b.sampled(0, wait, Category::kIdle, 1000);
  b.sampled(1, wait, Category::kIdle, 70);
  shard::ShardData data = as_sampled(b.data);
  aggregator::correct_times(data);
  AnalysisBuilder first(data), second(data);
  shard::InMemoryRows(data).for_each_rank(
      [&](const shard::RankRows& rows) { (rows.rank == 1 ? first : second).add(rows); });
  ASSERT_TRUE(first.absorb(second.state()).ok());
  EXPECT_EQ(encode(first.finish()), encode(analyse(data, shard::InMemoryRows(data))));
}

class LateRanks : public Torch {
 protected:
  LateRanks() : Torch(4) {}

  // Ranks that compute for the rest of 4 s, and wait in an operation for so many milliseconds.
  Analysis waiting(const std::array<std::uint64_t, 4>& ms, std::string_view op = "all_reduce",
                   std::uint64_t runnable_of_last_ms = 0) {
    const auto main = user("<module>", 90);
    const auto wait = b.path({main, user("step", 30), c10d(op), futex()});
    const auto compute = b.path({main, user("compute", 12)});
    for (std::uint32_t r = 0; r < 4; ++r) {
      const std::uint64_t runnable_ms = r == 3 ? runnable_of_last_ms : 0;
      if (ms[r] != 0) b.sampled(r, wait, Category::kIdle, ms[r]);
      b.sampled(r, compute, Category::kPython, 4000 - ms[r] - runnable_ms);
      if (runnable_ms != 0) b.sampled(r, compute, Category::kRunnable, runnable_ms);
    }
    return analyse(as_sampled(b.data));
  }
};

TEST_F(LateRanks, TheOneWithTheLeastTimeIsNamedWithWhatItDid) {
  const Analysis a = waiting({2000, 2100, 1900, 200});
  EXPECT_EQ(a.torch.rows.at(0).late_ranks, std::vector<std::int32_t>{3});
  EXPECT_EQ(a.torch.rows[0].latest_rank, 3);
  EXPECT_NEAR(a.torch.rows[0].late_s, 5.4, 1e-9);
  const Finding* const finding = find_kind(a, FindingKind::kLateBySamples);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->rank, 3);
  EXPECT_EQ(finding->ranks, std::vector<std::int32_t>{3});
  EXPECT_NEAR(*finding->gain_s, 1.8, 1e-9);
  EXPECT_NEAR(*finding->share, 5.4 / 16, 1e-9);
  EXPECT_EQ(finding->severity, Severity::kMedium) << "an estimate";
  EXPECT_EQ(finding->place.function, "compute");
  EXPECT_EQ(find_kind(a, FindingKind::kBlocked), nullptr) << "the waiting is told once";
  EXPECT_EQ(
      text_of(a, *finding),
      "Judging by samples, rank 3 comes late to all_reduce <- step() train.py:30: 3 ranks wait 5.40 s "
      "there. Rank 3 spends 1.35 s more than the mean in compute() train.py:1. Give the ranks equal work.");
}

TEST_F(LateRanks, SeveralMayBeLate) {
  const Analysis a = waiting({250, 200, 2000, 2100});
  EXPECT_EQ(a.torch.rows.at(0).late_ranks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(a.torch.rows[0].latest_rank, 1);
  EXPECT_NEAR(a.torch.rows[0].late_s, 2 * (2.05 - 0.225), 1e-9);
  const Finding* const finding = find_kind(a, FindingKind::kLateBySamples);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks, (std::vector<std::int32_t>{0, 1}));
  EXPECT_NE(text_of(a, *finding).find("rank 1 with 1 other rank comes late"), std::string::npos);
}

TEST_F(LateRanks, OneThatIsEarlyMakesNobodyLate) {
  const Analysis a = waiting({200, 210, 220, 2000});
  EXPECT_TRUE(a.torch.rows.at(0).late_ranks.empty());
  EXPECT_EQ(find_kind(a, FindingKind::kLateBySamples), nullptr);
}

TEST_F(LateRanks, ARankThatWasNotSeenInItMayBeNoMember) {
  EXPECT_TRUE(waiting({2000, 2000, 2000, 0}).torch.rows.at(0).late_ranks.empty());
}

TEST_F(LateRanks, RootOfABroadcastIsNotLate) {
  EXPECT_TRUE(waiting({2000, 2000, 2000, 200}, "broadcast").torch.rows.at(0).late_ranks.empty());
}

TEST_F(LateRanks, LittleDifferenceMayBeChance) {
  EXPECT_TRUE(waiting({300, 250, 300, 200}).torch.rows.at(0).late_ranks.empty());
}

// Ten samples of 0.3 s each are beyond chance; ten of 0.05 s are not.
TEST_F(LateRanks, LongWaitsAreCertainWithFewSamples) {
  const std::uint64_t kSamples = 10;
  waiting({3000, 3000, 3000, 100});
  for (shard::Value& value : b.data.values)
    if (value.category == Category::kIdle) value.samples = value.rank == 3 ? 1 : kSamples;
  EXPECT_EQ(analyse(as_sampled(b.data)).torch.rows.at(0).late_ranks, std::vector<std::int32_t>{3});
  for (shard::Value& value : b.data.values)
    if (value.category == Category::kIdle && value.rank != 3) value.wall_ns /= 6;
  for (std::uint32_t r = 0; r < 3; ++r)
    b.data.ranks[r].main_thread_ns[static_cast<std::size_t>(Category::kIdle)] /= 6;
  EXPECT_TRUE(analyse(as_sampled(b.data)).torch.rows.at(0).late_ranks.empty());
}

TEST_F(LateRanks, WhoLacksAProcessorForALittleOfItIsStillLate) {
  EXPECT_NE(find_kind(waiting({2000, 2000, 2000, 200}, "all_reduce", 300), FindingKind::kLateBySamples),
            nullptr);
}

TEST_F(LateRanks, ThatOnlyLackProcessorsAreNotNamed) {
  const Analysis a = waiting({2000, 2000, 2000, 200}, "all_reduce", 1790);
  EXPECT_FALSE(a.torch.rows.at(0).late_ranks.empty());
  EXPECT_EQ(find_kind(a, FindingKind::kLateBySamples), nullptr);
}

}  // namespace
}  // namespace clusterprof::report
