"""A thread takes turns at Python, native code, sleeping, waiting for a lock, file input and output and
system calls (programs/parts.py), 0.2 s each, and times each by its own clock. At 1 kHz, each part's share of
the time must be in the category that it belongs to, within 2 points; on every CPython of this machine.

The watcher looks at a blocked thread every 10 to 40 ms, and the timer of a thread that goes on starts again
only then. So about 20 of the 200 ms of each block are uncertain. A thread that blocks again after less than
30 us of work is not noticed as running at all (docs/accuracy.md)."""

import os

import recording
import truth

CATEGORIES = {"python_part": "python", "native_part": "native", "sleep_part": "idle", "lock_part": "idle",
              "io_part": "io", "system_part": "system"}


class Parts(truth.TruthTest):
    def check(self, version, python):
        own, report, paths = self.recorded_truth([python, os.path.join(truth.PROGRAMS, "parts.py")],
                                                 truth.seconds(version, 6, 4), ["-r", "1000"])
        in_part = dict.fromkeys(own, 0.0)
        in_category = dict.fromkeys(own, 0.0)
        runnable = dict.fromkeys(own, 0.0)  # other programs had the processor: the part's own clock went on
        for path in paths:
            for part in own if path.main_thread else ():
                if part in path.names("parts.py"):
                    in_part[part] += path.wall_s
                    if path.category == CATEGORIES[part]:
                        in_category[part] += path.wall_s
                    elif path.category == "runnable":
                        runnable[part] += path.wall_s
        self.compare_shares(version, "function", own, in_part)
        ready_or_there = {part: in_category[part] + runnable[part] for part in own}
        self.compare_shares(version, "category by function", own, ready_or_there)

        # The main thread as a whole, with the interpreter's start and end, which belong to no part.
        rank = report["ranks"][0]
        parts_s = sum(own.values())
        outside = (rank["elapsed_s"] - parts_s) / rank["elapsed_s"]
        had_processor_s = parts_s - sum(runnable.values())
        for category in sorted(set(CATEGORIES.values())):
            expected_s = sum(own_s - runnable[part] for part, own_s in own.items() if CATEGORIES[part] == category)
            self.compare(version, f"rank: {category}", expected_s / had_processor_s,
                         rank[f"{category}_s"] / (rank["elapsed_s"] - (rank["runnable_s"] or 0)), truth.POINTS + outside)


truth.per_python(Parts, Parts.check)

if __name__ == "__main__":
    recording.main()
