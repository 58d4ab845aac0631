// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/thread_table.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/thread_pools.hpp"

namespace clusterprof::collector {

namespace {

std::int64_t end_of(const shard::Thread& thread) {
  return thread.start_utc_ns + static_cast<std::int64_t>(thread.elapsed_ns);
}

}  // namespace

void ThreadTable::join(shard::Thread& into, const shard::Thread& row) {
  const std::int64_t start = std::min(into.start_utc_ns, row.start_utc_ns);
  const std::int64_t end = std::max(end_of(into), end_of(row));
  into.start_utc_ns = start;
  into.elapsed_ns = static_cast<std::uint64_t>(end - start);
  into.cpu_ns += row.cpu_ns;
  into.flags |= row.flags;
  if (into.top_path == 0 || row.cpu_max_ns > into.cpu_max_ns) into.top_path = row.top_path;
  if (into.last_path == 0) {
    into.last_path = row.last_path;
    into.last_category = row.last_category;
  }
}

void ThreadTable::add(shard::Thread row) {
  if (row.count == 1 && single_.size() < most_) {
    single_.push_back(std::move(row));
    return;
  }
  const std::size_t most_alike = most_ / 4;
  row.name = without_numbers(row.name);
  const auto is_like = [&row](const shard::Thread& other) {
    return other.kind == row.kind && other.path == row.path && other.name == row.name;
  };
  auto found = std::find_if(alike_.begin(), alike_.end(), is_like);
  if (found == alike_.end() && alike_.size() >= most_alike) {
    row.kind = shard::ThreadKind::kNative;
    row.path = 0;
    row.name.clear();
    found = std::find_if(alike_.begin(), alike_.end(), is_like);
  }
  if (found == alike_.end()) {
    alike_.push_back(std::move(row));
    return;
  }
  const bool found_runs = (found->flags & shard::Thread::kRuns) != 0;
  if ((row.flags & shard::Thread::kRuns) == 0) {
    if (!found_runs) found->unmoved_ns = found->unmoved_cpu_ns = 0;
  } else if (found_runs) {
    found->unmoved_ns = std::min(found->unmoved_ns, row.unmoved_ns);
    found->unmoved_cpu_ns = std::max(found->unmoved_cpu_ns, row.unmoved_cpu_ns);
  } else {
    found->unmoved_ns = row.unmoved_ns;
    found->unmoved_cpu_ns = row.unmoved_cpu_ns;
  }
  join(*found, row);
  found->count += row.count;
  found->cpu_min_ns = std::min(found->cpu_min_ns, row.cpu_min_ns);
  found->cpu_max_ns = std::max(found->cpu_max_ns, row.cpu_max_ns);
}

void ThreadTable::add(const ThreadTable& other) {
  for (const auto* rows : {&other.single_, &other.alike_})
    for (const shard::Thread& row : *rows) add(row);
}

void ThreadTable::join_main_threads() {
  const auto is_main = [](const shard::Thread& row) { return row.kind == shard::ThreadKind::kMain; };
  const auto first = std::find_if(single_.begin(), single_.end(), is_main);
  if (first == single_.end()) return;
  const auto is_same = [&](const shard::Thread& row) { return is_main(row) && row.tid == first->tid; };
  for (auto at = std::find_if(first + 1, single_.end(), is_same); at != single_.end();
       at = std::find_if(at, single_.end(), is_same)) {
    const shard::Thread& later = end_of(*first) < end_of(*at) ? *at : *first;
    if (later.last_path != 0) {
      first->last_path = later.last_path;
      first->last_category = later.last_category;
    }
    first->unmoved_ns = later.unmoved_ns;
    first->unmoved_cpu_ns = later.unmoved_cpu_ns;
    join(*first, *at);
    first->cpu_min_ns = first->cpu_max_ns = first->cpu_ns;
    at = single_.erase(at);
  }
}

std::vector<shard::Thread> ThreadTable::rows() const {
  std::vector<shard::Thread> all = single_;
  all.insert(all.end(), alike_.begin(), alike_.end());
  std::sort(all.begin(), all.end(), [](const shard::Thread& a, const shard::Thread& b) {
    return std::tuple(a.start_utc_ns, a.tid, a.pid, a.kind, a.name) <
           std::tuple(b.start_utc_ns, b.tid, b.pid, b.kind, b.name);
  });
  return all;
}

std::vector<shard::Thread> ThreadTable::rows(std::size_t most) const {
  ThreadTable fewer(most);
  for (const shard::Thread& row : rows()) fewer.add(row);
  return fewer.rows();
}

}  // namespace clusterprof::collector
