"""`mpirun clusterprof merge RUN`: any number of processes make the same profile, only one prints, nothing is left behind.

Usage: merge_mpi_test.py openmpi|mpich"""

import ctypes
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import plain_surroundings  # noqa: E402,F401  before any test looks at them

import h5py
import numpy as np

FAMILY = sys.argv.pop(1)
BUILD = os.environ["CLUSTERPROF_TEST_BUILD"]
HERE = os.environ["CLUSTERPROF_TEST_PROGRAMS"]  # what this folder builds
CLUSTERPROF = os.path.join(BUILD, "bin", "clusterprof")
LIBEXEC = os.path.join(BUILD, "libexec", "clusterprof")
MERGE = os.path.join(LIBEXEC, "merge-" + FAMILY)
TEAM_PROGRAM = os.path.join(HERE, "team_program_" + FAMILY)
MPIRUN = ["mpirun." + FAMILY] + (["--oversubscribe", "--bind-to", "none"] if FAMILY == "openmpi" else [])
RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}[FAMILY]
NODES, RANKS_PER_NODE = 4, 3
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def shards_of(run):
    return sorted(glob.glob(os.path.join(run, "node-*.h5")))


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def deal_cyclically(run):
    """Deals ranks to the nodes in turn, as --map-by node does, and adapts everything else that the shards say about ranks."""
    moved = {node * RANKS_PER_NODE + i: i * NODES + node for node in range(NODES) for i in range(RANKS_PER_NODE)}
    for path in shards_of(run):
        with h5py.File(path, "r+") as file:
            for name in ("ranks/rank", "matrix/source", "matrix/destination"):
                column = file[name][:]
                column[:] = [moved[int(rank)] for rank in column]
                file[name][:] = column
                file[name].attrs.modify("xxh3", np.uint64(XXHASH.XXH3_64bits(column.tobytes(), column.nbytes)))


class MergeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="clusterprof-merge-")
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)
        cls.original = os.path.join(cls.top, "original")
        subprocess.run([os.path.join(LIBEXEC, "synth"), "--nodes", str(NODES), "--ranks-per-node", str(RANKS_PER_NODE),
                        "--paths", "80", "--events", "40", "--seed", "7", cls.original], check=True, timeout=60)
        cls.expected = cls.merged_alone(cls.original)

    @classmethod
    def merged_alone(cls, run, *options):
        """The profile that one process makes of these shards."""
        copy = tempfile.mkdtemp(dir=cls.top)
        for path in shards_of(run):
            shutil.copy2(path, copy)
        subprocess.run([os.path.join(LIBEXEC, "analyze"), "merge", *options, copy], capture_output=True, timeout=60,
                       check=True)
        return contents(os.path.join(copy, "profile.h5"))

    def run_of(self, original=None):
        run = os.path.join(tempfile.mkdtemp(dir=self.top), "run")
        shutil.copytree(original or self.original, run)
        return run

    def mpirun(self, processes, *command, **variables):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
        return subprocess.run([*MPIRUN, "-n", str(processes), *command], capture_output=True, timeout=100,
                              env=environment, cwd=self.top, text=True)

    @staticmethod
    def ours(done):
        """Our own lines on stderr, without those of mpirun."""
        return [line for line in done.stderr.splitlines() if "clusterprof: " in line]

    def check_merged(self, run, done, expected=None):
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(len(done.stdout.splitlines()), 1, done)
        self.assertIn("profile.h5: ", done.stdout)
        self.assertEqual(sorted(os.listdir(run)),
                         [os.path.basename(path) for path in shards_of(run)] + ["profile.h5"])
        self.assertTrue(contents(os.path.join(run, "profile.h5")) == (expected or self.expected), "other bytes")

    def check_refused(self, run, done, status, *words):
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, "")
        lines = self.ours(done)
        self.assertEqual(len(lines), 1, done)
        for word in words:
            self.assertIn(word, lines[0])
        if run is not None:
            self.assertEqual(sorted(os.listdir(run)), [os.path.basename(path) for path in shards_of(run)])


