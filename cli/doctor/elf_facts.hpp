// SPDX-License-Identifier: BSD-3-Clause
// Reads facts on a 64-bit ELF file without loading it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// nullopt: the file cannot be read or is no 64-bit little-endian ELF file.
std::optional<ElfFacts> read_elf_facts(const std::string& path);

// The first four bytes of a symbol of the dynamic symbol table.
std::optional<std::uint32_t> read_exported_number(const std::string& path, const std::string& symbol);

}  // namespace clusterprof::cli::doctor
