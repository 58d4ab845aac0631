#!/usr/bin/env python3
"""Measures how many nanoseconds clusterprof adds to an MPI call, beside the smallest possible wrapper (the floor: two
timestamps and nothing else, bench/two_timestamps.c). Bare, floor and recorded runs alternate; the result is the median of
the paired differences. Calls are recorded at each of --rates: 1 Hz shows the wrappers alone, 100 Hz is what users get.
Every call is recorded with its call site and its event. "python N" is MPI_Iprobe by mpi4py, below N Python functions.

A single rank shares one core with mpirun, launcher and collector. Two ranks share two cores with them: on a single core,
the result would be how long MPI takes to give up the core.

    bench/mpi_call.py [--build DIR] [--pairs N] [--only NAME,...] [--mpi openmpi,mpich] [--rates HZ,...] [--cpus N,N|all]
                      [--peer LIBRARY] [--python EXE]

--peer measures another profiler beside it, preloaded: libmpiP.so, built with the compiler of the one --mpi given.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Name, source, arguments, ranks.
PROGRAMS = (
    ("self", "self_message", (), 1),
    ("ping-pong", "ping_pong", (), 2),
    ("exchange", "mpi_operations", ("exchange",), 2),
    ("allreduce", "mpi_operations", ("allreduce",), 2),
    ("allreduce alone", "mpi_operations", ("allreduce",), 1),
    ("iprobe", "mpi_operations", ("iprobe",), 1),
    ("test", "mpi_operations", ("test",), 1),
    ("python 0", "iprobe.py", ("0",), 1),
    ("python 10", "iprobe.py", ("10",), 1),
    ("python 100", "iprobe.py", ("100",), 1),
    ("python 500", "iprobe.py", ("500",), 1),
)


def compile_all(flavour, folder):
    compiler = [f"mpicc.{flavour}", "-O2"]
    for source in sorted({p[1] for p in PROGRAMS if not p[1].endswith(".py")}):
        subprocess.run([*compiler, f"{TOP}/bench/{source}.c", "-o", f"{folder}/{source}.{flavour}"], check=True)
    floor = f"{folder}/two_timestamps.{flavour}.so"
    subprocess.run([*compiler, "-shared", "-fPIC", f"{TOP}/bench/two_timestamps.c", "-o", floor], check=True)
    return floor


def uses(python, flavour):
    """Returns whether that Python has an mpi4py for this MPI library."""
    vendor = subprocess.run([python, "-c", "from mpi4py import MPI; print(MPI.get_vendor()[0])"],
                            capture_output=True, text=True).stdout.strip()
    return vendor == {"openmpi": "Open MPI", "mpich": "MPICH"}[flavour]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", default=",".join(p[0] for p in PROGRAMS))
    parser.add_argument("--mpi", default="openmpi,mpich")
    parser.add_argument("--rates", default="1,100")
    parser.add_argument("--cpus", default="1,0", help="the cores to pin everything on, the first one for a single rank; or all")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has mpi4py")
    parser.add_argument("--peer", help="a shared library")
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")
    rates = arguments.rates.split(",")

    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        print(f"{'calls of 8 bytes':<24}{'MPI':>8}{'bare ns':>9}{'floor +':>9}"
              + "".join(f"{rate + ' Hz +':>11}{'over floor':>12}{'min':>6}{'max':>6}" for rate in rates) + (f"{'peer +':>9}" if arguments.peer else ""))
        for flavour in arguments.mpi.split(","):
            floor = compile_all(flavour, folder)
            for name, source, words, ranks in PROGRAMS:
                if name not in arguments.only.split(","):
                    continue
                program = [f"{folder}/{source}.{flavour}", *words]
                if source.endswith(".py"):
                    program = [arguments.python, f"{TOP}/bench/programs/{source}", *words]
                    if not uses(arguments.python, flavour):
                        continue
                pin = []
                if arguments.cpus != "all":
                    pin = ["taskset", "-c", ",".join(arguments.cpus.split(",")[:ranks])]
                before = [*pin, f"mpirun.{flavour}", "-n", str(ranks)]
                if flavour == "openmpi":
                    before += ["--oversubscribe", "--bind-to", "none"]

                def call_ns(wrapper):
                    done = subprocess.run([*before, *wrapper, *program],
                                          capture_output=True, text=True, cwd=folder)
                    if done.returncode != 0:
                        sys.exit(done.stderr)
                    return float(next(line for line in done.stdout.splitlines() if line.startswith("call_ns")).split()[1])

                call_ns([])
                bare, floors, peer = [], [], []
                recorded = {rate: [] for rate in rates}
                for _ in range(arguments.pairs):
                    bare.append(call_ns([]))
                    floors.append(call_ns(["env", f"LD_PRELOAD={floor}"]))
                    for rate in rates:
                        run = os.path.join(folder, "run")
                        recorded[rate].append(call_ns([tool, "-q", "-r", rate, "-o", run]))
                        if not os.path.isdir(run):
                            sys.exit("the run was not recorded: is the collector built?")
                        shutil.rmtree(run)
                    if arguments.peer:
                        peer.append(call_ns(["env", f"LD_PRELOAD={arguments.peer}"]))

                def column(values):
                    over = [r - f for r, f in zip(values, floors)]
                    return (f"{statistics.median(r - b for r, b in zip(values, bare)):>11.0f}"
                            f"{statistics.median(over):>12.0f}{min(over):>6.0f}{max(over):>6.0f}")
                print(f"{f'{name}, {ranks} rank' + 's' * (ranks > 1):<24}{flavour:>8}{statistics.median(bare):>9.0f}"
                      f"{statistics.median(f - b for f, b in zip(floors, bare)):>9.0f}"
                      + "".join(column(recorded[rate]) for rate in rates)
                      + (f"{statistics.median(p - b for p, b in zip(peer, bare)):>9.0f}" if peer else ""), flush=True)


if __name__ == "__main__":
    main()
