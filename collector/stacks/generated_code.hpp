// SPDX-License-Identifier: BSD-3-Clause
// Code that compilers have made in a process and described for debuggers: read from the generated arena of
// its shared memory (wire::GeneratedObject), where the agent appends what it finds. Where memory is used
// again for other code, the newest description counts.
//
// Addresses are the process's own. After a damaged entry ("damaged_generated") nothing more is read. Only the
// thread that polls the process may call this.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "collector/rings/drop_counts.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class GeneratedCode {
 public:
  // All of them must outlive it.
  GeneratedCode(const SegmentView& segment, RawStore& store, DropCounts& drops)
      : segment_(segment), store_(store), drops_(drops) {}

  // Reads the entries that were added since the last time.
  void read();
  // Whether read() has found entries since the last call; whether any took the place of older ones.
  [[nodiscard]] bool take_news() noexcept;
  [[nodiscard]] bool take_replaced() noexcept;

  // The code at an address: its module in the RawStore, in which addresses are lower than the process's by
  // `moved_by`, and the module_epoch when it was seen. kNoModule: there was no room for the description. No
  // value: none is described, or the description makes no sense.
  struct Place {
    std::uint32_t module, epoch;
    std::uint64_t moved_by;
  };
  [[nodiscard]] std::optional<Place> find(std::uint64_t address);
  // The frame of a word there.
  [[nodiscard]] RawFrame frame(const Place& place, RawKind kind, std::uint64_t word);

 private:
  struct Object {
    std::uint64_t offset, bytes;  // in the arena
    std::uint32_t epoch;
    std::uint32_t module = kNoModule;  // once one of its addresses was looked up, if there was room
    std::uint64_t moved_by = 0;
    std::optional<std::uint64_t> openings{};  // of the store, when it was
    bool is_damaged = false;
  };
  struct Piece {
    std::uint64_t end;
    std::uint32_t object;
  };

  // Copies an object out of the arena, where the process may change it.
  [[nodiscard]] std::vector<std::uint8_t> copy_of(const Object& object) const;
  void add(std::uint64_t begin, std::uint64_t end, std::uint32_t object);

  const SegmentView& segment_;
  RawStore& store_;
  DropCounts& drops_;
  std::vector<Object> objects_;
  std::map<std::uint64_t, Piece> pieces_;  // by the first address
  std::uint64_t bytes_read_ = 0;           // of the arena
  bool has_news_ = false, has_replaced_ = false;
};

}  // namespace clusterprof::collector
