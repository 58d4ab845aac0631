// SPDX-License-Identifier: BSD-3-Clause
// Call paths of MPI calls, file operations and allocations (call_path.h). An entry in assembly takes the
// caller's registers. A path that the thread has seen before is found by comparing its return addresses, and
// its Python frames, with those on the stack. A new path is walked, merged, trimmed, stored in the segment's
// path arena, and remembered for the thread.
#include "agent/sigsafe/call_path.h"

#include <signal.h>
#include <sys/syscall.h>

#include <cstring>

#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/guard.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_chain.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/table_place.h"

// The caller's registers, as they are when this function returns, become the first frame of the walk, so none
// of our own frames has to be unwound. rdi: where the result goes; esi: what the path is for. A known path
// needs only two registers: the others are collected only if clusterprof_find_known_path has not found the
// path.
asm(R"(
  .pushsection .text
  .globl clusterprof_call_path_entry
  .hidden clusterprof_call_path_entry
  .type clusterprof_call_path_entry, @function
  .globl clusterprof_io_path_entry
  .hidden clusterprof_io_path_entry
  .type clusterprof_io_path_entry, @function
clusterprof_call_path_entry:
  .cfi_startproc
  xorl %esi, %esi
clusterprof_io_path_entry:
  subq $88, %rsp
  .cfi_adjust_cfa_offset 88
  movq %rdi, 80(%rsp)
  movl %esi, 72(%rsp)
  movq 88(%rsp), %rsi
  leaq 96(%rsp), %rdx
  call clusterprof_find_known_path
  testb %al, %al
  jz 1f
  movq 80(%rsp), %rax
  addq $88, %rsp
  .cfi_adjust_cfa_offset -88
  ret
1:
  .cfi_adjust_cfa_offset 88
  movl 72(%rsp), %edx
  movq 88(%rsp), %rax
  leaq 96(%rsp), %rcx
  movq %rax, 0(%rsp)
  movq %rcx, 8(%rsp)
  movq %rbp, 16(%rsp)
  movq %rbx, 24(%rsp)
  movq %r12, 32(%rsp)
  movq %r13, 40(%rsp)
  movq %r14, 48(%rsp)
  movq %r15, 56(%rsp)
  movq $0, 64(%rsp)
  movq $0, 72(%rsp)
  movq 80(%rsp), %rdi
  movq %rsp, %rsi
  call clusterprof_call_path_from
  movq 80(%rsp), %rax
  addq $88, %rsp
  .cfi_adjust_cfa_offset -88
  ret
  .cfi_endproc
  .size clusterprof_call_path_entry, . - clusterprof_call_path_entry
  .size clusterprof_io_path_entry, . - clusterprof_io_path_entry
  .popsection
)");

namespace clusterprof::agent {

namespace {

// The size of a thread's memory of paths. Main threads make most of a program's MPI calls, some of them on
// thousands of paths, each from a place on the stack of its own (CP2K).
struct MemoSize {
  std::uint32_t latest_bits, head_bits, arena_bytes;
};
constexpr MemoSize kMainThread = {10, 13, 6 << 20}, kOtherThread = {8, 9, 256 << 10};
constexpr std::uint32_t kWays = 4;
// What a walk of a new path is taken to cost at most: in a longer one, others had the processor. 2 us are a
// frame whose call frame information has to be interpreted.
constexpr std::uint64_t kWalkAtMostNs = 100'000, kWordAtMostNs = 2'000;
constexpr std::uint32_t kSparePythonLinks = 16;  // hidden frames, shims without frames, the end

struct ReturnSlot {
  std::uint64_t address, value;
};

// Followed by its return slots, then the links of its Python frames and one more, then their code objects.
struct Seen {
  std::uint64_t rip, rsp;
  clusterprof_call_path path;
  PythonChain chain;
  std::uint32_t slots, links, codes;
  std::uint32_t next;  // place of another one with the same return addresses
  std::uint64_t surroundings;

