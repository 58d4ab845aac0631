// SPDX-License-Identifier: BSD-3-Clause
// A rank and its collector as threads of one process, so that ThreadSanitizer sees both sides of the shared
// memory: rings that wrap and overflow, tables that grow, threads that come and go, and snapshots that become
// shards on a separate thread, as in the server. Each writer counts what it writes.
//
//   shared_memory_threads [ROUNDS]     exit status: 0 all good, 1 not, 66 what TSan found
// The program raises some counters by plain additions (MpiSite, MpiPeer, MpiSizeBins, ProcessUsage). The
// collector may read these in the middle of a change; that is not tested here.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collector/node/node_state.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_functions.h"
#include "tests/unit/collector/fake_segment.hpp"

namespace {

using namespace clusterprof;
using test::FakeSegment;

bool all_good = true;
void expect(bool good, const char* what, std::uint64_t found, std::uint64_t expected) {
  if (good) return;
  all_good = false;
  std::fprintf(stderr, "%s: %llu, expected %llu\n", what, static_cast<unsigned long long>(found),
               static_cast<unsigned long long>(expected));
}
void expect_equal(const char* what, std::uint64_t found, std::uint64_t expected) {
  expect(found == expected, what, found, expected);
}

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// --- the rings alone ---------------------------------------------------------------------------

// Records of all lengths, some shorter than what was reserved for them; each word says which one it is.
void one_ring(std::uint64_t records) {
  const auto ring = std::make_unique<wire::Ring>();
  std::atomic<bool> done{false};
  std::uint64_t dropped = 0;
  std::thread writer([&] {
    for (std::uint64_t n = 1; n <= records; ++n) {
      const auto words = static_cast<std::uint32_t>(1 + n * 2654435761u % 250);
      const auto spare = static_cast<std::uint32_t>(n % 3 * 64);
      const std::uint32_t bytes = sizeof(wire::RecordHeader) + 8 * words;
      std::uint64_t position = 0;
      std::uint8_t* to = nullptr;
      while ((to = wire::ring_reserve(*ring, bytes + spare, position)) == nullptr && n % 8 != 0)
        std::this_thread::yield();
      if (to == nullptr) {
        ++dropped;
        continue;
      }
      const wire::RecordHeader header{bytes, wire::kSample, 0};
      std::memcpy(to, &header, sizeof header);
      for (std::uint32_t i = 0; i < words; ++i) std::memcpy(to + sizeof header + 8 * i, &n, 8);
      wire::ring_commit(*ring, position, bytes);
    }
    done.store(true, std::memory_order_release);
  });
  std::uint64_t read = 0, last = 0, damaged = 0;
  for (bool end = false; !end;) {
    end = done.load(std::memory_order_acquire);
    const bool sane = wire::ring_drain(*ring, [&](const wire::RecordHeader& header) {
      const auto* const words = reinterpret_cast<const std::uint8_t*>(&header) + sizeof header;
      std::uint64_t number = 0;
      std::memcpy(&number, words, 8);
      for (std::uint32_t at = 0; at < header.bytes - sizeof header; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, words + at, 8);
        if (word != number) ++damaged;
      }
      if (number <= last) ++damaged;
      last = number;
      ++read;
    });
    if (!sane) ++damaged;
  }
  writer.join();
  expect_equal("damaged records of a ring", damaged, 0);
  expect_equal("records of a ring, read or dropped", read + dropped, records);
}

void one_event_ring(std::uint64_t events) {
  const auto ring = std::make_unique<wire::MpiEventRing>();
  std::uint64_t dropped = 0;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint64_t n = 1; n <= events; ++n) {
      wire::MpiEvent* event = nullptr;
      while ((event = wire::reserve_event(*ring)) == nullptr && n % 8 != 0) std::this_thread::yield();
      if (event == nullptr) {
        ++dropped;
        continue;
      }
      event->enter_ns = event->exit_ns = n;
      wire::publish_event(*ring);
    }
    done.store(true, std::memory_order_release);
  });
  std::uint64_t read = 0, last = 0, damaged = 0;
  for (bool end = false; !end;) {
    end = done.load(std::memory_order_acquire);
    const std::uint64_t written = ring->written.load(std::memory_order_acquire);
    for (; read != written; ++read) {
      const wire::MpiEvent event = ring->events[read & (wire::kEventRingEvents - 1)];
      if (event.enter_ns != event.exit_ns || event.enter_ns <= last) ++damaged;
      last = event.enter_ns;
    }
    ring->read.store(read, std::memory_order_release);
  }
  writer.join();
  expect_equal("damaged events of a ring", damaged, 0);
  expect_equal("events of a ring, read or dropped", read + dropped, events);
}

