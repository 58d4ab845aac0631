// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/received_message.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collector/greeting.hpp"

namespace clusterprof::collector {
namespace {

struct Received : testing::Test {
  Received() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    here.reset(ends[0]);
    there.reset(ends[1]);
  }
  void send_files(const std::vector<int>& files) {
    char byte = 'x';
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 16)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * files.size());
    cmsghdr* const c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
    std::memcpy(CMSG_DATA(c), files.data(), sizeof(int) * files.size());
    ASSERT_EQ(sendmsg(there.get(), &header, 0), 1);
  }
  static int lowest_free() {
    const UniqueFd fd(fcntl(0, F_DUPFD_CLOEXEC, 0));
    return fd.get();
  }
  UniqueFd here, there;
};

TEST_F(Received, EmptySocketIsNotTheEnd) {
  EXPECT_TRUE(receive(here.get()).would_block);
  there.reset();
  const ReceivedMessage message = receive(here.get());
  EXPECT_FALSE(message.would_block);
  EXPECT_EQ(message.bytes, 0);
}

TEST_F(Received, FilesBeyondTheFirstAreClosed) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int free_before = lowest_free();
  send_files({null.get(), null.get(), null.get()});
  {
    const ReceivedMessage message = receive(here.get());
    EXPECT_EQ(message.bytes, 1);
    EXPECT_TRUE(message.file);
    EXPECT_FALSE(message.cut);
    EXPECT_GT(lowest_free(), free_before);
  }
  EXPECT_EQ(lowest_free(), free_before);
}

TEST_F(Received, MoreFilesThanFitCutTheMessage) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  send_files(std::vector<int>(12, null.get()));
  EXPECT_TRUE(receive(here.get()).cut);
}

TEST(Greeting, OfAnotherVersionIsKnownByItsBeginning) {
  const auto greeting = [](std::uint64_t magic, std::uint32_t major, ssize_t bytes) {
    ReceivedMessage message;
    const wire::Hello hello{magic, major, 0, 100, 0, 4096};
    std::memcpy(message.data, &hello, sizeof hello);
    message.bytes = bytes;
    return message;
  };
  constexpr std::uint32_t kOther = wire::kWireMajor + 1;
  constexpr ssize_t kAll = sizeof(wire::Hello), kBegin = 12;
  for (const std::uint64_t magic : {wire::kHelloMagic, wire::kRefusalMagic, wire::kAnnounceMagic}) {
    EXPECT_TRUE(is_of_other_version(greeting(magic, kOther, kAll)));
    EXPECT_TRUE(is_of_other_version(greeting(magic, kOther, kBegin))) << "whatever follows";
    EXPECT_FALSE(is_of_other_version(greeting(magic, kOther, kBegin - 1)));
    EXPECT_FALSE(is_of_other_version(greeting(magic, wire::kWireMajor, kAll)));
  }
  EXPECT_FALSE(is_of_other_version(greeting(wire::kHelloMagic + 1, kOther, kAll)));
  EXPECT_FALSE(is_of_other_version(greeting(wire::kHelloMagic, kOther, -1)));
  EXPECT_FALSE(greeting_as<wire::Hello>(greeting(wire::kHelloMagic, kOther, kAll), wire::kHelloMagic));
  EXPECT_TRUE(
      greeting_as<wire::Hello>(greeting(wire::kHelloMagic, wire::kWireMajor, kAll), wire::kHelloMagic));
}

}  // namespace
}  // namespace clusterprof::collector
