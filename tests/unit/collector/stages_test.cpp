// SPDX-License-Identifier: BSD-3-Clause
// The stages of the ProcessRecorder by themselves; how they work together is in process_recorder_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "collector/charge/process_charges.hpp"
#include "collector/mpi/time_in_mpi.hpp"
#include "collector/names/perf_map.hpp"
#include "collector/process/last_path.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/sample_reader.hpp"
#include "collector/rings/thread_slots.hpp"
#include "collector/stacks/module_map.hpp"
#include "collector/stacks/stack_resolver.hpp"
#include "fake_segment.hpp"
#include "tests/support/made_object.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;

// --- ProcessStart --------------------------------------------------------------------------

TEST(ProcessStart, IsAcceptedWithinTheRecordedTime) {
  ProcessStart start(500);
  start.check(400, 1000);
  EXPECT_FALSE(start.was_refused());
  EXPECT_EQ(start.not_after(1000), 500u);
  EXPECT_EQ(start.not_after(450), 450u);
}

TEST(ProcessStart, IsNowWhenItIsInTheFutureOrBeforeTheRecordedTime) {
  ProcessStart future(1001), early(399);
  future.check(400, 1000);
  early.check(400, 1000);
  EXPECT_TRUE(future.was_refused());
  EXPECT_TRUE(early.was_refused());
  EXPECT_EQ(future.not_after(2000), 1000u);
  EXPECT_EQ(early.not_after(2000), 1000u);
}

TEST(ProcessStart, IsDecidedOnce) {
  ProcessStart start(500);
  start.check(std::nullopt, 1000);
  start.check(600, 100);
  EXPECT_FALSE(start.was_refused());
  EXPECT_EQ(start.not_after(1000), 500u);
}

// --- read_record and FrameWords --------------------------------------------------------------

// The reading position is in memory that the program can write.
TEST(Ring, IsEmptiedWhereItIsToBeReadBetweenTwoWords) {
  auto ring = std::make_unique<wire::Ring>();
  const wire::RecordHeader good = {16, wire::kSample, 0};
  for (const std::uint64_t position : {4u, 8u}) {
    std::memcpy(ring->data + position, &good, sizeof good);
    ring->read_position = position;
    ring->write_position = position + 16;
    int seen = 0;
    EXPECT_EQ(wire::ring_drain(*ring, [&](const wire::RecordHeader&) { ++seen; }), position == 8);
    EXPECT_EQ(seen, position == 8 ? 1 : 0);
    EXPECT_EQ(ring->read_position.load(), position + 16);
  }
}

// A record at the beginning of a ring, to be damaged.
struct Record {
  Record(const std::vector<std::uint64_t>& words, std::uint16_t shared_words,
         const std::vector<std::uint64_t>& counters = {}) {
    sample.header = {static_cast<std::uint32_t>(sizeof sample + 8 * (words.size() + counters.size())),
                     wire::kSample, 0};
    sample.frame_words = static_cast<std::uint16_t>(words.size() + shared_words);
    sample.shared_words = shared_words;
    sample.counter_count = static_cast<std::uint8_t>(counters.size());
    std::uint8_t* to = ring->data + sizeof sample;
    for (const auto* list : {&counters, &words})
      for (const std::uint64_t word : *list) {
        std::memcpy(to, &word, sizeof word);
        to += sizeof word;
      }
  }
  RecordKind read(std::size_t known_words, RingSample& result, std::uint32_t offset = 0) {
    if (offset != 0) std::memmove(ring->data + offset, ring->data, sizeof sample);
    std::memcpy(ring->data + offset, &sample, sizeof sample);
    return read_record(*reinterpret_cast<const wire::RecordHeader*>(ring->data + offset), *ring, known_words,
                       result);
  }
  std::unique_ptr<wire::Ring> ring = std::make_unique<wire::Ring>();
  wire::SampleRecord sample{};
};

std::vector<std::uint64_t> words_of(const FrameWords& words) {
  return {words.words().begin(), words.words().end()};
}

TEST(SampleReader, NewWordsReplaceThoseThatAreNotShared) {
  FrameWords words;
  RingSample sample;
  Record first({1, 2, 3}, 0);
  ASSERT_EQ(first.read(words.size(), sample), RecordKind::kSample);
  words.update(sample);
  EXPECT_EQ(words_of(words), (std::vector<std::uint64_t>{1, 2, 3}));
  Record longer({7, 8}, 2);
  ASSERT_EQ(longer.read(words.size(), sample), RecordKind::kSample);
  words.update(sample);
  EXPECT_EQ(words_of(words), (std::vector<std::uint64_t>{7, 8, 2, 3}));
  Record shorter({9}, 1);
  ASSERT_EQ(shorter.read(words.size(), sample), RecordKind::kSample);
  words.update(sample);
  EXPECT_EQ(words_of(words), (std::vector<std::uint64_t>{9, 3}));
}

