// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/fork_requests.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "agent/lifecycle/creation.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

// Two pipes of the process, and two descriptors of the server's. Whoever else sends descriptors in this form
// (reduction.DupFd) sends one.
constexpr std::size_t kLeastDescriptors = 4;

// Of a control message: cmsghdr, which ends in an array of no length, and what follows it.
struct Beginning {
  std::size_t bytes;
  int level, type;
  int descriptors[2];
};
static_assert(offsetof(Beginning, level) == offsetof(cmsghdr, cmsg_level) &&
              offsetof(Beginning, type) == offsetof(cmsghdr, cmsg_type) &&
              offsetof(Beginning, descriptors) == CMSG_LEN(0));

bool may_be_request(const msghdr& message) noexcept {
  return message.msg_iovlen == 1 && message.msg_control != nullptr &&
         message.msg_controllen >= CMSG_LEN(kLeastDescriptors * sizeof(int));
}

bool is_pipe(int descriptor, std::uint32_t& inode) noexcept {
  struct stat status;
  if (raw_syscall(SYS_fstat, descriptor, &status) != 0 || !S_ISFIFO(status.st_mode)) return false;
  inode = static_cast<std::uint32_t>(status.st_ino);  // the kernel counts those of pipes in 32 bits
  return true;
}

// 0: it is no request.
std::uint32_t request_in(const Beginning& control, unsigned char byte) noexcept {
  const bool is_large = control.bytes >= CMSG_LEN(kLeastDescriptors * sizeof(int));
  if (!is_large || control.level != SOL_SOCKET || control.type != SCM_RIGHTS) return 0;
  if ((control.bytes - CMSG_LEN(0)) / sizeof(int) % 256 != byte) return 0;
  std::uint32_t first = 0, second = 0;
  return is_pipe(control.descriptors[0], first) && is_pipe(control.descriptors[1], second) ? first : 0;
}

bool copy(const void* from, void* to, std::size_t bytes) noexcept {
  const iovec here = {to, bytes}, there = {const_cast<void*>(from), bytes};
  return raw_syscall(SYS_process_vm_readv, g_process.pid, &here, 1, &there, 1, 0) == static_cast<long>(bytes);
}

// On the thread's stack, all that is above our frame can be read.
bool is_on_stack_of_caller(const msghdr* message) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(message);
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return frame >= t_context.stack_low && address > frame && address % alignof(msghdr) == 0 &&
         t_context.stack_high >= sizeof(msghdr) && address <= t_context.stack_high - sizeof(msghdr);
}

}  // namespace

void look_for_request_to_send(const msghdr* message) noexcept {
  // CPython's are there.
  if (!is_on_stack_of_caller(message) || !may_be_request(*message) || !may_note_creations()) return;
  Beginning control;
  iovec data;
  unsigned char byte = 0;
  if (!copy(message->msg_control, &control, sizeof control) || !copy(message->msg_iov, &data, sizeof data) ||
      data.iov_len != 1 || !copy(data.iov_base, &byte, 1))
    return;
  if (const std::uint32_t request = request_in(control, byte); request != 0) note_sent_request(request);
}

void look_for_received_request(const msghdr& message, ssize_t bytes) noexcept {
  if (bytes != 1 || !may_be_request(message) || !may_note_creations()) return;
  const auto& control = *static_cast<const Beginning*>(message.msg_control);
  if (const std::uint32_t request =
          request_in(control, *static_cast<const unsigned char*>(message.msg_iov[0].iov_base));
      request != 0)
    note_received_request(request);
}

}  // namespace clusterprof::agent
