#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How runs of Open MPI end when a rank ends early: without clusterprof, and recorded.

    one       rank 0 calls MPI_Abort(MPI_COMM_WORLD, 7) while the others wait in MPI_Barrier
    all       all ranks call it at once
    killed    all ranks are killed at once on their way into MPI_Finalize

Runs without clusterprof and recorded ones alternate, and take turns in being first. Each pair uses the next number of ranks. How a
run ends is "status N" or "signal N" of mpirun, "hung" (mpirun took longer than --patience), with "rank left" if a rank was still
there two seconds after mpirun had ended, and "other left" if that was true of a collector or a merge after --patience. Printed are how often
each was seen; and how often a run ended otherwise than most runs without clusterprof do, with Wilson's interval of 95 %, and the
two-sided probability of Fisher's exact test that the two ways to run differ so much by chance. SIGINT or SIGTERM ends the
benchmark early, with what it has until then. It ends only processes of its own folder.

    bench/aborts.py [--build DIR] [--pairs N] [--how one|all|killed] [--ranks N,...] [--patience SECONDS]
"""

import argparse
import collections
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from commands import fail

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BARE, RECORDED = "without clusterprof", "recorded"
LEFT_S = 2
OWN_PROGRAMS = ("collector", "analyze")
PROGRESS_PAIRS = 25

PROGRAM = r'''
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  const char* how = argv[1];
  if (strcmp(how, "killed") == 0) raise(SIGKILL);
  if (strcmp(how, "all") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  if (rank == 0) {
    usleep(20000);
    MPI_Abort(MPI_COMM_WORLD, 7);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
'''


def wilson(seen, of):
    """Bounds of the share that `seen` of `of` independent runs stand for, with 95 %."""
    if of == 0:
        return 0.0, 1.0
    z2 = 1.959964 ** 2
    share, divisor = seen / of, 1 + z2 / of
    middle = (share + z2 / (2 * of)) / divisor
    half = math.sqrt(z2 * (share * (1 - share) / of + z2 / (4 * of * of))) / divisor
    return max(0.0, middle - half), min(1.0, middle + half)


def fisher(first, of_first, second, of_second):
    """Probability, with these sums, of a table that is no more probable than this one."""
    seen, runs = first + second, of_first + of_second
    if seen in (0, runs):
        return 1.0
    ways = [math.comb(of_first, k) * math.comb(of_second, seen - k)
            for k in range(max(0, seen - of_second), min(seen, of_first) + 1)]
    this = math.comb(of_first, first) * math.comb(of_second, second)
    return sum(way for way in ways if way <= this) / sum(ways)  # whole numbers: no error of rounding


def is_in(folder, path):
    return path == folder or path.startswith(folder + "/")


def processes_in(folder):
    """Processes of runs in `folder`, each with its executable: what was executed from it or works there, and our own."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            program, place = (os.readlink(f"/proc/{name}/{link}").removesuffix(" (deleted)") for link in ("exe", "cwd"))
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")
        except OSError:
            continue  # ended meanwhile, or another user's
        is_ours = os.path.basename(program) in OWN_PROGRAMS and any(is_in(folder, word) for word in words)
        if is_ours or is_in(folder, program) or is_in(folder, place):
            found[int(name)] = program
    return found


def await_end(folder, which, limit_s):
    """Whether processes of `folder` whose executable satisfies `which` are there after so long."""
    until = time.monotonic() + limit_s
    while any(which(program) for program in processes_in(folder).values()):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def ended(command, folder, patience_s):
    """How a run ended, in words. Nothing of it is left afterwards."""
    folder = os.path.realpath(folder)
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        try:
            status = process.wait(patience_s)
            how = f"status {status}" if status >= 0 else f"signal {-status}"
        except subprocess.TimeoutExpired:
            return "hung"
        if not await_end(folder, lambda program: is_in(folder, program), LEFT_S):
            how += ", rank left"
        elif not await_end(folder, lambda program: True, patience_s):
            how += ", other left"
        return how
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        while left := processes_in(folder):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)


def printed(counts):
    """The tables of what was seen."""
    lines = ["| runs | ended with | times |", "|---|---|---|"]
    lines += [f"| {way} | {how} | {times} |" for way, of_way in counts.items() for how, times in of_way.most_common()]
    runs = {way: sum(of_way.values()) for way, of_way in counts.items()}
    if not all(runs.values()):
        return lines
    usual = counts[BARE].most_common(1)[0][0]
    others = {way: runs[way] - counts[way][usual] for way in counts}
    lines += ["", f"| runs | not \"{usual}\" | share, 95 % |", "|---|---|---|"]
    for way, times in others.items():
        low, high = wilson(times, runs[way])
        lines.append(f"| {way} | {times} of {runs[way]} | {100 * times / runs[way]:.1f} %: {100 * low:.1f} to {100 * high:.1f} % |")
    chance = fisher(others[BARE], runs[BARE], others[RECORDED], runs[RECORDED])
    return lines + ["", f"Fisher's exact test, two-sided: p = {chance:.3g}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{TOP}/build/release")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--how", choices=["one", "all", "killed"], default="one")
    parser.add_argument("--ranks", default="2,3,4", help="numbers of ranks, in turn")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a run hangs")
    arguments = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    tool = os.path.join(os.path.abspath(arguments.build), "bin", "clusterprof")
    if not os.access(tool, os.X_OK):
        fail(f"there is no {tool}")
    ranks = [int(word) for word in arguments.ranks.split(",")]
    counts = {BARE: collections.Counter(), RECORDED: collections.Counter()}
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="clusterprof-bench-") as folder:
        source, program = os.path.join(folder, "aborts.c"), os.path.join(folder, "aborts")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        subprocess.run(["mpicc.openmpi", "-O1", "-o", program, source], check=True)
        out = os.path.join(folder, "out")
        commands = {BARE: [program, arguments.how], RECORDED: [tool, "-q", "-o", out, program, arguments.how]}
        try:
            for pair in range(arguments.pairs):
                mpirun = ["mpirun.openmpi", "--oversubscribe", "-n", str(ranks[pair % len(ranks)])]
                for way in (BARE, RECORDED) if pair % 2 == 0 else (RECORDED, BARE):
                    how = ended(mpirun + commands[way], folder, arguments.patience)
                    is_recorded = os.path.isdir(out)
                    if is_recorded != (way == RECORDED) and how != "hung":
                        fail(f"{out} is {'there' if is_recorded else 'missing'}: is the collector built?")
                    counts[way][how] += 1
                    shutil.rmtree(out, ignore_errors=not is_recorded)
                if (pair + 1) % PROGRESS_PAIRS == 0:
                    print(f"{pair + 1} of {arguments.pairs} pairs, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print(f"interrupted after {sum(counts[BARE].values())} of {arguments.pairs} pairs", file=sys.stderr)
    print(f"{arguments.how}, {arguments.ranks} ranks; load at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    print("\n".join(printed(counts)))


if __name__ == "__main__":
    main()
