#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attaches to a program and lets it go, again and again.

    bench/attach.py [--build DIR] [--mode storm|threads] [--times N] [--threads N] [--seconds S]
    bench/attach.py [--build DIR] --mode clock [--times N] [--threads N]

storm: its threads allocate memory, 64 of them; threads: they compute. Prints how long the thread that was used was held, as clusterprof
says it (from when the thread was told to stop), how often attaching was refused and why, how long it took, and whether the
program's result, its files, code, handlers, timers, descriptors, masks and priorities are what they were after the first time.

clock: all of its threads (default: 1) look at the clock all the time, and know the longest time in which they did not. Prints that of the
thread that was used, and of the others, while clusterprof attaches; and beside it, in turn, while clusterprof attaches to
another process, which sleeps: what they miss because other programs run on their processors.

The exit status is 1 if something is not as before, the program has found a mistake, or a thread was held for more than 20 ms: in
`clock`, for longer than that and than any thread was away while nobody attached to it."""

import argparse
import collections
import mmap
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "support"))
from attached import code_of, state_of, status_of, unnamed_of  # noqa: E402  it is there

LONGEST_MS = 20
SAID = re.compile(r"\(thread (\d+) was held for ([0-9.]+) ms(?:; before it, (\d+) others for at most ([0-9.]+) ms)?\)")


class Attached:
    """What `clusterprof attach` said."""

    def __init__(self, text):
        thread, held, refused, refused_held = SAID.search(text).groups()
        self.thread, self.held_ms = int(thread), float(held)
        self.refused, self.refused_ms = int(refused or 0), float(refused_held or 0)


class Programs:
    """Programs that run until the end of the bench, and the verbs that attach to them."""

    def __init__(self, build):
        self.tool = os.path.join(build, "bin", "clusterprof")
        self.program = os.path.join(build, "programs", "plain", "attached")
        self.folder = tempfile.mkdtemp(prefix="clusterprof-attach-")
        self.refused, self.wrong = collections.Counter(), []

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, mode, threads, file, *more):
        program = subprocess.Popen([self.program, mode, str(threads), self.path(file), *more], stdout=subprocess.PIPE, text=True)
        if program.stdout.readline() != "ready\n":
            sys.exit(f"{self.program} does not start")
        return program

    def attach(self, program):
        """None: it was refused."""
        done = subprocess.run([self.tool, "attach", str(program.pid), "-o", self.path("run")], capture_output=True, text=True)
        if done.returncode != 0:
            self.refused[re.sub(r"\d+", "N", done.stderr.strip())] += 1
            return None
        return Attached(done.stderr)

    def detach(self, program, threads):
        done = subprocess.run([self.tool, "detach", self.path("run")], capture_output=True, text=True)
        if done.returncode != 0:
            self.wrong.append(done.stderr.strip())
        shutil.rmtree(self.path("run"), ignore_errors=True)
        for _ in range(1000):  # our threads end last
            if status_of(program.pid, "Threads")["Threads"] == str(threads):
                return
            time.sleep(0.01)
        self.wrong.append("threads of clusterprof are left")

    def say_problems(self):
        for text, count in self.refused.most_common():
            print(f"refused {count} times: {text}")
        for text in self.wrong[:20]:
            print(text)


def milliseconds(values):
    return f"{statistics.median(values):8.2f} {max(values):8.2f}"


def attach_and_let_go(programs, arguments):
    """Whether everything was as it has to be."""
    program = programs.start(arguments.mode, arguments.threads, "stop", "check")
    said, took, first, last = [], [], None, None
    for number in range(arguments.times):
        begin = time.monotonic()
        attached = programs.attach(program)
        if attached is None:
            continue
        said.append(attached)
        time.sleep(arguments.seconds)
        programs.detach(program, arguments.threads + 1)
        took.append(time.monotonic() - begin)
        state = dict(state_of(program.pid), code=code_of(program.pid))
        last = unnamed_of(program.pid) + (int(status_of(program.pid, "VmRSS")["VmRSS"]),)
        if first is None:
            first, first_state = last, state
        programs.wrong += [f"time {number}: {what} are not as before" for what in state if state[what] != first_state[what]]
        if last[2]:
            programs.wrong.append(f"time {number}: code without a name is left")
    open(programs.path("stop"), "w").close()
    output, _ = program.communicate()
    if said:
        print(f"attached {len(said)} times to {arguments.threads} threads; attach and detach took {statistics.median(took):.2f} s")
        print("ms (median, highest)")
        print(f"  held, the thread that was used      {milliseconds([each.held_ms for each in said])}")
        print(f"  held, threads that could not be used{milliseconds([each.refused_ms for each in said])}"
              f"  ({sum(each.refused for each in said)} in all)")
        print(f"mappings without a name {first[0]} -> {last[0]}, {first[1] >> 20} -> {last[1] >> 20} MiB; resident {first[3]} -> {last[3]} kB")
    programs.say_problems()
    print(f"the program: exit status {program.returncode}, {output.splitlines()}")
    longest_ms = max((max(each.held_ms, each.refused_ms) for each in said), default=LONGEST_MS + 1)
    return program.returncode == 0 and not programs.wrong and longest_ms <= LONGEST_MS


class Clocks:
    """The table of tests/programs/attached.c."""
    HEAD, ROW = struct.Struct("=QQ"), struct.Struct("=QQQ")

    def __init__(self, path, count):
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.count, self.round = count, 0

    def rows(self):
        return [self.ROW.unpack_from(self.memory, self.HEAD.size + i * self.ROW.size) for i in range(self.count)]

    def begin(self):
        self.round += 1
        struct.pack_into("=Q", self.memory, 0, self.round)
        while any(round_ != self.round for round_, _, _ in self.rows()):
            time.sleep(0.001)

    def longest_ms(self):
        """By thread, since begin()."""
        return {thread: longest_ns / 1e6 for _, longest_ns, thread in self.rows()}

    def end(self):
        struct.pack_into("=Q", self.memory, 8, 1)


def look_at_clocks(programs, arguments):
    """Whether no thread was held too long."""
    program = programs.start("clock", arguments.threads, "table")
    sleeper = programs.start("threads", 0, "stop")
    clocks = Clocks(programs.path("table"), arguments.threads)
    said, used, others, bare = [], [], [], []
    for number in range(2 * arguments.times):
        target, threads = (program, arguments.threads) if number % 2 else (sleeper, 1)
        clocks.begin()
        attached = programs.attach(target)
        longest_ms = clocks.longest_ms()
        if attached is None:
            continue
        programs.detach(target, threads)
        if target is sleeper:
            bare.append(max(longest_ms.values()))
            continue
        said.append(attached)
        used.append(longest_ms.pop(attached.thread))
        others += [max(longest_ms.values())] if longest_ms else []
    clocks.end()
    open(programs.path("stop"), "w").close()
    results = [each.communicate()[0] for each in (program, sleeper)]
    if said:
        print(f"attached {len(said)} times to {arguments.threads} threads; the longest time in which a thread did not run")
        print("ms (median, highest)")
        print(f"  the thread that was used            {milliseconds(used)}")
        if others:
            print(f"  the others, the longest of each time{milliseconds(others)}")
        print(f"  all, nobody attaching to them       {milliseconds(bare)}")
        print(f"  clusterprof says, the one used      {milliseconds([each.held_ms for each in said])}")
        print(f"  clusterprof says, refused ones      {milliseconds([each.refused_ms for each in said])}"
              f"  ({sum(each.refused for each in said)} in all)")
    programs.say_problems()
    print(f"the programs: {[text.splitlines()[-1:] for text in results]}")
    good = program.returncode == 0 and sleeper.returncode == 0 and not programs.wrong
    return good and max(used + others, default=LONGEST_MS + 1) <= max([LONGEST_MS, *bare])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--mode", choices=("storm", "threads", "clock"), default="storm")
    parser.add_argument("--times", type=int, help="default: 1000; clock: 50 pairs")
    parser.add_argument("--threads", type=int, help="default: 64; clock: 1")
    parser.add_argument("--seconds", type=float, default=0, help="how long each recording lasts, besides what it takes")
    arguments = parser.parse_args()
    of_clock = arguments.mode == "clock"
    arguments.times = arguments.times or (50 if of_clock else 1000)
    arguments.threads = arguments.threads or (1 if of_clock else 64)
    programs = Programs(arguments.build)
    good = (look_at_clocks if of_clock else attach_and_let_go)(programs, arguments)
    shutil.rmtree(programs.folder, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
