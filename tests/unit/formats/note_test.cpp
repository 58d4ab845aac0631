// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/note.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace clusterprof::shard {
namespace {

TEST(NoteKinds, NamesAreUniqueAndFoundAgain) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kNoteCodes; ++i) {
    const auto code = static_cast<NoteCode>(i);
    EXPECT_TRUE(names.insert(name_of(code)).second) << name_of(code);
    EXPECT_EQ(note_code(name_of(code)), code);
  }
  EXPECT_EQ(note_code("of_another_version"), std::nullopt);
  EXPECT_EQ(note_code(""), std::nullopt);
}

// Collectors and merges only write codes and numbers. A text is a name, or a message of another program.
TEST(NoteKinds, HoldNoSentences) {
  const std::set<std::string> by_nature = {"shard",      "file",         "library_message", "build_id",
                                           "debug_file", "ranks_option", "value",           "site_message",
                                           "launcher",   "reason"};
  for (const NoteKind& kind : kNoteKinds)
    for (const char* const text : {kind.text, kind.detail})
      if (text != nullptr) {
        EXPECT_TRUE(by_nature.contains(text)) << kind.name << ": " << text;
      }
}

// In FORMATS.md a row "| `code` | ranks | `missing` | ... |" tells what each code has.
TEST(NoteKinds, AreThoseInFormatsMd) {
  std::ifstream file(FORMATS_MD);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  ASSERT_NE(document.find("### `notes`"), std::string::npos);
  const auto quoted = [](const char* name) { return name == nullptr ? "" : "`" + std::string(name) + "`"; };
  for (const NoteKind& kind : kNoteKinds) {
    const char* const scope = kind.scope == NoteScope::kRun    ? "run"
                              : kind.scope == NoteScope::kNode ? "node"
                                                               : "ranks";
    std::string row = "| `" + std::string(kind.name) + "` | " + scope + " |";
    for (const char* const field : {kind.number, kind.text, kind.detail})
      row += field == nullptr ? " |" : " " + quoted(field) + " |";
    EXPECT_NE(document.find(row), std::string::npos) << row;
  }
}

TEST(Notes, AdjacentRangesOfRanksAreJoined) {
  const auto of = [](std::int32_t first, std::int32_t last, std::uint64_t version = 1) {
    return note_of_ranks(NoteCode::kPythonFreeThreaded, {first, last}, version);
  };
  std::vector<Note> notes = {of(7, 9), of(0, 3), of(4, 4), of(2, 5), of(20, 20), of(0, 1, 2), of(8, 8)};
  std::reverse(notes.begin(), notes.end());
  unite(notes);
  EXPECT_EQ(notes, (std::vector{of(0, 5), of(7, 9), of(20, 20), of(0, 1, 2)}));
}

TEST(Notes, RangesUpToTheLargestRankAreJoined) {
  const Note all = note_of_ranks(NoteCode::kNoSamples, {INT32_MIN, INT32_MAX});
  std::vector<Note> notes = {note_of_ranks(NoteCode::kNoSamples, {INT32_MAX, INT32_MAX}), all,
                             note_of_ranks(NoteCode::kNoSamples, {0, 1})};
  unite(notes);
  EXPECT_EQ(notes, std::vector{all});
}

TEST(Notes, DuplicatesAreRemoved) {
  const Note of_a = note_of_node(NoteCode::kOtherUser, "a", 7),
             of_b = note_of_node(NoteCode::kOtherUser, "b", 7);
  const Note run = note_of_run(NoteCode::kDifferentRuns);
  std::vector<Note> notes = {of_b, of_a, run, of_b, run};
  unite(notes);
  EXPECT_EQ(notes, (std::vector{run, of_a, of_b}));
}

TEST(Notes, UnitingDoesNotDependOnOrderOrSteps) {
  std::vector<Note> all, steps;
  for (std::int32_t rank = 40; rank > 0; rank -= 3)
    all.push_back(note_of_ranks(NoteCode::kNoSamples, {rank, rank + rank % 4}));
  for (const Note& note : all) {
    steps.push_back(note);
    unite(steps);
  }
  unite(all);
  EXPECT_EQ(all, steps);
}

TEST(Notes, FieldsThatTheCodeDoesNotUseAreRefused) {
  EXPECT_EQ(problem_of(note_of_ranks(NoteCode::kMissingRanks, {0, 70000}, 3)), nullptr);
  EXPECT_EQ(problem_of(note_of_node(NoteCode::kOtherUser, "n", 3)), nullptr);
  EXPECT_NE(problem_of(note_of_node(NoteCode::kOtherUser, "n", 3, "text")), nullptr);
  EXPECT_NE(problem_of(note_of_node(NoteCode::kPidNamespaces, "n", 3)), nullptr);
  EXPECT_NE(problem_of(note_of_node(NoteCode::kDifferentRuns, "n")), nullptr);
  EXPECT_NE(problem_of(note_of_ranks(NoteCode::kDifferentRuns, {0, 1})), nullptr);
  EXPECT_NE(problem_of(note_of_ranks(NoteCode::kNoSamples, {2, 1})), nullptr);
  EXPECT_EQ(problem_of(note_of_ranks(NoteCode::kNoSamples, {INT32_MIN, INT32_MAX})), nullptr)
      << "as ranks may";
  Note unknown;
  unknown.code = static_cast<NoteCode>(kNoteCodes);
  EXPECT_NE(problem_of(unknown), nullptr);
}

}  // namespace
}  // namespace clusterprof::shard
