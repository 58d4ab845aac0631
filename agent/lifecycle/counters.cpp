// SPDX-License-Identifier: BSD-3-Clause
// What is counted, and how: by the kernel's own accounting of threads, which costs nothing, and by PAPI. PAPI
// is opened privately at run time, since programs bring their own copy or none. If PAPI cannot be used, we
// count what the kernel accounts for anyway, and the hardware events for which it has names.
#include "agent/lifecycle/counters.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <papi.h>
#include <pthread.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "agent/lifecycle/hardware_events.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/perf_events.h"
#include "agent/lifecycle/text.h"
#include "agent/sigsafe/counters_read.h"
#include "agent/sigsafe/event_group.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

#define CLUSTERPROF_PAPI_FUNCTIONS(f)                                                                      \
  f(PAPI_library_init) f(PAPI_thread_init) f(PAPI_set_domain) f(PAPI_create_eventset) f(PAPI_add_event)    \
      f(PAPI_event_name_to_code) f(PAPI_query_event) f(PAPI_start) f(PAPI_stop) f(PAPI_read)               \
          f(PAPI_num_components) f(PAPI_get_component_info) f(PAPI_disable_component)                      \
              f(PAPI_cleanup_eventset) f(PAPI_destroy_eventset) f(PAPI_unregister_thread) f(PAPI_strerror) \
                  f(PAPI_get_event_component) f(PAPI_assign_eventset_component) f(PAPI_multiplex_init)     \
                      f(PAPI_set_multiplex) f(PAPI_attach)

struct Papi {
#define CLUSTERPROF_DECLARE(name) decltype(&::name) name;
  CLUSTERPROF_PAPI_FUNCTIONS(CLUSTERPROF_DECLARE)
#undef CLUSTERPROF_DECLARE
};

constinit Papi g_papi = {};
constinit void* g_library = nullptr;

using Name = char[wire::kCounterNameBytes];
using Reason = char[wire::kCounterNameBytes];

// The events that the user wants; they count as PAPI's as far as the name tells.
struct Wanted {
  std::uint32_t count;
  Name names[wire::kMaxCounters];
  CounterKind kinds[wire::kMaxCounters];
  CounterKind equivalents[wire::kMaxCounters];
};

// The events that can be counted in this process, and those that cannot.
struct Events {
  std::uint32_t count, missing;
  bool takes_turns;                         // more than the processor counts at a time
  bool has_equivalents;                     // for everything that PAPI counts
  bool kernel_hidden;                       // only what happens in user mode is counted
  bool without_papi;                        // the event set is a group of the kernel's hardware events
  bool only_accounts;                       // nothing is asked of PAPI: what the kernel accounts to threads
  std::uint64_t group[wire::kMaxCounters];  // then: what it is made of, ProcessState::set_count
  int codes[wire::kMaxCounters];
  Name names[wire::kMaxCounters];
  Name missing_names[wire::kMaxCounters];
  Reason missing_reasons[wire::kMaxCounters];
};
constinit Events g_events = {};

// Open for event sets, all threads.
CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<std::uint32_t> g_descriptors = 0;
// Made by open_counters for the thread that called it.
CLUSTERPROF_WRITTEN_BY_FORKS constinit CounterState g_first = {};

// The first ones are always counted, the others if they fit in addition.
constexpr const char* kHardwareEvents[] = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM",
                                           "PAPI_BR_MSP",  "PAPI_DP_OPS",  "PAPI_VEC_DP"};
constexpr std::uint32_t kAlwaysWanted = 4;
constexpr const char* kSoftwareEvents[] = {"task-clock", "page-faults", "context-switches", "cpu-migrations"};
constexpr const char* kLibraries[] = {"libpapi.so.7", "libpapi.so.7.0", "libpapi.so"};
constexpr const char* kCoreComponent = "perf_event";

struct KernelName {
  const char* name;
  CounterKind kind;
};
constexpr KernelName kKernelNames[] = {
    {"task-clock", CounterKind::kTaskClock},
    {"cpu-clock", CounterKind::kTaskClock},
    {"page-faults", CounterKind::kPageFaults},
    {"faults", CounterKind::kPageFaults},
    {"minor-faults", CounterKind::kMinorFaults},
    {"major-faults", CounterKind::kMajorFaults},
    {"context-switches", CounterKind::kContextSwitches},
    {"cs", CounterKind::kContextSwitches},
    {"cpu-migrations", CounterKind::kMigrations},
    {"migrations", CounterKind::kMigrations},
};

