// SPDX-License-Identifier: BSD-3-Clause
// A program with regions that measures how long they take and prints "name number" lines. It only uses
// include/clusterprof.h, and in calls_and_pauses() what mpi-wrap uses.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "agent/agent_api.h"
#include "include/clusterprof.h"

namespace {

volatile std::uint64_t sink;

std::uint64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

__attribute__((noinline)) void spin_ms(std::uint64_t ms) {
  const std::uint64_t end = now_ns() + ms * 1'000'000;
  while (now_ns() < end)
    for (int i = 0; i < 1000; ++i) sink = sink + static_cast<std::uint64_t>(i);
}

// Times from outside of begin and end, and from inside of them: the truth is between.
struct Bounds {
  std::uint64_t outer = 0, inner = 0;  // of all instances together
  std::uint64_t ran = 0;               // CPU time of the inner one
  std::uint64_t longest_outer = 0, longest_inner = 0, shortest_outer = UINT64_MAX,
                shortest_inner = UINT64_MAX;
  std::int64_t longest_n = -1;
  void add(std::int64_t n, std::uint64_t outer_ns, std::uint64_t inner_ns) {
    outer += outer_ns, inner += inner_ns;
    if (inner_ns > longest_inner) longest_n = n;
    longest_outer = std::max(longest_outer, outer_ns), longest_inner = std::max(longest_inner, inner_ns);
    shortest_outer = std::min(shortest_outer, outer_ns), shortest_inner = std::min(shortest_inner, inner_ns);
  }
  void print(const char* name) const {
    const auto line = [name](const char* what, std::uint64_t number) {
      printf("%s.%s %llu\n", name, what, static_cast<unsigned long long>(number));
    };
    line("outer", outer), line("inner", inner), line("ran", ran);
    line("longest.outer", longest_outer), line("longest.inner", longest_inner);
    line("shortest.outer", shortest_outer), line("shortest.inner", shortest_inner);
    line("longest_n", static_cast<std::uint64_t>(longest_n));
  }
};

template <typename Work>
void timed(Bounds& bounds, const char* name, std::int64_t n, Work work) {
  const std::uint64_t before = now_ns();
  clusterprof_region_begin_n(name, n);
  const std::uint64_t begun = now_ns(), ran_before = now_ns(CLOCK_THREAD_CPUTIME_ID);
  work();
  bounds.ran += now_ns(CLOCK_THREAD_CPUTIME_ID) - ran_before;
  const std::uint64_t ends = now_ns();
  clusterprof_region_end(name);
  bounds.add(n, now_ns() - before, ends - begun);
}

int nesting() {
  Bounds outer, step, last, other;
  timed(outer, "outer", -1, [&] {
    spin_ms(50);
    for (std::int64_t n = 0; n < 4; ++n) timed(step, "step", n, [n] { spin_ms(n == 2 ? 120 : 30); });
    timed(last, "last", -1, [] { spin_ms(60); });
  });
  timed(other, "step", 7, [] { spin_ms(20); });  // another region: it is in no other
  other.print("other");
  outer.print("outer");
  step.print("step");
  last.print("last");
  return 0;
}

void* work_in_thread(void*) {
  for (int i = 0; i < 10; ++i) {
    const clusterprof::scope work("work", i);
    const clusterprof::scope inner("inner");
    spin_ms(10);
  }
  return nullptr;
}

int threads() {
  clusterprof_region_begin("main");
  pthread_t made[4];
  for (pthread_t& thread : made) pthread_create(&thread, nullptr, work_in_thread, nullptr);
  for (const pthread_t thread : made) pthread_join(thread, nullptr);
  clusterprof_region_end("main");
  return 0;
}

void throw_inside(int depth) {
  const clusterprof::scope scope("thrown through");
  if (depth == 0) throw 1;
  throw_inside(depth - 1);
}

int exceptions() {
  for (int i = 0; i < 5; ++i) {
    try {
      throw_inside(3);
    } catch (int) {
    }
  }
  const clusterprof::scope scope("behind");
  return 0;
}

jmp_buf jump;

int mismatches() {
  clusterprof_region_begin("a");
  clusterprof_region_begin("b");
  clusterprof_region_begin("c");
  clusterprof_region_end("a");  // b and c end, too
  clusterprof_region_begin("d");
  clusterprof_region_end("never begun");
  clusterprof_region_end("d");
  clusterprof_region_end("a");  // of none
  clusterprof_region_end(nullptr);
  clusterprof_region_begin("a");
  if (setjmp(jump) == 0) {
    clusterprof_region_begin("left");
    longjmp(jump, 1);
  }
  clusterprof_region_end("a");
  clusterprof_region_begin("e");
  clusterprof_region_end(nullptr);
  return 0;
}

int limits() {
  const std::string longer(94, 'x');
  for (const char* tail : {"\xc3\xa4 and more", "\xc3\xa4 and other"})
    clusterprof_region_begin((longer + tail).c_str()), clusterprof_region_end((longer + tail).c_str());
  clusterprof_region_begin(nullptr);
  clusterprof_region_end(nullptr);
  for (int i = 0; i < 150; ++i) clusterprof_region_begin("deep");
  for (int i = 0; i < 150; ++i) clusterprof_region_end("deep");
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "many " + std::to_string(i);
    const clusterprof::scope scope(name.c_str());
  }
  return 0;
}

