"""`clusterprof attach` and `detach`: what is recorded of programs that were not started with clusterprof, what is as before
when they are let go, and what is said where it cannot be done."""

import ctypes
import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import time

import recording
from attached import may_trace, state_of, status_of

PATIENCE_S = 120
PLAIN = os.path.join(recording.BUILD, "programs", "plain", "attached")

PYTHON_PROGRAM = """
import os, sys, time

def hot():
    end = time.thread_time() + 0.03
    x = 0
    while time.thread_time() < end:
        for i in range(1000):
            x += i

def cold():
    end = time.thread_time() + 0.01
    x = 0
    while time.thread_time() < end:
        for i in range(1000):
            x += i

print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    hot()
    cold()
print("ok")
"""

# Each rank writes down when it entered and left its barriers, and adds up what it sent.
MPI_PROGRAM = """
import array, json, os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
directory = sys.argv[1]
log = open(os.path.join(directory, f"rank-{world.rank}.jsonl"), "w")
sent, received = array.array("d", [1.0] * 128), array.array("d", [0.0] * 128)
done = None
while not done:
    enter = time.time_ns()
    world.Barrier()
    print(json.dumps([enter, time.time_ns()]), file=log, flush=True)
    for _ in range(3):
        world.Allreduce(sent, received)
    time.sleep(0.01)
    done = world.bcast(os.path.exists(os.path.join(directory, "stop")) if world.rank == 0 else None)
assert received[0] == world.size
"""
SENT_BYTES = 128 * 8  # by each rank in each of the three operations between two barriers
RT_SIGTIMEDWAIT, SLEEPS = 128, (35, 230)  # on x86-64: nanosleep and clock_nanosleep


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def system_call_of(pid):
    """The number of the system call that its main thread is in; None where it is in none, or has ended."""
    try:
        with open(f"/proc/{pid}/syscall") as file:
            number = file.read().split()[0]
    except OSError:
        return None
    return int(number) if number.isdigit() else None


def is_held(pid):
    """Whether another process traces one of its threads."""
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        try:
            with open(path) as file:
                if "TracerPid:\t0\n" not in file.read():
                    return True
        except OSError:
            pass
    return False


def has_parent(pid, parent):
    try:
        return status_of(pid, "PPid") == {"PPid": str(parent)}
    except OSError:
        return False


