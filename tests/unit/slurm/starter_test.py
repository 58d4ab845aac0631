"""The starter in real processes: which programs it turns into recorded ones, and that all others run as without it."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

STARTER = os.environ["CLUSTERPROF_TEST_STARTER"]
ACTIVATION = os.environ["CLUSTERPROF_TEST_ACTIVATION"]
SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
CC = os.environ["CLUSTERPROF_TEST_CC"]
# Stands in for bin/clusterprof: says what it was called with, and what is left in the environment.
LAUNCHER = """#!/bin/bash
printf '%s|' "$@"
echo "preload=${LD_PRELOAD-none} start=${CLUSTERPROF_START-none}"
"""
SCRIPT = """#!/bin/bash -e
echo "ran $0 $*"
"""


class StarterTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-starter-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.launcher = self.file("launcher", LAUNCHER)
        self.script = self.file("script", SCRIPT)

    def path(self, name):
        return os.path.join(self.directory, name)

    def file(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def environment(self, **variables):
        keep = {name: value for name, value in os.environ.items()
                if not name.startswith(("SLURM_", "OMPI_", "MPI_", "CLUSTERPROF_", "PMI")) and name != "LD_PRELOAD"}
        all_of_them = {**keep, "LD_PRELOAD": STARTER, "CLUSTERPROF_START": self.launcher, **variables}
        return {name: value for name, value in all_of_them.items() if value is not None}

    def run_as_task(self, *argv, executable=None, step="0", **variables):
        """Runs argv in a process that is what SLURM_TASK_PID says."""
        environment = self.environment(SLURM_STEP_ID=step, **variables)

        def become():
            environment["SLURM_TASK_PID"] = str(os.getpid())
            os.execve(executable or argv[0], argv, environment)

        return subprocess.run(["unused"], preexec_fn=become, cwd=self.directory, capture_output=True, text=True,
                              timeout=30)

    def run_other(self, *argv, **variables):
        return subprocess.run(argv, env=self.environment(**variables), cwd=self.directory, capture_output=True, text=True,
                              timeout=30)

    def program(self, text, *options):
        source = self.file("program.c", text)
        subprocess.run([CC, "-o", self.path("program"), source, *options], check=True)
        return self.path("program")


class Tasks(StarterTest):
    def test_a_program(self):
        done = self.run_as_task("/bin/echo", "a b", "", "*")
        self.assertEqual(done.stdout, "record|--started|--|/bin/echo|a b||*|preload=none start=none\n")
        self.assertEqual(done.stderr, "")

    def test_its_name(self):
        done = self.run_as_task("-other", "x", executable="/bin/echo")
        self.assertEqual(done.stdout, "record|--started|--argv0=-other|--|/bin/echo|x|preload=none start=none\n")

    def test_scripts(self):
        done = self.run_as_task(self.script, "a", self.script)
        self.assertEqual(done.stdout,
                         f"record|--started|--|{self.script}|a|{self.script}|preload=none start=none\n")
        done = self.run_as_task("./script", "a")
        self.assertEqual(done.stdout, "record|--started|--|./script|a|preload=none start=none\n")
        # Found without a slash, so not by PATH.
        done = self.run_as_task("script")
        self.assertEqual(done.stdout, "record|--started|--|./script|preload=none start=none\n")
        done = self.run_as_task("/bin/bash", "./script", "a")
        self.assertEqual(done.stdout, "record|--started|--|/bin/bash|./script|a|preload=none start=none\n")

    def test_an_interpreter_that_is_a_script(self):
        self.file("interpreter", "#!/bin/bash -e\n. \"$2\"\n")
        nested = self.file("nested", f"#!{self.path('interpreter')} -x\necho nested\n")
        done = self.run_as_task(nested, "a")
        self.assertEqual(done.stdout, f"record|--started|--|{nested}|a|preload=none start=none\n")

    def test_preloads_of_the_user_stay(self):
        done = self.run_as_task("/bin/echo", LD_PRELOAD=f"libm.so.6:{STARTER}")
        self.assertEqual(done.stdout, "record|--started|--|/bin/echo|preload=libm.so.6 start=none\n")

    def test_ranks_of_launchers(self):
        done = self.run_other("/bin/echo", "x", OMPI_COMM_WORLD_RANK="1")
        self.assertEqual(done.stdout, "record|--started|--|/bin/echo|x|preload=none start=none\n")

    def test_many_arguments(self):
        words = ["%d" % number for number in range(20000)]
        done = self.run_as_task("/bin/echo", *words)
        self.assertIn("|19999|preload=none", done.stdout)

    def test_a_launcher_that_is_not_there(self):
        done = self.run_as_task("/bin/sh", "-c", "echo ${LD_PRELOAD-none} ${CLUSTERPROF_START-none}; exit 3",
                                CLUSTERPROF_START="/nowhere/clusterprof", SLURM_PROCID="0")
        self.assertEqual((done.returncode, done.stdout), (3, "none none\n"))
        self.assertEqual(done.stderr, "clusterprof: /nowhere/clusterprof: No such file or directory; "
                                      "the command runs unrecorded\n")
        done = self.run_as_task("/bin/true", CLUSTERPROF_START="/nowhere/clusterprof", SLURM_PROCID="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_launcher_whose_file_system_hangs(self):
        os.mkfifo(self.path("hangs"))  # opening it takes for ever
        program = self.program("#include <errno.h>\n#include <stdio.h>\n#include <sys/wait.h>\n"
                               "int main(void) { int gone = waitpid(-1, 0, __WALL) < 0 && errno == ECHILD;\n"
                               "  puts(gone ? \"no child\" : \"a child\"); return 4; }\n")
        begun = time.monotonic()
        done = self.run_as_task(program, CLUSTERPROF_START=self.path("hangs"), SLURM_PROCID="0")
        took_s = time.monotonic() - begun
        self.assertEqual((done.returncode, done.stdout), (4, "no child\n"))
        self.assertEqual(done.stderr, f"clusterprof: {self.path('hangs')}: its file system does not answer; "
                                      "the command runs unrecorded\n")
        self.assertGreater(took_s, 1.9)
        self.assertLess(took_s, 20)  # it waits for 2 s

    def test_a_directory_that_is_gone(self):
        environment = self.environment(SLURM_STEP_ID="0")
        os.mkdir(self.path("gone"))

        def become():
            os.chdir(self.path("gone"))
            os.rmdir(self.path("gone"))
            environment["SLURM_TASK_PID"] = str(os.getpid())
            os.execve("/bin/echo", ["echo"], environment)

        done = subprocess.run(["unused"], preexec_fn=become, cwd=self.directory, capture_output=True, text=True)
        self.assertIn("|/bin/echo|", done.stdout)


class Others(StarterTest):
    def test_children_of_a_task(self):
        # TaskProlog is one, with the task's variables.
        done = self.run_other("./script", "a", SLURM_STEP_ID="0", SLURM_TASK_PID="1")
        self.assertEqual((done.stdout, done.stderr), ("ran ./script a\n", ""))

    def test_batch_script(self):
        done = self.run_as_task("./script", "a", step=None)
        self.assertEqual(done.stdout, "ran ./script a\n")
        done = self.run_as_task("/usr/bin/env", step="4294967291")
        self.assertIn(f"LD_PRELOAD={STARTER}\n", done.stdout)
        self.assertIn("CLUSTERPROF_START=", done.stdout)

    def test_programs_left_alone_clear_the_environment_of_their_children(self):
        for name in ("clusterprof", "apptainer", "srun", "sbatch"):
            os.symlink("/usr/bin/env", self.path(name))
            done = self.run_as_task(self.path(name), "sh", "-c", "echo ${LD_PRELOAD-none} ${CLUSTERPROF_START-none}")
            self.assertEqual(done.stdout, "none none\n", name)

    def test_launchers_pass_the_variables_on(self):
        mpirun = self.file("mpirun", "#!/bin/sh\nOMPI_COMM_WORLD_RANK=0 /bin/echo ranks\n")
        done = self.run_as_task(mpirun)
        self.assertEqual(done.stdout, "record|--started|--|/bin/echo|ranks|preload=none start=none\n")

    def test_what_an_excluded_program_starts(self):
        script = "echo ${LD_PRELOAD-none} ${CLUSTERPROF_START-none}; /bin/echo child; exec /bin/echo same"
        for launcher in ("OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"):
            done = self.run_other("/bin/sh", "-c", script, CLUSTERPROF_START_NOT_COMMANDS="sh", **{launcher: "0"})
            self.assertEqual((done.stdout, done.stderr), ("none none\nchild\nsame\n", ""))
        # Of a task of srun, what it executes itself is still the task.
        done = self.run_as_task("/bin/sh", "-c", script, CLUSTERPROF_START_NOT_COMMANDS="sh")
        self.assertEqual(done.stdout, f"{STARTER} {self.launcher}\nchild\n"
                                      "record|--started|--|/bin/echo|same|preload=none start=none\n")

    def test_without_activation(self):
        done = self.run_as_task("./script", CLUSTERPROF_START=None)
        self.assertEqual((done.stdout, done.stderr), ("ran ./script \n", ""))

    def test_called_by_the_loader(self):
        loader = "/lib64/ld-linux-x86-64.so.2"
        if not os.path.exists(loader):
            self.skipTest("another loader")
        done = self.run_as_task(loader, "/bin/echo", "x")
        self.assertEqual(done.stdout, "x\n")
        self.assertIn("runs unrecorded", done.stderr)

    def test_address_sanitizer_is_first(self):
        try:
            program = self.program("#include <stdio.h>\nint main(int n, char** v) { (void)n; puts(v[0]); return 3; }\n",
                                   "-fsanitize=address")
        except subprocess.CalledProcessError:
            self.skipTest("no AddressSanitizer")
        done = self.run_other(program)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, program + "\n", ""))
        done = self.run_other(program, OMPI_COMM_WORLD_RANK="0", CLUSTERPROF_START_NOT_COMMANDS="program")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, program + "\n", ""))
        done = self.run_as_task(program)
        self.assertIn(f"|--|{program}|", done.stdout)


class Object(unittest.TestCase):
    def test_needs_nothing(self):
        shown = subprocess.run(["readelf", "-dW", STARTER], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("(NEEDED)", shown)
        self.assertIn("INITFIRST", shown)
        self.assertNotIn("(TLS", shown)
        symbols = subprocess.run(["nm", "-D", STARTER], check=True, capture_output=True, text=True).stdout.splitlines()
        # Weak ones only: what is missing is missing.
        self.assertEqual(sorted(line.split() for line in symbols),
                         [["w", name] for name in ("__asan_init", "environ", "getauxval", "gnu_get_libc_version")])


class TaskProlog(StarterTest):
    """slurm/task_prolog in an installation of its own."""

    def setUp(self):
        super().setUp()
        for name in ("bin", "lib/clusterprof", "libexec/clusterprof", "share/clusterprof/slurm"):
            os.makedirs(self.path("prefix/" + name))
        self.prolog = self.path("prefix/share/clusterprof/slurm/task_prolog")
        shutil.copy(os.path.join(SOURCE, "slurm/task_prolog"), self.prolog)
        shutil.copy(ACTIVATION, self.path("prefix/libexec/clusterprof/slurm-activation"))
        self.file("prefix/bin/clusterprof", LAUNCHER)
        self.file("prefix/lib/clusterprof/libclusterprof_start.so", "")

    def says(self, prolog=None, **variables):
        done = self.run_other(prolog or self.prolog, LD_PRELOAD=variables.pop("LD_PRELOAD", None),
                              CLUSTERPROF_START=variables.pop("CLUSTERPROF_START", None), **variables)
        self.assertEqual(done.returncode, 0)
        return done.stdout.splitlines(), done.stderr

    def test_says_nothing_unless_asked(self):
        for value in (None, "", "off", "no"):
            self.assertEqual(self.says(CLUSTERPROF_SLURM=value), ([], ""))

    def test_activates(self):
        prefix = self.path("prefix")
        common = [f"export LD_PRELOAD={prefix}/lib/clusterprof/libclusterprof_start.so",
                  f"export CLUSTERPROF_START={prefix}/bin/clusterprof"]
        self.assertEqual(self.says(CLUSTERPROF_SLURM="on"), (common, ""))
        self.assertEqual(self.says(CLUSTERPROF_SLURM="on,rate=5,no-mpi"),
                         (common + ["export CLUSTERPROF_RATE=5", "export CLUSTERPROF_NO_MPI=1"], ""))
        os.symlink(self.prolog, self.path("link"))
        self.assertEqual(self.says(self.path("link"), CLUSTERPROF_SLURM="on"), (common, ""))

    def test_copies_and_defaults_of_the_site(self):
        with open(self.prolog) as file:
            text = file.read()
        copy = self.file("copy", text.replace("${CLUSTERPROF_PREFIX-}", self.path("prefix"))
                         .replace("site=''", "site='default=on options=quiet root=/scratch/%h'"))
        lines, errors = self.says(copy, HOME="/home/ada")
        self.assertEqual((lines[2:], errors),
                         (["export CLUSTERPROF_ROOT=/scratch//home/ada", "export CLUSTERPROF_QUIET=1"], ""))
        self.assertEqual(self.says(copy, CLUSTERPROF_SLURM="off"), ([], ""))
        # Slurm knows the user's name; nothing else is asked for it.
        copy = self.file("copy", text.replace("${CLUSTERPROF_PREFIX-}", self.path("prefix"))
                         .replace("site=''", "site='default=on root=/scratch/%u'"))
        self.assertIn("export CLUSTERPROF_ROOT=/scratch/grace", self.says(copy, SLURM_JOB_USER="grace")[0])

    def test_patterns_of_the_site_are_not_of_files(self):
        with open(self.prolog) as file:
            text = file.read()
        copy = self.file("copy", text.replace("${CLUSTERPROF_PREFIX-}", self.path("prefix"))
                         .replace("site=''", "site='default=on commands=*.sh not-commands=a?'"))
        for name in ("commands=x.sh", "not-commands=ab"):
            self.file(name, "")
        lines, errors = self.says(copy)
        self.assertEqual((sorted(lines[2:]), errors), (["export CLUSTERPROF_START_COMMANDS=*.sh",
                                                        "export CLUSTERPROF_START_NOT_COMMANDS=a?"], ""))

    def test_a_copy_beside_the_starter(self):
        """As install_on_node makes it: what is loaded into programs is not in the prefix."""
        with open(self.prolog) as file:
            copy = self.file("copy", file.read().replace("${CLUSTERPROF_PREFIX-}", self.path("prefix")))
        self.file("libclusterprof_start.so", "")
        lines, errors = self.says(copy, CLUSTERPROF_SLURM="on")
        self.assertEqual((lines, errors), ([f"export LD_PRELOAD={self.path('libclusterprof_start.so')}",
                                            f"export CLUSTERPROF_START={self.path('prefix')}/bin/clusterprof"], ""))

    def test_mistakes(self):
        # TaskProlog's standard error is closed: what is said there is lost.
        lines, errors = self.says(CLUSTERPROF_SLURM="on,rte=5")
        self.assertRegex(lines.pop(0), r"^export CLUSTERPROF_START_PROBLEM=CLUSTERPROF_SLURM: no option 'rte'")
        self.assertEqual(([line.split("=")[0] for line in lines], errors),
                         (["export LD_PRELOAD", "export CLUSTERPROF_START"], ""))
        # Nothing gets into the job's output, which is the program's: it is said to the system's log.
        for missing in ("lib/clusterprof/libclusterprof_start.so", "libexec/clusterprof/slurm-activation"):
            os.remove(self.path("prefix/" + missing))
            self.assertEqual(self.says(CLUSTERPROF_SLURM="on", SLURM_PROCID="0"), ([], ""))
        self.file("logger", f"#!/bin/sh\necho \"$@\" > {self.path('logged')}\n")
        self.says(CLUSTERPROF_SLURM="on", PATH=f"{self.directory}:/usr/bin:/bin")
        with open(self.path("logged")) as file:
            self.assertRegex(file.read(), f"{missing} is not there; not recorded$")


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(0 if result.wasSuccessful() else 1)
