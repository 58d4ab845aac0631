// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/thread_context.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {

thread_local constinit ThreadContext t_context __attribute__((tls_model("initial-exec"))) = {};

bool busy_is_left(const ThreadContext& context, std::uintptr_t now) noexcept {
  const std::uintptr_t frame = context.busy_frame;
  if (is_left(context, frame, now) || now == frame + 1) return true;
  if (context.busy_return == 0) return false;
  const std::uintptr_t slot = frame + sizeof frame;
  std::uint32_t found = 0;
  // What the thread's own stack has once reached stays mapped.
  if (frame >= context.stack_low && slot + sizeof slot <= context.stack_high) {
    found = *reinterpret_cast<const volatile std::uint32_t*>(slot);
  } else {  // the stack may be gone
    const iovec here = {&found, sizeof found}, there = {reinterpret_cast<void*>(slot), sizeof found};
    const long bytes = raw_syscall(SYS_process_vm_readv, raw_syscall(SYS_gettid), &here, 1, &there, 1, 0);
    if (bytes != sizeof found) return bytes == -EFAULT;
  }
  return found != context.busy_return;
}

}  // namespace clusterprof::agent
