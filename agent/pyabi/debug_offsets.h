// SPDX-License-Identifier: BSD-3-Clause
// CPython 3.13 and later describe their own layout in _Py_DebugOffsets, the first member of
// _PyRuntime. Its own layout changes with every minor version.
#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

enum class DebugOffsets : std::uint8_t {
  kOk,            // `layout` was updated
  kNoCookie,      // not a _Py_DebugOffsets, or of another version than version_hex says
  kFreeThreaded,  // a build without the GIL, and the layout is of one with it, or the other way round
  kOutOfBounds,   // a value that cannot be an offset
};

// Updates the compiled-in `layout` (chosen by version_hex, 3.13 to 3.15, and tells_free_threaded) with the
// values of the table at `runtime`. Fields that the table does not have are kept if every common field agrees
// with the compiled-in value. Otherwise this is a build of another shape, and they become kAbsent. Reads at
// most kDebugOffsetsBytes at `runtime`. Not for signal handlers.
inline constexpr std::size_t kDebugOffsetsBytes = 888;
DebugOffsets apply_debug_offsets(const void* runtime, std::uint32_t version_hex,
                                 PythonLayout& layout) noexcept;

// Whether the table at `runtime`, which is not read further if it has no cookie, is of a build without the
// GIL.
bool tells_free_threaded(const void* runtime) noexcept;

// The offset of the field in which PyInterpreterState says that garbage is being collected, in bytes from its
// start. 0 if the table's value is impossible. For a table that apply_debug_offsets has accepted.
std::uint32_t described_gc_collecting(const void* runtime, std::uint32_t version_hex) noexcept;

}  // namespace clusterprof::agent