// --- a program and the collector of its node ---------------------------------------------------

// The program's side, through the collector's mapping: TSan knows memory by its address.
class Program {
 public:
  static constexpr std::uint32_t kThreads = 3;
  static constexpr std::uint32_t kLives = 6;  // threads that come one after the other in each slot
  static constexpr std::uint32_t kSamplesOfALife = 120, kEventsOfALife = 100;
  static constexpr std::uint64_t kModuleStart = 0x10000, kModuleEnd = 0x20000;

  explicit Program(const collector::SegmentView& view) : view_(&view.header()), layout_(view.layout()) {}

  std::atomic<std::uint64_t> samples{0}, events{0};
  std::atomic<std::uint64_t> polls{0};  // of the collector; relaxed, so that they put nothing into order

  // All lives of the slot, one after the other.
  void live(std::uint32_t index) {
    wire::ThreadSlot& slot = at<wire::ThreadSlot>(layout_.thread_slots_offset)[index];
    for (std::uint32_t life = 0; life < kLives; ++life) {
      while (slot.state.load(std::memory_order_acquire) !=
             static_cast<std::uint32_t>(wire::ThreadState::kFree))
        std::this_thread::yield();
      view_->threads_seen.fetch_add(1, std::memory_order_relaxed);
      slot.tid = static_cast<std::int32_t>(100 + index + kThreads * life);
      slot.start_time_ns = monotonic_ns();
      slot.start_cpu_ns = 0;
      slot.mpi_op.store(0, std::memory_order_relaxed);
      slot.is_main = index == 0 && life == 0 ? 1 : 0;
      std::snprintf(slot.name, sizeof slot.name, "thread %u", life);
      slot.state.store(static_cast<std::uint32_t>(wire::ThreadState::kLive), std::memory_order_release);
      let_it_look();

      load_module(index, life);
      const std::uint64_t code = 1 + index + std::uint64_t{kThreads} * life;
      publish_code(code);
      let_it_look();
      for (std::uint32_t i = 0; i < kSamplesOfALife; ++i) {
        const std::uint64_t words[] = {test::python_word(2 * (i % 4)), code, kModuleStart + 16 * (i + 1)};
        write_record(slot, wire::Trigger::kCpuTimer, words, i);
        if (i < kEventsOfALife && index < layout_.mpi_event_rings) write_event(index, i);
        enter_region(index);
        if (i % 16 == 0) std::this_thread::yield();
      }
      write_record(slot, wire::Trigger::kThreadEnd, {}, kSamplesOfALife);
      slot.state.store(static_cast<std::uint32_t>(wire::ThreadState::kEnded), std::memory_order_release);
    }
  }

