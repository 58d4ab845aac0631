// SPDX-License-Identifier: BSD-3-Clause
#include "cli/options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

using Words = std::vector<std::string>;

Options good(const Words& words, const std::map<std::string, std::string>& variables = {}) {
  auto parsed = parse_record_options(words, fake_environment(variables));
  if (const auto* leave = std::get_if<Leave>(&parsed)) {
    ADD_FAILURE() << leave->error;
    return {};
  }
  return std::get<Options>(parsed);
}

Leave bad(const Words& words, const std::map<std::string, std::string>& variables = {}) {
  auto parsed = parse_record_options(words, fake_environment(variables));
  if (const auto* leave = std::get_if<Leave>(&parsed)) {
    EXPECT_EQ(leave->error.find('\n'), std::string::npos) << leave->error;
    return *leave;
  }
  ADD_FAILURE() << "was accepted";
  return {};
}

TEST(Options, Defaults) {
  const Options options = good({"true"});
  EXPECT_EQ(options.command, Words{"true"});
  EXPECT_EQ(options.rate_hz, 100);
  EXPECT_EQ(options.clock, SampleClock::kWall);
  EXPECT_FALSE(options.quiet);
  EXPECT_EQ(options.clock_sync, ClockSync::kAuto);
}

TEST(Options, Repeat) {
  EXPECT_EQ(good({"true"}).repeat, 0);
  const Options options = good({"--repeat", "5", "-r", "200", "--", "mpirun", "-n", "2", "true"});
  EXPECT_EQ(options.repeat, 5);
  EXPECT_EQ(options.words, Words{"--rate=200"}) << "each of the runs is one";
  EXPECT_EQ(good({"--repeat=2", "mpirun", "true"}).command, (Words{"mpirun", "true"})) << "in this order";
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_REPEAT", "3"}}).repeat, 0) << "its runs would have it, too";
  for (const char* wrong : {"0", "-1", "many", "1001"})
    EXPECT_NE(bad({std::string("--repeat=") + wrong, "true"}).error.find("--repeat"), std::string::npos);
}

TEST(Options, AllAreParsed) {
  const Options options = good({"-o",
                                "d",
                                "--rate=500",
                                "--clock",
                                "cpu",
                                "-e",
                                "A,B",
                                "--event",
                                "C",
                                "--no-python",
                                "--no-native",
                                "--no-mpi",
                                "--no-children",
                                "--no-stderr",
                                "--only-regions",
                                "--torch-ops",
                                "--no-html",
                                "--no-source",
                                "--command=hash",
                                "--clock-sync",
                                "never",
                                "--ranks",
                                "0-3,8",
                                "-q",
                                "--strict",
                                "true"});
  EXPECT_EQ(options.output, "d");
  EXPECT_EQ(options.rate_hz, 500);
  EXPECT_EQ(options.clock, SampleClock::kCpu);
  EXPECT_EQ(options.events, (Words{"A", "B", "C"}));
  EXPECT_EQ(options.clock_sync, ClockSync::kNever);
  EXPECT_TRUE(options.no_python && options.no_native && options.no_mpi && options.no_children &&
              options.no_stderr && options.only_regions && options.torch_ops);
  EXPECT_TRUE(options.quiet && options.strict && options.no_html && options.no_source);
  EXPECT_TRUE(options.wants_rank(0) && options.wants_rank(3) && options.wants_rank(8) &&
              options.wants_rank(-1));
  EXPECT_FALSE(options.wants_rank(4));
  EXPECT_EQ(options.rank_list(), "0-3,8");
  EXPECT_EQ(options.command_detail, CommandDetail::kHash);
}

TEST(Options, LightModeLeavesOutWhatIsNotAskedFor) {
  const Options light = good({"--mode", "light", "true"});
  EXPECT_TRUE(light.light && light.no_html);
  EXPECT_EQ(light.rate_hz, 20);
  EXPECT_EQ(light.events, Words{"none"});
  EXPECT_EQ(light.clock_sync, ClockSync::kNever);
  const Options more = good({"--mode=light", "-r", "50", "-e", "A", "--clock-sync=auto", "true"});
  EXPECT_EQ(more.rate_hz, 50);
  EXPECT_EQ(more.events, Words{"A"});
  EXPECT_EQ(more.clock_sync, ClockSync::kAuto);
  // The site says light, the user full.
  const Options full = good({"--mode=full", "true"}, {{"CLUSTERPROF_MODE", "light"}});
  EXPECT_FALSE(full.light || full.no_html);
  EXPECT_EQ(full.rate_hz, 100);
  EXPECT_TRUE(full.events.empty());
  EXPECT_NE(bad({"--mode", "heavy", "true"}).error.find("--mode: light or full, not 'heavy'"),
            std::string::npos);
}

