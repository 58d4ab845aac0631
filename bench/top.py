#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a node pays while somebody watches its run with `clusterprof top`.

    bench/top.py [--build DIR] [--pairs N] [--ranks N] [--seconds S]

A program of N ranks with many call paths runs. For S seconds nobody watches, for S seconds somebody does, and so on. Prints the CPU time of the
collector in each, their difference as a share of the node's processors, how often the live file was written, and its size.
"""

import argparse
import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from commands import fail, let_root_use_open_mpi
from mpi_call import TOP

PROGRAM = r"""
import sys, time
def leaf(n):
    return sum(i * i for i in range(200 + n))
def branch(depth, n):
    return leaf(n) if depth == 0 else (branch(depth - 1, 2 * n) if n % 2 else branch(depth - 1, n + 1)) + depth
end = time.monotonic() + float(sys.argv[1])
n = 0
while time.monotonic() < end:
    branch(6, n % 64)
    n += 1
"""
WARM_UP_S = 6


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def collector_of(run):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if os.path.basename(words[0]) == "collector" and f"--run-dir={run}" in words:
            return int(pid)
    return None


class Watcher(threading.Thread):
    """Looks at the run as `clusterprof top` does."""

    def __init__(self, tool, run):
        super().__init__()
        self.tool, self.run_directory, self.over, self.times, self.sizes = tool, run, False, set(), []

    def run(self):
        while not self.over:
            subprocess.run([self.tool, "top", "--once", "--json", self.run_directory], stdout=subprocess.DEVNULL, check=False)
            for name in glob.glob(os.path.join(self.run_directory, ".control", "live-*")):
                status = os.stat(name)
                self.times.add(status.st_mtime_ns)
                self.sizes.append(status.st_size)
            time.sleep(0.3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    let_root_use_open_mpi()
    tool = os.path.join(arguments.build, "bin", "clusterprof")
    folder = tempfile.mkdtemp()
    job = None
    try:
        script, run = os.path.join(folder, "program.py"), os.path.join(folder, "run")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        # Between the parts, until the nodes have noticed that nobody watches any more.
        pause_s = 12
        whole_s = WARM_UP_S + arguments.pairs * (2 * arguments.seconds + pause_s) + 10
        job = subprocess.Popen(["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(arguments.ranks), tool, "-q", "-o",
                                run, "--", sys.executable, script, str(whole_s)], stdout=subprocess.DEVNULL)
        time.sleep(WARM_UP_S)
        collector = collector_of(run)
        if collector is None:
            ended = "is running" if job.poll() is None else f"has ended with status {job.returncode}"
            fail(f"there is no collector; mpirun {ended}")
        shares, alone, watched = [], [], []
        for _ in range(arguments.pairs):
            begin = cpu_s(collector)
            time.sleep(arguments.seconds)
            alone.append(cpu_s(collector) - begin)
            watcher = Watcher(tool, run)
            watcher.start()
            begin = cpu_s(collector)
            time.sleep(arguments.seconds)
            watched.append(cpu_s(collector) - begin)
            watcher.over = True
            watcher.join()
            shares.append((watched[-1] - alone[-1]) / arguments.seconds / os.cpu_count())
            print(f"alone {alone[-1]:.2f} s  watched {watched[-1]:.2f} s  {100 * shares[-1]:.3f} % of the node  "
                  f"{len(watcher.times)} live files seen, {max(watcher.sizes, default=0)} bytes", flush=True)
            time.sleep(pause_s)
        print(f"median {100 * statistics.median(shares):.3f} % of {os.cpu_count()} processors")
    finally:
        if job:
            job.terminate()
            job.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
