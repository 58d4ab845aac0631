"""What cpack makes of the build: a .tar.gz that runs anywhere, in containers too, and a .deb."""

import glob
import os
import re
import shutil
import subprocess
import tarfile
import unittest

import installed
import recording

BUILD = recording.BUILD
LIBC = re.compile(r"^(libc|libm|libresolv|libdl|libpthread|librt)\.so\.\d+$|^ld-linux-x86-64\.so\.2$")
MPI = re.compile(r"^lib(mpi|mpich)\.so\.\d+$")


class PackageTest(installed.InstalledTest):
    generator, pattern = "", ""
    missing = None  # why no package can be made here

    @classmethod
    def setUpClass(cls):
        test = cls("make")
        test.setUp()
        cls.addClassCleanup(test.doCleanups)
        try:
            test.make()
        except unittest.SkipTest as why:
            cls.missing = str(why)
        else:
            cls.package = test.package

    def setUp(self):
        super().setUp()
        if self.missing:
            self.skipTest(self.missing)

    def make(self):
        out = os.path.join(self.directory, "packages")
        self.root_command(["bash", "-c", 'umask 077; exec cpack --config "$0/CPackConfig.cmake" -G "$1" -B "$2" '
                           '-D CPACK_DEBIAN_COMPRESSION_TYPE=gzip', BUILD, self.generator, out])
        found = glob.glob(os.path.join(out, self.pattern))
        self.assertEqual(len(found), 1, os.listdir(out))
        self.package = found[0]


