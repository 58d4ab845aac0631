// SPDX-License-Identifier: BSD-3-Clause
// The time of a process's asyncio tasks, by what ran in them and who awaited it (an "async stack": the frames
// of the task below those of the coroutines and tasks that await it) and by the task's name. Every time that
// is charged to a sample of a task is charged here, too. Bounded. Only the thread that polls the process may
// call this.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/charge/amounts.hpp"

namespace clusterprof::collector {

struct RawTaskKey {
  std::uint32_t path = 0;
  std::uint32_t task_path = 0;  // of the task's outermost coroutine: `path` or above it
  std::string name;             // of the task; empty: it has none of its own
  friend auto operator<=>(const RawTaskKey&, const RawTaskKey&) = default;
};
using RawTasks = std::map<RawTaskKey, RawAmount>;

class TaskTimes {
 public:
  // Further paths share a row without path and name. Of further names the numbers are left out, and of still
  // further ones the whole name.
  static constexpr std::size_t kMostRows = 4096, kMostNames = 256;

  // `name`: as the interpreter has it. What it calls tasks that have no name ("Task-7") is none.
  std::uint32_t row(std::uint32_t path, std::uint32_t task_path, std::string_view name);
  void add(std::uint32_t row, std::uint64_t wall_ns, std::uint64_t cpu_ns) noexcept {
    rows_[row].second.add({wall_ns, cpu_ns, 0});
  }
  void add_sample(std::uint32_t row) noexcept { ++rows_[row].second.samples; }
  [[nodiscard]] const RawTaskKey& key(std::uint32_t row) const noexcept { return rows_[row].first; }
  [[nodiscard]] RawTasks amounts() const;

 private:
  std::string short_name(std::string_view name);

  std::vector<std::pair<RawTaskKey, RawAmount>> rows_;
  std::map<RawTaskKey, std::uint32_t> index_;
  std::set<std::string, std::less<>> names_, patterns_;
};

// While there are more rows than `most`, the smaller ones are charged to their callers within the task; where
// that is not enough, to the task without its name, and then to what has no path.
template <typename ParentOf>
void limit_tasks(RawTasks& tasks, std::size_t most, const ParentOf& parent_of) {
  enum class Step : std::uint8_t { kCaller, kName, kAll };
  const auto next_step = [](const RawTaskKey& key) {
    if (key.path != key.task_path && key.path != 0) return Step::kCaller;
    return key.name.empty() ? Step::kAll : Step::kName;
  };
  most = std::max<std::size_t>(most, 1);
  while (tasks.size() > most) {
    std::vector<RawTasks::const_iterator> by_time;
    for (auto task = tasks.cbegin(); task != tasks.cend(); ++task) by_time.push_back(task);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](const auto& a, const auto& b) { return a->second.wall_ns > b->second.wall_ns; });
    Step step = Step::kAll;
    for (std::size_t i = most / 2; i < by_time.size(); ++i)
      step = std::min(step, next_step(by_time[i]->first));
    RawTasks fewer;
    for (std::size_t i = 0; i < by_time.size(); ++i) {
      RawTaskKey key = by_time[i]->first;
      if (i >= most / 2 && next_step(key) == step) {
        if (step == Step::kCaller)
          key.path = parent_of(key.path);
        else if (step == Step::kName)
          key.name.clear();
        else
          key = {};
      }
      fewer[key].add(by_time[i]->second);
    }
    tasks = std::move(fewer);
  }
}

}  // namespace clusterprof::collector
