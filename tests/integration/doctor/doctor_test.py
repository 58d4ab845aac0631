"""`clusterprof doctor` on this machine, from a prefix as it is installed, as an ordinary user."""

import ctypes
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

import jsonschema

import recording

NOBODY = 65534
# Below it LeakSanitizer cannot work, where the doctor is sanitized.
STRACE = ["env", "ASAN_OPTIONS=detect_leaks=0", "strace", "-f", "-qq"]
IS_ROOT = os.geteuid() == 0
with open(os.path.join(recording.SOURCE, "cli", "doctor", "doctor.schema.json"), encoding="utf-8") as rules:
    SCHEMA = json.load(rules)
NOTE = re.compile(r"(ok|warn|fail): [^:]+: .+")


def install(prefix):
    """Installs what has been built, as `cmake --install` does."""
    for folder in ("bin", "libexec/clusterprof", "lib/clusterprof"):
        source, target = os.path.join(recording.BUILD, folder), os.path.join(prefix, folder)
        os.makedirs(target)
        for name in os.listdir(source):
            wanted = name.endswith(".so") if folder.startswith("lib/") else name in (
                "clusterprof", "doctor", "collector", "analyze", "tui", "merge-openmpi", "merge-mpich",
                "self-test", "self-test-openmpi", "self-test-mpich")
            if wanted and os.path.isfile(os.path.join(source, name)):
                shutil.copy(os.path.join(source, name), target)
    for folder, _, names in os.walk(os.path.join(recording.BUILD, "lib/clusterprof")):
        for link in (os.path.join(folder, name) for name in names):
            if os.path.islink(link):
                target = os.path.join(prefix, os.path.relpath(link, recording.BUILD))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.symlink(os.readlink(link), target)
    shutil.copytree(os.path.join(recording.SOURCE, "python", "clusterprof"),
                    os.path.join(prefix, "lib/clusterprof/python/clusterprof"),
                    ignore=shutil.ignore_patterns("__pycache__"))


def forbid_perf_event_open():
    """A seccomp filter as containers have it: perf_event_open is answered with EPERM."""
    load, jump_if_equal, give = 0x20, 0x15, 0x06
    program = b"".join(struct.pack("HBBI", *step) for step in [
        (load, 0, 0, 0), (jump_if_equal, 0, 1, 298), (give, 0, 0, 0x00050000 | 1), (give, 0, 0, 0x7fff0000)])
    buffer = ctypes.create_string_buffer(program)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(
            Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p)))) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp")


class InstalledDoctor(recording.RecordingTest):
    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp(prefix="clusterprof-doctor-prefix-")
        cls.addClassCleanup(shutil.rmtree, cls.prefix, ignore_errors=True)
        os.chmod(cls.prefix, 0o755)
        install(cls.prefix)
        cls.clusterprof = os.path.join(cls.prefix, "bin", "clusterprof")

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": self.directory}

    def doctor(self, *options, before=(), user=NOBODY if IS_ROOT else None, **how):
        if user:
            how.update(user=user, group=user, extra_groups=[])
        return subprocess.run([*before, self.clusterprof, "doctor", *options], cwd=self.directory, capture_output=True,
                              text=True, timeout=100, env={**self.environment, **how.pop("env", {})}, **how)

    def checks(self, *options, status=0, **how):
        """Returns the checks by id, after it has checked what holds for every document."""
        done = self.doctor("--json", *options, **how)
        self.assertEqual(done.stderr, "")
        document = json.loads(done.stdout)
        jsonschema.Draft7Validator.check_schema(SCHEMA)
        jsonschema.validate(document, SCHEMA, jsonschema.Draft7Validator)
        ids = [check["id"] for check in document["checks"]]
        self.assertEqual(len(ids), len(set(ids)), "each check once")
        statuses = {check["status"] for check in document["checks"]}
        self.assertEqual(document["verdict"], next(s for s in ("fail", "warn", "ok") if s in statuses))
        for check in document["checks"]:
            if check["status"] != "ok":
                self.assertTrue(check["costs"] and check["fix"], f"{check['id']} says what it costs and how to mend it")
        self.assertEqual(done.returncode, status, [c for c in document["checks"] if c["status"] == "fail"])
        self.assertEqual(done.returncode, 1 if document["verdict"] == "fail" else 0)
        return {check["id"]: check for check in document["checks"]}


