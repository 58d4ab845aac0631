// SPDX-License-Identifier: BSD-3-Clause
// Counts file operations in the segment's tables of files and of call sites (file_io.h). In this order: the
// process's state (what each descriptor is, names already looked up, mapped files); when this code may take
// locks or walk the stack; finding and adding files; names and directories; call sites and counting; then the
// functions that file_io.h declares.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/file_io.h"

#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/segment.h"
#include "formats/wire/table_place.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint32_t kDescriptors = 65536;  // those with higher numbers are not counted
constexpr std::uint32_t kMaxProbes = 128;
constexpr std::uint32_t kPathBytes = 1024;  // of a longer one, the beginning

// What is behind a descriptor, in DescriptorState::file.
constexpr std::uint32_t kUnknown = 0, kNotCounted = 1, kFirstFile = 2;

struct DescriptorState {
  std::atomic<std::uint32_t> file;
  // Of reads and of writes: index plus one.
  std::atomic<std::uint32_t> buffered_site[2];
  // Bytes moved since it was opened, while it has no row of its own.
  std::atomic<std::uint64_t> bytes_with_others;
};
constinit DescriptorState g_descriptors[kDescriptors] = {};
constinit std::atomic<std::uint32_t> g_descriptors_used = 0;  // none at or above this one is known

constinit std::atomic<std::uint32_t> g_lock = 0;  // of new files; with all signals blocked

// Which files may still take a row in the table of files. The first files must not take the room of more
// important ones.
enum class Worth : std::uint8_t {
  kOrdinary,
  kWritten,
  kLarge
};  // kLarge: directories that stand for many, too
constexpr std::uint64_t kLargeFileBytes = 1 << 20;
constinit std::atomic<std::uint32_t> g_files_used = 0;  // grows under the lock
// The same for the table of call sites: its last quarter is for operations that transfer much or take long.
constexpr std::uint64_t kLargeBytes = 64 * 1024, kLongNs = 1'000'000;
constinit std::atomic<std::uint32_t> g_sites_used = 0;

// File systems by device.
struct Device {
  std::atomic<std::uint64_t> key;  // st_dev plus one; 0 = free
  std::atomic<std::uint64_t> file_system;
};
constexpr std::uint32_t kDevices = 64;
constinit Device g_devices[kDevices] = {};

// Directories, and files that were opened, by the hash of the path as the program writes it and of where it
// starts. An entry holds the upper bits of the hash, above the file's index plus one.
constexpr std::uint32_t kSpellings = 1024;
constexpr std::uint64_t kIndexBits = 0xffff;
constinit std::atomic<std::uint64_t> g_directories[kSpellings] = {}, g_opened[kSpellings] = {};
constinit std::atomic<std::uint32_t> g_working_directories = 0;

struct Mapping {
  std::atomic<std::uintptr_t> start, end;
  std::atomic<std::uint32_t> file;
};
constexpr std::uint32_t kMappings = 64;
constinit Mapping g_mappings[kMappings] = {};
constinit std::atomic<std::uint32_t> g_next_mapping = 0;

constinit std::atomic<bool> g_faults_may_be_blocked = false;

// A child of vfork has opened or closed descriptors while it ran on this thread.
thread_local constinit bool t_is_borrowed = false;

std::uint64_t mix(std::uint64_t value) noexcept {  // MurmurHash3's finalizer
  value = (value ^ (value >> 33)) * 0xff51'afd7'ed55'8ccdull;
  value = (value ^ (value >> 33)) * 0xc4ce'b9fe'1a85'ec53ull;
  return value ^ (value >> 33);
}

std::uint64_t hash_text(const char* text, std::size_t bytes, std::uint64_t seed) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325ull ^ seed;
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100'0000'01b3ull;
  hash = mix(hash);
  return hash != 0 ? hash : 1;
}

bool is_this_process() noexcept { return !recording_has_ended() && raw_syscall(SYS_getpid) == g_process.pid; }

template <typename Entry>
Entry* table(wire::SegmentHeader* segment, std::uint64_t offset) noexcept {
  return reinterpret_cast<Entry*>(reinterpret_cast<std::uint8_t*>(segment) + offset);
}

