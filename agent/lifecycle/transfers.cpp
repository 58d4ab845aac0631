// SPDX-License-Identifier: BSD-3-Clause
// Interposed calls that transfer bytes and wait in between. If a signal interrupts such a call after some
// bytes were transferred, the kernel ends it, and it returns less than it was asked for; SA_RESTART does not
// help. If the signal was ours, these functions continue with the rest. If it was the program's, they return
// what the kernel returned. They may be used in handlers, before the agent has started, and in processes that
// are not recorded. Transfers from and to files are counted (file_io.h).
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/transfers.h"

#undef _FORTIFY_SOURCE
#include <errno.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/exec.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/fork_requests.h"
#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/seccomp.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/wakes.h"
#include "agent/sigsafe/last_words.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

// In sigsafe/syscall_function.cpp: syscall(2) without the continuation below.
extern "C" [[gnu::visibility("hidden")]] long clusterprof_plain_syscall(long number, ...) noexcept;

namespace clusterprof::agent {
namespace {

constinit Real<ssize_t(int, void*, size_t)> g_read = {"read", nullptr};
constinit Real<ssize_t(int, const iovec*, int)> g_readv = {"readv", nullptr};
constinit Real<ssize_t(int, const void*, size_t)> g_write = {"write", nullptr};
constinit Real<ssize_t(int, const iovec*, int)> g_writev = {"writev", nullptr};
constinit Real<ssize_t(int, const void*, size_t, int)> g_send = {"send", nullptr};
constinit Real<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)> g_sendto = {"sendto",
                                                                                               nullptr};
constinit Real<ssize_t(int, const msghdr*, int)> g_sendmsg = {"sendmsg", nullptr};
constinit Real<int(int, mmsghdr*, unsigned, int)> g_sendmmsg = {"sendmmsg", nullptr};
constinit Real<ssize_t(int, int, off_t*, size_t)> g_sendfile = {"sendfile", nullptr};
constinit Real<ssize_t(int, int, off64_t*, size_t)> g_sendfile64 = {"sendfile64", nullptr};
constinit Real<ssize_t(int, void*, size_t, int)> g_recv = {"recv", nullptr};
constinit Real<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)> g_recvfrom = {"recvfrom", nullptr};
constinit Real<ssize_t(int, msghdr*, int)> g_recvmsg = {"recvmsg", nullptr};
constinit Real<int(int, mmsghdr*, unsigned, int, timespec*)> g_recvmmsg = {"recvmmsg", nullptr};
constinit Real<ssize_t(int, void*, size_t, size_t, int)> g_recv_checked = {"__recv_chk", nullptr};
constinit Real<ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*)> g_recvfrom_checked = {
    "__recvfrom_chk", nullptr};
constinit Real<ssize_t(void*, size_t, unsigned)> g_getrandom = {"getrandom", nullptr};

enum class Waits { kNo, kYes };

