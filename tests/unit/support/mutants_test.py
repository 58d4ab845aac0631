"""scripts/mutants: which mistakes it makes in a text, and a tiny project in which it finds a missing test."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.environ["CLUSTERPROF_TEST_SOURCE"], "scripts", "mutants")

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("mutants", SCRIPT)
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
loader.exec_module(mutants)

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(tiny CXX)
enable_testing()
add_library(tiny tiny.cpp)
add_executable(tiny_check check.cpp)
target_link_libraries(tiny_check tiny)
add_test(NAME tiny COMMAND tiny_check)
"""
CODE = """// 18 or more
bool is_of_age(int years) {
  return years >= 18;
}
"""
CHECK = "bool is_of_age(int years);\nint main() { return %s ? 0 : 1; }\n"


class Mistakes(unittest.TestCase):
    def made(self, line):
        return sorted(mutant.after for mutant in mutants.mutants_of("x.cpp", line))

    def test_operators(self):
        self.assertEqual(self.made("return a < b && c;"), ["return a < b || c;", "return a <= b && c;"])
        self.assertEqual(self.made("return a - b;"), ["return a + b;"])
        self.assertEqual(self.made("return std::min(a, b);"), ["return std::max(a, b);"])
        self.assertEqual(self.made("return x != y;"), ["return x == y;"])

    def test_constants_and_conditions(self):
        self.assertEqual(self.made("int n = 7;"), ["int n = 8;"])
        self.assertEqual(self.made("  if (found) return;"), ["  if (!(found)) return;"])

    def test_statements(self):
        self.assertEqual(self.made("  total += x;"), ["  ;", "  total -= x;"])
        self.assertEqual(self.made("  rows.clear();"), ["  ;"])
        self.assertEqual(self.made("  call(a,\n       b);"), [], "a statement of several lines stays")
        self.assertEqual(self.made("  auto x = f();"), [], "a declaration stays")

    def test_text_that_is_not_an_expression_is_left_alone(self):
        for line in ('say("a < b && 7");', "// a < b", "#if X > 3", "std::vector<int> rows;", "/* 1 + 1 */"):
            with self.subTest(line):
                self.assertEqual([after for after in self.made(line) if after.strip() != ";"], [])


class Round(unittest.TestCase):
    def round(self, check):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in (("CMakeLists.txt", PROJECT), ("tiny.cpp", CODE), ("check.cpp", CHECK % check)):
                with open(os.path.join(directory, name), "w") as file:
                    file.write(text)
            subprocess.run(["cmake", "-G", "Ninja", "-B", "build"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["cmake", "--build", "build"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
            done = subprocess.run([SCRIPT, "--build", "build", "--label", "", "tiny.cpp"], cwd=directory,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(os.path.join(directory, "tiny.cpp")) as file:
                self.assertEqual(file.read(), CODE)
            self.assertEqual(subprocess.run([os.path.join(directory, "build", "tiny_check")]).returncode, 0,
                             "the folder is as it was")
            return done.stdout

    def test_missing_tests_are_found(self):
        said = self.round("is_of_age(30) && !is_of_age(3)")
        self.assertIn("survived: tiny.cpp:3: comparison\n  - return years >= 18;\n  + return years > 18;\n", said)
        self.assertIn("survived: tiny.cpp:3: constant\n  - return years >= 18;\n  + return years >= 19;\n", said)
        self.assertIn("2 mistakes: 0 noticed, 2 survived, 0 do not compile\n", said)

    def test_none_survives_where_both_sides_of_the_bound_are_tested(self):
        self.assertIn("2 mistakes: 2 noticed, 0 survived", self.round("is_of_age(18) && !is_of_age(17)"))


if __name__ == "__main__":
    unittest.main()
