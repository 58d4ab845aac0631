"""Jobs under a real Slurm with four nodes, as an ordinary user with the installed clusterprof: every way to start
tasks, with --clusterprof, with `srun clusterprof` and with the site's task prolog. What must be right is known:
traffic.c says what it sent, tasks.py where it was, train.py is made with one slow rank.

Which MPI starts which way, in Debian 12's packages (Slurm 22.05, Open MPI 4.1.4, MPICH 4.0.2):

    srun --mpi=     Open MPI, mpi4py                     MPICH
    pmix            works                                every task a world of its own: its PMI is 1 and 2, not PMIx
    pmi2            MPI_Init fails: built without        works
                    Slurm's PMI
    none            MPI_Init fails, as above             every task a world of its own
    (mpirun in a    works                                works
    job)

MPICH of Debian hangs in MPI_Finalize over TCP, hence nodes with shared memory for it.
"""

import glob
import json
import os
import re

import recording
import slurm
import unequal_work

STEPS = 8  # of train.py


TASK_PROLOG = os.path.join(slurm.SITE, "task_prolog")


class OpenMpi(slurm.SlurmTest):
    options = ["--mpi", "pmix", "--spank", slurm.PLUGIN, "--task-prolog", TASK_PROLOG]

    def setUp(self):
        super().setUp()
        self.need(slurm.program("openmpi", "traffic"))

    def test_train(self):
        train = f"{slurm.EXAMPLES}/train.py"
        done = self.user(["srun", "--clusterprof=rate=1000", "-N4", "-n8", "--ntasks-per-node=2",
                          "python3", train, str(STEPS)])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn(f"step {STEPS}: loss", done.stdout.decode())
        run, = self.runs()
        self.assertRegex(run, r"^clusterprof-train-\d+\.0$")
        report = self.check_run(run, 8)
        self.assertEqual(report["run"]["command"][-2:], [train, str(STEPS)])
        self.assertEqual([rank["node"] for rank in report["ranks"]], [f"n{1 + rank // 2}" for rank in range(8)])
        # Two gradients per step, one loss at the end, on every rank.
        reductions = sum(call["count"] for call in report["mpi"]["calls"] if call["op"] == "MPI_Allreduce")
        self.assertEqual(reductions, 8 * 2 * STEPS)
        clean = self.function(report, "clean")
        self.assertEqual((clean["rank_max"], clean["rank_min_s"]), (7, 0.0))
        # One summary, from one rank, beside what Slurm says.
        self.assertEqual(done.stderr.decode().count("clusterprof: 8 ranks on 4 nodes"), 1)

    def test_plugin(self):
        output = self.done(["srun", "--clusterprof", "-N4", "-n8", slurm.program("openmpi", "traffic")])
        self.check_matrix(*self.runs(), output, 8)

    def test_wrapper(self):
        output = self.done(["srun", "-N4", "-n4", "clusterprof", "-o", "run", slurm.program("openmpi", "traffic")])
        self.check_matrix("run", output, 4)

    def test_wrapper_and_plugin(self):
        """With both, the task is recorded once, as the wrapper says."""
        output = self.done(["srun", "--clusterprof", "-N4", "-n4", "clusterprof", "-o", "run",
                            slurm.program("openmpi", "traffic")])
        self.check_matrix("run", output, 4)
        self.assertEqual(self.runs(), [])

    def test_task_prolog(self):
        self.cluster.set_plugins()
        self.addCleanup(self.cluster.set_plugins, slurm.PLUGIN)
        output = self.done(["srun", "-N4", "-n4", slurm.program("openmpi", "traffic")],
                           more={"CLUSTERPROF_SLURM": "on"})
        self.check_matrix(*self.runs(), output, 4)

    def test_mpirun_in_batch(self):
        """Each mpirun makes a run, and so does the srun between them."""
        traffic = slurm.program("openmpi", "traffic")
        job = self.batch(f"mpirun.openmpi {traffic} > first\nsrun -n4 {traffic} > second\n"
                         f"mpirun.openmpi -n 2 --map-by node {traffic} > third\n", ["--clusterprof", "-N4", "-n4"])
        names = [f"clusterprof-traffic-{job}", f"clusterprof-traffic-{job}-2"]
        by_mpirun = [run for run in self.runs() if "." not in run.partition("traffic-")[2]]
        self.assertEqual(by_mpirun, names)
        by_srun, = set(self.runs()) - set(names)
        self.check_matrix(names[0], self.output("first"), 4)
        self.check_matrix(by_srun, self.output("second"), 4)
        self.check_matrix(names[1], self.output("third"), 2, ["n1", "n2"])

    def test_an_excluded_script_under_mpirun(self):
        """Nothing that it starts is taken for the rank, so no rank waits for the recording of another one's mkdir."""
        self.cluster.set_plugins(f"{slurm.PLUGIN} default=on not-commands=bash")
        self.addCleanup(self.cluster.set_plugins, slurm.PLUGIN)
        script = "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then mkdir -p made; fi; exec " + slurm.program("openmpi", "traffic")
        self.batch(f"mpirun.openmpi bash -c '{script}'\n", ["-N2", "-n4"])
        self.assertEqual(self.runs(), [])

    def test_salloc(self):
        """The shell that salloc gives runs on the host; ranks that mpirun starts from there run on the nodes."""
        traffic = slurm.program("openmpi", "traffic")
        self.done(["salloc", "--clusterprof", "-N4", "-n4", "bash", "-c",
                   f"mpirun.openmpi {traffic} > first && srun {traffic} > second"])
        by_mpirun, by_srun = sorted(self.runs(), key=lambda run: "." in run.partition("traffic-")[2])
        self.check_matrix(by_mpirun, self.output("first"), 4)
        self.check_matrix(by_srun, self.output("second"), 4)

    def test_without_pmi(self):
        """MPI_Init fails under --mpi=none and pmi2 (see above), with the same status and messages as without --clusterprof."""
        stencil = slurm.program("openmpi", "stencil")
        for pmi in ("none", "pmi2"):
            with self.subTest(pmi=pmi):
                command = ["srun", f"--mpi={pmi}", "-N2", "-n2", stencil, "100", "10"]
                bare = self.user(command)
                recorded = self.user([command[0], "--clusterprof=quiet", *command[1:]])
                self.assertNotEqual(bare.returncode, 0)
                self.assertEqual((recorded.returncode, recorded.stdout), (bare.returncode, bare.stdout))
                self.assertIn(b"PMI", bare.stderr)
                self.assertIn(b"PMI", recorded.stderr)
                report = self.report(self.runs()[-1])
                self.assertEqual([rank["exit"]["status"] for rank in report["ranks"]], [1, 1])


