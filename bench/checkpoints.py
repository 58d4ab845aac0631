#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What recording costs a shared file system, and what a slow one does to recording.

    cmake --preset release -DCLUSTERPROF_BUILD_BENCHMARKS=ON && cmake --build build/release
    bench/checkpoints.py [--build DIR] [--nodes N] [--seconds S] [--only operations|load|draining]

Three tables:

  operations  What launchers and collectors do with files of the run directory, counted by bench/file_server.c in front of libc:
              per node at start and end, per checkpoint, and from these for jobs of N nodes. "Metadata" are operations on
              directories and attributes (create, open, look, mkdir, symlink, rename, unlink, readdir, truncate), which a
              parallel file system handles on few servers; "data" are writes and flushes. Nodes are simulated by names
              (CLUSTERPROF_NODE), one rank on each; each further rank of a node adds what "a further rank" says. Reads, and the
              merge at the end of a job, which is done once, are not in it.
  load        N nodes against a file server where every operation takes 1 ms or 50 ms: bench/checkpoint_load runs the
              collector's own schedule and writing code once per node, each in a thread. Simulated is the time of an operation
              alone, however many are under way: the server is never overloaded, and the client keeps nothing in its memory. The
              data goes to /dev/shm, so that the disk of this machine does not count.
  draining    One whole collector against such a server, recording a busy program at 1000 Hz: the part of the time that it was waiting
              for the server, and what was lost because rings were full meanwhile.

The last two columns of "load" are how long a checkpoint takes. The tables are in docs/scale.md.
"""

import argparse
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from commands import fail

OPERATIONS = ("create", "open", "look", "mkdir", "symlink", "rename", "unlink", "readdir", "truncate", "write", "sync")
DATA = ("write", "sync")
JOBS = (("hostname", 0.1), ("10 minutes", 600), ("24 hours", 86400))
COPIES_PER_LOOK = 60  # of formats/shard/two_copies.cpp: so often a collector asks whether its file is still there
FIRST_S, SLACK_S = 1.0, 0.6  # of the collector's schedule, with a write of 70 ms
DELAYS_MS = (1, 50)

BUSY = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
def work(depth):
    return sum(range(300)) if depth == 0 else work(depth - 1)
while time.monotonic() < end:
    for depth in range(30):
        work(depth)
"""


def read_counts(directory):
    """Operations of all processes, and the seconds that they waited, in all."""
    total, waited_s = dict.fromkeys(OPERATIONS, 0), 0.0
    for path in glob.glob(os.path.join(directory, "*")):
        with open(path, "rb") as file:
            numbers = struct.unpack(f"{len(OPERATIONS) + 1}Q", file.read(8 * (len(OPERATIONS) + 1)))
        for name, number in zip(OPERATIONS, numbers):
            total[name] += number
        waited_s += numbers[-1] * 1e-9
    return total, waited_s


