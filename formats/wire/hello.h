// SPDX-License-Identifier: BSD-3-Clause
// The messages between launchers, agents and the collector.
//
// Hello is one SOCK_SEQPACKET message from the agent to its node's collector over an abstract Unix socket. It
// carries the segment's memory file as SCM_RIGHTS. The collector checks the peer's credentials (same uid),
// maps the file, and does not answer. The agent keeps the socket open; when it is closed, the collector
// checks whether the process is gone, or has executed another program. To let go a process that was attached
// to, the collector shuts down its side, and the agent closes its own when it has undone what it had changed.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::wire {

inline constexpr std::uint64_t kHelloMagic = 0x31'4f'4c'48'46'52'50'43ull;  // "CPRFHLO1"

struct Hello {
  std::uint64_t magic;
  std::uint32_t wire_major, wire_minor;
  std::int32_t pid;  // as the process sees itself; SO_PEERCRED gives the collector's view
  std::int32_t rank;
  std::uint64_t segment_bytes;
};
static_assert(sizeof(Hello) == 32);

// What an agent sends in place of Hello if the process cannot be recorded. Its command line follows in the
// same message: each argument ends with a NUL. The connection is closed then.
inline constexpr std::uint64_t kRefusalMagic = 0x31'46'45'52'46'52'50'43ull;  // "CPRFREF1"

struct Refusal {
  std::uint64_t magic;
  std::uint32_t wire_major, wire_minor;
  std::int32_t pid, parent_pid;  // as the process sees itself
  std::int32_t rank;
  UnrecordedReason reason;
  std::uint64_t start_mono_ns;
  Creation creation;
};
static_assert(sizeof(Refusal) == 72);

// The launcher process of every rank sends Announce on a connection of its own before it becomes the program.
// The rank's command line follows in the same message (base/command_text.hpp), without what is not to be
// stored. The collector answers with one byte (kAnnounceAccepted), and stays until that process is gone.
// Without an answer, the launcher tries the election again. If the collector is in another PID namespace, a
// pidfd of the process comes with the message as SCM_RIGHTS: before Linux 6.5 the collector cannot see the
// end of the process without it, and answers kAnnounceUnseen.
inline constexpr std::uint64_t kAnnounceMagic = 0x31'4e'4e'41'46'52'50'43ull;  // "CPRFANN1"
inline constexpr std::uint8_t kAnnounceAccepted = 'A';
inline constexpr std::uint8_t kAnnounceUnseen = 'U';  // not recorded; the collector has said so

struct Announce {
  std::uint64_t magic;
  std::uint32_t wire_major, wire_minor;
  std::int32_t pid;                           // the process that will be the program
  std::int32_t rank, world_size, local_size;  // -1 unknown
  std::int32_t restart;                       // how often the launcher had started the rank before
  std::int32_t unrecorded;  // why it will not be recorded (UnrecordedReason), and 1; 0: it will be
};
static_assert(sizeof(Announce) == 40);

// Messages between the launcher process that stays as the program's parent and its collector, over a socket
// pair (SOCK_SEQPACKET).
enum class ControlType : std::uint32_t {
  kChildStarted = 1,  // launcher: a = pid, b = rank
  kChildExited = 2,   // launcher: a = pid, b = wait status as from waitpid
  kRelease = 3,       // collector: the shard is on disk, the launcher may exit now. Sent when
                      //   the program failed or left MPI unfinalised, or its rank may have
                      //   another one to start, while other ranks of the node still run:
                      //   waiting for those could hang the job.
  kRanksSeen = 4,     // collector, before its end: a = ranks of the node that it was told of
  kAttached = 5,      // clusterprof attach: the agent of process a, which is rank b, has greeted
};                    // end of file = the collector is done
struct Control {
  ControlType type;
  std::int32_t a, b;
};
static_assert(sizeof(Control) == 12);

// Environment of the recorded program, set by the launcher, read by the agent. Values that
// mirror a command line option use the option's own variable (CLUSTERPROF_RATE, ...).
inline constexpr const char* kSocketVariable =
    "CLUSTERPROF_AGENT_SOCKET";  // abstract name, without the leading NUL
inline constexpr const char* kRankVariable = "CLUSTERPROF_AGENT_RANK";
inline constexpr const char* kWorldSizeVariable = "CLUSTERPROF_AGENT_WORLD_SIZE";
// kLaunchFormat: WorkerRank::launch and rank, and mpi_rank_evidence(), of the environment that clusterprof
// was started in (launchers.h). A process with other ones has been started by a launcher below clusterprof.
inline constexpr const char* kLaunchVariable = "CLUSTERPROF_AGENT_LAUNCH";
inline constexpr const char* kLaunchFormat = "%016llx:%d:%016llx";
inline constexpr const char* kPreloadVariable =
    "CLUSTERPROF_AGENT_PRELOAD";  // our objects in LD_PRELOAD, colon separated (preload_entry.h)
// 16 hex digits of launch_evidence(), a colon, and the absolute path of the directory in which the ranks meet
// before they exchange clocks over MPI (it is created when needed), or kClockVouched if the user has said
// that all ranks are recorded. Not set: no exchange.
inline constexpr const char* kClockVariable = "CLUSTERPROF_AGENT_CLOCKS";
inline constexpr const char* kClockVouched = "always";
// The Creation of the program that is executed: its fields but the last in hexadecimal, separated by commas.
inline constexpr const char* kCreationVariable = "CLUSTERPROF_AGENT_CREATION";
// Variables of other projects. Each names a library that gets what a program tells through their interfaces
// (agent/annotations). The launcher sets the first ones to the agent where the user has not set them; the
// last one is set by the agent where the program is linked with a Kokkos that knows no other.
inline constexpr const char* kAnnotationVariables[] = {"NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64",
                                                       "KOKKOS_TOOLS_LIBS", "KOKKOS_PROFILE_LIBRARY"};
inline constexpr std::uint32_t kAnnotationsByLauncher = 3, kAnnotationsOfOldKokkos = 3;  // how many; which
inline constexpr char kAgentFile[] = "libclusterprof_agent.so";
// The event of --sample-on in the form that the kernel takes (the fields of SampleEvent in hexadecimal,
// separated by commas), or '!' and the reason why it is not available.
inline constexpr const char* kSampleEventVariable = "CLUSTERPROF_AGENT_SAMPLE_EVENT";
inline constexpr const char* kSampleOnVariable =
    "CLUSTERPROF_SAMPLE_ON";  // EVENT[:PERIOD], as the user wrote it

enum class SampleEventKind : std::uint32_t {
  kNanoseconds = 0,  // counts the time that the thread runs
  kCycles = 1,       // grows while it runs
  kOther = 2,
};
struct SampleEvent {
  std::uint32_t type;  // as in perf_event_attr
  std::uint64_t config, config1, config2;
  std::uint64_t period;  // 0: chosen so that samples come at the sampling rate
  SampleEventKind kind;
};

}  // namespace clusterprof::wire
