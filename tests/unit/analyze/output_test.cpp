// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/output.hpp"

#include <gtest/gtest.h>

#include <string>

namespace clusterprof::cli {
namespace {

TEST(ExitStatus, IsThatOfTheKindOfErrorWhateverItsMessageSays) {
  for (const ErrorKind kind : {ErrorKind::kOther, ErrorKind::kDamaged, ErrorKind::kOtherVersion})
    EXPECT_EQ(exit_status_of(kind), kBadInput);
  EXPECT_EQ(exit_status_of(ErrorKind::kNotFound), kNothingFound);
  EXPECT_EQ(exit_status_of(ErrorKind::kBadArgument), kBadUsage);
  testing::internal::CaptureStderr();
  EXPECT_EQ(complain(Error{"node-a.h5: nothing found, bad usage", ErrorKind::kDamaged}), kBadInput);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clusterprof: node-a.h5: nothing found, bad usage\n");
}

TEST(Complaint, IsOnePrintableLineWithTheGivenStatus) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(complain(kNothingFound, "two\nlines \x1b[31m"), kNothingFound);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clusterprof: two lines \\x1b[31m\n");
}

TEST(VisibleText, ShowsControlCharactersAndKeepsLineEndsAndTabs) {
  VisibleText text;
  EXPECT_EQ(text("name,file\r\nf,\x1b[31m\u202e\t\"a\nb\"\r\n"),
            "name,file\r\nf,\\x1b[31m\\u202e\t\"a\nb\"\r\n");
  EXPECT_EQ(text("hidden\rshown"), "hidden\\x0dshown") << "a line that overwrites itself";
  EXPECT_EQ(text.finish(), "");
}

TEST(VisibleText, DoesNotDependOnWhereThePiecesEnd) {
  const std::string all = "a\u009b\r\nGröße 计算 \U0001f600\xff\r\u202e\n\r";
  VisibleText at_once;
  std::string expected = at_once(all);
  expected += at_once.finish();
  EXPECT_EQ(expected, "a\\x9b\r\nGröße 计算 \U0001f600\\xff\\x0d\\u202e\n\\x0d");
  for (std::size_t bytes = 1; bytes < all.size(); ++bytes) {
    VisibleText text;
    std::string shown;
    for (std::size_t at = 0; at < all.size(); at += bytes) shown += text(all.substr(at, bytes));
    shown += text.finish();
    EXPECT_EQ(shown, expected) << bytes;
  }
}

}  // namespace
}  // namespace clusterprof::cli
