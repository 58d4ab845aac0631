// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "formats/profile/gains.hpp"
#include "formats/profile/node_matrix.hpp"
#include "formats/profile/path_statistics.hpp"
#include "formats/profile/source.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// Writes a profile piece by piece, so only the head and one block are in memory. The file gets its name when
// finish() succeeds, with the guarantees of shard::write_shard(); a writer that is destroyed earlier leaves
// nothing behind. Not thread-safe. After an error, only the destructor may be called.
class ProfileWriter {
 public:
  [[nodiscard]] static Result<ProfileWriter> create(const std::filesystem::path& path);
  ProfileWriter(ProfileWriter&&) noexcept;
  ProfileWriter& operator=(ProfileWriter&&) noexcept;
  ~ProfileWriter();

  // Call it in ascending order of nodes. Nodes without rows may be left out.
  [[nodiscard]] Result<void> add(const EncodedBlock& block);

  struct Rest {
    const shard::ShardData& head;
    const PathStatisticsTable& statistics;  // of head.paths
    std::span<const Source> sources;
    // Returns what report::encode() made of the analysis, or nothing. May be empty itself. Called after
    // everything else is written.
    std::function<std::vector<std::byte>()> report;
    // Called after `report`. May be empty itself.
    std::function<std::optional<Gains>()> gains{};
  };
  [[nodiscard]] Result<void> finish(const Rest& rest);

 private:
  struct State;
  explicit ProfileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes data that is in memory all at once.
Result<void> write_profile(const shard::ShardData& merged, const std::filesystem::path& path,
                           const std::vector<Source>& sources = {});

}  // namespace clusterprof::profile