void add_missing(const char* name, const char* reason) noexcept {
  const bool is_full = g_events.missing == wire::kMaxCounters;
  const std::uint32_t at = is_full ? wire::kMaxCounters - 1 : g_events.missing++;
  copy_text(g_events.missing_names[at], is_full ? "others" : name);
  copy_text(g_events.missing_reasons[at], is_full ? "too many names" : reason);
}

// --- names ---

CounterKind kernel_kind(const char* name) noexcept {
  for (const KernelName& known : kKernelNames)
    if (strcasecmp(name, known.name) == 0) return known.kind;
  return CounterKind::kPapi;
}

// PAPI's names for the same events, such as perf::PAGE-FAULTS.
CounterKind equivalent_kind(const char* name) noexcept {
  constexpr char kPrefix[] = "perf::";
  return kernel_kind(strncasecmp(name, kPrefix, sizeof kPrefix - 1) == 0 ? name + sizeof kPrefix - 1 : name);
}

void want(Wanted& wanted, const char* name, CounterKind kind) noexcept {
  for (std::uint32_t i = 0; i < wanted.count; ++i)
    if (strcmp(wanted.names[i], name) == 0) return;
  if (wanted.count == wire::kMaxCounters) {
    static_assert(wire::kMaxCounters == 16);
    add_missing(name, "too many: 16 are counted at most");
    return;
  }
  copy_text(wanted.names[wanted.count], name);
  wanted.equivalents[wanted.count] = equivalent_kind(name);
  wanted.kinds[wanted.count++] = kind;
}

void want_list(Wanted& wanted, const char* list) noexcept {
  while (*list != 0) {
    const std::size_t length = strcspn(list, ",");
    Name name;
    const std::size_t kept = length < sizeof name ? length : sizeof name - 1;
    memcpy(name, list, kept);
    name[kept] = 0;
    if (kept != length) {
      add_missing(name, "name too long");
    } else if (length != 0) {
      want(wanted, name, kernel_kind(name));
    }
    list += length;
    if (*list == ',') ++list;
  }
}

bool wants_default() noexcept { return g_options.events[0] == 0; }
bool wants_counters() noexcept { return strcmp(g_options.events, "none") != 0; }

bool is_sampled_on() noexcept { return g_process.samples_event; }

// --- what the kernel allows ---

long open_probe(std::uint32_t type, std::uint64_t config, bool in_kernel) noexcept {
  perf_event_attr event = {};
  event.type = type;
  event.size = sizeof event;
  event.config = config;
  event.disabled = 1;
  event.exclude_kernel = in_kernel ? 0 : 1;
  event.exclude_hv = 1;
  const long descriptor = raw_syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (descriptor >= 0) raw_syscall(SYS_close, descriptor);
  return descriptor;
}

// False, with the reason, if there are no hardware counters. Then PAPI, whose start takes milliseconds, is
// not started.
bool has_hardware(Reason& reason) noexcept {
  const long result = open_probe(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false);
  if (result >= 0) return true;
  describe_event_error(static_cast<int>(-result), reason);
  return false;
}

bool may_look_at_kernel() noexcept {
  const long result = open_probe(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true);
  return result != -EACCES && result != -EPERM;
}

// --- PAPI ---

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

// True for counters of memory, bus, graphics cards and the like. We do not count these, but recognise them.
bool names_other_component(const Wanted& wanted) noexcept {
  for (std::uint32_t i = 0; i < wanted.count; ++i)
    if (wanted.kinds[i] == CounterKind::kPapi &&
        (strstr(wanted.names[i], ":::") != nullptr || strstr(wanted.names[i], "_unc") != nullptr))
      return true;
  return false;
}

// Call before PAPI starts: its search for other units, graphics cards and the like takes time.
void disable_other_components() noexcept {
  const int components = g_papi.PAPI_num_components();
  for (int i = 0; i < components; ++i) {
    const PAPI_component_info_t* const info = g_papi.PAPI_get_component_info(i);
    if (info != nullptr && strcmp(info->name, kCoreComponent) != 0) g_papi.PAPI_disable_component(i);
  }
}

// -1: there is none.
int core_component() noexcept {
  const int components = g_papi.PAPI_num_components();
  for (int i = 0; i < components; ++i) {
    const PAPI_component_info_t* const info = g_papi.PAPI_get_component_info(i);
    if (info != nullptr && strcmp(info->name, kCoreComponent) == 0) return i;
  }
  return -1;
}

