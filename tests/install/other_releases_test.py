"""Programs of other releases of Linux, in root directories of theirs: ctest -R install.other_releases. Such a root has sh and
coreutils; nothing in it is changed:

    debootstrap --variant=minbase --include=python3 bullseye /srv/chroot/bullseye

Looked for are CLUSTERPROF_TEST_ROOTS (directories, separated by colons), or else those in /srv/chroot. Without any, or without
the right to mount, the tests are skipped."""

import glob
import os
import subprocess
import sys

import recording

BUILD = os.path.realpath(recording.BUILD)
OURS = os.path.join(BUILD, "lib", "clusterprof")
PROGRAM = "echo out; echo err >&2; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo ${LD_PRELOAD:+preloaded}; exit 5"


def roots():
    given = os.environ.get("CLUSTERPROF_TEST_ROOTS")
    found = given.split(":") if given is not None else sorted(glob.glob("/srv/chroot/*"))
    return [root for root in found if os.path.exists(os.path.join(root, "bin", "sh"))]


class OtherReleases(recording.RecordingTest):
    def setUp(self):
        super().setUp()
        if not roots():
            self.skipTest("no root directory of another release is here")
        if os.geteuid() != 0:
            self.skipTest("chroot is not permitted")

    def seen(self, root, with_ours):
        """The root directory below an overlay, with /proc, and with our preload objects or without; and the command that
        mounts all that for what follows it."""
        place = os.path.join(self.directory, f"{os.path.basename(root)}-{with_ours}")
        top = os.path.join(place, "top")
        for name in ("top", "upper", "work"):
            os.makedirs(os.path.join(place, name), exist_ok=True)
        ours = f"mkdir -p {top}{OURS}; mount --bind -o ro {OURS} {top}{OURS}; " if with_ours else ""
        setup = (f"set -e; mount --make-rprivate /; "
                 f"mount -t overlay none -o lowerdir={root},upperdir={place}/upper,workdir={place}/work {top}; "
                 f'mkdir -p {top}/proc; mount --rbind /proc {top}/proc; {ours}exec "$@"')
        before = ["unshare", "--mount", "sh", "-c", setup, "sh"]
        if subprocess.run([*before, "true"], capture_output=True).returncode != 0:
            self.skipTest("overlays cannot be mounted here")
        return top, before

    def compared(self, root, with_ours):
        """The row of the process that ran the other release's shell."""
        top, before = self.seen(root, with_ours)
        run = f"{os.path.basename(root)}-run-{with_ours}"
        command = ["sh", "-c", '"$@"; exit $?', "sh", "chroot", top, "/bin/sh", "-c", PROGRAM]
        bare = self.bare([*before, *command])
        recorded = self.record(command, before=before, options=["-q"], run=run)
        self.assertEqual((bare.returncode, bare.stdout, bare.stderr), (5, b"out\n\n", b"err\n"))
        self.assertEqual((recorded.returncode, recorded.stderr), (5, b"err\n"))
        self.assertEqual(recorded.stdout, b"out\npreloaded\n" if with_ours else b"out\n\n")
        report = self.report(run)
        self.assertTrue(report["run"]["complete"])
        row, = [row for row in report["processes"] if row["command"][:2] == ["/bin/sh", "-c"]]
        return row

    def test_our_objects_are_seen(self):
        for root in roots():
            with self.subTest(root):
                row = self.compared(root, True)
                self.assertIsNone(row["unrecorded"])
                self.assertGreater(row["cpu_s"], 0)

    def test_our_objects_are_not_seen(self):
        for root in roots():
            with self.subTest(root):
                self.assertEqual(self.compared(root, False)["unrecorded"], "not_visible")

    def test_portable_package(self):
        packages = glob.glob(os.path.join(recording.SOURCE, "dist-packages", "clusterprof-*-glibc*.tar.gz"))
        if not packages or not os.path.isdir(os.path.join(recording.SOURCE, "build", "older-glibc")):
            self.skipTest("no portable package was made: scripts/package --portable")
        newest = max(packages, key=os.path.getmtime)
        with_python = [root for root in roots() if os.path.exists(os.path.join(root, "usr", "bin", "python3"))]
        for root in with_python:
            with self.subTest(root):
                done = subprocess.run([sys.executable, "-B", os.path.join(recording.SOURCE, "tests", "install", "portable_package.py"),
                                       newest, root], capture_output=True, text=True, timeout=600)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    recording.main()
