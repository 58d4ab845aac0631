# SPDX-License-Identifier: BSD-3-Clause
"""Records many ranks with many threads each that compute all the time (programs/busy_ranks), far more than there are
processors. They have to print and return the same as alone. All ranks have to be in the run, and it has to be complete.
Samples, and drops that were counted, have to be as many as the timers asked for. The collector's memory must not grow with
time, and nothing may be left over.

    load.py [--ranks N] [--threads M] [--rate HZ] [--seconds S] [--python] [--pairs P]

The long form: --ranks 64 --threads 16 --rate 1000 --seconds 600. --pairs: short runs without and with clusterprof in turn,
to measure the cost. Prints the figures; exit status: 0 all good, 1 a check failed, 77 nothing to test with."""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import measured
import recording

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = recording.program("openmpi", "busy_ranks")
SCRIPT = os.path.join(HERE, "programs", "busy_ranks.py")

SAMPLES_LOST = ("ring_full", "reentrant", "throttled")
MAY_DROP = {*SAMPLES_LOST, "fault_in_walk"}
# Every thread that runs has a timer of RATE on the wall clock. One that does not run has at most one signal waiting, so
# there are at least as many as its processor time asks for; but a busy machine lets timers expire late, and several
# that were due are one then. There are at most as many as threads and time ask for.
LEAST_PART = 0.4
TICKS_AT_ENDS = 2  # of each thread: a period begins before it, and the last record is none of a timer
# Of the collector, without what it shares with the ranks: of the rings, threads that get little time reach new pages for
# long. The program soon has shown all the call paths that it has, but for the rare ones.
MOST_KIB, MOST_KIB_OF_THREAD = 160 * 1024, 256
GROWTH, LONG_S = 0.1, 300  # in the second half; flat_memory.py looks closer
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def command(options, seconds, *more):
    words = [recording.PYTHON, SCRIPT] if options.python else [PROGRAM]
    return [*words, str(options.threads), str(seconds), *more]


def launched(options, *words):
    return [*recording.launcher("openmpi", options.ranks), *words]


