// SPDX-License-Identifier: BSD-3-Clause
// Frames of samples that refer to something the process has not described yet: an address in no known module,
// a Python code object, a region. Each gets a frame of its own in the RawStore, which is told what it is once
// the description is there.
//
// Bounded: code made at run time can have any number of addresses; the frames above that share one that says
// nothing (RawStore::unknown). The thread that polls the process calls this.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "collector/stacks/code_objects.hpp"
#include "collector/stacks/module_map.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/region_paths.hpp"

namespace clusterprof::collector {

class PendingFrames {
 public:
  // All of them must outlive it.
  PendingFrames(RawStore& store, ModuleMap& modules, CodeObjects& codes, RegionPaths& regions)
      : store_(store), modules_(modules), codes_(codes), regions_(regions) {}

  // Frames of the RawStore. `exact`: the address of an instruction, not a return address.
  std::uint32_t address(std::uint64_t address, bool exact, std::uint32_t epoch);
  std::uint32_t code(std::uint64_t code_id, std::uint32_t instruction);
  std::uint32_t region(std::uint32_t index);

  // Looks for the descriptions of frames that wait, where there may be new ones.
  void settle(std::uint64_t now_ns);
  // The process has ended: gives addresses in no object file, code that was made at run time, the names that
  // the process left in its perf map (names/perf_map.hpp).
  void name_generated_code(std::int32_t pid, std::int64_t process_start_utc_ns);

 private:
  struct Key {
    std::uint64_t value;
    std::uint32_t instruction, epoch;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Frames = std::map<Key, std::uint32_t>;  // -> RawStore::frame

  std::uint32_t add(Frames& frames, const Key& key, shard::FrameKind kind);
  void resolve(std::uint32_t frame, const RawFrame& resolution);
  void settle_addresses();
  void settle_codes();
  void settle_regions();

  RawStore& store_;
  ModuleMap& modules_;
  CodeObjects& codes_;
  RegionPaths& regions_;
  Frames addresses_;  // instruction 0: exact; 1: a return address
  Frames codes_waiting_, regions_waiting_;
};

}  // namespace clusterprof::collector
