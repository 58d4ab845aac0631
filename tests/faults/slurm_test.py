# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of a real Slurm that do not end as they were meant to: cancelled, out of time, a node gone, a task killed. Each
runs twice at the same time, bare and recorded, and all of them together on one cluster. What Slurm says of
both must be the same; of the recorded one there is a report that names the lost ranks; and nothing is left behind.

Then what the site's prolog and epilog do on a node, and what becomes of jobs and nodes when the file system that
clusterprof is installed on disappears."""

import concurrent.futures
import fcntl
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import recording
import slurm

RANKS, NODES = 8, 4  # of each job
KILL_WAIT_S = 10  # in which a collector has to write what it has, on a busy machine too; it waits 30 s for ranks that do not end
HAS_PLUGIN = os.path.exists(os.path.join(recording.BUILD, "lib", "clusterprof", "spank_clusterprof.so"))

# Says which signals it got, when it is let go. For the test there is a file when it is ready, and one for each signal.
SIGNALS = (signal.SIGABRT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP)
COUNTS_SIGNALS = f'''
import fcntl, os, signal, sys
got = []

def say(what):
    open(f"{{what}}.{{os.environ['SLURM_JOB_ID']}}.{{os.environ['SLURM_PROCID']}}", "w").close()

def note(number, frame):
    got.append(number)
    say(number)

for number in {tuple(map(int, SIGNALS))}:
    signal.signal(number, note)
say("ready")
with open(sys.argv[1]) as gate:
    fcntl.flock(gate, fcntl.LOCK_SH)
print(sorted(got))
'''

# What a site's prolog finds out, in these tests.
DOCTOR = '''#!/bin/sh
[ "$*" = "doctor --node --quick" ] || echo "fail: called as $*"
echo "ok: nobody needs to know"
echo "warn: /dev/shm of $(hostname) is small"
[ "$(id -u)" != 0 ] || echo "fail: not run as the user"
exit 1
'''

LOOK = '''
cd /run/clusterprof/$SLURM_JOB_ID || exit
echo "$(stat -c "%u" .) $(grep -c . node-check)$(! [ -w . ] && ! [ -w node-check ] || echo " and writable")"
'''

# A collector that is neither a child of the job's nor in its session. It is stopped: without a rank it would end by itself after 10 s.
STRAY = '''
import os, signal, socket, sys
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind("\\0clusterprof-test-stray-" + os.environ["SLURM_JOB_ID"])
listening.listen()
running, runs = os.pipe()  # closed when the collector has begun
if os.fork() == 0:
    os.setsid()
    collector = os.fork()
    if collector == 0:
        os.setsid()  # or else it would be continued when its parent ends
        os.dup2(listening.fileno(), 3)
        os.set_inheritable(3, True)
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.execv(sys.argv[1], [sys.argv[1], "--listen-fd", "3", "--run-dir=.", "--run-id=stray", "--node=stray",
                               "--local-ranks", "1", "--", "true"])
    os.close(runs)
    os.read(running, 1)
    os.kill(collector, signal.SIGSTOP)
    os._exit(0)
os.close(runs)
os.wait()
'''


class Case:
    """One kind of end: the two jobs, and what is expected of the report of the recorded one."""

    def __init__(self, test, name, program, how="srun", options=(), wrapper=False, script="{step}",
                 nodes="n[1-4]"):
        self.test, self.name, self.program = test, name, program
        use_plugin = HAS_PLUGIN and not wrapper
        self.jobs = {}
        for kind in ("bare", "recorded"):
            step = [how, "-N4", "--ntasks-per-node=2"]
            if kind == "recorded":
                step += ["--clusterprof"] if use_plugin else ["clusterprof"]
            text = script.format(step=" ".join([*step, *program])) + '\necho "step: $?"\necho "the script goes on"\n'
            path = test.write(f"{name}-{kind}.sh", "#!/bin/bash\n" + text)
            self.jobs[kind] = test.done(["sbatch", "--parsable", "-N4", "--ntasks-per-node=2", "-w", nodes,
                                         "--no-requeue", "-o", f"{name}-{kind}.out", *options, path]).strip()

    def both(self):
        return self.jobs.values()

    def run(self):
        """The name of the run directory; none as long as there is none."""
        return next((name for name in self.test.runs() if name.endswith(f"-{self.jobs['recorded']}.0")), "none")

    def output(self, kind):
        return self.test.output(f"{self.name}-{kind}.out")


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return dict(word.partition("=")[::2] for word in file.read().decode(errors="replace").split("\0"))
    except OSError:
        return {}


class Gate:
    """What programs wait for until open() is called: `flock -s FILE true` and COUNTS_SIGNALS do."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "w")
        os.chmod(path, 0o644)
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def open(self):
        self.file.close()


