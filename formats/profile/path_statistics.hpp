// SPDX-License-Identifier: BSD-3-Clause
// Statistics over ranks of the time spent on a call path. FORMATS.md, tables path_statistics and
// path_quantiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// Sums of squares are exact: they do not fit into 64 bits, and floating point sums would depend on the order.
__extension__ using Squares = unsigned __int128;

// Over the ranks that have the path; wall time of all threads of a rank together.
struct Spread {
  std::uint64_t sum_ns = 0, min_ns = 0, max_ns = 0;
  std::int32_t min_rank = 0, max_rank = 0;  // world ranks; the lowest of several
  Squares sum_squares_ns2 = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

struct PathStatistics {
  std::uint32_t ranks = 0;  // with a value on the path or below it; 0: all else is 0
  Spread inclusive, exclusive;
  friend bool operator==(const PathStatistics&, const PathStatistics&) = default;
};

// Quantile sketch: how many ranks have a time in each bin of a logarithmic scale. Bin 0: 0 ns; bin b > 0:
// times from lower_ns(b) up to, not including, lower_ns(b + 1), which is 2^(1/8) times as much, but for
// rounding.
struct QuantileBin {
  std::uint32_t path = 0;  // row of paths
  bool exclusive = false;
  std::uint16_t bin = 0;
  std::uint32_t ranks = 0;
  friend bool operator==(const QuantileBin&, const QuantileBin&) = default;
};
std::uint16_t quantile_bin(std::uint64_t time_ns);
std::uint64_t quantile_bin_lower_ns(std::uint16_t bin);

struct PathStatisticsTable {
  std::vector<PathStatistics> paths;       // one entry per path
  std::vector<QuantileBin> quantile_bins;  // by path, inclusive first, bin; none without ranks
  friend bool operator==(const PathStatisticsTable&, const PathStatisticsTable&) = default;

  // A quantile: `share` (0 to 1) of the ranks that have the path have at most this time. It is the middle of
  // a bin, at most 5 % wrong, and within the minimum and maximum of the ranks. Empty if no rank has the path.
  [[nodiscard]] std::optional<double> quantile_ns(std::uint32_t path, bool exclusive, double share) const;
};

// Adds up ranks one at a time. The result depends neither on their order nor on how they are divided among
// builders that are united afterwards. Parents must come before their children; paths in preorder are faster.
// Memory grows with paths, not with ranks.
class PathStatisticsBuilder {
 public:
  explicit PathStatisticsBuilder(const std::vector<shard::Path>& paths);
  ~PathStatisticsBuilder();
  PathStatisticsBuilder(PathStatisticsBuilder&&) noexcept;
  PathStatisticsBuilder& operator=(PathStatisticsBuilder&&) noexcept;

  // Call it once for each rank. Fastest if `values` are sorted by path. A rank without values does not count.
  void add(std::int32_t world_rank, std::span<const shard::Value> values);
  // Adds the result of another builder for the same paths, perhaps of another process.
  void absorb(const PathStatisticsTable& other);
  [[nodiscard]] PathStatisticsTable finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Plain bytes that can be sent to another process of the same program.
std::vector<std::byte> to_bytes(const PathStatisticsTable& table);
Result<PathStatisticsTable> from_bytes(std::span<const std::byte> bytes);

// The statistics of data in memory, which must be valid. Its tables may be in any order.
PathStatisticsTable path_statistics(const shard::ShardData& data);

}  // namespace clusterprof::profile
