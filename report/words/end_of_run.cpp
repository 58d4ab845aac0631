// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/end_of_run.hpp"

#include <fmt/format.h>

#include "report/format/numbers.hpp"

namespace clusterprof::report::words {

std::string stretch(const EndOfRun& last) {
  return fmt::format("the last {}, from {} after the start", format::seconds(last.end_s - last.begin_s),
                     format::seconds(last.begin_s));
}

std::string what_is_left_out(const EndOfRun& last) {
  std::string text =
      "Single MPI calls, messages, waiting by rank, lines, counters, file I/O and memory are known of the "
      "whole run "
      "only, and left out.";
  if (!last.functions_begin_s) return text + " So are functions.";
  text +=
      " Functions have the time of all their ranks and threads, also idle ones, and that of rare call paths "
      "below them";
  if (*last.functions_begin_s < last.begin_s)
    text += fmt::format("; they are of the last {}, because their steps are longer",
                        format::seconds(last.end_s - *last.functions_begin_s));
  return text + ".";
}

}  // namespace clusterprof::report::words
