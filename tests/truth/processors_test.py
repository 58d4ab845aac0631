"""The time that a thread waits for a processor. Processes that spin on one processor know from their own clocks how long
they ran. Since they never block, they were runnable for the rest. Also: the CPU time of threads that end before their
first sample."""

import json
import os
import subprocess
import unittest

import recording
import truth

# Spins for that long on the processor that it is told, once the other one is about to, which their files say. What of its
# own time it did not run it was ready: it makes no system call in between.
SPIN = '''
import json, os, sys, time

def spin(until):
    total = 0
    while time.monotonic() < until:
        for i in range(2000):
            total += i & 3
    return total

processor, own, other, length = int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
os.sched_setaffinity(0, {processor})
open(own, "w").close()
while not os.path.exists(other):
    time.sleep(0.001)
wall, cpu = time.monotonic(), time.thread_time()
spin(wall + length)
wall, cpu = time.monotonic() - wall, time.thread_time() - cpu
with open("/proc/thread-self/schedstat") as file:
    delay = int(file.read().split()[1]) * 1e-9
print(json.dumps(dict(wall=wall, cpu=cpu, delay=delay)))
'''

# What a thread lacked a processor for is charged up to 0.1 s late. So what rest() is charged with may be of settle(), but
# not of the start of Python, nor of the end.
SLEEP = recording.LACKED + '''
import time

def settle():
    time.sleep(0.5)

def rest():
    time.sleep(1.5)

before = lacked()
settle()
rest()
print(lacked() - before)
'''


def before_others():
    """Programs share their processor with each other, not with whatever else this machine does: a thread that others
    keep waiting for half a second is not sampled in that time, and nobody knows where such a wait began."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        # Where each session has its own share, that is of one session.
        os.setsid()
        with open("/proc/self/autogroup", "w") as file:
            file.write("-20")
    except FileNotFoundError:
        pass  # no such shares
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

    def start(self, processor, run, other):
        process = subprocess.Popen([recording.CLUSTERPROF, "-q", "-o", os.path.join(self.directory, run), recording.PYTHON,
                                    "spin.py", str(processor), run + ".ready", other + ".ready", str(self.LENGTH)],
                                   cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=before_others)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)  # it has become the program, and may wait for the other one
        return process

    def test_two_processes_on_one_processor(self):
        """A spinning thread's share is known to about half a period (5 ms) at either end of the 2 s and of Python's
        start, that is, 1 %; the tests allow 4. Half of the time of each is at stake."""
        processor = min(os.sched_getaffinity(0))
        with open(os.path.join(self.directory, "spin.py"), "w") as file:
            file.write(SPIN)
        started = [self.start(processor, run, other) for run, other in (("a", "b"), ("b", "a"))]
        for run, process in zip(("a", "b"), started):
            out, error = process.communicate(timeout=120)
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
        if truth.call_paths is None:
            self.skipTest("/usr/bin/python3 has no h5py")
        done = self.record([recording.PYTHON, "-c", SLEEP])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.measured_above(self.report()["ranks"][0]["idle_s"], 1.45, "idle")
        # Not of the whole process: nobody but the kernel knows for how long it lacks a processor while it ends.
        paths = truth.call_paths.read(os.path.join(self.directory, "run", "profile.h5"))
        resting = [path for path in paths if path.main_thread and any(frame.name == "rest" for frame in path.frames)]
        self.measured_above(sum(path.wall_s for path in resting), 1.4, "in rest()")
        self.measured_below(sum(path.wall_s for path in resting if path.category == "runnable"), float(done.stdout) + 0.02, "ready")

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
        own, report, paths = self.recorded_truth([program, mode, str(threads)], str(microseconds), [],
                                                 preexec_fn=before_others)
        self.own = own
        seen = sum(path.cpu_s for path in paths if any(frame.name == "burn" for frame in path.frames))
        # Each of them is charged in full, and with what it does beside: its end, and a part of its start.
        self.measured_near(seen / own["burn"], 1.0, 0.1, "CPU time")
        return report

    def test_one_after_the_other(self):
        report = self.check("one", 1000, 2000)
        quality, rank = report["quality"], report["ranks"][0]
        # On a busy machine many of them live for longer than a period, and are sampled.
        expected = self.own["unsampled"]
        self.measured_above(expected, 100, "unsampled threads, by how long they lived")
        self.measured_above(quality["unsampled_threads"], 0.6 * expected, "unsampled threads")
        self.assertEqual(quality["unsampled_threads"], rank["unsampled_threads"])
        self.measured_above(quality["unsampled_cpu_s"], 0.6 * expected * 0.002, "CPU time of unsampled threads")

    def test_more_threads_than_slots(self):
        report = self.check("all", 700, 2000)
        self.assertGreater(report["run"]["dropped"]["no_thread_slot"], 100)


if __name__ == "__main__":
    recording.main()
