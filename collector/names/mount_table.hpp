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
  // The content of a /proc/PID/mountinfo. Lines that cannot be parsed are ignored.
  explicit MountTable(std::string_view mountinfo);

  // Type and mount point, "ext4 /home". Chooses the longest mount point of the device (st_dev) that the path
  // begins with. Some file systems give files a device that no mount has: then the path alone decides, unless
  // the type that statfs told (`magic`, 0: not known) contradicts. Empty: not known.
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
