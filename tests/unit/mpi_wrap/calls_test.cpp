// SPDX-License-Identifier: BSD-3-Clause
// What wrappers do where the library answers with an error, or where a call is passed on. The library and the
// agent are faked here. Uses the mpi.h of the MPI standard.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/epochs.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/tables.hpp"
#include "mpi-wrap/src/topology.hpp"
#include "mpi-wrap/src/type_size.hpp"

namespace clusterprof::mpi_wrap {

Handles handles{.comm_world = MPI_COMM_WORLD,
                .comm_self = MPI_COMM_SELF,
                .comm_null = MPI_COMM_NULL,
                .datatype_null = MPI_DATATYPE_NULL,
                .packed = MPI_PACKED,
                .no_op = MPI_NO_OP,
                .group_null = MPI_GROUP_NULL};
State state{true, false, 0};
bool library_is_open_mpi = true;
void* real_functions[wire::kMpiFunctionCount];
std::uint16_t learned_sizes[256];
KnownType known_types[kKnownTypes];

// Functions that the objects under test refer to but do not need here.
void* library_function(std::uint32_t number) noexcept { return real_functions[number]; }
std::uint64_t type_size_from_library(MPI_Datatype) noexcept { return 1; }
std::uint64_t status_bytes(const MPI_Status&) noexcept { return 100; }
bool status_cancelled(const MPI_Status&) noexcept { return false; }
Communicator* discover_communicator(MPI_Comm) noexcept { return nullptr; }
Communicator* discover_window(MPI_Win) noexcept { return nullptr; }
void derive_communicator(Communicator*, Derivation, MPI_Comm, std::uint64_t) noexcept {}
void find_neighbours(Communicator&, MPI_Comm) noexcept {}
void begin_epoch(const EndedCall&, HandleKey, Communicator&, MPI_Group, std::uint16_t, bool) noexcept {}
void end_epoch(const EndedCall&, HandleKey, Communicator&, std::uint16_t, bool) noexcept {}

namespace {

bool is_measured;  // false: calls are passed on

wire::SegmentHeader* segment() {
  static std::vector<std::uint64_t> words(1 << 20);
  auto* const header = reinterpret_cast<wire::SegmentHeader*>(words.data());
  if (header->mpi_sites != 0) return header;
  header->mpi_sites = 64;
  header->mpi_ops = wire::kMpiFunctionCount;
  header->mpi_peers = 64;
  header->mpi_sites_offset = (sizeof(wire::SegmentHeader) + 63) / 64 * 64;
  header->mpi_peers_offset =
      header->mpi_sites_offset + wire::all_mpi_sites(64, wire::kMpiFunctionCount) * sizeof(wire::MpiSite);
  header->mpi_sizes_offset = header->mpi_peers_offset + 64 * sizeof(wire::MpiPeer);
  return header;
}

const clusterprof_agent_api kAgent = [] {
  clusterprof_agent_api api{};
  api.segment = []() -> void* { return segment(); };
  api.enter_mpi = [](const clusterprof_mpi_call*) -> std::uint64_t { return is_measured ? 1 : 0; };
  api.leave_mpi = [] {
    clusterprof_mpi_exit left{};
    left.time_ns = 10;
    left.segment = segment();
    return left;
  };
  api.call_path = [] { return clusterprof_call_path{0x1234, 64, 2}; };
  api.count_drop = [](std::uint32_t) {};
  return api;
}();

}  // namespace

const clusterprof_agent_api* agent = &kAgent;

namespace {

// --- the library ---

int answer;           // what calls return
MPI_Request is_left;  // what they leave in place of the request
MPI_Request is_made;  // the request that they start
int chosen;           // what MPI_Waitany and MPI_Testany say

int wait(MPI_Request* request, MPI_Status*) {
  if (request != nullptr) *request = is_left;
  return answer;
}
int test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (flag != nullptr) *flag = 1;
  return wait(request, status);
}
int wait_any(int, MPI_Request requests[], int* index, MPI_Status*) {
  if (index != nullptr) *index = chosen;
  if (requests != nullptr) requests[chosen] = is_left;
  return answer;
}
// With an error, libraries need not say whether a request is complete.
int test_any(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  if (flag != nullptr) *flag = answer == MPI_SUCCESS ? 1 : 0;
  return wait_any(count, requests, index, status);
}
int isend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request* request) {
  *request = is_made;
  return answer;
}
int comm_free(MPI_Comm*) { return answer; }
int mrecv(void*, int, MPI_Datatype, MPI_Message*, MPI_Status*) { return answer; }
int imrecv(void*, int, MPI_Datatype, MPI_Message*, MPI_Request*) { return answer; }

class Calls : public testing::Test {
 protected:
  Calls() {
    is_measured = true;
    answer = MPI_SUCCESS;
    is_left = MPI_REQUEST_NULL;
    chosen = 0;
    communicator_->identity = 77;
    communicator_->references = 1;
    const struct {
      std::uint32_t number;
      void* function;
    } functions[] = {{wire::kMPI_Wait, reinterpret_cast<void*>(&wait)},
                     {wire::kMPI_Test, reinterpret_cast<void*>(&test)},
                     {wire::kMPI_Waitany, reinterpret_cast<void*>(&wait_any)},
                     {wire::kMPI_Testany, reinterpret_cast<void*>(&test_any)},
                     {wire::kMPI_Isend, reinterpret_cast<void*>(&isend)},
                     {wire::kMPI_Comm_free, reinterpret_cast<void*>(&comm_free)},
                     {wire::kMPI_Mrecv, reinterpret_cast<void*>(&mrecv)},
                     {wire::kMPI_Imrecv, reinterpret_cast<void*>(&imrecv)}};
    for (const auto& one : functions) real_functions[one.number] = one.function;
  }
  ~Calls() override { forget_requests(); }

