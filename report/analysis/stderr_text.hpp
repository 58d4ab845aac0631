// SPDX-License-Identifier: BSD-3-Clause
// What a program that failed said last on stderr: a Python traceback, an exception of C++, or what the MPI
// library says before it ends a rank whose call has failed (MPI_ERRORS_ARE_FATAL). The text is the
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

struct FatalMpiError {
  std::string op;           // "MPI_Recv"
  std::string error_class;  // "MPI_ERR_TRUNCATE"; empty: not said
  std::string text;         // "message truncated"
};
// Of Open MPI: "[host:123] *** An error occurred in MPI_Recv", and in one of the next lines "[host:123] ***
// MPI_ERR_TRUNCATE: message truncated". Of the MPICH family: "Fatal error in internal_Recv: Message
// truncated, error stack:", perhaps behind "Abort(672239121) on node 1 (rank 1 in comm 0): ".
std::optional<FatalMpiError> fatal_mpi_error(std::string_view text);

}  // namespace clusterprof::report
