// SPDX-License-Identifier: BSD-3-Clause
// An agent for tests of mpi-wrap alone: a segment in plain memory, written as text to
// $FAKE_AGENT_DIR/<pid>.txt when the process ends. With FAKE_AGENT_PATHS=1 call paths are told
// apart by their return addresses outside of the ranges given to add_wrapper_range; otherwise
// there is one path. It is the collector of the event rings as well: every thread empties its own
// when it enters a call, unless FAKE_AGENT_STALLED=1. FAKE_AGENT_LEVEL: mpi_event_level at the start.
// FAKE_AGENT_STRETCHES: of each millisecond (2^20 ns), so much lies in a stretch, in nanoseconds.
// FAKE_AGENT_FORGET=1: events are thrown away. FAKE_AGENT_PAUSES=1: recording is paused every now and then.
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_api.h"
#include "formats/wire/mpi_functions.h"
#include "formats/wire/segment.h"

namespace {

using namespace clusterprof;

constexpr std::uint32_t kSites = 16384, kPeers = 4096, kCommunicators = 4096, kRings = 8;

wire::SegmentHeader* segment;
int segment_pid;
bool with_paths, stalled, forgets, pauses;
bool started, ended;
__thread int depth;
__thread bool paused;
__thread std::uint32_t calls;
std::uint64_t nested_calls;

template <typename Entry>
Entry* at(std::uint64_t offset) {
  return reinterpret_cast<Entry*>(reinterpret_cast<char*>(segment) + offset);
}

// The events of one thread.
struct Events {
  wire::MpiEventRing* ring;
  wire::MpiEvent* read;   // so far
  std::uint64_t* agreed;  // beside each of them
  std::size_t count, capacity;
  std::uint64_t enter_ns, mpi_ns;
  clusterprof_mpi_call call;  // the latest
  std::uint64_t events_of_call, differing_calls;
};
Events threads[kRings];
int thread_count;
__thread Events* own;

// What the communicator's entry says of the operation, if that is its latest one.
std::uint64_t agreed_of(const wire::MpiEvent& event) {
  const auto* communicators = at<wire::MpiCommunicator>(segment->communicators_offset);
  for (std::uint32_t i = 0; i < kCommunicators && communicators[i].ready != 0; ++i)
    if (communicators[i].collectives_of == event.channel)
      return wire::agreed_of_word(communicators[i].agreed, event.sequence + 1);
  return 0;
}

// What was said of the latest call before it was made, against what its own event says after it. Calls that
// complete requests are about any number of operations.
void compare(Events& events, const wire::MpiEvent& event) {
  const bool blocking = event.kind == wire::MpiEventKind::kSend ||
                        event.kind == wire::MpiEventKind::kReceive ||
                        event.kind == wire::MpiEventKind::kCollective;
  if (!blocking || event.enter_ns != events.enter_ns || event.start_ns != event.enter_ns ||
      event.op != events.call.op || (event.flags & wire::kEventNonblocking) != 0)
    return;
  const clusterprof_mpi_call& call = events.call;
  if (call.channel == 0) return;  // met in this very call
  const bool is_epoch = event.tag == wire::kTagWinPost || event.tag == wire::kTagWinComplete;
  if (is_epoch && event.kind != wire::MpiEventKind::kCollective) return;
  bool same = call.channel == event.channel;
  if (event.kind == wire::MpiEventKind::kCollective) {
    // Who spawns has a root, but all wait for all.
    const bool spawns = event.op == wire::kMPI_Comm_spawn || event.op == wire::kMPI_Comm_spawn_multiple;
    same = same && call.sequence == event.sequence && (spawns || call.root == event.peer) &&
           call.agreed == agreed_of(event);
  } else if (event.op != wire::kMPI_Mrecv &&
             (event.kind == wire::MpiEventKind::kReceive ||
              (event.op != wire::kMPI_Sendrecv && event.op != wire::kMPI_Sendrecv_replace))) {
    same = same && (call.peer == wire::kAnyPeer || call.peer == event.peer) &&
           (call.tag == wire::kAnyTag || call.tag == event.tag);
  }
  ++events.events_of_call;
  if (!same) ++events.differing_calls;
}

void drain(Events& events) {
  wire::MpiEventRing& ring = *events.ring;
  std::uint64_t number = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t end = ring.written.load(std::memory_order_acquire);
  for (; number != end && !forgets; ++number) {
    if (events.count == events.capacity) {
      events.capacity = events.capacity == 0 ? 1024 : events.capacity * 2;
      events.read =
          static_cast<wire::MpiEvent*>(realloc(events.read, events.capacity * sizeof(wire::MpiEvent)));
      events.agreed =
          static_cast<std::uint64_t*>(realloc(events.agreed, events.capacity * sizeof(std::uint64_t)));
      if (events.read == nullptr || events.agreed == nullptr) abort();
    }
    const wire::MpiEvent& event = ring.events[number & (wire::kEventRingEvents - 1)];
    events.read[events.count] = event;
    const bool begins =
        event.kind == wire::MpiEventKind::kCollective || event.kind == wire::MpiEventKind::kCollectiveStart;
    events.agreed[events.count++] = begins ? agreed_of(event) : 0;
    compare(events, event);
  }
  ring.read.store(end, std::memory_order_release);
}

Events& own_events() {
  if (own == nullptr) {
    const int index = __atomic_fetch_add(&thread_count, 1, __ATOMIC_RELAXED);
    if (index >= static_cast<int>(kRings)) abort();
    own = &threads[index];
    own->ring = static_cast<wire::MpiEventRing*>(aligned_alloc(64, sizeof(wire::MpiEventRing)));
    if (own->ring == nullptr) abort();
    memset(static_cast<void*>(own->ring), 0, sizeof(wire::MpiEventRing));
  }
  return *own;
}

constexpr int kRanges = 16;
struct {
  std::uintptr_t start, end;
} ranges[kRanges];
int range_count;

void* get_segment() { return segment; }

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t enter_mpi(const clusterprof_mpi_call* call) {
  if (call->op >= wire::kMpiFunctionCount) abort();
  if (segment == nullptr) return 0;
  if (depth != 0) {
    __atomic_fetch_add(&nested_calls, 1, __ATOMIC_RELAXED);
    return 0;
  }
  Events& events = own_events();
  if (!stalled) drain(events);
  depth = 1;
  // Five calls are recorded, five are not; other ones on every rank.
  paused = pauses && (static_cast<std::uint32_t>(getpid()) + calls++ / 5) % 2 != 0;
  events.call = *call;
  return events.enter_ns = now_ns();
}

// What every call is said to have counted.
constexpr std::uint32_t kCounters = 2;
constexpr std::uint64_t kCountedPerCall[kCounters] = {3, 5};

bool counters_are_right(const wire::MpiSiteCounters& counters, std::uint64_t times) {
  return counters.values[0] == times * kCountedPerCall[0] &&
         counters.values[1] == times * kCountedPerCall[1] && counters.values[2] == 0;
}

clusterprof_mpi_exit leave_mpi() {
  if (depth != 1) abort();
  depth = 0;
  Events& events = *own;
  const clusterprof_mpi_exit exit{now_ns(),
                                  events.mpi_ns,
                                  get_segment(),
                                  events.ring,
                                  paused ? 1u : 0u,
                                  kCounters,
                                  kCountedPerCall,
                                  {},
                                  getpid() == gettid() ? 0u : 1u,
                                  0,
                                  0,
                                  0,
                                  0};
  if (!paused) events.mpi_ns += exit.time_ns - events.enter_ns;
  return exit;
}

clusterprof_call_path call_path() {
  if (!with_paths) return {0x1234, 64, 2};
  void* frames[64];
  const int count = backtrace(frames, 64);
  std::uint64_t hash = 1;
  std::uint32_t words = 0;
  for (int i = 1; i < count; ++i) {
    const auto pc = reinterpret_cast<std::uintptr_t>(frames[i]);
    bool skipped = false;
    for (int r = 0; words == 0 && r < range_count; ++r) {
      skipped = skipped || (pc >= ranges[r].start && pc < ranges[r].end);
    }
    if (skipped) continue;
    hash = (hash ^ pc) * 0x100000001b3ull;
    ++words;
  }
  return {hash, 64, words};
}

void add_wrapper_range(std::uintptr_t start, std::uintptr_t end) {
  if (range_count == kRanges || start >= end) abort();
  ranges[range_count++] = {start, end};
}

void mpi_started(std::int32_t rank, std::int32_t size, const char* version) {
  if (started) abort();
  started = true;
  segment->mpi_rank = rank;
  segment->mpi_size = size;
  snprintf(segment->mpi_library, sizeof(segment->mpi_library), "%s", version);
}

void mpi_ended() {
  if (!started || ended) abort();
  ended = true;
}

void count_drop(std::uint32_t reason) {
  if (reason >= wire::kDropReasons) abort();
  segment->drops[reason].fetch_add(1);
}

[[gnu::constructor]] void make_segment() {
  with_paths = getenv("FAKE_AGENT_PATHS") != nullptr;
  stalled = getenv("FAKE_AGENT_STALLED") != nullptr;
  forgets = getenv("FAKE_AGENT_FORGET") != nullptr;
  pauses = getenv("FAKE_AGENT_PAUSES") != nullptr;
  std::uint64_t bytes = sizeof(wire::SegmentHeader);
  const auto place = [&bytes](std::uint64_t wanted) {
    bytes = (bytes + 63) / 64 * 64;
    const std::uint64_t offset = bytes;
    bytes += wanted;
    return offset;
  };
  const std::uint64_t sites =
      place(wire::all_mpi_sites(kSites, wire::kMpiFunctionCount) * sizeof(wire::MpiSite));
  const std::uint64_t site_counters =
      place(wire::all_mpi_sites(kSites, wire::kMpiFunctionCount) * sizeof(wire::MpiSiteCounters));
  const std::uint64_t peers = place(kPeers * sizeof(wire::MpiPeer));
  const std::uint64_t sizes = place(wire::kMpiFunctionCount * sizeof(wire::MpiSizeBins));
  const std::uint64_t communicators = place(kCommunicators * sizeof(wire::MpiCommunicator));
  segment = static_cast<wire::SegmentHeader*>(aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (segment == nullptr) abort();
  memset(static_cast<void*>(segment), 0, bytes);
  segment->segment_bytes = bytes;
  segment->mpi_sites_offset = sites;
  segment->mpi_sites = kSites;
  segment->mpi_site_counters_offset = site_counters;
  segment->mpi_peers_offset = peers;
  segment->mpi_peers = kPeers;
  segment->mpi_sizes_offset = sizes;
  segment->mpi_ops = wire::kMpiFunctionCount;
  segment->communicators_offset = communicators;
  segment->communicators = kCommunicators;
  segment->mpi_rank = segment->mpi_size = -1;
  const char* level = getenv("FAKE_AGENT_LEVEL");
  if (level != nullptr) segment->mpi_event_level = static_cast<std::uint32_t>(atoi(level));
  const char* stretches = getenv("FAKE_AGENT_STRETCHES");
  if (stretches != nullptr) {
    segment->stretch_period_ns = std::uint64_t{1} << 20;
    segment->stretch_length_ns = static_cast<std::uint64_t>(atoll(stretches));
  }
  segment_pid = getpid();
}

[[gnu::destructor]] void write_tables() {
  const char* directory = getenv("FAKE_AGENT_DIR");
  if (directory == nullptr || getpid() != segment_pid) return;
  char path[4096];
  snprintf(path, sizeof(path), "%s/%d.txt", directory, getpid());
  FILE* out = fopen(path, "w");
  if (out == nullptr) abort();
  fprintf(out, "process started=%d ended=%d rank=%d size=%d ranges=%d nested=%llu depth=%d\n", started, ended,
          segment->mpi_rank.load(), segment->mpi_size.load(), range_count,
          static_cast<unsigned long long>(nested_calls), depth);
  fprintf(out, "library %s\n", segment->mpi_library);
  const struct {
    const char* at;
    const wire::ClockMeasurement& measured;
  } clocks[] = {{"init", segment->clock_at_init}, {"finalize", segment->clock_at_finalize}};
  for (const auto& [at, measured] : clocks) {
    if (measured.ready == 0) continue;
    fprintf(out, "clock %s %d %llu %lld %llu\n", at, measured.reference_rank,
            static_cast<unsigned long long>(measured.local_ns), static_cast<long long>(measured.offset_ns),
            static_cast<unsigned long long>(measured.error_ns));
  }
  const auto* communicators = at<wire::MpiCommunicator>(segment->communicators_offset);
  for (std::uint32_t i = 0; i < kCommunicators; ++i) {
    if (communicators[i].ready == 0) continue;
    fprintf(out, "comm %u %llu %u %s\n", i, static_cast<unsigned long long>(communicators[i].identity),
            communicators[i].size, communicators[i].name);
  }
  const auto* sites = at<wire::MpiSite>(segment->mpi_sites_offset);
  const auto* site_counters = at<wire::MpiSiteCounters>(segment->mpi_site_counters_offset);
  for (std::uint32_t i = 0; i < kSites; ++i) {
    if (sites[i].ready == 0) continue;
    fprintf(out, "site %s %d %llu %llu %llu %d\n", wire::kMpiFunctionNames[sites[i].op],
            static_cast<int>(sites[i].communicator), static_cast<unsigned long long>(sites[i].count),
            static_cast<unsigned long long>(sites[i].sent_bytes),
            static_cast<unsigned long long>(sites[i].recv_bytes),
            sites[i].min_ns <= sites[i].max_ns && sites[i].max_ns <= sites[i].time_ns &&
                counters_are_right(site_counters[i], sites[i].count));
  }
  const auto* peers = at<wire::MpiPeer>(segment->mpi_peers_offset);
  for (std::uint32_t i = 0; i < kPeers; ++i) {
    const std::uint64_t key = peers[i].key;
    if (key == 0) continue;
    fprintf(out, "peer %d %d %llu %llu\n", static_cast<int>(key >> 32) - 2,
            static_cast<int>(key & 0xffffffffu) - 2, static_cast<unsigned long long>(peers[i].messages),
            static_cast<unsigned long long>(peers[i].bytes));
  }
  const auto* sizes = at<wire::MpiSizeBins>(segment->mpi_sizes_offset);
  for (std::uint32_t op = 0; op < wire::kMpiFunctionCount; ++op) {
    for (std::uint32_t bin = 0; bin < wire::kSizeBins; ++bin) {
      if (sizes[op].bins[bin] == 0) continue;
      fprintf(out, "size %s %u %llu\n", wire::kMpiFunctionNames[op], bin,
              static_cast<unsigned long long>(sizes[op].bins[bin]));
    }
  }
  fprintf(out, "operations %llu %u\n", static_cast<unsigned long long>(segment->mpi_operations.load()),
          segment->mpi_event_level.load());
  for (int thread = 0; thread < thread_count; ++thread) {
    drain(threads[thread]);
    for (std::size_t i = 0; i < threads[thread].count; ++i) {
      const wire::MpiEvent& event = threads[thread].read[i];
      const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
      fprintf(out, "event %d %d %s %s %llu %d %d %u %llu %u %u %llu %llu %llu %llu %llu\n", thread,
              static_cast<int>(event.kind), wire::kMpiFunctionNames[event.op],
              event.site < kSites ? wire::kMpiFunctionNames[sites[event.site].op] : "?",
              number(event.channel), event.peer, event.tag, event.sequence, number(event.bytes), event.flags,
              event.communicator_size, number(event.enter_ns), number(event.exit_ns), number(event.start_ns),
              number(event.mpi_ns), number(threads[thread].agreed[i]));
    }
  }
  std::uint64_t compared = 0, differing = 0;
  for (int thread = 0; thread < thread_count; ++thread) {
    compared += threads[thread].events_of_call;
    differing += threads[thread].differing_calls;
  }
  fprintf(out, "intents %llu %llu\n", static_cast<unsigned long long>(compared),
          static_cast<unsigned long long>(differing));
  for (std::uint32_t i = 0; i < wire::kDropReasons; ++i) {
    if (segment->drops[i] != 0) {
      fprintf(out, "drop %s %llu\n", wire::kDropReasonNames[i],
              static_cast<unsigned long long>(segment->drops[i].load()));
    }
  }
  fclose(out);
}

}  // namespace

extern "C" const clusterprof_agent_api* clusterprof_agent_v1(void) {
  static const clusterprof_agent_api kApi{10,        get_segment,       now_ns,      enter_mpi, leave_mpi,
                                          call_path, add_wrapper_range, mpi_started, mpi_ended, count_drop,
                                          nullptr,   nullptr,           nullptr};
  return &kApi;
}
