// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/debug_files.hpp"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace clusterprof::collector {

UniqueFd memory_file(const char* name, const void* content, std::size_t bytes) {
  UniqueFd file(memfd_create(name, MFD_CLOEXEC));
  if (!file) return {};
  const auto* from = static_cast<const char*>(content);
  for (std::size_t left = bytes; left > 0;) {
    const ssize_t written = ::write(file.get(), from, left);
    if (written <= 0) return {};
    from += written;
    left -= static_cast<std::size_t>(written);
  }
  return file;
}

UniqueFd vdso_file() {
  errno = 0;
  const unsigned long base = getauxval(AT_SYSINFO_EHDR);
  if (base == 0) return {};
  std::ifstream maps("/proc/self/maps");
  std::uint64_t end = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    const std::size_t dash = line.find('-');
    const std::size_t blank = line.find(' ');
    if (dash == std::string::npos || blank == std::string::npos || blank < dash) continue;
    const char* const text = line.data();
    std::from_chars(text, text + dash, low, 16);
    std::from_chars(text + dash + 1, text + blank, high, 16);
    if (low == base) end = high;
  }
  if (end <= base) return {};
  return memory_file("vdso", reinterpret_cast<const void*>(base), end - base);
}

bool is_c_library(const std::string& file_name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "libc.so.", "libc-2.", "ld-linux", "ld-2.", "libm.so.", "libm-2.", "libpthread.so.", "libpthread-2."};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return file_name.starts_with(name); });
}

// As dwfl_standard_find_debuginfo, which would load the client of debuginfod and some 30 more libraries to
// look for a file that is not here. So it is called only if there is a file that it may find.
int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base,
                    const char* file, const char* debug_link, GElf_Word checksum, char** found) {
  const int by_build_id =
      dwfl_build_id_find_debuginfo(module, user_data, name, base, file, debug_link, checksum, found);
  if (by_build_id >= 0 || file == nullptr) return by_build_id;
  std::error_code error;
  const std::filesystem::path given(file), real = std::filesystem::canonical(given, error);
  const std::string base_name = given.filename().string();
  const std::string link = debug_link != nullptr ? debug_link : base_name + ".debug";
  const auto is_there = [](const std::filesystem::path& path) { return ::access(path.c_str(), R_OK) == 0; };
  for (const std::filesystem::path& of : {given, real}) {
    const std::filesystem::path directory = of.parent_path();
    if (directory.empty()) continue;
    const std::filesystem::path debug = "/usr/lib/debug" / directory.relative_path();
    if (is_there(directory / link) || is_there(directory / ".debug" / link) || is_there(debug / link) ||
        is_there(debug / base_name) || is_there(std::filesystem::path("/usr/lib/debug") / link))
      return dwfl_standard_find_debuginfo(module, user_data, name, base, file, debug_link, checksum, found);
  }
  return -1;
}

}  // namespace clusterprof::collector
