// SPDX-License-Identifier: BSD-3-Clause
// A small preload object that samples every thread of a program with the real walkers and nothing
// else of the agent, and writes what it got to a file when the program ends.
//
// Environment: WALK_OUTPUT (file to write), WALK_RATE (Hz per thread).
// File: FileHeader, then records, then the code table slots and arena as they are in the segment.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/discovery/attach.h"
#include "agent/discovery/module_table.h"
#include "agent/sigsafe/guard.h"
#include "agent/sigsafe/native_stack.h"
#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/python_stack.h"

namespace clusterprof::agent {
namespace {

constexpr std::uint32_t kCodeSlots = 1u << 16;
constexpr std::uint64_t kCodeArenaBytes = 64ull << 20;
constexpr std::uint64_t kModuleArenaBytes = 4ull << 20;
constexpr std::uint64_t kLogBytes = 2ull << 30;  // address space; only what is used is memory
constexpr int kSignal = SIGPROF;

enum RecordStatus : std::uint32_t {
  kPythonFault = 1u << 0,
  kNativeFault = 1u << 1,
  kHasState = 1u << 2,
  kHoldsGil = 1u << 3,
};

struct Record {
  std::uint32_t tid, flags, status, words;
  std::uint32_t python_frames, native_frames;
  std::uint64_t python_ns;
};

struct FileHeader {
  char magic[8];
  std::uint64_t log_bytes, code_slots, code_arena_bytes;
  std::uint32_t python_state, python_version;
  std::uint64_t code_table_full, lost;
  AddressRange eval, interpreter, libc;
  std::uint32_t python_note, unused;
};

struct WalkScratch {
  NativeStack native;
  PythonStack python;
};

struct Recorder {
  wire::SegmentHeader* segment;
  std::uint8_t* log;
  std::atomic<std::uint64_t> log_used, lost;
  std::atomic<bool> stopped;
  long period_ns;
  const char* output;
  pid_t pid;
};
Recorder g_recorder;
thread_local WalkScratch* t_scratch __attribute__((tls_model("initial-exec")));
thread_local timer_t t_timer __attribute__((tls_model("initial-exec")));

std::uint64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

[[gnu::noinline]] bool walk_python_guarded(PythonStack& out) noexcept {
  if (!clusterprof_guard_enter(t_context.guard)) return false;
  walk_python(g_recorder.segment, out);
  guard_leave(t_context.guard);
  return true;
}

[[gnu::noinline]] bool walk_native_guarded(const Registers& registers, NativeStack& out) noexcept {
  if (!clusterprof_guard_enter(t_context.guard)) return false;
  walk_native(registers, t_context.stack_low, t_context.stack_high, t_context.native_cache, out);
  guard_leave(t_context.guard);
  return true;
}

void on_fault(int number, siginfo_t*, void*) {
  if (t_context.guard.armed != 0) {
    t_context.guard.armed = 0;
    __builtin_longjmp(t_context.guard.jump, 1);
  }
  signal(number, SIG_DFL);
}

void on_sample(int, siginfo_t*, void* context) {
  if (t_scratch == nullptr || g_recorder.stopped.load(std::memory_order_relaxed)) return;
  const int saved_errno = errno;
  const auto& from = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto value = [&from](int index) { return static_cast<std::uint64_t>(from[index]); };
  const Registers registers{value(REG_RIP), value(REG_RSP), value(REG_RBP), value(REG_RBX), value(REG_R12),
                            value(REG_R13), value(REG_R14), value(REG_R15), value(REG_R10)};
  WalkScratch& scratch = *t_scratch;
  scratch.native.count = 0;
  scratch.native.truncated = true;
  std::uint32_t status = 0;
  const std::uint64_t before = now_ns();
  if (!walk_python_guarded(scratch.python)) status |= kPythonFault;
  const std::uint64_t python_ns = now_ns() - before;
  if (!walk_native_guarded(registers, scratch.native)) status |= kNativeFault;
  if (scratch.python.thread_has_state) status |= kHasState;
  if (scratch.python.holds_gil) status |= kHoldsGil;

  constexpr std::uint64_t kMost = sizeof(Record) + wire::kMaxFrameWords * sizeof(std::uint64_t);
  std::uint64_t words[wire::kMaxFrameWords];
  std::uint32_t flags = 0;
  const std::uint32_t count =
      merge_stacks(scratch.native, scratch.python, words, wire::kMaxFrameWords, flags);
  const std::uint64_t bytes = sizeof(Record) + count * sizeof(std::uint64_t);
  const std::uint64_t at = g_recorder.log_used.fetch_add(bytes, std::memory_order_relaxed);
  if (at + kMost > kLogBytes) {
    g_recorder.lost.fetch_add(1, std::memory_order_relaxed);
  } else {
    const Record record{static_cast<std::uint32_t>(syscall(SYS_gettid)),
                        flags,
                        status,
                        count,
                        scratch.python.count,
                        scratch.native.count,
                        python_ns};
    memcpy(g_recorder.log + at, &record, sizeof record);
    memcpy(g_recorder.log + at + sizeof record, words, count * sizeof(std::uint64_t));
  }
  errno = saved_errno;
}

void* map(std::uint64_t bytes) noexcept {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("walk_recorder: mmap");
    abort();
  }
  return memory;
}

std::uint64_t cache_offset() noexcept { return (sizeof(WalkScratch) + 63) / 64 * 64; }

void start_thread() noexcept {
  auto* memory = static_cast<std::uint8_t*>(map(cache_offset() + native_cache_bytes()));
  t_context.native_cache = reinterpret_cast<NativeCache*>(memory + cache_offset());
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t stack_bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &low, &stack_bytes);
    pthread_attr_destroy(&attributes);
  }
  t_context.stack_low = reinterpret_cast<std::uintptr_t>(low);
  t_context.stack_high = t_context.stack_low + stack_bytes;
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSignal;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  if (timer_create(CLOCK_MONOTONIC, &event, &t_timer) != 0) {
    perror("walk_recorder: timer_create");
    abort();
  }
  t_scratch = reinterpret_cast<WalkScratch*>(memory);
  const itimerspec interval = {{0, g_recorder.period_ns}, {0, g_recorder.period_ns}};
  timer_settime(t_timer, 0, &interval, nullptr);
}

