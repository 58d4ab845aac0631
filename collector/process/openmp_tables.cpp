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

// 0: the team does not count, as that of a region in another one.
std::uint32_t counted_threads(const RawOmpRegionKey& team) {
  return shard::OmpSums::counts(team.main ? 1 : 0, team.level) ? team.threads : 0;
}

}  // namespace

wire::OmpMethod OpenMpTables::method() const noexcept {
  const std::uint32_t method = segment_.header().openmp.method.load(std::memory_order_acquire);
  return method <= static_cast<std::uint32_t>(wire::OmpMethod::kOtherTool)
             ? static_cast<wire::OmpMethod>(method)
             : wire::OmpMethod::kNone;
}

void OpenMpTables::read(ProcessReport& report, std::uint64_t now_ns) {
  RawOpenMp& all = report.openmp;
  if (!is_recorded()) return;
  const wire::OmpProcess& process = segment_.header().openmp;
  all.method = method();
  all.flags = process.flags.load(kRelaxed) & wire::kOmpOtherRuntime;
  all.runtime = bounded_text(process.runtime, sizeof process.runtime);
  for (std::size_t i = 0; i < all.processors.size(); ++i)
    all.processors[i] = process.processors[i].load(kRelaxed);
  read_regions(report);
  read_rows(report);
  if (const std::optional<UnderWay> under_way = region_under_way(report.mpi_ns, now_ns)) {
    RawOmpRegionKey key = under_way->team;
    key.path = path_of_region(under_way->site);
    RawOmpRegion& region = all.regions[key];
    ++region.unfinished;
    add_amount(region.time_ns, under_way->time_ns);
    add_amount(region.mpi_ns, under_way->mpi_ns);
  }
}

std::optional<RawOmpRegion> OpenMpTables::region_at(std::uint32_t index) const {
  const wire::OmpSite& site = segment_.table<wire::OmpSite>(segment_.layout().omp_sites_offset)[index];
  RawOmpRegion region;
  region.count = site.count.load(kRelaxed);
  if (site.ready.load(std::memory_order_acquire) != 1 || region.count == 0) return std::nullopt;
  region.time_ns = site.time_ns.load(kRelaxed);
  region.mpi_ns = site.mpi_ns.load(kRelaxed);
  region.longest_ns = site.longest_ns.load(kRelaxed);
  region.asked = site.asked.load(kRelaxed);
  return region;
}

void OpenMpTables::read_regions(ProcessReport& report) {
  const auto& layout = segment_.layout();
  segment_.for_each_touched(layout.omp_sites_offset, layout.omp_sites, sizeof(wire::OmpSite),
                            [&](std::uint32_t i) {
                              const std::optional<RawOmpRegion> region = region_at(i);
                              if (!region) return;
                              const std::optional<RawOmpRegionKey> key = key_of_region(i);
                              if (!key) {
                                ++report.drops["damaged_openmp"];
                                return;
                              }
                              report.openmp.regions[*key].add(*region);
                            });
}

std::optional<RawOmpRegionKey> OpenMpTables::team_of_region(std::uint32_t index) const {
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
  return key;
}

std::uint32_t OpenMpTables::path_of_region(std::uint32_t index) {
  return stacks_.openmp_path(index).value_or(0);  // 0: there was no room for its path
}

std::optional<RawOmpRegionKey> OpenMpTables::key_of_region(std::uint32_t index) {
  std::optional<RawOmpRegionKey> key = team_of_region(index);
  if (key) key->path = path_of_region(index);
  return key;
}

