// SPDX-License-Identifier: BSD-3-Clause
// What shard and profile files have in common: the tables of ShardData, the version and the
// way a file comes to its name. Internal to formats/.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.hpp"
#include "formats/h5/h5.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

inline constexpr const char* kShardFormat = "clusterprof-shard";
inline constexpr const char* kProfileFormat = "clusterprof-profile";

// The versions that are written, and the only ones that are read.
inline constexpr std::uint32_t kFormatMajor = 2, kFormatMinor = 2;  // of shards
inline constexpr std::uint32_t kProfileMajor = 3, kProfileMinor = 3;

enum class Tables {
  kAll,
  kSummary,   // as read_shard_summary
  kPaths,     // these and strings, frames, paths, counters, matrix
  kHead,      // as read_shard_head
  kNoMatrix,  // all but values, path_counters, data_accesses
};

// Throw h5::H5Error. A table that is not written is not there at all.
void write_tables(h5::Group& root, const ShardData& data, Tables which = Tables::kAll);
[[nodiscard]] ShardData read_tables(const h5::Group& root, Tables which);

// The matrix tables of a shard. ranks: how many rows table ranks has.
[[nodiscard]] MatrixRows read_matrix(const h5::Group& root, std::size_t ranks);

// Says what is inconsistent in `data`: indices out of range, a child before its parent, a rank
// listed twice, an id that is not the hash of its path, a region inside a function, events or series that are
// out of order, a time axis that does not fit others'. Tables that were not read are consistent, but for
// those that others refer to.
Result<void> validate(const ShardData& data);

// The same for rows of the matrix tables alone, given how many rows those tables have that they refer to.
struct MatrixBounds {
  std::size_t ranks = 0, paths = 0, counters = 0;
};
Result<void> validate(const MatrixRows& rows, const MatrixBounds& bounds);

// A file on its way to its name: gets that in finish(), atomically. One that is destroyed before leaves
// nothing. A profile is locked until then (flock, shared), which tells it from what a killed process left.
class NewFile {
 public:
  // With the attributes of the format and its version.
  [[nodiscard]] static Result<NewFile> create(const std::filesystem::path& path, const char* format);
  NewFile(NewFile&&) noexcept;
  NewFile& operator=(NewFile&&) noexcept;
  ~NewFile();

  // Runs `fill`; an H5Error or lack of memory in it becomes an Error that begins with the path. May be called
  // several times. Groups and columns made in it may be kept until finish().
  [[nodiscard]] Result<void> write(const std::function<void(h5::Group& root)>& fill);
  [[nodiscard]] Result<void> finish();

 private:
  struct State;
  explicit NewFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// All of that at once.
Result<void> write_file(const std::filesystem::path& path, const char* format,
                        const std::function<void(h5::Group& root)>& fill);

// A file of that format, of the version above, open.
Result<h5::File> open_file(const std::filesystem::path& path, const char* format);

// Runs `use`, which reads the file of that name. Whatever goes wrong becomes one line that begins with the
// path.
Result<void> reading(const std::filesystem::path& path, const std::function<void()>& use);

// Both at once.
Result<void> read_file(const std::filesystem::path& path, const char* format,
                       const std::function<void(const h5::Group& root)>& use);

}  // namespace clusterprof::shard
