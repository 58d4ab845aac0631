"""A report of a run that is still running says so, and takes no rank for lost. Once its collector is killed, the run is
lost."""

import json
import os
import signal
import subprocess
import time

import recording

PROGRAM = """
import time
end = time.monotonic() + 120
while time.monotonic() < end:
    sum(range(10000))
"""


class Running(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.run_directory = os.path.join(self.directory, "run")
        self.process = subprocess.Popen(
            [*recording.launcher("openmpi", 2), recording.CLUSTERPROF, "-o", self.run_directory, recording.PYTHON, "-c", PROGRAM, self.run_directory],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.end)

    def end(self):
        recording.end_job(self.process, lambda words: words[:-1] == [recording.PYTHON, "-c", PROGRAM, self.run_directory])

    def clusterprof(self, *words):
        return subprocess.run([recording.CLUSTERPROF, *words], capture_output=True, text=True, timeout=60)

    def await_report(self, condition):
        deadline = time.monotonic() + 110
        while time.monotonic() < deadline:
            done = self.clusterprof("report", "--json", self.run_directory)
            if done.returncode == 0:
                report = json.loads(done.stdout)
                if condition(report):
                    return report
            time.sleep(0.2)
        self.fail(f"{done.stderr} {done.stdout[:500]}")

    def test_running_then_lost(self):
        report = self.await_report(lambda report: len(report["ranks"]) == 2)
        self.assertEqual(report["run"]["state"], "running")
        self.assertFalse(report["run"]["complete"])
        self.assertEqual(report["run"]["as_of_s"], max(node["as_of_s"] for node in report["nodes"]))
        self.assertLess(report["run"]["as_of_s"], 60)
        self.assertEqual([rank["exit"]["lost"] for rank in report["ranks"]], [False, False])
        of_ends = {"ranks_lost", "ranks_silent", "ranks_missing", "ranks_unfinished", "rank_failed", "launcher_gone"}
        self.assertFalse(of_ends & {finding["kind"] for finding in report["findings"]})
        self.assertNotIn("incomplete_shard", {note["code"] for note in report["run"]["note_records"]})
        for options in (["--section", "summary"], ["--oneline"]):
            self.assertRegex(self.clusterprof("report", self.run_directory, *options).stdout, "running, as of (now|[0-9]+ s ago)")
        listed, = json.loads(self.clusterprof("ls", "--json", self.directory).stdout)["runs"]
        self.assertEqual(listed["run_state"], "running")
        self.assertRegex(self.clusterprof("ls", self.directory).stdout, "running, as of")

        collector, = [pid for pid, words in recording.processes() if recording.is_collector(words, self.run_directory)]
        os.kill(collector, signal.SIGKILL)
        report = self.await_report(lambda report: report["run"]["state"] != "running")
        self.assertEqual(report["run"]["state"], "lost")
        self.assertEqual([rank["exit"]["lost"] for rank in report["ranks"]], [True, True])
        finding, = [finding for finding in report["findings"] if finding["kind"] == "ranks_silent"]
        self.assertEqual(finding["ranks"], [0, 1])


if __name__ == "__main__":
    recording.main()
