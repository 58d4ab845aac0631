#!/usr/bin/env python3
"""Measures how many nanoseconds clusterprof adds to a construct of OpenMP (a parallel region, a barrier, a chunk of a dynamic loop, a
critical section, a task), beside a tool that does nothing (the floor: empty callbacks for LLVM's run time, functions that only pass on
for GCC's; bench/empty_openmp_tool.cpp). Bare, floor and recorded runs alternate; the result is the median of the paired differences.
The sampling timers run at 1 Hz, so that the figures show the cost of counting alone.

    bench/openmp.py [--build DIR] [--pairs N] [--only NAME,...] [--compilers gcc,clang] [--threads 1,2,4]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ("regions", "barriers", "chunks", "criticals", "tasks")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--compilers", default="gcc,clang")
    parser.add_argument("--threads", default="1,2,4")
    arguments = parser.parse_args()
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")

    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        floor_tool = f"{folder}/empty_openmp_tool.so"
        subprocess.run(["g++", "-O2", "-std=c++20", "-shared", "-fPIC", f"-I{TOP}", f"{TOP}/bench/empty_openmp_tool.cpp",
                        "-o", floor_tool], check=True)
        print(f"{'':<12}{'compiler':>10}{'threads':>9}{'bare ns':>10}{'floor +':>9}{'recorded +':>12}{'over floor':>12}{'min':>8}{'max':>8}")
        for compiler in arguments.compilers.split(","):
            program = f"{folder}/openmp_constructs.{compiler}"
            subprocess.run([compiler, "-O2", "-fopenmp", f"{TOP}/bench/openmp_constructs.c", "-o", program], check=True)
            for kind in arguments.only.split(","):
                for threads in arguments.threads.split(","):
                    def call_ns(before, preload=None):
                        environment = dict(os.environ, OMP_NUM_THREADS=threads)
                        if preload:
                            environment["LD_PRELOAD"] = preload
                        done = subprocess.run([*before, program, kind], capture_output=True, text=True, cwd=folder, env=environment)
                        if done.returncode != 0:
                            sys.exit(done.stderr)
                        return float(done.stdout.split()[1])

                    bare, floors, recorded = [], [], []
                    for _ in range(arguments.pairs):
                        bare.append(call_ns([]))
                        floors.append(call_ns([], floor_tool))
                        run = os.path.join(folder, "run")
                        recorded.append(call_ns([tool, "-q", "-r", "1", "-o", run]))
                        if not os.path.isdir(run):
                            sys.exit("the run was not recorded: is the collector built?")
                        shutil.rmtree(run)
                    over = [r - f for r, f in zip(recorded, floors)]
                    print(f"{kind:<12}{compiler:>10}{threads:>9}{statistics.median(bare):>10.0f}"
                          f"{statistics.median(f - b for f, b in zip(floors, bare)):>9.0f}"
                          f"{statistics.median(r - b for r, b in zip(recorded, bare)):>12.0f}"
                          f"{statistics.median(over):>12.0f}{min(over):>8.0f}{max(over):>8.0f}", flush=True)


if __name__ == "__main__":
    main()