// One call of the program, from its entry to its end.
class Transfer {
 public:
  // kYes: it may wait for a long time, and the watcher may signal the thread meanwhile.
  explicit Transfer(Waits waits) noexcept
      : cut_(t_context.transfer.cut), handlers_(t_context.transfer.program_handlers) {
    if (t_context.transfer.continued_frame != 0) [[unlikely]]
      forget_if_left();
    if (waits == Waits::kNo) return;
    record_ = t_context.record;
    if (record_ != nullptr) record_->transfer_frame.store(frame(), std::memory_order_relaxed);
  }
  ~Transfer() {
    if (record_ != nullptr) record_->transfer_frame.store(0, std::memory_order_relaxed);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Above those of all functions it calls.
  std::uintptr_t frame() const noexcept { return reinterpret_cast<std::uintptr_t>(this); }

  // True if a signal of ours, and none of the program's, has interrupted it after it had moved something.
  bool is_cut() const noexcept { return t_context.transfer.cut != cut_ && !program_interfered(); }
  bool program_interfered() const noexcept { return t_context.transfer.program_handlers != handlers_; }
  void note() noexcept { cut_ = t_context.transfer.cut; }

 private:
  // The program may have jumped out of a call that was being continued. It has not if this one is made in a
  // handler that runs on an alternate stack.
  void forget_if_left() const noexcept {
    const std::uintptr_t continued = t_context.transfer.continued_frame;
    const bool may_be_in_handler =
        is_on_own_stack(t_context, continued) && !is_on_own_stack(t_context, frame());
    if (continued <= frame() && !may_be_in_handler) t_context.transfer.continued_frame = 0;
  }

  ThreadRecord* record_ = nullptr;
  std::uint32_t cut_, handlers_;
};

// While an object lives, a handler of the program that interrupts this system call ends it, even if the
// program wants calls to be restarted: something has been transferred already (signal_return.cpp).
class Continued {
 public:
  Continued(const Transfer& transfer, long number) noexcept
      : frame_before_(t_context.transfer.continued_frame),
        number_before_(t_context.transfer.continued_number),
        error_(errno) {
    t_context.transfer.continued_number = number;
    t_context.transfer.continued_frame = transfer.frame();
  }
  ~Continued() {
    t_context.transfer.continued_frame = frame_before_;
    t_context.transfer.continued_number = number_before_;
    errno = error_;  // the call as a whole has succeeded
  }
  Continued(const Continued&) = delete;
  Continued& operator=(const Continued&) = delete;

