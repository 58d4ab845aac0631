/* SPDX-License-Identifier: BSD-3-Clause */
/* What the agent offers to the other preload objects (mpi-wrap) in the same process: a C ABI,
 * found through the weak symbol clusterprof_agent_v1. The symbol is absent if the agent is not
 * loaded. `segment` returns null if this process is not recorded. */
#ifndef CLUSTERPROF_AGENT_API_H
#define CLUSTERPROF_AGENT_API_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clusterprof_call_path {
  uint64_t hash;   /* 64-bit hash of the frame words; never 0 for a path that was seen */
  uint64_t offset; /* byte offset of the frame words in the segment's path arena */
  uint32_t words;  /* how many; 0 when the path was dropped (counted) */
} clusterprof_call_path;

/* What is known of an MPI call before it is made: wire::MpiCallUnderWay says what the fields mean. */
typedef struct clusterprof_mpi_call {
  uint32_t op;           /* MPI function number (wire/mpi_functions.h) */
  uint32_t communicator; /* index into the segment's table */
  uint64_t channel;
  uint32_t sequence;
  int32_t peer;
  int32_t tag;
  int32_t root;
  uint32_t requests;
  uint32_t pending_kinds;
  int32_t pending_peers[8]; /* as many as there are kinds are set */
  uint32_t open_requests;
  uint64_t agreed;
} clusterprof_mpi_call;

/* What is known at the end of a call. */
typedef struct clusterprof_mpi_exit {
  uint64_t time_ns;         /* the time */
  uint64_t mpi_ns;          /* what the thread had spent inside MPI before the call */
  void* segment;            /* as segment() says: null when nothing is recorded */
  void* events;             /* the wire::MpiEventRing of the thread, null when it has none */
  uint32_t paused;          /* 1: recording was paused at the beginning: the call only advances the numbers of
                             * messages and collective operations */
  uint32_t counter_count;   /* number of values that were counted inside the call, for wire::MpiSiteCounters;
                             * 0: nothing is read there */
  const uint64_t* counters; /* valid until the thread enters the next call */
  clusterprof_call_path path; /* of the call; hash 0: not looked up, since recording was paused */
  uint32_t helper_thread;     /* 1: the thread is not the main one */
  uint32_t timed;             /* 1: call wrapper_ended at the end of the wrapper */
  uint64_t
      enter_ns; /* from when on the call counts, if not from its beginning: recording was off then; else 0 */
  uint64_t paused_ns;  /* for how long the thread's recording had been paused before the call, */
  uint64_t resumed_ns; /* and when the last pause ended: as in wire::MpiEvent */
} clusterprof_mpi_exit;

typedef struct clusterprof_agent_api {
  uint32_t version; /* 10 */

  /* The mapped wire::SegmentHeader, or null. May become null (the child of a fork before it
   * has a segment of its own) and non-null again: read it at each use. */
  void* (*segment)(void);

  /* CLOCK_MONOTONIC in nanoseconds. Any thread, async-signal-safe. */
  uint64_t (*now_ns)(void);

  /* The calling thread enters an MPI function; this is noted in its record of the call under way. Returns
   * the time in nanoseconds, or 0 if this call is not to be measured (it is made from inside another
   * MPI function, or nothing is recorded): then do not call leave_mpi. Not from a handler. */
  uint64_t (*enter_mpi)(const clusterprof_mpi_call* call);

  /* The calling thread leaves the function it entered. */
  clusterprof_mpi_exit (*leave_mpi)(void);

  /* The merged Python + native call path of the caller, without the leading frames that lie in
   * ranges given to add_wrapper_range. A path that was seen before on this thread is verified by its
   * return addresses; a new one is unwound and stored. Hash 0 in a handler that has interrupted this
   * function. */
  clusterprof_call_path (*call_path)(void);

  /* Code in [start, end) is part of the measurement: not shown as a caller. At start-up only. */
  void (*add_wrapper_range)(uintptr_t start, uintptr_t end);

  /* MPI_Init returned / MPI_Finalize was entered. mpi_rank: in MPI_COMM_WORLD; mpi_size: its size. In a
   * spawned world, the rank in the run of its first process is added to both. */
  void (*mpi_started)(int32_t mpi_rank, int32_t mpi_size, const char* library_version);
  void (*mpi_ended)(void);

  /* Counts one loss; reason is a wire::DropReason. Any thread, async-signal-safe. */
  void (*count_drop)(uint32_t reason);

  /* Ends a wrapper whose call was `timed`. A few calls are timed to estimate the cost of all of them. */
  void (*wrapper_ended)(void);

  /* Odd while recording is turned off from outside (--standby). Null: it never is. Then enter_mpi_off(op) may
   * be called instead of enter_mpi, which needs no description of the call and reads no clock. leave_mpi says
   * what is to be recorded: nothing (`paused`), unless recording was turned on meanwhile. */
  const void* off; /* a uint32_t */
  uint64_t (*enter_mpi_off)(uint32_t op);
} clusterprof_agent_api;

/* Weak: null when the agent is not loaded. Idempotent, any thread, not from a handler. */
const clusterprof_agent_api* clusterprof_agent_v1(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
