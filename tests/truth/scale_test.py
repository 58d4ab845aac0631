"""Runs of a program at 1, 2, 4 and 8 ranks whose functions take times that follow known laws: `clusterprof scale` finds these
laws, and the times that the program itself measured. The runs are made by `clusterprof run`."""

import json
import os
import subprocess

import jsonschema

import measured
import recording

SIZES = (1, 2, 4, 8)
EXPONENTS = {"shrinking": -1, "constant": 0, "linear": 1}
RATE_HZ = 500
TIMES = 3  # as long as programs/scaling.c says
# A thread that hardly runs between two sleeps may be seen in the second one so late.
LATE_S = 0.04


class Scale(recording.RecordingTest):
    def test_laws_of_a_program(self):
        program = recording.program("openmpi", "scaling")
        self.need(program)
        said, runs = {}, []
        for ranks in SIZES:
            name = os.path.join(self.directory, f"ranks-{ranks}")
            done = subprocess.run(
                [recording.CLUSTERPROF, "run", "-q", "-r", str(RATE_HZ), "-o", name, "--",
                 *recording.launcher("openmpi", ranks), program, str(TIMES)],
                cwd=self.directory, capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
            said[ranks] = json.loads(done.stdout)
            runs.append(name)
        # In any order.
        done = subprocess.run([recording.CLUSTERPROF, "scale", *reversed(runs), "--json"], capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        result = json.loads(done.stdout)
        with open(f"{recording.SOURCE}/report/json/scale.schema.json", encoding="utf-8") as file:
            jsonschema.validate(result, json.load(file), jsonschema.Draft7Validator)
        self.assertEqual([run["p"] for run in result["runs"]], list(SIZES))
        functions = {row["name"]: row for row in result["functions"]}
        for ranks in SIZES:
            own, seen = ({name: of(name) for name in EXPONENTS} for of in (
                said[ranks].get, lambda name: functions[name]["rank_time_s"][str(ranks)]))
            error_s = 3 * measured.block_error(4 * ranks, 1 / RATE_HZ, 1) / ranks
            all_s = sum(own.values())
            self.measured_near(sum(seen.values()), all_s, error_s + 0.02 * all_s, f"the functions together on {ranks} ranks")
            for name, own_s in own.items():
                self.measured_near(seen[name], own_s, error_s + LATE_S + 0.02 * own_s, f"{name}() on {ranks} ranks")
        for name, exponent in EXPONENTS.items():
            row = functions[name]
            # What the program itself measured decides: on a busy machine constant() need not be constant.
            times = [said[ranks][name] for ranks in SIZES]
            truly = [TIMES * (1.6 / p if exponent == -1 else 0.4 if exponent == 0 else 0.1 * p) for p in SIZES]
            if any(abs(time - true) > 0.05 * true for time, true in zip(times, truly)):
                continue
            self.assertIsNotNone(row["law"], row)
            self.measured_near(row["law"]["exponent"], exponent, 0.25, f"exponent of {name}() by {times}")
            self.measured_below(row["law"]["ci"][0], exponent + 0.05, f"{name}(), the confidence interval's lower end")
            self.measured_above(row["law"]["ci"][1], exponent - 0.05, f"{name}(), the confidence interval's upper end")
        text = subprocess.run([recording.CLUSTERPROF, "scale", *runs], capture_output=True, timeout=60, check=True)
        self.assertIn(b"linear()", text.stdout)


if __name__ == "__main__":
    recording.main()
