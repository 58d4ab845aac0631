// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/node_check.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace clusterprof::collector {
namespace {

namespace fs = std::filesystem;

class NodeCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "node-check-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    file_ = directory_ / "node-check";
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::vector<shard::Note> notes_of(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
    return node_check_notes(file_, "n3");
  }

  fs::path directory_, file_;
};

TEST_F(NodeCheckTest, WarningsAndFailuresNameTheNode) {
  const std::vector<shard::Note> expected{
      note_of_node(shard::NoteCode::kNodeCheckWarned, "n3", 0, "perf_event_paranoid is 4"),
      note_of_node(shard::NoteCode::kNodeCheckFailed, "n3", 0, "/dev/shm is full")};
  EXPECT_EQ(notes_of("ok: Python 3.11\nwarn: perf_event_paranoid is 4\nfail: /dev/shm is full"), expected);
}

TEST_F(NodeCheckTest, IgnoresOtherLines) {
  EXPECT_TRUE(notes_of("").empty());
  EXPECT_TRUE(notes_of("\n\nwarn:\nwarn: \n warn: indented\nhello\nok: all is well\n").empty());
}

TEST_F(NodeCheckTest, LimitsTheNumberAndLengthOfNotes) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "warn: " + std::to_string(i) + std::string(1000, 'x') + "\n";
  const auto notes = notes_of(text);
  ASSERT_FALSE(notes.empty());
  EXPECT_LE(notes.size(), 10u);
  for (const shard::Note& note : notes) EXPECT_LE(note.text.size(), 250u);
  EXPECT_EQ(notes_of(std::string(1 << 20, 'a')).size(), 0u);
}

TEST_F(NodeCheckTest, ReplacesCharactersThatATerminalWouldInterpret) {
  const auto notes = notes_of(std::string("warn: a\x1b[31mb\tc\r\0d\xc3\xa4\x7f", 21) + "\n");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].text, "a?[31mb?c??d???");
}

TEST_F(NodeCheckTest, ReadsOnlyRegularFiles) {
  EXPECT_TRUE(node_check_notes(file_, "n3").empty());
  std::ofstream(directory_ / "other") << "warn: secret\n";
  fs::create_symlink(directory_ / "other", file_);
  EXPECT_TRUE(node_check_notes(file_, "n3").empty());
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_TRUE(node_check_notes(file_, "n3").empty());
  EXPECT_TRUE(node_check_notes(directory_, "n3").empty());
}

TEST_F(NodeCheckTest, ReadsTheFileOfTheJob) {
  EXPECT_EQ(node_check_file("4711"), fs::path("/run/clusterprof/4711/node-check"));
  for (const char* job : {"", "../1", "12a", "-1", "123456789012345678901"})
    EXPECT_EQ(node_check_file(job), "");
  EXPECT_EQ(node_check_file(nullptr), "");
}

}  // namespace
}  // namespace clusterprof::collector
