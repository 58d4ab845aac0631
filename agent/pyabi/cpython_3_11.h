// SPDX-License-Identifier: BSD-3-Clause
// CPython 3.11, see layout.h.
// No shim frames: is_entry marks the frame that an eval loop activation of its own runs.
#pragma once

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

inline constexpr PythonLayout kPython311 = {
    .minor = 11,
    .chain = FrameChain::kCFrame,
    .instruction_field = InstructionField::kPointer,
    .gil_field = GilField::kHolderOnly,
    .tstate_interp = 16,
    .tstate_frame = 56,
    .tstate_thread_id = 152,
    .tstate_gil = kAbsent,
    .tstate_datastack_chunk = 296,
    .tstate_datastack_top = 304,
    .tstate_base_frame = kAbsent,
    .tstate_executor = kAbsent,
    .cframe_current_frame = 8,
    .cframe_previous = 16,
    .frame_code = 32,
    .frame_previous = 48,
    .frame_instruction = 56,
    .frame_owner = 69,
    .frame_is_entry = 68,
    .generator_state = 5,
    .frame_code_tag_bits = 0,
    .code_filename = 112,
    .code_name = 128,
    .code_first_line = 72,
    .code_line_table = 136,
    .code_instructions = 184,
    .bytes_size = 16,
    .bytes_data = 32,
    .str_length = 16,
    .str_state = 32,
    .str_ascii_data = 48,
    .str_compact_data = 72,
};

}  // namespace clusterprof::agent
