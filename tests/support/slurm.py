"""A Slurm of simulated nodes for tests: the build under test installed, and jobs of an ordinary user on it.

    class Launchers(slurm.SlurmTest):
        options = ["--mpi", "pmix", "--spank", f"{slurm.PLUGIN} default=on"]

        def test_two_tasks(self):
            done = self.user(["srun", "-N2", "clusterprof", "true"])

A class has one cluster: jobs of its tests follow each other. At the end of the class no node may be drained and nothing
of a job may run on. Where Slurm is not installed, or nodes cannot be simulated, every test says so and is skipped.

Root's tests run their jobs as `nobody`; another user's tests run everything as that user.
"""

import atexit
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import recording

TESTBED = os.path.join(recording.SOURCE, "tests", "support", "slurm_testbed.bash")
IS_ROOT = os.geteuid() == 0
USER, GROUP = (65534, 65534) if IS_ROOT else (os.geteuid(), os.getegid())

# What every user can read: INSTALLED/prefix is the installed build, INSTALLED/tests what tests run.
INSTALLED = "/tmp/clusterprof-installed-" + hashlib.md5(f"{os.geteuid()} {recording.BUILD}".encode()).hexdigest()[:12]
PREFIX = os.path.join(INSTALLED, "prefix")
CLUSTERPROF = os.path.join(PREFIX, "bin", "clusterprof")
PLUGIN = os.path.join(PREFIX, "lib", "clusterprof", "spank_clusterprof.so")
SITE = os.path.join(PREFIX, "share", "clusterprof", "slurm")
EXAMPLES = os.path.join(INSTALLED, "tests", "examples")
TASKS = os.path.join(INSTALLED, "tests", "sources", "tasks.py")


def program(flavour, name):
    """As recording.program(), where every user can run it."""
    return os.path.join(INSTALLED, "tests", "programs", flavour, name)


