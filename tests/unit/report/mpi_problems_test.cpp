// SPDX-License-Identifier: BSD-3-Clause
// Errors that MPI calls returned, requests that stayed open, and messages that nobody received: as data, as
// findings and in text and JSON.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

class MpiProblems : public ::testing::Test {
 protected:
  MpiProblems() {
    for (std::uint32_t r = 0; r < 3; ++r)
      b_.sampled(r, b_.path({b_.python("f", "f.py", 2, 1)}), Category::kPython, 10'000);
    b_.data.communicators = {{1, 3, "MPI_COMM_WORLD"}};
  }

  std::uint32_t call(const char* op, std::uint32_t line) {
    return b_.path({b_.native("main", "/u/a.out", "/u/solver.c", line), b_.mpi(op)});
  }
  shard::MpiError& error(std::uint32_t rank, const char* op, std::uint32_t line, const char* name,
                         std::uint64_t count) {
    shard::MpiError& row = b_.data.mpi_errors.emplace_back();
    row.rank = rank;
    row.path = call(op, line);
    row.communicator = 0;
    row.name = name;
    row.error_class = 15;
    row.count = count;
    return row;
  }
  void open(std::uint32_t rank, std::uint32_t line, std::uint8_t kind, std::int32_t peer, std::int32_t tag,
            std::uint64_t count) {
    b_.data.open_requests.push_back(
        {rank, line == 0 ? 0 : call("MPI_Irecv", line), 0, kind, peer, tag, count});
  }
  void unmatched(std::uint32_t rank, std::uint32_t receiver, std::int32_t tag, std::uint64_t count) {
    b_.data.unmatched_messages.push_back({rank, call("MPI_Send", 30), 0, receiver, tag, count});
  }

  ProfileBuilder b_{3};
};

TEST_F(MpiProblems, AreNotThere) {
  const Analysis a = analyse(b_.data);
  EXPECT_TRUE(a.mpi_errors.empty() && a.open_requests.empty() && a.unmatched_messages.empty());
  EXPECT_EQ(find_kind(a, FindingKind::kMpiErrors), nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kRequestsOpen), nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kMessagesUnmatched), nullptr);
}

TEST_F(MpiProblems, ErrorsThatTheProgramExpects) {
  shard::MpiError& first = error(1, "MPI_Recv", 12, "MPI_ERR_TRUNCATE", 2);
  first.peer = 2;
  first.tag = 5;
  first.message = 16;
  first.text = "message truncated";
  first.first_ns = 700 * kMs;
  error(2, "MPI_Recv", 12, "MPI_ERR_TRUNCATE", 3).first_ns = 800 * kMs;
  error(0, "MPI_Send", 14, "", 4).first_ns = 600 * kMs;
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.mpi_errors.size(), 3u);
  EXPECT_EQ(a.mpi_errors[0].rank, 0) << "the first one";
  const MpiErrorRow& row = a.mpi_errors[1];
  EXPECT_EQ(row.place.op, "MPI_Recv");
  EXPECT_EQ(row.place.line, 12u);
  EXPECT_EQ(row.peer.rank, 2);
  EXPECT_EQ(row.tag, 5);
  EXPECT_EQ(row.message, 17u) << "from 1";
  EXPECT_EQ(row.communicator, "MPI_COMM_WORLD");
  EXPECT_NEAR(row.first_s, 0.7, 1e-9);
  EXPECT_FALSE(a.mpi_errors[0].message || a.mpi_errors[0].tag || a.mpi_errors[0].peer.rank);
  const Finding* const finding = find_kind(a, FindingKind::kMpiErrors);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kInfo);
  EXPECT_EQ(finding->evidence.name(EvidenceKey::kErrorClass), "MPI_ERR_TRUNCATE");
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kCalls), 5);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kCallSites), 2);
  EXPECT_EQ(finding->ranks, (std::vector<std::int32_t>{1, 2}));
  const std::string text = text_of(a, *finding);
  EXPECT_NE(text.find("MPI_ERR_TRUNCATE (message truncated)"), std::string::npos) << text;
  EXPECT_NE(text.find("first for message 17 from rank 2, tag 5; the program went on."), std::string::npos)
      << text;
}

