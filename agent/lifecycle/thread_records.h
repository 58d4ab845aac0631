// SPDX-License-Identifier: BSD-3-Clause
// The threads' records (ThreadRecord) and their slots in shared memory: how they are claimed, filled and
// given back.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

std::int32_t own_tid() noexcept;
clockid_t cpu_clock_of(std::int32_t tid) noexcept;     // of a thread of this process
bool blocks_sample_signal(std::int32_t tid) noexcept;  // in the kernel

std::uint32_t as_number(RecordState state) noexcept;

// Memory for g_process.records.
bool allocate_records(const wire::SegmentHeader* segment) noexcept;

// Claims a record whose slot the collector has given back. Null if there is none.
ThreadRecord* claim_record(wire::SegmentHeader* segment) noexcept;

struct BeginningThread {
  std::int32_t tid;
  std::uint32_t number;          // of the process's threads
  std::uint64_t start_function;  // 0: not known
  std::uint64_t earlier_run_delay_ns;
  const char* inherited_name;  // 16 bytes; null: that of the process
};

// Fills the fields that do not depend on which thread does it. The slot is not live yet.
void fill_record(ThreadRecord& record, const BeginningThread& thread) noexcept;

// From now on the watcher and the collector see the thread / see that it has ended.
void publish_record(ThreadRecord& record) noexcept;
void release_record(ThreadRecord& record) noexcept;

// For the watcher, while it holds the record: ends a thread that ended without reporting it.
void end_vanished_thread(ThreadRecord& record) noexcept;
void refresh_name(ThreadRecord& record) noexcept;

// Takes the calling thread's record from the watcher, which may be looking at it, and gives it back. Also
// takes it from code of the same thread that the program has jumped out of. False if the watcher does not
// release it, or has already declared the thread ended.
bool claim_own_record(ThreadRecord& record) noexcept;
void give_record_back(ThreadRecord& record) noexcept;

}  // namespace clusterprof::agent
