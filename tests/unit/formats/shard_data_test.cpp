// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/shard_data.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace clusterprof::shard {
namespace {

std::string hex(const PathId& id) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(id.high),
                static_cast<unsigned long long>(id.low));
  return text;
}

// Ids are in files and must never change. These were computed from the bytes that FORMATS.md
// describes, put together in Python, by libxxhash's XXH3_128bits.
TEST(PathIdTest, ValuesNeverChange) {
  const std::vector<std::string> strings{"", "main", "solve.py", "/usr/lib/libm.so.6"};
  const Frame python{FrameKind::kPython, false, 1, 2, 0, 12, 10};
  const Frame native{FrameKind::kNative, true, 1, 0, 3, 0, 0};
  const PathId first = path_id({}, python, strings);
  const PathId second = path_id(first, native, strings);
  EXPECT_EQ(hex(first), "e6f49fcaab04fd5143abb680862edb18");
  EXPECT_EQ(hex(second), "c0311b5029b026d499f9412602f45be4");
}

TEST(PathIdTest, DependsOnEveryField) {
  const std::vector<std::string> strings{"", "a", "ab", "b", "/x/lib.so", "/y/lib.so", "/y/other.so"};
  const Frame base{FrameKind::kPython, false, 1, 2, 4, 12, 10};
  const PathId parent{1, 2};
  const PathId id = path_id(parent, base, strings);
  const auto changed = [&](auto change) {
    Frame frame = base;
    change(frame);
    return path_id(parent, frame, strings);
  };
  EXPECT_NE(id, changed([](Frame& f) { f.kind = FrameKind::kNative; }));
  EXPECT_NE(id, changed([](Frame& f) { f.inlined = true; }));
  EXPECT_NE(id, changed([](Frame& f) { f.line_approximate = true; }));
  EXPECT_NE(changed([](Frame& f) { f.inlined = true; }),
            changed([](Frame& f) { f.line_approximate = true; }));
  EXPECT_NE(id, changed([](Frame& f) { f.name = 3; }));
  EXPECT_NE(id, changed([](Frame& f) { f.file = 3; }));
  EXPECT_NE(id, changed([](Frame& f) { f.module = 6; }));
  EXPECT_NE(id, changed([](Frame& f) { f.line = 13; }));
  EXPECT_NE(id, changed([](Frame& f) { f.function_line = 11; }));
  EXPECT_NE(id, path_id({1, 3}, base, strings));
  EXPECT_NE(id, path_id({2, 2}, base, strings));
  EXPECT_EQ(id, changed([](Frame& f) { f.module = 5; })) << "the module's directory must not matter";
  // "ab" + "c" against "a" + "bc": lengths are hashed.
  const Frame two{FrameKind::kPython, false, 1, 2, 0, 12, 10};
  EXPECT_NE(path_id(parent, two, {"", "ab", "c"}), path_id(parent, two, {"", "a", "bc"}));
}

TEST(PathIdTest, AcceptsLongStrings) {
  std::vector<std::string> strings{"", std::string(5000, 'x'), std::string(5000, 'x') + "y"};
  const Frame a{FrameKind::kNative, false, 1, 0, 0, 0, 0};
  Frame b = a;
  b.name = 2;
  EXPECT_NE(path_id({}, a, strings), path_id({}, b, strings));
  EXPECT_EQ(path_id({}, a, strings), path_id({}, a, strings));
}

TEST(PathInternerTest, AddsNothingTwice) {
  ShardData data;
  PathInterner interner(data);
  const StringIndex name = interner.string("f");
  EXPECT_EQ(interner.string(""), 0u);
  EXPECT_EQ(interner.string("f"), name);
  const std::uint32_t frame = interner.frame({FrameKind::kPython, false, name, 0, 0, 3, 1});
  EXPECT_EQ(interner.frame({FrameKind::kPython, false, name, 0, 0, 3, 1}), frame);
  const std::uint32_t child = interner.path(0, frame), grandchild = interner.path(child, frame);
  EXPECT_EQ(interner.path(0, frame), child);
  EXPECT_NE(child, grandchild);
  EXPECT_EQ(data.paths.size(), 3u);
  EXPECT_EQ(data.paths[grandchild].parent, child);
  EXPECT_EQ(data.paths[grandchild].id, path_id(data.paths[child].id, data.frames[frame], data.strings));

  PathInterner again(data);  // over tables that are not empty
  EXPECT_EQ(again.string("f"), name);
  EXPECT_EQ(again.path(child, again.frame({FrameKind::kPython, false, name, 0, 0, 3, 1})), grandchild);
  EXPECT_EQ(data.paths.size(), 3u);
}

}  // namespace
}  // namespace clusterprof::shard
