// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/generated_object.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collector/names/demangle.hpp"
#include "collector/names/symbolize.hpp"
#include "tests/support/made_object.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kCode = 0x7f12'3456'7000;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// What a compiler of C has written, with the address of its code as a compiler that runs it fills it in.
std::string compiled_object() {
  std::ifstream file(SAMPLE_GENERATED, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Elf64_Ehdr header;
  std::memcpy(&header, text.data(), sizeof header);
  std::uint64_t address = kCode;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    char* const at = text.data() + header.e_shoff + i * sizeof section;
    std::memcpy(&section, at, sizeof section);
    if ((section.sh_flags & SHF_EXECINSTR) == 0 || section.sh_size == 0) continue;
    section.sh_addr = address;
    address += 0x10000;
    std::memcpy(at, &section, sizeof section);
  }
  return text;
}

unsigned line_of(const std::string& comment) {
  std::ifstream file(SAMPLE_GENERATED_SOURCE);
  unsigned number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find(comment) != std::string::npos) return number;
  }
  return 0;
}

TEST(GeneratedObject, FunctionsHaveTheirAddresses) {
  const std::string object = test::made_object(
      kCode, 0x100,
      {{"first", 0x10, 0x20}, {"second", 0x30, 0x10}, {"third", 0x80, 0x80}, {"again", 0x84, 4}});
  EXPECT_EQ(functions_of_object(bytes_of(object)),
            (std::vector<AddressRange>{{kCode + 0x10, kCode + 0x40}, {kCode + 0x80, kCode + 0x100}}));
}

TEST(GeneratedObject, WhatIsOutsideOfTheCodeIsNoFunction) {
  const std::string object =
      test::made_object(kCode, 0x100, {{"reaches out", 0xf0, 0x20}, {"far", 0x4000, 4}, {"", 0, 4}});
  EXPECT_TRUE(functions_of_object(bytes_of(object)).empty());
  EXPECT_TRUE(functions_of_object(bytes_of(test::made_object(0, 0x100, {{"not loaded", 0, 4}}))).empty());
  EXPECT_TRUE(functions_of_object({}).empty());
  EXPECT_TRUE(functions_of_object(bytes_of(object.substr(0, 200))).empty());
  EXPECT_EQ(placed_object(bytes_of(object.substr(0, 200))), std::nullopt);
  EXPECT_EQ(placed_object({}), std::nullopt);
}

TEST(GeneratedObject, SymbolsAreEnoughForNames) {
  const std::string object = test::made_object(
      kCode, 0x100, {{"_ZN8__main__6kernelB2v1B3abcEd", 0x10, 0x20}, {"helper", 0x40, 0x10}});
  const auto placed = placed_object(bytes_of(object));
  ASSERT_TRUE(placed);
  Symbolizer symbolizer;
  const auto module =
      symbolizer.add_object("[jit]", std::make_shared<const std::vector<std::uint8_t>>(*placed));
  EXPECT_EQ(symbolizer.resolve(module, kCode + 0x10, false).at(0).function, "__main__::kernel(double)");
  EXPECT_EQ(symbolizer.resolve(module, kCode + 0x30, true).at(0).function, "__main__::kernel(double)");
  EXPECT_EQ(symbolizer.resolve(module, kCode + 0x44, false).at(0).function, "helper");
  // The same in every process.
  EXPECT_EQ(symbolizer.resolve(module, kCode + 0x90, false).at(0).function, "[unknown]");
  EXPECT_FALSE(symbolizer.resolve(module, kCode + 0x90, false).at(0).has_symbol);
  EXPECT_TRUE(symbolizer.notes().empty());
}

