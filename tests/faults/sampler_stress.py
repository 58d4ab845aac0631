# SPDX-License-Identifier: BSD-3-Clause
"""Records sampler_stress_program.py at 10 kHz on every CPython here. The program has to print and return the same as
alone. Every call path of the profile has to be one that the program can have. Samples, and drops that were counted, have
to be as many as its timers asked for. Prints one line of figures per CPython.

    sampler_stress.py [--seconds S] [--rate HZ] [--python EXE ...]

Exit status: 0 all good, 1 a check failed, 77 nothing to test with."""
import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import recording
import truth
from truth import call_paths

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "sampler_stress_program.py")
SMALL_LIBRARY = "int small_sum(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i; return s; }"

# The functions that threads begin with, and the one that the interpreter calls by itself.
STARTS = {"<module>", "short_thread", "fork_thread", "toggle", "__del__"}
MADE = re.compile("<made ([0-9]+)>")

# What samples are lost to: the collector did not come in time, the agent was at work itself, or the program had to be
# left time; and memory that went away in the middle of a walk, of which the rest of the sample is there.
SAMPLES_LOST = ("ring_full", "reentrant", "throttled")
MAY_DROP = {*SAMPLES_LOST, "fault_in_walk"}
# At once: main, the one beside it, 16 short ones, and of two forks the thread, the child and its only thread. Each has one
# timer at a time.
MOST_TIMERS = 24
LEAST_PART = 0.1  # of what the CPU time asks for: timers of a loaded machine, and threads too young to have had a tick


def impossible(paths):
    """{why: samples} of the call paths that the program cannot have; and how many samples were looked at."""
    rules = truth.CallRules(PROGRAM)
    faults, _, samples = rules.judge(paths)
    for path in paths:
        python = [frame for frame in path.frames if frame.kind == call_paths.PYTHON]
        fault = None
        first = next((frame.name for frame in python if frame.file == rules.program), "<module>")
        if first not in STARTS:
            fault = "%s is nobody's callee" % first
        for caller, frame in zip([None, *python], python):
            made = MADE.fullmatch(frame.file)
            if made and frame.name not in ("<module>", "made_" + made[1]):
                fault = "%s of %s" % (frame.name, frame.file)
            elif made and (caller is None or (caller.file, caller.name) != (rules.program, "made_code")):
                fault = "%s called by %s" % (frame.name, caller)
        if fault is not None:
            faults[fault] = faults.get(fault, 0) + path.samples
    return faults, samples


def check(version, python, options, folder, library):
    failures = []
    seconds = float(options.seconds or truth.seconds(version, 3, 2))
    environment = dict(os.environ, MALLOC_PERTURB_="165", PYTHONHASHSEED="0")
    command = [python, "-W", "ignore", PROGRAM]
    limit = 120 + 6 * seconds

    def run(before, seconds):
        return subprocess.run([*before, *command, str(seconds), *library], env=environment, cwd=folder,
                              capture_output=True, timeout=limit)

    def processor_s():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    bare = run([], 0.5)  # prints the same, however long it runs
    output = os.path.join(folder, "run-" + version)
    used_before_s = processor_s()
    try:
        recorded = run([recording.CLUSTERPROF, "-q", "-r", str(options.rate), "-o", output], seconds)
    except subprocess.TimeoutExpired:
        return ["does not end within %d s" % limit]
    used_s = processor_s() - used_before_s  # by the kernel, the program's and the recording's
    if bare.returncode != 0 or b"WRONG" in bare.stdout or not bare.stdout:
        return ["the program does not run here at all: %r" % bare.stderr[-500:]]
    for what in ("returncode", "stdout", "stderr"):
        if getattr(bare, what) != getattr(recorded, what):
            failures.append("%s: %r instead of %r" % (what, getattr(recorded, what), getattr(bare, what)))
    if not os.path.isdir(output):
        return failures + ["no run directory"]
    merged = subprocess.run([recording.CLUSTERPROF, "merge", output], capture_output=True, timeout=300)
    if merged.returncode != 0:
        return failures + ["merge: %r" % merged.stderr]
    profile = os.path.join(output, "profile.h5")
    faults, checked = impossible(call_paths.read(profile))
    counted, notes = call_paths.quality(profile), call_paths.notes(profile)
    shutil.rmtree(output)
    tried, failed, wrong = counted["merges_tried"], counted["merges_failed"], sum(faults.values())
    dropped = counted["dropped"]
    ticks = counted["samples"] + sum(dropped.get(reason, 0) for reason in SAMPLES_LOST)
    elapsed_s, cpu_s = counted["elapsed_ns"] / 1e9, counted["cpu_ns"] / 1e9
    if not LEAST_PART * options.rate * cpu_s <= ticks <= MOST_TIMERS * options.rate * elapsed_s:
        failures.append("%d ticks in %.1f s, %.1f s of CPU time" % (ticks, elapsed_s, cpu_s))
    if set(dropped) - MAY_DROP:
        failures.append("dropped: %s" % dropped)
    success = 100 * (1 - failed / max(1, tried))
    print("%-8s %8d samples %8d merged with success %8.3f %% %6d truncated %6d impossible of %6d samples; %.1f s, %.1f s of "
          "CPU time, dropped: %s" % (version, counted["samples"], tried, success, counted["truncated"], wrong, checked,
                                     elapsed_s, cpu_s, dropped or "nothing"), flush=True)
    if faults:
        failures.append("impossible call paths: %s" % dict(list(faults.items())[:10]))
    # A busy machine may leave it little of its seconds.
    least = 100 * min(seconds, 0.3 * used_s)
    if tried < least or checked < least:
        failures.append("only %d merges and %d samples of the program" % (tried, checked))
    minor = int(subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"],
                               stdout=subprocess.PIPE, check=True).stdout)
    if failed > max(1, (0.001 if minor >= 11 else 0.01) * tried):  # one of few says nothing
        failures.append("%.3f %% of %d stacks were merged" % (success, tried))
    notes = [note for note in notes if note[0].startswith("python_")]
    if notes:
        failures.append("notes: %s" % notes)
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, help="that every Python is recorded, instead of 3 or 2")
    parser.add_argument("--rate", type=int, default=10000)
    parser.add_argument("--python", nargs="*")
    options = parser.parse_args()
    found = [item for item in recording.pythons()
             if os.path.exists(item[1]) and (not options.python or item[1] in options.python)]
    if not found or call_paths is None:
        print("SKIPPED: no CPython to test with" if not found else "SKIPPED: /usr/bin/python3 has no h5py")
        return 77
    failed = False
    with tempfile.TemporaryDirectory(prefix="clusterprof-stress-") as folder:
        library, compiler = [], shutil.which("cc")
        if compiler is None:
            print("SKIPPED: no C compiler, no library to load and unload")
        else:
            path = os.path.join(folder, "libsmall.so")
            subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-o", path, "-"],
                           input=SMALL_LIBRARY.encode(), check=True)
            library = [path]
        for version, python in found:
            for failure in check(version, python, options, folder, library):
                print("FAILED %s: %s" % (version, failure), flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
