// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/same_wait.h"

#include <cstdlib>
#include <cstring>

namespace clusterprof::agent {
namespace {

// The sample has interrupted a call at its instruction, where the kernel makes it again, or behind it.
bool is_where_sampled(const ThreadRecord& record, const BlockedCall& call) noexcept {
  constexpr std::uint64_t kInstructionBytes = 2;
  const std::uint64_t pc = record.sampled_pc.load(std::memory_order_relaxed);
  return call.stack_pointer == record.sampled_sp.load(std::memory_order_relaxed) &&
         (call.pc == pc || call.pc == pc + kInstructionBytes);
}

// For our signal a blocked thread gets a processor once, and again if it loses it in the handler. True if it
// has got it more often than once since then.
bool may_have_waited_again(const ThreadRecord& record) noexcept {
  const WatchState& watch = record.watch;
  if (record.tick != Tick::kMonotonic)
    return watch.signalled_runs != 0 && watch.runs > watch.signalled_runs + 1;
  // The handler that stopped the timer has counted.
  const std::uint64_t switches = record.sampled_switches.load(std::memory_order_relaxed);
  return switches != 0 &&
         (!watch.runs_above_known || static_cast<std::int64_t>(watch.runs - switches) > watch.runs_above);
}

void note_same_wait(ThreadRecord& record) noexcept {
  const std::uint64_t switches = record.sampled_switches.load(std::memory_order_relaxed);
  if (record.tick != Tick::kMonotonic || switches == 0) return;
  WatchState& watch = record.watch;
  const auto above = static_cast<std::int64_t>(watch.runs - switches);
  if (!watch.runs_above_known || above < watch.runs_above) watch.runs_above = above;
  watch.runs_above_known = true;
}

// It waits where it did, and has hardly run. Going back to the wait it has given its processor up once; what
// it loses to others is not in that number.
bool has_waited_again(ThreadRecord& record, std::uint64_t cpu_ns, const AskKernel& ask) noexcept {
  const WatchState& watch = record.watch;
  if (watch.runs == 0 || watch.runs_cpu_ns != cpu_ns) return false;
  if (may_have_waited_again(record)) {
    const std::uint64_t before = record.sampled_waits.load(std::memory_order_relaxed);
    const std::uint64_t now = before != 0 ? ask.waits(record) : 0;
    if (now == 0) return record.tick != Tick::kMonotonic;  // rather too many samples than too few
    if (now > before + 1) return true;
  }
  note_same_wait(record);
  return false;
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

std::uint64_t parse_waits(const char* status) noexcept {
  static constexpr char kName[] = "\nvoluntary_ctxt_switches:";
  const char* const found = strstr(status, kName);
  return found != nullptr ? strtoull(found + sizeof kName - 1, nullptr, 10) : 0;
}

bool has_moved(ThreadRecord& record, std::uint64_t cpu_ns, const AskKernel& ask) noexcept {
  const std::uint64_t sampled_ns = record.sampled_cpu_ns.load(std::memory_order_acquire);
  WatchState& watch = record.watch;
  // The clock of a blocked thread stands still.
  if (watch.rest_signal_ns == sampled_ns && watch.rest_cpu_ns != 0) return cpu_ns != watch.rest_cpu_ns;
  // It is not known yet at which value. By then a thread can be in another wait, with less CPU time than our
  // handler may have taken.
  if (cpu_ns > sampled_ns + record.sampled_cost_ns.load(std::memory_order_relaxed) + kMovedNs) return true;
  // A tick that came while our handler was at work is taken in the wait to which that returns.
  if (record.tick != Tick::kMonotonic && record.sampled_running.load(std::memory_order_relaxed)) return true;
  BlockedCall call = {};
  const CallState state = ask.call(record, call);
  if (state == CallState::kRuns) return false;  // the next look tells where it goes
  if (state == CallState::kBlocked && !is_where_sampled(record, call)) return true;
  if (has_waited_again(record, cpu_ns, ask)) return true;
  watch.rest_signal_ns = sampled_ns;
  watch.rest_cpu_ns = cpu_ns;
  return false;
}

}  // namespace clusterprof::agent
