// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/code_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_12.h"
#include "tests/unit/python_walk/fake_python.hpp"

namespace clusterprof::agent {
namespace {

class CodeTableTest : public testing::TestWithParam<const PythonLayout*> {
 protected:
  CodeFingerprint fingerprint(std::uint64_t name, std::uint64_t filename,
                              const std::string& table = "table") {
    return {python_.make_code(name, filename, 42, table), name, filename, 42};
  }
  std::uint64_t describe(FakeSegment& segment, const CodeFingerprint& of) {
    const std::uint64_t id = code_id_of(of);
    describe_code(python_.runtime, segment.header(), segment_generation(segment.header()), of, id);
    return id;
  }
  std::string described_name(std::uint64_t name) {
    FakeSegment segment;
    const auto entry = segment.find(describe(segment, fingerprint(name, python_.make_str("f.py"))));
    return entry ? entry->name : "no entry";
  }
  FakePython python_{*GetParam()};
};

TEST_P(CodeTableTest, DescribesNameFileLineAndTable) {
  FakeSegment segment;
  const auto of =
      fingerprint(python_.make_str("Class.method"), python_.make_str("/a/b.py"), std::string("\0\1x", 3));
  const std::uint64_t id = describe(segment, of);
  const auto entry = segment.find(id);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->name, "Class.method");
  EXPECT_EQ(entry->filename, "/a/b.py");
  EXPECT_EQ(entry->first_line, 42u);
  EXPECT_EQ(entry->line_table, std::string("\0\1x", 3));
  EXPECT_TRUE(is_known_code(id, segment_generation(segment.header())));
  const std::uint64_t used = segment.header().code_arena_used;
  EXPECT_EQ(used % 8, 0u);
  describe(segment, of);
  EXPECT_EQ(segment.header().code_arena_used, used);
  EXPECT_EQ(segment.slots_used(), 1u);
}

TEST_P(CodeTableTest, ConvertsEveryKindOfStr) {
  const std::uint8_t latin1[] = {'g', 'r', 0xfc, 0xdf, 'e'};
  EXPECT_EQ(described_name(python_.make_str(latin1, 5, 1, false)),
            "gr\xc3\xbc\xc3\x9f"
            "e");
  const std::uint16_t ucs2[] = {'a', 0x3b1, 0x9f20, 0xdc80, 'z'};
  EXPECT_EQ(described_name(python_.make_str(ucs2, 5, 2, false)), "a\xce\xb1\xe9\xbc\xa0\xef\xbf\xbdz");
  const std::uint32_t ucs4[] = {'a', 0x10348, 0x110000};
  EXPECT_EQ(described_name(python_.make_str(ucs4, 3, 4, false)), "a\xf0\x90\x8d\x88\xef\xbf\xbd");
  EXPECT_EQ(described_name(python_.make_str("")), "");
}

TEST_P(CodeTableTest, CutsLongNamesBetweenCharacters) {
  EXPECT_EQ(described_name(python_.make_str(std::string(5000, 'x'))), std::string(4096, 'x'));
  const std::vector<std::uint16_t> wide(2000, 0x9f20);  // 3 bytes each
  EXPECT_EQ(described_name(python_.make_str(wide.data(), wide.size(), 2, false)).size(), 4095u);
}

TEST_P(CodeTableTest, NameThatIsNoStrIsEmpty) {
  EXPECT_EQ(described_name(python_.make(128).address()), "");
  EXPECT_EQ(described_name(3), "");
}

TEST_P(CodeTableTest, LeavesOutHugeLineTables) {
  FakeSegment segment;
  const auto name = python_.make_str("f");
  EXPECT_EQ(segment.find(describe(segment, fingerprint(name, name, std::string(256 << 10, 't'))))
                ->line_table.size(),
            256u << 10);
  EXPECT_EQ(
      segment.find(describe(segment, fingerprint(name, name, std::string((256 << 10) + 1, 't'))))->line_table,
      "");
}

TEST_P(CodeTableTest, CountsWhatDoesNotFitOnce) {
  FakeSegment full_slots(2), full_arena(64, 64);
  const auto name = python_.make_str("some name");
  std::vector<CodeFingerprint> codes;
  for (int i = 0; i < 5; ++i) codes.push_back(fingerprint(name, name));
  for (int round = 0; round < 3; ++round) {
    for (std::atomic<std::uint64_t>& known : g_known_codes) known = 0;  // as if evicted
    for (const auto& code : codes) {
      describe(full_slots, code);
      describe(full_arena, code);
    }
  }
  EXPECT_EQ(full_slots.dropped(), 3u);
  EXPECT_EQ(full_arena.dropped(), 4u);
  EXPECT_LE(full_arena.header().code_arena_used, 64u);
  // The collector need not wait for it.
  for (const auto& code : codes) {
    const auto place = full_arena.place(code_id_of(code));
    EXPECT_TRUE(place == 1u || place == wire::kNoCodeEntry) << place;
  }
}

TEST_P(CodeTableTest, ChildOfForkStartsWithAnEmptyTable) {
  FakeSegment parent, child;
  const auto of = fingerprint(python_.make_str("f"), python_.make_str("f.py"));
  const std::uint64_t id = describe(parent, of);
  EXPECT_FALSE(is_known_code(id, segment_generation(child.header())));
  describe(child, of);
  EXPECT_TRUE(child.find(id));
}

TEST_P(CodeTableTest, IdsDifferWithEveryPartOfTheFingerprint) {
  std::set<std::uint64_t> ids;
  for (std::uint64_t code = 0; code < 10; ++code)
    for (std::uint64_t name = 0; name < 10; ++name)
      for (std::uint64_t filename = 0; filename < 10; ++filename)
        for (std::uint32_t line = 0; line < 10; ++line)
          ids.insert(code_id_of({0x7f0000001000 + 64 * code, 0x7f0000002000 + 16 * name,
                                 0x7f0000003000 + 16 * filename, line}));
  EXPECT_EQ(ids.size(), 10000u);
  EXPECT_EQ(ids.count(0), 0u);
}

TEST_P(CodeTableTest, ManyThreadsDescribeCodeAtTheSameTime) {
  FakeSegment segment(256);
  std::vector<CodeFingerprint> codes;
  for (int i = 0; i < 100; ++i)
    codes.push_back(fingerprint(python_.make_str("name" + std::to_string(i)), python_.make_str("file")));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const auto& code : codes) describe(segment, code);
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto entry = segment.find(code_id_of(codes[i]));
    ASSERT_TRUE(entry) << i;
    EXPECT_EQ(entry->name, "name" + std::to_string(i));
  }
  EXPECT_EQ(segment.slots_used(), 100u);
  EXPECT_EQ(segment.dropped(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, CodeTableTest, testing::Values(&kPython310, &kPython312),
                         [](const auto& layout) { return "Python3" + std::to_string(layout.param->minor); });

}  // namespace
}  // namespace clusterprof::agent
