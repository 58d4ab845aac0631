// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/report.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

const std::vector<Check> kChecks = {
    {"a.one", "first", "one", Status::kOk, "fine", "", "", {"x: same", "y: same", "z"}},
    {"a.two", "first", "two", Status::kWarn, "half of it", "the other half", "you: buy it", {}},
    {"b.three", "second", "three", Status::kOk, "fine, too", "", "", {}},
};

TEST(DoctorReport, ShowsWhatIsNotOk) {
  const std::string text = text_of(kChecks, {"n1", false, false, 80});
  EXPECT_EQ(text,
            "first\n"
            "  warn  two                   half of it\n"
            "        costs                 the other half\n"
            "        fix                   you: buy it\n"
            "\n"
            "n1: 1 warning of 3 checks: recording works here (--verbose shows all)\n");
}

TEST(DoctorReport, ShowsAllWhenAsked) {
  const std::string text = text_of(kChecks, {"n1", true, false, 80});
  EXPECT_NE(text.find("  ok    one                   fine\n                              - x, y: same\n"
                      "                              - z\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nsecond\n  ok    three "), std::string::npos) << text;
}

TEST(DoctorReport, Verdict) {
  EXPECT_EQ(text_of({kChecks[0]}, {"n1", false, false, 80}), "n1: all 1 check ok (--verbose shows all)\n");
  std::vector<Check> checks = kChecks;
  checks[2].status = Status::kFail;
  const std::string text = text_of(checks, {"n1", false, false, 80});
  EXPECT_NE(text.find("n1: 1 failure and 1 warning of 3 checks: recording does not work here as it should"),
            std::string::npos);
  EXPECT_EQ(verdict_of(checks), Status::kFail);
  EXPECT_EQ(verdict_of(kChecks), Status::kWarn);
  EXPECT_EQ(verdict_of({}), Status::kOk);
}

TEST(DoctorReport, StaysWithinItsWidth) {
  std::vector<Check> checks = kChecks;
  for (int i = 0; i < 40; ++i) checks[1].found += " wörd";
  for (const std::size_t width : {60u, 80u, 120u}) {
    std::istringstream lines(text_of(checks, {"n1", false, false, width}));
    for (std::string line; std::getline(lines, line);) {
      std::size_t columns = 0;
      for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
      EXPECT_LE(columns, std::max<std::size_t>(width, 72)) << line;
    }
  }
}

TEST(DoctorReport, ColoursOnlyWhenAsked) {
  EXPECT_EQ(text_of(kChecks, {"n1", true, false, 80}).find('\033'), std::string::npos);
  EXPECT_NE(text_of(kChecks, {"n1", true, true, 80}).find("\033[33m  warn\033[0m"), std::string::npos);
}

TEST(DoctorReport, NotesAreShortLines) {
  EXPECT_EQ(note_of(kChecks[0]), "ok: one: fine");
  EXPECT_EQ(note_of(kChecks[1]), "warn: two: half of it; the other half");
  Check check = kChecks[1];
  check.found = "a\nb\033[31m";
  for (int i = 0; i < 100; ++i) check.found += "\xc3\xa4";
  const std::string note = note_of(check);
  EXPECT_LE(note.size(), kMaxNoteBytes);
  EXPECT_EQ(note.find('\n'), std::string::npos);
  EXPECT_EQ(note.find('\033'), std::string::npos);
  EXPECT_TRUE(note.ends_with("\xc3\xa4...")) << note;
}

TEST(DoctorReport, PrintsNoControlCharacters) {
  EXPECT_EQ(printable("a\tb\r\x7f\xff z\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "a b??? z\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m"),
            "?1m");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "?????");
  EXPECT_EQ(printable("a\u202eb\u2066"), "a?b?") << "right-to-left override and isolate";
}

TEST(DoctorReport, JsonOnOneLineOrIndented) {
  const std::string line =
      json_of({{"a.b", "a", "t", Status::kFail, "say \"hi\"\\", "c", "f", {"d1", "d2"}}}, "n1", false);
  EXPECT_NE(line.find("\"schema\": \"clusterprof.doctor/1\""), std::string::npos);
  EXPECT_NE(line.find("\"verdict\": \"fail\""), std::string::npos);
  EXPECT_NE(line.find("\"found\": \"say \\\"hi\\\"\\\\\""), std::string::npos) << line;
  EXPECT_NE(line.find("\"details\": [\"d1\", \"d2\"]"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_NE(json_of(kChecks, "n1", true).find("\n      \"id\": \"a.one\",\n"), std::string::npos);
}

TEST(DoctorReport, PrefixesEachLine) { EXPECT_EQ(with_prefix("a\n\n b\n", "n1"), "n1: a\nn1:  b\n"); }

}  // namespace
}  // namespace clusterprof::cli::doctor
