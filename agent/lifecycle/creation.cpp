// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/creation.h"

#include <signal.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent/lifecycle/exec_preload.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/hello.h"

namespace clusterprof::agent {
namespace {

CLUSTERPROF_WRITTEN_BY_FORKS constinit wire::Creation g_creation = {};

// What the thread noted last. A child of vfork shares it with the thread that made the child.
thread_local constinit wire::Creation t_noted = {};
thread_local constinit std::uintptr_t t_noted_frame = 0;
thread_local constinit std::uint32_t t_received_request = 0;  // that no process was forked for yet

// A program may forbid all system calls but its own; then recording has ended.
bool is_recording() noexcept {
  return !g_options.no_children && !recording_has_ended() &&
         g_process.segment.load(std::memory_order_acquire) != nullptr;
}

bool is_this_process() noexcept { return raw_syscall(SYS_getpid) == g_process.pid; }

// Programs block all signals around vfork. A fault in the walk of the stack would then kill the process, so
// the walk allows it. A signal that another process has sent goes on waiting until the program allows it.
clusterprof_call_path path_of_caller() noexcept {
  constexpr std::uint64_t kFaults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
  clusterprof_call_path path = {0, 0, 0};
  const std::uint64_t blocked = change_mask(SIG_BLOCK, 0) & kFaults;
  std::uint64_t pending = 0;
  if (blocked != 0) {
    const long result = raw_syscall(SYS_rt_sigpending, &pending, sizeof pending);
    if (result != 0 || (pending & blocked) != 0) return path;
    change_mask(SIG_UNBLOCK, blocked);
  }
  if (may_walk_stacks()) path = clusterprof_io_path_entry(PathUse::kLargeIo);
  if (blocked != 0) change_mask(SIG_BLOCK, blocked);
  return path;
}

char* append_hex(char* to, std::uint64_t value) noexcept {
  char digits[16];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value != 0);
  while (count != 0) *to++ = digits[--count];
  return to;
}

CreationText text_of(const wire::Creation& noted) noexcept {
  CreationText result = {};
  char* to = result.text;
  const std::size_t name_bytes = strlen(wire::kCreationVariable);
  memcpy(to, wire::kCreationVariable, name_bytes);
  to += name_bytes;
  *to++ = '=';
  for (const std::uint64_t number : {static_cast<std::uint64_t>(static_cast<std::uint32_t>(noted.pid)),
                                     static_cast<std::uint64_t>(noted.kind), noted.start_mono_ns,
                                     noted.path_offset, std::uint64_t{noted.path_words}}) {
    to = append_hex(to, number);
    *to++ = ',';
  }
  to[-1] = 0;
  result.of = noted;
  return result;
}

}  // namespace

void read_creation(const char* text) noexcept {
  if (text == nullptr) return;
  std::uint64_t numbers[5] = {};
  for (std::uint64_t& number : numbers) {
    char* end = nullptr;
    number = strtoull(text, &end, 16);
    const bool is_last = &number == numbers + 4;
    if (end == text || *end != (is_last ? 0 : ',')) return;
    text = end + 1;
  }
  g_creation = {static_cast<std::int32_t>(numbers[0]),
                static_cast<wire::CreationKind>(numbers[1]),
                numbers[2],
                numbers[3],
                static_cast<std::uint32_t>(numbers[4]),
                0};
}

wire::Creation creation_of_this_process() noexcept { return g_creation; }

bool may_note_creations() noexcept { return is_recording() && is_this_process(); }

bool note_creation(wire::CreationKind kind) noexcept {
  if (!may_note_creations()) return false;
  const clusterprof_call_path path = path_of_caller();
  const wire::SegmentHeader& own = *g_process.segment.load(std::memory_order_acquire);
  t_noted = {own.pid, kind, own.start_mono_ns, path.offset, path.words, 0};
  if (kind == wire::CreationKind::kFork) t_noted.request = std::exchange(t_received_request, 0);
  t_noted_frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return true;
}

void note_received_request(std::uint32_t request) noexcept { t_received_request = request; }