TEST(Options, StandbyRecordsNothingUntilItIsStarted) {
  const Options standby = good({"--standby", "true"});
  EXPECT_TRUE(standby.standby && !standby.light && !standby.no_html);
  EXPECT_EQ(standby.rate_hz, 100);
  EXPECT_EQ(standby.events, Words{"none"});
  EXPECT_EQ(good({"--standby", "-e", "A", "true"}).events, Words{"A"});
  EXPECT_FALSE(good({"true"}).standby);
  // The site records in light mode; that is more than nothing.
  const Options site = good({"--standby", "true"}, {{"CLUSTERPROF_MODE", "light"}});
  EXPECT_TRUE(site.standby && !site.light);
  EXPECT_TRUE(good({"true"}, {{"CLUSTERPROF_STANDBY", "1"}}).standby);
  EXPECT_NE(bad({"--standby", "--sample-on", "page-faults", "true"}).error.find("--standby"),
            std::string::npos);
}

TEST(Options, Minima) {
  EXPECT_EQ(good({"true"}).min_duration, std::chrono::seconds(0));
  EXPECT_EQ(good({"true"}).min_ranks, 0);
  EXPECT_EQ(good({"--min-duration=60", "true"}).min_duration, std::chrono::seconds(60));
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_MIN_RANKS", "16"}}).min_ranks, 16);
  EXPECT_EQ(good({"--min-duration=0", "true"}, {{"CLUSTERPROF_MIN_DURATION", "60"}}).min_duration,
            std::chrono::seconds(0));
  for (const char* text : {"-1", "1.5", "10s", "604801"})
    EXPECT_NE(bad({"--min-duration", text, "true"}).error.find("--min-duration: a whole number of seconds"),
              std::string::npos)
        << text;
  for (const char* text : {"0", "two"})
    EXPECT_NE(
        bad({"true"}, {{"CLUSTERPROF_MIN_RANKS", text}}).error.find("CLUSTERPROF_MIN_RANKS: a whole number"),
        std::string::npos)
        << text;
}

// The plugin passes it on, so it does not hold for a command that the user calls with clusterprof.
TEST(Options, TheSitesMinimumIsForRunsThatNobodyAskedFor) {
  const std::map<std::string, std::string> site = {{"CLUSTERPROF_START_MIN_DURATION", "60"}};
  EXPECT_EQ(good({"true"}, site).min_duration, std::chrono::seconds(0));
  EXPECT_EQ(good({"--started", "--", "true"}, site).min_duration, std::chrono::seconds(60));
  EXPECT_EQ(good({"--started", "--", "true"},
                 {{"CLUSTERPROF_START_MIN_DURATION", "60"}, {"CLUSTERPROF_MIN_DURATION", "5"}})
                .min_duration,
            std::chrono::seconds(5));
}

TEST(Options, SelectedRanks) {
  const Options some = good({"--ranks", "8,2-3,3-5", "true"}), all = good({"true"});
  EXPECT_EQ(some.selected_ranks(6).lowest, 2);
  EXPECT_EQ(some.selected_ranks(6).count, 4);
  EXPECT_EQ(some.selected_ranks(16).count, 5);
  EXPECT_EQ(some.selected_ranks(2).lowest, -1);
  EXPECT_EQ(all.selected_ranks(4).lowest, 0);
  EXPECT_EQ(all.selected_ranks(4).count, 4);
  EXPECT_EQ(all.selected_ranks(-1).count, 0);
}

TEST(Options, ShortOptionsCanBeJoined) {
  EXPECT_EQ(good({"-qr", "200", "true"}).rate_hz, 200);
  EXPECT_EQ(good({"-qr200", "true"}).rate_hz, 200);
}

TEST(Options, TheLastOneWins) { EXPECT_EQ(good({"-r", "1", "-r", "2", "true"}).rate_hz, 2); }

