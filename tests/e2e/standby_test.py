"""A run on standby records what is between `clusterprof start` and `stop`, and nothing else. What it says of that time is
compared with what the program itself has measured. The same verbs switch a light run to full recording and back."""

import ctypes
import glob
import json
import os
import select
import struct
import subprocess
import time

import recording

# Two ranks; rank 1 computes longer, so rank 0 waits for it in every barrier. Each phase lasts until the test says so, by a
# file. Every rank writes down when it entered and left its barriers (CLOCK_REALTIME).
PROGRAM = """
import json, os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
directory = sys.argv[1]
log = open(os.path.join(directory, f"rank-{world.rank}.jsonl"), "w")

def work(cpu_s):
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        pass

def loop(phase):
    open(os.path.join(directory, f"in-{phase}-{world.rank}"), "w").close()
    while True:
        work(0.03 if world.rank else 0.005)
        request = world.irecv(source=1) if world.rank == 0 else world.isend("x", 0)
        enter = time.time_ns()
        world.Barrier()
        leave = time.time_ns()
        request.wait()
        print(json.dumps([phase, enter, leave]), file=log, flush=True)
        done = os.path.exists(os.path.join(directory, f"end-{phase}")) if world.rank == 0 else None
        if world.bcast(done):
            return

def before():
    loop("before")

def during():
    loop("during")

def between():
    loop("between")

def again():
    loop("again")

def after():
    loop("after")

for phase in sys.argv[2:]:
    globals()[phase]()
"""
PATIENCE_S = 120


