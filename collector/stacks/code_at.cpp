// SPDX-License-Identifier: BSD-3-Clause
#include "collector/stacks/code_at.hpp"

namespace clusterprof::collector {

std::optional<CodeAt> code_at(const ModuleMap& modules, GeneratedCode& generated, std::uint64_t word,
                              bool exact, std::uint32_t epoch) {
  const std::uint64_t address = instruction_of(word, exact);
  const RawKind kind = exact ? RawKind::kNativeExact : RawKind::kNativeReturn;
  const ModuleMap::Mapping* const mapping = modules.find(address, epoch);
  const std::optional<GeneratedCode::Place> place = generated.find(address);
  // Generated code may be in a buffer of an object file. What was described before the object file was loaded
  // is gone.
  if (place && (mapping == nullptr || mapping->epoch <= place->epoch))
    return CodeAt{generated.frame(*place, kind, word), ModuleRole::kProgram};
  if (mapping != nullptr) return CodeAt{{kind, mapping->module, word - mapping->load_bias}, mapping->role};
  return std::nullopt;
}

}  // namespace clusterprof::collector
