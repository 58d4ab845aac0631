// SPDX-License-Identifier: BSD-3-Clause
// Whether objects of libtorch are recognised by their layout, and the table of forward operators.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "agent/annotations/torch_forward.h"
#include "agent/annotations/torch_layout.h"

namespace clusterprof::agent {
namespace {

torch::Functions functions_of(const std::string& release) {
  const std::string path = std::string(FAKE_OPERATORS) + "/" + release + "/libtorch_cpu.so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  torch::Functions functions{};
  void* found[std::size(torch::kFunctionNames)];
  for (std::size_t i = 0; i < std::size(found); ++i) {
    found[i] = library != nullptr ? dlsym(library, torch::kFunctionNames[i]) : nullptr;
    EXPECT_NE(found[i], nullptr) << torch::kFunctionNames[i];
  }
  memcpy(&functions, found, sizeof functions);
  return functions;
}

TEST(TorchLayout, OfReleases) {
  // As the compiler lays out the headers of these releases.
  struct Case {
    const char* release;
    torch::Layout layout;
  };
  constexpr Case kCases[] = {{"1_13", {96, 200, 248, 272, 288}},
                             {"1_13_old_abi", {96, 176, 224, 248, 264}},
                             {"2", {96, 200, 304, 328, 344}},
                             {"2_old_abi", {96, 176, 280, 304, 320}}};
  for (const Case& expected : kCases) {
    const torch::Layout* const found = torch::find_layout(functions_of(expected.release));
    ASSERT_NE(found, nullptr) << expected.release;
    EXPECT_EQ(memcmp(found, &expected.layout, sizeof *found), 0) << expected.release;
  }
}

TEST(TorchLayout, AnotherIsNotGuessed) { EXPECT_EQ(torch::find_layout(functions_of("unknown")), nullptr); }

ForwardPlace place(std::uint64_t offset) { return ForwardPlace::of(offset, 7); }

TEST(TorchForward, PlacesAreFoundByThreadAndNumber) {
  const auto places = std::make_unique<torch::ForwardPlaces>();
  for (const std::uint64_t thread : {1, 2, 3})
    for (std::uint64_t node = 0; node < 1000; ++node)
      places->put(5, thread, node, place(8 * (thread << 20 | node)));
  int found = 0;
  for (const std::uint64_t thread : {1, 2, 3})
    for (std::uint64_t node = 0; node < 1000; ++node) {
      const auto there = places->find(5, thread, node);
      if (!there) continue;  // another thread has its row
      ++found;
      EXPECT_EQ(there->offset(), 8 * (thread << 20 | node));
      EXPECT_EQ(there->words(), 7u);
    }
  EXPECT_GE(found, 2000);
  EXPECT_FALSE(places->find(5, 4, 10).has_value()) << "a thread without nodes";
  EXPECT_FALSE(places->find(6, 3, 10).has_value()) << "the child of a fork has another segment";
}

TEST(TorchForward, TheLatestNodesStay) {
  const auto places = std::make_unique<torch::ForwardPlaces>();
  constexpr std::uint64_t kMore = 10;
  for (std::uint64_t node = 0; node < torch::ForwardPlaces::kNodes + kMore; ++node)
    places->put(1, 1, node, place(8 * node));
  for (std::uint64_t node = 0; node < torch::ForwardPlaces::kNodes + kMore; ++node)
    EXPECT_EQ(places->find(1, 1, node).has_value(), node >= kMore) << node;
}

TEST(TorchForward, APathWithoutRoomIsKnownToHaveNoPlace) {
  const auto places = std::make_unique<torch::ForwardPlaces>();
  places->put(1, 1, 3, ForwardPlace::of(64, 0));
  const auto found = places->find(1, 1, 3);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->packed, 0u);
}

}  // namespace
}  // namespace clusterprof::agent
