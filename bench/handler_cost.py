#!/usr/bin/env python3
"""Measures what one sample costs in the signal handler of a real process, as the agent itself reports it.

The program computes below a stack of 40 native and 24 Python frames (3.11 and later; one C extension is built here).
`warm` touches no other memory, `cold` walks through 32 MiB between samples. This script acts as the collector of the
process: it empties the ring and keeps SampleRecord::handler_ns of every sample.

    bench/handler_cost.py [--build DIR] [--rates 100,1000,10000] [--seconds S] [--python PATH]
"""

import argparse
import mmap
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

STACK_C = r'''
#define _GNU_SOURCE
#include <execinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
static volatile uint64_t sink;
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
__attribute__((noinline)) int native_frames(void) {
  void* frames[256];
  return backtrace(frames, 256);
}
__attribute__((noinline)) static void compute(double seconds, int cold) {
  static char memory[32 << 20];
  const double end = now() + seconds;
  while (now() < end) {
    for (int i = 0; i < 20000; ++i) sink += (uint64_t)i * 7;
    if (cold)
      for (size_t at = 0; at < sizeof memory; at += 64) ++memory[at];
  }
}
__attribute__((noinline)) void descend(int more, double seconds, int cold) {
  if (more > 0) descend(more - 1, seconds, cold);
  else compute(seconds, cold);
  __asm__ volatile("");
}
'''

PROGRAM = '''
import ctypes, sys
LIBRARY = ctypes.PyDLL(sys.argv[1])
LIBRARY.descend.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_int]
SECONDS, COLD = float(sys.argv[2]), int(sys.argv[3])
NATIVE, PYTHON = 40, 24

def leaf():
    more = NATIVE - LIBRARY.native_frames() - 1  # itself; compute
    if more < 0:
        sys.exit(f"the stack is deeper than wanted by {-more}")
    LIBRARY.descend(more, SECONDS, COLD)

def plain(frames, crossings):
    if frames > 0:
        return plain(frames - 1, crossings)
    return cross(crossings - 1)

def cross(crossings):
    if crossings == 0:
        return leaf()
    return sorted([0], key=lambda _: plain(3, crossings))

# <module>, 2 x (cross, lambda, 4 x plain), cross, leaf, and plain again for the rest.
plain(PYTHON - 1 - 2 * 6 - 2 - 1, 3)
'''

# What is read of the segment, as the compiler lays it out.
LAYOUT = r'''
#include <cstddef>
#include <cstdio>
#include "formats/wire/sample.h"
#include "formats/wire/segment.h"
using namespace clusterprof::wire;
#define FIELD(type, field) std::printf("%s %zu\n", #field, offsetof(type, field))
int main() {
  FIELD(SegmentHeader, thread_slots_offset);
  FIELD(ThreadSlot, ring);
  FIELD(Ring, read_position);
  FIELD(Ring, data);
  FIELD(SampleRecord, frame_words);
  FIELD(SampleRecord, counter_count);
  FIELD(SampleRecord, shared_words);
  FIELD(SampleRecord, handler_ns);
  std::printf("sample_bytes %zu\n", sizeof(SampleRecord));
  std::printf("ring_bytes %zu\n", static_cast<std::size_t>(kRingBytes));
}
'''
def layout_of_segments(directory):
    source, program = (os.path.join(directory, name) for name in ("layout.cpp", "layout"))
    with open(source, "w") as file:
        file.write(LAYOUT)
    subprocess.run(["g++", "-std=c++20", "-Wno-invalid-offsetof", "-I", TOP, "-o", program, source], check=True)
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    return argparse.Namespace(**{name: int(value) for name, value in zip(lines[::2], lines[1::2])})


