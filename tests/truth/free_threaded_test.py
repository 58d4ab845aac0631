# SPDX-License-Identifier: BSD-3-Clause
"""CPythons without the GIL, those that CLUSTERPROF_FREE_THREADED names (tests/newer/run builds some): functions that take turns
(programs/jit.py), and then run in four threads at the same time, have the time that they measure themselves, on lines of their own,
and nobody waits for a GIL. Where none is named, the test is skipped."""

import os
import shutil

import recording
import truth

PROGRAM = os.path.join(truth.PROGRAMS, "jit.py")
PARTS = ("integers", "floats", "calls", "sorting")


def pythons():
    return [path for path in os.environ.get("CLUSTERPROF_FREE_THREADED", "").split(":") if path]


class FreeThreaded(truth.TruthTest):
    def setUp(self):
        super().setUp()
        if not pythons():
            self.skipTest("CLUSTERPROF_FREE_THREADED names no interpreter")

    def check_run(self, python, words):
        version = os.path.basename(python) + "t"
        shutil.rmtree(os.path.join(self.directory, "run"), ignore_errors=True)
        own, report, paths = self.recorded_truth([python, PROGRAM, *words], "4", ["-r", "1000"])
        ranges = truth.CallRules("jit.py").lines
        in_part = dict.fromkeys(own, 0.0)
        for path in paths:
            functions = [frame for frame in path.frames if frame.file == "jit.py"]
            for part in PARTS:
                if part in [frame.name for frame in functions]:
                    in_part[part] += path.wall_s
            for frame in functions:
                if frame.name != "<module>":
                    self.assertIn(frame.line, ranges[frame.name], frame)
        # Four threads may have fewer processors: they are seen waiting for one only when they are sampled again.
        points, of_all = (0.04, 0.06) if words else (truth.POINTS, 0.03)
        self.compare_shares(version, " ".join(["function", *words]), own, in_part, points, of_all)
        codes = {note["code"] for note in report["run"]["note_records"]}
        self.assertFalse({code for code in codes if code.startswith("python_")} - {"python_garbage_unknown"}, codes)
        self.assertEqual(sum(row["gil_s"] or 0 for row in report["functions"]), 0)
        # Loops are where the time is, not where functions begin, as it would be if a thread's copy of the
        # instructions was not found.
        rows = [row for row in report["lines"] if row["file"].endswith("jit.py")]
        first = sum(row["self_s"] for row in rows if row["line"] in [min(ranges[part]) for part in PARTS])
        self.measured_below(first, 0.05 * sum(own.values()), "where functions begin")

    def test_functions(self):
        for python in pythons():
            self.check_run(python, [])

    def test_threads(self):
        for python in pythons():
            self.check_run(python, ["threads"])


if __name__ == "__main__":
    recording.main()
