// SPDX-License-Identifier: BSD-3-Clause
// The program filters its own system calls. A system call of ours that the filter does not allow would kill
// it. So before the filter is installed, it is evaluated for all of ours.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>

#include "agent/lifecycle/attachment.h"
#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/end_recording.h"
#include "agent/lifecycle/exit.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/perf_events.h"
#include "agent/lifecycle/program_action.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/threads.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/usage.h"
#include "agent/lifecycle/watcher.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

// System calls of samples, of the watcher, of starting and ending threads, and of interposed functions (exec,
// too).
constexpr std::uint32_t kOfRecording[] = {
    SYS_read,
    SYS_close,
    SYS_stat,
    SYS_fstat,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_ioctl,
    SYS_pread64,
    SYS_mremap,
    SYS_sched_yield,
    SYS_nanosleep,
    SYS_getpid,
    SYS_kill,
    SYS_fcntl,
    SYS_getcwd,
    SYS_readlink,
    SYS_getrusage,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo,
    SYS_sigaltstack,
    SYS_statfs,
    SYS_fstatfs,
    SYS_munlock,
    SYS_gettid,
    SYS_futex,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_delete,
    SYS_clock_gettime,
    SYS_sched_getaffinity,
    SYS_faccessat,
    SYS_tgkill,
    SYS_openat,
    SYS_newfstatat,
    SYS_readlinkat,
    SYS_rt_tgsigqueueinfo,
    SYS_process_vm_readv,
    SYS_statx,
    SYS_prctl,
};
// System calls that start recording in a child.
constexpr std::uint32_t kOfStarting[] = {
    SYS_socket,    SYS_connect,   SYS_sendmsg,     SYS_setsockopt,   SYS_getsockopt,
    SYS_geteuid,   SYS_ftruncate, SYS_getrlimit,   SYS_memfd_create, SYS_perf_event_open,
    SYS_prlimit64, SYS_unshare,   SYS_close_range, SYS_mlock2,
};

// A word that the filter computes with. Its value is unknown if it comes from an argument or an address.
struct Word {
  std::uint32_t value;
  bool is_known;
};

