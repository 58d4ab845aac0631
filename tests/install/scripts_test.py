"""scripts/setup and scripts/build where packages cannot be installed, and with a PREFIX that cannot be preloaded from;
scripts/older-glibc where it cannot download what it is to."""

import os
import re
import shutil
import stat
import subprocess
import unittest

import installed
import recording

SCRIPTS = os.path.join(recording.SOURCE, "scripts")


class Scripts(installed.InstalledTest):
    def setUp(self):
        super().setUp()
        # A machine on which no package is installed, and apt-get would install anything.
        self.commands = os.path.join(self.directory, "bin")
        os.mkdir(self.commands)
        for name in ("bash", "sh", "env"):
            os.symlink(shutil.which(name), os.path.join(self.commands, name))
        self.command("dpkg-query", "exit 1")
        self.command("apt-get", "echo apt-get \"$@\"")
        self.setup = os.path.join(self.directory, "setup")
        shutil.copy(os.path.join(SCRIPTS, "setup"), self.setup)

    def command(self, name, text):
        path = os.path.join(self.commands, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)

    def setup_as_user(self, *words):
        return self.user(["/usr/bin/env", f"PATH={self.commands}", self.setup, *words])

    def test_who_may_not_install_builds_with_what_is_there(self):
        done = self.setup_as_user("--build")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("libhdf5-dev", done.stderr)
        self.assertIn("building with what is there", done.stderr)
        for of_tests in ("man-db", "chromium", "slurmctld", "libgtest-dev"):
            self.assertNotIn(of_tests, done.stderr)

    def test_who_may_not_install_cannot_run_the_tests(self):
        done = self.setup_as_user()
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("chromium", done.stderr)

    def test_newer_surroundings_need_no_browser_and_no_slurm(self):
        done = self.setup_as_user("--newer")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        for name in ("libhdf5-dev", "libgtest-dev", "libffi-dev"):
            self.assertIn(name, done.stderr)
        for name in ("chromium", "slurmctld"):
            self.assertNotIn(name, done.stderr)

    def test_fuzzing_needs_clang_and_its_run_time_alone(self):
        done = self.setup_as_user("--fuzz")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        missing = done.stderr.split()
        for name in ("libhdf5-dev", "clang", "libclang-rt-dev"):
            self.assertIn(name, missing)
        for name in ("chromium", "slurmctld", "libgtest-dev"):
            self.assertNotIn(name, missing)

    def test_sudo_that_would_ask_is_not_waited_for(self):
        self.command("sudo", "[ \"$1\" = -n ] && exit 1; sleep 60")
        self.assertEqual(self.setup_as_user("--build").returncode, 0)

    def test_sudo_that_refuses_at_a_terminal_is_no_error_of_a_build(self):
        self.command("sudo", "exit 1")
        ours, terminal = os.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, terminal)
        done = self.user(["/usr/bin/env", f"PATH={self.commands}", self.setup, "--build"], stdin=terminal)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("building with what is there", done.stderr)

    def test_prefix_that_cannot_be_preloaded_from_is_refused(self):
        for prefix in ("/opt/a b", "/opt/a:b"):
            done = subprocess.run([os.path.join(SCRIPTS, "build"), prefix], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(f"'{prefix}' has a blank or a colon", done.stderr)

    def older_glibc(self, mirror, directory):
        return self.user([os.path.join(SCRIPTS, "older-glibc"), directory],
                         variables={"CLUSTERPROF_DEBIAN_MIRROR": f"file://{mirror}"})

    def test_older_glibc_is_the_one_that_was_checked(self):
        self.need("curl", "dpkg-deb")
        mirror = os.path.join(self.directory, "mirror")
        with open(os.path.join(SCRIPTS, "older-glibc"), encoding="utf-8") as script:
            packages = re.findall(r'"(pool/\S+\.deb) [0-9a-f]{64}"', script.read())
        self.assertEqual(len(packages), 2)
        for package in packages:
            os.makedirs(os.path.dirname(os.path.join(mirror, package)), exist_ok=True)
            with open(os.path.join(mirror, package), "wb") as file:
                file.write(b"!<arch>\n")
        target = os.path.join(self.work, "older-glibc")
        done = self.older_glibc(mirror, target)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(f"older-glibc: {packages[0]} is not the file that was checked", done.stderr)
        self.assertFalse(os.path.exists(target))

    def test_older_glibc_that_cannot_be_downloaded_is_said(self):
        self.need("curl", "dpkg-deb")
        done = self.older_glibc(os.path.join(self.directory, "nothing"), os.path.join(self.work, "older-glibc"))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, "older-glibc: cannot download pool/main/g/glibc/libc6_")

    def test_older_glibc_is_downloaded_once(self):
        target = os.path.join(self.work, "older-glibc")
        os.mkdir(target)
        with open(os.path.join(target, "complete"), "w", encoding="ascii"):
            pass
        done = self.older_glibc(os.path.join(self.directory, "nothing"), target)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