class Collector:
    """formats/wire from the collector's side, for one process."""

    def __init__(self, layout):
        self.layout = layout
        self.name = f"clusterprof-bench/{os.getpid()}/{time.monotonic_ns()}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind("\0" + self.name)
        self.listener.listen(4)
        self.costs, self.native, self.python = [], [], []
        self.words = ()  # the call path of the last sample

    def greet(self):
        self.connection, _ = self.listener.accept()
        message, descriptors, _, _ = socket.recv_fds(self.connection, 64, 1)
        size = struct.unpack("<QIIiiQ", message)[-1]
        self.memory = mmap.mmap(descriptors[0], size)
        os.close(descriptors[0])
        slots, = struct.unpack_from("<Q", self.memory, self.layout.thread_slots_offset)
        self.ring = slots + self.layout.ring  # of the first thread, the main one

    def drain(self):
        at = self.layout
        read, = struct.unpack_from("<Q", self.memory, self.ring + at.read_position)
        write, = struct.unpack_from("<Q", self.memory, self.ring)
        while read != write:
            record = self.ring + at.data + read % at.ring_bytes
            size, kind = struct.unpack_from("<IH", self.memory, record)
            if kind == 1:
                frame_words, shared = (struct.unpack_from("<H", self.memory, record + place)[0]
                                       for place in (at.frame_words, at.shared_words))
                counters = self.memory[record + at.counter_count]
                own = struct.unpack_from(f"<{frame_words - shared}Q", self.memory,
                                         record + at.sample_bytes + 8 * counters)
                words = self.words = own + self.words[len(self.words) - shared:]
                python, at_word = 0, 0
                while at_word < len(words):  # a Python frame is two words
                    is_python = words[at_word] >> 60 == 8
                    python += is_python
                    at_word += 2 if is_python else 1
                if python >= 24:
                    self.costs.append(struct.unpack_from("<I", self.memory, record + at.handler_ns)[0])
                    self.native.append(len(words) - 2 * python)
                    self.python.append(python)
            read += size
        struct.pack_into("<Q", self.memory, self.ring + at.read_position, read)


def measure(layout, build, python, library, program, rate, seconds, cold):
    collector = Collector(layout)
    agent = os.path.join(build, "lib", "clusterprof", "libclusterprof_agent.so")
    environment = dict(os.environ, LD_PRELOAD=agent, CLUSTERPROF_AGENT_SOCKET=collector.name,
                       CLUSTERPROF_AGENT_PRELOAD=agent, CLUSTERPROF_AGENT_RANK="0",
                       CLUSTERPROF_AGENT_WORLD_SIZE="1", CLUSTERPROF_RATE=str(rate))
    child = subprocess.Popen([python, program, library, str(seconds), str(int(cold))], env=environment)
    collector.greet()
    while child.poll() is None:
        collector.drain()
        time.sleep(0.005)
    collector.drain()
    if child.returncode != 0:
        sys.exit(f"the program failed: {child.returncode}")
    return collector


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--rates", default="100,1000,10000")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--python", default="/usr/bin/python3")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        source, library = os.path.join(folder, "stack.c"), os.path.join(folder, "stack.so")
        program = os.path.join(folder, "stack.py")
        for path, text in ((source, STACK_C), (program, PROGRAM)):
            with open(path, "w") as file:
                file.write(text)
        subprocess.run(["cc", "-O2", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", library, source],
                       check=True)
        layout = layout_of_segments(folder)
        print(f"{'':<6}{'rate':>9}{'samples':>9}{'median':>9}{'p90':>8}{'p99':>8} ns   merged frames")
        for cold in (False, True):
            for rate in arguments.rates.split(","):
                result = measure(layout, arguments.build, arguments.python, library, program, int(rate),
                                 arguments.seconds, cold)
                costs = sorted(result.costs[1:])  # the first one comes before the first handler's cost is known
                if not costs:
                    sys.exit("no sample of the deep stack")
                part = lambda share: costs[min(len(costs) - 1, int(share * len(costs)))]
                print(f"{'cold' if cold else 'warm':<6}{rate + ' Hz':>9}{len(costs):>9}"
                      f"{statistics.median(costs):>9.0f}{part(.9):>8}{part(.99):>8}      "
                      f"{statistics.median(result.native):.0f} native, {statistics.median(result.python):.0f} Python",
                      flush=True)


if __name__ == "__main__":
    main()
