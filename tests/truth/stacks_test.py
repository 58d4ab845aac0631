"""No impossible call path appears, at 10 kHz. programs/toggle.py changes its call path every microsecond or so among
a few that are possible; programs/storm.py does so through C, with generators and exceptions. A single sample
that shows a caller, or a caller's line, with a callee that it does not call fails the test. On every CPython
of this machine. At least 99.9 % of the samples have Python and native frames joined, 99 % before Python 3.11.

CLUSTERPROF_TRUTH_RATE   another rate
"""

import os
import subprocess

import recording
import truth


class Stacks(truth.TruthTest):
    def check(self, version, python, program, contiguous):
        _, report, paths = self.recorded_truth([python, os.path.join(truth.PROGRAMS, program)],
                                               truth.seconds(version, 3, 1.5),
                                               ["-r", os.environ.get("CLUSTERPROF_TRUTH_RATE", "10000")])
        faults, cut, samples = truth.CallRules(program).judge(paths)
        if contiguous:  # nothing but Python calls Python here
            for path in paths:
                own = [index for index, frame in enumerate(path.frames) if frame.file == program]
                if own and own[-1] - own[0] >= len(own):
                    fault = "a native frame between Python functions that call each other"
                    faults[fault] = faults.get(fault, 0) + path.samples
        counted = self.quality()
        merged = 1 - counted["merges_failed"] / max(counted["merges_tried"], 1)
        self.figure(python=version, what=program, samples=samples, impossible=sum(faults.values()), merged=merged,
                    cut=counted["truncated"] / counted["samples"], dropped=sum(counted["dropped"].values()),
                    rate_hz=counted["samples"] / report["run"]["elapsed_s"])
        self.measured_above(samples, 500, "samples")
        self.assertEqual(faults, {}, f"of {samples} samples")
        self.assertLessEqual(cut, counted["truncated"], "call paths that lack their beginning are marked as cut")
        self.measured_below(counted["truncated"] / counted["samples"], 0.01, "cut")
        is_old = subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode != 0
        self.measured_above(merged, 0.99 if is_old else 0.999, "joined")


for name_, contiguous_ in (("toggle", True), ("storm", False)):
    for version_, python_ in truth.pythons():
        setattr(Stacks, f"test_{name_}_{version_.replace('.', '_')}",
                lambda self, version=version_, python=python_, program=name_ + ".py", contiguous=contiguous_:
                self.check(version, python, program, contiguous))

if __name__ == "__main__":
    recording.main()
