// SPDX-License-Identifier: BSD-3-Clause
#include "memory-wrap/slow_path.hpp"

namespace clusterprof::memory_wrap {

thread_local constinit ThreadState t_state = {};

alignas(4096) constinit Filter g_filter = {};

namespace {

// Copies are ten times as cheap as allocations, and there are more bytes of them.
constexpr std::uint64_t kCopyFactor = 16;
constexpr std::int64_t kNever = INT64_MAX;

// While an object lives, what this thread allocates is our own, or a handler's that has interrupted us.
class Busy {
 public:
  Busy() noexcept {
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    // The program may have jumped out of us: then its stack does not reach so deep any more.
    nested_ = t_state.busy_frame != 0 && frame < t_state.busy_frame;
    if (!nested_) t_state.busy_frame = frame;
  }
  ~Busy() {
    if (!nested_) t_state.busy_frame = 0;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  [[nodiscard]] bool is_nested() const noexcept { return nested_; }

 private:
  bool nested_;
};

// While an object lives, arithmetic rounds to the nearest, and raises nothing: the program may have set
// otherwise, and may ask which exceptions its own arithmetic has raised.
class QuietArithmetic {
 public:
  QuietArithmetic() noexcept : before_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(kUsual); }
  ~QuietArithmetic() { __builtin_ia32_ldmxcsr(before_); }
  QuietArithmetic(const QuietArithmetic&) = delete;
  QuietArithmetic& operator=(const QuietArithmetic&) = delete;

 private:
  static constexpr std::uint32_t kUsual = 0x1f80;
  std::uint32_t before_;
};

std::uint64_t random() noexcept {
  if (t_state.random == 0) {
    t_state.random = (__builtin_ia32_rdtsc() ^ reinterpret_cast<std::uintptr_t>(&t_state)) | 1;
    for (int i = 0; i < 8; ++i) next_random(t_state.random);  // their first numbers are alike
  }
  return next_random(t_state.random);
}

constexpr Sample kNot = {false, {0, 0, 0}};

// All of the arithmetic. Not inlined, so that none of it is moved out of QuietArithmetic.
[[gnu::noinline]] Sample draw(Countdown& countdown, std::size_t bytes, std::uint64_t interval) noexcept {
  if (countdown.interval == 0) countdown.begin(random(), interval);
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) return kNot;  // there is no such block
  if (!countdown.takes(bytes)) return kNot;
  const Sample sample = {true, weight_of(bytes, countdown.interval, random(), wire::kVarianceUnit)};
  if (!is_exact(bytes, countdown.interval) || countdown.interval != interval)
    countdown.begin(random(), interval);
  return sample;
}

[[gnu::noinline]] Sample decide(Countdown& countdown, std::size_t bytes, std::uint64_t factor) noexcept {
  const Busy busy;
  if (busy.is_nested()) return kNot;
  switch (clusterprof_memory_wrap_v1.phase.load(std::memory_order_acquire)) {
    case agent::MemoryPhase::kNotStarted:
      return kNot;  // all calls come here until it has
    case agent::MemoryPhase::kOff:
      countdown.left = kNever;
      return kNot;
    case agent::MemoryPhase::kOn:
      break;
  }
  const std::uint64_t interval =
      clusterprof_memory_wrap_v1.interval_bytes.load(std::memory_order_relaxed) * factor;
  const QuietArithmetic quiet;
  return draw(countdown, bytes, interval);
}

}  // namespace

const agent::MemoryRecorder* recorder() noexcept {
  return clusterprof_memory_wrap_v1.phase.load(std::memory_order_acquire) == agent::MemoryPhase::kNotStarted
             ? nullptr
             : clusterprof_memory_wrap_v1.recorder.load(std::memory_order_acquire);
}

Sample decide(std::size_t bytes) noexcept {
  Sample sample = decide(t_state.heap, bytes, 1);
  if (Counted::is_active()) sample.taken = false;
  return sample;
}
Sample decide_copy(std::size_t bytes) noexcept { return decide(t_state.copies, bytes, kCopyFactor); }

void record(const Sample& sample, const void* address, std::size_t bytes, const void* caller) noexcept {
  const agent::MemoryRecorder* const to = recorder();
  if (to == nullptr || address == nullptr) return;
  const Busy busy;
  if (busy.is_nested()) return;
  const wire::MemoryDomain domain =
      t_state.of_python ? wire::MemoryDomain::kPython : wire::MemoryDomain::kNative;
  // The interpreter's function may jump to realloc as the last thing that it does: then it is our hook where
  // realloc returns to, which would be taken for an allocation of our own.
  if (t_state.of_python) caller = nullptr;
  const agent::Keeping keeping = to->allocated(
      {address, bytes, sample.weight.bytes, sample.weight.calls, sample.weight.variance, domain}, caller);
  if (keeping == agent::Keeping::kNew) filter_add(g_filter, address);
}

void note_free(const void* address) noexcept {
  Reallocation block(address);
  block.succeeded();
}

Reallocation::Reallocation(const void* address) noexcept {
  const agent::MemoryRecorder* const to = recorder();
  if (to == nullptr || !filter_may_have(g_filter, address)) return;
  const Busy busy;
  if (busy.is_nested()) return;
  known_ = to->take(address, block_);
  if (known_) filter_remove(g_filter, address);
}

void Reallocation::failed() noexcept {
  if (!known_) return;
  filter_add(g_filter, reinterpret_cast<const void*>(block_.address));
  recorder()->put_back(block_);
}

void Reallocation::succeeded() noexcept {
  if (known_) recorder()->freed(block_);
}

}  // namespace clusterprof::memory_wrap
