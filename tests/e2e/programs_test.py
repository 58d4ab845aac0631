"""C, Fortran and Python programs under Open MPI and MPICH at 1, 2, 4 and 64 ranks, and programs
without MPI: one report each, with the right ranks and the program's own functions in it."""

import json
import os

import recording


class Programs(recording.RecordingTest):
    def check_ranks(self, report, ranks):
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(ranks)))
        self.assertTrue(report["run"]["complete"])
        self.assertEqual(report["run"]["ranks"], ranks)
        for rank in report["ranks"]:
            self.assertEqual(rank["exit"], {"status": 0, "signal": None, "lost": False})
            self.assertGreater(rank["elapsed_s"], 0)

    def stencil(self, flavour, ranks, size, steps, **how):
        self.need(recording.program(flavour, "stencil"))
        report = self.recorded([recording.program(flavour, "stencil"), str(size), str(steps)],
                               before=recording.launcher(flavour, ranks), **how)
        self.check_ranks(report, ranks)
        calls = {call["op"]: call for call in report["mpi"]["calls"] if call["op"] != "MPI_Sendrecv"}
        sendrecv = [call for call in report["mpi"]["calls"] if call["op"] == "MPI_Sendrecv"]
        self.assertEqual(sum(call["count"] for call in sendrecv), 2 * steps * ranks,
                         (report["run"]["dropped"], report["run"].get("notes"), report["mpi"]["calls"]))
        self.assertEqual({call["function"] for call in sendrecv}, {"exchange_halo"})
        self.assertEqual({os.path.basename(call["file"]) for call in sendrecv}, {"stencil.c"})
        self.assertEqual(len({call["line"] for call in sendrecv}), 2)
        self.assertEqual(calls["MPI_Allreduce"]["count"] if "MPI_Allreduce" in calls else 0, steps // 50 * ranks)
        rows = 8 * size * steps
        expected = {(a, b): (steps, rows) for a in range(ranks) for b in (a - 1, a + 1) if 0 <= b < ranks}
        matrix = {(c["src"], c["dst"]): (c["messages"], c["bytes"]) for c in report["mpi"]["matrix"]}
        self.assertEqual(matrix, expected)
        return report

    def test_stencil_openmpi_1(self):
        self.stencil("openmpi", 1, 800, 200)

    def test_stencil_openmpi_4(self):
        report = self.stencil("openmpi", 4, 2000, 200)
        relax = self.function(report, "relax")
        self.assertEqual((relax["kind"], os.path.basename(relax["file"])), ("native", "stencil.c"))
        self.measured_above(relax["self_s"], 0.3 * sum(rank["useful_s"] for rank in report["ranks"]), "relax")

    def test_stencil_mpich_4(self):
        self.stencil("mpich", 4, 2000, 100)

    def test_stencil_openmpi_64(self):
        self.stencil("openmpi", 64, 1280, 50, timeout=500)

    def test_stencil_mpich_64(self):
        self.stencil("mpich", 64, 1280, 10, timeout=500)

    def ring(self, flavour, ranks):
        self.need(recording.program(flavour, "ring"))
        rounds = 100
        report = self.recorded([recording.program(flavour, "ring"), str(rounds)],
                               before=recording.launcher(flavour, ranks))
        self.check_ranks(report, ranks)
        calls = report["mpi"]["calls"]
        for op in ("MPI_Send", "MPI_Recv"):
            found = [call for call in calls if call["op"] == op]
            self.assertEqual(sum(call["count"] for call in found), rounds * ranks)
            self.assertEqual({os.path.basename(call["file"]) for call in found}, {"ring.f90"})
        sent = sum(call["sent_bytes"] for call in calls)
        self.assertEqual(sent, 8 * 4096 * rounds * ranks)
        self.assertEqual(sum(cell["bytes"] for cell in report["mpi"]["matrix"]), sent)

    def test_ring_openmpi_2(self):
        self.ring("openmpi", 2)

    def test_ring_mpich_2(self):
        self.ring("mpich", 2)

    def test_python_openmpi_2(self):
        report = self.recorded([recording.PYTHON, f"{recording.SOURCE}/examples/train.py", "30"],
                               before=recording.launcher("openmpi", 2))
        self.check_ranks(report, 2)
        allreduce = [call for call in report["mpi"]["calls"]
                     if call["op"] == "MPI_Allreduce" and call["function"] == "average"]
        self.assertEqual(sum(call["count"] for call in allreduce), 30 * 2 * 2)
        self.assertTrue(all(call["file"].endswith("train.py") for call in allreduce))
        clean = self.function(report, "clean")
        self.assertEqual((clean["kind"], clean["rank_max"], clean["rank_min_s"]), ("python", 1, 0.0))

    def test_without_mpi(self):
        for version, python in recording.pythons():
            with self.subTest(version):
                report = self.recorded(
                    [python, "-c", "def busy():\n  for i in range(10**7): pass\nbusy()"], run=f"run-{version}")
                self.check_ranks(report, 1)
                self.assertEqual(report["mpi"]["calls"], [])
                self.measured_above(self.function(report, "busy")["self_s"], 0.05, "busy")

    def test_users_own_code_is_recognised(self):
        kit = os.path.join(self.directory, "lib", "python3.11", "site-packages", "kit")
        os.makedirs(kit)
        with open(os.path.join(kit, "__init__.py"), "w") as file:
            file.write("def work():\n    return sum(i * i for i in range(4_000_000))\n")
        script = os.path.join(self.directory, "run.py")
        with open(script, "w") as file:
            file.write("import sys\nsys.path.insert(0, sys.argv[1])\nimport kit\ndef main():\n    kit.work()\nmain()\n")
        command = [recording.PYTHON, script, os.path.dirname(kit)]

        def hottest(report):
            line = report["lines"][0]
            return line["file"], line["line"]

        report = self.recorded(command)
        self.assertEqual(hottest(report), (script, 5))
        self.assertIn(("kit.work", "calls"), [(row["name"], row["fold"]) for row in report["call_tree"]])
        own = os.path.join(kit, "__init__.py")
        for options, variables in ((["--own", kit], {}), ([], {"CLUSTERPROF_OWN": f"/elsewhere:{kit}"}), (["--all-frames"], {})):
            with self.subTest(options):
                done = self.bare([recording.CLUSTERPROF, "report", "--json", *options, "run"], env={**os.environ, **variables})
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stdout)
                self.assertEqual(hottest(report), (own, 2))
                self.assertNotIn("kit.work", [row["name"] for row in report["call_tree"]])
        self.assertEqual(hottest(self.recorded(command, options=["--own", kit], run="told")), (own, 2))

    def test_shell_pipeline_is_part_of_its_rank(self):
        report = self.recorded(["sh", "-c", f"{recording.PYTHON} -c 'sum(i for i in range(10**7))'; exit 0"])
        self.check_ranks(report, 1)
        self.measured_above(sum(f["self_s"] for f in report["functions"] if f["kind"] == "python"), 0.1, "Python")


if __name__ == "__main__":
    recording.main()
