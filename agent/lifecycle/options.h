// SPDX-License-Identifier: BSD-3-Clause
// The launcher's options for this process, from the environment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/wire/hello.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// --sample-on.
struct SampleOn {
  char name[wire::kCounterNameBytes];  // of the event; empty: there is none
  bool resolved;                       // `event` is valid
  wire::SampleEvent event;
  char reason[wire::kCounterNameBytes];  // why it is not sampled on
};

struct Options {
  bool record;  // false: this process is not to be recorded
  char socket[108];
  std::int32_t rank, world_size;  // -1 unknown
  // The rank is that of a launcher below clusterprof: as in the segment's header. Otherwise 0.
  std::uint32_t launcher;
  std::uint64_t launch;
  std::uint32_t rate_hz;
  bool standby, light;  // outside of windows of recording (lifecycle/windows.h)
  std::uint32_t window_rate_hz;
  bool cpu_clock, no_python, no_native, no_children, no_stderr, only_regions, check_paths, torch_ops;
  std::uint64_t memory_interval_bytes;  // --memory; 0: allocations are not recorded
  char events[1024];                    // comma separated; empty: the default set
  SampleOn sample_on;
  char preload[4096];                   // our objects in LD_PRELOAD
  char mpi_wrap[4096];                  // of an attached process: the preload object for its MPI; empty: none
  std::uint32_t annotations_elsewhere;  // as in the segment's header
};

// From the environment; once, at start.
extern Options g_options;
void read_options() noexcept;
// From the text of a wire::AttachBlock instead.
void read_options_of_attach(const char* given, std::size_t bytes) noexcept;

// The place of this entry of LD_PRELOAD among ours, below 64; -1 if it is not ours.
int own_preload(const char* entry, std::size_t length) noexcept;
// The object itself, where an entry may name a link to it (formats/wire/preload_entry.h).
const char* own_preload_path(int place) noexcept;

// Removes our variables from the environment, so that programs that this one executes run without us. Done in
// place: the program finds the environment's strings and array where they were.
void hide_from_children() noexcept;

}  // namespace clusterprof::agent
