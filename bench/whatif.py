#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `clusterprof whatif` predicts, against programs in which the change is really made.

    bench/whatif.py [--build DIR] [--pairs N] [--ranks N,...] [--pattern NAME] [--speed]

Runs every pattern (--pattern: that one) of tests/truth/programs/whatif.c with both MPIs (the one with OpenMP threads is built for that),
and of forkjoin.c, which has threads and no MPI. A pair is a run without the change and one with it, both recorded. Prints the median of
what was really gained, what was predicted (median), its error bound, and whether the difference is within 5 % of the run, and within the
bound. The patterns ask and bulk have two ranks, and a network that really becomes slower: by a library that
delays messages, and by a token bucket in a network namespace (tests/support/slow_network.py; TCP, so Open MPI only).
--speed: instead how long a replay of synthetic runs takes: of 64 ranks with 10^5 events each, and of 4,096 with as many as a rank
of such a job may keep (docs/design/0006-waiting.md), which takes 17 GB of memory.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

from commands import let_root_use_open_mpi, output_of, timed
from mpi_call import TOP

sys.path.append(os.path.join(TOP, "tests", "support"))
import slow_network  # noqa: E402

SOURCE = os.path.join(TOP, "tests", "truth", "programs", "whatif.c")
FORK_JOIN = os.path.join(TOP, "tests", "truth", "programs", "forkjoin.c")
THREADS = 3
HALF = ("half", ["function solve x0.5"])
EQUAL = ("equal", ["rank 1 = mean"])
BOTH = ("both", HALF[1] + EQUAL[1])
SHARED = ("equal", ["balance function solve"])
FORK_JOIN_PATTERNS = [("workers", *HALF), ("workers", *SHARED), ("nested", *HALF), ("loop", *HALF), ("loop", *SHARED), ("phases", *HALF)]
UNIT_S = "0.03"  # of work: long enough for samples of ranks that sleep


def line_of(text):
    with open(SOURCE, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if text in line)


PATTERNS = [("allreduce", *EQUAL), ("allreduce", *HALF), ("allreduce", *BOTH),
            ("allreduce", "half", [f"line whatif.c:{line_of('rest(wanted);')} x0.5"]), ("marked", "half", ["region load x0.5"]),
            ("ring", *EQUAL), ("ring", *HALF), ("pipeline", *HALF), ("master", *HALF), ("halo", *EQUAL), ("halo", *HALF),
            ("halo", *BOTH), ("bcast", *HALF), ("reduce", *HALF), ("alltoall", *EQUAL), ("alltoall", *HALF), ("scan", *HALF),
            ("barrier", "nobarrier", [f"call MPI_Barrier whatif.c:{line_of('if (!nobarrier)')} removed"]),
            ("barrier", *HALF), ("rendezvous", *HALF),
            ("polling", *HALF), ("gather", *HALF), ("gather", *EQUAL), ("scatter", *HALF), ("allgather", *EQUAL),
            ("allgather", *HALF), ("overlap", *HALF), ("overlap", *EQUAL), ("io", "noio", ["io x0"]), ("team", "four", ["threads 4"])]
LATENCY_S = 0.03
RATE_BITS_PER_S = 200_000_000  # 1 MiB takes 42 ms


def launcher(flavour, ranks):
    if flavour == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
    return ["mpirun.mpich", "-n", str(ranks)]


class Variant:
    """How a program is run without the change, or with it."""

    def __init__(self, command, launcher=(), env=None):
        self.command, self.launcher, self.env = command, launcher, env

    def elapsed_s(self, clusterprof, directory):
        recorded = [*self.launcher, clusterprof, "-q", "-r", "250", "-o", directory, *self.command]
        return json.loads(output_of(recorded, env=self.env))["elapsed_s"]


def compare(build, folder, flavour, ranks, pattern, kind, changes, pairs):
    program = os.path.join(folder if kind == "four" else os.path.join(build, "programs"), flavour, "whatif")
    before, after = (Variant([program, pattern, made, UNIT_S], launcher(flavour, ranks)) for made in ("none", kind))
    compare_runs(build, folder, f"| {flavour} | {ranks} | {pattern} |", before, after, changes, pairs)


def compare_threads(build, folder, pattern, kind, changes, pairs):
    program = os.path.join(folder, "forkjoin")
    before, after = (Variant([program, pattern, made]) for made in ("none", kind))
    compare_runs(build, folder, f"| - | {THREADS} threads | {pattern} |", before, after, changes, pairs)


def compare_latencies(build, folder, flavour, pairs):
    """Messages that are twice as late."""
    here = os.path.join(folder, f"delays-{flavour}")
    os.mkdir(here)
    command = [slow_network.with_delays(flavour, SOURCE, here), "ask", "none", UNIT_S]
    before, after = (Variant(command, launcher(flavour, 2), slow_network.delay(seconds)) for seconds in (LATENCY_S, 2 * LATENCY_S))
    compare_runs(build, folder, f"| {flavour} | 2 | ask |", before, after, ["latency x2"], pairs)