int forks() {
  clusterprof_region_begin("outer");
  const pid_t child = fork();
  clusterprof_region_begin_n("inner", child == 0 ? 1 : 2);
  spin_ms(100);
  clusterprof_region_end("inner");
  clusterprof_region_end("outer");
  if (child == 0) _exit(0);
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

int pauses() {
  Bounds paused;
  spin_ms(200);
  const std::uint64_t before = now_ns();
  clusterprof_pause();
  const std::uint64_t begun = now_ns();
  spin_ms(100);
  clusterprof_pause();
  spin_ms(20);
  usleep(60000);
  clusterprof_resume();
  spin_ms(120);
  const std::uint64_t ends = now_ns();
  clusterprof_resume();
  paused.outer = now_ns() - before;
  paused.inner = ends - begun;
  spin_ms(100);
  usleep(100000);
  clusterprof_resume();  // too many
  const std::uint64_t last = now_ns();
  {
    const clusterprof::paused again;
    spin_ms(50);
  }
  paused.outer += now_ns() - last;
  paused.inner += 50'000'000;
  paused.print("paused");
  return 0;
}

// Only time inside a region and outside of pauses is recorded, in whatever order the two begin and end.
int regions_and_pauses() {
  Bounds first, second, third, fourth;
  std::uint64_t rest_ns = 0, since = 0;  // in the regions around these, and in no pause, at most
  spin_ms(30);
  clusterprof_pause();
  spin_ms(30);
  clusterprof_region_begin("around");  // in a pause, which ends in it
  spin_ms(40);
  since = now_ns();
  clusterprof_resume();
  timed(first, "first", -1, [] { spin_ms(60); });
  clusterprof_region_end("around");
  rest_ns += now_ns() - since - first.inner;
  spin_ms(20);
  timed(second, "second", -1, [] { spin_ms(50); });
  since = now_ns();
  clusterprof_region_begin("left");  // in which a pause begins
  clusterprof_pause();
  rest_ns += now_ns() - since;
  spin_ms(30);
  clusterprof_region_end("left");
  spin_ms(10);
  clusterprof_resume();  // outside: nothing goes on
  spin_ms(70);
  timed(third, "third", -1, [] { spin_ms(40); });
  since = now_ns();
  clusterprof_region_begin("whole");
  spin_ms(1);
  clusterprof_pause();  // from its begin to its end in a region
  rest_ns += now_ns() - since;
  spin_ms(45);
  since = now_ns();
  clusterprof_resume();
  timed(fourth, "fourth", -1, [] { spin_ms(35); });
  clusterprof_region_end("whole");
  rest_ns += now_ns() - since - fourth.inner;
  spin_ms(25);
  first.print("first");
  second.print("second");
  third.print("third");
  fourth.print("fourth");
  printf("rest %llu\n", static_cast<unsigned long long>(rest_ns));
  return 0;
}

// What MPI calls tell of the pauses since the one before, and between what the truth is.
int calls_and_pauses() {
  using Find = const clusterprof_agent_api* (*)();
  const auto find = reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "clusterprof_agent_v1"));
  const clusterprof_agent_api* const agent = find != nullptr ? find() : nullptr;
  if (agent == nullptr) return 1;
  const auto make_call = [&] {
    const clusterprof_mpi_call call = {0, 0, 0, 0, -1, 0, -1, 0, 0, {0}, 0, 0};
    if (agent->enter_mpi(&call) == 0) exit(2);
    return agent->leave_mpi();
  };
  const auto tell = [](const char* name, std::uint64_t told, std::uint64_t inner, std::uint64_t outer) {
    printf("%s.told %llu\n%s.inner %llu\n%s.outer %llu\n", name, static_cast<unsigned long long>(told), name,
           static_cast<unsigned long long>(inner), name, static_cast<unsigned long long>(outer));
  };
  const bool only_regions = getenv("CLUSTERPROF_ONLY_REGIONS") != nullptr;
  spin_ms(10);
  clusterprof_region_begin("calls");
  const clusterprof_mpi_exit first = make_call();
  if (!only_regions && first.paused_ns != 0) return 3;
  const std::uint64_t before_pause = now_ns();
  clusterprof_pause();
  const std::uint64_t in_pause = now_ns();
  spin_ms(20);
  if (make_call().paused != 1) return 4;
  const std::uint64_t still_in_pause = now_ns();
  clusterprof_resume();
  const std::uint64_t behind_pause = now_ns();
  const clusterprof_mpi_exit second = make_call();
  tell("pause", second.paused_ns - first.paused_ns, still_in_pause - in_pause, behind_pause - before_pause);
  if (second.resumed_ns < still_in_pause || second.resumed_ns > behind_pause) return 5;
  const std::uint64_t before_end = now_ns();
  clusterprof_region_end("calls");
  const std::uint64_t behind_end = now_ns();
  spin_ms(10);
  const std::uint64_t before_next = now_ns();
  clusterprof_pause();
  const std::uint64_t in_next = now_ns();
  spin_ms(10);
  clusterprof_region_begin("calls");
  spin_ms(10);
  const std::uint64_t still_in_next = now_ns();
  clusterprof_resume();
  const std::uint64_t behind_next = now_ns();
  const clusterprof_mpi_exit third = make_call();
  tell("both", third.paused_ns - second.paused_ns, still_in_next - (only_regions ? behind_end : in_next),
       behind_next - (only_regions ? before_end : before_next));
  if (third.resumed_ns < still_in_next || third.resumed_ns > behind_next) return 6;
  if (make_call().paused_ns != third.paused_ns) return 7;
  return 0;
}

