// SPDX-License-Identifier: BSD-3-Clause
// A collector reads a process's shared memory while that process writes anything to it. The input is a list
// of actions on a valid segment: see act(). Whatever happens, the collector ends up with a valid shard.
//
// Compiled with CLUSTERPROF_FUZZ_LOADS the collector's reads call us, so that a value can change between two
// reads of it, always at the same place.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/node/node_state.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/shard/tables.hpp"
#include "formats/wire/hello.h"
#include "formats/wire/mpi_functions.h"
#include "tests/fuzz/input.hpp"
#include "tests/support/made_object.hpp"
#include "tests/unit/collector/fake_segment.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

using namespace clusterprof;
using collector::NodeState;
using collector::SegmentView;
using fuzz::Input;
using test::FakeSegment;

// A segment that is restored after each input without a copy of all of it.
class Segment {
 public:
  struct Part {
    std::uint64_t offset, bytes;
  };

  Segment() {
    test::fill(fake_);
    fake_.generated(test::made_object(0x10000, 0x100, {{"made", 0x40, 0x60}, {"as well", 0xa0, 0x10}}));
    fake_.memory_space(0, "Host", 1, 5);
    fake_.memory_label(20, 0, "view", 5);
    original_.assign(fake_.base(), fake_.base() + fake_.bytes());
    const wire::SegmentHeader& h = fake_.header();
    parts_ = {{0, sizeof h},
              {h.code_slots_offset, h.code_slots * sizeof(wire::CodeSlot)},
              {h.code_arena_offset, h.code_arena_bytes},
              {h.module_arena_offset, h.module_arena_bytes},
              {h.mpi_sites_offset, wire::all_mpi_sites(h.mpi_sites, h.mpi_ops) * sizeof(wire::MpiSite)},
              {h.path_arena_offset, h.path_arena_bytes},
              {h.mpi_peers_offset, h.mpi_peers * sizeof(wire::MpiPeer)},
              {h.mpi_sizes_offset, h.mpi_ops * sizeof(wire::MpiSizeBins)},
              {h.communicators_offset, h.communicators * sizeof(wire::MpiCommunicator)},
              {h.mpi_site_counters_offset,
               wire::all_mpi_sites(h.mpi_sites, h.mpi_ops) * sizeof(wire::MpiSiteCounters)},
              {h.regions_offset, h.regions * sizeof(wire::Region)},
              {h.io_files_offset, h.io_files * sizeof(wire::IoFile)},
              {h.io_sites_offset, h.io_sites * sizeof(wire::IoSite)},
              {h.io_amounts_offset, h.io_files * wire::kIoOperations * sizeof(wire::IoAmount)},
              {h.memory_sites_offset, h.memory_sites * sizeof(wire::MemorySite)},
              {h.memory_addresses_offset, h.memory_blocks * sizeof(std::uint64_t)},
              {h.memory_blocks_offset, h.memory_blocks * sizeof(wire::MemoryBlock)},
              {h.memory_rings_offset, sizeof(wire::MemoryRing)},
              {h.labelled_memory_offset, sizeof(wire::LabelledMemory)},
              {h.generated_arena_offset, h.generated_arena_bytes}};
    own_ = {parts_[0]};
    constexpr std::uint64_t kSlotHead = offsetof(wire::ThreadSlot, ring) + offsetof(wire::Ring, data);
    constexpr std::uint64_t kEventsHead = offsetof(wire::MpiEventRing, events);
    for (std::uint64_t i = 0; i < FakeSegment::kThreads; ++i) {
      const std::uint64_t at = h.thread_slots_offset + i * sizeof(wire::ThreadSlot);
      own_.push_back({at, kSlotHead});
      parts_.push_back({at, kSlotHead});
      parts_.push_back({at + kSlotHead, wire::kRingBytes});
    }
    own_.push_back({h.memory_rings_offset, offsetof(wire::MemoryRing, events)});
    for (std::uint64_t i = 0; i < FakeSegment::kEventRings; ++i) {
      const std::uint64_t at = h.mpi_event_rings_offset + i * sizeof(wire::MpiEventRing);
      own_.push_back({at, kEventsHead});
      parts_.push_back({at, kEventsHead});
      parts_.push_back({at + kEventsHead, sizeof(wire::MpiEventRing) - kEventsHead});
    }
  }

