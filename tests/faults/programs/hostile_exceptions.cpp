// SPDX-License-Identifier: BSD-3-Clause
// Exceptions through frames that are being sampled, in several threads; prints how many were caught where.
#include <pthread.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Counted {
  explicit Counted(long& count) : count_(count) {}
  ~Counted() { ++count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  long& count_;
};

[[gnu::noinline]] int fall(int depth, long& destroyed) {
  const Counted counted(destroyed);
  if (depth == 0) throw std::runtime_error(std::string(100, 'x'));
  const int below = fall(depth - 1, destroyed);
  asm volatile("" ::: "memory");
  return below + 1;
}

[[gnu::noinline]] void rethrow(int depth, long& destroyed) {
  try {
    fall(depth, destroyed);
  } catch (const std::exception&) {
    throw;
  }
}

void throw_often(int rounds, long& caught, long& destroyed) {
  for (int i = 0; i < rounds; ++i) {
    try {
      rethrow(i % 50, destroyed);
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()).size() == 100) ++caught;
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 4000;
  constexpr int kThreads = 4;
  std::vector<long> caught(kThreads), destroyed(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { throw_often(rounds, caught[i], destroyed[i]); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; ++i) std::printf("%ld caught, %ld destroyed\n", caught[i], destroyed[i]);
  std::fflush(stdout);
  throw std::runtime_error("the end");  // std::terminate, SIGABRT
}