class Bench:
    def __init__(self, build, folder):
        self.build, self.folder, self.runs = build, folder, 0
        self.library = os.path.join(build, "bench", "libfile_server.so")
        for needed in (self.library, os.path.join(build, "bench", "checkpoint_load"), os.path.join(build, "bin", "clusterprof")):
            if not os.path.exists(needed):
                fail(f"{needed} is missing: build with -DCLUSTERPROF_BUILD_BENCHMARKS=ON")
        self.make_prefix()

    def make_prefix(self):
        """The build, but its collector is started with the library: the launcher removes LD_PRELOAD."""
        prefix, helpers = os.path.join(self.folder, "prefix"), os.path.join(self.build, "libexec", "clusterprof")
        os.makedirs(os.path.join(prefix, "bin"))
        os.makedirs(os.path.join(prefix, "libexec", "clusterprof"))
        shutil.copy(os.path.join(self.build, "bin", "clusterprof"), os.path.join(prefix, "bin"))
        for name in ("lib", "share"):
            if os.path.exists(os.path.join(self.build, name)):
                os.symlink(os.path.join(self.build, name), os.path.join(prefix, name))
        for name in os.listdir(helpers):
            if name != "collector":
                os.symlink(os.path.join(helpers, name), os.path.join(prefix, "libexec", "clusterprof", name))
        wrapper = os.path.join(prefix, "libexec", "clusterprof", "collector")
        with open(wrapper, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec env LD_PRELOAD={self.library} {helpers}/collector "$@"\n')
        os.chmod(wrapper, 0o755)
        self.clusterprof = os.path.join(prefix, "bin", "clusterprof")

    def record(self, command, ranks=1, nodes=1, delay_ms=0, options=()):
        """Counts and waiting time, and the run."""
        self.runs += 1
        root = os.path.join(self.folder, f"root{self.runs}")
        counts = os.path.join(self.folder, f"counts{self.runs}")
        os.mkdir(root)
        os.mkdir(counts)
        run = os.path.join(root, "run")
        environment = dict(os.environ, FILE_SERVER_ROOT=root, FILE_SERVER_COUNTS=counts,
                           FILE_SERVER_DELAY_US=str(delay_ms * 1000), OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LD_PRELOAD=self.library)
        recorded = [self.clusterprof, "-q", "-o", run, *options, *command]
        if ranks == 1:
            full = ["env", "CLUSTERPROF_NODE=n0", *recorded]
        else:
            # Rank R is on node R modulo the number of nodes.
            script = f'CLUSTERPROF_NODE=n$((OMPI_COMM_WORLD_RANK % {nodes})) exec "$@"'
            full = ["mpirun", "-n", str(ranks), "--oversubscribe", "sh", "-c", script, "sh", *recorded]
        done = subprocess.run(full, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0 or not glob.glob(os.path.join(run, "node-*.h5")):
            fail(f"{' '.join(full)}: status {done.returncode}: {done.stderr[-500:]}")
        return (*read_counts(counts), run)


def scaled(counts, factor):
    return {name: number * factor for name, number in counts.items()}


def plus(*parts):
    return {name: sum(part[name] for part in parts) for name in OPERATIONS}


def metadata(counts):
    return sum(number for name, number in counts.items() if name not in DATA)


def data(counts):
    return sum(counts[name] for name in DATA)


def in_words(counts):
    return ", ".join(f"{number:g} {name}" for name, number in counts.items() if number) or "nothing"


def checkpoints_of(seconds, age_s):
    """How many checkpoints a job of that length makes on each node, the last shard not counted."""
    return 0 if seconds < FIRST_S else 1 + int((seconds - FIRST_S) / (age_s - SLACK_S))


def operations(bench, nodes):
    true, sleep = ["true"], ["sleep"]
    two, four = bench.record(true, 2, 2)[0], bench.record(true, 4, 4)[0]
    node = scaled(plus(four, scaled(two, -1)), 0.5)
    once = {name: max(0, number) for name, number in plus(two, scaled(node, -2)).items()}  # ranks wait for each other
    rank = plus(bench.record(true, 2, 1)[0], scaled(bench.record(true, 1, 1)[0], -1))
    short, long = bench.record([*sleep, "7"])[0], bench.record([*sleep, "25"])[0]
    more = long["sync"] - short["sync"]
    checkpoint = scaled(plus(long, scaled(short, -1)), 1 / more)
    # What the end costs beyond that of a job without a checkpoint.
    end = plus(short, scaled(bench.record([*sleep, "0.1"])[0], -1), scaled(checkpoint, -checkpoints_of(7, 5)))
    end = {name: max(0, round(number)) for name, number in end.items()}
    local = bench.record([*sleep, "7"], options=["--checkpoint", "local"])[0]

    print("| | metadata | data | |\n|---|---|---|---|")
    for what, counts in (("once per job", once), ("start and end of a node", node), ("a further rank", rank),
                         ("a checkpoint", checkpoint), ("more at the end, after checkpoints", end),
                         ("a node of a job with `--checkpoint local`, as a whole", local)):
        print(f"| {what} | {metadata(counts):.3g} | {data(counts):.3g} | {in_words(counts)} |")
    print(f"\n| job on {nodes:,} nodes | `--checkpoint` | metadata operations | data operations | metadata, per node and hour |\n"
          "|---|---|---|---|---|")
    for name, seconds in JOBS:
        for age_s in (5, 60, None):
            count = checkpoints_of(seconds, age_s) if age_s else 0
            if seconds < FIRST_S and age_s != 5:
                continue
            looks = dict.fromkeys(OPERATIONS, 0)
            looks["look"] = count // COPIES_PER_LOOK
            per_node = plus(node, scaled(checkpoint, count), looks, end if count else scaled(end, 0))
            if age_s is None:
                per_node = node
            all_of_them = plus(once, scaled(per_node, nodes))
            hourly = "" if seconds < FIRST_S else f"{metadata(per_node) / (seconds / 3600):.3g}"
            label = "5 (default)" if age_s == 5 else age_s or "local"
            print(f"| {name} | {label} | {metadata(all_of_them):,.0f} | {data(all_of_them):,.0f} | {hourly} |")


def load(bench, nodes, seconds):
    place = tempfile.mkdtemp(prefix="checkpoints-", dir="/dev/shm")
    try:
        print("\n| nodes | per operation | `--checkpoint` | checkpoints/s | operations/s | most checkpoints that begin in 0.1 s "
              "| median | longest |\n|---|---|---|---|---|---|---|---|")
        for delay_ms in DELAYS_MS:
            for age_s in (5, 60):
                directory = os.path.join(place, f"{delay_ms}-{age_s}")
                os.mkdir(directory)
                length = seconds if age_s == 5 else max(seconds, 75)
                done = subprocess.run([os.path.join(bench.build, "bench", "checkpoint_load"), directory, str(nodes), str(length),
                                       "83000", str(delay_ms * 1000), str(age_s)], capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    fail(done.stderr)
                told = json.loads(done.stdout)
                print(f"| {told['nodes']} | {delay_ms} ms | {age_s} | {told['checkpoints_per_second']:.0f} | "
                      f"{told['per_second']:.0f} | {told['busiest_tenth']} | {1000 * told['median_s']:.0f} ms | "
                      f"{1000 * told['longest_s']:.0f} ms |", flush=True)
                shutil.rmtree(directory)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def draining(bench, seconds):
    program = os.path.join(bench.folder, "busy.py")
    with open(program, "w", encoding="ascii") as file:
        file.write(BUSY)
    print("\n| per operation | waiting for the file server | samples | lost, rings full | all that was lost |\n|---|---|---|---|---|")
    for delay_ms in (0, *DELAYS_MS, 1000):
        begin = time.monotonic()
        _, waited_s, run = bench.record([sys.executable, program, str(seconds)], delay_ms=delay_ms, options=["-r", "1000"])
        elapsed_s = time.monotonic() - begin
        report = json.loads(subprocess.run([os.path.join(bench.build, "bin", "clusterprof"), "report", "--json", run],
                                           capture_output=True, check=True).stdout)
        dropped = report["run"]["dropped"]
        print(f"| {delay_ms} ms | {waited_s:.2f} of {elapsed_s:.1f} s | {report['run']['samples']} | {dropped.get('ring_full', 0)} | "
              f"{dropped} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(os.path.dirname(__file__), "..", "build", "release"))
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", choices=("operations", "load", "draining"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
        bench = Bench(os.path.abspath(options.build), folder)
        if options.only in (None, "operations"):
            operations(bench, options.nodes)
        if options.only in (None, "load"):
            load(bench, options.nodes, options.seconds)
        if options.only in (None, "draining"):
            draining(bench, options.seconds)


if __name__ == "__main__":
    main()