TEST_F(MpiProblems, TheLastErrorOfARankThatFails) {
  error(1, "MPI_Recv", 12, "MPI_ERR_TRUNCATE", 9).first_ns = 100 * kMs;
  error(1, "MPI_Bcast", 20, "MPI_ERR_ROOT", 1).first_ns = 900 * kMs;
  error(2, "MPI_Send", 14, "MPI_ERR_RANK", 50).first_ns = 950 * kMs;
  b_.data.ranks[1].flags |= shard::kExitStatusKnown;
  b_.data.ranks[1].exit_status = 3;
  const Analysis a = analyse(b_.data);
  const Finding* const finding = find_kind(a, FindingKind::kMpiErrors);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kMedium);
  EXPECT_EQ(finding->evidence.name(EvidenceKey::kErrorClass), "MPI_ERR_ROOT");
  EXPECT_EQ(finding->place.line, 20u);
  EXPECT_EQ(finding->rank, 1);
}

TEST_F(MpiProblems, RequestsThatStayedOpen) {
  constexpr auto kReceive = static_cast<std::uint8_t>(shard::PendingKind::kReceive);
  open(1, 40, kReceive, 2, 7, 3);
  open(2, 40, kReceive, shard::CallUnderWay::kAnyRank, shard::CallUnderWay::kAnyTag, 2);
  open(2, 41, kReceive, 0, 7, 4);
  open(2, 0, shard::OpenRequests::kOther, -1, shard::CallUnderWay::kNoTag, 1);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.open_requests.size(), 4u);
  EXPECT_EQ(a.open_requests[0].kind, shard::PendingKind::kReceive);
  EXPECT_TRUE(a.open_requests[1].peer.any && a.open_requests[1].any_tag);
  EXPECT_FALSE(a.open_requests[3].kind);
  EXPECT_EQ(a.open_requests[3].place.op, "");
  const Finding* const finding = find_kind(a, FindingKind::kRequestsOpen);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kLow);
  EXPECT_EQ(finding->place.line, 40u);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kRequests), 5);
  EXPECT_EQ(finding->evidence.number(EvidenceKey::kOf), 10);
}

TEST_F(MpiProblems, MessagesThatNobodyReceived) {
  unmatched(0, 1, 6, 1);
  unmatched(0, 2, 7, 3);
  b_.data.wait_analysis.done = true;
  b_.data.wait_analysis.messages = 10;
  b_.data.wait_analysis.unmatched_messages = 4;
  b_.data.wait_analysis.unreceived_messages = 4;
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.unmatched_messages.size(), 2u);
  EXPECT_EQ(a.unmatched_messages[0].receiver, 2) << "the most";
  const Finding* const finding = find_kind(a, FindingKind::kMessagesUnmatched);
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(text_of(a, *finding).find("Rank 0 sent 3 messages to rank 2, tag 7, that nobody received"),
            std::string::npos)
      << text_of(a, *finding);
  EXPECT_EQ(find_kind(a, FindingKind::kUnmatched), nullptr) << "the measurement lacks nothing";
  b_.data.wait_analysis.unreceived_messages = 1;
  EXPECT_NE(find_kind(analyse(b_.data), FindingKind::kUnmatched), nullptr);
}

TEST_F(MpiProblems, AreInJson) {
  error(1, "MPI_Recv", 12, "MPI_ERR_TRUNCATE", 2).peer = 2;
  unmatched(0, 2, 7, 3);
  for (shard::Rank& rank : b_.data.ranks) rank.flags |= shard::kUsedMpi;
  const std::string json = render_json(analyse(b_.data));
  EXPECT_NE(json.find("\"error_class\": \"MPI_ERR_TRUNCATE\""), std::string::npos);
  EXPECT_NE(json.find("\"dst\": 2"), std::string::npos);
  EXPECT_NE(json.find("\"open_requests\": []"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
