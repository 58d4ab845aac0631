// SPDX-License-Identifier: BSD-3-Clause
// Performance events of single threads, with descriptor numbers far from those that the program uses.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

struct perf_event_attr;

namespace clusterprof::agent {

// The most events that are open at a time.
inline constexpr std::uint32_t kMaxHighEvents = 512;

// Opens an event of the thread (0: the calling one) with a high descriptor number, away from the program's.
// Nearly all descriptors are left to the program. Returns a negative error number on failure. `group`: the
// descriptor of the event that it is counted together with; -1: by itself. To close an event whose descriptor
// is gone, pass -1.
int open_high_event(perf_event_attr& event, std::int32_t tid, int group = -1) noexcept;
void close_high_event(int descriptor) noexcept;
// From now on no event is opened: open_high_event() returns -EPERM. For a program whose filter would kill it
// for that.
void forbid_high_events() noexcept;
bool are_high_events_forbidden() noexcept;

// One event is gone without having been closed / all events are, in the child of a fork.
void forget_high_event() noexcept;
void forget_all_high_events() noexcept;

// What to tell the user when the kernel refuses a performance event with this error number.
void describe_event_error(int error, char (&reason)[wire::kCounterNameBytes]) noexcept;

}  // namespace clusterprof::agent
