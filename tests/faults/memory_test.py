# SPDX-License-Identifier: BSD-3-Clause
"""Programs do the same with --memory as without: CPython's own tests, each of which has the result that it has alone; and
programs that allocate all the time, in which nothing of ours grows.

    memory_test.py [--long]     all of CPython's tests that are about objects, threads and forks, on all versions; 100 times as many allocations"""

import glob
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import recording

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")
HERE = os.path.dirname(os.path.abspath(__file__))
FINE = 4096  # bytes
MIB = 1 << 20
# By their names in all versions; each interpreter has some of them.
SHORT = ["test_list", "test_dictviews"]
ALL = ["test_list", "test_tuple", "test_dict", "test_set", "test_bytes", "test_unicode", "test_str", "test_ctypes",
       "test_descr", "test_gc", "test_weakref", "test_memoryview", "test_array", "test_buffer", "test_threading", "test_thread",
       "test_threadsignals", "test_fork1", "test_multiprocessing_fork"]


class PythonsOwnTests(recording.RecordingTest):
    def results(self, before, python, names, report):
        """{name of a test: its result}"""
        command = [*before, python, "-m", "test", "--junit-xml", report, *names]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, timeout=3000 if LONG else 300,
                              env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"})
        self.assertTrue(os.path.exists(report), (command, done.stdout[-2000:], done.stderr[-2000:]))
        results = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            outcomes = sorted(child.tag for child in case if child.tag in ("error", "failure", "skipped"))
            # Objects in a test's parameters have other addresses each time.
            name = re.sub(r"0x[0-9a-f]+", "0x", f"{case.get('classname')} {case.get('name')}")
            results.setdefault(name, []).append((case.get("result"), outcomes))
        return done.returncode, results

    def test_have_the_same_results(self):
        have = "import importlib.util, sys\n" \
               "for name in sys.argv[1:]:\n" \
               "    try:\n" \
               "        if importlib.util.find_spec('test.' + name): print(name)\n" \
               "    except ImportError: pass\n"
        found = []
        for version, python in recording.pythons():
            names = self.bare([python, "-c", have, *(ALL if LONG else SHORT)]).stdout.decode().split()
            if names and (version == "system" or int(version.split(".")[1]) <= 13):
                found.append((int(version.split(".")[1]) if "." in version else 0, version, python, names))
        if not found:
            self.skipTest("no Python here has its own tests")
        found.sort()
        for _, version, python, names in found if LONG else {found[0][0]: found[0], found[-1][0]: found[-1]}.values():
            with self.subTest(version):
                alone = self.results([], python, names, os.path.join(self.directory, f"alone-{version}.xml"))
                run = os.path.join(self.directory, f"run-{version}")
                recorded = self.results([recording.CLUSTERPROF, f"--memory={FINE}", "-q", "-o", run], python, names,
                                        os.path.join(self.directory, f"recorded-{version}.xml"))
                self.assertGreater(len(alone[1]), 20)
                self.assertEqual({name: (result, recorded[1].get(name)) for name, result in alone[1].items()
                                  if recorded[1].get(name) != result}, {})
                self.assertEqual(recorded[0], alone[0])
                rows = self.report(f"run-{version}")["memory"]["lines"]
                self.assertGreater(sum(row["alloc_bytes"] for row in rows if row["domain"] == "python"), 10e6,
                                   "its objects were recorded")


class Churn(recording.RecordingTest):
    def record_churn(self, pairs):
        program = os.path.join(self.directory, "churn")
        done = self.bare(["gcc", "-O2", "-fno-builtin", "-g", os.path.join(HERE, "programs", "churn.c"), "-o", program])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        run = f"run-{pairs}"
        done = self.record([program, str(pairs)], options=[f"--memory={FINE}", "-q"], run=run, timeout=1000)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        before, after, allocated = map(int, done.stdout.split()[1:])
        return self.report(run), before, after, allocated

    def collector_bytes(self, pairs):
        """The most memory that the collector of that run had."""
        shard, = glob.glob(os.path.join(self.directory, f"run-{pairs}", "node-*.h5"))
        lines = self.bare([recording.CLUSTERPROF, "dump", shard]).stdout.decode().splitlines()
        at, columns = next((i, line.split("\t")) for i, line in enumerate(lines) if "collector_max_rss_bytes" in line)
        return int(lines[at + 1].split("\t")[columns.index("collector_max_rss_bytes")])

    def test_leaves_nothing(self):
        self.need("gcc")
        few, many = 10 ** 7, 10 ** 10 if LONG else 10 ** 8
        self.record_churn(few)
        report, before, after, allocated = self.record_churn(many)
        # The ring and the tables are in use after a quarter of them.
        self.assertLess(after - before, MIB)
        rows = [row for row in report["memory"]["lines"] if row["function"] == "pairs"]
        found = sum(row["alloc_bytes"] for row in rows)
        error = sum(row["error_bytes"] for row in rows)
        self.assertLessEqual(abs(found - allocated), 5 * error, (found, allocated))
        # Samples per second are limited: the faster the machine, the longer the interval. That decides the error.
        self.assertLess(error, (report["memory"]["interval_bytes"] * allocated) ** 0.5)
        self.assertLess(error, 0.03 * allocated)
        self.assertLess(sum(row["live_end_bytes"] for row in rows), 64 * 1024, "64 blocks of 208 bytes at most, and one sample")
        self.assertFalse(any(row["leak"] for row in rows))
        self.assertGreater(report["memory"]["interval_bytes"], FINE, "the interval is raised, since there is too much to record")
        most = [self.collector_bytes(run) for run in (few, many)]
        self.assertLess(most[1] - most[0], 16 * MIB, most)


if __name__ == "__main__":
    recording.main()
