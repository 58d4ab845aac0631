// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "tests/unit/unwind/workload.hpp"

namespace clusterprof::agent::test {

// Has `handler` run for a signal that code without frame pointers raises, a few calls deep.
inline void raise_signal(void (*handler)(int), bool alternate_stack) {
  std::vector<char> room(256 << 10);
  stack_t stack{};
  stack_t before{};
  stack.ss_sp = room.data();
  stack.ss_size = room.size();
  ASSERT_EQ(sigaltstack(&stack, &before), 0);
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = alternate_stack ? SA_ONSTACK : 0;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  without_frame_pointers_call(5, [] { raise(SIGUSR1); });
  ASSERT_EQ(sigaltstack(&before, nullptr), 0);
}

}  // namespace clusterprof::agent::test
