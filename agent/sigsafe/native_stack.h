// SPDX-License-Identifier: BSD-3-Clause
// Walks the native stack of the calling thread. On a cache miss, call frame information is interpreted from
// the modules' own .eh_frame_hdr. No malloc, no lock, no dl_iterate_phdr.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

struct Registers {  // x86-64
  std::uint64_t rip, rsp, rbp, rbx, r12, r13, r14, r15, r10;
  // ucontext_t::uc_mcontext.gregs of an interrupted instruction: hand-written code there may use any
  // register. Null for an ordinary caller, whose other registers mean nothing.
  const long long* interrupted = nullptr;
};

// frames[0] is the leaf. sp is the lowest address of the frame's own part of the stack: rsp for
// the leaf, else the CFA of the frame below it. An object on the C stack of frame k lies in
// [frames[k].sp, frames[k+1].sp).
struct NativeFrame {
  // Exact for the leaf, return address for the others. For a frame that a signal handler interrupted it
  // is one past the interrupted address, so that pc - 1 is right for every frame but the leaf.
  std::uint64_t pc;
  std::uint64_t sp;
};

inline constexpr std::uint32_t kMaxNativeFrames = 512;

struct NativeStack {
  std::uint32_t count;
  // The walk did not reach the thread's outermost frame; or it passed code that says nothing about its frame
  // by a chain of frame pointers, which may have skipped a caller.
  bool truncated;
  NativeFrame frames[kMaxNativeFrames];
  // Where the return address of frames[k] (k >= 1) was read from; 0 when it was computed
  // (the frame above a signal handler's).
  std::uint64_t return_slot[kMaxNativeFrames];
};

// A direct-mapped cache from pc to unwind rule, and the last walk with the stack slots that it read: a new
// walk takes over what it finds unchanged. One per thread. A walk in the handler must not interrupt a walk of
// the same thread outside it (ThreadContext::busy). Made of native_cache_bytes() of zeroed memory. Entries of
// an older module epoch are ignored.
struct NativeCache;
std::uint64_t native_cache_bytes() noexcept;

// Walks from `registers`. Reads only inside [stack_low, stack_high); if both are 0, from rsp up to rsp + 8
// MiB. Must run under a guard (guard.h). Frames found before a fault stay in `out`, since count is updated at
// every step. Async-signal-safe.
void walk_native(const Registers& registers, std::uint64_t stack_low, std::uint64_t stack_high,
                 NativeCache* cache, NativeStack& out) noexcept;

// The address range [begin, end) of the function (FDE) that contains pc. False if no call frame information
// covers it. Must run under a guard or outside a handler. Async-signal-safe.
bool find_function_range(std::uint64_t pc, std::uint64_t& begin, std::uint64_t& end) noexcept;

}  // namespace clusterprof::agent