class Merges(MergeTest):
    def test_a_run_named_by_its_job(self):
        run = self.run_of()
        named = os.path.join(os.path.dirname(run), "clusterprof-train-4711.0")
        os.rename(run, named)
        done = self.mpirun(2, CLUSTERPROF, "merge", "-q", "4711", CLUSTERPROF_ROOT=os.path.dirname(run))
        self.check_merged(named, done)
        done = self.mpirun(2, CLUSTERPROF, "merge", "4712", CLUSTERPROF_ROOT=os.path.dirname(run))
        self.check_refused(None, done, 1, "4712: nothing found: no run of that job")

    def test_same_bytes_from_any_number_of_processes(self):
        for processes in (1, 2, 3, NODES + 1):
            with self.subTest(processes):
                run = self.run_of()
                done = self.mpirun(processes, CLUSTERPROF, "merge", "-q", run)
                self.check_merged(run, done)
                self.assertEqual(self.ours(done), [])
        # Again, with a profile to take everything over from.
        self.check_merged(run, self.mpirun(2, CLUSTERPROF, "merge", "-q", run))

    def test_ranks_dealt_cyclically_and_a_shard_that_comes_later(self):
        cyclic = self.run_of()
        deal_cyclically(cyclic)
        expected = self.merged_alone(cyclic)
        self.assertNotEqual(expected, self.expected)
        run = self.run_of(cyclic)
        late = shards_of(run)[1]
        os.rename(late, late + ".late")
        self.assertEqual(self.mpirun(3, CLUSTERPROF, "merge", "-q", run).returncode, 0)
        os.rename(late + ".late", late)
        self.check_merged(run, self.mpirun(2, CLUSTERPROF, "merge", "-q", run), expected)

    def test_a_damaged_shard(self):
        run = self.run_of()
        damaged = shards_of(run)[-1]  # the last member's
        os.truncate(damaged, os.path.getsize(damaged) * 2 // 3)
        name = os.path.basename(damaged)
        self.check_refused(run, self.mpirun(2, CLUSTERPROF, "merge", "-q", run), 3, name)
        done = self.mpirun(2, CLUSTERPROF, "merge", "-q", "--partial", run)
        self.check_merged(run, done, self.merged_alone(run, "--partial"))
        lines = self.ours(done)
        self.assertEqual(len(lines), 1, done)
        self.assertIn(name, lines[0])

    def test_nothing_to_merge(self):
        done = self.mpirun(2, CLUSTERPROF, "merge", "-q", os.path.join(self.top, "nowhere"))
        self.check_refused(None, done, 1, "nowhere")
        done = self.mpirun(2, CLUSTERPROF, "merge", "-q")
        self.check_refused(None, done, 2, "RUN")

    def test_a_directory_that_cannot_be_written(self):
        run = self.run_of()
        if os.geteuid() == 0:
            # Root may write anywhere but to what is mounted read-only.
            shell = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99; shift 2; "$@"'
            before = ["unshare", "-m", "sh", "-c", shell, "sh", run, "--"]
        else:
            os.chmod(run, 0o555)
            before = []
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run([*before, *MPIRUN, "-n", "2", CLUSTERPROF, "merge", "-q", run], capture_output=True,
                              timeout=100, env=environment, text=True)
        if before and (done.returncode == 99 or "unshare" in done.stderr):
            self.skipTest("nothing can be mounted here: " + done.stderr.strip())
        self.check_refused(run, done, 3, "profile.h5: cannot be written")

    def test_a_process_that_is_killed(self):
        for file in (1, 3):  # its first of each pass
            run = self.run_of()
            killed = (f'[ "${RANK}" = 1 ] && export LD_PRELOAD={HERE}/shim.so SHIM_KILL_AT={file}; '
                      f'exec {CLUSTERPROF} merge -q {run}')
            started = time.monotonic()
            done = self.mpirun(2, "sh", "-c", killed)
            self.assertNotEqual(done.returncode, 0, done)
            self.assertLess(time.monotonic() - started, 60)
            self.assertFalse(os.path.exists(os.path.join(run, "profile.h5")))
        # What such a process left goes with the next merge, unless somebody may still be writing it: on another
        # machine, whose processes cannot be seen.
        names = [f"{pid}.1.0123456789abcdef.{n}" for pid, n in ((4194400, 1), (os.getpid(), 1), (4194400, 2))]
        abandoned, of_a_living_one, young = (os.path.join(run, f".profile.h5.{name}.tmp") for name in names)
        for path in (abandoned, of_a_living_one, young):
            with open(path, "wb"):
                pass
        hour_ago = time.time() - 3600
        for path in (abandoned, of_a_living_one):
            os.utime(path, (hour_ago, hour_ago))
        self.assertEqual(self.mpirun(2, CLUSTERPROF, "merge", "-q", run).returncode, 0)
        self.assertEqual({path for path in glob.glob(os.path.join(run, ".*")) if path.endswith(".tmp")},
                         {of_a_living_one, young})
        self.assertTrue(contents(os.path.join(run, "profile.h5")) == self.expected)


class Launches(MergeTest):
    def installation(self):
        """Without the programs that need MPI."""
        prefix = tempfile.mkdtemp(dir=self.top)
        os.makedirs(os.path.join(prefix, "libexec", "clusterprof"))
        os.mkdir(os.path.join(prefix, "bin"))
        shutil.copy2(CLUSTERPROF, os.path.join(prefix, "bin"))
        os.symlink(os.path.join(LIBEXEC, "analyze"), os.path.join(prefix, "libexec", "clusterprof", "analyze"))
        return prefix

    def check_merged_alone(self, command, *words, run=None):
        run = run or self.run_of()
        done = self.mpirun(2, *command, run)
        self.check_merged(run, done)
        lines = self.ours(done)
        self.assertEqual(len(lines), 1, done)
        self.assertIn("clusterprof: merging in one process: ", lines[0])
        for word in words:
            self.assertIn(word, lines[0])

    def test_without_the_program(self):
        clusterprof = os.path.join(self.installation(), "bin", "clusterprof")
        self.check_merged_alone([clusterprof, "merge", "-q"], "merge-" + FAMILY)

    def test_without_the_library(self):
        prefix = self.installation()
        program = contents(MERGE)
        library = {"openmpi": b"libmpi.so.40", "mpich": b"libmpich.so.12"}[FAMILY]
        absent = library.replace(b"lib", b"no_", 1)
        path = os.path.join(prefix, "libexec", "clusterprof", "merge-" + FAMILY)
        self.assertIn(library + b"\0", program)
        with open(path, "wb") as file:
            file.write(program.replace(library + b"\0", absent + b"\0"))
        os.chmod(path, 0o755)
        self.check_merged_alone([os.path.join(prefix, "bin", "clusterprof"), "merge", "-q"], absent.decode())

    def test_from_within_a_script(self):
        # Which may do so in one of its processes only.
        run = self.run_of()
        script = f'[ "${RANK}" = 1 ] || {CLUSTERPROF} merge -q "$0"; exit $?'
        self.check_merged_alone(["sh", "-c", script], "script", run=run)

    def test_without_mpi_only_the_first_process_merges(self):
        run = self.run_of()
        for role, lines in (("other", 0), ("first", 1)):
            done = subprocess.run([MERGE, role, "merge", "-q", run], capture_output=True, text=True, timeout=60, env={
                **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(len(self.ours(done)), lines, done)
            self.assertEqual(os.path.exists(os.path.join(run, "profile.h5")), role == "first")

    def test_is_not_recorded(self):
        run = self.run_of()
        log = os.path.join(self.top, "log")
        done = self.mpirun(2, CLUSTERPROF, "merge", "-q", run, SHIM_LOG=log,
                           LD_PRELOAD=os.path.join(HERE, "libclusterprof_shim.so"))
        self.check_merged(run, done)
        programs = {os.path.basename(line) for line in contents(log).decode().splitlines()}
        self.assertIn("clusterprof", programs)
        self.assertNotIn("merge-" + FAMILY, programs)


class Team(MergeTest):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.mkdtemp(prefix="clusterprof-merge-")
        cls.addClassCleanup(shutil.rmtree, cls.top, ignore_errors=True)

    def test_messages(self):
        for processes in (1, 5):
            with self.subTest(processes):
                done = self.mpirun(processes, TEAM_PROGRAM, "exchange")
                self.assertEqual(done.returncode, 0, done)
                everyone = "".join(f"{member} " for member in range(processes))
                even = "".join(f"{member} " for member in range(0, processes, 2))
                self.assertEqual(done.stdout, f"{everyone}| {even}| {everyone}| \n")

    def test_posted_messages(self):
        done = self.mpirun(3, TEAM_PROGRAM, "post")
        self.assertEqual(done.returncode, 0, done)

    def test_waiting_takes_no_processor(self):
        done = self.mpirun(3, TEAM_PROGRAM, "idle")
        spent_s = [float(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(spent_s), 2, done)
        self.assertLess(max(spent_s), 0.3)  # of a second's waiting

    def test_one_status_for_all(self):
        self.assertEqual(self.mpirun(4, TEAM_PROGRAM, "status").returncode, 4)

    def test_a_member_that_gives_up(self):
        for mode in ("gone", "unwanted"):
            done = self.mpirun(3, TEAM_PROGRAM, mode)
            self.assertEqual(done.returncode, 3, done)
            lines = self.ours(done)
            self.assertEqual(len(lines), 1, done)
            self.assertRegex(lines[0], "process 2, on .*, has given up with status " + ("7" if mode == "gone" else "0"))

    def test_a_process_that_does_not_come(self):
        done = self.mpirun(2, TEAM_PROGRAM, "late", "1")
        self.assertNotEqual(done.returncode, 0, done)
        self.assertIn("MPI_Init", "".join(self.ours(done)))


if __name__ == "__main__":
    if not shutil.which(MPIRUN[0]) or not os.path.exists(MERGE):
        print(f"skipped: no {MPIRUN[0]}" if os.path.exists(MERGE) else f"skipped: {MERGE} was not built")
        sys.exit(77)
    unittest.main(verbosity=2)
