// SPDX-License-Identifier: BSD-3-Clause
// A process's shared memory as the agent would make it, filled by a test.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "collector/rings/segment_view.hpp"
#include "formats/wire/segment.h"
#include "formats/wire/thread_tie.h"

namespace clusterprof::test {

class FakeSegment {
 public:
  static constexpr std::uint32_t kThreads = 4;
  static constexpr std::uint32_t kSites = 32, kOps = 641;
  static constexpr std::uint32_t kEventRings = 2;  // those of the first slots
  static constexpr std::uint32_t kRegions = 320, kIoFiles = 8, kIoSites = 32;
  static constexpr std::uint32_t kOmpSites = 16, kOmpRows = 32;
  static constexpr std::uint32_t kMemorySites = 32, kMemoryBlocks = 64;
  static constexpr std::uint64_t kGeneratedArenaBytes = 16384;
  static constexpr std::uint64_t kStart = 1'000'000'000;  // start_mono_ns unless changed

  explicit FakeSegment(bool sealable = true, std::uint32_t threads = kThreads) {
    std::uint64_t at = (sizeof(wire::SegmentHeader) + 63) / 64 * 64;
    const auto place = [&](std::uint64_t bytes) {
      const std::uint64_t offset = at;
      at = (at + bytes + 63) / 64 * 64;
      return offset;
    };
    const std::uint64_t code_slots = place(64 * sizeof(wire::CodeSlot));
    const std::uint64_t code_arena = place(16384);
    const std::uint64_t module_arena = place(8192);
    const std::uint64_t sites = place(wire::all_mpi_sites(kSites, kOps) * sizeof(wire::MpiSite));
    const std::uint64_t paths = place(8192);
    const std::uint64_t peers = place(32 * sizeof(wire::MpiPeer));
    const std::uint64_t sizes = place(kOps * sizeof(wire::MpiSizeBins));
    const std::uint64_t communicators = place(8 * sizeof(wire::MpiCommunicator));
    const std::uint64_t slots = place(threads * sizeof(wire::ThreadSlot));
    const std::uint64_t event_rings = place(kEventRings * sizeof(wire::MpiEventRing));
    const std::uint64_t site_counters =
        place(wire::all_mpi_sites(kSites, kOps) * sizeof(wire::MpiSiteCounters));
    const std::uint64_t regions = place(kRegions * sizeof(wire::Region));
    const std::uint64_t io_files = place(kIoFiles * sizeof(wire::IoFile));
    const std::uint64_t io_sites = place(kIoSites * sizeof(wire::IoSite));
    const std::uint64_t io_amounts = place(kIoFiles * wire::kIoOperations * sizeof(wire::IoAmount));
    const std::uint64_t omp_sites = place(kOmpSites * sizeof(wire::OmpSite));
    const std::uint64_t omp_rows = place(kOmpRows * sizeof(wire::OmpRow));
    const std::uint64_t memory_sites = place(kMemorySites * sizeof(wire::MemorySite));
    const std::uint64_t memory_addresses = place(kMemoryBlocks * sizeof(std::uint64_t));
    const std::uint64_t memory_blocks = place(kMemoryBlocks * sizeof(wire::MemoryBlock));
    const std::uint64_t memory_rings = place(sizeof(wire::MemoryRing));
    const std::uint64_t labelled_memory = place(sizeof(wire::LabelledMemory));
    const std::uint64_t generated_arena = place(kGeneratedArenaBytes);
    bytes_ = at;
    file_.reset(memfd_create("segment", MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0u)));
    if (!file_ || ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) std::abort();
    void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (mapped == MAP_FAILED) std::abort();
    base_ = static_cast<std::uint8_t*>(mapped);
    wire::SegmentHeader& h = *new (base_) wire::SegmentHeader{};
    h.magic = wire::kSegmentMagic;
    h.wire_major = wire::kWireMajor;
    h.segment_bytes = bytes_;
    h.code_slots_offset = code_slots;
    h.code_arena_offset = code_arena;
    h.module_arena_offset = module_arena;
    h.mpi_sites_offset = sites;
    h.path_arena_offset = paths;
    h.mpi_peers_offset = peers;
    h.mpi_sizes_offset = sizes;
    h.communicators_offset = communicators;
    h.thread_slots_offset = slots;
    h.mpi_event_rings_offset = event_rings;
    h.mpi_site_counters_offset = site_counters;
    h.regions_offset = regions;
    h.io_files_offset = io_files;
    h.io_sites_offset = io_sites;
    h.io_amounts_offset = io_amounts;
    h.omp_sites_offset = omp_sites;
    h.omp_rows_offset = omp_rows;
    h.memory_sites_offset = memory_sites;
    h.memory_addresses_offset = memory_addresses;
    h.memory_blocks_offset = memory_blocks;
    h.memory_rings_offset = memory_rings;
    h.labelled_memory_offset = labelled_memory;
    h.generated_arena_offset = generated_arena;
    h.code_slots = 64;
    h.mpi_sites = kSites;
    h.mpi_peers = 32;
    h.mpi_ops = kOps;
    h.communicators = 8;
    h.thread_slots = threads;
    h.mpi_event_rings = kEventRings;
    h.regions = kRegions;
    h.io_files = kIoFiles;
    h.io_sites = kIoSites;
    h.omp_sites = kOmpSites;
    h.omp_rows = kOmpRows;
    h.memory_sites = kMemorySites;
    h.memory_blocks = kMemoryBlocks;
    h.memory_rings = 1;
    h.code_arena_bytes = 16384;
    h.module_arena_bytes = 8192;
    h.path_arena_bytes = 8192;
    h.generated_arena_bytes = kGeneratedArenaBytes;
    h.pid = 100;
    h.parent_pid = 1;
    h.rank = 0;
    h.world_size = 1;
    h.mpi_rank = -1;
    h.mpi_size = -1;
    h.start_mono_ns = kStart;
    h.start_realtime_ns = 5'000'000'000;
    h.rate_hz = 100;
    h.python_version = 0x030b02f0;
  }
  FakeSegment(const FakeSegment&) = delete;
  FakeSegment& operator=(const FakeSegment&) = delete;
  ~FakeSegment() { munmap(base_, bytes_); }

