// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/activities.hpp"

#include <algorithm>
#include <span>

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::Frame;
using shard::FrameKind;

constexpr std::string_view kSleeps[] = {"nanosleep", "clock_nanosleep"};
constexpr std::string_view kChildren[] = {"wait4", "waitid"};
constexpr std::string_view kPolls[] = {"poll",       "ppoll",       "select",       "pselect6",
                                       "epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_wait_old"};
constexpr std::string_view kFiles[] = {
    "fsync",        "fdatasync",     "sync",       "syncfs",     "sync_file_range", "msync",
    "open",         "openat",        "openat2",    "creat",      "close",           "stat",
    "fstat",        "lstat",         "newfstatat", "statx",      "access",          "faccessat",
    "faccessat2",   "lseek",         "pread64",    "pwrite64",   "preadv",          "pwritev",
    "preadv2",      "pwritev2",      "getdents",   "getdents64", "truncate",        "ftruncate",
    "fallocate",    "rename",        "renameat",   "renameat2",  "mkdir",           "mkdirat",
    "rmdir",        "link",          "linkat",     "unlink",     "unlinkat",        "symlink",
    "symlinkat",    "readlink",      "readlinkat", "readahead",  "fadvise64",       "copy_file_range",
    "io_getevents", "io_pgetevents", "io_submit"};
constexpr std::string_view kNetwork[] = {"accept",   "accept4", "connect", "recvfrom",  "recvmsg",
                                         "recvmmsg", "sendto",  "sendmsg", "sendmmsg",  "shutdown",
                                         "socket",   "bind",    "listen",  "socketpair"};
constexpr std::string_view kPipes[] = {"splice", "tee", "vmsplice"};
constexpr std::string_view kMappings[] = {"mmap", "munmap", "mremap", "brk", "madvise", "mprotect", "mbind"};
constexpr std::string_view kLocks[] = {"futex", "futex_wait", "futex_waitv", "semop", "semtimedop"};
constexpr std::string_view kOpenMpWaits[] = {shard::kOmpBarrierName, shard::kOmpTasksName,
                                             shard::kOmpLockName,    shard::kOmpCriticalName,
                                             shard::kOmpOrderedName, shard::kOmpIdleName};
constexpr std::string_view kSelects[] = {"select", "pselect6"};

bool among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_work(const CallPaths& paths, std::uint32_t path, Category category) {
  return category != Category::kIdle || activity_of(paths, path, category) == Activity::kGilWait;
}

bool is_openmp_wait(const CallPaths& paths, std::uint32_t path) {
  const Frame* const frame = paths.frame(path);
  return frame != nullptr && frame->kind == FrameKind::kKernel &&
         among(paths.text(frame->name), kOpenMpWaits);
}

std::string_view system_call_of(const CallPaths& paths, std::uint32_t path) {
  constexpr int kMaxBelow = 4;  // frames that the collector adds: the kind of descriptor, waiting for the GIL
  for (int below = 0; below <= kMaxBelow; ++below, path = paths.parent(path)) {
    const Frame* frame = paths.frame(path);
    if (frame == nullptr || frame->kind != FrameKind::kKernel) return {};
    std::string_view name = paths.text(frame->name);
    if (name == shard::kPageFaultName) return {};
    if (name == shard::kGilWaitName || is_descriptor_name(name)) continue;
    return name;
  }
  return {};
}

Activity activity_of(const CallPaths& paths, std::uint32_t path, Category category) {
  const Frame* const leaf = paths.frame(path);
  std::string_view kernel =
      leaf != nullptr && leaf->kind == FrameKind::kKernel ? std::string_view(paths.text(leaf->name)) : "";
  if (is_descriptor_name(kernel)) kernel = system_call_of(paths, path);
  switch (category) {
    case Category::kMpi:
      return Activity::kMpi;
    case Category::kIo:
      return Activity::kIo;
    case Category::kSystem:
      return kernel == shard::kPageFaultName ? Activity::kPageFault : Activity::kSystemCall;
    case Category::kIdle:
      if (kernel == shard::kGilWaitName) return Activity::kGilWait;
      if (among(kernel, kSleeps)) return Activity::kSleep;
      if (among(kernel, kLocks))
        return off_cpu_of(paths, path) == OffCpu::kLock ? Activity::kLock : Activity::kOtherWait;
      return among(kernel, kSelects) && paths.in_python_sleep(path) ? Activity::kSleep : Activity::kOtherWait;
    case Category::kRunnable:
      return Activity::kRunnable;
    case Category::kPython:
    case Category::kNative:
      break;
  }
  if (paths.in_garbage_collection(path)) return Activity::kGarbageCollection;
  if (paths.in_import(path)) return Activity::kImport;
  return category == Category::kPython ? Activity::kInterpreter : Activity::kNative;
}