 private:
  std::uintptr_t frame_before_;
  std::int64_t number_before_;
  int error_;
};

// more(moved, asked): continues after the first `moved` bytes, with the next `asked` bytes or fewer.
template <typename More>
ssize_t finish(Transfer& transfer, long number, ssize_t first, std::size_t total, More more) {
  const Continued continued(transfer, number);
  auto moved = static_cast<std::size_t>(first);
  bool go_on = transfer.is_cut();
  while (moved < total && go_on) {
    transfer.note();
    std::size_t asked = total - moved;
    const ssize_t now = more(moved, asked);
    if (now <= 0) break;
    moved += static_cast<std::size_t>(now);
    go_on = static_cast<std::size_t>(now) == asked ? !transfer.program_interfered() : transfer.is_cut();
  }
  return static_cast<ssize_t>(moved);
}

bool is_stream_socket(int descriptor) noexcept {
  int type = 0;
  socklen_t bytes = sizeof type;
  return raw_syscall(SYS_getsockopt, descriptor, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
         type == SOCK_STREAM;
}

enum class File {
  kOther,  // moves everything, or moves less on purpose
  kStream,
  kStreamSocket,
  kMemory,  // a device that never waits
};

File file_of(int descriptor) noexcept {
  struct stat status;
  if (raw_syscall(SYS_fstat, descriptor, &status) != 0) return File::kOther;
  if (S_ISSOCK(status.st_mode)) return is_stream_socket(descriptor) ? File::kStreamSocket : File::kOther;
  if (is_stream(status)) return File::kStream;
  constexpr unsigned kMemoryMajor = 1, kZero = 5, kFull = 7, kRandom = 8, kUrandom = 9;
  if (!S_ISCHR(status.st_mode) || major(status.st_rdev) != kMemoryMajor) return File::kOther;
  const unsigned device = minor(status.st_rdev);
  return device == kZero || device == kFull || device == kRandom || device == kUrandom ? File::kMemory
                                                                                       : File::kOther;
}

std::size_t bytes_of(const iovec* parts, std::size_t count) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

// The part of a vector behind its first `moved` bytes, or the beginning of that part.
class Rest {
 public:
  Rest(const iovec* parts, std::size_t count, std::size_t moved) noexcept {
    for (std::size_t i = 0; i < count && count_ < kMost; ++i) {
      if (moved >= parts[i].iov_len) {
        moved -= parts[i].iov_len;
        continue;
      }
      parts_[count_++] = {static_cast<char*>(parts[i].iov_base) + moved, parts[i].iov_len - moved};
      moved = 0;
    }
  }
  iovec* parts() noexcept { return parts_; }
  std::size_t count() const noexcept { return count_; }
  std::size_t bytes() const noexcept { return bytes_of(parts_, count_); }

 private:
  static constexpr std::size_t kMost = 64;
  iovec parts_[kMost];
  std::size_t count_ = 0;
};

// In the middle of a call, the kernel sends no SIGPIPE for a socket. For a pipe it does.
ssize_t send_rest(int descriptor, Rest& rest, int flags) {
  msghdr message = {};
  message.msg_iov = rest.parts();
  message.msg_iovlen = rest.count();
  return g_sendmsg(descriptor, &message, (flags | MSG_NOSIGNAL) & ~MSG_FASTOPEN);
}

[[gnu::cold, gnu::noinline]] ssize_t finish_write(Transfer& transfer, int descriptor, const void* bytes,
                                                  std::size_t count, ssize_t first) {
  const auto* const from = static_cast<const char*>(bytes);
  switch (file_of(descriptor)) {
    case File::kStream:
      return finish(transfer, SYS_write, first, count, [=](std::size_t moved, std::size_t& asked) {
        return g_write(descriptor, from + moved, asked);
      });
    case File::kStreamSocket:
      return finish(transfer, SYS_sendto, first, count, [=](std::size_t moved, std::size_t& asked) {
        return g_send(descriptor, from + moved, asked, MSG_NOSIGNAL);
      });
    default:
      return first;
  }
}

[[gnu::cold, gnu::noinline]] ssize_t finish_writev(Transfer& transfer, int descriptor, const iovec* parts,
                                                   std::size_t count, ssize_t first) {
  const File file = file_of(descriptor);
  if (file != File::kStream && file != File::kStreamSocket) return first;
  const bool is_socket = file == File::kStreamSocket;
  return finish(transfer, is_socket ? SYS_sendmsg : SYS_writev, first, bytes_of(parts, count),
                [=](std::size_t moved, std::size_t& asked) {
                  Rest rest(parts, count, moved);
                  asked = rest.bytes();
                  return is_socket ? send_rest(descriptor, rest, 0)
                                   : g_writev(descriptor, rest.parts(), static_cast<int>(rest.count()));
                });
}

[[gnu::cold, gnu::noinline]] ssize_t finish_send(Transfer& transfer, int descriptor, const void* bytes,
                                                 std::size_t count, int flags, ssize_t first) {
  // Each call of MSG_ZEROCOPY is reported to the program.
  if ((flags & (MSG_ZEROCOPY | MSG_OOB)) != 0 || !is_stream_socket(descriptor)) return first;
  const auto* const from = static_cast<const char*>(bytes);
  return finish(transfer, SYS_sendto, first, count, [=](std::size_t moved, std::size_t& asked) {
    return g_send(descriptor, from + moved, asked, (flags | MSG_NOSIGNAL) & ~MSG_FASTOPEN);
  });
}

// Ancillary data that is sent only with the first byte.
bool is_sent_once(const msghdr& message) noexcept {
  auto* const all = const_cast<msghdr*>(&message);
  for (const cmsghdr* part = CMSG_FIRSTHDR(all); part != nullptr;
       part = CMSG_NXTHDR(all, const_cast<cmsghdr*>(part)))
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return false;
  return true;
}

[[gnu::cold, gnu::noinline]] ssize_t finish_sendmsg(Transfer& transfer, int descriptor, const msghdr& message,
                                                    int flags, ssize_t first) {
  if ((flags & (MSG_ZEROCOPY | MSG_OOB)) != 0 || !is_stream_socket(descriptor) || !is_sent_once(message))
    return first;
  return finish(transfer, SYS_sendmsg, first, bytes_of(message.msg_iov, message.msg_iovlen),
                [&message, descriptor, flags](std::size_t moved, std::size_t& asked) {
                  Rest rest(message.msg_iov, message.msg_iovlen, moved);
                  asked = rest.bytes();
                  return send_rest(descriptor, rest, flags);
                });
}

[[gnu::cold, gnu::noinline]] int finish_sendmmsg(Transfer& transfer, int descriptor, mmsghdr* messages,
                                                 unsigned count, int flags, int first) {
  const Continued continued(transfer, SYS_sendmmsg);
  auto sent = static_cast<unsigned>(first);
  while (transfer.is_cut()) {
    mmsghdr& last = messages[sent - 1];
    last.msg_len =
        static_cast<unsigned>(finish_sendmsg(transfer, descriptor, last.msg_hdr, flags, last.msg_len));
    if (last.msg_len < bytes_of(last.msg_hdr.msg_iov, last.msg_hdr.msg_iovlen) || sent == count ||
        transfer.program_interfered())
      break;
    transfer.note();
    const int more = g_sendmmsg(descriptor, messages + sent, count - sent, flags);
    if (more <= 0) break;
    sent += static_cast<unsigned>(more);
  }
  return static_cast<int>(sent);
}

template <typename Function>
[[gnu::cold, gnu::noinline]] ssize_t finish_sendfile(Transfer& transfer, Function& function, int to, int from,
                                                     off64_t* offset, std::size_t count, ssize_t first) {
  if (file_of(to) != File::kStreamSocket) return first;  // to a pipe it moves what there is room for
  return finish(transfer, SYS_sendfile, first, count, [=, &function](std::size_t, std::size_t& asked) {
    return function(to, from, offset, asked);
  });
}

bool waits_for_all(int flags) noexcept {
  return (flags & MSG_WAITALL) != 0 && (flags & (MSG_OOB | MSG_ERRQUEUE | MSG_TRUNC)) == 0;
}

[[gnu::cold, gnu::noinline]] ssize_t finish_recv(Transfer& transfer, int descriptor, void* bytes,
                                                 std::size_t count, int flags, ssize_t first) {
  if (!is_stream_socket(descriptor)) return first;
  auto* const to = static_cast<char*>(bytes);
  if ((flags & MSG_PEEK) == 0)
    return finish(transfer, SYS_recvfrom, first, count, [=](std::size_t moved, std::size_t& asked) {
      return g_recv(descriptor, to + moved, asked, flags);
    });
  const Continued continued(transfer, SYS_recvfrom);
  ssize_t seen = first;
  while (static_cast<std::size_t>(seen) < count && transfer.is_cut()) {
    transfer.note();
    const ssize_t now = g_recv(descriptor, to, count, flags);
    if (now <= seen) break;
    seen = now;
  }
  return seen;
}

[[gnu::cold, gnu::noinline]] ssize_t finish_recvmsg(Transfer& transfer, int descriptor, msghdr& message,
                                                    std::size_t control_bytes, int flags, ssize_t first) {
  if ((flags & MSG_PEEK) != 0 || !is_stream_socket(descriptor)) return first;
  return finish(
      transfer, SYS_recvmsg, first, bytes_of(message.msg_iov, message.msg_iovlen),
      [&message, descriptor, control_bytes, flags](std::size_t moved, std::size_t& asked) -> ssize_t {
        // Nothing is read beyond ancillary data.
        if (message.msg_controllen != 0 || (message.msg_flags & (MSG_CTRUNC | MSG_OOB)) != 0) return 0;
        Rest rest(message.msg_iov, message.msg_iovlen, moved);
        asked = rest.bytes();
        msghdr next = message;
        next.msg_name = nullptr;
        next.msg_namelen = 0;
        next.msg_iov = rest.parts();
        next.msg_iovlen = rest.count();
        next.msg_controllen = control_bytes;
        const ssize_t now = g_recvmsg(descriptor, &next, flags);
        if (now <= 0) return now;
        message.msg_controllen = next.msg_controllen;
        message.msg_flags = next.msg_flags;
        return now;
      });
}

[[gnu::cold, gnu::noinline]] int finish_recvmmsg(Transfer& transfer, int descriptor, mmsghdr* messages,
                                                 unsigned count, int flags, timespec* timeout, int first) {
  constexpr int kRestart = 512;  // the kernel's ERESTARTSYS
  const Continued continued(transfer, SYS_recvmmsg);
  auto received = static_cast<unsigned>(first);
  bool go_on = transfer.is_cut();
  while (received < count && go_on) {
    if (timeout != nullptr && timeout->tv_sec == 0 && timeout->tv_nsec == 0) break;  // no time remains
    transfer.note();
    int more = g_recvmmsg(descriptor, messages + received, count - received, flags, timeout);
    // The kernel has left the error at the socket, for the next call.
    if (more < 0 && (errno == kRestart || errno == EINTR) && !transfer.program_interfered())
      more = g_recvmmsg(descriptor, messages + received, count - received, flags, timeout);
    if (more <= 0) break;
    received += static_cast<unsigned>(more);
    go_on = transfer.is_cut();
  }
  return static_cast<int>(received);
}

[[gnu::cold, gnu::noinline]] ssize_t finish_read(Transfer& transfer, int descriptor, void* bytes,
                                                 std::size_t count, ssize_t first) {
  if (file_of(descriptor) != File::kMemory) return first;
  auto* const to = static_cast<char*>(bytes);
  return finish(transfer, SYS_read, first, count,
                [=](std::size_t moved, std::size_t& asked) { return g_read(descriptor, to + moved, asked); });
}

[[gnu::cold, gnu::noinline]] ssize_t finish_readv(Transfer& transfer, int descriptor, const iovec* parts,
                                                  std::size_t count, ssize_t first) {
  if (file_of(descriptor) != File::kMemory) return first;
  return finish(transfer, SYS_readv, first, bytes_of(parts, count),
                [=](std::size_t moved, std::size_t& asked) {
                  Rest rest(parts, count, moved);
                  asked = rest.bytes();
                  return g_readv(descriptor, rest.parts(), static_cast<int>(rest.count()));
                });
}

[[gnu::cold, gnu::noinline]] ssize_t finish_getrandom(Transfer& transfer, void* bytes, std::size_t count,
                                                      unsigned flags, ssize_t first) {
  // Kernels before 5.6 have few random bytes at a time and wait for more.
  const unsigned next = (flags & GRND_RANDOM) != 0 ? flags | GRND_NONBLOCK : flags;
  auto* const to = static_cast<char*>(bytes);
  return finish(transfer, SYS_getrandom, first, count,
                [=](std::size_t moved, std::size_t& asked) { return g_getrandom(to + moved, asked, next); });
}

// `values`: the arguments of the system call.
ssize_t finish_by_number(Transfer& transfer, long number, const long (&values)[6], std::size_t control_bytes,
                         ssize_t first) {
  const auto descriptor = static_cast<int>(values[0]);
  const auto pointer = [&values](int i) { return reinterpret_cast<void*>(values[i]); };
  const auto count = static_cast<std::size_t>(values[2]);
  const auto flags = static_cast<int>(values[3]);
  switch (number) {
    case SYS_read:
      return finish_read(transfer, descriptor, pointer(1), count, first);
    case SYS_readv:
      return finish_readv(transfer, descriptor, static_cast<iovec*>(pointer(1)), count, first);
    case SYS_write:
      return finish_write(transfer, descriptor, pointer(1), count, first);
    case SYS_writev:
      return finish_writev(transfer, descriptor, static_cast<iovec*>(pointer(1)), count, first);
    case SYS_sendto:
      return finish_send(transfer, descriptor, pointer(1), count, flags, first);
    case SYS_sendmsg:
      return finish_sendmsg(transfer, descriptor, *static_cast<msghdr*>(pointer(1)),
                            static_cast<int>(values[2]), first);
    case SYS_sendmmsg:
      return finish_sendmmsg(transfer, descriptor, static_cast<mmsghdr*>(pointer(1)),
                             static_cast<unsigned>(values[2]), flags, static_cast<int>(first));
    case SYS_sendfile:
      return finish_sendfile(transfer, g_sendfile64, descriptor, static_cast<int>(values[1]),
                             static_cast<off64_t*>(pointer(2)), static_cast<std::size_t>(values[3]), first);
    case SYS_recvfrom:
      return waits_for_all(flags) ? finish_recv(transfer, descriptor, pointer(1), count, flags, first)
                                  : first;
    case SYS_recvmsg:
      return waits_for_all(static_cast<int>(values[2]))
                 ? finish_recvmsg(transfer, descriptor, *static_cast<msghdr*>(pointer(1)), control_bytes,
                                  static_cast<int>(values[2]), first)
                 : first;
    case SYS_recvmmsg:
      return (flags & (MSG_WAITFORONE | MSG_DONTWAIT)) == 0
                 ? finish_recvmmsg(transfer, descriptor, static_cast<mmsghdr*>(pointer(1)),
                                   static_cast<unsigned>(values[2]), flags,
                                   static_cast<timespec*>(pointer(4)), static_cast<int>(first))
                 : first;
    case SYS_getrandom:
      return finish_getrandom(transfer, pointer(0), static_cast<std::size_t>(values[1]),
                              static_cast<unsigned>(values[2]), first);
    default:
      return first;
  }
}

const char* text_at(long address) noexcept { return reinterpret_cast<const char*>(address); }
char* const* texts_at(long address) noexcept { return reinterpret_cast<char* const*>(address); }

}  // namespace

// If the functions are first called in a handler or in the child of a fork, the loader's locks may be taken.
// So they are looked up here.
void watch_transfers() noexcept {
  const auto find = [](auto&... functions) { (functions.find(), ...); };
  find(g_read, g_readv, g_write, g_writev, g_send, g_sendto, g_sendmsg, g_sendmmsg, g_sendfile, g_sendfile64,
       g_recv, g_recvfrom, g_recvmsg, g_recvmmsg, g_recv_checked, g_recvfrom_checked, g_getrandom);
}

}  // namespace clusterprof::agent

