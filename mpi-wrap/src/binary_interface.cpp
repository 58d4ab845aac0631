// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/binary_interface.hpp"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <initializer_list>

#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/object_name.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// The object's soname, or its file name if it has none.
const char* soname_of(const link_map& object) noexcept {
  const char* strings = nullptr;
  const ElfW(Dyn)* soname = nullptr;
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) soname = entry;
  }
  if (strings == nullptr || soname == nullptr) return base_name(object.l_name);
  return strings + soname->d_un.d_val;
}

bool is_standard_library(const char* name) noexcept {
  return starts_with(name, "libmpi_abi") || starts_with(name, "libpmpi_abi");
}

// The version of the MPI standard's interface (MPI 5.0, chapter 20) that the library has; -1: a draft of it;
// 0: it has another interface. Libraries offer it beside their own: variables and the name in the version
// string are the same, but handles, constants and statuses differ.
int standard_interface(void* library) noexcept {
  using GetVersion = int (*)(int*, int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "PMPI_Abi_get_version"));
  int major = -1, minor = -1;  // what it says of any other interface
  if (get_version != nullptr && get_version(&major, &minor) == MPI_SUCCESS && major >= 1) return major;
  // Libraries of that name from before the standard have constants of their own.
  Dl_info info;
  link_map* object = nullptr;
  void* const init = dlsym(library, "PMPI_Init");
  const bool is_named =
      init != nullptr && dladdr1(init, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) != 0 &&
      object != nullptr &&
      (is_standard_library(soname_of(*object)) || is_standard_library(base_name(object->l_name)));
  return is_named ? -1 : 0;
}

// What MPI_Get_library_version says; null when there is no such function. Libraries write at most
// MPI_MAX_LIBRARY_VERSION_STRING bytes: 8192 in the MPICH family and in the standard.
const char* version_text(void* library) noexcept {
  const auto get_version = reinterpret_cast<int (*)(char*, int*)>(dlsym(library, "PMPI_Get_library_version"));
  static char text[8192];
  int length = 0;
  if (get_version == nullptr || get_version(text, &length) != 0) return nullptr;
  text[sizeof(text) - 1] = '\0';
  return text;
}

}  // namespace

#if CLUSTERPROF_MPI_STANDARD

bool library_is_open_mpi;

bool library_has_our_interface(void* library) noexcept {
  if (standard_interface(library) != MPI_ABI_VERSION) return false;
  const char* const text = version_text(library);
  library_is_open_mpi = text != nullptr && strstr(text, "Open MPI") != nullptr;
  return true;
}

#else

bool library_has_our_interface(void* library) noexcept {
  if (standard_interface(library) != 0) return false;
  const bool open_mpi = dlsym(library, "ompi_mpi_comm_world") != nullptr;
  if constexpr (CLUSTERPROF_MPI_OPENMPI) return open_mpi;
  if (open_mpi) return false;
  const char* const text = version_text(library);
  if (text == nullptr) return false;
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (strstr(text, name) != nullptr) return true;
  }
  return false;
}

#endif

}  // namespace clusterprof::mpi_wrap
