// SPDX-License-Identifier: BSD-3-Clause
// A shard that is written again and again while its node records: one file with room for two copies, which
// are written in turn, so that one of them is whole at any moment. Rewriting takes no operation on a
// directory: nothing is created, renamed or removed (docs/design/0011, FORMATS.md).
//
// A copy is a header of 512 bytes and an HDF5 file behind it. The first copy begins at 0, the second so that
// its HDF5 file begins at a power of two. There, HDF5 looks for files by itself and opens the first that it
// finds. So of two copies, the signature of the lower one is blank while the higher one is newer, and any
// program that uses HDF5 can read the file, too. Our own readers do not rely on that: they look at both
// headers and take the newest copy whose checksum is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof::shard {

// The newest whole copy in a file of copies that is still being written, or whose writer was killed. nullopt:
// HDF5 can open the file as it is, because it has no copies or a last one. Throws H5Error if no copy is
// whole.
std::optional<std::vector<std::byte>> read_newest_copy(const std::filesystem::path& path);

// Writes the copies. One thread at a time.
class TwoCopies {
 public:
  // The file is `path`. It gets that name with its first whole copy; until then its name is `unnamed`. `fd`:
  // that file, open for reading and writing, if it exists already. Both names are the caller's alone.
  // `makes_files`: where the file is removed, another one is made; otherwise writing fails from then on.
  TwoCopies(std::filesystem::path path, std::filesystem::path unnamed, UniqueFd fd = {},
            bool makes_files = true);

  TwoCopies(TwoCopies&&) noexcept = default;
  TwoCopies& operator=(TwoCopies&&) = delete;
  // Removes a file that it made and that has no name yet.
  ~TwoCopies();

  // Writes a copy of `image` and flushes it to disk (fdatasync). After an Error the file has the copies that
  // it had before, unless it was removed. `last`: no other follows. The file then has this copy alone.
  Result<void> write(std::span<const std::byte> image, bool last);

  // Whether the file has its name, with a copy in it.
  [[nodiscard]] bool has_copy() const { return current_.has_value(); }
  // Lets go of the file: the next copy goes to a new one.
  void forget();

 private:
  struct Copy {
    std::uint64_t place = 0, end = 0;
  };

  Result<void> open(bool last);
  Result<void> write_copy(std::uint64_t place, std::span<const std::byte> image, bool last);
  Result<void> give_name();
  [[nodiscard]] std::uint64_t place_beside_current(std::uint64_t image_bytes) const;
  void reserve_second();
  [[nodiscard]] Error failed() const;

  std::filesystem::path path_, unnamed_;
  UniqueFd fd_;
  std::optional<Copy> current_;  // the newest whole copy
  std::uint64_t second_place_ = 0;
  std::uint64_t file_bytes_ = 0;  // if it was made longer than the copies need
  std::uint64_t sequence_ = 0;
  bool made_unnamed_ = false;
  bool makes_files_ = true;
};

}  // namespace clusterprof::shard