class Windows(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        self.need("mpirun.openmpi")
        self.run_directory = os.path.join(self.directory, "run")
        self.process = None

    def begin(self, options, *phases):
        script = os.path.join(self.directory, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        self.process = subprocess.Popen(
            [*recording.launcher("openmpi", 2), recording.CLUSTERPROF, *options, "-o", self.run_directory,
             recording.PYTHON, script, self.directory, *phases],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.end)
        # Who is not there yet is not asked.
        self.await_(lambda: glob.glob(os.path.join(self.run_directory, ".control", "node-*")), "the collector's answer")

    def end(self):
        script = os.path.join(self.directory, "program.py")
        recording.end_job(self.process, lambda words: words[:2] == [recording.PYTHON, script], PATIENCE_S)

    def clusterprof(self, *words, status=0):
        done = subprocess.run([recording.CLUSTERPROF, *words], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout if status == 0 else done.stderr

    def await_(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            self.assertIsNone(self.process.poll(), "the program has ended")
            time.sleep(0.05)

    def await_phase(self, phase):
        names = [os.path.join(self.directory, f"in-{phase}-{rank}") for rank in range(2)]
        self.await_(lambda: all(map(os.path.exists, names)), f"phase {phase}")

    def barriers(self, rank):
        with open(os.path.join(self.directory, f"rank-{rank}.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def await_barriers(self, count):
        """So many more on each rank."""
        wanted = [len(self.barriers(rank)) + count for rank in range(2)]
        self.await_(lambda: all(len(self.barriers(rank)) >= wanted[rank] for rank in range(2)), "barriers")

    def finish(self, *phases):
        for phase in phases:
            open(os.path.join(self.directory, f"end-{phase}"), "w").close()
        _, stderr = self.process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.process.returncode, 0, stderr.decode(errors="replace"))
        self.await_last_shard()
        return stderr.decode(errors="replace")

    def agents_sleep(self):
        """How often the agent's thread has gone to sleep, and its state, by its id; of both ranks."""
        script = os.path.join(self.directory, "program.py")
        found = {}
        for pid, words in recording.processes():
            if words[:2] != [recording.PYTHON, script]:
                continue
            for status in glob.glob(f"/proc/{pid}/task/*/status"):
                with open(status) as file:
                    fields = dict(line.rstrip("\n").split(":", 1) for line in file)
                if fields["Name"].strip() == "clusterprof":
                    found[fields["Pid"].strip()] = fields["voluntary_ctxt_switches"].strip(), fields["State"].split()[0]
        self.assertEqual(len(found), 2)
        return found

    def await_agents_asleep(self):
        """Until the agent's threads have done what they do at the start: they are asleep, and were not awake for a while. One that
        lacks a processor is not asleep."""
        seen = [self.agents_sleep(), None]

        def nothing_changes():
            time.sleep(0.5)
            seen[:] = [self.agents_sleep(), seen[0]]
            return seen[0] == seen[1] and {state for _, state in seen[0].values()} == {"S"}
        self.await_(nothing_changes, "the agents' sleep")
        return seen[0]

    def leave(self, phase, next_phase):
        open(os.path.join(self.directory, f"end-{phase}"), "w").close()
        self.await_phase(next_phase)

    def table(self, name):
        """Rows of a table of the profile, by column."""
        lines = self.clusterprof("dump", self.run_directory).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith(f"[{name}] "))
        columns = lines[start + 1].split("\t")
        rows = []
        for line in lines[start + 2:]:
            cells = line.split("\t")
            if len(cells) != len(columns):
                break
            rows.append(dict(zip(columns, cells)))
        return rows

    def windows(self):
        """Of each rank, on the program's clock."""
        ranks = self.table("ranks")
        found = {0: [], 1: []}
        for row in self.table("recording_windows"):
            rank = ranks[int(row["rank_row"])]
            start = int(rank["start_utc_ns"])
            found[int(rank["rank"])].append((start + int(row["begin_ns"]), start + int(row["end_ns"])))
        return found

    def truth(self, windows):
        """By the program's clock, in the windows: how long rank 0 was in its barriers, and how long the ranks waited there for
        each other."""
        inside = waited = 0
        for (_, enter, leave), (_, other_enter, other_leave) in zip(self.barriers(0), self.barriers(1)):
            for (begin, end), (other_begin, other_end) in zip(windows[0], windows[1]):
                inside += max(0, min(leave, end) - max(enter, begin))
                # Where one of them was outside, nobody knows what the other waited for.
                if leave > begin and enter < end and other_leave > other_begin and other_enter < other_end:
                    waited += max(0, min(other_enter, end) - max(enter, begin))
                    waited += max(0, min(enter, other_end) - max(other_enter, other_begin))
        return inside / 1e9, waited / 1e9

    def check_windows(self, report, windows, count):
        self.assertEqual([len(windows[rank]) for rank in range(2)], [count, count])
        self.assertEqual([window["ranks"] for window in report["run"]["windows"]], [2] * count)
        for i, window in enumerate(report["run"]["windows"]):
            length = (max(windows[r][i][1] for r in range(2)) - min(windows[r][i][0] for r in range(2))) / 1e9
            self.assertAlmostEqual(window["end_s"] - window["begin_s"], length, delta=0.001)

    def check_waits(self, report, windows):
        inside, waited = self.truth(windows)
        self.assertGreater(waited, 0.2)
        seen = sum(wait["wait_s"] for wait in report["mpi"]["waits"] if wait["kind"] == "wait_at_barrier")
        self.measured_near(seen, waited, 0.03 + 0.05 * inside, "waiting in barriers")
        analysis = report["wait_analysis"]
        self.assertEqual((analysis["unmatched_messages"], analysis["unmatched_collectives"]), (0, 0))
        self.assertGreater(analysis["messages"], 5)
        causes = [cause for wait in report["mpi"]["waits"] if wait["rank"] == 0 and wait["kind"] == "wait_at_barrier"
                  for cause in wait["caused_by"]]
        self.assertEqual({cause["rank"] for cause in causes}, {1})
        return inside, waited


class Standby(Windows):
    def test_what_is_recorded_is_the_window(self):
        self.begin(["--standby"], "before", "during", "between", "again", "after")
        self.await_phase("before")
        self.await_barriers(3)
        self.leave("before", "during")
        self.assertRegex(self.clusterprof("start", self.run_directory), r"^recording on 1 node, 2 ranks$")
        self.await_barriers(25)
        # A second start changes nothing.
        self.assertRegex(self.clusterprof("start", self.run_directory), r"^recording on 1 node, 2 ranks$")
        self.assertRegex(self.clusterprof("stop", self.run_directory), r"^recording is stopped on 1 node, 2 ranks$")
        self.leave("during", "between")
        self.await_barriers(10)
        self.leave("between", "again")
        self.clusterprof("start", self.run_directory)
        self.await_barriers(25)
        self.clusterprof("stop", self.run_directory)
        self.leave("again", "after")
        self.await_barriers(3)
        summary = self.finish("after")

        report = self.report()
        run = report["run"]
        windows = self.windows()
        self.assertTrue(run["standby"])
        self.check_windows(report, windows, 2)
        self.assertAlmostEqual(run["elapsed_s"], sum(w["end_s"] - w["begin_s"] for w in run["windows"]), delta=0.001)
        self.assertGreater(run["lasted_s"], run["elapsed_s"] + 1)
        inside, _ = self.check_waits(report, windows)
        self.assertAlmostEqual(
            sum(call["wait_s"] for call in report["mpi"]["calls"] if call["op"] == "MPI_Barrier"),
            sum(wait["wait_s"] for wait in report["mpi"]["waits"] if wait["kind"] == "wait_at_barrier"), places=4)
        for rank in report["ranks"]:
            recorded = sum(end - begin for begin, end in windows[rank["rank"]]) / 1e9
            self.measured_near(rank["elapsed_s"], recorded, 0.05, f"recorded of rank {rank['rank']}")
            parts = sum(rank[f"{part}_s"] or 0
                        for part in ("python", "native", "system", "mpi", "io", "idle", "runnable"))
            self.measured_near(parts, rank["elapsed_s"], 0.1, f"all categories of rank {rank['rank']}")
            self.assertIsNone(rank["cpu_s"])  # the kernel's count is of the whole process
        self.measured_above(report["ranks"][0]["mpi_s"] + 0.05, inside, "time in MPI of rank 0")
        self.assertLess(report["ranks"][0]["mpi_s"], report["ranks"][0]["elapsed_s"])
        # Both sides of every message in the windows are there, although neither was numbered by what is recorded.
        names = {function["name"] for function in report["functions"]}
        self.assertTrue({"during", "again"} <= names, names)
        self.assertFalse({"before", "between", "after"} & names, names)
        barriers = sum(call["count"] for call in report["mpi"]["calls"] if call["op"] == "MPI_Barrier")
        self.assertLess(barriers, len(self.barriers(0)) + len(self.barriers(1)))
        codes = {note["code"] for note in run["note_records"]}
        self.assertIn("only_windows", codes)
        self.assertIn("in 2 windows", summary)
        self.assertIn("in 2 windows", self.clusterprof("report", self.run_directory))

    def test_for_a_time(self):
        self.begin(["--standby"], "during")
        self.await_phase("during")
        self.await_barriers(3)
        self.assertRegex(self.clusterprof("start", self.run_directory, "--for", "1.5s"),
                         r"^recording on 1 node, 2 ranks, for 1.5s$")
        answer, = glob.glob(os.path.join(self.run_directory, ".control", "node-*"))

        def is_over():
            with open(answer) as file:
                return "open 0" in file.read()
        self.await_(is_over, "the end of the window")
        self.await_barriers(10)
        self.finish("during")
        report = self.report()
        windows = self.windows()
        self.check_windows(report, windows, 1)
        # Not before its time; and the program went on.
        for rank in range(2):
            begin, end = windows[rank][0]
            self.measured_above((end - begin) / 1e9, 1.4, f"window of rank {rank}")
            self.assertGreater(len([1 for _, enter, _ in self.barriers(rank) if enter > end]), 5)

    def test_never_started(self):
        self.begin(["--standby"], "before")
        self.await_phase("before")
        self.await_barriers(5)
        sleeping = self.await_agents_asleep()
        self.await_barriers(30)
        self.assertEqual(self.agents_sleep(), sleeping)  # nobody woke them
        summary = self.finish("before")
        self.assertIn("never started", summary)
        report = self.report()
        run = report["run"]
        self.assertEqual((run["standby"], run["windows"], run["elapsed_s"], run["samples"]), (True, [], 0, 0))
        self.assertIn("never_started", {note["code"] for note in run["note_records"]})
        self.assertEqual((report["findings"], report["mpi"]["calls"], report["functions"]), ([], [], []))
        for rank in report["ranks"]:
            self.assertEqual((rank["exit"]["status"], rank["exit"]["lost"]), (0, False))
        self.assertIn("never started", self.clusterprof("report", self.run_directory))
        self.assertIn("never started", self.clusterprof("report", "--oneline", self.run_directory))
        # Nobody is there any more.
        said = self.clusterprof("start", self.run_directory, status=1)
        self.assertEqual(len(said.splitlines()), 1)
        self.assertIn("nobody there can be asked", said)

    def test_nobody_answers(self):
        self.begin(["--standby"], "before")
        self.await_phase("before")
        collector, = [pid for pid, words in recording.processes() if recording.is_collector(words, self.run_directory)]
        os.kill(collector, 9)
        said = self.clusterprof("start", self.run_directory, status=1)
        self.assertEqual(len(said.splitlines()), 1)
        self.assertIn("no node has answered", said)
        open(os.path.join(self.directory, "end-before"), "w").close()

    def test_a_request_of_another_user_is_ignored(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make files of another user")
        self.begin(["--standby"], "before")
        self.await_phase("before")
        request = os.path.join(self.run_directory, ".control", "request")
        with open(request + "-new", "w") as file:
            file.write(f"clusterprof-control 1\nsequence {2**62}\nopen 1\nat_unix_ns {time.time_ns()}\nlasting_ns 0\nend\n")
        os.chown(request + "-new", 65534, 65534)
        opened = Opened(request + "-new")
        os.rename(request + "-new", request)
        # It has been looked at twice, so what was found the first time has been dealt with.
        for _ in range(2):
            self.assertTrue(opened.await_one(PATIENCE_S))
        self.await_barriers(5)
        self.clusterprof("stop", self.run_directory)  # one that counts, although its number is smaller
        self.finish("before")
        self.assertEqual(self.report()["run"]["windows"], [])


class Light(Windows):
    def test_full_and_back(self):
        self.begin(["--mode", "light"], "before", "during", "after")
        self.await_phase("before")
        self.await_barriers(10)
        self.leave("before", "during")
        self.assertRegex(self.clusterprof("start", self.run_directory), r"^recording in full on 1 node, 2 ranks$")
        self.await_barriers(40)
        self.assertRegex(self.clusterprof("stop", self.run_directory), r"^recording in light mode again on 1 node, 2 ranks$")
        self.leave("during", "after")
        self.await_barriers(10)
        self.finish("after")
        report = self.report()
        windows = self.windows()
        self.assertFalse(report["run"]["standby"])
        self.check_windows(report, windows, 1)
        self.assertEqual(report["run"]["elapsed_s"], report["run"]["lasted_s"])
        self.check_waits(report, windows)
        # The rest is of the whole run.
        barriers = sum(call["count"] for call in report["mpi"]["calls"] if call["op"] == "MPI_Barrier")
        self.assertEqual(barriers, len(self.barriers(0)) + len(self.barriers(1)))
        for rank in report["ranks"]:
            self.assertIsNone(rank["mpi_wait_s"])  # of the time in MPI outside of the window it is not known
            self.assertIsNotNone(rank["cpu_s"])
        names = {function["name"] for function in report["functions"]}
        self.assertTrue({"before", "during", "after"} <= names, names)
        codes = {note["code"] for note in report["run"]["note_records"]}
        self.assertTrue({"light_recording", "full_in_windows"} <= codes, codes)


class Opened:
    """Tells how often a file is opened."""
    IN_OPEN = 0x20

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        if libc.inotify_add_watch(self.fd, os.fsencode(path), self.IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), path)
        self.left = 0

    def await_one(self, seconds):
        if self.left == 0:
            if not select.select([self.fd], [], [], seconds)[0]:
                return False
            data, at = os.read(self.fd, 65536), 0
            while at < len(data):
                at += struct.calcsize("iIII") + struct.unpack_from("iIII", data, at)[3]
                self.left += 1
        self.left -= 1
        return True


if __name__ == "__main__":
    recording.main()