class AttachTest(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        if not may_trace():
            self.skipTest("this user may not trace processes (kernel.yama.ptrace_scope)")
        self.run_directory = os.path.join(self.directory, "run")
        self.stop_file = os.path.join(self.directory, "stop")
        self.process = None

    def begin(self, command, **options):
        self.process = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, text=True, **options)
        self.addCleanup(self.end, self.process)
        return self.process.pid

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_S)

    def ready(self):
        self.assertEqual(self.process.stdout.readline(), "ready\n")

    def finish(self):
        open(self.stop_file, "w").close()
        stdout, _ = self.process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.process.returncode, 0, stdout)
        return stdout

    def clusterprof(self, *words, status=0, **options):
        done = subprocess.run([recording.CLUSTERPROF, *map(str, words)], cwd=self.directory, text=True, timeout=PATIENCE_S,
                              **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
        self.assertEqual(done.returncode, status, f"{done.stderr}{done.stdout}")
        return done.stderr if status else done.stdout

    def report(self, run=None):
        return json.loads(self.clusterprof("report", run or self.run_directory, "--json"))

    def await_(self, condition, what, pause_s=0.05):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(pause_s)

    def assert_as_before(self, pid, before):
        """Once our threads have ended, which they do last."""
        self.await_(lambda: status_of(pid, "Threads") == {"Threads": before["handlers"]["Threads"]}, "our threads' end")
        self.assertEqual(state_of(pid), before)

    def await_sigwait(self, pid):
        """Until its main thread waits for a signal, and for nothing else."""
        self.await_(lambda: system_call_of(pid) == RT_SIGTIMEDWAIT, "its sigwait")

    def begin_attach(self, pid):
        process = subprocess.Popen([recording.CLUSTERPROF, "attach", str(pid), "-o", self.run_directory], cwd=self.directory,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def await_tried(self, attaching, pid):
        """Until the child of `clusterprof attach` that tries the threads of `pid` sleeps between two tries, or there is no need of
        it. Within a try, in which it sleeps as well, it holds a thread."""
        def sleeps():
            return any(has_parent(child, attaching.pid) and not recording.is_collector(words, self.run_directory)
                       and system_call_of(child) in SLEEPS for child, words in recording.processes()) and not is_held(pid)
        self.await_(lambda: sleeps() or recording.has_ended(attaching.pid), "a try", pause_s=0.001)

    def compute_for(self, pid, seconds):
        """Until the process has used so much processor time more."""
        wanted = cpu_s(pid) + seconds
        self.await_(lambda: cpu_s(pid) >= wanted, "processor time")


class Programs(AttachTest):
    def test_threads_of_a_c_program(self):
        pid = self.begin([PLAIN, "threads", "3", self.stop_file])
        self.ready()
        self.compute_for(pid, 2)  # which does not count
        before_s = cpu_s(pid)
        self.clusterprof("attach", pid, "-o", self.run_directory)
        attached_s = cpu_s(pid)
        self.compute_for(pid, 3)
        detaching_s = cpu_s(pid)
        self.clusterprof("detach", self.run_directory)
        after_s = cpu_s(pid)
        self.assertIsNone(self.process.poll())
        report = self.report()
        self.assertIn("ok\n", self.finish())
        spin = sum(row["self_s"] for row in report["functions"] if row["name"] == "spin_work")
        # Threads are taken up within a sampling period of the beginning.
        self.measured_above(spin, 0.85 * (detaching_s - attached_s) - 0.1, "spin_work()")
        self.measured_below(report["ranks"][0]["cpu_s"], 1.05 * (after_s - before_s) + 0.1, "CPU time of the rank")
        self.assertEqual([row["rank"] for row in report["ranks"]], [0])
        self.assertEqual(report["ranks"][0]["pid"], pid)
        self.assertFalse(report["ranks"][0]["exit"]["lost"])
        self.assertTrue(report["run"]["complete"])
        self.assertEqual(report["run"]["state"], "ended")
        self.assertIn("attached", [note["code"] for note in report["run"]["note_records"]])
        self.assertEqual([finding["kind"] for finding in report["findings"] if finding["kind"].startswith("rank")], [])

    def test_python_busy_in_known_functions(self):
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PYTHON_PROGRAM)
        for version, python in recording.pythons():
            with self.subTest(python=version):
                run = os.path.join(self.directory, f"run-{version}")
                if os.path.exists(self.stop_file):
                    os.remove(self.stop_file)
                pid = self.begin([python, script, self.stop_file])
                self.ready()
                self.clusterprof("attach", pid, "-o", run)
                self.compute_for(pid, 2)
                self.clusterprof("detach", run)
                report = self.report(run)
                self.assertEqual(self.finish(), "ok\n")
                rows = {row["name"].split(".")[-1]: row for row in report["functions"] if row["kind"] == "python"}
                hot, cold = rows["hot"], rows["cold"]
                self.measured_above(hot["total_s"] + cold["total_s"], 1.5, f"{version}: hot() and cold()")
                # Of processor time, as the program divides that: one of them may lack its processor for long. Of 200 samples
                # the error is 0.03.
                self.measured_near(hot["cpu_s"] / (hot["cpu_s"] + cold["cpu_s"]), 0.75, 0.12, f"{version}: share of hot()")

    def test_it_ends_with_the_program(self):
        pid = self.begin([PLAIN, "threads", "2", self.stop_file])
        self.ready()
        self.clusterprof("attach", pid, "-o", self.run_directory)
        self.compute_for(pid, 0.5)
        self.assertIn("ok\n", self.finish())
        self.await_(lambda: not os.path.exists(os.path.join(self.run_directory, ".control")), "the last shard")
        report = self.report()
        self.assertEqual(report["ranks"][0]["exit"]["status"], 0)
        self.assertTrue(report["run"]["complete"])

    def test_for_a_time(self):
        pid = self.begin([PLAIN, "threads", "1", self.stop_file])
        self.ready()
        self.clusterprof("attach", pid, "-o", self.run_directory, "--for", "1s")
        self.measured_above(self.report()["run"]["elapsed_s"], 0.9, "recorded")
        self.assertIn("ok\n", self.finish())

    def test_nothing_is_left_but_code(self):
        pid = self.begin([PLAIN, "threads", "2", self.stop_file])
        self.ready()
        before = state_of(pid)
        for number in range(2):
            run = f"{self.run_directory}-{number}"
            self.clusterprof("attach", pid, "-o", run)
            if before["timers"] is not None:
                self.assertNotEqual(state_of(pid)["timers"], before["timers"])
            os.kill(pid, signal.SIGUSR1)
            self.compute_for(pid, 0.5)
            self.clusterprof("detach", run)
            self.assert_as_before(pid, before)
            names = {row["name"] for row in self.report(run)["functions"]}
            self.assertIn("spin_work", names)
        self.assertIn("signals 2\n", self.finish())

    def test_again_and_again_while_memory_is_allocated(self):
        pid = self.begin([PLAIN, "storm", "16", self.stop_file])
        self.ready()
        self.clusterprof("attach", pid, "-o", f"{self.run_directory}-first")
        threads = {"Threads": "17"}
        self.clusterprof("detach", f"{self.run_directory}-first")
        self.await_(lambda: status_of(pid, "Threads") == threads, "our threads' end")
        before = state_of(pid)
        for number in range(4):
            run = f"{self.run_directory}-{number}"
            self.clusterprof("attach", pid, "-o", run, "--for", "1s")
            shutil.rmtree(run)
        self.assert_as_before(pid, before)
        self.assertIn("ok\n", self.finish())

    def test_children_of_forks_can_load_libraries(self):
        for number in range(3):  # the agent is loaded once into each
            stop = f"{self.stop_file}-{number}"
            run = f"{self.run_directory}-{number}"
            pid = self.begin([PLAIN, "forks", "0", stop])
            self.ready()
            self.clusterprof("attach", pid, "-o", run)
            self.clusterprof("detach", run)
            open(stop, "w").close()
            stdout, _ = self.process.communicate(timeout=PATIENCE_S)
            self.assertEqual((self.process.returncode, stdout.splitlines()[-1]), (0, "ok"))

    def test_children_of_forks_take_turns(self):
        """Also those that are made just before the thread is held and just after."""
        pid = self.begin([PLAIN, "forks", "0", self.stop_file])
        self.ready()
        for number in range(8):
            run = f"{self.run_directory}-{number}"
            self.clusterprof("attach", pid, "-o", run)
            self.clusterprof("detach", run)
        self.assertIn("ok\n", self.finish())

    def test_forks_of_a_thread_that_only_an_earlier_recording_had(self):
        """The second one leaves it out, as it blocks all signals."""
        pid = self.begin([PLAIN, "forks", "0", self.stop_file])
        self.ready()
        for number in range(2):
            run = f"{self.run_directory}-{number}"
            self.clusterprof("attach", pid, "-o", run)
            self.compute_for(pid, 0.3)
            self.clusterprof("detach", run)
            os.kill(pid, signal.SIGUSR1)
            self.await_(lambda: int(status_of(pid, "SigBlk")["SigBlk"], 16) >> (signal.SIGUSR1 - 1) & 1, "blocked signals")
            self.compute_for(pid, 0.1)
        self.assertIn("ok\n", self.finish())

    def test_while_it_is_stopped_and_goes_on(self):
        pid = self.begin([PLAIN, "storm", "2", self.stop_file])
        self.ready()
        done = threading.Event()

        def stop_and_go():
            while not done.wait(0.001):
                os.kill(pid, signal.SIGSTOP)
                os.kill(pid, signal.SIGCONT)

        stopper = threading.Thread(target=stop_and_go)
        stopper.start()
        try:
            for number in range(8):  # it may be refused, as it is stopped
                run = f"{self.run_directory}-{number}"
                attached = subprocess.run([recording.CLUSTERPROF, "attach", str(pid), "-o", run], cwd=self.directory,
                                          capture_output=True, text=True, timeout=PATIENCE_S)
                if attached.returncode == 0:
                    self.clusterprof("detach", run)
                else:
                    self.assertEqual(attached.returncode, 1, attached.stderr)
        finally:
            done.set()
            stopper.join()
        os.kill(pid, signal.SIGCONT)
        self.assertIn("ok\n", self.finish())


SLOW_LIBRARY = r"""
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void load(void) {
  if (write(1, "loading\n", 8) != 8) abort();
  while (access(getenv("GO_ON"), F_OK) != 0) usleep(10000);
}
"""
# Its main thread waits for a signal, in a call that cannot be made again.
WAITING_PROGRAM = """
import os, signal, sys, threading, time
def sleep():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGUSR2)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
if len(sys.argv) > 2:
    threading.Thread(target=sleep).start()
print("ready", flush=True)
signal.sigwait({signal.SIGUSR2})
print("ok")
"""


class WhichThread(AttachTest):
    """Threads that are in a place where they cannot be used."""

    def attach(self, pid, status, once_tried=lambda: None):
        """What it says, and how long it took. Calls `once_tried` when threads have been tried, and are to be tried again."""
        begin = time.monotonic()
        attaching = self.begin_attach(pid)
        self.await_tried(attaching, pid)
        once_tried()
        _, said = attaching.communicate(timeout=PATIENCE_S)
        self.assertEqual(attaching.returncode, status, said)
        return said, time.monotonic() - begin

    def test_one_that_is_in_the_loader_is_tried_again(self):
        library, go_on = os.path.join(self.directory, "slow.so"), os.path.join(self.directory, "go-on")
        with open(f"{library}.c", "w") as file:
            file.write(SLOW_LIBRARY)
        if not shutil.which("cc"):
            self.skipTest("no compiler here")
        subprocess.run(["cc", "-shared", "-fPIC", f"{library}.c", "-o", library], check=True)
        program = "import ctypes, os, sys, time\nprint('ready', flush=True)\nctypes.CDLL(sys.argv[1])\n" \
                  "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\nprint('ok')"
        pid = self.begin([recording.PYTHON, "-c", program, library, self.stop_file], env=dict(os.environ, GO_ON=go_on))
        self.ready()

        self.assertEqual(self.process.stdout.readline(), "loading\n")
        before = state_of(pid)
        said, took_s = self.attach(pid, status=1)
        self.assertIn("none of its threads could be used for 3 s: it is in the loader; try again later", said)
        self.assertGreater(took_s, 2.9)
        self.assertEqual(state_of(pid), before)
        said, _ = self.attach(pid, status=0, once_tried=lambda: open(go_on, "w").close())
        self.assertIn(f"thread {pid} was held for", said)
        self.clusterprof("detach", self.run_directory)
        self.assertEqual(self.finish(), "ok\n")

    def test_another_one_is_taken(self):
        pid = self.begin([recording.PYTHON, "-c", WAITING_PROGRAM, self.stop_file, "with a thread"])
        self.ready()
        self.await_sigwait(pid)
        other, = set(os.listdir(f"/proc/{pid}/task")) - {str(pid)}
        said, _ = self.attach(pid, status=0)
        self.assertIn(f"(thread {other} was held for", said)
        self.clusterprof("detach", self.run_directory)
        self.assertEqual(self.finish(), "ok\n")

    def test_one_that_asks_for_the_time_all_the_while(self):
        program = ("import os, sys, time\nprint('ready', flush=True)\nwhile not os.path.exists(sys.argv[1]):\n"
                   "    for i in range(100000): time.process_time()\nprint('ok')")
        pid = self.begin([recording.PYTHON, "-c", program, self.stop_file])
        self.ready()
        said, _ = self.attach(pid, status=0)
        self.assertIn(f"(thread {pid} was held for", said)
        self.clusterprof("detach", self.run_directory)
        self.assertEqual(self.finish(), "ok\n")

    def test_time_counts_from_when_all_are_attached_to(self):
        waiting = self.begin([recording.PYTHON, "-c", WAITING_PROGRAM, self.stop_file])
        self.ready()
        self.await_sigwait(waiting)
        computing = self.begin([PLAIN, "threads", "1", self.stop_file])
        self.ready()
        said = self.clusterprof("attach", computing, waiting, "-o", self.run_directory, "--for", "1s", stderr=subprocess.STDOUT)
        self.assertIn(f"process {waiting}: none of its threads could be used for 3 s", said)
        os.kill(waiting, signal.SIGUSR2)
        self.measured_above(self.report()["run"]["elapsed_s"], 3.9, "recorded")
        self.assertIn("ok\n", self.finish())

    def test_there_is_none(self):
        pid = self.begin([recording.PYTHON, "-c", WAITING_PROGRAM, self.stop_file])
        self.ready()
        self.await_sigwait(pid)
        said, _ = self.attach(pid, status=1)
        self.assertIn("in system calls that cannot be interrupted and made again; try again later", said)
        self.assertFalse(os.path.exists(self.run_directory))
        os.kill(pid, signal.SIGUSR2)
        self.assertEqual(self.finish(), "ok\n")


class Mpi(AttachTest):
    """Of two ranks, whose barriers are known from their own notes."""

    def setUp(self):
        super().setUp()
        self.ranks_of = {}  # their arguments, by the launcher's process

    def end(self, process):
        recording.end_job(process, lambda words: words[:-1] == self.ranks_of.get(process), PATIENCE_S)

    def begin_ranks(self, flavour, rank):
        self.begin([*recording.launcher(flavour, 2), *rank])
        self.ranks_of[self.process] = rank
        self.await_barriers(20)

    def barriers(self, rank):
        try:
            with open(os.path.join(self.directory, f"rank-{rank}.jsonl")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def await_barriers(self, count):
        wanted = [len(self.barriers(rank)) + count for rank in range(2)]
        self.await_(lambda: all(len(self.barriers(rank)) >= wanted[rank] for rank in range(2)), "barriers")

    def check(self, pids, run):
        """What is recorded until they are let go, which they survive."""
        begin_ns = time.time_ns()
        self.clusterprof("attach", *pids, "-o", run)
        self.await_barriers(100)  # the threads that call MPI are known by now
        sure_ns = time.time_ns()
        self.await_barriers(100)
        detaching_ns = time.time_ns()
        self.clusterprof("detach", run)
        end_ns = time.time_ns()
        self.await_barriers(20)
        report = self.report(run)
        self.assertEqual([row["rank"] for row in report["ranks"]], [0, 1])
        count = {op: sum(row["count"] for row in report["mpi"]["calls"] if row["op"] == op)
                 for op in ("MPI_Barrier", "MPI_Allreduce")}
        barriers = [times for rank in range(2) for times in self.barriers(rank)]
        at_least = sum(enter >= sure_ns and leave <= detaching_ns for enter, leave in barriers)
        at_most = sum(leave >= begin_ns and enter <= end_ns for enter, leave in barriers)
        self.assertGreaterEqual(at_least, 190)
        self.assertLessEqual(at_least, count["MPI_Barrier"])
        self.assertLessEqual(count["MPI_Barrier"], at_most)
        self.assertLessEqual(abs(count["MPI_Allreduce"] - 3 * count["MPI_Barrier"]), 2 * 3 * 2)
        sent = sum(row["sent_bytes"] for row in report["mpi"]["calls"] if row["op"] == "MPI_Allreduce")
        self.assertEqual(sent, count["MPI_Allreduce"] * SENT_BYTES)
        self.assertEqual({rank["mpi_wait_s"] for rank in report["ranks"]}, {None})
        self.assertFalse(report["mpi"].get("waits"))
        self.assertIn("attached", [note["code"] for note in report["run"]["note_records"]])
        self.assertIn("who waits for whom is not known", " ".join(report["run"]["notes"]))

    def pids_of(self, words):
        pids = [pid for pid, found in recording.processes() if found[:len(words)] == words]
        self.assertEqual(len(pids), 2)
        return pids

    def test_python(self):
        self.need("mpirun.openmpi")
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(MPI_PROGRAM)
        self.begin_ranks("openmpi", [recording.PYTHON, script, self.directory])
        self.check(self.pids_of([recording.PYTHON, script]), self.run_directory)
        self.finish()

    def test_c_twice(self):
        for flavour in ("openmpi", "mpich"):
            program = recording.program(flavour, "attached_ranks")
            self.need(program)
            with self.subTest(flavour):
                for name in ("stop", "rank-0.jsonl", "rank-1.jsonl"):
                    if os.path.exists(os.path.join(self.directory, name)):
                        os.remove(os.path.join(self.directory, name))
                self.begin_ranks(flavour, [program, self.directory])
                pids = self.pids_of([program, self.directory])
                for time_ in ("first", "second"):
                    self.check(pids, f"{self.run_directory}-{flavour}-{time_}")
                self.finish()


def is_kernel_thread(pid):
    """By its flags: a process that is about to end has no memory either."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return bool(int(file.read().rpartition(")")[2].split()[6]) & 0x00200000)  # PF_KTHREAD
    except OSError:
        return False


class Refused(AttachTest):
    def assert_refused(self, pid, words, **options):
        said = self.clusterprof("attach", pid, "-o", self.run_directory, status=1, **options)
        self.check_refusal(pid, words, said)

    def check_refusal(self, pid, words, said):
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(f"process {pid}: ", said)
        self.assertIn(words, said)
        self.assertFalse(os.path.exists(self.run_directory))

    def test_by_a_filter_of_system_calls(self):
        pid = self.begin([PLAIN, "threads", "1", self.stop_file])
        self.ready()
        libc = ctypes.CDLL(None, use_errno=True)
        ptrace, allow, refuse = 101, 0x7fff0000, 0x00050000 | 1  # EPERM
        code = b"".join(struct.pack("HBBI", *word) for word in (
            (0x20, 0, 0, 0), (0x15, 0, 1, ptrace), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)))
        buffer = ctypes.create_string_buffer(code, len(code))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer)), 16)

        def forbid():
            libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
            libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0)  # PR_SET_SECCOMP

        self.assert_refused(pid, "seccomp", preexec_fn=forbid)
        self.assertIn("ok\n", self.finish())

    def test_static_program(self):
        source = os.path.join(self.directory, "static.c")
        with open(source, "w") as file:
            file.write('#include <unistd.h>\n#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); pause(); }\n')
        program = os.path.join(self.directory, "static")
        if not shutil.which("cc") or subprocess.run(["cc", "-static", source, "-o", program], capture_output=True).returncode:
            self.skipTest("no static libc here")
        pid = self.begin([program])
        self.ready()
        self.assert_refused(pid, "statically")

    def test_what_is_recorded_already(self):
        pid = self.begin([PLAIN, "threads", "1", self.stop_file])
        self.ready()
        self.clusterprof("attach", pid, "-o", self.run_directory)
        said = self.clusterprof("attach", pid, "-o", os.path.join(self.directory, "other"), status=1)
        self.assertIn("recorded already", said)
        self.clusterprof("detach", self.run_directory)
        self.assertIn("ok\n", self.finish())

    def test_what_is_not_there(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assert_refused(gone.pid, "no such process")

    def test_one_that_ends_meanwhile(self):
        """While none of its threads can be used, so that it is tried again."""
        pid = self.begin([recording.PYTHON, "-c", WAITING_PROGRAM, self.stop_file])
        self.ready()
        self.await_sigwait(pid)
        attaching = self.begin_attach(pid)
        self.await_tried(attaching, pid)
        os.kill(pid, signal.SIGKILL)
        _, said = attaching.communicate(timeout=PATIENCE_S)
        self.assertEqual(attaching.returncode, 1, said)
        self.check_refusal(pid, "it has ended meanwhile", said)

    def test_processes_of_other_kinds(self):
        pid = self.begin([PLAIN, "threads", "1", self.stop_file])
        self.ready()
        thread, = set(map(int, os.listdir(f"/proc/{pid}/task"))) - {pid}
        self.assert_refused(thread, f"it is a thread of process {pid}: give that number")
        self.assertIn("ok\n", self.finish())
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if is_kernel_thread(pid):
                self.assert_refused(pid, "it is a thread of the kernel")
                break
        said = subprocess.run(["sh", "-c", f'exec "{recording.CLUSTERPROF}" attach $$'], cwd=self.directory, capture_output=True,
                              text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertRegex(said.stderr, r"^clusterprof: process \d+: it is a process of clusterprof itself: give [^\n]*\n$")

    def test_what_was_started_with_clusterprof(self):
        command = [PLAIN, "threads", "1", self.stop_file]
        waits = self.begin([recording.CLUSTERPROF, "-q", "-o", os.path.join(self.directory, "first"), *command])
        self.ready()
        pid, = [found for found, words in recording.processes() if words[:-1] == command]
        collector, = [found for found, words in recording.processes()
                      if recording.is_collector(words, os.path.join(self.directory, "first"))]
        self.assert_refused(pid, "it is recorded already: its run has what it does")
        for own in (waits, collector):
            self.assert_refused(own, "it is a process of clusterprof itself: give the number of the program's process")
        self.assertIn("ok\n", self.finish())

    def test_of_other_users(self):
        if os.geteuid() != 0:
            self.assert_refused(1, "it belongs to user 0: call clusterprof attach as that user")
            return
        nobody = 65534
        pid = self.begin(["sleep", "600"], user=nobody)
        self.assert_refused(pid, f"it belongs to user {nobody}: call clusterprof attach as that user, also if you are root")
        # As a setuid program is.
        pid = self.begin(["sleep", "600"], preexec_fn=lambda: os.setresuid(nobody, 0, 0))
        self.assert_refused(pid, "it has changed its user (setuid), and the kernel lets nobody look into it; ")

    def test_without_permission(self):
        """Of another process of the user that may not be traced: with a capability that this user lacks."""
        if os.geteuid() != 0:
            self.skipTest("only root can make one")
        nobody = 65534
        os.chmod(self.directory, 0o777)
        if subprocess.run([recording.CLUSTERPROF, "--version"], user=nobody, capture_output=True).returncode != 0:
            self.skipTest("other users cannot run this build")
        program = "import ctypes, time\nctypes.CDLL(None).prctl(4, 0)\nprint('ready', flush=True)\ntime.sleep(600)"  # PR_SET_DUMPABLE
        pid = self.begin([recording.PYTHON, "-c", program], user=nobody)
        self.ready()
        self.assert_refused(pid, "the kernel ", user=nobody)

    def test_stopped_program(self):
        pid = self.begin([PLAIN, "threads", "1", self.stop_file])
        self.ready()
        os.kill(pid, signal.SIGSTOP)
        self.await_(lambda: status_of(pid, "State")["State"] == "T", "the stop")
        self.assert_refused(pid, "stopped")
        os.kill(pid, signal.SIGCONT)
        self.assertIn("ok\n", self.finish())

    def test_wrong_command_lines(self):
        for words in (["attach"], ["attach", "1", "--job", "2"], ["attach", "--job", "x"], ["attach", "0"],
                      ["attach", "1", "-r", "10001"]):
            self.clusterprof(*words, status=2)
        self.clusterprof("detach", self.directory, status=1)


if __name__ == "__main__":
    recording.main()
