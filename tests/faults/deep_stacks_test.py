# SPDX-License-Identifier: BSD-3-Clause
"""Samples stacks that take longer to walk than a sampling period (programs/deep_stacks). The program has to make progress
with about half of its processor time, and print and return the same as alone. Ticks that were left out are counted, and
the time is charged to where the program was.

    deep_stacks_test.py [--long]

--long: more ways to sample, deeper stacks, and every CPython. Exit status: 0 all good, 1 a check failed."""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import measured
import recording

PROGRAM = recording.program("plain", "deep_stacks")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "deep_stacks.py")
LIMIT_S = 100
# Of its CPU time alone. Half of the time in the deep is the samples', and each costs a signal; a machine that gives other
# machines its processors in between counts that, too. Where samples take all there is, it does not end at all.
MOST_TIMES, MOST_MORE_S = 6, 0.5
SAMPLES_LOST = ("ring_full", "reentrant", "throttled")
# A sample's own cost is charged to the next one, and there are few samples: about a hundred, which is three times 0.05. Outside of
# that, the rule of support/measured.py says what follows.
TOLERANCE = 0.15


class Case:
    def __init__(self, name, words, options, throttled, rate, phases=False):
        self.name, self.words, self.options, self.throttled, self.rate = name, words, options, throttled, rate
        self.phases = phases  # tells how long it was in the deep and on the flat


def cases(options):
    deep = [PROGRAM, "8000", "300", "500"]
    found = [Case("10 kHz", deep, ["-r", "10000"], True, 10000, True),
             Case("CPU clock", deep, ["-r", "10000", "--clock", "cpu"], True, 10000),
             Case("1 kHz", deep, ["-r", "1000"], True, 1000)]
    pythons = [item for item in recording.pythons() if os.path.exists(item[1])]
    if options.long:
        found += [Case("event", deep, ["--sample-on", "task-clock:100000"], True, 10000),
                  Case("event of the program", deep, ["-r", "10000", "--sample-on", "page-faults:1"], True, 10000),
                  Case("thousands of frames", [PROGRAM, "8000", "3000", "9000"], ["-r", "10000"], True, 10000),
                  Case("100 Hz", deep, ["-r", "100"], False, 100)]
    for version, python in pythons if options.long else pythons[:1]:
        found.append(Case("Python " + version, [python, SCRIPT, "150", "2000", "4000"], ["-r", "10000"], False, 10000))
    return found


