"""Ranks that their launcher numbers in the environment: one run, with the right ranks, nodes and restarts, whether
clusterprof is started by the launcher (inside) or starts it (outside)."""

import glob
import os
import shutil
import socket
import subprocess
import time

import recording

PROGRAMS = os.path.join(recording.SOURCE, "tests", "programs")
TORCH = [recording.PYTHON, "-m", "torch.distributed.run"]


class LauncherTest(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        # torchrun is known by the name of its script.
        self.torchrun = [recording.PYTHON, os.path.join(self.directory, "torchrun")]
        shutil.copy(os.path.join(PROGRAMS, "emulated_torchrun.py"), self.torchrun[1])
        self.worker = [recording.PYTHON, os.path.join(PROGRAMS, "torch_worker.py"), os.path.join(self.directory, "pids")]

    def recorder(self, *options, run="run"):
        return [recording.CLUSTERPROF, "-q", *options, "-o", os.path.join(self.directory, run)]

    def start(self, command, **variables):
        process = subprocess.Popen(command, cwd=self.directory, env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()

    def report(self, run="run", options=()):
        self.await_last_shard(run)  # of workers that the launcher has started again, or killed
        return super().report(run, options)

    def finish(self, process, status=0):
        out, error = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, (out + error).decode(errors="replace"))
        return error.decode(errors="replace")

    def workers(self):
        """(restart, rank, process id) of all workers that were started."""
        with open(self.worker[2], encoding="ascii") as file:
            return sorted(tuple(map(int, line.split())) for line in file)

    def check_ranks(self, report, size, launcher="torchrun"):
        workers = self.workers()
        self.assertEqual([(rank["restart"], rank["rank"] - size * rank["restart"], rank["pid"])
                          for rank in report["ranks"]], workers)
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(len(workers))))
        self.assertEqual(report["run"]["world_size"], len(workers))
        self.assertEqual(report["run"]["missing_ranks"], [])
        self.assertEqual(report["run"]["launcher"], launcher)
        self.assertEqual(report["run"]["restarts"], workers[-1][0])
        for rank in report["ranks"]:
            self.assertGreater(rank["python_s"] + rank["native_s"], 0.05)

    def text(self):
        return subprocess.run([recording.CLUSTERPROF, "report", os.path.join(self.directory, "run")],
                              capture_output=True, check=True, timeout=60).stdout.decode()


class Torchrun(LauncherTest):
    def test_inside(self):
        self.finish(self.start([*self.torchrun, "3", "1", *self.recorder(), *self.worker]))
        report = self.report()
        self.check_ranks(report, 3)
        self.assertEqual([rank["processes"] for rank in report["ranks"]], [2, 2, 2])
        self.assertTrue(report["run"]["complete"])
        self.assertIn("no MPI, ranks of torchrun", self.text())

    def test_outside(self):
        self.finish(self.start([*self.recorder(), *self.torchrun, "3", "1", *self.worker]))
        report = self.report()
        self.check_ranks(report, 3)
        self.assertEqual([rank["processes"] for rank in report["ranks"]], [2, 2, 2])
        self.assertEqual([rank["exit"]["status"] for rank in report["ranks"]], [0, 0, 0])
        self.assertTrue(report["run"]["complete"])
        self.assertNotIn("torchrun", {os.path.basename(line["file"] or "") for line in report["lines"]})

    def check_restart(self, report):
        self.check_ranks(report, 2)
        self.assertEqual(len(self.workers()), 4)
        self.assertEqual(report["ranks"][1]["exit"]["status"], 3)
        self.assertIn("4 ranks on 1 node in 2 starts", self.text())

    def test_inside_with_a_restart(self):
        self.finish(self.start([*self.torchrun, "2", "2", *self.recorder(), *self.worker, "fail"]))
        self.check_restart(self.report())

    def test_outside_with_a_restart(self):
        self.finish(self.start([*self.recorder(), *self.torchrun, "2", "2", *self.worker, "fail"]))
        self.check_restart(self.report())

    def test_inside_on_two_nodes(self):
        nodes = [self.start([*self.torchrun, "2", "1", *self.recorder(), *self.worker], NODE=str(node), NODES="2",
                            CLUSTERPROF_NODE=f"n{node}") for node in range(2)]
        for node in nodes:
            self.finish(node)
        report = self.report()
        self.check_ranks(report, 4)
        self.assertEqual([rank["node"] for rank in report["ranks"]], ["n0", "n0", "n1", "n1"])

    # srun clusterprof torchrun: torchrun's own ranks, not those of srun's tasks.
    def test_outside_on_two_nodes(self):
        nodes = [self.start([*self.recorder(), *self.torchrun, "2", "1", *self.worker], NODE=str(node), NODES="2",
                            CLUSTERPROF_NODE=f"n{node}", SLURM_JOB_ID="4242", SLURM_STEP_ID="0", SLURM_PROCID=str(node),
                            SLURM_LOCALID="0", SLURM_STEP_NUM_TASKS="2", SLURM_NODEID=str(node),
                            SLURM_STEP_TASKS_PER_NODE="1(x2)") for node in range(2)]
        for node in nodes:
            self.finish(node)
        report = self.report()
        self.check_ranks(report, 4)
        self.assertEqual([rank["node"] for rank in report["ranks"]], ["n0", "n0", "n1", "n1"])

    def test_a_name_that_is_taken_fails_no_rank(self):
        self.finish(self.start([*self.recorder(), "true"]))
        error = self.finish(self.start([*self.torchrun, "2", "1", *self.recorder(), *self.worker]))
        self.assertEqual(error.count("a run is there already"), 1, error)
        self.assertEqual(self.report("run-2")["run"]["ranks"], 2)
        self.assertIn("a run is there already", self.finish(self.start([*self.recorder(), "true"]), status=125))


