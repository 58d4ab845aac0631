// SPDX-License-Identifier: BSD-3-Clause
// Worlds made by MPI_Comm_spawn and MPI_Comm_spawn_multiple. Links in the run directory tell everybody which
// ranks the processes of such a world have in the run, so no messages are needed
// (docs/design/0008-spawned-worlds.md).
//
//   RUN/.worlds/N -> "FIRST+SIZE CALLERS"  the N-th spawned world, from 1 on without gaps: its rank r is rank
//                                          FIRST + r of the run. Made by the root of the call, before the
//                                          call. CALLERS: the callers' ranks in the run, in order. "A+B*C"
//                                          stands for C of them: A, A + B, A + 2 B, ...; "@" for what is in
//                                          N.callers
//   RUN/.worlds/N.callers                  an int32 each
//   RUN/.worlds/IDENTITY.K -> N            the world made by the call that was the K-th to derive something
//   from
//                                          the communicator IDENTITY (16 hex digits): for callers but the
//                                          root
//   RUN/.worlds/note-RANK-K -> -           what that rank spawned is not recorded; SpawnObstacle K says why
//   RUN/.worlds/lock                       held while a number is taken or given back
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace clusterprof::wire {

inline constexpr const char* kWorldsDirectory = ".worlds";  // in the run directory
inline constexpr std::int32_t kMaxRunRanks = 1 << 24;

// Environment of a recorded program, set by the launcher. Both begin with 16 hex digits of launch_evidence()
// and a colon.
// The words that are put in front of a spawned command, separated by kWordEnd: RUN/.worlds, the launcher, its
// options. The last word is incomplete: "N:FIRST" must be appended.
inline constexpr const char* kSpawnVariable = "CLUSTERPROF_AGENT_SPAWN";
// Of a spawned process: "N:FIRST:RUN/.worlds".
inline constexpr const char* kWorldVariable = "CLUSTERPROF_AGENT_WORLD";
inline constexpr char kWordEnd = '\x1f';

// Why processes are spawned without being recorded. If we do not understand a call, we leave it as it is: it
// may work, or fail in a way that the program expects.
enum class SpawnObstacle : unsigned {
  kNone,
  kArguments,  // the arguments are wrong: the spawn fails anyway, so no note is made
  kLauncher,   // clusterprof itself cannot be executed on its node any more
  kInfo,       // the Info has an unknown key, or one that says where to look for the command
  kCommand,    // not found on its node
  kNumbers     // no rank numbers could be taken in the run directory
};
inline constexpr const char* kSpawnNoteFormat = "note-%d-%u";  // rank, SpawnObstacle

struct SpawnedWorld {
  std::int32_t first, size;
  std::int32_t caller, caller_stride, callers;  // callers 0: in the file
};

inline bool format_spawned_world(const SpawnedWorld& world, char* text, std::size_t bytes) noexcept {
  const int length = world.callers > 0 ? snprintf(text, bytes, "%d+%d %d+%d*%d", world.first, world.size,
                                                  world.caller, world.caller_stride, world.callers)
                                       : snprintf(text, bytes, "%d+%d @", world.first, world.size);
  return length > 0 && static_cast<std::size_t>(length) < bytes;
}

// The number at `text`, which is moved behind it and the character `end`; `least` or more. False when there
// is none.
inline bool parse_world_number(const char*& text, long least, char end, std::int32_t& number) noexcept {
  char* rest = nullptr;
  errno = 0;
  const long value = strtol(text, &rest, 10);
  if (rest == text || *rest != end || errno != 0 || value < least || value > kMaxRunRanks) return false;
  number = static_cast<std::int32_t>(value);
  text = end == '\0' ? rest : rest + 1;
  return true;
}

inline bool parse_spawned_world(const char* text, SpawnedWorld& world) noexcept {
  world = {};
  if (!parse_world_number(text, 0, '+', world.first) || !parse_world_number(text, 1, ' ', world.size) ||
      world.first + world.size > kMaxRunRanks) {
    return false;
  }
  if (text[0] == '@' && text[1] == '\0') return true;
  return parse_world_number(text, 0, '+', world.caller) &&
         parse_world_number(text, -kMaxRunRanks, '*', world.caller_stride) &&
         parse_world_number(text, 1, '\0', world.callers);
}

// False when there is no world of that number. `worlds`: a descriptor of RUN/.worlds, or its path.
inline bool read_spawned_world(int worlds, const char* link, SpawnedWorld& world) noexcept {
  char text[128];
  const ssize_t length = readlinkat(worlds, link, text, sizeof(text) - 1);
  if (length <= 0) return false;
  text[length] = '\0';
  return parse_spawned_world(text, world);
}
inline bool read_spawned_world(int worlds, int number, SpawnedWorld& world) noexcept {
  char link[16];
  snprintf(link, sizeof(link), "%d", number);
  return read_spawned_world(worlds, link, world);
}
inline bool read_spawned_world(const char* worlds, int number, SpawnedWorld& world) noexcept {
  char path[4096];
  const int length = snprintf(path, sizeof(path), "%s/%d", worlds, number);
  return length > 0 && length < static_cast<int>(sizeof(path)) && read_spawned_world(AT_FDCWD, path, world);
}

}  // namespace clusterprof::wire