// Null, or the reason why PAPI's component for the processor does not work. PAPI's libpfm may know no event
// of a processor that is newer than libpfm. Then it does not even have the kernel's own events.
const char* core_problem() noexcept {
  static constinit Reason problem = {};
  const int component = core_component();
  const PAPI_component_info_t* const info =
      component >= 0 ? g_papi.PAPI_get_component_info(component) : nullptr;
  if (info == nullptr) return "it has no perf_event component";
  if (info->disabled == PAPI_OK || info->disabled == PAPI_EDELAY_INIT) return nullptr;
  copy_text(problem, "perf_event does not work: ");
  append_text(problem, info->disabled_reason);
  return problem;
}

// Null, or why PAPI cannot be used.
const char* initialise_papi(const Wanted& wanted) noexcept {
  // Only one event set at a time can run on a thread, so ours would get in the way of the program's.
  for (const char* name : kLibraries)
    if (void* theirs = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      dlclose(theirs);
      return "the program uses PAPI itself";
    }
  if (!load_papi()) return "no libpapi.so.7 found: install PAPI 7";
  if (!names_other_component(wanted)) disable_other_components();
  const int version = g_papi.PAPI_library_init(PAPI_VER_CURRENT);
  if (version != static_cast<int>(PAPI_VER_CURRENT))
    return version > 0 ? "libpapi has another version" : "PAPI_library_init failed";
  if (g_papi.PAPI_thread_init(pthread_self) != PAPI_OK) return "PAPI_thread_init failed";
  if (const char* const problem = core_problem(); problem != nullptr) return problem;
  // If that is not permitted, PAPI would accept it all the same and count nothing in the kernel.
  g_events.kernel_hidden = !may_look_at_kernel();
  if (g_events.kernel_hidden || g_papi.PAPI_set_domain(PAPI_DOM_ALL) != PAPI_OK) {
    g_events.kernel_hidden = true;
    if (g_papi.PAPI_set_domain(PAPI_DOM_USER) != PAPI_OK) return "PAPI_set_domain failed";
  }
  return nullptr;
}

// The event may or may not be one that PAPI knows by name.
void describe_papi_error(bool is_known, int result, Reason& reason) noexcept {
  Reason no_hardware;
  if (!is_known) {
    copy_text(reason, has_hardware(no_hardware) ? "unknown event: see papi_avail, papi_native_avail"
                                                : "unknown event, or of counters this machine lacks");
  } else if (result == PAPI_ENOEVNT || result == PAPI_ENOIMPL) {
    copy_text(reason, has_hardware(no_hardware) ? "not supported by this processor" : no_hardware);
  } else if (result == PAPI_EPERM || result == PAPI_ENOCMP) {
    describe_event_error(EACCES, reason);
  } else {
    copy_text(reason, g_papi.PAPI_strerror(result));
  }
}

struct Candidate {
  std::uint32_t index;  // into Wanted
  int code;
  bool fits, waits;  // in the set as it is; when the events take turns
};
struct Candidates {
  std::uint32_t count;
  Candidate all[wire::kMaxCounters];
};

// Finds the event. If it cannot be counted here, reports why and returns false.
bool find_code(const char* name, int& code) noexcept {
  Reason reason = {};
  int result = g_papi.PAPI_event_name_to_code(name, &code);
  const bool is_known = result == PAPI_OK;
  if (is_known) result = g_papi.PAPI_query_event(code);
  if (result != PAPI_OK) {
    describe_papi_error(is_known, result, reason);
  } else if (const int component = g_papi.PAPI_get_event_component(code); component != core_component()) {
    const PAPI_component_info_t* const info = g_papi.PAPI_get_component_info(component);
    copy_text(reason, "not counted per thread: PAPI component ");
    append_text(reason, info != nullptr ? info->name : "unknown");
  } else if (g_events.kernel_hidden && (equivalent_kind(name) == CounterKind::kContextSwitches ||
                                        equivalent_kind(name) == CounterKind::kMigrations)) {
    describe_event_error(EACCES, reason);
  }
  if (reason[0] != 0) add_missing(name, reason);
  return reason[0] == 0;
}

void discard_set(int& set) noexcept {
  g_papi.PAPI_cleanup_eventset(set);
  g_papi.PAPI_destroy_eventset(&set);
  set = PAPI_NULL;
}

// Makes an empty event set; PAPI_NULL on failure. If the kernel cannot multiplex, PAPI's own multiplexing is
// not used: it would use the program's timers and signals.
int make_set(bool takes_turns) noexcept {
  int set = PAPI_NULL;
  if (g_papi.PAPI_create_eventset(&set) != PAPI_OK) return PAPI_NULL;
  if (!takes_turns) return set;
  const int component = core_component();
  const PAPI_component_info_t* const info =
      component >= 0 ? g_papi.PAPI_get_component_info(component) : nullptr;
  if (info == nullptr || info->kernel_multiplex == 0 ||
      g_papi.PAPI_assign_eventset_component(set, component) != PAPI_OK ||
      g_papi.PAPI_set_multiplex(set) != PAPI_OK)
    discard_set(set);
  return set;
}