void note_sent_request(std::uint32_t request) noexcept {
  const clusterprof_call_path path = path_of_caller();
  wire::SegmentHeader& own = *g_process.segment.load(std::memory_order_acquire);
  const std::uint64_t number = own.fork_requests_made.fetch_add(1, std::memory_order_relaxed);
  wire::ForkRequest& row = own.fork_requests[number % wire::kForkRequests];
  row.pipe.store(0, std::memory_order_release);
  row.path.store(wire::shell_path(path.offset, path.words), std::memory_order_release);
  row.pipe.store(request, std::memory_order_release);
}

OpenShellCall begin_shell_call() noexcept {
  if (!may_note_creations()) return {0, 0};
  const clusterprof_call_path path = path_of_caller();
  wire::SegmentHeader& own = *g_process.segment.load(std::memory_order_acquire);
  const OpenShellCall open = {own.shell_calls_made.fetch_add(1, std::memory_order_relaxed),
                              clock_ns(CLOCK_MONOTONIC)};
  wire::ShellCall& call = own.shell_calls[open.number % wire::kShellCalls];
  call.start_mono_ns.store(0, std::memory_order_release);
  call.end_mono_ns.store(0, std::memory_order_release);
  call.path.store(wire::shell_path(path.offset, path.words), std::memory_order_release);
  call.start_mono_ns.store(open.start_mono_ns, std::memory_order_release);
  return open;
}

void end_shell_call(OpenShellCall open, std::uint64_t late_ns) noexcept {
  wire::SegmentHeader* const own = g_process.segment.load(std::memory_order_acquire);
  if (open.start_mono_ns == 0 || own == nullptr || !is_recording()) return;
  wire::ShellCall& call = own->shell_calls[open.number % wire::kShellCalls];
  if (call.start_mono_ns.load(std::memory_order_acquire) == open.start_mono_ns)
    call.end_mono_ns.store(clock_ns(CLOCK_MONOTONIC) + late_ns, std::memory_order_release);
}

OpenLaunch note_launch(std::int32_t pid, wire::UnrecordedReason reason, const wire::Creation& made,
                       const char* program, char* const* arguments) noexcept {
  if (!is_recording()) return {};
  if (reason == wire::UnrecordedReason::kCount && pid != g_process.pid) return {};
  wire::SegmentHeader& own = *g_process.segment.load(std::memory_order_acquire);
  const std::uint64_t number = own.launches_made.fetch_add(1, std::memory_order_relaxed) + 1;
  wire::Launch& row = own.launches[number % wire::kLaunches];
  row.number.store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  row.time_ns = clock_ns(CLOCK_MONOTONIC);
  row.path = wire::shell_path(made.path_offset, made.path_words);
  row.pid = pid;
  row.kind = made.kind;
  row.reason = reason;
  row.command_bytes = copy_command(program, arguments, row.command, sizeof row.command);
  row.number.store(number, std::memory_order_release);
  return {&row, number};
}

void forget_launch(OpenLaunch launch) noexcept {
  std::uint64_t number = launch.number;
  if (launch.row != nullptr) launch.row->number.compare_exchange_strong(number, 0, std::memory_order_relaxed);
}

void begin_as_created_by(const wire::SegmentHeader& parents) noexcept {
  g_creation = t_noted;
  if (t_noted.kind == wire::CreationKind::kFork && t_noted.pid == parents.pid &&
      t_noted.start_mono_ns == parents.start_mono_ns)
    return;
  g_creation = {parents.pid, wire::CreationKind::kFork, parents.start_mono_ns, 0, 0, 0};
}

CreationText creation_for_spawn() noexcept {
  return note_creation(wire::CreationKind::kPosixSpawn) ? text_of(t_noted) : CreationText{};
}

CreationText creation_in_child_of_vfork() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (!is_recording() || t_noted.kind != wire::CreationKind::kExec || is_this_process()) return {};
  // Of a vfork whose caller has returned since: this child was made in another way. Our own frames at vfork
  // may have been deeper than those here.
  constexpr std::uintptr_t kOwnFrames = 512;
  return is_left(t_context, t_noted_frame + kOwnFrames, here) ? CreationText{} : text_of(t_noted);
}

}  // namespace clusterprof::agent
