"""`clusterprof snapshot` keeps a profile of a run that goes on: it has what was done before, and not what came after. The
shards of the run are written every ten minutes, so without a request there would be nothing in them."""

import glob
import json
import os
import subprocess
import time

import recording

PROGRAM = """
import os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
directory = sys.argv[1]

def work(phase):
    used = time.thread_time()
    while not os.path.exists(os.path.join(directory, f"end-{phase}")):
        sum(range(20000))
        if time.thread_time() - used > 0.5:
            open(os.path.join(directory, f"in-{phase}-{world.rank}"), "w").close()
    world.Barrier()

def first():
    work("first")

def second():
    work("second")

first()
second()
"""
PATIENCE_S = 120


class Snapshot(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.need("mpirun.openmpi")
        if subprocess.run([recording.PYTHON, "-c", "import mpi4py"], capture_output=True).returncode != 0:
            self.skipTest("mpi4py is not here")
        self.run_directory = os.path.join(self.directory, "run")
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        wrapper = os.path.join(self.directory, "as_node")
        with open(wrapper, "w") as file:
            file.write("#!/bin/sh\nCLUSTERPROF_NODE=part$OMPI_COMM_WORLD_RANK exec \"$@\"\n")
        os.chmod(wrapper, 0o755)
        self.process = subprocess.Popen(
            [*recording.launcher("openmpi", 2), wrapper, recording.CLUSTERPROF, "--checkpoint", "600", "-o", self.run_directory,
             recording.PYTHON, script, self.directory],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.end)

    def end(self):
        script = os.path.join(self.directory, "program.py")
        recording.end_job(self.process, lambda words: words[:2] == [recording.PYTHON, script], PATIENCE_S)

    def await_phase(self, phase):
        names = [os.path.join(self.directory, f"in-{phase}-{rank}") for rank in range(2)]
        deadline = time.monotonic() + PATIENCE_S
        while not all(map(os.path.exists, names)):
            self.assertLess(time.monotonic(), deadline, phase)
            self.assertIsNone(self.process.poll(), "the program has ended")
            time.sleep(0.05)

    def leave(self, phase):
        open(os.path.join(self.directory, f"end-{phase}"), "w").close()

    def snapshot(self, *options, status=0):
        done = subprocess.run([recording.CLUSTERPROF, "snapshot", self.run_directory, *options], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout, done.stderr

    def seconds_in(self, report):
        return {function["name"]: function["total_s"] for function in report["functions"]}

    def test_keeps_what_was_until_then(self):
        self.await_phase("first")
        # The first shards are written after a second.
        deadline = time.monotonic() + PATIENCE_S
        while len(glob.glob(os.path.join(self.run_directory, "node-*.h5"))) < 2:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        said, _ = self.snapshot()
        self.assertRegex(said, r"^\S+/run\.snapshot-1: 2 ranks, 2 nodes, as of [0-9-]+ [0-9:]+ UTC\n$")
        self.leave("first")
        self.await_phase("second")
        other = os.path.join(self.directory, "other")
        self.snapshot("-o", other)
        _, complaint = self.snapshot("-o", other, status=2)
        self.assertRegex(complaint, "File exists")
        # Nothing of this is in the way of the run.
        self.assertEqual(glob.glob(os.path.join(self.run_directory, "profile.h5")), [])
        self.leave("second")
        _, stderr = self.process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.process.returncode, 0, stderr.decode(errors="replace"))
        self.await_last_shard()
        self.assertFalse(os.path.exists(os.path.join(self.run_directory, ".control")), "a merge removes it")

        first, second, whole = self.report("run.snapshot-1"), self.report("other"), self.report("run")
        for report in first, second:
            self.assertEqual(report["run"]["state"], "running")
            self.assertFalse(report["run"]["complete"])
            self.assertIsNotNone(report["run"]["snapshot_utc"])
            self.assertIn("snapshot", {note["code"] for note in report["run"]["note_records"]})
            self.assertEqual([rank["exit"]["lost"] for rank in report["ranks"]], [False, False])
        self.assertEqual((whole["run"]["state"], whole["run"]["snapshot_utc"]), ("ended", None))
        self.measured_above(self.seconds_in(first)["first"], 0.8, "first()")
        self.assertNotIn("second", self.seconds_in(first))
        self.measured_above(self.seconds_in(second)["second"], 0.8, "second()")
        self.assertLessEqual(first["run"]["elapsed_s"], second["run"]["elapsed_s"])
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "other")], capture_output=True, text=True)
        self.assertIn("snapshot while running, as of", text.stdout)
        listed = json.loads(subprocess.run([recording.CLUSTERPROF, "ls", "--json", self.directory], capture_output=True,
                                           text=True).stdout)["runs"]
        self.assertEqual({run["run"]: run["snapshot_utc"] is not None for run in listed},
                         {"run": False, "run.snapshot-1": True, "other": True})

        _, complaint = self.snapshot(status=1)
        self.assertRegex(complaint, "has ended")


if __name__ == "__main__":
    recording.main()
