// SPDX-License-Identifier: BSD-3-Clause
#include "collector/stacks/module_map.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/base_name.hpp"

namespace clusterprof::collector {

bool ModuleMap::take_news() noexcept { return std::exchange(has_news_, false); }

void ModuleMap::read() {
  const auto& layout = segment_.layout();
  const std::uint64_t used = std::min(segment_.header().module_arena_used.load(std::memory_order_acquire),
                                      layout.module_arena_bytes);
  bool changed = false;
  while (bytes_read_ < used) {
    wire::ModuleEntry entry;
    const std::uint64_t offset = bytes_read_;
    const bool sane = segment_.copy(layout.module_arena_offset, used, offset, &entry, sizeof entry) &&
                      entry.entry_bytes >= sizeof entry && entry.entry_bytes % 8 == 0 &&
                      entry.entry_bytes <= used - offset &&
                      entry.path_bytes <= entry.entry_bytes - sizeof entry &&
                      entry.path_bytes <= kMaxTextBytes && entry.build_id_bytes <= sizeof entry.build_id &&
                      entry.start <= entry.end;
    if (!sane) {
      drops_.add("damaged_module");
      bytes_read_ = layout.module_arena_bytes;
      break;
    }
    std::string path(entry.path_bytes, '\0');
    if (!segment_.copy(layout.module_arena_offset, used, offset + sizeof entry, path.data(), path.size()))
      break;
    const std::vector<std::uint8_t> build_id(entry.build_id, entry.build_id + entry.build_id_bytes);
    const std::uint32_t module = store_.module(path, build_id);
    mappings_.push_back({entry.start, entry.end, entry.load_bias, entry.epoch, module,
                         store_.tables().modules[module]->role});
    bytes_read_ += entry.entry_bytes;
    changed = true;
  }
  if (!changed) return;
  has_news_ = true;
  std::stable_sort(mappings_.begin(), mappings_.end(),
                   [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
  reach_.resize(mappings_.size());
  std::uint64_t reach = 0;
  for (std::size_t i = 0; i < mappings_.size(); ++i) reach_[i] = reach = std::max(reach, mappings_[i].end);
}

const ModuleMap::Mapping* ModuleMap::find(std::uint64_t address, std::uint32_t epoch) const {
  // If several modules were mapped there at different times, take the newest one from before the sample, else
  // the first one after it: the sample was then taken before the agent had described the module.
  const Mapping* best = nullptr;
  const auto after = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                      [](std::uint64_t value, const Mapping& m) { return value < m.start; });
  for (std::size_t i = static_cast<std::size_t>(after - mappings_.begin()); i-- > 0;) {
    if (reach_[i] <= address) break;
    const Mapping& m = mappings_[i];
    if (address >= m.end) continue;
    if (best == nullptr) {
      best = &m;
      continue;
    }
    const bool known = m.epoch <= epoch, best_known = best->epoch <= epoch;
    const bool better = known != best_known      ? known
                        : m.epoch != best->epoch ? (known ? m.epoch > best->epoch : m.epoch < best->epoch)
                                                 : m.end - m.start < best->end - best->start;
    if (better) best = &m;
  }
  return best;
}

bool ModuleMap::has_module(std::string_view begin_of_name) const {
  return std::any_of(mappings_.begin(), mappings_.end(), [&](const Mapping& mapping) {
    return base_name(store_.tables().modules[mapping.module]->path).starts_with(begin_of_name);
  });
}

std::uint32_t ModuleMap::interpreter() const {
  // Prefer the library to a program linked with it: where both are mapped, the library has the code.
  std::uint32_t found = kNoModule;
  for (const Mapping& mapping : mappings_) {
    if (mapping.role != ModuleRole::kInterpreter) continue;
    const std::string_view path = store_.tables().modules[mapping.module]->path;
    if (found == kNoModule || path.find("/libpython") != std::string_view::npos) found = mapping.module;
  }
  return found;
}

}  // namespace clusterprof::collector
