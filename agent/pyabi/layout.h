// SPDX-License-Identifier: BSD-3-Clause
// Where CPython keeps what the walk reads. There is one file per minor version (cpython_3_08.h, ...) with the
// offsets of the regular x86-64 Linux build with the GIL, and from 3.13 on those without. They were taken
// from the headers of that version with Py_BUILD_CORE, and do not change within a minor version. From 3.13
// on, the interpreter publishes most of them itself (debug_offsets.h), and its values take precedence.
// Offsets and sizes are in bytes.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace clusterprof::agent {

// How a thread's newest frame is found, and what kind of object a frame is.
enum class FrameChain : std::uint8_t {
  kFrameObjects,  // <= 3.10: PyFrameObject on the heap, one C eval loop per frame
  kCFrame,        // 3.11, 3.12: _PyInterpreterFrame behind tstate->cframe
  kCurrentFrame,  // >= 3.13: _PyInterpreterFrame behind tstate->current_frame
};

// What the frame's instruction field holds.
enum class InstructionField : std::uint8_t {
  kByteIndex,  // int, bytes; -1 not started
  kUnitIndex,  // int, 16-bit units; -1 not started
  kPointer,    // address of the last (next, from 3.13) instruction, in the code object itself
};

// Which field of the thread state says that it holds the GIL.
enum class GilField : std::uint8_t {
  kHolderOnly,   // <= 3.11: compare with the process-wide holder
  kActiveBit,    // 3.12: bit 4 of tstate->_status
  kAttachState,  // >= 3.13: tstate->state == 1
};

inline constexpr std::uint16_t kAbsent = 0xffff;

inline constexpr std::uint16_t kObjectType = 8;  // PyObject.ob_type, with the GIL

struct PythonLayout {
  std::uint8_t minor;
  bool free_threaded = false;  // a build without the GIL
  FrameChain chain;
  InstructionField instruction_field;
  GilField gil_field;

  // PyThreadState
  std::uint16_t tstate_interp;
  std::uint16_t tstate_frame;      // frame, cframe or current_frame, see `chain`
  std::uint16_t tstate_thread_id;  // pthread_self()
  std::uint16_t tstate_gil;        // see `gil_field`; int
  std::uint16_t tstate_datastack_chunk, tstate_datastack_top;
  std::uint16_t tstate_base_frame;  // pointer to the sentinel that ends every chain
  std::uint16_t tstate_executor;    // pointer; null: the thread is in no code of the interpreter's JIT

  // _PyCFrame
  std::uint16_t cframe_current_frame, cframe_previous;

  // PyFrameObject or _PyInterpreterFrame
  std::uint16_t frame_code, frame_previous, frame_instruction;
  std::uint16_t frame_owner;         // char; kOwnedByThread, ...
  std::uint16_t frame_is_entry;      // char; 3.11 only
  std::uint16_t generator_state;     // char; so many bytes before a generator's frame; 3.11 only
  std::uint8_t frame_code_tag_bits;  // to be masked off the code pointer
  // int32: 0, or which of the code's copies the instruction lies in (see code_tlbc).
  std::uint16_t frame_tlbc_index = kAbsent;

  // PyCodeObject
  std::uint16_t code_filename, code_name;  // code_name: qualified from 3.11 on
  std::uint16_t code_first_line;           // int
  std::uint16_t code_line_table;
  std::uint16_t code_instructions;  // first instruction, inside the code object
  // Free-threaded builds copy the instructions for each thread: a pointer to { number, first instruction of
  // each copy... }, 64 bits each.
  std::uint16_t code_tlbc = kAbsent;

  // PyObject, PyVarObject, PyBytesObject, PyASCIIObject
  std::uint16_t object_type = kObjectType;
  std::uint16_t bytes_size, bytes_data;  // the first: of all objects that have a size
  std::uint16_t str_length, str_state, str_ascii_data, str_compact_data;
  std::uint8_t str_state_shift = 0;  // how far what kStr... describe is shifted in `state`

  bool operator==(const PythonLayout&) const = default;
};

// The same version built without the GIL: the header of its objects is 16 bytes longer. What else differs,
// the version's file says.
constexpr PythonLayout without_gil(PythonLayout layout) {
  constexpr std::uint16_t kLongerHeader = 16;
  layout.free_threaded = true;
  for (std::uint16_t PythonLayout::*const field :
       {&PythonLayout::object_type, &PythonLayout::code_filename, &PythonLayout::code_name,
        &PythonLayout::code_first_line, &PythonLayout::code_line_table, &PythonLayout::code_instructions,
        &PythonLayout::bytes_size, &PythonLayout::bytes_data, &PythonLayout::str_length,
        &PythonLayout::str_state, &PythonLayout::str_ascii_data, &PythonLayout::str_compact_data})
    layout.*field = static_cast<std::uint16_t>(layout.*field + kLongerHeader);
  return layout;
}

// _PyInterpreterFrame.owner
inline constexpr std::uint8_t kOwnedByThread = 0;  // lies in the thread's data stack
inline constexpr std::uint8_t kOwnedByGenerator = 1;
inline constexpr std::uint8_t kOwnedByFrameObject = 2;
inline constexpr std::uint8_t kFirstShimOwner = 3;  // 3 and above: no code, marks a C activation

// PyGenObject.gi_frame_state
inline constexpr std::int8_t kGeneratorExecuting = 0;

inline constexpr std::uint32_t kActiveBitMask = 1u << 4;  // GilField::kActiveBit
inline constexpr std::int32_t kStateAttached = 1;         // GilField::kAttachState

// PyASCIIObject.state, shifted right by str_state_shift
inline constexpr std::uint32_t kStrKindShift = 2, kStrKindMask = 7;
inline constexpr std::uint32_t kStrCompact = 0x20, kStrAscii = 0x40;

// _PyStackChunk { previous, size, top, data... }
inline constexpr std::uint16_t kChunkPrevious = 0, kChunkSize = 8;

}  // namespace clusterprof::agent
