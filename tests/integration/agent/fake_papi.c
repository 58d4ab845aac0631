/* SPDX-License-Identifier: BSD-3-Clause */
/* A libpapi.so.7 of a machine with two counters: a third event of a set conflicts, unless they take turns.
 * FAKE_PAPI: "no_turns" (the events cannot), "no_start", "no_pmu" (its libpfm does not know the processor),
 * "slow_read" (each reading takes 2 ms, in which the thread does not run), "nap_read" (150 us).
 * FAKE_PAPI_LOG: a file for what was called. */
#include <fcntl.h>
#include <papi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kSets = 64, kEvents = 16, kFirstCode = 0x100 };

static struct set {
  int used, takes_turns, attached, count, running;
  int codes[kEvents];
} sets[kSets];

/* The last one is of another component; CLUMSY fits with nothing. */
static const char* const names[] = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "PAPI_BR_MSP",
                                    "core::CLUMSY", "PAPI_ABSENT",  "box:::POWER"};
enum { kNames = sizeof names / sizeof *names, kClumsy = 4, kAbsent = 5, kPower = 6 };

static PAPI_component_info_t components[2];

static void note(const char* format, ...) {
  const char* path = getenv("FAKE_PAPI_LOG");
  if (path == NULL) return;
  char text[128];
  va_list list;
  va_start(list, format);
  const int bytes = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, text, (size_t)bytes) != bytes) abort();
  close(file);
}

static int is(const char* mode) {
  const char* given = getenv("FAKE_PAPI");
  return given != NULL && strcmp(given, mode) == 0;
}

int PAPI_library_init(int version) {
  strcpy(components[0].name, "perf_event");
  components[0].kernel_multiplex = 1;
  strcpy(components[1].name, "box");
  if (is("no_pmu")) {
    components[0].disabled = PAPI_ECMP;
    strcpy(components[0].disabled_reason, "Error initializing libpfm4: no default PMU found");
  }
  note("init\n");
  return version;
}
int PAPI_thread_init(unsigned long (*id)(void)) { return id() != 0 ? PAPI_OK : PAPI_EINVAL; }
int PAPI_set_domain(int domain) { return domain != 0 ? PAPI_OK : PAPI_EINVAL; }
int PAPI_num_components(void) { return 2; }
const PAPI_component_info_t* PAPI_get_component_info(int index) {
  PAPI_library_init(PAPI_VER_CURRENT);
  return index == 0 || index == 1 ? &components[index] : NULL;
}
int PAPI_disable_component(int index) { return index >= 0 ? PAPI_OK : PAPI_EINVAL; }
int PAPI_event_name_to_code(const char* name, int* code) {
  for (int i = 0; i < kNames; ++i)
    if (strcmp(name, names[i]) == 0) {
      *code = kFirstCode + i;
      return PAPI_OK;
    }
  return PAPI_ENOEVNT;
}
int PAPI_query_event(int code) { return code == kFirstCode + kAbsent ? PAPI_ENOEVNT : PAPI_OK; }
int PAPI_get_event_component(int code) { return code == kFirstCode + kPower ? 1 : 0; }

int PAPI_create_eventset(int* set) {
  for (int i = 0; i < kSets; ++i) {
    if (sets[i].used) continue;
    memset(&sets[i], 0, sizeof sets[i]);
    sets[i].used = 1;
    *set = i;
    return PAPI_OK;
  }
  return PAPI_ENOMEM;
}
int PAPI_assign_eventset_component(int set, int component) {
  return sets[set].used && component == 0 ? PAPI_OK : PAPI_EINVAL;
}
int PAPI_multiplex_init(void) { return PAPI_OK; }
int PAPI_set_multiplex(int set) {
  if (is("no_turns") || sets[set].count != 0) return PAPI_ENOSUPP;
  sets[set].takes_turns = 1;
  note("turns\n");
  return PAPI_OK;
}
int PAPI_attach(int set, unsigned long tid) {
  if (sets[set].count != 0 || tid == 0) return PAPI_EINVAL;
  sets[set].attached = 1;
  note("attach %lu\n", tid);
  return PAPI_OK;
}
int PAPI_add_event(int set, int code) {
  struct set* to = &sets[set];
  if (code == kFirstCode + kClumsy) return PAPI_ECNFLCT;
  if (to->count == kEvents || (to->count == 2 && !to->takes_turns)) return PAPI_ECNFLCT;
  to->codes[to->count++] = code;
  return PAPI_OK;
}
int PAPI_start(int set) {
  if (is("no_start")) return PAPI_EPERM;
  sets[set].running = 1;
  note("start %d\n", sets[set].count);
  return PAPI_OK;
}
/* Event i has counted (i + 1) * 1000. */
int PAPI_read(int set, long long* values) {
  if (!sets[set].running) return PAPI_ENOTRUN;
  const struct timespec two_ms = {0, 2000000}, nap = {0, 150000};
  if (is("slow_read")) nanosleep(&two_ms, NULL);
  if (is("nap_read")) nanosleep(&nap, NULL);
  for (int i = 0; i < sets[set].count; ++i) values[i] = (sets[set].codes[i] - kFirstCode + 1) * 1000;
  return PAPI_OK;
}
int PAPI_stop(int set, long long* values) {
  const int result = PAPI_read(set, values);
  sets[set].running = 0;
  note("stop %d\n", sets[set].count);
  return result;
}
int PAPI_cleanup_eventset(int set) {
  sets[set].count = 0;
  return PAPI_OK;
}
int PAPI_destroy_eventset(int* set) {
  sets[*set].used = 0;
  *set = PAPI_NULL;
  return PAPI_OK;
}
int PAPI_unregister_thread(void) { return PAPI_OK; }
char* PAPI_strerror(int error) {
  static char text[32];
  snprintf(text, sizeof text, "fake error %d", error);
  return text;
}