// True if the thread's memory may be used and locks may be taken. False if our own code was interrupted, and
// on a handler's small alternate stack.
bool may_work(const ThreadContext& context) noexcept {
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (context.busy != 0 && !busy_is_left(context, frame)) return false;
  if (frame >= context.stack_low && frame < context.stack_high) return true;
  stack_t stack = {};
  return raw_syscall(SYS_sigaltstack, nullptr, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) == 0;
}

// True if, in addition, the stack may be walked: a fault while its signal is blocked would kill the process.
bool may_walk(const ThreadContext& context) noexcept {
  if (!may_work(context)) return false;
  if (!g_faults_may_be_blocked.load(std::memory_order_relaxed)) [[likely]]
    return true;
  constexpr std::uint64_t kFaults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
  std::uint64_t mask = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  return (mask & kFaults) == 0;
}

std::uint64_t ask_file_system(int descriptor, const char* path) noexcept {
  struct statfs status;
  const long result = path != nullptr ? raw_syscall(SYS_statfs, path, &status)
                                      : raw_syscall(SYS_fstatfs, descriptor, &status);
  return result == 0 ? static_cast<std::uint64_t>(status.f_type) : 0;
}

// path: null to ask by the descriptor.
std::uint64_t file_system_of(std::uint64_t device, int descriptor, const char* path) noexcept {
  const std::uint64_t key = device + 1;
  for (std::uint32_t probe = 0; probe < kDevices; ++probe) {
    Device& entry = g_devices[(device + probe) % kDevices];
    std::uint64_t there = entry.key.load(std::memory_order_acquire);
    if (there == 0 && entry.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) there = key;
    if (there != key) continue;
    std::uint64_t known = entry.file_system.load(std::memory_order_relaxed);
    if (known == 0) {
      known = ask_file_system(descriptor, path);
      entry.file_system.store(known, std::memory_order_relaxed);
    }
    return known;
  }
  return ask_file_system(descriptor, path);
}

// Each of the kernel's own file systems counts as one file: libraries read hundreds of their files at start.
const char* name_of_pseudo(std::uint64_t file_system) noexcept {
  switch (file_system) {
    case PROC_SUPER_MAGIC:
      return "/proc";
    case SYSFS_MAGIC:
      return "/sys";
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
      return "/sys/fs/cgroup";
    case DEBUGFS_MAGIC:
      return "/sys/kernel/debug";
    case TRACEFS_MAGIC:
      return "/sys/kernel/tracing";
    default:
      return nullptr;
  }
}

// Finds the file in the table. 0: it is not there.
std::uint32_t find_file(wire::SegmentHeader* segment, std::uint64_t key) noexcept {
  const auto* const files = table<wire::IoFile>(segment, segment->io_files_offset);
  const std::uint32_t places = segment->io_files - 1;
  for (std::uint32_t probe = 0; probe < places; ++probe) {
    const std::uint32_t index = 1 + wire::table_place(key, probe, places);
    const std::uint64_t there = files[index].key.load(std::memory_order_acquire);
    if (there == 0) return 0;
    if (there == key && files[index].ready.load(std::memory_order_acquire) != 0) return index;
  }
  return 0;
}

std::uint32_t places_for(const wire::SegmentHeader* segment, Worth worth) noexcept {
  const std::uint32_t places = segment->io_files - 1;
  switch (worth) {
    case Worth::kOrdinary:
      return places - places / 4;
    case Worth::kWritten:
      return places - places / 8;
    case Worth::kLarge:
      break;
  }
  return places - places / 16;  // full tables are searched through
}

// 0: there is no room.
std::uint32_t add_file_locked(wire::SegmentHeader* segment, std::uint64_t key, std::uint64_t device,
                              std::uint64_t file_system, const char* path, std::uint32_t path_bytes,
                              Worth worth) noexcept {
  if (const std::uint32_t index = find_file(segment, key)) return index;
  if (g_files_used.load(std::memory_order_relaxed) >= places_for(segment, worth)) return 0;
  auto* const files = table<wire::IoFile>(segment, segment->io_files_offset);
  const std::uint32_t places = segment->io_files - 1;
  for (std::uint32_t probe = 0; probe < places; ++probe) {
    const std::uint32_t index = 1 + wire::table_place(key, probe, places);
    wire::IoFile& file = files[index];
    if (file.key.load(std::memory_order_relaxed) != 0) continue;
    file.key.store(key, std::memory_order_relaxed);
    file.device = device;
    file.file_system = file_system;
    file.path_bytes = store_text(segment, path, path_bytes, file.path_offset) ? path_bytes : 0;
    file.ready.store(1, std::memory_order_release);
    g_files_used.fetch_add(1, std::memory_order_relaxed);
    return index;
  }
  return 0;
}