std::atomic<bool> thread_runs{false}, thread_may_end{false};

void* spin_in_thread(void*) {
  const clusterprof::scope scope("in thread");
  thread_runs = true;
  while (!thread_may_end) spin_ms(1);
  spin_ms(200);
  return nullptr;
}

// Another thread is paused along with this one.
int pauses_of_all() {
  Bounds paused;
  pthread_t thread;
  pthread_create(&thread, nullptr, spin_in_thread, nullptr);
  while (!thread_runs) usleep(1000);
  usleep(100000);
  const std::uint64_t before = now_ns();
  clusterprof_pause();
  const std::uint64_t begun = now_ns();
  usleep(200000);
  const std::uint64_t ends = now_ns();
  clusterprof_resume();
  paused.outer = now_ns() - before;
  paused.inner = ends - begun;
  thread_may_end = true;
  pthread_join(thread, nullptr);
  paused.print("paused");
  return 0;
}

// Outside of regions: most of the time.
int parts() {
  Bounds busy, asleep, brief;
  spin_ms(150);
  timed(busy, "busy", -1, [] { spin_ms(200); });
  spin_ms(50);
  usleep(50000);
  timed(asleep, "asleep", -1, [] { usleep(150000); });
  for (int i = 0; i < 60; ++i) {
    timed(brief, "brief", i, [] { spin_ms(1); });
    spin_ms(1);
  }
  busy.print("busy");
  asleep.print("asleep");
  brief.print("brief");
  return 0;
}

