// SPDX-License-Identifier: BSD-3-Clause
// From 3.14 on, CPython's _asyncio describes its tasks in Py_AsyncioModuleDebugOffsets, which is the section
// .AsyncioDebug of its object file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clusterprof::agent {

// Offsets in bytes.
struct AsyncioOffsets {
  std::uint16_t task_bytes, task_name, task_coroutine;
  std::uint16_t awaited_by, is_task, awaited_by_is_set;  // of every future
  std::uint16_t running_task;                            // in the thread state
};

inline constexpr std::size_t kAsyncioOffsetsBytes = 104;

// False if this is no such table: a value cannot be what it should be. Reads kAsyncioOffsetsBytes.
bool read_asyncio_offsets(const void* table, AsyncioOffsets& offsets) noexcept;

}  // namespace clusterprof::agent