  [[nodiscard]] const ReturnSlot* return_slots() const noexcept {
    return reinterpret_cast<const ReturnSlot*>(this + 1);
  }
  ReturnSlot* return_slots() noexcept { return reinterpret_cast<ReturnSlot*>(this + 1); }
  FrameLink* frame_links() noexcept { return reinterpret_cast<FrameLink*>(return_slots() + slots); }
  LinkedCode* linked_codes() noexcept { return reinterpret_cast<LinkedCode*>(frame_links() + links + 1); }
};

// A path is searched by its return addresses, innermost first, but only by those that tell it from others: a
// tree, whose nodes each name a place on the stack. From a node, the word there leads along an edge to
// another node or to a path. All that the search finds is compared in full.
struct Edge {
  std::uint64_t key;   // of the node that it leaves, and of the word
  std::uint64_t slot;  // the place on the stack that the node names to which it leads; 0: it leads to a path
  std::uint32_t target;  // that node's number, or the path's place
  std::uint32_t next;    // place of another edge with the same head
};

constexpr std::uint64_t kPlaceMask = 0xffff'ffff;
constexpr std::uint32_t kForgottenShift = 32;
constexpr std::uint32_t kRoot = 0;

}  // namespace

// Followed by a table of the paths that were last seen, a table of the heads of lists of edges, and the arena
// of paths and edges. A place is where something is in the arena, plus one; 0: nowhere. What a table holds is
// a place and above it what `forgotten` was then, so that forgetting has nothing to clear, which the child of
// a fork would first have to copy. All of it is zero at the start.
struct PathMemo {
  std::uint32_t epoch, generation;   // of the process when the paths were seen
  volatile std::uint32_t forgotten;  // how often: forget_paths
  volatile std::uint32_t changing;   // still 1 at the next call: the program has jumped out of a change
  std::uint32_t latest_shift;        // from a hash of 64 bits to a number in the table
  std::uint8_t* arena;
  std::uint64_t* heads;
  std::uint32_t head_shift, arena_bytes;
  // Of the arena: how much of its beginning paths use, and where edges begin, which use its end.
  std::uint32_t used, edges_begin;
  std::uint32_t nodes;
  std::uint64_t words[wire::kMaxFrameWords];

  [[nodiscard]] std::uint64_t* latest() noexcept { return reinterpret_cast<std::uint64_t*>(this + 1); }
  [[nodiscard]] std::uint32_t place(std::uint64_t in_table) const noexcept {
    return in_table >> kForgottenShift == forgotten ? static_cast<std::uint32_t>(in_table & kPlaceMask) : 0;
  }
  [[nodiscard]] std::uint64_t in_table(std::uint32_t place) const noexcept {
    return std::uint64_t{forgotten} << kForgottenShift | place;
  }
  template <typename T>
  [[nodiscard]] T& at(std::uint32_t place) noexcept {
    return *reinterpret_cast<T*>(arena + place - 1);
  }
};

namespace {

// All paths of the process by hash, at the place that wire::table_place gives. Readers take no lock.
struct StoredPath {
  std::atomic<std::uint64_t> hash;  // 0 = free; stored last
  std::uint64_t offset;
  std::uint32_t words;
};
constexpr std::uint32_t kStoredPaths = 1u << 16;
constexpr std::uint32_t kMaxProbes = 96;

CLUSTERPROF_WRITTEN_BY_FORKS StoredPath* g_stored = nullptr;
CLUSTERPROF_WRITTEN_BY_FORKS std::atomic<std::uint32_t> g_store_lock{0};
// Written with the lock held: bytes of the arena, and paths in the table, that belong to file operations, and
// to allocations.
struct Used {
  std::uint64_t bytes;
  std::uint32_t paths;
};
CLUSTERPROF_WRITTEN_BY_FORKS Used g_io = {}, g_memory = {};

wire::DropReason no_room(PathUse use) noexcept {
  switch (use) {
    case PathUse::kMpi:
      return wire::DropReason::kPathArenaFull;
    case PathUse::kIo:
    case PathUse::kLargeIo:
      return wire::DropReason::kIoPathRoomFull;
    case PathUse::kForward:
      return wire::DropReason::kTorchForwardLost;
    case PathUse::kMemory:
      break;
  }
  return wire::DropReason::kMemoryPathRoomFull;
}

std::uint64_t arena_for_calls(const wire::SegmentHeader* segment) noexcept {
  return segment->path_arena_bytes - segment->memory_path_bytes;
}

// How much of the arena may be used in total for paths that do not belong to MPI calls.
std::uint64_t io_room(const wire::SegmentHeader* segment, PathUse use) noexcept {
  const std::uint64_t eighth = arena_for_calls(segment) / 8;
  return use == PathUse::kLargeIo || use == PathUse::kForward ? 3 * eighth : 2 * eighth;
}
std::uint64_t room_with_texts(const wire::SegmentHeader* segment) noexcept {
  return arena_for_calls(segment) / 2;
}

bool has_room(const wire::SegmentHeader* segment, PathUse use, std::uint64_t bytes) noexcept {
  if (use == PathUse::kMpi) return true;
  if (use == PathUse::kMemory)
    return g_memory.bytes + bytes <= segment->memory_path_bytes && g_memory.paths < kStoredPaths / 4;
  return g_io.bytes + bytes <= io_room(segment, use) && g_io.paths < kStoredPaths / 2;
}

std::uint64_t mix(std::uint64_t value) noexcept {  // MurmurHash3's finalizer
  value = (value ^ (value >> 33)) * 0xff51'afd7'ed55'8ccdull;
  value = (value ^ (value >> 33)) * 0xc4ce'b9fe'1a85'ec53ull;
  return value ^ (value >> 33);
}

std::uint64_t hash_words(const std::uint64_t* words, std::uint32_t count) noexcept {
  std::uint64_t hash = 0x9e37'79b9'7f4a'7c15ull ^ count;
  for (std::uint32_t i = 0; i < count; ++i) {
    hash = ((hash << 29 | hash >> 35) ^ words[i]) * 0x9fb2'1c65'1e98'df25ull;
    hash ^= hash >> 32;
  }
  hash = mix(hash);
  return hash != 0 ? hash : 1;
}

void lock_store() noexcept {
  wait_until([] { return g_store_lock.exchange(1, std::memory_order_acquire) == 0; });
}
void unlock_store() noexcept { g_store_lock.store(0, std::memory_order_release); }

const StoredPath* find_stored(std::uint64_t hash) noexcept {
  for (std::uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    const StoredPath& path = g_stored[wire::table_place(hash, probe, kStoredPaths)];
    const std::uint64_t there = path.hash.load(std::memory_order_acquire);
    if (there == hash) return &path;
    if (there == 0) return nullptr;
  }
  return nullptr;
}

clusterprof_call_path store_locked(wire::SegmentHeader* segment, std::uint64_t hash,
                                   const std::uint64_t* words, std::uint32_t count, PathUse use) noexcept {
  if (const StoredPath* path = find_stored(hash)) return {hash, path->offset, path->words};
  const std::uint64_t offset = segment->path_arena_used.load(std::memory_order_relaxed);
  const std::uint64_t bytes = std::uint64_t{count} * sizeof *words;
  const bool may_take = has_room(segment, use, bytes);
  StoredPath* place = nullptr;
  for (std::uint32_t probe = 0; may_take && probe < kMaxProbes && place == nullptr; ++probe) {
    StoredPath& candidate = g_stored[wire::table_place(hash, probe, kStoredPaths)];
    if (candidate.hash.load(std::memory_order_relaxed) == 0) place = &candidate;
  }
  if (place == nullptr || offset + bytes > segment->path_arena_bytes) {
    count_drop(segment, no_room(use));
    return {hash, 0, 0};
  }
  if (use != PathUse::kMpi) {
    Used& used = use == PathUse::kMemory ? g_memory : g_io;
    used.bytes += bytes;
    ++used.paths;
  }
  auto* to = reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uint8_t*>(segment) +
                                              segment->path_arena_offset + offset);
  for (std::uint32_t i = 0; i < count; ++i) to[i] = words[i];
  segment->path_arena_used.store(offset + bytes, std::memory_order_release);
  place->offset = offset;
  place->words = count;
  place->hash.store(hash, std::memory_order_release);
  return {hash, offset, count};
}

clusterprof_call_path store(wire::SegmentHeader* segment, const std::uint64_t* words, std::uint32_t count,
                            PathUse use) noexcept {
  const std::uint64_t hash = hash_words(words, count);
  if (const StoredPath* path = find_stored(hash)) return {hash, path->offset, path->words};
  // A handler of the program must not jump out of here.
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::uint64_t mask = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kAll, &mask, sizeof mask);
  lock_store();
  const clusterprof_call_path path = store_locked(segment, hash, words, count, use);
  unlock_store();
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, sizeof mask);
  return path;
}

