# SPDX-License-Identifier: BSD-3-Clause
"""The prolog of slurm.conf without Slurm: which installation it finds, and as which user it runs that."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
USER, GROUP, OTHER_GROUP = 64123, 64124, 64125
PLACE = "share/clusterprof/slurm"
# Prints how it may be attached to; lasts until it has been tried.
LASTING = """#!/bin/sh
echo $$ >{0}/pid.new
mv {0}/pid.new {0}/pid
while [ ! -e {0}/tried ]; do sleep 0.02; done
"""
ATTACH = """
import ctypes, os, sys, time
directory = sys.argv[1]
print("ready", flush=True)
while not os.path.exists(directory + "/pid"): time.sleep(0.001)
libc = ctypes.CDLL(None, use_errno=True)
with open(directory + "/pid") as file:
    failed = libc.ptrace(0x4206, int(file.read()), None, None)  # PTRACE_SEIZE
print(ctypes.get_errno() if failed else 0, flush=True)
open(directory + "/tried", "w").close()
"""


def as_user(*command):
    return ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups", "--", *command]


@unittest.skipIf(os.geteuid() != 0, "a prolog is run by root")
class PrologTest(unittest.TestCase):
    def setUp(self):
        probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("mounts are not permitted here")
        self.directory = tempfile.mkdtemp(prefix="clusterprof-prolog-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        os.chmod(self.directory, 0o755)
        self.prolog = self.path("apps", PLACE, "prolog")
        self.clusterprof = self.path("apps/bin/clusterprof")
        os.makedirs(os.path.dirname(self.prolog))
        os.makedirs(os.path.dirname(self.clusterprof))
        shutil.copy(os.path.join(SOURCE, "slurm", "prolog"), self.prolog)
        self.program("#!/bin/sh\necho warn: found\n")

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def program(self, text):
        with open(self.clusterprof, "w") as file:
            file.write(text)
        os.chmod(self.clusterprof, 0o755)

    def run_prolog(self, *command):
        """Returns what the collector would find in the prolog's directory."""
        script = 'mount -t tmpfs none /run && "$@" && cat /run/clusterprof/77/node-check'
        job = {"SLURM_JOB_ID": "77", "SLURM_JOB_UID": str(USER), "SLURM_JOB_GID": str(GROUP), "SPANK_CLUSTERPROF": "1",
               "PATH": os.environ["PATH"]}
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *command], cwd=self.path("apps"), env=job,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def answer(self, *command):
        """The same once the machine is fast enough: the prolog has half a second."""
        for _ in range(100):
            said = self.run_prolog(*command)
            if " hang?" not in said:
                break
        return said

    def test_links(self):
        os.makedirs(self.path("etc/prolog.d"))
        os.makedirs(self.path("etc/site"))
        os.symlink(self.prolog, self.path("etc/prolog.d/absolute"))
        os.symlink(f"../../apps/{PLACE}/prolog", self.path("etc/prolog.d/relative"))
        os.symlink("../prolog.d/relative", self.path("etc/site/to_a_link"))
        os.symlink(self.path("etc/site/to_a_link"), self.path("etc/prolog.d/to_a_link_to_a_link"))
        os.symlink("apps", self.path("current"))
        os.symlink(f"../current/{PLACE}/prolog", self.path("etc/by_a_link"))
        for name in (f"apps/{PLACE}/prolog", "etc/prolog.d/absolute", "etc/prolog.d/relative", "etc/site/to_a_link",
                     "etc/prolog.d/to_a_link_to_a_link", "etc/by_a_link"):
            with self.subTest(name):
                self.assertEqual(self.answer(self.path(name)), "warn: found\n")
        self.assertEqual(self.answer("sh", f"{PLACE}/prolog"), "warn: found\n")  # by a relative name

    def test_user_and_groups(self):
        """Those of the user, who may go where only the group may."""
        os.chown(self.path("apps/bin"), 0, GROUP)
        os.chmod(self.path("apps/bin"), 0o750)
        self.program("#!/bin/sh\necho warn: $(id -u) of $(id -G)\n")
        self.assertEqual(self.answer(self.prolog), f"warn: {USER} of 65534 {GROUP}\n")

    def attach(self, start):
        """What the system answers when a process of the user's attaches to what `start` has begun."""
        shared = tempfile.mkdtemp(dir=self.directory)
        os.chmod(shared, 0o777)
        self.program(LASTING.format(shared))
        with subprocess.Popen(as_user(sys.executable, "-c", ATTACH, shared), stdout=subprocess.PIPE, text=True) as user:
            self.assertEqual(user.stdout.readline(), "ready\n")
            start()
            return int(user.stdout.readline())

    def test_other_processes_of_the_user_cannot_attach(self):
        esrch, eperm = 3, 1
        if self.attach(lambda: subprocess.run(as_user(self.clusterprof), check=True)) != 0:
            self.skipTest("nobody may attach to anything here")
        answer = esrch
        for _ in range(10):  # it is there for a second only
            if answer == esrch:
                answer = self.attach(lambda: self.run_prolog(self.prolog))
        self.assertEqual(answer, eperm)


if __name__ == "__main__":
    unittest.main(verbosity=2)
