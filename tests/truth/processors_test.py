"""The time that a thread waits for a processor. Processes that spin on one processor know from their own clocks how long
they ran. Since they never block, they were runnable for the rest. Also: the CPU time of threads that end before their
first sample."""

import json
import os
import subprocess
import time
import unittest

import recording
import truth

# Spins for that long on the processor that it is told, from a time at which all do. What of its own time it did not
# run it was ready: it makes no system call in between.
SPIN = '''
import json, os, sys, time

def spin(until):
    total = 0
    while time.monotonic() < until:
        for i in range(2000):
            total += i & 3
    return total

processor, begin, length = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {processor})
time.sleep(max(0.0, begin - time.monotonic()))
wall, cpu = time.monotonic(), time.thread_time()
spin(begin + length)
wall, cpu = time.monotonic() - wall, time.thread_time() - cpu
with open("/proc/thread-self/schedstat") as file:
    delay = int(file.read().split()[1]) * 1e-9
print(json.dumps(dict(wall=wall, cpu=cpu, delay=delay)))
'''


def before_others():
    """The two share their processor with each other, not with whatever else this machine does: a thread that others
    keep waiting for half a second is not sampled in that time, and nobody knows where such a wait began."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass  # only root may: the test then needs an idle machine


def kernel_tells():
    try:
        with open("/proc/thread-self/schedstat") as file:
            return file.read().split()[2] != "0"
    except OSError:
        return False


@unittest.skipUnless(kernel_tells(), "the kernel does not account for waits for a processor")
class OneProcessor(recording.RecordingTest):
    LENGTH = 2.0

    def start(self, processor, begin, run):
        path = os.path.join(self.directory, "spin.py")
        with open(path, "w") as file:
            file.write(SPIN)
        return subprocess.Popen([recording.CLUSTERPROF, "-q", "-o", os.path.join(self.directory, run),
                                 recording.PYTHON, path, str(processor), str(begin), str(self.LENGTH)],
                                cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=before_others)

    def test_two_processes_on_one_processor(self):
        """A spinning thread's share is known to about half a period (5 ms) at either end of the 2 s and of Python's
        start, that is, 1 %; the tests allow 4. Half of the time of each is at stake."""
        processor = min(os.sched_getaffinity(0))
        begin = time.monotonic() + 3.0  # the same clock in all processes
        started = [self.start(processor, begin, run) for run in ("a", "b")]
        for run, process in zip(("a", "b"), started):
            out, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, error.decode())
            own = json.loads(out)
            report = self.report(run)
            rank = report["ranks"][0]
            with self.subTest(run=run, own=own, rank={k: v for k, v in rank.items() if k.endswith("_s")}):
                lacked = own["wall"] - own["cpu"]
                self.measured_above(lacked, 0.4 * own["wall"], "what the program itself lacked")
                spin = [row for row in report["functions"] if row["name"] == "spin"]
                self.assertEqual(len(spin), 1)
                self.measured_near(spin[0]["runnable_s"], lacked, 0.04 * own["wall"], "ready")
                self.measured_near(spin[0]["python_s"] + spin[0]["native_s"], own["cpu"], 0.04 * own["wall"], "running")
                self.measured_near(spin[0]["cpu_s"], own["cpu"], 0.04 * own["wall"], "CPU time")
                lines = [row for row in report["lines"] if row["function"] == "spin"]
                # A line has the time of what it calls that has no source lines, too: the clock.
                self.measured_near(sum(row["cpu_s"] for row in lines), own["cpu"], 0.04 * own["wall"], "CPU time")
                self.assertGreater(rank["runnable_s"], spin[0]["runnable_s"] - 1e-3)
                self.measured_below(rank["runnable_s"], own["delay"] + 0.04 * own["wall"], "ready, by the kernel")
                parts = sum(rank[f"{name}_s"] for name in ("python", "native", "system", "mpi", "io", "idle",
                                                           "runnable"))
                self.assertAlmostEqual(parts, rank["elapsed_s"], delta=0.011)

    def test_sleeping_thread_is_not_runnable(self):
        program = ("import time; time.sleep(1.5); "
                   "print(int(open('/proc/thread-self/schedstat').read().split()[1]) * 1e-9)")
        done = self.record([recording.PYTHON, "-c", program])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        rank = self.report()["ranks"][0]
        self.measured_above(rank["idle_s"], 1.45, "idle")
        self.measured_below(rank["runnable_s"], float(done.stdout) + 0.02, "ready")

    def test_not_known_with_the_cpu_clock(self):
        done = self.record([recording.PYTHON, "-c", "sum(range(3000000))"], options=["--clock", "cpu"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIsNone(self.report()["ranks"][0]["runnable_s"])


class ShortThreads(truth.TruthTest):
    def check(self, mode, threads, microseconds):
        self.need("cc")
        program = os.path.join(self.directory, "short_threads")
        subprocess.run(["cc", "-O2", "-g", "-pthread", os.path.join(truth.PROGRAMS, "short_threads.c"), "-o", program],
                       check=True)
        own, report, paths = self.recorded_truth([program, mode, str(threads)], str(microseconds), [])
        seen = sum(path.cpu_s for path in paths if any(frame.name == "burn" for frame in path.frames))
        # Each of them is charged in full: what is missing is what a thread does after its last look at its clock.
        self.measured_near(seen / own["burn"], 1.0, 0.1, "CPU time")
        return report

    def test_one_after_the_other(self):
        report = self.check("one", 1000, 2000)
        quality, rank = report["quality"], report["ranks"][0]
        self.measured_above(quality["unsampled_threads"], 500, "unsampled threads")
        self.assertEqual(quality["unsampled_threads"], rank["unsampled_threads"])
        self.measured_above(quality["unsampled_cpu_s"], 0.5 * 1000 * 0.002, "CPU time of unsampled threads")

    def test_more_threads_than_slots(self):
        report = self.check("all", 700, 2000)
        self.assertGreater(report["run"]["dropped"]["no_thread_slot"], 100)


if __name__ == "__main__":
    recording.main()
