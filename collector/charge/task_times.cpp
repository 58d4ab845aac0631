// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/task_times.hpp"

#include "base/thread_pools.hpp"

namespace clusterprof::collector {
namespace {

// What asyncio calls a task that the program has given no name.
bool is_numbered(std::string_view name) {
  constexpr std::string_view kPrefix = "Task-";
  return name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

}  // namespace

std::string TaskTimes::short_name(std::string_view name) {
  if (is_numbered(name)) return {};
  if (names_.contains(name)) return std::string(name);
  if (names_.size() < kMostNames) return *names_.emplace(name).first;
  const std::string pattern = without_numbers(name);
  if (patterns_.contains(pattern)) return pattern;
  return patterns_.size() < kMostNames ? *patterns_.insert(pattern).first : std::string();
}

std::uint32_t TaskTimes::row(std::uint32_t path, std::uint32_t task_path, std::string_view name) {
  RawTaskKey key{path, task_path, short_name(name)};
  if (const auto found = index_.find(key); found != index_.end()) return found->second;
  if (rows_.size() >= kMostRows) {
    key = {};
    if (const auto found = index_.find(key); found != index_.end()) return found->second;
  }
  const auto row = static_cast<std::uint32_t>(rows_.size());
  rows_.emplace_back(key, RawAmount{});
  index_.emplace(std::move(key), row);
  return row;
}

RawTasks TaskTimes::amounts() const {
  RawTasks tasks;
  for (const auto& [key, amount] : rows_) tasks.emplace(key, amount);
  return tasks;
}

}  // namespace clusterprof::collector