void end_thread() noexcept {
  if (t_scratch == nullptr) return;
  timer_delete(t_timer);
  WalkScratch* scratch = t_scratch;
  t_scratch = nullptr;  // from here on a late signal finds nothing to use
  std::atomic_signal_fence(std::memory_order_seq_cst);
  munmap(scratch, cache_offset() + native_cache_bytes());
}

using StartRoutine = void* (*)(void*);
struct Start {
  StartRoutine routine;
  void* argument;
};

void* run_thread(void* data) {
  const Start start = *static_cast<Start*>(data);
  free(data);
  start_thread();
  void* result = nullptr;
  pthread_cleanup_push([](void*) { end_thread(); }, nullptr);
  result = start.routine(start.argument);
  pthread_cleanup_pop(1);
  return result;
}

using PthreadCreate = int (*)(pthread_t*, const pthread_attr_t*, StartRoutine, void*);
PthreadCreate real_pthread_create() noexcept {
  return reinterpret_cast<PthreadCreate>(dlsym(RTLD_NEXT, "pthread_create"));
}

// What the agent's watcher thread does.
void* watch(void*) {
  while (!g_recorder.stopped.load(std::memory_order_relaxed)) {
    module_table_refresh(g_recorder.segment);
    python_attach(g_recorder.segment);
    usleep(5000);
  }
  return nullptr;
}

void write_all(int fd, const void* data, std::uint64_t bytes) noexcept {
  const auto* at = static_cast<const std::uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      perror("walk_recorder: write");
      abort();
    }
    at += written;
    bytes -= static_cast<std::uint64_t>(written);
  }
}