TEST(SampleReader, CountersComeBeforeTheWords) {
  Record record({1}, 0, {40, 50});
  RingSample sample;
  ASSERT_EQ(record.read(0, sample), RecordKind::kSample);
  ASSERT_EQ(sample.counter_values().size(), 2u);
  EXPECT_EQ(sample.counter_values()[1], 50u);
  FrameWords words;
  words.update(sample);
  EXPECT_EQ(words_of(words), (std::vector<std::uint64_t>{1}));
}

TEST(SampleReader, TheTaskIsBehindTheWords) {
  Record record({1, 2, 0x6c72'6163, 8, 9}, 0, {40});
  record.sample.frame_words = 2;
  record.sample.task_frames = 1;
  record.sample.task_name_bytes = 3;
  record.sample.await_words = 2;
  RingSample sample;
  ASSERT_EQ(record.read(0, sample), RecordKind::kSample);
  EXPECT_EQ(std::memcmp(sample.task_name, "car", 3), 0);
  const std::uint64_t expected[] = {8, 9};
  EXPECT_EQ(std::memcmp(sample.await_words, expected, sizeof expected), 0);
  FrameWords words;
  words.update(sample);
  EXPECT_EQ(words_of(words), (std::vector<std::uint64_t>{1, 2}));
}

TEST(SampleReader, RefusesLengthsThatDoNotFit) {
  const auto kind = [](std::size_t known, auto&& damage) {
    Record record({1, 2}, 1);
    damage(record.sample);
    RingSample sample;
    return record.read(known, sample);
  };
  using Sample = wire::SampleRecord;
  EXPECT_EQ(kind(1, [](Sample&) {}), RecordKind::kSample);
  EXPECT_EQ(kind(0, [](Sample&) {}), RecordKind::kDamagedSample);  // shares what nobody knows
  EXPECT_EQ(kind(9, [](Sample& s) { s.shared_words = 4; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.frame_words = 4; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.frame_words = wire::kMaxFrameWords + 1; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.counter_count = wire::kMaxCounters + 1; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.counter_count = 1; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.task_frames = 4; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.await_words = 1; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.await_words = wire::kMaxAwaitWords + 1; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.task_name_bytes = 1; }), RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.task_name_bytes = wire::kTaskNameBytes + 1; }),
            RecordKind::kDamagedSample);
  EXPECT_EQ(kind(1, [](Sample& s) { s.header.bytes = sizeof(Sample) - 8; }), RecordKind::kTooShort);
  EXPECT_EQ(kind(1, [](Sample& s) { s.header.type = wire::kSample + 7; }), RecordKind::kOther);
}

TEST(SampleReader, RefusesASampleThatReachesBeyondTheRing) {
  RingSample sample;
  Record fits({}, 0), too_long({1}, 0), cut({}, 0);
  constexpr auto kBytes = static_cast<std::uint32_t>(sizeof(wire::SampleRecord));
  EXPECT_EQ(fits.read(0, sample, wire::kRingBytes - kBytes), RecordKind::kSample);
  EXPECT_EQ(too_long.read(0, sample, wire::kRingBytes - kBytes), RecordKind::kDamagedSample);
  const auto* const header =
      reinterpret_cast<const wire::RecordHeader*>(cut.ring->data + wire::kRingBytes - 8);
  EXPECT_EQ(read_record(*header, *cut.ring, 0, sample), RecordKind::kTooShort);
}

// --- ThreadSlots ---------------------------------------------------------------------------

TEST(ThreadSlots, AreSearchedForNewThreadsAndOnceASecond) {
  FakeSegment segment;
  const SegmentView view = view_of(segment);
  ThreadSlots slots(view);
  for (std::uint64_t now = 1; now < 9; ++now) (void)slots.find(now);
  EXPECT_TRUE(slots.found().empty() || slots.found().size() == FakeSegment::kThreads);
  segment.thread(0, 100, FakeSegment::kStart, true);
  const auto has_first = [&] { return !slots.found().empty() && slots.found()[0] == 0; };
  (void)slots.find(9);  // threads_seen has changed
  EXPECT_TRUE(has_first());
}

// --- ModuleMap -----------------------------------------------------------------------------

