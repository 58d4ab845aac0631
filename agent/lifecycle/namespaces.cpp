// SPDX-License-Identifier: BSD-3-Clause
// The kernel lets only single-threaded processes change some of their namespaces, and the watcher is a thread
// that the program does not know of. Capabilities also belong to each thread. After the program has changed
// its own, libc's setuid(2) and similar functions, which change all threads, would find that the watcher
// lacks the program's permission, and abort. So the watcher is started anew, with the same capabilities.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/lifecycle/seccomp.h"
#include "agent/lifecycle/watcher.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

int returned(long result) noexcept {
  if (result >= 0) return static_cast<int>(result);
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace
}  // namespace clusterprof::agent

#define CLUSTERPROF_EXPORT [[gnu::visibility("default")]]

extern "C" {

CLUSTERPROF_EXPORT int unshare(int flags) noexcept {
  using namespace clusterprof::agent;
  const WatcherStopped alone;
  return returned(raw_syscall(SYS_unshare, flags));
}

CLUSTERPROF_EXPORT int setns(int descriptor, int type) noexcept {
  using namespace clusterprof::agent;
  const WatcherStopped alone;
  return returned(raw_syscall(SYS_setns, descriptor, type));
}

CLUSTERPROF_EXPORT int capset(cap_user_header_t header, const cap_user_data_t data) noexcept {
  using namespace clusterprof::agent;
  const WatcherStopped alone;
  return returned(raw_syscall(SYS_capset, header, data));
}

CLUSTERPROF_EXPORT int prctl(int option, ...) noexcept {
  using namespace clusterprof::agent;
  va_list list;
  va_start(list, option);
  unsigned long words[4];
  for (unsigned long& word : words) word = va_arg(list, unsigned long);
  va_end(list);
  const auto call = [&] {
    return returned(raw_syscall(SYS_prctl, option, words[0], words[1], words[2], words[3]));
  };
  if (option == PR_SET_SECCOMP)
    before_filter_by_prctl(static_cast<long>(words[0]), static_cast<long>(words[1]));
  if (option != PR_SET_KEEPCAPS && option != PR_SET_SECUREBITS) return call();
  const WatcherStopped alone;
  return call();
}

}  // extern "C"
