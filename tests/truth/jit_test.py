# SPDX-License-Identifier: BSD-3-Clause
"""Functions whose loops CPython's JIT compiles (programs/jit.py, PYTHON_JIT=1), which time themselves: at 1 kHz, the time of
each is that of its Python function, 2 points at most beside it, and nothing is code without a name. Lines are in the function, and
those that are only approximate say so; without the JIT, none is. Where there is no CPython with a JIT, the test is skipped."""

import os
import shutil
import subprocess

import recording
import truth

PROGRAM = os.path.join(truth.PROGRAMS, "jit.py")
PARTS = ("integers", "floats", "calls", "sorting")
COMPILED = ("integers", "floats", "calls")  # the fourth is mostly in C


def has_jit(python):
    done = subprocess.run([python, "-c", "import sys; sys.exit(0 if sys._jit.is_enabled() else 1)"],
                          env=dict(os.environ, PYTHON_JIT="1"), capture_output=True)
    return done.returncode == 0


class Jit(truth.TruthTest):
    def check(self, version, python):
        if not has_jit(python):
            self.skipTest(f"CPython {version} has no JIT")
        ranges = truth.CallRules("jit.py").lines
        for jit in ("0", "1"):
            what = f"PYTHON_JIT={jit}"
            shutil.rmtree(os.path.join(self.directory, "run"), ignore_errors=True)
            own, report, paths = self.recorded_truth(["env", what, python, PROGRAM], truth.seconds(version, 6, 4),
                                                     ["-r", "1000"])
            in_part, nameless_s = dict.fromkeys(own, 0.0), 0.0
            for path in paths:
                functions = [frame for frame in path.frames if frame.file == "jit.py"]
                for part in PARTS:
                    if part in [frame.name for frame in functions]:
                        in_part[part] += path.wall_s
                if functions and (not path.frames[-1].name or path.frames[-1].name.startswith(("[unknown]", "py::jit"))):
                    nameless_s += path.wall_s
                for frame in functions:
                    if frame.name != "<module>":
                        self.assertIn(frame.line, ranges[frame.name], frame)
            self.compare_shares(version, f"{what}: function", own, in_part)
            self.compare(version, f"{what}: without a name", 0.0, nameless_s / sum(own.values()), 0.005)
            python_s = sum(path.wall_s for path in paths if path.category in ("python", "runnable")
                           and set(path.names("jit.py")) & set(COMPILED))
            self.compare(version, f"{what}: python", 1.0, python_s / sum(in_part[part] for part in COMPILED), 0.05)
            rows = [row for row in report["lines"] if row["file"].endswith("jit.py")]
            approximate_s = sum(row["approximate_s"] for row in rows)
            if jit == "0":
                self.assertEqual(approximate_s, 0)
            else:
                self.measured_above(approximate_s, 0.1 * sum(own[part] for part in COMPILED), "the JIT's code has run")
                self.measured_below(approximate_s, 1.1 * sum(own.values()), "approximate lines")


truth.per_python(Jit, Jit.check)

if __name__ == "__main__":
    recording.main()