def install():
    """Brings INSTALLED up to date: 2 s, then 0.1 s. remove_installed() is for the end of all tests."""
    os.makedirs(INSTALLED, mode=0o755, exist_ok=True)
    if os.stat(INSTALLED).st_uid != os.geteuid():
        raise RuntimeError(f"{INSTALLED} is somebody else's")
    mask = os.umask(0o022)
    try:
        with open(os.path.join(INSTALLED, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(["cmake", "--install", recording.BUILD, "--prefix", PREFIX], capture_output=True)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.decode())
            for source, target in ((os.path.join(recording.BUILD, "programs"), "programs"),
                                   (os.path.join(recording.SOURCE, "tests", "programs"), "sources"),
                                   (os.path.join(recording.SOURCE, "examples"), "examples")):
                for path in glob.glob(os.path.join(source, "**"), recursive=True):
                    copy = os.path.join(INSTALLED, "tests", target, os.path.relpath(path, source))
                    if os.path.isdir(path):
                        os.makedirs(copy, exist_ok=True)
                    elif not os.path.exists(copy) or os.stat(copy).st_mtime_ns != os.stat(path).st_mtime_ns:
                        shutil.copy2(path, copy + ".new")
                        os.chmod(copy + ".new", os.stat(path).st_mode & 0o111 | 0o644)
                        os.rename(copy + ".new", copy)
    finally:
        os.umask(mask)


def remove_installed():
    if os.path.isdir(INSTALLED) and os.stat(INSTALLED).st_uid == os.geteuid():
        shutil.rmtree(INSTALLED)


class Cluster:
    """Simulated nodes n1, n2, ... with Slurm. `options`: those of slurm_testbed.bash start."""

    def __init__(self, nodes, options):
        self.directory = tempfile.mkdtemp(prefix="cps-", dir="/tmp")
        os.chmod(self.directory, 0o755)
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.failed = set()
        self.variables = {}
        done = self.testbed("start", str(nodes), *options)
        if done.returncode != 0:
            shutil.rmtree(self.directory, ignore_errors=True)
            why = done.stderr.decode().strip()
            if done.returncode == 77 or "cannot make a user name space" in why:
                raise unittest.SkipTest("cannot simulate nodes here: " + why)
            raise RuntimeError(why)
        atexit.register(self.stop)
        for line in self.testbed("env").stdout.decode().splitlines():
            name, _, value = line.replace("export ", "", 1).partition("=")
            self.variables[name] = value

    def testbed(self, *arguments, timeout=240, **options):
        return subprocess.run(["bash", TESTBED, "-d", self.directory, *arguments], capture_output=True,
                              timeout=timeout, **options)

    def command(self, command, variables):
        """The full command that runs `command` as the user on the host, with these variables alone."""
        become = ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups"] if IS_ROOT else []
        variables = [f"{name}={value}" for name, value in {**variables, **self.variables}.items()]
        return ["bash", TESTBED, "-d", self.directory, "run", *become, "env", "-i", *variables, *command]

    def on_node(self, node, *command, **options):
        """Runs a command on a node as its root; returns what it prints."""
        done = self.testbed("exec", node, *command, **options)
        if done.returncode != 0:
            raise RuntimeError(f"{command} on {node}: {done.stderr.decode()}")
        return done.stdout.decode()

    def scontrol(self, *words):
        done = self.testbed("run", "scontrol", *words)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode())
        return done.stdout.decode()

    def states(self):
        """{node: words of its state}; a job that has just ended leaves it "completing" for a moment."""
        found = {}
        for line in self.scontrol("-o", "show", "nodes").splitlines():
            values = dict(word.partition("=")[::2] for word in line.split())
            found[values["NodeName"]] = set(values["State"].lower().replace("*", "").split("+"))
        return found

    def set_plugins(self, *lines):
        """The SPANK plugins of the steps that start from now on, "SO [ARGUMENTS]" each; all are optional."""
        with open(os.path.join(self.directory, "etc", "plugstack.conf"), "w") as file:
            file.writelines(f"optional {line}\n" for line in lines)

    def fail(self, node):
        """Ends a node and all that runs on it, as a power cut does."""
        self.testbed("fail", node, check=True)
        self.failed.add(node)

    def ended_daemons(self):
        """Of nodes whose slurmd has ended by itself: the end of its log."""
        lines = self.testbed("processes").stdout.decode(errors="replace").splitlines()
        running = {line.split()[-1] for line in lines if "slurmd -D -N n" in line}
        ended = []
        for node in set(self.names) - running - self.failed:
            with open(os.path.join(self.directory, "log", f"slurmd.{node}.log"), errors="replace") as log:
                ended.append(f"slurmd of {node} has ended:\n" + "".join(log.readlines()[-30:]))
        return ended

    def processes(self):
        """(node, pid, uid, name, arguments) of the processes on nodes, without those that make a node and without
        Slurm's daemons. The slurmstepd of a job are among them."""
        own = re.compile(r"unshare .*fake_nodes|bash \S*fake_nodes|sleep 86400$|nsenter .*on-node"
                         r"|slurmctld -D|slurmd -D|: slurmscriptd")
        found = []
        for line in self.testbed("processes").stdout.decode(errors="replace").splitlines():
            node, pid, uid, name, arguments = (line.rstrip() + " ").split(" ", 4)
            if not own.match(arguments.strip()):
                found.append((node, int(pid), int(uid), name, arguments.strip()))
        return found

    def job(self, job):
        """{field: value} of the job's parts (tasks of an array, components), oldest first."""
        return [dict(word.partition("=")[::2] for word in line.split())
                for line in self.scontrol("-o", "show", "job", str(job)).splitlines() if line.startswith("JobId=")]

    def await_job(self, job, timeout=180):
        """Waits until all parts of a job have ended; returns them as job() does."""
        deadline = time.monotonic() + timeout
        while True:
            parts = self.job(job)
            if parts and all(part["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED")
                             for part in parts):
                return parts
            if time.monotonic() > deadline:
                raise AssertionError(f"job {job} does not end: {parts}")
            time.sleep(0.1)

    def await_idle(self, timeout=180):
        """Waits until no process of a job is left; returns those that do not go."""
        deadline = time.monotonic() + timeout
        while True:
            left = self.processes()
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)

    def faults(self):
        """Drained nodes, processes and files that the jobs have left."""
        left = [f"{node} still runs {arguments}" for node, _, _, _, arguments in self.await_idle()]
        states = self.states()
        left += [f"{node} is {'+'.join(sorted(words))}" for node, words in states.items()
                 if words & {"drain", "drained", "draining"}]
        for node in self.names:
            if not states[node] & {"down", "not_responding"}:
                kept = self.on_node(node, "bash", "-c", "shopt -s nullglob; echo /dev/shm/* /run/clusterprof/*")
                left += [f"{node} keeps {path}" for path in kept.split()]
        return left

    def stop(self):
        atexit.unregister(self.stop)
        try:
            self.testbed("stop", check=True)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


