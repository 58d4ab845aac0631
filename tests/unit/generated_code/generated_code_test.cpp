// SPDX-License-Identifier: BSD-3-Clause
// The list of a compiler is in this program (or in a library that it loads), and is changed as compilers do.
#include "agent/discovery/generated_code.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "agent/lifecycle/memory.h"
#include "agent/sigsafe/process_state.h"
#include "tests/support/jit_list.h"
#include "tests/support/made_object.hpp"

extern "C" {
[[gnu::visibility("default")]] jit_descriptor __jit_debug_descriptor = {kJitVersion, 0, nullptr, nullptr};
}

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kArenaBytes = 64 << 10;

// A segment with nothing but the arena.
class Segment {
 public:
  explicit Segment(std::uint64_t arena_bytes = kArenaBytes)
      : memory_(std::calloc(1, sizeof(wire::SegmentHeader) + arena_bytes), std::free) {
    static std::uint64_t number = 0;
    header()->generated_arena_offset = sizeof(wire::SegmentHeader);
    header()->generated_arena_bytes = arena_bytes;
    header()->start_mono_ns = ++number;  // malloc may give the memory of the last one
    header()->module_epoch = 7;
  }
  wire::SegmentHeader* header() { return static_cast<wire::SegmentHeader*>(memory_.get()); }
  std::uint64_t drops(wire::DropReason reason) {
    return header()->drops[static_cast<std::uint32_t>(reason)].load();
  }
  std::uint64_t all_drops() {
    std::uint64_t sum = 0;
    for (const auto& count : header()->drops) sum += count.load();
    return sum;
  }
  std::vector<std::string> objects() {
    std::vector<std::string> all;
    const auto* const arena = static_cast<const char*>(memory_.get()) + header()->generated_arena_offset;
    for (std::uint64_t at = 0; at < header()->generated_arena_used.load();) {
      wire::GeneratedObject entry;
      std::memcpy(&entry, arena + at, sizeof entry);
      EXPECT_EQ(entry.entry_bytes % 8, 0u);
      EXPECT_EQ(entry.epoch, header()->module_epoch.load());
      all.emplace_back(arena + at + sizeof entry, entry.object_bytes);
      if (entry.entry_bytes == 0) break;
      at += entry.entry_bytes;
    }
    return all;
  }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
};

std::string object(const std::string& name, std::size_t bytes = 80) {
  std::string text =
      "\x7f"
      "ELF" +
      name;
  text.resize(bytes, '.');
  return text;
}

class GeneratedCodeTest : public testing::Test {
 protected:
  GeneratedCodeTest() {
    generated_code_take_memory_from(
        {[](std::uint64_t bytes) noexcept { return map_memory(bytes); }, unmap_memory});
    generated_code_reset_after_fork();
  }
  ~GeneratedCodeTest() override {
    g_handlers.ended = 0;
    __jit_debug_descriptor = {kJitVersion, 0, nullptr, nullptr};
  }

  void add(jit_code_entry& entry, const std::string& content) {
    entry.object = content.data();
    entry.object_bytes = content.size();
    jit_list_add(&__jit_debug_descriptor, &entry);
  }
  void remove(jit_code_entry& entry) { jit_list_remove(&__jit_debug_descriptor, &entry); }
  // What a look may still leave for later, because the rate of looks is limited, the last one finds.
  static std::vector<std::string> refresh(Segment& of) {
    for (int i = 0; i < 3; ++i) {
      generated_code_refresh(of.header());
      generated_code_search_file();
    }
    generated_code_refresh_at_exit(of.header());
    return of.objects();
  }
  std::vector<std::string> refresh() { return refresh(segment); }
  // One look, and then as many as it takes: the last one has no limit of its rate.
  static void look_to_the_end(Segment& of) {
    generated_code_refresh(of.header());
    for (int i = 0; i < 40; ++i) generated_code_refresh_at_exit(of.header());
  }

  Segment segment;
  std::array<jit_code_entry, 8> entries{};
};

using Objects = std::vector<std::string>;

TEST_F(GeneratedCodeTest, WhatIsRegisteredIsCopiedOnce) {
  const std::string first = object("first"), second = object("second", 93), third = object("third");
  EXPECT_EQ(refresh(), Objects());
  add(entries[0], first);
  EXPECT_EQ(refresh(), Objects({first}));
  add(entries[1], second);
  add(entries[2], third);
  EXPECT_EQ(refresh(), (Objects{first, third, second}));
  EXPECT_EQ(segment.all_drops(), 0u);
}

