// SPDX-License-Identifier: BSD-3-Clause
// The main thread waits for what another thread does: at a std::condition_variable, for a std::shared_mutex
// and at a std::counting_semaphore, which uses the kernel's futexes itself. Prints as JSON how long it waited
// at each, and what the other thread did meanwhile.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>

#include "lock_rounds.h"

std::mutex mutex;
std::condition_variable filled;
bool is_filled = false;
std::shared_mutex table;
std::counting_semaphore<1000> items(0);

namespace {

int table_taken = 0;

__attribute__((noinline)) void prepare() { RUN_FOR(0.4, other_stops); }
__attribute__((noinline)) void compute() { RUN_FOR(0.8, other_stops); }
__attribute__((noinline)) void change_table() { RUN_FOR(1.0, other_stops); }
__attribute__((noinline)) void make_item() { RUN_FOR(1.0, other_stops); }

void work(Round* round, void (*first)(), void (*second)() = nullptr) {
  round->part_s[0] = now();
  first();
  round->part_s[1] = round->part_s[2] = now();
  if (second == nullptr) return;
  second();
  round->part_s[2] = now();
}

template <typename Wake>
void wake(Round* round, const Wake& by) {
  round->waking_s = now();
  by();
  round->woken_s = now();
}

void other() {
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    work(round, prepare, compute);
    {
      const std::lock_guard lock(mutex);
      is_filled = true;
    }
    wake(round, [] { filled.notify_all(); });
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    table.lock();
    __atomic_store_n(&table_taken, 1, __ATOMIC_SEQ_CST);
    work(round, change_table);
    // Before the main thread goes on.
    __atomic_store_n(&table_taken, 0, __ATOMIC_SEQ_CST);
    wake(round, [] { table.unlock(); });
  }
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = next_round();
    work(round, make_item);
    wake(round, [] { items.release(); });
  }
  end_last_round();
}

template <typename Wait>
void wait_often(const int* taken, const Wait& wait) {
  for (int i = 0; i < kRounds; ++i) {
    Round* const round = begin_round(taken);
    wait();
    end_round(round);
  }
}

}  // namespace

int main() {
  std::thread thread(other);
  wait_often(nullptr, [] {
    std::unique_lock lock(mutex);
    filled.wait(lock, [] { return is_filled; });
    is_filled = false;
  });
  wait_often(&table_taken, [] { const std::shared_lock lock(table); });
  wait_often(nullptr, [] { items.acquire(); });
  thread.join();
  std::printf("{");
  print_kind("condition", 0, ", ");
  print_kind("rwlock", 1, ", ");
  print_kind("items", 2, "}\n");
  return 0;
}
