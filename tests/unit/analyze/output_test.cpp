// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/output.hpp"

#include <gtest/gtest.h>

namespace clusterprof::cli {
namespace {

TEST(ExitStatus, IsThatOfTheKindOfErrorWhateverItsMessageSays) {
  for (const ErrorKind kind : {ErrorKind::kOther, ErrorKind::kDamaged, ErrorKind::kOtherVersion})
    EXPECT_EQ(exit_status_of(kind), kBadInput);
  testing::internal::CaptureStderr();
  EXPECT_EQ(complain(Error{"node-a.h5: nothing found, bad usage", ErrorKind::kDamaged}), kBadInput);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clusterprof: node-a.h5: nothing found, bad usage\n");
}

TEST(Complaint, IsOnePrintableLineWithTheGivenStatus) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(complain(kNothingFound, "two\nlines \x1b[31m"), kNothingFound);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "clusterprof: two lines \\x1b[31m\n");
}

}  // namespace
}  // namespace clusterprof::cli