TEST_F(GeneratedCodeTest, LaterLooksFindWhatIsNew) {
  const std::string first = object("first"), second = object("second");
  add(entries[0], first);
  generated_code_refresh(segment.header());
  EXPECT_EQ(segment.objects(), Objects({first}));
  add(entries[1], second);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (segment.objects().size() < 2 && std::chrono::steady_clock::now() < until)
    generated_code_refresh(segment.header());
  EXPECT_EQ(segment.objects(), (Objects{first, second}));
}

// As where memory that was freed is used again at once: only what is described has changed.
TEST_F(GeneratedCodeTest, AnotherObjectInTheMemoryOfAnEntryIsCopied) {
  std::string content = object("first", 5000);
  const std::string first = content, older = object("older");
  add(entries[0], older);
  add(entries[1], content);
  EXPECT_EQ(refresh(), (Objects{first, older}));
  remove(entries[1]);
  content.replace(content.size() - 6, 6, "second");
  const std::string second = content;
  add(entries[1], content);
  EXPECT_EQ(refresh(), (Objects{first, older, second}));
  EXPECT_EQ(refresh().size(), 3u);
}

TEST_F(GeneratedCodeTest, WhatWasThereBeforeIsFound) {
  const std::string first = object("first");
  add(entries[0], first);
  EXPECT_EQ(refresh(), Objects({first}));
}

TEST_F(GeneratedCodeTest, AnEntryThatCameBackIsAnotherOne) {
  std::string content = object("before");
  const std::string other = object("other");
  add(entries[0], content);
  add(entries[1], other);
  EXPECT_EQ(refresh().size(), 2u);
  remove(entries[0]);
  EXPECT_EQ(refresh().size(), 2u);
  const std::string after = object("after");
  content = after;  // the same place and size
  add(entries[0], content);
  const Objects all = refresh();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2], after);
}

TEST_F(GeneratedCodeTest, AnotherObjectOfAnEntryIsCopied) {
  const std::string before = object("before"), after = object("after", 120);
  add(entries[0], before);
  EXPECT_EQ(refresh(), Objects({before}));
  remove(entries[0]);
  add(entries[0], after);  // between two looks
  EXPECT_EQ(refresh(), (Objects{before, after}));
}

TEST_F(GeneratedCodeTest, MemoryThatIsGoneIsLeftOut) {
  void* const gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  const std::string good = object("good"),
                    none =
                        "no object file, but long enough to be one at first sight: its "
                        "first bytes are others";
  add(entries[0], good);
  add(entries[1], none);
  add(entries[2], good);
  entries[2].object = static_cast<const char*>(gone);
  EXPECT_EQ(refresh(), Objects({good}));
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedUnreadable), 1u);
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedNotElf), 1u);
  EXPECT_EQ(segment.all_drops(), 2u);
  // An entry that cannot be read ends the walk; what is before it is known.
  const std::string newest = object("newest");
  entries[2].next = static_cast<jit_code_entry*>(gone);
  add(entries[3], newest);
  EXPECT_EQ(refresh(), (Objects{good, newest}));
  munmap(gone, 4096);
}

TEST_F(GeneratedCodeTest, AListThatGoesRoundEnds) {
  const std::string first = object("first"), second = object("second");
  add(entries[0], first);
  add(entries[1], second);
  entries[0].next = &entries[1];
  EXPECT_EQ(refresh(), (Objects{second, first}));
}

TEST_F(GeneratedCodeTest, ObjectsThatDoNotFitAreCounted) {
  const std::string large = object("large", kArenaBytes), half = object("half", kArenaBytes / 2),
                    more = object("more", kArenaBytes / 2), small = object("small");
  add(entries[0], large);
  EXPECT_EQ(refresh(), Objects());
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedArenaFull), 1u);
  add(entries[1], half);
  add(entries[2], more);
  EXPECT_EQ(refresh(), Objects({more}));
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedArenaFull), 2u);
  add(entries[3], small);
  EXPECT_EQ(refresh(), (Objects{more, small}));
  EXPECT_EQ(segment.all_drops(), 2u);
}

