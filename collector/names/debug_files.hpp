// SPDX-License-Identifier: BSD-3-Clause
// Where object files and their separate debug files are. Nothing is asked from the network. No state: any
// thread.
#pragma once

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include <string>

#include "base/unique_fd.hpp"

namespace clusterprof::collector {

// A memory file with that content. Nothing for the reason in errno.
[[nodiscard]] UniqueFd memory_file(const char* name, const void* content, std::size_t bytes);

// A copy of this process's vdso in a memory file: every process of the node has the same. Nothing when there
// is none (errno 0), or for the reason in errno.
[[nodiscard]] UniqueFd vdso_file();

// Whether a file of that name is the C library or belongs to it: its debug information is not read. Users
// cannot change the C library, so its lines do not help them, and inflating them takes 40 ms at the end of
// every run.
[[nodiscard]] bool is_c_library(const std::string& file_name);

// Dwfl_Callbacks::find_debuginfo.
int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base,
                    const char* file, const char* debug_link, GElf_Word checksum, char** found);

}  // namespace clusterprof::collector
