// SPDX-License-Identifier: BSD-3-Clause
// CPython 3.15, see layout.h.
// f_executable is a _PyStackRef with two tag bits; chains end in tstate->base_frame, which is not on
// the C stack. Values from the headers of 3.15.2.
#pragma once

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

inline constexpr PythonLayout kPython315 = {
    .minor = 15,
    .chain = FrameChain::kCurrentFrame,
    .instruction_field = InstructionField::kPointer,
    .gil_field = GilField::kAttachState,
    .tstate_interp = 16,
    .tstate_frame = 72,
    .tstate_thread_id = 176,
    .tstate_gil = 48,
    .tstate_datastack_chunk = 256,
    .tstate_datastack_top = 264,
    .tstate_base_frame = 80,
    .tstate_executor = 304,
    .cframe_current_frame = kAbsent,
    .cframe_previous = kAbsent,
    .frame_code = 0,
    .frame_previous = 8,
    .frame_instruction = 56,
    .frame_owner = 74,
    .frame_is_entry = kAbsent,
    .generator_state = kAbsent,
    .frame_code_tag_bits = 3,
    .code_filename = 112,
    .code_name = 128,
    .code_first_line = 68,
    .code_line_table = 136,
    .code_instructions = 208,
    .bytes_size = 16,
    .bytes_data = 32,
    .str_length = 16,
    .str_state = 32,
    .str_ascii_data = 40,
    .str_compact_data = 56,
};

inline constexpr PythonLayout kPython315FreeThreaded = [] {
  PythonLayout layout = without_gil(kPython315);
  layout.frame_owner = 78;
  layout.frame_tlbc_index = 72;
  layout.code_instructions = 232;
  layout.code_tlbc = 224;
  layout.str_state_shift = 6;
  return layout;
}();

}  // namespace clusterprof::agent
