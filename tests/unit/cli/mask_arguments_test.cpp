// SPDX-License-Identifier: BSD-3-Clause
#include "cli/mask_arguments.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace clusterprof::cli {
namespace {

using Words = std::vector<std::string>;

Words hidden(Words words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  mask_argument_secrets(argv);
  return words;
}

TEST(HiddenWords, SecretValuesAreOverwrittenWithStars) {
  EXPECT_EQ(hidden({"record", "-r", "17", "./a", "--password=hunter2", "--api-key", "k", "n=4", "--token="}),
            (Words{"record", "-r", "17", "./a", "--password=*******", "--api-key", "*", "n=4", "--token="}));
  EXPECT_EQ(hidden({"./a", "postgres://me:hunter2@db:5432/x", "https://me:a@b@host/?q=1", "https://host/"}),
            (Words{"./a", "postgres://me:*******@db:5432/x", "https://me:***@host/?q=1", "https://host/"}));
  EXPECT_EQ(hidden({"./a", "--password=***x***", "TOKEN=*", "SECRET=**y"}),
            (Words{"./a", "--password=*******", "TOKEN=*", "SECRET=***"}));
  EXPECT_TRUE(hidden({}).empty());
}

}  // namespace
}  // namespace clusterprof::cli
