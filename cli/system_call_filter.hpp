// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace clusterprof::cli {

// Whether this process has a system call filter (seccomp) that kills it, or the program, for a call that
// recording needs. A child tries the calls with arguments that have no effect: a filter that checks arguments
// as well may still decide otherwise later. Without a filter this costs one look into /proc.
bool filter_kills_recording();

}  // namespace clusterprof::cli
