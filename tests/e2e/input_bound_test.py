"""Programs that wait for the data which their own workers make: the finding input_bound, and when it must not be given."""

import json
import os

import recording

# Which loader, and which side is slow. Times are CPU times: what is slow is so on a busy machine, too. The main thread
# measures how long it waits: when the item has come, it may be ready for long until it has a processor. Hashing needs no GIL, which
# a thread that has it takes along when it loses its processor. The main thread has to compute for 5 % of its waiting at least, which
# lasts longer where the workers get few processors.
PROGRAM = """
import hashlib, json, multiprocessing, os, queue, sys, threading, time
DATA, ROOM = bytes(500_000), 8
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(DATA).digest()

def load(seconds):
    work(seconds)  # LOAD
    return b"x"

def worker(tasks, results, seconds):
    for _ in iter(tasks.get, None):  # TASK
        results.put(load(seconds))  # PUT

def without_processor(file):
    return 1e-9 * int(os.pread(file, 100, 0).split()[1]) if file >= 0 else 0.0

def consume(results, items, seconds):
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        file = -1
    waited = 0.0
    for _ in range(items):
        lacked, begin = without_processor(file), time.perf_counter()
        item = results.get()  # WAIT
        waited += time.perf_counter() - begin - (without_processor(file) - lacked)
        work(seconds)
    return waited

def main(kind, load_s, work_s, items, count):
    threads = kind == "threads"
    context = None if threads else multiprocessing.get_context(kind)
    tasks = queue.Queue() if threads else context.Queue()
    results = queue.Queue(ROOM) if threads else context.Queue(ROOM)
    make = threading.Thread if threads else context.Process
    workers = [make(target=worker, args=(tasks, results, load_s)) for _ in range(count)]
    for each in workers:
        each.start()
    begin = time.perf_counter()
    for _ in range(items):
        tasks.put(1)
    waited = consume(results, items, work_s)
    lasted = time.perf_counter() - begin
    for _ in workers:
        tasks.put(None)
    for each in workers:
        each.join()
    print(json.dumps({"waited": waited, "lasted": lasted}))

if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
"""

# The main thread waits for what a pool computes, and does nothing else.
POOL = """
import multiprocessing, time

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds

if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.map(work, [0.3] * 6, chunksize=1)))  # MAP
"""

# The main thread waits for an event from outside; a thread of its own has nothing to do.
IDLE = """
import queue, subprocess, sys, threading

def watch(tasks):
    tasks.get()

def forward(pipe, events):
    events.put(pipe.read(1))

tasks, events = queue.Queue(), queue.Queue()
watcher = threading.Thread(target=watch, args=(tasks,))
watcher.start()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1.5); print(1)"], stdout=subprocess.PIPE)
forwarder = threading.Thread(target=forward, args=(child.stdout, events))
forwarder.start()
for _ in range(3_000_000): pass
events.get()
tasks.put(None)
for thread in (watcher, forwarder): thread.join()
child.wait()
"""


class InputBound(recording.RecordingTest):
    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    @staticmethod
    def line_of(mark):
        return next(i for i, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith(f"# {mark}"))

    def recorded_loader(self, *arguments, run="run"):
        path = self.write("loader.py", PROGRAM)
        done = self.record([recording.PYTHON, path, *map(str, arguments)], run=run)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return json.loads(done.stdout), self.report(run)

    @staticmethod
    def kinds(report):
        return [finding["kind"] for finding in report["findings"]]

    def check_not_input_bound(self, report):
        self.assertNotIn("input_bound", self.kinds(report), report["findings"])
        self.assertNotIn("input", [row["class"] for row in report["bottleneck"]])

    def check(self, *arguments, workers, worker_kind):
        own, report = self.recorded_loader(*arguments)
        self.assertIn("input_bound", self.kinds(report), report["findings"])
        finding = next(f for f in report["findings"] if f["kind"] == "input_bound")
        elapsed_s = report["ranks"][0]["elapsed_s"]
        self.measured_near(finding["share"], own["waited"] / elapsed_s, 0.08, "share of waiting")
        self.assertEqual((finding["function"], finding["line"]), ("consume", self.line_of("WAIT")))
        site = finding["evidence"]["site"]
        self.assertIn((site["function"], site["line"]), [("load", self.line_of("LOAD")), ("work", 6), ("work", 7)])
        self.assertEqual(finding["evidence"]["worker_kind"], worker_kind)
        self.assertEqual(finding["evidence"]["workers"], workers)
        self.assertEqual(finding["rank"], 0)
        self.assertIn("Input-bound: rank 0 waits", finding["text"])
        # It is a class of the verdict, which holds the waiting alone: the rest is computing.
        classes = {row["class"]: row for row in report["bottleneck"] if row["scope"] == "run"}
        self.assertIn("input", classes, report["bottleneck"])
        self.assertEqual(classes["input"]["share"], finding["share"])
        self.assertIn(f"the worker {worker_kind} are mostly in {site['function']}() loader.py:{site['line']}",
                      classes["input"]["evidence"])
        self.measured_near(classes["input"]["share"], own["waited"] / elapsed_s, 0.05, "share of the class")
        # Nothing else is said about the same waiting.
        for other in report["findings"]:
            if other["kind"] in ("blocked", "waits_for_data"):
                self.assertNotEqual(other["line"], finding["line"], other)
        return report

    def test_threads(self):
        self.check("threads", 0.08, 0.02, 20, 1, workers=1, worker_kind="threads")

    def test_processes_by_fork(self):
        self.check("fork", 0.16, 0.04, 20, 2, workers=2, worker_kind="processes")

    def test_processes_by_spawn(self):
        self.check("spawn", 0.16, 0.04, 20, 2, workers=2, worker_kind="processes")

    def test_a_slow_consumer_is_not_input_bound(self):
        for kind in ("threads", "fork"):
            own, report = self.recorded_loader(kind, 0.005, 0.05, 60, 1, run=kind)
            # Where the worker gets no processor for longer than what it has made lasts, the program does wait for it.
            self.measured_below(own["waited"], 0.05 * own["lasted"], f"{kind}: waiting by the program")
            self.check_not_input_bound(report)

    def test_a_pool_that_computes_results_is_awaited(self):
        report = self.recorded([recording.PYTHON, self.write("pool.py", POOL)])
        self.check_not_input_bound(report)

    def test_idle_threads_make_nothing(self):
        report = self.recorded([recording.PYTHON, self.write("idle.py", IDLE)])
        self.check_not_input_bound(report)


if __name__ == "__main__":
    recording.main()
