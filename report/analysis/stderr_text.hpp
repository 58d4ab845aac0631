// SPDX-License-Identifier: BSD-3-Clause
// What a program that failed said last on stderr: a Python traceback, or an exception of C++. The text is the
// program's and may be anything: what is not exactly in the form that the run time writes is not taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof::report {

struct UncaughtException {
  struct Frame {
    std::string file, function;
    std::uint32_t line = 0;
  };
  std::string type;           // "ValueError", "std::runtime_error"
  std::string message;        // its first line; may be empty
  std::vector<Frame> frames;  // of Python, the innermost last
};

// The last traceback in the text: "Traceback (most recent call last):", lines of frames, "TYPE: MESSAGE".
std::optional<UncaughtException> python_exception(std::string_view text);
// "terminate called after throwing an instance of 'TYPE'", and in the next line, perhaps, "  what():
// MESSAGE".
std::optional<UncaughtException> cpp_exception(std::string_view text);

}  // namespace clusterprof::report
