// SPDX-License-Identifier: BSD-3-Clause
// Threads that libraries make for themselves: whose they are is known from the library of the function that
// they were started with, or of the outermost one on their call paths.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace clusterprof {

enum class PoolKind : std::uint8_t {
  kOpenMp,
  kNative,  // computes for the program
  kHelper,  // makes progress with messages, waits for events
};

struct ThreadPool {
  std::string_view library;  // what the library's file name begins with
  std::string_view name;
  PoolKind kind;
};

// The first row that fits counts.
inline constexpr ThreadPool kThreadPools[] = {
    {"libgomp", "OpenMP", PoolKind::kOpenMp},
    {"libomp.", "OpenMP", PoolKind::kOpenMp},
    {"libomp-", "OpenMP", PoolKind::kOpenMp},  // with a wheel's hash in its name
    {"libiomp", "OpenMP", PoolKind::kOpenMp},
    {"libopenblas", "OpenBLAS", PoolKind::kNative},
    {"libscipy_openblas", "OpenBLAS", PoolKind::kNative},
    {"libblis", "BLIS", PoolKind::kNative},
    {"libmkl_", "MKL", PoolKind::kNative},
    {"libtbb", "TBB", PoolKind::kNative},
    // c10::ThreadPool: between operators, and within them where ATen is built without OpenMP.
    {"libc10.", "PyTorch", PoolKind::kNative},
    {"libuct", "UCX", PoolKind::kHelper},
    {"libucs", "UCX", PoolKind::kHelper},
    {"libucp", "UCX", PoolKind::kHelper},
    {"libucm", "UCX", PoolKind::kHelper},
    {"libfabric", "libfabric", PoolKind::kHelper},
    {"libpsm2", "PSM2", PoolKind::kHelper},
    {"libibverbs", "InfiniBand", PoolKind::kHelper},
    {"librdmacm", "InfiniBand", PoolKind::kHelper},
    {"libpmix", "PMIx", PoolKind::kHelper},
    {"libevent", "libevent", PoolKind::kHelper},
    {"libopen-pal", "MPI", PoolKind::kHelper},
    {"libopen-rte", "MPI", PoolKind::kHelper},
    {"libmpi", "MPI", PoolKind::kHelper},  // libmpich, too
    {"mca_", "MPI", PoolKind::kHelper},    // parts of Open MPI
    {"libcudart", "CUDA", PoolKind::kHelper},
    {"libcuda.", "CUDA", PoolKind::kHelper},
    {"libcupti", "CUDA", PoolKind::kHelper},
    {"libnccl", "NCCL", PoolKind::kHelper},
    {"librccl", "RCCL", PoolKind::kHelper},
    {"libhsa-runtime", "ROCm", PoolKind::kHelper},
    {"libamdhip", "ROCm", PoolKind::kHelper},
};

// Null: the library has none, as far as is known.
constexpr const ThreadPool* thread_pool_of(std::string_view library_path) {
  const std::string_view name = library_path.substr(library_path.rfind('/') + 1);
  for (const ThreadPool& pool : kThreadPools)
    if (name.starts_with(pool.library)) return &pool;
  return nullptr;
}

// The frame below which the call paths of the pool's threads are.
inline std::string pool_frame_name(const ThreadPool& pool) {
  return "[" + std::string(pool.name) + " threads]";
}

// The same of a library that may have no row.
inline std::string pool_frame_name(std::string_view library_path) {
  if (const ThreadPool* const pool = thread_pool_of(library_path); pool != nullptr)
    return pool_frame_name(*pool);
  return "[" + std::string(library_path.substr(library_path.rfind('/') + 1)) + " threads]";
}

// What the names of threads that are alike have in common: "loader-12" is "loader-*".
inline std::string without_numbers(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) {
      text += c;
    } else if (text.empty() || text.back() != '*') {
      text += '*';
    }
  }
  return text;
}

}  // namespace clusterprof
