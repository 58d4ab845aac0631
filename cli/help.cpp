// SPDX-License-Identifier: BSD-3-Clause
#include "cli/help.hpp"

#include <unistd.h>

namespace clusterprof::cli {

std::string find_manual_page(const InstallLayout& layout, const std::string& topic) {
  if (topic.find('/') != std::string::npos) return {};
  const std::string prefix = layout.prefix();
  for (const char* section : {"1", "5", "7"}) {
    for (const char* compressed : {"", ".gz"}) {
      const std::string page = prefix + "/share/man/man" + section + "/clusterprof" +
                               (topic.empty() ? "" : "-" + topic) + "." + section + compressed;
      if (::access(page.c_str(), R_OK) == 0) return page;
    }
  }
  return {};
}

}  // namespace clusterprof::cli
