// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/notes.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "formats/wire/segment.h"
#include "report/analysis/notes.hpp"

namespace clusterprof::report {
namespace {

using shard::Note;
using shard::NoteCode;

std::string said(std::vector<Note> notes) {
  const std::vector<NoteRecord> records = united_notes(std::move(notes));
  EXPECT_EQ(records.size(), 1u);
  return words::sentence(records.at(0));
}

TEST(NoteWords, ProcessesAreCounted) {
  const auto killed = [](std::uint64_t count) {
    return said({note_of_node(NoteCode::kMemoryKills, "n1", count)});
  };
  EXPECT_EQ(killed(1), "On node n1: the kernel killed 1 process because memory was short.");
  EXPECT_EQ(killed(2), "On node n1: the kernel killed 2 processes because memory was short.");
}

TEST(NoteWords, NodesAreUnitedAndCounted) {
  const auto on = [](const std::string& node) { return note_of_node(NoteCode::kTooManyFiles, node, 1024); };
  EXPECT_TRUE(said({on("n1")}).starts_with("On node n1: some processes were recorded late"));
  EXPECT_TRUE(said({on("n2"), on("n1")}).starts_with("On nodes n1, n2: "));
  std::vector<Note> many;
  for (int node = 1; node <= 100; ++node) many.push_back(on("n" + std::to_string(node)));
  EXPECT_TRUE(said(many).starts_with("On nodes n1, n10, n100, n11 and 96 more: ")) << said(many);
  EXPECT_NE(said(many).find("1024 open files"), std::string::npos);
}

TEST(NoteWords, SayWhichNodeHadAWrongDate) {
  EXPECT_EQ(
      said({note_of_node(NoteCode::kWrongDate, "n7", 86'400)}),
      "The date of node n7 was 24.0 h off that of the other nodes: its times are shown as if its ranks had "
      "started when the others did.");
  EXPECT_TRUE(
      said({note_of_node(NoteCode::kWrongDate, "n7", 60), note_of_node(NoteCode::kWrongDate, "n8", 60)})
          .ends_with("their times are shown as if their ranks had started when the others did."));
}

TEST(NoteWords, RanksAreRanges) {
  const auto of = [](std::int32_t first, std::int32_t last) {
    return note_of_ranks(NoteCode::kPythonFreeThreaded, {first, last}, 0x030d00f0);
  };
  EXPECT_EQ(said({of(3, 3)}),
            "Rank 3: Python frames are missing: free-threaded Python 3.13 is not supported.");
  EXPECT_TRUE(said({of(0, 3), of(7, 8)}).starts_with("Ranks 0-3, 7, 8: "));
  EXPECT_EQ(said({note_of_ranks(NoteCode::kPythonPypy, {0, 1})}),
            "Ranks 0, 1: Python frames are missing: PyPy is not supported.");
}

TEST(NoteWords, MissingRanksAreCountedAlsoWhereNotAllAreNamed) {
  const auto of = [](std::int32_t first, std::int32_t last, std::uint64_t missing) {
    return note_of_ranks(NoteCode::kMissingRanks, {first, last}, missing);
  };
  EXPECT_EQ(
      said({of(3, 3, 1)}),
      "1 rank is missing: rank 3. Either it never started, or the file of its node (node-<host>.h5) was "
      "not written.");
  EXPECT_TRUE(
      said({of(0, 1, 9), of(4, 6, 9)}).starts_with("9 ranks are missing: ranks 0, 1, 4-6, ... Either they"))
      << said({of(0, 1, 9), of(4, 6, 9)});
}

TEST(NoteWords, UnrecordedProgramsAreAddedUp) {
  const auto on = [](const std::string& node, std::uint64_t programs) {
    return note_of_node(NoteCode::kUnrecordedPrograms, node, programs, "static_program");
  };
  EXPECT_EQ(
      said({on("n1", 1)}),
      "On node n1: 1 program that recorded processes executed ran unrecorded: they are linked statically.");
  EXPECT_EQ(
      said({on("n1", 3), on("n2", 3), on("n3", 4)}),
      "On nodes n1, n2, n3: 10 programs that recorded processes executed ran unrecorded: they are linked "
      "statically.");
}

TEST(NoteWords, EveryReasonForAnUnrecordedProgramHasWords) {
  std::set<std::string> sentences;
  for (const char* const reason : wire::kUnrecordedReasonNames) {
    const std::string sentence = said({note_of_node(NoteCode::kUnrecordedPrograms, "n1", 2, reason)});
    EXPECT_FALSE(sentence.ends_with(std::string(": ") + reason + ".")) << sentence;
    EXPECT_TRUE(sentences.insert(sentence).second) << sentence;
  }
}

TEST(NoteWords, ForeignTextsAreUnchanged) {
  EXPECT_EQ(said({note_of_node(NoteCode::kNodeCheckFailed, "n1", 0, "/dev/shm is full")}),
            "On node n1: the site's check before the job failed: /dev/shm is full");
  EXPECT_EQ(said({note_of_run(NoteCode::kFileNotOpened, ENOENT, "/a.so")}),
            "Functions in /a.so have no names: the file cannot be opened (No such file or directory).");
}

// Even for a note in which everything is missing or absurd, as in a forged file.
TEST(NoteWords, EveryCodeHasASentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (std::size_t code = 0; code < shard::kNoteCodes; ++code) {
    NoteRecord note;
    note.code = static_cast<NoteCode>(code);
    note.number = UINT64_MAX;
    const std::string sentence = words::sentence(note);
    EXPECT_GT(sentence.size(), 20u) << shard::name_of(note.code);
    EXPECT_LT(sentence.size(), 300u) << sentence;
    EXPECT_TRUE(sentences.insert(sentence).second) << sentence;
  }
}

}  // namespace
}  // namespace clusterprof::report
