# SPDX-License-Identifier: BSD-3-Clause
"""Ranks, nodes and jobs that end early. The report has what was sampled up to the last 100 ms, and MPI calls up to the one
in which the rank died. It says which ranks were lost, how, and where they were last seen. It has everything that the
others did. Nothing is left behind. What the profile has to contain is known by construction: programs/losses.c.

    losses_test.py [--long [SEED]]     every end and every launcher, and many moments drawn by lot"""

import concurrent.futures
import contextlib
import glob
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest.mock

import recording
from memory_groups import MemoryGroup

LONG = "--long" in sys.argv
if LONG:
    at = sys.argv.index("--long")
    SEED = int(sys.argv.pop(at + 1)) if len(sys.argv) > at + 1 and sys.argv[at + 1].isdigit() else time.time_ns() % 100000
    del sys.argv[at]
    print(f"seed {SEED}")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "losses.c")
HIDDEN = {".run", ".job"}  # say whose the run directory is; part of it
PHASES = ["first_phase", "second_phase", "last_phase"]
PHASE_S = 0.1  # of CPU time
# Of each phase what may be missing: a sampling period at either end, and the kernel looks at its timers now and then.
MISSING_S = 2 * 74 / 73 / 100 + 0.01
RANKS, ROUNDS, VICTIM = 4, 25, 2
KILL, TERM, ABRT, SEGV, BUS, ILL = 9, 15, 6, 11, 7, 4
# Ends of a program by itself, the signal each is, and the function in which it has to be seen last. Of a fault the agent
# takes a sample at the very instruction; of other signals the last one is up to a period older.
ENDS = {"kill": (KILL, "last_phase"), "term": (TERM, "last_phase"), "abort": (ABRT, "abort"),
        "segv": (SEGV, "fault_here"), "bus": (BUS, "fault_here"), "ill": (ILL, "fault_here"),
        "null_call": (SEGV, "last_phase"), "wild_call": (SEGV, None), "overflow": (SEGV, None), "_exit": (None, None), "exit": (None, None), "quick_exit": (None, None)}
SHORT = ["kill", "abort", "segv", "null_call", "overflow", "_exit"]
PYTHON = '''
import os, signal, sys, time
def phase(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))
def first_phase(): phase(0.1)
def second_phase(): phase(0.1)
def last_phase():
    phase(0.1)
    os.kill(os.getpid(), int(sys.argv[1]))
first_phase(); second_phase(); last_phase()
'''


