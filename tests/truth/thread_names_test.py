"""Threads by their names: of Python's threading on every CPython of this machine, of the kernel, and of OpenMP's pool. Their CPU
time is that which each of them measured itself."""

import collections
import json
import os
import subprocess

import recording
import truth

PROGRAM = """
import _thread, ctypes, json, threading, time

measured = {}

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

def named(seconds):
    work(seconds)
    measured[threading.current_thread().name] = time.thread_time()

class Special(threading.Thread):
    def __init__(self, name):
        super().__init__(name=name)
        self.further = {"attributes": 1}
    def run(self):
        named(0.2)

def by_kernel(done):
    ctypes.CDLL(None).prctl(15, b"kernel's name", 0, 0, 0)
    work(0.2)
    measured["kernel's name"] = time.thread_time()
    done.release()

def main():
    threads = [threading.Thread(target=named, args=(seconds,), name=name)
               for name, seconds in (("loader-\u00e9", 0.3), ("x" * 100, 0.2), ("writer", 0.4))]
    threads.append(Special("of a subclass"))
    other = threading.Thread(target=named, args=(0.2,), name="before")
    other.name = "after"  # before it starts
    threads.append(other)
    with_dict = threading.Thread(target=named, args=(0.2,), name="with a dict")
    with_dict.__dict__.update({f"attribute_{i}": i for i in range(50)})
    threads.append(with_dict)
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(by_kernel, (done,))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.acquire()
    print(json.dumps(measured))

main()
"""

NATIVE = r"""
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static double used(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}
__attribute__((noinline)) static void work(double seconds) {
  volatile double sum = 0;
  for (const double end = used() + seconds; used() < end;)
    for (int i = 0; i < 1000; ++i) sum += i;
}
static double times[2];
static void* with_name(void* unused) {
  pthread_setname_np(pthread_self(), "writer");
  work(0.3);
  times[0] = used();
  return unused;
}
static void* without_name(void* unused) {
  work(0.2);
  times[1] = used();
  return unused;
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, with_name, NULL);
  pthread_create(&threads[1], NULL, without_name, NULL);
  double pool = 0;
#pragma omp parallel num_threads(3) reduction(+ : pool)
  {
    work(0.3);
    pool += omp_get_thread_num() == 0 ? 0 : used();
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("{\"writer\": %f, \"without_name\": %f, \"OpenMP\": %f}\n", times[0], times[1], pool);
  return 0;
}
"""

# PyTorch's pool is known by its library: std::thread starts its threads, as it does others'.
PYTORCH = r"""
#include <ctime>
#include <thread>
#include <vector>

static double used() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}
static void main_loop(double seconds) {
  volatile double sum = 0;
  for (const double end = used() + seconds; used() < end;)
    for (int i = 0; i < 1000; ++i) sum = sum + i;
}
extern "C" void compute(int threads, double seconds) {
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(main_loop, seconds);
  for (std::thread& thread : pool) thread.join();
}
"""
CALLER = "void compute(int, double); int main(void) { compute(2, 0.3); return 0; }"

DELTA_S = 0.02


class Names(recording.RecordingTest):
    def check(self, version, python):
        path = os.path.join(self.directory, "named.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        done = self.record([python, path])
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        measured = json.loads(done.stdout)
        report = self.report()
        rows = {row["name"]: row for row in report["threads"]}
        expected = {name.encode()[:64].decode(): seconds for name, seconds in measured.items()}
        self.assertEqual(len(rows), len(report["threads"]), report["threads"])
        self.assertEqual(set(rows), set(expected) | {"main"}, version)
        self.assertEqual({name: row["kind"] for name, row in rows.items()},
                         {**dict.fromkeys(expected, "python"), "main": "main"})
        for name, seconds in expected.items():
            with self.subTest(python=version, thread=name):
                self.assertEqual(rows[name]["count"], 1)
                self.measured_near(rows[name]["cpu_s"], seconds, DELTA_S, f"{version}: CPU time of {name}")
                self.assertGreaterEqual(rows[name]["elapsed_s"] + DELTA_S, rows[name]["cpu_s"])
        groups = {group["name"]: group for group in report["thread_groups"]}
        self.assertEqual(groups["writer"]["count"], 1)
        self.assertEqual(groups["writer"]["top"]["function"], "work")


class NativeNames(recording.RecordingTest):
    def test_native(self):
        self.need("cc")
        program = os.path.join(self.directory, "named")
        built = subprocess.run(["cc", "-O1", "-g", "-fopenmp", "-pthread", "-x", "c", "-", "-o", program],
                               input=NATIVE.encode(), capture_output=True)
        if built.returncode != 0:
            self.skipTest("no OpenMP: " + built.stderr.decode(errors="replace"))
        done = self.record([program], env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        measured = json.loads(done.stdout)
        report = self.report()
        by_name = collections.defaultdict(list)
        for row in report["threads"]:
            by_name[row["name"]].append(row)
        self.assertEqual({name: [row["kind"] for row in rows] for name, rows in by_name.items()},
                         {"main": ["main"], "writer": ["native"], "without_name": ["native"],
                          "OpenMP": ["openmp", "openmp"]})
        for name, seconds in measured.items():
            # Those of the pool are not asked for their time at their end, but at their last sample.
            delta = DELTA_S * len(by_name[name])
            self.measured_near(sum(row["cpu_s"] for row in by_name[name]), seconds, delta, f"CPU time of {name}")
        group = next(group for group in report["thread_groups"] if group["name"] == "OpenMP")
        self.assertEqual(group["count"], 2)
        self.assertEqual(group["top"]["function"].split(".")[0], "work")
        roots = {row["name"] for row in report["call_tree"] if row["parent"] is None}
        # The threads of a pool work below the line that began the region.
        self.assertFalse({name for name in roots if name.startswith(("gomp", "main._omp"))}, roots)
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run"), "--section", "threads"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("2 x OpenMP", text)
        self.assertIn("writer", text)

    def test_a_pool_of_std_threads_is_known_by_its_library(self):
        self.need("c++")
        program, library = (os.path.join(self.directory, name) for name in ("caller", "libc10.so"))
        subprocess.run(["c++", "-O1", "-g", "-pthread", "-shared", "-fPIC", "-x", "c++", "-", "-o", library],
                       input=PYTORCH.encode(), check=True)
        subprocess.run(["cc", "-x", "c", "-", "-x", "none", library, f"-Wl,-rpath,{self.directory}", "-o", program],
                       input=CALLER.encode(), check=True)
        report = self.recorded([program])
        self.assertEqual(sorted((row["name"], row["kind"]) for row in report["threads"]),
                         [("PyTorch", "native"), ("PyTorch", "native"), ("main", "main")])
        roots = {row["name"] for row in report["call_tree"] if row["parent"] is None}
        self.assertIn("[PyTorch threads]", roots)


truth.per_python(Names, Names.check)

if __name__ == "__main__":
    recording.main()