// Called by syscall(2). Unlike libc's functions that finish what it has begun, it is not a cancellation
// point.
extern "C" [[gnu::visibility("hidden")]] long clusterprof_call_by_number(long number, long first, long second,
                                                                         long third, long fourth, long fifth,
                                                                         long sixth) {
  using namespace clusterprof::agent;
  switch (number) {
    case SYS_fork:
    case SYS_clone:
    case SYS_fallocate:
    case SYS_bpf: {  // which stops checking a program when a signal comes
      const SampleSignalHeld held(static_cast<std::int32_t>(number));
      return clusterprof_plain_syscall(number, first, second, third, fourth, fifth, sixth);
    }
    case SYS_futex:
      note_wakes(first, third);
      return clusterprof_plain_syscall(number, first, second, third, fourth, fifth, sixth);
    case SYS_execve:
      return execute(text_at(first), texts_at(second), texts_at(third));
    case SYS_execveat:
      return execute_at(static_cast<int>(first), text_at(second), texts_at(third), texts_at(fourth),
                        static_cast<int>(fifth));
    case SYS_prctl:
      if (first == PR_SET_SECCOMP) before_filter_by_prctl(second, third);
      return clusterprof_plain_syscall(number, first, second, third, fourth, fifth, sixth);
    case SYS_seccomp:
      before_filter(first, third);
      return clusterprof_plain_syscall(number, first, second, third, fourth, fifth, sixth);
    default:
      break;
  }
  const bool is_recvmsg = number == SYS_recvmsg && waits_for_all(static_cast<int>(third)) && second != 0;
  const std::size_t control_bytes = is_recvmsg ? reinterpret_cast<msghdr*>(second)->msg_controllen : 0;
  Transfer transfer(number == SYS_read || number == SYS_readv || number == SYS_getrandom ? Waits::kNo
                                                                                         : Waits::kYes);
  const long moved = clusterprof_plain_syscall(number, first, second, third, fourth, fifth, sixth);
  if (number == SYS_write && first == kStderr && moved > 0)
    note_stderr(text_at(second), static_cast<std::size_t>(moved));
  if (moved <= 0 || !transfer.is_cut()) return moved;
  const CancellationOff no_cancellation;
  const long values[] = {first, second, third, fourth, fifth, sixth};
  return finish_by_number(transfer, number, values, control_bytes, moved);
}

