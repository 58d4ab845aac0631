// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/input_calls.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "report/analysis/activities.hpp"
#include "report/analysis/channels.hpp"
#include "report/analysis/last_name.hpp"

namespace clusterprof::report {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_blocked(const CallPaths& paths, std::uint32_t path) {
  switch (off_cpu_of(paths, path)) {
    case OffCpu::kLock:
    case OffCpu::kPoll:
    case OffCpu::kPipe:
    case OffCpu::kNetwork:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool awaits_results(std::string_view file, std::string_view name) {
  return file.ends_with("/multiprocessing/pool.py") || file.ends_with("/multiprocessing/process.py") ||
         file.ends_with("/multiprocessing/managers.py") ||
         file.find("/multiprocessing/popen_") != file.npos ||
         file.find("/concurrent/futures/") != file.npos || file.ends_with("/subprocess.py") ||
         file.find("/asyncio/") != file.npos ||
         (channel_file(file) == ChannelFile::kThreadQueue && name == "join");
}

ChannelCall channel_in(std::string_view file, std::string_view name) {
  const ChannelFile where = channel_file(file);
  switch (where) {
    case ChannelFile::kThreadQueue:
    case ChannelFile::kProcessQueue:
      return {name == "get"   ? Channel::kTake
              : name == "put" ? Channel::kGive
                              : Channel::kNone,
              where == ChannelFile::kThreadQueue ? Between::kThreads : Between::kProcesses};
    case ChannelFile::kConnection:
      return {is_one_of(name, {"recv", "recv_bytes", "recv_bytes_into", "poll", "wait"}) ? Channel::kTake
              : is_one_of(name, {"send", "send_bytes"})                                  ? Channel::kGive
                                                                                         : Channel::kNone,
              Between::kProcesses};
    case ChannelFile::kDataLoader:
      return {Channel::kTake, Between::kEither};
    case ChannelFile::kNone:
      break;
  }
  return {};
}

InputCalls::LibraryFrames InputCalls::frames_at(std::uint32_t path, const LibraryFrames& above) const {
  LibraryFrames found;
  found.is_known = true;
  const shard::Frame* const frame = paths_.frame(path);
  if (frame == nullptr) {
    found.is_refused = true;
    return found;
  }
  const bool is_python = frame->kind == shard::FrameKind::kPython;
  const bool is_native = frame->kind == shard::FrameKind::kNative;
  const std::string& name = paths_.text(frame->name);
  if (is_native && name.find("SimpleQueue_get") != std::string::npos)
    found.outermost = {Channel::kTake, Between::kThreads};
  if ((is_python || is_native) && paths_.owner(path) == Owner::kOwn) return found;
  if (is_python) {
    const std::string& file = paths_.text(frame->file);
    found.is_refused = awaits_results(file, last_name(name));
    found.has_python = true;
    if (const ChannelCall call = channel_in(file, last_name(name)); call.channel != Channel::kNone)
      found.outermost = call;
  }
  found.is_refused |= above.is_refused;
  found.has_python |= above.has_python;
  if (above.outermost.channel != Channel::kNone) found.outermost = above.outermost;
  return found;
}

ChannelCall InputCalls::wait_at(std::uint32_t path) {
  if (!is_blocked(paths_, path)) return {};
  if (library_frames_.empty()) {
    library_frames_.resize(paths_.size());
    library_frames_[0].is_known = true;
  }
  std::vector<std::uint32_t> inner;
  std::uint32_t at = path;
  for (; !library_frames_[at].is_known; at = paths_.parent(at)) inner.push_back(at);
  for (auto next = inner.rbegin(); next != inner.rend(); at = *next++)
    library_frames_[*next] = frames_at(*next, library_frames_[at]);
  const LibraryFrames& found = library_frames_[path];
  if (found.is_refused) return {};
  // The user's code reads a pipe itself, such as the output of a child.
  if (found.outermost.channel == Channel::kNone && !found.has_python &&
      off_cpu_of(paths_, path) == OffCpu::kPipe)
    return {Channel::kTake, Between::kProcesses};
  return found.outermost;
}

}  // namespace clusterprof::report
