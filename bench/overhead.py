#!/usr/bin/env python3
"""Slowdown of whole programs under clusterprof, against the same program bare, side by side.

Bare and recorded runs alternate (bare, 100 Hz, 1000 Hz, bare, ...) so that a machine that
drifts hurts all alike; each recorded run is divided by the mean of its two neighbours that
ran bare. Two times are taken: `whole`, as the shell sees it (launcher, collector, writing the
shard, banner and all), and `program`, from the program's own first line to its last.

    bench/overhead.py [--build DIR] [--pairs N] [--rates 100,1000] [--only NAME,...]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"

CALLS = '''
import time
begin = time.perf_counter()
def leaf(x):
    return x + 1
def middle(x):
    return leaf(x) + leaf(x)
def outer(n):
    total = 0
    for i in range(n):
        total += middle(i)
    return total
outer(22_000_000)
print("program_s", time.perf_counter() - begin)
'''

TRAIN = '''
import runpy, sys, time
begin = time.perf_counter()
runpy.run_path(sys.argv.pop(1), run_name="__main__")
from mpi4py import MPI
if MPI.COMM_WORLD.Get_rank() == 0:
    print("program_s", time.perf_counter() - begin, flush=True)
'''


def programs(build, folder):
    mpirun = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    calls, train = os.path.join(folder, "calls.py"), os.path.join(folder, "train_timed.py")
    with open(calls, "w") as file:
        file.write(CALLS)
    with open(train, "w") as file:
        file.write(TRAIN)
    stencil = os.path.join(build, "programs", "openmpi", "stencil")
    return {
        "train.py, 2 ranks": (mpirun + ["-n", "2"], [PYTHON, train, f"{TOP}/examples/train.py", "250"]),
        "call-heavy Python": ([], [PYTHON, calls]),
        "C stencil, 2 ranks": (mpirun + ["-n", "2"], [stencil, "3000", "1000"]),
    }


def run(before, tool, command, folder):
    begin = time.perf_counter()
    done = subprocess.run([*before, *tool, *command], cwd=folder, capture_output=True, text=True,
                          env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
    whole_s = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{command} failed: {done.stderr}")
    own = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("program_s")]
    return whole_s, own[0] if own else whole_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rates", default="100,1000")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tool = os.path.join(arguments.build, "bin", "clusterprof")
    rates = arguments.rates.split(",")

    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        print(f"{'program':<22}{'rate':>8}{'whole':>9}{'program':>9}{'min':>8}{'max':>8}   (medians of "
              f"{arguments.pairs} ratios to bare; min and max of whole)")
        for name, (before, command) in programs(arguments.build, folder).items():
            if arguments.only and not any(part in name for part in arguments.only.split(",")):
                continue
            run(before, [], command, folder)  # warms file caches
            ratios = {rate: [] for rate in rates}
            bare_before = run(before, [], command, folder)
            for _ in range(arguments.pairs):
                results = {}
                for rate in rates:
                    target = os.path.join(folder, "run")
                    results[rate] = run(before, [tool, "-q", "-r", rate, "-o", target], command, folder)
                    shutil.rmtree(target)
                bare_after = run(before, [], command, folder)
                bare = [(a + b) / 2 for a, b in zip(bare_before, bare_after)]
                for rate, result in results.items():
                    ratios[rate].append([recorded / alone for recorded, alone in zip(result, bare)])
                bare_before = bare_after
            for rate in rates:
                whole, program = ([pair[i] for pair in ratios[rate]] for i in (0, 1))
                print(f"{name:<22}{rate + ' Hz':>8}{statistics.median(whole):>9.4f}"
                      f"{statistics.median(program):>9.4f}{min(whole):>8.3f}{max(whole):>8.3f}", flush=True)


if __name__ == "__main__":
    main()
