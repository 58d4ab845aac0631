// SPDX-License-Identifier: BSD-3-Clause
// The sections on files, memory, blocked time, event loops, OpenMP, processes, threads, regions, the timeline
// and nodes.
#pragma once

#include <cstddef>

#include "report/analysis/analysis.hpp"
#include "report/analysis/held_at.hpp"
#include "report/format/names.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct ResourceOptions {
  std::size_t rows = 15;
  bool full = true;      // false: only the first rows of the most important table
  bool unicode = false;  // block characters
};

// Each needs an analysis that has the data.
void print_io(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
              const ResourceOptions& options);
void print_memory(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                  const ResourceOptions& options);
// There is memory with labels, or copies.
void print_labelled_memory(Page& page, const Analysis& analysis, const ResourceOptions& options);
void print_memory_at(Page& page, const Analysis& analysis, const HeldAt& held,
                     const format::ShortPaths& paths, const ResourceOptions& options);
void print_off_cpu(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                   const ResourceOptions& options);
void print_event_loops(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                       const ResourceOptions& options);
// There is Analysis::openmp.
void print_openmp(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                  const ResourceOptions& options);
void print_imports(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                   const ResourceOptions& options);
void print_regions(Page& page, const Analysis& analysis, const ResourceOptions& options);
void print_timeline(Page& page, const Analysis& analysis, const ResourceOptions& options);
// Whether a rank has made a process that is known.
bool has_child_processes(const Analysis& analysis);
void print_processes(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                     const ResourceOptions& options);
// Time in torch.distributed; there are rows.
void print_torch(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                 const ResourceOptions& options);
// Whether a thread other than main ones has done something.
bool has_busy_threads(const Analysis& analysis);
void print_threads(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                   const ResourceOptions& options);
void print_nodes(Page& page, const Analysis& analysis, const ResourceOptions& options);

}  // namespace clusterprof::report::text
