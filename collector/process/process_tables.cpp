// SPDX-License-Identifier: BSD-3-Clause
// One function for each table of wire::SegmentHeader. Called for a report, on the thread of the server's
// event loop.
#include "collector/process/process_tables.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "formats/wire/c10d_functions.h"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kMaxClockErrorNs = 1'000'000'000'000;

// A world rank, or one of the special values.
bool is_peer(std::int32_t peer) {
  return peer >= wire::kAnyPeer && peer < static_cast<std::int32_t>(shard::kMaxWorldSize);
}

}  // namespace

void ProcessTables::read(ProcessReport& report, std::uint64_t now_ns) {
  const std::vector<std::uint64_t> identities = read_communicators(report);
  read_call_sites(report, identities);
  read_traffic(report, identities);
  read_message_sizes(report);
  read_errors(report, now_ns);
  read_open_requests(report);
  read_regions(report);
  read_files(report);
  read_clocks(report, now_ns);
}

std::vector<std::uint64_t> ProcessTables::read_communicators(ProcessReport& report) const {
  const auto& layout = segment_.layout();
  std::vector<std::uint64_t> identities(layout.communicators, 0);
  const auto* const communicators = segment_.table<wire::MpiCommunicator>(layout.communicators_offset);
  segment_.for_each_touched(
      layout.communicators_offset, layout.communicators, sizeof(wire::MpiCommunicator), [&](std::uint32_t i) {
        if (communicators[i].ready.load(std::memory_order_acquire) != 1) return;
        const std::uint64_t identity = communicators[i].identity;
        if (identity == 0) return;
        identities[i] = identity;
        const std::uint32_t size = communicators[i].size;
        const std::int32_t number = communicators[i].number;
        report.communicators.try_emplace(
            identity,
            CommunicatorInfo{size, bounded_text(communicators[i].name, sizeof communicators[i].name),
                             number > 0 && static_cast<std::uint32_t>(number) <= size ? number - 1 : -1});
        // A communicator that took over the entry of another one is not told apart from it by call sites.
        if (communicators[i].collectives_of.load(std::memory_order_acquire) != identity) return;
        const std::uint64_t word = communicators[i].collectives.load(std::memory_order_acquire);
        RawCollectives& begun = report.collectives[identity];
        begun.count = wire::collectives_count(word);
        begun.agreed =
            wire::agreed_of_word(communicators[i].agreed.load(std::memory_order_relaxed), begun.count);
        if (begun.count != 0 && wire::collectives_op(word) < layout.mpi_ops)
          begun.last_path = stacks_.call_site_path(0, 0, wire::collectives_op(word) + 1u).value_or(0);
      });
  return identities;
}

void ProcessTables::read_call_sites(ProcessReport& report, const std::vector<std::uint64_t>& identities) {
  const auto& layout = segment_.layout();
  const bool counts = segment_.header().counts_mpi_sites == 1;
  const std::vector<std::uint32_t>& counters = charges_.counter_numbers();
  const auto* const site_counters = segment_.table<wire::MpiSiteCounters>(layout.mpi_site_counters_offset);
  const auto* const sites = segment_.table<wire::MpiSite>(layout.mpi_sites_offset);
  segment_.for_each_touched(
      layout.mpi_sites_offset, wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops), sizeof(wire::MpiSite),
      [&](std::uint32_t i) {
        const wire::MpiSite& site = sites[i];
        if (site.key.load(std::memory_order_acquire) == 0 || site.ready.load(std::memory_order_acquire) != 1)
          return;
        const std::uint16_t op = site.op;
        if (op >= layout.mpi_ops) {
          ++report.drops["damaged_mpi_site"];
          return;
        }
        const std::uint32_t path = sites_.path(i, op);
        const std::uint32_t communicator = site.communicator;
        const std::uint64_t identity = communicator < identities.size() ? identities[communicator] : 0;
        report.calls[RawCallKey{path, identity, site.helper_thread == 0}].add(
            RawCall{site.count, site.time_ns, site.min_ns, site.max_ns, site.sent_bytes, site.recv_bytes, 0});
        if (!counts) return;
        for (std::size_t c = 0; c < counters.size(); ++c) {
          if (const std::uint64_t value = site_counters[i].values[c]; value != 0)
            report.counters[RawCounterKey{path, counters[c]}] += value;
        }
      });
}