TEST(GeneratedObject, LinesAndInlinedFunctionsAreRead) {
  const std::string object = compiled_object();
  const auto ranges = functions_of_object(bytes_of(object));
  ASSERT_FALSE(ranges.empty());
  const auto placed = placed_object(bytes_of(object));
  ASSERT_TRUE(placed);
  Symbolizer symbolizer;
  const auto module =
      symbolizer.add_object("[jit]", std::make_shared<const std::vector<std::uint8_t>>(*placed));
  std::set<std::string> functions;
  std::set<unsigned> inlined_lines, calling_lines;
  for (const AddressRange& range : ranges)
    for (std::uint64_t address = range.begin; address < range.end; ++address) {
      const auto& frames = symbolizer.resolve(module, address, false);
      functions.insert(frames.back().function);
      if (!frames.back().has_symbol) continue;  // between two functions
      EXPECT_EQ(std::filesystem::path(frames.back().file).filename(), "sample_generated.c");
      if (frames.back().function == "generated_other") {
        EXPECT_EQ(frames.back().function_line, line_of("line of other"));
        EXPECT_EQ(frames.back().line, line_of("line of other"));
      }
      if (frames.size() != 2) continue;
      EXPECT_EQ(frames[0].function, "square");
      EXPECT_TRUE(frames[0].inlined);
      inlined_lines.insert(frames[0].line);
      calling_lines.insert(frames[1].line);
      EXPECT_EQ(frames[1].function_line, line_of("line of sum"));
    }
  functions.erase("[unknown]");
  EXPECT_EQ(functions, (std::set<std::string>{"generated_sum", "generated_other"}));
  EXPECT_EQ(inlined_lines, std::set<unsigned>{line_of("line of square")});
  EXPECT_EQ(calling_lines, std::set<unsigned>{line_of("line of call")});
}

// Two processes have it at different addresses.
TEST(GeneratedObject, IsTheSameInEveryProcessWhereItIsMovedToTheCommonPlace) {
  const std::string object = test::made_object(kCode, 0x100, {{"first", 0x10, 0x20}});
  const std::string other = test::made_object(kCode + 0x30'0000, 0x100, {{"first", 0x10, 0x20}});
  EXPECT_NE(placed_object(bytes_of(object)), placed_object(bytes_of(other)));
  EXPECT_EQ(placed_object(bytes_of(object), common_move(bytes_of(object))),
            placed_object(bytes_of(other), common_move(bytes_of(other))));
  EXPECT_EQ(common_move(bytes_of(other)) - common_move(bytes_of(object)), 0x30'0000u);
  EXPECT_EQ(common_move({}), 0u);
}

TEST(GeneratedObject, MovingItChangesNoNamesAndLines) {
  const std::string object = compiled_object();
  const std::uint64_t moved_by = common_move(bytes_of(object));
  ASSERT_NE(moved_by, 0u);
  Symbolizer symbolizer;
  const auto add = [&](std::uint64_t by) {
    return symbolizer.add_object(
        "[jit]", std::make_shared<const std::vector<std::uint8_t>>(*placed_object(bytes_of(object), by)));
  };
  const auto module = add(0), moved = add(moved_by);
  std::size_t named = 0;
  for (const AddressRange& range : functions_of_object(bytes_of(object)))
    for (std::uint64_t address = range.begin; address < range.end; ++address) {
      const std::vector<SourceFrame> before = symbolizer.resolve(module, address, false),
                                     after = symbolizer.resolve(moved, address - moved_by, false);
      ASSERT_EQ(before.size(), after.size());
      for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(before[i].function, after[i].function);
        EXPECT_EQ(before[i].file, after[i].file);
        EXPECT_EQ(before[i].line, after[i].line);
        named += after[i].has_symbol && after[i].line != 0 ? 1 : 0;
      }
    }
  EXPECT_GT(named, 0u);
}

TEST(GeneratedObject, ManyTakeFewDescriptors) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto object =
      std::make_shared<const std::vector<std::uint8_t>>(*placed_object(bytes_of(compiled_object())));
  const std::uint64_t address = functions_of_object(bytes_of(compiled_object())).front().begin;
  Symbolizer symbolizer;
  std::vector<Symbolizer::ModuleHandle> modules;
  const auto before = open_files();
  for (int i = 0; i < 100; ++i) modules.push_back(symbolizer.add_object("[jit]", object));
  for (const auto module : modules) EXPECT_TRUE(symbolizer.resolve(module, address, false).back().has_symbol);
  EXPECT_LT(open_files() - before, 40);
  // Answers stay, and others are found again.
  const SourceFrame first = symbolizer.resolve(modules[0], address, false).back();
  const SourceFrame other = symbolizer.resolve(modules[0], address + 1, false).back();
  EXPECT_EQ(other.function, first.function);
  EXPECT_EQ(other.file, first.file);
  EXPECT_GT(other.line, 0u);
  EXPECT_LT(open_files() - before, 40);
}

