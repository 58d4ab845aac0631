// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_file.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <exception>
#include <new>

#include "formats/shard/shard_writer.hpp"

namespace clusterprof::collector {
namespace {

std::uint64_t ns(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_usec) * 1000;
}

// The libraries that read symbols and write the file do not survive a failed allocation.
bool has_memory_to_write() {
  constexpr std::size_t kBytes = 32 << 20;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED && munmap(memory, kBytes) == 0;
}

}  // namespace

Result<void> ShardFile::write(const NodeSnapshot& snapshot, int tries,
                              const ShardBuilder::MayReadLines& may_read_lines) {
  Result<void> written = try_to_write(snapshot, may_read_lines);
  while (!written && --tries > 0) written = try_to_write(snapshot, may_read_lines);
  if (written) name_.give_up();  // if we are killed now, nothing but the shard is left
  return written;
}

Result<void> ShardFile::try_to_write(const NodeSnapshot& snapshot,
                                     const ShardBuilder::MayReadLines& may_read_lines) {
  try {
    if (!has_memory_to_write()) throw std::bad_alloc();
    shard::ShardData data = builder_.build(snapshot, may_read_lines);
    rusage own{};
    getrusage(RUSAGE_SELF, &own);
    data.nodes[0].collector_cpu_ns = ns(own.ru_utime) + ns(own.ru_stime);
    data.nodes[0].collector_max_rss_bytes = static_cast<std::uint64_t>(own.ru_maxrss) * 1024;
    return shard::write_shard(data, name_.path());
  } catch (const std::exception& error) {
    return Error{error.what()};
  }
}

}  // namespace clusterprof::collector
