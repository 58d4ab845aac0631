// SPDX-License-Identifier: BSD-3-Clause
// PAPI, opened privately at run time: programs bring their own, or none.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <papi.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "agent/lifecycle/agent.h"
#include "agent/sigsafe/counters_read.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

#define CLUSTERPROF_PAPI_FUNCTIONS(f)                                                                   \
  f(PAPI_library_init) f(PAPI_thread_init) f(PAPI_set_domain) f(PAPI_create_eventset) f(PAPI_add_event) \
      f(PAPI_event_name_to_code) f(PAPI_query_event) f(PAPI_start) f(PAPI_stop) f(PAPI_read)            \
          f(PAPI_num_components) f(PAPI_get_component_info) f(PAPI_disable_component)                   \
              f(PAPI_cleanup_eventset) f(PAPI_destroy_eventset) f(PAPI_unregister_thread) f(PAPI_strerror)

struct Papi {
#define CLUSTERPROF_DECLARE(name) decltype(&::name) name;
  CLUSTERPROF_PAPI_FUNCTIONS(CLUSTERPROF_DECLARE)
#undef CLUSTERPROF_DECLARE
};

constinit Papi g_papi = {};
constinit void* g_library = nullptr;

// What can be counted in this process, and what cannot.
struct Events {
  std::uint32_t count, missing;
  int codes[wire::kMaxCounters];
  char names[wire::kMaxCounters][wire::kCounterNameBytes];
  char missing_names[wire::kMaxCounters][wire::kCounterNameBytes];
  char missing_reasons[wire::kMaxCounters][wire::kCounterNameBytes];
};
constinit Events g_events = {};

constinit std::atomic<std::uint32_t> g_descriptors = 0;  // open for event sets, all threads
constinit CounterState g_first = {};  // made by open_counters for the thread that called it

constexpr const char* kHardwareEvents[] = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "PAPI_BR_MSP"};
constexpr const char* kLibraries[] = {"libpapi.so.7", "libpapi.so.7.0", "libpapi.so"};

