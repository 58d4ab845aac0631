"""Four threads with known shares of the CPU time, in Python (programs/threads.py, on every CPython of this
machine, where they share the interpreter's lock) and in C (programs/native.c), and within each thread
two functions with known shares.

At 1 kHz by the wall clock, the CPU time of the call paths is compared, because threads spend much of the wall
time waiting for the lock or a core. At 100 Hz by the CPU clock, the time itself is compared. A share may be
off by 2 points, by 3 in the recursion at 100 Hz. Within one thread n samples decide, so there it may be off
by three times the sampling error sqrt(0.6 * 0.4 / n), if that is more.
"""

import math
import os
import subprocess

import recording
import truth

THREADS = ("forty", "thirty", "twenty", "ten")
PARTS = {"major": ("major", "major_part"), "minor": ("minor", "minor_part")}


def sums(paths, value):
    """{"thread part": sum of value(path)}, of the call paths that have both a thread and a part."""
    found = {}
    for path in paths:
        names = {frame.name for frame in path.frames}
        for thread in THREADS:
            for part, functions in PARTS.items():
                if thread in names and names.intersection(functions):
                    key = f"{thread} {part}"
                    found[key] = found.get(key, 0.0) + value(path)
    return found


class ThreadsTest(truth.TruthTest):  # tests/CMakeLists.txt names the classes
    def compare_threads(self, version, what, own, seen, samples=None):
        def per_thread(of):
            return {thread: sum(of.get(f"{thread} {part}", 0.0) for part in PARTS) for thread in THREADS}

        def per_part(of):
            return {part: sum(of.get(f"{thread} {part}", 0.0) for thread in THREADS) for part in PARTS}

        self.compare_shares(version, f"{what}, threads", per_thread(own), per_thread(seen))
        self.compare_shares(version, f"{what}, functions", per_part(own), per_part(seen))
        for thread in THREADS if samples else ():
            taken = sum(samples.get(f"{thread} {part}", 0) for part in PARTS)
            self.compare(version, f"{what}, major within {thread}", own[f"{thread} major"] / per_thread(own)[thread],
                         seen.get(f"{thread} major", 0.0) / per_thread(seen)[thread],
                         max(truth.POINTS, 3 * math.sqrt(0.6 * 0.4 / max(taken, 1))))

    def native(self, options, mode, seconds):
        self.need("cc")
        program = os.path.join(self.directory, "native")
        subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-pthread", os.path.join(truth.PROGRAMS, "native.c"),
                        "-o", program], check=True)
        return self.recorded_truth([program, mode], truth.seconds("system", seconds, seconds), options)


class Threads(ThreadsTest):
    def check(self, version, python):
        own, report, paths = self.recorded_truth([python, os.path.join(truth.PROGRAMS, "threads.py")],
                                                 truth.seconds(version, 5, 3), ["-r", "1000"])
        self.compare_threads(version, "CPU time", own, sums(paths, lambda path: path.cpu_s),
                             sums(paths, lambda path: path.samples))
        # What is neither idle nor ready without a processor ran, and so did what is in the system call that hands the
        # lock over, which counts as idle: no less than the CPU time. Without the latter it is no more than the time there
        # is, all threads together, as only the thread that holds the lock runs.
        busy = [path for path in paths if path.category not in ("idle", "runnable")]
        busy_s = sum(sums(busy, lambda path: path.wall_s).values())
        handed_s = sum(sums([path for path in paths if path.category == "idle"], lambda path: path.cpu_s).values())
        cpu_s, elapsed_s = sum(own.values()), report["ranks"][0]["elapsed_s"]
        self.figure(python=version, what="not idle, by CPU time", expected=1.0, seen=busy_s / cpu_s)
        with self.subTest(python=version, what="not idle"):
            self.measured_above(busy_s + handed_s, 0.98 * cpu_s, "not idle")
            self.measured_below(busy_s, 1.05 * elapsed_s, "busy")


class NativeThreads(ThreadsTest):
    def test_native_wall(self):
        own, _, paths = self.native(["-r", "1000"], "threads", 5)
        self.compare_threads("C", "CPU time", own, sums(paths, lambda path: path.cpu_s),
                             sums(paths, lambda path: path.samples))

    def test_native_cpu_clock(self):
        own, _, paths = self.native(["-r", "100", "--clock", "cpu"], "threads", 8)
        self.compare_threads("C", "CPU clock at 100 Hz", own, sums(paths, lambda path: path.wall_s))


class Recursion(ThreadsTest):
    def check_depth(self, clock, what, options, seconds, tolerance):
        """Three functions below 40, 20 and no levels of recursion, without frame pointers."""
        own, report, paths = self.native(options, "depth", seconds)
        own = own[clock]
        total_s = {function["name"]: function["total_s"] for function in report["functions"]
                   if os.path.basename(function["module"] or "") == "native"}
        self.compare_shares("C", f"{what}", own, {part: total_s.get(part, 0.0) for part in own}, tolerance)
        self.compare("C", f"{what}: recursion counted once", 1.0, total_s["descend"] / (own["first"] + own["second"]),
                     0.03)
        for part, depth in (("first", 40), ("second", 20), ("third", 0)):
            chains = {tuple(frame.name for frame in path.frames if frame.module == "native") for path in paths
                      if any(frame.name == part for frame in path.frames)}
            chains = {chain[:chain.index(part)] for chain in chains}
            with self.subTest(what=f"{what}: callers of {part}"):
                self.assertEqual(chains, {("main", "depth") + ("descend",) * depth})

    def test_native_depth_wall(self):
        self.check_depth("wall", "depth, wall clock", ["-r", "1000"], 5, 0.02)

    def test_native_depth_cpu_clock(self):
        self.check_depth("cpu", "depth, CPU clock at 100 Hz", ["-r", "100", "--clock", "cpu"], 8, 0.03)


truth.per_python(Threads, Threads.check)

if __name__ == "__main__":
    recording.main()
