// SPDX-License-Identifier: BSD-3-Clause
// What python_attach found out about the interpreter in this process, for the signal handler.
#pragma once

#include <atomic>
#include <cstdint>

#include "agent/pyabi/layout.h"

namespace clusterprof::agent {

struct AddressRange {
  std::uint64_t begin, end;  // [begin, end); both 0: none

  bool contains(std::uint64_t address) const noexcept { return address >= begin && address < end; }
};

// Immutable after publication.
struct PythonRuntime {
  PythonLayout layout;
  bool layout_is_compiled_in;  // `layout` is kPython3xx of its version, with the GIL
  std::uint32_t version_hex;

  // Functions of the interpreter that only load a few words. They may be called with or without the GIL.
  int (*is_initialized)();
  int (*is_finalizing)();
  void* (*this_thread_state)();      // PyGILState_GetThisThreadState
  void* (*unchecked_state)();        // <= 3.11: the state that holds the GIL; later: thread-local
  void* (*main_interpreter)();       // PyInterpreterState_Main
  void* (*first_thread)(void*);      // PyInterpreterState_ThreadHead
  void* (*next_thread)(void*);       // PyThreadState_Next
  void* (*first_interpreter)();      // PyInterpreterState_Head
  void* (*next_interpreter)(void*);  // PyInterpreterState_Next

  std::uint64_t code_type, str_type, bytes_type;  // addresses of the type objects

  // Where the interpreter says that it collects garbage, see gc_state.h.
  std::uint32_t gc_collecting;  // in PyInterpreterState; 0: to be found, or not to be had
  bool gc_is_described;         // not to be found otherwise

  AddressRange eval;         // _PyEval_EvalFrameDefault, the exported part of it
  AddressRange interpreter;  // the object file it lives in
  AddressRange launcher;     // the executable, when it is a python that links libpython
  AddressRange gc_in;        // _PyRuntime, where it holds the GC state (3.8)
  AddressRange libc;
  AddressRange ourselves;                             // the object file of the agent
  AddressRange condition_wait, condition_timed_wait;  // pthread_cond_wait, pthread_cond_timedwait
};

// Null until an interpreter was found. Async-signal-safe.
const PythonRuntime* python_runtime() noexcept;

// `runtime` must stay valid for ever. Not from a handler.
void publish_python_runtime(const PythonRuntime* runtime) noexcept;

// True for the parts of the C eval loop: compilers split it, and the parts have no names. A part is learned
// when a native frame is proven to be an activation of it. Async-signal-safe.
bool is_eval_code(const PythonRuntime& runtime, std::uint64_t pc) noexcept;

// Remembers that pc lies in a part that is not known yet. learn_functions looks up its extent.
void note_eval_code(const PythonRuntime& runtime, std::uint64_t pc) noexcept;

// The interpreter's function that waits for the GIL has no name in most builds either. It is the one that
// calls pthread_cond_timedwait. Async-signal-safe.
bool takes_gil(std::uint64_t pc) noexcept;
void note_gil_taker(const PythonRuntime& runtime, std::uint64_t pc) noexcept;

// 1: a thread was seen in code that the interpreter's own JIT has made (3.14 and later).
extern std::atomic<std::uint32_t> g_jit_runs;

// Functions of which one is always on the stack of a thread that collects garbage
// (discovery/collector_code.h). Written once, `count` last.
inline constexpr std::uint32_t kMaxCollectorRanges = 128;
struct CollectorCode {
  AddressRange ranges[kMaxCollectorRanges];
  std::atomic<std::uint32_t> count;  // 0: not known
  // Numbers of stacks of collecting threads: with one of these functions, and without one until then.
  std::atomic<std::uint32_t> hits, misses;
};
extern CollectorCode g_collector_code;

// Under a guard or outside a handler.
void learn_functions() noexcept;

}  // namespace clusterprof::agent
