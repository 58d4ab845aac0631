// Names parts of itself through interfaces of others: `annotations INTERFACE [PAIRS]`. Of two regions, one
// inside the other, prints as JSON for how long they ran: from before the call that begins one until after
// the one that ends it, and what is within these calls. With PAIRS: that many empty regions, and the
// nanoseconds that one takes.
//   nvtx     NVTX, with its own header
//   itt      what the static part of ITT does: it loads the library that INTEL_LIBITTNOTIFY64 names
//   kokkos   what Kokkos does: it loads the library that KOKKOS_TOOLS_LIBS names
//   petsc, likwid, caliper, roctx: functions of the library that annotations_library.c stands for
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#endif

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void spin(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
}

static void begin_nothing(const char* name) { (void)name; }
static void end_nothing(const char* name) { (void)name; }
static void (*begin)(const char*) = begin_nothing;
static void (*end)(const char*) = end_nothing;

enum { kReductions = 10 };
static double reduce_s[kReductions], reduce_within_s[kReductions];

#ifdef HAS_NVTX
static void begin_nvtx(const char* name) { nvtxRangePushA(name); }
static void end_nvtx(const char* name) { (void)name, nvtxRangePop(); }
// What else there is: domains, registered names, numbers, ranges that another thread ends, other names than
// there is room for.
static void* end_range(void* range) {
  nvtxRangeEnd(*(nvtxRangeId_t*)range);
  return NULL;
}
static void more_of_nvtx(void) {
  const nvtxDomainHandle_t nccl = nvtxDomainCreateA("NCCL"), own = nvtxDomainCreateA("solver");
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(nccl, "AllReduce");
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  for (int i = 0; i < kReductions; ++i) {
    attributes.payload.llValue = i;
    const double from = now();
    nvtxDomainRangePushEx(nccl, &attributes);
    const double within = now();
    spin(i == 7 ? 0.004 : 0.001);
    reduce_within_s[i] = now() - within;
    nvtxDomainRangePop(nccl);
    reduce_s[i] = now() - from;
  }
  // They end in another order than they were begun in: each domain has its own.
  attributes.payloadType = NVTX_PAYLOAD_UNKNOWN;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "assemble";
  nvtxDomainRangePushEx(own, &attributes);
  nvtxRangePushA("crossing");
  nvtxDomainRangePop(own);
  spin(0.005);
  nvtxRangePop();
  nvtxRangeId_t range = nvtxRangeStartA("of two threads");
  pthread_t thread;
  pthread_create(&thread, NULL, end_range, &range);
  pthread_join(thread, NULL);
  for (int i = 0; i < 3000; ++i) {
    char name[32];
    snprintf(name, sizeof name, "name %d", i);
    nvtxRangePushA(name);
    nvtxRangePop();
  }
}
#endif

// --- ITT ---

struct itt_id {
  unsigned long long d1, d2, d3;
};
struct itt_domain {
  volatile int flags;
  const char* name;
  void* wide;
  int extra1;
  void* extra2;
  struct itt_domain* next;
};
struct itt_string;
static struct itt_domain* (*itt_domain_create)(const char*);
static struct itt_string* (*itt_string_handle_create)(const char*);
static void (*itt_task_begin)(const struct itt_domain*, struct itt_id, struct itt_id, struct itt_string*);
static void (*itt_task_end)(const struct itt_domain*);
static void (*itt_pause)(void) = (void (*)(void))begin_nothing;  // that is not there is null behind it
static struct itt_api {
  const char* name;
  void** function;
  void *initial, *null;
  int group;
} itt_apis[] = {{"__itt_domain_create", (void**)&itt_domain_create, NULL, NULL, 1},
                {"__itt_string_handle_create", (void**)&itt_string_handle_create, NULL, NULL, 1},
                {"__itt_task_begin", (void**)&itt_task_begin, NULL, NULL, 1},
                {"__itt_task_end", (void**)&itt_task_end, NULL, NULL, 1},
                {"__itt_pause", (void**)&itt_pause, NULL, NULL, 1},
                {NULL, NULL, NULL, NULL, 0}};