class LoadBalance(slurm.SlurmTest):
    options = ["--mpi", "pmix", "--spank", slurm.PLUGIN]

    def test_load_balance(self):
        self.need(slurm.program("openmpi", "unequal_work"))
        output = self.done(["srun", "--clusterprof", "-N4", "-n4", slurm.program("openmpi", "unequal_work"), "8"])
        said = unequal_work.parse(output)
        report = self.check_run(self.runs()[-1], 4)
        self.measured_near(report["efficiency"]["load_balance"], said.load_balance, 0.05, "load balance")
        self.assertIn(self.function(report, "work")["rank_max"], said.longest(0.1))


class Mpich(slurm.SlurmTest):
    options = ["--mpi", "pmi2", "--shared-memory", "--spank", slurm.PLUGIN,
               "--task-prolog", TASK_PROLOG]

    def setUp(self):
        super().setUp()
        self.need(slurm.program("mpich", "traffic"))

    def test_plugin(self):
        output = self.done(["srun", "--clusterprof", "-N4", "-n8", slurm.program("mpich", "traffic")])
        self.check_matrix(*self.runs(), output, 8)

    def test_wrapper(self):
        output = self.done(["srun", "-N4", "-n4", "clusterprof", "-o", "run", slurm.program("mpich", "traffic")])
        self.check_matrix("run", output, 4)

    def test_mpiexec_in_batch(self):
        traffic = slurm.program("mpich", "traffic")
        job = self.batch(f"mpiexec.mpich {traffic}\n", ["--clusterprof", "-N4", "-n4"])
        self.assertEqual(self.runs(), [f"clusterprof-traffic-{job}"])
        self.check_matrix(*self.runs(), self.output(), 4)

    def test_mpiexec_in_salloc(self):
        traffic = slurm.program("mpich", "traffic")
        output = self.done(["salloc", "--clusterprof", "-N4", "-n4", "mpiexec.mpich", traffic])
        self.check_matrix(*self.runs(), output, 4)

    def test_each_task_is_its_own_world_without_pmi(self):
        """Without a PMI that MPICH supports, each task is rank 0 of 1. The profile numbers them as Slurm's tasks."""
        for pmi in ("pmix", "none"):
            with self.subTest(pmi=pmi):
                before = set(self.runs())
                output = self.done(["srun", f"--mpi={pmi}", "--clusterprof", "-N4", "-n4",
                                    slurm.program("mpich", "unequal_work"), "1"])
                self.assertEqual(output.count("load_balance 1.000000"), 4)  # lines of tasks may come in any order
                self.assertEqual(output.count("useful 0 "), 4)
                run, = set(self.runs()) - before
                report = self.check_run(run, 4)
                self.assertEqual(sum(call["count"] for call in report["mpi"]["calls"] if call["op"] == "MPI_Init"), 4)

    def test_task_prolog(self):
        """Sites without the plugin: the user says so in the environment of the submission."""
        self.cluster.set_plugins()
        self.addCleanup(self.cluster.set_plugins, slurm.PLUGIN)
        traffic = slurm.program("mpich", "traffic")
        output = self.done(["srun", "-N4", "-n4", traffic], more={"CLUSTERPROF_SLURM": "on,rate=50"})
        report = self.check_matrix(*self.runs(), output, 4)
        self.assertEqual(report["run"]["rate_hz"], 50)
        # In a batch script: its steps, and its mpiexec.
        job = self.batch(f"srun {traffic} > first\nmpiexec.mpich {traffic} > second\n", ["-N2", "-n4", "-w", "n[1-2]"],
                         more={"CLUSTERPROF_SLURM": "on"})
        self.check_matrix(f"clusterprof-traffic-{job}.0", self.output("first"), 4, ["n1", "n2"])
        self.check_matrix(f"clusterprof-traffic-{job}", self.output("second"), 4, ["n1", "n2"])
        # Who did not ask is not recorded.
        before = self.runs()
        self.done(["srun", "-N2", "-n2", "true"])
        self.done(["srun", "-N2", "-n2", "true"], more={"CLUSTERPROF_SLURM": "off"})
        self.assertEqual(self.runs(), before)


