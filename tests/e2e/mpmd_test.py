"""MPI jobs whose ranks run different commands (MPMD), or several: each rank's own is in the profile and in every view."""

import json
import os
import subprocess

import recording


class Mpmd(recording.RecordingTest):
    def record_several(self, flavour, contexts, options=()):
        """contexts: (ranks, command) of each; all are recorded in one run."""
        full = recording.launcher(flavour, contexts[0][0])
        recorder = [recording.CLUSTERPROF, "-q", *options, "-o", os.path.join(self.directory, "run")]
        for i, (ranks, command) in enumerate(contexts):
            full += [*([":", "-n", str(ranks)] if i else []), *recorder, *command]
        done = self.bare(full)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))

    def view(self, *words):
        done = subprocess.run([recording.CLUSTERPROF, *words], cwd=self.directory, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def test_every_rank_has_its_own_command(self):
        program = recording.program("openmpi", "stencil")
        self.need(program)
        for name in "ab":
            os.symlink(program, os.path.join(self.directory, name))
        first, second = ["./a", "64", "3"], ["./b", "64", "3", "--token", "very-secret-value"]
        self.record_several("openmpi", [(2, first), (2, second)])
        masked = [*second[:-1], "***"]
        report = self.report()
        self.assertEqual(report["run"]["command"], first)
        self.assertEqual(report["run"]["commands"],
                         [{"command": first, "ranks": [0, 1]}, {"command": masked, "ranks": [2, 3]}])
        self.assertEqual([rank["command"] for rank in report["ranks"]], [first, first, masked, masked])
        self.assertEqual(json.loads(self.view("query", "run", "rank", "3", "--json"))["command"], masked)
        text = self.view("report", "run")
        for line in ("  ranks 0-1: ./a 64 3\n", "  ranks 2-3: ./b 64 3 --token '***'\n"):
            self.assertIn(line, text)
        self.view("export", "run", "-f", "callgrind", "-o", "calls")
        with open(os.path.join(self.directory, "calls"), encoding="utf-8") as file:
            self.assertIn("ranks 0-1: ./a 64 3; ranks 2-3: ./b 64 3 --token ***\n", file.read())
        for dumped in ("run/profile.h5", *(os.path.join("run", name) for name in
                                           os.listdir(os.path.join(self.directory, "run")) if name.startswith("node-"))):
            self.assertNotIn("very-secret", self.view("dump", dumped))

    def test_python_and_c(self):
        self.need("mpicc.openmpi", "mpirun.openmpi")
        with open(os.path.join(self.directory, "begin.c"), "w", encoding="ascii") as file:
            file.write("#include <mpi.h>\nint main(int argc, char** argv) { MPI_Init(&argc, &argv); return MPI_Finalize(); }\n")
        subprocess.run(["mpicc.openmpi", "-o", "begin", "begin.c"], cwd=self.directory, check=True)
        calls = "import ctypes\nmpi = ctypes.CDLL('libmpi.so.40', ctypes.RTLD_GLOBAL)\nmpi.MPI_Init(None, None)\nmpi.MPI_Finalize()\n"
        self.record_several("openmpi", [(1, ["./begin"]), (1, [recording.PYTHON, "-c", calls])])
        report = self.report()
        self.assertEqual([rank["command"] for rank in report["ranks"]], [["./begin"], [recording.PYTHON, "-c", calls]])
        self.assertEqual({call["op"] for call in report["mpi"]["calls"]}, {"MPI_Init", "MPI_Finalize"})

    def test_only_the_name_is_stored_where_that_was_asked_for(self):
        program = recording.program("mpich", "stencil")
        self.need(program)
        self.record_several("mpich", [(1, [program, "64", "3"]), (1, [program, "64", "3", "--quiet"])],
                            options=["--command", "name"])
        report = self.report()
        self.assertEqual(report["run"]["commands"], [{"command": [program], "ranks": [0, 1]}])
        self.assertIn(os.path.basename(program), self.view("report", "run").splitlines()[1])


class OneAfterTheOther(recording.RecordingTest):
    """Ranks are scripts that record several programs."""

    def run_scripts(self, flavour, script):
        self.need(recording.program(flavour, "stencil"))
        names = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}
        record = f"{recording.CLUSTERPROF} -q -o {self.directory}/run-{flavour}"
        return self.bare([*recording.launcher(flavour, 2), "sh", "-c", f"rank=${names[flavour]}; {script}; exit $?", "sh"],
                         env={**os.environ, "record": record, "program": recording.program(flavour, "stencil") + " 64 3"})

    def test_a_rank_prepares_what_another_one_waits_for(self):
        """The launcher of its first program waits for the other rank, which waits in MPI_Init for its next program."""
        for flavour in ("openmpi", "mpich"):
            with self.subTest(flavour=flavour):
                first = f"if [ $rank = 0 ]; then $record sh -c 'touch begun-{flavour}; sleep 1'; " \
                        f"else until [ -e begun-{flavour} ]; do sleep 0.05; done; fi"
                done = self.run_scripts(flavour, f"{first}; $record $program")
                recording.await_writers(os.path.join(self.directory, "run-" + flavour))
                self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))

    def test_all_ranks_prepare(self):
        done = self.run_scripts("openmpi", "$record sleep 0.$rank && $record $program")
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))


if __name__ == "__main__":
    recording.main()