// Counts the file with others of its directory, or with all others.
std::uint32_t add_to_many_locked(wire::SegmentHeader* segment, std::uint64_t device,
                                 std::uint64_t file_system, const char* path,
                                 std::uint32_t path_bytes) noexcept {
  while (path_bytes != 0 && path[path_bytes - 1] != '/') --path_bytes;
  std::uint32_t index = 0;
  if (path_bytes != 0 && path_bytes < kPathBytes) {
    char many[kPathBytes + 2];
    memcpy(many, path, path_bytes);
    many[path_bytes++] = '*';
    std::uint64_t key = hash_text(many, path_bytes, mix(device));
    if (key <= 1) key = 2;
    index = add_file_locked(segment, key, device, file_system, many, path_bytes, Worth::kLarge);
  }
  auto* const files = table<wire::IoFile>(segment, segment->io_files_offset);
  if (index == 0 && files[0].ready.load(std::memory_order_relaxed) == 0) {
    files[0].key.store(1, std::memory_order_relaxed);
    files[0].ready.store(1, std::memory_order_release);
  }
  return index | kWithOthers;
}

bool ends_with(const char* text, std::size_t bytes, const char* end) noexcept {
  const std::size_t end_bytes = strlen(end);
  return bytes >= end_bytes && memcmp(text + bytes - end_bytes, end, end_bytes) == 0;
}

// The files of a Python library count as one file: programs import thousands of them. Returns the length of
// the part of the path that is the library's directory, or 0 if the file does not belong to such a library.
std::size_t library_of(const char* path, std::size_t bytes, bool is_directory) noexcept {
  const auto find = [&](const char* part) {
    return static_cast<const char*>(memmem(path, bytes, part, strlen(part)));
  };
  const bool is_code = is_directory || ends_with(path, bytes, ".py") || ends_with(path, bytes, ".pyc") ||
                       ends_with(path, bytes, ".so") || ends_with(path, bytes, ".pth") ||
                       find(".so.") != nullptr || find(".pyc.") != nullptr;
  if (!is_code) return 0;
  for (const char* const packages : {"/site-packages/", "/dist-packages/"}) {
    const char* const found = find(packages);
    if (found == nullptr) continue;
    const char* const package = found + strlen(packages);
    const char* const end = path + bytes;
    const auto* const slash =
        static_cast<const char*>(memchr(package, '/', static_cast<std::size_t>(end - package)));
    if (slash != nullptr) return static_cast<std::size_t>(slash - path);
    // A module without a directory of its own, or the directory of a package.
    return is_directory ? bytes : static_cast<std::size_t>(package - path) - 1;
  }
  const char* const standard = find("/lib/python3.");
  if (standard == nullptr) return 0;
  const char* const version = standard + strlen("/lib/");
  const auto* const slash =
      static_cast<const char*>(memchr(version, '/', static_cast<std::size_t>(path + bytes - version)));
  return slash != nullptr ? static_cast<std::size_t>(slash - path) : bytes;
}

