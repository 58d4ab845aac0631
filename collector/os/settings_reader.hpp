// SPDX-License-Identifier: BSD-3-Clause
// Reads what a run was made with on a thread of its own: repositories and programs may lie on a file system
// that does not answer, and shards are to be written all the same.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "collector/os/settings.hpp"

namespace clusterprof::collector {

class SettingsReader {
 public:
  using Read = std::function<std::vector<shard::Setting>(const SettingsSource&)>;
  // How long after the first call of get() the settings are waited for: less than the end of a job waits for
  // its shards.
  static constexpr std::chrono::seconds kPatience{2};

  explicit SettingsReader(Read read = read_settings, std::chrono::nanoseconds patience = kPatience)
      : read_(std::move(read)), patience_(patience) {}

  // Empty as long as they are not known. All calls have the same source; null: none are looked for. One
  // thread at a time.
  std::vector<shard::Setting> get(const std::shared_ptr<const SettingsSource>& source);

 private:
  const Read read_;
  const std::chrono::nanoseconds patience_;
  std::shared_future<std::vector<shard::Setting>> result_;  // once there is a thread
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace clusterprof::collector
