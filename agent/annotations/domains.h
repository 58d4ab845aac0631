// SPDX-License-Identifier: BSD-3-Clause
// Who names regions besides include/clusterprof.h: interfaces that programs use already (docs/regions.md).
#pragma once

#include <cstdint>

#include "agent/lifecycle/regions.h"

namespace clusterprof::agent {

// Where an interface has domains of its own, this is for what is in none. Others have hashes of their names.
inline constexpr RegionDomain kNvtx = {1, "NVTX"}, kItt = {2, "ITT"}, kKokkos = {3, "Kokkos"},
                              kPetsc = {4, "PETSc"}, kLikwid = {5, "LIKWID"}, kCaliper = {6, "Caliper"},
                              kRoctx = {7, "ROCTX"}, kTorch = {8, "PyTorch"},
                              kTorchRecordFunction = {9, "record_function"};
inline constexpr std::int64_t kNoNumber = -1;

// The same for the same name, for as long as the process runs. Where there are too many: `otherwise`.
const RegionDomain& domain_named(const char* name, const RegionDomain& otherwise) noexcept;

// A name that a program has registered; null: no memory. It stays.
struct KeptName {
  std::uint64_t hash;
  char text[wire::kRegionNameBytes];
  [[nodiscard]] RegionName name() const noexcept { return {text, hash}; }
};
KeptName* keep_name(const char* text) noexcept;

// As UTF-8, cut to what a region's name may have.
const char* narrow(const wchar_t* text, char (&to)[wire::kRegionNameBytes]) noexcept;

}  // namespace clusterprof::agent
