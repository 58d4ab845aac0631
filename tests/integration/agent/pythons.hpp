// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <glob.h>

#include <cstdlib>
#include <string>

namespace clusterprof::agent_test {

// `version`: "system", or the beginning of a version that pyenv has. Empty: there is none.
inline std::string find_python(const std::string& version) {
  if (version == "system") return CLUSTERPROF_TEST_PYTHON;
  const char* const home = std::getenv("HOME");
  glob_t found = {};
  const std::string pattern =
      std::string(home == nullptr ? "" : home) + "/.pyenv/versions/" + version + ".*/bin/python3";
  const bool exists = glob(pattern.c_str(), 0, nullptr, &found) == 0;
  const std::string path = exists ? found.gl_pathv[0] : "";
  globfree(&found);
  return path;
}

}  // namespace clusterprof::agent_test
