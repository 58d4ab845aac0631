"""Drives the built clusterprof for tests: records commands, reads reports.

A test module ends with recording.main(). A test that cannot run on this machine calls
self.skipTest(reason); when every test of a module was skipped, the module exits with 77, which
ctest shows as skipped.
"""

import concurrent.futures
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import plain_surroundings  # noqa: F401  before everything else that looks at them
import measured

BUILD = os.environ["CLUSTERPROF_TEST_BUILD"]
SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
CLUSTERPROF = os.path.join(BUILD, "bin", "clusterprof")
PYTHON = "/usr/bin/python3"


# For programs in Python that measure themselves.
LACKED = '''
def lacked():
    """For how many seconds the thread has been ready without a processor, until now; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) * 1e-9
    except OSError:
        return 0.0
'''


def program(flavour, name):
    return os.path.join(BUILD, "programs", flavour, name)


def launcher(flavour, ranks):
    """The command that starts `ranks` ranks on this machine, more than it has cores if need be."""
    if flavour == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                "-n", str(ranks)]
    return ["mpirun.mpich", "-n", str(ranks)]


def arguments(pid):
    """[] where there is no such process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def processes():
    """(pid, argument list) of every process there is."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        words = arguments(pid)
        if words:
            yield int(pid), words


def has_program(pid):
    """Not so of threads of the kernel, and of processes that have ended."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


def is_collector(words, run):
    """Whether these are the arguments of the collector that writes to the run directory `run`."""
    return os.path.basename(words[0]) == "collector" and f"--run-dir={run}" in words


def is_merge(words, run):
    """Whether these are the arguments of what the collector becomes: the command that merges and prints the summary."""
    return "banner" in words[:3] and run in words


def state(pid):
    """As ps has it: R, S, T and so on; X where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def has_ended(pid):
    """Also of one that nobody has waited for yet. A process that becomes another program has not ended."""
    return state(pid) in "ZX"


def await_writers(run, seconds=120):
    """Returns when nobody writes to the run directory `run` any more: neither its collector nor what that has become. Fails after
    `seconds`."""
    begin = time.monotonic()
    deadline = begin + seconds
    while True:
        left, has_unknown = [], False
        for pid, words in processes():
            if is_collector(words, run) or is_merge(words, run):
                left.append(pid)
            elif words == [""] and has_program(pid):
                # While a process becomes another program it has no arguments for a moment. Some never have any.
                has_unknown = time.monotonic() < begin + 10
        if not left and not has_unknown:
            return
        time.sleep(0.02)
        # By their numbers, for the same reason.
        while not all(map(has_ended, left)):
            if time.monotonic() > deadline:
                raise AssertionError(f"what writes to {run} does not end: {left}")
            time.sleep(0.02)


def end_job(process, is_rank, seconds=60):
    """Ends an MPI job that was started as `process`, and returns what communicate() does: kills one of its ranks, and the launcher
    ends the others. Where all are killed at once, mpirun of Open MPI 4.1 may hang or crash. `is_rank` tells ranks by their arguments.
    Now and then that mpirun does not notice that the last of its ranks is gone, recorded or not: it is killed then
    (for both see tests/mpi_defects)."""
    def ranks():
        return [pid for pid, words in processes() if is_rank(words) and not has_ended(pid)]
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
            return True
        except ProcessLookupError:
            return False
    deadline = time.monotonic() + seconds
    has_killed = process.poll() is not None
    while time.monotonic() < deadline:
        # Of a test that has failed early there may be no rank yet.
        has_killed = has_killed or any(map(kill, ranks()[:1]))
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            pass
    left = ranks()
    if not left:
        print(f"{process.args}: the launcher hangs without ranks, and is killed", flush=True)
    process.kill()
    for pid in left:  # in the way of other tests
        kill(pid)
    output = process.communicate(timeout=seconds)
    if left:
        raise AssertionError(f"ranks that the launcher has not ended: {left}")
    return output


def pythons():
    """Every CPython to be tested: (version text, path)."""
    found = [("system", PYTHON)]
    for path in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))):
        version = path.split(os.sep)[-3]
        if int(version.split(".")[1]) >= 8:
            found.append((version, path))
    return found


class RecordingTest(measured.MeasuringTest):
    """Has a working directory of its own, in self.directory, gone afterwards."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def tearDown(self):
        if not self._outcome.success:
            self.say_how_ranks_failed()
        super().tearDown()

    def say_how_ranks_failed(self):
        """Prints it of all runs that a failed test has recorded: the test may be all that has ever seen it."""
        for profile in sorted(glob.glob(os.path.join(glob.escape(self.directory), "**", "profile.h5"), recursive=True))[:4]:
            try:
                done = subprocess.run([CLUSTERPROF, "report", os.path.dirname(profile), "--json"], capture_output=True, timeout=120)
                failure = json.loads(done.stdout or "{}").get("failure")
            except (subprocess.TimeoutExpired, ValueError) as error:  # no other failure than the test's own
                failure = str(error)
            if failure:
                print(f"{self.id()}: {os.path.relpath(profile, self.directory)}: {json.dumps(failure)[:4000]}", flush=True)

    def need(self, *paths):
        for path in paths:
            if not (os.path.exists(path) or shutil.which(path)):
                self.skipTest(f"{path} is not here")

    def bare(self, command, timeout=120, **options):
        return subprocess.run(command, cwd=self.directory, capture_output=True, timeout=timeout, **options)

    def record(self, command, before=(), options=(), timeout=120, run="run", **more):
        """Runs `before clusterprof options -o run command`; returns the completed process."""
        full = [*before, CLUSTERPROF, *options, "-o", os.path.join(self.directory, run), *command]
        return subprocess.run(full, cwd=self.directory, capture_output=True, timeout=timeout, **more)

    def bare_and_recorded(self, command, before=(), options=(), run="run", **more):
        """Runs the command without clusterprof and with it, at the same time; returns both completed processes."""
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            bare = beside.submit(self.bare, [*before, *command], **more)
            recorded = self.record(command, before=before, options=options, run=run, **more)
            return bare.result(), recorded

    def await_last_shard(self, run="run"):
        """Where a launcher has killed the ranks, the collector may still be writing when it returns, or merging."""
        await_writers(os.path.join(self.directory, run))

    def report(self, run="run", options=()):
        done = subprocess.run([CLUSTERPROF, "report", "--json", *options, os.path.join(self.directory, run)],
                              capture_output=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def recorded(self, command, **how):
        """Records a command that must succeed and returns its report."""
        done = self.record(command, **how)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return self.report(how.get("run", "run"))

    def function(self, report, name):
        found = [f for f in report["functions"] if f["name"] == name]
        self.assertEqual(len(found), 1, f"{name} among {[f['name'] for f in report['functions']][:20]}")
        return found[0]


def main():
    program_ = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program_.result
    measured.say_all()
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
