// SPDX-License-Identifier: BSD-3-Clause
// The name that a thread has in Python: threading.Thread(name=...). Only the interpreter's memory has it: the
// outermost frame of such a thread is that of Thread._bootstrap, whose first local variable is the Thread.
#pragma once

#include <cstdint>

#include "agent/sigsafe/python_stack.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// The str object that is the name of the calling thread, whose frames `python` has. 0: it has none, or the
// version's layout is not known. Reads the interpreter's memory: under a guard. Async-signal-safe.
std::uint64_t find_thread_name(const PythonStack& python) noexcept;

// Writes the text of that object to the slot. Under a guard. Async-signal-safe, on the slot's own thread.
void tell_thread_name(std::uint64_t object, wire::ThreadSlot& slot) noexcept;

}  // namespace clusterprof::agent
