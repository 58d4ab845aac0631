// SPDX-License-Identifier: BSD-3-Clause
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#define OWN __attribute__((noinline, noclone))

namespace {

char* volatile g_kept[32];
struct alignas(256) Aligned {
  char bytes[1 << 20];
};
Aligned* volatile g_aligned[8];

void* allocate(void*) {
  auto* volatile number = new long(1);
  delete number;
  return nullptr;
}

// The loader's lock is held, and another thread has to get on.
struct AtLoad {
  AtLoad() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, allocate, nullptr) != 0 || pthread_join(thread, nullptr) != 0)
      std::abort();
  }
} g_at_load;

}  // namespace

extern "C" {
OWN void made() {
  for (int i = 0; i < 20; ++i) g_kept[i] = new char[1 << 20];
}
OWN void made_and_deleted() {
  for (int i = 0; i < 200'000; ++i) {
    auto* volatile number = new long(i);
    delete number;
  }
}
OWN void made_aligned() {
  for (int i = 0; i < 6; ++i) g_aligned[i] = new Aligned;
}
OWN void behind() { asm volatile("nop"); }

__attribute__((visibility("default"))) int work() {
  made();
  made_and_deleted();
  made_aligned();
  behind();
  for (int i = 0; i < 6; ++i)
    if (reinterpret_cast<unsigned long>(g_aligned[i]) % alignof(Aligned) != 0) return 5;
  const auto expect = [](const char* name, void (*from)(), void (*to)(), long allocated, long live,
                         long calls) {
    std::printf("expect %s %lu %lu native %ld %ld %ld 0\n", name, reinterpret_cast<unsigned long>(from),
                reinterpret_cast<unsigned long>(to), allocated, live, calls);
  };
  expect("made", made, made_and_deleted, 20l << 20, 20l << 20, 20);
  expect("made_and_deleted", made_and_deleted, made_aligned, 200'000l * 8, 0, -1);
  expect("made_aligned", made_aligned, behind, 6l << 20, 6l << 20, 6);
  std::fflush(stdout);
  return 0;
}

// More memory than there is.
__attribute__((visibility("default"))) int lack() {
  try {
    volatile std::size_t huge = ~std::size_t{0} / 2;
    g_kept[31] = new char[huge];
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return 6;
}
}
