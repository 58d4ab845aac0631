// SPDX-License-Identifier: BSD-3-Clause
// Frames that refer to something the process has not described yet: an address in no known module, a Python
// code object, or a region. Each gets a frame of its own in the RawStore, which is resolved when the
// description arrives.
//
// Their number is limited, because code generated at run time can have any number of addresses. Frames beyond
// the limit share one frame that says nothing (RawStore::unknown). So do new addresses of processes without a
// perf map when those of ended processes have taken much room (RawStore::has_many_nameless). Only the thread
// that polls the process may call this.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "collector/stacks/code_objects.hpp"
#include "collector/stacks/generated_code.hpp"
#include "collector/stacks/module_map.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/region_paths.hpp"

namespace clusterprof::collector {

class PendingFrames {
 public:
  // All of them must outlive it.
  PendingFrames(RawStore& store, ModuleMap& modules, GeneratedCode& generated, CodeObjects& codes,
                RegionPaths& regions, std::int32_t pid)
      : store_(store),
        modules_(modules),
        generated_(generated),
        codes_(codes),
        regions_(regions),
        pid_(pid) {}

  // Frames of the RawStore. `exact`: the address of an instruction, not a return address.
  std::uint32_t address(std::uint64_t address, bool exact, std::uint32_t epoch);
  std::uint32_t code(std::uint64_t code_id, std::uint64_t instruction);  // RawFrame::b
  std::uint32_t region(std::uint32_t index);

  // Resolves frames whose descriptions have arrived.
  void settle(std::uint64_t now_ns);
  // Call this when the process has ended. Addresses outside all object files and descriptions, which are code
  // generated at run time, get the names in the process's perf map (names/perf_map.hpp).
  void name_generated_code(std::int32_t pid, std::int64_t process_start_utc_ns);

 private:
  struct Key {
    std::uint64_t value, instruction;
    std::uint32_t epoch;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Frames = std::map<Key, std::uint32_t>;  // -> RawStore::frame

  std::uint32_t add(Frames& frames, const Key& key, shard::FrameKind kind);
  void resolve(std::uint32_t frame, const RawFrame& resolution);
  [[nodiscard]] bool has_perf_map();
  void settle_addresses();
  void settle_codes();
  void settle_regions();

  RawStore& store_;
  ModuleMap& modules_;
  GeneratedCode& generated_;
  CodeObjects& codes_;
  RegionPaths& regions_;
  const std::int32_t pid_;  // as the process sees it
  bool has_perf_map_ = false, may_look_for_map_ = true;
  Frames addresses_;  // instruction 0: exact; 1: a return address
  Frames codes_waiting_, regions_waiting_;
};

}  // namespace clusterprof::collector
