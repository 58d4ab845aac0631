// SPDX-License-Identifier: BSD-3-Clause
#include "cli/command_name.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/command_text.hpp"

namespace clusterprof::cli {
namespace {

TEST(CommandName, IsTheProgramsBaseName) {
  EXPECT_EQ(command_name({"./build/stencil", "--steps", "3"}), "stencil");
  EXPECT_EQ(command_name({"a.out"}), "a.out");
  EXPECT_EQ(command_name({"./train.py"}), "train");
}

TEST(CommandName, IsTheScriptOrModuleOfAnInterpreter) {
  EXPECT_EQ(command_name({"python3", "examples/train.py", "-m", "x"}), "train");
  EXPECT_EQ(command_name({"/opt/python3.11", "-u", "-W", "error", "-X", "dev", "train.py"}), "train");
  EXPECT_EQ(command_name({"python3", "-uWerror", "train.py"}), "train");
  EXPECT_EQ(command_name({"python", "-m", "package.module", "train.py"}), "module");
  EXPECT_EQ(command_name({"python", "-mpackage.module"}), "module");
  EXPECT_EQ(command_name({"python3", "-m", "mpi4py", "train.py"}), "train");
  EXPECT_EQ(command_name({"python3", "-m", "mpi4py"}), "mpi4py");
  EXPECT_EQ(command_name({"bash", "-x", "job.sh"}), "job");
}

TEST(CommandName, IsTheInterpreterWithoutAScript) {
  EXPECT_EQ(command_name({"python3", "-c", "print(1)"}), "python3");
  EXPECT_EQ(command_name({"python3"}), "python3");
  EXPECT_EQ(command_name({"sh", "-c", "./train.py"}), "sh");
}

TEST(CommandText, GivesTheSameWordsBack) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {""}, {"a"}, {"a", "", "b c"}, {"", ""}})
    EXPECT_EQ(command_words(command_text(words)), words);
  EXPECT_EQ(command_words("a"), std::vector<std::string>{"a"}) << "from a message that was cut";
}

TEST(CommandText, IsCutBetweenWords) {
  const std::vector<std::string> fits = {"a", std::string(kCommandTextBytes - 3, 'x')};
  EXPECT_EQ(command_text(fits).size(), kCommandTextBytes);
  EXPECT_EQ(command_words(command_text(fits)), fits);
  std::vector<std::string> more = fits;
  more.push_back("z");
  EXPECT_EQ(command_words(command_text(more)), (std::vector<std::string>{"a", "..."}));
  const std::vector<std::string> many(kCommandTextBytes, "x");
  EXPECT_LE(command_text(many).size(), kCommandTextBytes);
  EXPECT_GT(command_text(many).size(), kCommandTextBytes - 8);
  EXPECT_EQ(command_words(command_text(many)).back(), "...");
  EXPECT_EQ(command_words(command_text({std::string(kCommandTextBytes, 'x')})),
            std::vector<std::string>{"..."});
}

TEST(ProgramDirectory, IsWhereTheScriptOrExecutableLies) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(program_directory({"python3", "-u", "/u/code/train.py", "--x"}, "/usr/bin/python3"), "/u/code");
  EXPECT_EQ(program_directory({"python3", "src/train.py"}, "/usr/bin/python3"), here + "/src");
  EXPECT_EQ(program_directory({"python3", "train.py"}, "/usr/bin/python3"), here);
  EXPECT_EQ(program_directory({"python3", "-m", "pkg.mod"}, "/usr/bin/python3"), here);
  EXPECT_EQ(program_directory({"python3", "-c", "work()"}, "/usr/bin/python3"), here);
  EXPECT_EQ(program_directory({"solver"}, "/opt/app/bin/solver"), "/opt/app/bin");
  EXPECT_EQ(program_directory({"ls"}, "/usr/bin/ls"), "") << "shared with other programs";
}

TEST(CommandName, IsAFileName) {
  EXPECT_EQ(command_name({"./my prog(1)"}), "my_prog_1_");
  EXPECT_EQ(command_name({"/"}), "command");
  EXPECT_EQ(command_name({std::string(300, 'x')}).size(), 64u);
}

}  // namespace
}  // namespace clusterprof::cli
