// SPDX-License-Identifier: BSD-3-Clause
// Files below /proc, and what kind of file something is. Async-signal-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace clusterprof::agent {

// Reads a small file; returns the number of bytes, terminated by a NUL that is not counted.
std::uint32_t read_small_file(const char* path, char* buffer, std::uint32_t capacity) noexcept;

// For how long a thread was ready and had no processor, by the text of its schedstat. False where the kernel
// does not account for that.
bool parse_run_delay(const char* schedstat, std::uint64_t& run_delay_ns) noexcept;

// The path of a file below /proc/self/task/TID; name: "/comm" and the like, at most 15 characters.
void task_file(std::int32_t tid, const char* name, char (&path)[64]) noexcept;
// And of what is behind a descriptor of that thread.
void descriptor_file(std::int32_t tid, std::uint32_t descriptor, char (&path)[64]) noexcept;

// A pipe, a socket or a terminal: a transfer that a signal of ours has ended in the middle can go on.
bool is_stream(const struct stat& file) noexcept;

}  // namespace clusterprof::agent
