// SPDX-License-Identifier: BSD-3-Clause
// Recording of a process that was not started by us, from when `clusterprof attach` has loaded the agent into
// it until it is let go (docs/design/0025-attach.md).
//
// A thread of our own begins the recording, sleeps while it lasts, and undoes at its end whatever was changed
// in the process. It has a table of descriptors of its own. None of the program's threads is ever asked to do
// anything.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdlib>

#include "agent/agent_api.h"
#include "agent/discovery/generated_code.h"
#include "agent/lifecycle/attachment.h"
#include "agent/lifecycle/end_recording.h"
#include "agent/lifecycle/exit.h"
#include "agent/lifecycle/fork.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/perf_events.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/process.h"
#include "agent/lifecycle/replaced_calls.h"
#include "agent/lifecycle/segment.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/start.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/lifecycle/threads.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/usage.h"
#include "agent/lifecycle/watcher.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/attach.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint64_t kMillisecondNs = 1'000'000;

void sleep_ns(std::uint64_t ns) noexcept {
  const timespec time = as_timespec(ns);
  raw_syscall(SYS_nanosleep, &time, nullptr);
}

struct Tasks {
  static constexpr std::uint32_t kMost = 4096;
  std::uint32_t count;
  struct {
    std::int32_t tid;
    std::uint64_t cpu_ns;
    bool done;
  } task[kMost];
};

// All of the process but the calling one. Null: no memory. More than kMost are not looked at, nor recorded.
Tasks* list_tasks() noexcept {
  auto* const tasks = static_cast<Tasks*>(map_memory(sizeof(Tasks)));
  DIR* const directory = tasks != nullptr ? opendir("/proc/self/task") : nullptr;
  if (directory == nullptr) {
    if (tasks != nullptr) unmap_memory(tasks, sizeof(Tasks));
    return nullptr;
  }
  const std::int32_t self = own_tid();
  while (const dirent* entry = readdir(directory)) {
    const auto tid = static_cast<std::int32_t>(atoi(entry->d_name));
    if (tid <= 0 || tid == self || tasks->count == Tasks::kMost) continue;
    tasks->task[tasks->count++] = {tid, clock_ns(cpu_clock_of(tid)), false};
  }
  closedir(directory);
  return tasks;
}

// In a call of the kernel, behind which no code of ours follows that uses what is about to go. Calls for
// memory are made in the middle of such code.
bool is_blocked_in_call(std::int32_t tid) noexcept {
  char path[64], text[256];
  task_file(tid, "/syscall", path);
  if (read_small_file(path, text, sizeof text) == 0 || text[0] < '0' || text[0] > '9') return false;
  const int number = atoi(text);
  for (const int of_memory : {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise})
    if (number == of_memory) return false;
  return true;
}

// Waits until each thread has been seen outside of the few instructions of ours in which it could be: it has
// run for longer than they take, or sleeps in a call of the kernel. What it does then finds our doing ended.
// False: one of them got no processor in that time, or there are too many.
bool others_have_gone_on() noexcept {
  constexpr std::uint64_t kLongestNs = 60'000 * kMillisecondNs, kPauseNs = 2 * kMillisecondNs;
  constexpr std::uint64_t kLongestStretchNs = 5 * kMillisecondNs;  // of such instructions
  Tasks* const tasks = list_tasks();
  if (tasks == nullptr) return false;
  const std::uint64_t end_ns = monotonic_ns() + kLongestNs;
  bool all = false;
  while (!all && tasks->count < Tasks::kMost) {
    all = true;
    for (std::uint32_t i = 0; i < tasks->count; ++i) {
      auto& [tid, cpu_ns, done] = tasks->task[i];
      if (done) continue;
      const std::uint64_t now_ns = clock_ns(cpu_clock_of(tid));  // 0: it has ended
      done = now_ns == 0 || now_ns > cpu_ns + kLongestStretchNs || is_blocked_in_call(tid);
      all = all && done;
    }
    if (all || monotonic_ns() >= end_ns) break;
    sleep_ns(kPauseNs);
  }
  unmap_memory(tasks, sizeof(Tasks));
  return all;
}

