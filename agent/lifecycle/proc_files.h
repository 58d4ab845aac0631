// SPDX-License-Identifier: BSD-3-Clause
// Reads files below /proc, and finds out the kind of a file. Async-signal-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace clusterprof::agent {

// Reads a small file. Returns the number of bytes, without the NUL that is appended.
std::uint32_t read_small_file(const char* path, char* buffer, std::uint32_t capacity) noexcept;

// How long a thread was ready to run and had no processor, and how often it got one.
struct Schedule {
  std::uint64_t run_delay_ns, runs;
};
// From the text of the thread's schedstat file. False if the kernel does not account for that.
bool parse_schedule(const char* schedstat, Schedule& schedule) noexcept;

// The path of a file below /proc/self/task/TID; name: "/comm" and the like, at most 15 characters.
void task_file(std::int32_t tid, const char* name, char (&path)[64]) noexcept;
// The path of the link to what is behind a descriptor of that thread.
void descriptor_file(std::int32_t tid, std::uint32_t descriptor, char (&path)[64]) noexcept;

// True for a pipe, a socket or a terminal: a transfer that our signal ended in the middle can be continued.
bool is_stream(const struct stat& file) noexcept;

}  // namespace clusterprof::agent
