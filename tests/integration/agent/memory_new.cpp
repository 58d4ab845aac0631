// SPDX-License-Identifier: BSD-3-Clause
// As memory.c, with operator new.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#define OWN __attribute__((noinline, noclone))

namespace {

std::vector<std::unique_ptr<char[]>> g_kept;
struct alignas(256) Aligned {
  char bytes[1 << 20];
};
std::vector<std::unique_ptr<Aligned>> g_aligned;

}  // namespace

extern "C" {
OWN void made() {
  for (int i = 0; i < 20; ++i) g_kept.emplace_back(new char[1 << 20]);
}
OWN void made_and_deleted() {
  for (int i = 0; i < 200'000; ++i) {
    auto* volatile number = new long(i);
    delete number;
  }
}
OWN void made_aligned() {
  for (int i = 0; i < 6; ++i) g_aligned.push_back(std::make_unique<Aligned>());
}
OWN void made_without_throwing() { g_kept.emplace_back(new (std::nothrow) char[3 << 20]); }
OWN void behind() { asm volatile("nop"); }
}

int main() {
  g_kept.reserve(64);
  g_aligned.reserve(64);
  made();
  made_and_deleted();
  made_aligned();
  made_without_throwing();
  behind();
  bool thrown = false;
  try {
    volatile std::size_t huge = ~std::size_t{0} / 2;
    g_kept.emplace_back(new char[huge]);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  if (!thrown) return 1;
  const auto expect = [](const char* name, void (*from)(), void (*to)(), long allocated, long live,
                         long calls) {
    std::printf("expect %s %lu %lu native %ld %ld %ld 0\n", name, reinterpret_cast<unsigned long>(from),
                reinterpret_cast<unsigned long>(to), allocated, live, calls);
  };
  expect("made", made, made_and_deleted, 20l << 20, 20l << 20, 20);
  expect("made_and_deleted", made_and_deleted, made_aligned, 200'000l * 8, 0, -1);
  expect("made_aligned", made_aligned, made_without_throwing, 6l << 20, 6l << 20, 6);
  expect("made_without_throwing", made_without_throwing, behind, 3l << 20, 3l << 20, 1);
}
