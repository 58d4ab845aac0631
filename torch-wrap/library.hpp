// SPDX-License-Identifier: BSD-3-Clause
// The libtorch that the program has loaded.
#pragma once

namespace clusterprof::torch_wrap {

// A symbol of it; null if it is not there, or no libtorch is loaded.
void* library_symbol(const char* name) noexcept;

// Whether its objects are laid out in a way that we know, and its calls lead to us. Then layout() is known.
bool recognise_library() noexcept;

}  // namespace clusterprof::torch_wrap