bool is_conflict(int result) noexcept { return result == PAPI_ECNFLCT || result == PAPI_ECOUNT; }

// Adds what fits into one set at the same time, in the order of preference.
int fill_set(const Wanted& wanted, Candidates& candidates) noexcept {
  int set = make_set(false);
  if (set == PAPI_NULL) add_missing("PAPI", "PAPI_create_eventset failed");
  for (std::uint32_t i = 0; i < wanted.count && set != PAPI_NULL; ++i) {
    if (wanted.kinds[i] != CounterKind::kPapi) continue;
    Candidate candidate = {i, 0, false, false};
    if (!find_code(wanted.names[i], candidate.code)) continue;
    const int result = g_papi.PAPI_add_event(set, candidate.code);
    candidate.fits = result == PAPI_OK;
    candidate.waits = is_conflict(result);
    if (candidate.fits || candidate.waits) {
      candidates.all[candidates.count++] = candidate;
      continue;
    }
    Reason reason;
    describe_papi_error(true, result, reason);
    add_missing(wanted.names[i], reason);
  }
  return set;
}

int refill_set(Candidates& candidates) noexcept {
  int set = make_set(false);
  for (std::uint32_t i = 0; i < candidates.count && set != PAPI_NULL; ++i)
    if (candidates.all[i].fits)
      candidates.all[i].fits = g_papi.PAPI_add_event(set, candidates.all[i].code) == PAPI_OK;
  return set;
}

// Puts all events into one set and multiplexes them. Keeps the set as it was if that gains nothing.
int take_turns(const Wanted& wanted, Candidates& candidates, int plain) noexcept {
  discard_set(plain);
  Candidates turns = candidates;
  int set = g_papi.PAPI_multiplex_init() == PAPI_OK ? make_set(true) : PAPI_NULL;
  const bool can_take_turns = set != PAPI_NULL;
  bool gains = false;
  for (std::uint32_t i = 0; i < turns.count && can_take_turns; ++i) {
    Candidate& candidate = turns.all[i];
    candidate.fits = g_papi.PAPI_add_event(set, candidate.code) == PAPI_OK;
    gains = gains || (candidate.fits && candidate.waits);
  }
  if (gains) {
    candidates = turns;
    g_events.takes_turns = true;
  } else {
    if (can_take_turns) discard_set(set);
    set = refill_set(candidates);
  }
  for (std::uint32_t i = 0; i < candidates.count; ++i)
    if (!candidates.all[i].fits)
      add_missing(wanted.names[candidates.all[i].index],
                  can_take_turns ? "conflicts with the others, even when they take turns"
                                 : "conflicts with the others, which cannot take turns");
  return set;
}

// Returns the set of those events that PAPI can count. PAPI_NULL if there are none.
int choose_events(const Wanted& wanted, Candidates& candidates) noexcept {
  int set = fill_set(wanted, candidates);
  bool waits = false, fits = false;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    const Candidate& candidate = candidates.all[i];
    if (candidate.waits && wants_default() && candidate.index >= kAlwaysWanted) {
      add_missing(wanted.names[candidate.index], "does not fit beside the others: ask for it with -e");
      continue;
    }
    waits = waits || candidate.waits;
    candidates.all[kept++] = candidate;
  }
  candidates.count = kept;
  if (waits && set != PAPI_NULL) set = take_turns(wanted, candidates, set);
  for (std::uint32_t i = 0; i < candidates.count; ++i) fits = fits || candidates.all[i].fits;
  if (!fits && set != PAPI_NULL) discard_set(set);
  return set;
}

// PAPI_add_event opens descriptors, with the lowest free numbers. A program with one thread must get the same
// numbers as without us. So the numbers up to kHighDescriptor are occupied meanwhile.
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

// One thread at a time, so that the new descriptors can be distinguished from those of other threads.
CLUSTERPROF_WRITTEN_BY_FORKS constinit pthread_mutex_t g_setup = PTHREAD_MUTEX_INITIALIZER;

int lowest_free_descriptor() noexcept {
  const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) close(descriptor);
  return descriptor;
}

