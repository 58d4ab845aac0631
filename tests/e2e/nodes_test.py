"""Several nodes: simulated hosts with names, addresses and process numbers of their own, and
CLUSTERPROF_NODE on one host."""

import glob
import os
import shutil
import subprocess
import tempfile

import recording

NODES = os.path.join(recording.SOURCE, "tests", "support", "mpi_nodes.bash")


class Nodes(recording.RecordingTest):
    def nodes(self, *arguments, flavour="openmpi", timeout=120):
        environment = dict(os.environ, MPIRUN=f"mpirun.{flavour}")
        return subprocess.run(["bash", NODES, "-d", self.state, *arguments], cwd=self.directory, env=environment,
                              capture_output=True, timeout=timeout)

    def start(self, *arguments):
        self.state = tempfile.mkdtemp(prefix="cpn-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.state, ignore_errors=True)
        done = self.nodes("start", *arguments)
        if done.returncode != 0:
            self.skipTest("cannot simulate nodes here: " + done.stderr.decode().strip())
        self.addCleanup(self.nodes, "stop")

    def check(self, report, nodes, ranks):
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(ranks)))
        self.assertEqual(sorted(node["name"] for node in report["nodes"]), nodes)
        self.assertTrue(report["run"]["complete"])
        run = os.path.join(self.directory, "run")
        self.assertEqual(sorted(os.path.basename(path) for path in glob.glob(run + "/node-*.h5")),
                         [f"node-{name}.h5" for name in nodes])
        # Ranks meet there, which is no doing of the program's.
        self.assertEqual([file["path"] for file in report["io"]["files"] if (file["path"] or "").startswith(run)], [])

    def test_train_on_two_nodes(self):
        self.start("2", "--slots", "2")
        done = self.nodes("run", "-n", "4", "--map-by", "node", recording.CLUSTERPROF, "-o", "run",
                          recording.PYTHON, f"{recording.SOURCE}/examples/train.py", "40")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        banner = [line for line in done.stderr.decode().splitlines()]
        self.assertTrue(any("clusterprof" in line for line in banner), banner)
        self.assertLessEqual(len(banner), 25)
        report = self.report()
        self.check(report, ["n1", "n2"], 4)
        # The straggler and the line at fault.
        clean = self.function(report, "clean")
        self.assertEqual(clean["rank_max"], 3)
        self.assertEqual(clean["rank_min_s"], 0.0)
        with open(f"{recording.SOURCE}/examples/train.py") as source:
            fault, = [number for number, line in enumerate(source, 1) if line.strip().startswith("row[i] =")]
        late = next(cause for cause in report["root_causes"] if cause["function"] == "clean")
        self.assertEqual((late["rank"], os.path.basename(late["file"]), late["line"]), (3, "train.py", fault))
        # On a busy machine the findings may say instead that ranks wait for processors.
        if all(cause["function"] != "waiting for a processor" for cause in report["root_causes"]):
            self.assertIn(f"clean() train.py:{fault}", " ".join(finding["text"] for finding in report["findings"]))
            self.assertIn(3, [finding["rank"] for finding in report["findings"]])
        self.measured_below(report["efficiency"]["load_balance"], 0.9, "load balance")

    def test_nodes_share_one_default_directory(self):
        self.start("2", "--slots", "4")
        done = self.nodes("run", "-n", "8", "--map-by", "node", recording.CLUSTERPROF,
                          recording.program("openmpi", "stencil"), "400", "100")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        runs = glob.glob(os.path.join(self.directory, "clusterprof-stencil-*"))
        self.assertEqual(len(runs), 1, runs)
        left = [name for name in os.listdir(self.directory) if name.startswith(".")]
        self.assertEqual(left, [])
        report = self.report(os.path.basename(runs[0]))
        self.assertEqual(len(report["nodes"]), 2)
        self.assertEqual(len(report["ranks"]), 8)

    def test_mpich_on_two_nodes(self):
        self.need(recording.program("mpich", "stencil"))
        self.start("2", "--slots", "2", "--shared-memory")
        done = self.nodes("run", "-n", "4", "-ppn", "2", recording.CLUSTERPROF, "-o", "run",
                          recording.program("mpich", "stencil"), "800", "200", flavour="mpich")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.check(self.report(), ["n1", "n2"], 4)

    def test_node_names_from_the_environment(self):
        wrapper = os.path.join(self.directory, "as_node")
        with open(wrapper, "w") as file:
            file.write("#!/bin/sh\nCLUSTERPROF_NODE=part$((OMPI_COMM_WORLD_RANK % 2)) exec \"$@\"\n")
        os.chmod(wrapper, 0o755)
        report = self.recorded([recording.program("openmpi", "stencil"), "400", "100"],
                               before=[*recording.launcher("openmpi", 4), wrapper])
        self.check(report, ["part0", "part1"], 4)
        self.assertEqual([node["ranks"] for node in sorted(report["nodes"], key=lambda node: node["name"])],
                         [[0, 2], [1, 3]])


if __name__ == "__main__":
    recording.main()
