// SPDX-License-Identifier: BSD-3-Clause
// CPython 3.12, see layout.h.
// The shim's f_code is a code object with the file name "<shim>".
#pragma once

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

inline constexpr PythonLayout kPython312 = {
    .minor = 12,
    .chain = FrameChain::kCFrame,
    .instruction_field = InstructionField::kPointer,
    .gil_field = GilField::kActiveBit,
    .tstate_interp = 16,
    .tstate_frame = 56,
    .tstate_thread_id = 136,
    .tstate_gil = 24,
    .tstate_datastack_chunk = 232,
    .tstate_datastack_top = 240,
    .tstate_base_frame = kAbsent,
    .tstate_executor = kAbsent,
    .cframe_current_frame = 0,
    .cframe_previous = 8,
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
    .code_instructions = 192,
    .bytes_size = 16,
    .bytes_data = 32,
    .str_length = 16,
    .str_state = 32,
    .str_ascii_data = 40,
    .str_compact_data = 56,
};

}  // namespace clusterprof::agent