std::uint32_t enter_file(wire::SegmentHeader* segment, std::uint64_t device, std::uint64_t inode,
                         std::uint64_t file_system, const char* path, std::uint32_t path_bytes,
                         bool is_directory, Worth worth) noexcept {
  if (segment->io_files < 2) return kNoFile;
  if (const char* const pseudo = name_of_pseudo(file_system)) {
    path = pseudo;
    path_bytes = static_cast<std::uint32_t>(strlen(pseudo));
  }
  // Modules of Python count by directory: one of its programs opens thousands.
  constexpr char kCompiled[] = "/__pycache__/";
  constexpr std::uint32_t kCompiledBytes = sizeof kCompiled - 1;
  const char* others = "/*";
  std::size_t folder_bytes = library_of(path, path_bytes, is_directory);
  if (folder_bytes == 0) {
    if (const void* found = memmem(path, path_bytes, kCompiled, kCompiledBytes)) {
      folder_bytes = static_cast<std::size_t>(static_cast<const char*>(found) - path) + kCompiledBytes - 1;
    } else if (const void* slash = memrchr(path, '/', path_bytes);
               slash != nullptr && !is_directory && ends_with(path, path_bytes, ".py")) {
      folder_bytes = static_cast<std::size_t>(static_cast<const char*>(slash) - path);
      others = "/*.py";
    }
  }
  char of_many[kPathBytes];
  if (others[2] != 0 || folder_bytes != 0) {
    const std::size_t others_bytes = strlen(others);
    if (folder_bytes + others_bytes <= sizeof of_many) {
      memcpy(of_many, path, folder_bytes);
      memcpy(of_many + folder_bytes, others, others_bytes);
      path = of_many;
      path_bytes = static_cast<std::uint32_t>(folder_bytes + others_bytes);
    }
  }
  std::uint64_t key = hash_text(path, path_bytes, mix(device));
  if (path_bytes == 0 || path_bytes >= kPathBytes) key = mix(key ^ inode);  // it has no usable name
  if (key <= 1) key = 2;
  if (const std::uint32_t index = find_file(segment, key)) return index;

  const std::uint64_t mask = block_all_signals();
  wait_until([] { return g_lock.exchange(1, std::memory_order_acquire) == 0; });
  std::uint32_t index = add_file_locked(segment, key, device, file_system, path, path_bytes, worth);
  if (index == 0) index = add_to_many_locked(segment, device, file_system, path, path_bytes);
  g_lock.store(0, std::memory_order_release);
  restore_signals(mask);
  return index;
}

// Writes the kernel's name for the file to `path`. Returns its length.
std::uint32_t name_behind(int descriptor, bool has_no_name, char (&path)[kPathBytes]) noexcept {
  char link[32] = "/proc/self/fd/";
  char* to = link + 14;
  char digits[12];
  std::uint32_t count = 0;
  auto rest = static_cast<unsigned>(descriptor);
  do digits[count++] = static_cast<char>('0' + rest % 10);
  while ((rest /= 10) != 0);
  while (count != 0) *to++ = digits[--count];
  const long bytes = raw_syscall(SYS_readlink, link, path, kPathBytes);
  if (bytes <= 0) return 0;
  auto length = static_cast<std::uint32_t>(bytes);
  constexpr char kGone[] = " (deleted)";
  constexpr std::uint32_t kGoneBytes = sizeof kGone - 1;
  if (has_no_name && length > kGoneBytes && memcmp(path + length - kGoneBytes, kGone, kGoneBytes) == 0)
    length -= kGoneBytes;
  return length;
}

// Makes an absolute path without empty and "." components. ".." and what follows stay as the program wrote
// them. Returns the length, or 0 if the path does not fit.
std::uint32_t make_absolute(const char* folder, std::size_t folder_bytes, char (&path)[kPathBytes]) noexcept {
  std::uint32_t length = 0;
  if (folder_bytes == 0 || folder[0] != '/') {
    const long bytes = raw_syscall(SYS_getcwd, path, kPathBytes);
    if (bytes <= 1 || path[0] != '/') return 0;
    length = static_cast<std::uint32_t>(bytes) - 1;
    if (length == 1) length = 0;  // "/"
  }
  for (std::size_t i = 0; i < folder_bytes;) {
    while (i < folder_bytes && folder[i] == '/') ++i;
    std::size_t end = i;
    while (end < folder_bytes && folder[end] != '/') ++end;
    const std::size_t part = end - i;
    if (part != 0 && !(part == 1 && folder[i] == '.')) {
      if (length + part + 2 > kPathBytes) return 0;
      path[length++] = '/';
      memcpy(path + length, folder + i, part);
      length += static_cast<std::uint32_t>(part);
    }
    i = end;
  }
  if (length == 0) path[length++] = '/';
  path[length] = 0;
  return length;
}

// True if the name leads to the file directly.
bool is_plain_name(int folder, const char* name, std::size_t bytes) noexcept {
  if (bytes == 0 || (name[0] != '/' && folder != AT_FDCWD)) return false;
  for (const char* const other : {"/dev/fd/", "/dev/std", "/proc/"})
    if (strncmp(name, other, strlen(other)) == 0) return false;
  return memmem(name, bytes, "..", 2) == nullptr;
}

