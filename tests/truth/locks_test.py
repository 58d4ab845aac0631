# SPDX-License-Identifier: BSD-3-Clause
"""A program that waits for a mutex which another thread keeps for long (programs/locks.c): which line waits, for how long, and where
the mutex was held."""

import json
import os
import subprocess

import recording
import truth

SOURCE = os.path.join(truth.PROGRAMS, "locks.c")


def line_of(what):
    with open(SOURCE, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if f"/* line of {what} */" in line)


class Locks(recording.RecordingTest):
    def test_holder(self):
        self.need("gcc")
        program = os.path.join(self.directory, "locks")
        subprocess.run(["gcc", "-O1", "-g", "-fno-inline", SOURCE, "-o", program, "-pthread"], check=True)
        done = self.record([program, "5"])
        self.assertEqual(done.returncode, 0, done.stderr)
        own_s = json.loads(done.stdout)["waited_s"]
        report = self.report()
        rows = [row for row in report["mutexes"] if row["function"] == "main"]
        row, = rows
        self.assertEqual((os.path.basename(row["file"]), row["line"], row["mutexes"]), ("locks.c", line_of("waiter"), 1))
        # A wait of 500 ms begins up to 40 ms late: until then the thread's sample is that of the short sleep before it.
        self.measured_near(row["wait_s"], own_s, 0.1 * own_s, "waiting for the mutex")
        held = {}
        for holder in row["holders"]:
            held[holder["function"]] = held.get(holder["function"], 0) + holder["wait_s"]
        self.measured_above(held.get("hold", 0) + held.get("spin", 0) + held.get("now", 0), 0.7 * row["wait_s"], "held in hold()")
        finding, = [finding for finding in report["findings"] if finding["kind"] == "blocked"]
        self.assertEqual(finding["action"], "hold_lock_less")


if __name__ == "__main__":
    recording.main()
