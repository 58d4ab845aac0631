// SPDX-License-Identifier: BSD-3-Clause
// Which object file a process has mapped at an address, and since when: read from the module arena of its
// shared memory (wire::ModuleEntry), where the agent appends what it finds.
//
// Addresses are the process's own; epochs are SegmentHeader::module_epoch. After a damaged entry
// ("damaged_module") nothing more is read, because it is not known where the next entry begins. Only the
// thread that polls the process may call this.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/rings/drop_counts.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class ModuleMap {
 public:
  struct Mapping {
    std::uint64_t start, end, load_bias;
    std::uint32_t epoch, module;  // module: of the RawStore
    ModuleRole role;
  };

  // All of them must outlive it.
  ModuleMap(const SegmentView& segment, RawStore& store, DropCounts& drops)
      : segment_(segment), store_(store), drops_(drops) {}

  // Reads the entries that were added since the last time.
  void read();
  // Whether read() has found entries since the last call.
  [[nodiscard]] bool take_news() noexcept;

  // The mapping that contained the address when a sample of this epoch was taken. null: not known.
  [[nodiscard]] const Mapping* find(std::uint64_t address, std::uint32_t epoch) const;

  // Whether there ever was one whose file has a name that begins like this.
  [[nodiscard]] bool has_module(std::string_view begin_of_name) const;
  // The module of the Python interpreter, or kNoModule.
  [[nodiscard]] std::uint32_t interpreter() const;

 private:
  const SegmentView& segment_;
  RawStore& store_;
  DropCounts& drops_;
  std::vector<Mapping> mappings_;     // sorted by start
  std::vector<std::uint64_t> reach_;  // largest end of mappings_[0..i]
  std::uint64_t bytes_read_ = 0;      // of the arena
  bool has_news_ = false;
};

}  // namespace clusterprof::collector
