// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/evidence.hpp"

#include <array>
#include <string>

#include "report/analysis/activities.hpp"

namespace clusterprof::report {

using Key = EvidenceKey;

SourceLocation place_of(const CallPaths& paths, std::uint32_t path) {
  const shard::Frame& frame = *paths.frame(path);
  SourceLocation place;
  place.function = paths.text(frame.name);
  place.file = paths.text(frame.file);
  place.module = paths.text(frame.module);
  place.line = frame.line;
  place.kind = frame.kind;
  return place;
}

void add_idle_kinds(const std::array<double, kOffCpuKinds>& idle_s, Evidence& evidence) {
  static_assert(static_cast<std::size_t>(Key::kOther) - static_cast<std::size_t>(Key::kSleep) ==
                static_cast<std::size_t>(OffCpu::kOther) - static_cast<std::size_t>(OffCpu::kSleep));
  for (std::size_t k = 0; k < kOffCpuKinds; ++k)
    if (idle_s[k] > 0) evidence.set(static_cast<Key>(static_cast<std::size_t>(Key::kSleep) + k), idle_s[k]);
}

void add_io_evidence(const Analysis& analysis, const IoCallRow& row, std::uint64_t count,
                     Evidence& evidence) {
  static constexpr std::array<const char*, shard::kIoOperations> kNames = {
      "open", "close", "read", "write", "fsync", "seek", "metadata", "mmap"};
  // For a sync only the group of functions is known. Samples tell which one it was, if there was only one.
  const char* name = kNames[static_cast<std::size_t>(row.operation)];
  if (row.operation == shard::IoOperation::kSync && analysis.system_calls.count("fsync") == 0)
    name = analysis.system_calls.count("fdatasync") != 0 ? "fdatasync" : "sync";
  evidence.set(Key::kCalls, count);
  evidence.set(Key::kCall, std::string(name));
  if (!row.path.empty()) evidence.set(Key::kPath, row.path);
}

void add_memory_evidence(const MemoryRow& row, Evidence& evidence) {
  if (row.by_counters) {
    evidence.set(Key::kBandwidth, row.bandwidth);
    if (row.misses_per_kilo > 0) evidence.set(Key::kMissesPerKilo, row.misses_per_kilo);
    return;
  }
  evidence.set(row.working_set_is_more ? Key::kWorkingSetAtLeast : Key::kWorkingSet, row.working_set_bytes);
  evidence.set(Key::kAccesses, row.accesses);
  evidence.set(Key::kCache, row.cache_bytes);
}

Severity severity_of(double share) {
  if (share >= thresholds::kHigh) return Severity::kHigh;
  return share >= thresholds::kMedium ? Severity::kMedium : Severity::kLow;
}

}  // namespace clusterprof::report