#define CLUSTERPROF_EXPORT [[gnu::visibility("default")]]

extern "C" {

CLUSTERPROF_EXPORT ssize_t read(int descriptor, void* bytes, size_t count) {
  using namespace clusterprof::agent;
  const FileCall call(descriptor, clusterprof::wire::IoOperation::kRead, __builtin_return_address(0));
  Transfer transfer(Waits::kNo);
  ssize_t moved = g_read(descriptor, bytes, count);
  if (moved > 0 && transfer.is_cut()) moved = finish_read(transfer, descriptor, bytes, count, moved);
  call.end(moved);
  return moved;
}

CLUSTERPROF_EXPORT ssize_t readv(int descriptor, const iovec* parts, int count) {
  using namespace clusterprof::agent;
  const FileCall call(descriptor, clusterprof::wire::IoOperation::kRead, __builtin_return_address(0));
  Transfer transfer(Waits::kNo);
  ssize_t moved = g_readv(descriptor, parts, count);
  if (moved > 0 && transfer.is_cut())
    moved = finish_readv(transfer, descriptor, parts, static_cast<std::size_t>(count), moved);
  call.end(moved);
  return moved;
}

CLUSTERPROF_EXPORT ssize_t write(int descriptor, const void* bytes, size_t count) {
  using namespace clusterprof::agent;
  const FileCall call(descriptor, clusterprof::wire::IoOperation::kWrite, __builtin_return_address(0));
  Transfer transfer(Waits::kYes);
  ssize_t moved = g_write(descriptor, bytes, count);
  if (moved > 0 && transfer.is_cut()) moved = finish_write(transfer, descriptor, bytes, count, moved);
  if (descriptor == kStderr && moved > 0) note_stderr(bytes, static_cast<std::size_t>(moved));
  call.end(moved);
  return moved;
}

CLUSTERPROF_EXPORT ssize_t writev(int descriptor, const iovec* parts, int count) {
  using namespace clusterprof::agent;
  const FileCall call(descriptor, clusterprof::wire::IoOperation::kWrite, __builtin_return_address(0));
  Transfer transfer(Waits::kYes);
  ssize_t moved = g_writev(descriptor, parts, count);
  if (moved > 0 && transfer.is_cut())
    moved = finish_writev(transfer, descriptor, parts, static_cast<std::size_t>(count), moved);
  if (descriptor == kStderr && moved > 0)
    note_stderr(parts, static_cast<std::size_t>(count), static_cast<std::size_t>(moved));
  call.end(moved);
  return moved;
}

CLUSTERPROF_EXPORT ssize_t send(int descriptor, const void* bytes, size_t count, int flags) {
  using namespace clusterprof::agent;
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_send(descriptor, bytes, count, flags);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_send(transfer, descriptor, bytes, count, flags, moved);
}

CLUSTERPROF_EXPORT ssize_t sendto(int descriptor, const void* bytes, size_t count, int flags,
                                  const sockaddr* address, socklen_t address_bytes) {
  using namespace clusterprof::agent;
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_sendto(descriptor, bytes, count, flags, address, address_bytes);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_send(transfer, descriptor, bytes, count, flags, moved);
}

CLUSTERPROF_EXPORT ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  using namespace clusterprof::agent;
  look_for_request_to_send(message);
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_sendmsg(descriptor, message, flags);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_sendmsg(transfer, descriptor, *message, flags, moved);
}

