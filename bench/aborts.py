#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How runs of Open MPI end when a rank calls MPI_Abort: without clusterprof, and recorded.

One rank calls MPI_Abort(MPI_COMM_WORLD, 7) while the others wait in MPI_Barrier. Runs without clusterprof and recorded ones
alternate. Printed is how many ended in which way: "status N", "signal N", "hung" (longer than --patience), and "left over" if
processes of the run were still there two seconds after mpirun had ended.

    bench/aborts.py [--build DIR] [--pairs N] [--ranks N,...] [--patience SECONDS]
"""

import argparse
import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PROGRAM = r'''
#include <mpi.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    usleep(20000);
    MPI_Abort(MPI_COMM_WORLD, 7);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
'''


def processes_of(program):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.readlink(f"/proc/{name}/exe") == program:
                    found.append(int(name))
            except OSError:
                continue
    return found


def ended(command, program, folder, patience_s, is_recorded):
    """How a run ended, in words."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        status = process.wait(patience_s)
        how = f"status {status}" if status >= 0 else f"signal {-status}"
    except subprocess.TimeoutExpired:
        how = "hung"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    until = time.monotonic() + 2
    while (left := processes_of(program)) and time.monotonic() < until:
        time.sleep(0.02)
    if left and how != "hung":
        how += ", left over"
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    out = os.path.join(folder, "out")
    if os.path.isdir(out) != is_recorded:
        sys.exit(f"{out}: is {'missing' if is_recorded else 'there'}: is the collector built?")
    shutil.rmtree(out, ignore_errors=True)
    return how


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--ranks", default="2,3,4", help="numbers of ranks, in turn")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a run hangs")
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")
    ranks = [int(word) for word in arguments.ranks.split(",")]
    ways = {"without clusterprof": collections.Counter(), "recorded": collections.Counter()}
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        source, program = os.path.join(folder, "aborts.c"), os.path.join(folder, "aborts")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        subprocess.run(["mpicc.openmpi", "-O1", "-o", program, source], check=True)
        for pair in range(arguments.pairs):
            mpirun = ["mpirun.openmpi", "--oversubscribe", "-n", str(ranks[pair % len(ranks)])]
            for way, command in (("without clusterprof", [program]), ("recorded", [tool, "-q", "-o", "out", program])):
                ways[way][ended(mpirun + command, program, folder, arguments.patience, way == "recorded")] += 1
            if pair % 50 == 49 and sys.stderr.isatty():
                print(f"{pair + 1} of {arguments.pairs}", file=sys.stderr)
    print("| runs | ended with | times |\n|---|---|---|")
    for way, counts in ways.items():
        for how, times in counts.most_common():
            print(f"| {way} | {how} | {times} |")


if __name__ == "__main__":
    main()