  [[nodiscard]] wire::SegmentHeader& header() { return *reinterpret_cast<wire::SegmentHeader*>(base_); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint8_t* base() { return base_; }
  [[nodiscard]] int fd() const { return file_.get(); }
  [[nodiscard]] UniqueFd file() const { return UniqueFd(fcntl(file_.get(), F_DUPFD_CLOEXEC, 3)); }
  [[nodiscard]] wire::ThreadSlot& slot(std::uint32_t index) {
    return reinterpret_cast<wire::ThreadSlot*>(base_ + header().thread_slots_offset)[index];
  }
  [[nodiscard]] wire::MpiEventRing& event_ring(std::uint32_t index) {
    return reinterpret_cast<wire::MpiEventRing*>(base_ + header().mpi_event_rings_offset)[index];
  }
  template <typename T>
  [[nodiscard]] T* table(std::uint64_t offset) {
    return reinterpret_cast<T*>(base_ + offset);
  }

  void module(std::string_view path, std::uint64_t start, std::uint64_t end, std::uint64_t load_bias,
              std::uint32_t epoch = 1) {
    wire::ModuleEntry entry{};
    entry.entry_bytes = static_cast<std::uint32_t>((sizeof entry + path.size() + 7) / 8 * 8);
    entry.epoch = epoch;
    entry.load_bias = load_bias;
    entry.start = start;
    entry.end = end;
    entry.path_bytes = static_cast<std::uint32_t>(path.size());
    std::uint8_t* const to = base_ + header().module_arena_offset + header().module_arena_used;
    std::memcpy(to, &entry, sizeof entry);
    std::memcpy(to + sizeof entry, path.data(), path.size());
    header().module_arena_used += entry.entry_bytes;
  }

  void generated(std::string_view object, std::uint32_t epoch = 1) {
    wire::GeneratedObject entry{};
    entry.entry_bytes = (sizeof entry + object.size() + 7) / 8 * 8;
    entry.object_bytes = object.size();
    entry.epoch = epoch;
    std::uint8_t* const to = base_ + header().generated_arena_offset + header().generated_arena_used;
    std::memcpy(to, &entry, sizeof entry);
    std::memcpy(to + sizeof entry, object.data(), object.size());
    header().generated_arena_used += entry.entry_bytes;
  }

  void code(std::uint64_t id, std::string_view file, std::string_view name, std::uint32_t first_line,
            const std::vector<std::uint8_t>& line_table = {}) {
    wire::CodeEntry entry{};
    entry.code_id = id;
    entry.first_line = first_line;
    entry.filename_bytes = static_cast<std::uint32_t>(file.size());
    entry.name_bytes = static_cast<std::uint32_t>(name.size());
    entry.line_table_bytes = static_cast<std::uint32_t>(line_table.size());
    const std::uint64_t offset = header().code_arena_used;
    std::uint8_t* to = base_ + header().code_arena_offset + offset;
    std::memcpy(to, &entry, sizeof entry);
    to += sizeof entry;
    std::memcpy(to, file.data(), file.size());
    std::memcpy(to + file.size(), name.data(), name.size());
    if (!line_table.empty())
      std::memcpy(to + file.size() + name.size(), line_table.data(), line_table.size());
    header().code_arena_used += (sizeof entry + file.size() + name.size() + line_table.size() + 7) / 8 * 8;
    auto* const slots = table<wire::CodeSlot>(header().code_slots_offset);
    std::uint64_t i = id % header().code_slots;
    while (slots[i].key != 0) i = (i + 1) % header().code_slots;
    slots[i].key = id;
    slots[i].entry_offset = offset + 1;
  }

  void thread(std::uint32_t index, std::int32_t tid, std::uint64_t start_ns, bool main = false,
              std::uint64_t start_cpu_ns = 0) {
    wire::ThreadSlot& s = slot(index);
    s.tid = tid;
    s.start_time_ns = start_ns;
    s.start_cpu_ns = start_cpu_ns;
    s.is_main = main ? 1 : 0;
    s.mpi_op = 0;
    s.mpi_time_ns = 0;
    s.mpi_call.changes = 0;
    s.ring.write_position = 0;
    s.ring.read_position = 0;
    s.state = static_cast<std::uint32_t>(wire::ThreadState::kLive);
    header().threads_seen += 1;
  }

  struct Sample {
    std::uint64_t time_ns = 0, cpu_ns = 0;
    wire::Trigger trigger = wire::Trigger::kCpuTimer;
    std::uint32_t flags = 0;
    std::int16_t syscall_nr = -1;
    std::uint16_t mpi_op = 0;
    std::uint32_t epoch = 1;
    std::uint32_t handler_ns = 0;
    std::uint64_t system_ns = 0, page_faults = 0;
    std::uint64_t data_address = 0;
    std::int32_t mutex_holder = 0;
    std::vector<std::uint64_t> words;  // without the shared ones
    std::vector<std::uint64_t> counters;
    std::uint16_t shared_words = 0;
    std::uint16_t task_frames = 0;
    std::string task_name;
    std::vector<std::uint64_t> await_words;
  };
  // False when the ring is full.
  bool sample(std::uint32_t index, const Sample& from) {
    wire::Ring& ring = slot(index).ring;
    std::vector<std::uint64_t> behind(
        wire::task_name_words(static_cast<std::uint32_t>(from.task_name.size())));
    std::memcpy(behind.data(), from.task_name.data(), from.task_name.size());
    behind.insert(behind.end(), from.await_words.begin(), from.await_words.end());
    const auto bytes = static_cast<std::uint32_t>(
        sizeof(wire::SampleRecord) + 8 * (from.words.size() + from.counters.size() + behind.size()));
    std::uint64_t position = 0;
    std::uint8_t* const to = wire::ring_reserve(ring, bytes, position);
    if (to == nullptr) return false;
    wire::SampleRecord record{};
    record.header = {bytes, wire::kSample, 0};
    record.time_ns = from.time_ns;
    record.cpu_ns = from.cpu_ns;
    record.flags = from.flags;
    record.syscall_nr = from.syscall_nr;
    record.mpi_op = from.mpi_op;
    record.frame_words = static_cast<std::uint16_t>(from.words.size() + from.shared_words);
    record.shared_words = from.shared_words;
    record.counter_count = static_cast<std::uint8_t>(from.counters.size());
    record.trigger = from.trigger;
    record.module_epoch = from.epoch;
    record.handler_ns = from.handler_ns;
    record.system_ns = from.system_ns;
    record.page_faults = from.page_faults;
    record.data_address = from.data_address;
    record.mutex_holder = from.mutex_holder;
    record.task_frames = from.task_frames;
    record.task_name_bytes = static_cast<std::uint8_t>(from.task_name.size());
    record.await_words = static_cast<std::uint16_t>(from.await_words.size());
    std::memcpy(to, &record, sizeof record);
    std::uint8_t* at = to + sizeof record;
    for (const auto* list : {&from.counters, &from.words, &std::as_const(behind)}) {
      if (!list->empty()) std::memcpy(at, list->data(), 8 * list->size());
      at += 8 * list->size();
    }
    wire::ring_commit(ring, position, bytes);
    return true;
  }
  // False when the ring is full.
  bool mpi_event(std::uint32_t index, const wire::MpiEvent& event) {
    header().mpi_operations += 1;
    wire::MpiEvent* const place = wire::reserve_event(event_ring(index));
    if (place == nullptr) return false;
    *place = event;
    wire::publish_event(event_ring(index));
    return true;
  }
  void tie(std::uint32_t index, wire::ThreadTieKind kind, std::uint64_t begin_ns, std::uint64_t end_ns,
           std::uint64_t thread = 0, std::int32_t creator = 0) {
    wire::Ring& ring = slot(index).ring;
    std::uint64_t position = 0;
    std::uint8_t* const bytes = wire::ring_reserve(ring, sizeof(wire::ThreadTie), position);
    const wire::ThreadTie record{
        {sizeof(wire::ThreadTie), wire::kThreadTie, static_cast<std::uint16_t>(kind)},
        begin_ns,
        end_ns,
        thread,
        creator,
        0};
    std::memcpy(bytes, &record, sizeof record);
    wire::ring_commit(ring, position, sizeof record);
  }
  void thread_end(std::uint32_t index, std::uint64_t time_ns, std::uint64_t cpu_ns) {
    Sample end;
    end.time_ns = time_ns;
    end.cpu_ns = cpu_ns;
    end.trigger = wire::Trigger::kThreadEnd;
    sample(index, end);
    slot(index).state = static_cast<std::uint32_t>(wire::ThreadState::kEnded);
  }

  void communicator(std::uint32_t index, std::uint64_t identity, std::uint32_t size, const char* name) {
    auto& c = table<wire::MpiCommunicator>(header().communicators_offset)[index];
    c.size = size;
    c.identity = identity;
    std::strncpy(c.name, name, sizeof c.name - 1);
    c.ready = 1;
  }
  void site(std::uint32_t index, std::uint16_t op, std::uint32_t communicator_index, std::uint64_t count,
            std::uint64_t time_ns, std::uint64_t min_ns, std::uint64_t max_ns, std::uint64_t sent,
            std::uint64_t received, const std::vector<std::uint64_t>& words) {
    auto& s = table<wire::MpiSite>(header().mpi_sites_offset)[index];
    store_path(s, words);
    s.op = op;
    s.communicator = communicator_index;
    s.count = count;
    s.time_ns = time_ns;
    s.min_ns = min_ns;
    s.max_ns = max_ns;
    s.sent_bytes = sent;
    s.recv_bytes = received;
    s.key = 1000 + index;
    s.ready = 1;
  }
  // The thread enters a call at that time.
  void enter_mpi(std::uint32_t index, std::uint16_t op, std::uint64_t enter_ns,
                 std::uint32_t communicator_index, std::int32_t peer, std::int32_t tag,
                 const std::vector<std::uint64_t>& words) {
    wire::ThreadSlot& s = slot(index);
    struct {
      std::uint64_t path_offset = 0;
      std::uint32_t path_words = 0;
    } path;
    store_path(path, words);
    s.mpi_call.path_offset = path.path_offset;
    s.mpi_call.path_words = path.path_words;
    s.mpi_call.op = op;
    s.mpi_call.communicator = communicator_index;
    s.mpi_call.sequence = wire::kNoSequence;
    s.mpi_call.peer = peer;
    s.mpi_call.tag = tag;
    s.mpi_call.root = wire::kNoPeer;
    s.mpi_call.enter_ns = s.mpi_call.recorded_before_ns = enter_ns;
    s.mpi_op = op + 1u;
    s.mpi_call.changes += 1;
  }
  void leave_mpi(std::uint32_t index, std::uint64_t exit_ns) {
    wire::ThreadSlot& s = slot(index);
    s.mpi_op = 0;
    s.mpi_call.changes += 1;
    s.mpi_time_ns += exit_ns - s.mpi_call.enter_ns;
  }
  // What a process is told that this one makes on that call path.
  wire::Creation creation(wire::CreationKind kind, const std::vector<std::uint64_t>& words) {
    wire::Creation made{header().pid, kind, header().start_mono_ns, 0, 0, 0};
    store_path(made, words);
    return made;
  }
  // A call of system() from that time on. end_ns: 0 while it has not returned.
  void shell_call(const std::vector<std::uint64_t>& words, std::uint64_t start_ns, std::uint64_t end_ns) {
    const wire::Creation made = creation(wire::CreationKind::kShell, words);
    wire::ShellCall& call = header().shell_calls[header().shell_calls_made++ % wire::kShellCalls];
    call.start_mono_ns = start_ns;
    call.end_mono_ns = end_ns;
    call.path = wire::shell_path(made.path_offset, made.path_words);
  }
  // A request to a fork server, with that pipe.
  void fork_request(std::uint32_t pipe, const std::vector<std::uint64_t>& words) {
    const wire::Creation made = creation(wire::CreationKind::kFork, words);
    wire::ForkRequest& row = header().fork_requests[header().fork_requests_made++ % wire::kForkRequests];
    row.path = wire::shell_path(made.path_offset, made.path_words);
    row.pipe = pipe;
  }
  // A program that the process executes, or that its child `pid` does.
  void launch(std::int32_t pid, wire::UnrecordedReason reason, std::uint64_t time_ns, std::string_view text,
              const wire::Creation& made = {}) {
    const std::uint64_t number = ++header().launches_made;
    wire::Launch& row = header().launches[number % wire::kLaunches];
    row.time_ns = time_ns;
    row.path = wire::shell_path(made.path_offset, made.path_words);
    row.pid = pid;
    row.kind = made.kind;
    row.reason = reason;
    std::memcpy(row.command, text.data(), text.size());
    row.command_bytes = static_cast<std::uint32_t>(text.size());
    row.number = number;
  }
  void command(std::string_view text) {
    std::memcpy(header().command, text.data(), text.size());
    header().command_bytes = static_cast<std::uint32_t>(text.size());
  }
  void region(std::uint32_t index, std::uint32_t parent, const char* name, std::uint64_t count = 0,
              std::uint64_t time_ns = 0, std::uint64_t min_ns = 0, std::uint64_t max_ns = 0,
              std::int64_t max_n = -1, const char* domain = "") {
    auto& r = table<wire::Region>(header().regions_offset)[index];
    r.parent = parent;
    std::strncpy(r.name, name, sizeof r.name - 1);
    std::strncpy(r.domain, domain, sizeof r.domain - 1);
    r.count = count;
    r.time_ns = time_ns;
    r.min_ns = min_ns;
    r.max_ns = max_ns;
    r.max_n = max_n;
    r.ready = 1;
  }
  // A backward operator: where its forward one was called.
  void forward_of(std::uint32_t index, const std::vector<std::uint64_t>& words) {
    struct {
      std::uint64_t path_offset = 0;
      std::uint32_t path_words = 0;
    } path;
    store_path(path, words);
    auto& r = table<wire::Region>(header().regions_offset)[index];
    r.forward_offset = path.path_offset;
    r.forward_words = path.path_words;
  }
  void io_file(std::uint32_t index, std::string_view path, std::uint64_t device = 0,
               std::uint64_t file_system = 0) {
    auto& f = table<wire::IoFile>(header().io_files_offset)[index];
    f.path_bytes = static_cast<std::uint32_t>(path.size());
    f.path_offset = header().path_arena_used;
    std::memcpy(base_ + header().path_arena_offset + f.path_offset, path.data(), path.size());
    header().path_arena_used += (path.size() + 7) / 8 * 8;
    f.device = device;
    f.file_system = file_system;
    f.key = 2000 + index;
    f.ready = 1;
  }
  void io_site(std::uint32_t index, std::uint32_t file, wire::IoOperation operation, std::uint64_t count,
               std::uint64_t failed, std::uint64_t traffic_bytes, std::uint64_t time_ns, std::uint64_t max_ns,
               const std::vector<std::uint64_t>& words) {
    auto& s = table<wire::IoSite>(header().io_sites_offset)[index];
    store_path(s, words);
    s.file = file;
    s.operation = operation;
    s.count = count;
    s.failed = failed;
    s.bytes = traffic_bytes;
    s.time_ns = time_ns;
    s.max_ns = max_ns;
    s.key = 3000 + index;
    s.ready = 1;
  }
  void io_amount(std::uint32_t file, wire::IoOperation operation, std::uint64_t count, std::uint64_t failed,
                 std::uint64_t traffic_bytes, std::uint64_t time_ns, std::uint64_t max_ns) {
    auto& a = table<wire::IoAmount>(
        header().io_amounts_offset)[file * wire::kIoOperations + static_cast<std::uint32_t>(operation)];
    a.count = count;
    a.failed = failed;
    a.bytes = traffic_bytes;
    a.time_ns = time_ns;
    a.max_ns = max_ns;
  }
  void openmp(wire::OmpMethod method, const char* runtime) {
    std::strncpy(header().openmp.runtime, runtime, sizeof header().openmp.runtime - 1);
    header().openmp.method = static_cast<std::uint32_t>(method);
  }
  // A region: the words of the call that begins it.
  wire::OmpSite& omp_region(std::uint32_t index, std::uint32_t threads,
                            const std::vector<std::uint64_t>& words) {
    wire::OmpSite& s = table<wire::OmpSite>(header().omp_sites_offset)[index];
    store_path(s, words);
    s.threads = threads;
    s.region = wire::kNoOmpSite;
    s.construct = wire::OmpConstruct::kParallel;
    s.key = 4000 + index;
    s.ready = 1;
    return s;
  }
  void omp_construct(std::uint32_t index, std::uint32_t region, std::uint32_t threads,
                     wire::OmpConstruct construct, std::uint64_t code) {
    wire::OmpSite& s = table<wire::OmpSite>(header().omp_sites_offset)[index];
    s.threads = threads;
    s.region = region;
    s.construct = construct;
    s.code = code;
    s.key = 4000 + index;
    s.ready = 1;
  }
  wire::OmpRow& omp_row(std::uint32_t index, std::uint32_t site, std::uint32_t number, std::uint64_t count,
                        std::uint64_t time_ns, std::uint64_t wait_ns) {
    wire::OmpRow& r = table<wire::OmpRow>(header().omp_rows_offset)[index];
    r.site = site;
    r.number = number;
    r.count = count;
    r.time_ns = time_ns;
    r.wait_ns = wait_ns;
    r.key = 5000 + index;
    r.ready = 1;
    return r;
  }
  wire::LabelledMemory& labelled_memory() {
    return *table<wire::LabelledMemory>(header().labelled_memory_offset);
  }
  wire::MemorySpace& memory_space(std::uint32_t index, std::string_view name, std::uint64_t allocations,
                                  std::uint64_t peak_bytes) {
    wire::LabelledMemory& memory = labelled_memory();
    wire::MemorySpace& s = memory.spaces[index];
    name.copy(s.name, sizeof s.name - 1);
    s.allocations = allocations;
    s.peak_bytes = peak_bytes;
    s.ready = 1;
    memory.space_count = index + 1;
    header().has_labelled_memory = 1;
    return s;
  }
  wire::MemoryLabel& memory_label(std::uint32_t index, std::uint32_t space, std::string_view name,
                                  std::uint64_t live_bytes) {
    wire::MemoryLabel& l = labelled_memory().labels[index];
    name.copy(l.name, sizeof l.name - 1);
    l.space = space;
    l.allocations = 1;
    l.alloc_bytes = l.peak_bytes = live_bytes;
    l.live_bytes = live_bytes;
    l.key = 6000 + index;
    l.ready = 1;
    return l;
  }
  void memory_site(std::uint32_t index, wire::MemoryDomain domain, const std::vector<std::uint64_t>& words,
                   std::uint16_t mpi_op = 0) {
    auto& s = table<wire::MemorySite>(header().memory_sites_offset)[index];
    store_path(s, words);
    s.domain = domain;
    s.mpi_op = mpi_op;
    s.key = 4000 + index;
    s.ready = 1;
    header().memory.asked_interval_bytes = 65536;
    header().memory.interval_bytes = 65536;
  }
  [[nodiscard]] wire::MemorySite& memory_site(std::uint32_t index) {
    return table<wire::MemorySite>(header().memory_sites_offset)[index];
  }
  // The site allocates so much, or frees it if it is negative.
  void memory_change(std::uint32_t index, std::uint64_t time_ns, std::int64_t bytes) {
    wire::MemorySite& s = memory_site(index);
    if (bytes >= 0) {
      s.alloc_bytes += static_cast<std::uint64_t>(bytes);
      s.alloc_count += 1;
    } else {
      s.freed_bytes += static_cast<std::uint64_t>(-bytes);
    }
    if (!wire::push_memory_event(memory_ring(), time_ns, bytes, index)) header().memory.events_lost += 1;
  }
  void memory_block(std::uint32_t row, std::uint32_t site_index, std::uint64_t time_ns,
                    std::uint64_t weight) {
    table<wire::MemoryBlock>(header().memory_blocks_offset)[row] = {weight, weight, time_ns, site_index, 0};
    table<std::atomic<std::uint64_t>>(header().memory_addresses_offset)[row] = 0x7000 + 16 * row;
  }
  [[nodiscard]] wire::MemoryRing& memory_ring() {
    return *table<wire::MemoryRing>(header().memory_rings_offset);
  }
  void peer(std::uint32_t index, std::int32_t source, std::int32_t destination, std::uint64_t messages,
            std::uint64_t traffic_bytes) {
    auto& p = table<wire::MpiPeer>(header().mpi_peers_offset)[index];
    p.key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(source + 2)) << 32) |
            static_cast<std::uint32_t>(destination + 2);
    p.messages = messages;
    p.bytes = traffic_bytes;
  }
  void member(std::uint32_t index, std::uint32_t communicator_index, std::int32_t number,
              std::uint64_t messages, std::uint64_t traffic_bytes) {
    peer(index, 0, number, messages, traffic_bytes);
    auto& p = table<wire::MpiPeer>(header().mpi_peers_offset)[index];
    p.key =
        std::uint64_t{wire::kToMember | communicator_index} << 32 | static_cast<std::uint32_t>(number + 2);
  }
  void size_bin(std::uint32_t op, std::uint32_t bin, std::uint64_t count) {
    table<wire::MpiSizeBins>(header().mpi_sizes_offset)[op].bins[bin] = count;
  }

 private:
  template <typename Site>
  void store_path(Site& site, const std::vector<std::uint64_t>& words) {
    site.path_words = static_cast<std::uint32_t>(words.size());
    site.path_offset = header().path_arena_used;
    if (!words.empty())
      std::memcpy(base_ + header().path_arena_offset + site.path_offset, words.data(), 8 * words.size());
    header().path_arena_used += 8 * words.size();
  }

  UniqueFd file_;
  std::uint8_t* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