// Includes the segment's number: the child of a fork does not find what its parent has entered, and need not
// clear the tables, which would copy their pages.
std::uint64_t seed_of(const char* name) noexcept {
  const std::uint64_t start = name[0] == '/' ? 0 : 1 + g_working_directories.load(std::memory_order_relaxed);
  return std::uint64_t{g_process.generation} << 32 | start;
}

Worth worth_of(const wire::SegmentHeader* segment, int descriptor, const struct stat& status) noexcept {
  if (S_ISREG(status.st_mode) && status.st_size >= static_cast<off_t>(kLargeFileBytes)) return Worth::kLarge;
  if (g_files_used.load(std::memory_order_relaxed) < places_for(segment, Worth::kOrdinary))
    return Worth::kOrdinary;
  const long flags = raw_syscall(SYS_fcntl, descriptor, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY ? Worth::kWritten : Worth::kOrdinary;
}

// Asking the kernel for the name costs more than the open did, so it is not asked if the program has given
// the name.
[[gnu::noinline]] std::uint32_t name_and_enter(wire::SegmentHeader* segment, int descriptor,
                                               const struct stat& status, int folder, const char* name,
                                               Worth worth) noexcept {
  const std::size_t name_bytes = name != nullptr ? strlen(name) : 0;
  const bool is_plain = status.st_nlink != 0 && is_plain_name(folder, name, name_bytes);
  std::atomic<std::uint64_t>* spelling = nullptr;
  std::uint64_t hash = 0;
  if (is_plain) {
    hash = mix(hash_text(name, name_bytes, seed_of(name)) ^ mix(status.st_ino) ^ status.st_dev << 1);
    spelling = &g_opened[hash % kSpellings];
    const std::uint64_t known = spelling->load(std::memory_order_relaxed);
    if ((known & kIndexBits) != 0 && ((known ^ hash) & ~kIndexBits) == 0)
      return static_cast<std::uint32_t>(known & kIndexBits) - 1;
  }
  char path[kPathBytes];
  std::uint32_t bytes = is_plain ? make_absolute(name, name_bytes, path) : 0;
  if (bytes == 0) bytes = name_behind(descriptor, status.st_nlink == 0, path);
  const std::uint32_t file = enter_file(
      segment, status.st_dev, status.st_ino, file_system_of(status.st_dev, descriptor, nullptr), path, bytes,
      S_ISDIR(status.st_mode), std::max(worth, worth_of(segment, descriptor, status)));
  // One without a row of its own may have one when it is opened again: kWithOthers is above kIndexBits.
  if (spelling != nullptr && file < kIndexBits)
    spelling->store((hash & ~kIndexBits) | (file + 1), std::memory_order_relaxed);
  return file;
}

void note_use(std::uint32_t descriptor) noexcept {
  std::uint32_t used = g_descriptors_used.load(std::memory_order_relaxed);
  while (used <= descriptor &&
         !g_descriptors_used.compare_exchange_weak(used, descriptor + 1, std::memory_order_relaxed)) {
  }
}

// name: the name by which the program opened the descriptor, or null. Must not run in a child of vfork; the
// caller has checked.
[[gnu::noinline]] std::uint32_t identify(int descriptor, int folder, const char* name,
                                         Worth worth = Worth::kOrdinary) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  struct stat status;
  if (segment == nullptr || raw_syscall(SYS_fstat, descriptor, &status) != 0) return kNoFile;
  DescriptorState& state = g_descriptors[descriptor];
  const bool counts = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode);
  std::uint32_t file = kNoFile;
  if (counts) {
    if (!may_work(t_context)) return kNoFile;
    file = name_and_enter(segment, descriptor, status, folder, name, worth);
  }
  note_use(static_cast<std::uint32_t>(descriptor));
  state.file.store(file != kNoFile ? file + kFirstFile : kNotCounted, std::memory_order_relaxed);
  return file;
}

void reset(DescriptorState& state) noexcept {
  state.buffered_site[0].store(0, std::memory_order_relaxed);
  state.buffered_site[1].store(0, std::memory_order_relaxed);
  state.bytes_with_others.store(0, std::memory_order_relaxed);
  state.file.store(kUnknown, std::memory_order_relaxed);
}

