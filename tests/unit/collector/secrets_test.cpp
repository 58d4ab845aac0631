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

TEST(Secrets, InTheLinesOfAText) {
  EXPECT_EQ(
      mask_secrets_in_text("login failed: https://me:hunter2@host/x\r\nDB_PASSWORD=z\n\npassword: abc\nend"),
      "login failed: https://me:***@host/x\r\nDB_PASSWORD=***\n\npassword: ***\nend");
  for (const char* const plain : {"", "\n", "Traceback (most recent call last):\n  File \"a.py\", line 3\n"})
    EXPECT_EQ(mask_secrets_in_text(plain), plain);
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

TEST(Secrets, ShortNames) {
  EXPECT_EQ(masked({"./a", "PASS=x17", "--db-pass", "V", "--auth=me:x", "--cookie", "c", "GH_PAT=abc",
                    "--sessionId=s"}),
            (Words{"./a", "PASS=***", "--db-pass", "***", "--auth=***", "--cookie", "***", "GH_PAT=***",
                   "--sessionId=***"}));
  const Words plain = {"./a",
                       "--auth",
                       "kerberos",
                       "--first-pass=2",
                       "--pass",
                       "1",
                       "--bypass=yes",
                       "--compass",
                       "north",
                       "--no-auth",
                       "train.py",
                       "--ask-pass",
                       "site.yml",
                       "--key",
                       "/home/joe2/keys/id_ed25519",
                       "--pat=*.txt",
                       "--cookie-jar",
                       "jar",
                       "PATH=/usr/bin:/bin"};
  EXPECT_EQ(masked(plain), plain);
}

TEST(Secrets, Headers) {
  EXPECT_EQ(
      masked({"curl", "-H", "Authorization: Bearer abc.def", "-H", "X-Api-Key: k1", "-H", "Accept: text/html",
              "--header=authorization: token t0", "-u", "me:hunter2", "https://h/?access_token=q1&n=4#top"}),
      (Words{"curl", "-H", "Authorization: ***", "-H", "X-Api-Key: ***", "-H", "Accept: text/html",
             "--header=authorization: ***", "-u", "me:***", "https://h/?access_token=***&n=4#top"}));
  EXPECT_EQ(masked({"srun", "-u", "a:b"}), (Words{"srun", "-u", "a:b"}));
}

TEST(Secrets, WithinScripts) {
  EXPECT_EQ(
      masked(
          {"sh", "-c", "cd /w && API_KEY=abc ./a --password 'two words' --n 4; curl -H 'X-Auth-Token: t' h"}),
      (Words{"sh", "-c", "cd /w && API_KEY=*** ./a --password '***' --n 4; curl -H 'X-Auth-Token: ***' h"}));
  EXPECT_EQ(masked({"python3", "-c", "login(user='me', password='hunter2', n=3)"}),
            (Words{"python3", "-c", "login(user='me', password='***', n=3)"}));
  EXPECT_EQ(masked({"./a", R"({"user": "me", "api_key": "k", "n": 3})"}),
            (Words{"./a", R"({"user": "me", "api_key": "***", "n": 3})"}));
  EXPECT_EQ(masked({"sh", "-c", R"(curl -u me:hunter2 -d "{\"token\":\"abc\"}" https://h)", "curl"}),
            (Words{"sh", "-c", R"(curl -u me:*** -d "{\"token\":\"***\"}" https://h)", "curl"}));
  EXPECT_EQ(masked({"curl", "-ume:hunter2"}), (Words{"curl", "-ume:***"}));
  // Not a user's name and password, and yet secret.
  EXPECT_EQ(masked({"curl", "-u", "API_TOKEN=hunter2"}), (Words{"curl", "-u", "API_TOKEN=***"}));
  EXPECT_EQ(masked({"curl", "-u", "API_TOKEN=a:hunter2"}), (Words{"curl", "-u", "API_TOKEN=***"}));
  EXPECT_EQ(
      masked({"./a", "-----BEGIN PRIVATE KEY-----ab-----END PRIVATE KEY----------BEGIN PRIVATE KEY-----cd"}),
      (Words{"./a",
             "-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY----------BEGIN PRIVATE KEY-----***"}));
  const Words plain = {"python3", "-c", "def f(token: str, key: int): return token[key:1] == 'x'",
                       "--lr=1e-3"};
  EXPECT_EQ(masked(plain), plain);
}

TEST(Secrets, FormatsOfServices) {
  const std::string letters = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
  EXPECT_EQ(masked({"./a", "ghp_" + letters, "x/hf_" + letters,
                    "AKIA"
                    "IOSFODNN7EXAMPLE",
                    "glpat-"
                    "abcdefghij0123456789"}),
            (Words{"./a", "ghp_***", "x/hf_***", "AKIA***", "glpat-***"}));
  EXPECT_EQ(masked({"./a", "--key=" + letters, "out/" + letters}), (Words{"./a", "--key=***", "out/***"}));
  const Words plain = {"./a",
                       "sk-learn",
                       "d41d8cd98f00b204e9800998ecf8427e",
                       "123e4567-e89b-12d3-a456-426614174000",
                       "Run_20261122_ModelXL_lr0001_batch256_seed42",
                       "/data/ModelXLlr0001batch256seed42/train.parquet",
                       "--key=user_name_of_the_column"};
  EXPECT_EQ(masked(plain), plain);
}

TEST(Secrets, MaskingTwiceChangesNothing) {
  const Words once =
      masked({"sh", "-c", "TOKEN=x ./a --api-key y", "Authorization: Bearer abcdefgh", "a://b:c@d"});
  EXPECT_EQ(masked(once), once);
}

TEST(StoredCommand, HoldsAsMuchAsWasAsked) {
  const Words words = {"./a", "--token=x", "n=4"};
  EXPECT_EQ(stored_command(words, CommandDetail::kFull), words);
  EXPECT_EQ(stored_command(words, CommandDetail::kMasked), (Words{"./a", "--token=***", "n=4"}));
  EXPECT_EQ(stored_command(words, CommandDetail::kName), Words{"./a"});
  const Words hashed = stored_command(words, CommandDetail::kHash);
  ASSERT_EQ(hashed.size(), 2U);
  EXPECT_EQ(hashed[1].find("n=4"), std::string::npos);
  EXPECT_EQ(hashed, stored_command({"./a", "--token=another", "n=4"}, CommandDetail::kHash));
  EXPECT_NE(hashed, stored_command({"./a", "--token=x", "n=5"}, CommandDetail::kHash));
  EXPECT_NE(stored_command({"./a", "b", "c"}, CommandDetail::kHash),
            stored_command({"./a", "bc"}, CommandDetail::kHash));
  EXPECT_EQ(stored_command({"./a"}, CommandDetail::kHash), Words{"./a"});
}

}  // namespace
}  // namespace clusterprof
