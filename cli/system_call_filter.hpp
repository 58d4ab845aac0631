// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace clusterprof::cli {

// Whether this process has a filter of system calls (seccomp) that kills for one that recording needs, here
// or in the program. Asked of a child, with arguments that do nothing: a filter that looks at these as
// well may say otherwise later. Costs a look into /proc where there is no filter.
bool filter_kills_recording();

}  // namespace clusterprof::cli
