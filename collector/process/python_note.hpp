// SPDX-License-Identifier: BSD-3-Clause
// Which note a process's Python deserves. No state: any thread may call this.
#pragma once

#include <cstdint>
#include <optional>

#include "formats/shard/note.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// What the agent says of the interpreter (SegmentHeader::python_state, python_note) as a note on the rank. No
// value: all is well, there is none, or the two do not fit: the program can write over them.
[[nodiscard]] std::optional<shard::NoteCode> note_on_python(wire::PythonState state, std::uint32_t note);

}  // namespace clusterprof::collector