def run(words, folder):
    """(status, stdout, stderr), CPU seconds of all that was started; status None: it did not end, and was killed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        job = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        limit = time.monotonic() + LIMIT_S
        while True:
            pid, status, usage = os.wait4(job.pid, os.WNOHANG)
            if pid != 0:
                break
            if time.monotonic() > limit:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                return (None, b"", b""), 0
            time.sleep(0.01)
        job.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return (job.returncode, out.read(), err.read()), usage.ru_utime + usage.ru_stime


def share_in_the_deep(report):
    total_s = {row["name"]: row["total_s"] for row in report["functions"]}
    deep_s, flat_s = total_s.get("down", 0), total_s.get("on_the_flat", 0)
    return deep_s / (deep_s + flat_s) if deep_s + flat_s else None


def check(case, folder):
    """What is wrong; and whether that is the share of time alone, which a few samples may miss."""
    output = os.path.join(folder, "run")
    told = os.path.join(folder, "phases")
    bare, bare_cpu_s = run(case.words, folder)
    recorded, _ = run([recording.CLUSTERPROF, "-q", *case.options, "-o", output, *case.words,
                       *([told] if case.phases else [])], folder)
    if bare[0] != 0 or b" twice" not in bare[1]:
        return ["the program does not run here at all: %r" % (bare,)], False
    if recorded[0] is None:
        return ["does not end within %d s" % LIMIT_S], False
    problems = ["%s: %r instead of %r" % (what, ours, its)
                for what, ours, its in zip(("status", "stdout", "stderr"), recorded, bare) if ours != its]
    done = subprocess.run([recording.CLUSTERPROF, "report", "--json", output], capture_output=True, timeout=LIMIT_S)
    if done.returncode != 0:
        return problems + ["report: %r" % done.stderr[-500:]], False
    report = json.loads(done.stdout)
    rank, dropped = report["ranks"][0], report["run"]["dropped"]
    ticks = report["run"]["samples"] + sum(dropped.get(reason, 0) for reason in SAMPLES_LOST)
    print("%-24s %6.2f s of CPU time, %6.2f s alone; %6d samples, dropped: %s" %
          (case.name, rank["cpu_s"], bare_cpu_s, report["run"]["samples"], dropped or "nothing"), flush=True)
    if not report["run"]["complete"]:
        problems.append("not complete: %s" % rank["exit"])
    if rank["cpu_s"] > MOST_TIMES * bare_cpu_s + MOST_MORE_S:
        problems.append("%.2f s of CPU time, %.2f s alone" % (rank["cpu_s"], bare_cpu_s))
    if set(dropped) - {*SAMPLES_LOST, "fault_in_walk"} or (case.throttled and "throttled" not in dropped):
        problems.append("dropped: %s" % dropped)
    if report["run"]["samples"] < 10 or ticks > 1.1 * rank["threads"] * (case.rate * rank["elapsed_s"] + 10):
        problems.append("%d ticks in %.2f s" % (ticks, rank["elapsed_s"]))
    if case.phases and not problems:
        with open(told) as file:
            deep_s, flat_s = map(float, file.read().split())
        sampled, actual = share_in_the_deep(report), deep_s / (deep_s + flat_s)
        print("%-24s %.3f of the time in the deep, %.3f by samples" % ("", actual, sampled or 0), flush=True)
        if sampled is None or abs(sampled - actual) > TOLERANCE:
            return ["%s of the time in the deep instead of %.3f" % (sampled, actual)], True
    return problems, False


def check_ended(folder):
    """A signal that ends the program has to reach it while it is sampled like that."""
    output = os.path.join(folder, "run")
    words = [PROGRAM, "1000000000", "300", "500"]
    job = subprocess.Popen([recording.CLUSTERPROF, "-q", "-r", "10000", "-o", output, *words], cwd=folder,
                           stdin=subprocess.DEVNULL, start_new_session=True)
    shard, limit = None, time.monotonic() + LIMIT_S
    while shard is None and time.monotonic() < limit:  # by then the program has been sampled
        time.sleep(0.1)
        shard = next((name for name in os.listdir(output) if name.endswith(".h5")), None) if os.path.isdir(output) else None
    program = [pid for pid, arguments in recording.processes() if arguments[:-1] == words and os.getpgid(pid) == job.pid]
    begin = time.monotonic()
    for pid in program:
        os.kill(pid, signal.SIGTERM)
    try:
        status = job.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        return ["SIGTERM does not end it"]
    print("%-24s %.2f s after SIGTERM" % ("ended", time.monotonic() - begin), flush=True)
    if len(program) != 1 or status != -signal.SIGTERM:
        return ["programs: %s, status %s" % (program, status)]
    done = subprocess.run([recording.CLUSTERPROF, "report", "--json", output], capture_output=True, timeout=LIMIT_S)
    if done.returncode != 0:
        return ["report: %r" % done.stderr[-500:]]
    how = json.loads(done.stdout)["ranks"][0]["exit"]
    return [] if how["lost"] and how["signal"] == signal.SIGTERM else ["exit: %s" % how]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    failed = False
    for case in cases(options):
        outcomes, is_measured = [], True
        while is_measured and measured.verdict(outcomes) is None:
            folder = tempfile.mkdtemp(prefix="clusterprof-test-")
            problems, by_chance = check(case, folder)
            shutil.rmtree(folder, ignore_errors=True)
            outcomes.append(not problems)
            is_measured = by_chance or not problems
            for problem in problems:
                print("%s %s, run %d: %s" % ("outside" if by_chance else "FAILED", case.name, len(outcomes), problem), flush=True)
        failed = failed or not (is_measured and measured.verdict(outcomes))
    with tempfile.TemporaryDirectory(prefix="clusterprof-test-") as folder:
        for problem in check_ended(folder):
            print("FAILED to be ended: %s" % problem, flush=True)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
