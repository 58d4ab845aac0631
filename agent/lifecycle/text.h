// SPDX-License-Identifier: BSD-3-Clause
// Texts in arrays of fixed size, truncated if they do not fit.
#pragma once

#include <cstddef>
#include <cstring>

namespace clusterprof::agent {

template <std::size_t kBytes>
void copy_text(char (&to)[kBytes], const char* from) noexcept {
  const std::size_t length = strnlen(from, kBytes - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

template <std::size_t kBytes>
void append_text(char (&to)[kBytes], const char* from) noexcept {
  const std::size_t used = strnlen(to, kBytes - 1), length = strnlen(from, kBytes - 1 - used);
  memcpy(to + used, from, length);
  to[used + length] = 0;
}

}  // namespace clusterprof::agent
