// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/openmp_tables.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

bool is_region(wire::OmpConstruct construct) {
  return construct == wire::OmpConstruct::kParallel || construct == wire::OmpConstruct::kTeams;
}

}  // namespace

void OpenMpTables::read(ProcessReport& report, std::uint64_t now_ns) {
  RawOpenMp& all = report.openmp;
  const wire::OmpProcess& process = segment_.header().openmp;
  const std::uint32_t method = process.method.load(std::memory_order_acquire);
  if (method == 0 || method > static_cast<std::uint32_t>(wire::OmpMethod::kOtherTool)) return;
  all.method = static_cast<wire::OmpMethod>(method);
  all.flags = process.flags.load(kRelaxed) & wire::kOmpOtherRuntime;
  all.runtime = bounded_text(process.runtime, sizeof process.runtime);
  for (std::size_t i = 0; i < all.processors.size(); ++i)
    all.processors[i] = process.processors[i].load(kRelaxed);
  read_regions(report);
  read_rows(report);
  read_region_under_way(report, now_ns);
}

void OpenMpTables::read_regions(ProcessReport& report) {
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::OmpSite>(layout.omp_sites_offset);
  segment_.for_each_touched(layout.omp_sites_offset, layout.omp_sites, sizeof(wire::OmpSite),
                            [&](std::uint32_t i) {
                              const wire::OmpSite& site = sites[i];
                              const std::uint64_t count = site.count.load(kRelaxed);
                              if (site.ready.load(std::memory_order_acquire) != 1 || count == 0) return;
                              const std::optional<RawOmpRegionKey> key = key_of_region(i);
                              if (!key) {
                                ++report.drops["damaged_openmp"];
                                return;
                              }
                              RawOmpRegion region;
                              region.count = count;
                              region.time_ns = site.time_ns.load(kRelaxed);
                              region.mpi_ns = site.mpi_ns.load(kRelaxed);
                              region.longest_ns = site.longest_ns.load(kRelaxed);
                              region.asked = site.asked.load(kRelaxed);
                              report.openmp.regions[*key].add(region);
                            });
}

std::optional<RawOmpRegionKey> OpenMpTables::key_of_region(std::uint32_t index) {
  const auto& layout = segment_.layout();
  if (index >= layout.omp_sites) return std::nullopt;
  const wire::OmpSite& site = segment_.table<wire::OmpSite>(layout.omp_sites_offset)[index];
  if (site.ready.load(std::memory_order_acquire) != 1) return std::nullopt;
  RawOmpRegionKey key;
  key.threads = site.threads;
  key.construct = site.construct;
  key.level = site.level;
  key.main = site.shared == 0;
  if (!is_region(key.construct) || key.threads == 0 || key.threads > shard::kMaxOmpThreads)
    return std::nullopt;
  key.path = stacks_.openmp_path(index).value_or(0);  // 0: there was no room for its path
  return key;
}