  FakeSegment& fake() { return fake_; }
  // Where they were before the header changed.
  wire::ThreadSlot& slot(std::uint32_t index) {
    return fake_.table<wire::ThreadSlot>(known().thread_slots_offset)[index];
  }
  wire::MpiEventRing& event_ring(std::uint32_t index) {
    return fake_.table<wire::MpiEventRing>(known().mpi_event_rings_offset)[index];
  }
  // Somewhere in a table; the rest of the table.
  Part place(Input& input) const {
    const Part part = parts_[input.byte() % parts_.size()];
    const std::uint64_t at = input.number<std::uint16_t>() % part.bytes;
    return {part.offset + at, part.bytes - at};
  }
  void write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
    touch(offset, bytes.size());
    std::memcpy(fake_.base() + offset, bytes.data(), bytes.size());
  }
  void touch(std::uint64_t offset, std::uint64_t bytes) { changed_.push_back({offset, bytes}); }

  void restore() {
    for (const std::vector<Part>* const parts : {&changed_, &own_})
      for (const Part& part : *parts)
        std::memcpy(fake_.base() + part.offset, original_.data() + part.offset, part.bytes);
    changed_.clear();
  }

 private:
  [[nodiscard]] const wire::SegmentHeader& known() const {
    return *reinterpret_cast<const wire::SegmentHeader*>(original_.data());
  }

  FakeSegment fake_;
  std::vector<std::uint8_t> original_;
  std::vector<Part> parts_, own_, changed_;  // own: what the collector writes, or FakeSegment
};

Segment& segment() {
  static Segment the_segment;
  return the_segment;
}

// --- values that change between two reads ------------------------------------------------------

struct Change {
  std::uint64_t offset;
  std::uint32_t reads;  // of it, until it changes
  std::uint64_t value;
  std::uint8_t bytes;
};
std::vector<Change> changes;
std::uint64_t view_begin, view_end;

#ifdef CLUSTERPROF_FUZZ_LOADS
void before_load(const void* address, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  if (begin < view_begin || begin >= view_end) return;
  const std::uint64_t offset = begin - view_begin;
  for (Change& change : changes) {
    if (change.offset >= offset + bytes || offset >= change.offset + change.bytes || change.reads == 0)
      continue;
    if (--change.reads == 0) {
      std::uint8_t value[8];
      std::memcpy(value, &change.value, sizeof value);
      segment().write(change.offset, {value, change.bytes});
    }
  }
}
#endif

// --- a node with that one process --------------------------------------------------------------

class Node {
 public:
  Node() : state_(options()) {}