std::uint64_t read_stack(std::uint64_t address) noexcept {
  return *reinterpret_cast<const volatile std::uint64_t*>(address);
}

// Odd constants for multiplicative hashing, from MurmurHash3 and its like.
constexpr std::uint64_t kFactors[] = {0x9e37'79b9'7f4a'7c15ull, 0xff51'afd7'ed55'8ccdull,
                                      0xc4ce'b9fe'1a85'ec53ull, 0x9fb2'1c65'1e98'df25ull};

// Which path was last seen at a call from (rip, rsp): wrappers share the code that calls from `rip`, but
// differ in the size of their frames.
std::uint64_t& latest_at(PathMemo& memo, std::uint64_t rip, std::uint64_t rsp) noexcept {
  return memo.latest()[(rip * kFactors[0] + rsp * kFactors[1]) >> memo.latest_shift];
}

std::uint64_t edge_key(std::uint32_t node, std::uint64_t word) noexcept {
  const std::uint64_t key = (node + 1) * kFactors[1] ^ word * kFactors[2];
  return (key ^ key >> 32) * kFactors[0];
}

Edge* find_edge(PathMemo& memo, std::uint64_t key) noexcept {
  std::uint32_t place = memo.place(memo.heads[key >> memo.head_shift]);
  while (place != 0) {
    auto& edge = memo.at<Edge>(place);
    if (edge.key == key) return &edge;
    place = edge.next;
  }
  return nullptr;
}