TEST(Options, OfTheCommandAreNotParsed) {
  EXPECT_EQ(good({"prog", "-r", "x", "--nonsense", "--", "-q"}).command,
            (Words{"prog", "-r", "x", "--nonsense", "--", "-q"}));
  EXPECT_EQ(good({"-q", "--", "report", "--json"}).command, (Words{"report", "--json"}));
  EXPECT_EQ(good({"--", "-weird"}).command, Words{"-weird"});
  EXPECT_FALSE(good({"prog", "-q"}).quiet);
}

TEST(Options, CanComeFromTheEnvironment) {
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_RATE", "50"}}).rate_hz, 50);
  EXPECT_EQ(good({"-r", "70", "true"}, {{"CLUSTERPROF_RATE", "50"}}).rate_hz, 70);
  EXPECT_EQ(good({"-r", "70", "true"}, {{"CLUSTERPROF_RATE", "no number"}}).rate_hz, 70);
  EXPECT_TRUE(good({"true"}, {{"CLUSTERPROF_NO_PYTHON", "1"}}).no_python);
  EXPECT_FALSE(good({"true"}, {{"CLUSTERPROF_NO_PYTHON", "0"}}).no_python);
  EXPECT_FALSE(good({"true"}, {{"CLUSTERPROF_NO_PYTHON", ""}}).no_python);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_EVENT", "A,B"}}).events, (Words{"A", "B"}));
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_SAMPLE_ON", "perf::PAGE-FAULTS:u=1:50"}}).sample_on.event,
            "perf::PAGE-FAULTS:u=1");
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_SAMPLE_ON", "page-faults:50"}}).sample_on.period, 50u);
  EXPECT_EQ(good({"--sample-on", "PAPI_L3_TCM", "true"}).sample_on.period, 0u);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_OUTPUT", "d"}}).output, "d");
  EXPECT_FALSE(good({"true"}, {{"CLUSTERPROF_RANKS", "1"}}).wants_rank(0));
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_CLOCK_SYNC", "always"}}).clock_sync, ClockSync::kAlways);
  EXPECT_NE(bad({"true"}, {{"CLUSTERPROF_RATE", "0"}}).error.find("CLUSTERPROF_RATE"), std::string::npos);
  EXPECT_EQ(bad({"true"}, {{"CLUSTERPROF_QUIET", "maybe"}}).status, 2);
}

TEST(Options, BadOnesAreNamed) {
  const struct {
    Words words;
    const char* names;
  } cases[] = {{{"--speed", "9", "true"}, "--speed"},
               {{"--rat", "9", "true"}, "--rate"},
               {{"-z", "true"}, "-z"},
               {{"-qz", "true"}, "-z"},
               {{"-r"}, "-r"},
               {{"-r", "--", "true"}, "-r"},
               {{"-r", "10001", "true"}, "10000"},
               {{"-r", "1.5", "true"}, "1.5"},
               {{"--rate=", "true"}, "--rate"},
               {{"--clock", "sun", "true"}, "--clock"},
               {{"--clock-sync", "sometimes", "true"}, "--clock-sync"},
               {{"--quiet=1", "true"}, "--quiet"},
               {{"--ranks", "3-1", "true"}, "--ranks"},
               {{"-e", "A,,B", "true"}, "--event"},
               {{"-e", std::string(2000, 'A'), "true"}, "at most 1000 characters"},
               {{"--sample-on", "page-faults:0", "true"}, "--sample-on: a period"},
               {{"--sample-on", ":5", "true"}, "--sample-on: EVENT or EVENT:PERIOD"},
               {{"--sample-on", "a,b", "true"}, "--sample-on: one event"},
               {{"--sample-on", "task-clock:9999", "true"}, "--sample-on: nanoseconds, at least 10000"},
               {{}, "no command"},
               {{"-q", "--"}, "no command"}};
  for (const auto& [words, names] : cases) {
    const Leave leave = bad(words);
    EXPECT_EQ(leave.status, 2) << names;
    EXPECT_NE(leave.error.find(names), std::string::npos) << leave.error;
  }
}

