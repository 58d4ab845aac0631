"""What the collector may take of its node: processor time, the job's memory, and where its checkpoints are."""

import glob
import json
import os
import signal
import subprocess
import time

import recording
from memory_groups import MemoryGroup

PATIENCE_S = 120

# Works for so many seconds of CPU time.
BUSY = """
import sys, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: sum(range(100))
work(float(sys.argv[1]))
"""

# The same, and then waits for a file.
WAITS = BUSY + """
import os
open("worked", "w").close()
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
"""

# Takes memory until its group has used that share of the limit, and waits for a file.
FILLS = """
import os, sys, time
group, used_file, droppable, share, limit, go = sys.argv[1:]
def used():
    with open(f"{group}/{used_file}") as file: bytes_used = int(file.read())
    with open(f"{group}/memory.stat") as file: rows = dict(line.split() for line in file)
    return bytes_used - sum(int(rows[name]) for name in droppable.split(","))
kept = []
while used() < float(share) * int(limit): kept.append(b"x" * (1 << 20))
while not os.path.exists(go): time.sleep(0.02)
"""


class Resources(recording.RecordingTest):
    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="ascii") as file:
            file.write(text)

    def start(self, *words, before=()):
        """Starts a recording whose checkpoints stay on the node's disk; returns it and the file that its program awaits."""
        self.disk, self.run_directory = os.path.join(self.directory, "disk"), os.path.join(self.directory, "run")
        os.mkdir(self.disk)
        process = subprocess.Popen(
            [*before, recording.CLUSTERPROF, "-q", "--checkpoint", "local", "-o", self.run_directory, recording.PYTHON, *words],
            cwd=self.directory, env=dict(os.environ, TMPDIR=self.disk))
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.wait()

    def await_that(self, condition, process):
        """The first value of the condition that is none of None, False and empty."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            self.assertIsNone(process.poll(), "the program has ended")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        return value

    def report_now(self):
        done = subprocess.run([recording.CLUSTERPROF, "report", "--json", self.run_directory], capture_output=True, timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else None

    @staticmethod
    def notes(report, code):
        return [note["evidence"] for note in report["run"]["note_records"] if note["code"] == code]

    def shards(self):
        return glob.glob(os.path.join(self.run_directory, "node-*.h5"))

    def test_share_of_a_processor(self):
        """The smallest share pays for 10 ms, and then for one per second. A checkpoint takes more, and the rings hold two
        seconds."""
        self.write("busy.py", BUSY)
        command, options = [recording.PYTHON, "busy.py", "6"], ["-q", "-r", "1000", "--checkpoint", "2"]
        limited = self.recorded(command, options=[*options, "--max-cpu", "0.1"])
        evidence, = self.notes(limited, "processor_bound")
        self.assertGreater(evidence["waited_ms"], 1000)
        self.assertGreater(limited["run"]["dropped"].get("ring_full", 0), 0)
        self.assertTrue(limited["run"]["complete"])
        self.assertGreater(limited["ranks"][0]["cpu_s"], 5.9)
        free = self.recorded(command, options=options, run="free")
        self.assertEqual(self.notes(free, "processor_bound"), [])

    def test_memory_limit_of_the_job(self):
        """Near the limit the collector takes no more, and what it knows is in the run directory at once."""
        limit, share = 1 << 30, 0.958  # the collector acts at 0.95, and a checkpoint takes some 10 MB
        with open("/proc/meminfo") as file:
            free_kb = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
        if free_kb * 1024 < 3 * limit:
            self.skipTest("there is too little memory")
        group = MemoryGroup(self, limit)
        self.write("fills.py", FILLS)
        go = os.path.join(self.directory, "go")
        process = self.start("fills.py", group.path, group.used_file, ",".join(group.droppable), str(share),
                             str(limit), go, before=group.enter())
        report = self.await_that(lambda: self.shards() and self.report_now(), process)
        self.assertEqual(self.notes(report, "job_memory_short"), [{"limit_bytes": limit}])
        self.assertFalse(report["run"]["complete"])
        self.write("go", "")
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0)
        report = self.report()
        self.assertTrue(report["run"]["complete"])
        self.assertEqual(self.notes(report, "job_memory_short"), [{"limit_bytes": limit}])

    def test_local_checkpoints_at_sigterm(self):
        """What a collector knows when it is told to end is in the run directory, although its program goes on."""
        self.write("waits.py", WAITS)
        begin = time.monotonic()
        process = self.start("waits.py", "0.5", os.path.join(self.directory, "go"))
        self.await_that(lambda: os.path.exists(os.path.join(self.directory, "worked")), process)
        self.await_that(lambda: glob.glob(os.path.join(self.disk, "clusterprof-*", "*.h5")), process)
        self.assertEqual(self.shards(), [])
        collector, = [pid for pid, words in recording.processes() if recording.is_collector(words, self.run_directory)]
        told_s = time.monotonic() - begin
        os.kill(collector, signal.SIGTERM)
        report = self.await_that(lambda: self.shards() and self.report_now(), process)
        # Not what it writes at its end, 30 s later.
        self.assertLess(report["ranks"][0]["elapsed_s"], told_s + 20)
        self.assertFalse(report["run"]["complete"])
        self.assertGreater(self.function(report, "work")["total_s"], 0.4)
        self.write("go", "")
        self.assertEqual(process.wait(timeout=PATIENCE_S), 0)
        self.await_last_shard()
        self.assertTrue(self.report()["run"]["complete"])
        self.assertEqual(glob.glob(os.path.join(self.disk, "clusterprof-*", "*")), [])


if __name__ == "__main__":
    recording.main()
