"""Bad input gets one clear line on stderr and the exit code of the contract."""

import os
import shutil
import subprocess

import recording


class BadInput(recording.RecordingTest):
    def refused(self, arguments, status, *words, **more):
        done = subprocess.run([recording.CLUSTERPROF, *arguments], cwd=self.directory, capture_output=True,
                              timeout=60, **more)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, status, text)
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        self.assertEqual(done.stdout, b"")
        for word in words:
            self.assertIn(word, text)

    def run_directory(self):
        self.recorded([recording.PYTHON, "-c", "for i in range(10**6): pass"])
        run = os.path.join(self.directory, "run")
        merged = os.path.join(run, "profile.h5")
        if os.path.exists(merged):
            os.remove(merged)
        shard, = [os.path.join(run, name) for name in os.listdir(run) if name.startswith("node-")]
        return run, shard

    def test_unknown_option(self):
        self.refused(["--speed", "9", "true"], 2, "--speed")
        self.refused(["-r", "never", "true"], 2, "rate")
        self.refused(["report", "--colour-blind", "."], 2, "--colour-blind")
        self.refused(["query", ".", "weather"], 2, "query --help")

    def test_help_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([recording.CLUSTERPROF, "--help"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr, b"clusterprof: standard output: No space left on device\n")

    def test_no_command(self):
        self.refused([], 2)

    def test_wrong_order(self):
        self.refused(["mpirun", "-n", "4", "true"], 2, "mpirun -n 4 clusterprof true")
        self.refused(["-r", "50", "srun", "-n4", "true"], 2, "srun -n4 clusterprof")

    def test_unwritable_output(self):
        self.refused(["--strict", "-o", "/proc/nothing", "true"], 125, "/proc/nothing")
        done = subprocess.run([recording.CLUSTERPROF, "-o", "/proc/nothing", "sh", "-c", "echo out; exit 3"],
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, b"out\n"))
        line, = done.stderr.decode().splitlines()
        self.assertRegex(line, "^clusterprof: /proc/nothing: .*runs unrecorded$")
        occupied = os.path.join(self.directory, "file")
        with open(occupied, "w"):
            pass
        self.refused(["-o", occupied, "true"], 125, occupied)
        self.refused(["-o", os.path.join(occupied, "run"), "true"], 125, occupied)

    def test_existing_run(self):
        run, _ = self.run_directory()
        self.refused(["-o", run, "true"], 125, run)

    def test_no_shards(self):
        os.mkdir(os.path.join(self.directory, "empty"))
        self.refused(["report", "empty"], 1, "empty")
        self.refused(["merge", "empty"], 1, "empty")
        self.refused(["report", "missing"], 1, "missing")
        self.refused(["query", "missing", "rank", "0"], 1, "missing")
        self.refused(["query", "empty", "functions"], 1, "empty")

    def test_truncated_shard(self):
        run, shard = self.run_directory()
        size = os.path.getsize(shard)
        for part in (0, 1, 100, size // 2, size - 1):
            with self.subTest(part):
                broken = os.path.join(self.directory, f"broken{part}")
                os.mkdir(broken)
                with open(shard, "rb") as file, open(os.path.join(broken, "node-x.h5"), "wb") as out:
                    out.write(file.read()[:part])
                for verb in ("report", "merge", "validate"):
                    target = os.path.join(broken, "node-x.h5") if verb == "validate" else broken
                    self.refused([verb, target], 3, "node-x.h5",
                                 *(["clusterprof merge --partial"] if verb == "report" else []))

    def test_shard_of_another_version(self):
        _, shard = self.run_directory()
        other = os.path.join(self.directory, "other")
        os.mkdir(other)
        shutil.copy(shard, os.path.join(other, "node-x.h5"))
        subprocess.run([recording.PYTHON, "-c",
                        "import h5py, sys; h5py.File(sys.argv[1], 'a').attrs['format_major'] = 9",
                        os.path.join(other, "node-x.h5")], check=True)
        self.refused(["report", other], 3, "node-x.h5: has format 9.", ", this clusterprof reads ")


    def test_mistyped_words_are_recognised(self):
        self.refused(["reprot", "run"], 127, "reprot", "did you mean clusterprof report?")
        self.refused(["help", "exprot"], 2, "did you mean export?")
        self.refused(["report", "--seciton", "waits", "run"], 2, "--seciton", "did you mean --section?")
        self.refused(["export", "run", "--fromat", "csv"], 2, "did you mean --format?")
        self.refused(["--ouptut", "run", "true"], 2, "did you mean --output?")
        self.refused(["report", "run", "--section", "hotspot"], 2, "there is no section hotspot, did you mean hotspots?",
                     "summary, gains", "off-cpu")
        self.refused(["report", "run", "--section", "nope"], 2, "there is no section nope", "summary, gains")
        self.refused(["export", "run", "-f", "speedscop"], 2, "did you mean speedscope?", "callgrind")
        # Not everything that nobody knows is a mistyped verb of ours.
        done = subprocess.run([recording.CLUSTERPROF, "no-such-program"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 127)
        self.assertNotIn("did you mean", done.stderr)

    def test_unknown_ranks_nodes_and_paths(self):
        self.run_directory()
        self.refused(["query", "run", "rank", "abc"], 2, "'abc' is no number", "the ranks of run are 0")
        self.refused(["query", "run", "rank", "7"], 1, "there is no rank 7", "the ranks of run are 0")
        self.refused(["query", "run", "node", "nowhere"], 1, "there is no node nowhere; there are ")
        self.refused(["query", "run", "path", "999999999"], 1, "rows, from 0 to ")

    def test_unknown_counter(self):
        for before in ([], recording.launcher("openmpi", 2)):
            with self.subTest(before):
                if before:
                    self.need(before[0])
                done = subprocess.run([*before, recording.CLUSTERPROF, "-q", "-e", "PAPI_NOPE,task-clock", "-o", f"run{len(before)}",
                                       "sh", "-c", "exit 0"], cwd=self.directory, capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                ours = [line for line in done.stderr.splitlines() if line.startswith("clusterprof: ")]
                self.assertEqual(len(ours), 1, done.stderr)
                self.assertIn("PAPI_NOPE", ours[0])
                self.assertNotIn("task-clock", ours[0])


if __name__ == "__main__":
    recording.main()
