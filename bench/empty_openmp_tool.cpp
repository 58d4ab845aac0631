// A tool for OpenMP that does nothing, as a floor: callbacks of OMPT, and functions in front of libgomp's.
// Preloaded.
#include <dlfcn.h>

#include <initializer_list>

#include "agent/openmp/ompt_interface.h"

namespace ompt = clusterprof::agent::ompt;

namespace {

void nothing() {}

int initialize(ompt::Lookup lookup, int, ompt::Data*) {
  const auto set = reinterpret_cast<ompt::SetCallback>(lookup("ompt_set_callback"));
  for (const ompt::Callback which :
       {ompt::kParallelBegin, ompt::kParallelEnd, ompt::kImplicitTask, ompt::kSyncRegionWait, ompt::kWork,
        ompt::kMutexAcquire, ompt::kMutexAcquired, ompt::kTaskCreate, ompt::kTaskSchedule})
    set(which, nothing);
  return 1;
}
void finalize(ompt::Data*) {}
ompt::StartToolResult g_tool = {initialize, finalize, {0}};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {
ompt::StartToolResult* ompt_start_tool(unsigned, const char*) { return &g_tool; }

using Body = void (*)(void*);
void GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags) {
  static const auto real = next<void (*)(Body, void*, unsigned, unsigned)>("GOMP_parallel");
  real(body, data, threads, flags);
}
void GOMP_barrier() {
  static const auto real = next<void (*)()>("GOMP_barrier");
  real();
}
bool GOMP_loop_nonmonotonic_dynamic_next(long* begin, long* end) {
  static const auto real = next<bool (*)(long*, long*)>("GOMP_loop_nonmonotonic_dynamic_next");
  return real(begin, end);
}
void GOMP_critical_start() {
  static const auto real = next<void (*)()>("GOMP_critical_start");
  real();
}
void GOMP_critical_end() {
  static const auto real = next<void (*)()>("GOMP_critical_end");
  real();
}
}
