#!/usr/bin/env python3
"""Measures how many nanoseconds a region takes that a program names through clusterprof.h, NVTX, ITT or Kokkos: begin and end together, with
clusterprof and without it; torch: an operator of what the tests have in place of libtorch, with --torch-ops. Runs alternate; the result is the
median of the differences.

    bench/regions.py [--build DIR] [--pairs N] [--only INTERFACE,...]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(TOP, "tests", "truth", "programs")
INTERFACES = ("clusterprof", "nvtx", "itt", "kokkos", "petsc", "likwid", "torch")
OWN = """
#include <stdio.h>
#include <time.h>
#include "include/clusterprof.h"
int main(void) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < 1000000; ++i) {
    clusterprof_region_begin("outer");
    clusterprof_region_end("outer");
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("{\\"pair_ns\\": %.2f}\\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e6);
  return 0;
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--only", default=",".join(INTERFACES))
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    tool = os.path.join(build, "bin", "clusterprof")
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        library = f"{folder}/libannotations.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"{PROGRAMS}/annotations_library.c", "-o", library], check=True)
        program = f"{folder}/annotations"
        subprocess.run(["cc", "-O2", "-I/usr/local/cuda/include", f"{PROGRAMS}/annotations.c", "-o", program, "-pthread", f"-L{folder}",
                        "-lannotations", f"-Wl,-rpath,{folder}", "-ldl"], check=True)
        own = f"{folder}/own"
        with open(f"{own}.c", "w", encoding="ascii") as file:
            file.write(OWN)
        subprocess.run(["cc", "-O2", f"-I{TOP}", f"{own}.c", "-o", own, "-ldl"], check=True)

        print(f"{'':<14}{'bare ns':>9}{'recorded +':>12}{'min':>8}{'max':>8}")
        for interface in arguments.only.split(","):
            command = [own] if interface == "clusterprof" else [program, interface, "1000000"]
            options = []
            if interface == "torch":
                command = [sys.executable, "-B", f"{TOP}/tests/programs/torch_operators.py",
                           f"{build}/programs/torch_ops/1_13/libtorch_cpu.so", "cost"]
                options = ["--torch-ops"]

            def pair_ns(before):
                done = subprocess.run([*before, *command], capture_output=True, text=True, cwd=folder)
                if done.returncode == 77:
                    return None
                if done.returncode != 0:
                    sys.exit(done.stderr)
                return json.loads(done.stdout)["pair_ns"]

            bare, more = [], []
            for _ in range(arguments.pairs):
                without = pair_ns([])
                if without is None:
                    break
                run = os.path.join(folder, "run")
                bare.append(without)
                more.append(pair_ns([tool, "-q", "-r", "1", *options, "-o", run]) - without)
                if not os.path.isdir(run):
                    sys.exit("the run was not recorded: is the collector built?")
                shutil.rmtree(run)
            if bare:
                print(f"{interface:<14}{statistics.median(bare):>9.1f}{statistics.median(more):>12.1f}{min(more):>8.1f}{max(more):>8.1f}",
                      flush=True)


if __name__ == "__main__":
    main()
