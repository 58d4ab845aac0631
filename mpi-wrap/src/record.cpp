// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/record.hpp"

#include "mpi-wrap/src/requests.hpp"

namespace clusterprof::mpi_wrap {

void Record::finish() noexcept {
  if (segment_ == nullptr) return;
  site_ = find_site(segment_, agent->call_path(), op_, index_);
  if (site_ == kNoSite) {
    agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiSiteTableFull));
  } else {
    wire::MpiSite& site = table_at<wire::MpiSite>(segment_, segment_->mpi_sites_offset)[site_];
    count_call(site, duration_ns_, state.shared);
    if (prepared_ == nullptr) {
      if (sent_ != 0) add(site.sent_bytes, sent_, state.shared);
      if (received_ != 0) add(site.recv_bytes, received_, state.shared);
    }
  }
  if (prepared_ != nullptr) {
    prepared_->site = site_;
    prepared_->op = static_cast<std::uint16_t>(op_);
    prepared_->sent_bytes = sent_;
    prepared_->recv_bytes = received_;
    track(*prepared_);
  }
}

void Record::track_receive(MPI_Request request) noexcept {
  Request receive{};
  receive.key = key_of(request);
  receive.site = site_;
  receive.op = static_cast<std::uint16_t>(op_);
  receive.receive = true;
  receive.active = true;
  track(receive);
}

void Record::forget_request(MPI_Request request) noexcept { forget(key_of(request)); }

void Record::prepare_peers(std::uint32_t count) noexcept {
  if (count == 0) return;
  const std::size_t bytes = sizeof(PeerList) + std::size_t{count} * sizeof(PeerBytes);
  auto* list = static_cast<PeerList*>(allocate_pages(bytes));
  if (list == nullptr) {
    agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiPeerTableFull));
    return;
  }
  list->allocated_bytes = bytes;
  prepared_->peers = list;
}

}  // namespace clusterprof::mpi_wrap
