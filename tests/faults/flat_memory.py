# SPDX-License-Identifier: BSD-3-Clause
"""Records a program that repeats the same work, with threads that come and go, files and sleeps, and measures the memory
of the program and of the collector meanwhile. Neither may grow once the program has done everything once. What the program
itself needs is constant by construction. The collector's memory grows until the program has met all its call paths; so
the program works for S seconds of CPU time, in which it meets them on a busy machine, too.

    flat_memory.py [--seconds S] [--rate HZ]

To imitate a long run in a short time: 10 kHz for 30 s are as many samples as 1 kHz for 5 minutes. Prints the figures;
exit status: 0 all good, 1 memory grew, 77 nothing to test with."""

import argparse
import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import recording

PROGRAM = '''
import os, sys, threading, time

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))

def store(path):
    with open(path, "wb") as file:
        file.write(b"x" * 4096)
    with open(path, "rb") as file:
        file.read()

def turn(path):
    thread = threading.Thread(target=spin, args=(0.02,))
    thread.start()
    spin(0.02)
    thread.join()
    store(path)
    time.sleep(0.001)

while time.process_time() < float(sys.argv[1]):
    turn(os.path.join(sys.argv[2], "data"))
'''

GROWTH = 0.03       # of what a process had in the second quarter after the collector's first shard
GROWTH_KIB = 2048   # and this, whatever it had: about 20 bytes per sample from there to the last quarter


# Of the collector without the segments, which it shares with the program: the busier the machine, the fuller rings get.
FIGURES = {"collector": "RssAnon:", "program": "VmRSS:"}


def memory_kib(name, pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(FIGURES[name]))
    except (OSError, StopIteration):
        return None


def processes(folder):
    """{name: pid} of the recorded program and of the collector of the run in `folder`."""
    found = {}
    for pid, words in recording.processes():
        if recording.is_collector(words, f"{folder}/run"):
            found["collector"] = pid
        elif words[0] == recording.PYTHON and words[1] == f"{folder}/program.py":
            found["program"] = pid
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=24)
    parser.add_argument("--rate", type=int, default=10000)
    options = parser.parse_args()
    if not os.path.exists(recording.PYTHON):
        return 77
    folder = tempfile.mkdtemp(prefix="clusterprof-test-")
    try:
        script = os.path.join(folder, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        command = [recording.CLUSTERPROF, "-q", "-r", str(options.rate), "-o", os.path.join(folder, "run"),
                   recording.PYTHON, script, str(options.seconds), folder]
        recorded = subprocess.Popen(command, cwd=folder)
        seen = {name: [] for name in FIGURES}
        while recorded.poll() is None:
            time.sleep(max(0.25, options.seconds / 200))
            if not glob.glob(os.path.join(folder, "run", "node-*.h5")):
                continue  # it keeps some of the memory that it needs for the first one
            found = processes(folder)
            if "program" not in found:
                continue  # the collector writes the shard at the end
            for name, pid in found.items():
                kib = memory_kib(name, pid)
                if kib is not None:
                    seen[name].append(kib)
        if recorded.returncode != 0:
            print(f"exit status {recorded.returncode}")
            return 1
        grew = False
        for name, kib in seen.items():
            if len(kib) < 12:
                print(f"{name}: only {len(kib)} figures")
                return 1
            # Not the most: while the collector writes its shard it has almost twice as much, and whether a figure is
            # taken then is chance.
            quarter = len(kib) // 4
            early, late = statistics.median(kib[quarter:2 * quarter]), statistics.median(kib[-quarter:])
            print(f"{name}: {early} KiB in the second quarter, {late} KiB in the last; {len(kib)} figures")
            grew = grew or late > early * (1 + GROWTH) + GROWTH_KIB
        return 1 if grew else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