  static MPI_Request request(std::uintptr_t number) {
    return reinterpret_cast<MPI_Request>(0x10000 + 64 * number);
  }
  void start_receive(std::uintptr_t number) {
    Request receive{};
    receive.key = key_of(request(number));
    receive.kind = RequestKind::kReceive;
    receive.active = receive.sized = true;
    receive.communicator = communicator_.get();
    receive.peer = 3;
    receive.tag = 5;
    number_receive(receive);
    track(receive, nullptr);
  }

  std::unique_ptr<Communicator> communicator_ = std::make_unique<Communicator>();
};

// The library answers them with an error, and the program goes on with MPI_ERRORS_RETURN.
TEST_F(Calls, NullPointersAreForTheLibraryToRefuse) {
  start_receive(1);  // so that waits look at requests
  for (const bool measured : {true, false}) {
    is_measured = measured;
    answer = MPI_ERR_REQUEST;
    MPI_Status status{};
    int flag = 0, index = 0;
    EXPECT_EQ(clusterprof_wrap_MPI_Wait(nullptr, &status), MPI_ERR_REQUEST);
    EXPECT_EQ(clusterprof_wrap_MPI_Wait(nullptr, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    EXPECT_EQ(clusterprof_wrap_MPI_Test(nullptr, &flag, &status), MPI_ERR_REQUEST);
    EXPECT_EQ(clusterprof_wrap_MPI_Waitany(2, nullptr, &index, &status), MPI_ERR_REQUEST);
    EXPECT_EQ(clusterprof_wrap_MPI_Testany(2, nullptr, &index, &flag, &status), MPI_ERR_REQUEST);
    answer = MPI_ERR_COMM;
    EXPECT_EQ(clusterprof_wrap_MPI_Comm_free(nullptr), MPI_ERR_COMM);
    answer = MPI_ERR_ARG;
    MPI_Request made = MPI_REQUEST_NULL;
    EXPECT_EQ(clusterprof_wrap_MPI_Mrecv(nullptr, 0, MPI_BYTE, nullptr, &status), MPI_ERR_ARG);
    EXPECT_EQ(clusterprof_wrap_MPI_Imrecv(nullptr, 0, MPI_BYTE, nullptr, &made), MPI_ERR_ARG);
  }
  EXPECT_EQ(open_requests(), 1u);
}

// As where the other rank has failed (ULFM): the library frees the request.
TEST_F(Calls, RequestsThatHaveFailedAreNotOpen) {
  answer = MPI_ERR_OTHER;
  for (int call = 0; call < 4; ++call) {
    MPI_Request requests[2] = {request(1), request(2)};
    start_receive(1);
    start_receive(2);
    chosen = call < 2 ? 0 : 1;
    int index = -1, flag = 0, result = MPI_SUCCESS;
    if (call == 0) result = clusterprof_wrap_MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    if (call == 1) result = clusterprof_wrap_MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    if (call == 2) result = clusterprof_wrap_MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    if (call == 3) result = clusterprof_wrap_MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(result, MPI_ERR_OTHER);
    EXPECT_EQ(open_requests(), 1u) << call;
    forget_requests();
  }
}

TEST_F(Calls, RequestsThatStayWhenACallFailsAreOpen) {
  MPI_Request requests[2] = {request(1), request(2)};
  start_receive(1);
  start_receive(2);
  answer = MPI_ERR_OTHER;
  is_left = request(2);
  chosen = 1;
  int index = -1, flag = 0;
  clusterprof_wrap_MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  clusterprof_wrap_MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
  chosen = 0;
  is_left = request(1);
  clusterprof_wrap_MPI_Waitany(2, requests, nullptr, MPI_STATUS_IGNORE);
  clusterprof_wrap_MPI_Testany(2, requests, nullptr, nullptr, MPI_STATUS_IGNORE);
  EXPECT_EQ(open_requests(), 2u);
}

// A thread without a slot waits for the request of another one, and its next request has the same handle.
TEST_F(Calls, AHandleThatWasReusedUnseenIsNotTheEarlierRequest) {
  start_receive(1);
  start_receive(2);
  is_measured = false;
  MPI_Request received = request(1), sent = MPI_REQUEST_NULL;
  clusterprof_wrap_MPI_Wait(&received, MPI_STATUS_IGNORE);
  EXPECT_EQ(open_requests(), 2u) << "it may not have completed";
  is_made = request(1);
  clusterprof_wrap_MPI_Isend(nullptr, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &sent);
  EXPECT_EQ(open_requests(), 1u);
  // This one no call that is not measured has completed: the handle is of several that are complete.
  is_made = request(2);
  clusterprof_wrap_MPI_Isend(nullptr, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &sent);
  EXPECT_EQ(open_requests(), 1u);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