void ProcessTables::read_traffic(ProcessReport& report, const std::vector<std::uint64_t>& identities) const {
  const auto& layout = segment_.layout();
  const auto* const peers = segment_.table<wire::MpiPeer>(layout.mpi_peers_offset);
  segment_.for_each_touched(
      layout.mpi_peers_offset, layout.mpi_peers, sizeof(wire::MpiPeer), [&](std::uint32_t i) {
        const std::uint64_t key = peers[i].key.load(std::memory_order_acquire);
        if (key == 0) return;
        // Both parts are the rank plus 2, so that no pair has key 0.
        const auto rank_of = [](std::uint32_t part) { return static_cast<std::int32_t>(part - 2u); };
        const auto first = static_cast<std::uint32_t>(key >> 32);
        const std::int32_t source = rank_of(first);
        const std::int32_t destination = rank_of(static_cast<std::uint32_t>(key));
        if ((first & wire::kToMember) != 0) {
          const std::uint32_t row = first & ~wire::kToMember;
          if (row >= identities.size() || identities[row] == 0 || destination < 0) {
            ++report.drops["damaged_mpi_peer"];
            return;
          }
          RawTraffic& cell = report.group_traffic[{identities[row], destination}];
          cell.messages += peers[i].messages;
          cell.bytes += peers[i].bytes;
          return;
        }
        if (source < -1 || destination < -1) {
          ++report.drops["damaged_mpi_peer"];
          return;
        }
        RawTraffic& cell = report.traffic[{source, destination}];
        cell.messages += peers[i].messages;
        cell.bytes += peers[i].bytes;
      });
}

void ProcessTables::read_message_sizes(ProcessReport& report) const {
  const auto& layout = segment_.layout();
  const auto* const sizes = segment_.table<wire::MpiSizeBins>(layout.mpi_sizes_offset);
  segment_.for_each_touched(
      layout.mpi_sizes_offset, layout.mpi_ops, sizeof(wire::MpiSizeBins), [&](std::uint32_t op) {
        SizeBins bins;
        std::memcpy(bins.data(), sizes[op].bins, sizeof bins);
        if (std::any_of(bins.begin(), bins.end(), [](std::uint64_t n) { return n != 0; }))
          report.sizes[op] = bins;
      });
}

void ProcessTables::read_errors(ProcessReport& report, std::uint64_t now_ns) {
  const auto& layout = segment_.layout();
  const std::uint64_t begin_ns = start_.not_after(now_ns);
  const auto take = [&](const wire::MpiError& row) {
    if (row.ready.load(std::memory_order_acquire) != 1) return;
    const std::uint16_t op = row.op;
    RawMpiError error;
    error.channel = row.channel;
    error.error_class = row.error_class;
    error.peer = row.peer;
    error.tag = row.tag;
    error.message = row.message;
    error.count = row.count.load(std::memory_order_relaxed);
    const std::uint64_t first_ns = row.first_ns;
    if (op >= layout.mpi_ops || op >= wire::kFunctionCount || error.count == 0 || !is_peer(error.peer) ||
        first_ns < begin_ns || first_ns > now_ns + kClockToleranceNs) {
      ++report.drops["damaged_mpi_error"];
      return;
    }
    error.first_ns = first_ns - begin_ns;
    error.path = sites_.path_of_event(row.site, op);
    error.name = bounded_text(row.name, sizeof row.name);
    error.text = bounded_text(row.text, sizeof row.text);
    report.mpi_errors.push_back(std::move(error));
  };
  segment_.for_each_touched(offsetof(wire::SegmentHeader, mpi_errors), wire::kMpiErrors,
                            sizeof(wire::MpiError),
                            [&](std::uint32_t i) { take(segment_.header().mpi_errors[i]); });
  report.mpi_unseen = segment_.header().mpi_unseen.load(std::memory_order_relaxed) &
                      (wire::kReceivesUnseen | wire::kSendsUnsure);
}

