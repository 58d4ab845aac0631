// Stands for an OpenMP run time that tells tools of the chunks of loops and how they are shared out, as the
// interface is since OpenMP 5.2: calls the tool as such a run time does, from two threads. Each function
// below that is named after a schedule is where the program would call it. Prints as JSON what it has told.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef union {
  uint64_t value;
  void* pointer;
} Data;
typedef void (*Function)(void);
typedef struct {
  int (*initialize)(Function (*lookup)(const char*), int, Data*);
  void (*finalize)(Data*);
  Data data;
} Tool;
typedef Tool* (*StartTool)(unsigned version, const char* runtime);

enum {
  kParallelBegin = 3,
  kParallelEnd = 4,
  kImplicitTask = 7,
  kSyncRegionWait = 16,
  kWork = 20,
  kDispatch = 32
};
enum { kBegin = 1, kEnd = 2, kLoopChunk = 3, kBarrierOfRegion = 9 };
enum { kStatic = 10, kDynamic = 11, kGuided = 12, kOther = 13 };
enum { kRounds = 5, kIterations = 40 };

static Function callbacks[64];

static int set_callback(int which, Function callback) {
  if (which < 0 || which >= 64) return 1;
  callbacks[which] = callback;
  return 5;  // it will always be called
}
static Function lookup(const char* name) {
  return strcmp(name, "ompt_set_callback") == 0 ? (Function)set_callback : NULL;
}

#define CALL(which, types, ...) \
  if (callbacks[which] != NULL) ((void(*) types)callbacks[which])(__VA_ARGS__)

static void tell_work(Data* parallel, Data* task, int kind, int endpoint, const void* code) {
  CALL(kWork, (int, int, Data*, Data*, uint64_t, const void*), kind, endpoint, parallel, task,
       endpoint == kBegin ? kIterations : 0, code);
}

// The thread's share of a loop, in chunks of these many iterations.
static void loop(Data* parallel, Data* task, int kind, const void* code, const int* chunks) {
  tell_work(parallel, task, kind, kBegin, code);
  for (; *chunks != 0; ++chunks) {
    struct {
      uint64_t start, iterations;
    } chunk = {0, (uint64_t)*chunks};
    Data instance = {.pointer = &chunk};
    CALL(kDispatch, (Data*, Data*, int, Data), parallel, task, kLoopChunk, instance);
    const struct timespec time = {0, 200000};
    nanosleep(&time, NULL);
  }
  tell_work(parallel, task, kind, kEnd, code);
}

#define LOOP(name, kind, main_chunks, other_chunks)                                      \
  __attribute__((noinline)) static void name(Data* parallel, Data* task, int number) {   \
    static const int of_main[] = main_chunks, of_other[] = other_chunks;                 \
    loop(parallel, task, kind, (const char*)name + 1, number == 0 ? of_main : of_other); \
  }
#define CHUNKS(...) \
  { __VA_ARGS__, 0 }
LOOP(static_loop, kStatic, CHUNKS(20), CHUNKS(20))
LOOP(dynamic_loop, kDynamic, CHUNKS(4, 4, 4, 4, 4, 4), CHUNKS(4, 4, 4, 4))
LOOP(guided_loop, kGuided, CHUNKS(20, 5), CHUNKS(10, 5))
LOOP(other_loop, kOther, CHUNKS(40), {0})

static Data parallel;

static void take_part(int number) {
  Data task = {0};
  const void* const code = (const char*)take_part + 1;
  CALL(kImplicitTask, (int, Data*, Data*, unsigned, unsigned, int), kBegin, &parallel, &task, 2u,
       (unsigned)number, 1);
  static_loop(&parallel, &task, number);
  dynamic_loop(&parallel, &task, number);
  guided_loop(&parallel, &task, number);
  other_loop(&parallel, &task, number);
  CALL(kSyncRegionWait, (int, int, Data*, Data*, const void*), kBarrierOfRegion, kBegin, &parallel, &task,
       code);
}

static void* worker(void* unused) {
  take_part(1);
  return unused;
}

__attribute__((noinline)) static void region(void) {
  Data task = {0};
  const void* const code = (const char*)region + 1;
  parallel.value = 0;
  CALL(kParallelBegin, (Data*, const void*, Data*, unsigned, int, const void*), &task, NULL, &parallel, 2u, 0,
       code);
  pthread_t other;
  if (pthread_create(&other, NULL, worker, NULL) != 0) return;
  take_part(0);
  pthread_join(other, NULL);
  CALL(kParallelEnd, (Data*, Data*, int, const void*), &parallel, &task, 0, code);
}

int main(void) {
  const StartTool start = (StartTool)dlsym(RTLD_DEFAULT, "ompt_start_tool");
  Tool* const tool = start != NULL ? start(202111, "stand-in of a newer run time") : NULL;
  if (tool != NULL && tool->initialize(lookup, 0, &tool->data) == 0) return 1;
  for (int r = 0; r < kRounds; ++r) region();
  if (tool != NULL) tool->finalize(&tool->data);
  printf(
      "{\"static_loop\": [[\"static\"], %d, %d], \"dynamic_loop\": [[\"dynamic\"], %d, %d], "
      "\"guided_loop\": [[\"guided\"], %d, %d], \"other_loop\": [[\"handed_out\"], %d, %d]}\n",
      2 * kRounds, kIterations * kRounds, 10 * kRounds, kIterations * kRounds, 4 * kRounds,
      kIterations * kRounds, 1 * kRounds, kIterations * kRounds);
  return 0;
}
