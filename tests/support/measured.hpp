// SPDX-License-Identifier: BSD-3-Clause
// The rule by which a test that measures may be run more than once, as measured.py has it: a first run that
// is inside its tolerances passes; after one that is outside, two more are made, and both have to be inside.
// Everything that is not a measurement is an EXPECT or ASSERT as usual, and fails the test in whichever run
// it shows.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace clusterprof::test {

// The measurements of one run that are outside.
class Measurements {
 public:
  void near(double seen, double expected, double tolerance, const std::string& what) {
    if (!(seen >= expected - tolerance && seen <= expected + tolerance))
      say(what, seen, "within " + std::to_string(tolerance) + " of " + std::to_string(expected));
  }
  void at_least(double seen, double least, const std::string& what) {
    if (!(seen >= least)) say(what, seen, "at least " + std::to_string(least));
  }
  void at_most(double seen, double most, const std::string& what) {
    if (!(seen <= most)) say(what, seen, "at most " + std::to_string(most));
  }
  bool are_inside() const { return outside_.empty(); }
  const std::string& outside() const { return outside_; }

 private:
  void say(const std::string& what, double seen, const std::string& expected) {
    outside_ += "  " + what + ": " + std::to_string(seen) + " is not " + expected + "\n";
  }

  std::string outside_;
};

// run(measurements) makes one run. True if the test passes by the rule. Prints how many runs there were if
// there was more than one.
template <class Run>
bool measured(Run run) {
  constexpr int kMaxRuns = 3;
  for (int number = 1; number <= kMaxRuns; ++number) {
    Measurements measurements;
    run(measurements);
    if (testing::Test::HasFailure()) return false;
    const bool is_inside = measurements.are_inside();
    if (number > 1 || !is_inside)
      std::printf("measured, run %d of at most %d: %s\n%s", number, kMaxRuns,
                  is_inside ? "inside" : "outside", measurements.outside().c_str());
    if (number == 1 && is_inside) return true;
    if (number > 1 && !is_inside) return false;
  }
  return true;
}

}  // namespace clusterprof::test
