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
import subprocess
import sys
import tempfile
import time
import unittest

import measured

BUILD = os.environ["CLUSTERPROF_TEST_BUILD"]
SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
CLUSTERPROF = os.path.join(BUILD, "bin", "clusterprof")
PYTHON = "/usr/bin/python3"


def program(flavour, name):
    return os.path.join(BUILD, "programs", flavour, name)


def launcher(flavour, ranks):
    """The command that starts `ranks` ranks on this machine, more than it has cores if need be."""
    if flavour == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                "-n", str(ranks)]
    return ["mpirun.mpich", "-n", str(ranks)]


def processes():
    """(pid, argument list) of every process there is."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield int(pid), file.read().decode(errors="replace").split("\0")
        except OSError:
            continue


def is_collector(words, run):
    """Whether these are the arguments of the collector that writes to the run directory `run`."""
    return os.path.basename(words[0]) == "collector" and f"--run-dir={run}" in words


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
        """Where a launcher has killed the ranks, the collector may still be writing when it returns."""
        deadline = time.monotonic() + 60
        while any(is_collector(words, os.path.join(self.directory, run)) for _, words in processes()):
            self.assertLess(time.monotonic(), deadline, "the collector does not end")
            time.sleep(0.05)

    def report(self, run="run", options=()):
        done = subprocess.run([CLUSTERPROF, "report", "--json", *options, os.path.join(self.directory, run)],
                              capture_output=True, timeout=60)
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
