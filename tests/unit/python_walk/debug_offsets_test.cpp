// SPDX-License-Identifier: BSD-3-Clause
#include "agent/pyabi/debug_offsets.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/cpython_3_14.h"
#include "agent/pyabi/cpython_3_15.h"

namespace clusterprof::agent {
namespace {

class Table {
 public:
  explicit Table(std::uint64_t version) {
    std::memcpy(bytes_.data(), "xdebugpy", 8);
    set(8, version);
  }
  void set(std::size_t position, std::uint64_t value) {
    std::memcpy(bytes_.data() + position, &value, sizeof value);
  }
  const void* data() const { return bytes_.data(); }

 private:
  std::array<std::uint8_t, kDebugOffsetsBytes> bytes_{};
};

// What the interpreters say, as read from the headers of 3.13.0, 3.14.10 and 3.15.2.
Table table_313() {
  Table table(0x030d00f0);
  const std::size_t position[] = {184, 192, 232, 240, 248, 264, 280, 296, 304, 312, 344};
  const std::uint64_t value[] = {72, 152, 8, 0, 56, 70, 112, 128, 136, 68, 200};
  for (std::size_t i = 0; i < std::size(position); ++i) table.set(position[i], value[i]);
  return table;
}
Table table_314() {
  Table table(0x030e0af0);
  const std::size_t position[] = {208, 216, 256, 264, 272, 288, 320, 336, 344, 352, 384};
  const std::uint64_t value[] = {72, 152, 8, 0, 56, 74, 112, 128, 136, 68, 208};
  for (std::size_t i = 0; i < std::size(position); ++i) table.set(position[i], value[i]);
  return table;
}
Table table_315() {
  Table table(0x030f02f0);
  const std::size_t position[] = {208, 216, 240, 320, 328, 336, 352, 384, 400, 408, 416, 448};
  const std::uint64_t value[] = {72, 80, 176, 8, 0, 56, 74, 112, 128, 136, 68, 208};
  for (std::size_t i = 0; i < std::size(position); ++i) table.set(position[i], value[i]);
  return table;
}

TEST(DebugOffsets, AgreesWithTheCompiledInLayouts) {
  PythonLayout layout = kPython313;
  EXPECT_EQ(apply_debug_offsets(table_313().data(), 0x030d00f0, layout), DebugOffsets::kOk);
  EXPECT_EQ(layout, kPython313);
  layout = kPython314;
  EXPECT_EQ(apply_debug_offsets(table_314().data(), 0x030e0af0, layout), DebugOffsets::kOk);
  EXPECT_EQ(layout, kPython314);
  layout = kPython315;
  EXPECT_EQ(apply_debug_offsets(table_315().data(), 0x030f02f0, layout), DebugOffsets::kOk);
  EXPECT_EQ(layout, kPython315);
}

TEST(DebugOffsets, TableOfAnotherLayoutWinsAndUndescribedFieldsAreAbsent) {
  Table table = table_313();
  table.set(184, 80);
  PythonLayout layout = kPython313;
  ASSERT_EQ(apply_debug_offsets(table.data(), 0x030d00f0, layout), DebugOffsets::kOk);
  EXPECT_EQ(layout.tstate_frame, 80);
  EXPECT_EQ(layout.tstate_gil, kAbsent);
  EXPECT_EQ(layout.tstate_datastack_chunk, kAbsent);

  Table of_314 = table_314();
  of_314.set(208, 80);
  layout = kPython314;
  ASSERT_EQ(apply_debug_offsets(of_314.data(), 0x030e0af0, layout), DebugOffsets::kOk);
  EXPECT_EQ(layout.tstate_executor, kAbsent);
}

// As read from the same headers, compiled for a build without the GIL.
TEST(DebugOffsets, DescribesFreeThreadedBuilds) {
  struct Version {
    Table table;
    std::uint32_t hex;
    const PythonLayout& layout;
    std::size_t owner, filename, qualname, lines, first_line, instructions;
  };
  for (Version& version : std::array<Version, 3>{
           Version{table_313(), 0x030d00f0, kPython313FreeThreaded, 264, 280, 296, 304, 312, 344},
           Version{table_314(), 0x030e0af0, kPython314FreeThreaded, 288, 320, 336, 344, 352, 384},
           Version{table_315(), 0x030f02f0, kPython315FreeThreaded, 352, 384, 400, 408, 416, 448}}) {
    EXPECT_FALSE(tells_free_threaded(version.table.data()));
    PythonLayout layout = version.layout;
    EXPECT_EQ(apply_debug_offsets(version.table.data(), version.hex, layout), DebugOffsets::kFreeThreaded);
    version.table.set(16, 1);
    EXPECT_TRUE(tells_free_threaded(version.table.data()));
    version.table.set(version.owner, version.layout.frame_owner);
    version.table.set(version.filename, 128);
    version.table.set(version.qualname, 144);
    version.table.set(version.lines, 152);
    version.table.set(version.first_line, 84);
    version.table.set(version.instructions, version.layout.code_instructions);
    if (version.layout.minor > 13) {
      version.table.set(version.layout.minor == 14 ? 304 : 368, 72);
      version.table.set(version.layout.minor == 14 ? 392 : 456, 224);
    }
    EXPECT_EQ(apply_debug_offsets(version.table.data(), version.hex, layout), DebugOffsets::kOk);
    EXPECT_EQ(layout, version.layout);
    const PythonLayout with_gil = version.layout.minor == 13   ? kPython313
                                  : version.layout.minor == 14 ? kPython314
                                                               : kPython315;
    layout = with_gil;
    EXPECT_EQ(apply_debug_offsets(version.table.data(), version.hex, layout), DebugOffsets::kFreeThreaded);
    EXPECT_EQ(layout, with_gil);
  }
  Table table = table_314();
  table.set(0, 0);
  table.set(16, 1);
  EXPECT_FALSE(tells_free_threaded(table.data()));
  EXPECT_FALSE(tells_free_threaded(nullptr));
}

TEST(DebugOffsets, TellsWhereGarbageCollectionIsNoted) {
  struct Version {
    Table table;
    std::uint32_t hex;
    std::size_t gc, size, collecting;
  };
  for (Version& version : std::array<Version, 3>{Version{table_313(), 0x030d00f0, 80, 568, 576},
                                                 Version{table_314(), 0x030e0af0, 88, 648, 656},
                                                 Version{table_315(), 0x030f02f0, 88, 752, 760}}) {
    EXPECT_EQ(described_gc_collecting(version.table.data(), version.hex), 0u);  // nothing there
    version.table.set(48, 194968);
    version.table.set(version.gc, 7400);
    version.table.set(version.size, 240);
    version.table.set(version.collecting, 200);
    EXPECT_EQ(described_gc_collecting(version.table.data(), version.hex), 7600u);
    for (const std::uint64_t bad : {std::uint64_t{238}, std::uint64_t{202}, ~std::uint64_t{0}}) {
      version.table.set(version.collecting, bad);
      EXPECT_EQ(described_gc_collecting(version.table.data(), version.hex), 0u) << bad;
    }
    version.table.set(version.collecting, 200);
    version.table.set(version.gc, 194968 - 200);  // reaches beyond the end
    EXPECT_EQ(described_gc_collecting(version.table.data(), version.hex), 0u);
  }
}

TEST(DebugOffsets, RefusesUnknownVersionsAndTables) {
  PythonLayout layout = kPython313;
  Table table = table_313();
  EXPECT_EQ(apply_debug_offsets(nullptr, 0x030d00f0, layout), DebugOffsets::kNoCookie);
  EXPECT_EQ(apply_debug_offsets(table.data(), 0x030e00f0, layout), DebugOffsets::kNoCookie);
  EXPECT_EQ(apply_debug_offsets(table.data(), 0x030c00f0, layout), DebugOffsets::kNoCookie);
  EXPECT_EQ(apply_debug_offsets(table.data(), 0x031000f0, layout), DebugOffsets::kNoCookie);
  table.set(0, 0);
  EXPECT_EQ(apply_debug_offsets(table.data(), 0x030d00f0, layout), DebugOffsets::kNoCookie);
}

TEST(DebugOffsets, RejectsImpossibleValuesAndLeavesTheLayoutAlone) {
  for (const std::uint64_t value : {std::uint64_t{1} << 40, std::uint64_t{4096}, std::uint64_t{73}}) {
    Table table = table_313();
    table.set(184, value);
    PythonLayout layout = kPython313;
    EXPECT_EQ(apply_debug_offsets(table.data(), 0x030d00f0, layout), DebugOffsets::kOutOfBounds) << value;
    EXPECT_EQ(layout, kPython313);
  }
}

}  // namespace
}  // namespace clusterprof::agent
