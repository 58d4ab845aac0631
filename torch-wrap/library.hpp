// SPDX-License-Identifier: BSD-3-Clause
// The libtorch that the program has loaded.
#pragma once

namespace clusterprof::torch_wrap {

// A symbol of it; null if it is not there, or no libtorch is loaded.
void* library_symbol(const char* name) noexcept;

// Its release if it is one that we know, else null.
const char* known_release() noexcept;

}  // namespace clusterprof::torch_wrap
