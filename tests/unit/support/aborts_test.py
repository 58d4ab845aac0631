# SPDX-License-Identifier: BSD-3-Clause
"""bench/aborts.py: what it calculates, and how it names the ends of programs that are no MPI programs."""

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["CLUSTERPROF_TEST_SOURCE"], "bench"))
import aborts  # noqa: E402, pylint: disable=wrong-import-position


class Numbers(unittest.TestCase):
    def test_interval(self):
        low, high = aborts.wilson(2, 80)
        self.assertAlmostEqual(low, 0.006883, 5)
        self.assertAlmostEqual(high, 0.086645, 5)
        low, high = aborts.wilson(0, 10)
        self.assertAlmostEqual(low, 0, 9)
        self.assertAlmostEqual(high, 0.277533, 5)
        self.assertAlmostEqual(aborts.wilson(10, 10)[0], 1 - 0.277533, 5)
        self.assertEqual(aborts.wilson(0, 0), (0, 1))

    def test_exact_test(self):
        self.assertAlmostEqual(aborts.fisher(3, 4, 1, 4), 34 / 70)
        self.assertAlmostEqual(aborts.fisher(4, 4, 0, 4), 2 / 70)
        self.assertAlmostEqual(aborts.fisher(1, 10, 11, 14), 0.002759456, 8)
        self.assertEqual(aborts.fisher(0, 500, 0, 500), 1)
        self.assertEqual(aborts.fisher(5, 5, 7, 7), 1)
        self.assertAlmostEqual(aborts.fisher(2, 80, 5, 81), aborts.fisher(5, 81, 2, 80))

    def test_table(self):
        lines = aborts.printed({aborts.BARE: collections.Counter({"status 7": 78, "signal 11": 2}),
                                aborts.RECORDED: collections.Counter({"status 7": 76, "hung": 5})})
        self.assertIn("| recorded | hung | 5 |", lines)
        self.assertIn('| runs | not "status 7" | share, 95 % |', lines)
        self.assertIn("| without clusterprof | 2 of 80 | 2.5 %: 0.7 to 8.7 % |", lines)
        self.assertEqual(lines[-1], f"Fisher's exact test, two-sided: p = {aborts.fisher(2, 80, 5, 81):.3g}")
        none = aborts.printed({aborts.BARE: collections.Counter({"status 7": 1}), aborts.RECORDED: collections.Counter()})
        self.assertEqual(none[-1], "| without clusterprof | status 7 | 1 |")


class Ends(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="clusterprof-test-")
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def ended(self, script, patience_s=60):
        how = aborts.ended(["sh", "-c", script], self.folder, patience_s)
        self.assertEqual(aborts.processes_in(self.folder), {})
        return how

    def test_by_itself(self):
        self.assertEqual(self.ended("exit 7"), "status 7")
        self.assertEqual(self.ended("kill -SEGV $$"), "signal 11")

    def test_never(self):
        self.assertEqual(self.ended("sleep 1000", 0.3), "hung")

    def started(self, program, *arguments):
        """A command that starts the program and goes on when that runs."""
        return f'{" ".join([program, *arguments])} & until [ "$(readlink /proc/$!/exe)" = {program} ]; do :; done; '

    def test_before_what_it_started(self):
        rank = os.path.join(self.folder, "rank")
        shutil.copy(shutil.which("sleep"), rank)
        self.assertEqual(self.ended(self.started(rank, "1000") + "exit 7"), "status 7, rank left")
        with unittest.mock.patch.object(aborts, "LEFT_S", 60):
            self.assertEqual(self.ended(self.started(rank, "2") + "exit 7"), "status 7")

    def test_before_a_collector(self):
        elsewhere = tempfile.TemporaryDirectory(prefix="clusterprof-test-")
        self.addCleanup(elsewhere.cleanup)
        collector = os.path.join(os.path.realpath(elsewhere.name), "collector")
        shutil.copy(shutil.which("tail"), collector)
        script = "cd /; " + self.started(collector, "-f", "/dev/null", f"{self.folder}/out") + "exit 7"
        self.assertEqual(self.ended(script, 5), "status 7, other left")

    def test_processes_of_others_go_on(self):
        other = subprocess.Popen(["sleep", "1000"], cwd="/")
        try:
            self.assertEqual(self.ended("sleep 1000", 0.3), "hung")
            time.sleep(0.1)
            self.assertIsNone(other.poll())
        finally:
            other.kill()
            other.wait()


if __name__ == "__main__":
    unittest.main()