// PAPI has just opened perf events. They are the descriptors that executed programs would inherit.
void find_descriptors(int lowest, CounterState& counters) noexcept {
  constexpr int kLookAhead = 256;
  constexpr std::uint32_t kMost = sizeof counters.descriptors / sizeof *counters.descriptors;
  counters.descriptor_count = 0;
  counters.first_id = 0;
  if (lowest < 0) return;
  for (int descriptor = lowest; descriptor < lowest + kLookAhead; ++descriptor) {
    if (counters.descriptor_count == kMost) break;
    const int flags = fcntl(descriptor, F_GETFD);
    // The lowest free numbers are used first, so there is none of ours beyond the last one.
    if (flags < 0 && counters.descriptor_count >= g_process.set_count) break;
    if (flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    const std::uint64_t id = perf_event_id(descriptor);
    if (id == 0) continue;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    if (counters.descriptor_count == 0) counters.first_id = id;
    counters.descriptors[counters.descriptor_count++] = descriptor;
  }
}

// Adds the chosen events and starts them, for the calling thread (0) or another one. On failure nothing is
// left behind.
bool start_set(int& set, std::int32_t tid) noexcept {
  set = make_set(g_events.takes_turns);
  if (set == PAPI_NULL) return false;
  bool good = true;
  if (tid != 0)
    good = g_papi.PAPI_assign_eventset_component(set, core_component()) == PAPI_OK &&
           g_papi.PAPI_attach(set, static_cast<unsigned long>(tid)) == PAPI_OK;
  for (std::uint32_t i = 0; i < g_events.count && good; ++i)
    if (g_process.counter_kinds[i] == CounterKind::kPapi)
      good = g_papi.PAPI_add_event(set, g_events.codes[i]) == PAPI_OK;
  good = good && g_papi.PAPI_start(set) == PAPI_OK;
  if (!good) discard_set(set);
  return good;
}

// For a thread other than the one for which open_counters has prepared the set.
bool start_event_set(CounterState& counters, std::int32_t tid) noexcept {
  if (are_high_events_forbidden()) return false;
  const std::uint32_t open = g_descriptors.fetch_add(g_process.set_count, std::memory_order_relaxed);
  // Descriptors are the program's; it gets at least three quarters.
  bool started = false;
  if (g_events.without_papi) {
    started = open_event_group(counters, tid, g_events.group, g_process.set_count, !g_events.kernel_hidden);
  } else if (open + g_process.set_count <=
             static_cast<std::uint32_t>(LowDescriptorsTaken::descriptor_limit()) / 4) {
    pthread_mutex_lock(&g_setup);
    const int lowest = lowest_free_descriptor();
    started = start_set(counters.event_set, tid);
    if (started) find_descriptors(lowest, counters);
    pthread_mutex_unlock(&g_setup);
  }
  if (started) {
    counters.running.store(1, std::memory_order_release);
  } else {
    g_descriptors.fetch_sub(g_process.set_count, std::memory_order_relaxed);
  }
  return started;
}

int open_migrations(std::int32_t tid) noexcept {
  perf_event_attr event = {};
  event.type = PERF_TYPE_SOFTWARE;
  event.size = sizeof event;
  event.config = PERF_COUNT_SW_CPU_MIGRATIONS;
  event.exclude_hv = 1;
  return open_high_event(event, tid);
}

bool counts(const CounterState& counters, CounterKind kind) noexcept {
  const CounterKind* const kinds =
      counters.equivalents ? g_process.equivalent_kinds : g_process.counter_kinds;
  for (std::uint32_t i = 0; i < g_process.counter_count; ++i)
    if (kinds[i] == kind) return true;
  return false;
}

void reset_counters(CounterState& counters) noexcept {
  counters.counts.store(0, std::memory_order_relaxed);
  counters.running.store(0, std::memory_order_relaxed);
  counters.attached = counters.equivalents = false;
  counters.descriptor_count = 0;
  counters.migrations_descriptor = -1;
  counters.migrations_id = 0;
  counters.migrations_known = counters.migrations_due = false;
  counters.in_mpi = 0;
  memset(counters.base, 0, sizeof counters.base);
  memset(counters.inside, 0, sizeof counters.inside);
}

void count_failure() noexcept {
  count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kCounterFailed);
}

void start_migrations(CounterState& counters, std::int32_t tid) noexcept {
  if (counters.migrations_descriptor >= 0 || !counts(counters, CounterKind::kMigrations)) return;
  counters.migrations_descriptor = open_migrations(tid);
  if (counters.migrations_descriptor < 0) {
    counters.migrations_descriptor = -1;
    count_failure();
    return;
  }
  counters.migrations_id = perf_event_id(counters.migrations_descriptor);
}

// For a sample handler: ProcessState::open_due_event.
void open_due_migrations(CounterState& counters) noexcept {
  counters.migrations_due = false;
  if (!are_high_events_forbidden()) start_migrations(counters, 0);
}

