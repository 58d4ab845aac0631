// SPDX-License-Identifier: BSD-3-Clause
// Threads of a pool wait for work, which is rare: the main thread computes by itself.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

namespace {

std::mutex mutex;
std::condition_variable submitted;
std::deque<int> tasks;
bool is_over = false;
long done = 0;

void worker() {
  std::unique_lock lock(mutex);
  for (;;) {
    submitted.wait(lock, [] { return is_over || !tasks.empty(); });
    if (tasks.empty()) return;
    tasks.pop_front();
    ++done;
  }
}

__attribute__((noinline)) void compute() {
  const auto until = Clock::now() + std::chrono::milliseconds(700);
  while (Clock::now() < until) {
  }
}

}  // namespace

int main() {
  std::vector<std::thread> pool;
  for (int i = 0; i < 3; ++i) pool.emplace_back(worker);
  for (int i = 0; i < 5; ++i) {
    compute();
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(i);
    }
    submitted.notify_one();
  }
  {
    const std::lock_guard lock(mutex);
    is_over = true;
  }
  submitted.notify_all();
  for (std::thread& thread : pool) thread.join();
  std::printf("%ld\n", done);
  return 0;
}
