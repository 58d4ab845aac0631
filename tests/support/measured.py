"""The rule by which a test that measures may run more than once. All such tests use it, in Python and C++ (measured.hpp).

Every measurement (a share of time, a sum of seconds) has an error, and a tolerance of several standard deviations of that
error. A run is *inside* if everything that it measured is within its tolerance, else *outside*.

    A first run that is inside passes. After a first run that is outside, two more are made, and both have to be inside.

With `a` the probability that a correct program's run is outside, the test fails wrongly with a * (1 - (1 - a)**2), less
than 2 a**2. With `b` the probability that a wrong program's run is inside, it goes unnoticed with b + (1 - b) * b**2. A
tolerance of three standard deviations has a = 0.0027, so one test in 70,000 fails wrongly; a program that is wrong by six
is inside with b = 0.0013, and noticed in 998.6 of 1000 tests. `probabilities()` computes both, and measured_test.py checks
it against all sequences of outcomes.

Everything else has to be exact: there must be no impossible call path, lost byte, wrong exit status or crash. That is
asserted as usual, and fails the test at once, in whichever run it shows."""

import math
import unittest

MOST_RUNS = 3


class Outside(AssertionError):
    """A measurement is outside its tolerance. This is the only failure after which a test runs again."""


def verdict(outcomes):
    """True (passed), False (failed) or None (run it again). `outcomes` says of each run so far whether it was inside."""
    if outcomes == [] or outcomes in ([False], [False, True]):
        return None
    return outcomes in ([True], [False, True, True])


def probabilities(outside):
    """The probabilities that a test passes and fails, if each of its runs is outside with probability `outside`."""
    passes = (1 - outside) + outside * (1 - outside) ** 2
    return passes, outside * (1 - (1 - outside) ** 2)


def share_error(share, samples):
    """The standard deviation of a share that is estimated from independent samples."""
    return math.sqrt(share * (1 - share) / max(samples, 1))


def block_error(blocks, period_s, seconds):
    """An upper bound for the standard deviation of a share, if samples come once a period and the work consists of blocks
    that are longer than a period: one period of each block is uncertain, half a period on average."""
    return math.sqrt(blocks) * period_s / 2 / seconds


class Run(unittest.TestResult):
    """Keeps what happened in one run of a test, so that it can be repeated to another result."""

    def __init__(self):
        super().__init__()
        self.calls = []  # (name of TestResult's method, arguments)
        self.errors_seen = []  # exceptions

    def keep(self, name, *arguments):
        self.calls.append((name, arguments))

    def addSuccess(self, test):
        self.keep("addSuccess", test)

    def addSkip(self, test, reason):
        self.keep("addSkip", test, reason)

    def addExpectedFailure(self, test, error):
        self.keep("addExpectedFailure", test, error)

    def addUnexpectedSuccess(self, test):
        self.keep("addUnexpectedSuccess", test)
        self.errors_seen.append(AssertionError("unexpected success"))

    def addError(self, test, error):
        self.keep("addError", test, error)
        self.errors_seen.append(error[1])

    def addFailure(self, test, error):
        self.keep("addFailure", test, error)
        self.errors_seen.append(error[1])

    def addSubTest(self, test, subtest, error):
        self.keep("addSubTest", test, subtest, error)
        if error is not None:
            self.errors_seen.append(error[1])

    @property
    def is_inside(self):
        return not self.errors_seen

    @property
    def broke_an_invariant(self):
        return any(not isinstance(error, Outside) for error in self.errors_seen)

    def say(self, result):
        for name, arguments in self.calls:
            getattr(result, name)(*arguments)


class MeasuringTest(unittest.TestCase):
    """A test that compares measurements by `measured_near` and the like, under the rule above. Each of its runs prints
    what it measured."""

    runs = outside_runs = measuring_tests = 0  # of all tests of this process

    def run(self, result=None):
        result = self.defaultTestResult() if result is None else result
        result.startTest(self)
        outcomes = []
        while verdict(outcomes) is None:
            self.attempt, self.compared, self.most_used, self.most_used_by = len(outcomes) + 1, 0, 0.0, ""
            run = Run()
            super().run(run)
            outcomes.append(run.is_inside)
            self.say_run(run)
            if run.broke_an_invariant:
                break
        run.say(result)
        result.stopTest(self)
        return result

    def say_run(self, run):
        if self.compared == 0:
            return
        MeasuringTest.measuring_tests += self.attempt == 1
        MeasuringTest.runs += 1
        MeasuringTest.outside_runs += not run.is_inside
        word = "inside" if run.is_inside else "fails" if run.broke_an_invariant else "outside"
        print(f"measured {self.id()}, run {self.attempt}: {word}, {self.compared} comparisons, at most "
              f"{100 * self.most_used:.0f} % of the tolerance used{self.most_used_by}", flush=True)
        for error in run.errors_seen:
            print(f"  {type(error).__name__}: {error}", flush=True)

    def is_measured(self, used, what):
        """Notes a comparison and which part of its tolerance was used."""
        self.compared += 1
        if used > self.most_used:
            self.most_used, self.most_used_by = used, f" by {what}" if what else ""

    def measured_near(self, seen, expected, tolerance, what=""):
        self.is_measured(abs(seen - expected) / tolerance, what)
        if not abs(seen - expected) <= tolerance:
            raise Outside(f"{what}: {seen:.6g} is not within {tolerance:.6g} of {expected:.6g}")

    def measured_above(self, seen, least, what=""):
        self.is_measured(0.0, what)
        if not seen > least:
            raise Outside(f"{what}: {seen:.6g} is not above {least:.6g}")

    def measured_below(self, seen, most, what=""):
        self.is_measured(0.0, what)
        if not seen < most:
            raise Outside(f"{what}: {seen:.6g} is not below {most:.6g}")


def say_all():
    """One line about all tests of this process."""
    if MeasuringTest.measuring_tests:
        print(f"measured: {MeasuringTest.measuring_tests} tests in {MeasuringTest.runs} runs, "
              f"{MeasuringTest.outside_runs} of them outside", flush=True)