TEST(GeneratedObject, OneThatIsMuchLargerThanItselfIsRefused) {
  std::string object = test::made_object(kCode, 0x100, {{"first", 0x10, 0x20}});
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  for (unsigned i = 1; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    char* const at = object.data() + header.e_shoff + i * sizeof section;
    std::memcpy(&section, at, sizeof section);
    section.sh_offset = 0;
    section.sh_size = object.size();
    std::memcpy(at, &section, sizeof section);
  }
  EXPECT_EQ(placed_object(bytes_of(object)), std::nullopt);
  EXPECT_TRUE(functions_of_object(bytes_of(object)).empty());
}

TEST(GeneratedObject, DamagedOnesNeverCrash) {
  std::minstd_rand random(7);
  for (const std::string& whole :
       {test::made_object(kCode, 0x100, {{"first", 0x10, 0x20}, {"second", 0x40, 4}}), compiled_object()}) {
    for (int i = 0; i < 1500; ++i) {
      std::string object = whole;
      Elf64_Ehdr header;
      std::memcpy(&header, object.data(), sizeof header);
      for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
        // In headers more often than elsewhere.
        const std::size_t from = random() % 2 == 0 ? 0 : random() % 2 == 0 ? header.e_shoff : sizeof header;
        const std::size_t bytes = from == 0 ? sizeof header : object.size() - from;
        object[from + random() % bytes] = static_cast<char>(random());
      }
      if (random() % 8 == 0) object.resize(random() % object.size());
      const auto ranges = functions_of_object(bytes_of(object));
      for (std::size_t j = 0; j < ranges.size(); ++j) {
        EXPECT_LT(ranges[j].begin, ranges[j].end);
        if (j > 0) {
          EXPECT_LT(ranges[j - 1].end, ranges[j].begin);
        }
      }
      const auto placed = placed_object(bytes_of(object));
      if (!placed) continue;
      EXPECT_LE(placed->size(), 3 * object.size() + 1024);
      Symbolizer symbolizer;
      const auto module =
          symbolizer.add_object("[jit]", std::make_shared<const std::vector<std::uint8_t>>(*placed));
      for (const std::uint64_t address : {kCode, kCode + 0x18, kCode + 0x42, std::uint64_t{1}})
        EXPECT_FALSE(symbolizer.resolve(module, address, false).empty());
    }
  }
}

TEST(ReadableGeneratedName, LeavesVersionsOut) {
  EXPECT_EQ(readable_generated_name("_ZN8__main__6kernelB2v1B3abcEd"), "__main__::kernel(double)");
  EXPECT_EQ(readable_generated_name("_ZN7cpython8__main__6kernelB2v1Ed"),
            "cpython::__main__::kernel(double)");
  EXPECT_EQ(readable_generated_name("cfunc._ZN8__main__6kernelB3v12B3abcEd"),
            "cfunc.__main__::kernel(double)");
  EXPECT_EQ(readable_generated_name("_ZN1aixEi.cold"), "a::operator[](int)");
  EXPECT_EQ(readable_generated_name("TRACE_1::loop.lua:12"), "TRACE_1::loop.lua:12");
  EXPECT_EQ(readable_generated_name("f[abi:v1"), "f[abi:v1");
  EXPECT_EQ(readable_generated_name(""), "");
}

}  // namespace
}  // namespace clusterprof::collector
