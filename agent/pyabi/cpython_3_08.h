// SPDX-License-Identifier: BSD-3-Clause
// CPython 3.8, see layout.h.
#pragma once

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

inline constexpr PythonLayout kPython308 = {
    .minor = 8,
    .chain = FrameChain::kFrameObjects,
    .instruction_field = InstructionField::kByteIndex,
    .gil_field = GilField::kHolderOnly,
    .tstate_interp = 16,
    .tstate_frame = 24,
    .tstate_thread_id = 176,
    .tstate_gil = kAbsent,
    .tstate_datastack_chunk = kAbsent,
    .tstate_datastack_top = kAbsent,
    .tstate_base_frame = kAbsent,
    .tstate_executor = kAbsent,
    .cframe_current_frame = kAbsent,
    .cframe_previous = kAbsent,
    .frame_code = 32,
    .frame_previous = 24,
    .frame_instruction = 104,
    .frame_owner = kAbsent,
    .frame_is_entry = kAbsent,
    .generator_state = kAbsent,
    .frame_code_tag_bits = 0,
    .code_filename = 104,
    .code_name = 112,
    .code_first_line = 40,
    .code_line_table = 120,
    .code_instructions = kAbsent,
    .bytes_size = 16,
    .bytes_data = 32,
    .str_length = 16,
    .str_state = 32,
    .str_ascii_data = 48,
    .str_compact_data = 72,
};

}  // namespace clusterprof::agent