  void greet() {
    auto view = SegmentView::open(segment().fake().file(), segment().fake().bytes());
    if (!view) return;
    view_begin = reinterpret_cast<std::uint64_t>(&view.value().header());
    view_end = view_begin + segment().fake().bytes();
    process_ = state_.hello(process_, 100, std::move(view).value(), now());
  }
  void pass(std::uint64_t ns) { now_ns_ += ns; }
  void poll() {
    greet_once();
    state_.poll(now_ns_);
    for (const NodeState::Made& made : state_.take_made())
      if (const auto id = state_.add_unrecorded(made, made.pid % 2 == 0, now_ns_); id && made.pid % 2 == 0)
        unrecorded_.push_back(*id);
  }
  void refuse(const wire::Refusal& refusal, std::string_view command) {
    process_ = state_.refused(process_, 100, refusal, command, now());
  }
  void window(std::uint32_t number, bool open) {
    state_.want_window(number, open);
    (void)state_.window_done();
  }
  void turn_off() { state_.turn_off(now_ns_); }
  void announce(std::int32_t rank, std::int32_t world_size, bool other) {
    const auto id =
        state_.announce(other ? std::nullopt : process_, rank, world_size, other ? 101 : 100, now());
    if (!other) process_ = id;
  }
  void end_segment() {
    if (!process_) return;
    state_.agent_left(*process_, now_ns_);
    if (state_.may_have_executed(*process_, now_ns_)) state_.look_for_exec(*process_, 0, now_ns_);
    state_.segment_ended(*process_, now_ns_);
  }
  void worlds(std::int32_t first, std::int32_t size) { state_.set_spawned_worlds({{first, size}, {4, 2}}); }
  void look(std::uint64_t usage) {
    if (!process_) return;
    collector::SystemUsage use;
    use.user_ns = use.max_rss_bytes = use.read_bytes = usage;
    use.has_io = use.has_rss = true;
    state_.set_usage(*process_, use);
    state_.set_look(*process_, {usage, "0-1", "0"});
    state_.update_series(now_ns_);
  }
  void snapshot(bool complete) {
    const shard::ShardData data = builder_.build(
        state_.snapshot(now(), complete, complete ? collector::Events::kAll : collector::Events::kFew));
    if (const Result<void> valid = shard::validate(data); !valid) {
      std::fprintf(stderr, "the collector made a shard that is none: %s\n", valid.error().message.c_str());
      std::abort();
    }
  }
  void finish(std::optional<int> wait_status) {
    greet_once();
    for (const NodeState::ProcessId id : unrecorded_) state_.gone(id, now_ns_, std::nullopt);
    if (process_) state_.gone(*process_, now_ns_, wait_status);
    (void)state_.left_mpi_open(process_.value_or(0));
    (void)state_.mpi_progress();
    snapshot(true);
  }

 private:
  static collector::NodeOptions options() {
    collector::NodeOptions options;
    options.run_id = "run";
    options.node_name = "node";
    options.command = {"program"};
    options.rate_hz = 100;
    return options;
  }
  void greet_once() {
    if (!std::exchange(has_greeted_, true)) greet();
  }
  [[nodiscard]] collector::Instant now() const {
    return {now_ns_, static_cast<std::int64_t>(now_ns_) + 1'000'000'000'000};
  }

  NodeState state_;
  collector::ShardBuilder builder_;
  std::optional<NodeState::ProcessId> process_;
  std::vector<NodeState::ProcessId> unrecorded_;  // that it has made and that run
  bool has_greeted_ = false;
  std::uint64_t now_ns_ = FakeSegment::kStart + 250'000'000;
};

// --- what the process does ---------------------------------------------------------------------

void add_record(Input& input) {
  wire::ThreadSlot& slot = segment().slot(input.byte() % FakeSegment::kThreads);
  const std::uint8_t what = input.byte();
  std::vector<std::uint8_t> record(sizeof(wire::RecordHeader) + 8 * std::size_t{input.byte()});
  const std::uint8_t* const base = segment().fake().base();
  const auto ring = static_cast<std::uint64_t>(reinterpret_cast<std::uint8_t*>(&slot.ring) - base);
  segment().touch(ring, sizeof slot.ring);
  std::uint64_t position = 0;
  std::uint8_t* const to = wire::ring_reserve(slot.ring, static_cast<std::uint32_t>(record.size()), position);
  if (to == nullptr) return;
  const auto content = input.take(record.size());
  std::copy(content.begin(), content.end(), record.begin());
  if ((what & 1) == 0) {
    const wire::RecordHeader header{static_cast<std::uint32_t>(record.size()), wire::kSample, 0};
    std::memcpy(record.data(), &header, sizeof header);
  }
  std::memcpy(to, record.data(), record.size());
  wire::ring_commit(slot.ring, position, static_cast<std::uint32_t>(record.size()));
}

