// SPDX-License-Identifier: BSD-3-Clause
// What the functions in front of GCC's run time do where none is found. There is one thread then: it gets all
// of a construct, does tasks at once, and waits for nothing.
#pragma once

#include <cstdint>
#include <cstring>

namespace clusterprof::agent {

// Loops have variables of type long or unsigned long long.
template <typename Number>
struct LoopRange {
  Number begin, end;
  bool up;
};

// What the thread has not asked for yet.
struct OneThread {
  bool has_range;  // of the loop that its region is
  std::uint64_t begin, end;
  unsigned section, sections;  // the last one that it got, and how many there are

  template <typename Number>
  static OneThread of(const LoopRange<Number>& range) noexcept {
    const bool is_empty = range.up ? range.begin >= range.end : range.begin <= range.end;
    return {!is_empty, static_cast<std::uint64_t>(range.begin), static_cast<std::uint64_t>(range.end), 0, 0};
  }
  static OneThread of(unsigned sections) noexcept { return {false, 0, 0, 0, sections}; }

  template <typename Number>
  bool take_range(Number* first, Number* last) noexcept {
    if (!has_range) return false;
    has_range = false;
    *first = static_cast<Number>(begin);
    *last = static_cast<Number>(end);
    return true;
  }
  unsigned take_section() noexcept { return section < sections ? ++section : 0; }
};
extern thread_local constinit OneThread t_one_thread;

using OmpBody = void (*)(void*);
using OmpCopy = void (*)(void*, void*);

// On data that are copied as the run time would. `change`: what it writes to the copy.
template <typename Change>
[[gnu::noinline]] void do_task(OmpBody body, void* data, OmpCopy copy, long bytes, long alignment,
                               Change change) {
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 0);
  const auto aligned = static_cast<std::uintptr_t>(alignment > 0 ? alignment : 1);
  const auto room = reinterpret_cast<std::uintptr_t>(__builtin_alloca(size + aligned));
  void* const own = reinterpret_cast<void*>((room + aligned - 1) / aligned * aligned);
  if (copy != nullptr) {
    copy(own, data);
  } else {
    memcpy(own, data, size);
  }
  change(own);
  body(own);
}

template <typename Number>
void do_taskloop(OmpBody body, void* data, OmpCopy copy, long bytes, long alignment,
                 const LoopRange<Number>& range) {
  if (!OneThread::of(range).has_range) return;
  // One task does all of it. Its data begin with its part of the loop.
  do_task(body, data, copy, bytes, alignment, [&](void* own) {
    const Number part[2] = {range.begin, range.end};
    memcpy(own, part, sizeof part);
  });
}

}  // namespace clusterprof::agent
