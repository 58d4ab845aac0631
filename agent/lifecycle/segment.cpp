// SPDX-License-Identifier: BSD-3-Clause
// Creates the segment in a memory file, lays out its tables, and sends the file to the collector over its
// socket.
#include "agent/lifecycle/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "agent/lifecycle/allocations.h"
#include "agent/lifecycle/creation.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/torch_ops_state.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/c10d_functions.h"
#include "formats/wire/hello.h"
#include "formats/wire/segment.h"

extern "C" void* __libc_stack_end;

namespace clusterprof::agent {
namespace {

// Sizes of the largest segment. A smaller one has half of it, a quarter, and so on, down to about 10 MB.
constexpr unsigned kSmallestStep = 5;
constexpr std::uint32_t kThreadSlots = 512;
constexpr std::uint32_t kCodeSlots = 65536;
constexpr std::uint64_t kCodeArenaBytes = 32u << 20;
constexpr std::uint64_t kModuleArenaBytes = 4u << 20, kMinModuleArenaBytes = 256u << 10;
constexpr std::uint64_t kGeneratedArenaBytes = 16u << 20;
constexpr std::uint32_t kMpiSites = 32768;
constexpr std::uint64_t kPathArenaBytes = 16u << 20;
constexpr std::uint32_t kMinPeers = 1024, kMaxPeers = 131072;
constexpr std::uint32_t kCommunicators = 4096;
constexpr std::uint32_t kMaxEventRings = 64;
constexpr std::uint32_t kRegions = 2048;
constexpr std::uint32_t kIoFiles = 8192, kIoSites = 16384;
constexpr std::uint32_t kOmpSites = 32768, kOmpRows = 131072;
// The part of the address space that is left which a segment may take. The agent takes some MB more, and the
// program is to have the rest.
constexpr std::uint64_t kAddressSpacePart = 4;

CLUSTERPROF_WRITTEN_BY_FORKS int g_connection = -1;
CLUSTERPROF_WRITTEN_BY_FORKS ino_t g_connection_inode = 0;

struct Layout {
  std::uint64_t code_slots, code_arena, module_arena, mpi_sites, path_arena, mpi_peers, mpi_sizes,
      communicators, thread_slots, event_rings, site_counters, regions, io_files, io_sites, io_amounts,
      omp_sites, omp_rows;
  std::uint64_t memory_sites, memory_addresses, memory_blocks, memory_rings, labelled_memory, generated_arena;
  std::uint64_t bytes;
};

// How much the tables hold.
struct Capacities {
  std::uint32_t code_slots, mpi_sites, peers, communicators, threads, rings, io_files, io_sites, omp_sites,
      omp_rows;
  std::uint64_t code_arena, module_arena, path_arena, generated_arena;
  MemoryCapacities memory;
};

std::uint32_t peer_count(std::int32_t world_size) noexcept {
  std::uint32_t peers = kMinPeers;
  while (peers < kMaxPeers && static_cast<std::int64_t>(peers) < 2 * static_cast<std::int64_t>(world_size))
    peers *= 2;
  return peers;
}

Capacities capacities_of(unsigned step) noexcept {
  Capacities c = {};
  c.code_slots = kCodeSlots >> step;
  c.mpi_sites = kMpiSites >> step;
  c.peers = peer_count(g_options.world_size) >> step;
  c.communicators = kCommunicators >> step;
  c.threads = kThreadSlots >> step;
  c.rings = kMaxEventRings >> step;
  c.io_files = kIoFiles >> step;
  c.io_sites = kIoSites >> step;
  c.omp_sites = kOmpSites >> step;
  c.omp_rows = kOmpRows >> step;
  c.code_arena = kCodeArenaBytes >> step;
  const std::uint64_t modules = kModuleArenaBytes >> step;
  c.module_arena = modules < kMinModuleArenaBytes ? kMinModuleArenaBytes : modules;
  c.generated_arena = kGeneratedArenaBytes >> step;
  c.memory = memory_capacities(step);
  c.path_arena = (kPathArenaBytes >> step) + c.memory.path_bytes;
  return c;
}

Layout lay_out(const Capacities& c) noexcept {
  Layout layout = {};
  std::uint64_t end = sizeof(wire::SegmentHeader);
  const auto place = [&end](std::uint64_t bytes) {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t offset = (end + kPage - 1) / kPage * kPage;
    end = offset + bytes;
    return offset;
  };
  const std::uint32_t all_sites = wire::all_mpi_sites(c.mpi_sites, wire::kFunctionCount);
  // What every process uses is near the header: a child of a fork pays for the page tables, too.
  layout.thread_slots = place(sizeof(wire::ThreadSlot) * c.threads);
  layout.code_slots = place(sizeof(wire::CodeSlot) * c.code_slots);
  layout.code_arena = place(c.code_arena);
  layout.module_arena = place(c.module_arena);
  layout.mpi_sites = place(sizeof(wire::MpiSite) * all_sites);
  layout.path_arena = place(c.path_arena);
  layout.mpi_peers = place(sizeof(wire::MpiPeer) * c.peers);
  layout.mpi_sizes = place(sizeof(wire::MpiSizeBins) * wire::kFunctionCount);
  layout.communicators = place(sizeof(wire::MpiCommunicator) * c.communicators);
  layout.event_rings = place(sizeof(wire::MpiEventRing) * c.rings);
  layout.site_counters = place(sizeof(wire::MpiSiteCounters) * all_sites);
  layout.regions = place(sizeof(wire::Region) * kRegions);
  layout.io_files = place(sizeof(wire::IoFile) * c.io_files);
  layout.io_sites = place(sizeof(wire::IoSite) * c.io_sites);
  layout.io_amounts = place(sizeof(wire::IoAmount) * c.io_files * wire::kIoOperations);
  layout.omp_sites = place(sizeof(wire::OmpSite) * c.omp_sites);
  layout.omp_rows = place(sizeof(wire::OmpRow) * c.omp_rows);
  layout.memory_sites = place(sizeof(wire::MemorySite) * c.memory.sites);
  layout.memory_addresses = place(sizeof(std::uint64_t) * c.memory.blocks);
  layout.memory_blocks = place(sizeof(wire::MemoryBlock) * c.memory.blocks);
  layout.memory_rings = place(sizeof(wire::MemoryRing) * c.memory.rings);
  layout.labelled_memory = place(sizeof(wire::LabelledMemory));
  layout.generated_arena = place(c.generated_arena);
  layout.bytes = place(0);
  return layout;
}

std::uint64_t limit(int resource) noexcept {
  rlimit limits;
  return getrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0 ? limits.rlim_cur : RLIM_INFINITY;
}

// Of the limit on addresses, what the process does not have yet.
std::uint64_t addresses_left() noexcept {
  const std::uint64_t most = limit(RLIMIT_AS);
  if (most == RLIM_INFINITY) return most;
  char text[96];
  std::uint64_t pages = 0;
  // The first number: "5432 210 180 ...".
  if (read_small_file("/proc/self/statm", text, sizeof text) != 0)
    for (const char* digit = text; *digit >= '0' && *digit <= '9'; ++digit)
      pages = pages * 10 + static_cast<std::uint64_t>(*digit - '0');
  constexpr std::uint64_t kPage = 4096;
  return pages < most / kPage ? most - pages * kPage : 0;
}

// Null if there is no room; a smaller one may fit.
void* map_file(int file, const Layout& layout, std::uint64_t addresses) noexcept {
  // ftruncate beyond the file size limit raises SIGXFSZ.
  if (layout.bytes > limit(RLIMIT_FSIZE)) return nullptr;
  // Memory that the program may have is not taken away from it.
  if (addresses != RLIM_INFINITY && layout.bytes > addresses / kAddressSpacePart) return nullptr;
  if (raw_syscall(SYS_ftruncate, file, layout.bytes) != 0) return nullptr;
  return map_memory(layout.bytes, file);
}

// The program's words as the kernel laid them out, one behind the other; null: not known.
constinit const char* g_words = nullptr;

// The words of the command line follow their number on the stack that the kernel set up. In the child of a
// fork that has changed them, and if anything looks wrong, the kernel is asked.
bool command_from_stack(wire::SegmentHeader& header) noexcept {
  constexpr long kMaxWords = 4096;
  const long count = *static_cast<const long*>(__libc_stack_end);
  const auto* const words = static_cast<const char* const*>(__libc_stack_end) + 1;
  if (count < 1 || count > kMaxWords || words[count] != nullptr || words[0] == nullptr) return false;
  std::uint32_t used = 0;
  bool in_place = true;
  for (long i = 0; i < count && used < sizeof header.command; ++i) {
    in_place = in_place && words[i] == words[0] + used;
    const std::size_t room = sizeof header.command - used;
    const std::size_t length = strnlen(words[i], room);
    memcpy(header.command + used, words[i], length);
    used += static_cast<std::uint32_t>(length);
    if (used < sizeof header.command) header.command[used++] = 0;
  }
  header.command_bytes = used;
  if (in_place) g_words = words[0];
  return true;
}

// A program may write another name over its words, which "ps" then shows. As long as they are what they were
// in the parent, no file has to be opened for them.
bool command_of_parent(wire::SegmentHeader& header, const wire::SegmentHeader& parents) noexcept {
  const std::uint32_t bytes = parents.command_bytes;
  if (g_words == nullptr || bytes == 0 || bytes > sizeof header.command ||
      memcmp(g_words, parents.command, bytes) != 0)
    return false;
  memcpy(header.command, parents.command, bytes);
  header.command_bytes = bytes;
  return true;
}

void read_command(wire::SegmentHeader& header, const wire::SegmentHeader* parents) noexcept {
  // A program that has run for a while may have changed what the stack says.
  if (!g_process.attached &&
      (parents == nullptr ? command_from_stack(header) : command_of_parent(header, *parents)))
    return;
  header.command_bytes = read_small_file("/proc/self/cmdline", header.command, sizeof header.command);
}

// Of the thread that makes the first segment.
constinit std::uint64_t g_first_run_delay_ns = 0;

bool kernel_tells_run_delay() noexcept {
  static constinit bool tells = false;  // asked in the first process: its forks have the same kernel
  if (g_process.generation == 0) {
    char text[96];
    Schedule schedule = {};
    tells = read_small_file("/proc/thread-self/schedstat", text, sizeof text) != 0 &&
            parse_schedule(text, schedule);
    g_first_run_delay_ns = schedule.run_delay_ns;
  }
  return tells;
}

void fill(wire::SegmentHeader& header, const Capacities& c, const Layout& layout,
          const wire::SegmentHeader* parents) noexcept {
  header.wire_major = wire::kWireMajor;
  header.wire_minor = wire::kWireMinor;
  header.segment_bytes = layout.bytes;
  header.code_slots_offset = layout.code_slots;
  header.code_arena_offset = layout.code_arena;
  header.module_arena_offset = layout.module_arena;
  header.mpi_sites_offset = layout.mpi_sites;
  header.path_arena_offset = layout.path_arena;
  header.mpi_peers_offset = layout.mpi_peers;
  header.mpi_sizes_offset = layout.mpi_sizes;
  header.communicators_offset = layout.communicators;
  header.thread_slots_offset = layout.thread_slots;
  header.mpi_event_rings_offset = layout.event_rings;
  header.mpi_site_counters_offset = layout.site_counters;
  header.regions_offset = layout.regions;
  header.io_files_offset = layout.io_files;
  header.io_sites_offset = layout.io_sites;
  header.io_amounts_offset = layout.io_amounts;
  header.omp_sites_offset = layout.omp_sites;
  header.omp_rows_offset = layout.omp_rows;
  header.memory_sites_offset = layout.memory_sites;
  header.memory_addresses_offset = layout.memory_addresses;
  header.memory_blocks_offset = layout.memory_blocks;
  header.memory_rings_offset = layout.memory_rings;
  header.labelled_memory_offset = layout.labelled_memory;
  header.generated_arena_offset = layout.generated_arena;
  header.code_slots = c.code_slots;
  header.mpi_sites = c.mpi_sites;
  header.mpi_peers = c.peers;
  header.mpi_ops = wire::kFunctionCount;
  header.communicators = c.communicators;
  header.thread_slots = c.threads;
  header.mpi_event_rings = c.rings;
  header.regions = kRegions;
  header.io_files = c.io_files;
  header.io_sites = c.io_sites;
  header.omp_sites = c.omp_sites;
  header.omp_rows = c.omp_rows;
  header.memory_sites = c.memory.sites;
  header.memory_blocks = c.memory.blocks;
  header.memory_rings = c.memory.rings;
  header.code_arena_bytes = c.code_arena;
  header.module_arena_bytes = c.module_arena;
  header.path_arena_bytes = c.path_arena;
  header.memory_path_bytes = c.memory.path_bytes;
  header.generated_arena_bytes = c.generated_arena;

  header.pid = getpid();
  header.parent_pid = getppid();
  header.rank = g_options.rank;
  header.world_size = g_options.world_size;
  header.launcher = g_options.launcher;
  header.launch = g_options.launch;
  header.forked = parents != nullptr ? 1 : 0;
  header.mpi_rank.store(-1, std::memory_order_relaxed);
  header.mpi_size.store(-1, std::memory_order_relaxed);
  header.start_mono_ns = monotonic_ns();
  header.start_realtime_ns = clock_ns(CLOCK_REALTIME);
  header.rate_hz = g_options.rate_hz;
  header.clock = g_options.cpu_clock ? 1 : 0;
  header.knows_run_delay = kernel_tells_run_delay() ? 1 : 0;
  header.initial_stack = reinterpret_cast<std::uint64_t>(__libc_stack_end);
  header.annotations_elsewhere = g_options.annotations_elsewhere;
  header.torch_ops.store(static_cast<std::uint32_t>(torch_ops_state()), std::memory_order_relaxed);
  if (g_options.standby) header.outside_windows = wire::OutsideWindows::kNothing;
  // There is no telling who waits for whom: the numbers of messages of before are not known.
  if (g_process.attached) {
    header.mpi_events_off.store(1, std::memory_order_relaxed);
    header.mpi_unseen.store(wire::kReceivesUnseen | wire::kSendsUnsure, std::memory_order_relaxed);
  }
  if (g_options.light) header.outside_windows = wire::OutsideWindows::kLight;
  read_command(header, parents);
  header.creation = creation_of_this_process();
  header.last_words.keeps_stderr = g_options.no_stderr ? 0 : 1;
  if (g_options.no_python)
    header.python_state.store(static_cast<std::uint32_t>(wire::PythonState::kDisabled),
                              std::memory_order_relaxed);
  header.magic = wire::kSegmentMagic;
}

}  // namespace

wire::SegmentHeader* make_segment(const wire::SegmentHeader* parents) noexcept {
  const int file =
      static_cast<int>(raw_syscall(SYS_memfd_create, "clusterprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file < 0) return nullptr;
  wire::SegmentHeader* header = nullptr;
  const std::uint64_t addresses = addresses_left();
  for (unsigned step = 0; step <= kSmallestStep && header == nullptr; ++step) {
    const Capacities capacities = capacities_of(step);
    const Layout layout = lay_out(capacities);
    header = static_cast<wire::SegmentHeader*>(map_file(file, layout, addresses));
    if (header != nullptr) fill(*header, capacities, layout, parents);
  }
  if (header == nullptr) refuse_recording(wire::UnrecordedReason::kNoMemory);
  // So that a reader of the mapping cannot be made to fault.
  if (header != nullptr) raw_syscall(SYS_fcntl, file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (header != nullptr && !greet_collector(file, header->segment_bytes)) {
    unmap_segment(header);
    header = nullptr;
  }
  raw_syscall(SYS_close, file);
  return header;
}

std::uint64_t run_delay_at_start_ns() noexcept { return g_first_run_delay_ns; }

void unmap_segment(wire::SegmentHeader* segment) noexcept { unmap_memory(segment, segment->segment_bytes); }

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHeaderBytes = (sizeof(wire::SegmentHeader) + kPage - 1) / kPage * kPage;

// The memory is mapped elsewhere first: a mapping in this place that fails, as it may with
// vm.overcommit_memory=2, can leave a hole.
bool put_zeroed_memory(std::uint8_t* at, std::uint64_t bytes) noexcept {
  void* const memory = map_memory(bytes);
  if (memory == nullptr) return false;
  if (raw_syscall(SYS_mremap, memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) ==
      reinterpret_cast<long>(at))
    return true;
  unmap_memory(memory, bytes);
  return false;
}

}  // namespace

void blank_segment(wire::SegmentHeader* segment) noexcept {
  const std::uint64_t bytes = segment->segment_bytes;
  auto* const at = reinterpret_cast<std::uint8_t*>(segment);
  // With an empty header our code hardly looks at the rest, which may stay the parent's.
  if (put_zeroed_memory(at, kHeaderBytes)) put_zeroed_memory(at + kHeaderBytes, bytes - kHeaderBytes);
}

void blank_header(wire::SegmentHeader* segment) noexcept {
  const std::uint64_t bytes = segment->segment_bytes;
  auto* const at = reinterpret_cast<std::uint8_t*>(segment);
  put_zeroed_memory(at, kHeaderBytes);
  unmap_memory(at + kHeaderBytes, bytes - kHeaderBytes);
}

namespace {

// A connection to a collector of our own user; -1: there is none.
int connect_to_collector() noexcept {
  constexpr int kHighDescriptor = 700;  // out of the way of programs that count on low numbers
  constexpr timeval kPatience = {1, 0};

  int connection = static_cast<int>(raw_syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connection < 0) return -1;
  const int high = static_cast<int>(raw_syscall(SYS_fcntl, connection, F_DUPFD_CLOEXEC, kHighDescriptor));
  if (high >= 0) {
    raw_syscall(SYS_close, connection);
    connection = high;
  }
  raw_syscall(SYS_setsockopt, connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);

  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::size_t length = strlen(g_options.socket);
  ucred peer = {};
  socklen_t peer_bytes = sizeof peer;
  if (length < sizeof address.sun_path) {
    memcpy(address.sun_path + 1, g_options.socket, length);
    const auto address_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    if (raw_syscall(SYS_connect, connection, &address, address_bytes) == 0 &&
        raw_syscall(SYS_getsockopt, connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
        peer.uid == static_cast<uid_t>(raw_syscall(SYS_geteuid)))
      return connection;
  }
  raw_syscall(SYS_close, connection);
  return -1;
}

}  // namespace

bool greet_collector(int memory_file, std::uint64_t segment_bytes) noexcept {
  const int connection = connect_to_collector();
  if (connection < 0) return false;
  wire::Hello hello = {wire::kHelloMagic, wire::kWireMajor, wire::kWireMinor,
                       getpid(),          g_options.rank,   segment_bytes};
  iovec part = {&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(rights), &memory_file, sizeof memory_file);
  const bool sent =
      raw_syscall(SYS_sendmsg, connection, &message, MSG_NOSIGNAL) == static_cast<long>(sizeof hello);
  struct stat status;
  if (sent && raw_syscall(SYS_fstat, connection, &status) == 0) {
    g_connection = connection;
    g_connection_inode = status.st_ino;
  } else {
    raw_syscall(SYS_close, connection);
  }
  return sent;
}

void refuse_recording(wire::UnrecordedReason reason) noexcept {
  const int connection = connect_to_collector();
  if (connection < 0) return;
  char command[sizeof wire::SegmentHeader::command];
  wire::Refusal refusal = {wire::kRefusalMagic,
                           wire::kWireMajor,
                           wire::kWireMinor,
                           getpid(),
                           getppid(),
                           g_options.rank,
                           reason,
                           monotonic_ns(),
                           creation_of_this_process()};
  iovec parts[2] = {{&refusal, sizeof refusal},
                    {command, read_small_file("/proc/self/cmdline", command, sizeof command)}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  raw_syscall(SYS_sendmsg, connection, &message, MSG_NOSIGNAL);
  raw_syscall(SYS_close, connection);
}

int collector_connection() noexcept { return g_connection; }

void close_inherited_connection() noexcept {
  struct stat status;
  // The program may have closed it, and use the number for something else.
  if (g_connection >= 0 && raw_syscall(SYS_fstat, g_connection, &status) == 0 && S_ISSOCK(status.st_mode) &&
      status.st_ino == g_connection_inode)
    raw_syscall(SYS_close, g_connection);
  g_connection = -1;
}

}  // namespace clusterprof::agent
