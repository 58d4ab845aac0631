# SPDX-License-Identifier: BSD-3-Clause
"""tests/newer/table.py with results of which all is known; tests/newer/run where its surroundings cannot be had."""
import fcntl
import importlib.util
import os
import subprocess
import tempfile
import unittest

NEWER = os.path.join(os.environ["CLUSTERPROF_TEST_SOURCE"], "tests", "newer")
STACKS = """test_storm_3_15_2 (__main__.Stacks.test_storm_3_15_2) ... ok
test_storm_system (__main__.Stacks.test_storm_system) ... FAIL
test_toggle_3_13_18 (__main__.Stacks.test_toggle_3_13_18) ... skipped 'no CPython'

======================================================================
FAIL: test_storm_system (__main__.Stacks.test_storm_system)
----------------------------------------------------------------------
AssertionError: 3.15.2 is only in a message
"""
SUBTESTS = """test_on_every_python (__main__.Sleep.test_on_every_python) ... 
======================================================================
FAIL: test_on_every_python (__main__.Sleep.test_on_every_python) (python='3.15.2')
----------------------------------------------------------------------
"""
WALK = """version    samples    merges merged % n.trun
3.13.18       3010      3000  100.000      0
3.15.2        3010      3000   99.000      0
3.15.2+       3010      3000   99.000      0
FAILED 3.15.2 (/usr/bin/python3): 99.000 % merged
"""
MODES = """close_range                         1 runs       10 samples
FAILED timers on python3.14t at 100 Hz: notes: []
timers on system                    1 runs       31 samples
timers on python3.14t               1 runs       31 samples
"""