// False: no room.
bool add_edge(PathMemo& memo, std::uint64_t key, std::uint32_t path) noexcept {
  if (sizeof(Edge) > memo.edges_begin - memo.used) return false;
  memo.edges_begin -= static_cast<std::uint32_t>(sizeof(Edge));
  std::uint64_t& head = memo.heads[key >> memo.head_shift];
  const std::uint32_t place = memo.edges_begin + 1;
  memo.at<Edge>(place) = {key, 0, path, memo.place(head)};
  head = memo.in_table(place);
  return true;
}

std::uint64_t root_key(std::uint64_t around, const Registers& registers, const PythonChain& chain) noexcept {
  const std::uint64_t word = registers.rip * kFactors[0] + registers.rsp * kFactors[1] + around +
                             (chain.top_instruction + chain.top * kFactors[0]) * kFactors[3];
  return edge_key(kRoot, word);
}

// Where a search ends: on an edge to a path, or on none that has this key.
struct SearchEnd {
  std::uint64_t key;
  Edge* edge;
};

// `guarded`: words anywhere may be read; else only those of the thread's stack that are in use.
[[gnu::always_inline]] inline SearchEnd search(const ThreadContext& context, std::uint64_t key,
                                               std::uint64_t rsp, bool guarded) noexcept {
  PathMemo& memo = *context.path_memo;
  SearchEnd end = {key, find_edge(memo, key)};
  while (end.edge != nullptr && end.edge->slot != 0) {
    const std::uint64_t slot = end.edge->slot;
    if (!guarded && (slot < rsp || slot >= context.stack_high)) return {0, nullptr};
    end.key = edge_key(end.edge->target, read_stack(slot));
    end.edge = find_edge(memo, end.key);
  }
  return end;
}

// One branch for each eight slots, and one for the remaining ones.
[[gnu::always_inline]] inline bool slots_are_unchanged(const ReturnSlot* slots,
                                                       std::uint32_t count) noexcept {
  const auto difference = [&slots](std::uint32_t i) { return read_stack(slots[i].address) ^ slots[i].value; };
  std::uint64_t different = 0;
  for (; count >= 8; count -= 8, slots += 8) {
    for (std::uint32_t i = 0; i < 8; ++i) different |= difference(i);
    if (different != 0) return false;
  }
  switch (count) {
    case 7:
      different |= difference(6);
      [[fallthrough]];
    case 6:
      different |= difference(5);
      [[fallthrough]];
    case 5:
      different |= difference(4);
      [[fallthrough]];
    case 4:
      different |= difference(3);
      [[fallthrough]];
    case 3:
      different |= difference(2);
      [[fallthrough]];
    case 2:
      different |= difference(1);
      [[fallthrough]];
    case 1:
      different |= difference(0);
      [[fallthrough]];
    default:
      return different == 0;
  }
}

bool unchanged(Seen& seen, std::uint64_t around, const Registers& registers,
               const PythonChain& chain) noexcept {
  return seen.rip == registers.rip && seen.rsp == registers.rsp && seen.surroundings == around &&
         seen.chain.begins_like(chain) && slots_are_unchanged(seen.return_slots(), seen.slots) &&
         links_are_unchanged(seen.frame_links(), seen.links) &&
         codes_are_unchanged(seen.linked_codes(), seen.codes);
}

bool walks_python(const wire::SegmentHeader* segment) noexcept {
  return segment->python_state.load(std::memory_order_relaxed) ==
         static_cast<std::uint32_t>(wire::PythonState::kActive);
}

// False if nothing is known about the Python frames without walking them.
bool find_chain(const wire::SegmentHeader* segment, PythonChain& chain) noexcept {
  chain = {};
  return !walks_python(segment) || find_python_chain(chain);
}

// Null: the path has not been seen, or is not remembered.
[[gnu::always_inline]] inline const Seen* look_up(const ThreadContext& context, const Registers& registers,
                                                  const PythonChain& chain, bool guarded) noexcept {
  PathMemo& memo = *context.path_memo;
  const std::uint64_t around = surroundings(context);
  std::uint64_t& latest = latest_at(memo, registers.rip, registers.rsp);
  if (const std::uint32_t place = memo.place(latest);
      guarded && place != 0) {  // else find_latest has tried it
    auto& seen = memo.at<Seen>(place);
    if (unchanged(seen, around, registers, chain)) return &seen;
  }
  const SearchEnd end = search(context, root_key(around, registers, chain), registers.rsp, guarded);
  if (end.edge == nullptr) return nullptr;
  for (std::uint32_t place = end.edge->target; place != 0;) {
    auto& seen = memo.at<Seen>(place);
    if (unchanged(seen, around, registers, chain)) {
      latest = memo.in_table(place);
      return &seen;
    }
    place = seen.next;
  }
  return nullptr;
}

