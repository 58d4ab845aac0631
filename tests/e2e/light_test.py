"""A light recording has MPI totals and categories, says that it is one, and claims nothing that it did not record."""

import os
import subprocess

import recording


class Light(recording.RecordingTest):
    def test_mpi(self):
        ranks = 2
        before = recording.launcher("openmpi", ranks)
        report = self.recorded([recording.PYTHON, "-c", PROGRAM], before=before, options=["--mode", "light"])
        self.assertEqual(report["run"]["rate_hz"], 20)
        note, = [note for note in report["run"]["note_records"] if note["code"] == "light_recording"]
        self.assertEqual(note["evidence"], {"rate_hz": 20})
        self.assertIn("light recording", " ".join(report["run"]["notes"]))
        self.assertNotIn("mpi_event_budget", report["run"]["dropped"])
        # What it has.
        self.assertEqual(sum(call["count"] for call in report["mpi"]["calls"] if call["op"] == "MPI_Barrier"), 300 * ranks)
        self.assertEqual([(cell["src"], cell["dst"], cell["messages"]) for cell in report["mpi"]["matrix"]], [(0, 1, 50)])
        for rank in report["ranks"]:
            self.assertGreater(rank["mpi_s"], 0)
            # About 20 per second, but one only for all the time in which it waits for a processor.
            self.assertGreater(rank["samples"], 0)
            self.assertLess(rank["samples"], 30 * rank["elapsed_s"] + 5)
            parts = {part: rank[f"{part}_s"] for part in ("python", "native", "system", "mpi", "io", "idle", "runnable")}
            self.assertNotIn(None, parts.values(), f"{parts}, from {rank['samples']} samples")
            self.assertAlmostEqual(sum(parts.values()), rank["elapsed_s"], delta=0.1)
        # What it cannot know is not there, and not 0.
        self.assertIsNone(report["wait_analysis"])
        for rank in report["ranks"]:
            self.assertIsNone(rank["mpi_wait_s"])
            self.assertIsNone(rank["mpi_transfer_s"])
        self.assertNotIn("waits", report["mpi"])
        self.assertTrue(all(call["wait_s"] is None for call in report["mpi"]["calls"]))
        for name in ("serialization", "transfer"):
            self.assertIsNone(report["efficiency"][name])
        self.assertEqual((report["counters"]["available"], report["counters"]["ranks"]), ([], []))
        self.assertFalse(os.path.exists(os.path.join(self.directory, "run", "report.html")))
        text = subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run")], capture_output=True,
                              text=True, check=True).stdout
        self.assertIn("light recording", text)
        self.assertNotIn("late sender", text)

    def test_what_is_asked_for_is_recorded(self):
        report = self.recorded([recording.PYTHON, "-c", "import time; time.sleep(0.3)"],
                               options=["--mode", "light", "-r", "50", "-e", "page-faults"])
        self.assertEqual(report["run"]["rate_hz"], 50)
        self.assertEqual(report["counters"]["available"], ["page-faults"])


PROGRAM = """
import sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
for i in range(50):
    if world.rank == 0: world.send(b"x", 1)
    else: world.recv(source=0)
# By the processor's time: there are samples of it however little of a busy machine the rank gets.
end = time.thread_time() + 1
while time.thread_time() < end: sum(range(10000))
for i in range(300): world.Barrier()
"""

if __name__ == "__main__":
    recording.main()