// Compilers may describe code in a format of their own, for a reader that they bring to the debugger.
TEST_F(GeneratedCodeTest, WhatIsNoObjectFileIsCountedAsThat) {
  const std::string own = std::string(kArenaBytes, 'x'), tiny =
                                                             "\x7f"
                                                             "ELF";
  add(entries[0], own);
  add(entries[1], tiny);
  EXPECT_EQ(refresh(), Objects());
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedNotElf), 2u);
  EXPECT_EQ(segment.all_drops(), 2u);
}

TEST_F(GeneratedCodeTest, AnotherVersionIsLeftAlone) {
  const std::string first = object("first");
  add(entries[0], first);
  __jit_debug_descriptor.version = 2;
  EXPECT_EQ(refresh(), Objects());
}

TEST_F(GeneratedCodeTest, AnotherSegmentGetsEverything) {
  const std::string first = object("first");
  add(entries[0], first);
  EXPECT_EQ(refresh().size(), 1u);
  Segment other;
  EXPECT_EQ(refresh(other), Objects({first}));
}

TEST_F(GeneratedCodeTest, TheLastLookFindsWhatIsNew) {
  const std::string first = object("first"), second = object("second");
  add(entries[0], first);
  EXPECT_EQ(refresh().size(), 1u);
  add(entries[1], second);
  generated_code_refresh_at_exit(segment.header());
  EXPECT_EQ(segment.objects(), (Objects{first, second}));
  EXPECT_EQ(segment.all_drops(), 0u);
}

TEST_F(GeneratedCodeTest, ThereIsNoLookOnceTheRecordingHasEnded) {
  const std::string first = object("first"), second = object("second");
  add(entries[0], first);
  EXPECT_EQ(refresh().size(), 1u);
  add(entries[1], second);
  g_handlers.ended = 1;
  generated_code_refresh_at_exit(segment.header());
  generated_code_refresh(segment.header());
  EXPECT_EQ(segment.objects(), Objects({first}));
}

// The thread that ends the process has loaded the segment's address before the attachment ended.
TEST_F(GeneratedCodeTest, ASegmentThatWasGivenBackIsNotTouched) {
  constexpr std::uint64_t kBytes = 1 << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const header = new (memory) wire::SegmentHeader{};
  header->generated_arena_offset = sizeof(wire::SegmentHeader);
  header->generated_arena_bytes = kArenaBytes;
  header->start_mono_ns = 1;
  const std::string first = object("first"), second = object("second");
  add(entries[0], first);
  header->module_epoch = 7;
  generated_code_refresh(header);
  EXPECT_NE(header->generated_arena_used.load(), 0u);
  EXPECT_NE(generated_code_memory(), nullptr);
  add(entries[1], second);
  g_handlers.ended = 1;
  EXPECT_TRUE(generated_code_give_back());
  EXPECT_EQ(generated_code_memory(), nullptr);
  ASSERT_EQ(munmap(memory, kBytes), 0);
  g_handlers.ended = 0;  // as where it is attached to again
  generated_code_refresh_at_exit(header);
  generated_code_refresh_at_exit(nullptr);
}

// Whoever gives the segment back waits for the look.
TEST_F(GeneratedCodeTest, ALookThatIsUnderWayEndsBeforeTheSegmentGoes) {
  constexpr std::uint32_t kEntries = 4000;
  std::string content = object("shared", 128 << 10);
  std::vector<jit_code_entry> many(kEntries);
  for (int round = 0; round < 20; ++round) {
    generated_code_reset_after_fork();
    __jit_debug_descriptor = {kJitVersion, 0, nullptr, nullptr};
    for (jit_code_entry& entry : many) add(entry, content);
    void* const memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const header = new (memory) wire::SegmentHeader{};
    header->generated_arena_offset = sizeof(wire::SegmentHeader);
    header->generated_arena_bytes = kArenaBytes;
    header->start_mono_ns = 100 + static_cast<std::uint64_t>(round);
    header->module_epoch = 7;
    g_handlers.ended = 0;
    std::thread looker([&] { generated_code_refresh(header); });
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 5));
    g_handlers.ended = 1;
    EXPECT_TRUE(generated_code_give_back());
    ASSERT_EQ(munmap(memory, 1 << 20), 0);
    looker.join();
  }
}

