// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "torch-wrap/hooks.hpp"

namespace clusterprof::torch_wrap {

// On the calling thread, outside handlers: before the call, with its arguments, and after it. A call that an
// exception ends has call_was_unwound instead of leave_call. Hook::kEndOfWork has only the first one.
void enter_call(Hook hook, const Registers& arguments) noexcept;
void leave_call(Hook hook, const Registers& arguments, std::uint64_t result) noexcept;
void call_was_unwound() noexcept;

}  // namespace clusterprof::torch_wrap
