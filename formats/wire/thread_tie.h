// SPDX-License-Identifier: BSD-3-Clause
// What ties a thread to another one of its process: it has made it, it was made by it, it has joined it, or
// it ends its wait. Written to the thread's own ring of samples, in order of time.
#pragma once

#include <cstdint>

#include "formats/wire/ring.h"

namespace clusterprof::wire {

enum class ThreadTieKind : std::uint16_t {
  kCreated = 1,  // another thread was made
  kBegan,        // the first record of a thread that another one has made
  kJoined,       // pthread_join or thrd_join has returned
  kWoke,         // is about to end the wait of one thread, which a sample has seen (kAtWord)
  kWokeAll,      // of all that wait there
  kUnlocked,     // is about to release a spin lock, which samples have seen others wait for (kAtSpinLock)
};

struct ThreadTie {
  RecordHeader header;     // type kThreadTie; `detail` is the ThreadTieKind
  std::uint64_t begin_ns;  // CLOCK_MONOTONIC: when the call was made; kBegan: that which made the thread
  std::uint64_t end_ns;    // when it returned; kBegan: when the thread began; kUnlocked: no time, but the
                           // address behind the call
  std::uint64_t thread;    // kBegan, kJoined: pthread_t, which no other thread has until it is joined; kWoke,
                           // kWokeAll: the address of the futex that is waited for; kUnlocked: the lock's
  std::int32_t creator;    // kBegan: the thread that has made it. With begin_ns that names one kCreated.
                           // kWoke, kWokeAll: how far the word is behind the beginning of what it is in
  std::uint32_t module_epoch;  // kUnlocked: SegmentHeader::module_epoch; else 0
};
static_assert(sizeof(ThreadTie) == 40);

}  // namespace clusterprof::wire