class Table(unittest.TestCase):
    def setUp(self):
        spec = importlib.util.spec_from_file_location("table", os.path.join(NEWER, "table.py"))
        self.table = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.table)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def results(self, *cases):
        path = os.path.join(self.folder, "truth.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("<testsuite>")
            for name, status, output in cases:
                inner = {"fail": "<failure message='Failed'/>", "notrun": "<skipped message='SKIP_RETURN_CODE=77'/>"}.get(status, "")
                file.write(f'<testcase name="{name}" status="{status}">{inner}'
                           f"<system-out>{output.replace('<', '&lt;')}</system-out></testcase>")
            file.write("</testsuite>")
        return [(result.name, result.status, result.why) for result in self.table.results(path)]

    def test_methods_are_told_apart(self):
        self.assertEqual(self.results(("truth.stacks", "fail", STACKS)),
                         [("truth.stacks: test_storm_3_15_2", "passed", ""), ("truth.stacks: test_storm_system", "failed", ""),
                          ("truth.stacks: test_toggle_3_13_18", "skipped", "no CPython")])

    def test_subtests_that_failed_are_named(self):
        (name, status, _), = self.results(("truth.categories", "fail", SUBTESTS))
        self.assertEqual((name, status), ("truth.categories: test_on_every_python (python='3.15.2')", "failed"))
        self.assertEqual(self.table.interpreter(name), "3.15")

    def test_rows_by_interpreter_are_told_apart(self):
        self.assertEqual(self.results(("walk", "fail", WALK)),
                         [("walk: on 3.13.18", "passed", ""),
                          ("walk: on 3.15.2", "failed", "/usr/bin/python3): 99.000 % merged")])
        self.assertEqual([row[:2] for row in self.results(("faults.programs", "fail", MODES))],
                         [("faults.programs: timers 3.14t", "failed"), ("faults.programs: timers system", "passed")])

    def test_what_fails_outside_the_parts_that_are_told_is_not_lost(self):
        rows = self.results(("walk", "fail", "3.13.18       3010      3000\nno memory"))
        self.assertEqual(rows[-1], ("walk", "failed", "no memory"))

    def test_skipped_as_a_whole(self):
        self.assertEqual(self.results(("mpi.one", "notrun", "skipped: no MPI\n"), ("mpi.two", "run", "")),
                         [("mpi.one", "skipped", "skipped: no MPI"), ("mpi.two", "passed", "")])

    def test_interpreters_and_libraries_by_names(self):
        of = self.table.interpreter
        self.assertEqual([of("Versions/PythonPaths.Merge/3_8"), of("test_storm_3_15_2"), of("timers 3.14t"), of("storm_system"),
                          of("file_systems"), of("mpi_wrap.traffic_openmpi_4"), of("1.3.14")],
                         ["3.8", "3.15", "3.14t", "system", None, None, None])
        self.assertEqual([self.table.libraries(name) for name in ("e2e: OpenMpi", "mpi_wrap.wrong_openmpi_in_mpich", "walk")],
                         [["openmpi"], ["openmpi", "mpich"], []])

    def test_table_counts_by_row_and_suite(self):
        self.results(("truth.stacks", "fail", STACKS), ("truth.waits_mpich", "run", ""))
        done = subprocess.run(["/usr/bin/python3", "-B", os.path.join(NEWER, "table.py"), os.path.join(self.folder, "truth.xml")],
                              capture_output=True, text=True, check=True)
        self.assertEqual([[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line],
                         [["interpreter", "truth"], ["3.13", "1 skipped"], ["3.15", "1 passed"], ["system", "1 failed"],
                          ["MPI", "truth"], ["mpich", "1 passed"], ["all", "truth"], ["all", "2 passed, 1 failed, 1 skipped"]])
        self.assertIn("failed: truth truth.stacks: test_storm_system\n", done.stdout)
        self.assertIn("skipped: truth truth.stacks: test_toggle_3_13_18: no CPython\n", done.stdout)


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = os.path.join(folder.name, "cache")

    def newer(self, *words, before=(), **variables):
        return subprocess.run([*before, os.path.join(NEWER, "run"), *words], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "CLUSTERPROF_NEWER": self.cache, **variables})

    def test_no_server_is_skipped_and_said(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"]).returncode != 0:
            self.skipTest("chroot or unshare is not permitted")
        done = self.newer(CLUSTERPROF_DEBIAN_MIRROR=f"file://{self.cache}/nothing")
        self.assertEqual((done.returncode, done.stdout), (77, ""), done.stderr)
        self.assertRegex(done.stderr, "skipped: file://.*/nothing does not give sid: .|skipped: apt-get, dpkg-deb or Debian's keys")
        self.assertFalse(os.path.exists(os.path.join(self.cache, "root")))

    def test_who_may_not_chroot_skips_and_says(self):
        if os.geteuid() == 0:
            done = self.newer(before=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        else:
            done = self.newer()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (77, "", "skipped: chroot needs root\n"))

    def test_two_runs_do_not_share_a_directory(self):
        if os.geteuid() != 0:
            self.skipTest("chroot is not permitted")
        os.mkdir(self.cache)
        with open(os.path.join(self.cache, "lock"), "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = self.newer()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"newer: another run uses {self.cache}\n"))

    def test_wrong_options_are_refused(self):
        self.assertEqual(self.newer("--fast").returncode, 2)
        self.assertEqual(self.newer("-j").returncode, 1)

    def test_what_was_left_out_is_told_with_the_table(self):
        os.makedirs(os.path.join(self.cache, "root", "results"))
        with open(os.path.join(self.cache, "root", "results", "truth.xml"), "w", encoding="utf-8") as file:
            file.write('<testsuite><testcase name="truth.waits_mpich" status="run"/></testsuite>')
        self.assertNotIn("skipped", self.newer("table").stdout)
        reason = "skipped: CPython 3.15: the suite does not have it\n"
        with open(os.path.join(self.cache, "left-out"), "w", encoding="utf-8") as file:
            file.write(reason)
        done = self.newer("table")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?s)mpich.*1 passed.*\n" + reason + "$")

    def test_no_results_are_said(self):
        done = self.newer("table")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there are no results", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
