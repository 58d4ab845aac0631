// SPDX-License-Identifier: BSD-3-Clause
// The call path that makes a process. It is taken before fork, vfork and posix_spawn, and kept in the path
// arena of this process. The child of a fork finds it in its memory, an executed program in a variable of its
// environment.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Of this process, as its parent told it.
void read_creation(const char* text) noexcept;  // the variable's value; null: there is none
wire::Creation creation_of_this_process() noexcept;

// Whether calls that make processes are recorded here: not in a child of vfork.
bool may_note_creations() noexcept;
// Takes the call path of the caller, who is about to make a process. False: not recorded, or this is a child
// of vfork.
bool note_creation(wire::CreationKind kind) noexcept;
// The same for a shell that libc starts with an environment that we cannot change. end_shell_call() takes
// what begin_shell_call() returned, and how long after it the shell may still start.
struct OpenShellCall {
  std::uint64_t number, start_mono_ns;  // start 0: it was not noted
};
OpenShellCall begin_shell_call() noexcept;
void end_shell_call(OpenShellCall call, std::uint64_t late_ns) noexcept;

// A request to a server that forks (fork_requests.h), as wire::ForkRequest::pipe. Takes the call path of the
// caller, who is about to send it; on the server's side, it belongs to the next process that this thread
// forks.
void note_sent_request(std::uint32_t request) noexcept;
void note_received_request(std::uint32_t request) noexcept;

// Notes a program as a wire::Launch: one that will not be recorded, or one that this process executes itself.
// `made`: how the child that executes it was made; empty for this process. Call it before the exec, and
// forget_launch() if that fails.
struct OpenLaunch {
  wire::Launch* row = nullptr;  // null: it was not noted
  std::uint64_t number = 0;
};
OpenLaunch note_launch(std::int32_t pid, wire::UnrecordedReason reason, const wire::Creation& made,
                       const char* program, char* const* arguments) noexcept;
void forget_launch(OpenLaunch launch) noexcept;

// In the child of a fork: what was noted becomes the creation of this process.
void begin_as_created_by(const wire::SegmentHeader& parents) noexcept;

// "NAME=value" for the environment of the program that is being executed; empty if nothing is known.
struct CreationText {
  char text[128];
  wire::Creation of;
};
CreationText creation_for_spawn() noexcept;          // takes the call path
CreationText creation_in_child_of_vfork() noexcept;  // empty in other processes, whose creation is known

}  // namespace clusterprof::agent
