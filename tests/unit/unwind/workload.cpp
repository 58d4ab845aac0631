// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/unwind/workload.hpp"

#include <alloca.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace clusterprof::agent::test {
namespace {

volatile double g_sink = 0;

// Keeps a call from becoming a jump.
#define AFTER_CALL() (g_sink = g_sink + 1)

using Callback = std::function<void()>;

__attribute__((noinline)) void recurse(int depth, const Callback& bottom) {
  char room[64];
  std::memset(room, depth, sizeof(room));
  if (depth > 0) {
    recurse(depth - 1, bottom);
  } else {
    bottom();
  }
  g_sink = g_sink + room[depth & 63];
}

__attribute__((noinline)) void with_alloca(int bytes, const Callback& bottom) {
  char* const room = static_cast<char*>(alloca(static_cast<std::size_t>(bytes)));
  std::memset(room, 1, static_cast<std::size_t>(bytes));
  bottom();
  g_sink = g_sink + room[bytes / 2];
}

// A frame that needs more alignment than the ABI gives, and of unknown size: CFA through r10.
__attribute__((noinline)) void realigned(int bytes, const Callback& bottom) {
  alignas(64) char aligned[128];
  char* const room = static_cast<char*>(alloca(static_cast<std::size_t>(bytes)));
  std::memset(aligned, 2, sizeof(aligned));
  std::memset(room, 3, static_cast<std::size_t>(bytes));
  bottom();
  g_sink = g_sink + aligned[bytes & 127] + room[0];
}

__attribute__((noinline)) void big_frame(const Callback& bottom) {
  char room[100'000];
  std::memset(room, 4, sizeof(room));
  bottom();
  g_sink = g_sink + room[5];
}

__attribute__((noinline)) void in_landing_pad(const Callback& bottom) {
  try {
    throw std::runtime_error("expected");
  } catch (const std::exception& error) {
    bottom();
    g_sink = g_sink + error.what()[0];
  }
}

// Many live values: all callee-saved registers are pushed.
__attribute__((noinline)) std::uint64_t many_registers(const std::uint64_t* in, const Callback& bottom) {
  std::uint64_t a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6];
  bottom();
  a += b * c;
  d ^= e + f * g;
  return a ^ b ^ c ^ d ^ e ^ f ^ g;
}

thread_local const Callback* t_bottom = nullptr;
int compare_and_call(const void* left, const void* right) {
  if (t_bottom != nullptr) {
    const Callback* const bottom = t_bottom;
    t_bottom = nullptr;
    (*bottom)();
  }
  return *static_cast<const int*>(left) - *static_cast<const int*>(right);
}

__attribute__((noinline)) void through_qsort(const Callback& bottom) {
  int values[] = {5, 3, 9, 1, 7};
  t_bottom = &bottom;
  std::qsort(values, std::size(values), sizeof(values[0]), compare_and_call);
  g_sink = g_sink + values[2];
}

__attribute__((noinline)) void through_sort(const Callback& bottom) {
  std::vector<int> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 7919 % 41);
  bool called = false;
  std::sort(values.begin(), values.end(), [&](int left, int right) {
    if (!called) {
      called = true;
      bottom();
    }
    return left < right;
  });
  g_sink = g_sink + values[3];
}

int compare_doubles(const void* left, const void* right) {
  const double a = std::cos(*static_cast<const double*>(left));
  const double b = std::cos(*static_cast<const double*>(right));
  return a < b ? -1 : a > b ? 1 : 0;
}

__attribute__((noinline)) int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__attribute__((noinline)) void thrower(int depth) {
  if (depth == 0) throw std::runtime_error("expected");
  thrower(depth - 1);
  AFTER_CALL();
}

void call(int depth, const Callback& bottom) {
  const std::uint64_t numbers[] = {1, 2, 3, 4, 5, 6, 7};
  recurse(depth, [&] {
    with_alloca(100 + depth, [&] {
      realigned(200 + depth, [&] {
        big_frame([&] {
          through_qsort([&] {
            through_sort([&] {
              in_landing_pad([&] { g_sink = g_sink + static_cast<double>(many_registers(numbers, bottom)); });
            });
          });
        });
      });
    });
  });
}

double compute(std::uint64_t seed) {
  double sum = 0;
  double values[64];
  for (int i = 0; i < 64; ++i) values[i] = static_cast<double>((seed + 77u * static_cast<unsigned>(i)) % 101);
  std::qsort(values, 64, sizeof(values[0]), compare_doubles);
  for (const double value : values) sum += std::sin(value) * std::pow(value + 1, 0.3) + std::exp(-value);
  char from[4096];
  char to[4096];
  std::memset(from, static_cast<int>(seed), sizeof(from));
  for (int i = 0; i < 20; ++i) {
    std::memcpy(to, from, sizeof(to) - static_cast<std::size_t>(i));
    from[i] = to[i];
    sum += static_cast<double>(std::strlen(std::to_string(sum).c_str()));
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%g %d", sum, fibonacci(12));
  sum += std::strtod(text, nullptr);
  realigned(64 + static_cast<int>(seed % 64), [&] { sum += fibonacci(8); });
  with_alloca(64 + static_cast<int>(seed % 64), [&] { sum += fibonacci(8); });
  through_sort([&] { sum += fibonacci(9); });
  const std::uint64_t numbers[] = {seed, 2, 3, 4, 5, 6, 7};
  sum += static_cast<double>(many_registers(numbers, [&] { sum += fibonacci(6); }));
  if (seed % 8 == 0) {
    try {
      thrower(5);
    } catch (const std::exception&) {
      sum += 1;
    }
  }
  std::vector<std::string> strings;
  for (int i = 0; i < 20; ++i) strings.push_back("a longer string that is not in place " + std::to_string(i));
  std::sort(strings.begin(), strings.end());
  return sum + static_cast<double>(strings[3].size());
}

}  // namespace

#ifdef WORKLOAD_FRAME_POINTERS
void with_frame_pointers_call(int depth, const Callback& bottom) { call(depth, bottom); }
double with_frame_pointers_compute(std::uint64_t seed) { return compute(seed); }
void with_frame_pointers_realigned(int bytes, const Callback& inside) { realigned(bytes, inside); }
#else
void without_frame_pointers_call(int depth, const Callback& bottom) { call(depth, bottom); }
double without_frame_pointers_compute(std::uint64_t seed) { return compute(seed); }
void without_frame_pointers_realigned(int bytes, const Callback& inside) { realigned(bytes, inside); }
#endif

}  // namespace clusterprof::agent::test
