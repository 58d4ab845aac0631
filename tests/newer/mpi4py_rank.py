# SPDX-License-Identifier: BSD-3-Clause
"""One rank of mpi4py's own tests: mpi4py_rank.py TESTS RESULTS ARGUMENTS-OF-MAIN... Writes RESULTS.RANK, the outcome of
each test by name."""
import json
import sys
import unittest

folder, results, *arguments = sys.argv[1:]
outcomes = {}


class Result(unittest.TextTestResult):
    def startTest(self, test):
        outcomes[test.id()] = "began"
        super().startTest(test)

    def stopTest(self, test):
        if outcomes[test.id()] == "began":
            outcomes[test.id()] = "passed"
        super().stopTest(test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        outcomes[test.id()] = "skipped"

    def addFailure(self, test, error):
        super().addFailure(test, error)
        outcomes[test.id()] = "failed"

    def addError(self, test, error):
        super().addError(test, error)
        outcomes[test.id()] = "failed"

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            outcomes[test.id()] = "failed"

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        outcomes[test.id()] = "failed as expected"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        outcomes[test.id()] = "passed unexpectedly"


sys.path.insert(0, folder)
sys.dont_write_bytecode = True
status = 0
try:
    import main
    main.main(module=None, argv=["main.py", "--no-builddir", *arguments],
              testRunner=unittest.TextTestRunner(resultclass=Result, verbosity=0))
except SystemExit as end:
    status = end.code
from mpi4py import MPI

with open(f"{results}.{MPI.COMM_WORLD.Get_rank()}", "w", encoding="utf-8") as file:
    json.dump(outcomes, file)
sys.exit(status)
