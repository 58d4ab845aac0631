// SPDX-License-Identifier: BSD-3-Clause
// The code at an address of a process: of an object file, or generated while it ran. Where there was either
// at different times, this is the only place that decides which one a frame is of.
#pragma once

#include <cstdint>
#include <optional>

#include "collector/stacks/generated_code.hpp"
#include "collector/stacks/module_map.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

struct CodeAt {
  RawFrame frame;
  ModuleRole role = ModuleRole::kProgram;
};

// The instruction that a frame's word is about: itself (`exact`), or the call before a return address.
[[nodiscard]] inline std::uint64_t instruction_of(std::uint64_t word, bool exact) noexcept {
  return exact || word == 0 ? word : word - 1;
}

// `epoch`: the module_epoch of the sample. No value: nothing has been described there yet.
[[nodiscard]] std::optional<CodeAt> code_at(const ModuleMap& modules, GeneratedCode& generated,
                                            std::uint64_t word, bool exact, std::uint32_t epoch);

}  // namespace clusterprof::collector
