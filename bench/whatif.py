#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `clusterprof whatif` predicts, against programs in which the change is really made.

    bench/whatif.py [--build DIR] [--pairs N] [--ranks N,...] [--pattern NAME] [--speed]

Runs every pattern (--pattern: that one) of tests/truth/programs/whatif.c with both MPIs (the one with OpenMP threads is built for that), and of forkjoin.c, which has threads and no MPI. A pair is a run without the change and one with it, both
recorded. Prints the median of what was really gained, what was predicted (median), its error bound, and whether the difference is within
5 % of the run, and within the bound. --speed: instead how long a replay of a synthetic run of 64 ranks with 10^5 events each takes.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from mpi_call import TOP

SOURCE = os.path.join(TOP, "tests", "truth", "programs", "whatif.c")
FORK_JOIN = os.path.join(TOP, "tests", "truth", "programs", "forkjoin.c")
THREADS = 3
HALF = ("half", "function solve x0.5")
EQUAL = ("equal", "rank 1 = mean")
SHARED = ("equal", "balance function solve")
FORK_JOIN_PATTERNS = [("workers", *HALF), ("workers", *SHARED), ("nested", *HALF), ("loop", *HALF), ("loop", *SHARED), ("phases", *HALF)]
UNIT_S = "0.03"  # of work: long enough for samples of ranks that sleep
PATTERNS = [("allreduce", *EQUAL), ("allreduce", *HALF), ("ring", *EQUAL), ("ring", *HALF), ("pipeline", *HALF),
            ("master", *HALF), ("halo", *EQUAL), ("halo", *HALF), ("bcast", *HALF), ("reduce", *HALF), ("alltoall", *EQUAL),
            ("alltoall", *HALF), ("scan", *HALF), ("barrier", "nobarrier", None), ("barrier", *HALF), ("rendezvous", *HALF),
            ("polling", *HALF), ("gather", *HALF), ("gather", *EQUAL), ("scatter", *HALF), ("allgather", *EQUAL),
            ("allgather", *HALF), ("overlap", *HALF), ("overlap", *EQUAL), ("io", "noio", "io x0"), ("team", "four", "threads 4")]


def launcher(flavour, ranks):
    if flavour == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
    return ["mpirun.mpich", "-n", str(ranks)]


def output_of(command):
    return subprocess.run(command, capture_output=True, timeout=300, check=True).stdout


def compare(build, folder, flavour, ranks, pattern, kind, change, pairs):
    program = os.path.join(folder if kind == "four" else os.path.join(build, "programs"), flavour, "whatif")
    compare_runs(build, folder, f"| {flavour} | {ranks} |", launcher(flavour, ranks), [program, pattern, kind, UNIT_S], change, pairs)


def compare_threads(build, folder, pattern, kind, change, pairs):
    compare_runs(build, folder, f"| - | {THREADS} threads |", [], [os.path.join(folder, "forkjoin"), pattern, kind], change, pairs)


def compare_runs(build, folder, head, before_program, command, change, pairs):
    """command: the program, the pattern, and the kind of change."""
    clusterprof = os.path.join(build, "bin", "clusterprof")
    before, after, gains, bounds = [], [], [], []
    for pair in range(pairs):
        run = os.path.join(folder, f"run-{pair}")

        def elapsed_s(directory, kind):
            program, pattern, _, *options = command
            return json.loads(output_of([*before_program, clusterprof, "-q", "-r", "250", "-o", directory, program, pattern, kind,
                                         *options]))["elapsed_s"]

        before.append(elapsed_s(run, "none"))
        after.append(elapsed_s(run + "-changed", command[2]))
        predicted = json.loads(output_of([clusterprof, "whatif", run, "--json", "--change", change]))
        gains.append(predicted["elapsed_s"] - predicted["predicted_s"])
        bounds.append(predicted["error_s"])
        shutil.rmtree(run)
        shutil.rmtree(run + "-changed")
    real, gain, bound = (statistics.median(values) for values in ([x - y for x, y in zip(before, after)], gains, bounds))
    within = abs(gain - real) <= 0.05 * statistics.median(before)
    print(f"{head} {command[1]} | {change} | {statistics.median(before):.3f} | {real:.3f} | {gain:.3f} | {bound:.3f} | "
          f"{'yes' if within else 'NO'} | {'yes' if abs(gain - real) <= bound else 'NO'} |", flush=True)


def build_with_openmp(folder, flavour):
    os.mkdir(os.path.join(folder, flavour))
    output_of([f"mpicc.{flavour}", "-O2", "-g", "-fopenmp", SOURCE, "-o", os.path.join(folder, flavour, "whatif")])


def speed(build, folder):
    run = os.path.join(folder, "synthetic")
    synth = os.path.join(build, "libexec", "clusterprof", "synth")
    output_of([synth, "--nodes", "4", "--ranks-per-node", "16", "--events", "100000", run])
    for change in ("io x0.5", "latency x0.5"):
        began = time.monotonic()
        done = subprocess.run([os.path.join(build, "bin", "clusterprof"), "whatif", run, "--json", "--change", change],
                              capture_output=True, timeout=600)
        print(f"{change}: {time.monotonic() - began:.1f} s, status {done.returncode} {done.stderr.decode().strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--pattern", choices=sorted({row[0] for row in FORK_JOIN_PATTERNS + PATTERNS}))
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()

    def is_asked(row):
        return options.pattern in (None, row[0])

    folder = tempfile.mkdtemp(prefix="clusterprof-whatif-")
    try:
        if options.speed:
            speed(options.build, folder)
            return
        with open(SOURCE, encoding="utf-8") as file:
            line = next(n for n, text in enumerate(file, 1) if "if (!nobarrier)" in text)
        print("| MPI | ranks | pattern | change | took (s) | gained | predicted | +/- | within 5 % | within +/- |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        output_of(["gcc", "-O2", "-g", "-pthread", "-fopenmp", FORK_JOIN, "-o", os.path.join(folder, "forkjoin")])
        # Threads that wait for the next region would keep processors busy.
        os.environ["OMP_WAIT_POLICY"] = "passive"
        for pattern, kind, change in filter(is_asked, FORK_JOIN_PATTERNS):
            compare_threads(options.build, folder, pattern, kind, change, options.pairs)
        del os.environ["OMP_WAIT_POLICY"]
        for flavour in ("openmpi", "mpich"):
            build_with_openmp(folder, flavour)
            for ranks in map(int, options.ranks.split(",")):
                for pattern, kind, change in filter(is_asked, PATTERNS):
                    compare(options.build, folder, flavour, ranks, pattern, kind,
                            change or f"call MPI_Barrier whatif.c:{line} removed", options.pairs)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
