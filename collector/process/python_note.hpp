// SPDX-License-Identifier: BSD-3-Clause
// Finds the note on a process's Python. No state: any thread may call this.
#pragma once

#include <cstdint>
#include <optional>

#include "formats/shard/note.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// Makes a note of what the agent says about the interpreter (SegmentHeader::python_state, python_note). No
// value: all is well, there is no Python, or the two contradict each other, since the program can overwrite
// them.
[[nodiscard]] std::optional<shard::NoteCode> note_on_python(wire::PythonState state, std::uint32_t note);

}  // namespace clusterprof::collector
