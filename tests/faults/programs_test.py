# SPDX-License-Identifier: BSD-3-Clause
"""Programs that do things which a sampler may stumble over (programs/). Recorded, they have to print and return the same
as alone; their runs have to be complete, with as many samples as the rate says.

    programs_test.py [--long MINUTES] [--only MODE ...]

Runs each mode once, at one of three rates. --long: all modes at all rates, on every CPython, again and again.
CLUSTERPROF_FREE_THREADED names CPythons without the GIL, separated by colons: they run all modes of Python.
Exit status: 0 all good, 1 a check failed."""
import argparse
import concurrent.futures
import glob
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import recording

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "programs", "hostile.py")
RATES = (100, 1000, 10000)
# Of the samples that the CPU time of the program asks for, those that have to be there: taken, or dropped and counted.
# At high rates a loaded machine delivers fewer signals.
LEAST_PART = {100: 0.4, 1000: 0.4, 10000: 0.1}
# What may be missing, by reason, in every run; and by mode.
MAY_DROP = {"reentrant", "ring_full", "throttled"}
MAY_DROP_BY_MODE = {"short_threads": {"no_thread_slot"},
                    "one_thread": {"counter_failed"},  # another user than the one who may count
                    "locked": {"counter_failed"},
                    "daemon_threads": {"signal_blocked"},
                    "handler_replaced": {"signal_blocked"}}
# The process dies of SIGABRT, which has no handler of ours: the rank is lost, and told with its signal.
DIES = {"exceptions"}
FAULTS = {"overflow"}
OF_C = ["close_range", "close_loop", "close_past_libc", "own_timers", "ignore_all", "handler_replaced", "block_all", "fork_threads",
        "fork_returns", "fork_past_libc", "vfork", "spawn", "exec", "main_leaves", "exit_in_thread", "libraries",
        "libraries_of_threads", "made_code", "alternate_stacks", "tiny_threads", "short_threads", "coroutines", "jumps",
        "locked", "own_limits", "own_children", "one_thread", "exceptions"]
OF_PYTHON = ["daemon_threads", "finalisation", "own_interpreters", "at_once", "forks", "one_fork", "dumps", "overflow",
             "timers", "closed", "coroutines_of_python", "greenlets", "recursion"]


def command(mode, python):
    if mode == "exceptions":
        return [os.path.join(recording.BUILD, "programs", "plain", "hostile_exceptions")]
    if mode in OF_C:
        return [os.path.join(recording.BUILD, "programs", "plain", "hostile"), mode] + (["10"] if mode == "exec" else [])
    return [python, "-W", "default", SCRIPT, mode]


def free_threaded_pythons():
    """(version, path) of those that are named."""
    return [(os.path.basename(path) + "t", path) for path in os.environ.get("CLUSTERPROF_FREE_THREADED", "").split(":") if path]


def said_to_be_free_threaded(python, folder):
    """The command of a Python that says that it has no GIL, which is not true: a real CPython 3.13 with that one flag of
    its _Py_DebugOffsets set. Its objects are not those of such builds. None when there is none with a shared library."""
    prefix = os.path.dirname(os.path.dirname(python))
    for library in glob.glob(os.path.join(prefix, "lib", "libpython3.1[345].so.1.0")):
        with open(library, "rb") as file:
            content = bytearray(file.read())
        version = subprocess.check_output([python, "-c", "import sys; print(sys.hexversion)"])
        place = content.find(b"xdebugpy" + int(version).to_bytes(8, "little"))
        if place < 0:
            continue
        content[place + 16] = 1
        os.mkdir(os.path.join(folder, "free-threaded"))
        with open(os.path.join(folder, "free-threaded", os.path.basename(library)), "wb") as file:
            file.write(content)
        return ["env", "LD_LIBRARY_PATH=" + os.path.join(folder, "free-threaded"), python, SCRIPT, "timers"]
    return None


def run(words, folder):
    """(exit status, stdout, stderr), and the seconds of CPU that it and its children took."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(words, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        limit = time.monotonic() + 120
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                break
            if time.monotonic() > limit:
                process.kill()
                raise subprocess.TimeoutExpired(words, 120)
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return (process.returncode, out.read(), err.read()), usage.ru_utime + usage.ru_stime


def left_behind(output):
    """Processes that name the run directory in their arguments or their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if os.fsencode(output) in file.read():
                        found.append(pid)
                        break
        except OSError:
            continue
    return found