// Null: there is no room.
wire::IoSite* find_site(wire::SegmentHeader* segment, const clusterprof_call_path& path, std::uint32_t file,
                        wire::IoOperation operation, std::uint16_t mpi_op, bool is_large) noexcept {
  auto* const sites = table<wire::IoSite>(segment, segment->io_sites_offset);
  const std::uint64_t what =
      std::uint64_t{file} << 24 | std::uint64_t{mpi_op} << 8 | static_cast<std::uint64_t>(operation);
  // All that have no call path are one.
  std::uint64_t key = mix((path.words != 0 ? path.hash : 0) ^ what * 0x9e37'79b9'7f4a'7c15ull);
  if (key == 0) key = 1;
  for (std::uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    wire::IoSite& site = sites[wire::table_place(key, probe, segment->io_sites)];
    std::uint64_t there = site.key.load(std::memory_order_acquire);
    if (there == 0) {
      const std::uint32_t room = is_large ? segment->io_sites : segment->io_sites - segment->io_sites / 4;
      if (g_sites_used.load(std::memory_order_relaxed) >= room) return nullptr;
      if (site.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) {
        g_sites_used.fetch_add(1, std::memory_order_relaxed);
        there = key;
      }
    }
    if (there != key) continue;
    // Whoever comes first may not get to the end of this: all write the same.
    if (site.ready.load(std::memory_order_acquire) == 0) {
      site.path_words = path.words;
      site.path_offset = path.offset;
      site.file = file;
      site.operation = operation;
      site.mpi_op = mpi_op;
      site.ready.store(1, std::memory_order_release);
    }
    return &site;
  }
  return nullptr;
}

template <typename Sums>
void add(Sums& sums, bool failed, std::uint64_t bytes, std::uint64_t time_ns) noexcept {
  sums.count.fetch_add(1, std::memory_order_relaxed);
  if (failed) sums.failed.fetch_add(1, std::memory_order_relaxed);
  if (bytes != 0) sums.bytes.fetch_add(bytes, std::memory_order_relaxed);
  sums.time_ns.fetch_add(time_ns, std::memory_order_relaxed);
  std::uint64_t longest_ns = sums.max_ns.load(std::memory_order_relaxed);
  while (time_ns > longest_ns &&
         !sums.max_ns.compare_exchange_weak(longest_ns, time_ns, std::memory_order_relaxed)) {
  }
}

// Null if there was no room among the call sites: then the operation was counted by file only.
wire::IoSite* count(std::uint32_t file, wire::IoOperation operation, bool failed, std::uint64_t bytes,
                    std::uint64_t time_ns) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  const bool with_others = (file & kWithOthers) != 0;
  file &= ~kWithOthers;
  if (segment == nullptr || file >= segment->io_files || segment->io_sites == 0) return nullptr;
  if (t_is_borrowed) {
    if (!is_this_process()) return nullptr;
    t_is_borrowed = false;
  }
  if (with_others) count_drop(segment, wire::DropReason::kIoFileTableFull);
  const bool is_large = bytes >= kLargeBytes || time_ns >= kLongNs;
  clusterprof_call_path path = {0, 0, 0};
  if (may_walk(t_context)) path = clusterprof_io_path_entry(is_large ? PathUse::kLargeIo : PathUse::kIo);
  const wire::ThreadSlot* const slot = t_context.slot;
  const std::uint32_t mpi_op = slot != nullptr ? slot->mpi_op.load(std::memory_order_relaxed) : 0;
  wire::IoSite* const site =
      find_site(segment, path, file, operation, static_cast<std::uint16_t>(mpi_op), is_large);
  if (site == nullptr) {
    count_drop(segment, wire::DropReason::kIoSiteTableFull);
    auto* const amounts = table<wire::IoAmount>(segment, segment->io_amounts_offset);
    add(amounts[file * wire::kIoOperations + static_cast<std::uint32_t>(operation)], failed, bytes, time_ns);
    return nullptr;
  }
  add(*site, failed, bytes, time_ns);
  return site;
}

std::uint32_t side(wire::IoOperation operation) noexcept {
  return operation == wire::IoOperation::kWrite ? 1 : 0;
}

// False for errors that the kernel returns before it has read the name.
bool has_read_name(int error) noexcept {
  switch (error) {
    case ENOENT:
    case EACCES:
    case EEXIST:
    case ENOTDIR:
    case EISDIR:
    case EPERM:
    case EROFS:
    case ENOSPC:
    case EDQUOT:
    case ELOOP:
    case EBUSY:
    case ENOTEMPTY:
    case EXDEV:
    case ETXTBSY:
    case EMFILE:
    case ENFILE:
      return true;
    default:
      return false;
  }
}

