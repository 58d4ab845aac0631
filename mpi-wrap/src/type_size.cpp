// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/type_size.hpp"

#include <initializer_list>

#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/library.hpp"

namespace clusterprof::mpi_wrap {

KnownType known_types[kKnownTypes];

std::uint64_t type_size_from_library(MPI_Datatype type) noexcept {
  if (type == handles.datatype_null) return 0;
  MPI_Count bytes = 0;
  const auto size_x = CLUSTERPROF_LIBRARY(MPI_Type_size_x);
  if (size_x == nullptr || size_x(type, &bytes) != MPI_SUCCESS) return 0;
#if CLUSTERPROF_MPI_STANDARD
  learn_size(type, count_of(bytes));
#endif
  return count_of(bytes);
}

#if CLUSTERPROF_MPI_STANDARD

std::uint16_t learned_sizes[256];

// The C types that every library has and whose size is not in the handle. Others are learned when the program
// uses them: a library without Fortran, C++ or long double may take its types for mistakes.
void find_type_sizes() noexcept {
  for (const MPI_Datatype type : {MPI_AINT,
                                  MPI_COUNT,
                                  MPI_OFFSET,
                                  MPI_PACKED,
                                  MPI_SHORT,
                                  MPI_INT,
                                  MPI_LONG,
                                  MPI_LONG_LONG,
                                  MPI_FLOAT,
                                  MPI_DOUBLE,
                                  MPI_UNSIGNED_SHORT,
                                  MPI_UNSIGNED,
                                  MPI_UNSIGNED_LONG,
                                  MPI_UNSIGNED_LONG_LONG,
                                  MPI_C_FLOAT_COMPLEX,
                                  MPI_WCHAR,
                                  MPI_C_BOOL,
                                  MPI_C_DOUBLE_COMPLEX,
                                  MPI_2INT,
                                  MPI_FLOAT_INT,
                                  MPI_DOUBLE_INT,
                                  MPI_LONG_INT,
                                  MPI_SHORT_INT}) {
    type_size_from_library(type);
  }
}

#elif CLUSTERPROF_MPI_OPENMPI

namespace {

// Variables of libmpi, one per predefined type that programs often use. The sizes of other types are asked
// for at each call.
constexpr const char* kTypeVariables[] = {
    "ompi_mpi_byte",
    "ompi_mpi_packed",
    "ompi_mpi_char",
    "ompi_mpi_signed_char",
    "ompi_mpi_unsigned_char",
    "ompi_mpi_short",
    "ompi_mpi_unsigned_short",
    "ompi_mpi_int",
    "ompi_mpi_unsigned",
    "ompi_mpi_long",
    "ompi_mpi_unsigned_long",
    "ompi_mpi_long_long_int",
    "ompi_mpi_unsigned_long_long",
    "ompi_mpi_float",
    "ompi_mpi_double",
    "ompi_mpi_long_double",
    "ompi_mpi_wchar",
    "ompi_mpi_c_bool",
    "ompi_mpi_cxx_bool",
    "ompi_mpi_int8_t",
    "ompi_mpi_uint8_t",
    "ompi_mpi_int16_t",
    "ompi_mpi_uint16_t",
    "ompi_mpi_int32_t",
    "ompi_mpi_uint32_t",
    "ompi_mpi_int64_t",
    "ompi_mpi_uint64_t",
    "ompi_mpi_aint",
    "ompi_mpi_offset",
    "ompi_mpi_count",
    "ompi_mpi_c_complex",
    "ompi_mpi_c_float_complex",
    "ompi_mpi_c_double_complex",
    "ompi_mpi_cxx_cplex",
    "ompi_mpi_cxx_dblcplex",
    "ompi_mpi_float_int",
    "ompi_mpi_double_int",
    "ompi_mpi_long_int",
    "ompi_mpi_2int",
    "ompi_mpi_short_int",
    "ompi_mpi_character",
    "ompi_mpi_logical",
    "ompi_mpi_integer",
    "ompi_mpi_integer1",
    "ompi_mpi_integer2",
    "ompi_mpi_integer4",
    "ompi_mpi_integer8",
    "ompi_mpi_real",
    "ompi_mpi_real4",
    "ompi_mpi_real8",
    "ompi_mpi_dblprec",
    "ompi_mpi_cplex",
    "ompi_mpi_dblcplex",
    "ompi_mpi_complex8",
    "ompi_mpi_complex16",
    "ompi_mpi_2real",
    "ompi_mpi_2dblprec",
    "ompi_mpi_2integer",
};

}  // namespace

void find_type_sizes() noexcept {
  for (const char* name : kTypeVariables) {
    const auto type = static_cast<MPI_Datatype>(library_symbol(name));
    if (type == nullptr) continue;
    const HandleKey key = key_of(type);
    std::uint32_t i = slot_of(mix(key), kKnownTypes);
    while (known_types[i].key != 0 && known_types[i].key != key) i = (i + 1) % kKnownTypes;
    known_types[i] = {key, type_size_from_library(type)};
  }
}

#else

void find_type_sizes() noexcept {}

#endif

}  // namespace clusterprof::mpi_wrap
