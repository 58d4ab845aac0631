"""Programs that cannot load our preload objects run as they do alone: below another root directory, where these are
not, and with another C library than glibc."""

import os
import re
import shutil
import stat
import subprocess

import recording

SAYS = ('#include <stdio.h>\n#include <stdlib.h>\nint main(int count, char** words) {\n'
        '  puts("out"); fputs("err\\n", stderr);\n'
        '  printf("%d %s\\n", count, getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");\n  return 5; }\n')
SHELL = "echo out; echo err >&2; echo ${LD_PRELOAD-none}; exit 5"


class OtherLibc(recording.RecordingTest):
    def same(self, command, run="run", **how):
        """Compares with the bare run; the recording of the process that started it must be whole."""
        bare, recorded = self.bare_and_recorded(command, options=["-q"], run=run, **how)
        self.assertIn(b"out\n", bare.stdout, bare.stderr)
        self.assertEqual(recorded.stderr, bare.stderr)
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertEqual(recorded.returncode, bare.returncode)
        self.assertTrue(self.report(run)["run"]["complete"])

    def root(self):
        """A root directory with a shell and nothing of clusterprof."""
        top = os.path.join(self.directory, "root")
        listed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
        for path in ["/bin/sh", *re.findall(r"(/\S+) \(0x", listed)]:
            os.makedirs(top + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, top + path)
        return top

    def musl_program(self):
        self.need("musl-gcc")
        with open(os.path.join(self.directory, "says.c"), "w", encoding="ascii") as file:
            file.write(SAYS)
        os.mkdir(os.path.join(self.directory, "bin"))
        path = os.path.join(self.directory, "bin", "says")
        subprocess.run(["musl-gcc", "-o", path, "says.c"], cwd=self.directory, check=True)
        return path

    def test_chroot_without_our_files(self):
        change = ["chroot"] if os.geteuid() == 0 else ["unshare", "-r", "chroot"]
        command = [*change, self.root(), "/bin/sh", "-c", SHELL]
        if subprocess.run(command, capture_output=True).returncode != 5:
            self.skipTest("chroot is not permitted")
        self.same(command)
        self.same(["sh", "-c", '"$@"; echo $?', "sh", *command], run="below")

    def test_root_with_our_files_but_without_all_of_glibc(self):
        """As images that somebody copied together from what ldd lists, with PREFIX mounted."""
        if os.geteuid() != 0:
            self.skipTest("chroot is not permitted")
        root, ours = self.root(), os.path.join(recording.BUILD, "lib", "clusterprof")
        shutil.copytree(ours, root + ours)
        self.assertFalse([name for _, _, names in os.walk(root) for name in names if name.startswith("libdl.")])
        self.same(["chroot", root, "/bin/sh", "-c", SHELL])

    def test_preload_of_the_user_stays(self):
        if os.geteuid() != 0:
            self.skipTest("chroot is not permitted")
        root = self.root()  # without libm
        bare, recorded = self.bare_and_recorded(
            ["chroot", root, "/bin/sh", "-c", SHELL], options=["-q"],
            env={**os.environ, "LD_PRELOAD": "libm.so.6"})
        self.assertEqual(bare.stdout, b"out\nlibm.so.6\n")
        self.assertIn(b"libm.so.6", bare.stderr)
        self.assertEqual(recorded.stdout, bare.stdout)
        self.assertEqual(recorded.stderr, bare.stderr)

    def test_program_of_musl_below_a_shell(self):
        program = self.musl_program()
        script = os.path.join(self.directory, "bin", "words")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!{program} word\n")
        os.chmod(script, 0o755)
        path = {**os.environ, "PATH": os.path.dirname(program) + ":" + os.environ["PATH"]}
        python = "import os, sys; sys.stdout.flush(); "
        spawned = "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
        for name, command in {
                "execve": ["sh", "-c", f"{program} a b; echo $?"],
                "script": ["sh", "-c", f"{script} a; echo $?"],
                "execvp": ["env", "says", "a"],
                "vfork": [recording.PYTHON, "-c", "import subprocess, sys; sys.exit(subprocess.call(['says', 'a']))"],
                "posix_spawn": [recording.PYTHON, "-c",
                                f"{python}pid = os.posix_spawn('{program}', ['says'], os.environ); {spawned}"],
                "posix_spawnp": [recording.PYTHON, "-c",
                                 f"{python}pid = os.posix_spawnp('says', ['says'], os.environ); {spawned}"],
                "fexecve": [recording.PYTHON, "-c",
                            f"{python}os.execve(os.open('{program}', os.O_RDONLY), ['says'], os.environ)"]}.items():
            with self.subTest(name):
                self.same(command, run=name, env=path)

    def test_program_of_musl_by_a_long_search_path(self):
        """PATH of many modules; one entry alone is longer than a path may be."""
        program = self.musl_program()
        directories = [os.environ["PATH"], *(f"/no/such/module/{'x' * 100}/{number}" for number in range(60)),
                       os.path.dirname(program), "/" + "y" * 5000]
        path = {**os.environ, "PATH": ":".join(directories)}
        python = "import os, sys; pid = os.posix_spawnp('says', ['says'], os.environ); "
        spawned = "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
        for name, command in {"execvp": ["env", "says", "a"],
                              "posix_spawnp": [recording.PYTHON, "-c", python + spawned]}.items():
            with self.subTest(name):
                self.same(command, run=name, env=path)

    def glibc_program(self, name, *options):
        self.need("cc")
        with open(os.path.join(self.directory, "says.c"), "w", encoding="ascii") as file:
            file.write(SAYS)
        path = os.path.join(self.directory, name)
        subprocess.run(["cc", "-o", path, "says.c", *options], cwd=self.directory, check=True)
        return path

    def preloads(self, command, run):
        """The values of LD_PRELOAD that programs of the command print; all are recorded, and ld.so says nothing."""
        done = self.record(command, options=["-q"], run=run)
        said = done.stdout.decode().splitlines()
        self.assertEqual(done.stderr, b"err\n" * said.count("out"))
        report = self.report(run)
        self.assertTrue(report["run"]["complete"])
        self.assertEqual([row["command"] for row in report["processes"] if row["unrecorded"] is not None], [])
        return [line.split(" ", 1)[1] for line in said if line != "out"]

    def test_glibc_that_somebody_built(self):
        """What it makes of the token in LD_PRELOAD cannot be known: it is told the objects themselves, and its programs are
        recorded as others are."""
        usual = self.glibc_program("usual")
        loader = os.path.join(self.directory, "ld-linux-x86-64.so.2")
        with open("/lib64/ld-linux-x86-64.so.2", "rb") as file:
            content = file.read()
        for directory in (b"lib/x86_64-linux-gnu", b"lib64"):
            if content.count(b"\0" + directory + b"\0") == 1:
                content = content.replace(b"\0" + directory + b"\0", b"\0odd" + directory[3:] + b"\0")
                break
        else:
            self.skipTest("it cannot be told where this system's loader has what it replaces the token by")
        with open(loader, "wb") as file:
            file.write(content)
        os.chmod(loader, os.stat(loader).st_mode | stat.S_IXUSR)
        odd = self.glibc_program("odd", f"-Wl,--dynamic-linker={loader}")
        first, second = self.preloads(["sh", "-c", f"{usual}; {odd}"], "run")
        self.assertRegex(first, r"^\S*/lib/clusterprof/\$LIB/libclusterprof_agent\.so")
        self.assertEqual(second, first.replace("/$LIB/", "/"))
        self.assertNotEqual(second, first)
        # Also where the launcher starts it, by vfork, and where the loader itself is executed.
        for run, command in {"itself": [odd], "loader": ["sh", "-c", f"{loader} {usual}; true"],
                             "vfork": [recording.PYTHON, "-c", f"import subprocess; subprocess.run(['{odd}'])"]}.items():
            value, = self.preloads(command, run)
            self.assertRegex(value, r"^\S*/lib/clusterprof/libclusterprof_agent\.so")
            self.assertNotIn("$", value)
        # It is odd: this is what it says otherwise.
        inherited = subprocess.run([odd], env={**os.environ, "LD_PRELOAD": first}, capture_output=True, text=True)
        self.assertIn("cannot be preloaded", inherited.stderr)

    def test_program_of_musl_itself_runs_unrecorded(self):
        program = self.musl_program()
        done = self.record([program])
        self.assertEqual(done.stdout, b"out\n1 none\n")
        self.assertEqual(done.returncode, 5)
        self.assertEqual(done.stderr.decode(), f"clusterprof: {program} is not linked to glibc; "
                         "the command runs unrecorded\nerr\n")
        self.assertEqual(self.record([program], options=["--strict"], run="strict").returncode, 125)


if __name__ == "__main__":
    recording.main()
