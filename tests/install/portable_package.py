#!/usr/bin/env python3
"""A portable package in the root directory of another system, as an ordinary user. install.other_releases runs it where
there are both; see packaging/README.md.

    scripts/package --portable
    tests/install/portable_package.py dist-packages/clusterprof-*-glibc2.28.tar.gz ROOT

ROOT has bash, coreutils and Python 3; nothing in it is changed. Needs root, and build/older-glibc of scripts/package."""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import unittest

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
os.environ.setdefault("CLUSTERPROF_TEST_SOURCE", SOURCE)
os.environ.setdefault("CLUSTERPROF_TEST_BUILD", os.path.join(SOURCE, "build", "portable"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))

import installed  # noqa: E402

OLDER_GLIBC = os.path.join(SOURCE, "build", "older-glibc")
C_PROGRAM = """#include <stdio.h>
__attribute__((noinline)) double busy(long n) {
  double x = 0;
  for (long i = 1; i < n; ++i) x += 1.0 / i;
  return x;
}
int main(void) { printf("%.3f\\n", busy(300000000)); return 7; }
"""
PYTHON_PROGRAM = "def spin(n):\n    return sum(i * i for i in range(n))\nspin(5000000)\nprint('done')\n"


class PortablePackage(installed.InstalledTest):
    package, root = "", ""

    def setUp(self):
        super().setUp()
        self.prefix = os.path.join(self.directory, "clusterprof")
        with tarfile.open(self.package) as archive:
            (top,) = {name.split("/")[0] for name in archive.getnames()}
            archive.extractall(self.directory)
        os.rename(os.path.join(self.directory, top), self.prefix)
        with open(os.path.join(self.work, "spin.py"), "w", encoding="ascii") as file:
            file.write(PYTHON_PROGRAM)
        source = os.path.join(self.work, "spin.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(C_PROGRAM)
        libraries = f"{OLDER_GLIBC}/usr/lib/x86_64-linux-gnu"
        self.root_command(["gcc", "-g", "-O1", f"--sysroot={OLDER_GLIBC}", f"-B{libraries}/", f"-L{libraries}", source,
                           "-o", os.path.join(self.work, "spin")])

    def inside(self, script, before=()):
        """Runs `script` where / is ROOT, below an empty /tmp that has the package and self.work."""
        places = ["$I/proc", "$I/dev", "$I/tmp"]
        setup = (f"set -e; I={self.root}; mount --make-rprivate /; mkdir -p {' '.join(places)}; "
                 "mount --rbind /dev $I/dev; mount --rbind /proc $I/proc; mount -t tmpfs -o mode=1777 none $I/tmp; "
                 "mkdir $I/tmp/clusterprof $I/tmp/work; "
                 f"mount --bind -o ro {self.prefix} $I/tmp/clusterprof; mount --bind {self.work} $I/tmp/work; cd /; "
                 f"exec chroot --userspec={installed.USER}:{installed.USER} $I /bin/bash -c "
                 f"'cd /tmp/work; PATH=/tmp/clusterprof/bin:/usr/bin:/bin; {script}'")
        return subprocess.run([*before, "unshare", "--mount", "bash", "-c", setup], capture_output=True, text=True,
                              timeout=120, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent",
                                                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def succeeds(self, script):
        done = self.inside(script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_file_needs_glibc_2_28_at_most(self):
        seen = set()
        for path in installed.elf_files(self.prefix):
            seen.add(os.path.basename(path))
            listed = self.root_command(["objdump", "-T", path])
            newer = [line for line in listed.splitlines() for version in re.findall(r"GLIBC_(\d+)\.(\d+)", line)
                     if tuple(map(int, version)) > (2, 28)]
            self.assertEqual(newer, [], path)
        self.assertLessEqual({"clusterprof", "collector", "analyze", "doctor", "tui", "libclusterprof_agent.so"}, seen)
        self.assertFalse(os.path.exists(os.path.join(self.prefix, "lib/clusterprof/private")))

    def test_compiled_program(self):
        done = self.inside("clusterprof -r 1000 -o run ./spin")
        self.assertEqual((done.returncode, done.stdout), (7, "20.097\n"), done.stderr)
        self.assertIn("clusterprof report run", done.stderr)
        self.assertIn("busy() spin.c:2", self.succeeds("clusterprof report run"))
        report = json.loads(self.succeeds("clusterprof report --json run"))
        busy = [function for function in report["functions"] if function["name"] == "busy"]
        self.assertEqual(len(busy), 1)
        self.succeeds("clusterprof report run --html page.html")
        with open(os.path.join(self.work, "page.html"), encoding="utf-8") as page:
            self.assertIn("<title>./spin, 1 rank on 1 node", page.read()[:2000])
        self.assertIn("busy", self.succeeds("clusterprof export -f csv -o - run"))
        self.succeeds("clusterprof export -f pprof -o run.pprof run")
        self.succeeds("clusterprof validate run")

    def test_python_program(self):
        self.assertEqual(self.succeeds("clusterprof -r 1000 -o run python3 spin.py"), "done\n")
        self.assertIn("spin() spin.py:1", self.succeeds("clusterprof report run"))

    def test_run_that_is_merged_afterwards(self):
        """Two ranks without a network in common, which therefore have a collector each."""
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("mpirun.openmpi is not here")
        done = self.inside("clusterprof -r 1000 -o run ./spin >/dev/null; true",
                           before=["mpirun.openmpi", "--oversubscribe", "-n", "2", "unshare", "--net"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(glob.glob(f"{self.work}/run/node-*.h5")), 2)
        os.remove(f"{self.work}/run/profile.h5")
        self.succeeds("clusterprof merge run")
        self.assertTrue(os.path.exists(f"{self.work}/run/profile.h5"))
        self.assertIn("2 ranks", self.succeeds("clusterprof report run"))

    def test_doctor(self):
        checks = json.loads(self.inside("clusterprof doctor --json").stdout)["checks"]
        failed = [(check["id"], check["found"]) for check in checks if check["status"] == "fail"]
        self.assertEqual(failed, [])
        self.assertIn("install.libraries", {check["id"] for check in checks})

    def test_terminal_browser_starts(self):
        self.succeeds("clusterprof -q -r 1000 -o run python3 spin.py")
        done = self.inside("clusterprof tui run </dev/null")
        self.assertNotIn("error while loading", done.stderr)
        self.assertNotIn("GLIBC", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("root")
    arguments, others = parser.parse_known_args()
    if os.geteuid() != 0:
        parser.error("needs root, for chroot and mounts")
    PortablePackage.package, PortablePackage.root = map(os.path.realpath, (arguments.package, arguments.root))
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)