// Enters the nearest directory of the path that exists.
[[gnu::noinline]] std::uint32_t enter_directory(const char* folder, std::size_t folder_bytes) noexcept {
  constexpr std::uint32_t kMaxSteps = 32;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || !may_work(t_context) || !is_this_process()) return kNoFile;
  char path[kPathBytes];
  std::uint32_t length = make_absolute(folder, folder_bytes, path);
  for (std::uint32_t step = 0; length != 0 && step < kMaxSteps; ++step) {
    struct stat status;
    if (raw_syscall(SYS_stat, path, &status) == 0)
      return enter_file(segment, status.st_dev, status.st_ino, file_system_of(status.st_dev, -1, path), path,
                        length, S_ISDIR(status.st_mode), Worth::kOrdinary);
    while (length > 1 && path[length - 1] != '/') --length;
    if (length > 1) --length;
    path[length] = 0;
  }
  return kNoFile;
}

}  // namespace

std::uint32_t file_behind(int descriptor) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return kNoFile;
  const std::uint32_t known = g_descriptors[descriptor].file.load(std::memory_order_relaxed);
  if (known >= kFirstFile) [[likely]]
    return known - kFirstFile;
  return known == kNotCounted || !is_this_process() ? kNoFile : identify(descriptor, AT_FDCWD, nullptr);
}

std::uint32_t directory_of(int folder, const char* name, bool failed) noexcept {
  if (name == nullptr || (failed && !has_read_name(errno))) return kNoFile;
  if (name[0] == 0) return folder != AT_FDCWD ? file_behind(folder) : kNoFile;
  if (name[0] != '/' && folder != AT_FDCWD) return file_behind(folder);
  std::size_t bytes = strlen(name);
  while (bytes > 1 && name[bytes - 1] == '/') --bytes;
  while (bytes != 0 && name[bytes - 1] != '/') --bytes;
  const std::uint64_t hash = hash_text(name, bytes, seed_of(name));
  std::atomic<std::uint64_t>& spelling = g_directories[hash % kSpellings];
  const std::uint64_t known = spelling.load(std::memory_order_relaxed);
  if ((known & kIndexBits) != 0 && ((known ^ hash) & ~kIndexBits) == 0)
    return static_cast<std::uint32_t>(known & kIndexBits) - 1;
  const std::uint32_t file = enter_directory(name, bytes);
  if (file < kIndexBits) spelling.store((hash & ~kIndexBits) | (file + 1), std::memory_order_relaxed);
  return file;
}

std::uint32_t enter_descriptor(int descriptor, int folder, const char* name) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return kNoFile;
  if (!is_this_process()) {
    t_is_borrowed = true;
    return kNoFile;
  }
  reset(g_descriptors[descriptor]);
  return identify(descriptor, folder, name);
}

void copy_descriptor(int from, int to) noexcept {
  if (from == to || static_cast<unsigned>(to) >= kDescriptors) return;
  DescriptorState& copy = g_descriptors[to];
  const std::uint32_t file = static_cast<unsigned>(from) < kDescriptors
                                 ? g_descriptors[from].file.load(std::memory_order_relaxed)
                                 : kUnknown;
  if (file == kUnknown && copy.file.load(std::memory_order_relaxed) == kUnknown) return;
  if (!is_this_process()) {
    t_is_borrowed = true;
    return;
  }
  note_use(static_cast<std::uint32_t>(to));
  reset(copy);
  copy.file.store(file, std::memory_order_relaxed);
}

std::uint32_t file_of_its_own(int descriptor, std::uint32_t file, std::uint64_t bytes) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors || !is_this_process()) return file;
  DescriptorState& state = g_descriptors[descriptor];
  const std::uint64_t before = state.bytes_with_others.fetch_add(bytes, std::memory_order_relaxed);
  // Once: where there is no room for large files either, there will be none.
  if (before >= kLargeFileBytes || before + bytes < kLargeFileBytes) return file;
  for (std::atomic<std::uint32_t>& site : state.buffered_site) site.store(0, std::memory_order_relaxed);
  const std::uint32_t own = identify(descriptor, AT_FDCWD, nullptr, Worth::kLarge);
  return own != kNoFile ? own : file;
}

