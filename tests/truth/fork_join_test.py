# SPDX-License-Identifier: BSD-3-Clause
"""`clusterprof whatif` of threads that make and join each other, and of OpenMP regions with a last thread: what it predicts is
compared with runs in which the change is really made (programs/forkjoin.c). The runs take turns, and each says by its own clock how
long it took; what was gained has to be predicted within 5 % of the run. The shortest runs have least of what the machine makes
threads late by."""

import json
import os
import statistics
import subprocess

import recording
import truth

SOURCE = os.path.join(truth.PROGRAMS, "forkjoin.c")
PAIRS = 3
RATE_HZ = 250
CHANGES = {"half": "function solve x0.5", "equal": "balance function solve"}


class ForkJoin(recording.RecordingTest):
    def compiled(self, *options):
        program = os.path.join(self.directory, "forkjoin")
        self.need("gcc")
        done = subprocess.run(["gcc", "-O2", "-g", "-pthread", *options, SOURCE, "-o", program], capture_output=True, text=True)
        if done.returncode != 0 and "omp" in done.stderr:
            self.skipTest(f"gcc has no OpenMP: {done.stderr[:200]}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def elapsed_s(self, program, pattern, kind, run, unit_s=0.1):
        # Threads that wait for the next region would keep processors busy that the others need to wake up.
        done = self.record([program, pattern, kind, str(unit_s)], options=["-q", "-r", str(RATE_HZ)], run=run,
                           env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return json.loads(done.stdout)["elapsed_s"]

    def whatif(self, run, change):
        done = subprocess.run([recording.CLUSTERPROF, "whatif", os.path.join(self.directory, run), "--json", "--change", change],
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def compare(self, pattern, kind, *options):
        program = self.compiled(*options)
        before, after, predicted, errors = [], [], [], []
        for pair in range(PAIRS):
            run = f"{pattern}-{kind}-{pair}"
            before.append(self.elapsed_s(program, pattern, "none", run))
            after.append(self.elapsed_s(program, pattern, kind, run + "-changed"))
            result = self.whatif(run, CHANGES[kind])
            predicted.append(result["elapsed_s"] - result["predicted_s"])
            errors.append(result["error_s"])
        whole, gain = min(before), min(before) - min(after)
        # The change must show, or it would be no test.
        self.measured_above(gain, 0.1 * whole, f"what is really gained by {kind} of {pattern}")
        self.measured_near(statistics.median(predicted), gain, 0.05 * whole, f"gain by {kind} of {pattern}")
        # It is known that the others wait for what is changed: otherwise the gain would be in the error.
        self.measured_below(statistics.median(errors), 0.8 * gain, f"error of {kind} of {pattern}")

    def test_half_the_work_of_threads_that_are_joined(self):
        self.compare("workers", "half")

    def test_threads_that_are_joined_share_the_work(self):
        self.compare("workers", "equal")

    def test_half_the_work_of_a_thread_of_a_thread(self):
        self.compare("nested", "half")

    def test_half_the_work_of_a_loop(self):
        self.compare("loop", "half", "-fopenmp")

    def test_work_before_a_loop_is_not_the_loops(self):
        """loop() calls prepare(), and ends with the region: gcc jumps there, so that it is not on the region's stacks."""
        program = self.compiled("-fopenmp")
        rounds, unit_s = 4, 0.3
        self.elapsed_s(program, "loop", "none", "run", unit_s)
        result = self.whatif("run", "function prepare x0")
        # On a busy machine, the thread is not seen to run between the two waits, and the first has 40 ms of the second, or more.
        # If prepare() were taken for a part of the loop, nothing would be gained.
        expected_s = rounds * 0.5 * unit_s
        self.measured_near(result["elapsed_s"] - result["predicted_s"], expected_s, 0.5 * expected_s, "gain without prepare()")

    def test_the_threads_of_a_loop_share_the_work(self):
        self.compare("loop", "equal", "-fopenmp")

    def test_half_the_work_before_a_barrier_in_a_region(self):
        self.compare("phases", "half", "-fopenmp")


if __name__ == "__main__":
    recording.main()
