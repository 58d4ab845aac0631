// SPDX-License-Identifier: BSD-3-Clause
// Finds the interpreter. Not for signal handlers: uses the loader, and clears the calling thread's dlerror()
// message.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/discovery/attach.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "agent/discovery/asyncio_debug.h"
#include "agent/discovery/collector_code.h"
#include "agent/discovery/loaded_objects.h"
#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_09.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/cpython_3_14.h"
#include "agent/pyabi/cpython_3_15.h"
#include "agent/pyabi/debug_offsets.h"
#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/python_stack.h"

namespace clusterprof::agent {
namespace {

constexpr const PythonLayout* kLayouts[] = {&kPython308, &kPython309, &kPython310, &kPython311,
                                            &kPython312, &kPython313, &kPython314, &kPython315};
constexpr const PythonLayout* kFreeThreadedLayouts[] = {&kPython313FreeThreaded, &kPython314FreeThreaded,
                                                        &kPython315FreeThreaded};
constexpr std::uint32_t kOldestMinor = 8, kNewestMinor = 15;
constexpr std::uint32_t kFirstSelfDescribingMinor = 13;
constexpr std::uint32_t kLastMinorWithGlobalGc = 8;

struct Outcome {
  wire::PythonState state = wire::PythonState::kNone;
  std::uint32_t version_hex = 0;
  wire::PythonNote note = wire::PythonNote::kNothing;
  bool free_threaded = false;
};

// The process whose python_attach is running, or 0. If it was running when another thread forked, it is not
// running in the child. Only that run writes the variables below.
std::atomic<pid_t> g_busy{0};
Outcome g_outcome;
void* g_handle = nullptr;
std::uint64_t g_seen_loads = 0;
PythonRuntime g_storage;
std::uint64_t g_gc_collect = 0;  // PyGC_Collect, until it has been looked at

void report(wire::SegmentHeader& segment) noexcept {
  // A failed self-check of this segment stays as the handler left it.
  const auto none = static_cast<std::uint32_t>(wire::PythonState::kNone);
  if (segment.python_state.load(std::memory_order_relaxed) != none) return;
  segment.python_version.store(g_outcome.version_hex, std::memory_order_relaxed);
  segment.python_note.store(static_cast<std::uint32_t>(g_outcome.note), std::memory_order_relaxed);
  segment.python_state.store(static_cast<std::uint32_t>(g_outcome.state), std::memory_order_release);
}

// RTLD_DEFAULT does not find a libpython that was loaded without RTLD_GLOBAL.
constexpr std::uint32_t kMaxCandidates = 4;
constexpr std::size_t kMaxPathBytes = 4096;
struct Candidates {
  std::uint32_t count;
  char paths[kMaxCandidates][kMaxPathBytes];
};
Candidates g_candidates;  // too large for a small thread's stack

int collect_candidate(dl_phdr_info* info, std::size_t, void*) {
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* base = slash != nullptr ? slash + 1 : info->dlpi_name;
  const std::size_t length = strlen(info->dlpi_name);
  if (strncmp(base, "libpython", 9) != 0 || length >= kMaxPathBytes) return 0;
  if (g_candidates.count == kMaxCandidates) return 1;
  memcpy(g_candidates.paths[g_candidates.count++], info->dlpi_name, length + 1);
  return 0;
}

// Finds the handle for looking up symbols. RTLD_DEFAULT is null, so success is the return value.
bool find_interpreter(void*& handle) noexcept {
  constexpr const char* kProbe = "PyGILState_GetThisThreadState";
  handle = RTLD_DEFAULT;
  if (dlsym(handle, kProbe) != nullptr) return true;
  g_candidates.count = 0;
  dl_iterate_phdr(collect_candidate, nullptr);
  for (std::uint32_t i = 0; i < g_candidates.count; ++i) {
    handle = dlopen(g_candidates.paths[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    // Kept open on purpose: the handler calls into it.
    if (dlsym(handle, kProbe) != nullptr) return true;
    dlclose(handle);
  }
  return false;
}

// PyPy has none of CPython's functions under their names. It exports this one for programs that embed it.
bool is_pypy() noexcept { return dlsym(RTLD_DEFAULT, "pypy_execute_source") != nullptr; }

template <typename Function>
void look_up(void* handle, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(handle, name));
}

std::uint64_t address_of(void* handle, const char* name) noexcept {
  return reinterpret_cast<std::uint64_t>(dlsym(handle, name));
}

// PY_VERSION_HEX, or 0 if it is not known.
std::uint32_t version_of(void* handle) noexcept {
  if (const auto* version = static_cast<const unsigned long*>(dlsym(handle, "Py_Version"))) {
    return static_cast<std::uint32_t>(*version);
  }
  const char* (*text_of_version)() = nullptr;
  look_up(handle, "Py_GetVersion", text_of_version);
  if (text_of_version == nullptr) return 0;
  unsigned major = 0, minor = 0, micro = 0;
  if (sscanf(text_of_version(), "%u.%u.%u", &major, &minor, &micro) < 2) return 0;
  if (major > 255 || minor > 255 || micro > 255) return 0;
  constexpr unsigned kFinalRelease = 0xf0;
  return major << 24 | minor << 16 | micro << 8 | kFinalRelease;
}

AddressRange symbol_range(std::uint64_t address) noexcept {
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (address == 0 ||
      dladdr1(reinterpret_cast<void*>(address), &info,
              reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0) {
    return {0, 0};
  }
  if (symbol == nullptr || reinterpret_cast<std::uint64_t>(info.dli_saddr) != address) return {0, 0};
  return {address, address + symbol->st_size};
}

struct RangeQuery {
  std::uint64_t address;  // 0: the executable
  AddressRange range;
};

int match_range(dl_phdr_info* info, std::size_t, void* data) {
  auto& query = *static_cast<RangeQuery*>(data);
  const AddressRange range = range_of(*info);
  // The executable comes first.
  if (query.address != 0 && !range.contains(query.address)) return 0;
  query.range = range;
  return 1;
}

AddressRange object_range(std::uint64_t address) noexcept {
  RangeQuery query{address, {0, 0}};
  dl_iterate_phdr(match_range, &query);
  return query.range;
}

bool executable_is_python() noexcept {
  char path[kMaxPathBytes];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  const char* slash = strrchr(path, '/');
  const char* base = slash != nullptr ? slash + 1 : path;
  if (strncmp(base, "python", 6) != 0) return false;
  return strspn(base + 6, "0123456789.dmt") == strlen(base + 6);  // python3.8d: ABI flags
}

std::uint64_t condition_function(const char* name) noexcept {
  void* function = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.3.2");
  return reinterpret_cast<std::uint64_t>(function != nullptr ? function : dlsym(RTLD_DEFAULT, name));
}

int count_loads(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<std::uint64_t*>(data) = info->dlpi_adds + info->dlpi_subs;
  return 1;
}

void unsupported(wire::PythonNote why) noexcept {
  g_outcome.state = wire::PythonState::kUnsupported;
  g_outcome.note = why;
}

// Chooses the layout of this version, as the interpreter describes it if it does. False: it cannot be used,
// and the reason was noted.
bool choose_layout(void* handle, unsigned minor, PythonRuntime& runtime) noexcept {
  const bool describes_itself = minor >= kFirstSelfDescribingMinor;
  void* const table = describes_itself ? dlsym(handle, "_PyRuntime") : nullptr;
  g_outcome.free_threaded = describes_itself && tells_free_threaded(table);
  const PythonLayout& compiled_in = g_outcome.free_threaded
                                        ? *kFreeThreadedLayouts[minor - kFirstSelfDescribingMinor]
                                        : *kLayouts[minor - kOldestMinor];
  runtime.layout = compiled_in;
  runtime.version_hex = g_outcome.version_hex;
  runtime.gc_collecting = 0;
  runtime.gc_is_described = describes_itself;
  if (describes_itself) {
    switch (apply_debug_offsets(table, g_outcome.version_hex, runtime.layout)) {
      case DebugOffsets::kOk:
        break;
      case DebugOffsets::kFreeThreaded:
        unsupported(wire::PythonNote::kFreeThreaded);
        return false;
      case DebugOffsets::kNoCookie:
        unsupported(wire::PythonNote::kWithoutOffsets);
        return false;
      case DebugOffsets::kOutOfBounds:
        unsupported(wire::PythonNote::kOffsetsWrong);
        return false;
    }
    runtime.gc_collecting = described_gc_collecting(table, g_outcome.version_hex);
  }
  // What uses that has been made for builds with the GIL.
  runtime.layout_is_compiled_in = runtime.layout == compiled_in && !compiled_in.free_threaded;
  return true;
}

// Looks up functions and types of the interpreter. False if one is missing.
bool look_up_symbols(void* handle, unsigned minor, PythonRuntime& runtime) noexcept {
  look_up(handle, "Py_IsInitialized", runtime.is_initialized);
  look_up(handle, minor >= 13 ? "Py_IsFinalizing" : "_Py_IsFinalizing", runtime.is_finalizing);
  look_up(handle, "PyGILState_GetThisThreadState", runtime.this_thread_state);
  look_up(handle, minor >= 13 ? "PyThreadState_GetUnchecked" : "_PyThreadState_UncheckedGet",
          runtime.unchecked_state);
  look_up(handle, "PyInterpreterState_Main", runtime.main_interpreter);
  look_up(handle, "PyInterpreterState_ThreadHead", runtime.first_thread);
  look_up(handle, "PyThreadState_Next", runtime.next_thread);
  look_up(handle, "PyInterpreterState_Head", runtime.first_interpreter);
  look_up(handle, "PyInterpreterState_Next", runtime.next_interpreter);
  runtime.code_type = address_of(handle, "PyCode_Type");
  runtime.str_type = address_of(handle, "PyUnicode_Type");
  runtime.bytes_type = address_of(handle, "PyBytes_Type");
  return runtime.is_initialized != nullptr && runtime.is_finalizing != nullptr &&
         runtime.this_thread_state != nullptr && runtime.unchecked_state != nullptr &&
         runtime.main_interpreter != nullptr && runtime.first_thread != nullptr &&
         runtime.next_thread != nullptr && runtime.first_interpreter != nullptr &&
         runtime.next_interpreter != nullptr && runtime.code_type != 0 && runtime.str_type != 0 &&
         runtime.bytes_type != 0;
}

// False for a build with another object header (Py_TRACE_REFS): its ob_type is at another offset.
bool has_usual_object_header(void* handle, const PythonRuntime& runtime) noexcept {
  const std::uint64_t type_type = address_of(handle, "PyType_Type");
  std::uint64_t type_of_code_type;
  memcpy(&type_of_code_type, reinterpret_cast<const void*>(runtime.code_type + runtime.layout.object_type),
         sizeof type_of_code_type);
  // The interpreter fills in ob_type of its static types when it starts: null before.
  return type_type != 0 && (type_of_code_type == type_type || type_of_code_type == 0);
}

void find_ranges(void* handle, unsigned minor, std::uint64_t eval, PythonRuntime& runtime) noexcept {
  runtime.eval = symbol_range(eval);
  runtime.interpreter = object_range(eval);
  runtime.gc_in =
      minor == kLastMinorWithGlobalGc ? symbol_range(address_of(handle, "_PyRuntime")) : AddressRange{0, 0};
  runtime.launcher = {0, 0};
  const AddressRange executable = object_range(0);
  if (executable.begin != runtime.interpreter.begin && executable_is_python()) runtime.launcher = executable;
  runtime.libc = object_range(address_of(RTLD_DEFAULT, "__libc_start_main"));
  runtime.ourselves = object_range(reinterpret_cast<std::uint64_t>(&g_storage));
  runtime.condition_wait = symbol_range(condition_function("pthread_cond_wait"));
  runtime.condition_timed_wait = symbol_range(condition_function("pthread_cond_timedwait"));
}

void examine(void* handle) noexcept {
  g_handle = handle;
  g_outcome.version_hex = version_of(handle);
  const unsigned major = g_outcome.version_hex >> 24, minor = (g_outcome.version_hex >> 16) & 0xff;
  if (g_outcome.version_hex == 0) return unsupported(wire::PythonNote::kVersionNotTold);
  if (major != 3 || minor < kOldestMinor || minor > kNewestMinor)
    return unsupported(wire::PythonNote::kVersionNotSupported);

  PythonRuntime& runtime = g_storage;
  if (!choose_layout(handle, minor, runtime)) return;
  const std::uint64_t eval = address_of(handle, "_PyEval_EvalFrameDefault");
  if (!look_up_symbols(handle, minor, runtime) || eval == 0)
    return unsupported(wire::PythonNote::kSymbolMissing);
  if (!has_usual_object_header(handle, runtime)) return unsupported(wire::PythonNote::kOtherLayout);
  find_ranges(handle, minor, eval, runtime);

  // Binds what the interpreter calls through its PLT, so that the handler never does.
  if (runtime.is_initialized() != 0) {
    runtime.this_thread_state();
    runtime.is_finalizing();
    runtime.unchecked_state();
    runtime.main_interpreter();
  }
  publish_python_runtime(&runtime);
  g_gc_collect = address_of(handle, "PyGC_Collect");
  g_outcome.state = wire::PythonState::kActive;
}

}  // namespace

void python_report(wire::SegmentHeader* segment) noexcept {
  if (segment != nullptr && g_outcome.state != wire::PythonState::kNone) report(*segment);
}

bool python_found(FoundPython& python) noexcept {
  if (g_outcome.state == wire::PythonState::kNone) return false;
  const bool is_known = g_outcome.note != wire::PythonNote::kVersionNotTold &&
                        g_outcome.note != wire::PythonNote::kVersionNotSupported &&
                        g_outcome.note != wire::PythonNote::kPypy && !g_outcome.free_threaded;
  python = {g_handle, g_outcome.version_hex, is_known};
  return true;
}

bool python_attach(wire::SegmentHeader* segment) noexcept {
  const pid_t self = getpid();
  pid_t busy = g_busy.load(std::memory_order_relaxed);
  if (segment == nullptr || busy == self ||
      !g_busy.compare_exchange_strong(busy, self, std::memory_order_acquire)) {
    return false;
  }
  if (g_gc_collect != 0) {
    find_collector_code(g_gc_collect, g_storage);
    g_gc_collect = 0;
  }
  if (g_outcome.state == wire::PythonState::kNone) {
    std::uint64_t loads = 0;
    dl_iterate_phdr(count_loads, &loads);
    if (loads != g_seen_loads) {
      void* handle = nullptr;
      if (find_interpreter(handle)) {
        examine(handle);
      } else if (is_pypy()) {
        unsupported(wire::PythonNote::kPypy);
      }
      g_seen_loads = loads;
      dlerror();  // leaves no error of ours for the program to find
    }
  }
  if (g_outcome.state != wire::PythonState::kNone) report(*segment);
  if (g_outcome.state == wire::PythonState::kActive) find_asyncio_debug(g_storage);
  const bool has_more = g_gc_collect != 0;
  g_busy.store(0, std::memory_order_release);
  return has_more;
}

}  // namespace clusterprof::agent