class Collector:
    """What can be observed of the collector while it runs."""

    def __init__(self, run):
        self.run, self.pid, self.cpu_s, self.sockets, self.kib = run, None, 0.0, set(), []

    def look(self):
        if self.pid is None:
            self.pid = next((pid for pid, words in recording.processes() if recording.is_collector(words, self.run)), None)
        if self.pid is None:
            return
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{self.pid}/status") as file:
                self.kib.append(next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")))
            self.cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            if len(self.kib) < 5:
                self.sockets |= self.names_of_sockets()
        except (OSError, StopIteration):
            pass  # it has ended

    def names_of_sockets(self):
        inodes = set()
        for name in glob.glob(f"/proc/{self.pid}/fd/*"):
            try:
                inodes.add(os.readlink(name))
            except OSError:
                continue
        with open("/proc/net/unix") as file:
            rows = [line.split() for line in file]
        return {row[7] for row in rows if len(row) > 7 and row[7].startswith("@") and f"socket:[{row[6]}]" in inodes}


def left_over(collector):
    """Processes that name the run directory, sockets that the collector had, temporary names in the run directory."""
    found = [name for name in os.listdir(collector.run) if ".tmp" in name or name.endswith(".claim")]
    with open("/proc/net/unix") as file:
        found += [line.split()[7] for line in file if len(line.split()) > 7 and line.split()[7] in collector.sockets]
    return found + [" ".join(words)[:200] for pid, words in recording.processes()
                    if pid != os.getpid() and any(collector.run in word for word in words)]


def record(options, run, folder):
    """(what the job returned and said, the seconds it took, what was seen of the collector)."""
    words = launched(options, recording.CLUSTERPROF, "-q", "-r", str(options.rate), "-o", run,
                     *command(options, options.seconds))
    collector, begin = Collector(run), time.monotonic()
    limit = begin + 300 + 4 * options.seconds
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        job = subprocess.Popen(words, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        while job.poll() is None:
            time.sleep(max(0.2, options.seconds / 300))
            collector.look()
            if time.monotonic() > limit:
                job.kill()
                job.wait()
        out.seek(0), err.seek(0)
        return (job.returncode, out.read(), err.read()), time.monotonic() - begin, collector


def check_report(options, report):
    """What is wrong with it; and a line of figures."""
    run, ranks = report["run"], report["ranks"]
    problems = []
    if not run["complete"] or run["missing_ranks"] or sorted(rank["rank"] for rank in ranks) != list(range(options.ranks)):
        problems.append("complete: %s, missing: %s, ranks: %d" % (run["complete"], run["missing_ranks"], len(ranks)))
    for rank in ranks:
        if rank["exit"]["status"] != 0 or rank["exit"]["lost"] or rank["samples"] == 0 or \
                rank["threads"] < options.threads:
            problems.append("rank %d: %s, %d samples, %d threads" %
                            (rank["rank"], rank["exit"], rank["samples"], rank["threads"]))
    if set(run["dropped"]) - MAY_DROP:
        problems.append("dropped: %s" % run["dropped"])
    cpu_s = sum(rank["cpu_s"] for rank in ranks)
    ticks = run["samples"] + sum(run["dropped"].get(reason, 0) for reason in SAMPLES_LOST)
    least = LEAST_PART * run["rate_hz"] * cpu_s
    most = sum(rank["threads"] * (run["rate_hz"] * rank["elapsed_s"] + TICKS_AT_ENDS) for rank in ranks)
    if run["rate_hz"] != options.rate or not least <= ticks <= most:
        problems.append("%d ticks at %d Hz, expected %d to %d" % (ticks, run["rate_hz"], least, most))
    return problems, ("%d samples, dropped: %s; %.1f s, %.1f s of CPU time in the ranks, which ask for %d ticks: %d came" %
                      (run["samples"], run["dropped"] or "nothing", run["elapsed_s"], cpu_s, run["rate_hz"] * cpu_s, ticks))


# What Open MPI now and then says of a job on a machine that is busy, also without clusterprof (tests/mpi_defects). How
# often it makes that mistake is chance, as an error of a measurement is: after such a run the rule of
# support/measured.py says what follows.
MISTAKE = b"exiting improperly"


def check(options, folder):
    """What is wrong, and whether it is that mistake."""
    run = os.path.join(folder, "run")
    recorded, took_s, collector = record(options, run, folder)
    alone = (0, b"%d ranks of %d threads: 0 steps went wrong\n" % (options.ranks, options.threads), b"")
    problems = ["%s: %r instead of %r" % (what, ours if what == "status" else ours[-3000:], its)
                for what, ours, its in zip(("status", "stdout", "stderr"), recorded, alone) if ours != its]
    mistaken = MISTAKE in recorded[2]
    if not os.path.isdir(run):
        return problems + ["no run directory"], mistaken
    kib = collector.kib
    print("%d ranks of %d threads at %d Hz: %.1f s; collector: %d KiB at most, %.1f s of CPU time" %
          (options.ranks, options.threads, options.rate, took_s, max(kib, default=0), collector.cpu_s), flush=True)
    if len(kib) < 4:
        problems.append("only %d looks at the collector" % len(kib))
    elif max(kib) > MOST_KIB + options.ranks * options.threads * MOST_KIB_OF_THREAD:
        problems.append("the collector had %d KiB" % max(kib))
    if options.seconds >= LONG_S and len(kib) >= 12:
        # Without what writing the last shard takes.
        computing = kib[:int(len(kib) * options.seconds / took_s) - 1]
        early, late = max(computing[:len(computing) // 2]), max(computing[-len(computing) // 4:])
        print("collector: %d KiB in the first half, %d KiB at the end" % (early, late))
        if late > early * (1 + GROWTH):
            problems.append("the collector grew")
    shards = glob.glob(os.path.join(run, "node-*.h5"))
    for words in (["validate", *shards], ["report", run]):
        done = subprocess.run([recording.CLUSTERPROF, *words], capture_output=True, timeout=300)
        if done.returncode != 0:
            problems.append("%s: %r %r" % (words[0], done.stdout[-500:], done.stderr[-500:]))
    if len(shards) != 1:
        problems.append("shards: %s" % shards)
    done = subprocess.run([recording.CLUSTERPROF, "report", "--json", run], capture_output=True, timeout=300)
    if done.returncode != 0:
        return problems + ["report --json: %r" % done.stderr[-500:]], mistaken
    wrong, figures = check_report(options, json.loads(done.stdout))
    print(figures, flush=True)
    limit = time.monotonic() + 60
    while (left := left_over(collector)) and time.monotonic() < limit:
        time.sleep(0.1)
    if not collector.sockets or left:
        problems.append("sockets: %s, left over: %s" % (collector.sockets, left))
    return problems + wrong, mistaken


def compare(options, folder):
    """The steps of bare runs divided by those of recorded runs; the runs alternate."""
    ratios = []
    for number in range(options.pairs):
        steps = []
        for words in ([], [recording.CLUSTERPROF, "-q", "-r", str(options.rate), "-o", os.path.join(folder, "pair-%d" % number)]):
            told = os.path.join(folder, "steps")
            subprocess.run(launched(options, *words, *command(options, 5, told)), cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            with open(told) as file:
                steps.append(int(file.read()))
        ratios.append(steps[0] / steps[1])
    print("slower by: %s; median %.3f" % (" ".join("%.3f" % ratio for ratio in ratios), statistics.median(ratios)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--python", action="store_true", help="threads of Python instead of C")
    parser.add_argument("--pairs", type=int, default=0)
    options = parser.parse_args()
    if not os.path.exists(PROGRAM) or shutil.which("mpirun.openmpi") is None:
        print("SKIPPED: no Open MPI")
        return 77
    if options.python and subprocess.run([recording.PYTHON, "-c", "import mpi4py"], capture_output=True).returncode != 0:
        print("SKIPPED: no mpi4py")
        return 77
    folder = tempfile.mkdtemp(prefix="clusterprof-test-")
    try:
        outcomes = []
        while measured.verdict(outcomes) is None:
            shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
            problems, mistaken = check(options, folder)
            outcomes.append(not mistaken)
            for problem in problems:
                print("%s, run %d: %s" % ("Open MPI's mistake" if mistaken else "FAILED", len(outcomes), problem), flush=True)
            if problems and not mistaken:
                return 1
        if options.pairs:
            compare(options, folder)
        return 0 if measured.verdict(outcomes) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