class Faults(slurm.SlurmTest):
    nodes = NODES + 1  # one to be lost
    options = ["--cpus", "40", "--conf", f"KillWait={KILL_WAIT_S}", "--conf", "SlurmdTimeout=15",
               "--conf", "OverTimeLimit=0", "--conf", "KillOnBadExit=0",
               *(["--spank", slurm.PLUGIN] if HAS_PLUGIN else [])]

    @classmethod
    def start(cls):
        if not slurm.IS_ROOT:
            raise unittest.SkipTest("only root sees the processes of simulated nodes")
        cls.site = tempfile.mkdtemp(prefix="clusterprof-site-")
        os.chmod(cls.site, 0o755)
        cls.addClassCleanup(shutil.rmtree, cls.site, ignore_errors=True)
        os.makedirs(os.path.join(cls.site, "bin"))
        for name, text in (("bin/clusterprof", DOCTOR),
                           ("prolog", f"#!/bin/sh\nexport CLUSTERPROF_PREFIX={cls.site}\nexec {slurm.SITE}/prolog\n")):
            with open(os.path.join(cls.site, name), "w") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        slurm.install()
        cls.options = [*cls.options, "--prolog", os.path.join(cls.site, "prolog"),
                       "--epilog", os.path.join(slurm.SITE, "epilog")]
        super().start()

    # The node that test_jobs_that_end_early loses is there yet.
    def test_before_and_after_jobs(self):
        if not HAS_PLUGIN:
            self.skipTest("there is no SPANK plugin: nobody tells the prolog who asked")
        self.write("stray.py", STRAY)
        self.write("look.sh", LOOK)
        look = ["srun", "-N4", "-w", "n[1-4]", "sh", "./look.sh"]
        with self.subTest("a job that did not ask"):
            done = self.user(look)
            self.assertEqual(done.stdout, b"")
            self.assertEqual(done.stderr.count(b"/run/clusterprof"), NODES, done.stderr)
        with self.subTest("a job that asked"):
            found = []

            def is_checked():
                """Whether the machine was fast enough for that: the prolog has half a second."""
                before = set(self.runs())
                said = self.done([*look[:4], "--clusterprof", *look[4:]])
                run, = set(self.runs()) - before
                found[:] = said, [(note["evidence"]["site_message"], *note["nodes"])
                                  for note in self.report(run)["run"]["note_records"]
                                  if note["code"] in ("node_check_failed", "node_check_warned")]
                return not any(" hang?" in message for message, *_ in found[1])
            self.await_(is_checked, "a job whose nodes were checked in time")
            said, told = found
            self.assertEqual(said, "0 1\n" * NODES)
            self.assertEqual(sorted(note for note in told if "small" in note[0]),
                             [(f"/dev/shm of n{number} is small", f"n{number}") for number in range(1, NODES + 1)])
            for unwanted in ("called as", "nobody needs to know", "not run as the user"):
                self.assertEqual([note for note in told if unwanted in note[0]], [])
            self.await_(lambda: not self.kept(), "the end of /run/clusterprof/JOB")
        with self.subTest("what Slurm does not find"):
            def stray():
                return [pid for _, pid, _, name, _ in self.cluster.processes() if name == "collector"]
            collector = os.path.join(slurm.PREFIX, "libexec", "clusterprof", "collector")
            self.batch(f"python3 stray.py {collector}")
            left = stray()
            self.assertEqual(len(left), 1, "nothing that the epilog could have ended")
            os.kill(left[0], signal.SIGKILL)
            self.await_(lambda: not stray(), "the end of a collector that was killed")
            for look in ("quick", "slow"):
                with self.subTest(look=look):
                    if look == "slow":
                        # The epilog does not wait for what it started, where that takes longer, and slurmd kills it.
                        self.slow_down("/usr/bin/find")
                    self.batch(f"python3 stray.py {collector}", options=["--clusterprof"])
                    self.await_(lambda: not stray(), "the end of the stray collector")

    def test_a_node_that_hangs(self):
        hangs, empty, crashes = (os.path.join(self.directory, name) for name in ("hangs", "empty", "crashes"))
        for place in (hangs, empty, crashes):
            os.makedirs(os.path.join(place, "bin"))
            os.chmod(place, 0o755)
        for place, text in ((hangs, "exec sleep 60"), (crashes, "kill -s SEGV $$")):
            with open(os.path.join(place, "bin", "clusterprof"), "w") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(file.name, 0o755)

        def sh(script, variables={}):
            return self.cluster.on_node("n1", "env", *(f"{name}={value}" for name, value in variables.items()),
                                        "sh", "-c", script)

        def prolog(prefix, **more):
            variables = {"SLURM_JOB_ID": "77", "SLURM_JOB_UID": str(slurm.USER), "SLURM_JOB_GID": str(slurm.GROUP),
                         "SPANK_CLUSTERPROF": "1", "CLUSTERPROF_PREFIX": prefix, **more}
            begun = time.monotonic()
            # Fails when the exit status is not 0.
            said = sh(f"{slurm.SITE}/prolog && cat /run/clusterprof/*/node-check 2>/dev/null; true", variables)
            return said, time.monotonic() - begun

        def answer(prefix, **more):
            """What is found of a prefix that does not hang, once the machine is fast enough for that."""
            given = []
            self.await_(lambda: given.append(prolog(prefix, **more)[0]) or " hang?" not in given[-1], "an answer")
            return given[-1]

        self.addCleanup(sh, "rm -rf /run/clusterprof/77")
        said, took_s = prolog(hangs)
        self.assertIn("does " + hangs + " hang?", said)
        self.measured_below(took_s, 10, "seconds of the prolog")  # of half a second; one that waits takes 60
        self.assertRegex(answer(empty), "^fail: .* cannot be run\n$")
        self.assertRegex(answer(crashes), "^warn: .*status 139\n$")
        self.assertNotIn("cannot be run", answer(slurm.PREFIX))
        epilog = f"SLURM_JOB_ID=77 SLURM_JOB_UID={slurm.USER} {slurm.SITE}/epilog; echo $?; ls -A /run/clusterprof"
        self.assertEqual(sh(epilog), "0\n")
        for name, value in (("SLURM_JOB_ID", "../etc"), ("SLURM_JOB_UID", "x"), ("SPANK_CLUSTERPROF", "0")):
            self.assertEqual(prolog(empty, **{name: value})[0], "")
        # A place that others can write to is not used.
        sh("rmdir /run/clusterprof && mkdir -p /run/trap && ln -s /run/trap /run/clusterprof")
        self.assertEqual(prolog(empty)[0], "")
        self.assertEqual(sh("ls -A /run/trap; rm /run/clusterprof; mkdir -m 777 /run/clusterprof"), "")
        self.assertEqual(prolog(empty)[0], "")
        self.assertEqual(sh("ls -A /run/clusterprof; rmdir /run/clusterprof"), "")

    def test_jobs_that_end_early(self):
        gates = {name: Gate(os.path.join(self.directory, name))
                 for name in ("killed.gate", "node.gate", "signals.gate")}
        self.write("counts_signals.py", COUNTS_SIGNALS)
        limit = Case(self, "limit", ["sleep", "301"])
        cancelled = Case(self, "cancelled", ["sleep", "302"])
        stubborn = Case(self, "stubborn", ["env", "--ignore-signal=TERM", "sleep", "303"], wrapper=True)
        killed = Case(self, "killed", ["flock", "-s", "killed.gate", "true"])
        bad_exit = Case(self, "bad_exit", ["sleep", "305"], how="srun --kill-on-bad-exit=1", wrapper=True)
        node = Case(self, "node", ["flock", "-s", "node.gate", "true"], how="srun --no-kill", options=["--no-kill"],
                    wrapper=True, nodes="n[2-5]")
        signals = Case(self, "signals", ["/usr/bin/python3", "counts_signals.py", "signals.gate"],
                       script="trap : USR1\n{step}")
        cases = [limit, cancelled, stubborn, killed, bad_exit, node, signals]
        ranks = self.started(cases)
        # The shards of the first second are there.
        self.await_(lambda: all(len(self.shards(case)) == NODES for case in cases), "shards of all runs")
        self.await_(lambda: self.have_said(signals, "ready"), "handlers of signals")

        for job in limit.both():
            self.done(["scontrol", "update", f"JobId={job}", "EndTime=now+1"])
        self.done(["scancel", *cancelled.both(), *stubborn.both()])
        for case, rank in ((killed, 5), (bad_exit, 0)):
            for kind in case.jobs:
                os.kill(ranks[case, kind][rank], signal.SIGKILL)
        for number in SIGNALS:
            self.done(["scancel", "--full" if number == signal.SIGUSR1 else "-Q", "-s", number.name[3:], *signals.both()])
        self.cluster.fail("n5")
        # `limit` has been ended earlier than the job was told. Slurm counts in minutes.
        # Debian 12's does not tell jobs their end.
        tell_end = "export SLURM_JOB_END_TIME=$(date -d $(squeue -h -j $SLURM_JOB_ID -o %e) +%s)\n"
        late = Case(self, "late", ["sleep", "307"], options=["--time=1"], script=tell_end + "{step}")
        # Slurm does not wait for a node that is sent them late.
        self.await_(lambda: all(self.have_said(signals, int(number)) for number in SIGNALS), "all signals")
        for case in (killed, signals):
            gates[case.program[-2 if case is killed else -1]].open()
        # Slurm notices; the others go on to their end.
        self.await_(lambda: all("Node failure on n5" in node.output(kind) for kind in node.jobs), "the node's failure")
        gates["node.gate"].open()

        for case in (*cases, late):
            for job in case.both():
                self.cluster.await_job(job)
        self.assertEqual([], [process for process in self.cluster.await_idle()])

        everybody = range(RANKS)
        with self.subTest("cancelled"):
            self.ended_alike(cancelled, "CANCELLED")
            self.lost(cancelled, {rank: 15 for rank in everybody})
        with self.subTest("time limit"):
            self.ended_alike(limit, "TIMEOUT")
            self.lost(limit, {rank: 15 for rank in everybody})
        with self.subTest("time limit that the job knows"):
            self.ended_alike(late, "TIMEOUT")
            self.lost(late, {rank: 15 for rank in everybody}, failure="time_limit", first=everybody)
        with self.subTest("cancelled, and does not end at SIGTERM"):
            self.ended_alike(stubborn, "CANCELLED")
            self.lost(stubborn, {rank: None for rank in everybody}, killed_nodes=NODES)
        with self.subTest("a task killed"):
            self.ended_alike(killed, "COMPLETED")
            self.lost(killed, {5: 9}, failure="signal", first=[5])
            self.assertIn("step: 137\nthe script goes on\n", killed.output("recorded"))
        with self.subTest("a task killed, and the step with it"):
            self.ended_alike(bad_exit, "COMPLETED")
            self.lost(bad_exit, {rank: 15 if rank else 9 for rank in everybody}, failure="signal", first=[0])
            self.assertIn("\nthe script goes on\n", bad_exit.output("recorded"))
        with self.subTest("a node gone"):
            self.ended_alike(node, "COMPLETED")
            self.lost(node, {6: None, 7: None}, killed_nodes=1, failure="node", first=[6, 7])
            self.assertIn("\nthe script goes on\n", node.output("recorded"))
        with self.subTest("signals that the program handles"):
            self.ended_alike(signals, "COMPLETED")
            self.assertEqual(signals.output("recorded").count("[6, 10, 12, 20]\n"), RANKS, signals.output("recorded"))
            self.lost(signals, {})
        hidden = [name for name in os.listdir(self.directory) if name.startswith(".")]
        self.assertEqual(hidden, [])

    def slow_down(self, program):
        """Has this program begin a second late on all nodes, until the test's end."""
        slow = self.write("slow-program", f"#!/bin/sh\nsleep 1\nexec {self.directory}/program \"$@\"\n")
        shutil.copy(program, os.path.join(self.directory, "program"))
        os.chmod(slow, 0o755)
        for node in self.cluster.names:
            self.cluster.on_node(node, "mount", "--bind", slow, program)
            self.addCleanup(self.cluster.on_node, node, "umount", program)

    def kept(self):
        """What prologs have left on nodes."""
        return "".join(self.cluster.on_node(node, "sh", "-c", "ls -A /run/clusterprof 2>/dev/null; true")
                       for node in self.cluster.names)

    def await_(self, condition, what, timeout_s=150):
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                outputs = {os.path.basename(path): self.output(path) for path in
                           sorted(glob.glob(os.path.join(self.directory, "*.out")))}
                self.fail(f"waited {timeout_s} s for {what}; {outputs}")
            time.sleep(0.2)

    def started(self, cases):
        """{(case, kind): {rank: pid}} when all ranks of all jobs run their programs."""
        found = {}

        def all_are_there():
            found.clear()
            for _, pid, _, name, _ in self.cluster.processes():
                variables = environment(pid) if name in ("sleep", "flock", "python3") else {}
                for case in cases:
                    for kind, job in case.jobs.items():
                        if variables.get("SLURM_JOB_ID") == job and "SLURM_PROCID" in variables:
                            found.setdefault((case, kind), {})[int(variables["SLURM_PROCID"])] = pid
            return all(len(found.get((case, kind), {})) == RANKS for case in cases for kind in case.jobs)

        self.await_(all_are_there, "all ranks")
        return found

    def have_said(self, case, what):
        """Whether all ranks of COUNTS_SIGNALS have, of both jobs."""
        return all(os.path.exists(os.path.join(self.directory, f"{what}.{job}.{rank}"))
                   for job in case.both() for rank in range(RANKS))

    def shards(self, case):
        return glob.glob(os.path.join(self.directory, case.run(), "node-*.h5"))

    def ended_alike(self, case, state):
        bare, recorded = (self.cluster.job(case.jobs[kind])[0] for kind in ("bare", "recorded"))
        self.assertEqual((recorded["JobState"], recorded["ExitCode"]), (bare["JobState"], bare["ExitCode"]))
        self.assertEqual(recorded["JobState"], state)
        steps = [[line for line in case.output(kind).splitlines() if line.startswith(("step: ", "the script"))]
                 for kind in ("bare", "recorded")]
        self.assertEqual(steps[0], steps[1])

    def lost(self, case, lost, killed_nodes=0, failure=None, first=()):
        """The report names exactly these ranks, with the signals that ended them, and has all of the others; of nodes
        that were killed it says so. `failure`: its kind, of one of the ranks `first`. After it there is nothing in the run
        directory that a killed process left."""
        report = json.loads(self.done([slurm.CLUSTERPROF, "report", "--json", "--ended", case.run()]))
        self.assertEqual(len(report["nodes"]), NODES)
        ends = {rank["rank"]: rank["exit"] for rank in report["ranks"]}
        self.assertEqual(sorted(ends), list(range(RANKS)))
        self.assertEqual({rank: end["signal"] for rank, end in ends.items() if end["lost"]}, lost)
        self.assertEqual({end["status"] for rank, end in ends.items() if rank not in lost} - {0}, set())
        if failure:
            self.assertEqual(report["failure"]["kind"], failure)
            self.assertIn(report["failure"]["rank"], first)
        self.assertEqual(report["run"]["complete"], not lost)
        self.assertEqual(len([note for note in report["run"]["note_records"] if note["code"] == "incomplete_shard"]),
                         killed_nodes)
        said = " ".join(finding["text"] for finding in report["findings"])
        for rank in (min(lost), max(lost)) if lost else ():
            self.assertRegex(said, rf"[Rr]anks? [-0-9, ]*\b{rank}\b|Ranks {min(lost)}-{max(lost)} ")
        text = self.done([slurm.CLUSTERPROF, "report", "--ended", case.run()])
        self.assertEqual("INCOMPLETE" in text, bool(lost))
        # A minute later, when nobody can still be writing.
        place = os.path.join(self.directory, case.run())
        written = [path for name in ("node-*.h5", ".node-*.tmp") for path in glob.glob(os.path.join(place, name))]
        for path in [*written, os.path.join(place, ".run")]:
            os.utime(path, (time.time() - 100, time.time() - 100), follow_symlinks=False)
        # A merge that Slurm killed has left what it had written, which the next merge removes ten minutes later, unless a
        # process of this node has that number.
        merges = glob.glob(os.path.join(place, ".profile.h5.*.tmp"))
        if merges:
            for path in merges:
                os.utime(path, (time.time() - 700, time.time() - 700))
            os.unlink(os.path.join(place, "profile.h5"))
        self.report(case.run())
        kept = {os.path.basename(path) for path in merges
                if self.user(["test", "-e", "/proc/" + os.path.basename(path).split(".")[3]]).returncode == 0}
        self.assertEqual({name for name in os.listdir(place) if name.startswith(".")} - {".job"} - kept, {".run"})


