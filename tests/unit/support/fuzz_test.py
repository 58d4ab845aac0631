# SPDX-License-Identifier: BSD-3-Clause
"""scripts/fuzz: what it reads in the output of libFuzzer, and what it does with targets that end in different ways."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
SCRIPT = os.path.join(SOURCE, "scripts", "fuzz")

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("fuzz", SCRIPT)
spec = importlib.util.spec_from_loader("fuzz", loader)
fuzz = importlib.util.module_from_spec(spec)
sys.modules["fuzz"] = fuzz  # dataclasses look there
loader.exec_module(fuzz)

ENDED = """INFO: Seed: 1
#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb
#4096\tpulse  cov: 12 ft: 14 corp: 3/9b lim: 4 exec/s: 2048 rss: 31Mb
Done 8192 runs in 3 second(s)
stat::number_of_executed_units: 8192
stat::average_exec_per_sec:     2730
stat::new_units_added:          7
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              42
"""
OVERFLOW = """#77\tNEW    cov: 5 ft: 5 corp: 2/2b
==9==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000011 at pc 0x1 bp 0x2 sp 0x3
READ of size 1 at 0x602000000011 thread T0
SUMMARY: AddressSanitizer: heap-buffer-overflow tables.cpp:12:3 in read_table
"""
UNDEFINED = """cfi.cpp:31:9: runtime error: signed integer overflow: 9 * 9 cannot be represented in type 'int'
SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior cfi.cpp:31:9 in
"""
SLOW = """ALARM: working on the last Unit for 61 seconds
==9== ERROR: libFuzzer: timeout after 61 seconds
SUMMARY: libFuzzer: timeout
stat::number_of_executed_units: 500
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"  # in a container nobody may wait for it
    except FileNotFoundError:
        return False


class Output(unittest.TestCase):
    def test_statistics_at_the_end(self):
        self.assertEqual(fuzz.statistics_of(ENDED), (8192, 7, 42))

    def test_without_them_what_was_said_last_counts(self):
        self.assertEqual(fuzz.statistics_of(OVERFLOW), (77, 0, 0))
        self.assertEqual(fuzz.statistics_of(""), (0, 0, 0))

    def test_reasons(self):
        self.assertEqual(fuzz.reason_of(ENDED, 0), "")
        self.assertEqual(fuzz.reason_of(OVERFLOW, 1), "AddressSanitizer: heap-buffer-overflow tables.cpp:12:3 in read_table")
        self.assertEqual(fuzz.reason_of(UNDEFINED, 1), "cfi.cpp:31:9: runtime error: signed integer overflow: 9 * 9 cannot be "
                                                       "represented in type 'int'")
        self.assertEqual(fuzz.reason_of(SLOW, 70), "libFuzzer: timeout after 61 seconds")
        self.assertEqual(fuzz.reason_of("cannot read the golden profile\n", 1), "status 1")
        self.assertEqual(fuzz.reason_of("", -9), "signal 9")


class Targets(unittest.TestCase):
    def test_are_those_of_the_tree(self):
        names = fuzz.names_of_targets(SOURCE)
        with open(os.path.join(SOURCE, "tests/fuzz/CMakeLists.txt"), encoding="utf-8") as file:
            text = file.read()
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            self.assertRegex(text, rf"(clusterprof_input_fuzzer\(|foreach\(name [\w ]*)\b{name}\b")
        self.assertEqual(len(set(names)), len(names))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        os.makedirs(os.path.join(self.build, "tests/fuzz"))

    def target(self, name, script):
        path = os.path.join(self.build, "tests/fuzz", f"fuzz_{name}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)

    def fuzz(self, *arguments):
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--no-build", "--build", self.build, "--seconds", "7", *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_one_that_finds_nothing(self):
        self.target("words", f"cat <<'END'\n{ENDED}END\necho \"$@\" >arguments")
        code, out, err = self.fuzz("words")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"\| `words` \| 8,192 \| \d+ \| [\d,.]+ \| 7 \| 42 \| nothing \|")
        with open(os.path.join(self.build, "tests/fuzz/arguments"), encoding="utf-8") as file:
            arguments = file.read()
        self.assertIn("-max_total_time=7 ", arguments)
        # What is new is written into the first folder, which is there.
        folders = [word for word in arguments.split() if not word.startswith("-")]
        self.assertEqual(folders, [os.path.join(self.build, "kept/words"), os.path.join(self.build, "tests/fuzz/seeds/words")])
        self.assertTrue(os.path.isdir(folders[0]))

    def test_one_that_finds_something_and_one_that_goes_on(self):
        self.target("doctor", f"cat <<'END'\n{ENDED}END")
        self.target("tables", f"cat <<'END'\n{OVERFLOW}END\n: >\"$(echo \"$@\" | sed 's/.*-artifact_prefix=//; s/ .*//')crash-1\"; exit 1")
        code, out, _ = self.fuzz("tables", "doctor")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"\| `doctor` \| 8,192 .* nothing \|")
        self.assertRegex(out, r"\| `tables` \| 77 .* AddressSanitizer: heap-buffer-overflow tables.cpp:12:3 in read_table \|")
        self.assertIn(f"tables: {self.build}/found/tables-crash-1\n", out)
        self.assertIn(f"tables: see {self.build}/tables.log\n", out)
        self.assertNotIn("doctor: ", out)

    def test_what_a_target_has_started_ends_with_it(self):
        self.target("words", "sleep 1000 & echo $! >child")
        self.assertEqual(self.fuzz("words")[0], 0)
        with open(os.path.join(self.build, "tests/fuzz/child"), encoding="utf-8") as file:
            child = int(file.read())
        until = time.monotonic() + 60
        while is_alive(child):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def test_no_target_of_that_name(self):
        code, _, err = self.fuzz("nothing")
        self.assertEqual(code, 2)
        self.assertIn("there is no target nothing; there are segment, shard, profile, analysis", err)


if __name__ == "__main__":
    unittest.main()