void stop_migrations(CounterState& counters) noexcept {
  if (counters.migrations_descriptor < 0) return;
  const bool is_ours = perf_event_id(counters.migrations_descriptor) == counters.migrations_id;
  close_high_event(is_ours ? counters.migrations_descriptor : -1);
  counters.migrations_descriptor = -1;
}

// Uses what the kernel counts anyway, instead of what PAPI cannot count on this thread.
void use_equivalents(CounterState& counters) noexcept {
  counters.equivalents = g_events.has_equivalents;
  if (!counters.equivalents) count_failure();
}

// --- the choice ---

Wanted wanted_events() noexcept {
  Wanted wanted = {};
  if (!wants_default()) {
    want_list(wanted, g_options.events);
  } else {
    Reason no_hardware;
    const bool hardware = has_hardware(no_hardware);
    for (const char* name : kHardwareEvents) {
      if (hardware) want(wanted, name, CounterKind::kPapi);
    }
    for (std::uint32_t i = 0; i < kAlwaysWanted && !hardware; ++i)
      add_missing(kHardwareEvents[i], no_hardware);
    for (const char* name : kSoftwareEvents)
      if (!hardware) want(wanted, name, kernel_kind(name));
  }
  // PAPI need not be started for it.
  if (is_sampled_on()) want(wanted, g_options.sample_on.name, equivalent_kind(g_options.sample_on.name));
  return wanted;
}

void add_event(const Wanted& wanted, std::uint32_t index, int code) noexcept {
  const std::uint32_t at = g_events.count++;
  copy_text(g_events.names[at], wanted.names[index]);
  g_events.codes[at] = code;
  g_process.counter_kinds[at] = wanted.kinds[index];
  g_process.equivalent_kinds[at] = wanted.equivalents[index];
  g_process.counter_count = g_events.count;
}

void add_kernel_events(const Wanted& wanted) noexcept {
  for (std::uint32_t i = 0; i < wanted.count; ++i)
    if (wanted.kinds[i] < CounterKind::kPapi) add_event(wanted, i, 0);
}

void add_migrations(const Wanted& wanted) noexcept {
  for (std::uint32_t i = 0; i < wanted.count; ++i) {
    if (wanted.kinds[i] != CounterKind::kMigrations) continue;
    if (g_first.migrations_descriptor < 0) {
      const int descriptor = open_migrations(0);
      if (descriptor < 0) {
        Reason reason;
        describe_event_error(-descriptor, reason);
        add_missing(wanted.names[i], reason);
        continue;
      }
      g_first.migrations_descriptor = descriptor;
      g_first.migrations_id = perf_event_id(descriptor);
    }
    add_event(wanted, i, 0);
  }
}

// Adds what the kernel counts anyway and PAPI cannot be asked for, under PAPI's names.
void add_equivalents(Wanted& wanted) noexcept {
  for (std::uint32_t i = 0; i < wanted.count; ++i) {
    if (wanted.kinds[i] != CounterKind::kPapi) continue;
    wanted.kinds[i] = wanted.equivalents[i];
    if (wanted.kinds[i] < CounterKind::kPapi) add_event(wanted, i, 0);
  }
}

void note_hidden_kernel() noexcept {
  if (!g_events.kernel_hidden) return;
  Reason reason;
  describe_event_error(EACCES, reason);
  add_missing("kernel mode of hardware events", reason);
}

// PAPI's presets are all of the processor's counters.
bool is_preset(const char* name) noexcept { return strncmp(name, "PAPI_", 5) == 0; }

// Opens those hardware events for which the kernel has names, as far as the processor counts them together.
// They become the event set of this thread. `no_papi`: why the others are missing.
void add_hardware_events(const Wanted& wanted, const char* no_papi) noexcept {
  Reason no_hardware;
  const bool hardware = has_hardware(no_hardware);
  g_events.kernel_hidden = !may_look_at_kernel();
  for (std::uint32_t i = 0; i < wanted.count; ++i) {
    if (wanted.kinds[i] != CounterKind::kPapi) continue;
    std::uint64_t& config = g_events.group[g_process.set_count];
    if (!hardware && is_preset(wanted.names[i])) {
      add_missing(wanted.names[i], no_hardware);
      continue;
    }
    if (!hardware || !find_hardware_event(wanted.names[i], config)) {
      add_missing(wanted.names[i], no_papi);
      continue;
    }
    const int error = add_to_event_group(g_first, 0, config, !g_events.kernel_hidden);
    if (error == 0) {
      add_event(wanted, i, 0);
      ++g_process.set_count;
      continue;
    }
    Reason reason;
    describe_event_error(error, reason);
    if (error == EINVAL) copy_text(reason, "conflicts with the others, which cannot take turns");
    if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
      copy_text(reason, "not supported by this processor");
    add_missing(wanted.names[i], reason);
  }
  if (g_process.set_count == 0) return;
  g_events.without_papi = true;
  g_process.read_event_set = read_event_group;
  g_first.running.store(1, std::memory_order_relaxed);
  note_hidden_kernel();
}

