// SPDX-License-Identifier: BSD-3-Clause
// The records of threads (ThreadRecord) and their slots in shared memory: claiming one, filling it, giving it
// back.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

std::int32_t own_tid() noexcept;

std::uint32_t as_number(RecordState state) noexcept;

// Memory for g_process.records.
bool allocate_records(const wire::SegmentHeader* segment) noexcept;

// A record whose slot the collector has given back, claimed. Null when there is none.
ThreadRecord* claim_record(wire::SegmentHeader* segment) noexcept;

struct BeginningThread {
  std::int32_t tid;
  std::uint32_t number;          // of the process's threads
  std::uint64_t start_function;  // 0: not known
  std::uint64_t earlier_run_delay_ns;
};

// Fills what does not depend on who does it. The slot is not live yet.
void fill_record(ThreadRecord& record, const BeginningThread& thread) noexcept;

// From here on the watcher and the collector see the thread / it has ended.
void publish_record(ThreadRecord& record) noexcept;
void release_record(ThreadRecord& record) noexcept;

// For the watcher, while it holds the record: a thread that ended without telling.
void end_vanished_thread(ThreadRecord& record) noexcept;
void refresh_name(ThreadRecord& record) noexcept;

// Takes the calling thread's record from the watcher, which may be looking at it; and gives it back. Also
// takes it over from code of the same thread that the program has jumped out of. False when the watcher does
// not let go of it, or has buried the thread.
bool claim_own_record(ThreadRecord& record) noexcept;
void give_record_back(ThreadRecord& record) noexcept;

}  // namespace clusterprof::agent