class Doctor(InstalledDoctor):
    def test_every_check_runs(self):
        checks = self.checks()
        self.assertEqual({id_.split(".")[0] for id_ in checks},
                         {"node", "install", "mpi", "counters", "sampling", "limits", "output", "slurm", "python",
                          "symbols"})
        self.assertEqual(checks["install.files"]["found"], f"whole, below {self.prefix}")
        self.assertEqual(checks["install.libraries"]["status"], "ok")
        self.assertEqual(checks["install.access"]["status"], "ok")
        self.assertIn("Open MPI (libmpi.so.40)", checks["mpi.libraries"]["found"])
        self.assertIn("/usr/bin/python3: 3.", checks["python.default"]["found"])
        self.assertIn(self.directory, checks["output.place"]["found"])
        self.assertRegex(checks["output.operations"]["found"], "all that a run needs")
        self.assertEqual(os.listdir(self.directory), [])
        self.assertEqual([words for _, words in recording.processes() if self.prefix in words[0]], [])

    def test_self_test(self):
        """Its verdict depends on the machine's load, but not that it records, compares and cleans up."""
        scratch = os.path.join(self.directory, "scratch")
        os.mkdir(scratch)
        os.chmod(scratch, 0o777)
        done = self.doctor("--self-test", "--json", env={"TMPDIR": scratch, "CLUSTERPROF_RATE": "7"})
        self.assertEqual(done.stderr, "")
        document = json.loads(done.stdout)
        jsonschema.validate(document, SCHEMA, jsonschema.Draft7Validator)
        found = {check["id"]: check["found"] for check in document["checks"]}
        self.assertRegex(found["self_test.shares"], r"^three_quarters\(\) has \d+\.\d % .* in the profile: \d+\.\d points off")
        self.assertRegex(found["self_test.idle"], r"^slept for 0\.\d+ s .* \d+ ms off$")
        self.assertRegex(found["self_test.sample_cost"], r"^\d+\.\d µs ")
        for family in ("openmpi", "mpich"):
            if not shutil.which(f"mpirun.{family}"):
                continue
            self.assertRegex(found[f"self_test.waits_{family}"], r"^(not tried: two ranks|rank 0 waited \d+\.\d+ s for rank 1)")
            self.assertRegex(found[f"self_test.call_cost_{family}"], r"^MPI_Iprobe takes \d+ ns alone and \d+ ns recorded")
        self.assertEqual(done.returncode, 1 if document["verdict"] == "fail" else 0)
        self.assertEqual(os.listdir(scratch), [])

    def test_self_test_starts_its_own_ranks(self):
        done = self.doctor("--self-test", env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
                                               "PMIX_NAMESPACE": "job", "OMPI_MCA_ess_base_jobid": "1"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--self-test starts its own ranks", done.stderr)

    def test_papi_reasons_agree_with_reports(self):
        events = self.checks("--node")["counters.events"]["details"]
        self.assertTrue(any(event.startswith("PAPI_TOT_CYC") for event in events), events)
        if IS_ROOT:
            os.chmod(self.directory, 0o700)
        run = os.path.join(self.directory, "run")
        subprocess.run([self.clusterprof, "-o", run, "-q", "-e", "PAPI_TOT_CYC", "--", "/bin/sleep", "0.1"], check=True, timeout=60)
        done = subprocess.run([self.clusterprof, "report", "--json", run], check=True, capture_output=True, timeout=60)
        counters = json.loads(done.stdout)["counters"]
        # The recorded one may do what root may.
        events = self.checks("--node", user=None)["counters.events"]["details"]
        why = next(event for event in events if event.startswith("PAPI_TOT_CYC")).partition(": ")[2]
        self.assertEqual(counters["unavailable"].get("PAPI_TOT_CYC", ""), why)

    def test_text(self):
        done = self.doctor()
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertRegex(lines[-1], r"^\S+: (all \d+ checks ok|\d+ .* of \d+ checks: recording works here)")
        self.assertFalse(any(line.startswith("  ok") for line in lines), "only what is not ok")
        self.assertNotIn("\033", done.stdout)
        self.assertLessEqual(max(map(len, lines)), 120)
        verbose = self.doctor("--verbose", "--color=always").stdout
        self.assertIn("\033[32m  ok\033[0m", verbose)
        self.assertGreater(len(verbose.splitlines()), len(lines))

    def test_quick_on_a_node(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.doctor("--quick", "--node")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertGreater(len(lines), 10)
        for line in lines:
            self.assertRegex(line, NOTE)
            self.assertLessEqual(len(line.encode()), 200)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.assertLess(spent, 0.3)

    def test_quick_starts_nothing(self):
        self.need("strace")
        done = self.doctor("--quick", "--json", before=[*STRACE, "-o", "calls", "-e", "trace=execve,fork,vfork,connect,mkdir,symlink"])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.directory, "calls"), encoding="utf-8") as calls:
            # The launcher and the doctor itself.
            self.assertEqual(re.findall(r"\d+ +(\w+)\(", calls.read()), ["execve", "execve"])

    def test_a_file_system_that_does_not_answer(self):
        self.need("strace")
        # Answered after three seconds, when nobody waits for it any more.
        late = [*STRACE, "-o", "/dev/null", "-e", "trace=statfs", "-e", "inject=statfs:delay_enter=3000000"]
        done = self.doctor("--quick", "--node", before=late)
        lines = done.stdout.splitlines()
        self.assertEqual((done.returncode, lines[-1]), (1, "fail: node check: stopped, because a file system does not answer"))
        self.assertGreater(len(lines), 10)
        self.assertNotIn("/dev/shm", done.stdout)

    def test_without_anything_in_the_environment(self):
        self.environment = {}
        for check in self.checks(env={"PATH": ""}).values():
            self.assertNotEqual(check["status"], "fail")
        done = self.doctor("--quick", "--node")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_parts_that_are_missing(self):
        with tempfile.TemporaryDirectory() as other:
            os.chmod(other, 0o755)
            shutil.copytree(self.prefix, os.path.join(other, "p"))
            self.clusterprof = os.path.join(other, "p/bin/clusterprof")
            os.unlink(os.path.join(other, "p/libexec/clusterprof/collector"))
            os.unlink(os.path.join(other, "p/lib/clusterprof/libclusterprof_mpi_openmpi.so"))
            checks = self.checks("--quick", status=1)
            self.assertEqual(checks["install.files"]["found"], "missing: the collector")
            self.assertEqual(checks["mpi.preload"]["status"], "fail")
            done = self.doctor("--quick", "--node")
            self.assertEqual(done.returncode, 1)
            self.assertIn("fail: installation: missing: the collector; nothing can be recorded\n", done.stdout)
            os.chmod(other, 0o700)
            if IS_ROOT:
                checks = self.checks("--quick", status=1, user=None)
                self.assertEqual(checks["install.access"]["status"], "warn")
                self.assertIn(other, checks["install.access"]["fix"])

    def test_output_directories(self):
        shut = os.path.join(self.directory, "shut")
        os.mkdir(shut, 0o555)
        if IS_ROOT:
            checks = self.checks(shut, status=1)
            self.assertEqual(checks["output.operations"]["found"], f"{shut}: Permission denied")
        new = os.path.join(self.directory, "not", "yet")
        self.assertIn("still to be made", self.checks(new)["output.place"]["found"])
        checks = self.checks(env={"CLUSTERPROF_ROOT": "/dev/null"}, status=1)
        self.assertIn("Not a directory", checks["output.operations"]["found"])
        checks = self.checks(env={"SLURM_JOB_NUM_NODES": "2"}, status=1) if os.stat("/").st_dev == os.stat(
            self.directory).st_dev else {}
        if checks:
            self.assertEqual(checks["output.place"]["status"], "fail")

    def in_a_namespace(self, set_up, *options):
        if not IS_ROOT:
            self.skipTest("only root may mount")
        before = ["unshare", "-m", "sh", "-c", f'{set_up} && exec setpriv --reuid {NOBODY} --clear-groups "$@"', "sh"]
        if subprocess.run([*before[:4], set_up], capture_output=True, check=False).returncode != 0:
            self.skipTest("mounts are not permitted here")
        return self.checks(*options, before=before, user=None)

    def test_without_shared_memory(self):
        checks = self.in_a_namespace("mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3", "--quick")
        self.assertEqual((checks["limits.shm"]["status"], checks["limits.shm"]["found"]), ("warn", "missing"))

    def test_with_little_shared_memory(self):
        checks = self.in_a_namespace("mount -t tmpfs -o size=1m none /dev/shm", "--quick")
        self.assertEqual(checks["limits.shm"]["status"], "warn")
        self.assertIn("docker run --shm-size", checks["limits.shm"]["fix"])

    def test_limits(self):
        def small():
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        checks = self.checks("--quick", status=1, preexec_fn=small)
        self.assertEqual(checks["limits.files"]["fix"], "you: ulimit -n 300")
        self.assertEqual(checks["limits.sizes"]["status"], "fail")

    def test_too_large_a_memory_file_is_not_recorded(self):
        """Below the limit that doctor calls a failure, the agent really makes no memory file."""
        with open(os.path.join(recording.SOURCE, "cli/doctor/checks_machine.cpp"), encoding="utf-8") as source:
            least = int(re.search(r"kMinMemoryFileBytes = ([\d']+)", source.read())[1].replace("'", ""))
        for limit, is_recorded in ((least - 6_000_000, False), (least, True)):
            run = os.path.join(self.directory, str(limit))
            subprocess.run([self.clusterprof, "-o", run, "-q", "--", "/bin/sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"],
                           check=True, timeout=60, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            done = subprocess.run([self.clusterprof, "report", "--json", run], capture_output=True, timeout=60, check=True)
            self.assertEqual(json.loads(done.stdout)["run"]["samples"] > 0, is_recorded)

    def test_root_checks_as_the_user_of_the_job(self):
        if not IS_ROOT:
            self.skipTest("a prolog is run by root")
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="utf-8") as file:
            level = int(file.read())
        # As slurmd runs a prolog.
        job = {"SLURM_JOB_UID": str(NOBODY)}
        checks = self.checks("--quick", "--node", user=None, env=job)
        own = self.checks("--quick", "--node")
        self.assertEqual(checks["counters.permission"]["status"], own["counters.permission"]["status"])
        self.assertIn(f"for user {NOBODY}", checks["counters.permission"]["found"])
        self.assertEqual(checks["counters.permission"]["status"], "ok" if level < 2 else "warn")
        self.assertNotIn("limits.files", checks)
        self.assertIn("limits.shm", checks)

    def test_below_a_seccomp_filter(self):
        checks = self.checks("--quick", preexec_fn=forbid_perf_event_open)
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="utf-8") as file:
            level = int(file.read())
        if level > 2:
            self.skipTest("what the filter forbids is forbidden anyway")
        self.assertEqual(checks["counters.permission"]["found"], "not permitted (a seccomp filter)")
        self.assertEqual(checks["counters.seccomp"]["status"], "warn")

    def test_ranks_of_a_job(self):
        self.need("mpirun.openmpi")
        allowed = {name: "1" for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")}
        before = recording.launcher("openmpi", 3)
        done = self.doctor("--node", "--verbose", before=before, env=allowed)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        host = socket.gethostname()
        lines = done.stdout.splitlines()
        self.assertTrue(all(line.startswith(f"{host}: ") for line in lines), done.stdout)
        self.assertEqual(sum("recording works here" in line or " ok" in line[-4:] for line in lines if " checks" in line), 1)
        done = self.doctor("--node", "--json", before=before, env=allowed)
        documents = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([document["host"] for document in documents], [host])
        jsonschema.validate(documents[0], SCHEMA, jsonschema.Draft7Validator)

    def test_bad_usage(self):
        for words in (["--nonsense"], ["a", "b"], ["--color", "blue"]):
            done = self.doctor(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"^clusterprof: .*doctor --help\)\n$")
        done = self.doctor("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("RUN_OR_DIR", "--json", "--quick", "--node", "--verbose", "Exit status"):
            self.assertIn(word, done.stdout)

    def test_every_check_is_documented(self):
        """docs/doctor.md has every check, and the versions of Python are those that the agent knows."""
        with open(os.path.join(recording.SOURCE, "docs", "doctor.md"), encoding="utf-8") as file:
            documented = file.read()
        found = set()
        for folder, _, names in os.walk(os.path.join(recording.SOURCE, "cli", "doctor")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found |= set(re.findall(r'"((?:install|mpi|counters|sampling|limits|output|slurm|python|symbols)\.[a-z_]+)"', file.read()))
        self.assertGreater(len(found), 30)
        self.assertEqual([id_ for id_ in sorted(found) if f"`{id_}`" not in documented], [])
        versions = set()
        for path in ("agent/discovery/attach.cpp", "cli/doctor/checks_python.cpp"):
            with open(os.path.join(recording.SOURCE, path), encoding="utf-8") as file:
                versions.add(re.search(r"kOldestMinor = (\d+), kNewestMinor = (\d+)", file.read()).groups())
        self.assertEqual(len(versions), 1, versions)


class DoctorInSlurm(InstalledDoctor):
    """On a Slurm of two simulated nodes."""
    TESTBED = os.path.join(recording.SOURCE, "tests", "support", "slurm_testbed.bash")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plugin = os.path.join(cls.prefix, "lib/clusterprof/spank_clusterprof.so")
        missing = subprocess.run(["bash", cls.TESTBED, "missing"], capture_output=True, text=True, check=False)
        if missing.returncode != 0 or not os.path.exists(cls.plugin):
            raise unittest.SkipTest(f"not installed here: {missing.stdout} {cls.plugin}")
        cls.state = tempfile.mkdtemp(prefix="cpdoctor-", dir="/tmp")
        os.chmod(cls.state, 0o755)
        cls.addClassCleanup(shutil.rmtree, cls.state, ignore_errors=True)
        cls.addClassCleanup(cls.cluster, "stop")
        cls.cluster("start", "2", "--mpi", "pmix", "--spank", cls.plugin)

    @classmethod
    def cluster(cls, *words):
        subprocess.run(["bash", cls.TESTBED, "-d", os.path.join(cls.state, "t"), *words], check=True, capture_output=True, timeout=60)

    def inside(self, *before):
        return ["bash", self.TESTBED, "-d", os.path.join(self.state, "t"), "run", *before]

    def test_version_and_plugin(self):
        checks = self.checks("/dev/shm", before=self.inside(), user=None)
        with open("/usr/include/slurm/slurm_version.h", encoding="utf-8") as file:
            number = int(re.search(r"SLURM_VERSION_NUMBER (0x[0-9a-f]+)", file.read())[1], 16)
        release = f"{number >> 16}.{number >> 8 & 255:02}"
        self.assertEqual(checks["slurm.plugin"]["status"], "ok")
        self.assertRegex(checks["slurm.plugin"]["found"], rf"^Slurm {release}\.\d+, plugin for {release}$")
        self.assertEqual(checks["slurm.plugstack"]["status"], "ok")
        self.assertIn(f"optional {self.plugin}", checks["slurm.plugstack"]["found"])
        self.assertIn("default pmix", checks["slurm.mpi"]["found"])
        self.assertIn("ProctrackType=proctrack/linuxproc", checks["slurm.config"]["details"])

    def test_every_node_looks_at_itself(self):
        # A file per node: srun passes on at most 1 KiB of a line at once, and mixes the pieces.
        done = self.doctor("--node", "--json", before=self.inside("srun", "--mpi=none", "-N2", "-n4", "-o", "of-%N.json"), user=None)
        self.assertEqual(done.returncode, 0, done.stderr)
        for node in ("n1", "n2"):
            with open(os.path.join(self.directory, f"of-{node}.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["host"], node)
        done = self.doctor("--quick", "--node", before=self.inside("srun", "--mpi=none", "-N2", "-n4"), user=None)
        for line in done.stdout.splitlines():
            self.assertRegex(line, rf"^n[12]: {NOTE.pattern}$")


if __name__ == "__main__":
    recording.main()