class Jobs(slurm.SlurmTest):
    options = ["--spank", slurm.PLUGIN]
    tasks = f"python3 {slurm.TASKS}"

    def test_two_steps(self):
        job = self.batch(f"#SBATCH --clusterprof=rate=500 -N4 -n8 --ntasks-per-node=2\n"
                         f"srun {self.tasks} 0.3 first > first\n"
                         f"srun -n4 --ntasks-per-node=1 --clusterprof=rate=50 {self.tasks} 0.3 second > second\n"
                         f"srun -n4 --clusterprof=off {self.tasks} 0\n")
        self.assertEqual(self.runs(), [f"clusterprof-tasks-{job}.{step}" for step in (0, 1)])
        for step, (output, rate) in enumerate((("first", 500), ("second", 50))):
            report = self.check_tasks(f"clusterprof-tasks-{job}.{step}", self.output(output), command=["0.3", output])
            self.assertEqual(report["run"]["rate_hz"], rate)
        # By its number a job is found; that it has two runs is said.
        self.assertEqual(self.report(f"{job}.1")["run"]["command"][-1], "second")
        both = self.user(["clusterprof", "report", job])
        self.assertEqual(both.returncode, 2)
        both = both.stderr.decode()
        self.assertEqual(len(both.splitlines()), 1, both)
        for run in self.runs():
            self.assertIn(run, both)

    def test_steps_side_by_side(self):
        """Two steps at once on the same nodes do not mix."""
        job = self.batch(f"srun --exact -N2 -n2 {self.tasks} 0.4 one > one &\n"
                         f"srun --exact -N2 -n2 {self.tasks} 0.4 other > other &\nwait\n",
                         ["--clusterprof", "-N2", "-n4"])
        self.assertEqual(self.runs(), [f"clusterprof-tasks-{job}.{step}" for step in (0, 1)])
        reports = [self.report(run) for run in self.runs()]
        outputs = {report["run"]["command"][-1]: run for report, run in zip(reports, self.runs())}
        self.assertEqual(sorted(outputs), ["one", "other"])
        for output, run in outputs.items():
            self.check_tasks(run, self.output(output), nodes=2)

    def test_array(self):
        job = self.batch(f"srun {self.tasks} 0.2 $SLURM_ARRAY_TASK_ID > out.$SLURM_ARRAY_TASK_ID\n",
                         ["--clusterprof", "--array=3,5", "-N2", "-n2"])
        self.assertEqual(self.runs(), [f"clusterprof-tasks-{job}_{task}.0" for task in (3, 5)])
        for task in ("3", "5"):
            output = self.output("out." + task)
            self.check_tasks(f"clusterprof-tasks-{job}_{task}.0", output, nodes=2, command=["0.2", task])
            self.assertEqual(self.report(f"{job}_{task}")["run"]["command"][-1], task)

    def test_heterogeneous(self):
        output = self.done(["salloc", "--clusterprof", "-N1", "-n2", ":", "-N3", "-n3", "bash", "-c",
                            f"srun --het-group=0,1 {self.tasks} 0.3 both; echo $SLURM_JOB_ID; "
                            f"srun --het-group=1 {self.tasks} 0.3 > second"])
        job = output.splitlines()[-1]
        across, = [run for run in self.runs() if run == f"clusterprof-tasks-{job}.0"]
        self.check_tasks(across, output)
        second, = set(self.runs()) - {across}
        self.check_tasks(second, self.output("second"), nodes=3)

    def test_multi_prog(self):
        """Programs of different names are one run."""
        self.write("programs", f"0-1 {self.tasks} 0.3 first\n2 sleep 0.3\n3 {self.tasks} 0.3 last-%t\n")
        output = self.done(["srun", "--clusterprof", "-N4", "-n4", "--multi-prog", "programs"])
        report = self.check_run(*self.runs(), 4)
        said = {task: (node, pid) for _, task, node, pid, *_ in map(json.loads, output.splitlines())}
        self.assertEqual(sorted(said), [0, 1, 3])
        for rank in (0, 1, 3):
            self.assertEqual((report["ranks"][rank]["node"], report["ranks"][rank]["pid"]), said[rank])
        self.assertEqual(self.function(report, "odd")["rank_max"] % 2, 1)

    # Each turn is a function, until a file is there. The program ends in it, so that this is where it was last.
    TURNS = """
import os, sys
def turn():
    sum(range(10000))
    if os.path.exists(f"end-{name}"):
        os._exit(0)
name = sys.argv[1]
open(f"began-{name}-{os.environ['SLURM_PROCID']}", "w").close()
while True:
    turn()
"""

    def await_step(self, name):
        self.await_(lambda: len([found for found in os.listdir(self.directory) if found.startswith(f"began-{name}-")]) == 2, name)

    def verb(self, *words):
        return self.done(["clusterprof", *words])

    def await_turn(self, *words):
        """Until both ranks are seen in turn(), as `stacks` and `top` say it in JSON."""
        def is_there():
            done = self.user(["clusterprof", *words, "--json"])
            if done.returncode != 0:
                return False
            said = json.loads(done.stdout)
            rows = said["classes"] if "classes" in said else said["ranks"]
            where = str([row.get("frames", row.get("function")) for row in rows])
            ranks = {rank for row in rows for rank in row.get("ranks", [row.get("rank")])}
            return said["state"] == "running" and ranks == {0, 1} and "turn" in where
        self.await_(is_there, words)

    def test_verbs_by_number(self):
        """Of runs that go on, asked from where no task is, by the numbers of job and step."""
        program = f"python3 {self.write('program.py', self.TURNS)}"
        job = self.submit(f"srun --clusterprof=standby {program} first\nsrun --clusterprof {program} second\n",
                          ["-N2", "-n2", "--ntasks-per-node=1"])
        self.await_step("first")
        # Nothing is recorded of it before `start`. It is the job's only run.
        first = f"clusterprof-program-{job}.0"
        self.await_(lambda: self.runs() == [first], "the first run")
        # Who is not there yet is not asked.
        self.await_(lambda: len(glob.glob(os.path.join(self.directory, first, ".control", "node-*"))) == 2, "both collectors")
        self.assertIn("recording on 2 nodes, 2 ranks", self.verb("start", job))
        self.await_turn("stacks", f"{job}.0")
        self.assertIn("recording is stopped on 2 nodes, 2 ranks", self.verb("stop", f"{job}.0"))
        self.write("end-first", "")
        # Of a job's runs the one that goes on is meant. What has ended is found by its step.
        self.await_step("second")
        self.await_turn("stacks", job)
        self.await_turn("top", job, "--once")
        self.assertIn(f"{job}.1, running", self.verb("top", f"{job}.1", "--once"))
        self.assertIn(f"clusterprof-program-{job}.1.snapshot-1: 2 ranks, 2 nodes, as of", self.verb("snapshot", job))
        self.assertIn(f"clusterprof-program-{job}.1.snapshot-2: 2 ranks, 2 nodes, as of", self.verb("snapshot", f"{job}.1"))
        self.assertEqual(self.report(f"{job}.1")["run"]["state"], "running")
        self.assertEqual(self.report(f"{job}.0")["run"]["state"], "ended")
        self.assertEqual(self.function(self.report(f"{job}.0"), "turn")["kind"], "python")
        self.write("end-second", "")
        self.cluster.await_job(job)
        for words in (["stacks", job], ["top", job, "--once"], ["start", job], ["stop", job], ["snapshot", job], ["report", job]):
            done = self.user(["clusterprof", *words])
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stderr.decode(), f"clusterprof: {job}: which of these runs: clusterprof-program-{job}.0, "
                                                   f"clusterprof-program-{job}.1\n", words)
        for verb in ("start", "stop", "snapshot"):
            done = self.user(["clusterprof", verb, f"{job}.1"])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn("turn()", self.verb("stacks", f"{job}.1"))
        self.assertIn("This is its last state", self.verb("top", f"{job}.1"))


