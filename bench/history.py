#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long `clusterprof history` takes with many runs, without its index and with it; and how often it is wrong about series of runs
whose truth is known (history_alarms.cpp), and `diff --fail-if 'elapsed regressed'` about pairs of runs.

    bench/history.py [--build DIR] [--runs N] [--profiles N] [--series N]        0: not that

The runs are synthetic ones of one command that take turns under many names, so the first time every profile is read, and none is merged.
Each of --profiles is of a program with other functions, so the series has far more of them than a single run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from commands import fail
from mpi_call import TOP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--profiles", type=int, default=100)
    parser.add_argument("--series", type=int, default=2000)
    options = parser.parse_args()
    alarms = os.path.join(options.build, "bench", "history_alarms")
    if options.series and not os.path.exists(alarms):
        fail(f"{alarms} is missing: build with -DCLUSTERPROF_BUILD_BENCHMARKS=ON")
    if options.runs:
        measure_time(options)
    if options.series:
        subprocess.run([alarms, str(options.series)], check=True)


def measure_time(options):
    clusterprof = os.path.join(options.build, "bin", "clusterprof")
    folder = tempfile.mkdtemp(prefix="clusterprof-history-")
    try:
        runs, profiles = os.path.join(folder, "runs"), []
        for seed in range(1, options.profiles + 1):
            one = os.path.join(folder, f"of-seed-{seed}")
            subprocess.run([os.path.join(options.build, "libexec", "clusterprof", "synth"), "--ranks-per-node", "4", "--paths", "500",
                            "--seed", str(seed), one], check=True)
            subprocess.run([clusterprof, "merge", "--quiet", one], check=True)
            profiles.append(os.path.join(one, "profile.h5"))
        for i in range(options.runs):
            os.makedirs(os.path.join(runs, f"{i:06}"))
            os.link(profiles[i % len(profiles)], os.path.join(runs, f"{i:06}", "profile.h5"))
        for what in ("without the index", "with it", "with it"):
            began = time.monotonic()
            subprocess.run([clusterprof, "history", runs], check=True, stdout=subprocess.DEVNULL)
            print(f"{options.runs} runs of {len(profiles)} profiles, {what}: {time.monotonic() - began:.2f} s", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
