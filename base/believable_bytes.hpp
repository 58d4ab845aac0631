// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace clusterprof {

// How much of a part of a file its reader may keep in memory: all of it, but not much more than what was
// written there. A hole costs nothing, so a small file from elsewhere can claim any size. Moves the file's
// offset.
inline std::uint64_t believable_bytes(int fd, std::uint64_t begin, std::uint64_t bytes) {
  constexpr std::uint64_t kAnyway = 1 << 20;
  // File systems that compress make holes of zeros.
  constexpr std::uint64_t kMostZeros = 16;
  if (bytes <= kAnyway) return bytes;
  const std::uint64_t end = begin + bytes, enough = bytes / kMostZeros + 1;
  std::uint64_t written = 0;
  for (std::uint64_t at = begin; at < end && written < enough;) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // there is none behind it
    const off_t hole = data < 0 ? data : ::lseek(fd, data, SEEK_HOLE);
    if (hole < 0) return bytes;  // this file system does not tell
    const std::uint64_t from = std::min<std::uint64_t>(static_cast<std::uint64_t>(data), end);
    at = static_cast<std::uint64_t>(hole);
    written += std::min(at, end) - from;
  }
  return written >= enough ? bytes : std::max(kAnyway, written * kMostZeros);
}

}  // namespace clusterprof
