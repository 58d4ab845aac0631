# SPDX-License-Identifier: BSD-3-Clause
"""Kills the collectors of several runs with SIGKILL, each at a random time, and one while it writes a shard, while their
programs go on. The programs notice nothing. At every moment the shard on disk is valid and at most 5 s old, and in the
end it has everything up to then. merge and report say which node is incomplete, and remove the files that the collector left.

How old a shard is and how much is missing are measured, by the rule of support/measured.py: if one is outside, all of it is done
twice more.

    killed_collector.py [--seed N] [--runs N] [--seconds S]

Exit status: 0 all good, 1 something failed, 77 nothing to test with."""

import argparse
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import h5py
except ImportError:
    print("h5py is not here")
    sys.exit(77)

import measured
import recording

# Prints what it computed, and ends with a status of its own, when it has run for a while and its collector was killed.
PROGRAM = '''
import os, sys, time

def work(value):
    for _ in range(2000):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
    return value

end = time.monotonic() + float(sys.argv[1])
rounds, results = 0, set()
while time.monotonic() < end or rounds < 30 or (not os.path.exists(sys.argv[2]) and time.monotonic() < end + 60):
    results.add(work(1))
    rounds += 1
print(sorted(results), rounds > 20, flush=True)
print("to stderr", file=sys.stderr, flush=True)
sys.exit(7)
'''

MOST_AGE_S = 5.0
# A machine that has other things to do, and a report that takes a moment to be read. An interval that grows with the
# length of the run or of the write, as this one's did, is far beyond.
SLACK_S = 1.5


def expected():
    value = 1
    for _ in range(2000):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
    return value


def recorded_until_ns(shard):
    """When the last snapshot of its only rank was taken, and how much of the rank's time it covers."""
    with h5py.File(shard, "r") as file:
        ranks = file["ranks"]
        if len(ranks["rank"]) != 1:
            return None, None
        told = sum(int(ranks[f"main_thread_{category}_ns"][0])
                   for category in ("python", "native", "system", "mpi", "io", "idle", "runnable"))
        elapsed = int(ranks["elapsed_ns"][0])
        return int(ranks["start_utc_ns"][0]) + elapsed, told / elapsed


def collector_of(run):
    return next((pid for pid, words in recording.processes() if recording.is_collector(words, run)), None)