 private:
  template <typename T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uint8_t*>(view_) + offset);
  }

  // Before anything else is published, which would put what came before it into order as well.
  void let_it_look() const {
    const std::uint64_t now = polls.load(std::memory_order_relaxed);
    while (polls.load(std::memory_order_relaxed) < now + 2) std::this_thread::yield();
  }

  // Under the agent's lock. Each is a mapping of its own.
  void load_module(std::uint32_t index, std::uint32_t life) {
    while (module_lock_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    const std::string path = "/no/such/module" + std::to_string(index) + "." + std::to_string(life);
    const std::uint64_t used = view_->module_arena_used.load(std::memory_order_relaxed);
    wire::ModuleEntry entry{};
    entry.entry_bytes = static_cast<std::uint32_t>((sizeof entry + path.size() + 7) / 8 * 8);
    entry.epoch = view_->module_epoch.load(std::memory_order_relaxed) + 1;
    entry.load_bias = entry.start = kModuleStart + 0x100000 * (life * kThreads + index);
    entry.end = entry.start + (kModuleEnd - kModuleStart);
    entry.path_bytes = static_cast<std::uint32_t>(path.size());
    if (used + entry.entry_bytes > layout_.module_arena_bytes) std::abort();
    auto* const to = at<std::uint8_t>(layout_.module_arena_offset + used);
    std::memcpy(to, &entry, sizeof entry);
    std::memcpy(to + sizeof entry, path.data(), path.size());
    view_->module_arena_used.store(used + entry.entry_bytes, std::memory_order_release);
    view_->module_epoch.store(entry.epoch, std::memory_order_release);
    module_lock_.clear(std::memory_order_release);
  }

  // As agent/sigsafe/code_table.cpp does: without a lock.
  void publish_code(std::uint64_t id) {
    auto* const slots = at<wire::CodeSlot>(layout_.code_slots_offset);
    std::uint64_t i = id % layout_.code_slots;
    for (std::uint64_t free = 0; !slots[i].key.compare_exchange_strong(free, id, std::memory_order_acq_rel);
         free = 0)
      i = (i + 1) % layout_.code_slots;
    const std::string name = "function" + std::to_string(id);
    constexpr std::string_view kFile = "program.py";
    wire::CodeEntry entry{};
    entry.code_id = id;
    entry.first_line = static_cast<std::uint32_t>(id);
    entry.filename_bytes = kFile.size();
    entry.name_bytes = static_cast<std::uint32_t>(name.size());
    const std::uint64_t bytes = (sizeof entry + kFile.size() + name.size() + 7) / 8 * 8;
    const std::uint64_t offset = view_->code_arena_used.fetch_add(bytes, std::memory_order_relaxed);
    if (offset + bytes > layout_.code_arena_bytes) std::abort();
    auto* const to = at<std::uint8_t>(layout_.code_arena_offset + offset);
    std::memcpy(to, &entry, sizeof entry);
    std::memcpy(to + sizeof entry, kFile.data(), kFile.size());
    std::memcpy(to + sizeof entry + kFile.size(), name.data(), name.size());
    slots[i].entry_offset.store(offset + 1, std::memory_order_release);
  }

  // Waits where the agent would drop, so that all can be counted.
  void write_record(wire::ThreadSlot& slot, wire::Trigger trigger, std::span<const std::uint64_t> words,
                    std::uint64_t cpu_ms) {
    const auto bytes = static_cast<std::uint32_t>(sizeof(wire::SampleRecord) + words.size_bytes());
    std::uint64_t position = 0;
    std::uint8_t* to = nullptr;
    while ((to = wire::ring_reserve(slot.ring, bytes, position)) == nullptr) std::this_thread::yield();
    wire::SampleRecord record{};
    record.header = {bytes, wire::kSample, 0};
    record.time_ns = monotonic_ns();
    record.cpu_ns = cpu_ms * 1'000'000;
    record.syscall_nr = -1;
    record.frame_words = static_cast<std::uint16_t>(words.size());
    record.trigger = trigger;
    record.module_epoch = view_->module_epoch.load(std::memory_order_acquire);
    std::memcpy(to, &record, sizeof record);
    if (!words.empty()) std::memcpy(to + sizeof record, words.data(), words.size_bytes());
    wire::ring_commit(slot.ring, position, bytes);
    if (trigger == wire::Trigger::kCpuTimer) samples.fetch_add(1, std::memory_order_relaxed);
  }

  void write_event(std::uint32_t index, std::uint32_t sequence) {
    wire::MpiEventRing& ring = at<wire::MpiEventRing>(layout_.mpi_event_rings_offset)[index];
    wire::MpiEvent* place = nullptr;
    while ((place = wire::reserve_event(ring)) == nullptr) std::this_thread::yield();
    wire::MpiEvent event{};
    event.enter_ns = event.start_ns = event.exit_ns = monotonic_ns();
    event.channel = 1;
    event.site = 0xffff'ffffu;
    event.op = wire::kMPI_Send;
    event.sequence = sequence;
    event.peer = 1;
    event.kind = wire::MpiEventKind::kSend;
    *place = event;
    wire::publish_event(ring);
    events.fetch_add(1, std::memory_order_relaxed);
    view_->mpi_operations.fetch_add(1, std::memory_order_relaxed);
  }

  void enter_region(std::uint32_t index) {
    wire::Region& region = at<wire::Region>(layout_.regions_offset)[index];
    if (region.ready.load(std::memory_order_relaxed) == 0) {
      region.parent = wire::kNoRegion;
      std::snprintf(region.name, sizeof region.name, "region %u", index);
      region.ready.store(1, std::memory_order_release);
    }
    region.count.fetch_add(1, std::memory_order_relaxed);
    region.time_ns.fetch_add(1, std::memory_order_relaxed);
  }

  wire::SegmentHeader* const view_;
  const collector::SegmentView::Layout layout_;
  std::atomic_flag module_lock_;
};

