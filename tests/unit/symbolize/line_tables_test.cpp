// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/line_tables.hpp"

#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "formats/wire/sample.h"

namespace clusterprof::collector {
namespace {

using Line = std::optional<std::uint32_t>;

TEST(LineTablesTest, DecodesKnownTables) {
  // 3.8: 6 bytes of line 10, then line 12, then back to 11.
  const std::vector<std::uint8_t> lnotab = {6, 2, 4, 0xff};
  EXPECT_EQ(python_line(8, 10, lnotab, 0), Line(10));
  EXPECT_EQ(python_line(9, 10, lnotab, 2), Line(10));
  EXPECT_EQ(python_line(8, 10, lnotab, 3), Line(12));
  EXPECT_EQ(python_line(9, 10, lnotab, 5), Line(11));
  // 3.10: 4 bytes of line 10, 2 without one, 2 of line 13.
  const std::vector<std::uint8_t> ranges = {4, 0, 2, 0x80, 2, 3};
  EXPECT_EQ(python_line(10, 10, ranges, 1), Line(10));
  EXPECT_EQ(python_line(10, 10, ranges, 2), Line());
  EXPECT_EQ(python_line(10, 10, ranges, 3), Line(13));
  EXPECT_EQ(python_line(10, 10, ranges, 4), Line());
  // 3.11: short form, 2 units, same line; one-line form, +2; none; no-columns form, -3.
  const std::vector<std::uint8_t> locations = {0x81, 0x12, 0xe0, 1, 2, 0xf8, 0xe8, 0x07};
  EXPECT_EQ(python_line(11, 10, locations, 1), Line(10));
  EXPECT_EQ(python_line(12, 10, locations, 2), Line(12));
  EXPECT_EQ(python_line(13, 10, locations, 3), Line());
  EXPECT_EQ(python_line(14, 10, locations, 4), Line(9));
  EXPECT_EQ(python_line(15, 10, locations, 5), Line());
}

TEST(LineTablesTest, FramesNotStartedAreOnTheFirstLine) {
  for (std::uint32_t minor = 8; minor <= 15; ++minor)
    EXPECT_EQ(python_line(minor, 77, {}, wire::kInstructionNotStarted), Line(77));
}

TEST(LineTablesTest, UnknownVersionsHaveNoLines) {
  const std::vector<std::uint8_t> table = {0x81, 0x12};
  EXPECT_EQ(python_line(7, 10, table, 0), Line());
  EXPECT_EQ(python_line(16, 10, table, 0), Line());
}

TEST(LineTablesTest, SurvivesRandomBytes) {
  std::mt19937 random(7);
  std::uint64_t lines = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint8_t> table(random() % 40);
    for (std::uint8_t& byte : table) byte = static_cast<std::uint8_t>(random());
    for (const std::uint32_t minor : {8u, 10u, 11u})
      if (python_line(minor, static_cast<std::uint32_t>(random()), table,
                      static_cast<std::uint32_t>(random() % 300)))
        ++lines;
  }
  EXPECT_GT(lines, 0u);
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  if (!pipe) return text;
  std::array<char, 65536> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    text.append(buffer.data(), got);
  return text;
}

std::uint32_t number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EXPECT_TRUE(error == std::errc() && end == text.data() + text.size()) << text;
  return value;
}

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes;
  if (hex == "-") return bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

class InterpreterTest : public ::testing::TestWithParam<std::string> {};

std::string find_interpreter(const std::string& version) {
  if (version == "system") return std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "";
  const char* const home = std::getenv("HOME");
  const std::filesystem::path root =
      std::filesystem::path(home != nullptr ? home : "/root") / ".pyenv/versions";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error))
    if (entry.path().filename().string().starts_with(version + ".")) return entry.path() / "bin/python3";
  return "";
}

TEST_P(InterpreterTest, LinesAreTheInterpretersOwn) {
  const std::string interpreter = find_interpreter(GetParam());
  if (interpreter.empty()) GTEST_SKIP() << "no Python " << GetParam() << " on this machine";
  std::istringstream text(output_of(interpreter + " -W ignore " DUMP_SCRIPT));
  std::string row;
  ASSERT_TRUE(std::getline(text, row)) << interpreter;
  const std::uint32_t minor = number(row);
  std::uint64_t objects = 0;
  std::uint64_t units = 0;
  std::uint64_t wrong = 0;
  while (std::getline(text, row)) {
    std::istringstream fields(row);
    std::uint32_t first_line = 0;
    std::string hex;
    fields >> first_line >> hex;
    const std::vector<std::uint8_t> table = bytes_of(hex);
    ++objects;
    for (std::string range; fields >> range;) {
      const std::size_t middle = range.find(':');
      const std::size_t last = range.rfind(':');
      const std::string line = range.substr(last + 1);
      Line expected;
      if (line != "-") expected = number(line);
      const std::uint32_t end = number(std::string_view(range).substr(middle + 1, last - middle - 1));
      for (std::uint32_t unit = number(std::string_view(range).substr(0, middle)); unit < end; ++unit) {
        ++units;
        const Line got = python_line(minor, first_line, table, unit);
        if (got == expected) continue;
        if (++wrong < 5)
          ADD_FAILURE() << "unit " << unit << ": " << got.value_or(0) << " instead of "
                        << expected.value_or(0) << "\n"
                        << row.substr(0, 2000);
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(objects, 3000u);
  EXPECT_GT(units, 100'000u);
}

INSTANTIATE_TEST_SUITE_P(Pythons, InterpreterTest,
                         ::testing::Values("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "system"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name)
                             if (c == '.') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace clusterprof::collector