void add_event(Input& input) {
  const std::uint32_t index = input.byte() % FakeSegment::kEventRings;
  const std::uint8_t what = input.byte();
  auto event = input.number<wire::MpiEvent>();
  if ((what & 1) == 0) {  // at times when something can be
    event.enter_ns = FakeSegment::kStart + event.enter_ns % 1'000'000'000;
    event.exit_ns = event.enter_ns + event.exit_ns % 100'000'000;
    event.start_ns = event.enter_ns;
    event.mpi_ns = event.mpi_ns % (event.enter_ns - FakeSegment::kStart + 1);
    event.op %= wire::kMpiFunctionCount;
  }
  wire::MpiEventRing& ring = segment().event_ring(index);
  const std::uint64_t slot = ring.written.load() % wire::kEventRingEvents;
  segment().touch(static_cast<std::uint64_t>(reinterpret_cast<std::uint8_t*>(&ring.events[slot]) -
                                             segment().fake().base()),
                  sizeof event);
  segment().fake().header().mpi_operations += 1;
  wire::MpiEvent* const place = wire::reserve_event(ring);
  if (place == nullptr) return;
  *place = event;
  wire::publish_event(ring);
}

// A time at which something can be.
std::uint64_t some_time(Input& input) {
  return FakeSegment::kStart + input.number<std::uint32_t>() % 1'000'000'000;
}

wire::ThreadSlot& some_slot(Input& input) { return segment().slot(input.byte() % FakeSegment::kThreads); }

// A program that the process executes or spawns. Values are one beyond what is valid at most.
void add_launch(Input& input) {
  wire::SegmentHeader& header = segment().fake().header();
  const std::uint64_t number = header.launches_made + 1;
  wire::Launch& launch = header.launches[number % wire::kLaunches];
  launch.time_ns = some_time(input);
  launch.path = input.number<std::uint64_t>();
  launch.pid = input.byte() % 4 == 0 ? 100 : input.number<std::int32_t>();
  launch.kind =
      static_cast<wire::CreationKind>(input.byte() % (static_cast<unsigned>(wire::CreationKind::kShell) + 2));
  launch.reason = static_cast<wire::UnrecordedReason>(input.byte() % (wire::kUnrecordedReasons + 2));
  launch.command_bytes = input.byte();
  const auto command = input.take(std::min<std::size_t>(launch.command_bytes, sizeof launch.command));
  std::copy(command.begin(), command.end(), launch.command);
  launch.number = number;
  header.launches_made = number;
}

// What MPI knew of mistakes.
void add_mpi_error(Input& input) {
  wire::MpiError& row = segment().fake().header().mpi_errors[input.byte() % wire::kMpiErrors];
  row.site = input.byte() % 2 == 0 ? input.byte() : input.number<std::uint32_t>();
  row.op = input.number<std::uint16_t>();
  row.error_class = input.number<std::int32_t>();
  row.peer = input.number<std::int8_t>();
  row.tag = input.number<std::int32_t>();
  row.message = input.number<std::uint32_t>();
  row.channel = input.byte();
  row.first_ns = some_time(input);
  row.count = input.byte();
  const auto text = input.take(input.byte() % (sizeof row.text + 1));  // perhaps without its end
  std::copy(text.begin(), text.end(), row.text);
  row.ready = 1;
  segment().fake().header().mpi_unseen = input.byte();
}

void add_open_requests(Input& input) {
  wire::OpenRequests& row = segment().fake().header().open_requests[input.byte() % wire::kOpenRequestRows];
  row.channel = input.byte();
  row.count = input.byte();
  row.site = input.byte() % 2 == 0 ? input.byte() : input.number<std::uint32_t>();
  row.kind = input.byte() % 6;
  row.peer = input.number<std::int8_t>();
  row.tag = input.number<std::int32_t>();
  segment().fake().header().open_requests_ready = 1;
}