template <std::size_t kBytes>
void copy_text(char (&to)[kBytes], const char* from) noexcept {
  const std::size_t length = strnlen(from, kBytes - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

void add_missing(const char* name, const char* reason) noexcept {
  if (g_events.missing == wire::kMaxCounters) return;
  copy_text(g_events.missing_names[g_events.missing], name);
  copy_text(g_events.missing_reasons[g_events.missing], reason);
  ++g_events.missing;
}

bool load_papi() noexcept {
  for (const char* name : kLibraries)
    if (g_library == nullptr) g_library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (g_library == nullptr) return false;
  bool complete = true;
#define CLUSTERPROF_FIND(name) \
  complete =                   \
      (g_papi.name = reinterpret_cast<decltype(&::name)>(dlsym(g_library, #name))) != nullptr && complete;
  CLUSTERPROF_PAPI_FUNCTIONS(CLUSTERPROF_FIND)
#undef CLUSTERPROF_FIND
  return complete;
}

// All that is counted are events of the core and of the kernel.
bool core_events_suffice() noexcept {
  const char* list = g_options.events;
  while (*list != 0) {
    const std::size_t length = strcspn(list, ",");
    if (length != 0 && strncmp(list, "PAPI_", 5) != 0 && strncmp(list, "perf::", 6) != 0) return false;
    list += length;
    if (*list == ',') ++list;
  }
  return true;
}

// Before PAPI starts: looking for other units, graphics cards and the like takes time.
void disable_other_components() noexcept {
  const int components = g_papi.PAPI_num_components();
  for (int i = 0; i < components; ++i) {
    const PAPI_component_info_t* const info = g_papi.PAPI_get_component_info(i);
    if (info != nullptr && strcmp(info->name, "perf_event") != 0) g_papi.PAPI_disable_component(i);
  }
}

// Null, or why PAPI cannot be used.
const char* initialise_papi() noexcept {
  // One event set at a time can run on a thread: ours would be in the way of the program's.
  for (const char* name : kLibraries)
    if (void* theirs = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      dlclose(theirs);
      return "the program uses PAPI itself";
    }
  if (!load_papi()) return "no libpapi.so.7 found";
  if (core_events_suffice()) disable_other_components();
  const int version = g_papi.PAPI_library_init(PAPI_VER_CURRENT);
  if (version != static_cast<int>(PAPI_VER_CURRENT))
    return version > 0 ? "libpapi has another version" : "PAPI_library_init failed";
  if (g_papi.PAPI_thread_init(pthread_self) != PAPI_OK) return "PAPI_thread_init failed";
  // Else context switches read 0.
  if (g_papi.PAPI_set_domain(PAPI_DOM_ALL) != PAPI_OK) return "PAPI_set_domain failed";
  return nullptr;
}

// Adds one event to `set` when it can be counted along with those that are in it.
void try_event(int set, const char* name) noexcept {
  if (g_events.count == wire::kMaxCounters) {
    add_missing(name, "too many events");
    return;
  }
  int code = 0;
  int result = g_papi.PAPI_event_name_to_code(name, &code);
  if (result == PAPI_OK) result = g_papi.PAPI_query_event(code);
  if (result == PAPI_OK) result = g_papi.PAPI_add_event(set, code);
  if (result != PAPI_OK) {
    add_missing(name, g_papi.PAPI_strerror(result));
    return;
  }
  copy_text(g_events.names[g_events.count], name);
  g_events.codes[g_events.count++] = code;
}

void try_list(int set, const char* list) noexcept {
  while (*list != 0) {
    const std::size_t length = strcspn(list, ",");
    char name[wire::kCounterNameBytes];
    if (length != 0 && length < sizeof name) {
      memcpy(name, list, length);
      name[length] = 0;
      try_event(set, name);
    } else if (length != 0) {
      char shortened[wire::kCounterNameBytes];
      memcpy(shortened, list, sizeof shortened - 1);
      shortened[sizeof shortened - 1] = 0;
      add_missing(shortened, "name too long");
    }
    list += length;
    if (*list == ',') ++list;
  }
}

// PAPI_add_event opens descriptors, with the lowest free numbers. Those that a program with one thread
// gets for its own shall not change: the numbers up to kHighDescriptor are occupied meanwhile.
constexpr int kHighDescriptor = 704;

class LowDescriptorsTaken {
 public:
  LowDescriptorsTaken() noexcept {
    if (descriptor_limit() < 2 * kHighDescriptor) return;
    const int base = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int descriptor = base; descriptor >= 0 && descriptor < kHighDescriptor;
         descriptor = fcntl(base, F_DUPFD_CLOEXEC, 0)) {
      taken_[descriptor / 64] |= std::uint64_t{1} << descriptor % 64;
    }
  }
  ~LowDescriptorsTaken() {
    int next = 0;
    while (next < kHighDescriptor) {
      const int first = next++;
      if (!is_taken(first)) continue;
      while (next < kHighDescriptor && is_taken(next)) ++next;
      if (raw_syscall(SYS_close_range, first, next - 1, 0) == 0) continue;
      for (int descriptor = first; descriptor < next; ++descriptor) close(descriptor);
    }
  }
  LowDescriptorsTaken(const LowDescriptorsTaken&) = delete;
  LowDescriptorsTaken& operator=(const LowDescriptorsTaken&) = delete;

  static int descriptor_limit() noexcept {
    rlimit limits;
    if (getrlimit(RLIMIT_NOFILE, &limits) != 0) return 0;
    return limits.rlim_cur < 1u << 20 ? static_cast<int>(limits.rlim_cur) : 1 << 20;
  }

 private:
  bool is_taken(int descriptor) const noexcept {
    return (taken_[descriptor / 64] >> descriptor % 64 & 1) != 0;
  }

  std::uint64_t taken_[kHighDescriptor / 64] = {};
};
static_assert(kHighDescriptor % 64 == 0);

// One at a time, so that the descriptors that appear can be told from other threads'.
constinit pthread_mutex_t g_setup = PTHREAD_MUTEX_INITIALIZER;

int lowest_free_descriptor() noexcept {
  const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) close(descriptor);
  return descriptor;
}

// PAPI has just opened perf events; theirs are the descriptors that executed programs would inherit.
void find_descriptors(int lowest, CounterState& counters) noexcept {
  constexpr int kLookAhead = 256;
  counters.descriptor_count = 0;
  counters.first_id = 0;
  if (lowest < 0) return;
  for (int descriptor = lowest; descriptor < lowest + kLookAhead; ++descriptor) {
    if (counters.descriptor_count == g_events.count) break;
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    const std::uint64_t id = perf_event_id(descriptor);
    if (id == 0) continue;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    if (counters.descriptor_count == 0) counters.first_id = id;
    counters.descriptors[counters.descriptor_count++] = descriptor;
  }
}

void discard_set(int set) noexcept {
  g_papi.PAPI_cleanup_eventset(set);
  g_papi.PAPI_destroy_eventset(&set);
}

bool wants_default() noexcept { return g_options.events[0] == 0; }

bool choose_events(int& set) noexcept {
  set = PAPI_NULL;
  if (const int result = g_papi.PAPI_create_eventset(&set); result != PAPI_OK) {
    add_missing("PAPI", g_papi.PAPI_strerror(result));
    return false;
  }
  if (!wants_default()) {
    try_list(set, g_options.events);
  } else {
    for (const char* name : kHardwareEvents) try_event(set, name);
  }
  if (g_events.count == 0) discard_set(set);
  return g_events.count != 0;
}

// Adds the chosen events and starts them. Nothing is left behind on failure.
bool start_set(int& set) noexcept {
  set = PAPI_NULL;
  if (g_papi.PAPI_create_eventset(&set) != PAPI_OK) return false;
  bool good = true;
  for (std::uint32_t i = 0; i < g_events.count && good; ++i)
    good = g_papi.PAPI_add_event(set, g_events.codes[i]) == PAPI_OK;
  good = good && g_papi.PAPI_start(set) == PAPI_OK;
  if (!good) discard_set(set);
  return good;
}

bool wants_counters() noexcept { return strcmp(g_options.events, "none") != 0; }

// Null, or why there are no hardware counters: PAPI, whose start costs milliseconds, need not be asked.
const char* why_no_hardware(char (&text)[wire::kCounterNameBytes]) noexcept {
  perf_event_attr cycles = {};
  cycles.type = PERF_TYPE_HARDWARE;
  cycles.size = sizeof cycles;
  cycles.config = PERF_COUNT_HW_CPU_CYCLES;
  cycles.disabled = 1;
  cycles.exclude_kernel = 1;
  cycles.exclude_hv = 1;
  const long descriptor = raw_syscall(SYS_perf_event_open, &cycles, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (descriptor >= 0) {
    raw_syscall(SYS_close, descriptor);
    return nullptr;
  }
  if (descriptor == -ENOSYS) return "no performance events in this kernel";
  if (descriptor != -EACCES && descriptor != -EPERM) return "no hardware counters on this machine";
  char level[16];
  constexpr char kText[] = "not permitted (perf_event_paranoid=";
  if (read_small_file("/proc/sys/kernel/perf_event_paranoid", level, sizeof level) == 0)
    return "not permitted";
  level[strcspn(level, "\n")] = 0;
  static_assert(sizeof kText + sizeof level + 1 <= sizeof text);
  memcpy(text, kText, sizeof kText);
  strcat(strcat(text, level), ")");
  return text;
}

// True when the default events are wanted and there are none.
bool lacks_default() noexcept {
  char text[wire::kCounterNameBytes];
  const char* const reason = wants_default() ? why_no_hardware(text) : nullptr;
  if (reason != nullptr)
    for (const char* name : kHardwareEvents) add_missing(name, reason);
  return reason != nullptr;
}

}  // namespace

void go_without_counters(const char* reason) noexcept {
  g_process.counter_count = 0;
  g_process.papi_read = nullptr;
  g_events = {};
  g_first.running.store(0, std::memory_order_relaxed);
  if (reason != nullptr && wants_counters() && !lacks_default()) add_missing("PAPI", reason);
}

void open_counters() noexcept {
  go_without_counters(nullptr);
  if (!wants_counters() || lacks_default()) return;
  if (const char* reason = initialise_papi()) {
    add_missing("PAPI", reason);
    return;
  }
  // The set that shows what can be counted becomes the one of this thread.
  const LowDescriptorsTaken taken;
  const int lowest = lowest_free_descriptor();
  int set = PAPI_NULL;
  if (!choose_events(set)) return;
  g_process.papi_read = g_papi.PAPI_read;
  g_process.counter_count = g_events.count;
  if (g_papi.PAPI_start(set) != PAPI_OK) {
    discard_set(set);
    return;
  }
  find_descriptors(lowest, g_first);
  g_first.event_set = set;
  g_first.running.store(1, std::memory_order_relaxed);
}

void describe_counters(wire::SegmentHeader* segment) noexcept {
  memcpy(segment->counter_names, g_events.names, sizeof g_events.names);
  memcpy(segment->unavailable_names, g_events.missing_names, sizeof g_events.missing_names);
  memcpy(segment->unavailable_reasons, g_events.missing_reasons, sizeof g_events.missing_reasons);
  segment->counter_count = g_events.count;
  segment->unavailable_count = g_events.missing;
}

void start_counters(CounterState& counters) noexcept {
  counters.running.store(0, std::memory_order_relaxed);
  counters.descriptor_count = 0;
  if (g_process.counter_count == 0) return;
  const std::uint32_t open = g_descriptors.fetch_add(g_events.count, std::memory_order_relaxed);
  if (g_first.running.exchange(0, std::memory_order_relaxed) != 0) {  // this thread called open_counters
    counters.event_set = g_first.event_set;
    counters.descriptor_count = g_first.descriptor_count;
    memcpy(counters.descriptors, g_first.descriptors, sizeof counters.descriptors);
    counters.first_id = g_first.first_id;
    counters.running.store(1, std::memory_order_release);
    return;
  }
  // Descriptors are the program's; it gets at least three quarters.
  bool started = false;
  if (open + g_events.count <= static_cast<std::uint32_t>(LowDescriptorsTaken::descriptor_limit()) / 4) {
    pthread_mutex_lock(&g_setup);
    const int lowest = lowest_free_descriptor();
    started = start_set(counters.event_set);
    if (started) find_descriptors(lowest, counters);
    pthread_mutex_unlock(&g_setup);
  }
  if (started) {
    counters.running.store(1, std::memory_order_release);
  } else {
    g_descriptors.fetch_sub(g_events.count, std::memory_order_relaxed);
    count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kCounterFailed);
  }
}

void stop_counters(CounterState& counters) noexcept {
  if (counters.running.exchange(0, std::memory_order_acq_rel) == 0) return;
  // Closing numbers that the program uses by now would be worse than leaving PAPI as it is.
  if (counters.first_id != 0 && perf_event_id(counters.descriptors[0]) != counters.first_id) return;
  long long last[wire::kMaxCounters];
  pthread_mutex_lock(&g_setup);
  g_papi.PAPI_stop(counters.event_set, last);
  discard_set(counters.event_set);
  g_papi.PAPI_unregister_thread();
  pthread_mutex_unlock(&g_setup);
  counters.descriptor_count = 0;
  g_descriptors.fetch_sub(g_events.count, std::memory_order_relaxed);
}

void abandon_counters(bool close_library) noexcept {
  // The descriptors still count the parent's threads: they may be closed but not stopped.
  for (std::uint32_t i = 0; i < g_process.record_count; ++i) {
    CounterState& counters = g_process.records[i].counters;
    if (counters.running.load(std::memory_order_relaxed) != 0)
      for (std::uint32_t d = 0; d < counters.descriptor_count; ++d)
        if (perf_event_id(counters.descriptors[d]) != 0) close(counters.descriptors[d]);
    counters.running.store(0, std::memory_order_relaxed);
    counters.descriptor_count = 0;
  }
  g_descriptors.store(0, std::memory_order_relaxed);
  g_setup = PTHREAD_MUTEX_INITIALIZER;
  // PAPI believes that its event sets run: only a fresh copy of it can be used here.
  if (!close_library) return;
  if (g_library != nullptr) dlclose(g_library);
  g_library = nullptr;
}

}  // namespace clusterprof::agent