CLUSTERPROF_EXPORT int sendmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags) {
  using namespace clusterprof::agent;
  Transfer transfer(Waits::kYes);
  const int sent = g_sendmmsg(descriptor, messages, count, flags);
  if (sent <= 0 || !transfer.is_cut()) return sent;
  return finish_sendmmsg(transfer, descriptor, messages, count, flags, sent);
}

CLUSTERPROF_EXPORT ssize_t sendfile(int to, int from, off_t* offset, size_t count) noexcept {
  using namespace clusterprof::agent;
  const FileCopy call(from, to, __builtin_return_address(0));
  Transfer transfer(Waits::kYes);
  ssize_t moved = g_sendfile(to, from, offset, count);
  if (moved > 0 && transfer.is_cut())
    moved = finish_sendfile(transfer, g_sendfile, to, from, offset, count, moved);
  call.end(moved);
  return moved;
}

CLUSTERPROF_EXPORT ssize_t sendfile64(int to, int from, off64_t* offset, size_t count) noexcept {
  using namespace clusterprof::agent;
  const FileCopy call(from, to, __builtin_return_address(0));
  Transfer transfer(Waits::kYes);
  ssize_t moved = g_sendfile64(to, from, offset, count);
  if (moved > 0 && transfer.is_cut())
    moved = finish_sendfile(transfer, g_sendfile64, to, from, offset, count, moved);
  call.end(moved);
  return moved;
}