void add_turns(Input& input) {
  wire::ThreadLoops& all = some_slot(input).event_loops;
  wire::EventLoop& loop = all.loops[input.byte() % wire::kThreadLoops];
  loop.descriptor = input.byte();
  loop.turns = input.number<std::uint16_t>();
  loop.busy_ns = input.number<std::uint32_t>();
  loop.idle_ns = input.number<std::uint32_t>();
  loop.blocked = input.byte();
  loop.blocked_ns = input.number<std::uint32_t>();
  loop.longest_ns = input.number<std::uint32_t>();
  loop.longest_began_ns = some_time(input);
  loop.turn_began_ns = input.byte() % 2 == 0 ? 0 : some_time(input);
  loop.wait_began_ns = input.byte() % 2 == 0 ? 0 : some_time(input);
  loop.lengths[input.byte() % wire::kTurnBins] = input.number<std::uint16_t>();
  for (int turns = input.byte() % 8; turns > 0; --turns) {
    wire::BlockedTurn& turn = all.blocked[all.blocked_turns % wire::kBlockedTurns];
    turn.begin_ns = some_time(input);
    turn.end_ns = turn.begin_ns + input.number<std::uint32_t>() % 1'000'000'000;
    turn.descriptor = loop.descriptor.load();
    turn.awaited = input.byte() % 4;
    all.blocked_turns += 1;
  }
}

void add_openmp(Input& input) {
  test::FakeSegment& fake = segment().fake();
  fake.header().openmp.method = input.byte() % 5;
  fake.header().openmp.region_site = input.byte();
  fake.header().openmp.region_since_ns = input.byte() % 2 == 0 ? 0 : some_time(input);
  fake.header().openmp.region_mpi_ns = input.number<std::uint32_t>();
  auto& site =
      fake.table<wire::OmpSite>(fake.header().omp_sites_offset)[input.byte() % test::FakeSegment::kOmpSites];
  site.threads = input.byte();
  site.path_words = input.byte() % 8;
  site.path_offset = input.byte() * 8u;
  site.region = input.byte();
  site.code = input.number<std::uint32_t>();
  site.construct = static_cast<wire::OmpConstruct>(input.byte() % (wire::kOmpConstructs + 2));
  site.level = input.byte() % 3;
  site.count = input.byte();
  site.time_ns = input.number<std::uint32_t>();
  site.ready = 1;
  wire::OmpRow& row =
      fake.omp_row(input.byte() % test::FakeSegment::kOmpRows, input.byte(), input.byte(), input.byte(),
                   input.number<std::uint32_t>(), input.number<std::uint32_t>());
  row.inner_wait_ns = input.number<std::uint32_t>();
  row.schedules = input.byte();
}

void name_thread(Input& input) {
  wire::ThreadSlot& slot = some_slot(input);
  const auto name = input.take(input.byte() % (wire::kThreadNameBytes + 1));
  std::array<std::uint64_t, wire::kThreadNameBytes / 8> words{};
  std::memcpy(words.data(), name.data(), name.size());
  for (std::size_t i = 0; i < words.size(); ++i) slot.python_name[i] = words[i];
  slot.python_name_bytes = static_cast<std::uint32_t>(name.size());
  const auto kernels = input.take(sizeof slot.name);
  std::copy(kernels.begin(), kernels.end(), slot.name);
}

// What the agent writes when it opens or closes a window. Before the greeting: what is recorded outside them.
void change_window(Node& node, Input& input) {
  wire::SegmentHeader& header = segment().fake().header();
  header.outside_windows = static_cast<wire::OutsideWindows>(input.byte() % 4);
  node.window(input.number<std::uint16_t>(), input.byte() % 2 == 1);
  header.window_done = header.window_wanted - input.byte() % 2;
  header.window_begin_ns = some_time(input);
  header.window_end_ns = some_time(input);
  header.record_phase = input.byte() % 8;
  header.record_off_ns = some_time(input);
  header.record_missed_ns[input.byte() % 2] = input.number<std::uint32_t>();
  wire::ThreadSlot& slot = some_slot(input);
  slot.window_begin_cpu_ns = input.number<std::uint32_t>();
  slot.window_begin_ns = input.byte() % 4 == 0 ? 0 : some_time(input);
  slot.window_end_cpu_ns = input.number<std::uint32_t>();
  slot.window_end_ns = input.byte() % 4 == 0 ? 0 : some_time(input);
}

