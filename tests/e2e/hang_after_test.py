"""--hang-after: a job of two nodes that hangs by construction (truth/programs/hangs.c) is told of once, and ended with
--hang-abort; one that waits for a rank which computes, in one function and for longer than that, is left alone."""

import json
import os
import signal
import subprocess
import time

import recording

PATIENCE_S = 150
AFTER_S = 10  # longer than MPI_Init takes on a slow machine: a single call that lasts longer is no progress
LOOKS_S = 15  # in which there are two looks more at least (HangSchedule)


class HangAfter(recording.RecordingTest):
    def begin(self, kind, *options):
        program = recording.program("openmpi", "hangs")
        self.need(program, "mpirun.openmpi")
        self.run_directory = os.path.join(self.directory, "run")
        wrapper = os.path.join(self.directory, "as_node")
        with open(wrapper, "w") as file:
            file.write("#!/bin/sh\nCLUSTERPROF_NODE=part$((OMPI_COMM_WORLD_RANK % 2)) exec \"$@\"\n")
        os.chmod(wrapper, 0o755)
        self.command = [program, kind, self.run_directory]
        self.stderr = open(os.path.join(self.directory, "stderr"), "w+b")
        self.addCleanup(self.stderr.close)
        self.process = subprocess.Popen(
            [*recording.launcher("openmpi", 3), wrapper, recording.CLUSTERPROF, "--hang-after", str(AFTER_S), *options,
             "-o", self.run_directory, *self.command],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=self.stderr, start_new_session=True)
        self.addCleanup(self.end)

    def is_rank(self, words):
        return words[:-1] == self.command

    def end(self):
        recording.end_job(self.process, self.is_rank, PATIENCE_S)

    def has_ended(self):
        """Or its launcher hangs without ranks: tests/mpi_defects."""
        return self.process.poll() is not None or not any(self.is_rank(words) and not recording.has_ended(pid)
                                                          for pid, words in recording.processes())

    def said(self):
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace")

    def has_told(self):
        """The whole line: the launcher passes it on as it comes."""
        return "\n" in self.said().partition("No rank has made progress")[2]

    def await_(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what}: {self.said()[-4000:]}")
            time.sleep(0.2)

    VERDICT = (r"clusterprof: No rank has made progress for [0-9.]+ s\. Deadlock: ranks 0, 1 wait in MPI_Barrier .* for rank 2, "
               r"which is in be_asleep\(\)")

    def check_report(self, code):
        self.await_last_shard()
        report = self.report()
        self.assertEqual(report["failure"]["kind"], "deadlock", report["findings"])
        self.assertEqual((report["failure"]["rank"], report["failure"]["function"]), (2, "be_asleep"))
        self.assertEqual(report["findings"][0]["kind"], "deadlock")
        self.assertNotIn("rank_failed", {finding["kind"] for finding in report["findings"]})
        notes = [note for note in report["run"]["note_records"] if note["code"] in ("no_progress", "ended_for_hang")]
        self.assertEqual([note["code"] for note in notes], [code])
        self.assertGreaterEqual(notes[0]["evidence"]["seconds"], AFTER_S)
        with open(os.path.join(self.run_directory, "hang.txt")) as file:
            self.assertRegex(file.read(), r"(?m)^Deadlock: ranks 0, 1 wait in MPI_Barrier")
        return report

    def test_told_once(self):
        self.begin("asleep")
        self.await_(self.has_told, "no verdict")
        self.assertRegex(self.said(), self.VERDICT)
        # Longer than until another look; the ranks go on hanging.
        time.sleep(LOOKS_S)
        self.assertIsNone(self.process.poll(), "nobody has asked to end them")
        self.end()
        self.assertEqual(self.said().count("No rank has made progress"), 1)
        self.check_report("no_progress")

    def test_aborted(self):
        bystander = subprocess.Popen(self.command_like_a_rank())
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        self.begin("asleep", "--hang-abort")
        self.await_(lambda: self.has_told() or self.process.poll() is not None, "no verdict")
        self.await_(self.has_ended, "the ranks do not end")
        self.end()
        self.assertNotEqual(self.process.returncode, 0)
        self.assertRegex(self.said(), self.VERDICT)
        report = self.check_report("ended_for_hang")
        self.assertIn(signal.SIGABRT, {rank["exit"]["signal"] for rank in report["ranks"]})
        self.assertIsNone(bystander.poll(), "it is no rank")

    def command_like_a_rank(self):
        return [recording.PYTHON, "-c", "import time; time.sleep(600)"]

    # Rank 2 computes in one function; the others wait for it in the same call all the time.
    def test_computes(self):
        self.begin("computes", "--hang-abort")
        self.await_(lambda: os.path.exists(os.path.join(self.run_directory, "node-part0.h5")), "no shard")

        def waits_for_long():
            done = subprocess.run([recording.CLUSTERPROF, "stacks", "--json", self.run_directory], capture_output=True, text=True,
                                  timeout=60)
            if done.returncode != 0:
                return False
            waiting = json.loads(done.stdout)["waiting"]
            return bool(waiting) and waiting[0]["for_s"] > AFTER_S + LOOKS_S

        self.await_(waits_for_long, "they do not wait")
        self.assertIsNone(self.process.poll())
        self.assertNotIn("No rank has made progress", self.said())
        self.end()
        self.await_last_shard()
        report = self.report()
        self.assertNotIn("no_progress", {finding["kind"] for finding in report["findings"]})
        self.assertFalse(os.path.exists(os.path.join(self.run_directory, "hang.txt")))


if __name__ == "__main__":
    recording.main()