CLUSTERPROF_EXPORT ssize_t recv(int descriptor, void* bytes, size_t count, int flags) {
  using namespace clusterprof::agent;
  if (!waits_for_all(flags)) return g_recv(descriptor, bytes, count, flags);
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_recv(descriptor, bytes, count, flags);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_recv(transfer, descriptor, bytes, count, flags, moved);
}

// The functions that recv and recvfrom become if the compiler knows the size of the buffer.
CLUSTERPROF_EXPORT ssize_t __recv_chk(int descriptor, void* bytes, size_t count, size_t room, int flags) {
  using namespace clusterprof::agent;
  if (!waits_for_all(flags)) return g_recv_checked(descriptor, bytes, count, room, flags);
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_recv_checked(descriptor, bytes, count, room, flags);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_recv(transfer, descriptor, bytes, count, flags, moved);
}

CLUSTERPROF_EXPORT ssize_t recvfrom(int descriptor, void* bytes, size_t count, int flags, sockaddr* address,
                                    socklen_t* address_bytes) {
  using namespace clusterprof::agent;
  if (!waits_for_all(flags)) return g_recvfrom(descriptor, bytes, count, flags, address, address_bytes);
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_recvfrom(descriptor, bytes, count, flags, address, address_bytes);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_recv(transfer, descriptor, bytes, count, flags, moved);
}