class OtherWorkers(LauncherTest):
    def test_inside_and_outside(self):
        started = []
        for launcher in ("accelerate", "deepspeed", "horovodrun"):
            script = [recording.PYTHON, os.path.join(self.directory, launcher)]
            shutil.copy(self.torchrun[1], script[1])
            for form in ("inside", "outside"):
                run = f"{launcher}-{form}"
                worker = [*self.worker[:2], os.path.join(self.directory, run + ".pids")]
                record = self.recorder(run=run)
                command = [*script, "2", "1", *record, *worker] if form == "inside" else \
                    [*record, *script, "2", "1", *worker]
                started.append((launcher, form, run, worker, self.start(command)))
        for launcher, form, run, worker, process in started:
            with self.subTest(launcher, form=form):
                self.finish(process)
                self.worker = worker
                report = self.report(run)
                self.check_ranks(report, 2, launcher)
                self.assertEqual([rank["processes"] for rank in report["ranks"]], [2, 2])


class Rows(LauncherTest):
    LAUNCHES = {
        "horovodrun": dict(HOROVOD_RANK="R", HOROVOD_SIZE="2", HOROVOD_LOCAL_RANK="R", HOROVOD_LOCAL_SIZE="2",
                           HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1", HOROVOD_GLOO_RENDEZVOUS_PORT="41234"),
        "jsrun": dict(JSM_NAMESPACE_RANK="R", JSM_NAMESPACE_SIZE="2", JSM_NAMESPACE_LOCAL_RANK="R",
                      JSM_NAMESPACE_LOCAL_SIZE="2", PMIX_NAMESPACE="9", PMIX_RANK="R"),
        "mpirun_rsh": dict(MV2_COMM_WORLD_RANK="R", MV2_COMM_WORLD_SIZE="2", MV2_COMM_WORLD_LOCAL_RANK="R",
                           MV2_COMM_WORLD_LOCAL_SIZE="2", MPIRUN_ID="4711"),
        "deepspeed": {"RANK": "R", "WORLD_SIZE": "2", "LOCAL_RANK": "R", "LOCAL_SIZE": "2", "CROSS_RANK": "0",
                      "CROSS_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
        "accelerate": {"RANK": "R", "WORLD_SIZE": "2", "LOCAL_RANK": "R", "LOCAL_WORLD_SIZE": "2",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29501", "TORCHELASTIC_RUN_ID": "none",
                       "TORCHELASTIC_RESTART_COUNT": "0", "ACCELERATE_MIXED_PRECISION": "no"},
        # mpirun -n 2 dask-mpi
        "dask-mpi": {"OMPI_COMM_WORLD_RANK": "R", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "R",
                     "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-4712@1", "PMIX_RANK": "R",
                     "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "info"},
        "pbsdsh": dict(PBS_JOBID="77.server", PBS_VNODENUM="R", PBS_TASKNUM="3"),
        "blaunch": dict(LSB_JOBID="991", LSF_PM_TASKID="1R"),  # 10 and 11
        "flux": dict(FLUX_JOB_ID="f23F", FLUX_TASK_RANK="R", FLUX_JOB_SIZE="2", FLUX_TASK_LOCAL_ID="R"),
        "pals": dict(PALS_APID="5c0a-17", PALS_RANKID="R", PALS_LOCAL_RANKID="R", PALS_LOCAL_SIZE="2"),
        "aprun": dict(ALPS_APP_ID="6021", ALPS_APP_PE="R"),
        "pmix": dict(PMIX_NAMESPACE="prte-88@1", PMIX_RANK="R"),
    }

    def test_two_processes_of_each_are_one_run(self):
        # They go on until all of them are there: without a number of ranks, who comes after the end is another run.
        wait = 'touch ".here-$0"; for i in $(seq 240); do [ -e .go ] && exit; sleep 0.5; done; exit 3'
        started = {name: [self.start([*self.recorder(run=name), "sh", "-c", wait, f"{name}-{rank}"],
                                     **{key: value.replace("R", str(rank)) for key, value in variables.items()})
                          for rank in range(2)] for name, variables in self.LAUNCHES.items()}

        def let_go():
            open(os.path.join(self.directory, ".go"), "w").close()
            for process in sum(started.values(), []):
                process.wait(60)
        self.addCleanup(let_go)  # also where not all of them come
        deadline = time.monotonic() + 100
        while len(glob.glob(os.path.join(self.directory, ".here-*"))) < 2 * len(self.LAUNCHES):
            self.assertLess(time.monotonic(), deadline, os.listdir(self.directory))
            time.sleep(0.05)
        open(os.path.join(self.directory, ".go"), "w").close()
        for name, processes in started.items():
            for process in processes:
                self.finish(process)
        for name in self.LAUNCHES:
            with self.subTest(name):
                report = self.report(name)
                first = 9 if name == "blaunch" else 0
                self.assertEqual([rank["rank"] for rank in report["ranks"]], [first, first + 1])
                self.assertEqual(report["run"]["launcher"], "openmpi" if name == "dask-mpi" else name)
        self.assertEqual(sorted(name for name in os.listdir(self.directory) if name[0] != "." and name != "torchrun"),
                         sorted(self.LAUNCHES))


class RealTorchrun(LauncherTest):
    def command(self, *options):
        """torchrun on a port of its own. Without -r and -t, torch 1.13 fails on Python 3.11."""
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port = listening.getsockname()[1]
        return [*TORCH, "--nproc_per_node", "2", "--master_port", str(port), "-r", "1", "-t", "1", "--no_python", *options]

    # At the same time: importing torch takes seconds.
    def test_inside_and_outside(self):
        if subprocess.run([recording.PYTHON, "-c", "import torch.distributed.run"], capture_output=True).returncode != 0:
            self.skipTest("python3-torch is not here")
        pids = {form: os.path.join(self.directory, form + ".pids") for form in ("inside", "outside")}
        inside = self.start([*self.command(), *self.recorder(run="inside"), *self.worker[:2], pids["inside"]])
        outside = self.start([*self.recorder(run="outside"), *self.command("--max_restarts", "1"), *self.worker[:2],
                              pids["outside"], "fail"])
        for process, form, starts in ((inside, "inside", 1), (outside, "outside", 2)):
            with self.subTest(form):
                self.finish(process)
                self.worker[2] = pids[form]
                self.check_ranks(self.report(form), 2)
                self.assertEqual(len(self.workers()), 2 * starts)


if __name__ == "__main__":
    recording.main()