bool maps_memory(std::string_view system_call) { return among(system_call, kMappings); }

namespace {

// Decides by the system call alone.
OffCpu kind_of_call(const CallPaths& paths, std::uint32_t path) {
  const Frame* const leaf = paths.frame(path);
  if (leaf == nullptr || leaf->kind != FrameKind::kKernel) return OffCpu::kOther;
  const std::string_view name = paths.text(leaf->name);
  if (name == shard::kGilWaitName) return OffCpu::kGil;
  if (among(name, kOpenMpWaits)) return OffCpu::kOpenMp;
  if (name == shard::kOnFileName) return OffCpu::kFile;
  if (name == shard::kOnSocketName) return OffCpu::kNetwork;
  if (name == shard::kOnPipeName) return OffCpu::kPipe;
  if (name == shard::kOnThreadName) return OffCpu::kJoin;
  if (among(name, kSleeps) || name == "pause") return OffCpu::kSleep;
  if (among(name, kLocks) || name == "flock") return OffCpu::kLock;
  if (among(name, kSelects) && paths.in_python_sleep(path)) return OffCpu::kSleep;
  if (among(name, kPolls)) return OffCpu::kPoll;
  if (among(name, kChildren)) return OffCpu::kChild;
  if (among(name, kFiles)) return OffCpu::kFile;
  if (among(name, kNetwork)) return OffCpu::kNetwork;
  return among(name, kPipes) ? OffCpu::kPipe : OffCpu::kOther;
}

}  // namespace

OffCpu off_cpu_of(const CallPaths& paths, std::uint32_t path) {
  const OffCpu kind = kind_of_call(paths, path);
  switch (kind) {
    case OffCpu::kLock:
    case OffCpu::kPoll:
    case OffCpu::kNetwork:
    case OffCpu::kPipe:
    case OffCpu::kSleep:
      break;
    case OffCpu::kGil:
    case OffCpu::kFile:
    case OffCpu::kJoin:
    case OffCpu::kChild:
    case OffCpu::kOpenMp:
    case OffCpu::kOther:
      return kind;
  }
  switch (paths.awaited(path)) {
    case Awaited::kThreads:
      return OffCpu::kJoin;
    case Awaited::kChildren:
      return OffCpu::kChild;
    case Awaited::kOthers:
      break;
  }
  return kind;
}

bool waits_for_holder(const CallPaths& paths, std::uint32_t path) {
  constexpr int kFrames = 8;  // from the system call to the function that locks
  bool python_lock = false;
  for (int i = 0; i < kFrames && path != 0; ++i, path = paths.parent(path)) {
    const shard::Frame* const frame = paths.frame(path);
    if (frame == nullptr) return false;
    const std::string_view name = paths.text(frame->name);
    const auto says = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
    if (frame->kind == shard::FrameKind::kPython) {
      // Conditions, queues and pools wait for locks of their own, which no thread holds.
      const std::string_view file = paths.text(frame->file);
      const auto is_in = [&](std::string_view module) { return file.ends_with(module); };
      return python_lock && !is_in("threading.py") && !is_in("queue.py") && !is_in("_base.py") &&
             !is_in("thread.py") && !is_in("locks.py");
    }
    if (says("mutex_lock") || says("mutex_timedlock") || says("mutex_clocklock") || says("lll_lock_wait") ||
        says("rwlock") || says("set_lock") || says("spin_lock") || name == "flock")
      return true;
    python_lock = python_lock || says("PyThread_acquire_lock");
  }
  return false;
}

}  // namespace clusterprof::report
