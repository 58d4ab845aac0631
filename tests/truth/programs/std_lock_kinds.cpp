// SPDX-License-Identifier: BSD-3-Clause
// The main thread waits for what another thread does: at a std::condition_variable, for a std::shared_mutex
// and at a std::counting_semaphore, which uses the kernel's futexes itself. Prints as JSON how long it waited
// at each.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

std::mutex mutex;
std::condition_variable filled;
bool is_filled = false;
std::shared_mutex table;
std::counting_semaphore<1000> items(0);

namespace {

constexpr int kRounds = 3;

// In place, so that nothing but the function that works is on its stack.
#define RUN_FOR(SECONDS)                                \
  do {                                                  \
    const auto until = Clock::now() + Seconds(SECONDS); \
    while (Clock::now() < until) {                      \
    }                                                   \
  } while (false)

std::atomic<int> phase = 0;

__attribute__((noinline)) void prepare() { RUN_FOR(0.4); }
__attribute__((noinline)) void compute() { RUN_FOR(0.8); }
__attribute__((noinline)) void change_table() { RUN_FOR(1.0); }
__attribute__((noinline)) void make_item() { RUN_FOR(1.0); }

void until_phase(int wanted) {
  while (phase < wanted) {
  }
}

void other() {
  int begin = 0;
  for (int i = 0; i < kRounds; ++i) {
    until_phase(++begin);
    prepare();
    compute();
    {
      const std::lock_guard lock(mutex);
      is_filled = true;
    }
    filled.notify_all();
  }
  for (int i = 0; i < kRounds; ++i) {
    const std::unique_lock lock(table);
    until_phase(++begin);
    change_table();
  }
  for (int i = 0; i < kRounds; ++i) {
    until_phase(++begin);
    make_item();
    items.release();
  }
}

template <typename Wait>
void measure(const char* name, const Wait& wait, const char* end) {
  Seconds waited(0);
  for (int i = 0; i < kRounds; ++i) {
    RUN_FOR(0.1);
    ++phase;
    const auto from = Clock::now();
    wait();
    waited += Clock::now() - from;
  }
  std::printf("\"%s\": %.9f%s", name, waited.count(), end);
}

}  // namespace

int main() {
  std::thread thread(other);
  std::printf("{");
  measure(
      "condition",
      [] {
        std::unique_lock lock(mutex);
        filled.wait(lock, [] { return is_filled; });
        is_filled = false;
      },
      ", ");
  measure(
      "rwlock", [] { const std::shared_lock lock(table); }, ", ");
  measure(
      "items", [] { items.acquire(); }, "}\n");
  thread.join();
  return 0;
}
