"""`clusterprof whatif` predicts what programs take in which the change is really made: solve() takes half as long, rank 1 as long as
the others, a barrier is gone. The programs sleep for work and measure their own times. bench/whatif.py has all patterns, on both MPIs."""

import json
import subprocess

import jsonschema

import recording

RATE_HZ = 500
RANKS = 4
CHANGES = {"half": "function solve x0.5", "equal": "rank 1 = mean"}


class WhatIf(recording.RecordingTest):
    def own_time(self, done):
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return json.loads(done.stdout)["elapsed_s"]

    def whatif(self, run, *options, status=0):
        done = subprocess.run([recording.CLUSTERPROF, "whatif", f"{self.directory}/{run}", "--json", *options],
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        if status:
            return done.stderr.decode()
        result = json.loads(done.stdout)
        with open(f"{recording.SOURCE}/report/json/whatif.schema.json", encoding="utf-8") as file:
            jsonschema.validate(result, json.load(file), jsonschema.Draft7Validator)
        return result

    def compare(self, flavour, pattern, kind, change=None):
        program = recording.program(flavour, "whatif")
        self.need(program)
        run = f"{flavour}-{pattern}-{kind}"
        before = self.own_time(self.record([program, pattern, "none"], before=recording.launcher(flavour, RANKS),
                                           options=["-q", "-r", str(RATE_HZ)], run=run))
        after = self.own_time(self.bare([*recording.launcher(flavour, RANKS), program, pattern, kind]))
        result = self.whatif(run, "--change", change or CHANGES[kind])
        self.assertAlmostEqual(result["replayed_s"], result["elapsed_s"], delta=0.01 * result["elapsed_s"])
        gain = result["elapsed_s"] - result["predicted_s"]
        # The change must show, or it would be no test: a third of what the ranks took at least.
        self.assertGreater(before - after, 0.1 * before, "what was really gained")
        self.measured_near(gain, before - after, max(0.05 * before, result["error_s"]), f"gain of {run}")

    def test_one_slow_rank_as_the_others(self):
        self.compare("openmpi", "allreduce", "equal")

    def test_half_the_work_of_a_pipeline(self):
        self.compare("mpich", "pipeline", "half")

    def test_half_the_work_between_halo_exchanges(self):
        self.compare("openmpi", "halo", "half")

    def test_half_the_work_of_receivers_of_large_messages(self):
        self.compare("mpich", "rendezvous", "half")

    def test_without_a_barrier(self):
        with open(f"{recording.SOURCE}/tests/truth/programs/whatif.c", encoding="utf-8") as file:
            line = next(n for n, text in enumerate(file, 1) if "if (!nobarrier)" in text)
        self.compare("openmpi", "barrier", "nobarrier", f"call MPI_Barrier whatif.c:{line} removed")

    def test_ranking(self):
        program = recording.program("openmpi", "whatif")
        self.need(program)
        done = self.record([program, "allreduce", "none"], before=recording.launcher("openmpi", RANKS),
                           options=["-q", "-r", str(RATE_HZ)])
        before = self.own_time(done)
        result = self.whatif("run")
        self.assertIsNone(result["predicted_s"])
        gains = {row["change"]: row["gain_s"] for row in result["candidates"]}
        self.assertEqual(list(gains.values()), sorted(gains.values(), reverse=True))
        # Two thirds of the time in which only rank 1 works.
        self.measured_near(gains["rank 1 = mean"], before * 2 / 3, 0.1 * before, "gain of rank 1 = mean")
        self.assertIn("rank 1 = mean", subprocess.run([recording.CLUSTERPROF, "whatif", f"{self.directory}/run"],
                                                      capture_output=True, timeout=60, check=True).stdout.decode())
        self.assertIn("no such function", self.whatif("run", "--change", "function nothing x0", status=1))
        self.assertIn("is no change", self.whatif("run", "--change", "faster", status=2))


if __name__ == "__main__":
    recording.main()