void refuse(Node& node, Input& input) {
  auto refusal = input.number<wire::Refusal>();
  const auto command = input.take(input.byte());
  node.refuse(refusal, {reinterpret_cast<const char*>(command.data()), command.size()});
}

void act_rarely(Node& node, Input& input) {
  const std::uint8_t what = input.byte();
  if (what < 128) return what % 2 == 0 ? node.greet() : node.end_segment();
  switch (what % 8) {
    case 0:
      return add_launch(input);
    case 1:
      return input.byte() % 2 == 0 ? add_mpi_error(input) : add_open_requests(input);
    case 2:
      return add_turns(input);
    case 3:
      return add_openmp(input);
    case 4:
      return name_thread(input);
    case 5:
      return change_window(node, input);
    case 6:
      return refuse(node, input);
    default:
      return node.turn_off();
  }
}

void act(Node& node, Input& input) {
  switch (input.byte() % 16) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const Segment::Part place = segment().place(input);
      const auto bytes = input.take(std::min<std::uint64_t>(1 + input.byte() % 32, place.bytes));
      segment().write(place.offset, bytes);
      break;
    }
    case 4:
    case 5:
      add_record(input);
      break;
    case 6:
      add_event(input);
      break;
    case 7:
    case 8:
      node.pass(input.number<std::uint16_t>() * std::uint64_t{1'000'000});
      node.poll();
      break;
    case 9:
    case 10: {
      const Segment::Part place = segment().place(input);
      const auto bytes = static_cast<std::uint8_t>(
          std::min<std::uint64_t>(std::uint64_t{1} << input.byte() % 4, place.bytes));
      const std::uint32_t reads = 1 + input.byte() % 4;
      changes.push_back({place.offset, reads, input.number<std::uint64_t>(), bytes});
      break;
    }
    case 11: {
      const bool other = input.byte() % 2 == 1;
      const auto rank = input.number<std::int32_t>();
      node.announce(rank, input.number<std::int32_t>(), other);
      break;
    }
    case 12: {
      const auto first = input.number<std::int32_t>();
      node.worlds(first, input.number<std::int32_t>());
      break;
    }
    case 13:
      node.look(input.number<std::uint64_t>());
      break;
    case 14:
      node.snapshot(false);
      break;
    default:
      act_rarely(node, input);
      break;
  }
}

}  // namespace

#ifdef CLUSTERPROF_FUZZ_LOADS
extern "C" {
void __sanitizer_cov_load1(const std::uint8_t* address);
void __sanitizer_cov_load2(const std::uint16_t* address);
void __sanitizer_cov_load4(const std::uint32_t* address);
void __sanitizer_cov_load8(const std::uint64_t* address);
void __sanitizer_cov_load16(const void* address);
void __sanitizer_cov_load1(const std::uint8_t* address) { before_load(address, 1); }
void __sanitizer_cov_load2(const std::uint16_t* address) { before_load(address, 2); }
void __sanitizer_cov_load4(const std::uint32_t* address) { before_load(address, 4); }
void __sanitizer_cov_load8(const std::uint64_t* address) { before_load(address, 8); }
void __sanitizer_cov_load16(const void* address) { before_load(address, 16); }
}
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Input input(bytes, size);
  const std::uint8_t end = input.byte();
  {
    Node node;
    constexpr int kMaxActions = 64;
    for (int actions = 0; !input.empty() && actions < kMaxActions; ++actions) act(node, input);
    node.pass(300'000'000);
    node.finish(end % 3 == 0 ? std::nullopt
                             : std::optional<int>(end % 3 == 1 ? W_EXITCODE(end, 0) : SIGSEGV));
  }
  changes.clear();
  view_begin = view_end = 0;
  segment().restore();
  return 0;
}
