// SPDX-License-Identifier: BSD-3-Clause
// Two mutexes, one of pthreads and one of std::mutex in an object of a class. For each, one thread keeps it
// for long at a time and another one waits for it. Prints as JSON what those that wait have measured:
// lacked_s is how long they were ready without a processor in the calls.
#include <pthread.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "without_processor.h"

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

static pthread_mutex_t plain_lock = PTHREAD_MUTEX_INITIALIZER;

namespace work {
struct Queue {
  long length = 0;
  std::mutex lock;
};
Queue queue;
}  // namespace work

namespace {

struct Waited {
  double all_s = 0, longest_s = 0, lacked_s = 0;
  int waits = 0;
};

// In place, so that nothing but the function that holds a mutex is on its stack.
#define RUN_FOR(MILLISECONDS)                                                                          \
  do {                                                                                                 \
    timespec from, at;                                                                                 \
    clock_gettime(CLOCK_MONOTONIC, &from);                                                             \
    do clock_gettime(CLOCK_MONOTONIC, &at);                                                            \
    while ((at.tv_sec - from.tv_sec) * 1000 + (at.tv_nsec - from.tv_nsec) / 1000000 < (MILLISECONDS)); \
  } while (false)

__attribute__((noinline)) void hold_plain() { RUN_FOR(500); }
__attribute__((noinline)) void hold_queue() { RUN_FOR(400); }

template <typename Lock, typename Hold, typename Unlock>
void keep(Seconds length, const Lock& lock, const Hold& hold, const Unlock& unlock) {
  const auto end = Clock::now() + length;
  while (Clock::now() < end) {
    lock();
    hold();
    unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A wait that is over at once is none.
template <typename Lock, typename Unlock>
Waited wait_for(Seconds length, const Lock& lock, const Unlock& unlock) {
  Waited waited;
  const auto end = Clock::now() + length;
  while (Clock::now() < end) {
    const double lacked_before_s = without_processor();
    const auto from = Clock::now();
    lock();
    const double wait_s = Seconds(Clock::now() - from).count();
    waited.lacked_s += without_processor() - lacked_before_s;
    unlock();
    if (wait_s > 0.001) {
      waited.all_s += wait_s;
      if (wait_s > waited.longest_s) waited.longest_s = wait_s;
      ++waited.waits;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  return waited;
}

void lock_plain() { pthread_mutex_lock(&plain_lock); }
void unlock_plain() { pthread_mutex_unlock(&plain_lock); }
void lock_queue() { work::queue.lock.lock(); }
void unlock_queue() { work::queue.lock.unlock(); }

void print(const char* name, const Waited& waited, const char* end) {
  std::printf("\"%s\": {\"wait_s\": %.9f, \"longest_s\": %.9f, \"lacked_s\": %.9f, \"waits\": %d}%s", name,
              waited.all_s, waited.longest_s, waited.lacked_s, waited.waits, end);
}

}  // namespace

int main(int argc, char** argv) {
  const Seconds length(argc > 1 ? std::atof(argv[1]) : 6);
  std::thread first([&] { keep(length, lock_plain, hold_plain, unlock_plain); });
  std::thread second([&] { keep(length, lock_queue, hold_queue, unlock_queue); });
  Waited plain, queue;
  std::thread third([&] { queue = wait_for(length, lock_queue, unlock_queue); });
  plain = wait_for(length, lock_plain, unlock_plain);
  first.join();
  second.join();
  third.join();
  std::printf("{");
  print("plain_lock", plain, ", ");
  print("work::queue", queue, "}\n");
  return 0;
}
