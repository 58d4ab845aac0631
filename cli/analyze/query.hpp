// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof query`: questions to the profile of a run that need only some of it.
#pragma once

#include <cstddef>
#include <string>

namespace clusterprof::cli {

struct QueryOptions {
  std::string run;
  std::string argument;  // of the question: a rank, a call path, a node
  bool json = false;
  bool inclusive = false;
  std::size_t top = 0;  // rows of the longest table; 0: 15 in text, all in JSON
};

// The call paths of one rank, by time. Each returns the exit status.
int query_rank(const QueryOptions& options);
// One call path: its frames, its statistics over ranks, its time on every rank.
int query_path(const QueryOptions& options);
// Functions by self time, all ranks.
int query_functions(const QueryOptions& options);
// One node: its ranks, what they sent to each other, and what the node exchanged with others.
int query_node(const QueryOptions& options);

}  // namespace clusterprof::cli
