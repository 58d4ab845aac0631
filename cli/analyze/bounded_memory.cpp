// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/bounded_memory.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/analyze/output.hpp"

namespace clusterprof::cli {
namespace {

std::string g_line;
std::uint64_t g_bound_bytes = UINT64_MAX;

// What RLIMIT_DATA bounds; 0: not known. What has been freed is kept (keep_freed_memory), and counts.
std::uint64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "VmData:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

void end_with_line(int) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, g_line.data(), g_line.size());
  ::_exit(kOk);
}

// HDF5 calls exit(-1) where its tables of identifiers cannot grow.
void end_with_line_after_library(int status, void*) {
  if (status == -1) end_with_line(0);
}

}  // namespace

bool bound_memory(std::uint64_t bytes, const std::string& text) {
  rlimit limit{};
  if (bytes < kLeastBound_bytes || ::getrlimit(RLIMIT_DATA, &limit) != 0) return false;
  g_line = "clusterprof: " + text + "\n";
  if (::on_exit(end_with_line_after_library, nullptr) != 0) return false;
  // AddressSanitizer reserves address space that is never used.
  if (data_bytes() >= bytes) return true;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, bytes);
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) return false;
  g_bound_bytes = bytes;
  struct sigaction action {};
  action.sa_handler = end_with_line;
  for (const int number : {SIGSEGV, SIGABRT}) ::sigaction(number, &action, nullptr);
  return true;
}

bool has_come_near_bound() { return data_bytes() >= g_bound_bytes / 2; }

}  // namespace clusterprof::cli