// A handler of ours may be in a call of the kernel, too. Those that begin now end at once.
bool handlers_have_ended() noexcept {
  constexpr std::uint32_t kMostLooks = 5'000;
  for (std::uint32_t i = 0; i < kMostLooks && g_handlers.running.load() != 0; ++i) sleep_ns(kMillisecondNs);
  return g_handlers.running.load() == 0;
}

// Once the main thread has ended, libc ends the process with the last thread, which must not be ours.
bool main_thread_goes_on() noexcept {
  char path[64], text[512];
  task_file(g_process.pid, "/stat", path);
  if (read_small_file(path, text, sizeof text) == 0) return true;
  const char* const close = strrchr(text, ')');
  return close == nullptr || close[1] != ' ' || (close[2] != 'Z' && close[2] != 'X');
}

// Threads that calls to libc's pthread_create, which were on their way, have made since those that existed
// were taken up. By now each thread that was made through ours has taken itself up.
void attach_overlooked_threads() noexcept {
  constexpr std::uint64_t kSettledNs = 50 * kMillisecondNs;
  Tasks* const tasks = list_tasks();
  if (tasks == nullptr) return;
  sleep_ns(kSettledNs);
  const bool locked = pause_watcher();
  for (std::uint32_t i = 0; i < tasks->count; ++i) {
    const std::int32_t tid = tasks->task[i].tid;
    char path[64], name[32];
    task_file(tid, "/comm", path);
    const bool is_ours = read_small_file(path, name, sizeof name) != 0 && strcmp(name, "clusterprof\n") == 0;
    if (!is_ours && !is_recorded_thread(tid) && clock_ns(cpu_clock_of(tid)) != 0 &&
        !blocks_sample_signal(tid))
      attach_thread(tid);
  }
  if (locked) resume_watcher();
  unmap_memory(tasks, sizeof(Tasks));
}

// Removes the timers of all threads. A thread that registers itself, or ends, at this instant is left out.
void end_threads() noexcept {
  const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    ThreadRecord& record = g_process.records[i];
    auto expected = as_number(RecordState::kLive);
    if (!record.state.compare_exchange_strong(expected, as_number(RecordState::kWatched),
                                              std::memory_order_acq_rel))
      continue;
    abandon_ticks(record);
    record.adoptable.store(0, std::memory_order_relaxed);
    record.counters.counts.store(0, std::memory_order_relaxed);
    record.state.store(as_number(RecordState::kFree), std::memory_order_release);
  }
}

void start_mpi() noexcept {
  replace_mpi_calls_by(nullptr);  // of an earlier recording
  if (g_options.mpi_wrap[0] == 0) return;
  void* const handle = dlopen(g_options.mpi_wrap, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    dlerror();
    return;
  }
  using Start = void (*)(const clusterprof_agent_api*);
  const auto start = reinterpret_cast<Start>(dlsym(handle, "clusterprof_mpi_attach_v1"));
  if (start == nullptr) {
    dlerror();
    dlclose(handle);
    return;
  }
  start(clusterprof_agent_v1());
  replace_mpi_calls_by(handle);
}

bool begin(const wire::AttachBlock& block) noexcept {
  static constinit bool watches = false;
  read_options_of_attach(block.options, block.options_bytes);
  if (!g_options.record) return false;
  g_handlers.ended.store(0);
  g_process.paused.store(0);
  allow_watcher();
  reset_end();
  keep_segment_for_end(nullptr);
  g_process.attached = true;
  if (!watches) {
    watch_fork();
    watch_exit();
  }
  watches = true;
  forbid_high_events();  // their descriptors would be in the program's table
  const bool locked = pause_watcher();
  prepare_process();
  count_usage_from_now();
  const bool opened = open_process(nullptr, false);
  if (opened) {
    start_mpi();
    replace_calls();
  } else {
    g_process.attached = false;
    g_options.record = false;
  }
  if (locked) resume_watcher();
  return opened;
}

// The collector closes the connection to let the process go, or when it ends.
void wait_for_end() noexcept {
  constexpr int kPauseMs = 1000;
  for (;;) {
    pollfd connection = {collector_connection(), POLLIN | POLLRDHUP, 0};
    if (raw_syscall(SYS_poll, &connection, 1, kPauseMs) > 0) return;
    if (recording_has_ended() || attachment_is_to_end() || !main_thread_goes_on()) return;
  }
}

