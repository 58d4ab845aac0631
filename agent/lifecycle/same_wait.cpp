// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/same_wait.h"

#include <cstdlib>

namespace clusterprof::agent {
namespace {

// The sample has interrupted a call at its instruction, where the kernel makes it again, or behind it.
bool is_where_sampled(const ThreadRecord& record, const BlockedCall& call) noexcept {
  constexpr std::uint64_t kInstructionBytes = 2;
  const std::uint64_t pc = record.sampled_pc.load(std::memory_order_relaxed);
  return call.stack_pointer == record.sampled_sp.load(std::memory_order_relaxed) &&
         (call.pc == pc || call.pc == pc + kInstructionBytes);
}

// For the watcher's signal a blocked thread gets a processor once. The signals of a monotonic timer are not
// counted.
bool has_run_again(const ThreadRecord& record, std::uint64_t cpu_ns) noexcept {
  const WatchState& watch = record.watch;
  return record.tick != Tick::kMonotonic && watch.signalled_runs != 0 && watch.runs_cpu_ns == cpu_ns &&
         watch.runs > watch.signalled_runs + 1;
}

}  // namespace

CallState parse_call(const char* text, BlockedCall& call) noexcept {
  if (text[0] == 'r') return CallState::kRuns;  // "running"
  // The number, six arguments, the stack pointer and the pc; or -1, the stack pointer and the pc.
  char* end = nullptr;
  call = {strtol(text, &end, 10), {}, 0, 0};
  if (end == text) return CallState::kNotKnown;
  if (call.number >= 0)
    for (std::uint64_t& argument : call.arguments) argument = strtoull(end, &end, 16);
  call.stack_pointer = strtoull(end, &end, 16);
  const char* const before_pc = end;
  call.pc = strtoull(before_pc, &end, 16);
  return end == before_pc ? CallState::kNotKnown : CallState::kBlocked;
}

bool has_moved(ThreadRecord& record, std::uint64_t cpu_ns, ReadCall read) noexcept {
  const std::uint64_t sampled_ns = record.sampled_cpu_ns.load(std::memory_order_acquire);
  WatchState& watch = record.watch;
  // The clock of a blocked thread stands still.
  if (watch.rest_signal_ns == sampled_ns && watch.rest_cpu_ns != 0) return cpu_ns != watch.rest_cpu_ns;
  // It is not known yet at which value. By then a thread can be in another wait, with less CPU time than our
  // handler may have taken.
  if (cpu_ns > sampled_ns + record.sampled_cost_ns.load(std::memory_order_relaxed) + kMovedNs ||
      has_run_again(record, cpu_ns))
    return true;
  BlockedCall call = {};
  const CallState state = read(record, call);
  if (state == CallState::kRuns) return false;  // the next look tells where it goes
  if (state == CallState::kBlocked && !is_where_sampled(record, call)) return true;
  watch.rest_signal_ns = sampled_ns;
  watch.rest_cpu_ns = cpu_ns;
  return false;
}

}  // namespace clusterprof::agent