def compare_bandwidths(build, folder, pairs):
    """Half the bandwidth."""
    if why := slow_network.why_not_limited():
        print(f"bulk: there can be no network of limited bandwidth here: {why}", file=sys.stderr)
        return
    first, *others = launcher("openmpi", 2)
    command = [os.path.join(build, "programs", "openmpi", "whatif"), "bulk", "none", UNIT_S]
    before, after = (Variant(command, [*slow_network.limit(rate), first, *slow_network.OVER_TCP, *others], slow_network.as_root())
                     for rate in (RATE_BITS_PER_S, RATE_BITS_PER_S // 2))
    compare_runs(build, folder, "| openmpi, TCP | 2 | bulk |", before, after, ["bandwidth x0.5"], pairs)


def compare_runs(build, folder, head, before, after, changes, pairs):
    clusterprof = os.path.join(build, "bin", "clusterprof")
    asked = [word for change in changes for word in ("--change", change)]
    before_s, real_s, gains_s, bounds_s = [], [], [], []
    for pair in range(pairs):
        run = os.path.join(folder, f"run-{pair}")
        before_s.append(before.elapsed_s(clusterprof, run))
        real_s.append(before_s[-1] - after.elapsed_s(clusterprof, run + "-changed"))
        predicted = json.loads(output_of([clusterprof, "whatif", run, "--json", *asked]))
        gains_s.append(predicted["elapsed_s"] - predicted["predicted_s"])
        bounds_s.append(predicted["error_s"])
        shutil.rmtree(run)
        shutil.rmtree(run + "-changed")
    whole, real, gain, bound = (statistics.median(values) for values in (before_s, real_s, gains_s, bounds_s))
    within = abs(gain - real) <= 0.05 * whole
    print(f"{head} {', '.join(changes)} | {whole:.3f} | {real:.3f} | {gain:.3f} | {bound:.3f} | "
          f"{'yes' if within else 'NO'} | {'yes' if abs(gain - real) <= bound else 'NO'} |", flush=True)


def build_with_openmp(folder, flavour):
    os.mkdir(os.path.join(folder, flavour))
    output_of([f"mpicc.{flavour}", "-O2", "-g", "-fopenmp", SOURCE, "-o", os.path.join(folder, flavour, "whatif")])


def speed(build, folder):
    synth = os.path.join(build, "libexec", "clusterprof", "synth")
    for nodes, per_node, events in ((4, 16, 100_000), (64, 64, 8192)):
        run = os.path.join(folder, f"synthetic-{nodes * per_node}")
        output_of([synth, "--nodes", str(nodes), "--ranks-per-node", str(per_node), "--events", str(events), run])
        for change in ("io x0.5", "latency x0.5"):
            took_s, peak_bytes = timed([os.path.join(build, "bin", "clusterprof"), "whatif", run, "--json", "--change", change])
            print(f"{nodes * per_node} ranks, {events} events each, {change}: {took_s:.1f} s, {peak_bytes / 1e9:.2f} GB", flush=True)
        shutil.rmtree(run)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--pattern", choices=sorted({row[0] for row in FORK_JOIN_PATTERNS + PATTERNS} | {"ask", "bulk"}))
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    let_root_use_open_mpi()

    def is_asked(row):
        return options.pattern in (None, row[0])

    folder = tempfile.mkdtemp(prefix="clusterprof-whatif-")
    try:
        if options.speed:
            speed(options.build, folder)
            return
        print("| MPI | ranks | pattern | change | took (s) | gained | predicted | +/- | within 5 % | within +/- |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        output_of(["gcc", "-O2", "-g", "-pthread", "-fopenmp", FORK_JOIN, "-o", os.path.join(folder, "forkjoin")])
        # Threads that wait for the next region would keep processors busy.
        os.environ["OMP_WAIT_POLICY"] = "passive"
        for pattern, kind, changes in filter(is_asked, FORK_JOIN_PATTERNS):
            compare_threads(options.build, folder, pattern, kind, changes, options.pairs)
        del os.environ["OMP_WAIT_POLICY"]
        for flavour in ("openmpi", "mpich"):
            build_with_openmp(folder, flavour)
            for ranks in map(int, options.ranks.split(",")):
                for pattern, kind, changes in filter(is_asked, PATTERNS):
                    compare(options.build, folder, flavour, ranks, pattern, kind, changes, options.pairs)
            if is_asked(("ask",)):
                compare_latencies(options.build, folder, flavour, options.pairs)
        if is_asked(("bulk",)):
            compare_bandwidths(options.build, folder, options.pairs)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
