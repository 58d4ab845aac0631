// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/settings_reader.hpp"

#include <exception>
#include <thread>
#include <utility>

namespace clusterprof::collector {

std::vector<shard::Setting> SettingsReader::get(const std::shared_ptr<const SettingsSource>& source) {
  if (!source) return {};
  try {
    if (!result_.valid()) {
      std::packaged_task<std::vector<shard::Setting>()> task(
          [read = read_, source] { return read(*source); });
      std::shared_future<std::vector<shard::Setting>> result = task.get_future().share();
      // It ends when the file system has answered, or with the process.
      std::thread(std::move(task)).detach();
      result_ = std::move(result);
      deadline_ = std::chrono::steady_clock::now() + patience_;
    }
    if (result_.wait_until(deadline_) == std::future_status::ready) return result_.get();
  } catch (const std::exception&) {  // no thread, which the next call tries again, or no memory
  }
  return {};
}

}  // namespace clusterprof::collector
