#!/usr/bin/env python3
"""Measures how many nanoseconds clusterprof adds to a call on a file. Bare and recorded runs alternate; the result is the
median of the paired differences. Calls move one byte at a time, on a file system in memory. The sampling timers run at
1 Hz, so that the figures show the cost of counting alone. "pipe" is a write and a read, which are not counted.

    bench/io_call.py [--build DIR] [--pairs N] [--only NAME,...] [--folder DIR]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUNCTIONS = ("pread", "pwrite", "stat", "open+close", "fwrite", "fprintf", "fputc", "pipe")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", default=",".join(FUNCTIONS))
    parser.add_argument("--folder", default="/dev/shm")
    arguments = parser.parse_args()
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")

    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-", dir=arguments.folder) as folder:
        program = f"{folder}/io_calls"
        subprocess.run(["cc", "-O2", f"{TOP}/bench/io_calls.c", "-o", program], check=True)
        print(f"{'one byte':<12}{'bare ns':>9}{'recorded +':>12}{'min':>7}{'max':>7}")
        for name in arguments.only.split(","):

            def call_ns(wrapper):
                done = subprocess.run([*wrapper, program, name], capture_output=True, text=True, cwd=folder)
                if done.returncode != 0:
                    sys.exit(done.stderr or f"{name} failed")
                return float(done.stdout.split()[1])

            call_ns([])
            bare, added = [], []
            for _ in range(arguments.pairs):
                bare.append(call_ns([]))
                run = os.path.join(folder, "run")
                added.append(call_ns([tool, "-q", "-r", "1", "-o", run]) - bare[-1])
                if not os.path.isdir(run):
                    sys.exit("the run was not recorded: is the collector built?")
                shutil.rmtree(run)
            print(f"{name:<12}{statistics.median(bare):>9.0f}{statistics.median(added):>12.0f}{min(added):>7.0f}"
                  f"{max(added):>7.0f}", flush=True)


if __name__ == "__main__":
    main()
