"""How long event loops are blocked, and by which lines: compared with what the program's own clocks say."""

import json
import os

import recording
import truth

PROGRAM = os.path.join(truth.PROGRAMS, "event_loop.py")
PERIOD_S = 0.01  # between samples: the time at both ends of a part of a turn may be charged to its neighbour


def line_of(mark):
    with open(PROGRAM) as file:
        return next(number for number, line in enumerate(file, 1) if line.endswith(f"# {mark}\n"))


class EventLoops(recording.RecordingTest):
    def run_program(self, python, mode, run):
        done = self.record([python, PROGRAM, mode], run=run)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return json.loads(done.stdout), self.report(run)

    def findings(self, report):
        return [finding for finding in report["findings"] if finding["kind"] == "event_loop_blocked"]

    def check_blocked(self, version, python):
        told, report = self.run_program(python, "blocked", f"run-{version}")
        self.assertEqual([loop["kind"] for loop in report["event_loops"]], ["asyncio"])
        loop = report["event_loops"][0]
        self.assertTrue(loop["main_thread"])
        self.assertEqual(loop["tid"], loop["pid"])
        # The last turn of the program's own count is not over when the loop stops.
        self.assertLessEqual(abs(loop["turns"] - told["turns"]), 2)
        self.assertEqual(sum(loop["lengths"].values()), loop["turns"])
        # One blocked turn more or less is a quarter of a second.
        self.measured_near(loop["blocked_s"], sum(told["blocked"]), 0.1, f"{version}: blocked")
        self.measured_near(loop["longest_block_s"], max(told["blocked"]), 0.02, f"{version}: longest")
        self.measured_near(loop["idle_s"], told["idle_s"], 0.1, f"{version}: idle")
        self.measured_near(loop["busy_s"], told["busy_s"], 0.1, f"{version}: busy")
        blocked_s, tolerances_s = {}, {}
        for mark, what in (("SPIN", "spin"), ("SLEEP", "sleep"), ("LOADS", "loads")):
            spent = [block for block in loop["blocks"] if block["line"] == line_of(mark)]
            self.assertNotEqual(spent, [], f"{mark} is not among {loop['blocks']}")
            self.assertTrue(all(block["file"].endswith("event_loop.py") for block in spent))
            self.assertTrue(all(block["task"].endswith("work") for block in spent))
            blocked_s[line_of(mark)] = sum(told[what])
            tolerances_s[line_of(mark)] = 2 * PERIOD_S * len(told[what]) + 0.03 * sum(told[what])
            self.measured_near(sum(block["time_s"] for block in spent), sum(told[what]),
                               tolerances_s[line_of(mark)], f"{version}: {what}")
        loads = next(block for block in loop["blocks"] if block["line"] == line_of("LOADS"))
        self.assertEqual(loads["called"], "json.loads")
        self.measured_near(loop["awaited_s"], loop["blocked_s"], 0.1, f"{version}: awaited")
        found = self.findings(report)
        self.assertEqual(len(found), 1)
        # The line that blocked longest: usually SPIN, but on a busy machine any of them may be.
        line = found[0]["line"]
        self.assertIn(line, blocked_s)
        for other in blocked_s:
            self.assertGreaterEqual(blocked_s[line] + tolerances_s[line], blocked_s[other] - tolerances_s[other])

    def test_an_idle_server_is_not_blocked(self):
        told, report = self.run_program(recording.PYTHON, "idle", "run")
        self.assertEqual([loop["kind"] for loop in report["event_loops"]], ["asyncio"])
        # By the program's own clock: a thread that loses its processor in a turn does not look for events, either.
        self.measured_below(sum(told["blocked"]), 0.4, "blocked, on an idle server")
        loop = report["event_loops"][0]
        self.assertGreater(loop["idle_s"], loop["busy_s"])
        self.assertEqual(self.findings(report), [])
        # Waiting for events is what a server does.
        self.assertNotIn("blocked", [finding["kind"] for finding in report["findings"]])

    def test_a_loop_that_nobody_waits_for(self):
        _, report = self.run_program(recording.PYTHON, "alone", "run")
        loop = report["event_loops"][0]
        self.assertGreaterEqual(loop["longest_block_s"], 1.0)
        self.assertEqual(loop["blocks"][0]["line"], line_of("SPIN"))
        self.assertEqual(self.findings(report), [])

    def test_time_between_two_runs_of_a_loop(self):
        _, report = self.run_program(recording.PYTHON, "between", "run")
        loop = report["event_loops"][0]
        self.assertNotIn(line_of("SPIN"), [block["line"] for block in loop["blocks"]])
        self.assertEqual(self.findings(report), [])

    def test_a_pool_of_threads_has_no_loop(self):
        _, report = self.run_program(recording.PYTHON, "pool", "run")
        self.assertEqual(report["event_loops"], [])
        self.assertEqual(self.findings(report), [])


truth.per_python(EventLoops, EventLoops.check_blocked)

if __name__ == "__main__":
    recording.main()