collector::Instant now() {
  const std::uint64_t mono_ns = monotonic_ns();
  return {mono_ns, static_cast<std::int64_t>(mono_ns) + 1'000'000'000'000};
}

void one_node() {
  FakeSegment fake;
  fake.header().start_mono_ns = monotonic_ns();
  auto view = collector::SegmentView::open(fake.file(), fake.bytes());
  if (!view) {
    std::fprintf(stderr, "%s\n", view.error().message.c_str());
    all_good = false;
    return;
  }
  Program program(view.value());
  collector::NodeOptions options;
  options.run_id = "run";
  options.node_name = "node";
  options.command = {"program"};
  options.rate_hz = 100;
  collector::NodeState state(options);
  state.begin(now());
  const auto process = state.hello(std::nullopt, 100, std::move(view).value(), now());

  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> live{Program::kThreads};
  for (std::uint32_t i = 0; i < Program::kThreads; ++i)
    threads.emplace_back([&program, &live, i] {
      program.live(i);
      live.fetch_sub(1, std::memory_order_release);
    });

  collector::ShardBuilder builder;
  std::thread writer;
  std::atomic<bool> writing{false};
  std::uint64_t shards = 0;
  const auto write = [&builder](const collector::NodeSnapshot& snapshot) {
    const shard::ShardData data = builder.build(snapshot);
    const Result<void> valid = shard::validate(data);
    if (!valid) {
      std::fprintf(stderr, "not a shard: %s\n", valid.error().message.c_str());
      std::abort();
    }
  };
  for (bool end = false; !end;) {
    end = live.load(std::memory_order_acquire) == 0;
    state.poll(now().mono_ns);
    program.polls.fetch_add(1, std::memory_order_relaxed);
    state.update_series(now().mono_ns);
    if (writing.load(std::memory_order_acquire)) continue;
    if (writer.joinable()) writer.join();
    writing.store(true, std::memory_order_relaxed);
    auto snapshot = std::make_shared<const collector::NodeSnapshot>(
        state.snapshot(now(), false, collector::Events::kFew));
    writer = std::thread([&write, &writing, snapshot] {
      write(*snapshot);
      writing.store(false, std::memory_order_release);
    });
    ++shards;
  }
  for (std::thread& thread : threads) thread.join();
  state.poll(now().mono_ns);
  if (writer.joinable()) writer.join();
  state.gone(process, now().mono_ns, 0);
  const collector::NodeSnapshot last = state.snapshot(now(), true);
  write(last);

  constexpr std::uint64_t kLives = std::uint64_t{Program::kThreads} * Program::kLives;
  const collector::ProcessReport& report = last.ranks.at(0).report;
  expect_equal("samples written", program.samples, kLives * Program::kSamplesOfALife);
  expect_equal("samples collected", report.samples, program.samples);
  expect_equal("threads", report.threads, kLives);
  expect_equal("code objects", last.tables.codes.size(), kLives);
  expect_equal("modules", last.tables.modules.size(), kLives);
  expect_equal("regions", report.regions.size(), Program::kThreads);
  std::uint64_t events = 0;
  if (last.ranks[0].events)
    last.ranks[0].events->for_each([&](std::uint32_t, const auto&, const auto&) { ++events; });
  expect_equal("events", events, program.events);
  for (const auto& [reason, count] : report.drops) expect_equal(reason.c_str(), count, 0);
  expect(shards > 1, "shards written meanwhile", shards, 2);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long rounds = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2;
  for (unsigned long round = 0; round < rounds; ++round) {
    one_ring(20'000);
    one_event_ring(100'000);
    one_node();
  }
  return all_good ? 0 : 1;
}