[[gnu::noinline]] void look_up_guarded(ThreadContext& context, wire::SegmentHeader* segment,
                                       const Registers& registers, const Seen*& out) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  PythonChain chain;
  if (find_chain(segment, chain)) out = look_up(context, registers, chain, true);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard_leave(context.guard);
}

// Drops the leading frames that are part of the measurement. The first frame that is shown is represented by
// its call instruction, since readers take a path's leaf for an exact pc.
std::uint32_t trim(std::uint64_t* words, std::uint32_t count, const std::uint64_t*& first) noexcept {
  std::uint32_t skip = 0;
  while (skip < count && (words[skip] & wire::kFrameTagMask) == 0 && is_own_code(words[skip])) ++skip;
  first = words + skip;
  if (skip < count && (words[skip] & wire::kFrameTagMask) == 0) --words[skip];
  return count - skip;
}

// True if it is code of the MPI wrappers. The first of our own ranges is the agent.
bool is_wrapper(std::uint64_t pc) noexcept {
  const std::uint32_t ranges = g_process.own_ranges.load(std::memory_order_acquire);
  for (std::uint32_t i = 1; i < ranges; ++i)
    if (pc >= g_process.own_start[i] && pc < g_process.own_end[i]) return true;
  return false;
}

// True if it is code of Python's import machinery. False if the code object is not described.
bool is_import_machinery(wire::SegmentHeader* segment, std::uint64_t code_id) noexcept {
  constexpr char kFile[] = "<frozen importlib._bootstrap";  // and _bootstrap_external
  constexpr std::uint32_t kFileBytes = sizeof kFile - 1;
  auto* const base = reinterpret_cast<std::uint8_t*>(segment);
  const auto* const slots = reinterpret_cast<const wire::CodeSlot*>(base + segment->code_slots_offset);
  for (std::uint32_t probe = 0; probe < wire::kCodeProbes && probe < segment->code_slots; ++probe) {
    const wire::CodeSlot& slot = slots[wire::table_place(code_id, probe, segment->code_slots)];
    const std::uint64_t key = slot.key.load(std::memory_order_acquire);
    if (key == 0) return false;
    if (key != code_id) continue;
    const std::uint64_t offset = slot.entry_offset.load(std::memory_order_acquire);
    if (offset == 0 || offset == wire::kNoCodeEntry) return false;
    const std::uint8_t* const at = base + segment->code_arena_offset + offset - 1;
    wire::CodeEntry entry;
    memcpy(&entry, at, sizeof entry);
    return entry.filename_bytes >= kFileBytes && memcmp(at + sizeof entry, kFile, kFileBytes) == 0;
  }
  return false;
}

// For a file operation: leaves out frames that would give each file that a program imports, or that MPI reads
// at start, its own call path. Returns the number of words from `first` on.
std::uint32_t fold_io(wire::SegmentHeader* segment, std::uint64_t* words, std::uint32_t count,
                      const std::uint64_t*& first) noexcept {
  std::uint32_t begin = static_cast<std::uint32_t>(first - words);
  const std::uint32_t end = begin + count;
  std::uint32_t behind_mpi = begin;
  for (std::uint32_t i = begin; i < end; ++i) {
    if ((words[i] & wire::kFrameTagMask) == wire::kPythonFrameTag) {
      ++i;
    } else if ((words[i] & wire::kFrameTagMask) == 0 && is_wrapper(words[i])) {
      behind_mpi = i + 1;
    }
  }
  if (behind_mpi != begin && behind_mpi < end) {
    begin = behind_mpi;
    if ((words[begin] & wire::kFrameTagMask) == 0) --words[begin];  // as in trim()
  }
  std::uint32_t import = end;
  for (std::uint32_t i = begin; i + 1 < end; ++i) {
    if ((words[i] & wire::kFrameTagMask) != wire::kPythonFrameTag) continue;
    const bool imports = is_import_machinery(segment, words[i + 1]);
    if (import == end && !imports) break;  // the innermost frame of Python is the program's own
    if (imports) import = i;
    ++i;
  }
  if (import != end) begin = import;
  first = words + begin;
  return end - begin;
}

