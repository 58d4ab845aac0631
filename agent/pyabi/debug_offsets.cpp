// SPDX-License-Identifier: BSD-3-Clause
#include "agent/pyabi/debug_offsets.h"

#include <cstring>

namespace clusterprof::agent {
namespace {

// Positions inside _Py_DebugOffsets, in bytes.
struct Positions {
  std::uint16_t current_frame, base_frame, thread_id;
  std::uint16_t previous, executable, instruction, owner;
  std::uint16_t filename, qualname, line_table, first_line, instructions;
  std::uint16_t interpreter_gc, gc_size, gc_collecting;
  std::uint16_t tlbc_index, code_tlbc;  // of builds without the GIL
};
constexpr std::uint16_t kCookie = 0, kVersion = 8, kFreeThreadedFlag = 16, kInterpreterSize = 48;

constexpr Positions kPositions[] = {
    {184, kAbsent, 192, 232, 240, 248, 264, 280, 296, 304, 312, 344, 80, 568, 576, kAbsent, kAbsent},  // 3.13
    {208, kAbsent, 216, 256, 264, 272, 288, 320, 336, 344, 352, 384, 88, 648, 656, 304, 392},          // 3.14
    {208, 216, 240, 320, 328, 336, 352, 384, 400, 408, 416, 448, 88, 752, 760, 368, 456},              // 3.15
};

std::uint64_t read(const void* runtime, std::uint16_t position) noexcept {
  std::uint64_t value;
  std::memcpy(&value, static_cast<const std::uint8_t*>(runtime) + position, sizeof value);
  return value;
}

class Updater {
 public:
  explicit Updater(const void* runtime) noexcept : runtime_(runtime) {}

  void operator()(std::uint16_t& field, std::uint16_t position, std::uint64_t limit,
                  std::uint64_t alignment) noexcept {
    if (position == kAbsent) return;
    const std::uint64_t value = read(runtime_, position);
    if (value >= limit || value % alignment != 0) {
      sane_ = false;
      return;
    }
    if (value != field) same_ = false;
    field = static_cast<std::uint16_t>(value);
  }
  bool sane() const noexcept { return sane_; }
  bool same() const noexcept { return same_; }

 private:
  const void* runtime_;
  bool sane_ = true;
  bool same_ = true;
};

}  // namespace

DebugOffsets apply_debug_offsets(const void* runtime, std::uint32_t version_hex,
                                 PythonLayout& layout) noexcept {
  const std::uint32_t minor = (version_hex >> 16) & 0xff;
  if (runtime == nullptr || version_hex >> 24 != 3 || minor < 13 || minor > 15)
    return DebugOffsets::kNoCookie;
  if (std::memcmp(static_cast<const char*>(runtime) + kCookie, "xdebugpy", 8) != 0 ||
      read(runtime, kVersion) >> 16 != version_hex >> 16) {
    return DebugOffsets::kNoCookie;
  }
  if (tells_free_threaded(runtime) != layout.free_threaded) return DebugOffsets::kFreeThreaded;

  constexpr std::uint64_t kTstateLimit = 4096, kFrameLimit = 256, kCodeLimit = 1024;
  const Positions& at = kPositions[minor - 13];
  PythonLayout updated = layout;
  Updater update(runtime);
  update(updated.tstate_frame, at.current_frame, kTstateLimit, 8);
  update(updated.tstate_base_frame, at.base_frame, kTstateLimit, 8);
  update(updated.tstate_thread_id, at.thread_id, kTstateLimit, 8);
  update(updated.frame_previous, at.previous, kFrameLimit, 8);
  update(updated.frame_code, at.executable, kFrameLimit, 8);
  update(updated.frame_instruction, at.instruction, kFrameLimit, 8);
  update(updated.frame_owner, at.owner, kFrameLimit, 1);
  update(updated.code_filename, at.filename, kCodeLimit, 8);
  update(updated.code_name, at.qualname, kCodeLimit, 8);
  update(updated.code_line_table, at.line_table, kCodeLimit, 8);
  update(updated.code_first_line, at.first_line, kCodeLimit, 4);
  update(updated.code_instructions, at.instructions, kCodeLimit, 2);
  if (layout.free_threaded) {
    update(updated.frame_tlbc_index, at.tlbc_index, kFrameLimit, 4);
    update(updated.code_tlbc, at.code_tlbc, kCodeLimit, 8);
  }
  if (!update.sane()) return DebugOffsets::kOutOfBounds;
  if (!update.same()) {
    updated.tstate_gil = kAbsent;
    updated.tstate_executor = kAbsent;
    updated.tstate_datastack_chunk = kAbsent;
    updated.tstate_datastack_top = kAbsent;
  }
  layout = updated;
  return DebugOffsets::kOk;
}

bool tells_free_threaded(const void* runtime) noexcept {
  return runtime != nullptr && std::memcmp(static_cast<const char*>(runtime) + kCookie, "xdebugpy", 8) == 0 &&
         read(runtime, kFreeThreadedFlag) != 0;
}

std::uint32_t described_gc_collecting(const void* runtime, std::uint32_t version_hex) noexcept {
  const Positions& at = kPositions[((version_hex >> 16) & 0xff) - 13];
  constexpr std::uint64_t kLargestInterpreter = 16 << 20, kFlagBytes = 4;
  const std::uint64_t interpreter_bytes = read(runtime, kInterpreterSize);
  const std::uint64_t gc = read(runtime, at.interpreter_gc), gc_bytes = read(runtime, at.gc_size);
  const std::uint64_t collecting = read(runtime, at.gc_collecting);
  if (interpreter_bytes > kLargestInterpreter || gc == 0 || gc >= interpreter_bytes || gc % 8 != 0 ||
      gc_bytes > interpreter_bytes - gc || gc_bytes < kFlagBytes || collecting > gc_bytes - kFlagBytes ||
      collecting % 4 != 0) {
    return 0;
  }
  return static_cast<std::uint32_t>(gc + collecting);
}

}  // namespace clusterprof::agent