std::uint32_t forget_descriptor(int descriptor) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return kNoFile;
  DescriptorState& state = g_descriptors[descriptor];
  const std::uint32_t known = state.file.load(std::memory_order_relaxed);
  if (known == kUnknown) return kNoFile;
  if (!is_this_process()) {
    t_is_borrowed = true;
    return kNoFile;
  }
  reset(state);
  return known >= kFirstFile ? known - kFirstFile : kNoFile;
}

void forget_descriptor_range(unsigned first, unsigned last) noexcept {
  if (!is_this_process()) {
    t_is_borrowed = true;
    return;
  }
  const std::uint32_t used = g_descriptors_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = first; i <= last && i < used; ++i) reset(g_descriptors[i]);
}

void forget_directory_names() noexcept { g_working_directories.fetch_add(1, std::memory_order_relaxed); }

void enter_mapping(const void* address, std::size_t bytes, std::uint32_t file) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  for (Mapping& mapping : g_mappings)  // what was there before is not any more
    if (mapping.start.load(std::memory_order_relaxed) < start + bytes &&
        start < mapping.end.load(std::memory_order_relaxed))
      mapping.end.store(0, std::memory_order_relaxed);
  Mapping& mapping = g_mappings[g_next_mapping.fetch_add(1, std::memory_order_relaxed) % kMappings];
  mapping.end.store(0, std::memory_order_relaxed);
  mapping.file.store(file, std::memory_order_relaxed);
  mapping.start.store(start, std::memory_order_relaxed);
  mapping.end.store(start + bytes, std::memory_order_release);
}

std::uint32_t file_mapped_at(const void* address) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  for (const Mapping& mapping : g_mappings)
    if (place < mapping.end.load(std::memory_order_acquire) &&
        place >= mapping.start.load(std::memory_order_relaxed))
      return mapping.file.load(std::memory_order_relaxed);
  return kNoFile;
}

void reset_file_io_after_fork() noexcept {
  store_if_other(g_lock, 0u);
  t_is_borrowed = false;
  store_if_other(g_files_used, 0u);
  store_if_other(g_sites_used, 0u);
  const std::uint32_t used = g_descriptors_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i)
    if (g_descriptors[i].file.load(std::memory_order_relaxed) != kUnknown) reset(g_descriptors[i]);
  for (Mapping& mapping : g_mappings) store_if_other(mapping.end, std::uintptr_t{0});
}

void note_signal_mask(std::uint64_t mask) noexcept {
  constexpr std::uint64_t kFaults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
  if ((mask & kFaults) != 0 && !g_faults_may_be_blocked.load(std::memory_order_relaxed))
    g_faults_may_be_blocked.store(true, std::memory_order_relaxed);
}

bool may_walk_stacks() noexcept { return may_walk(t_context); }

void count_io(std::uint32_t file, wire::IoOperation operation, bool failed, std::uint64_t bytes,
              std::uint64_t time_ns) noexcept {
  count(file, operation, failed, bytes, time_ns);
}

bool count_buffered(int descriptor, wire::IoOperation operation) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return true;
  DescriptorState& state = g_descriptors[descriptor];
  const std::uint32_t index = state.buffered_site[side(operation)].load(std::memory_order_relaxed);
  if (index == 0) return state.file.load(std::memory_order_relaxed) == kNotCounted;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr || index > segment->io_sites) return true;
  wire::IoSite& site = table<wire::IoSite>(segment, segment->io_sites_offset)[index - 1];
  site.count.fetch_add(1, std::memory_order_relaxed);
  site.bytes.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void count_and_remember(int descriptor, std::uint32_t file, wire::IoOperation operation, bool failed,
                        std::uint64_t bytes, std::uint64_t time_ns) noexcept {
  const wire::IoSite* const site = count(file, operation, failed, bytes, time_ns);
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (site == nullptr || segment == nullptr || static_cast<unsigned>(descriptor) >= kDescriptors) return;
  const auto index = site - table<wire::IoSite>(segment, segment->io_sites_offset);
  g_descriptors[descriptor].buffered_site[side(operation)].store(static_cast<std::uint32_t>(index) + 1,
                                                                 std::memory_order_relaxed);
}

}  // namespace clusterprof::agent