static struct {
  unsigned char magic[8];
  unsigned long major, minor, build;
  volatile long initialized, mutex_initialized, counter;
  pthread_mutex_t mutex;
  void *library, *error_handler;
  const char** path;
  struct itt_api* apis;
} itt_global = {{0xed, 0xab, 0xab, 0xec, 0x0d, 0xee, 0xda, 0x30},
                3,
                25,
                20230314,
                0,
                0,
                0,
                PTHREAD_MUTEX_INITIALIZER,
                NULL,
                NULL,
                NULL,
                itt_apis};
static struct itt_domain* itt_own;
static void begin_itt(const char* name) {
  static const struct itt_id none;
  static struct {
    const char* name;
    struct itt_string* handle;
  } known[2];
  int i = 0;
  while (i < 2 && known[i].name != NULL && known[i].name != name) ++i;
  if (i == 2) abort();
  if (known[i].name == NULL) known[i].handle = itt_string_handle_create(known[i].name = name);
  itt_task_begin(itt_own, none, none, known[i].handle);
}
static void end_itt(const char* name) { (void)name, itt_task_end(itt_own); }
// More domains and names than there is room for: old callers look into each domain, and no count is lost.
static int more_of_itt(void) {
  static const struct itt_id none;
  for (int i = 0; i < 300; ++i) {
    char name[32];
    snprintf(name, sizeof name, "domain %d", i);
    struct itt_domain* const domain = itt_domain_create(name);
    if (domain == NULL || domain->flags == 0) return 0;
    itt_task_begin(domain, none, none, itt_string_handle_create("of many"));
    itt_task_end(domain);
  }
  for (int i = 0; i < 5000; ++i) {
    char name[32];
    snprintf(name, sizeof name, "name %d", i);
    if (itt_string_handle_create(name) == NULL) return 0;
  }
  itt_task_begin(itt_own, none, none, itt_string_handle_create("one too many"));
  itt_task_end(itt_own);
  return itt_string_handle_create("of many") == itt_string_handle_create("of many");
}
static int load_itt(void) {
  const char* const path = getenv("INTEL_LIBITTNOTIFY64");
  void* const library = path != NULL ? dlopen(path, RTLD_LAZY) : NULL;
  void (*const init)(void*, int) =
      library != NULL ? (void (*)(void*, int))dlsym(library, "__itt_api_init") : NULL;
  if (init == NULL) return 0;
  init(&itt_global, 0);
  if (itt_domain_create == NULL || itt_pause != NULL) return 0;
  itt_own = itt_domain_create("org.example.solver");
  return itt_own != NULL && itt_own->flags != 0;
}

// --- Kokkos ---

static void (*kokkos_begin)(const char*, uint32_t, uint64_t*);
static void (*kokkos_end)(uint64_t);
static uint64_t kokkos_kernels[2];
static int kokkos_depth;
static void begin_kokkos(const char* name) { kokkos_begin(name, 0, &kokkos_kernels[kokkos_depth++]); }
static void end_kokkos(const char* name) { (void)name, kokkos_end(kokkos_kernels[--kokkos_depth]); }
static int load_kokkos(void) {
  const char* const path = getenv("KOKKOS_TOOLS_LIBS");
  void* const library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (library == NULL) return 0;
  void (*const init)(int, uint64_t, uint32_t, void*) =
      (void (*)(int, uint64_t, uint32_t, void*))dlsym(library, "kokkosp_init_library");
  kokkos_begin = (void (*)(const char*, uint32_t, uint64_t*))dlsym(library, "kokkosp_begin_parallel_for");
  kokkos_end = (void (*)(uint64_t))dlsym(library, "kokkosp_end_parallel_for");
  if (init == NULL || kokkos_begin == NULL || kokkos_end == NULL) return 0;
  init(0, 20211015, 0, NULL);
  return 1;
}

// --- functions of libraries ---

