"""What is loaded into programs and daemons of others runs with glibc 2.17 and later: an object that needs a version
that is not there cannot be loaded, and a program that is to load it does not start. Programs that were linked with an
older glibc (CLUSTERPROF_SYSROOT, scripts/package --portable) need nothing newer than 2.28, and no library but libc's
and MPI's."""

import os
import re
import shutil
import subprocess
import unittest

import installed
import recording

OLDEST, OLDEST_OF_PROGRAMS = (2, 17), (2, 28)
OBJECTS = os.path.join(recording.BUILD, "lib", "clusterprof")
# There in every release since then; empty from 2.34 on.
LIBRARIES = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
PROGRAM_LIBRARIES = re.compile(r"lib(c|dl|pthread|m|rt|mpi|mpich)\.so\.\d+|ld-linux-x86-64\.so\.2")


def portable_build():
    """A build with CLUSTERPROF_SYSROOT: this one, or that of scripts/package --portable."""
    for build in (recording.BUILD, os.path.join(recording.SOURCE, "build", "portable")):
        try:
            with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
                if re.search(r"^CLUSTERPROF_SYSROOT:\w+=.", file.read(), re.MULTILINE):
                    return build
        except FileNotFoundError:
            continue
    return None


def symbols_of(path):
    return subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout


def newer_than(oldest, listed):
    """([(symbol, version)] that are newer, number of versioned symbols) in what objdump -T listed."""
    needed = re.findall(r"\*UND\*.*\(?GLIBC_([0-9.]+)\)?\s+(\S+)$", listed, re.MULTILINE)
    return [(name, version) for version, name in needed if tuple(map(int, version.split("."))) > oldest], len(needed)


def objects():
    for directory, _, files in os.walk(OBJECTS):
        yield from (os.path.join(directory, name) for name in files if name.endswith(".so"))


class GlibcVersions(unittest.TestCase):
    def test_no_symbol_is_newer(self):
        seen = set()
        for path in objects():
            seen.add(os.path.basename(path))
            listed = symbols_of(path)
            with self.subTest(path):
                newer, needed = newer_than(OLDEST, listed)
                self.assertEqual(newer, [])
                # Else it was not understood what objdump wrote.
                self.assertEqual(needed == 0, os.path.basename(path) == "libclusterprof_start.so", listed)
                self.assertNotIn("GLIBC_PRIVATE", listed)
                self.assertNotRegex(listed, r"\*UND\*.*(GLIBCXX|CXXABI|GCC)_")
        self.assertLessEqual({"libclusterprof_agent.so", "libclusterprof_start.so"}, seen)

    def test_libraries_are_those_of_every_glibc(self):
        for path in objects():
            listed = subprocess.run(["readelf", "-d", "-W", path], capture_output=True, text=True, check=True).stdout
            with self.subTest(path):
                self.assertLessEqual(set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed)), LIBRARIES)

    def test_portable_build(self):
        build = portable_build()
        if build is None:
            self.skipTest("no build with CLUSTERPROF_SYSROOT: scripts/package --portable makes one")
        seen = set()
        for folder in ("bin", "libexec/clusterprof", "lib/clusterprof"):
            for path in installed.elf_files(os.path.join(build, folder)):
                seen.add(os.path.basename(path))
                with self.subTest(path):
                    newer, needed = newer_than(OLDEST_OF_PROGRAMS, symbols_of(path))
                    self.assertEqual(newer, [])
                    self.assertEqual(needed == 0, os.path.basename(path) == "libclusterprof_start.so")
                    libraries, _ = installed.needed(path)
                    self.assertEqual([name for name in libraries if not PROGRAM_LIBRARIES.fullmatch(name)], [])
        self.assertLessEqual({"clusterprof", "collector", "analyze", "doctor", "tui", "libclusterprof_agent.so"}, seen)


class PortablePackage(installed.InstalledTest):
    """What cpack does before it makes a portable package: it refuses to pack what would not run everywhere."""

    def packed(self, *files):
        """Whether a package of these files is made, and what was said."""
        package = os.path.join(self.directory, "package")
        shutil.rmtree(package, ignore_errors=True)
        for folder in ("bin", "share/doc/clusterprof"):
            os.makedirs(os.path.join(package, folder))
        for path in files:
            shutil.copy(path, os.path.join(package, "bin"))
        done = subprocess.run(["cmake", "-DCPACK_GENERATOR=TGZ", "-DCPACK_CLUSTERPROF_PORTABLE=ON",
                               f"-DCPACK_TEMPORARY_DIRECTORY={package}", "-P",
                               os.path.join(recording.SOURCE, "packaging", "finish_package.cmake")],
                              capture_output=True, text=True, timeout=60)
        return done.returncode == 0, done.stderr

    def compiled(self, name, source, *options):
        path = os.path.join(self.directory, name)
        subprocess.run(["cc", "-w", "-x", "c", "-", "-o", path, *options], input=source, text=True, check=True)
        return path

    def test_preloads_are_packed(self):
        self.assertEqual(self.packed(os.path.join(OBJECTS, "libclusterprof_agent.so")), (True, ""))

    def test_newer_symbols_are_refused(self):
        self.need("cc")
        # Whatever glibc is here.
        newer = self.compiled("newer.so", '__asm__(".symver later,gettid@GLIBC_2.30");\n'
                              "int later(void);\nint f(void) { return later(); }\n", "-shared", "-fPIC")
        good, said = self.packed(os.path.join(OBJECTS, "libclusterprof_agent.so"), newer)
        self.assertFalse(good)
        self.assertIn("newer.so needs GLIBC_2.30", " ".join(said.split()))
        self.assertNotIn("libclusterprof_agent.so", said)

    def test_libraries_of_the_distribution_are_refused(self):
        self.need("c++")
        program = self.compiled("program.so", "void f(void) {}\n", "-shared", "-fPIC", "-Wl,--no-as-needed", "-lstdc++")
        good, said = self.packed(program)
        self.assertFalse(good)
        self.assertIn("program.so needs libstdc++.so.6", " ".join(said.split()))


if __name__ == "__main__":
    recording.main()
