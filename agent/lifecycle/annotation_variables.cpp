// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/annotation_variables.h"

#include <link.h>

#include <cstdlib>
#include <cstring>

#include "formats/wire/hello.h"

namespace clusterprof::agent {
namespace {

constexpr const char* kOldVariable = wire::kAnnotationVariables[wire::kAnnotationsOfOldKokkos];
constexpr const char* kNewVariable = wire::kAnnotationVariables[wire::kAnnotationsOfOldKokkos - 1];

bool is_agent(const char* path) noexcept {
  const char* const slash = strrchr(path, '/');
  return strcmp(slash != nullptr ? slash + 1 : path, wire::kAgentFile) == 0;
}

// Whether one of the object's parts that cannot be written to has the text.
bool has_text(const dl_phdr_info& object, const char* text) noexcept {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_R) == 0 || (part.p_flags & PF_W) != 0) continue;
    if (memmem(reinterpret_cast<const void*>(object.dlpi_addr + part.p_vaddr), part.p_filesz, text,
               strlen(text)) != nullptr)
      return true;
  }
  return false;
}

int is_old_kokkos(dl_phdr_info* object, std::size_t, void*) {
  if (object->dlpi_name == nullptr || strstr(object->dlpi_name, "kokkoscore") == nullptr) return 0;
  return has_text(*object, kOldVariable) && !has_text(*object, kNewVariable) ? 1 : 0;
}

}  // namespace

std::uint32_t annotations_elsewhere() noexcept {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < sizeof wire::kAnnotationVariables / sizeof *wire::kAnnotationVariables; ++i) {
    const char* const library = getenv(wire::kAnnotationVariables[i]);
    if (library != nullptr && *library != 0 && !is_agent(library)) bits |= 1u << i;
  }
  return bits;
}

void name_library_for_old_kokkos() noexcept {
  const char* const agent = getenv(kNewVariable);
  if (agent == nullptr || !is_agent(agent) || getenv(kOldVariable) != nullptr) return;
  if (dl_iterate_phdr(is_old_kokkos, nullptr) != 0) setenv(kOldVariable, agent, 0);
}

}  // namespace clusterprof::agent