void ProcessTables::read_open_requests(ProcessReport& report) {
  if (segment_.header().open_requests_ready.load(std::memory_order_acquire) != 1) return;
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::MpiSite>(layout.mpi_sites_offset);
  for (const wire::OpenRequests& row : segment_.header().open_requests) {
    RawOpenRequests open;
    open.count = row.count;
    if (open.count == 0) continue;
    open.channel = row.channel;
    open.peer = row.peer;
    open.tag = row.tag;
    const std::uint32_t kind = row.kind, site = row.site;
    if (kind > static_cast<std::uint32_t>(wire::PendingKind::kCollective) || !is_peer(open.peer)) {
      ++report.drops["damaged_open_requests"];
      continue;
    }
    open.kind = static_cast<std::uint8_t>(kind);
    if (site < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops)) {
      const std::uint16_t op = sites[site].op;
      if (op < layout.mpi_ops && op < wire::kFunctionCount) open.path = sites_.path_of_event(site, op);
    }
    report.open_requests.push_back(open);
  }
}

void ProcessTables::read_regions(ProcessReport& report) {
  const auto& layout = segment_.layout();
  const auto* const regions = segment_.table<wire::Region>(layout.regions_offset);
  segment_.for_each_touched(
      layout.regions_offset, layout.regions, sizeof(wire::Region), [&](std::uint32_t i) {
        const wire::Region& region = regions[i];
        if (region.ready.load(std::memory_order_acquire) != 1) return;
        const std::uint64_t count = region.count.load(std::memory_order_relaxed);
        if (count == 0) return;
        const std::optional<std::uint32_t> path = stacks_.region_path(i);
        if (!path) {
          ++report.drops["damaged_region"];
          return;
        }
        report.regions[*path].add(RawRegion{count, region.time_ns.load(std::memory_order_relaxed),
                                            region.min_ns.load(std::memory_order_relaxed),
                                            region.max_ns.load(std::memory_order_relaxed),
                                            region.max_n.load(std::memory_order_relaxed)});
      });
}

// The file that stands for all others, if the row has no description.
std::uint32_t ProcessTables::file(std::uint32_t index) {
  if (const auto known = files_.find(index); known != files_.end()) return known->second;
  const auto& layout = segment_.layout();
  const wire::IoFile& row = segment_.table<wire::IoFile>(layout.io_files_offset)[index];
  if (row.ready.load(std::memory_order_acquire) != 1) return 0;
  FileInfo info{std::string(), row.device, row.file_system};
  const std::uint32_t path_bytes = row.path_bytes;
  const std::uint64_t path_offset = row.path_offset;
  if (path_bytes <= kMaxTextBytes) info.path.resize(path_bytes);
  if (path_bytes > kMaxTextBytes || !segment_.copy(layout.path_arena_offset, layout.path_arena_bytes,
                                                   path_offset, info.path.data(), path_bytes)) {
    drops_.add("damaged_io_file");
    info.path.clear();
  }
  info.path.resize(std::strlen(info.path.c_str()));
  return files_[index] = store_.file(info);
}

std::uint32_t ProcessTables::file_call_path(std::uint32_t index) {
  if (store_.was_opened_since(openings_seen_)) file_call_paths_.clear();
  const auto [path, unseen] = file_call_paths_.try_emplace(index, 0);
  if (!unseen) return path->second;
  const wire::IoSite& site = segment_.table<wire::IoSite>(segment_.layout().io_sites_offset)[index];
  const std::uint16_t mpi_op = site.mpi_op;
  const bool sane = mpi_op <= segment_.layout().mpi_ops && mpi_op <= wire::kFunctionCount;
  const std::optional<std::uint32_t> found =
      sane ? stacks_.call_site_path(site.path_offset, site.path_words, mpi_op) : std::nullopt;
  if (!found) drops_.add("damaged_io_site");
  return path->second = found.value_or(0);
}