inline std::uint64_t omp_word(std::uint32_t site) { return wire::kOmpFrameTag | site; }
inline std::uint32_t omp_flags(wire::OmpActivity activity) {
  return static_cast<std::uint32_t>(activity) << wire::kOmpActivityShift;
}
inline std::uint64_t region_word(std::uint32_t index) { return wire::kRegionFrameTag | index; }
inline std::uint64_t python_word(std::uint32_t instruction) { return wire::kPythonFrameTag | instruction; }

// A segment with something in every table.
inline void fill(FakeSegment& fake) {
  fake.module("/usr/bin/program", 0x10000, 0x20000, 0x10000);
  fake.module("/usr/lib/libclusterprof_mpi_openmpi.so", 0x30000, 0x40000, 0x30000);
  fake.code(77, "train.py", "step", 10, {0x80, 0x01, 0x02});
  fake.code(78, "train.py", "main", 40);
  fake.thread(0, 100, FakeSegment::kStart, true);
  fake.thread(1, 101, FakeSegment::kStart);
  fake.header().counter_count = 2;
  fake.communicator(0, 1, 4, "MPI_COMM_WORLD");
  fake.site(0, 16, 0, 3, 300, 50, 150, 24, 0, {0x10100, 0x10200});
  fake.site(5, 20, 7, 1, 10, 10, 10, 0, 8, {python_word(2), 77, 0x10300});
  fake.peer(0, 0, 1, 3, 24);
  fake.size_bin(16, 3, 3);
  fake.header().counts_mpi_sites = 1;
  auto* const counted = fake.table<wire::MpiSiteCounters>(fake.header().mpi_site_counters_offset);
  counted[0].values[0] = counted[5].values[1] = 9;
  fake.region(1, wire::kNoRegion, "epoch", 2, 100, 40, 60, 1);
  fake.region(2, 1, "step", 8, 80, 5, 20, 7);
  fake.io_file(0, "");
  fake.io_file(1, "/data/input", 77, 0xef53);
  fake.io_site(0, 1, wire::IoOperation::kRead, 3, 1, 300, 30, 20, {0x10100, region_word(2), region_word(1)});
  fake.io_site(4, 0, wire::IoOperation::kWrite, 3, 0, 300, 30, 20, {python_word(2), 77});
  fake.openmp(wire::OmpMethod::kGomp, "libgomp.so.1");
  fake.omp_region(3, 2, {0x10100, 0x10200, region_word(1)}).count = 1;
  fake.omp_construct(4, 3, 2, wire::OmpConstruct::kCritical, 0x10300);
  fake.omp_row(5, 3, 1, 1, 100, 40);
  fake.omp_row(6, 4, 1, 2, 30, 30);
  fake.memory_site(5, wire::MemoryDomain::kNative, {0x10100, region_word(2), region_word(1)});
  fake.memory_site(9, wire::MemoryDomain::kPython, {python_word(2), 77, 0x10300}, 17);
  fake.memory_change(5, FakeSegment::kStart + 10'000'000, 3'000'000);
  fake.memory_change(9, FakeSegment::kStart + 20'000'000, 5'000'000);
  fake.memory_change(5, FakeSegment::kStart + 30'000'000, -1'000'000);
  fake.memory_block(3, 5, FakeSegment::kStart + 10'000'000, 2'000'000);
  fake.memory_block(7, 9, FakeSegment::kStart + 20'000'000, 5'000'000);
  fake.header().paused_ns = 10'000'000;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    FakeSegment::Sample sample;
    sample.time_ns = FakeSegment::kStart + i * 10'000'000;
    sample.cpu_ns = i * 9'000'000;
    sample.words = {0x10080 + i, python_word(4), 77, 0x10090, 0x10050, region_word(2), region_word(1)};
    sample.data_address = i << 18;
    sample.counters = {i * 100, i};
    sample.mpi_op = i % 5 == 0 ? 17 : 0;
    sample.flags = i % 3 == 0 ? wire::kInSyscall | wire::kOnFile : std::uint32_t{wire::kMemoryOperand};
    sample.trigger = static_cast<wire::Trigger>(i % 7 == 0 ? i % 6 : 0);
    if (i % 4 == 0) {
      sample.flags |= omp_flags(static_cast<wire::OmpActivity>(i / 4));
      sample.words.insert(sample.words.end() - 2, omp_word(3));
    }
    if (i % 9 == 0) {
      sample.flags = wire::kPaused;
      sample.words.clear();
    }
    sample.syscall_nr = static_cast<std::int16_t>(i);
    fake.sample(static_cast<std::uint32_t>(i % 2), sample);
  }
  for (std::uint64_t i = 1; i <= 20; ++i) {
    wire::MpiEvent event{};
    event.enter_ns = event.start_ns = FakeSegment::kStart + i * 11'000'000;
    event.exit_ns = event.enter_ns + 2'000'000;
    event.mpi_ns = i * 2'000'000;
    event.channel = 1;
    event.site = i % 2 == 0 ? 0 : 5;
    event.op = 16;
    event.sequence = static_cast<std::uint32_t>(i);
    event.kind = static_cast<wire::MpiEventKind>(i % wire::kMpiEventKinds);
    fake.mpi_event(static_cast<std::uint32_t>(i % 2), event);
  }
  fake.thread_end(1, FakeSegment::kStart + 300'000'000, 200'000'000);
}

inline collector::SegmentView view_of(const FakeSegment& segment) {
  auto view = collector::SegmentView::open(segment.file(), segment.bytes());
  if (!view.ok()) throw std::runtime_error(view.error().message);
  return std::move(view).value();
}

}  // namespace clusterprof::test
