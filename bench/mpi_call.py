#!/usr/bin/env python3
"""Nanoseconds that clusterprof adds to an MPI call, bare and recorded runs in turn: the median of
the paired differences. The sampling timers run at 1 Hz, so that it is the wrappers that show.

    bench/mpi_call.py [--build DIR] [--pairs N]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=15)
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tool = os.path.join(arguments.build, "bin", "clusterprof")

    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        print(f"{'program':<28}{'MPI':>9}{'bare ns':>9}{'added ns':>10}{'min':>8}{'max':>8}")
        for flavour, ranks, source in (("openmpi", 1, "self_message"), ("openmpi", 2, "ping_pong"),
                                       ("mpich", 1, "self_message"), ("mpich", 2, "ping_pong")):
            binary = os.path.join(folder, f"{source}.{flavour}")
            subprocess.run([f"mpicc.{flavour}", "-O2", f"{TOP}/bench/{source}.c", "-o", binary], check=True)
            before = [f"mpirun.{flavour}", "-n", str(ranks)]
            if flavour == "openmpi":
                before += ["--oversubscribe"]

            def call_ns(wrapper):
                done = subprocess.run([*before, *wrapper, binary], capture_output=True, text=True, cwd=folder)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                return float(done.stdout.split()[1])

            call_ns([])
            bare, added = [], []
            for _ in range(arguments.pairs):
                alone = call_ns([])
                run = os.path.join(folder, "run")
                added.append(call_ns([tool, "-q", "-r", "1", "-o", run]) - alone)
                bare.append(alone)
                shutil.rmtree(run)
            print(f"{source + ', ' + str(ranks) + ' rank(s), 8 B':<28}{flavour:>9}{statistics.median(bare):>9.0f}"
                  f"{statistics.median(added):>10.0f}{min(added):>8.0f}{max(added):>8.0f}", flush=True)


if __name__ == "__main__":
    main()
