"""`report --last` tells of the end of a run alone: a program that computes and then sleeps only sleeps in its last seconds.
What is known of the whole run only is absent."""

import json
import os
import subprocess

import recording

PROGRAM = """
import time

def compute():
    end = time.process_time() + 1.5
    while time.process_time() < end:
        sum(range(1000))

def rest():
    time.sleep(5)

compute()
rest()
"""


class Last(recording.RecordingTest):
    def clusterprof(self, *words, status=0):
        done = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run"), *words], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout if status == 0 else done.stderr

    def test_last(self):
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        whole = self.recorded([recording.PYTHON, script])
        end = json.loads(self.clusterprof("--last", "3s", "--json"))
        self.assertEqual(end["schema"], "clusterprof.report_end/1")
        run, (rank,) = end["run"], end["ranks"]
        self.assertAlmostEqual(run["end_s"], whole["run"]["elapsed_s"])
        # In whole bins, of which a run has more than 32.
        self.assertGreaterEqual(run["elapsed_s"], 3)
        self.assertLess(run["elapsed_s"], 3 + max(0.2, whole["run"]["elapsed_s"] / 32))
        self.assertAlmostEqual(rank["elapsed_s"], run["elapsed_s"], delta=0.1)
        # When its sleep is over, it may lack its processor for long.
        self.measured_above(rank["idle_s"] + (rank["runnable_s"] or 0), 2, "idle")
        self.measured_below(rank["python_s"], 1, "Python")
        whole_s = {function["name"]: function["total_s"] for function in whole["functions"]}
        end_s = {function["name"]: function["total_s"] for function in end["functions"]}
        self.measured_above(whole_s["compute"], 1.4, "compute()")
        # What the interpreter uses to end, after the last sample, is charged to where it ran last.
        self.measured_below(end_s.get("compute", 0), 0.05, "compute() in the end")
        self.measured_above(end_s["rest"], 2, "rest() in the end")
        for key in "mpi", "lines", "counters", "memory", "efficiency", "io", "call_tree":
            self.assertNotIn(key, end)
        # Longer than the run: all of it.
        all_of_it = json.loads(self.clusterprof("--last", "1h", "--json"))
        self.assertEqual(all_of_it["run"]["begin_s"], 0)
        for category in "python_s", "idle_s", "native_s":
            self.assertAlmostEqual(all_of_it["ranks"][0][category], whole["ranks"][0][category], delta=0.01)
        self.assertIn("compute", {function["name"] for function in all_of_it["functions"]})

        text = self.clusterprof("--last", "3s")
        self.assertRegex(text, r"the last 3\.[0-9]+ s, from ")
        self.assertIn("are known of the whole run only", " ".join(text.split()))
        self.assertIn("rest()", text)
        self.clusterprof("--last", "soon", status=2)
        self.assertEqual({line.split("  ")[0] for line in text.splitlines() if line and not line.startswith(" ")},
                         {"clusterprof report", "Main threads by category", "Ranks", "Hotspots", "Over time"})
        ranks = self.clusterprof("--last", "3s", "--section", "ranks", "timeline")
        self.assertRegex(ranks, r"the last 3\.[0-9]+ s, from ")
        self.assertEqual({line.split("  ")[0] for line in ranks.splitlines() if line and not line.startswith(" ")},
                         {"clusterprof report", "Ranks", "Over time"})
        self.assertIn("comm: known of the whole run only", self.clusterprof("--last", "3s", "--section", "ranks", "comm", status=2))


if __name__ == "__main__":
    recording.main()