TEST(Options, LaunchersComeFirst) {
  EXPECT_NE(bad({"mpirun", "-n", "4", "./a.out", "x"}).error.find("mpirun -n 4 clusterprof ./a.out x"),
            std::string::npos);
  EXPECT_NE(bad({"/usr/bin/mpiexec.hydra", "-genv", "A", "1", "./a"}).error.find("-genv A 1 clusterprof ./a"),
            std::string::npos);
  EXPECT_EQ(bad({"srun"}).status, 2);
  EXPECT_EQ(good({"--", "mpirun", "-n", "4", "true"}).command.front(), "mpirun");
  EXPECT_EQ(good({"./mpirunner"}).command.front(), "./mpirunner");
}

TEST(Options, Memory) {
  EXPECT_EQ(good({"true"}).memory_interval_bytes, 0u);
  const Options alone = good({"--memory", "true", "64"});
  EXPECT_EQ(alone.memory_interval_bytes, 65536u);
  EXPECT_EQ(alone.command, (Words{"true", "64"}));
  EXPECT_EQ(good({"--memory", "-r", "500", "true"}).memory_interval_bytes, 65536u);
  EXPECT_EQ(good({"--memory", "--", "true"}).memory_interval_bytes, 65536u);
  EXPECT_EQ(good({"--memory=4K", "true"}).memory_interval_bytes, 4096u);
  EXPECT_EQ(good({"--memory=4K", "true"}).words, (Words{"--memory=4K"}));
  for (const char* on : {"1", "on", "64K", "65536"})
    EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_MEMORY", on}}).memory_interval_bytes, 65536u) << on;
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_MEMORY", "0"}}).memory_interval_bytes, 0u);
  EXPECT_EQ(good({"--memory=1M", "true"}, {{"CLUSTERPROF_MEMORY", "0"}}).memory_interval_bytes, 1u << 20);
  for (const char* value : {"511", "2G", "64KB", "-1", "K"})
    EXPECT_EQ(bad({std::string("--memory=") + value, "true"}).status, 2) << value;
}

TEST(Options, HelpAndVersionGoToStdout) {
  for (const char* word : {"--help", "-h", "--version"}) {
    const Leave leave = bad({word});
    EXPECT_EQ(leave.status, 0);
    EXPECT_FALSE(leave.output.empty());
  }
  // Every option has its place in the help.
  for (const char* name :
       {"--output",     "--rate",        "--clock",        "--event",        "--no-python", "--no-native",
        "--no-mpi",     "--no-children", "--only-regions", "--ranks",        "--quiet",     "--no-html",
        "--no-source",  "--command",     "--no-arguments", "--min-duration", "--min-ranks", "--mode",
        "--checkpoint", "--max-memory",  "--max-cpu",      "--strict",       "--no-stderr", "--hang-after",
        "--hang-abort", "--memory",      "--torch-ops"}) {
    EXPECT_NE(bad({"--help"}).output.find(name), std::string::npos) << name;
  }
  for (const char* name : {"attach PID", "detach RUN", "top RUN"})
    EXPECT_NE(bad({"--help"}).output.find(name), std::string::npos) << name;
}

TEST(Options, HangAfter) {
  using std::chrono::seconds;
  EXPECT_EQ(good({"true"}).hang_after, seconds(0));
  const Options asked = good({"--hang-after", "600", "--hang-abort", "true"});
  EXPECT_EQ(asked.hang_after, seconds(600));
  EXPECT_TRUE(asked.hang_abort);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_HANG_AFTER", "60"}}).hang_after, seconds(60));
  EXPECT_FALSE(good({"true"}, {{"CLUSTERPROF_HANG_AFTER", "60"}}).hang_abort);
  for (const char* value : {"", "0", "4", "60s", "-5", "1000000"})
    EXPECT_EQ(bad({"--hang-after", value, "true"}).status, 2) << value;
  EXPECT_NE(bad({"--hang-abort", "true"}).error.find("--hang-abort needs --hang-after"), std::string::npos);
  for (const Words& other :
       {Words{"--standby"}, Words{"--clock", "cpu"}, Words{"--only-regions"}, Words{"--ranks", "0"}}) {
    Words words{"--hang-after", "60"};
    words.insert(words.end(), other.begin(), other.end());
    words.emplace_back("true");
    EXPECT_NE(bad(words).error.find("does not go with " + other[0]), std::string::npos) << other[0];
  }
}

