// SPDX-License-Identifier: BSD-3-Clause
// Names and categories of x86-64 Linux system calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// What a system call's descriptor stands for; kThread: it waits for the end of one.
enum class Descriptor : std::uint32_t { kFile, kSocket, kPipe, kThread };

// "read", "futex", ...; "syscall" for a number that is not known (or -1).
[[nodiscard]] std::string_view syscall_name(std::int32_t number) noexcept;

// What a thread inside this system call is doing: kIo for calls on files and sockets, kIdle for calls
// that wait for something else, kSystem for all others. See "Definitions" in docs/metrics.md.
[[nodiscard]] shard::Category syscall_category(std::int32_t number) noexcept;

// Does a thread that is blocked in this call of category kIo wait for another process or thread, and not for
// a device? `descriptor`: what the call is about, where that is known.
[[nodiscard]] bool waits_for_others(std::int32_t number, std::optional<Descriptor> descriptor) noexcept;

}  // namespace clusterprof::collector