// Writes what identifies the Python frames of the walk in context.call_scratch behind the return slots of
// `seen`. Returns the resulting length of `seen`; 0: the walk is not to be remembered. `room`: in bytes, from
// there on.
[[gnu::noinline]] std::uint32_t add_links_guarded(ThreadContext& context, wire::SegmentHeader* segment,
                                                  Seen& seen, std::uint32_t room_bytes) noexcept {
  // As much as there can be, shims included; codes come behind all links.
  const PythonStack& python = context.call_scratch->python;
  const std::uint32_t most_links = python.count + python.entries + kSparePythonLinks;
  const std::uint32_t most_codes = python.count;
  if (most_links * sizeof(FrameLink) + most_codes * sizeof(LinkedCode) > room_bytes) return 0;
  if (!clusterprof_guard_enter(context.guard)) return 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint32_t bytes = 0;
  seen.links = 0;
  FrameLink* const links = seen.frame_links();
  auto* const codes = reinterpret_cast<LinkedCode*>(links + most_links);
  LinkRoom room = {links, most_links, 0, codes, most_codes, 0};
  if (find_chain(segment, seen.chain) && read_python_links(seen.chain, python, room)) {
    seen.links = room.link_count;
    seen.codes = room.code_count;
    memmove(seen.linked_codes(), codes, room.code_count * sizeof *codes);
    bytes = static_cast<std::uint32_t>(reinterpret_cast<std::uint8_t*>(seen.linked_codes() + seen.codes) -
                                       reinterpret_cast<std::uint8_t*>(links));
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard_leave(context.guard);
  return bytes;
}

// Makes the path at `place` one that a search finds. False: no room.
bool add_to_tree(const ThreadContext& context, std::uint32_t place, const Registers& registers,
                 bool guarded) noexcept {
  PathMemo& memo = *context.path_memo;
  auto& seen = memo.at<Seen>(place);
  const SearchEnd end =
      search(context, root_key(seen.surroundings, registers, seen.chain), seen.rsp, guarded);
  if (end.key == 0) return true;  // what tells it from others cannot be read here
  if (end.edge == nullptr) return add_edge(memo, end.key, place);
  const auto& other = memo.at<Seen>(end.edge->target);
  const ReturnSlot* const slots = other.return_slots();
  if (other.rip == seen.rip && other.rsp == seen.rsp) {
    for (std::uint32_t i = 0; i < other.slots && i < seen.slots; ++i) {
      // The slots before are the same, so this is the same one of both.
      if (slots[i].address != seen.return_slots()[i].address) break;
      if (slots[i].value == seen.return_slots()[i].value) continue;
      const std::uint32_t node = ++memo.nodes;
      if (!add_edge(memo, edge_key(node, slots[i].value), end.edge->target) ||
          !add_edge(memo, edge_key(node, seen.return_slots()[i].value), place))
        return false;
      end.edge->slot = slots[i].address;
      end.edge->target = node;
      return true;
    }
    seen.next = end.edge->target;
    std::uint32_t way = 1;
    for (std::uint32_t at = place; at != 0; at = memo.at<Seen>(at).next)
      if (way++ == kWays) memo.at<Seen>(at).next = 0;
  }
  end.edge->target = place;
  return true;
}

[[gnu::noinline]] void add_to_tree_guarded(ThreadContext& context, std::uint32_t place,
                                           const Registers& registers, bool& fits) noexcept {
  if (!clusterprof_guard_enter(context.guard)) return;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  fits = add_to_tree(context, place, registers, true);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard_leave(context.guard);
}

void begin_change(PathMemo& memo) noexcept {
  memo.changing = 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
void end_change(PathMemo& memo) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  memo.changing = 0;
}

// Remembers that the walk in context.call_scratch led to `path`.
[[gnu::noinline]] void remember(ThreadContext& context, wire::SegmentHeader* segment,
                                const Registers& registers, const clusterprof_call_path& path) noexcept {
  PathMemo& memo = *context.path_memo;
  const std::uint32_t forgotten = memo.forgotten;
  const Scratch& scratch = *context.call_scratch;
  const std::uint32_t native = scratch.native.count != 0 ? scratch.native.count - 1 : 0;
  const bool guarded = !is_on_own_stack(context, registers.rsp);
  for (std::uint32_t i = 1; i <= native; ++i) {
    const std::uint64_t slot = scratch.native.return_slot[i];
    if (slot == 0) return;                                    // a return address that cannot be checked
    if (!guarded && !is_on_own_stack(context, slot)) return;  // nor without a guard, see look_up's caller
  }

  const PythonStack& python = scratch.python;
  const auto fixed_bytes = static_cast<std::uint32_t>(sizeof(Seen) + native * sizeof(ReturnSlot));
  const auto most_bytes = static_cast<std::uint32_t>(
      fixed_bytes + (python.count + python.entries + kSparePythonLinks) * sizeof(FrameLink) +
      python.count * sizeof(LinkedCode));
  if (most_bytes > memo.edges_begin - memo.used) {
    forget_paths(&memo);  // and start again
    return;
  }
  const std::uint32_t place = memo.used + 1;
  auto& seen = memo.at<Seen>(place);
  seen = {registers.rip, registers.rsp, path, {}, native, 0, 0, 0, surroundings(context)};
  for (std::uint32_t i = 0; i < native; ++i)
    seen.return_slots()[i] = {scratch.native.return_slot[i + 1], scratch.native.frames[i + 1].pc};
  const std::uint32_t bytes =
      add_links_guarded(context, segment, seen, memo.edges_begin - memo.used - fixed_bytes);
  if (bytes == 0) return;
  begin_change(memo);
  memo.used += fixed_bytes + bytes;
  bool fits = true;
  if (guarded || walks_python(segment)) {
    add_to_tree_guarded(context, place, registers, fits);
  } else {
    fits = add_to_tree(context, place, registers, false);
  }
  // Or the thread is that of a child which a handler has forked meanwhile.
  if (!fits || memo.forgotten != forgotten) return forget_paths(&memo);
  latest_at(memo, registers.rip, registers.rsp) = memo.in_table(place);
  end_change(memo);
}

[[gnu::noinline]] clusterprof_call_path walk_and_store(ThreadContext& context, wire::SegmentHeader* segment,
                                                       const Registers& registers, PathUse use,
                                                       bool is_new) noexcept {
  Scratch& scratch = *context.call_scratch;
  PathMemo& memo = *context.path_memo;
  const std::uint32_t forgotten = memo.forgotten;
  const std::uint64_t faults_before =
      segment->drops[static_cast<std::uint32_t>(wire::DropReason::kFaultInWalk)].load(
          std::memory_order_relaxed);
  // Blocked, a fault would kill instead of ending the walk. Too dear where the path is known.
  constexpr std::uint64_t kFaults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
  std::uint64_t mask = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &kFaults, &mask, sizeof mask);
  walk_stacks(context, segment, registers, true, scratch);
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, sizeof mask);
  // Without native frames in the profile the native stack still tells calls apart.
  const std::uint32_t native_count = scratch.native.count;
  if (!g_process.walk_native_frames && scratch.python.count != 0) scratch.native.count = 0;
  std::uint32_t flags = 0;
  const std::uint32_t count = merge_stacks(scratch.native, scratch.python, memo.words,
                                           wire::kMaxFrameWords - kMostSurroundings, flags);
  scratch.native.count = native_count;
  const std::uint64_t* first = nullptr;
  std::uint32_t shown = trim(memo.words, count, first);
  if (shown != 0 && use != PathUse::kMpi) shown = fold_io(segment, memo.words, shown, first);
  if (shown == 0) return {0, 0, 0};
  shown += write_surroundings(context, memo.words + count);
  const clusterprof_call_path path = store(segment, first, shown, use);
  const bool faulted = segment->drops[static_cast<std::uint32_t>(wire::DropReason::kFaultInWalk)].load(
                           std::memory_order_relaxed) != faults_before;
  const bool in_same_process = context.path_memo == &memo && memo.forgotten == forgotten;
  if (is_new && !faulted && in_same_process) remember(context, segment, registers, path);
  return path;
}