// What is copied is whole, whatever the program does meanwhile.
TEST_F(GeneratedCodeTest, AListThatChangesAllTheTime) {
  constexpr std::uint64_t kBytes = 8192;
  Segment large(16 << 20);
  std::atomic<bool> is_done = false;
  std::thread compiler([&] {
    jit_code_entry* live[8] = {};
    for (unsigned i = 0; !is_done.load(); ++i) {
      jit_code_entry*& entry = live[i * 7 % 8];
      if (entry != nullptr) {
        remove(*entry);
        std::memset(const_cast<char*>(entry->object), i % 2 == 0 ? 0 : 0xcc, kBytes);
        munmap(const_cast<char*>(entry->object), kBytes);
        std::memset(static_cast<void*>(entry), 0xff, sizeof *entry);
        delete entry;
      }
      auto* const memory = static_cast<char*>(
          mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      std::memset(memory, static_cast<int>('A' + i % 26), kBytes);
      std::memcpy(memory,
                  "\x7f"
                  "ELF",
                  4);
      entry = new jit_code_entry;
      add(*entry, {});
      entry->object = memory;
      entry->object_bytes = kBytes;
      if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (jit_code_entry* const entry : live) {
      if (entry == nullptr) continue;
      remove(*entry);
      munmap(const_cast<char*>(entry->object), kBytes);
      delete entry;
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) generated_code_refresh(large.header());
  is_done = true;
  compiler.join();
  const Objects all = large.objects();
  EXPECT_GT(all.size(), 10u);
  for (const std::string& one : all) {
    ASSERT_EQ(one.size(), kBytes);
    ASSERT_EQ(one.find_first_not_of(one[4], 4), std::string::npos);
  }
}

constexpr std::uint32_t kTableEntries = 1 << 14;  // as many are known at a time

// Memory of an object is used again for another one of the same size, between two looks.
TEST_F(GeneratedCodeTest, AChangeOfWhatDescribesALargeObjectIsNoticed) {
  const auto made = [](const std::string& name, std::uint64_t address, std::uint64_t offset) {
    std::string text = test::made_object(address, 300 << 10, {{name, offset, 0x80}});
    text.resize(text.size() + (200 << 10), '\0');  // as debug information: the tables are in the middle
    return text;
  };
  const std::string first = made("first", 0x7000'0000, 0x100);
  std::string other_end = first;
  other_end.back() = 1;
  Segment large(8 << 20);
  std::string content = first;
  add(entries[0], content);
  look_to_the_end(large);
  Objects expected = {first};
  EXPECT_EQ(large.objects(), expected);
  for (const std::string& other : {made("other", 0x7000'0000, 0x100), made("first", 0x7100'0000, 0x100),
                                   made("first", 0x7000'0000, 0x200), other_end}) {
    ASSERT_EQ(other.size(), content.size());
    std::copy(other.begin(), other.end(), content.begin());
    look_to_the_end(large);
    expected.push_back(other);
    EXPECT_EQ(large.objects(), expected);
  }
  look_to_the_end(large);
  EXPECT_EQ(large.objects().size(), expected.size());
}

TEST_F(GeneratedCodeTest, WhatWasRemovedMakesRoomForMore) {
  constexpr std::uint32_t kEach = 12'000;
  const std::string content = object("shared");
  Segment large(8 << 20);
  std::vector<jit_code_entry> all[3];
  std::size_t expected = 0;
  for (auto& part : all) {
    part.resize(kEach);
    for (jit_code_entry& entry : part) add(entry, content);
    look_to_the_end(large);
    EXPECT_EQ(large.objects().size(), expected += kEach);
    for (jit_code_entry& entry : part) remove(entry);
    look_to_the_end(large);
  }
  // Those that live stay known while others make room.
  for (jit_code_entry& entry : all[0]) add(entry, content);
  look_to_the_end(large);
  EXPECT_EQ(large.objects().size(), expected += kEach);
  for (std::uint32_t i = 0; i < kEach; i += 2) remove(all[0][i]);
  look_to_the_end(large);
  for (std::uint32_t i = 0; i < kEach / 2; ++i) add(all[1][i], content);
  look_to_the_end(large);
  EXPECT_EQ(large.objects().size(), expected += kEach / 2);
  EXPECT_EQ(large.drops(wire::DropReason::kGeneratedTableFull), 0u);
}

TEST_F(GeneratedCodeTest, WhatTheTableCannotHoldIsCountedOnce) {
  const std::string content = object("shared");
  std::vector<jit_code_entry> many(kTableEntries + 101);
  for (std::uint32_t i = 0; i < kTableEntries + 100; ++i) add(many[i], content);
  look_to_the_end(segment);
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedTableFull), 100u);
  add(many.back(), content);  // all are met again
  look_to_the_end(segment);
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedTableFull), 101u);
}

TEST_F(GeneratedCodeTest, AListWithoutEndIsCut) {
  std::vector<jit_code_entry> many(4 * kTableEntries + 10);
  const std::string content = object("shared");
  for (jit_code_entry& entry : many) add(entry, content);
  look_to_the_end(segment);
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedTableFull), 3 * kTableEntries);
  const std::uint64_t cut = segment.drops(wire::DropReason::kGeneratedListCut);
  EXPECT_GE(cut, 1u);
  look_to_the_end(segment);
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedListCut), cut);
}