TEST(Options, Checkpoint) {
  using std::chrono::seconds;
  EXPECT_EQ(good({"true"}).collector.checkpoint, std::nullopt);
  EXPECT_EQ(good({"--checkpoint", "60", "true"}).collector.checkpoint,
            (CheckpointOption{seconds(60), false}));
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_CHECKPOINT", "local"}}).collector.checkpoint,
            (CheckpointOption{seconds(5), true}));
  for (const char* value : {"", "1", "86401", "60s", "-5", "Local", "local,60"})
    EXPECT_EQ(bad({"--checkpoint", value, "true"}).status, 2) << value;
}

TEST(Options, LimitsOfTheCollector) {
  EXPECT_EQ(good({"true"}).collector.max_memory_bytes, std::nullopt);
  EXPECT_EQ(good({"true"}).collector.max_cpu_percent, std::nullopt);
  EXPECT_EQ(good({"--max-memory", "500M", "true"}).collector.max_memory_bytes, 500u << 20);
  EXPECT_EQ(good({"--max-memory=2g", "true"}).collector.max_memory_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_MAX_MEMORY", "100000000"}}).collector.max_memory_bytes,
            100'000'000u);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_MAX_CPU", "2.5"}}).collector.max_cpu_percent, 2.5);
  for (const char* value : {"", "47M", "500MB", "-1", "20000000000G", "M"})
    EXPECT_EQ(bad({"--max-memory", value, "true"}).status, 2) << value;
  for (const char* value : {"", "0", "0.05", "10001", "5%", "nan"})
    EXPECT_EQ(bad({"--max-cpu", value, "true"}).status, 2) << value;
}

// The launcher says to the collector what the user has asked for, and leaves out the rest: in light mode the
// collector has another interval of its own.
TEST(Options, CollectorIsToldWhatWasAskedFor) {
  EXPECT_EQ(words_of(good({"true"}).collector), std::vector<std::string>{});
  const Options asked =
      good({"--mode", "light", "--checkpoint", "5", "--max-memory", "500M", "--max-cpu", "2.5", "true"});
  const std::vector<std::string> words = words_of(asked.collector);
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[0], "--checkpoint=5");
  EXPECT_EQ(words[1], "--max-memory=524288000");
  CollectorOptions again;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    EXPECT_TRUE(set_collector_option(again, kCollectorOptions[i], words[i].substr(equals + 1), ""))
        << words[i];
  }
  EXPECT_EQ(again.checkpoint, asked.collector.checkpoint);
  EXPECT_EQ(again.max_memory_bytes, asked.collector.max_memory_bytes);
  EXPECT_EQ(again.max_cpu_percent, asked.collector.max_cpu_percent);
}

TEST(Options, StoredCommand) {
  EXPECT_EQ(good({"true"}).command_detail, CommandDetail::kMasked);
  EXPECT_EQ(good({"--command", "full", "true"}).command_detail, CommandDetail::kFull);
  EXPECT_EQ(good({"--no-arguments", "true"}).command_detail, CommandDetail::kName);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_COMMAND", "name"}}).command_detail, CommandDetail::kName);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_NO_ARGUMENTS", "1"}}).command_detail, CommandDetail::kName);
  EXPECT_EQ(good({"--command", "masked", "true"}, {{"CLUSTERPROF_NO_ARGUMENTS", "1"}}).command_detail,
            CommandDetail::kMasked);
  EXPECT_NE(bad({"--command", "some", "true"}).error.find("name, hash, masked or full"), std::string::npos);
}

TEST(Options, PathsOfTheUsersCodeAreAbsolute) {
  const std::string here = std::filesystem::current_path().string();
  const Options options = good({"--own", "src:/u/lib/", "--own=/u/code/../lib", "true"});
  EXPECT_EQ(options.own, (Words{here + "/src", "/u/lib"}));
  EXPECT_EQ(std::count(options.words.begin(), options.words.end(), "--own=" + here + "/src"), 1);
  EXPECT_EQ(good({"true"}, {{"CLUSTERPROF_OWN", "/a:/b"}}).own, (Words{"/a", "/b"}));
  EXPECT_NE(bad({"--own", "/a::/b", "true"}).error.find("an empty path"), std::string::npos);
}

