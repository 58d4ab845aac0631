// SPDX-License-Identifier: BSD-3-Clause
// Keeps what says why a process failed (wire::LastWords). Async-signal-safe; may be used on any thread, in a
// child of vfork, and before the process has a segment: then nothing is kept.
#pragma once

#include <signal.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <cstddef>

namespace clusterprof::agent {

inline constexpr int kStderr = 2;

// Whether they are kept.
bool keeps_stderr() noexcept;
// Bytes that were written to descriptor 2, after the call.
void note_stderr(const void* bytes, std::size_t count) noexcept;
// The first `moved` bytes of a vector.
void note_stderr(const iovec* parts, std::size_t count, std::size_t moved) noexcept;

// A fault of the program, or an abort, before the program's handler runs. Call it in our handler of the
// signal.
void note_fault(int signal, const siginfo_t& info, const ucontext_t& interrupted) noexcept;

// glibc's __abort_msg, which assert() and the checks of the heap and the stack set before they abort. They
// write to descriptor 2 inside libc, so the message counts as written there, too.
struct AbortMessage {
  unsigned bytes;  // of all this
  char text[1];    // ends with a NUL
};
void note_abort_message() noexcept;

}  // namespace clusterprof::agent
