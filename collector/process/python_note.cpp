// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/python_note.hpp"

namespace clusterprof::collector {

std::optional<shard::NoteCode> note_on_python(wire::PythonState state, std::uint32_t note) {
  using shard::NoteCode;
  if (state == wire::PythonState::kActive) {
    if (note == static_cast<std::uint32_t>(wire::PythonNote::kNativeMissing))
      return NoteCode::kPythonNativeMissing;
    if (note == static_cast<std::uint32_t>(wire::PythonNote::kGarbageUnknown))
      return NoteCode::kPythonGarbageUnknown;
    return std::nullopt;
  }
  if (state != wire::PythonState::kUnsupported && state != wire::PythonState::kCheckFailed)
    return std::nullopt;
  switch (static_cast<wire::PythonNote>(note)) {
    case wire::PythonNote::kVersionNotSupported:
      return NoteCode::kPythonVersionNotSupported;
    case wire::PythonNote::kFreeThreaded:
      return NoteCode::kPythonFreeThreaded;
    case wire::PythonNote::kWithoutOffsets:
      return NoteCode::kPythonWithoutOffsets;
    case wire::PythonNote::kOffsetsWrong:
      return NoteCode::kPythonOffsetsWrong;
    case wire::PythonNote::kSymbolMissing:
      return NoteCode::kPythonSymbolMissing;
    case wire::PythonNote::kOtherLayout:
      return NoteCode::kPythonOtherLayout;
    case wire::PythonNote::kCodeNotFound:
      return NoteCode::kPythonCodeNotFound;
    case wire::PythonNote::kFramesNotFound:
      return NoteCode::kPythonFramesNotFound;
    case wire::PythonNote::kPypy:
      return NoteCode::kPythonPypy;
    default:
      return NoteCode::kPythonVersionNotTold;
  }
}

}  // namespace clusterprof::collector
