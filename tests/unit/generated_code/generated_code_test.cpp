// SPDX-License-Identifier: BSD-3-Clause
// The list of a compiler is in this program (or in a library that it loads), and is changed as compilers do.
#include "agent/discovery/generated_code.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" {

struct DebugEntry {
  DebugEntry* next;
  DebugEntry* previous;
  const char* object;
  std::uint64_t object_bytes;
};

struct DebugDescriptor {
  std::uint32_t version, action;
  DebugEntry* relevant;
  DebugEntry* first;
};

[[gnu::visibility("default")]] DebugDescriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
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
  std::uint64_t drops() {
    return header()->drops[static_cast<std::uint32_t>(wire::DropReason::kGeneratedArenaFull)].load();
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
  GeneratedCodeTest() { generated_code_reset_after_fork(); }
  ~GeneratedCodeTest() override { __jit_debug_descriptor = {1, 0, nullptr, nullptr}; }

  // As LLVM does: the newest comes first.
  void add(DebugEntry& entry, const std::string& content) {
    DebugDescriptor& list = __jit_debug_descriptor;
    entry = {list.first, nullptr, content.data(), content.size()};
    if (list.first != nullptr) list.first->previous = &entry;
    list.first = list.relevant = &entry;
    list.action = 1;
  }
  void remove(DebugEntry& entry) {
    DebugDescriptor& list = __jit_debug_descriptor;
    if (entry.next != nullptr) entry.next->previous = entry.previous;
    (entry.previous != nullptr ? entry.previous->next : list.first) = entry.next;
    list.relevant = &entry;
    list.action = 2;
  }
  // The rate of walks is limited.
  static std::vector<std::string> refresh(Segment& of) {
    for (int i = 0; i < 200; ++i) {
      generated_code_refresh(of.header());
      generated_code_search_file();
      const timespec moment = {0, 50'000};
      nanosleep(&moment, nullptr);
    }
    return of.objects();
  }
  std::vector<std::string> refresh() { return refresh(segment); }

  Segment segment;
  std::array<DebugEntry, 8> entries{};
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
  EXPECT_EQ(segment.drops(), 0u);
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
  EXPECT_EQ(segment.drops(), 2u);
  // An entry that cannot be read ends the walk; what is before it is known.
  const std::string newest = object("newest");
  entries[2].next = static_cast<DebugEntry*>(gone);
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
  EXPECT_EQ(segment.drops(), 1u);
  add(entries[1], half);
  add(entries[2], more);
  EXPECT_EQ(refresh(), Objects({more}));
  EXPECT_EQ(segment.drops(), 2u);
  add(entries[3], small);
  EXPECT_EQ(refresh(), (Objects{more, small}));
  EXPECT_EQ(segment.drops(), 2u);
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
}

// What is copied is whole, whatever the program does meanwhile.
TEST_F(GeneratedCodeTest, AListThatChangesAllTheTime) {
  constexpr std::uint64_t kBytes = 8192;
  Segment large(16 << 20);
  std::atomic<bool> is_done = false;
  std::thread compiler([&] {
    DebugEntry* live[8] = {};
    for (unsigned i = 0; !is_done.load(); ++i) {
      DebugEntry*& entry = live[i * 7 % 8];
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
      entry = new DebugEntry;
      add(*entry, {});
      entry->object = memory;
      entry->object_bytes = kBytes;
      if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (DebugEntry* const entry : live) {
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
