"""Several nodes: simulated hosts with names, addresses and process numbers of their own, and
CLUSTERPROF_NODE on one host."""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import recording

NODES = os.path.join(recording.SOURCE, "tests", "support", "mpi_nodes.bash")

# Rank 1 computes, and the others wait for it.
GOES_AWAY = r"""
#include <mpi.h>
#include <time.h>
static volatile double sum;
static void compute_there(time_t end) {
  while (time(0) < end) sum += 1; /* line of the loss */
}
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) compute_there(time(0) + 300);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
"""


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

    def test_a_node_that_goes_away(self):
        self.need("mpicc.openmpi")
        self.start("2", "--slots", "2")
        source, program = (os.path.join(self.directory, name) for name in ("away.c", "away"))
        with open(source, "w") as file:
            file.write(GOES_AWAY)
        subprocess.run(["mpicc.openmpi", "-g", "-O0", source, "-o", program], check=True)
        line = next(number for number, text in enumerate(GOES_AWAY.split("\n"), 1) if "line of the loss" in text)
        job = subprocess.Popen(["bash", NODES, "-d", self.state, "run", "-n", "3", "--map-by", "node", recording.CLUSTERPROF,
                                "-o", "run", program], cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=dict(os.environ, MPIRUN="mpirun.openmpi"))
        # First of all the nodes end: without its script, what is left on them keeps the job's output open.
        self.addCleanup(job.communicate, timeout=60)
        self.addCleanup(job.kill)
        self.addCleanup(self.nodes, "stop")
        deadline = time.monotonic() + 150
        while True:  # until the shards have all ranks, and rank 1 where it stays
            done = subprocess.run([recording.CLUSTERPROF, "stacks", "--json", "run"], cwd=self.directory, capture_output=True, timeout=60)
            classes = json.loads(done.stdout)["classes"] if done.returncode == 0 else []
            at = {rank: frame["function"] for row in classes for frame in row["frames"] for rank in row["ranks"]}
            places = {rank for row in classes for rank in row["ranks"] if any(frame["function"] == "compute_there" for frame in row["frames"])}
            if set(at) == {0, 1, 2} and places == {1}:
                break
            self.assertLess(time.monotonic(), deadline, done)
            time.sleep(0.2)
        # All that runs on the node ends with its first process.
        with open(os.path.join(self.state, "nodes", "n2.pid")) as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        said = job.communicate(timeout=150)[1].decode()
        self.assertNotEqual(job.returncode, 0, said)
        self.await_last_shard()
        report = self.report(options=["--ended"])
        failure = report["failure"]
        self.assertIsNotNone(failure, said)
        self.assertEqual((failure["kind"], failure["rank"], failure["status"], failure["signal"]), ("node", 1, None, None), said)
        self.assertEqual((failure["function"], os.path.basename(failure["file"]), failure["line"]), ("compute_there", "away.c", line))
        self.assertEqual([frame.partition(" ")[0].partition("(")[0] for frame in failure["call_path"]][:2], ["main", "compute_there"])
        self.assertEqual(report["run"]["state"], "lost")
        self.assertFalse(report["run"]["complete"])
        first = report["findings"][0]
        self.assertEqual((first["kind"], first["rank"], first["ranks"]), ("ranks_silent", 1, [1]), report["findings"])
        self.assertFalse({"deadlock", "rank_failed"} & {finding["kind"] for finding in report["findings"]}, report["findings"])
        lost = {rank["rank"]: rank["exit"]["lost"] for rank in report["ranks"]}
        self.assertEqual((len(lost), lost[1]), (3, True))
        text = subprocess.run([recording.CLUSTERPROF, "report", "--ended", "run"], cwd=self.directory, capture_output=True, text=True, timeout=60).stdout
        self.assertRegex(" ".join(text.split()), rf"Findings .* high Nothing has been heard from rank 1 since .*; it was last seen in "
                         rf"compute_there\(\) away\.c:{line}\. high Ranks 0, 2 ")

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