# Goes on when something has happened to the installation.
TWO_STEPS = """
srun -N4 hostname
touch ready.NAME
while [ ! -e go ]; do sleep 0.1; done
/bin/echo "the script goes on"
srun -N4 sh -c 'echo "second $(hostname)"'
echo "status $?"
"""
# The task of the first step starts programs when that has happened.
ONE_STEP = """
srun -N4 sh -c 'touch ready.NAME.$(hostname); while [ ! -e go ]; do sleep 0.1; done; echo "in the middle $(hostname)"'
echo "status $?"
"""
# Computes until the site has turned recording off, and then on, also in another process.
PHASES = """
import os, subprocess, sys

def before():
    while not os.path.exists("off"):
        sum(range(10000))

def after():
    while not os.path.exists("go"):
        sum(range(10000))

def in_a_child():
    for _ in range(30):
        sum(range(100000))
    print(os.uname().nodename, "a child")

if len(sys.argv) > 1:
    in_a_child()
else:
    open("ready." + os.uname().nodename, "w").close()
    before()
    subprocess.run([sys.executable, sys.argv[0], "child"], check=True)
    after()
"""
NAMES = [f"n{number}" for number in range(1, NODES + 1)]


class UnavailablePrefix(slurm.SlurmTest):
    """Slurm's configuration names the copies of install_on_node alone."""
    nodes = NODES

    @classmethod
    def start(cls):
        if not HAS_PLUGIN:
            raise unittest.SkipTest("the plugin was not built: there is no slurm/spank.h")
        slurm.install()
        cls.site = tempfile.mkdtemp(prefix="clusterprof-site-")
        cls.addClassCleanup(shutil.rmtree, cls.site, ignore_errors=True)
        os.chmod(cls.site, 0o755)
        cls.prefix, small, cls.copies = (os.path.join(cls.site, name) for name in ("prefix", "small", "copies"))
        subprocess.run(["cp", "-al", slurm.PREFIX, cls.prefix], check=True)
        installs = os.path.join(cls.prefix, "share", "clusterprof", "slurm", "install_on_node")
        for words in ([installs, "--without-programs", small], [installs, cls.copies], [installs, cls.copies]):
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        cls.small_plugin = os.path.join(small, "spank_clusterprof.so") + f" prefix={cls.prefix}"
        cls.whole_plugin = os.path.join(cls.copies, "spank_clusterprof.so") + f" prefix={cls.copies}/prefix"
        cls.options = ["--spank", cls.small_plugin, "--cpus", "16", "--prolog", os.path.join(small, "prolog"),
                       "--epilog", os.path.join(small, "epilog"), "--task-prolog", os.path.join(small, "task_prolog")]
        super().start()
        for node in cls.cluster.names:  # as install_on_node --count makes it, on these nodes alone
            cls.cluster.on_node(node, "sh", "-c", "mount -t tmpfs tmpfs /var/spool && mkdir -m 1777 /var/spool/clusterprof")

    def counts(self):
        """What became of recordings, over all nodes; counting begins anew. Collectors count last."""
        self.assertEqual(self.cluster.await_idle(), [])
        done = self.user(["clusterprof", "doctor", "--site", "--json", "--nodes", "n[1-4]"])
        self.on_nodes("sh", "-c", "rm -f /var/spool/clusterprof/*")
        return json.loads(done.stdout)["counts"]

    def on_nodes(self, *command):
        for node in self.cluster.names:
            self.cluster.on_node(node, *command)

    def hang(self, *directories):
        """Has everything below these directories wait on all nodes, until what is returned is called."""
        servers = [subprocess.Popen(["bash", slurm.TESTBED, "-d", self.cluster.directory, "exec", node, "/usr/bin/python3",
                                     os.path.join(recording.SOURCE, "tests", "support", "hanging_mount.py"), *directories],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE) for node in self.cluster.names]

        def end():
            for server in servers:
                server.stdin.close()
            for server in servers:
                server.wait(timeout=30)
                server.stdout.close()

        self.addCleanup(end)
        for server in servers:
            self.assertEqual(server.stdout.readline(), b"hangs\n")
        return end

    def take_away(self):
        away = self.prefix + ".away"
        os.rename(self.prefix, away)

        def bring_back():
            if os.path.exists(away):
                os.rename(away, self.prefix)

        self.addCleanup(bring_back)
        return bring_back

    def make_read_only(self):
        self.on_nodes("sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && ! touch "$0/x" 2>/dev/null',
                      self.prefix)

        def make_writable():
            self.on_nodes("sh", "-c", 'umount "$0" 2>/dev/null; true', self.prefix)

        self.addCleanup(make_writable)
        return make_writable

    def ways(self):
        yield "taken away", self.take_away
        if slurm.IS_ROOT and os.path.exists("/dev/fuse"):
            yield "hangs", lambda: self.hang(self.prefix)
        if slurm.IS_ROOT:
            yield "read-only", self.make_read_only

    def await_files(self, names):
        deadline = time.monotonic() + 150
        while not all(os.path.exists(os.path.join(self.directory, name)) for name in names):
            self.assertLess(time.monotonic(), deadline, [self.output(name) for name in os.listdir(self.directory)
                                                         if name.endswith(".out")])
            time.sleep(0.05)

    def collectors(self):
        """The threads of collectors, and what they wait for."""
        done = subprocess.run(["ps", "-eLo", "pid,tid,stat,cls,ni,wchan:24,etimes,time,args"], capture_output=True, check=True, text=True)
        return [line[:150] for line in done.stdout.splitlines() if "/collector " in line]

    def lines(self, text):
        """Without those that say why something is not recorded."""
        return sorted(line for line in text.splitlines() if "clusterprof: " not in line)

    def succeeded(self, job, name, lines):
        part, = self.cluster.await_job(job)
        output = self.output(name + ".out")
        self.assertEqual((part["JobState"], part["ExitCode"]), ("COMPLETED", "0:0"), output)
        self.assertEqual(self.lines(output), sorted([*lines, "status 0"]))

    def not_drained(self):
        drained = [node for node, words in self.cluster.states().items() if words & {"drain", "drained", "draining"}]
        self.assertEqual(drained, [])

    def test_prefix_is_there(self):
        for plugin in (self.small_plugin, self.whole_plugin):
            self.cluster.set_plugins(plugin)
            done = self.user(["srun", "-N4", "--clusterprof=quiet", "hostname"])
            self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES), done.stderr)
        self.cluster.set_plugins(self.small_plugin)
        self.assertEqual(len(self.runs()), 2, done.stderr)
        # Copies are made under new names, and the one before is kept for running jobs.
        self.assertEqual(len([name for name in os.listdir(self.copies) if name.startswith("copy-")]), 2)

    def test_prefix_before_and_during_jobs(self):
        """The programs that record are in the prefix: jobs run unrecorded."""
        self.counts()
        kinds = {"unasked": ([], {}), "plugin": (["--clusterprof=quiet"], {}),
                 "prolog": ([], {"CLUSTERPROF_SLURM": "on,quiet"})}
        for what, happen in self.ways():
            with self.subTest(what):
                jobs = {name: self.submit(TWO_STEPS.replace("NAME", name), ["-N4", "-o", name + ".out", *options],
                                          more=more) for name, (options, more) in kinds.items()}
                self.await_files([f"ready.{name}" for name in kinds])
                mend = happen()
                self.write("go", "")
                begun = time.monotonic()
                with concurrent.futures.ThreadPoolExecutor() as pool:  # steps that begin when it has happened
                    steps = [pool.submit(self.user, ["srun", "-N4", *options, "hostname"], more=more)
                             for options, more in kinds.values()]
                    for step in steps:
                        done = step.result()
                        self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES),
                                         done.stderr)
                for name, job in jobs.items():
                    self.succeeded(job, name, [*NAMES, *("second " + node for node in NAMES), "the script goes on"])
                self.assertLess(time.monotonic() - begun, 90)  # it waits for 2 s, in each step
                said = self.output("plugin.out")
                self.assertEqual("does not answer; the command runs unrecorded" in said, what == "hangs", said)
                mend()
                for name in ("go", *(f"ready.{name}" for name in kinds)):
                    os.remove(os.path.join(self.directory, name))
                # Two kinds have asked, with three steps each, of which the first ended before.
                steps = {"taken away": {"unrecorded prefix-missing": 4 * NODES}, "hangs": {"unrecorded prefix-hangs": 4 * NODES},
                         "read-only": {}}[what]
                recorded = 2 * NODES if steps else 6 * NODES
                self.assertEqual(self.counts(), {"started": recorded, "recorded": recorded, **steps})
        self.not_drained()

    def test_prefix_when_programs_are_copied(self):
        """No job notices, and all are recorded."""
        self.cluster.set_plugins(self.whole_plugin)
        self.addCleanup(self.cluster.set_plugins, self.small_plugin)
        for what, happen in self.ways():
            with self.subTest(what):
                before = set(self.runs())
                job = self.submit(ONE_STEP.replace("NAME", "one"), ["-N4", "-o", "one.out", "--clusterprof=quiet"])
                self.await_files([f"ready.one.{node}" for node in NAMES])
                mend = happen()
                self.write("go", "")
                self.succeeded(job, "one", ["in the middle " + node for node in NAMES])
                mend()
                run, = set(self.runs()) - before
                self.check_run(run, NODES)
                for name in ("go", *(f"ready.one.{node}" for node in NAMES)):
                    os.remove(os.path.join(self.directory, name))
        self.not_drained()

    def test_directory_of_runs(self):
        """It hangs, is read-only or full when a step begins, or begins to hang while one runs."""
        if not slurm.IS_ROOT or not os.path.exists("/dev/fuse"):
            self.skipTest("only root mounts file systems")
        self.cluster.set_plugins(self.whole_plugin)
        self.addCleanup(self.cluster.set_plugins, self.small_plugin)
        roots = {name: os.path.join(self.directory, name) for name in ("hangs", "read-only", "full", "begins")}
        for root in roots.values():
            os.mkdir(root)
            os.chown(root, slurm.USER, slurm.GROUP)
        self.on_nodes("mount", "-t", "tmpfs", "-o", "ro,mode=777", "tmpfs", roots["read-only"])
        self.on_nodes("sh", "-c", 'mount -t tmpfs -o nr_inodes=2,mode=777 tmpfs "$0" && touch "$0/x"', roots["full"])
        job = self.submit(ONE_STEP.replace("NAME", "begins"), ["-N4", "-o", "begins.out", "--clusterprof=quiet"],
                          more={"CLUSTERPROF_ROOT": roots["begins"], "CLUSTERPROF_END_PATIENCE": "2"})
        self.await_files([f"ready.begins.{node}" for node in NAMES])
        mend = self.hang(roots["hangs"], roots["begins"])
        self.write("go", "")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            steps = {name: pool.submit(self.user, ["srun", "-N4", "--clusterprof=quiet", "hostname"],
                                       more={"CLUSTERPROF_ROOT": roots[name]}) for name in ("hangs", "read-only", "full")}
            for (name, step), why in zip(steps.items(), ("does not answer", "Read-only file system", "No space left")):
                done = step.result()
                self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES), (name, done.stderr))
                self.assertEqual(done.stderr.decode().count("runs unrecorded"), 1, (name, done.stderr))
                self.assertIn(why, done.stderr.decode())
        self.succeeded(job, "begins", ["in the middle " + node for node in NAMES])
        mend()
        self.on_nodes("umount", roots["read-only"], roots["full"])
        self.not_drained()

    def test_the_site_turns_recording_off(self):
        self.write("phases.py", PHASES)
        self.counts()
        job = self.submit("srun -N4 python3 phases.py\necho \"status $?\"\n", ["-N4", "-o", "off.out", "--clusterprof=quiet"])
        self.await_files([f"ready.{node}" for node in NAMES])
        run, = self.runs()
        off = "/run/clusterprof/off"
        self.on_nodes("sh", "-c", f"mkdir -p /run/clusterprof && touch {off}")
        self.addCleanup(self.on_nodes, "rm", "-f", off)

        def told():
            """The nodes whose shards say so, and what a report says where there is none."""
            shards = self.user([slurm.CLUSTERPROF, "report", "--json", run])
            notes = json.loads(shards.stdout)["run"]["note_records"] if shards.returncode == 0 else []
            return sorted(node for note in notes if note["code"] == "turned_off" for node in note["nodes"]), shards.stderr

        deadline = time.monotonic() + 150
        while told()[0] != NAMES:
            self.assertLess(time.monotonic(), deadline, (told(), os.listdir(os.path.join(self.directory, run)), self.collectors()))
            time.sleep(0.3)
        self.write("off", "")
        # Steps that begin then run unrecorded. Who asked is told so.
        for options, lines in ((["--clusterprof"], 1), ([], 0)):
            done = self.user(["srun", "-N4", *options, "hostname"])
            self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES), done.stderr)
            self.assertEqual(done.stderr.decode().count(f"this site has turned recording off ({off})"), lines, done.stderr)
        done = self.user(["srun", "-N4", "clusterprof", "hostname"])
        self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES), done.stderr)
        self.assertEqual(done.stderr.decode().count(f"({off}); the command runs unrecorded"), 1, done.stderr)
        done = self.user(["srun", "-N4", "hostname"], more={"CLUSTERPROF_SLURM": "on"})
        self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES), done.stderr)
        self.assertEqual(self.runs(), [run])
        time.sleep(0.5)
        self.write("go", "")
        self.succeeded(job, "off", [f"{node} a child" for node in NAMES])
        report = self.check_run(run, NODES)
        names = {function["name"] for function in report["functions"]}
        self.assertIn("before", names)
        self.assertFalse(names & {"after", "in_a_child"}, names)
        for rank in report["ranks"]:
            self.assertEqual(rank["exit"], {"status": 0, "signal": None, "lost": False})
            self.assertLess(rank["elapsed_s"], report["run"]["elapsed_s"] + 0.1)
        said = self.done([slurm.CLUSTERPROF, "report", run])
        self.assertIn("the site turned recording off", said)
        self.assertEqual(self.counts(), {"started": NODES, "incomplete turned-off": NODES,
                                         "unrecorded turned-off": 3 * NODES})

    def test_program_of_the_task_prolog_hangs(self):
        program = os.path.join(self.prefix, "libexec", "clusterprof", "slurm-activation")
        os.rename(program, program + ".away")
        self.addCleanup(os.rename, program + ".away", program)
        with open(program, "w") as file:
            file.write("#!/bin/sh\nexec sleep 600\n")
        os.chmod(program, 0o755)
        begun = time.monotonic()
        done = self.user(["srun", "-N4", "hostname"], more={"CLUSTERPROF_SLURM": "on"})
        self.assertEqual((done.returncode, self.lines(done.stdout.decode())), (0, NAMES), done.stderr)
        self.assertLess(time.monotonic() - begun, 120)  # who waits for it takes 600


if __name__ == "__main__":
    recording.main()
