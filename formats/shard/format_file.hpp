// SPDX-License-Identifier: BSD-3-Clause
// Files of our formats: their names and versions, and how a file is written and opened. Internal to formats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "formats/h5/h5.hpp"

namespace clusterprof::shard {

inline constexpr const char* kShardFormat = "clusterprof-shard";
inline constexpr const char* kProfileFormat = "clusterprof-profile";

// The versions that we write, which are also the only ones that we read.
inline constexpr std::uint32_t kFormatMajor = 2, kFormatMinor = 14;  // of shards
inline constexpr std::uint32_t kProfileMajor = 3, kProfileMinor = 16;

// A file that is being written under a temporary name. finish() gives it its final name atomically; if it is
// destroyed before that, nothing is left behind. While a profile is being written it is locked (flock,
// shared): a temporary file without a lock was left by a process that was killed.
class NewFile {
 public:
  // Writes the attributes for the format and its version.
  [[nodiscard]] static Result<NewFile> create(const std::filesystem::path& path, const char* format);
  NewFile(NewFile&&) noexcept;
  NewFile& operator=(NewFile&&) noexcept;
  ~NewFile();

  // Runs `fill`. If it throws H5Error or runs out of memory, returns an Error that begins with the path. May
  // be called several times. Groups and columns that `fill` makes may be kept until finish().
  [[nodiscard]] Result<void> write(const std::function<void(h5::Group& root)>& fill);
  [[nodiscard]] Result<void> finish();

 private:
  struct State;
  explicit NewFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Creates the file, fills it, and finishes it.
Result<void> write_file(const std::filesystem::path& path, const char* format,
                        const std::function<void(h5::Group& root)>& fill);

// The bytes of such a file, which is made in memory. `path` is for the Error alone.
Result<std::vector<std::byte>> image_of_file(const std::filesystem::path& path, const char* format,
                                             const std::function<void(h5::Group& root)>& fill);

// Opens a file. Refuses it unless it has this format and the version above.
Result<h5::File> open_file(const std::filesystem::path& path, const char* format);

// Runs `use`, which reads the file `path`. What `use` throws becomes an Error of one line that begins with
// the path.
Result<void> reading(const std::filesystem::path& path, const std::function<void()>& use);

// Opens the file and runs `use` on it.
Result<void> read_file(const std::filesystem::path& path, const char* format,
                       const std::function<void(const h5::Group& root)>& use);

}  // namespace clusterprof::shard
