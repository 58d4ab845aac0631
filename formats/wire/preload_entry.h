// SPDX-License-Identifier: BSD-3-Clause
// How LD_PRELOAD names our preload objects: with a token of ld.so(8) in front of the file's name,
// PREFIX/lib/clusterprof/$LIB/libclusterprof_agent.so. glibc replaces it by the name of a directory, where
// there is a link to the object. musl does not, and goes on without an object that it cannot open, where it
// would end the program for one that it cannot use (docs/design/0014-other-c-libraries.md).
#pragma once

#include <string.h>

namespace clusterprof::wire {

inline constexpr char kLibraryToken[] = "$LIB/";
inline constexpr size_t kLibraryTokenBytes = sizeof kLibraryToken - 1;

// What the token stands for: in Fedora, RHEL, SUSE and Gentoo; in Arch and for glibc built into a prefix of
// its own; in Debian and Ubuntu; where only the path of libraries is as in Debian. `make` leaves the last one
// of a $(LD_PRELOAD) in a rule. cmake/Clusterprof.cmake makes the links.
inline constexpr const char* kLibraryDirectories[] = {"lib64", "lib", "lib/x86_64-linux-gnu",
                                                      "x86_64-linux-gnu", "IB"};

// What replaces the token is fixed when glibc is built. This loader is part of a distribution; another one
// may have been built by anybody, in any way.
inline constexpr char kUsualLoader[] = "/lib64/ld-linux-x86-64.so.2";

// Whether this entry names `object`, an absolute path: as it is, with the token, or with what is left of the
// token after a shell has taken it for a variable that is not set.
inline bool is_entry_of(const char* entry, size_t length, const char* object) noexcept {
  const size_t object_length = strlen(object);
  const char* const slash = strrchr(object, '/');
  const size_t directory = slash == nullptr ? 0 : static_cast<size_t>(slash - object) + 1;
  if (length < object_length || memcmp(entry, object, directory) != 0) return false;
  const char* const between = entry + directory;
  const size_t more = length - object_length;
  const bool is_known = more == 0 || (more == 1 && *between == '/') ||
                        (more == kLibraryTokenBytes && memcmp(between, kLibraryToken, more) == 0);
  return is_known && memcmp(between + more, object + directory, object_length - directory) == 0;
}

}  // namespace clusterprof::wire
