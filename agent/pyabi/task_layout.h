// SPDX-License-Identifier: BSD-3-Clause
// Where CPython keeps what asyncio's tasks and suspended coroutines have. As in layout.h: offsets in bytes of
// the regular x86-64 Linux build with the GIL. Those of generators and frames do not change within a minor
// version. Those of tasks are of _asyncio, which is no part of the ABI: the size of a task says whether they
// are right. From 3.14 on, _asyncio describes its tasks itself (asyncio_offsets.h).
#pragma once

#include <cstdint>

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

// What says where the stack of a suspended frame ends. Its last object is what the coroutine awaits.
enum class StackEnd : std::uint8_t {
  kPointer,       // <= 3.9: f_stacktop, behind the last object
  kDepth,         // 3.10: f_stackdepth, objects behind f_valuestack; int
  kIndex,         // 3.11 to 3.13: stacktop, objects in localsplus; int
  kStackPointer,  // >= 3.14: stackpointer, behind the last reference, which has tag bits
};

struct TaskLayout {
  std::uint8_t minor;
  StackEnd stack_end;
  std::uint16_t task_bytes, task_coroutine, task_name;  // TaskObj; 0: _asyncio says
  std::uint16_t generator_frame;                        // gi_frame, from 3.11 on gi_iframe
  std::uint16_t generator_state;                        // gi_frame_state: below 0 while it is suspended
  std::uint16_t stack_field, stack_values;              // see StackEnd; of the frame
  std::uint16_t function_code, function_closure;        // PyFunctionObject
};

inline constexpr TaskLayout kTaskLayouts[] = {
    {8, StackEnd::kPointer, 144, 112, 120, 16, kAbsent, 72, 0, 16, 48},
    {9, StackEnd::kPointer, 184, 152, 160, 16, kAbsent, 72, 0, 16, 48},
    {10, StackEnd::kDepth, 192, 160, 168, 16, kAbsent, 80, 64, 48, 72},
    {11, StackEnd::kIndex, 176, 136, 144, 80, 75, 64, 72, 48, 72},
    {12, StackEnd::kIndex, 176, 136, 144, 72, 67, 64, 72, 48, 72},
    {13, StackEnd::kIndex, 144, 120, 128, 72, 67, 64, 72, 48, 72},
    {14, StackEnd::kStackPointer, 0, 0, 0, 72, 67, 64, 0, 0, 0},
    {15, StackEnd::kStackPointer, 0, 0, 0, 72, 67, 64, 0, 0, 0},
};

constexpr const TaskLayout* task_layout(std::uint8_t minor) noexcept {
  for (const TaskLayout& layout : kTaskLayouts)
    if (layout.minor == minor) return &layout;
  return nullptr;
}

// The same in all versions that read them.
inline constexpr std::uint16_t kTypeName = 24, kTypeBase = 256;              // PyTypeObject
inline constexpr std::uint16_t kFutureCallback = 24, kFutureCallbacks = 40;  // fut_callback0, fut_callbacks
inline constexpr std::uint16_t kHandleCallback = 24;                         // Handle._callback, a slot
inline constexpr std::uint16_t kStepTask = 16;  // of the wrappers of task_step and task_wakeup
inline constexpr std::uint16_t kBuiltinDefinition = 16, kBuiltinSelf = 24;     // PyCFunctionObject
inline constexpr std::uint16_t kMethodFunction = 16, kMethodSelf = 24;         // PyMethodObject
inline constexpr std::uint16_t kPartialFunction = 16, kPartialArguments = 24;  // functools.partial
inline constexpr std::uint16_t kSequenceSize = 16, kTupleItems = 24,
                               kListItems = 24;  // the second: up to 3.13
inline constexpr std::uint16_t kCellContent = 16;
inline constexpr std::uint16_t kWrapped = 16;  // what a wrapper of a coroutine wraps
inline constexpr std::uint16_t kSetMask = 32, kSetTable = 40, kSetEntryBytes = 16;

}  // namespace clusterprof::agent
