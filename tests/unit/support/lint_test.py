"""scripts/lint: what it analyses, which findings it lets pass, and a tiny project in which it finds a mistake."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["CLUSTERPROF_TEST_SOURCE"]
SCRIPT = os.path.join(SOURCE, "scripts", "lint")

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("lint", SCRIPT)
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
loader.exec_module(lint)


def unit(file, output, *arguments):
    return lint.Unit(file, {"directory": "/b", "file": f"/b/{file}", "command": " ".join(["c++", *arguments])}, output)


class Explained(unittest.TestCase):
    def test_a_reason_is_for_all_entries_above_it(self):
        entries, wrong = lint.read_explained("# text\nbugprone-x a/*.cpp\ncert-y b.cpp: while (!done)\n  Because\n  of this.\n")
        self.assertEqual(wrong, [])
        self.assertEqual([(e.check, e.pattern, e.text, e.reason) for e in entries],
                         [("bugprone-x", "a/*.cpp", "", "Because of this."),
                          ("cert-y", "b.cpp", "while (!done)", "Because of this.")])

    def test_an_entry_without_a_reason_is_wrong(self):
        for text in "bugprone-x a.cpp", "bugprone-x a.cpp\n\n", "#\nbugprone-x a.cpp\n# not a reason\n":
            with self.subTest(text):
                self.assertEqual(len(lint.read_explained(text)[1]), 1)
        self.assertEqual(len(lint.read_explained("x a.cpp\n  Why.\ny b.cpp\n")[1]), 1)

    def test_a_line_of_another_form_is_wrong(self):
        self.assertEqual(len(lint.read_explained("bugprone-x\n  Why.\n")[1]), 2)  # nor has the reason an entry
        self.assertEqual(len(lint.read_explained("  Why.\n")[1]), 1)

    def test_an_entry_explains_its_check_in_its_files_and_lines_only(self):
        entry = lint.read_explained("bugprone-* a/*.cpp: loop()\n  Why.")[0][0]
        finding = lint.Finding("a/b/c.cpp", 3, 1, "bugprone-x", "message")
        self.assertTrue(entry.explains(finding, "  loop();"))
        self.assertTrue(entry.explains(finding._replace(message="in loop()"), ""))
        self.assertFalse(entry.explains(finding, "  other();"))
        self.assertFalse(entry.explains(finding._replace(check="cert-x"), "  loop();"))
        self.assertFalse(entry.explains(finding._replace(file="b/c.cpp"), "  loop();"))

    def test_the_file_of_the_tree_is_in_order(self):
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--check-explained"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


class Findings(unittest.TestCase):
    def test_only_of_files_that_are_analysed(self):
        output = ("/r/a.cpp:3:5: warning: bad: very [bugprone-x,cert-y]\n    code [i]\n/r/a.cpp:2:1: note: here\n"
                  "b/c.h:1:1: error: worse [clang-diagnostic-error]\n/usr/include/d.h:1:1: warning: theirs [bugprone-x]\n"
                  "/r/tests/t.cpp:1:1: warning: meant [bugprone-x]\n3 warnings generated.\n")
        self.assertEqual(lint.findings_in(output, "/r"),
                         [lint.Finding("a.cpp", 3, 5, "bugprone-x", "bad: very"),
                          lint.Finding("b/c.h", 1, 1, "clang-diagnostic-error", "worse")])


class Compilations(unittest.TestCase):
    def test_each_way_of_compiling_a_source_once_and_no_copies_for_tests(self):
        def entry(file, output, *arguments):
            return {"directory": "/r/build/x", "file": f"/r/{file}", "command": " ".join(["c++", *arguments, "-o", output])}

        database = [entry("a.cpp", "a.o"), entry("a.cpp", "again.o"), entry("a.cpp", "tests/a.o", "-g"),
                    entry("m.cpp", "open.o", "-DOPEN"), entry("m.cpp", "mpich.o", "-DMPICH"), entry("tests/t.cpp", "t.o"),
                    entry("../other/o.cpp", "o.o")]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
                json.dump(database, file)
            self.assertEqual([one.output for one in lint.units_of("/r", folder)], ["a.o", "open.o", "mpich.o"])

    def test_a_unity_build_is_refused(self):
        database = [{"directory": "/r/build/x", "file": "/r/build/x/CMakeFiles/a.dir/Unity/unity_0_cxx.cxx", "command": "c++ -o u.o"}]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
                json.dump(database, file)
            with self.assertRaisesRegex(SystemExit, "CLUSTERPROF_UNITY"):
                lint.units_of("/r", folder)

    def test_a_header_is_seen_through_its_own_source_or_else_the_smallest(self):
        units = [unit("big.cpp", "big.o"), unit("x.cpp", "x.o"), unit("small.cpp", "small.o")]
        deps = {"big.o": ["big.cpp", "x.h", "y.h", "z.h"], "x.o": ["x.cpp", "x.h", "y.h", "w.h"], "small.o": ["small.cpp", "y.h"]}
        self.assertEqual(lint.chosen(units, deps, ["x.h"]), ([units[1]], []))
        self.assertEqual(lint.chosen(units, deps, ["y.h"]), ([units[2]], []))
        self.assertEqual(lint.chosen(units, deps, ["z.h", "big.cpp"]), ([units[0]], []))
        self.assertEqual(lint.chosen(units, deps, ["nowhere.h"]), ([], ["nowhere.h"]))


class TinyProject(unittest.TestCase):
    """A checkout with one mistake, without cmake."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)
        os.makedirs(os.path.join(self.root, "scripts"))
        shutil.copy(SCRIPT, os.path.join(self.root, "scripts"))
        shutil.copy(os.path.join(SOURCE, ".clang-tidy"), self.root)
        self.write("scripts/lint-explained", "")
        self.write("bad.cpp", "int divided(int by) {\n  int zero = 0;\n  if (by > 3) return by / zero;\n  return 0;\n}\n")
        self.write("good.cpp", "int one() { return 1; }\n")
        database = [{"directory": self.root, "file": name, "command": f"c++ -std=c++20 -o {name}.o -c {name}"}
                    for name in ("bad.cpp", "good.cpp")]
        self.write("build/release/compile_commands.json", json.dumps(database))

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=n", "-c", "user.email=e", *arguments], check=True,
                       capture_output=True)

    def lint(self, *arguments):
        done = subprocess.run([sys.executable, "-B", os.path.join(self.root, "scripts/lint"), *arguments], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    @unittest.skipUnless(shutil.which("clang-tidy") and shutil.which("cppcheck"), "needs clang-tidy and cppcheck")
    def test_a_mistake_must_be_explained_and_an_explanation_needed(self):
        code, out, err = self.lint()
        self.assertEqual(code, 1, err)
        self.assertIn("bad.cpp:3:25: Division by zero [clang-analyzer-core.DivideZero]", out)
        self.assertIn("[cppcheck-zerodiv]", out)
        explained = "".join(f"{line.rsplit('[', 1)[1][:-1]} bad.cpp: {text.strip()}\n" for line, text in
                            zip(out.splitlines()[::2], out.splitlines()[1::2])) + "  It is a test.\n"
        self.write("scripts/lint-explained", explained)
        self.assertEqual(self.lint(), (0, "", "2 compilations: 0 findings without an explanation, "
                                              f"{explained.count('bad.cpp')} explained\n"))
        self.write("scripts/lint-explained", explained + "cert-err33-c bad.cpp\n  Not needed.\n")
        code, out, _ = self.lint()
        self.assertEqual(code, 1)
        self.assertIn("no finding needs this any more: cert-err33-c bad.cpp", out)
        # Nobody knows about the checks of a tool that was not run.
        self.assertEqual(self.lint("--tool", "cppcheck")[:2], (0, ""))
        self.assertIn("no finding needs this any more: cert-err33-c bad.cpp", self.lint("--tool", "clang-tidy")[1])

    @unittest.skipUnless(shutil.which("cppcheck"), "needs cppcheck")
    def test_only_what_was_changed_since_a_commit(self):
        self.git("init", "-q", "-b", "main")
        self.git("add", "bad.cpp", "good.cpp")
        self.git("commit", "-q", "-m", "begin")
        self.write("good.cpp", "int two() { return 2; }\n")
        code, out, err = self.lint("--since", "main", "--tool", "cppcheck")
        self.assertEqual((code, out), (0, ""))
        self.assertIn("1 compilations: 0 findings", err)
        with open(os.path.join(self.root, "bad.cpp"), "a", encoding="utf-8") as file:
            file.write("// changed\n")
        code, out, err = self.lint("--since", "main", "--tool", "cppcheck")
        self.assertEqual(code, 1)
        self.assertIn("2 compilations:", err)

    @unittest.skipUnless(shutil.which("cppcheck") and shutil.which("c++"), "needs cppcheck and a compiler")
    def test_nothing_is_analysed_twice_though_nothing_was_built(self):
        def kept():
            folder = os.path.join(self.root, "build/release/lint")
            return {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in os.listdir(folder)}

        self.write("with blank.h", "inline int three() { return 3; }\n")
        self.write("good.cpp", '#include "with blank.h"\nint two() { return three() - 1; }\n')
        self.assertEqual(self.lint("--tool", "cppcheck")[0], 1)
        first = kept()
        self.assertEqual(len(first), 2)
        code, out, _ = self.lint("--tool", "cppcheck")
        self.assertEqual(code, 1)
        self.assertIn("[cppcheck-zerodiv]", out)
        self.assertEqual(kept(), first)
        # A header shows through what includes it, and changes what that was analysed with.
        self.write("with blank.h", "inline int three() { return 4 / 1; }\n")
        code, _, err = self.lint("--tool", "cppcheck", os.path.join(self.root, "with blank.h"))
        self.assertIn("1 compilations:", err)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(kept()), 3)

    def test_a_folder_of_its_own_where_the_release_compiles_several_sources_as_one(self):
        self.write("build/release/compile_commands.json", json.dumps(
            [{"directory": self.root, "file": "/b/CMakeFiles/a.dir/Unity/unity_0_cxx.cxx", "command": "c++ -o u.o"}]))
        self.write("bin/cmake", '#!/bin/sh\necho "$@" >"$CALLS/cmake"; mkdir -p build/lint; echo "[]" >build/lint/compile_commands.json')
        self.write("bin/ninja", '#!/bin/sh\necho "$@" >>"$CALLS/ninja"; case "$*" in *targets*)\n'
                                'printf "generated/a.hpp: CUSTOM_COMMAND\\nx.o: CXX_COMPILER\\ngenerated/b.cpp: CUSTOM_COMMAND\\n"; esac')
        for name in "cmake", "ninja":
            os.chmod(os.path.join(self.root, "bin", name), 0o755)
        done = subprocess.run([sys.executable, "-B", os.path.join(self.root, "scripts/lint")], capture_output=True, text=True,
                              check=False, env={**os.environ, "CALLS": self.root,
                                                "PATH": os.path.join(self.root, "bin") + ":" + os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stderr), (0, "0 compilations: 0 findings without an explanation, 0 explained\n"))
        build = os.path.join(self.root, "build/lint")
        with open(os.path.join(self.root, "cmake"), encoding="utf-8") as file:
            self.assertIn(f"--preset release -B {build} -DCLUSTERPROF_UNITY=OFF", file.read())
        with open(os.path.join(self.root, "ninja"), encoding="utf-8") as file:
            self.assertIn(f"-C {build} generated/a.hpp generated/b.cpp\n", file.read())


if __name__ == "__main__":
    unittest.main()