class Recorded:
    def __init__(self, folder, number, seconds, kill_after_s, while_writing):
        self.while_writing = while_writing
        self.node = f"victim{number}"
        self.run = os.path.join(folder, f"run{number}")
        self.shard = os.path.join(self.run, f"node-{self.node}.h5")
        self.gate = os.path.join(folder, f"killed{number}")
        self.kill_after_s, self.killed_ns, self.has_rank, self.oldest_s = kill_after_s, None, False, 0.0
        self.problems, self.outside = [], []
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [recording.CLUSTERPROF, "-o", self.run, recording.PYTHON, os.path.join(folder, "program.py"), str(seconds), self.gate],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, CLUSTERPROF_NODE=self.node))

    def expect(self, what, message):
        if not what:
            self.problems.append(message)

    def written_ns(self):
        """Changes as soon as the next checkpoint begins to be written, which is flushed to disk after that."""
        return os.stat(self.shard).st_mtime_ns if os.path.exists(self.shard) else 0

    def watch(self):
        if self.killed_ns is not None:
            return
        # Not before there is a shard with the rank: on a busy machine a program needs seconds to start.
        if time.monotonic() - self.begun >= self.kill_after_s and (self.has_rank or self.process.poll() is not None):
            if self.while_writing:  # soon: the next one comes within 5 s
                before, limit = self.written_ns(), time.monotonic() + MOST_AGE_S
                while self.written_ns() == before and time.monotonic() < limit:
                    time.sleep(0.0005)
            collector = collector_of(self.run)
            self.expect(collector is not None, "no collector to kill")
            self.killed_ns = time.time_ns()
            if collector is not None:
                os.kill(collector, signal.SIGKILL)
            open(self.gate, "w").close()
            return
        if not os.path.exists(self.shard):
            return
        asked_ns = time.time_ns()  # a file that is replaced after this was the newest until then
        try:
            until_ns, _ = recorded_until_ns(self.shard)
        except OSError as error:
            self.problems.append(f"a shard that cannot be read at {time.monotonic() - self.begun:.1f} s: {error}")
            return
        if until_ns is not None:
            self.has_rank = True
            self.oldest_s = max(self.oldest_s, (asked_ns - until_ns) / 1e9)

    def finish(self):
        out, err = self.process.communicate(timeout=60)
        self.expect(self.process.returncode == 7, f"exit status {self.process.returncode}: {err}")
        self.expect(out == f"[{expected()}] True\n", f"output {out!r}")
        self.expect("to stderr\n" in err, f"error output {err!r}")
        self.expect(self.node in err and "ended early" in err, f"nothing was said of the collector: {err!r}")
        if self.killed_ns is None or not os.path.exists(self.shard):
            self.problems.append("no shard")
            return
        valid = subprocess.run([recording.CLUSTERPROF, "validate", self.shard], capture_output=True, text=True)
        self.expect(valid.returncode == 0, f"validate: {valid.stdout}{valid.stderr}")
        until_ns, told = recorded_until_ns(self.shard)
        missing_s = (self.killed_ns - until_ns) / 1e9
        print(f"{self.node}: killed after {self.kill_after_s:.1f} s, {missing_s:.2f} s missing; "
              f"oldest shard seen {self.oldest_s:.2f} s, {100 * told:.0f} % of its time told")
        for what, seconds in (("missing", missing_s), ("oldest", self.oldest_s)):
            if seconds > MOST_AGE_S + SLACK_S:
                self.outside.append(f"{what}: {seconds:.2f} s")
        if told <= 0.7:
            self.outside.append(f"samples tell of {100 * told:.0f} % of the time")

        merged = subprocess.run([recording.CLUSTERPROF, "merge", self.run], capture_output=True, text=True, timeout=60)
        self.expect(merged.returncode == 0, f"merge: {merged.stderr}")
        text = subprocess.run([recording.CLUSTERPROF, "report", self.run], capture_output=True, text=True, timeout=60)
        self.expect(text.returncode == 0, f"report: {text.stderr}")
        self.expect("INCOMPLETE" in text.stdout, "the report does not say that it is incomplete")
        # Its lines are broken to fit the terminal.
        self.expect(f"node-{self.node}.h5 is incomplete" in " ".join(text.stdout.split()),
                    f"the report does not name the node:\n{text.stdout}")
        report = subprocess.run([recording.CLUSTERPROF, "report", "--json", self.run], capture_output=True, timeout=60)
        told = json.loads(report.stdout)
        self.expect(told["run"]["complete"] is False, "JSON: complete")
        end = told["ranks"][0]["exit"]
        self.expect(end["lost"] and end["last_call_path"], f"JSON: {end}")
        self.leaves_nothing()

    def leaves_nothing(self):
        """The first report a minute later, when nobody can be writing any more, removes what is left."""
        left = [name for name in os.listdir(self.run) if name.startswith(".") and name != ".run"]
        if self.while_writing:
            print(f"{self.node}: left {left}")
        for path in [*glob.glob(os.path.join(self.run, "*")), *glob.glob(os.path.join(self.run, ".*"))]:
            os.utime(path, (time.time() - 100,) * 2, follow_symlinks=False)
        subprocess.run([recording.CLUSTERPROF, "report", self.run], capture_output=True, timeout=60)
        left = [name for name in os.listdir(self.run) if name.startswith(".") and name != ".run"]
        self.expect(left == [], f"left after a report: {left}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=14, help="that the programs run")
    options = parser.parse_args()
    if not os.path.exists(recording.PYTHON):
        return 77
    print(f"seed {options.seed}")
    chance = random.Random(options.seed)
    outcomes = []
    while measured.verdict(outcomes) is None:
        problems, outside = run_once(options, chance)
        for said in [*problems, *outside]:
            print(said, flush=True)
        if problems:
            return 1
        outcomes.append(not outside)
    return 0 if measured.verdict(outcomes) else 1


def run_once(options, chance):
    """(what is wrong, what is outside of its tolerance)"""
    folder = tempfile.mkdtemp(prefix="clusterprof-test-")
    try:
        with open(os.path.join(folder, "program.py"), "w") as file:
            file.write(PROGRAM)
        # Not before there can be a shard, and one late, when an interval that grows has grown. The first waits for its next shard, and
        # nobody else is watched meanwhile.
        last_s = options.seconds - 3
        times = [chance.uniform(3, max(3, last_s - MOST_AGE_S)), *(chance.uniform(3, last_s) for _ in range(options.runs - 2)), last_s]
        runs = [Recorded(folder, number, options.seconds, when, number == 0) for number, when in enumerate(times)]
        while any(run.killed_ns is None for run in runs):
            time.sleep(0.2)
            for run in runs:
                run.watch()
        for run in runs:
            run.finish()
        return ([f"{run.node}: {problem}" for run in runs for problem in run.problems],
                [f"{run.node}, outside: {problem}" for run in runs for problem in run.outside])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
