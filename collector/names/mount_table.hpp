// SPDX-License-Identifier: BSD-3-Clause
// Which file system a file is on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof::collector {

class MountTable {
 public:
  MountTable() = default;
  // The content of a /proc/PID/mountinfo. Lines that are no such are left out.
  explicit MountTable(std::string_view mountinfo);

  // "ext4 /home": type and mount point. By device (st_dev) the mount point that is the longest beginning of
  // the path; some file systems give their files devices that no mount has: then by the path alone, if the
  // type that statfs told (`magic`, 0 not known) does not contradict. Empty: not known.
  [[nodiscard]] std::string file_system(std::string_view path, std::uint64_t device,
                                        std::uint64_t magic) const;

 private:
  struct Mount {
    std::uint64_t device;
    std::string point, type;
  };
  std::vector<Mount> mounts_;  // of the same mount point, the last one counts
};

}  // namespace clusterprof::collector
