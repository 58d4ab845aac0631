// SPDX-License-Identifier: BSD-3-Clause
// The Python code objects that a process has described in its shared memory (wire::CodeSlot,
// wire::CodeEntry), looked up by the id that samples have of them.
//
// A damaged entry is counted ("damaged_code") and shown as a function of that name. Only the thread that
// polls the process may call this.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "collector/rings/drop_counts.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class CodeObjects {
 public:
  enum class State : std::uint8_t {
    kNotYet,  // not described yet
    kKnown,   // index() has it
    kNever,   // it will never be described
  };

  // All of them must outlive it.
  CodeObjects(const SegmentView& segment, RawStore& store, DropCounts& drops)
      : segment_(segment), store_(store), drops_(drops) {}

  // Reads the entry of a code object that was not known so far.
  State find(std::uint64_t code_id);
  // Its number in the RawStore. No value: find() has not found it.
  [[nodiscard]] std::optional<std::uint32_t> index(std::uint64_t code_id) const;
  // Whether entries may have been completed since the last call. An entry is completed some time after its
  // room was reserved, much later if the thread lost its processor, so this is also true once a second.
  [[nodiscard]] bool may_have_news(std::uint64_t now_ns);
  // Makes the next may_have_news() return true.
  void expect_news() noexcept { next_search_ns_ = 0; }

 private:
  std::uint32_t read(std::uint64_t offset);  // of the entry, in the code arena

  const SegmentView& segment_;
  RawStore& store_;
  DropCounts& drops_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;  // code id -> RawStore::code
  std::uint64_t arena_used_ = 0;                            // when may_have_news() looked
  std::uint64_t next_search_ns_ = 0;
};

}  // namespace clusterprof::collector