bool wants_papi(const Wanted& wanted) noexcept {
  for (std::uint32_t i = 0; i < wanted.count; ++i)
    if (wanted.kinds[i] == CounterKind::kPapi) return true;
  return false;
}

// Starts a set with all of these events that can be counted. It becomes the event set of this thread.
void add_papi_events(const Wanted& wanted) noexcept {
  const LowDescriptorsTaken taken;
  const int lowest = lowest_free_descriptor();
  Candidates candidates = {};
  int set = choose_events(wanted, candidates);
  if (set == PAPI_NULL) return;
  if (const int result = g_papi.PAPI_start(set); result != PAPI_OK) {
    discard_set(set);
    Reason reason;
    describe_papi_error(true, result, reason);
    for (std::uint32_t i = 0; i < candidates.count; ++i)
      if (candidates.all[i].fits) add_missing(wanted.names[candidates.all[i].index], reason);
    g_events.takes_turns = false;
    return;
  }
  g_events.has_equivalents = true;
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    const Candidate& candidate = candidates.all[i];
    if (!candidate.fits) continue;
    add_event(wanted, candidate.index, candidate.code);
    ++g_process.set_count;
    if (wanted.equivalents[candidate.index] == CounterKind::kPapi) g_events.has_equivalents = false;
  }
  g_process.read_event_set = g_papi.PAPI_read;
  find_descriptors(lowest, g_first);
  g_first.event_set = set;
  g_first.running.store(1, std::memory_order_relaxed);
  note_hidden_kernel();
}

void forget_events() noexcept {
  g_process.counter_count = g_process.set_count = 0;
  g_process.counts_mpi = false;
  g_process.read_event_set = nullptr;
  g_events = {};
  reset_counters(g_first);
}

// `no_papi`: why PAPI must not be used. Null: it may be used.
void choose_counters(const char* no_papi) noexcept {
  forget_events();
  g_events.only_accounts = true;
  if (!wants_counters()) return;
  Wanted wanted = wanted_events();
  add_kernel_events(wanted);
  if (wants_papi(wanted)) {
    g_events.only_accounts = false;
    if (no_papi == nullptr) no_papi = initialise_papi(wanted);
    if (no_papi == nullptr) {
      add_papi_events(wanted);
    } else {
      add_missing("PAPI", no_papi);
      add_equivalents(wanted);
      add_hardware_events(wanted, no_papi);
    }
    if (wants_default() && g_process.set_count == 0) {
      g_events.count = 0;  // with --sample-on there may be one of these already
      for (const char* name : kSoftwareEvents) want(wanted, name, kernel_kind(name));
      add_kernel_events(wanted);
    }
  }
  add_migrations(wanted);
  g_process.counts_mpi = !wants_default() && g_process.counter_count != 0;
}

}  // namespace

void open_counters() noexcept { choose_counters(nullptr); }

void open_counters_without_papi(const char* reason) noexcept { choose_counters(reason); }

namespace {

bool counts_the_same_after_fork() noexcept {
  // describe_counters() reports an event that could not be sampled on, and must not do so twice.
  return g_events.only_accounts && g_first.migrations_descriptor < 0 && g_options.sample_on.name[0] == 0 &&
         !are_high_events_forbidden();
}

}  // namespace

bool must_know_threads_at_fork() noexcept { return g_library != nullptr || !counts_the_same_after_fork(); }

bool keep_counters() noexcept {
  if (!counts_the_same_after_fork()) return false;
  g_process.open_due_event = open_due_migrations;
  g_first.migrations_due = wants_default() && counts(g_first, CounterKind::kMigrations);
  return true;
}

void describe_counters(wire::SegmentHeader* segment) noexcept {
  const SampleOn& on = g_options.sample_on;
  if (on.name[0] != 0 && on.reason[0] != 0) {
    Name name = "--sample-on ";
    append_text(name, on.name);
    add_missing(name, on.reason);
  }
  memcpy(segment->counter_names, g_events.names, sizeof g_events.names);
  memcpy(segment->unavailable_names, g_events.missing_names, sizeof g_events.missing_names);
  memcpy(segment->unavailable_reasons, g_events.missing_reasons, sizeof g_events.missing_reasons);
  segment->counter_count = g_events.count;
  segment->unavailable_count = g_events.missing;
  segment->counts_mpi_sites = g_process.counts_mpi ? 1 : 0;
  segment->counters_multiplexed = g_events.takes_turns ? 1 : 0;
}