int cost() {
  constexpr int kPairs = 600'000;
  std::uint64_t best = ~std::uint64_t{0};
  for (int attempt = 0; attempt < 10; ++attempt) {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < kPairs; ++i) {
      clusterprof_region_begin_n("assemble", i);
      clusterprof_region_end("assemble");
    }
    const std::uint64_t spent = now_ns() - start;
    if (spent < best) best = spent;
  }
  printf("pair_ns %.1f\n", static_cast<double>(best) / kPairs);
  return 0;
}

volatile sig_atomic_t handled;

// Regions in a signal handler that comes at any instant, also while others begin and end.
int handlers() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    clusterprof_region_begin("in handler");
    clusterprof_region_end("in handler");
    handled = handled + 1;
  };
  if (sigaction(SIGALRM, &action, nullptr) != 0) return 1;
  const itimerval often = {{0, 100}, {0, 100}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  const std::uint64_t end = now_ns() + 500'000'000;
  std::uint64_t pairs = 0;
  while (now_ns() < end) {
    for (int i = 0; i < 1000; ++i, ++pairs) {
      clusterprof_region_begin("outside");
      clusterprof_region_end("outside");
    }
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  printf("pairs %llu\nhandled %d\n", static_cast<unsigned long long>(pairs), static_cast<int>(handled));
  return 0;
}

// Unrolled, and not in main(), whose code the compiler makes small: where a loop's few other instructions lie
// decides how many samples these get.
[[gnu::noinline]] double sum_of(const double* data, std::size_t count) {
  double sum = 0;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < count; ++i) sum += data[i];
  return sum;
}

int stream() {
  constexpr std::size_t kBytes = 64u << 20;
  auto* const data =
      static_cast<double*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (data == MAP_FAILED) return 1;
  for (std::size_t i = 0; i < kBytes / sizeof *data; ++i) data[i] = static_cast<double>(i);
  double sum = 0;
  const std::uint64_t begun = now_ns();
  const std::uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + 600'000'000;  // samples are of CPU time
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) sum += sum_of(data, kBytes / sizeof *data);
  sink = static_cast<std::uint64_t>(sum);
  printf("data %llu\nbytes %zu\nbegun %llu\n",
         static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data)), kBytes,
         static_cast<unsigned long long>(begun));
  return 0;
}

int waits(bool by_socket, bool by_poll) {
  int ends[2];
  if ((by_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    usleep(200000);
    _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
  }
  char byte;
  pollfd waiting = {ends[0], POLLIN, 0};
  if (by_poll ? poll(&waiting, 1, -1) != 1 : read(ends[0], &byte, 1) != 1) return 2;
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

int writes() {
  char path[] = "/tmp/clusterprof-regions-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return 1;
  unlink(path);
  static char block[1 << 20];
  const std::uint64_t end = now_ns() + 500'000'000;
  while (now_ns() < end)
    if (pwrite(file, block, sizeof block, 0) != static_cast<ssize_t>(sizeof block)) return 2;
  return 0;
}

int keeps_errno() {
  errno = 77;
  clusterprof_region_begin("x");
  clusterprof_pause();
  clusterprof_resume();
  clusterprof_region_end("y");
  clusterprof_region_end("x");
  return errno == 77 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "nesting") return nesting();
  if (mode == "threads") return threads();
  if (mode == "exceptions") return exceptions();
  if (mode == "mismatches") return mismatches();
  if (mode == "limits") return limits();
  if (mode == "forks") return forks();
  if (mode == "pauses") return pauses();
  if (mode == "regions_and_pauses") return regions_and_pauses();
  if (mode == "calls_and_pauses") return calls_and_pauses();
  if (mode == "pauses_of_all") return pauses_of_all();
  if (mode == "parts") return parts();
  if (mode == "cost") return cost();
  if (mode == "handlers") return handlers();
  if (mode == "stream") return stream();
  if (mode == "pipe") return waits(false, false);
  if (mode == "socket") return waits(true, false);
  if (mode == "polled_socket") return waits(true, true);
  if (mode == "file") return writes();
  if (mode == "errno") return keeps_errno();
  return 99;
}
