# SPDX-License-Identifier: BSD-3-Clause
"""Compares what samples say about garbage collection and waiting for the GIL with what the program itself
knows, on every CPython found.

    states_test.py RECORDER.so [--seconds S] [--rate HZ] [--python EXE ...]

Exit status: 0 all good, 1 a check failed, 77 no interpreter to test with."""
import argparse
import concurrent.futures
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import measured  # noqa: E402
import walk_test
from walk_test import FINALIZING, HAS_PYTHON, HOLDS_GIL, NATIVE_TRUNCATED, PYTHON_FAULT, WAITING_FOR_GIL

STATES = os.path.join(walk_test.HERE, "states.py")
COLLECTING_GARBAGE = 128
# What the functions are called in builds that still have their names: an independent witness.
# Handing the GIL over waits until another thread has it.
TAKE_GIL, GIVE_GIL = ("take_gil",), ("drop_gil",)
COLLECTOR = ("collect", "gc_collect_main", "collect_with_callback", "gc_collect_with_callback",
             "collect_generations", "gc_collect_generations", "invoke_gc_callback")


def named_ranges(python, names):
    """Offsets [begin, end) of functions in the interpreter's shared library; empty when it is stripped."""
    code = "import os, sysconfig as s; print(os.path.join(s.get_config_var('LIBDIR'), s.get_config_var('LDLIBRARY')))"
    library = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    if not os.path.exists(library) or library.endswith(".a") or shutil.which("nm") is None:
        return []
    found = []
    for line in subprocess.run(["nm", "-S", library], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               check=False).stdout.decode().splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tT" and fields[3].split(".")[0] in names:
            found.append((int(fields[0], 16), int(fields[0], 16) + int(fields[1], 16)))
    return found


class Part:
    """One run of one part of states.py, and its samples by the innermost function of states.py."""

    def __init__(self, python, part, options, folder):
        output = os.path.join(folder, part)
        environment = {"LD_PRELOAD": options.recorder, "WALK_OUTPUT": output,
                       "WALK_RATE": str(options.rate * (2 if part.endswith("gc") else 1))}
        done = walk_test.run(python, [STATES, part, str(options.seconds)], environment, 60 + 10 * options.seconds)
        if done.returncode != 0:
            raise RuntimeError("%s: status %d, %s" % (part, done.returncode, done.stderr.decode()[-500:]))
        self.said = json.loads(done.stdout)
        recording = walk_test.Recording(output)
        os.unlink(output)
        self.note = recording.note
        self.samples = []
        for sample in recording.samples:
            flags, status, words = sample[1], sample[2], sample[6]
            if not flags & HAS_PYTHON or flags & FINALIZING:
                continue
            frames = recording.frames(words)
            # The native frames the leaf runs in, as offsets in the interpreter.
            leaf = []
            while frames[len(frames) - len(leaf) - 1][0] == "native":
                leaf.append(frames[len(frames) - len(leaf) - 1][1] - 1 - recording.interpreter[0])
            names = [recording.codes[frame[1]].name.split(".")[-1] for frame in frames if frame[0] == "python"]
            if status & PYTHON_FAULT == 0:
                self.samples.append((flags, status, names, leaf))

    def of(self, function):
        return [sample for sample in self.samples if function in sample[2]]


def share(samples, flag):
    return sum(bool(sample[0] & flag) for sample in samples) / max(1, len(samples))


def disagreements(samples, flag, ranges, also=(), left_out=""):
    """How many samples are in one of the functions without the flag, or have the flag and are neither there nor in
    `also`. A Python function that those call is left out: native frames beyond it are not kept."""
    wrong = 0
    for flags, _, names, leaf in samples:
        if names[-1] == left_out or flags & NATIVE_TRUNCATED:
            continue
        inside, near = (any(begin <= pc < end for pc in leaf for begin, end in where) for where in (ranges, also))
        wrong += inside and not flags & flag or bool(flags & flag) and not (inside or near)
    return wrong


def under_the_rule(attempt):
    """attempt() makes a run and returns (what to print, invariants that it broke, measurements that are outside their
    tolerance). It is called again by the rule of tests/support/measured.py alone. Returns what to print and the failures."""
    outcomes, said, outside = [], [], []
    while measured.verdict(outcomes) is None:
        row, broken, outside_now = attempt()
        said += [*row, *("outside: " + text for text in outside_now)]
        if broken:
            return said, broken
        outside += outside_now
        outcomes.append(not outside_now)
    return said, [] if measured.verdict(outcomes) else outside


def share_tolerance(share_, samples, least=0.02):
    """Three standard deviations of a share. Where threads lose the processor samples come in bursts, one for each
    time that they get it back: they are as good as independent ones, but no better."""
    return max(least, 3 * measured.share_error(share_, samples))