// The path that was last seen at the call, if it can be verified without a guard: the thread's own stack is
// mapped as long as the thread lives. This only reads, so it does not matter what interrupts it, unless the
// thread forgets its paths meanwhile.
[[gnu::always_inline]] inline bool find_latest(const ThreadContext& context,
                                               const wire::SegmentHeader* segment, std::uint64_t rip,
                                               std::uint64_t rsp, clusterprof_call_path& out) noexcept {
  PathMemo& memo = *context.path_memo;
  if (walks_python(segment) || !is_on_own_stack(context, rsp) ||
      memo.epoch != segment->module_epoch.load(std::memory_order_acquire) ||
      memo.generation != g_process.generation)
    return false;
  const std::uint32_t forgotten = memo.forgotten;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::uint32_t place = memo.place(latest_at(memo, rip, rsp));
  if (place == 0) return false;
  auto& seen = memo.at<Seen>(place);
  if (seen.rip != rip || seen.rsp != rsp || seen.surroundings != surroundings(context) ||
      seen.path.words == 0 || seen.chain.tstate != 0 || !slots_are_unchanged(seen.return_slots(), seen.slots))
    return false;
  out = seen.path;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return memo.forgotten == forgotten;
}

}  // namespace

std::uint64_t path_memo_bytes(bool of_main_thread) noexcept {
  const MemoSize& size = of_main_thread ? kMainThread : kOtherThread;
  const std::uint64_t entries = (std::uint64_t{1} << size.latest_bits) + (std::uint64_t{1} << size.head_bits);
  return sizeof(PathMemo) + entries * sizeof(std::uint64_t) + size.arena_bytes;
}

void forget_paths(PathMemo* memo) noexcept {
  begin_change(*memo);
  memo->forgotten = memo->forgotten + 1;
  memo->used = memo->nodes = 0;
  memo->edges_begin = memo->arena_bytes;
  end_change(*memo);
}

