// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/activities.hpp"

#include <algorithm>
#include <span>

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::Frame;
using shard::FrameKind;

constexpr std::string_view kOldGilWait = " [GIL]";  // behind the system call's name, in files of format 1.0
constexpr std::string_view kSleeps[] = {"nanosleep", "clock_nanosleep"};
constexpr std::string_view kLocks[] = {"futex", "futex_wait", "futex_waitv", "semop", "semtimedop"};
// time.sleep() before Python 3.11 is a select() on nothing, for which the C library makes either call.
constexpr std::string_view kPythonSleeps[] = {"time_sleep", "pysleep", "floatsleep"};
constexpr std::string_view kSelects[] = {"select", "pselect6"};

bool among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool sleeps_in_select(const CallPaths& paths, std::uint32_t path) {
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up)) {
    const Frame* const frame = paths.frame(up);
    if (frame == nullptr || frame->kind != FrameKind::kNative) return false;
    if (among(paths.text(frame->name), kPythonSleeps)) return true;
  }
  return false;
}

}  // namespace

std::string_view system_call_of(const CallPaths& paths, std::uint32_t path) {
  const Frame* frame = paths.frame(path);
  if (frame == nullptr || frame->kind != FrameKind::kKernel) return {};
  std::string_view name = paths.text(frame->name);
  if (name == shard::kPageFaultName) return {};
  if (name == shard::kGilWaitName) return system_call_of(paths, paths.parent(path));
  if (name.ends_with(kOldGilWait)) name.remove_suffix(kOldGilWait.size());
  return name;
}

Activity activity_of(const CallPaths& paths, std::uint32_t path, Category category) {
  const Frame* const leaf = paths.frame(path);
  const std::string_view kernel =
      leaf != nullptr && leaf->kind == FrameKind::kKernel ? std::string_view(paths.text(leaf->name)) : "";
  switch (category) {
    case Category::kMpi:
      return Activity::kMpi;
    case Category::kIo:
      return Activity::kIo;
    case Category::kSystem:
      return kernel == shard::kPageFaultName ? Activity::kPageFault : Activity::kSystemCall;
    case Category::kIdle:
      if (kernel == shard::kGilWaitName || kernel.ends_with(kOldGilWait)) return Activity::kGilWait;
      if (among(kernel, kSleeps)) return Activity::kSleep;
      if (among(kernel, kLocks)) return Activity::kLock;
      return among(kernel, kSelects) && sleeps_in_select(paths, path) ? Activity::kSleep
                                                                      : Activity::kOtherWait;
    case Category::kPython:
    case Category::kNative:
      break;
  }
  if (paths.in_garbage_collection(path)) return Activity::kGarbageCollection;
  if (paths.in_import(path)) return Activity::kImport;
  return category == Category::kPython ? Activity::kInterpreter : Activity::kNative;
}

}  // namespace clusterprof::report