extern int PetscLogStageRegister(const char*, int*) __attribute__((weak));
extern int PetscLogStagePush(int) __attribute__((weak));
extern int PetscLogStagePop(void) __attribute__((weak));
extern int likwid_markerStartRegion(const char*) __attribute__((weak));
extern int likwid_markerStopRegion(const char*) __attribute__((weak));
extern void cali_begin_region(const char*) __attribute__((weak));
extern void cali_end_region(const char*) __attribute__((weak));
extern int roctxRangePushA(const char*) __attribute__((weak));
extern int roctxRangePop(void) __attribute__((weak));
extern int calls_of_library(void) __attribute__((weak));

static void begin_petsc(const char* name) {
  static struct {
    const char* name;
    int stage;
  } known[2];
  int i = 0;
  while (i < 2 && known[i].name != NULL && known[i].name != name) ++i;
  if (i == 2) abort();
  if (known[i].name == NULL) PetscLogStageRegister(known[i].name = name, &known[i].stage);
  PetscLogStagePush(known[i].stage);
}
static void end_petsc(const char* name) { (void)name, PetscLogStagePop(); }
static void begin_likwid(const char* name) { likwid_markerStartRegion(name); }
static void end_likwid(const char* name) { likwid_markerStopRegion(name); }
static void begin_roctx(const char* name) { roctxRangePushA(name); }
static void end_roctx(const char* name) { (void)name, roctxRangePop(); }

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char *const which = argv[1], *const outer = "outer", *const inner = "inner";
  const int is_alone = getenv("INTEL_LIBITTNOTIFY64") == NULL;  // run without clusterprof
  if (strcmp(which, "nvtx") == 0) {
#ifdef HAS_NVTX
    begin = begin_nvtx, end = end_nvtx;
#else
    return 77;
#endif
  }
  if (strcmp(which, "itt") == 0 && !is_alone) {
    if (!load_itt()) return 3;
    begin = begin_itt, end = end_itt;
  }
  if (strcmp(which, "kokkos") == 0 && !is_alone) {
    if (!load_kokkos()) return 3;
    begin = begin_kokkos, end = end_kokkos;
  }
  if (strcmp(which, "petsc") == 0) begin = begin_petsc, end = end_petsc;
  if (strcmp(which, "likwid") == 0) begin = begin_likwid, end = end_likwid;
  if (strcmp(which, "caliper") == 0) begin = cali_begin_region, end = cali_end_region;
  if (strcmp(which, "roctx") == 0) begin = begin_roctx, end = end_roctx;

  if (argc > 2) {
    const long pairs = atol(argv[2]);
    const double from = now();
    for (long i = 0; i < pairs; ++i) {
      begin(outer);
      end(outer);
    }
    printf("{\"count\": %ld, \"pair_ns\": %.2f}\n", pairs, (now() - from) / (double)pairs * 1e9);
    return 0;
  }
  double outer_s = 0, inner_s = 0, outer_within_s = 0, inner_within_s = 0;
  for (int i = 0; i < 20; ++i) {
    const double outer_from = now();
    begin(outer);
    const double outer_within = now();
    spin(0.010);
    for (int k = 0; k < 5; ++k) {
      const double inner_from = now();
      begin(inner);
      const double inner_within = now();
      spin(0.005);
      inner_within_s += now() - inner_within;
      end(inner);
      inner_s += now() - inner_from;
    }
    outer_within_s += now() - outer_within;
    end(outer);
    outer_s += now() - outer_from;
  }
#ifdef HAS_NVTX
  if (strcmp(which, "nvtx") == 0) more_of_nvtx();
#endif
  if (strcmp(which, "itt") == 0 && !is_alone && !more_of_itt()) return 4;
  printf(
      "{\"outer_s\": %.9f, \"inner_s\": %.9f, \"outer_within_s\": %.9f, \"inner_within_s\": %.9f, \"calls\": "
      "%d, \"reductions\": [",
      outer_s, inner_s, outer_within_s, inner_within_s, calls_of_library != NULL ? calls_of_library() : 0);
  for (int i = 0; i < kReductions; ++i)
    printf("%s[%.9f, %.9f]", i > 0 ? ", " : "", reduce_within_s[i], reduce_s[i]);
  puts("]}");
  return 0;
}
