// SPDX-License-Identifier: BSD-3-Clause
// What the interposed functions do when a call may be recorded, or a block may have been. All else they do
// themselves (entry_points.cpp), within a nanosecond.
#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/memory_api.h"
#include "formats/wire/memory.h"
#include "memory-wrap/filter.hpp"
#include "memory-wrap/sampling.hpp"

namespace clusterprof::memory_wrap {

// An allocation that is to be recorded.
struct Sample {
  bool taken;
  Weight weight;
};

// What python.cpp wants of the next block that this thread gets from malloc. Not on the stack: the program
// may jump out of the interpreter before malloc is called.
struct ObjectRequest {
  bool is_open;         // malloc has not been called yet
  std::uint64_t bytes;  // of the object, whatever the block has
  Sample sample;
};

struct ThreadState {
  Countdown heap, copies;
  std::uint64_t random;          // 0: not seeded
  std::uintptr_t busy_frame;     // of the stack frame that decides or records; 0: none does
  std::uintptr_t counted_frame;  // of the stack frame of a call that counts what is allocated in it; 0: none
  ObjectRequest request;
  bool of_python;      // what malloc gives out now is the interpreter's
  bool maps_for_heap;  // what mmap gives out now is for blocks that are seen themselves
};
extern thread_local constinit ThreadState t_state __attribute__((tls_model("initial-exec")));

extern Filter g_filter;

// While an object lives, what this thread allocates is a part of what is counted already. If it is thrown
// past or jumped past, it counts until the stack is as short again.
class Counted {
 public:
  [[gnu::always_inline]] Counted() noexcept : before_(t_state.counted_frame) {
    if (!is_active()) t_state.counted_frame = frame();
  }
  ~Counted() { t_state.counted_frame = before_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  [[nodiscard, gnu::always_inline]] static bool is_active() noexcept {
    return t_state.counted_frame != 0 && frame() < t_state.counted_frame;
  }

 private:
  [[gnu::always_inline]] static std::uintptr_t frame() noexcept {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  }
  std::uintptr_t before_;
};

// Whether an allocation has to go through the slow path. Only once the functions are known: before that there
// may be no thread-local data.
[[gnu::always_inline]] inline bool is_due(Countdown& countdown, std::size_t bytes) noexcept {
  const std::int64_t left = countdown.left;
  if (bytes >= static_cast<std::uint64_t>(left)) [[unlikely]]
    return true;
  countdown.left = left - static_cast<std::int64_t>(bytes);
  return false;
}
[[gnu::always_inline]] inline bool is_due(std::size_t bytes) noexcept { return is_due(t_state.heap, bytes); }

// Whether an allocation of so many bytes, for which is_due() was true, is recorded.
Sample decide(std::size_t bytes) noexcept;
Sample decide_copy(std::size_t bytes) noexcept;

// Records the block that the allocation has given out.
void record(const Sample& sample, const void* address, std::size_t bytes, const void* caller) noexcept;

// A block for which filter_may_have() is true is about to be freed.
void note_free(const void* address) noexcept;

// Around a reallocation: what was recorded of the block, and what became of it.
class Reallocation {
 public:
  explicit Reallocation(const void* address) noexcept;
  void failed() noexcept;     // the block is still there
  void succeeded() noexcept;  // it is gone, or has become another one
  // What was recorded of it; 0: nothing.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return known_ ? block_.bytes : 0; }

 private:
  agent::KeptBlock block_ = {};
  bool known_ = false;
};

// Null while nothing is recorded.
const agent::MemoryRecorder* recorder() noexcept;

}  // namespace clusterprof::memory_wrap
