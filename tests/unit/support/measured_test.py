"""The rule by which tests that measure are run again (tests/support/measured.py)."""

import contextlib
import io
import itertools
import unittest

import measured
from measured import MeasuringTest


def tried(runs):
    """The result of a test whose runs do what `runs` says, how many of them there were, and what was printed."""
    class Tried(MeasuringTest):
        left = list(runs)
        done = 0

        def runTest(self):
            type(self).done += 1
            self.left.pop(0)(self)

    result, printed = unittest.TestResult(), io.StringIO()
    counts = MeasuringTest.runs, MeasuringTest.outside_runs, MeasuringTest.measuring_tests
    with contextlib.redirect_stdout(printed):
        Tried().run(result)
    MeasuringTest.runs, MeasuringTest.outside_runs, MeasuringTest.measuring_tests = counts
    return result, Tried.done, printed.getvalue()


def inside(test):
    test.measured_near(1.5, 1, 1, "a share")


def outside(test):
    test.measured_near(3, 1, 1, "a share")


def outside_in_a_part(test):
    with test.subTest("first"):
        test.measured_above(1, 2)
    with test.subTest("second"):
        test.measured_below(1, 2)


def broken(test):
    test.assertEqual(1, 2)


def broken_beside(test):
    with test.subTest("first"):
        outside(test)
    with test.subTest("second"):
        broken(test)


def crashed(test):
    raise ValueError


def skipped(test):
    test.skipTest("not here")


class Rule(unittest.TestCase):
    def test_one_run_that_is_inside_passes(self):
        result, runs, printed = tried([inside])
        self.assertTrue(result.wasSuccessful())
        self.assertEqual((runs, result.testsRun), (1, 1))
        self.assertIn("run 1: inside, 1 comparisons, at most 50 % of the tolerance used by a share", printed)

    def test_after_one_outside_two_have_to_be_inside(self):
        for runs, passes in (([outside, inside, inside], True), ([outside, outside], False),
                             ([outside, inside, outside], False), ([outside_in_a_part, inside, inside], True),
                             ([outside_in_a_part, outside], False)):
            result, done, printed = tried(runs)
            self.assertEqual(result.wasSuccessful(), passes)
            self.assertEqual((done, result.testsRun), (len(runs), 1))
            self.assertEqual(printed.count(": outside, "), len([run for run in runs if run != inside]))

    def test_failed_invariant_is_not_tried_again(self):
        for runs in ([broken], [crashed], [broken_beside], [outside, broken], [outside, inside, crashed]):
            result, done, _ = tried(runs)
            self.assertFalse(result.wasSuccessful())
            self.assertEqual(done, len(runs))

    def test_a_test_that_cannot_run_is_skipped(self):
        result, done, printed = tried([skipped])
        self.assertEqual(([reason for _, reason in result.skipped], done, printed), (["not here"], 1, ""))

    def test_a_value_that_is_not_a_number_is_outside(self):
        with self.assertRaises(measured.Outside):
            MeasuringTest.measured_near(tested(), float("nan"), 1, 1)

    def test_probabilities_are_those_of_all_outcomes(self):
        for outside_probability in (0.0, 0.0027, 0.1, 0.5, 1.0):
            passes = fails = 0.0
            for outcomes in itertools.product((True, False), repeat=measured.MOST_RUNS):
                probability = 1.0
                for is_inside in outcomes:
                    probability *= 1 - outside_probability if is_inside else outside_probability
                taken = next(measured.verdict(list(outcomes[:n])) for n in range(1, measured.MOST_RUNS + 1)
                             if measured.verdict(list(outcomes[:n])) is not None)
                passes, fails = (passes + probability, fails) if taken else (passes, fails + probability)
            for seen, expected in zip(measured.probabilities(outside_probability), (passes, fails)):
                self.assertAlmostEqual(seen, expected, places=12)

    def test_what_the_rule_promises(self):
        self.assertLess(measured.probabilities(0.0027)[1], 1 / 68_000)
        self.assertLess(measured.probabilities(1 - 0.0013)[0], 0.0014)


def tested():
    test = MeasuringTest("run")
    test.compared, test.most_used, test.most_used_by = 0, 0.0, ""
    return test


class Errors(unittest.TestCase):
    def test_share(self):
        self.assertAlmostEqual(measured.share_error(0.6, 2400), 0.01)

    def test_blocks(self):
        """100 blocks in 10 s at 100 Hz: ten times half a period."""
        self.assertAlmostEqual(measured.block_error(100, 0.01, 10), 0.005)


if __name__ == "__main__":
    unittest.main()
