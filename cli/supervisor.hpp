// SPDX-License-Identifier: BSD-3-Clause
// The launcher process of the elected rank stays as the parent of the program and stands in for it: it
// forwards signals, stops and continues with the program, and ends with the same status.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof::cli {

// Blocks all signals for this process and remembers the earlier state. From then on signals are read from a
// signalfd; children get the earlier state back by restore(). Threads that preloaded libraries have made here
// are made to block the signals as well.
class SignalState {
 public:
  SignalState();
  // In a child of ours, before exec.
  void restore() const;

 private:
  sigset_t mask_{};
  struct sigaction child_action_ {};
};

// A child process in our process group that does nothing but count the signals it gets. A signal
// that we and it got was sent to the whole group, so the program has it already.
//
// That is exact, not a guess by time: the kernel signals the youngest members of a group first,
// so by the time we see a group's signal it is pending in the canary; and it takes a ping, the
// highest of all signals, only after every other that is pending.
class GroupSignalProbe {
 public:
  static Result<GroupSignalProbe> start();
  GroupSignalProbe(GroupSignalProbe&& other) noexcept;
  GroupSignalProbe& operator=(GroupSignalProbe&&) = delete;
  ~GroupSignalProbe();

  // Whether the canary got `signal` as well; true once for each arrival.
  bool saw(int signal);
  // Whether the canary got a signal that saw() was not asked about yet.
  [[nodiscard]] bool has_more(int signal);
  [[nodiscard]] pid_t pid() const { return pid_; }
  // It was reaped by someone's waitpid(-1).
  void forget() { pid_ = -1; }

 private:
  struct Counts;
  GroupSignalProbe(pid_t pid, Counts* counts) : pid_(pid), counts_(counts) {}
  bool ping();

  pid_t pid_ = -1;
  Counts* counts_ = nullptr;
  std::vector<unsigned> taken_ = std::vector<unsigned>(65);
  unsigned pings_ = 0;
};

// Starts the program as a child of this process, in its process group. It dies with us.
struct StartedProgram {
  pid_t pid = -1;           // -1: it did not start
  int exec_error = 0;       // errno of fork or exec; 0: prepare() refused
  bool no_process = false;  // it was not exec that failed
};
// `prepare` runs in the child just before exec, which does not happen when it returns false.
StartedProgram start_program(const std::string& file, const std::vector<std::string>& words,
                             const SignalState& signals, const std::function<bool()>& prepare);

struct CollectorHandle {
  pid_t pid = -1;
  UniqueFd control;  // SOCK_SEQPACKET, wire::Control
};

struct SupervisedEnd {
  int wait_status = 0;
  // The collector's own wait status; -1 when it still runs (it released us).
  int collector_status = -1;
  // It was gone before the program was.
  bool collector_died_early = false;
  // It was still there after the program but did nothing: something that it waits for does not answer.
  bool collector_stuck = false;
  // The number of ranks that the collector reported at its end; -1: none reported.
  int ranks_seen = -1;
};

// Waits for the program, then for the collector's release or end (a socket that is merely closed
// does not count: the summary may still be on its way). Two requests to end cut the latter short, and so does
// a collector that takes no CPU time for as long as `patience`.
SupervisedEnd supervise(pid_t program, int rank, CollectorHandle& collector, GroupSignalProbe& signal_probe,
                        std::chrono::milliseconds patience);

// Ends this process in the way that `wait_status` describes: with that exit status, or killed by that signal
// without a second core file.
[[noreturn]] void end_as(int wait_status);

}  // namespace clusterprof::cli
