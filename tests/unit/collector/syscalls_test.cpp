// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/syscalls.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

namespace clusterprof::collector {
namespace {

using shard::Category;

TEST(Syscalls, HaveNames) {
  EXPECT_EQ(syscall_name(SYS_read), "read");
  EXPECT_EQ(syscall_name(SYS_futex), "futex");
  EXPECT_EQ(syscall_name(SYS_exit_group), "exit_group");
  EXPECT_EQ(syscall_name(SYS_futex_waitv), "futex_waitv");
  EXPECT_EQ(syscall_name(-1), "syscall");
  EXPECT_EQ(syscall_name(400), "syscall");  // a gap in the table
  EXPECT_EQ(syscall_name(1 << 20), "syscall");
}

TEST(Syscalls, HaveCategories) {
  for (const int io : {SYS_read, SYS_write, SYS_pwritev, SYS_openat, SYS_close, SYS_newfstatat, SYS_statx,
                       SYS_fsync, SYS_sendto, SYS_recvmsg, SYS_accept, SYS_connect, SYS_lseek, SYS_getdents64,
                       SYS_splice, SYS_io_uring_enter}) {
    EXPECT_EQ(syscall_category(io), Category::kIo) << syscall_name(io);
  }
  for (const int idle : {SYS_futex, SYS_nanosleep, SYS_clock_nanosleep, SYS_poll, SYS_ppoll, SYS_select,
                         SYS_pselect6, SYS_epoll_wait, SYS_epoll_pwait, SYS_wait4, SYS_waitid, SYS_pause,
                         SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_semtimedop, SYS_msgrcv}) {
    EXPECT_EQ(syscall_category(idle), Category::kIdle) << syscall_name(idle);
  }
  for (const int system :
       {SYS_sched_yield, SYS_mmap, SYS_brk, SYS_madvise, SYS_clone, SYS_ioctl, SYS_getpid}) {
    EXPECT_EQ(syscall_category(system), Category::kSystem) << syscall_name(system);
  }
  EXPECT_EQ(syscall_category(-1), Category::kSystem);
}

}  // namespace
}  // namespace clusterprof::collector