class Tasks(slurm.SlurmTest):
    """What a recorded task can notice of the recording, and what it cannot."""

    options = ["--spank", slurm.PLUGIN]

    def check_status(self, command, status, **how):
        done = self.user(command, **how)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done

    def test_scripts(self):
        """Recording does not change the name that a script is called by: found in PATH, by a relative and an absolute
        path."""
        script = self.write("script", "#!/bin/bash -eu\nprintf '%s|' \"$0\" \"$@\" \"$BASH_SOURCE\" $-\n")
        for name in ("script", "./script", script):
            with self.subTest(name=name):
                command = ["-n1", name, "a b", "", "--", "-c", "--clusterprof"]
                more = {"PATH": f"{self.directory}:{self.variables()['PATH']}"}
                bare = self.done(["srun", *command], more=more)
                self.assertEqual(self.done(["srun", "--clusterprof", *command], more=more), bare)
        self.assertEqual(len(self.runs()), 3)

    def test_containers(self):
        """Container runtimes and what they start are left alone, since clusterprof may not be in the container."""
        os.symlink("/bin/sh", os.path.join(self.directory, "apptainer"))
        output = self.done(["srun", "--clusterprof", "-n2", "./apptainer", "-c", "env; sh -c env"])
        self.assertNotIn("clusterprof_start", output)
        self.assertNotIn("CLUSTERPROF_START", output)
        self.assertEqual(self.runs(), [])

    def test_chosen_variables(self):
        """--export decides about the user's variables, not about the recording."""
        for number, export in enumerate(("NONE", "FOO=bar")):
            with self.subTest(export=export):
                output = self.done(["srun", "--clusterprof", f"--export={export}", "-N2", "-n2", "/usr/bin/python3",
                                    slurm.TASKS, "0.2"])
                self.assertEqual(len(self.runs()), number + 1)
                self.check_tasks(self.runs()[-1], output, nodes=2)
        job = self.batch("env > batch.env; srun /usr/bin/env > task.env\n"
                         f"srun --overlap /usr/bin/python3 {slurm.TASKS} 0.2 > tasks\n",
                         ["--clusterprof", "--export=NONE", "-N2", "-n2"], more={"SECRET": "1"})
        self.assertNotIn("SECRET", self.output("batch.env") + self.output("task.env"))
        self.assertIn("SLURM_PROCID", self.output("task.env"))
        self.check_tasks(f"clusterprof-tasks-{job}.1", self.output("tasks"), nodes=2)

    def test_tasks_inherit_no_variables_of_the_recording(self):
        """A task and its children do not see the variables that started the recording."""
        self.batch("srun -n1 env > task.env\nsrun -n1 sh -c 'sh -c env' > child.env\n",
                   ["--clusterprof", "-N1", "-n1"], more={"LD_PRELOAD": "libm.so.6"})
        for name in ("task.env", "child.env"):
            self.assertNotIn("CLUSTERPROF_START", self.output(name))
            self.assertNotIn("libclusterprof_start", self.output(name))
            self.assertRegex(self.output(name), r"(?m)^LD_PRELOAD=.*libm\.so\.6")

    def test_status(self):
        done = self.check_status(["srun", "--clusterprof", "-n1", "sh", "-c", "echo out; echo err >&2; exit 3"], 3)
        self.assertEqual(done.stdout, b"out\n")
        self.assertEqual([rank["exit"]["status"] for rank in self.report(*self.runs())["ranks"]], [3])
        # Signals are the program's too. srun says 128 + 11.
        self.check_status(["srun", "--clusterprof", "-n1", "sh", "-c", "kill -SEGV $$"], 139)
        self.assertEqual([rank["exit"]["signal"] for rank in self.report(self.runs()[-1])["ranks"]], [11])
        # No such program: as without --clusterprof.
        bare = self.user(["srun", "-n1", "./nothing"])
        self.check_status(["srun", "--clusterprof", "-n1", "./nothing"], bare.returncode)

    def test_standard_input(self):
        done = self.user(["bash", "-c", "seq 100000 | srun --clusterprof -n1 sha1sum"])
        bare = self.user(["bash", "-c", "seq 100000 | sha1sum"])
        self.assertEqual((done.returncode, done.stdout), (0, bare.stdout))

    def test_bad_options(self):
        """Bad options are refused when a user submits them; inside a job, the step runs unrecorded."""
        before = self.jobs()
        for options in ("rate=banana", "no-such-option", "rate", "mpi=", "event=,"):
            with self.subTest(options=options):
                for command in (["srun", "-n1"], ["sbatch", "--wrap"], ["salloc", "-n1"]):
                    done = self.user([command[0], f"--clusterprof={options}", *command[1:], "true"])
                    self.assertNotEqual(done.returncode, 0, command)
                    self.assertIn("clusterprof", done.stderr.decode())
        self.assertEqual(self.jobs() - before, set())
        self.batch("srun -n2 --clusterprof=rate=banana sh -c 'echo task $SLURM_PROCID'\n", ["-N2", "-n2"])
        lines = self.output().splitlines()
        self.assertEqual(sorted(line for line in lines if line.startswith("task")), ["task 0", "task 1"])
        self.assertTrue(any("clusterprof" in line and "rate" in line for line in lines), lines)
        self.assertEqual(self.runs(), [])

    def jobs(self):
        """Also those that have ended in the last minutes."""
        return set(self.done(["squeue", "-h", "-t", "all", "-o", "%A"]).split())

    def test_task_runs_where_recording_fails(self):
        """If recording fails for a reason that only shows in the job, the task runs and one line says why."""
        command = ["srun", "--clusterprof", "-N2", "-n4", "sh", "-c", "echo task; exit 3"]
        for more in ({"CLUSTERPROF_RATE": "banana"}, {"CLUSTERPROF_ROOT": "/proc/nowhere"},
                     {"CLUSTERPROF_OUTPUT": "/root/no/run"}):
            with self.subTest(more=more):
                done = self.check_status(command, 3, more=more)
                self.assertEqual(done.stdout, b"task\n" * 4)
                lines = [line for line in done.stderr.decode().splitlines() if "clusterprof" in line]
                self.assertEqual(len(lines), 1, done.stderr.decode())
        self.assertEqual(self.runs(), [])


