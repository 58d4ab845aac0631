// SPDX-License-Identifier: BSD-3-Clause
#include "cli/repeat.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/launcher_words.hpp"

namespace clusterprof::cli {
namespace {

using Words = std::vector<std::string>;

const Words kRecorder = {"/opt/bin/clusterprof", "--rate=200", "--output=a-1"};

Words recorded(const Words& command) {
  const Result<Words> words = recorded_command(command, kRecorder);
  EXPECT_TRUE(words) << words.error().message;
  return words ? words.value() : Words{};
}

TEST(Repeat, TheRecorderStandsBeforeTheProgram) {
  EXPECT_EQ(recorded({"sh", "-c", "true"}),
            (Words{"/opt/bin/clusterprof", "--rate=200", "--output=a-1", "--", "sh", "-c", "true"}));
  EXPECT_EQ(recorded({"mpirun", "-n", "4", "--mca", "btl", "self", "sh", "-n"}),
            (Words{"mpirun", "-n", "4", "--mca", "btl", "self", "/opt/bin/clusterprof", "--rate=200",
                   "--output=a-1", "--", "sh", "-n"}));
}

TEST(Repeat, OptionsThatAreNotKnownMayHaveAValue) {
  EXPECT_EQ(recorded({"srun", "--no-such-option", "no such value", "sh", "sh"}),
            (Words{"srun", "--no-such-option", "no such value", "/opt/bin/clusterprof", "--rate=200",
                   "--output=a-1", "--", "sh", "sh"}));
  EXPECT_FALSE(recorded_command({"mpirun", "-n", "4", "/no/such/program"}, kRecorder));
  EXPECT_FALSE(recorded_command({"mpirun", "-n", "4"}, kRecorder));
}

TEST(Repeat, EachOfSeveralProgramsIsRecorded) {
  EXPECT_EQ(recorded({"mpirun", "-n", "1", "sh", "a", ":", "-n", "2", "cat"}),
            (Words{"mpirun", "-n", "1", "/opt/bin/clusterprof", "--rate=200", "--output=a-1", "--", "sh", "a",
                   ":", "-n", "2", "/opt/bin/clusterprof", "--rate=200", "--output=a-1", "--", "cat"}));
}

TEST(Repeat, WhereTheUserHasPutItItStays) {
  EXPECT_EQ(recorded({"mpirun", "-n", "2", "clusterprof", "-q", "sh"}),
            (Words{"mpirun", "-n", "2", "clusterprof", "--rate=200", "--output=a-1", "-q", "sh"}));
  EXPECT_EQ(recorded({"mpirun", "/usr/bin/clusterprof", "record", "report"}),
            (Words{"mpirun", "/usr/bin/clusterprof", "record", "--rate=200", "--output=a-1", "report"}));
}

// Only where the program begins: elsewhere it is any word.
TEST(Repeat, ItsNameInOtherPlacesIsNotTheRecorder) {
  EXPECT_EQ(recorded({"mpirun", "-n", "4", "sh", "--input", "/data/clusterprof"}),
            (Words{"mpirun", "-n", "4", "/opt/bin/clusterprof", "--rate=200", "--output=a-1", "--", "sh",
                   "--input", "/data/clusterprof"}));
  EXPECT_EQ(recorded({"sh", "clusterprof"}),
            (Words{"/opt/bin/clusterprof", "--rate=200", "--output=a-1", "--", "sh", "clusterprof"}));
  EXPECT_EQ(recorded({"mpirun", "--wdir", "/home/u/clusterprof", "sh"}),
            (Words{"mpirun", "--wdir", "/home/u/clusterprof", "/opt/bin/clusterprof", "--rate=200",
                   "--output=a-1", "--", "sh"}));
}

TEST(Repeat, OfSeveralProgramsEachHasOne) {
  EXPECT_EQ(recorded({"mpirun", "-n", "1", "clusterprof", "-q", "sh", ":", "-n", "2", "cat"}),
            (Words{"mpirun", "-n", "1", "clusterprof", "--rate=200", "--output=a-1", "-q", "sh", ":", "-n",
                   "2", "/opt/bin/clusterprof", "--rate=200", "--output=a-1", "--", "cat"}));
  EXPECT_EQ(recorded({"/usr/bin/clusterprof", "run", "sh"}),
            (Words{"/usr/bin/clusterprof", "run", "--rate=200", "--output=a-1", "sh"}));
}

TEST(Repeat, LaunchersByName) {
  EXPECT_EQ(launcher_name("/usr/bin/mpiexec.hydra"), "mpiexec.hydra");
  EXPECT_EQ(launcher_name("srun"), "srun");
  EXPECT_EQ(launcher_name("./mpirunner"), "");
  EXPECT_EQ(behind_launcher({"mpirun", "-n", "4", "--oversubscribe", "./a", "-n"}), 4u);
  EXPECT_EQ(behind_launcher({"mpirun", "-n"}), 2u);
}

}  // namespace
}  // namespace clusterprof::cli