std::optional<OpenMpTables::Row> OpenMpTables::row_at(std::uint32_t index) const {
  const auto& layout = segment_.layout();
  const wire::OmpRow& row = segment_.table<wire::OmpRow>(layout.omp_rows_offset)[index];
  if (row.ready.load(std::memory_order_acquire) != 1) return std::nullopt;
  const std::uint64_t count = row.count.load(kRelaxed), time_ns = row.time_ns.load(kRelaxed);
  if (count == 0 && time_ns == 0) return std::nullopt;
  Row result;
  result.site = row.site;
  result.number = row.number;
  if (result.site < layout.omp_sites && result.number < shard::kMaxOmpThreads)
    result.construct = segment_.table<wire::OmpSite>(layout.omp_sites_offset)[result.site].construct;
  const std::uint64_t wait_ns = std::min(row.wait_ns.load(kRelaxed), time_ns);
  result.amounts = {count, time_ns, wait_ns, std::min(row.inner_wait_ns.load(kRelaxed), time_ns - wait_ns),
                    row.schedule_ns.load(kRelaxed)};
  return result;
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
        const std::optional<Row> row = row_at(i);
        if (!row) return;
        if (row->construct >= wire::OmpConstruct::kCount) {
          ++report.drops["damaged_openmp"];
          return;
        }
        const RawOmpThread& amounts = row->amounts;
        if (is_region(row->construct)) {
          const std::optional<RawOmpRegionKey> key = key_of(row->site);
          auto& regions = report.openmp.regions;
          const auto region = key ? regions.find(*key) : regions.end();
          if (region == regions.end() || row->number >= region->first.threads) return;
          region->second.threads[row->number].add(amounts);
          return;
        }
        RawOmpConstruct& sum =
            constructs.try_emplace(row->site, Construct{row->construct, {}}).first->second.sum;
        add_amount(sum.count, amounts.count);
        add_amount(sum.time_ns, amounts.time_ns);
        add_amount(sum.wait_ns, amounts.wait_ns);
        add_amount(sum.schedule_ns, amounts.schedule_ns);
        add_amount(sum.chunks, rows[i].chunks.load(kRelaxed));
        add_amount(sum.iterations, rows[i].iterations.load(kRelaxed));
        sum.longest_ns = std::max(sum.longest_ns, amounts.time_ns - amounts.wait_ns);
        ++sum.threads;
        constexpr std::uint32_t kKnown = (1u << wire::kOmpScheduleBits) - 1;
        sum.schedules |= static_cast<std::uint8_t>(rows[i].schedules.load(kRelaxed) & kKnown);
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

shard::OmpSums OpenMpTables::sums() const {
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::OmpSite>(layout.omp_sites_offset);
  const auto threads_of = [&](std::uint32_t region) -> std::uint32_t {
    const std::optional<RawOmpRegionKey> team = team_of_region(region);
    return team ? counted_threads(*team) : 0;
  };
  shard::OmpSums sums;
  segment_.for_each_touched(layout.omp_sites_offset, layout.omp_sites, sizeof(wire::OmpSite),
                            [&](std::uint32_t i) {
                              const std::optional<RawOmpRegion> ended = region_at(i);
                              shard::OmpRegion region;
                              region.threads = ended ? threads_of(i) : 0;
                              if (region.threads == 0) return;
                              region.time_ns = ended->time_ns;
                              region.mpi_ns = std::min(ended->mpi_ns, ended->time_ns);
                              sums.add(region);
                            });
  segment_.for_each_touched(layout.omp_rows_offset, layout.omp_rows, sizeof(wire::OmpRow),
                            [&](std::uint32_t i) {
                              const std::optional<Row> row = row_at(i);
                              if (!row || row->construct >= wire::OmpConstruct::kCount) return;
                              const RawOmpThread& amounts = row->amounts;
                              if (is_region(row->construct)) {
                                if (row->number >= threads_of(row->site)) return;
                                shard::OmpRegion region;
                                region.threads_ns = amounts.time_ns;
                                region.wait_ns = amounts.wait_ns;
                                region.inner_wait_ns = amounts.inner_wait_ns;
                                region.schedule_ns = amounts.schedule_ns;
                                sums.add(region);
                              } else if (threads_of(sites[row->site].region) != 0) {
                                shard::OmpConstruct construct;
                                construct.kind = static_cast<shard::OmpKind>(row->construct);
                                construct.wait_ns = amounts.wait_ns;
                                construct.schedule_ns = amounts.schedule_ns;
                                sums.add(construct);
                              }
                            });
  return sums;
}

shard::OmpSums OpenMpTables::sums_of(const UnderWay& under_way) {
  shard::OmpRegion region;
  region.threads = counted_threads(under_way.team);
  shard::OmpSums sums;
  if (region.threads == 0) return sums;
  region.time_ns = under_way.time_ns;
  region.mpi_ns = under_way.mpi_ns;
  sums.add(region);
  return sums;
}

std::optional<OpenMpTables::UnderWay> OpenMpTables::region_under_way(std::uint64_t mpi_ns,
                                                                     std::uint64_t now_ns) const {
  const wire::OmpProcess& process = segment_.header().openmp;
  UnderWay result;
  const std::uint64_t since_ns = process.region_since_ns.load(std::memory_order_acquire);
  if (since_ns == 0) return std::nullopt;
  result.site = process.region_site.load(kRelaxed);
  const std::uint64_t mpi_before_ns = process.region_mpi_ns.load(kRelaxed);
  const std::optional<RawOmpRegionKey> team = team_of_region(result.site);
  if (!team || process.region_since_ns.load(std::memory_order_acquire) != since_ns) return std::nullopt;
  result.team = *team;
  result.since_ns = std::clamp(since_ns, start_.not_after(now_ns), now_ns);
  result.time_ns = now_ns - result.since_ns;
  if (mpi_ns > mpi_before_ns) result.mpi_ns = std::min(mpi_ns - mpi_before_ns, result.time_ns);
  return result;
}

std::uint32_t OpenMpTables::path_of_construct(std::uint32_t site, std::uint32_t region_path,
                                              std::uint64_t code) {
  if (store_.was_opened_since(openings_seen_)) construct_paths_.clear();
  if (const auto known = construct_paths_.find(site); known != construct_paths_.end()) return known->second;
  const std::uint32_t frame = stacks_.frame_before(code);
  if (frame == StackResolver::kNoFrame) return region_path;
  return construct_paths_[site] = store_.leaf(region_path, frame);
}

}  // namespace clusterprof::collector