struct Modules : testing::Test {
  const ModuleMap::Mapping* find(std::uint64_t address, std::uint32_t epoch) {
    map.read();
    return map.find(address, epoch);
  }
  std::string path(std::uint64_t address, std::uint32_t epoch) {
    const ModuleMap::Mapping* const found = find(address, epoch);
    return found == nullptr ? "" : store.tables().modules[found->module]->path;
  }
  FakeSegment segment;
  SegmentView view = view_of(segment);
  RawStore store;
  DropCounts drops;
  ModuleMap map{view, store, drops};
};

TEST_F(Modules, AddressesAreInTheMappingThatCoversThem) {
  segment.module("/a", 0x1000, 0x3000, 0);
  segment.module("/b", 0x3000, 0x4000, 0);
  EXPECT_EQ(path(0x0fff, 1), "");
  EXPECT_EQ(path(0x1000, 1), "/a");
  EXPECT_EQ(path(0x2fff, 1), "/a");
  EXPECT_EQ(path(0x3000, 1), "/b");
  EXPECT_EQ(path(0x4000, 1), "");
}

TEST_F(Modules, NewestModuleThatTheSampleCouldKnowWins) {
  segment.module("/old", 0x1000, 0x2000, 0, 1);
  segment.module("/new", 0x1000, 0x2000, 0, 3);
  EXPECT_EQ(path(0x1500, 1), "/old");
  EXPECT_EQ(path(0x1500, 2), "/old");
  EXPECT_EQ(path(0x1500, 3), "/new");
  EXPECT_EQ(path(0x1500, 0), "/old");  // the first that came after the sample
}

TEST_F(Modules, ChangesAreReportedOnce) {
  EXPECT_FALSE(map.take_news());
  segment.module("/a", 0x1000, 0x2000, 0);
  map.read();
  EXPECT_TRUE(map.take_news());
  map.read();
  EXPECT_FALSE(map.take_news());
}

TEST_F(Modules, ADamagedEntryEndsTheReading) {
  segment.module("/a", 0x1000, 0x2000, 0);
  const std::uint64_t second = segment.header().module_arena_used;
  segment.module("/b", 0x2000, 0x3000, 0);
  segment.module("/c", 0x3000, 0x4000, 0);
  segment.table<wire::ModuleEntry>(segment.header().module_arena_offset + second)->entry_bytes = 4;
  EXPECT_EQ(path(0x1500, 1), "/a");
  EXPECT_EQ(path(0x3500, 1), "");
  EXPECT_EQ(drops.counts().at("damaged_module"), 1u);
}

TEST_F(Modules, LibpythonIsTheInterpreterAndNotItsProgram) {
  EXPECT_EQ(map.interpreter(), kNoModule);
  segment.module("/usr/lib/libpython3.11.so", 0x1000, 0x2000, 0);
  segment.module("/usr/bin/python3.11", 0x3000, 0x4000, 0);
  map.read();
  EXPECT_EQ(store.tables().modules[map.interpreter()]->path, "/usr/lib/libpython3.11.so");
}

// --- StackResolver -------------------------------------------------------------------------

struct Stacks : testing::Test {
  FakeSegment segment;
  SegmentView view = view_of(segment);
  RawStore store;
  DropCounts drops;
  StackResolver stacks{view, store, drops};
  StackContext context;
};

TEST_F(Stacks, TheSameWordsGiveTheSamePath) {
  segment.module("/program", 0x1000, 0x9000, 0);
  context.epoch = 1;
  const std::vector<std::uint64_t> words{0x1100, 0x2200};
  const Stack first = stacks.resolve(words, context), again = stacks.resolve(words, context);
  EXPECT_TRUE(first.settled);
  EXPECT_TRUE(first.leaf_shown);
  EXPECT_EQ(first.path, again.path);
  EXPECT_NE(first.path, 0u);
}

TEST_F(Stacks, PendingFrameIsResolvedWhenItsModuleIsDescribed) {
  const std::vector<std::uint64_t> words{0x1100};
  const Stack before = stacks.resolve(words, context);
  EXPECT_FALSE(before.settled);
  segment.module("/program", 0x1000, 0x9000, 0x1000, 1);
  stacks.read_descriptions(1);
  const RawFrame& frame = store.tables().frames[store.tables().nodes[before.path].frame];
  ASSERT_EQ(frame.kind, RawKind::kPending);
  const PendingFrame& pending = store.tables().pending[frame.a];
  ASSERT_TRUE(pending.resolved);
  EXPECT_EQ(pending.resolution, (RawFrame{RawKind::kNativeExact, 0, 0x100}));
}