class Tarball(PackageTest):
    generator, pattern = "TGZ", "clusterprof-*.tar.gz"

    def make(self):
        self.need("patchelf")
        super().make()
        with tarfile.open(self.package) as archive:
            tops = {name.split("/")[0] for name in archive.getnames()}
            self.assertEqual(len(tops), 1)
            archive.extractall(self.directory)
        # Not where it was packed, nor where it was unpacked.
        type(self).prefix = os.path.join(self.directory, "moved")
        os.rename(os.path.join(self.directory, *tops), self.prefix)
        os.rename(os.path.join(self.directory, "packages", "_CPack_Packages"), os.path.join(self.directory, "hidden"))

    def test_every_user_reads_all_of_it(self):
        self.assertEqual(installed.unreadable_below(self.prefix), [])

    def test_records(self):
        self.assertIn("spin() program.py", self.records(f"{self.prefix}/bin/clusterprof"))

    def test_users_library_path_is_the_users(self):
        """A broken libdw and libfmt on LD_LIBRARY_PATH are the program's affair."""
        broken = os.path.join(self.directory, "broken")
        os.mkdir(broken)
        os.chmod(broken, 0o755)
        for library in ("libdw.so.1", "libfmt.so.9"):
            with open(os.path.join(broken, library), "wb") as file:
                file.write(b"not a library\n")
        done = self.good([f"{self.prefix}/bin/clusterprof", "-o", "path", recording.PYTHON, "-c",
                          "import os; print(os.environ['LD_LIBRARY_PATH'])"], variables={"LD_LIBRARY_PATH": broken})
        self.assertEqual(done.stdout, broken + "\n")
        self.assertIn("clusterprof report path", done.stderr)

    def test_brings_its_libraries(self):
        inside = set(os.listdir(f"{self.prefix}/lib/clusterprof/private"))
        for path in installed.elf_files(self.prefix):
            libraries, search = installed.needed(path)
            missing = [name for name in libraries
                       if not LIBC.match(name) and not MPI.match(name) and name not in inside]
            self.assertEqual(missing, [], path)
            for place in filter(None, search.split(":")):
                self.assertTrue(place.startswith("$ORIGIN"), f"{path}: {search}")
        # What goes into users' programs finds and needs nothing of these.
        for path in glob.glob(f"{self.prefix}/lib/clusterprof/*.so"):
            self.assertEqual(installed.needed(path)[1], "", path)

    def test_needs_the_documented_libc(self):
        with open(os.path.join(recording.SOURCE, "packaging", "README.md"), encoding="utf-8") as file:
            documented = tuple(map(int, re.search(r"with glibc (\d+)\.(\d+) ", file.read()).groups()))
        here = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2]))
        versions = set()
        for path in installed.elf_files(self.prefix):
            versions |= set(re.findall(r"Name: GLIBC_(\d+)\.(\d+)", self.root_command(["readelf", "-VW", path])))
        needed = max(tuple(map(int, version)) for version in versions)
        self.assertGreater(needed, (2, 17))
        self.assertLessEqual(needed, max(documented, here))
        # What goes into users' programs must not keep them from starting where the rest could.
        for path in glob.glob(f"{self.prefix}/lib/clusterprof/libclusterprof_*.so"):
            mine = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", self.root_command(["readelf", "-VW", path]))
            self.assertLessEqual(max([tuple(map(int, version)) for version in mine], default=(2, 0)), needed, path)

    def test_is_stripped(self):
        for path in installed.elf_files(self.prefix):
            sections = self.root_command(["readelf", "-SW", path])
            self.assertNotIn(".debug_info", sections, path)

    def in_container(self, script, bind_prefix=True, bind_runs=True, before=(), apart=()):
        """Runs `script` as an ordinary user where / is a system of its own, as container runtimes for clusters set one
        up: the host's /dev, /proc, network and process ids, the image's everything else and a /tmp of its own."""
        image = os.path.join(self.directory, "image")
        if not os.path.isdir(image):
            self.make_image(image)
        where = "/clusterprof" if bind_prefix else "/nowhere"
        mounts = ["mount --bind $I $I", "mount --rbind /dev $I/dev", "mount --rbind /proc $I/proc",
                  "mount -t tmpfs -o mode=1777 none $I/tmp", f"mount --bind -o ro {self.prefix} $I{where}"]
        if bind_runs:
            mounts.append(f"mount --bind {self.work} $I/runs")
        setup = (f"set -e; I={image}; mount --make-rprivate /; {'; '.join(mounts)}; cd /; "
                 f"exec chroot --userspec={installed.USER}:{installed.USER} $I /bin/bash -c '{script}'")
        return subprocess.run([*before, "unshare", "--mount", *apart, "bash", "-c", setup], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "HOME": "/nonexistent"})

    def make_image(self, image):
        """libc, a shell and a program."""
        for folder in ("bin", "lib64", "dev", "proc", "tmp", "runs", "clusterprof", "nowhere"):
            os.makedirs(os.path.join(image, folder))
            os.chmod(os.path.join(image, folder), 0o755)
        source = os.path.join(self.directory, "spin.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\n__attribute__((noinline)) double busy(long n) {\n  double x = 0;\n"
                       "  for (long i = 1; i < n; ++i) x += 1.0 / i;\n  return x;\n}\n"
                       "int main(void) { printf(\"%.3f\\n\", busy(150000000)); return 7; }\n")
        self.root_command(["gcc", "-g", "-O1", source, "-o", os.path.join(image, "bin", "spin")])
        shutil.copy("/bin/bash", os.path.join(image, "bin", "bash"))
        for line in self.root_command(["ldd", "/bin/bash", os.path.join(image, "bin", "spin")]).splitlines():
            library = re.search(r"(/\S+) \(0x", line)
            if library and not os.path.exists(os.path.join(image, "lib64", os.path.basename(library.group(1)))):
                shutil.copy(library.group(1), os.path.join(image, "lib64"))
        # Debian's loader looks in /lib/x86_64-linux-gnu, but the cache is the image's, which has none.
        os.makedirs(os.path.join(image, "lib"))
        os.symlink("../lib64", os.path.join(image, "lib", "x86_64-linux-gnu"))
        for library in ("libresolv.so.2", "libm.so.6", "libdl.so.2", "libpthread.so.0"):  # of glibc
            shutil.copy(f"/lib/x86_64-linux-gnu/{library}", os.path.join(image, "lib64"))

    def need_containers(self):
        probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"no mount name spaces here: {probe.stderr.strip()}")

    def test_in_a_container(self):
        """In an image that has glibc and nothing else of what clusterprof needs."""
        self.need_containers()
        done = self.in_container("cd /runs; /clusterprof/bin/clusterprof -o inside /bin/spin; echo status $?")
        self.assertIn("status 7", done.stdout, done.stderr)
        self.assertIn("clusterprof report inside", done.stderr)
        report = self.good([f"{self.prefix}/bin/clusterprof", "report", "inside"]).stdout
        self.assertIn("busy() spin.c", report)

    def test_ranks_in_containers_of_their_own(self):
        """They meet through the node's network; with networks of their own the shards are united afterwards."""
        self.need_containers()
        self.need("mpirun.openmpi")
        for run, apart, shards in (("together", (), 1), ("apart", ("--net",), 2)):
            done = self.in_container(f"cd /runs; /clusterprof/bin/clusterprof -o {run} /bin/spin >/dev/null; true",
                                     before=recording.launcher("openmpi", 2), apart=apart)
            self.assertIn("2 ranks on 1 node", done.stderr, done.stdout)
            self.assertEqual(len(glob.glob(f"{self.work}/{run}/node-*.h5")), shards)

    def test_container_without_the_run_directory(self):
        """Where the run cannot be written the program runs unrecorded, as it does outside of containers."""
        self.need_containers()
        done = self.in_container("/clusterprof/bin/clusterprof -o /runs/a /bin/spin; echo status $?", bind_runs=False)
        self.assertRegex(done.stdout, "^[0-9.]+\nstatus 7\n$")
        self.assertRegex(done.stderr, "^clusterprof: [^\n]*/runs/a: [^\n]*; the command runs unrecorded\n$")

    def test_container_without_the_prefix(self):
        self.need_containers()
        done = self.in_container("/clusterprof/bin/clusterprof /bin/spin; echo status $?", bind_prefix=False)
        self.assertIn("status 127", done.stdout)
        self.assertIn("/clusterprof/bin/clusterprof: No such file or directory", done.stderr)


