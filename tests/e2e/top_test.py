# SPDX-License-Identifier: BSD-3-Clause
"""`clusterprof top` of jobs whose ranks do what is known by construction (truth/programs/hangs.c): two wait in
MPI_Barrier, and the third sleeps, or computes. While nobody watches, nothing is written for it; when the job has ended,
its last state is shown."""

import glob
import json
import os
import re
import shutil
import subprocess
import time

import recording

LATEST_S = 150  # on a machine that is busy


class Top(recording.RecordingTest):
    def start(self, kind):
        program = recording.program("openmpi", "hangs")
        self.need(program)
        self.run_directory = os.path.join(self.directory, kind)
        self.command = [program, kind, self.run_directory]
        self.process = subprocess.Popen(
            [*recording.launcher("openmpi", 3), recording.CLUSTERPROF, "-o", self.run_directory, *self.command],
            cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.end)

    def end(self):
        recording.end_job(self.process, lambda words: words[:-1] == self.command)

    def top(self, *options):
        return subprocess.run([recording.CLUSTERPROF, "top", self.run_directory, *options], capture_output=True,
                              text=True, timeout=120)

    def stacks(self, *options):
        return subprocess.run([recording.CLUSTERPROF, "stacks", self.run_directory, *options], capture_output=True, check=True,
                              text=True, timeout=120).stdout

    def await_top(self, condition):
        deadline = time.monotonic() + LATEST_S
        said = ""
        while time.monotonic() < deadline:
            done = self.top("--once", "--json")
            said = done.stdout or done.stderr
            if done.returncode == 0 and condition(json.loads(said)):
                return json.loads(said)
            time.sleep(0.2)
        self.fail(f"{self.run_directory}: {said[:4000]}")

    def await_all(self, function, also=lambda said: True):
        """Rank 2 is in `function`, the others in wait_in_barrier() and its barrier, what they have done lately is known, and `also`."""
        def is_there(said):
            ranks = said["ranks"]
            return len(ranks) == 3 and all(rank["window_s"] for rank in ranks) and \
                ranks[2]["function"] in function and \
                all(rank["function"] == "wait_in_barrier" for rank in ranks[:2]) and \
                [rank["op"] for rank in ranks] == ["MPI_Barrier", "MPI_Barrier", None] and also(said)
        return self.await_top(is_there)

    def check_sums(self, said):
        names = ("python", "native", "system", "mpi", "io", "idle", "runnable")
        for rank in said["ranks"]:
            whole = sum(rank[f"{name}_s"] or 0 for name in names)
            self.measured_near(whole, rank["window_s"], 0.05 * rank["window_s"], f"all categories of rank {rank['rank']}")
        for rank in said["ranks"][:2]:
            self.measured_near(rank["mpi_s"], rank["window_s"], 0.05 * rank["window_s"], f"MPI of rank {rank['rank']}")
            self.assertGreater(rank["op_s"], 0)
            self.assertEqual(rank["unmoved_s"], rank["op_s"])
        self.assertEqual(said["schema"], "clusterprof.top/1")
        self.assertEqual(said["state"], "running")
        self.assertLess(said["as_of_s"], 60)
        self.assertEqual(said["as_of_s"], max(node["as_of_s"] for node in said["nodes"]))
        for rank in said["ranks"]:
            self.assertGreater(rank["rss_bytes"], 1_000_000)

    def test_a_rank_sleeps(self):
        self.start("asleep")
        self.await_last_checkpoint()
        self.assertFalse(os.path.exists(os.path.join(self.run_directory, ".control")), "nobody has watched")
        said = self.await_all(("be_asleep",))
        self.check_sums(said)
        asleep = said["ranks"][2]
        self.measured_near(asleep["idle_s"], asleep["window_s"], 0.05 * asleep["window_s"], "idle")
        self.assertEqual(asleep["mpi_s"], 0)
        self.assertIsNone(asleep["op_s"])
        live, = [name for name in os.listdir(os.path.join(self.run_directory, ".control")) if name.startswith("live-")]
        self.assertEqual(os.stat(os.path.join(self.run_directory, ".control", live)).st_mode & 0o777, 0o600)

        later = self.await_top(lambda now: now["failure"] is not None and len(now["ranks"]) == 3)
        self.assertEqual(later["failure"]["kind"], "deadlock")
        self.assertEqual(later["failure"]["rank"], 2)
        self.assertGreater(later["ranks"][0]["op_s"], said["ranks"][0]["op_s"])
        self.assertGreater(later["ranks"][2]["unmoved_s"], 5)
        # The ranks that are blocked have had their last samples before the barrier, some of them in MPI_Init.
        window_s = min(rank["window_s"] for rank in later["ranks"])
        times_s = {function["name"]: function["self_s"] for function in later["functions"] if function["kind"] == "mpi"}
        self.measured_near(times_s.pop("MPI_Barrier"), 2 * window_s, 0.2 * window_s, "time in the barrier")
        self.measured_below(sum(times_s.values()), 0.05 * window_s, f"other MPI functions: {times_s}")
        text = self.top("--once").stdout
        self.assertRegex(text, "running, as of (now|[0-9]+ s ago): 3 ranks on 1 node")
        # The same sentence everywhere, first of all. Lines may be known a little later.
        def without_places(sentence):
            return re.sub(r" \(hangs\.c:\d+\)| hangs\.c:\d+| \[hangs\]|, asleep for .*", "", sentence)
        verdict = "Deadlock: ranks 0, 1 wait in MPI_Barrier on MPI_COMM_WORLD, operation 1, for rank 2, which is in be_asleep()"
        self.assertRegex(later["verdict"], r", asleep for [^.]+(\.[0-9]+)? m?s\.$")
        self.assertEqual(without_places(later["verdict"]), verdict)
        self.assertIn(verdict, without_places(" ".join(text.partition("Ranks")[0].split())))
        deadline = time.monotonic() + LATEST_S  # a shard may be older than what top knows
        while (said_by_stacks := json.loads(self.stacks("--json"))["verdict"]) is None:
            self.assertLess(time.monotonic(), deadline, "no verdict of stacks")
            time.sleep(0.5)
        self.assertEqual(without_places(said_by_stacks), verdict)
        self.assertIn(verdict, without_places(self.stacks()))
        if shutil.which("tmux"):
            tmux, wait_for = self.open_terminal()
            wait_for("[1 Ranks] 2 Nodes 3 Functions 4 Lines Deadlock: ranks 0, 1 wait in MPI_Barrier", "for rank 2, which is in be_asleep()")
            tmux("send-keys", "q")
            wait_for("status 0", "prompt:")
            # A terminal without a name: as with --once.
            tmux("send-keys", f"clear; env -u TERM '{recording.CLUSTERPROF}' top '{self.run_directory}'; echo once $?", "Enter")
            wait_for("once 0")

        self.end()
        self.await_last_shard(os.path.basename(self.run_directory))
        self.assertFalse(os.path.exists(os.path.join(self.run_directory, ".control")))
        done = self.top()  # not on a terminal
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("This is its last state", done.stdout)
        last = json.loads(self.top("--json").stdout)
        self.assertNotEqual(last["state"], "running")
        self.assertTrue(all(rank["exit"]["signal"] for rank in last["ranks"]), last["ranks"])

    def test_a_rank_computes(self):
        self.start("computes")
        def callers_are_known(said):  # a name may be known a little later than those of the functions that it calls
            total_s = {function["name"]: function["total_s"] for function in said["functions"]}
            return total_s.get("compute", 0) >= max(total_s.get("grow", 0), total_s.get("shrink", 0))
        said = self.await_all(("compute", "grow", "shrink"), callers_are_known)
        self.check_sums(said)
        busy = said["ranks"][2]
        self.assertEqual(busy["mpi_s"], 0)
        self.assertGreater(busy["native_s"], 0)
        self.assertIsNone(said["failure"])
        functions = {function["name"]: function for function in said["functions"]}
        self.assertGreater(functions["compute"]["total_s"], 0)
        self.assertLess(functions["compute"]["total_s"], 2 * busy["window_s"])
        self.assertGreater(functions["MPI_Barrier"]["self_s"], 0)
        self.check_terminal()

    def await_last_checkpoint(self):
        deadline = time.monotonic() + LATEST_S
        while not glob.glob(os.path.join(self.run_directory, "*.h5")):
            self.assertLess(time.monotonic(), deadline, "no shard")
            time.sleep(0.1)

    def open_terminal(self):
        """Two functions: what tmux is told, and one that waits until texts are on the screen, wherever its lines end."""
        self.need("tmux")
        socket = os.path.join(self.directory, "tmux")
        environment = {**os.environ, "TERM": "screen-256color", "LANG": "C.UTF-8"}
        environment.pop("TMUX", None)

        def tmux(*arguments):
            return subprocess.run(["tmux", "-S", socket, "-f", "/dev/null", *arguments], env=environment, check=True,
                                  capture_output=True, text=True, timeout=60).stdout

        def wait_for(*texts):
            for _ in range(600):
                screen = tmux("capture-pane", "-p")
                shown = re.sub(r" the last [0-9.]+ m?s\b", "", " ".join(screen.split()))
                if all(text in shown for text in texts):
                    return
                time.sleep(0.1)
            self.fail(f"no {texts} in\n{screen}")

        tmux("new-session", "-d", "-x", "60", "-y", "20", "sh")
        self.addCleanup(lambda: subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True))
        command = f"'{recording.CLUSTERPROF}' top '{self.run_directory}'"
        tmux("send-keys", f"PS1='prompt:'; {command}; echo status $?", "Enter")
        return tmux, wait_for

    def check_terminal(self):
        tmux, wait_for = self.open_terminal()
        wait_for("[1 Ranks]", "MPI_Barrier", "running, as of", "3 ranks on 1 node")
        tmux("resize-window", "-x", "50", "-y", "10")
        wait_for("60 columns and 20 rows")
        tmux("resize-window", "-x", "120", "-y", "30")
        tmux("send-keys", "3")
        wait_for("[3 Functions]", "MPI_Barrier", "compute()")
        tmux("send-keys", "f")
        wait_for("frozen")
        tmux("send-keys", "C-c")
        wait_for("status 0", "prompt:")

    def test_what_is_not_there(self):
        self.run_directory = os.path.join(self.directory, "nowhere")
        done = self.top("--once")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        os.mkdir(self.run_directory)
        done = self.top("--once", "--json")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)


if __name__ == "__main__":
    recording.main()
