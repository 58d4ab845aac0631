// SPDX-License-Identifier: BSD-3-Clause
// CPython 3.13, see layout.h.
// The shim's f_executable is None.
#pragma once

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

inline constexpr PythonLayout kPython313 = {
    .minor = 13,
    .chain = FrameChain::kCurrentFrame,
    .instruction_field = InstructionField::kPointer,
    .gil_field = GilField::kAttachState,
    .tstate_interp = 16,
    .tstate_frame = 72,
    .tstate_thread_id = 152,
    .tstate_gil = 40,
    .tstate_datastack_chunk = 232,
    .tstate_datastack_top = 240,
    .tstate_base_frame = kAbsent,
    .tstate_executor = kAbsent,
    .cframe_current_frame = kAbsent,
    .cframe_previous = kAbsent,
    .frame_code = 0,
    .frame_previous = 8,
    .frame_instruction = 56,
    .frame_owner = 70,
    .frame_is_entry = kAbsent,
    .generator_state = kAbsent,
    .frame_code_tag_bits = 0,
    .code_filename = 112,
    .code_name = 128,
    .code_first_line = 68,
    .code_line_table = 136,
    .code_instructions = 200,
    .bytes_size = 16,
    .bytes_data = 32,
    .str_length = 16,
    .str_state = 32,
    .str_ascii_data = 40,
    .str_compact_data = 56,
};

inline constexpr PythonLayout kPython313FreeThreaded = without_gil(kPython313);

}  // namespace clusterprof::agent
