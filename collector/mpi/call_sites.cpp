// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/call_sites.hpp"

#include <optional>

namespace clusterprof::collector {

std::uint32_t MpiCallSites::path(std::uint32_t site_index, std::uint16_t op) {
  if (store_.was_opened_since(openings_seen_)) paths_.clear();
  const auto [path, unseen] = paths_.try_emplace(site_index, 0);
  if (!unseen) return path->second;
  const auto& layout = segment_.layout();
  const wire::MpiSite& site = segment_.table<wire::MpiSite>(layout.mpi_sites_offset)[site_index];
  if (site_index >= layout.mpi_sites)
    return path->second = store_.leaf(store_.node(0, store_.frame({RawKind::kOtherSites, 0, 0})),
                                      store_.frame({RawKind::kMpi, op, 0}));
  std::optional<std::uint32_t> found = stacks_.call_site_path(site.path_offset, site.path_words, op + 1u);
  if (!found) {
    drops_.add("damaged_mpi_site");
    found = stacks_.call_site_path(0, 0, op + 1u);
  }
  return path->second = found.value_or(0);
}

std::uint32_t MpiCallSites::path_of_event(std::uint32_t site_index, std::uint16_t op) {
  const auto& layout = segment_.layout();
  if (site_index < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops)) {
    const wire::MpiSite& site = segment_.table<wire::MpiSite>(layout.mpi_sites_offset)[site_index];
    if (site.key.load(std::memory_order_acquire) != 0 && site.ready.load(std::memory_order_acquire) == 1) {
      const std::uint16_t op_of_site = site.op;
      if (op_of_site < layout.mpi_ops) return path(site_index, op_of_site);
    }
  }
  return store_.leaf(0, store_.frame({RawKind::kMpi, op, 0}));
}

}  // namespace clusterprof::collector
