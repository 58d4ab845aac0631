// SPDX-License-Identifier: BSD-3-Clause
// Lets all ranks of a job step agree on one run directory without talking to each other: through the shared
// file system, by operations that are atomic there (mkdir, symlink).
//
//   DIR/.run -> KEY#SECRET           whoever makes this link makes DIR the run directory of KEY. The names
//                                    of the collectors' sockets depend on SECRET, which is random. Only
//                                    who may enter DIR (mode 0700, unless the user made it) can read it
//   DIR/.job -> JOB                  what the batch system calls the job step ("1234.0"; of an array
//                                    "1234_7.0 1241.0", the second by its own number), for
//                                    `clusterprof report 1234`
//   PARENT/.clusterprof-KEY -> NAME  for names that ranks would choose differently (a time, a
//                                    command): the first link stands, later ranks follow it
//   DIR/.left-NODE -> RANKS          that many ranks of NODE have been here and ended; .left-NODE.2
//                                    for those that came later
//
//   DIR/.clocks/RANK -> in-...|out  ranks that take part in the exchange of clocks while MPI_Init lasts
//                                    (mpi-wrap/src/clock_rendezvous.hpp); those of spawned world N in
//                                    .clocks-N
//   DIR/.worlds/...                  spawned worlds (formats/wire/spawned_world.h)
//   DIR/.control/...                 requests from outside, and answers (run_control.hpp)
//   DIR/.starts/N -> LAUNCH+SIZE     the N-th time, from 0 on, that a launcher started SIZE ranks of this run
//                                    (elastic restarts); DIR/.starts/N.RANK: that rank has come
//
// Where all may write (/tmp), directories and links of other users are passed by (base/path_resolver.hpp);
// who may write into the run directory cannot make us remove anything else.
//
// Nothing that is there is ever overwritten or removed, but for a directory of our own that
// turned out not to be needed.
#pragma once

#include <cstdint>
#include <string>

#include "base/keyed_hash.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof {

// What the ranks of a job step have in common, and no others.
struct JobStep {
  // Equal on all ranks of one job step and different for any other: 16 hex digits with a prefix that names
  // the source ("openmpi-...", "slurm-...", "hydra-...", "single-...").
  std::string key;
  // A launcher gave this process a rank, so nobody chose the run directory's name for it alone.
  bool launched = false;
  // Other processes may have the same key. False: a run of one process; the key is random.
  bool has_peers = false;
  // The key is made of something that the system may reuse (a port number, a process id): anything with this
  // key that is older than this (Unix time) belongs to another job. 0: the key is never reused.
  std::int64_t job_start_unix_s = 0;
  // The name by which users know the job step ("1234.0", "1234_7.0" in an array, "1234" under mpirun); used
  // in names. Empty: none.
  std::string batch_name;
  // The same with the separate number that the batch system has for a job of an array.
  std::string batch_id;
};

struct RunDirectoryRequest {
  std::string output;             // as given by --output; empty: choose a name
  std::string root;               // where to put a directory with a chosen name; empty: here
  std::string command_name;       // part of a chosen name
  std::int64_t start_unix_s = 0;  // the other part where the job has no name; 0: now
};

struct RunDirectory {
  std::string path;             // absolute; exists
  std::string rendezvous_link;  // absolute; empty: none was needed
  bool created = false;         // by this very process
  HashKey secret{};             // the same for all ranks, random; zeros if the system had no random numbers
  // Why the ranks of a launcher use another name than the one asked for; empty: they do not.
  std::string taken{};
};

// Finds or makes the run directory of step.key. Fails with the path and the reason: not writable, or it
// has another run or other files. If `refused` is given, *refused is set to true when request.output itself
// is the mistake: it has another run or other files, or it is no name of a directory. Otherwise the file
// system failed. For ranks of a launcher a name that is taken is no mistake: they use NAME-2, NAME-3, ...
Result<RunDirectory> agree_on_run_directory(const RunDirectoryRequest& request, const JobStep& step,
                                            bool* refused = nullptr);

// Which start of a launcher's ranks this is, where the launcher may start them again.
struct RankStart {
  int restart = 0;     // how often they were started before
  int first_rank = 0;  // in the run: the sum of the sizes of the earlier ones
};
// Ranks with the same `launch` that come for the first time belong together; one that was there already
// begins the next start.
Result<RankStart> join_start(const RunDirectory& directory, std::uint64_t launch, int rank, int size);

// Removes the rendezvous link, which no rank of the job needs any more.
void remove_rendezvous_link(const RunDirectory& directory);

// Reports that `ranks` ranks of the node, not counted before, have come and ended. Each node leaves a mark in
// the run directory; when the marks add up to `all_ranks`, the last node removes marks and link.
void leave_rendezvous(const RunDirectory& directory, const std::string& node, int ranks, int all_ranks);

// A run with a minimum duration has no run directory until it has lasted that long. Until then the ranks of a
// node share a directory in its memory (/dev/shm, else /tmp), which is agreed upon in the same way and holds
// the secret. Nobody else needs it, and nothing is written to it.
Result<RunDirectory> agree_on_waiting_place(const JobStep& step);
// Keeps others from taking the directory for one that a killed collector has left behind, as long as the
// descriptor is open.
UniqueFd hold_waiting_place(const std::string& path);
void remove_waiting_place(const std::string& path);

// The directory in which ranks of a world meet before they exchange clocks; the first rank there makes it.
std::string clock_rendezvous_path(const RunDirectory& directory, int world);

// Call when all ranks of this node have ended: removes files of ranks that ended without cleaning up.
void remove_clock_rendezvous(const RunDirectory& directory, int world);

// Removes a directory that nothing was written to. Only for the process that created it.
void withdraw_run_directory(const RunDirectory& directory);
// Call before withdraw_run_directory(): removes what the collector of a run of one process may have begun to
// write.
void remove_shards(const RunDirectory& directory, const std::string& node);

}  // namespace clusterprof