CLUSTERPROF_EXPORT ssize_t __recvfrom_chk(int descriptor, void* bytes, size_t count, size_t room, int flags,
                                          sockaddr* address, socklen_t* address_bytes) {
  using namespace clusterprof::agent;
  if (!waits_for_all(flags))
    return g_recvfrom_checked(descriptor, bytes, count, room, flags, address, address_bytes);
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_recvfrom_checked(descriptor, bytes, count, room, flags, address, address_bytes);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_recv(transfer, descriptor, bytes, count, flags, moved);
}

CLUSTERPROF_EXPORT ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  using namespace clusterprof::agent;
  if (!waits_for_all(flags) || message == nullptr) {
    const ssize_t moved = g_recvmsg(descriptor, message, flags);
    if (moved > 0) look_for_received_request(*message, moved);
    return moved;
  }
  const std::size_t control_bytes = message->msg_controllen;
  Transfer transfer(Waits::kYes);
  const ssize_t moved = g_recvmsg(descriptor, message, flags);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_recvmsg(transfer, descriptor, *message, control_bytes, flags, moved);
}

CLUSTERPROF_EXPORT int recvmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags,
                                timespec* timeout) {
  using namespace clusterprof::agent;
  Transfer transfer(Waits::kYes);
  const int received = g_recvmmsg(descriptor, messages, count, flags, timeout);
  // With MSG_WAITFORONE, fewer are what was asked for.
  if (received <= 0 || (flags & (MSG_WAITFORONE | MSG_DONTWAIT)) != 0 || !transfer.is_cut()) return received;
  return finish_recvmmsg(transfer, descriptor, messages, count, flags, timeout, received);
}

CLUSTERPROF_EXPORT ssize_t getrandom(void* bytes, size_t count, unsigned flags) {
  using namespace clusterprof::agent;
  Transfer transfer(Waits::kNo);
  const ssize_t moved = g_getrandom(bytes, count, flags);
  if (moved <= 0 || !transfer.is_cut()) return moved;
  return finish_getrandom(transfer, bytes, count, flags, moved);
}

}  // extern "C"
