// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/requests.hpp"

#include "mpi-wrap/src/lifecycle.hpp"
#include "mpi-wrap/src/rank_map.hpp"
#include "mpi-wrap/src/real.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/tables.hpp"

namespace clusterprof::mpi_wrap {
namespace {

RequestTable table;
SpinLock lock;
std::uint32_t tracked;  // table.size(), to be read without the lock

void drop(Request* request) noexcept {
  if (request->peers != nullptr) free_pages(request->peers, request->peers->allocated_bytes);
  table.erase(request);
  __atomic_store_n(&tracked, table.size(), __ATOMIC_RELAXED);
}

wire::MpiSite* site_of(wire::SegmentHeader* segment, const Request& request) noexcept {
  if (request.site >= segment->mpi_sites) return nullptr;
  return table_at<wire::MpiSite>(segment, segment->mpi_sites_offset) + request.site;
}

}  // namespace

bool any_tracked() noexcept { return __atomic_load_n(&tracked, __ATOMIC_RELAXED) != 0; }

void track(const Request& request) noexcept {
  const LockIf held(lock, state.shared);
  Request* old = table.find(request.key);
  if (old != nullptr) drop(old);
  if (!table.insert(request)) {
    // Its bytes will be missing from its site.
    agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiSiteTableFull));
    if (request.peers != nullptr) free_pages(request.peers, request.peers->allocated_bytes);
  }
  __atomic_store_n(&tracked, table.size(), __ATOMIC_RELAXED);
}

void forget(HandleKey key) noexcept {
  if (!any_tracked()) return;
  const LockIf held(lock, state.shared);
  Request* request = table.find(key);
  if (request != nullptr) drop(request);
}

bool is_active_receive(HandleKey key) noexcept {
  if (!any_tracked()) return false;
  const LockIf held(lock, state.shared);
  const Request* request = table.find(key);
  return request != nullptr && request->receive && request->active;
}

void complete_receive(wire::SegmentHeader* segment, HandleKey key, const MPI_Status* status) noexcept {
  const LockIf held(lock, state.shared);
  Request* request = table.find(key);
  if (request == nullptr || !request->receive || !request->active) return;
  if (status != nullptr && status->MPI_SOURCE != MPI_PROC_NULL && !status_cancelled(*status)) {
    const std::uint64_t bytes = status_bytes(*status);
    wire::MpiSite* site = site_of(segment, *request);
    if (site != nullptr) add(site->recv_bytes, bytes, state.shared);
    count_size(segment, request->op, bytes, state.shared);
  }
  request->active = false;
  if (!request->persistent) drop(request);
}

void activate(wire::SegmentHeader* segment, HandleKey key) noexcept {
  const LockIf held(lock, state.shared);
  Request* request = table.find(key);
  if (request == nullptr || !request->persistent) return;
  request->active = true;
  wire::MpiSite* site = site_of(segment, *request);
  if (site != nullptr) {
    add(site->sent_bytes, request->sent_bytes, state.shared);
    add(site->recv_bytes, request->recv_bytes, state.shared);
  }
  if (request->counts_size) count_size(segment, request->op, request->size_bytes, state.shared);
  if (request->peers == nullptr) return;
  for (std::uint32_t i = 0; i < request->peers->count; ++i) {
    const PeerBytes& peer = request->peers->peers()[i];
    if (!count_message(segment, state.world_rank, peer.world_rank, peer.bytes, state.shared)) {
      agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiPeerTableFull));
    }
  }
}

}  // namespace clusterprof::mpi_wrap