// Each takes more than 10 microseconds to look at. A look takes 50 milliseconds at most.
TEST_F(GeneratedCodeTest, ALongListTakesSeveralLooks) {
  constexpr std::uint64_t kEntries = 8000;
  const std::string content = object("too large for the arena", 2 * kArenaBytes);
  std::vector<jit_code_entry> many(kEntries);
  for (jit_code_entry& entry : many) add(entry, content);
  generated_code_refresh(segment.header());
  const std::uint64_t first = segment.drops(wire::DropReason::kGeneratedArenaFull);
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, kEntries);
  for (int i = 0; i < 500 && segment.drops(wire::DropReason::kGeneratedArenaFull) < kEntries; ++i)
    generated_code_refresh_at_exit(segment.header());
  look_to_the_end(segment);
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedArenaFull), kEntries);
}

TEST_F(GeneratedCodeTest, ListsBeyondTheEighthAreCounted) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("generated_code_lists_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::vector<void*> libraries;
  const auto load = [&](int number) {
    const std::filesystem::path path = folder / ("list" + std::to_string(number) + ".so");
    std::filesystem::copy_file(GENERATED_CODE_EXPORTED, path);
    libraries.push_back(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    ASSERT_NE(libraries.back(), nullptr) << dlerror();
  };
  for (int i = 0; i < 9; ++i) load(i);  // and the list of this program
  EXPECT_EQ(refresh(), Objects());
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedListsFull), 2u);
  segment.header()->module_epoch = 8;
  EXPECT_EQ(refresh(), Objects());
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedListsFull), 2u);
  // Those that go make room.
  for (int i = 0; i < 4; ++i) dlclose(libraries[static_cast<std::size_t>(i)]);
  load(9);
  const auto describe =
      reinterpret_cast<void (*)(const char*, std::uint64_t)>(dlsym(libraries.back(), "describe_code"));
  ASSERT_NE(describe, nullptr);
  const std::string content = object("in the last library");
  describe(content.data(), content.size());
  segment.header()->module_epoch = 9;
  EXPECT_EQ(refresh(), Objects({content}));
  EXPECT_EQ(segment.drops(wire::DropReason::kGeneratedListsFull), 2u);
  for (std::size_t i = 4; i < libraries.size(); ++i) dlclose(libraries[i]);
  std::filesystem::remove_all(folder);
}

TEST_F(GeneratedCodeTest, ListsOfLibrariesAreFound) {
  for (const char* const path : {GENERATED_CODE_HIDDEN, GENERATED_CODE_EXPORTED, GENERATED_CODE_OLDER_HASH}) {
    SCOPED_TRACE(path);
    Segment fresh;
    EXPECT_EQ(refresh(fresh), Objects());
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* const describe =
        reinterpret_cast<void (*)(const char*, std::uint64_t)>(dlsym(library, "describe_code"));
    ASSERT_NE(describe, nullptr);
    const std::string content = object("in a library");
    describe(content.data(), content.size());
    EXPECT_EQ(refresh(fresh), Objects());  // it is looked for only where modules have changed
    fresh.header()->module_epoch = 8;
    EXPECT_EQ(refresh(fresh), Objects({content}));
    dlclose(library);
    EXPECT_EQ(refresh(fresh), Objects({content}));  // reads nothing that is gone
  }
}

}  // namespace
}  // namespace clusterprof::agent