class SlurmTest(recording.RecordingTest):
    """Tests on one cluster. self.directory is the user's working directory, self.home his home."""

    nodes = 4
    options = ()
    cluster = None
    skip = None

    @classmethod
    def start(cls):
        missing = subprocess.run(["bash", TESTBED, "missing"], capture_output=True)
        if missing.returncode != 0:
            raise unittest.SkipTest("not installed: " + missing.stdout.decode().strip())
        install()
        header = "/usr/include/slurm/spank.h"
        if PLUGIN in str(cls.options) and not os.path.exists(PLUGIN) and not os.path.exists(header):
            raise unittest.SkipTest("the plugin was not built: there is no slurm/spank.h")
        cls.cluster = Cluster(cls.nodes, cls.options)

    @classmethod
    def tearDownClass(cls):
        if cls.cluster:
            cluster, cls.cluster = cls.cluster, None
            try:
                faults = cluster.faults()
            finally:
                cluster.stop()
            if faults:
                raise AssertionError("\n".join(faults))
        super().tearDownClass()

    def tearDown(self):
        super().tearDown()
        if self.cluster and not self._outcome.success:
            # Jobs that a failed test has left would be in the way of the next one, and be found at the end of all.
            self.user(["scancel", "--quiet", "--user", str(USER)])
            self.cluster.await_idle()

    def setUp(self):
        super().setUp()
        cls = type(self)
        # Not in setUpClass(): main() counts the tests that were skipped.
        if not cls.cluster and not cls.skip:
            try:
                cls.start()
            except unittest.SkipTest as reason:
                cls.skip = str(reason)
        if cls.skip:
            self.skipTest(cls.skip)
        # Each job would wait for its limit.
        self.assertEqual(cls.cluster.ended_daemons(), [])
        self.home = tempfile.mkdtemp(prefix="clusterprof-home-")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        for directory in (self.directory, self.home):
            os.chmod(directory, 0o755)
            os.chown(directory, USER, GROUP)

    def variables(self):
        return {"PATH": f"{PREFIX}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home,
                "LANG": "C.UTF-8", "USER": "nobody" if IS_ROOT else str(USER),
                # A step does not wait for the processors of one that has ended, which slurmctld may not know yet: srun
                # misses its word now and then, and waits for a minute.
                "SLURM_OVERLAP": "1",
                # All nodes share a few cores.
                "OMP_NUM_THREADS": "1",
                "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}

    def user(self, command, timeout=180, more={}, **options):
        """Runs a command as the user, on the host, in self.directory, with the variables `more` besides variables()."""
        return subprocess.run(self.cluster.command(command, {**self.variables(), **more}), cwd=self.directory,
                              capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, **options)

    def done(self, command, **how):
        """Like user(), for a command that must succeed; returns what it printed."""
        done = self.user(command, **how)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr).decode(errors="replace"))
        return done.stdout.decode(errors="replace")

    def await_(self, condition, what, seconds=180):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def write(self, name, text):
        """A file of the user's in self.directory; returns its path."""
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
        os.chown(path, USER, GROUP)
        return path

    def submit(self, script, options=(), **how):
        """Submits a batch script, given as text; returns the job's id. Its output goes to job.out."""
        path = self.write("job.sh", "#!/bin/bash\n" + script)
        return self.done(["sbatch", "--parsable", "-o", "job.out", *options, path], **how).split(";")[0].strip()

    def batch(self, script, options=(), timeout=180, **how):
        """Submits a batch script that must succeed and waits for it; returns its job's id."""
        job = self.submit(script, options, **how)
        for part in self.cluster.await_job(job, timeout):
            self.assertEqual((part["JobState"], part["ExitCode"]), ("COMPLETED", "0:0"), self.output())
        return job

    def output(self, name="job.out"):
        try:
            with open(os.path.join(self.directory, name), errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def runs(self):
        """Names of the run directories that are in self.directory, those of later jobs and steps after those of earlier ones."""
        names = [os.path.basename(path) for path in glob.glob(os.path.join(self.directory, "clusterprof-*")) if os.path.isdir(path)]
        return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])

    def report(self, run="run"):
        return json.loads(self.done([CLUSTERPROF, "report", "--json", run]))

    def check_run(self, run, ranks, nodes=None):
        """Checks a run that came to its end: its ranks, and a shard for each node (all nodes, if not stated). Returns the
        report."""
        report = self.report(run)
        nodes = nodes or self.cluster.names
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(ranks)))
        self.assertEqual(sorted(node["name"] for node in report["nodes"]), nodes)
        self.assertEqual(sorted(os.path.basename(path) for path in glob.glob(f"{self.directory}/{run}/node-*.h5")),
                         [f"node-{node}.h5" for node in nodes])
        self.assertTrue(report["run"]["complete"])
        return report

    def check_tasks(self, run, output, nodes=None, command=None):
        """Of a run of tasks.py that printed `output` (its last arguments: `command`): who and where its ranks were, on so many
        nodes (all, if not stated), and which of its functions they were in. Returns the report."""
        said = sorted(json.loads(line)[1:4] for line in output.splitlines() if line.startswith('["task"'))
        # Slurm chooses nodes, and leaves out those on which a job has just ended and is not cleaned up yet.
        names = sorted({node for _, node, _ in said})
        self.assertEqual(len(names), nodes or len(self.cluster.names), output)
        report = self.check_run(run, len(said), names)
        self.assertEqual([[rank["rank"], rank["node"], rank["pid"]] for rank in report["ranks"]], said)
        self.assertEqual([rank["exit"]["status"] for rank in report["ranks"]], [0] * len(said))
        if command is not None:
            self.assertEqual(report["run"]["command"][-len(command):], command)
        for name, remainder in (("even", 0), ("odd", 1)):
            if remainder < len(said):
                function = self.function(report, name)
                self.assertEqual((function["rank_max"] % 2, function["file"]), (remainder, TASKS))
                self.assertGreater(function["rank_max_s"], 0.1)
                if len(said) > 1:
                    self.assertEqual(function["rank_min_s"], 0.0)
        return report

    def check_matrix(self, run, output, ranks, nodes=None):
        """Of a run of traffic.c that printed `output`: that what ranks sent each other is what it says. Returns the
        report."""
        sent = [tuple(map(int, line.split()[1:])) for line in output.splitlines() if line.startswith("sent ")]
        self.assertEqual({cell[0] for cell in sent}, set(range(ranks)), output)
        report = self.check_run(run, ranks, nodes)
        matrix = sorted((cell["src"], cell["dst"], cell["messages"], cell["bytes"]) for cell in report["mpi"]["matrix"])
        self.assertEqual(matrix, sorted(sent))
        return report


if __name__ == "__main__" and sys.argv[1:] == ["remove"]:
    remove_installed()