class Filter {
 public:
  // Copies the filter. If there is none, nothing can be asked.
  explicit Filter(long program) noexcept {
    sock_fprog given = {};
    if (!copy(program, &given, sizeof given) || given.len == 0 || given.len > BPF_MAXINSNS) return;
    auto* const memory = static_cast<sock_filter*>(map_memory(kMaxBytes));
    if (memory == nullptr) return;
    code_ = memory;
    if (copy(reinterpret_cast<long>(given.filter), memory, given.len * sizeof *memory)) count_ = given.len;
  }
  ~Filter() {
    if (code_ != nullptr) unmap_memory(code_, kMaxBytes);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  bool lets_go_on(std::uint32_t number) const noexcept {
    const Word result = run(number);
    const std::uint32_t action = result.value & SECCOMP_RET_ACTION_FULL;
    return result.is_known &&
           (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || action == SECCOMP_RET_ERRNO);
  }

  template <std::size_t Count>
  bool lets_all_go_on(const std::uint32_t (&numbers)[Count]) const noexcept {
    for (const std::uint32_t number : numbers)
      if (!lets_go_on(number)) return false;
    return true;
  }

  bool is_readable() const noexcept { return count_ != 0; }

 private:
  static constexpr std::uint64_t kMaxBytes = BPF_MAXINSNS * sizeof(sock_filter);

  // The kernel reads there as well, and reports what is wrong.
  static bool copy(long from, void* to, std::size_t bytes) noexcept {
    const iovec there = {reinterpret_cast<void*>(from), bytes}, here = {to, bytes};
    return raw_syscall(SYS_process_vm_readv, g_process.pid, &here, 1, &there, 1, 0) ==
           static_cast<long>(bytes);
  }

  static Word load(std::uint32_t offset, std::uint32_t number) noexcept {
    if (offset == offsetof(seccomp_data, nr)) return {number, true};
    if (offset == offsetof(seccomp_data, arch)) return {AUDIT_ARCH_X86_64, true};
    return {0, false};
  }

  static Word compute(std::uint32_t operation, Word a, Word b) noexcept {
    const bool divides = operation == BPF_DIV || operation == BPF_MOD;
    if (!a.is_known || !b.is_known || (divides && b.value == 0)) return {0, false};
    switch (operation) {
      case BPF_ADD:
        return {a.value + b.value, true};
      case BPF_SUB:
        return {a.value - b.value, true};
      case BPF_MUL:
        return {a.value * b.value, true};
      case BPF_DIV:
        return {a.value / b.value, true};
      case BPF_OR:
        return {a.value | b.value, true};
      case BPF_AND:
        return {a.value & b.value, true};
      case BPF_XOR:
        return {a.value ^ b.value, true};
      case BPF_LSH:
        return {b.value < 32 ? a.value << b.value : 0, true};
      case BPF_RSH:
        return {b.value < 32 ? a.value >> b.value : 0, true};
      case BPF_NEG:
        return {-a.value, true};
      default:
        return {0, false};
    }
  }

  static bool compares(std::uint32_t operation, std::uint32_t a, std::uint32_t b) noexcept {
    switch (operation) {
      case BPF_JEQ:
        return a == b;
      case BPF_JGT:
        return a > b;
      case BPF_JGE:
        return a >= b;
      default:  // BPF_JSET
        return (a & b) != 0;
    }
  }

  // What the filter returns for the call, whatever the arguments. Jumps only go forward.
  Word run(std::uint32_t number) const noexcept {
    constexpr Word kUnknown = {0, false};
    constexpr Word kBytes = {sizeof(seccomp_data), true};
    Word a = {0, true}, x = {0, true}, stored[BPF_MEMWORDS] = {};
    for (std::uint32_t at = 0; at < count_; ++at) {
      const sock_filter& code = code_[at];
      const Word k = {code.k, true};
      const std::uint32_t kind = BPF_CLASS(code.code);
      const bool in_range = code.k < BPF_MEMWORDS;
      if (kind == BPF_LD || kind == BPF_LDX) {
        const std::uint32_t mode = BPF_MODE(code.code);
        Word loaded = kUnknown;
        if (mode == BPF_ABS && kind == BPF_LD) loaded = load(code.k, number);
        if (mode == BPF_IMM) loaded = k;
        if (mode == BPF_LEN) loaded = kBytes;
        if (mode == BPF_MEM && in_range) loaded = stored[code.k];
        (kind == BPF_LD ? a : x) = loaded;
      } else if ((kind == BPF_ST || kind == BPF_STX) && in_range) {
        stored[code.k] = kind == BPF_ST ? a : x;
      } else if (kind == BPF_ALU) {
        a = compute(BPF_OP(code.code), a, BPF_SRC(code.code) == BPF_X ? x : k);
      } else if (kind == BPF_JMP && BPF_OP(code.code) == BPF_JA) {
        if (code.k >= count_) return kUnknown;
        at += code.k;
      } else if (kind == BPF_JMP) {
        const Word with = BPF_SRC(code.code) == BPF_X ? x : k;
        if (!a.is_known || !with.is_known) return kUnknown;
        at += compares(BPF_OP(code.code), a.value, with.value) ? code.jt : code.jf;
      } else if (kind == BPF_RET) {
        return BPF_RVAL(code.code) == BPF_A ? a : k;
      } else if (kind == BPF_MISC) {
        (BPF_MISCOP(code.code) == BPF_TAX ? x : a) = BPF_MISCOP(code.code) == BPF_TAX ? a : x;
      } else {
        return kUnknown;
      }
    }
    return kUnknown;
  }

  sock_filter* code_ = nullptr;
  std::uint32_t count_ = 0;
};

constinit std::atomic<bool> g_has_ended_recording = false;

bool is_live(const ThreadRecord& record) noexcept {
  return record.state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(RecordState::kLive);
}

// For all threads: a filter may apply to all of them, and their threads and children inherit it.
void end_recording() noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  stop_watcher_for_good();
  if (!recording_has_ended()) {
    const std::uint32_t used = g_process.records_used.load(std::memory_order_acquire);
    std::uint32_t live = 0;
    for (std::uint32_t i = 0; i < used; ++i) live += is_live(g_process.records[i]) ? 1 : 0;
    count_drop(segment, wire::DropReason::kSignalBlocked, live);
  }
  unregister_this_thread();
  if (segment != nullptr) refresh_usage(segment);
  stop_ticks_for_good(false);
  g_process.segment.store(nullptr, std::memory_order_release);
  keep_segment_for_end(segment);
  restore_program_signals();
  if (believes_sample_signal_blocked()) block_sample_signal();
  hide_from_children();
  g_has_ended_recording.store(true, std::memory_order_release);
}

// Also where the site has turned recording off: the end of the process would still be reported.
bool concerns_us() noexcept {
  return handlers_are_installed() &&
         (!recording_has_ended() || g_process.segment.load(std::memory_order_acquire) != nullptr) &&
         raw_syscall(SYS_getpid) == g_process.pid;
}

}  // namespace

void before_filter(long operation, long program) noexcept {
  const bool is_strict = operation == SECCOMP_SET_MODE_STRICT;
  if ((!is_strict && operation != SECCOMP_SET_MODE_FILTER) || !concerns_us()) return;
  const CancellationOff no_cancellation;
  const int saved_errno = errno;
  if (g_process.attached) {
    if (is_strict || program != 0) end_attachment();
  } else if (is_strict) {
    end_recording();
  } else {
    const Filter filter(program);
    if (!filter.is_readable()) {
      // Without a program, this only asks the kernel whether there are filters.
      if (program != 0) end_recording();
    } else if (!filter.lets_all_go_on(kOfRecording)) {
      end_recording();
    } else if (!filter.lets_all_go_on(kOfStarting)) {
      forbid_high_events();  // those of new threads
      g_options.no_children = true;
      hide_from_children();
    }
  }
  errno = saved_errno;
}

bool filter_has_ended_recording() noexcept { return g_has_ended_recording.load(std::memory_order_acquire); }

void before_filter_by_prctl(long mode, long program) noexcept {
  if (mode == SECCOMP_MODE_STRICT) before_filter(SECCOMP_SET_MODE_STRICT, 0);
  if (mode == SECCOMP_MODE_FILTER) before_filter(SECCOMP_SET_MODE_FILTER, program);
}

}  // namespace clusterprof::agent
