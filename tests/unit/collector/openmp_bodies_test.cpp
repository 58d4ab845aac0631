// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/openmp_bodies.hpp"

#include <gtest/gtest.h>

#include <string>

namespace clusterprof::collector {
namespace {

SourceFrame at(const char* function, std::uint32_t line) {
  SourceFrame frame;
  frame.function = function;
  frame.file = "/src/hydro.c";
  frame.line = line;
  return frame;
}

std::string moved(std::vector<SourceFrame> call, const SourceFrame& body) {
  move_to_region(call, body);
  std::string all;
  for (const SourceFrame& frame : call) all += frame.function + ":" + std::to_string(frame.line) + " ";
  return all;
}

TEST(OpenMpBodies, TellWhatTheyWereMadeFrom) {
  EXPECT_EQ(made_from("main._omp_fn.0"), "main");
  EXPECT_EQ(made_from("ns::f(int) [clone ._omp_fn.3]"), "ns::f(int)");
  EXPECT_EQ(made_from("main.omp_outlined"), "main");
  EXPECT_EQ(made_from(".omp_outlined."), "");
  EXPECT_EQ(made_from("main"), std::nullopt);
}

TEST(OpenMpBodies, CallOfARegionIsAtItsOwnLine) {
  const SourceFrame body = at("forces._omp_fn.0", 28);
  EXPECT_EQ(moved({at("forces", 27)}, body), "forces:28 ");
  // What is inlined before it does not begin it. Where the function itself is inlined, it stays there.
  EXPECT_EQ(moved({at("now", 12), at("forces", 27)}, body), "forces:28 ");
  EXPECT_EQ(moved({at("now", 12), at("forces", 27), at("phase", 70)}, body), "forces:28 phase:70 ");
  EXPECT_EQ(moved({at("now", 12), at("forces", 27)}, at("forces(int) [clone ._omp_fn.1]", 30)), "forces:30 ");
}

TEST(OpenMpBodies, RegionInsideARegionIsInTheBodyOfThat) {
  EXPECT_EQ(moved({at("now", 12), at("nested._omp_fn.0", 271)}, at("nested._omp_fn.1", 272)),
            "nested._omp_fn.0:272 ");
}

TEST(OpenMpBodies, MainProgramInFortranHasANameOfItsOwn) {
  EXPECT_EQ(moved({at("now", 12), at("heat", 16)}, at("MAIN__._omp_fn.0", 17)), "heat:17 ");
}

TEST(OpenMpBodies, FunctionThatEndsWithItsRegionIsAdded) {
  EXPECT_EQ(moved({at("main", 40)}, at("volumes._omp_fn.0", 47)), "volumes:47 main:40 ");
  EXPECT_EQ(moved({at("main", 40)}, at(".omp_outlined.", 47)), "main:40 ");
}

TEST(OpenMpBodies, OtherCallsStayAsTheyAre) {
  const std::vector<SourceFrame> call = {at("now", 12), at("forces", 27)};
  EXPECT_EQ(moved(call, at("run_task", 5)), "now:12 forces:27 ");
  EXPECT_EQ(moved(call, at("now<int>(int) [clone ._omp_fn.0]", 47)), "now:12 forces:27 ");
  EXPECT_EQ(moved(call, at("forces._omp_fn.0", 0)), "now:12 forces:27 ");
}

}  // namespace
}  // namespace clusterprof::collector
