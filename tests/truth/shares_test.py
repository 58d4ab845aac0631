"""Python functions, lines, recursion, callbacks from C, generators and coroutines with known shares of
the time (programs/shares.py), at 1 kHz, on every CPython of this machine.

A share may be off by 2 points. The parts are blocks of work of many sampling periods each, and one period
of each block is uncertain: for N blocks in T seconds that makes sqrt(N) / 2 ms / T, below half a point
here. Calls are exact: no call path shows a function below another that did not call it, or a line of
the caller that does not call it."""

import os

import recording
import truth

PARTS = {"split": ("heavy", "light"), "recursion": ("bottom", "middle"),
         "callbacks": ("sort_key", "reducer", "compare", "__del__", "crc"),
         "generators": ("innermost", "between", "outermost"), "coroutines": ("awaited", "awaiting", "driven"),
         "vectorize": ("element", "scalar")}
CALLED_BY_PARTS = {"outermost": "between", "between": "innermost", "driven": "awaiting", "awaiting": "awaited"}
DEEP_FRAMES = {"bottom": 900, "middle": 451}
LIBRARIES = {"crc": "libz.so", "element": "_multiarray_umath"}  # where these spend their time


class Shares(truth.TruthTest):
    def check(self, version, python):
        own, report, paths = self.recorded_truth([python, os.path.join(truth.PROGRAMS, "shares.py")],
                                                 truth.seconds(version, 7, 4), ["-r", "1000"])
        total_s = {}
        for function in report["functions"]:
            if os.path.basename(function["file"] or "") == "shares.py":
                name = function["name"].rsplit(".", 1)[-1]
                total_s[name] = total_s.get(name, 0.0) + function["total_s"]
        for caller, callee in CALLED_BY_PARTS.items():  # inclusive in the report, not in the program
            total_s[caller] -= total_s[callee]
        # A record holds what changed of a call path, so that those 900 deep do not fill the ring.
        counted = self.quality()
        with self.subTest(python=version, what="dropped"):
            # Samples that came while the agent itself looked at the call path of a file operation; those left out after one that
            # took long, as where another machine has the processor for a moment; and those for which a ring had no room, where the
            # collector had no processor for a second or two.
            for reason in ("reentrant", "throttled", "ring_full"):
                lost = counted["dropped"].pop(reason, 0)
                self.measured_below(lost, 0.01 * report["run"]["samples"], reason)
            self.assertEqual(counted["dropped"], {})
        for scenario, parts in PARTS.items():
            if parts[0] not in own:
                continue
            self.compare_shares(version, scenario, {part: own[part] for part in parts},
                                {part: total_s.get(part, 0.0) for part in parts})
        self.compare(version, "recursion: counted once", 1.0, total_s["deep"] / own["deep"], 0.03)

        parts = {part: line for line, part in truth.marked_lines("shares.py", "line").items()}
        self.compare_shares(version, "lines", {part: own[part] for part in parts},
                            {part: sum(row["total_s"] for row in report["lines"] if row["line"] == line and
                                       os.path.basename(row["file"]) == "shares.py") for part, line in parts.items()})

        faults, cut, samples = truth.CallRules("shares.py").judge(paths)
        with self.subTest(python=version, what="callers"):
            self.assertEqual(faults, {}, f"of {samples} samples")
            self.assertLessEqual(cut, counted["truncated"], "call paths that lack their beginning are marked as cut")
            self.measured_below(cut / samples, 0.01, "cut")
        self.check_depth(version, paths)
        self.check_native(version, paths)

    def check_depth(self, version, paths):
        for part, depth in DEEP_FRAMES.items():
            with self.subTest(python=version, what=f"depth of {part}"):
                seen = {names.count("deep") for names in (path.names("shares.py") for path in paths)
                        if part in names and names[0] == "<module>"}
                self.assertEqual(seen, {depth})

    def check_native(self, version, paths):
        """Callbacks from C show it: qsort above `compare`, and the libraries that parts spend their time in."""
        for path in paths:
            names = [frame.name for frame in path.frames]
            if "compare" in names:
                between = path.frames[names.index("by_qsort") + 1:names.index("compare")]
                with self.subTest(python=version, what="qsort above compare"):
                    self.assertTrue([frame for frame in between if frame.module.startswith("libc.so")], between)
        for part, library in LIBRARIES.items():
            of_part = [path for path in paths if part in path.names("shares.py")]
            in_library = [path for path in of_part if path.names("shares.py")[-1] == part and
                          any(frame.module.startswith(library) for frame in path.frames)]
            if of_part:
                # What remains is the loop around the calls.
                with self.subTest(python=version, what=f"{part} in {library}"):
                    part_s = sum(path.cpu_s for path in of_part)
                    self.measured_above(sum(path.cpu_s for path in in_library) / part_s, 0.85, f"{part} in {library}")


truth.per_python(Shares, Shares.check)

if __name__ == "__main__":
    recording.main()