class Deb(PackageTest):
    generator, pattern = "DEB", "clusterprof_*.deb"

    def make(self):
        self.need("dpkg-deb", "dpkg-shlibdeps")
        super().make()
        type(self).root = os.path.join(self.directory, "root")
        os.mkdir(self.root)
        os.chmod(self.root, 0o755)
        self.root_command(["dpkg-deb", "-x", self.package, self.root])

    def field(self, name):
        return self.root_command(["dpkg-deb", "-f", self.package, name]).strip()

    def test_contents(self):
        self.assertEqual(installed.unreadable_below(self.root), [])
        there = installed.files_below(self.root)
        for path in ("usr/bin/clusterprof", "usr/libexec/clusterprof/collector", "usr/include/clusterprof.h",
                     "usr/lib/clusterprof/libclusterprof_agent.so", "usr/share/doc/clusterprof/copyright"):
            self.assertIn(path, there)
        self.assertEqual([path for path in there if not path.startswith("usr/")], [])
        self.assertFalse(os.path.exists(f"{self.root}/usr/lib/clusterprof/private"))

    def test_depends(self):
        depends = self.field("Depends")
        for package in ("libc6", "libfmt9", "libdw1", "libxxhash0", "libdeflate0", "libstdc++6", "zlib1g"):
            self.assertIn(package, depends)
        self.assertNotIn("hdf5", depends)
        for package in ("mpi", "mpich"):  # one of the two at most is of use
            self.assertNotIn(package, depends)
        self.assertRegex(self.field("Suggests"), "libopenmpi3 [|] libmpich12")

    def test_no_maintainer_scripts(self):
        control = os.path.join(self.directory, "control")
        self.root_command(["dpkg-deb", "-e", self.package, control])
        self.assertEqual(sorted(os.listdir(control)), ["control", "md5sums"])

    def test_lintian_finds_no_errors(self):
        self.need("lintian")
        done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", self.package], capture_output=True,
                              text=True, timeout=100)
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("E:")], [], done.stderr)

    def test_runs_where_it_is_unpacked(self):
        self.assertIn("spin() program.py", self.records(f"{self.root}/usr/bin/clusterprof"))


if __name__ == "__main__":
    recording.main()
