# SPDX-License-Identifier: BSD-3-Clause
"""Tests that compare_headers.py finds functions of an mpi.h that the specification neither wraps nor lists as
`unwrapped` with a reason, and functions with another signature.

compare_headers_test.py GENERATOR_DIR INCLUDE_DIR
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

INCLUDE = sys.argv.pop()
GENERATOR = pathlib.Path(sys.argv.pop())
SPEC = (GENERATOR.parent / "spec/mpi_functions.toml").read_text()

NEW = "int MPI_New_call(int n, MPI_Comm comm); int PMPI_New_call(int n, MPI_Comm comm);"


def entry(name):
    """The specification's text of a function."""
    start = SPEC.index(f'name = "{name}"\n')
    start = SPEC.rindex("[[function]]", 0, start)
    end = SPEC.find("[[function]]", start + 1)
    return SPEC[start:end if end > 0 else len(SPEC)]


class CompareHeaders(unittest.TestCase):
    def compare(self, more="", spec=SPEC):
        """`more`: what the header declares besides. Returns the exit status and the lines of stderr."""
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "mpi.h").write_text(f"#include_next <mpi.h>\n{more}\n")
            (folder / "spec.toml").write_text(spec)
            done = subprocess.run([sys.executable, GENERATOR / "compare_headers.py", folder, folder / "spec.toml"],
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "C_INCLUDE_PATH": INCLUDE})
            return done.returncode, done.stderr.splitlines()

    def added(self, **fields):
        number = SPEC.count("[[function]]")
        fields = {"name": "MPI_New_call", "chapter": "environment", "class": "management", "since": "4.0",
                  "prototype": "int MPI_New_call(int n, MPI_Comm comm)", **fields}
        return SPEC + f"\n[[function]]\nnumber = {number}\n" + "".join(f'{k} = "{v}"\n' for k, v in fields.items())

    def test_all_agree(self):
        self.assertEqual(self.compare(), (0, []))

    def test_new_function(self):
        self.assertEqual(self.compare(NEW), (1, ["MPI_New_call is not in the specification"]))

    def test_new_function_however_it_is_declared(self):
        for declaration in ("OTHER_DECLSPEC extern int MPI_New_call(int n,\n  MPI_Comm comm)\n  __attribute__((unused));",
                            "MPI_Request *MPI_New_call(void);", "MPI_Aint MPI_New_call(const int a[], ...);",
                            "int MPI_New_call(int (*function)(int, void *), void *state);"):
            with self.subTest(declaration):
                declaration = "#define OTHER_DECLSPEC __attribute__((visibility(\"default\")))\n" + declaration
                self.assertEqual(self.compare(declaration), (1, ["MPI_New_call is not in the specification"]))

    def test_function_that_the_specification_lost(self):
        status, problems = self.compare(spec=SPEC.replace(entry("MPI_Barrier"), entry("MPI_Barrier").replace(
            "MPI_Barrier", "MPI_Barber")))
        self.assertEqual((status, problems[0]), (1, "MPI_Barrier is not in the specification"))

    def test_wrapped_or_not_for_a_reason(self):
        self.assertEqual(self.compare(NEW, self.added(comm="comm")), (0, []))
        self.assertEqual(self.compare(NEW, self.added(unwrapped="it does nothing")), (0, []))
        status, problems = self.compare(NEW, self.added(unwrapped=" "))
        self.assertEqual(status, 1)
        self.assertEqual(problems, ["MPI_New_call is not wrapped, and no reason is given"])

    def test_other_signature(self):
        changed = SPEC.replace(entry("MPI_Barrier"),
                               entry("MPI_Barrier").replace("MPI_Barrier(MPI_Comm comm)",
                                                            "MPI_Barrier(MPI_Comm comm, int n)"))
        self.assertNotEqual(changed, SPEC)
        status, problems = self.compare(spec=changed)
        self.assertEqual((status, len(problems)), (1, 1))
        self.assertIn("MPI_Barrier: the specification says", problems[0])

    def test_arrays_that_only_one_of_them_promises_not_to_change(self):
        # MPI_Pready_list of MPICH 4.0 and of MPI 4.1.
        for ours, theirs in (("int a[]", "const int a[]"), ("const int a[]", "int a[]")):
            declaration = "".join(f"int {name}MPI_New_call(int n, {theirs});\n" for name in ("", "P"))
            with self.subTest(declaration):
                self.assertEqual(self.compare(declaration, self.added(prototype=f"int MPI_New_call(int n, {ours})")), (0, []))

    def test_pmpi_is_missing(self):
        status, problems = self.compare("int MPI_New_call(int n, MPI_Comm comm);", self.added(comm="comm"))
        self.assertEqual((status, problems), (1, ["PMPI_New_call is not declared"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
