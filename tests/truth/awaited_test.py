"""Threads and processes that wait for each other. The report has to say what the main thread waited for, for as long as
the program says that it waited. Helper threads that wait for data have nothing to do and must not appear in hotspots."""

import os
import subprocess

import recording

PROGRAM = recording.LACKED + '''
import multiprocessing, os, socket, threading, time, zlib

block = os.urandom(1 << 20)

def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        zlib.compress(block)

def in_recv(end): end.recv(1)
def in_accept(server): server.accept()
def in_read(end): os.read(end, 1)

def timed(name, wait):
    lacked_before, begin = lacked(), time.perf_counter()
    wait()
    print(name, time.perf_counter() - begin, name + "_lacked", lacked() - lacked_before, flush=True)

def main():
    near, far = socket.socketpair()
    server = socket.create_server(("127.0.0.1", 0))
    read_end, write_end = os.pipe()
    waiting = [threading.Thread(target=in_recv, args=(near,)), threading.Thread(target=in_accept, args=(server,)),
               threading.Thread(target=in_read, args=(read_end,))]
    for thread in waiting: thread.start()
    worker = threading.Thread(target=work, args=(0.8,))
    worker.start()
    timed("join", worker.join)
    with multiprocessing.Pool(2) as pool:
        timed("child", lambda: pool.map(work, [0.4, 0.4]))
    far.send(b"x")
    os.write(write_end, b"x")
    socket.create_connection(server.getsockname()).close()
    for thread in waiting: thread.join()

if __name__ == "__main__":
    main()
'''

NATIVE = '''
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}
static void* work(void* end) {
  while (now() < *(double*)end) {
  }
  return NULL;
}
int main(void) {
  double begin = now(), end = begin + 0.8;
  pthread_t thread;
  pthread_create(&thread, NULL, work, &end);
  pthread_join(thread, NULL);
  printf("join %f\\n", now() - begin);
  return 0;
}
'''


HELPERS = ("in_recv", "in_accept", "in_read")


class Awaited(recording.RecordingTest):
    def recorded_with_words(self, command):
        done = self.record(command)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        words = done.stdout.decode().split()
        return dict(zip(words[::2], map(float, words[1::2]))), self.report()

    def main_thread_s(self, report, kind):
        return sum(row["main_thread_s"] for row in report["off_cpu"] if row["kind"] == kind)

    def test_python(self):
        path = os.path.join(self.directory, "waits.py")
        with open(path, "w") as file:
            file.write(PROGRAM)
        own, report = self.recorded_with_words([recording.PYTHON, path])
        for kind in ("join", "child"):
            doubt_s = own[kind + "_lacked"] / 2
            self.measured_near(self.main_thread_s(report, kind), own[kind] - doubt_s, 0.15 + doubt_s, kind)
        self.measured_below(self.main_thread_s(report, "lock"), 0.1, "lock")
        rank = report["ranks"][0]
        self.measured_below(rank["io_s"], 0.1, "io")
        # The helpers wait all the time, for what they say, and are in nobody's way.
        wait_s = own["join"] + own["child"]
        for kind, least_s in (("network", 2 * wait_s), ("pipe", wait_s)):
            rows = [row for row in report["off_cpu"] if row["kind"] == kind]
            # The main thread may wait there itself for a moment, as for the pool's processes, but never where the helpers wait.
            of_helpers = [row for row in rows if row["function"] in HELPERS]
            self.assertEqual(sum(row["main_thread_s"] for row in of_helpers), 0, rows)
            self.measured_below(sum(row["main_thread_s"] for row in rows), 0.1, f"{kind} of the main thread")
            self.measured_above(sum(row["time_s"] for row in rows), 0.9 * least_s, kind)
        for name in HELPERS:
            self.measured_below(self.function(report, name)["active_total_s"], 0.1, name)

    def test_native(self):
        self.need("cc")
        program = os.path.join(self.directory, "join")
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", program, "-pthread"], input=NATIVE.encode(), check=True)
        own, report = self.recorded_with_words([program])
        self.measured_near(self.main_thread_s(report, "join"), own["join"], 0.1, "join")
        self.measured_below(report["activities"]["lock_s"], 0.05, "lock")


recording.main()
