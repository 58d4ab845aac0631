// SPDX-License-Identifier: BSD-3-Clause
// What ranks do now: places, times of the last seconds, and the verdict, as text and JSON have them.
#include "report/analysis/top.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profile_builder.hpp"
#include "report/analysis/run_state.hpp"
#include "report/top.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;
using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

// Three ranks on two nodes have run for 10 s. Of the last 5 s, rank 0 was in step() for 4 s and in MPI_Bcast
// for 1 s; ranks 1 and 2 are in a barrier for 8 s, without rank 0.
struct ThreeRanks : ProfileBuilder {
  ThreeRanks() : ProfileBuilder(3, 2) {
    data.communicators = {{1, 3, "MPI_COMM_WORLD"}};
    step = path({python("main", "train.py", 90, 80), python("step", "train.py", 31, 30)});
    helper = path({python("main", "train.py", 90, 80), python("step", "train.py", 33, 30),
                   python("helper", "train.py", 12, 10)});
    bcast = path({python("main", "train.py", 91, 80), mpi("MPI_Bcast")});
    barrier = path({python("main", "train.py", 92, 80), mpi("MPI_Barrier")});
    for (std::uint32_t p = 1; p < data.paths.size(); ++p) data.paths[p].id = {p, p};
    for (std::uint32_t r = 0; r < 3; ++r) {
      shard::Rank& rank = data.ranks[r];
      rank.flags |= shard::kUsedMpi | shard::kStillRan | shard::kLost;
      rank.samples = 900;
      rank.main_thread_ns[testing::kPythonIndex] = 1500 * kMs;
      rank.main_thread_ns[testing::kIdleIndex] = 200 * kMs;
      data.collective_counts.push_back({r, 0, 0, 412});
      shard::Thread thread;
      thread.rank = r;
      thread.pid = thread.tid = rank.pid;
      thread.kind = shard::ThreadKind::kMain;
      thread.flags = shard::Thread::kRuns;
      thread.start_utc_ns = rank.start_utc_ns;
      thread.elapsed_ns = rank.elapsed_ns;
      thread.last_path = r == 0 ? step : barrier;
      thread.last_category = r == 0 ? Category::kPython : Category::kMpi;
      thread.unmoved_ns = r == 0 ? 0 : 7900 * kMs;
      data.threads.push_back(thread);
      shard::Rank since = rank;
      since.elapsed_ns = 5000 * kMs;
      since.main_thread_ns = {};
      since.main_thread_ns[testing::kPythonIndex] = since.raw_main_thread_ns[testing::kPythonIndex] =
          r == 0 ? 4000 * kMs : 0;
      since.main_thread_ns[testing::kMpiIndex] = since.raw_main_thread_ns[testing::kMpiIndex] =
          r == 0 ? 1000 * kMs : 5000 * kMs;
      since.mpi_ns = since.main_thread_ns[testing::kMpiIndex];
      input.since.push_back(since);
      if (r == 0) continue;
      CallUnderWay call;
      call.rank = r;
      call.tid = rank.pid;
      call.path = barrier;
      call.communicator = 0;
      call.sequence = 412;
      call.lasted_ns = 8000 * kMs;
      data.calls_under_way.push_back(call);
    }
    time(step, Category::kPython, 2500);
    time(step, Category::kPython, 500);  // of another node
    time(helper, Category::kPython, 1000);
    time(bcast, Category::kMpi, 1000);
    input.times.push_back({{77, 77}, Category::kNative, 1});  // of a path that is not there
    input.rss_bytes = {{0, 1000}, {1, 2000}, {2, 4000}};
    input.memory["n1"] = {5000, 8000};
    for (shard::Node& node : data.nodes) {
      node.as_of_utc_ns = data.run.start_utc_ns + 10'000'000'000;
      node.next_within_ns = 2'000'000'000;
    }
  }
  void time(std::uint32_t path, Category category, std::uint64_t ms) {
    input.times.push_back({data.paths[path].id, category, ms * kMs});
  }
  Top top(int ago_s = 2) {
    input.data = data;
    Top found = find_top(input, FrameMode::kFolded);
    const std::chrono::system_clock::time_point now{
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::nanoseconds(data.run.start_utc_ns + 10'000'000'000) + std::chrono::seconds(ago_s))};
    find_run_state(found.run, Job::kMayRun, now);
    return found;
  }

  TopInput input;
  std::uint32_t step = 0, helper = 0, bcast = 0, barrier = 0;
};

TEST(Top, TellsWhatEachRankHasDoneLatelyAndWhereItIs) {
  const Top top = ThreeRanks().top();
  ASSERT_EQ(top.ranks.size(), 3u);
  EXPECT_EQ(top.window_s, 5.0);
  EXPECT_EQ(top.ranks[0].category_s[testing::kPythonIndex], 4.0);
  EXPECT_EQ(top.ranks[0].category_s[testing::kMpiIndex], 1.0);
  EXPECT_EQ(top.ranks[1].category_s[testing::kMpiIndex], 5.0);
  EXPECT_EQ(top.ranks[1].category_s[testing::kPythonIndex], 0.0)
      << "known from earlier, and none of it lately";
  EXPECT_EQ(top.ranks[0].place.function, "step");
  EXPECT_EQ(top.ranks[0].place.line, 31u);
  EXPECT_EQ(top.ranks[0].place.op, "");
  EXPECT_FALSE(top.ranks[0].op_s);
  EXPECT_FALSE(top.ranks[0].unmoved_s);
  EXPECT_EQ(top.ranks[2].place.op, "MPI_Barrier");
  EXPECT_EQ(top.ranks[2].place.line, 92u);
  EXPECT_EQ(top.ranks[2].op_s, 8.0);
  EXPECT_EQ(top.ranks[2].unmoved_s, 8.0);
  EXPECT_EQ(top.ranks[2].rss_bytes, 4000u);
}

TEST(Top, ACallThatHasReturnedIsNotUnderWay) {
  ThreeRanks job;
  std::erase_if(job.data.calls_under_way, [](const CallUnderWay& call) { return call.rank == 2; });
  const Top top = job.top();
  EXPECT_EQ(top.ranks[2].place.op, "");
  EXPECT_EQ(top.ranks[2].unmoved_s, 7.9);
  EXPECT_FALSE(top.ranks[2].op_s);
}

TEST(Top, SumsUpNodes) {
  const Top top = ThreeRanks().top();
  ASSERT_EQ(top.nodes.size(), 2u);
  const TopNode &first = top.nodes[0], &second = top.nodes[1];
  EXPECT_EQ(first.window_s + second.window_s, 15.0);
  EXPECT_EQ(*first.category_s[testing::kMpiIndex] + *second.category_s[testing::kMpiIndex], 11.0);
  EXPECT_EQ(*first.rss_bytes + *second.rss_bytes, 7000u);
  EXPECT_EQ(first.still + second.still, 2u);
  EXPECT_FALSE(first.memory_limit_bytes);
  EXPECT_EQ(second.memory_limit_bytes, 8000u);
}

TEST(Top, FunctionsHaveTheTimeOfAllNodesOnce) {
  const Top top = ThreeRanks().top();
  ASSERT_GE(top.functions.size(), 4u);
  EXPECT_EQ(top.functions[0].name, "step");
  EXPECT_EQ(top.functions[0].self_s, 3.0);
  EXPECT_EQ(top.functions[0].total_s, 4.0);
  EXPECT_EQ(top.sampled_s, 5.0);
  const auto main = std::find_if(top.functions.begin(), top.functions.end(),
                                 [](const FunctionRow& row) { return row.name == "main"; });
  ASSERT_NE(main, top.functions.end());
  EXPECT_EQ(main->self_s, 0.0);
  EXPECT_EQ(main->total_s, 5.0);
  ASSERT_FALSE(top.lines.empty());
  EXPECT_EQ(top.lines[0].line, 31u);
  EXPECT_EQ(top.lines[0].self_s, 3.0);
}

TEST(Top, MainThreadsAreInAllFunctionsOfTheirCallPaths) {
  const Top top = ThreeRanks().top();
  const auto names_of = [&](const TopRank& rank) {
    std::vector<std::string> names;
    for (const std::uint32_t function : top.stacks.at(rank.stack))
      names.push_back(top.entered.at(function).name);
    return names;
  };
  EXPECT_EQ(names_of(top.ranks[0]), (std::vector<std::string>{"step", "main"}));
  EXPECT_EQ(names_of(top.ranks[2]), (std::vector<std::string>{"MPI_Barrier", "main"}));
  EXPECT_EQ(top.ranks[1].stack, top.ranks[2].stack);
}

TEST(Top, TheWindowIsThatOfNodesThatRun) {
  ThreeRanks job;
  const std::uint32_t ended = job.data.ranks[2].node;
  ASSERT_NE(job.data.ranks[0].node, ended);
  job.data.nodes[ended].as_of_utc_ns = 0;
  job.input.since[2].elapsed_ns = 3'600'000 * kMs;
  EXPECT_EQ(job.top().window_s, 5.0) << "the ended node's rank has its whole life";
  for (shard::Node& node : job.data.nodes) node.as_of_utc_ns = 0;
  EXPECT_EQ(job.top().window_s, 3600.0);
}

TEST(Top, NothingIsKnownOfTheLastSecondsWithoutAnEarlierState) {
  ThreeRanks job;
  job.input.since.clear();
  job.input.times.clear();
  const Top top = job.top();
  EXPECT_FALSE(top.window_s);
  EXPECT_FALSE(top.ranks[0].window_s);
  EXPECT_FALSE(top.ranks[0].category_s[testing::kPythonIndex]);
  EXPECT_EQ(top.ranks[0].place.function, "step");
  EXPECT_NE(render_top_text(top, {}).find("Nothing is known of the last seconds"), std::string::npos);
}

nlohmann::json json_of(const Top& top) {
  std::string text;
  render_top_json(top, [&](std::string_view piece) { text += piece; });
  return nlohmann::json::parse(text);
}

TEST(TopJson, HasTheSameNumbers) {
  const nlohmann::json json = json_of(ThreeRanks().top());
  EXPECT_EQ(json["schema"], "clusterprof.top/1");
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["as_of_s"], 2.0);
  EXPECT_EQ(json["window_s"], 5.0);
  const nlohmann::json &first = json["ranks"][0], &last = json["ranks"][2];
  EXPECT_EQ(first["rank"], 0);
  EXPECT_EQ(first["node"], "n0");
  EXPECT_EQ(first["python_s"], 4.0);
  EXPECT_EQ(first["op"], nullptr);
  EXPECT_EQ(first["unmoved_s"], nullptr);
  EXPECT_EQ(first["function"], "step");
  EXPECT_EQ(last["op"], "MPI_Barrier");
  EXPECT_EQ(last["op_s"], 8.0);
  EXPECT_EQ(last["rss_bytes"], 4000);
  EXPECT_EQ(json["functions"][0]["name"], "step");
  EXPECT_EQ(json["functions"][0]["self_s"], 3.0);
  EXPECT_EQ(json["lines"][0]["line"], 31);
  EXPECT_EQ(json["nodes"][1]["memory_limit_bytes"], 8000);
  ASSERT_EQ(json["waiting"].size(), 1u);
  EXPECT_EQ(json["waiting"][0]["missing_ranks"], nlohmann::json::array({0}));
  EXPECT_TRUE(json["verdict"].get<std::string>().starts_with(
      "Ranks 1, 2 wait in MPI_Barrier (train.py:92) on MPI_COMM_WORLD"))
      << json["verdict"];
}

TEST(TopText, SaysHowOldItIsAndWhoWaits) {
  TextOptions wide;
  wide.width = 300;
  const std::string text = render_top_text(ThreeRanks().top(), wide);
  EXPECT_NE(text.find("run-1, running, as of 2 s ago: 3 ranks on 2 nodes"), std::string::npos) << text;
  EXPECT_NE(text.find("wait in MPI_Barrier (train.py:92)"), std::string::npos) << text;
  EXPECT_NE(text.find("step() train.py:31"), std::string::npos) << text;
  EXPECT_NE(text.find("MPI_Barrier <- main() train.py:92"), std::string::npos) << text;
}

TEST(TopText, SaysHowRanksHaveEnded) {
  ThreeRanks job;
  job.data.calls_under_way.clear();
  job.data.threads.clear();
  job.data.ranks[1].flags |= shard::kExitStatusKnown;
  job.data.ranks[1].exit_status = 3;
  job.data.ranks[2].flags |= shard::kExitSignalKnown;
  job.data.ranks[2].exit_signal = 9;
  TextOptions wide;
  wide.width = 300;
  std::string text = render_top_text(job.top(), wide);
  EXPECT_NE(text.find("ended with status 3"), std::string::npos) << text;
  EXPECT_NE(text.find("ended by SIGKILL"), std::string::npos) << text;
  EXPECT_NE(text.find("code that is not known"), std::string::npos) << "rank 0, which runs: " << text;
  for (shard::Node& node : job.data.nodes) node.as_of_utc_ns = 0;
  for (shard::Rank& rank : job.data.ranks) rank.flags &= ~std::uint32_t{shard::kLost | shard::kStillRan};
  text = render_top_text(job.top(), wide);
  EXPECT_EQ(text.find("code that is not known"), std::string::npos) << text;
}

TEST(TopText, SaysThatARunHasEnded) {
  ThreeRanks job;
  for (shard::Node& node : job.data.nodes) node.as_of_utc_ns = 0;
  const std::string text = render_top_text(job.top(), {});
  EXPECT_EQ(text.find("running"), std::string::npos) << text;
  EXPECT_NE(text.find("This is its last state"), std::string::npos) << text;
}

}  // namespace
}  // namespace clusterprof::report
