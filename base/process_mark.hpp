// SPDX-License-Identifier: BSD-3-Clause
// Marks by which a process is recognised later, for files that it may leave behind when it is killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace clusterprof {

struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // when the process started; 0: not known
  std::string machine;            // as this boot of a machine and the namespace of its process ids
  friend bool operator==(const ProcessMark&, const ProcessMark&) = default;
};

// "<pid>.<start>.<machine>", without further dots.
std::string to_string(const ProcessMark& mark);
// Reads such a text at the beginning of another one.
std::optional<ProcessMark> parse_process_mark(std::string_view text);

ProcessMark mark_of_this_process();

// Whether the process of the mark has certainly ended. False for processes of other machines, of another boot
// of this one and in other namespaces, and where /proc does not say enough.
bool has_ended(const ProcessMark& mark);

}  // namespace clusterprof