def check_gc(python, options, folder):
    ranges = named_ranges(python, COLLECTOR)

    def attempt(part):
        broken, outside = [], []
        run = Part(python, part, options, folder)
        samples = run.of("timed_" + part)
        truth = run.said["inside"] / (run.said["inside"] + run.said["outside"])
        seen = share(samples, COLLECTING_GARBAGE)
        row = ["%s %.1f / %.1f %%" % (part, 100 * seen, 100 * truth)]
        if len(samples) < 0.2 * options.seconds * options.rate:
            outside.append("%s: only %d samples" % (part, len(samples)))
        if abs(seen - truth) > share_tolerance(truth, len(samples)):
            outside.append("%s: %.1f %% of %d samples collect garbage, by the program's clock %.1f %%" %
                           (part, 100 * seen, len(samples), 100 * truth))
        if ranges:
            wrong = disagreements(samples, COLLECTING_GARBAGE, ranges, left_out="on_collection")
            row.append("%d of %d unlike the stack" % (wrong, len(samples)))
            if wrong > 1 + 0.003 * len(samples):
                broken.append("%s: %d of %d samples contradict the native stack" % (part, wrong, len(samples)))
        if run.note:
            broken.append("%s: note %r" % (part, run.note))
        return row, broken, outside

    def attempt_to_let_go():
        row, outside = [], []
        run = Part(python, "gc_lets_go_of_gil", options, folder)
        for function, least, most in (("slow_finalizer", 0.97, 1), ("bystander", 0, 0.03)):
            samples = [sample for sample in run.of(function) if sample[1] & HOLDS_GIL]
            seen = share(samples, COLLECTING_GARBAGE)
            row.append("%s %.1f %%" % (function, 100 * seen))
            if len(samples) < 0.1 * options.seconds * options.rate:
                outside.append("%s: only %d samples" % (function, len(samples)))
            if not least <= seen <= most:
                outside.append("%s: %.1f %% of %d samples collect garbage" % (function, 100 * seen, len(samples)))
        return row, [], outside

    said, failures = [], []
    for make in (*(functools.partial(attempt, part) for part in ("explicit_gc", "automatic_gc", "no_gc")),
                 attempt_to_let_go):
        row, wrong = under_the_rule(make)
        said += row
        failures += wrong
    return said, failures


def check_gil(python, options, folder, asleep):
    ranges, also = named_ranges(python, TAKE_GIL), named_ranges(python, GIVE_GIL)

    def attempt(part, function):
        broken, outside = [], []
        run = Part(python, part, options, folder)
        samples = [s for s in run.of(function) if not s[0] & NATIVE_TRUNCATED]
        truth = run.said["inside"] / run.said["total"] if "inside" in run.said else 1 - 1 / run.said["threads"]
        waiting = share(samples, WAITING_FOR_GIL)
        row = ["%s %.1f / %.1f %%" % (part, 100 * waiting, 100 * truth)]
        both = sum(bool(flags & WAITING_FOR_GIL) and bool(status & HOLDS_GIL) for flags, status, _, _ in run.samples)
        if both:
            broken.append("%s: %d samples wait for the GIL that they hold" % (part, both))
        if ranges:
            wrong = disagreements(samples, WAITING_FOR_GIL, ranges, also)
            row.append("%d of %d unlike the stack" % (wrong, len(samples)))
            if wrong > 1 + 0.005 * len(samples):
                broken.append("%s: %d of %d samples contradict the native stack" % (part, wrong, len(samples)))
        # A thread that has let go of the GIL, or got it, and waits for a processor waits for no GIL: the clock of the
        # program sees no difference. Waiting threads need a processor to be sampled: samples that are missing may have
        # been either.
        count = waiting * len(samples)
        due = max(len(samples), options.seconds * options.rate * run.said.get("threads", 1))
        if not (count / due < truth + 0.1 and (count + due - len(samples)) / due > 0.3 * truth):
            outside.append("%s: %.1f %% of %d samples wait for the GIL instead of %.1f %%" %
                           (part, 100 * waiting, len(samples), 100 * truth))
        return row, broken, outside

    def attempt_to_sleep():
        nonlocal asleep
        run = asleep.result() if asleep else Part(python, "wait_for_locks", options, folder)
        asleep = None
        outside = []
        main = [i for i, sample in enumerate(run.samples) if "all_asleep" in sample[2]]
        run.samples = run.samples[main[0]:main[-1]] if main else []
        for function in ("lock_waiter", "condition_waiter", "event_waiter", "queue_waiter", "select_waiter", "read_waiter"):
            samples = run.of(function)
            if len(samples) < 0.2 * options.seconds * options.rate:
                outside.append("%s: only %d samples" % (function, len(samples)))
            if share(samples, WAITING_FOR_GIL) > 0.005:
                outside.append("%s: %.2f %% of samples wait for the GIL" %
                               (function, 100 * share(samples, WAITING_FOR_GIL)))
        return [], [], outside

    said, failures = [], []
    for make in (functools.partial(attempt, "fight_for_gil", "gil_fighter"),
                 functools.partial(attempt, "read_beside_a_busy_thread", "zero_reader"), attempt_to_sleep):
        row, wrong = under_the_rule(make)
        said += row
        failures += wrong
    return said, failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recorder")
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--python", nargs="*")
    options = parser.parse_args()
    options.recorder = os.path.abspath(options.recorder)
    found = [item for item in walk_test.interpreters()
             if item[0] >= (3, 8) and (not options.python or item[1] in options.python)]
    if not found:
        print("SKIPPED: no CPython to test with")
        return 77
    failed = False
    print("what samples say / what the program's clock says")
    with tempfile.TemporaryDirectory() as folder:
        for version, python in found:
            failures = []
            with concurrent.futures.ThreadPoolExecutor(1) as beside:
                asleep = beside.submit(Part, python, "wait_for_locks", options, folder)
                for check in (check_gc, lambda *how: check_gil(*how, asleep)):
                    row, wrong = check(python, options, folder)
                    print("%-8s %s" % (".".join(map(str, version)), ", ".join(row)), flush=True)
                    failures += wrong
            for failure in failures:
                print("FAILED %s (%s): %s" % (".".join(map(str, version)), python, failure), flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