void ProcessTables::read_files(ProcessReport& report) {
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::IoSite>(layout.io_sites_offset);
  segment_.for_each_touched(
      layout.io_sites_offset, layout.io_sites, sizeof(wire::IoSite), [&](std::uint32_t i) {
        const wire::IoSite& site = sites[i];
        if (site.key.load(std::memory_order_acquire) == 0 || site.ready.load(std::memory_order_acquire) != 1)
          return;
        const std::uint32_t row = site.file;
        const auto operation = static_cast<std::uint8_t>(site.operation);
        if (row >= layout.io_files || operation >= wire::kIoOperations) {
          ++report.drops["damaged_io_site"];
          return;
        }
        const RawIo amount{
            site.count.load(std::memory_order_relaxed), site.failed.load(std::memory_order_relaxed),
            site.bytes.load(std::memory_order_relaxed), site.time_ns.load(std::memory_order_relaxed),
            site.max_ns.load(std::memory_order_relaxed)};
        if (amount.count == 0) return;
        report.io[{file_call_path(i), file(row), static_cast<wire::IoOperation>(operation)}].add(amount);
      });
  // Counted by file only: the root stands for the callers.
  const auto* const amounts = segment_.table<wire::IoAmount>(layout.io_amounts_offset);
  segment_.for_each_touched(layout.io_amounts_offset, layout.io_files * wire::kIoOperations,
                            sizeof(wire::IoAmount), [&](std::uint32_t i) {
                              const wire::IoAmount& from = amounts[i];
                              const RawIo amount{from.count.load(std::memory_order_relaxed),
                                                 from.failed.load(std::memory_order_relaxed),
                                                 from.bytes.load(std::memory_order_relaxed),
                                                 from.time_ns.load(std::memory_order_relaxed),
                                                 from.max_ns.load(std::memory_order_relaxed)};
                              if (amount.count == 0) return;
                              const auto operation = static_cast<wire::IoOperation>(i % wire::kIoOperations);
                              report.io[{0, file(i / wire::kIoOperations), operation}].add(amount);
                            });
}

void ProcessTables::read_clocks(ProcessReport& report, std::uint64_t now_ns) const {
  const wire::SegmentHeader& h = segment_.header();
  for (const wire::ClockMeasurement* const clock : {&h.clock_at_init, &h.clock_at_finalize}) {
    if (clock->ready.load(std::memory_order_acquire) != 1) continue;
    const ClockReading reading{clock->reference_rank, clock->local_ns, clock->offset_ns, clock->error_ns};
    const bool sane = reading.reference_rank >= 0 &&
                      reading.reference_rank < static_cast<std::int32_t>(shard::kMaxWorldSize) &&
                      reading.local_ns >= start_.not_after(now_ns) &&
                      reading.local_ns <= now_ns + kClockToleranceNs && reading.error_ns <= kMaxClockErrorNs;
    if (sane) {
      report.clocks.push_back(reading);
    } else {
      ++report.drops["damaged_clock_measurement"];
    }
  }
}

void ProcessTables::update_mpi_counters(std::uint64_t now_ns) {
  if (segment_.header().counts_mpi_sites != 1) return;
  charges_.read_counter_names(segment_.header());
  const std::vector<std::uint32_t>& counters = charges_.counter_numbers();
  const auto& layout = segment_.layout();
  const auto* const sites = segment_.table<wire::MpiSite>(layout.mpi_sites_offset);
  const auto* const counted = segment_.table<wire::MpiSiteCounters>(layout.mpi_site_counters_offset);
  std::array<std::uint64_t, wire::kMaxCounters> sums{};
  segment_.for_each_touched(layout.mpi_sites_offset, wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops),
                            sizeof(wire::MpiSite), [&](std::uint32_t i) {
                              if (sites[i].ready.load(std::memory_order_acquire) != 1) return;
                              for (std::size_t c = 0; c < counters.size(); ++c)
                                sums[c] += counted[i].values[c];
                            });
  const std::uint64_t since = std::max(counted_in_mpi_until_ns_, start_.not_after(now_ns));
  for (std::size_t c = 0; c < counters.size(); ++c) {
    if (sums[c] <= counted_in_mpi_[c]) continue;
    charges_.add_to_counter_series(counters[c], {since, now_ns}, sums[c] - counted_in_mpi_[c]);
    counted_in_mpi_[c] = sums[c];
  }
  counted_in_mpi_until_ns_ = now_ns;
}

}  // namespace clusterprof::collector