def check_run(mode, declined, rate, output, cpu_s):
    """What is wrong with the recorded run; and the samples and drops of it."""
    done = subprocess.run([recording.CLUSTERPROF, "report", "--json", output], capture_output=True, timeout=120)
    if done.returncode != 0:
        return ["report: %r" % done.stderr[-500:]], 0, {}
    report = json.loads(done.stdout)
    told, rank = report["run"], report["ranks"][0]
    problems = []
    dies = mode in DIES or (mode in FAULTS and rank["exit"]["signal"] is not None)
    if told["complete"] is dies or rank["exit"]["lost"] is not dies:
        problems.append("complete: %s, exit: %s" % (told["complete"], rank["exit"]))
    if mode in DIES and rank["exit"]["signal"] != 6:
        problems.append("exit: %s" % rank["exit"])
    unexpected = set(told["dropped"]) - MAY_DROP - MAY_DROP_BY_MODE.get(mode, set())
    if unexpected:
        problems.append("dropped: %s" % told["dropped"])
    if mode == "handler_replaced":  # samples end where the handler does, and that is told
        if "signal_blocked" not in told["dropped"] or told["samples"] < 2:
            problems.append("%d samples, dropped: %s" % (told["samples"], told["dropped"]))
        return problems, told["samples"], told["dropped"]
    # How much daemon threads run before the end, chance decides.
    told_cpu_s = cpu_s if dies else min(cpu_s, sum(rank["cpu_s"] for rank in report["ranks"]))
    samples = told["samples"] + sum(told["dropped"].values())
    wanted = LEAST_PART[rate] * rate * told_cpu_s
    if wanted > 5 and samples < wanted:
        problems.append("%d samples in %.2f s of CPU time at %d Hz" % (samples, told_cpu_s, rate))
    if ("python_other_layout" in [note["code"] for note in told["note_records"]]) is not declined:
        problems.append("notes: %s" % told["notes"])
    if any(".tmp" in name or name.endswith(".claim") for name in os.listdir(output)):
        problems.append("in the run directory: %s" % os.listdir(output))
    return problems, told["samples"], told["dropped"]


class Mode:
    def __init__(self, name, python, version, folder, words=None, declined=False):
        self.name, self.folder, self.declined = name, folder, declined
        self.label = name if name in OF_C else "%s on %s" % (name, version)
        self.words = words or command(name, python)
        self.runs = self.samples = self.unable = 0
        self.dropped = {}

    def record(self, rate, number):
        """Failures of one recorded run."""
        output = os.path.join(self.folder, "run-%d" % number)
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            alone = beside.submit(run, self.words, self.folder)
            try:
                recorded, _ = run([recording.CLUSTERPROF, "-q", "-r", str(rate), "-o", output, *self.words], self.folder)
            except subprocess.TimeoutExpired:
                return ["does not end within 120 s"]
            bare, cpu_s = alone.result()
        if not bare[1] or bare[0] in (1, 96, 97, 98, 99) or (bare[0] < 0 and self.name not in DIES | FAULTS):
            self.unable += 1
            return []
        failures = ["%s: %r instead of %r" % (what, ours[-500:] if what != "status" else ours, its)
                    for what, ours, its in zip(("status", "stdout", "stderr"), recorded, bare) if ours != its]
        if not os.path.isdir(output):
            return failures + ["no run directory"]
        limit = time.monotonic() + 60
        while (left := left_behind(output)) and time.monotonic() < limit:
            time.sleep(0.05)
        problems, samples, dropped = check_run(self.name, self.declined, rate, output, cpu_s)
        if left:
            problems.append("processes are left: %s" % left)
        shutil.rmtree(output)
        self.runs += 1
        self.samples += samples
        for reason, count in dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
        return failures + problems


def modes(options, folder):
    pythons = [item for item in recording.pythons() if os.path.exists(item[1])]
    newest = max(pythons, default=None, key=lambda item: [int(n) for n in item[0].split(".")] if "." in item[0] else [3])
    made = [Mode(name, None, None, folder) for name in OF_C]
    for name in OF_PYTHON:
        for version, python in pythons:
            # One CPython of each mode will do: that of the system, or the newest for what only that one does.
            if options.long or (version, python) == (newest if name in ("one_fork", "own_interpreters") else pythons[0]):
                made.append(Mode(name, python, version, folder))
    declined = said_to_be_free_threaded(newest[1], folder) if newest is not None else None
    if declined is not None:
        made.append(Mode("free_threaded", None, newest[0], folder, declined, True))
    made += [Mode(name, python, version, folder)
             for version, python in free_threaded_pythons() for name in OF_PYTHON]
    return [mode for mode in made if not options.only or mode.name in options.only]


def has_module(python, name):
    return subprocess.run([python, "-c", "import " + name], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", type=float, metavar="MINUTES", default=0)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = tempfile.mkdtemp(prefix="clusterprof-test-")
    os.chmod(folder, 0o755)
    failed = False
    try:
        all_modes = modes(options, folder)
        for mode in [mode for mode in all_modes if mode.name == "greenlets" and not has_module(mode.words[0], "greenlet")]:
            print("skipped: %s, which has no greenlet" % mode.label)
            all_modes.remove(mode)
        numbers = iter(range(10**9))
        end = time.monotonic() + 60 * options.long
        while True:
            rounds = [(mode, rate) for number, mode in enumerate(all_modes)
                      for rate in (RATES if options.long else [RATES[number % len(RATES)]])]
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                jobs = [(mode, rate, pool.submit(mode.record, rate, next(numbers))) for mode, rate in rounds]
                for mode, rate, job in jobs:
                    for failure in job.result():
                        print("FAILED %s at %d Hz: %s" % (mode.label, rate, failure), flush=True)
                        failed = True
            if time.monotonic() >= end:
                break
        for mode in all_modes:
            print("%-32s %4d runs %8d samples %s" % (mode.label, mode.runs, mode.samples, mode.dropped or ""))
            if mode.unable:
                print("    %d times the program failed by itself" % mode.unable)
                failed = failed or mode.runs == 0
        return 1 if failed else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