void unmap_recording(wire::SegmentHeader* segment) noexcept {
  for (std::uint32_t i = 0; i < g_process.record_count; ++i) {
    ThreadRecord& record = g_process.records[i];
    if (record.memory != nullptr) unmap_memory(record.memory, record.memory_bytes);
    record.memory = nullptr;
  }
  g_process.records_used.store(0, std::memory_order_relaxed);
  drop_path_table();
  if (segment != nullptr) unmap_segment(segment);
}

// Records stay, since a transfer that is under way notes its end there. So do our handlers and all memory if
// a thread may still be in code of ours.
void let_go() noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  stop_watcher_for_good();
  if (segment != nullptr && !recording_has_ended()) refresh_usage(segment);
  stop_ticks_for_good();
  end_threads();
  const bool locked = pause_watcher();
  restore_calls();  // now that no signal of ours can cut a transfer any more
  if (locked) resume_watcher();
  g_process.segment.store(nullptr, std::memory_order_release);
  __atomic_add_fetch(&g_process.generation, 1, __ATOMIC_RELEASE);  // after that: register_this_thread
  const bool gone_on = others_have_gone_on() && handlers_have_ended();
  end_threads();
  if (gone_on) {
    // Until then the program sets its handlers by our functions, which do not do so at the same instant.
    restore_program_signals();
    const bool locked_again = pause_watcher();
    restore_calls_that_set_handlers();
    if (locked_again) resume_watcher();
    // Or else a thread that ends the process still copies to the segment.
    if (generated_code_give_back()) unmap_recording(segment);
  }
  g_process.attached = false;
  g_options.record = false;
  close_inherited_connection();  // the collector waits for this
}

// Tells `clusterprof attach`, which then need not read the block any more.
void answer(wire::AttachBlock& block, wire::AttachStatus status) noexcept {
  constexpr std::uint32_t kMostLooks = 10'000;
  constexpr std::uint64_t kPauseNs = kMillisecondNs;
  const std::uint64_t memory = block.memory, bytes = block.memory_bytes;
  block.status.store(static_cast<std::uint32_t>(status), std::memory_order_release);
  for (std::uint32_t i = 0; i < kMostLooks && block.released.load(std::memory_order_acquire) < 2; ++i)
    sleep_ns(kPauseNs);
  // Else the thread that was used may still be there.
  if (block.released.load(std::memory_order_acquire) == 0) return;
  // A thread that forks may be about to leave the handler that has made it wait.
  if (block.loading.load(std::memory_order_acquire) != 0 && !others_have_gone_on()) return;
  unmap_memory(reinterpret_cast<void*>(memory), bytes);
}

void serve(wire::AttachBlock& block) noexcept {
  pthread_detach(pthread_self());
  prctl(PR_SET_NAME, "clusterprof");
  block_all_signals();
  // But the one by which setuid(2) and its kin of libc have every thread change.
  constexpr std::uint64_t kSetxidSignal = std::uint64_t{1} << (33 - 1);
  raw_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &kSetxidSignal, nullptr, sizeof kSetxidSignal);
  if (block.magic != wire::kAttachMagic || block.wire_major != wire::kWireMajor ||
      block.wire_minor != wire::kWireMinor)
    return answer(block, wire::AttachStatus::kOtherVersion);
  if (g_options.record || !take_attachment()) return answer(block, wire::AttachStatus::kRecordedAlready);
  if (!leave_descriptor_table()) {
    answer(block, wire::AttachStatus::kNoDescriptorTable);
  } else if (!begin(block)) {
    answer(block, wire::AttachStatus::kNoCollector);
  } else {
    answer(block, wire::AttachStatus::kAttached);
    attach_overlooked_threads();
    wait_for_end();
    let_go();
  }
  leave_attachment();
}

}  // namespace
}  // namespace clusterprof::agent

// The thread's function, found by name: formats/wire/attach.h.
extern "C" [[gnu::visibility("default")]] void* clusterprof_attach_v1(void* block) {
  clusterprof::agent::serve(*static_cast<clusterprof::wire::AttachBlock*>(block));
  return nullptr;
}
