// SPDX-License-Identifier: BSD-3-Clause
#include "cli/message.hpp"

#include <unistd.h>

namespace clusterprof::cli {

void say(const std::string& text) {
  const std::string line = "clusterprof: " + text + "\n";
  // Nowhere to complain when stderr itself is gone.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace clusterprof::cli