TEST(AnalysisVerbs, MistypedVerbsGetASuggestion) {
  EXPECT_EQ(meant_verb("reprot"), "report");
  EXPECT_EQ(meant_verb("stat"), "start");
  EXPECT_EQ(meant_verb("xyz"), "");
  EXPECT_EQ(meant_verb("l"), "");
}

TEST(AnalysisVerbs, AreKnown) {
  EXPECT_TRUE(is_analysis_verb("report"));
  EXPECT_FALSE(is_analysis_verb("record"));
  EXPECT_FALSE(is_analysis_verb("reports"));
}

TEST(Options, OfTheRunAsWords) {
  // In whatever way they were given, but never options that differ between the worlds of a run.
  const Options options = good({"-o", "d", "-r", "250", "--rate=500", "-e", "A,B", "--event", "C", "-q",
                                "--spawned=key:1:4", "--", "true", "--rate"},
                               {{"CLUSTERPROF_CLOCK", "cpu"},
                                {"CLUSTERPROF_NO_PYTHON", "yes"},
                                {"CLUSTERPROF_NO_NATIVE", "0"},
                                {"CLUSTERPROF_RATE", "7"},
                                {"CLUSTERPROF_OUTPUT", "elsewhere"},
                                {"CLUSTERPROF_SPAWNED", "other:9:9"}});
  Words words = options.words;
  std::sort(words.begin(), words.end());
  EXPECT_EQ(words,
            (Words{"--clock=cpu", "--event=A,B", "--event=C", "--no-python", "--quiet", "--rate=500"}));
  EXPECT_EQ(options.spawned.key, "key");
  EXPECT_EQ(options.spawned.first_rank, 4);
  words.push_back("--");
  words.push_back("true");
  const Options again = good(words);
  EXPECT_EQ(again.rate_hz, 500);
  EXPECT_EQ(again.events, (Words{"A", "B", "C"}));
  EXPECT_EQ(again.clock, SampleClock::kCpu);
  EXPECT_TRUE(again.no_python);
  EXPECT_EQ(again.spawned.world, 0);
  EXPECT_TRUE(good({"true"}).words.empty());
  bad({"--spawned=nonsense", "true"});
}

TEST(Options, InternalOptionsAreNotInTheHelp) {
  EXPECT_EQ(bad({"--help"}).output.find("spawned"), std::string::npos);
}

// The batch system started the command, so it runs even if it cannot be recorded.
TEST(Options, StartedCommandsAlwaysRun) {
  const Options options =
      good({"--started", "--argv0=-sh", "--", "/bin/sh", "--rate"}, {{"CLUSTERPROF_STRICT", "1"}});
  EXPECT_TRUE(options.started);
  EXPECT_FALSE(options.strict);
  EXPECT_EQ(options.argv0, "-sh");
  EXPECT_EQ(options.command, (Words{"/bin/sh", "--rate"}));
  EXPECT_EQ(options.problem, "");
  EXPECT_EQ(options.words, (Words{"--strict", "--started"}));

  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"CLUSTERPROF_RATE", "x"},
                                          {"CLUSTERPROF_NO_MPI", "maybe"},
                                          {"CLUSTERPROF_MEMORY", "x"},
                                          {"CLUSTERPROF_START_PROBLEM", "said before"}}) {
    const Options unrecorded =
        good({"--started", "--argv0=-sh", "--", "/bin/sh", "-c", "x"}, {{name, value}});
    EXPECT_NE(unrecorded.problem, "") << name;
    EXPECT_EQ(unrecorded.problem.find('\n'), std::string::npos);
    EXPECT_EQ(unrecorded.argv0, "-sh");
    EXPECT_EQ(unrecorded.command, (Words{"/bin/sh", "-c", "x"}));
    if (name != "CLUSTERPROF_START_PROBLEM") bad({"--", "/bin/sh"}, {{name, value}});
  }
  EXPECT_EQ(good({"--started", "--", "true"}, {{"CLUSTERPROF_START_PROBLEM", ""}}).command, Words{"true"});
  // Only from within.
  EXPECT_FALSE(good({"true"}, {{"CLUSTERPROF_STARTED", "1"}, {"CLUSTERPROF_ARGV0", "x"}}).started);
  EXPECT_EQ(bad({"--started"}).status, 2);
}

}  // namespace
}  // namespace clusterprof::cli