// The module that a path's last frame is in, and the address there.
RawFrame last_frame(const RawStore& store, std::uint32_t path) {
  const RawFrame& frame = store.tables().frames[store.tables().nodes[path].frame];
  return frame.kind == RawKind::kPending ? store.tables().pending[frame.a].resolution : frame;
}

// In the store, the first page of generated code is here.
constexpr std::uint64_t kCommonPlace = 0x10000;

TEST_F(Stacks, GeneratedCodeIsAModuleOfItsOwn) {
  const std::string first = test::made_object(0x7000'0000, 0x1000, {{"first", 0x100, 0x80}});
  const std::string second = test::made_object(0x7100'0000, 0x1000, {{"second", 0, 0x80}});
  const Stack before = stacks.resolve(std::vector<std::uint64_t>{0x7000'0110}, context);
  EXPECT_FALSE(before.settled);
  segment.generated(first);
  segment.generated(second);
  stacks.read_descriptions(1);
  const RawFrame frame = last_frame(store, before.path);
  EXPECT_EQ(frame, (RawFrame{RawKind::kNativeExact, frame.a, kCommonPlace + 0x110}));
  EXPECT_EQ(store.tables().modules.at(frame.a)->path, kGeneratedModule);
  EXPECT_FALSE(store.tables().modules[frame.a]->object.empty());
  const Stack other = stacks.resolve(std::vector<std::uint64_t>{0x7100'0010, 0x7000'0180}, context);
  EXPECT_TRUE(other.settled);
  EXPECT_EQ(last_frame(store, other.path).kind, RawKind::kNativeExact);
  EXPECT_NE(last_frame(store, other.path).a, frame.a);
  // The call is the last instruction of the function.
  const RawFrame caller = last_frame(store, store.tables().nodes[other.path].parent);
  EXPECT_EQ(caller, (RawFrame{RawKind::kNativeReturn, frame.a, kCommonPlace + 0x180}));
  EXPECT_FALSE(stacks.resolve(std::vector<std::uint64_t>{0x7000'0180}, context).settled);
  EXPECT_TRUE(drops.counts().empty());
}

// As of the children of a fork, or of ranks whose compilers have put it to different addresses.
TEST_F(Stacks, EqualGeneratedCodeOfSeveralProcessesIsOneModule) {
  std::vector<std::unique_ptr<FakeSegment>> segments;
  std::set<std::uint32_t> paths;
  for (const std::uint64_t page : {0x7000'0000ull, 0x7000'0000ull, 0x5555'0000'1000ull, 0x2000ull}) {
    FakeSegment& other = *segments.emplace_back(std::make_unique<FakeSegment>());
    other.generated(test::made_object(page + 0x40, 0x1000, {{"kernel", 0x100, 0x80}}));
    const SegmentView of_other = view_of(other);
    StackResolver resolver(of_other, store, drops);
    resolver.read_descriptions(1);
    paths.insert(resolver.resolve(std::vector<std::uint64_t>{page + 0x150}, context).path);
  }
  EXPECT_EQ(paths.size(), 1u);
  EXPECT_EQ(store.tables().modules.size(), 1u);
  EXPECT_EQ(store.tables().nodes.size(), 2u);
  EXPECT_EQ(store.generated_bytes(), store.tables().modules[0]->object.size());
  segment.generated(test::made_object(0x7000'0040, 0x1000, {{"another", 0x100, 0x80}}));
  stacks.read_descriptions(1);
  EXPECT_FALSE(paths.contains(stacks.resolve(std::vector<std::uint64_t>{0x7000'0150}, context).path));
  EXPECT_EQ(store.tables().modules.size(), 2u);
  EXPECT_TRUE(drops.counts().empty());
}

TEST(GeneratedModules, HaveNoNamesWithoutRoom) {
  RawStore small(StoreLimits{.generated_bytes = 2000});
  DropCounts drops;
  std::set<std::uint32_t> paths;
  const auto path_in = [&](StackResolver& resolver, std::uint64_t address) {
    return resolver.resolve(std::vector<std::uint64_t>{address}, StackContext()).path;
  };
  for (int i = 0; i < 20; ++i) {
    FakeSegment segment;
    segment.generated(test::made_object(0x7000'0000, 0x1000, {{"kernel" + std::to_string(i), 0x100, 0x80}}));
    const SegmentView view = view_of(segment);
    StackResolver resolver(view, small, drops);
    resolver.read_descriptions(1);
    paths.insert(path_in(resolver, 0x7000'0110));
  }
  EXPECT_LE(small.generated_bytes(), 2000u);
  EXPECT_GE(small.tables().modules.size(), 1u);
  EXPECT_EQ(paths.size(), small.tables().modules.size() + 1);
  EXPECT_EQ(drops.counts().at("generated_arena_full"), 20 - small.tables().modules.size());
  const RawFrame& without = small.tables().frames[small.tables().nodes.back().frame];
  EXPECT_EQ(without.kind, RawKind::kNamed);
  EXPECT_EQ(*small.tables().names.at(without.a), "[unknown]");
}

// Each of many short-lived processes has code of its own that nobody describes.
TEST(PendingAddresses, OfProcessesThatHaveEndedLeaveRoomForOthers) {
  RawStore small(StoreLimits{.nodes = 200, .nameless = 50});
  constexpr std::int32_t kNoMap = 2'000'000'000;  // a process without one
  DropCounts drops;
  StackContext context;
  context.epoch = 1;
  const auto path_in = [&](StackResolver& resolver, std::uint64_t address) {
    return resolver.resolve(std::vector<std::uint64_t>{address, 0x1200}, context).path;
  };
  for (std::uint64_t i = 0; i < 300; ++i) {
    FakeSegment segment;
    segment.header().pid = kNoMap;
    segment.module("/program", 0x1000, 0x9000, 0);
    const SegmentView view = view_of(segment);
    StackResolver resolver(view, small, drops);
    resolver.read_descriptions(1);
    for (std::uint64_t address = 0; address < 4; ++address)
      (void)path_in(resolver, 0x7000'0000 + i * 64 + address);
    resolver.finish(kNoMap, 0, 2);
  }
  FakeSegment segment;
  segment.header().pid = getpid();
  segment.module("/program", 0x1000, 0x9000, 0);
  const SegmentView view = view_of(segment);
  StackResolver resolver(view, small, drops);
  resolver.read_descriptions(1);
  EXPECT_FALSE(small.is_short(path_in(resolver, 0x1300)));
  EXPECT_LT(small.tables().nodes.size(), 150u);
  const std::uint32_t one = path_in(resolver, 0x7100'0000), other = path_in(resolver, 0x7100'0100);
  EXPECT_EQ(one, other);
  // A process with a map may get names for its own.
  const std::string map = perf_map_path(getpid());
  std::ofstream(map) << "71000200 10 compiled\n";
  resolver.read_descriptions(2);
  const std::uint32_t named = path_in(resolver, 0x7100'0200);
  resolver.finish(getpid(), 0, 3);
  std::remove(map.c_str());
  EXPECT_NE(named, one);
  EXPECT_EQ(last_frame(small, named).kind, RawKind::kNamed);
}

TEST_F(Stacks, TheNewestGeneratedCodeCounts) {
  const std::vector<std::uint64_t> words{0x1100, 0x7000'0110};
  segment.module("/program", 0x1000, 0x9000, 0);
  segment.generated(test::made_object(0x7000'0000, 0x1000, {{"before", 0x100, 0x80}}));
  stacks.read_descriptions(1);
  const Stack before = stacks.resolve(words, context);
  EXPECT_EQ(stacks.resolve(words, context).path, before.path);
  segment.generated(test::made_object(0x7000'0000, 0x1000, {{"within", 0x108, 0x10}}));
  stacks.read_descriptions(2);
  const Stack after = stacks.resolve(words, context);
  EXPECT_NE(after.path, before.path);
  EXPECT_EQ(after.path, stacks.resolve(words, context).path);
  // What is left of the older function.
  const auto module_at = [&](std::uint64_t address) {
    return last_frame(store, stacks.resolve(std::vector<std::uint64_t>{address}, context).path).a;
  };
  EXPECT_EQ(module_at(0x7000'0104), module_at(0x7000'0120));
  EXPECT_NE(module_at(0x7000'0104), module_at(0x7000'0108));
}

TEST_F(Stacks, GeneratedCodeAndObjectFilesInTheSamePlace) {
  segment.module("/program", 0x1000, 0x9000, 0, 3);
  segment.generated(test::made_object(0x2000, 0x1000, {{"in a buffer of it", 0, 0x80}}), 3);
  segment.generated(test::made_object(0x4000, 0x1000, {{"before it was loaded", 0, 0x80}}), 2);
  stacks.read_descriptions(1);
  context.epoch = 3;
  const auto path_at = [&](std::uint64_t address) {
    const Stack stack = stacks.resolve(std::vector<std::uint64_t>{address}, context);
    return store.tables().modules.at(last_frame(store, stack.path).a)->path;
  };
  EXPECT_EQ(path_at(0x2010), kGeneratedModule);
  EXPECT_EQ(path_at(0x2090), "/program");
  EXPECT_EQ(path_at(0x4010), "/program");
}

// A frame that has to wait for its description gets the same one.
TEST_F(Stacks, PendingFramesInGeneratedCodeAndObjectFilesInTheSamePlace) {
  context.epoch = 3;
  const auto path_at = [&](std::uint64_t address) {
    return stacks.resolve(std::vector<std::uint64_t>{address}, context).path;
  };
  const std::uint32_t in_buffer = path_at(0x2010), beside = path_at(0x2090), before = path_at(0x4010);
  segment.module("/program", 0x1000, 0x9000, 0, 3);
  segment.generated(test::made_object(0x2000, 0x1000, {{"in a buffer of it", 0, 0x80}}), 3);
  segment.generated(test::made_object(0x4000, 0x1000, {{"before it was loaded", 0, 0x80}}), 2);
  stacks.read_descriptions(1);
  const auto module_of = [&](std::uint32_t path) {
    return store.tables().modules.at(last_frame(store, path).a)->path;
  };
  EXPECT_EQ(module_of(in_buffer), kGeneratedModule);
  EXPECT_EQ(module_of(beside), "/program");
  EXPECT_EQ(module_of(before), "/program");
}

TEST_F(Stacks, DamagedDescriptionsOfGeneratedCodeAreCounted) {
  const std::string good = test::made_object(0x7000'0000, 0x1000, {{"good", 0, 0x80}});
  segment.generated(
      "\x7f"
      "ELF, but nothing else");
  segment.generated(good);
  const std::uint64_t third = segment.header().generated_arena_used;
  segment.generated(good);
  segment.table<wire::GeneratedObject>(segment.header().generated_arena_offset + third)->object_bytes = 1
                                                                                                        << 20;
  stacks.read_descriptions(1);
  EXPECT_TRUE(stacks.resolve(std::vector<std::uint64_t>{0x7000'0010}, context).settled);
  EXPECT_EQ(drops.counts().at("damaged_generated"), 1u);
}

TEST_F(Stacks, ACallSiteOutsideTheArenaHasNoPath) {
  EXPECT_EQ(stacks.call_site_path(segment.header().path_arena_bytes, 1, 1), std::nullopt);
  EXPECT_NE(stacks.call_site_path(segment.header().path_arena_bytes, 0, 1), std::nullopt);
  EXPECT_EQ(stacks.call_site_path(0, wire::kMaxFrameWords + 1, 1), std::nullopt);
}

TEST_F(Stacks, OnlyTheCodeObjectNamedModuleIsAModuleBody) {
  segment.code(5, "program.py", "<module>", 1);
  segment.code(6, "program.py", "solve", 10);
  const std::vector<std::uint64_t> words{test::python_word(0), 6, test::python_word(0), 5};
  (void)stacks.resolve(words, context);
  EXPECT_TRUE(stacks.is_module_body(5));
  EXPECT_FALSE(stacks.is_module_body(6));
  EXPECT_FALSE(stacks.is_module_body(7));
}

// --- ProcessCharges ------------------------------------------------------------------------

struct Charges : testing::Test {
  std::uint32_t path(std::uint32_t function) {
    return store.leaf(store.node(0, store.frame({RawKind::kNativeReturn, 0, 1})),
                      store.frame({RawKind::kNativeExact, 0, 100 + function}));
  }
  StoreLimits limits = [] {
    StoreLimits few;
    few.rows = few.process_rows = 3;
    few.fewest_rows = 0;
    few.short_rows = 1;
    return few;
  }();
  RawStore store{limits};
  TimeGrid grid;
  PathTimes path_times{store};
};

TEST_F(Charges, CanBeReadBack) {
  {
    ProcessCharges charges(store, grid, path_times);
    for (std::uint32_t i = 0; i < 3; ++i) (void)charges.target({path(i), shard::Category::kNative, true});
    EXPECT_FALSE(store.take_rows(1));
  }
  EXPECT_TRUE(store.take_rows(3));
}

TEST_F(Charges, DropCallersWhenThereIsNoRoomForARow) {
  ProcessCharges charges(store, grid, path_times);
  for (std::uint32_t i = 0; i < 3; ++i) (void)charges.target({path(i), shard::Category::kNative, true});
  EXPECT_FALSE(charges.left_callers_out());
  const ChargeTarget target = charges.target({path(3), shard::Category::kNative, true});
  EXPECT_TRUE(store.is_short(target.path));
  EXPECT_TRUE(charges.left_callers_out());
  charges.add_time(target, true, 7, 5);
  EXPECT_EQ(charges.rows()[target.row].amount.wall_ns, 7u);
}

TEST_F(Charges, ClosedStoreKeepsItsPathsAndDropsTheCallersOfNewOnes) {
  RawStore open;
  const auto path_to = [&](std::uint32_t function) {
    return open.leaf(open.node(0, open.frame({RawKind::kNativeReturn, 0, 1})),
                     open.frame({RawKind::kNativeExact, 0, 100 + function}));
  };
  ProcessCharges charges(open, grid, path_times);
  const std::uint32_t first = path_to(0);
  const std::size_t row = charges.target({first, shard::Category::kNative, true}).row;
  open.close();
  open.close();
  EXPECT_EQ(path_to(0), first);
  EXPECT_EQ(charges.target({first, shard::Category::kNative, true}).row, row);
  for (std::uint32_t function = 1; function < 100'000; ++function) {
    const ChargeTarget target = charges.target({path_to(function), shard::Category::kNative, true});
    ASSERT_TRUE(open.is_short(target.path));
  }
  EXPECT_TRUE(charges.left_callers_out());
  EXPECT_LT(open.tables().nodes.size(), 5000u);
  EXPECT_LT(open.tables().frames.size(), 5000u);
  EXPECT_LT(charges.rows().size(), 600u);
}

TEST_F(Charges, StoreThatWasOpenedAgainHasTheLimitsOfBefore) {
  RawStore again(StoreLimits{.nodes = 1000, .rows = 1000});
  const auto path_to = [&](std::uint32_t function) {
    return again.leaf(again.node(0, again.frame({RawKind::kNativeReturn, 0, 1})),
                      again.frame({RawKind::kNativeExact, 0, 100 + function}));
  };
  ProcessCharges charges(again, grid, path_times);
  again.open();
  EXPECT_EQ(again.openings(), 0u);
  (void)charges.target({path_to(0), shard::Category::kNative, true});
  for (int i = 0; i < 2; ++i) {
    again.close();
    again.close();
    EXPECT_TRUE(again.is_short(path_to(1)));
    EXPECT_FALSE(again.take_rows(1));
    again.lower_limits({.nodes = 500, .rows = 700});
    again.open();
  }
  EXPECT_EQ(again.openings(), 2u);
  EXPECT_FALSE(again.is_short(path_to(1)));
  EXPECT_FALSE(again.is_short(charges.target({path_to(1), shard::Category::kNative, true}).path));
  EXPECT_EQ(again.limits().nodes, 500u);
  EXPECT_EQ(again.limits().rows, 700u);
  EXPECT_EQ(again.limits().short_nodes, StoreLimits{}.short_nodes);
  EXPECT_EQ(again.limits().fewest_rows, StoreLimits{}.fewest_rows);
}

TEST(StoreLimits, LeaveRoomBelowTheMemoryLimit) {
  const StoreLimits usual, none = limits_within(0), small = limits_within(100 << 20),
                           large = limits_within(4ull << 30);
  EXPECT_EQ(none.nodes, usual.nodes);
  EXPECT_EQ(large.nodes, usual.nodes);
  EXPECT_EQ(large.rows, usual.rows);
  EXPECT_LT(small.nodes * 600 + small.rows * 320, 100u << 20);
  EXPECT_GT(small.nodes, 40'000u);
  EXPECT_GT(small.rows, 80'000u);
  EXPECT_LE(small.generated_bytes, 10u << 20);
  EXPECT_EQ(large.generated_bytes, usual.generated_bytes);
}

TEST(StoreLimits, CountTheThreadsAndProcessesOfTheNode) {
  constexpr std::uint64_t kMax = 300 << 20, kBase = 20 << 20;
  const StoreLimits alone = limits_within(kMax);
  // A few take no more than the third that is left for them.
  const StoreLimits few = limits_within(kMax, {4, 400, 10});
  EXPECT_EQ(few.nodes, alone.nodes);
  EXPECT_GT(few.rows, alone.rows * 9 / 10);
  // With these, a thread takes 7.6 kB while a shard is made.
  constexpr std::size_t kRanks = 256, kThreads = 25'600;
  const StoreLimits many = limits_within(kMax, {kRanks, kThreads, 0});
  const std::size_t rows = many.rows + kRanks * (many.fewest_rows + many.short_rows);
  EXPECT_LT(kBase + kThreads * 7600 + many.nodes * 600 + rows * 320, kMax);
  EXPECT_GT(many.nodes, 40'000u);
  EXPECT_GT(rows, 60'000u);
  EXPECT_LT(limits_within(kMax, {kRanks, kThreads, 20'000}).nodes, many.nodes);
  EXPECT_LT(limits_within(kMax, {kRanks, kThreads, 0, 20'000}).nodes, many.nodes);
  EXPECT_LT(limits_within(kMax, {kRanks, kThreads, 0, 0, 20 << 20}).nodes, many.nodes);
  // Some room is left where there is none.
  const StoreLimits least = limits_within(kMax, {kRanks, 10 * kThreads, 0});
  EXPECT_GT(least.nodes, 1000u);
  EXPECT_GT(least.rows, 1000u);
  // Without a limit, nothing is counted.
  EXPECT_EQ(limits_within(0, {kRanks, kThreads, 0}).nodes, StoreLimits{}.nodes);
  EXPECT_EQ(limits_within(0, {kRanks, kThreads, 0}).short_rows, StoreLimits{}.short_rows);
}

TEST(StoreLimits, AreLoweredToWhatThereIs) {
  RawStore store(StoreLimits{.nodes = 100, .rows = 100});
  const auto path = [&store](std::uint32_t number) {
    return store.node(0, store.frame({RawKind::kNativeExact, 0, 0x1000 + number}));
  };
  std::vector<std::uint32_t> known;
  for (std::uint32_t i = 0; i < 20; ++i) known.push_back(path(i));
  ASSERT_TRUE(store.take_rows(30));
  store.lower_limits({.nodes = 10, .rows = 10});
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(path(i), known[i]);
  EXPECT_TRUE(store.is_short(path(20)));
  EXPECT_FALSE(store.take_rows(1));
  store.give_rows_back(25);
  store.lower_limits({.nodes = 10, .rows = 10});
  EXPECT_TRUE(store.take_rows(5));
  EXPECT_FALSE(store.take_rows(1));
  // Never raised.
  store.lower_limits({.nodes = 1000, .rows = 1000});
  EXPECT_FALSE(store.take_rows(1));
}

TEST_F(Charges, HaveDataAccessesOnlyIfASampleHadAnAddress) {
  ProcessCharges charges(store, grid, path_times);
  const ChargeTarget target = charges.target({path(0), shard::Category::kNative, true});
  charges.add_access(target.row, false, 0);
  EXPECT_TRUE(charges.accesses().empty());
  charges.add_access(target.row, true, 4096);
  ASSERT_EQ(charges.accesses().size(), 1u);
  EXPECT_EQ(charges.accesses().at(target.path).samples, 2u);
  EXPECT_EQ(charges.accesses().at(target.path).accesses, 1u);
}

// --- LastPath ------------------------------------------------------------------------------

TEST_F(Stacks, TheLastPathIsTheCallThatBeganAfterTheLastSample) {
  LastPath last;
  EXPECT_EQ(last.find({}, false, stacks), std::nullopt);
  last.note({}, 4, 1000);
  EXPECT_EQ(last.find({}, false, stacks), 4u);
  RawCallUnderWay call;
  call.main_thread = true;
  call.path = 9;
  call.enter_ns = 999;
  EXPECT_EQ(last.find({call}, false, stacks), 4u);
  call.enter_ns = 1001;
  EXPECT_EQ(last.find({call}, false, stacks), 9u);
  call.main_thread = false;
  EXPECT_EQ(last.find({call}, false, stacks), 4u);
}

// --- TimeInMpi -----------------------------------------------------------------------------

TEST_F(Stacks, HelperThreadsWithoutMpiCallsAreNotCounted) {
  segment.thread(0, 100, FakeSegment::kStart);
  const ProcessStart start(FakeSegment::kStart);
  const RecordedWindows windows(view.header());
  const TimeInMpi time(view, start, windows, stacks, drops);
  TimeInMpi::Thread thread{101, false, FakeSegment::kStart, std::nullopt};
  EXPECT_EQ(time.of_helper(thread, view.thread_slot(0), FakeSegment::kStart + 500).count, 0u);
  segment.slot(0).mpi_time_ns = 200;
  EXPECT_EQ(time.of_helper(thread, view.thread_slot(0), FakeSegment::kStart + 500).elapsed_ns, 500u);
  thread.ended_ns = FakeSegment::kStart + 300;
  EXPECT_EQ(time.of_helper(thread, view.thread_slot(0), FakeSegment::kStart + 500).elapsed_ns, 300u);
  thread.main = true;
  EXPECT_EQ(time.of_helper(thread, view.thread_slot(0), FakeSegment::kStart + 500).count, 0u);
}

}  // namespace
}  // namespace clusterprof::collector
