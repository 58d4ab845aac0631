"""What is loaded into programs and daemons of others runs with glibc 2.17 and later: an object that needs a version
that is not there cannot be loaded, and a program that is to load it does not start."""

import os
import re
import subprocess
import unittest

import recording

OLDEST = (2, 17)
OBJECTS = os.path.join(recording.BUILD, "lib", "clusterprof")
# There in every release since then; empty from 2.34 on.
LIBRARIES = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def objects():
    for directory, _, files in os.walk(OBJECTS):
        yield from (os.path.join(directory, name) for name in files if name.endswith(".so"))


class GlibcVersions(unittest.TestCase):
    def test_no_symbol_is_newer(self):
        seen = set()
        for path in objects():
            seen.add(os.path.basename(path))
            listed = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
            with self.subTest(path):
                needed = re.findall(r"\*UND\*.*\(?GLIBC_([0-9.]+)\)?\s+(\S+)$", listed, re.MULTILINE)
                newer = [(name, version) for version, name in needed
                         if tuple(map(int, version.split("."))) > OLDEST]
                self.assertEqual(newer, [])
                # Else it was not understood what objdump wrote.
                self.assertEqual(len(needed) == 0, os.path.basename(path) == "libclusterprof_start.so", listed)
                self.assertNotIn("GLIBC_PRIVATE", listed)
                self.assertNotRegex(listed, r"\*UND\*.*(GLIBCXX|CXXABI|GCC)_")
        self.assertLessEqual({"libclusterprof_agent.so", "libclusterprof_start.so"}, seen)

    def test_libraries_are_those_of_every_glibc(self):
        for path in objects():
            listed = subprocess.run(["readelf", "-d", "-W", path], capture_output=True, text=True, check=True).stdout
            with self.subTest(path):
                self.assertLessEqual(set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed)), LIBRARIES)


if __name__ == "__main__":
    recording.main()
