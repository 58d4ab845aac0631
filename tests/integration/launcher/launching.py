"""Drives bin/clusterprof with the fake collector; see fake_collector.cpp for what it writes down."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.environ["CLUSTERPROF_TEST_LAUNCHER_DIR"]
SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
PREFIX = os.path.join(HERE, "prefix")
CLUSTERPROF = os.path.join(PREFIX, "bin", "clusterprof")
NO_MEMORY = os.path.join(HERE, "no_memory.so")
SIGNAL_PROGRAM = os.path.join(HERE, "signal_program")

sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import plain_surroundings  # noqa: E402,F401  before any test looks at them
import measured  # noqa: E402

os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


class LaunchingTest(measured.MeasuringTest):
    """Runs in a directory of its own."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-launch-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def environment(self, **variables):
        return {**os.environ, **variables}

    def launch(self, *arguments, before=(), timeout=60, **how):
        how["env"] = self.environment(**how.pop("variables", {}))
        return subprocess.run([*before, CLUSTERPROF, *arguments], cwd=self.directory, capture_output=True,
                              timeout=timeout, **how)

    def runs(self, directory=None):
        root = directory or self.directory
        return sorted(name for name in os.listdir(root)
                      if not name.startswith(".") and os.path.lexists(os.path.join(root, name, ".run")))

    def events(self, run, node=None):
        names = [name for name in os.listdir(self.path(run)) if name.startswith("events-")]
        lines = []
        for name in sorted(names):
            if node is None or name == "events-" + node:
                with open(self.path(run, name)) as file:
                    lines += file.read().splitlines()
        return lines

    def one_line(self, text, *words):
        lines = text.decode().splitlines()
        self.assertEqual(len(lines), 1, text)
        self.assertTrue(lines[0].startswith("clusterprof: "), text)
        for word in words:
            self.assertIn(word, lines[0])


def main():
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    measured.say_all()
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
