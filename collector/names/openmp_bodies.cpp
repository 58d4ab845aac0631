// SPDX-License-Identifier: BSD-3-Clause
#include "collector/names/openmp_bodies.hpp"

#include <algorithm>
#include <utility>

namespace clusterprof::collector {

std::optional<std::string_view> made_from(std::string_view function) {
  for (const std::string_view mark : {" [clone ._omp_fn.", "._omp_fn.", ".omp_outlined",
                                      " [clone .omp_outlined", ".omp_task_entry", " [clone .omp_task_entry"})
    if (const std::size_t at = function.find(mark); at != std::string_view::npos)
      return function.substr(0, at);
  return std::nullopt;
}

bool is_same_function(std::string_view a, std::string_view b) {
  return a.substr(0, a.find('(')) == b.substr(0, b.find('('));
}

namespace {

// "f" of "f", "ns::f(int)", "void f<int>(int)" and "f.part.0": debug information and symbols differ in the rest.
std::string_view own_name(std::string_view function) {
  function = function.substr(0, function.find_first_of("(<."));
  const std::size_t end = function.find_last_of(" :");
  return end == std::string_view::npos ? function : function.substr(end + 1);
}

}  // namespace

void move_to_region(std::vector<SourceFrame>& call, const SourceFrame& body) {
  const std::optional<std::string_view> origin = made_from(body.function);
  if (!origin || body.line == 0 || call.empty()) return;
  auto at = std::find_if(call.begin(), call.end(), [&](const SourceFrame& frame) {
    // A region inside another one is in the body of that.
    return is_same_function(made_from(frame.function).value_or(frame.function), *origin);
  });
  // Debug information has the name that the source gives to a main program in Fortran.
  if (at == call.end() && *origin == "MAIN__") at = call.end() - 1;
  if (at == call.end()) {
    // The function has left the stack with the call, which was the last thing that it did.
    const bool is_there = std::any_of(call.begin(), call.end(), [&](const SourceFrame& frame) {
      return own_name(made_from(frame.function).value_or(frame.function)) == own_name(*origin);
    });
    if (is_there || own_name(*origin).empty()) return;
    SourceFrame left = body;
    left.function = *origin;
    left.inlined = false;
    call.insert(call.begin(), std::move(left));
    return;
  }
  call.erase(call.begin(), at);
  call.front().file = body.file;
  call.front().line = body.line;
}

}  // namespace clusterprof::collector
