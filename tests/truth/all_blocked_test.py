# SPDX-License-Identifier: BSD-3-Clause
"""all_blocked.c: samples of threads in which all signals are blocked, also SIGSEGV, have whole call paths, and a SIGSEGV that is
pending stays so."""

import os
import subprocess

import recording
import truth


class AllBlocked(recording.RecordingTest):
    def test_call_paths(self):
        self.need("gcc")
        program = os.path.join(self.directory, "all_blocked")
        subprocess.run(["gcc", "-O1", "-g", "-fno-inline", os.path.join(truth.PROGRAMS, "all_blocked.c"), "-o", program, "-pthread"],
                       check=True)
        done = self.record([program, "1"])
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report()
        totals = {row["name"].split("(")[0]: row["total_s"] for row in report["functions"]}
        # Two threads of 1 s. The last second, while a SIGSEGV is pending, has no call path.
        for function in ("work", "serve", "run"):
            self.measured_above(totals.get(function, 0), 1.7, f"total time of {function}()")


if __name__ == "__main__":
    recording.main()
