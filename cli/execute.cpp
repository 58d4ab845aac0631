// SPDX-License-Identifier: BSD-3-Clause
#include "cli/execute.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cli/message.hpp"

namespace clusterprof::cli {
namespace {

constexpr const char* kTunables = "GLIBC_TUNABLES";

}  // namespace

std::string tunables_with_huge_pages(const Environment& environment) {
  constexpr std::string_view kHugePages = "glibc.malloc.hugetlb";
  const char* const value = environment(kTunables);
  std::string tunables = value == nullptr ? "" : value;
  if (tunables.find(kHugePages) != std::string::npos) return {};
  if (!tunables.empty()) tunables += ':';
  return tunables.append(kHugePages).append("=1");
}

int execute(const std::string& program, char* const* arguments) {
  ::execv(program.c_str(), arguments);
  say(program + ": " + std::strerror(errno));
  return kExitFailed;
}

int execute_reader(const std::string& program, char* const* arguments) {
  const std::string tunables = tunables_with_huge_pages(process_environment());
  if (!tunables.empty()) ::setenv(kTunables, tunables.c_str(), 1);
  return execute(program, arguments);
}

}  // namespace clusterprof::cli
