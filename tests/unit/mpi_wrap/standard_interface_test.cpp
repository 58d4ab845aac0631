// SPDX-License-Identifier: BSD-3-Clause
// The interface of the MPI standard: what is in handles and statuses, and what the library is asked for.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/request_table.hpp"
#include "mpi-wrap/src/type_size.hpp"

namespace clusterprof::mpi_wrap {

Handles handles{.comm_world = MPI_COMM_WORLD,
                .comm_self = MPI_COMM_SELF,
                .comm_null = MPI_COMM_NULL,
                .datatype_null = MPI_DATATYPE_NULL,
                .packed = MPI_PACKED,
                .no_op = MPI_NO_OP,
                .group_null = MPI_GROUP_NULL};

namespace {

int sizes_asked;

// A library without Fortran.
int type_size_x(MPI_Datatype type, MPI_Count* bytes) {
  ++sizes_asked;
  if (type == MPI_INTEGER) return MPI_ERR_TYPE;
  *bytes = type == MPI_DOUBLE ? 8 : type == MPI_INT ? 4 : 40;
  return MPI_SUCCESS;
}

}  // namespace

void* library_function(std::uint32_t number) noexcept {
  return number == wire::kMPI_Type_size_x ? reinterpret_cast<void*>(&type_size_x) : nullptr;
}

namespace {

// As in the tables of MPI 5.0, chapter 20 and annex A.
TEST(StandardInterface, HasTheStandardsValues) {
  EXPECT_EQ(sizeof(MPI_Status), 32u);
  EXPECT_EQ(offsetof(MPI_Status, MPI_SOURCE), 0u);
  EXPECT_EQ(offsetof(MPI_Status, MPI_TAG), 4u);
  EXPECT_EQ(offsetof(MPI_Status, MPI_ERROR), 8u);
  const std::pair<const void*, std::uintptr_t> handles_and_values[] = {
      {MPI_OP_NULL, 0x20},        {MPI_SUM, 0x21},
      {MPI_NO_OP, 0x3d},          {MPI_COMM_NULL, 0x100},
      {MPI_COMM_WORLD, 0x101},    {MPI_COMM_SELF, 0x102},
      {MPI_GROUP_NULL, 0x108},    {MPI_WIN_NULL, 0x110},
      {MPI_FILE_NULL, 0x118},     {MPI_INFO_NULL, 0x130},
      {MPI_ERRORS_RETURN, 0x143}, {MPI_REQUEST_NULL, 0x180},
      {MPI_DATATYPE_NULL, 0x200}, {MPI_INT, 0x209},
      {MPI_DOUBLE, 0x214},        {MPI_PACKED, 0x207},
      {MPI_BYTE, 0x247},          {MPI_INT64_T, 0x258},
      {MPI_REAL8, 0x2da},         {MPI_IN_PLACE, 1},
      {MPI_STATUS_IGNORE, 0}};
  for (const auto& [handle, value] : handles_and_values)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handle), value);
  EXPECT_EQ(MPI_ANY_SOURCE, -1);
  EXPECT_EQ(MPI_ANY_TAG, -2);
  EXPECT_EQ(MPI_PROC_NULL, -3);
  EXPECT_EQ(MPI_ROOT, -4);
  EXPECT_EQ(MPI_UNDEFINED, -32766);
  EXPECT_EQ(MPI_THREAD_MULTIPLE, 4096);
  EXPECT_EQ(MPI_ERR_TRUNCATE, 15);
  EXPECT_EQ(MPI_ERR_PENDING, 18);
  EXPECT_EQ(MPI_ERR_IN_STATUS, 19);
  EXPECT_EQ(MPI_ERR_ABI, 62);
  EXPECT_EQ(MPI_UNEQUAL, 204);
  EXPECT_EQ(MPI_DIST_GRAPH, 213);
}

TEST(StandardInterface, SizesAreInHandlesOrLearned) {
  const std::pair<MPI_Datatype, std::uint64_t> fixed[] = {
      {MPI_BYTE, 1},    {MPI_CHAR, 1},     {MPI_INT8_T, 1}, {MPI_UINT16_T, 2},   {MPI_INT32_T, 4},
      {MPI_INT64_T, 8}, {MPI_LOGICAL1, 1}, {MPI_REAL8, 8},  {MPI_COMPLEX16, 16}, {MPI_COMPLEX32, 32}};
  for (const auto& [type, bytes] : fixed) {
    EXPECT_EQ(predefined_size(type), bytes);
    EXPECT_EQ(type_size(type), bytes);
  }
  EXPECT_EQ(sizes_asked, 0);
  EXPECT_EQ(predefined_size(MPI_DOUBLE), 0u);
  EXPECT_EQ(agreed_of(3, MPI_DOUBLE), 0u);
  EXPECT_EQ(type_size(MPI_DOUBLE), 8u);
  EXPECT_EQ(predefined_size(MPI_DOUBLE), 8u);
  EXPECT_EQ(agreed_of(3, MPI_DOUBLE), wire::agreed_of_bytes(24));
  EXPECT_EQ(type_size(MPI_DOUBLE), 8u);
  EXPECT_EQ(sizes_asked, 1);
  // Every C type is known from MPI_Init on; one of Fortran's may be a mistake.
  find_type_sizes();
  EXPECT_EQ(predefined_size(MPI_INT), 4u);
  EXPECT_EQ(predefined_size(MPI_INTEGER), 0u);
  EXPECT_EQ(type_size(MPI_INTEGER), 0u);
  EXPECT_EQ(predefined_size(MPI_INTEGER), 0u);
  // Types of the program are asked for at each call.
  const auto made = reinterpret_cast<MPI_Datatype>(std::uintptr_t{0x55550000'0209});
  EXPECT_EQ(predefined_size(made), 0u);
  EXPECT_EQ(type_size(made), 40u);
  EXPECT_EQ(predefined_size(made), 0u);
  EXPECT_EQ(predefined_size(MPI_INT), 4u);
}

TEST(StandardInterface, KeysLeaveRoomForWhatIsAdded) {
  // An integer handle of the library, extended by its sign, and an address.
  const auto integer = reinterpret_cast<MPI_Request>(std::intptr_t{static_cast<std::int32_t>(0x98000003)});
  const auto next = reinterpret_cast<MPI_Request>(std::intptr_t{static_cast<std::int32_t>(0x98000004)});
  const auto address = reinterpret_cast<MPI_Request>(std::uintptr_t{0x7fff'98000003});
  for (const MPI_Request request : {integer, next, address})
    EXPECT_EQ(key_of(request) & (kSendHalf | kMessageHandle), 0u);
  EXPECT_NE(key_of(integer), key_of(next));
  EXPECT_NE(key_of(integer), key_of(address));
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
