"""A program that spends known times in Python, in native code, asleep and in file input and output
says how long each took by its own clock; the categories of its main thread must agree. What was not
measured is null."""

import glob
import os

import recording

PROGRAM = '''
import os, time, zlib

# Python and native code had a processor for as long as the thread's CPU clock says, whatever others did meanwhile.
clock = time.perf_counter
clocks = dict(python=time.thread_time, native=time.thread_time, idle=clock)
spent = dict(python=0.0, native=0.0, idle=0.0)
block = b"x" * (8 << 20)

def python_part():
    total = 0
    for i in range(400000):
        total += i & 3
    return total

def native_part():  # of what needs no memory: page faults are the kernel's time
    for _ in range(4):
        zlib.crc32(block)

def idle_part():
    time.sleep(0.05)

with open("/proc/self/stat") as file:
    started_s = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
spent["before"] = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
begin = clock()
while clock() - begin < 6:
    for name, part in (("python", python_part), ("native", native_part), ("idle", idle_part)):
        before = clocks[name]()
        part()
        spent[name] += clocks[name]() - before
spent["all"] = clock() - begin
print(*(f"{name} {seconds}" for name, seconds in spent.items()))
'''


class Categories(recording.RecordingTest):
    def test_known_split(self):
        path = os.path.join(self.directory, "parts.py")
        with open(path, "w") as file:
            file.write(PROGRAM)
        done = self.record([recording.PYTHON, path])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        words = done.stdout.decode().split()
        own = {name: float(seconds) for name, seconds in zip(words[::2], words[1::2])}
        report = self.report()
        rank = report["ranks"][0]
        total, before = own.pop("all"), own.pop("before")
        around = rank["elapsed_s"] - total  # Python's start and end, which is long on a slow machine, and of any category
        self.measured_below(around, before + 0.3, "before and after the work")
        for name, seconds in own.items():
            self.measured_near(rank[f"{name}_s"], seconds + around / 2, 0.04 * total + around / 2, name)
        parts = sum(rank[f"{name}_s"] for name in ("python", "native", "system", "mpi", "io", "idle", "runnable"))
        self.assertAlmostEqual(parts, rank["elapsed_s"], delta=0.011)
        # The same by line: the sleep is where the program sleeps.
        sleep = [line for line in report["lines"] if line["function"] == "idle_part"]
        self.measured_near(sum(line["idle_s"] for line in sleep), own["idle"], 0.05 * total, "idle lines")


class Sleep(recording.RecordingTest):
    """time.sleep() is a select() before Python 3.11, and a clock_nanosleep() from then on."""

    # It has slept until it is ready to go on, which may be before it has a processor.
    PROGRAM = recording.LACKED + '''
import time
lacked_before, begin = lacked(), time.monotonic()
time.sleep(1)
print(time.monotonic() - begin, lacked() - lacked_before)
'''

    def test_on_every_python(self):
        for version, python in recording.pythons():
            with self.subTest(python=version):
                done = self.record([python, "-c", self.PROGRAM], run=version)
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                report = self.report(version)
                slept_s, lacked_s = map(float, done.stdout.split())
                self.measured_near(report["activities"]["sleep_s"], slept_s - lacked_s / 2, 0.05 + lacked_s / 2,
                                   f"sleep of {report['system_calls']}")
                self.measured_near(report["activities"]["other_wait_s"], 0, 0.05, "other waiting")


class NotMeasured(recording.RecordingTest):
    PROGRAM = "import gc\nfor i in range(20):\n  x = [[] for _ in range(100000)]\n  gc.collect()"
    OF_PYTHON = ("interpreter_s", "import_s", "gc_s", "gil_s")

    def check(self, report):
        self.assertGreater(report["run"]["samples"], 0)
        for activities in (report["activities"], report["ranks"][0]["activities"]):
            self.assertEqual({name: activities[name] for name in self.OF_PYTHON}, dict.fromkeys(self.OF_PYTHON))
            self.assertGreater(activities["native_s"], 0)

    def test_python_is_unknown_without_python_frames(self):
        report = self.recorded([recording.PYTHON, "-c", self.PROGRAM], options=["--no-python"])
        self.check(report)
        self.assertIsNone(report["ranks"][0]["python_s"])

    def test_python_is_unknown_with_an_unsupported_version_in_a_child(self):
        found = glob.glob(os.path.expanduser("~/.pyenv/versions/3.7.*/bin/python3"))
        if not found:
            self.skipTest("no CPython 3.7")
        report = self.recorded(["bash", "-c", f"{found[0]} -c '{self.PROGRAM}'; true"])
        self.check(report)
        self.assertIn("python_version_not_supported", [note["code"] for note in report["run"]["note_records"]])

    def test_a_program_without_samples(self):
        report = self.recorded(["/bin/true"])
        if report["run"]["samples"] == 0:
            self.assertIsNone(report["native_modules"])
            self.assertIsNone(report["system_calls"])


class Declined(recording.RecordingTest):
    """Interpreters that are not supported run as alone. One line says so, and native code is shown."""

    PROGRAM = "import sys, time\nend = time.time() + 0.5\nwhile time.time() < end: pass\nsys.stdout.write('done')\nsys.exit(3)"

    def check_declined(self, python, run, code, what):
        done = self.record([python, "-c", self.PROGRAM], run=run)
        self.assertEqual((done.returncode, done.stdout), (3, b"done"), done.stderr)
        report = self.report(run)
        self.assertGreater(report["run"]["samples"], 0)
        self.assertEqual([f["name"] for f in report["functions"] if f["kind"] == "python"], [])
        self.assertEqual([note["code"] for note in report["run"]["note_records"] if note["code"].startswith("python_")], [code])
        self.assertEqual([note for note in report["run"]["notes"] if "Python" in note],
                         [f"Rank 0: Python frames are missing: {what} is not supported."])
        self.assertIsNone(report["ranks"][0]["python_s"])

    def test_older_versions(self):
        found = [(version, path) for version in ("2.7", "3.6", "3.7")
                 for path in glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python"))]
        if not found:
            self.skipTest("no CPython before 3.8 from pyenv here")
        for version, python in found:
            with self.subTest(python=version):
                self.check_declined(python, version, "python_version_not_supported", f"Python {version}")

    def test_pypy(self):
        python = "/usr/bin/pypy3"
        self.need(python)
        self.check_declined(python, "run", "python_pypy", "PyPy")


if __name__ == "__main__":
    recording.main()
