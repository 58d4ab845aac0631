// SPDX-License-Identifier: BSD-3-Clause
// Libraries in which a thread waits for a device, such as a GPU.
#pragma once

#include <string_view>

namespace clusterprof {

// What their files' names begin with.
inline constexpr std::string_view kDeviceLibraries[] = {"libcuda.",     "libcudart",       "libnccl",
                                                        "libamdhip",    "libhsa-runtime",  "librccl",
                                                        "libze_loader", "libze_intel_gpu", "libOpenCL"};

constexpr bool is_device_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view library : kDeviceLibraries)
    if (name.starts_with(library)) return true;
  return false;
}

}  // namespace clusterprof
