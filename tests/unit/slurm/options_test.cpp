// SPDX-License-Identifier: BSD-3-Clause
#include "cli/options.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <map>
#include <set>

#include "slurm/activation/options.hpp"
#include "slurm/start/decide.hpp"
#include "tests/unit/cli/fake_environment.hpp"

namespace clusterprof::slurm {
namespace {

Variables good(const std::string& text) {
  const auto request = parse_request(text);
  if (!request) {
    ADD_FAILURE() << text << ": " << request.error().message;
    return {};
  }
  EXPECT_TRUE(request.value().is_on);
  return request.value().variables;
}

std::string bad(const std::string& text) {
  const auto request = parse_request(text);
  if (request) {
    ADD_FAILURE() << text << " was accepted";
    return {};
  }
  EXPECT_EQ(request.error().message.find('\n'), std::string::npos);
  return request.error().message;
}

// Not available as options of a batch system: options that end a command which cannot be recorded, and
// reserved ones; and of clusterprof run.
const std::set<std::string> kNotHere = {"help",    "version", "strict", "trace",
                                        "spawned", "started", "argv0",  "repeat"};

TEST(SlurmOptions, AreThoseOfRecord) {
  std::map<std::string, RecordOption::Kind> ours, theirs;
  for (const RecordOption& option : record_options()) {
    EXPECT_TRUE(ours.emplace(option.name, option.kind).second) << option.name;
  }
  cli::with_record_options([&](CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
      const std::string name = option->get_lnames().front();
      if (kNotHere.count(name) != 0) continue;
      const bool takes_value = option->get_expected_max() > 0 && option->get_type_size() > 0;
      const bool is_list = name == "event" || name == "ranks";
      theirs[name] = is_list       ? RecordOption::kList
                     : takes_value ? RecordOption::kValue
                                   : RecordOption::kSwitch;
    }
  });
  EXPECT_EQ(ours, theirs);
}

// Options that are accepted at submission are understood on the nodes, and options that the nodes would
// refuse are refused at submission.
TEST(SlurmOptions, AgreeWithRecordOnValues) {
  const char* const texts[] = {"rate=1",
                               "rate=10000",
                               "rate=0",
                               "rate=10001",
                               "rate=",
                               "rate=x",
                               "rate=1.5",
                               "rate=-1",
                               "rate= 1",
                               "clock=wall",
                               "clock=cpu",
                               "clock=CPU",
                               "checkpoint=60",
                               "checkpoint=local",
                               "checkpoint=1",
                               "checkpoint=60s",
                               "max-memory=500M",
                               "max-memory=10M",
                               "max-memory=x",
                               "max-cpu=2.5",
                               "max-cpu=0",
                               "max-cpu=2%",
                               "clock-sync=never",
                               "clock-sync=auto",
                               "clock-sync=x",
                               "mode=light",
                               "mode=full",
                               "mode=",
                               "mode=x",
                               "min-duration=0",
                               "min-duration=60",
                               "min-duration=1.5",
                               "min-duration=604801",
                               "min-ranks=1",
                               "min-ranks=0",
                               "min-ranks=16777217",
                               "ranks=0",
                               "ranks=0-3,8",
                               "ranks=3-1",
                               "ranks=a",
                               "ranks=1,",
                               "ranks=-1",
                               "ranks=1-",
                               "ranks=1,,2",
                               "event=A,B",
                               "event=A,,B",
                               "event=A,",
                               "sample-on=A:10",
                               "sample-on=A:x",
                               "sample-on=:5",
                               "sample-on=A:0",
                               "output=my run",
                               "sample-on=perf::PAGE-FAULTS:20"};
  for (const std::string text : texts) {
    const bool here = parse_request(text).ok();
    const auto there = cli::parse_record_options({"--" + text, "true"}, cli::fake_environment({}));
    EXPECT_EQ(here, std::holds_alternative<cli::Options>(there)) << text;
  }
}

TEST(SlurmOptions, SayTheSameAsVariables) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] :
       good("rate=1000,no-mpi,event=PAPI_TOT_INS,PAPI_TOT_CYC,ranks=0-3,8,output=run 1,quiet,event=X"))
    variables[name] = value;
  const auto parsed = cli::parse_record_options({"true"}, cli::fake_environment(variables));
  ASSERT_TRUE(std::holds_alternative<cli::Options>(parsed));
  const auto& options = std::get<cli::Options>(parsed);
  EXPECT_EQ(options.rate_hz, 1000);
  EXPECT_TRUE(options.no_mpi && options.quiet);
  EXPECT_EQ(options.events, (std::vector<std::string>{"PAPI_TOT_INS", "PAPI_TOT_CYC", "X"}));
  EXPECT_EQ(options.rank_list(), "0-3,8");
  EXPECT_EQ(options.output, "run 1");
}

TEST(SlurmOptions, ProblemsReachTheLauncher) {
  EXPECT_STREQ(start::kProblemVariable, cli::kStartProblemVariable);
}

TEST(SlurmOptions, TurnRecordingOnAndOff) {
  EXPECT_TRUE(good("").empty());
  EXPECT_TRUE(good("on").empty());
  EXPECT_EQ(good("on,rate=5"), (Variables{{"CLUSTERPROF_RATE", "5"}}));
  EXPECT_EQ(good("--no-mpi,--rate=7"), (Variables{{"CLUSTERPROF_NO_MPI", "1"}, {"CLUSTERPROF_RATE", "7"}}));
  EXPECT_EQ(good("rate=1,rate=2"), (Variables{{"CLUSTERPROF_RATE", "2"}}));
  for (const char* text : {"off", "no"}) {
    const auto request = parse_request(text);
    ASSERT_TRUE(request.ok());
    EXPECT_FALSE(request.value().is_on);
  }
  EXPECT_NE(bad("off,rate=1").find("stands alone"), std::string::npos);
  EXPECT_NE(bad("rate=1,off").find("stands alone"), std::string::npos);
}

TEST(SlurmOptions, RefuseBadValues) {
  EXPECT_NE(bad("rte=5").find("no option 'rte'"), std::string::npos);
  EXPECT_NE(bad("rte=5").find("rate="), std::string::npos);
  EXPECT_NE(bad("no-mpi=1").find("takes no value"), std::string::npos);
  EXPECT_NE(bad("rate").find("rate needs a value"), std::string::npos);
  EXPECT_NE(bad("rate,no-mpi").find("rate needs a value"), std::string::npos);
  // Would be taken for an event.
  EXPECT_NE(bad("event=A,no-mpii").find("no option 'no-mpii'"), std::string::npos);
  EXPECT_NE(bad("rate=5,5").find("no option '5'"), std::string::npos);
  for (const char* text :
       {",", "no-mpi,", "strict", "trace", "spawned=a:1:1", "started", "help", "output=a\nb", "=5"})
    bad(text);
}

}  // namespace
}  // namespace clusterprof::slurm