class Mark:
    """What the program printed about itself before it died."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.phase, utc_ns, cpu_ns, self.calls, phase_cpu_ns = struct.unpack("5q", file.read(40))
        self.utc_s, self.cpu_s, self.phase_cpu_s = utc_ns / 1e9, cpu_ns / 1e9, phase_cpu_ns / 1e9


def sockets():
    """Names of our abstract sockets, by inode."""
    with open("/proc/net/unix") as file:
        rows = [line.split() for line in file if "@clusterprof/" in line]
    return {row[6]: row[7] for row in rows}


def holds(pid, inodes):
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(link == f"socket:[{inode}]" for link in links for inode in inodes)


def shared_memory():
    # Other tests run at the same time: the fuzzers' are named, too, and so are places of runs that have to last for a while, which none
    # of these does.
    return {name for name in os.listdir("/dev/shm")
            if "clusterprof" in name and "-fuzz-" not in name and "clusterprof-waiting-" not in name}


class Losses(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.need("cc")
        self.sockets, self.shared_memory = sockets(), shared_memory()
        self.temporary = os.path.join(self.directory, "tmp")
        os.mkdir(self.temporary)
        change = unittest.mock.patch.dict(os.environ, TMPDIR=self.temporary)
        change.start()
        self.addCleanup(change.stop)

    def compile(self, flavour="plain"):
        compiler = {"plain": "cc"}.get(flavour, f"mpicc.{flavour}")
        self.need(compiler)
        path = os.path.join(self.directory, f"losses.{flavour}")
        if not os.path.exists(path):
            subprocess.run([compiler, "-O1", "-g", "-o", path, SOURCE] + ([] if flavour == "plain" else ["-DWITH_MPI"]),
                           check=True)
        return path

    def place(self, name):
        place = os.path.join(self.directory, name)
        os.mkdir(place)
        return place, os.path.join(place, "run"), os.path.join(place, "mark")

    def start(self, command, place, **how):
        return subprocess.Popen(command, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True, **how)

    def of_job(self, place):
        """The processes whose arguments name the place: launchers, ranks and collectors."""
        return [(pid, words) for pid, words in recording.processes()
                if pid != os.getpid() and any(place in word for word in words)]

    def await_(self, condition, what, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"waited for {what}")
            time.sleep(0.01)

    def gone(self, place):
        self.await_(lambda: not self.of_job(place), f"the end of {self.of_job(place)}")

    def nothing_left(self, run):
        """After a report, no processes, sockets, shared memory or files are left except those of the run."""
        self.gone(os.path.dirname(run))
        names = {name for name in os.listdir(run) if name.startswith(".")}
        if names - HIDDEN:
            # Of a collector that was killed. They go with the first report when nobody can be writing any more.
            self.assertTrue(all(name.endswith((".claim", ".tmp")) for name in names - HIDDEN), names)
            for path in glob.glob(os.path.join(run, "*")) + glob.glob(os.path.join(run, ".*")):
                os.utime(path, (time.time() - 100,) * 2, follow_symlinks=False)
            self.report(run)
            names = {name for name in os.listdir(run) if name.startswith(".")}
        self.assertEqual(names - HIDDEN, set())
        self.assertEqual({name for name in os.listdir(os.path.dirname(run)) if name.startswith(".")}, set())
        self.assertEqual(shared_memory() - self.shared_memory, set())

    def tearDown(self):
        super().tearDown()

        def ours():
            return [pid for pid, _ in recording.processes() if self.is_started_here(pid)]
        try:
            self.await_(lambda: not ours(), "the end of all processes")
        finally:
            for pid in ours():  # or else they take processors from other tests: some compute without end
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        def nobodys():
            new = set(sockets()) - set(self.sockets)
            return {inode for inode in new if not any(holds(pid, [inode]) for pid, _ in recording.processes())}
        self.await_(lambda: not nobodys(), "the end of all sockets but those of other tests")
        self.assertEqual([name for name in os.listdir(self.temporary) if "clusterprof" in name], [])

    def is_started_here(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return b"TMPDIR=" + self.temporary.encode() in file.read().split(b"\0")
        except OSError:
            return False

    def cpu_times(self, run):
        """CPU time in seconds by rank and name of the function, with all it called, as the shards have it."""
        import h5py
        found = {}
        for path in glob.glob(os.path.join(run, "node-*.h5")):
            with h5py.File(path, "r") as file:
                text = file["strings/text_bytes"][:].tobytes()
                offsets = file["strings/text_offsets"][:]
                names = [text[offsets[i]:offsets[i + 1]].decode(errors="replace") for i in file["frames/name"][:]]
                frames, parents = file["paths/frame"][:], file["paths/parent"][:]
                ranks, rows = file["ranks/rank"][:], file["values/rank_offsets"][:]
                paths, cpu_ns = file["values/path"][:], file["values/cpu_ns"][:]
                for row, rank in enumerate(ranks):
                    here = found.setdefault(int(rank), {})
                    for value in range(rows[row], rows[row + 1]):
                        node, seen = int(paths[value]), set()
                        while node:
                            seen.add(names[frames[node]])
                            node = int(parents[node])
                        for name in seen:
                            here[name] = here.get(name, 0) + int(cpu_ns[value]) / 1e9
        return found

    def ended_at(self, run):
        import h5py
        ends = {}
        for path in glob.glob(os.path.join(run, "node-*.h5")):
            with h5py.File(path, "r") as file:
                for i, rank in enumerate(file["ranks/rank"][:]):
                    ends[int(rank)] = (int(file["ranks/start_utc_ns"][i]) + int(file["ranks/elapsed_ns"][i])) / 1e9
        return ends

    def has_all_samples(self, run, rank, phases=PHASES, missing_s=MISSING_S):
        found = self.cpu_times(run)[rank]
        for phase in phases:
            self.measured_above(found.get(phase, 0), PHASE_S - missing_s, f"{phase} of rank {rank} among {found}")

    def says_that(self, run, rank, signal_number, lost, last=None):
        """The report, as data and as text, names the end of the rank and where it was last seen."""
        report = self.report(run)
        end = next(row["exit"] for row in report["ranks"] if row["rank"] == rank)
        self.assertIn(end["signal"], signal_number if isinstance(signal_number, tuple) else (signal_number,))
        self.assertEqual(end["lost"], lost)
        self.assertFalse(lost and report["run"]["complete"])
        if last is not None:
            # "function (file:line)" of code, the outermost first; below it there may be libc's kill().
            self.assertTrue(any(frame.split(" ")[0] in last.split("|") for frame in end["last_call_path"]), end)
        text = subprocess.run([recording.CLUSTERPROF, "report", run], capture_output=True, text=True, timeout=60)
        words = " ".join(text.stdout.split())
        self.assertEqual(lost, "INCOMPLETE" in words, words[:500])
        if lost:
            self.assertRegex(words, r"ranks lost \d+ of \d+: ")
        if last is not None:
            self.assertRegex(words, rf"last call path (rank \d+: .*)?rank {rank}: .*({last})")
        return report

    def ends_alike(self, how, before=(), at=None):
        place, run, mark_path = self.place(f"{how}-{time.monotonic_ns()}")
        program = [self.compile(), mark_path, how]
        gate = os.path.join(place, "gate")
        environment = {**os.environ, **({"LOSSES_GATE": gate} if at else {})}
        bare = self.start([*before, *program[:1], mark_path + "-bare", how], place, env=environment)
        recorded = self.start([*before, recording.CLUSTERPROF, "-q", "-o", run, *program], place, env=environment)
        if at is not None:
            try:
                at(run)
            finally:
                open(gate, "w").close()
        expected = bare.communicate(timeout=60), bare.returncode
        self.assertEqual((recorded.communicate(timeout=60), recorded.returncode), expected)
        mark = Mark(mark_path + ".0")
        self.assertEqual(mark.phase, 3)
        signal_number, last = ENDS[how]
        report = self.says_that(run, 0, signal_number, signal_number is not None, last)
        self.has_all_samples(run, 0)
        if how == "quick_exit" or signal_number is None:
            self.assertEqual(report["ranks"][0]["exit"]["status"], 3)
        # The end itself by the clock, the CPU time by the samples.
        self.assertGreaterEqual(self.ended_at(run)[0], mark.utc_s - 0.001)
        self.assertGreaterEqual(report["ranks"][0]["cpu_s"], mark.cpu_s - 0.1)
        self.assertLessEqual(report["ranks"][0]["cpu_s"], mark.cpu_s + 1)
        self.assertLessEqual(set(report["run"]["dropped"]), {"reentrant"})  # where the agent was at work, counted
        self.nothing_left(run)

    def test_ends_of_programs(self):
        self.compile()
        ends = list(ENDS) * 20 if LONG else SHORT
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for how, done in [(how, pool.submit(self.ends_alike, how)) for how in ends]:
                with self.subTest(how):
                    done.result()

    def test_ring_of_a_dead_rank_is_read(self):
        """The collector is stopped before the first phase and continues only after the rank's death."""
        def stop(run):
            found = []
            def collector():
                found[:] = [pid for pid, words in recording.processes() if recording.is_collector(words, run)]
                # From its claim on it knows that it is to record.
                return found and (glob.glob(os.path.join(run, ".node-*.claim")) or glob.glob(os.path.join(run, "node-*.h5")))
            self.await_(collector, "a collector")
            os.kill(found[0], signal.SIGSTOP)
            self.await_(lambda: recording.state(found[0]) == "T", "a collector that is stopped")
        for _ in range(10 if LONG else 1):
            self.ends_alike("kill", at=stop)

    def test_death_before_the_first_sample(self):
        """The rank dies before its first sample. The report only says that it was lost."""
        place, run, _ = self.place("start")
        shell = ["sh", "-c", "kill -9 $$"]
        done = self.start([recording.CLUSTERPROF, "-q", "-o", run, *shell], place)
        self.assertEqual(done.communicate(timeout=60), (b"", b""))
        self.assertEqual(done.returncode, -KILL)
        self.says_that(run, 0, KILL, True)
        self.nothing_left(run)
        place, run, mark = self.place("group")  # and by a signal to all: launcher, program and whoever waits
        done = self.start([recording.CLUSTERPROF, "-q", "-o", run, "sh", "-c", "kill -15 0"], place)
        self.assertEqual(done.communicate(timeout=60), (b"", b""))
        self.assertEqual(done.returncode, -TERM)
        self.says_that(run, 0, TERM, True)
        self.nothing_left(run)

    def test_python(self):
        place, run, _ = self.place("python")
        script = os.path.join(place, "dies.py")
        with open(script, "w") as file:
            file.write(PYTHON)
        for number in (KILL, ABRT, SEGV) if LONG else (KILL,):
            run = os.path.join(place, "run")
            shutil.rmtree(run, ignore_errors=True)
            done = self.start([recording.CLUSTERPROF, "-q", "-o", run, recording.PYTHON, script, str(number)], place)
            done.communicate(timeout=60)
            self.assertEqual(done.returncode, -number)
            self.says_that(run, 0, number, True, "last_phase")
            self.has_all_samples(run, 0)
            self.nothing_left(run)

    def test_no_memory_left(self):
        """The kernel's own OOM kill, in a memory cgroup that holds the program alone, and one that holds all of us."""
        enter = MemoryGroup(self, 64 << 20).enter()
        for inside in ((), enter) if LONG else ((),):
            place, run, mark_path = self.place(f"memory{len(inside)}")
            command = [self.compile(), mark_path, "memory"]
            command = [*inside, recording.CLUSTERPROF, "-q", "-o", run, *(() if inside else enter), *command]
            process = self.start(command, place)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -KILL)
            self.gone(place)
            self.says_that(run, 0, KILL, True)
            self.has_all_samples(run, 0)
            self.nothing_left(run)

    # --- MPI ---

    def mpi(self, flavour, how, before=(), launcher=(), wait=True):
        place, run, mark = self.place(f"{flavour}-{how}-{time.monotonic_ns()}")
        command = [*recording.launcher(flavour, RANKS), *launcher, *before, recording.CLUSTERPROF, "-q", "-o", run,
                   self.compile(flavour), mark, how, str(ROUNDS), str(VICTIM)]
        process = self.start(command, place, env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
                                                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        if wait:
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                # Open MPI's mpirun may not notice that its ranks are gone (tests/mpi_defects).
                left = [words for pid, words in self.of_job(place) if pid != process.pid and not recording.has_ended(pid)]
                self.assertEqual(left, [], "the job does not end")
                process.kill()
                process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.gone(place)
        return process, place, run, mark

    def one_rank_of_several(self, flavour, how, signal_number, last="last_phase"):
        _, _, run, mark = self.mpi(flavour, how)
        # UCX of MPICH and Open MPI have handlers for faults, which print and raise them again.
        # MPI_Abort, which end() calls, takes long enough to be seen.
        report = self.says_that(run, VICTIM, signal_number, True, last + "|end" if how == "mpi_abort" else last)
        self.assertEqual([rank["rank"] for rank in report["ranks"] if rank["exit"]["lost"]], list(range(RANKS)))
        # Ranks that share a processor get on by pieces of time that are longer than a period.
        missing_s = MISSING_S + 0.02
        self.has_all_samples(run, VICTIM, missing_s=missing_s)
        for rank in range(RANKS):
            if rank != VICTIM:  # it waited for them in MPI_Barrier, until they had all of their phase behind them
                self.has_all_samples(run, rank, PHASES[:1], missing_s)
        calls = {}
        for call in report["mpi"]["calls"]:
            calls[call["op"]] = calls.get(call["op"], 0) + call["count"]
        self.assertEqual(sum(Mark(f"{mark}.{rank}").calls for rank in range(RANKS)), RANKS * ROUNDS)
        self.assertEqual((calls["MPI_Sendrecv"], calls["MPI_Init"]), (RANKS * ROUNDS, RANKS))
        self.nothing_left(run)

    def test_ranks_of_mpi_jobs(self):
        aborts = ("mpi_abort", (None, TERM, KILL))  # itself, or by its launcher that it asked to end all
        cases = [("openmpi", "kill", KILL), ("mpich", *aborts)]
        if LONG:
            cases = [(flavour, how, number) for flavour in ("openmpi", "mpich") for how, number in
                     (("kill", KILL), ("term", TERM), ("_exit", None), ("exit", None), aborts, ("abort", ABRT))] * 5
        for flavour in {flavour for flavour, _, _ in cases}:
            self.compile(flavour)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for case, done in [(case, pool.submit(self.one_rank_of_several, *case)) for case in cases]:
                with self.subTest(case):
                    done.result()

    def test_a_report_before_the_first_shard(self):
        """Launchers were killed, and the collector is still writing its first shard when somebody asks for a report."""
        place, run, _ = self.place("early")
        os.mkdir(run)
        claim, shard = os.path.join(run, ".node-node0001.claim"), os.path.join(run, "node-node0001.h5")
        open(claim, "w").close()
        report = self.start([recording.CLUSTERPROF, "report", "--json", run], place)
        time.sleep(0.3)
        shutil.copy(os.path.join(recording.SOURCE, "tests", "golden", "shard", "node-node0001.h5"), shard + "~")
        os.rename(shard + "~", shard)
        os.unlink(claim)
        out, err = report.communicate(timeout=60)
        self.assertEqual((report.returncode, err), (0, b""))
        self.assertIn(b"Solver.step", out)

    # --- jobs and nodes ---

    def killed_job(self, flavour, everybody, ignored=True, pause_s=2.0):
        """Sends SIGTERM, and later SIGKILL, to the launcher or to all processes of the job, the collector included."""
        before = ["env", "--ignore-signal=TERM"] if ignored else []
        if flavour == "plain":
            place, run, mark = self.place(f"job-{time.monotonic_ns()}")
            process = self.start([*before, recording.CLUSTERPROF, "-q", "-o", run, self.compile(), mark, "wait"], place)
        else:
            process, place, run, mark = self.mpi(flavour, "wait", before=before, wait=False)
        marks = [f"{mark}.{rank}" for rank in range(1 if flavour == "plain" else RANKS)]
        self.await_(lambda: all(os.path.exists(path) and os.path.getsize(path) == 40 and Mark(path).phase == 3 or
                                os.path.exists(path) and flavour != "plain" and os.path.getsize(path) == 40 and
                                Mark(path).phase >= 1 for path in marks), "all ranks")
        asked_utc_s = time.time()
        for number, pause in ((signal.SIGTERM, pause_s), (signal.SIGKILL, 0)):
            for pid in [pid for pid, _ in self.of_job(place)] if everybody else [process.pid]:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            time.sleep(pause)
        process.communicate(timeout=60)
        self.gone(place)
        report = self.report(run)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(len(marks))))
        self.assertTrue(all(rank["exit"]["lost"] for rank in report["ranks"]), report["ranks"])
        self.assertFalse(report["run"]["complete"])
        # At least all up to the first signal.
        for rank, end_utc_s in self.ended_at(run).items():
            # A collector that gets no processor for pause_s does not write.
            self.measured_above(end_utc_s - min(asked_utc_s, Mark(marks[rank]).utc_s), -0.1, f"end of rank {rank}")
        self.nothing_left(run)

    def test_jobs_that_are_killed(self):
        cases = [("plain", True), ("mpich", True)]
        if LONG:
            cases = [(flavour, everybody, ignored, pause_s) for flavour in ("plain", "openmpi", "mpich")
                     for everybody in (False, True) for ignored in (False, True) for pause_s in (2.0, 30.0)]
        for case in cases:
            self.compile(case[0])
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for case, done in [(case, pool.submit(self.killed_job, *case)) for case in cases]:
                with self.subTest(case):
                    done.result()

    def killed_launcher(self, flavour):
        process, place, run, mark = self.mpi(flavour, "wait", wait=False)
        marks = [f"{mark}.{rank}" for rank in range(RANKS)]
        self.await_(lambda: all(os.path.exists(path) and os.path.getsize(path) == 40 and Mark(path).phase >= 1
                                for path in marks), "all ranks")
        process.kill()
        process.communicate(timeout=60)
        self.gone(place)
        report = self.report(run)
        first = report["findings"][0]
        self.assertEqual((first["kind"], first["ranks"]), ("launcher_gone", list(range(RANKS))), report["findings"])
        self.assertTrue(first["evidence"]["launcher"].startswith("mpi"), first)
        self.assertFalse({"rank_failed", "ranks_ended_after", "ranks_lost"} & {row["kind"] for row in report["findings"]})
        self.nothing_left(run)

    def test_launchers_that_are_killed(self):
        flavours = ("openmpi", "mpich")
        for flavour in flavours:
            self.compile(flavour)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for flavour, done in [(flavour, pool.submit(self.killed_launcher, flavour)) for flavour in flavours]:
                with self.subTest(flavour):
                    done.result()

    def killed_node(self, after_s):
        """Kills all processes of one of two nodes at once. The others end as they would anyway."""
        place, run, mark = self.place(f"node-{time.monotonic_ns()}")
        gate, port = os.path.join(place, "gate"), str(time.monotonic_ns() % 50000)
        program = ["sh", "-c", f'"$0" "$1" exit & wait; while [ ! -e {gate} ]; do sleep 0.1; done', self.compile()]
        # A launcher that leaves the others alone when a node is lost, as `srun --no-kill` does.
        ranks = [self.start(["sh", "-c", 'export SLURM_TASK_PID=$$; exec "$@"', "sh", recording.CLUSTERPROF, "-q", "-o",
                             run, *program, f"{mark}{rank}"], place,
                            env=dict(os.environ, CLUSTERPROF_NODE=f"part{rank // 2}", SLURM_JOB_ID=str(os.getpid()),
                                     SLURM_STEP_ID="0", SLURM_NTASKS="4", SLURM_STEP_NUM_TASKS="4",
                                     SLURM_STEP_LAUNCHER_PORT=port, SLURM_NNODES="2",
                                     SLURM_STEP_TASKS_PER_NODE="2(x2)", SLURM_PROCID=str(rank),
                                     SLURM_LOCALID=str(rank % 2), SLURM_NODEID=str(rank // 2)))
                 for rank in range(4)]
        self.await_(lambda: all(os.path.exists(f"{mark}{rank}.0") and os.path.getsize(f"{mark}{rank}.0") == 40 and
                                Mark(f"{mark}{rank}.0").phase == 3 for rank in range(4)), "all ranks")
        # A shard has both of its ranks; one that is lost before has none. The first one may have been written between them.
        self.await_(lambda: self.ranks_of_shard(os.path.join(run, "node-part1.h5")) == {2, 3}, "a shard of both ranks")
        time.sleep(after_s)
        victims = [pid for pid, words in self.of_job(place) if "--node=part1" in words or self.is_of_node(pid, "part1")]
        killed_utc_s = time.time()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody sees anybody else's end
            for pid in victims:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
        open(gate, "w").close()
        self.assertEqual([(rank.communicate(timeout=60), rank.returncode) for rank in ranks],
                         [((b"", b""), 0)] * 2 + [((b"", b""), -KILL)] * 2)
        self.gone(place)
        report = self.report(run)
        ends = {rank["rank"]: rank["exit"] for rank in report["ranks"]}
        self.assertEqual({rank for rank, end in ends.items() if end["lost"]}, {2, 3})
        self.assertEqual({ends[rank]["status"] for rank in (0, 1)}, {0})
        self.assertEqual([note["evidence"]["shard"] for note in report["run"]["note_records"]
                          if note["code"] == "incomplete_shard"], ["node-part1.h5"])
        until = self.ended_at(run)
        for rank in (0, 1):
            self.has_all_samples(run, rank)
        for rank in (2, 3):
            # 1.5 s of a machine that has other things to do.
            self.measured_below(killed_utc_s - until[rank], 5 + 1.5, f"missing of rank {rank}")
        self.nothing_left(run)
        return killed_utc_s - min(until[rank] for rank in (2, 3))

    @staticmethod
    def ranks_of_shard(path):
        import h5py
        try:
            with h5py.File(path, "r") as file:
                return set(map(int, file["ranks/rank"][:]))
        except OSError:  # not there, or being replaced
            return set()

    @staticmethod
    def is_of_node(pid, node):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"CLUSTERPROF_NODE={node}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def test_a_node_that_is_killed(self):
        self.compile()
        chance = random.Random(SEED) if LONG else None
        for after_s in [chance.uniform(0, 12) for _ in range(10)] if LONG else [0.2]:
            print(f"killed after {after_s:.1f} s: {self.killed_node(after_s):.1f} s are missing", file=sys.stderr)


if __name__ == "__main__":
    try:
        import h5py  # noqa: F401
    except ImportError:
        print("h5py is not here")
        sys.exit(77)
    recording.main()
