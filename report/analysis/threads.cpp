// SPDX-License-Identifier: BSD-3-Clause
// Threads by their names. A thread without one is called what it runs.
#include "report/analysis/threads.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/thread_pools.hpp"
#include "base/base_name.hpp"
#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/frame_owner.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::ThreadKind;

// The function that it was started with is one of the interpreter, where it runs Python.
std::string name_of(const CallPaths& paths, const shard::Thread& thread) {
  if (!thread.name.empty()) return thread.name;
  const bool is_python = thread.kind == ThreadKind::kPython;
  const std::uint32_t path =
      is_python ? outermost_own(paths, thread.top_path != 0 ? thread.top_path : thread.last_path)
                : thread.path;
  const shard::Frame* const frame = paths.frame(path);
  if (frame == nullptr) return {};
  const std::string& name = paths.text(frame->name);
  const std::string& module = paths.text(frame->module);
  return has_no_name(name, module) ? std::string(base_name(module)) : name;
}

}  // namespace

std::uint32_t outermost_own(const CallPaths& paths, std::uint32_t path) {
  std::uint32_t outermost = 0;
  for (; path != 0; path = paths.parent(path)) {
    const shard::Frame* const frame = paths.frame(path);
    const bool is_code = frame != nullptr && (frame->kind == shard::FrameKind::kPython ||
                                              frame->kind == shard::FrameKind::kNative);
    if (is_code && paths.owner(path) == Owner::kOwn) outermost = path;
  }
  return outermost;
}

void list_threads(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  std::vector<const shard::Thread*> order;
  for (const shard::Thread& thread : data.threads)
    if (thread.rank < data.ranks.size() && thread.count != 0 &&
        std::max({thread.path, thread.top_path, thread.last_path}) < paths.size())
      order.push_back(&thread);
  std::stable_sort(order.begin(), order.end(), [&](const shard::Thread* x, const shard::Thread* y) {
    const auto place = [&](const shard::Thread* thread) {
      return std::tuple(data.ranks[thread->rank].rank, thread->start_utc_ns, thread->tid);
    };
    return place(x) < place(y);
  });
  std::map<std::tuple<std::int32_t, ThreadKind, std::string>, std::uint32_t> groups;
  std::vector<double> most_s;  // by group: the CPU time of the thread with the most
  for (const shard::Thread* const thread : order) {
    ThreadRow row;
    row.rank = data.ranks[thread->rank].rank;
    row.pid = thread->pid;
    row.tid = thread->tid;
    row.kind = thread->kind;
    row.count = thread->count;
    row.name = name_of(paths, *thread);
    row.runs = (thread->flags & shard::Thread::kRuns) != 0;
    row.start_s = static_cast<double>(thread->start_utc_ns - data.run.start_utc_ns) / 1e9;
    row.elapsed_s = to_seconds(thread->elapsed_ns);
    row.cpu_s = to_seconds(thread->cpu_ns);
    row.top = place_of_path(paths, thread->top_path);
    const auto [found, is_new] =
        groups.try_emplace(std::tuple(row.rank, row.kind, without_numbers(row.name)),
                           static_cast<std::uint32_t>(analysis.thread_groups.size()));
    row.group = found->second;
    if (is_new) {
      ThreadGroup& made = analysis.thread_groups.emplace_back();
      made.rank = row.rank;
      made.kind = row.kind;
      made.name = row.name;
      made.start_s = row.start_s;
      made.cpu_min_s = to_seconds(thread->cpu_min_ns);
      most_s.push_back(-1);
    }
    ThreadGroup& group = analysis.thread_groups[row.group];
    if (group.name != row.name) group.name = std::get<std::string>(found->first);
    group.count += row.count;
    group.cpu_s += row.cpu_s;
    group.cpu_min_s = std::min(group.cpu_min_s, to_seconds(thread->cpu_min_ns));
    group.cpu_max_s = std::max(group.cpu_max_s, to_seconds(thread->cpu_max_ns));
    group.start_s = std::min(group.start_s, row.start_s);
    group.end_s = std::max(group.end_s, row.start_s + row.elapsed_s);
    if (const double cpu_s = to_seconds(thread->cpu_max_ns);
        thread->top_path != 0 && cpu_s > most_s[row.group]) {
      most_s[row.group] = cpu_s;
      group.top = row.top;
    }
    analysis.threads.push_back(std::move(row));
  }
  for (ThreadGroup& group : analysis.thread_groups) group.cpu_mean_s = group.cpu_s / group.count;
}

}  // namespace clusterprof::report