void OpenMpTables::read_rows(ProcessReport& report) {
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::OmpSite>(layout.omp_sites_offset);
  const auto* const rows = segment_.table<wire::OmpRow>(layout.omp_rows_offset);
  // Of one site: the sums over its threads. The process may write to its site meanwhile.
  struct Construct {
    wire::OmpConstruct construct;
    RawOmpConstruct sum;
  };
  std::unordered_map<std::uint32_t, Construct> constructs;
  std::unordered_map<std::uint32_t, std::optional<RawOmpRegionKey>> keys;
  const auto key_of = [&](std::uint32_t site) {
    const auto [known, is_new] = keys.try_emplace(site);
    if (is_new) known->second = key_of_region(site);
    return known->second;
  };
  segment_.for_each_touched(
      layout.omp_rows_offset, layout.omp_rows, sizeof(wire::OmpRow), [&](std::uint32_t i) {
        const wire::OmpRow& row = rows[i];
        if (row.ready.load(std::memory_order_acquire) != 1) return;
        const std::uint64_t count = row.count.load(kRelaxed), time_ns = row.time_ns.load(kRelaxed);
        if (count == 0 && time_ns == 0) return;
        const std::uint32_t index = row.site, number = row.number;
        const bool is_known = index < layout.omp_sites && number < shard::kMaxOmpThreads;
        const wire::OmpConstruct construct = is_known ? sites[index].construct : wire::OmpConstruct::kCount;
        if (construct >= wire::OmpConstruct::kCount) {
          ++report.drops["damaged_openmp"];
          return;
        }
        const std::uint64_t wait_ns = std::min(row.wait_ns.load(kRelaxed), time_ns);
        if (is_region(construct)) {
          const std::optional<RawOmpRegionKey> key = key_of(index);
          auto& regions = report.openmp.regions;
          const auto region = key ? regions.find(*key) : regions.end();
          if (region == regions.end() || number >= region->first.threads) return;
          region->second.threads[number].add({count, time_ns, wait_ns,
                                              std::min(row.inner_wait_ns.load(kRelaxed), time_ns - wait_ns),
                                              row.schedule_ns.load(kRelaxed)});
          return;
        }
        RawOmpConstruct& sum = constructs.try_emplace(index, Construct{construct, {}}).first->second.sum;
        add_amount(sum.count, count);
        add_amount(sum.time_ns, time_ns);
        add_amount(sum.wait_ns, wait_ns);
        add_amount(sum.schedule_ns, row.schedule_ns.load(kRelaxed));
        add_amount(sum.chunks, row.chunks.load(kRelaxed));
        add_amount(sum.iterations, row.iterations.load(kRelaxed));
        sum.longest_ns = std::max(sum.longest_ns, time_ns - wait_ns);
        ++sum.threads;
        constexpr std::uint32_t kKnown = (1u << wire::kOmpScheduleBits) - 1;
        sum.schedules |= static_cast<std::uint8_t>(row.schedules.load(kRelaxed) & kKnown);
      });
  for (const auto& [index, known] : constructs) {
    const wire::OmpSite& site = sites[index];
    if (site.ready.load(std::memory_order_acquire) != 1) continue;
    const std::optional<RawOmpRegionKey> key = key_of(site.region);
    if (!key) continue;
    // Of a region that has not ended once there is nothing else yet.
    RawOmpRegion& region = report.openmp.regions[*key];
    region.constructs[{path_of_construct(index, key->path, site.code), known.construct}].add(known.sum);
  }
}

void OpenMpTables::read_region_under_way(ProcessReport& report, std::uint64_t now_ns) {
  const wire::OmpProcess& process = segment_.header().openmp;
  const std::uint64_t since_ns = process.region_since_ns.load(std::memory_order_acquire);
  if (since_ns == 0) return;
  const std::uint32_t site = process.region_site.load(kRelaxed);
  const std::uint64_t mpi_before_ns = process.region_mpi_ns.load(kRelaxed);
  const std::optional<RawOmpRegionKey> key = key_of_region(site);
  if (!key || process.region_since_ns.load(std::memory_order_acquire) != since_ns) return;
  const std::uint64_t begin_ns = std::clamp(since_ns, start_.not_after(now_ns), now_ns);
  RawOmpRegion& region = report.openmp.regions[*key];
  ++region.unfinished;
  add_amount(region.time_ns, now_ns - begin_ns);
  if (report.mpi_ns > mpi_before_ns)
    add_amount(region.mpi_ns, std::min(report.mpi_ns - mpi_before_ns, now_ns - begin_ns));
}

std::uint32_t OpenMpTables::path_of_construct(std::uint32_t site, std::uint32_t region_path,
                                              std::uint64_t code) {
  if (const auto known = construct_paths_.find(site); known != construct_paths_.end()) return known->second;
  const std::uint32_t frame = stacks_.frame_before(code);
  if (frame == StackResolver::kNoFrame) return region_path;
  return construct_paths_[site] = store_.leaf(region_path, frame);
}

}  // namespace clusterprof::collector