class Attach(slurm.SlurmTest):
    """To the tasks of a job that was started without clusterprof."""
    nodes = 2
    options = []
    PROGRAM = """
import os, sys, time
def turn():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
rank, folder = os.environ["SLURM_PROCID"], sys.argv[1]
open(f"{folder}/began-{rank}", "w").close()
enough = None
while not os.path.exists(f"{folder}/stop"):
    turn()
    if enough is None and os.path.exists(f"{folder}/attached"):
        enough = time.thread_time() + 0.5
    if enough is not None and time.thread_time() > enough:
        open(f"{folder}/worked-{rank}", "w").close()
"""
    WORKED_S = 4 * 0.5  # of processor time, of all tasks from `attached` to worked-*

    def begin(self):
        program = self.write("program.py", self.PROGRAM)
        job = self.submit(f"srun -n4 python3 {program} {self.directory}", ["-N2", "-n4", "--ntasks-per-node=2"])
        self.addCleanup(self.user, ["scancel", "--quiet", job])  # of a test that fails
        self.await_tasks("began")
        return job

    def await_tasks(self, what):
        self.await_(lambda: len([name for name in os.listdir(self.directory) if name.startswith(what + "-")]) == 4, what)

    def await_work(self):
        self.write("attached", "")
        self.await_tasks("worked")

    def end(self, job):
        self.write("stop", "")
        for part in self.cluster.await_job(job):
            self.assertEqual((part["JobState"], part["ExitCode"]), ("COMPLETED", "0:0"), self.output())

    def check(self, run, least_s, of_each_s=0):
        report = self.check_run(run, 4)
        self.assertEqual([rank["node"] for rank in report["ranks"]], ["n1", "n1", "n2", "n2"])
        self.assertEqual(report["run"]["state"], "ended")
        turn = self.function(report, "turn")
        self.measured_above(turn["total_s"], least_s, "turn()")
        self.assertGreater(turn["rank_min_s"], 0)
        self.measured_above(turn["rank_min_s"], of_each_s, "turn() of each task")

    def test_until_detach(self):
        job = self.begin()
        done = self.user(["clusterprof", "attach", "--job", job, "-o", "run"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        for rank in range(4):
            self.assertRegex(done.stderr.decode(), rf"process \d+: recorded as rank {rank} ")
        self.assertEqual(done.stderr.decode().count("process "), 4)  # and no other was tried, such as our own
        self.assertNotIn("clusterprof-attached", done.stderr.decode())
        self.await_work()
        self.done(["clusterprof", "detach", "run"])
        self.check("run", 0.8 * self.WORKED_S, of_each_s=0.8 * self.WORKED_S / 4)
        # The step has ended with the recording, and the job goes on.
        self.await_(lambda: job + ".1" not in self.done(["squeue", "--noheader", "--steps", "--format=%i"]), "the end of the step")
        self.assertEqual([part["JobState"] for part in self.cluster.job(job)], ["RUNNING"])
        self.end(job)

    def test_for_a_time(self):
        job = self.begin()
        self.done(["clusterprof", "attach", "--job", job, "-o", "run", "--for", "3s"])
        self.check("run", 2)  # of 12, with what the tasks wait for processors
        self.end(job)

    def test_until_the_job_ends(self):
        job = self.begin()
        self.done(["clusterprof", "attach", "--job", job, "-o", "run"])
        self.await_work()
        self.end(job)
        self.check("run", 0.8 * self.WORKED_S)

    def test_a_job_that_is_not_there(self):
        done = self.user(["clusterprof", "attach", "--job", "4711"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.decode(), "clusterprof: job 4711 is not running, or squeue does not work here\n")
        self.assertEqual(self.runs(), [])


class Site(slurm.SlurmTest):
    """What the site decides, and a site whose users do not ask."""

    options = ["--spank", slurm.PLUGIN]
    command = ["srun", "-N2", "-n2", "python3", slurm.TASKS, "0.2"]

    def plugins(self, *lines):
        self.cluster.set_plugins(*lines)
        self.addCleanup(self.cluster.set_plugins, slurm.PLUGIN)

    def test_default(self):
        self.plugins(f"{slurm.PLUGIN} default=on options=rate=50,no-html")
        report = self.check_tasks(*self.recorded_by(self.command))
        self.assertEqual(report["run"]["rate_hz"], 50)
        # What users say wins.
        report = self.check_tasks(*self.recorded_by([self.command[0], "--clusterprof=rate=200", *self.command[1:]]))
        self.assertEqual(report["run"]["rate_hz"], 200)
        report = self.check_tasks(*self.recorded_by(self.command, more={"CLUSTERPROF_RATE": "300"}))
        self.assertEqual(report["run"]["rate_hz"], 300)
        # Three ways to say no.
        before = self.runs()
        self.done([self.command[0], "--clusterprof=off", *self.command[1:]])
        self.done(self.command, more={"CLUSTERPROF_SLURM": "off"})
        with open(os.path.join(self.home, ".clusterprof-off"), "w"):
            self.done(self.command)
            self.batch(" ".join(self.command) + "\n", ["-N2", "-n2"])
        self.assertEqual(self.runs(), before)

    def test_what_differs_between_nodes(self):
        off = "/run/clusterprof/off"
        self.cluster.on_node("n2", "sh", "-c", f"mkdir -p /run/clusterprof && touch {off}")
        try:
            command = ["clusterprof", "doctor", "--site", "--json"]
            by_partition = self.user([*command, "--partition", "test"])
            in_a_job = self.user(["salloc", "-Q", "-N2", "-w", "n[1-2]", *command])
            text = self.user(["clusterprof", "doctor", "--site", "--nodes", "n[1-4]"])
        finally:
            self.cluster.on_node("n2", "rm", off)
        for done, nodes in ((by_partition, ["n1", "n2", "n3", "n4"]), (in_a_job, ["n1", "n2"])):
            report = json.loads(done.stdout)
            self.assertEqual((report["nodes"], report["missing"]), (nodes, []), done.stderr)
            differences = {(found["check"], found["fact"]): found["values"] for found in report["differences"]}
            values = differences.pop(("node.clusterprof", "recording"))
            self.assertEqual(sorted((value["value"], value["nodes"]) for value in values),
                             [("on", [node for node in nodes if node != "n2"]), ("turned off", ["n2"])])
            # The nodes are namespaces of one machine.
            self.assertEqual({check for check, _ in differences}, {"node.clusterprof"}, differences)
        self.assertRegex(text.stdout.decode(), r"(?s)clusterprof: recording\n      on\n        on n\[1,3-4\]\n"
                                               r"      turned off\n        on n2\n.*4 nodes answered: ")
        self.assertEqual(self.runs(), [])

    def reason(self, site, command=("srun", "-n1", "true"), **variables):
        """Why a step is not recorded where the site says `site`: the word on its stderr, or None."""
        self.plugins(f"{slurm.PLUGIN} default=on {site}")
        before = self.runs()
        # Without -Q srun says when it waits for a node.
        done = self.user([command[0], "-Q", *command[1:]], more={"CLUSTERPROF_QUIET": "1", "CLUSTERPROF_EXPLAIN": "1", **variables})
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        said = re.findall(r"\(([a-z-]+)\)$", done.stderr.decode().strip())
        self.assertEqual(len(self.runs()) - len(before), 0 if said else 1, done.stderr.decode())
        self.assertLessEqual(len(done.stderr.splitlines()), 1)
        return said[0] if said else None

    def test_what_is_worth_recording(self):
        user = self.done(["id", "-un"]).strip()
        partition = self.done(["srun", "-n1", "printenv", "SLURM_JOB_PARTITION"]).strip()
        self.assertIsNone(self.reason(f"users={user} partitions={partition} not-users=somebody commands=tru*"))
        self.assertEqual(self.reason(f"not-users={user}"), "user-excluded")
        self.assertEqual(self.reason("users=somebody"), "user-not-included")
        self.assertEqual(self.reason(f"not-partitions={partition[0]}*"), "partition-excluded")
        self.assertEqual(self.reason("not-commands=true"), "command-excluded")
        self.assertEqual(self.reason("fraction=0"), "not-sampled")
        self.assertEqual(self.reason("options=min-ranks=2"), "too-few-ranks")
        self.assertEqual(self.reason("options=min-duration=60"), "too-short")
        # Who asks is recorded, unless the site excludes it.
        asked = ["srun", "-n1", "--clusterprof", "true"]
        self.assertIsNone(self.reason("fraction=0 users=somebody options=min-duration=60,min-ranks=2", asked))
        self.assertEqual(self.reason(f"not-users={user}", asked, CLUSTERPROF_EXPLAIN="0"), "user-excluded")
        self.assertEqual(self.reason("not-commands=true", asked, CLUSTERPROF_EXPLAIN="0"), "command-excluded")
        self.assertIsNone(self.reason("options=min-duration=60", ["srun", "-n1", slurm.CLUSTERPROF, "-q", "true"]))

    def recorded_by(self, command, **how):
        before = set(self.runs())
        output = self.done(command, **how)
        run, = set(self.runs()) - before
        return run, output, 2

    def test_root(self):
        where = os.path.join(self.home, "runs")
        os.mkdir(where)
        os.chown(where, slurm.USER, slurm.GROUP)
        user = self.done(["id", "-un"]).strip()
        self.plugins(f"{slurm.PLUGIN} root={where}/%u")
        self.done(["srun", "--clusterprof", "-n1", "true"])
        run, = os.listdir(os.path.join(where, user))
        self.assertRegex(run, r"^clusterprof-true-\d+\.0$")
        self.plugins(f"{slurm.PLUGIN} root=%h/home-runs")
        self.done(["srun", "--clusterprof", "-n1", "true"])
        self.assertEqual(len(os.listdir(os.path.join(self.home, "home-runs"))), 1)
        # The user's own choice wins.
        self.done(["srun", "--clusterprof", "-n1", "true"], more={"CLUSTERPROF_ROOT": where})
        self.assertEqual(len(os.listdir(where)), 2)
        self.assertEqual(self.runs(), [])

    LOOK = r"""#!/bin/bash
echo "== variables"; env -0 | sort -z | tr '\n\0' ' \n'
echo "== limits, mask, directory"; ulimit -a; umask; pwd
echo "== descriptors"; for fd in /proc/self/fd/*; do echo "$(basename $fd) $(readlink $fd)"; done
echo "== signals"; grep ^Sig[BI] /proc/self/status
echo "== libraries"; awk '{print $6}' /proc/$$/maps | sort -u | grep .so
echo "== processes"; [[ ! $SLURMD_NODENAME ]] || ps -e -o user=,args=
echo "== files"; ls -A .
if [[ $SLURMD_NODENAME ]]; then ls -A /dev/shm /run  # on the host, other tests have files there, most of them as root
else find /dev/shm /run -mindepth 1 -maxdepth 1 -user "$(id -u)" -printf '%f\n' | sort; fi
"""

    def seen(self):
        """{where: what the script sees there}, with each number, which jobs differ in, as 0; then what is in the
        working directory."""
        for name in set(os.listdir(self.directory)) - {"look"}:
            os.remove(os.path.join(self.directory, name))
        self.assertEqual(self.cluster.await_idle(), [])
        found = {"srun": self.done(["srun", "-n1", "./look"])}
        found["salloc"] = self.done(["salloc", "-Q", "-n1", "./look"])
        self.assertEqual(self.cluster.await_idle(), [])
        found["srun in salloc"] = self.done(["salloc", "-Q", "-n1", "srun", "./look"])
        self.assertEqual(self.cluster.await_idle(), [])
        self.batch("./look > in.batch; srun ./look > in.step")
        found.update({name: self.output(name) for name in ("in.batch", "in.step", "job.out")})
        volatile = re.compile(r"(?m)^\d+ (pipe|socket|anon_inode):.*|^(vader_segment|clusterprof-fuzz-).*\n")  # files of other tests
        found = {where: re.sub(r"0x[0-9a-f]+|\d+", "0", volatile.sub("", text)) for where, text in found.items()}
        return {**found, "files": "\n".join(sorted(os.listdir(self.directory)))}

    def test_jobs_that_do_not_ask_are_unchanged(self):
        """A job that does not ask is the same as on a cluster without clusterprof: variables, descriptors,
        libraries, processes, files."""
        self.write("look", self.LOOK)
        self.plugins()
        without = self.seen()
        self.plugins(slurm.PLUGIN)
        loaded = self.seen()
        for where, text in without.items():
            with self.subTest(where=where):
                self.assertEqual(loaded[where].splitlines(), text.splitlines())
                if where not in ("files", "job.out"):
                    self.assertIn("== files", text)


if __name__ == "__main__":
    recording.main()