__attribute__((constructor)) void start() {
  g_recorder.output = getenv("WALK_OUTPUT");
  const char* rate = getenv("WALK_RATE");
  if (g_recorder.output == nullptr || rate == nullptr) return;
  unsetenv("LD_PRELOAD");
  g_recorder.period_ns = 1'000'000'000 / atol(rate);
  g_recorder.pid = getpid();

  constexpr std::uint64_t kHeaderBytes = (sizeof(wire::SegmentHeader) + 63) / 64 * 64;
  constexpr std::uint64_t kSegmentBytes =
      kHeaderBytes + kCodeSlots * sizeof(wire::CodeSlot) + kCodeArenaBytes + kModuleArenaBytes;
  auto* segment = static_cast<wire::SegmentHeader*>(map(kSegmentBytes));
  segment->magic = wire::kSegmentMagic;
  segment->segment_bytes = kSegmentBytes;
  segment->code_slots = kCodeSlots;
  segment->code_slots_offset = kHeaderBytes;
  segment->code_arena_offset = segment->code_slots_offset + kCodeSlots * sizeof(wire::CodeSlot);
  segment->code_arena_bytes = kCodeArenaBytes;
  segment->module_arena_offset = segment->code_arena_offset + kCodeArenaBytes;
  segment->module_arena_bytes = kModuleArenaBytes;
  segment->pid = getpid();
  segment->start_mono_ns = now_ns();
  g_recorder.segment = segment;
  g_recorder.log = static_cast<std::uint8_t*>(map(kLogBytes));
  module_table_refresh(segment);
  python_attach(segment);

  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  action.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_sigaction = on_sample;
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGSEGV);
  sigdelset(&action.sa_mask, SIGBUS);
  sigaction(kSignal, &action, nullptr);

  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t watcher;
  if (real_pthread_create()(&watcher, nullptr, watch, nullptr) == 0) pthread_detach(watcher);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  start_thread();
}

__attribute__((destructor)) void finish() {
  if (g_recorder.segment == nullptr || getpid() != g_recorder.pid) return;
  g_recorder.stopped.store(true);
  const int fd = open(g_recorder.output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) {
    perror("walk_recorder: open");
    abort();
  }
  const wire::SegmentHeader& segment = *g_recorder.segment;
  FileHeader header = {};
  memcpy(header.magic, "PYWALK01", 8);
  header.log_bytes = g_recorder.log_used.load();
  if (header.log_bytes > kLogBytes) header.log_bytes = kLogBytes;
  header.code_slots = segment.code_slots;
  header.code_arena_bytes = segment.code_arena_used.load();
  header.python_state = segment.python_state.load();
  header.python_version = segment.python_version.load();
  header.code_table_full = segment.drops[static_cast<std::uint32_t>(wire::DropReason::kCodeTableFull)].load();
  header.lost = g_recorder.lost.load();
  if (const PythonRuntime* runtime = python_runtime()) {
    header.eval = runtime->eval;
    header.interpreter = runtime->interpreter;
    header.libc = runtime->libc;
  }
  header.python_note = segment.python_note.load();
  const auto* base = reinterpret_cast<const std::uint8_t*>(&segment);
  write_all(fd, &header, sizeof header);
  write_all(fd, g_recorder.log, header.log_bytes);
  write_all(fd, base + segment.code_slots_offset, segment.code_slots * sizeof(wire::CodeSlot));
  write_all(fd, base + segment.code_arena_offset, header.code_arena_bytes);
  close(fd);
}

}  // namespace
}  // namespace clusterprof::agent

// For measuring: the time of one walk of the caller's Python stack in nanoseconds, the best of
// `rounds`, and the number of its frames.
extern "C" __attribute__((visibility("default"))) double walk_recorder_time(int rounds, int* frames) {
  using namespace clusterprof::agent;
  constexpr int kWalks = 1000;
  PythonStack& stack = t_scratch->python;
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t before = now_ns();
    for (int walk = 0; walk < kWalks; ++walk) walk_python_guarded(stack);
    const double one = static_cast<double>(now_ns() - before) / kWalks;
    if (one < best) best = one;
  }
  *frames = static_cast<int>(stack.count);
  return best;
}

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*routine)(void*),
                                                                     void* argument) {
  using namespace clusterprof::agent;
  const auto create = real_pthread_create();
  if (g_recorder.segment == nullptr) return create(thread, attributes, routine, argument);
  auto* start = static_cast<Start*>(malloc(sizeof(Start)));
  if (start == nullptr) return EAGAIN;
  *start = {routine, argument};
  const int error = create(thread, attributes, run_thread, start);
  if (error != 0) free(start);
  return error;
}
