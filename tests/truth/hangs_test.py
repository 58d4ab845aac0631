"""Jobs that hang in a way that is known by construction (programs/hangs.c): what `clusterprof stacks` says while they hang, and
what the report says once the job was killed. A rank that computes is waited for as well, and that is no deadlock."""

import json
import os
import re
import signal
import subprocess
import time

import recording

LATEST_S = 150  # until a verdict is there: 5 s without a move, and a checkpoint, on a machine that is busy


class Hanging:
    """A job that hangs, and what is said of it."""

    def __init__(self, test, run, before, command, **environment):
        self.test = test
        self.run = os.path.join(test.directory, run)
        self.command = command
        self.process = subprocess.Popen([*before, recording.CLUSTERPROF, "-o", self.run, *command], cwd=test.directory,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                                        env=dict(os.environ, **environment))
        test.addCleanup(self.end)

    def end(self):
        # Launchers have the same words behind their own.
        recording.end_job(self.process, lambda words: words[:-1] == self.command)

    def stacks(self, *options):
        done = subprocess.run([recording.CLUSTERPROF, "stacks", self.run, *options], capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def await_stacks(self, condition):
        deadline = time.monotonic() + LATEST_S
        said = ""
        while time.monotonic() < deadline:
            said = self.stacks("--json")
            if said and condition(json.loads(said)):
                return json.loads(said)
            time.sleep(0.5)
        self.test.fail(f"{self.run}: {said[:4000]}")

    def await_text(self, pattern):
        """As a reader sees it, who asks again where there is no answer."""
        deadline = time.monotonic() + LATEST_S
        while not re.search(pattern, said := self.stacks()):
            self.test.assertLess(time.monotonic(), deadline, f"{self.run}: no {pattern} in {said[:4000]}")
            time.sleep(0.5)

    def report_after_end(self):
        self.end()
        self.test.await_last_shard(os.path.basename(self.run))
        return self.test.report(os.path.basename(self.run))


class Hangs(recording.RecordingTest):
    def hanging(self, kind, flavours=("openmpi", "mpich"), **environment):
        jobs = []
        for flavour in flavours:
            program = recording.program(flavour, "hangs")
            self.need(program)
            run = f"{kind}-{flavour}"
            jobs.append(Hanging(self, run, recording.launcher(flavour, 3),
                                [program, kind, os.path.join(self.directory, run)], **environment))
        return jobs

    def check_deadlock(self, kind, check, flavours=("openmpi", "mpich"), **environment):
        for job in self.hanging(kind, flavours, **environment):
            with self.subTest(job.run):
                said = job.await_stacks(lambda said: said["failure"] is not None)
                self.assertEqual(said["schema"], "clusterprof.stacks/1")
                self.assertEqual(said["state"], "running")
                self.assertEqual(said["failure"]["kind"], "deadlock")
                check(said["failure"])
                sizes = [len(row["ranks"]) for row in said["classes"]]
                self.assertEqual(sizes, sorted(sizes))
                self.assertEqual({rank for row in said["classes"] for rank in row["ranks"]}, {0, 1, 2})
                job.await_text(r"(?m)^Deadlock: ")
                report = job.report_after_end()
                self.assertEqual(report["findings"][0]["kind"], "deadlock", report["findings"])
                self.assertEqual(report["findings"][0]["rank"], report["failure"]["rank"])
                check(report["failure"])

    def check_barrier(self, kind, state, function):
        def check(failure):
            self.assertEqual((failure["rank"], failure["function"], failure["cycle"], failure["mismatch"]),
                             (2, function, [], []))
            waiting, = failure["waiting"]
            self.assertEqual((waiting["ranks"], waiting["op"], waiting["function"], waiting["missing_ranks"]),
                             ([0, 1], "MPI_Barrier", "wait_in_barrier", [2]), failure)
            self.assertEqual((waiting["communicator"], waiting["sequence"]), ("MPI_COMM_WORLD", 1))
            self.assertGreaterEqual(waiting["for_s"], 5)
            missing, = waiting["missing"]
            self.assertEqual((missing["ranks"], missing["state"], missing["function"]), ([2], state, function))

        self.check_deadlock(kind, check)

    def test_asleep(self):
        self.check_barrier("asleep", "asleep", "be_asleep")

    def test_loop(self):
        self.check_barrier("loop", "in_loop", "spin")

    def test_lock(self):
        self.check_barrier("lock", "blocked", "lock_twice")

    def test_finalize(self):
        def check(failure):
            self.assertEqual(failure["rank"], 2)
            waiting = failure["waiting"][0]
            self.assertEqual((waiting["ranks"], waiting["op"], waiting["missing_ranks"]), ([0, 1], "MPI_Recv", [2]))
            # A library may let it end.
            self.assertIn(waiting["missing"][0]["state"], ("in_finalize", "ended"))

        self.check_deadlock("finalize", check)

    def test_cycle(self):
        def check(failure):
            self.assertEqual(failure["cycle"], [0, 2, 1])
            self.assertEqual({(row["op"], row["function"]) for row in failure["waiting"]}, {("MPI_Recv", "wait_for")})

        self.check_deadlock("cycle", check)

    # MPICH gives the messages of different operations the same tags, so that they may be taken for each other.
    def test_mismatch(self):
        def check(failure):
            self.assertEqual([(row["ranks"], row["op"]) for row in failure["mismatch"]],
                             [([2], "MPI_Bcast"), ([0, 1], "MPI_Allreduce")])
            self.assertEqual(failure["rank"], 2)

        self.check_deadlock("mismatch", check, ("openmpi",))

    # Two roots wait for data. Whether rank 1 has sent its own to rank 0, and left, is the library's affair.
    def test_roots(self):
        def check(failure):
            self.assertEqual({row["op"] for row in failure["mismatch"]}, {"MPI_Reduce"})
            ranks = {row["root"]: row["ranks"] for row in failure["mismatch"]}
            self.assertEqual((ranks.keys(), ranks[2]), ({0, 2}, [2]))
            self.assertIn(0, ranks[0])

        self.check_deadlock("roots", check)

    # The root sends one piece of 40 bytes, the others wait for four of 1024 at most. MPICH ends the job by an error (truth.mistakes).
    def test_sizes(self):
        def check(failure):
            self.assertEqual([(row["ranks"], row["op"], row["root"], row["bytes"]) for row in failure["mismatch"]],
                             [([0], "MPI_Bcast", None, 40), ([1, 2], "MPI_Bcast", None, 4000)])
            self.assertEqual(failure["rank"], 0)
            waiting = failure["waiting"][0]
            self.assertEqual((waiting["ranks"], waiting["op"], waiting["function"], waiting["sequence"]),
                             ([1, 2], "MPI_Bcast", "broadcast", 1))

        self.check_deadlock("sizes", check, ("openmpi",), OMPI_MCA_coll_tuned_use_dynamic_rules="1", OMPI_MCA_coll_tuned_bcast_algorithm="3",
                            OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize="1024")

    def test_computes(self):
        for job in self.hanging("computes"):
            with self.subTest(job.run):
                def is_there(said):
                    self.assertIsNone(said["failure"])
                    return said["waiting"] and said["waiting"][0]["for_s"] > 8
                said = job.await_stacks(is_there)
                waiting, = said["waiting"]
                self.assertEqual((waiting["ranks"], waiting["missing_ranks"]), ([0, 1], [2]))
                self.assertEqual(waiting["missing"][0]["state"], "computes")
                job.await_text(r"(?m)^Ranks 0, 1 wait in MPI_Barrier .* for rank 2, which computes in ")
                report = job.report_after_end()
                # That of the rank that was killed; nothing where the launcher ended the others by the same signal.
                if report["failure"] is not None:
                    self.assertEqual((report["failure"]["kind"], report["failure"]["signal"]), ("signal", signal.SIGKILL))
                self.assertNotIn("deadlock", {finding["kind"] for finding in report["findings"]})


PYTHON_PROGRAM = """import sys, time
from mpi4py import MPI
def lost():
    time.sleep(600)
def main():
    if MPI.COMM_WORLD.rank == 2:
        lost()
    MPI.COMM_WORLD.Barrier()
main()
"""


class PythonHangs(recording.RecordingTest):
    def test_asleep(self):
        if subprocess.run([recording.PYTHON, "-c", "import mpi4py"], capture_output=True).returncode != 0:
            self.skipTest("mpi4py is not here")
        script = os.path.join(self.directory, "train.py")
        with open(script, "w") as file:
            file.write(PYTHON_PROGRAM)
        job = Hanging(self, "python", recording.launcher("openmpi", 4),
                      [recording.PYTHON, script, os.path.join(self.directory, "python")])
        failure = job.await_stacks(lambda said: said["failure"] is not None)["failure"]
        self.assertEqual((failure["rank"], failure["function"], os.path.basename(failure["file"]), failure["line"]),
                         (2, "lost", "train.py", 4))
        waiting, = failure["waiting"]
        self.assertEqual((waiting["ranks"], waiting["op"], waiting["function"], waiting["line"]),
                         ([0, 1, 3], "MPI_Barrier", "main", 8))
        job.await_text(r"Deadlock: ranks 0, 1, 3 wait in MPI_Barrier \(train.py:8\) on MPI_COMM_WORLD, operation \d+, "
                       r"for rank 2, which is in lost\(\) train.py:4, asleep for ")


if __name__ == "__main__":
    recording.main()
