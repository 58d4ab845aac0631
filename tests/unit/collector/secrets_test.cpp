// SPDX-License-Identifier: BSD-3-Clause
#include "base/secrets.hpp"

#include <gtest/gtest.h>

namespace clusterprof {
namespace {

using Words = std::vector<std::string>;

Words masked(Words words) {
  mask_secrets(words);
  return words;
}

TEST(Secrets, ValuesOfOptions) {
  EXPECT_EQ(masked({"./a", "--password=x", "--api-key", "y", "-n", "4", "DB_PASSWORD=z", "--hf_authToken=t"}),
            (Words{"./a", "--password=***", "--api-key", "***", "-n", "4", "DB_PASSWORD=***",
                   "--hf_authToken=***"}));
  EXPECT_EQ(masked({"./a", "--token", "--verbose", "in.dat"}),
            (Words{"./a", "--token", "--verbose", "in.dat"}));
  EXPECT_EQ(masked({"./a", "--secret"}), (Words{"./a", "--secret"}));
}

TEST(Secrets, Addresses) {
  EXPECT_EQ(masked({"./a", "postgres://me:hunter2@db:5432/x", "--url=https://me:a@b@host/?q=1"}),
            (Words{"./a", "postgres://me:***@db:5432/x", "--url=https://me:***@host/?q=1"}));
  const Words plain = {"./a", "https://host:8080/x@y", "https://me@host/a:b", "a:b@c", "x://"};
  EXPECT_EQ(masked(plain), plain);
}

TEST(Secrets, WhatOnlySoundsAlike) {
  const Words plain = {"./train_token",
                       "--max-tokens=2048",
                       "--tokenizer",
                       "gpt2",
                       "--key=3",
                       "-c",
                       "password = input()",
                       "secret",
                       "in.dat",
                       "--passes=2",
                       "--secretary=Ann",
                       "token"};
  EXPECT_EQ(masked(plain), plain);
  EXPECT_TRUE(masked({}).empty());
}

}  // namespace
}  // namespace clusterprof
