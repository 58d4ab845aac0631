// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <iterator>
#include <utility>

namespace clusterprof::collector {

// Writes "clusterprof: TEXT\n" to stderr with one write(2). Throws nothing: if stderr is a pipe without
// a reader, or there is no memory, the line is lost and the recording goes on.
template <typename... Values>
void say(fmt::format_string<Values...> text, Values&&... values) noexcept {
  try {
    fmt::memory_buffer line;  // short lines take no memory
    fmt::format_to(std::back_inserter(line), "clusterprof: ");
    fmt::format_to(std::back_inserter(line), text, std::forward<Values>(values)...);
    line.push_back('\n');
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception&) {
  }
}

}  // namespace clusterprof::collector