PathMemo* make_path_memo(void* memory, bool of_main_thread) noexcept {
  const MemoSize& size = of_main_thread ? kMainThread : kOtherThread;
  auto* const memo = static_cast<PathMemo*>(memory);
  memo->latest_shift = 64 - size.latest_bits;
  memo->head_shift = 64 - size.head_bits;
  memo->heads = memo->latest() + (std::uint64_t{1} << size.latest_bits);
  memo->arena = reinterpret_cast<std::uint8_t*>(memo->heads + (std::uint64_t{1} << size.head_bits));
  memo->arena_bytes = size.arena_bytes;
  forget_paths(memo);
  return memo;
}

std::uint64_t path_table_bytes() noexcept { return sizeof(StoredPath) * kStoredPaths; }

void set_path_table(void* memory) noexcept {
  g_stored = static_cast<StoredPath*>(memory);
  g_store_lock.store(0, std::memory_order_relaxed);
  g_io = g_memory = {};
}

bool store_text(wire::SegmentHeader* segment, const char* text, std::uint32_t bytes,
                std::uint64_t& offset) noexcept {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);  // frame words follow
  lock_store();
  offset = segment->path_arena_used.load(std::memory_order_relaxed);
  const std::uint64_t end = offset + (bytes + kWord - 1) / kWord * kWord;
  const bool fits =
      end <= segment->path_arena_bytes && g_io.bytes + (end - offset) <= room_with_texts(segment);
  if (fits) {
    g_io.bytes += end - offset;
    char* const to = reinterpret_cast<char*>(segment) + segment->path_arena_offset + offset;
    for (std::uint32_t i = 0; i < bytes; ++i) to[i] = text[i];
    segment->path_arena_used.store(end, std::memory_order_release);
  } else {
    count_drop(segment, wire::DropReason::kIoPathRoomFull);
  }
  unlock_store();
  return fits;
}

extern "C" [[gnu::visibility("hidden"), gnu::used]] bool clusterprof_find_known_path(
    clusterprof_call_path* out, std::uint64_t rip, std::uint64_t rsp) noexcept {
  const ThreadContext& context = t_context;
  const wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  return slot_of(context) != nullptr && segment != nullptr && context.busy == 0 && !g_process.check_paths &&
         find_latest(context, segment, rip, rsp, *out);
}

extern "C" [[gnu::visibility("hidden"), gnu::used]] void clusterprof_call_path_from(
    clusterprof_call_path* out, const Registers* registers, PathUse use) noexcept {
  ThreadContext& context = t_context;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (slot_of(context) == nullptr || segment == nullptr) {
    *out = {0, 0, 0};
    return;
  }
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (context.busy != 0) {
    // In a handler of the program's that has interrupted this very work: all that it uses may be half done.
    if (!busy_is_left(context, frame + 1)) {
      *out = {0, 0, 0};
      return;
    }
    forget_busy(context);
  }
  const BusyFrame outer =
      begin_busy(context, frame,
                 static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))));
  PathMemo& memo = *context.path_memo;
  const std::uint32_t epoch = segment->module_epoch.load(std::memory_order_acquire);
  if (memo.epoch != epoch || memo.generation != g_process.generation || memo.changing != 0) {
    forget_paths(&memo);
    memo.epoch = epoch;
    memo.generation = g_process.generation;
  }
  const Seen* seen = nullptr;
  bool known = g_process.check_paths && find_latest(context, segment, registers->rip, registers->rsp, *out);
  if (!known) {
    if (!walks_python(segment) && is_on_own_stack(context, registers->rsp)) {
      seen = look_up(context, *registers, {}, false);
    } else {
      look_up_guarded(context, segment, *registers, seen);
    }
    // A path that found no room may have some where more is at stake.
    known = seen != nullptr && (seen->path.words != 0 || use != PathUse::kLargeIo);
    if (known) *out = seen->path;
  }
  if (known) {
    if (out->words == 0) count_drop(segment, no_room(use));
    if (g_process.check_paths) [[unlikely]] {
      const clusterprof_call_path walked = walk_and_store(context, segment, *registers, use, false);
      segment->paths_checked.fetch_add(1, std::memory_order_relaxed);
      if (walked.hash != out->hash) segment->paths_wrong.fetch_add(1, std::memory_order_relaxed);
    }
  } else {
    // Not by the CPU clock: the kernel takes the processor away from a thread that reads it, if that is due.
    const std::uint64_t begin_ns = monotonic_ns();
    *out = walk_and_store(context, segment, *registers, use, true);
    const std::uint64_t elapsed_ns = monotonic_ns() - begin_ns;
    const std::uint64_t most_ns = kWalkAtMostNs + out->words * kWordAtMostNs;
    const std::uint64_t walk_ns = elapsed_ns < most_ns ? elapsed_ns : most_ns;
    context.walks_ns += walk_ns;
    segment->handler_ns.fetch_add(walk_ns, std::memory_order_relaxed);
  }
  end_busy(context, outer);
}

}  // namespace clusterprof::agent
