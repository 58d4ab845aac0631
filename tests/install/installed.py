"""What tests of installations and packages share: an ordinary user, and a look at ELF files."""

import os
import re
import shutil
import stat
import subprocess
import tempfile

import recording

IS_ROOT = os.geteuid() == 0
USER = 65534 if IS_ROOT else os.geteuid()
PROGRAM = "def spin(n):\n    return sum(i * i for i in range(n))\nspin(2000000)\nprint('done')\n"


class InstalledTest(recording.RecordingTest):
    """Works in a folder below /tmp that `nobody` may write to."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="clusterprof-install-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        os.chmod(self.directory, 0o755)
        self.work = os.path.join(self.directory, "work")
        os.mkdir(self.work)
        os.chown(self.work, USER, -1)

    def user(self, command, variables=None, timeout=60, stdin=None):
        """Runs a command as an ordinary user, who has nothing set, in self.work."""
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if IS_ROOT else []
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **(variables or {})}
        return subprocess.run([*as_user, *command], cwd=self.work, env=environment, capture_output=True, text=True,
                              timeout=timeout, stdin=stdin)

    def good(self, command, **how):
        done = self.user(command, **how)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done

    def root_command(self, command, timeout=200, **how):
        """A command of whoever installs."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **how)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout

    def records(self, clusterprof, run="run"):
        """A recording by this clusterprof has all its parts; returns the text of its report."""
        with open(os.path.join(self.work, "program.py"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        done = self.good([clusterprof, "-r", "1000", "-o", run, recording.PYTHON, "program.py"])
        self.assertEqual(done.stdout, "done\n")
        self.assertIn(f"clusterprof report {run}", done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.work, run, "report.html")), done.stderr)
        report = self.good([clusterprof, "report", run]).stdout
        self.assertIn("program.py", report)
        return report


def files_below(top):
    """Paths of all files and links, relative to top."""
    return sorted(os.path.relpath(os.path.join(folder, name), top)
                  for folder, folders, names in os.walk(top)
                  for name in names + [f for f in folders if os.path.islink(os.path.join(folder, f))])


def unreadable_below(top):
    """What an ordinary user could not read or search, and what others may write."""
    bad = []
    for folder, _, names in os.walk(top):
        for path in [folder] + [os.path.join(folder, name) for name in names]:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                continue
            needed = 0o005 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o100 else 0o004
            if status.st_mode & needed != needed or status.st_mode & 0o022:
                bad.append(f"{oct(status.st_mode)} {path}")
    return bad


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(top):
    paths = [os.path.join(top, path) for path in files_below(top)]
    return [path for path in paths if not os.path.islink(path) and is_elf(path)]


def needed(path):
    """The names of the libraries that it needs, and its search path or ''."""
    text = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
    search = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), search.group(1) if search else ""


def loaded_bytes(path):
    """What of it is mapped when it runs: everything but debug information."""
    text = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    with open(path, "rb") as file:
        for offset, size in re.findall(r"^ +LOAD +(0x[0-9a-f]+) \S+ \S+ (0x[0-9a-f]+)", text, re.MULTILINE):
            file.seek(int(offset, 16))
            yield file.read(int(size, 16))