void start_counters(CounterState& counters) noexcept {
  reset_counters(counters);
  if (g_process.counter_count == 0) return;
  // This thread called open_counters.
  if (g_first.migrations_descriptor >= 0) {
    counters.migrations_descriptor = g_first.migrations_descriptor;
    counters.migrations_id = g_first.migrations_id;
    g_first.migrations_descriptor = -1;
  }
  if (g_first.running.exchange(0, std::memory_order_relaxed) != 0) {
    g_descriptors.fetch_add(g_process.set_count, std::memory_order_relaxed);
    counters.event_set = g_first.event_set;
    counters.descriptor_count = g_first.descriptor_count;
    memcpy(counters.descriptors, g_first.descriptors, sizeof counters.descriptors);
    counters.first_id = g_first.first_id;
    counters.running.store(1, std::memory_order_release);
  } else if (g_process.set_count != 0 && !start_event_set(counters, 0)) {
    use_equivalents(counters);
  }
  counters.migrations_due = g_first.migrations_due;
  g_first.migrations_due = false;
  if (!counters.migrations_due) start_migrations(counters, 0);
  counters.counts.store(1, std::memory_order_release);
  // A program that was executed has the accounts of the one before.
  if (g_process.generation != 1 || raw_syscall(SYS_gettid) != g_process.pid) return;
  std::uint64_t now[wire::kMaxCounters];
  const std::uint32_t count = read_counters(counters, nullptr, now);
  for (std::uint32_t i = 0; i < count; ++i)
    if (g_process.counter_kinds[i] < CounterKind::kPapi) counters.base[i] = now[i];
}

void stop_counters(CounterState& counters) noexcept {
  counters.counts.store(0, std::memory_order_relaxed);
  stop_migrations(counters);
  if (counters.running.exchange(0, std::memory_order_acq_rel) == 0) return;
  // Closing descriptors that the program may be using by now would be worse than leaving PAPI as it is.
  if (counters.first_id != 0 && perf_event_id(counters.descriptors[0]) != counters.first_id) return;
  if (g_events.without_papi) {
    close_event_group(counters);
  } else {
    long long last[wire::kMaxCounters];
    pthread_mutex_lock(&g_setup);
    g_papi.PAPI_stop(counters.event_set, last);
    discard_set(counters.event_set);
    if (!counters.attached) g_papi.PAPI_unregister_thread();
    pthread_mutex_unlock(&g_setup);
    counters.descriptor_count = 0;
  }
  g_descriptors.fetch_sub(g_process.set_count, std::memory_order_relaxed);
}

void attach_counters(CounterState& counters, std::int32_t tid) noexcept {
  reset_counters(counters);
  if (g_process.counter_count == 0) return;
  counters.attached = true;
  if (g_process.set_count != 0) {
    std::optional<LowDescriptorsTaken> taken;
    if (!g_events.without_papi) taken.emplace();
    if (!start_event_set(counters, tid)) use_equivalents(counters);
  }
  start_migrations(counters, tid);
  counters.counts.store(1, std::memory_order_release);
}

void abandon_counters(bool close_library) noexcept {
  // The descriptors still count the parent's threads: they may be closed but not stopped.
  const std::uint32_t used = g_process.records_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    CounterState& counters = g_process.records[i].counters;
    if (counters.running.load(std::memory_order_relaxed) != 0)
      for (std::uint32_t d = 0; d < counters.descriptor_count; ++d)
        if (perf_event_id(counters.descriptors[d]) != 0) close(counters.descriptors[d]);
    if (counters.migrations_id != 0 && counters.migrations_descriptor >= 0 &&
        perf_event_id(counters.migrations_descriptor) == counters.migrations_id)
      raw_syscall(SYS_close, counters.migrations_descriptor);
    if (counters.counts.load(std::memory_order_relaxed) != 0) reset_counters(counters);
  }
  g_descriptors.store(0, std::memory_order_relaxed);
  g_setup = PTHREAD_MUTEX_INITIALIZER;
  // PAPI assumes that its event sets still run, so only a fresh copy of PAPI can be used here.
  if (!close_library) return;
  if (g_library != nullptr) dlclose(g_library);
  g_library = nullptr;
}

}  // namespace clusterprof::agent
