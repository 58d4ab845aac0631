#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a job on standby costs: side by side, bare, on standby, and recorded.

    bench/standby.py [--build DIR] [--pairs N] [--mpi openmpi] [--seconds S] [--only calls|minute] [--cpus N,N]

Two tables:

  calls   nanoseconds of an MPI call (the programs of bench/mpi_call.py), and what standby and recording add to it. Bare, standby
          and recorded runs alternate; medians of the paired differences, with the lowest and highest.
  minute  CPU time of the agent's threads and of the collector, and their wake-ups (voluntary context switches), in S seconds of a
          program of two ranks that computes and meets in barriers; per rank and per node. The first seconds, in which everything
          is loaded, are left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from mpi_call import PROGRAMS, TOP

MODES = (("bare", None), ("standby", ["--standby"]), ("recording", []))
BARRIERS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const double end = MPI_Wtime() + atof(argv[1]);
  volatile double sum = 0;
  int go_on = 1;
  while (go_on) {
    for (int i = 0; i < 100000; ++i) sum += i;
    go_on = MPI_Wtime() < end;
    MPI_Allreduce(MPI_IN_PLACE, &go_on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
"""
WARM_UP_S = 5  # names are looked up, and the collector looks often at first


def launcher(flavour, ranks):
    return [f"mpirun.{flavour}", *(["--oversubscribe", "--bind-to", "none"] if flavour == "openmpi" else []), "-n", str(ranks)]


def recorded(tool, options, folder):
    out = os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    return [] if options is None else [tool, "-q", "-o", out, *options, "--"]


def calls(arguments, tool, folder):
    print(f"{'call':<18}{'bare ns':>9}" + "".join(f"{name + ' +':>12}{'min':>7}{'max':>7}" for name, _ in MODES[1:]))
    for name, source, words, ranks in PROGRAMS:
        if source.endswith(".py"):
            continue
        program = os.path.join(folder, source)
        subprocess.run([f"mpicc.{arguments.mpi}", "-O2", f"{TOP}/bench/{source}.c", "-o", program], check=True)
        cpus = arguments.cpus.split(",")[0] if ranks == 1 else arguments.cpus
        times = {mode: [] for mode, _ in MODES}
        for _ in range(arguments.pairs):
            for mode, options in MODES:
                done = subprocess.run(["taskset", "-c", cpus, *launcher(arguments.mpi, ranks), *recorded(tool, options, folder),
                                       program, *words], capture_output=True, text=True, check=True)
                if options is not None and not os.path.isdir(os.path.join(folder, "run")):
                    sys.exit(f"a run in mode {mode} was not recorded: is the collector built?")
                times[mode].append(float(next(line for line in done.stdout.splitlines() if line.startswith("call_ns")).split()[1]))
        line = f"{name:<18}{statistics.median(times['bare']):>9.1f}"
        for mode, _ in MODES[1:]:
            added = [a - b for a, b in zip(times[mode], times["bare"])]
            line += f"{statistics.median(added):>12.1f}{min(added):>7.0f}{max(added):>7.0f}"
        print(line, flush=True)


def tasks(pid):
    """(CPU time, voluntary switches) of each thread by its id, with its name."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat") as file:
                cpu_ns = int(file.read().split()[0])
            with open(f"/proc/{pid}/task/{tid}/status") as file:
                status = dict(line.split(":", 1) for line in file)
            found[tid] = (status["Name"].strip(), cpu_ns, int(status["voluntary_ctxt_switches"]))
        except OSError:
            continue
    return found


def measured(pids, is_ours):
    cpu_ns = switches = 0
    for pid in pids:
        for name, used_ns, given in tasks(pid).values():
            if is_ours(name):
                cpu_ns, switches = cpu_ns + used_ns, switches + given
    return cpu_ns, switches


def processes_of(folder, program):
    """The program's ranks, and the collector of the run in this folder."""
    ranks, collectors = [], []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0] == program:
            ranks.append(pid)
        elif os.path.basename(words[0]) == "collector" and f"--run-dir={folder}/run" in words:
            collectors.append(pid)
    return ranks, collectors


def minute(arguments, tool, folder):
    program = os.path.join(folder, "barriers")
    with open(program + ".c", "w") as file:
        file.write(BARRIERS)
    subprocess.run([f"mpicc.{arguments.mpi}", "-O2", program + ".c", "-o", program], check=True)
    print(f"\n{'in ' + str(arguments.seconds) + ' s':<18}{'agent ms':>10}{'wake-ups':>10}{'collector ms':>14}{'wake-ups':>10}   per rank, per node")
    for mode, options in MODES[1:]:
        job = subprocess.Popen([*launcher(arguments.mpi, 2), *recorded(tool, options, folder), program,
                                str(arguments.seconds + 2 * WARM_UP_S)], stdout=subprocess.DEVNULL)
        time.sleep(WARM_UP_S)
        ranks, collectors = processes_of(folder, program)

        def look():
            return measured(ranks, lambda name: name == "clusterprof"), measured(collectors, lambda name: True)
        if len(ranks) != 2 or len(collectors) != 1:
            sys.exit(f"{len(ranks)} ranks and {len(collectors)} collectors run in mode {mode}, not 2 and 1")
        before = look()
        time.sleep(arguments.seconds)
        after = look()
        job.wait()
        (agent_ns, agent_switches), (collector_ns, collector_switches) = \
            ((b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after))
        print(f"{mode:<18}{agent_ns / 1e6 / len(ranks):>10.2f}{agent_switches / len(ranks):>10.0f}"
              f"{collector_ns / 1e6:>14.1f}{collector_switches:>10.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--mpi", default="openmpi", choices=("openmpi", "mpich"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", choices=("calls", "minute"))
    parser.add_argument("--cpus", default="1,0", help="the cores to pin the calls on, the first one for a single rank")
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tool = os.path.join(arguments.build, "bin", "clusterprof")
    if not os.path.exists(tool):
        sys.exit(f"{tool} is missing")
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        if arguments.only != "minute":
            calls(arguments, tool, folder)
        if arguments.only != "calls":
            minute(arguments, tool, folder)


if __name__ == "__main__":
    main()
