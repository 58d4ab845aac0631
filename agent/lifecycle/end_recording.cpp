// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/end_recording.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/lifecycle/ticks.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/site_switch.h"

namespace clusterprof::agent {

void stop_ticks_for_good(bool handlers_stay) noexcept {
  constexpr std::uint32_t kMaxMoments = 50'000;  // a second
  constexpr timespec kMoment = {0, 20'000};
  // Handlers that are running now may start their thread's ticks once more.
  g_handlers.ended.store(1);
  for (std::uint32_t i = 0; i < kMaxMoments && g_handlers.running.load() != 0; ++i)
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    // A thread that ends meanwhile must not give the numbers of its timers away.
    auto expected = static_cast<std::uint32_t>(RecordState::kLive);
    if (!record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kWatched),
                                              std::memory_order_acq_rel))
      continue;
    if (handlers_stay) stand_in_for_tick(record);
    stop_timers(record);
    pause_events(record);
    expected = static_cast<std::uint32_t>(RecordState::kWatched);  // unless it was buried
    record.state.compare_exchange_strong(expected, static_cast<std::uint32_t>(RecordState::kLive),
                                         std::memory_order_acq_rel);
  }
  g_process.pauses.fetch_add(1, std::memory_order_relaxed);
  g_process.paused.fetch_add(1, std::memory_order_relaxed);
}

bool is_off_on_this_node() noexcept {
  return wire::off_file([](const char* path) {
           return raw_syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
         }) != nullptr;
}

bool is_turned_off(const wire::SegmentHeader* segment) noexcept {
  return segment->turned_off_ns.load(std::memory_order_acquire) != 0;
}

}  // namespace clusterprof::agent
