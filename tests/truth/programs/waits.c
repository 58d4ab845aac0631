// SPDX-License-Identifier: BSD-3-Clause
// waits SCENARIO DIRECTORY [ROUNDS [SEED]]: ranks that make each other wait. Every rank writes down when it
// entered and left each MPI call that can wait, which operation that was, and what it did instead of
// communicating when it was late, into DIRECTORY/rank-N.jsonl after MPI_Finalize, so that collecting it is no
// communication. Both sides name an operation by a key that the program makes up: nothing has to be matched.
// tests/support/waiting.py derives from it who waited for whom. Delays are sleeps: there may be fewer cores
// than ranks.
//
//   messages      every kind of send and receive; odd ranks late, then even ones; every second round on the
//                 world reversed
//   collectives   every class, on the world, on the world reversed and on its halves; a random rank late
//   straggler     a random rank late by a random time before barriers and reductions
//   many          the same, short and often
//   chain         rank 0 late, and by that 1, by that 2, ...; every second round rank 1 is late on top
//   pipeline      one rank works at a time
//   balanced      all ranks work for the same time
//   one_sided     fences, and post-start-complete-wait
//   threads       two threads of every rank communicate at the same time
//   partitioned   messages of several partitions, whose last one is late, or whose receive is
//   polled        the receiver asks whether partitions have arrived, again and again
//
// With WAITS_SESSION set, there is a session and no MPI_Init. Without MPI-4, what needs it ends with
// status 77.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define APART static __attribute__((noipa))

enum { kNotes = 200000, kLarge = 4 << 20 };

typedef struct {
  char key[48];
  const char *what, *call, *where, *kind;  // kind: of a collective
  uint64_t enter_ns, exit_ns, start_ns;
  uint64_t ready_at_enter_ns, ready_at_exit_ns;  // how long the thread had waited for a processor until then
  int thread, number, peer, place, root;
} Note;

static Note notes[kNotes];
static atomic_int note_count, call_count;
static int rank, size;
static uint64_t random_state;

static _Thread_local int thread_number;
static _Thread_local struct {
  const char *call, *where;
  uint64_t enter_ns, exit_ns, ready_at_enter_ns, ready_at_exit_ns;
  int number;
} own;  // the thread's last MPI call

static clockid_t note_clock = CLOCK_MONOTONIC;
static MPI_Comm everybody;  // of all ranks, in their order

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(note_clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// How long the thread has waited for a processor, by the kernel's account; 0 where it keeps none. System
// calls by number, since the profile would have libc's as calls of the program.
static uint64_t ready_ns(void) {
  static _Thread_local int file = -2;
  if (file == -2)
    file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  char text[96];
  const long bytes = file < 0 ? -1 : syscall(SYS_pread64, file, text, sizeof text - 1, 0L);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  uint64_t ran_ns, ready = 0;
  return sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &ready) == 2 ? ready : 0;
}

#define CALL(function, ...)                        \
  do {                                             \
    own.call = #function, own.where = __func__;    \
    own.number = atomic_fetch_add(&call_count, 1); \
    own.ready_at_enter_ns = ready_ns();            \
    own.enter_ns = now_ns();                       \
    function(__VA_ARGS__);                         \
    own.exit_ns = now_ns();                        \
    own.ready_at_exit_ns = ready_ns();             \
  } while (0)

// --- what the last CALL was ---

static Note* note(const char* what, const char* key) {
  const int i = atomic_fetch_add(&note_count, 1);
  if (i >= kNotes) abort();
  Note* const made = &notes[i];
  snprintf(made->key, sizeof made->key, "%s", key);
  made->what = what, made->call = own.call, made->where = own.where, made->kind = "";
  made->enter_ns = made->start_ns = own.enter_ns, made->exit_ns = own.exit_ns;
  made->ready_at_enter_ns = own.ready_at_enter_ns, made->ready_at_exit_ns = own.ready_at_exit_ns;
  made->thread = thread_number, made->number = own.number;
  made->peer = made->place = made->root = -1;
  return made;
}

// A message of this key left, or began to.
static void sent(const char* key, int peer) { note("send", key)->peer = peer; }
// The call that completed a nonblocking send. The times of the call that started it are those of `sent`.
static void send_done(const char* key, int peer) { note("send_done", key)->peer = peer; }
// `start_ns`: when the receive was posted.
static void received_from(const char* key, int peer, uint64_t start_ns) {
  Note* const made = note("receive", key);
  made->peer = peer, made->start_ns = start_ns;
}
static void received(const char* key, int peer) { received_from(key, peer, own.enter_ns); }
static void probed(const char* key, int peer) { note("probe", key)->peer = peer; }

static void collective_from(const char* kind, const char* key, int place, int root, uint64_t start_ns) {
  Note* const made = note("collective", key);
  made->kind = kind, made->place = place, made->root = root, made->start_ns = start_ns;
}
static void collective(const char* kind, const char* key, int place, int root) {
  collective_from(kind, key, place, root, own.enter_ns);
}

static void did(const char* what, uint64_t begin_ns) {
  own.call = "", own.where = what, own.enter_ns = begin_ns, own.exit_ns = now_ns(), own.number = -1;
  own.ready_at_enter_ns = own.ready_at_exit_ns = 0;
  note("work", what);
}

static void write_notes(const char* directory) {
  char name[4096];
  snprintf(name, sizeof name, "%s/rank-%d.jsonl", directory, rank);
  FILE* const file = fopen(name, "w");
  if (file == NULL) exit(1);
  for (int i = 0; i < note_count; ++i) {
    const Note* const n = &notes[i];
    fprintf(
        file,
        "{\"rank\": %d, \"thread\": %d, \"what\": \"%s\", \"key\": \"%s\", \"call\": \"%s\", \"where\": "
        "\"%s\", "
        "\"kind\": \"%s\", \"number\": %d, \"peer\": %d, \"place\": %d, \"root\": %d, \"enter_ns\": %" PRIu64
        ", \"exit_ns\": %" PRIu64 ", \"start_ns\": %" PRIu64 ", \"ready_at_enter_ns\": %" PRIu64
        ", \"ready_at_exit_ns\": %" PRIu64 "}\n",
        rank, n->thread, n->what, n->key, n->call, n->where, n->kind, n->number, n->peer, n->place, n->root,
        n->enter_ns, n->exit_ns, n->start_ns, n->ready_at_enter_ns, n->ready_at_exit_ns);
  }
  if (fclose(file) != 0) exit(1);
}

// --- delays ---

// In the function itself, so that it is the innermost one of the program. Some work comes before the sleep: a
// thread that goes from one sleep into the next without is taken to be still in the first (docs/accuracy.md).
#define BE_BUSY(ms)                                                              \
  do {                                                                           \
    const uint64_t work_until_ns = now_ns() + 200000;                            \
    while (now_ns() < work_until_ns) continue;                                   \
    struct timespec left = {0, (long)((ms)*1e6) - 200000};                       \
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) continue; \
  } while (0)

#define DELAY(name)                     \
  APART void name(double ms) {          \
    const uint64_t begin_ns = now_ns(); \
    BE_BUSY(ms);                        \
    did(#name, begin_ns);               \
  }
DELAY(load_batch)       // at fault: load_batch
DELAY(compute)          // at fault: compute
DELAY(checkpoint)       // at fault: checkpoint
DELAY(prepare_message)  // at fault: prepare_message
DELAY(unpack_message)   // at fault: unpack_message

// The same on all ranks.
static double uniform(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

static void settle(void) {
  static int count;
  char key[48];
  snprintf(key, sizeof key, "settle %d", count++);
  CALL(MPI_Barrier, everybody);
  collective("barrier", key, rank, -1);
}

// --- messages: neighbours 0 and 1, 2 and 3, ... ---

static const double kLateMs = 40;
static char out[kLarge], in[kLarge];
static int partner;
static bool is_odd;
static MPI_Comm comm;
static bool is_reversed;

static int in_comm(int world_rank) { return is_reversed ? size - 1 - world_rank : world_rank; }

static const char* message(const char* name, int round, int from, int to) {
  static _Thread_local char key[4][48];
  static _Thread_local int next;
  next = (next + 1) % 4;
  snprintf(key[next], sizeof key[next], "%.16s %d: %d to %d", name, round, from, to);
  return key[next];
}

static const char* incoming(const char* name, int round) { return message(name, round, partner, rank); }
static const char* outgoing(const char* name, int round) { return message(name, round, rank, partner); }

static void late_send(const char* name, int round) {
  prepare_message(kLateMs);
  CALL(MPI_Send, out, 8, MPI_CHAR, in_comm(partner), 1, comm);
  sent(outgoing(name, round), partner);
}

static void blocking_receive(int round) {
  if (is_odd) {
    late_send("Recv", round);
  } else {
    CALL(MPI_Recv, in, 8, MPI_CHAR, in_comm(partner), 1, comm, MPI_STATUS_IGNORE);
    received(incoming("Recv", round), partner);
  }
}

static void wildcard_receive(int round) {
  if (is_odd) {
    late_send("any", round);
  } else {
    CALL(MPI_Recv, in, 8, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    received(incoming("any", round), partner);
  }
}

static void receive_and_wait(int round) {
  if (is_odd) {
    late_send("Irecv", round);
  } else {
    MPI_Request request;
    CALL(MPI_Irecv, in, 8, MPI_CHAR, in_comm(partner), 1, comm, &request);
    const uint64_t start_ns = own.enter_ns;
    compute(kLateMs / 2);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    received_from(incoming("Irecv", round), partner, start_ns);
  }
}

// One message from the neighbour, then one from the odd rank behind it, which is later: waiting for both is
// waiting for that one.
static void receive_and_wait_for_all(int round) {
  const int second = (rank + (is_odd ? size - 3 : 3)) % size;
  if (is_odd) {
    late_send("all", round);
    prepare_message(kLateMs);
    CALL(MPI_Send, out, 8, MPI_CHAR, in_comm(second), 2, comm);
    sent(message("all2", round, rank, second), second);
  } else {
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    CALL(MPI_Irecv, in, 8, MPI_CHAR, in_comm(partner), 1, comm, &requests[0]);
    const uint64_t start_ns = own.enter_ns;
    CALL(MPI_Irecv, in + 8, 8, MPI_CHAR, in_comm(second), 2, comm, &requests[2]);
    const uint64_t second_ns = own.enter_ns;
    CALL(MPI_Waitall, 3, requests, MPI_STATUSES_IGNORE);
    received_from(incoming("all", round), partner, start_ns);
    received_from(message("all2", round, second, rank), second, second_ns);
  }
}

// A rank that waits for one of several waits only for the one that comes.
static void receive_and_wait_for_any(int round) {
  if (is_odd) {
    for (int i = 0; i < 3; ++i) {
      prepare_message(kLateMs / 2);
      CALL(MPI_Send, out, 8, MPI_CHAR, in_comm(partner), i, comm);
      sent(message(i == 0 ? "any0" : i == 1 ? "any1" : "any2", round, rank, partner), partner);
    }
  } else {
    MPI_Request requests[3];
    uint64_t start_ns[3];
    for (int i = 0; i < 3; ++i) {
      CALL(MPI_Irecv, in + 8 * i, 8, MPI_CHAR, in_comm(partner), i, comm, &requests[i]);
      start_ns[i] = own.enter_ns;
    }
    for (int left = 3; left > 0; --left) {
      int done;
      CALL(MPI_Waitany, 3, requests, &done, MPI_STATUS_IGNORE);
      received_from(message(done == 0   ? "any0"
                            : done == 1 ? "any1"
                                        : "any2",
                            round, partner, rank),
                    partner, start_ns[done]);
    }
  }
}

static void receive_and_wait_for_some(int round) {
  if (is_odd) {
    late_send("some", round);
  } else {
    MPI_Request request;
    int done, index;
    CALL(MPI_Irecv, in, 8, MPI_CHAR, in_comm(partner), 1, comm, &request);
    const uint64_t start_ns = own.enter_ns;
    CALL(MPI_Waitsome, 1, &request, &done, &index, MPI_STATUSES_IGNORE);
    received_from(incoming("some", round), partner, start_ns);
  }
}

static void exchange(int round) {
  if (is_odd) prepare_message(kLateMs);
  CALL(MPI_Sendrecv, out, 8, MPI_CHAR, in_comm(partner), 1, in, 8, MPI_CHAR, in_comm(partner), 1, comm,
       MPI_STATUS_IGNORE);
  sent(outgoing("both", round), partner);
  received(incoming("both", round), partner);
}

static void exchange_in_place(int round) {
  if (is_odd) prepare_message(kLateMs);
  CALL(MPI_Sendrecv_replace, in, 8, MPI_CHAR, in_comm(partner), 1, in_comm(partner), 1, comm,
       MPI_STATUS_IGNORE);
  sent(outgoing("replace", round), partner);
  received(incoming("replace", round), partner);
}

static void persistent(int round) {
  MPI_Request request;
  if (is_odd) {
    MPI_Send_init(out, 8, MPI_CHAR, in_comm(partner), 1, comm, &request);
  } else {
    MPI_Recv_init(in, 8, MPI_CHAR, in_comm(partner), 1, comm, &request);
  }
  for (int i = 0; i < 2; ++i) {
    if (is_odd) prepare_message(kLateMs);
    CALL(MPI_Start, &request);
    const uint64_t start_ns = own.enter_ns;
    if (is_odd) sent(outgoing(i == 0 ? "start0" : "start1", round), partner);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    if (is_odd) {
      send_done(outgoing(i == 0 ? "start0" : "start1", round), partner);
    } else {
      received_from(incoming(i == 0 ? "start0" : "start1", round), partner, start_ns);
    }
  }
  MPI_Request_free(&request);
}

static void probe(int round) {
  if (is_odd) {
    late_send("probe", round);
  } else {
    CALL(MPI_Probe, in_comm(partner), MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    probed(incoming("probe", round), partner);
    CALL(MPI_Recv, in, 8, MPI_CHAR, in_comm(partner), 1, comm, MPI_STATUS_IGNORE);
    received(incoming("probe", round), partner);
  }
}

static void matched_probe(int round) {
  if (is_odd) {
    late_send("Mprobe", round);
  } else {
    MPI_Message found;
    CALL(MPI_Mprobe, MPI_ANY_SOURCE, 1, comm, &found, MPI_STATUS_IGNORE);
    probed(incoming("Mprobe", round), partner);
    CALL(MPI_Mrecv, in, 8, MPI_CHAR, &found, MPI_STATUS_IGNORE);
    received(incoming("Mprobe", round), partner);
  }
}

static void late_receive(const char* name, int round, int bytes) {
  unpack_message(kLateMs);
  CALL(MPI_Recv, in, bytes, MPI_CHAR, in_comm(partner), 1, comm, MPI_STATUS_IGNORE);
  received(incoming(name, round), partner);
}

static void synchronous_send(int round) {
  if (is_odd) {
    CALL(MPI_Ssend, out, 8, MPI_CHAR, in_comm(partner), 1, comm);
    sent(outgoing("Ssend", round), partner);
  } else {
    late_receive("Ssend", round, 8);
  }
}

static void synchronous_send_and_wait(int round) {
  if (is_odd) {
    MPI_Request request;
    CALL(MPI_Issend, out, 8, MPI_CHAR, in_comm(partner), 1, comm, &request);
    sent(outgoing("Issend", round), partner);
    compute(kLateMs / 2);
    CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
    send_done(outgoing("Issend", round), partner);
  } else {
    late_receive("Issend", round, 8);
  }
}

// Too large to leave before somebody wants it.
static void large_send(int round) {
  if (is_odd) {
    CALL(MPI_Send, out, kLarge, MPI_CHAR, in_comm(partner), 1, comm);
    sent(outgoing("large", round), partner);
  } else {
    late_receive("large", round, kLarge);
  }
}

static void large_send_and_wait(int round) {
  if (is_odd) {
    MPI_Request request;
    CALL(MPI_Isend, out, kLarge, MPI_CHAR, in_comm(partner), 1, comm, &request);
    sent(outgoing("Isend", round), partner);
    CALL(MPI_Waitall, 1, &request, MPI_STATUSES_IGNORE);
    send_done(outgoing("Isend", round), partner);
  } else {
    late_receive("Isend", round, kLarge);
  }
}

// A small message leaves at once: nobody waits.
static void eager_send(int round) {
  if (is_odd) {
    CALL(MPI_Send, out, 8, MPI_CHAR, in_comm(partner), 1, comm);
    sent(outgoing("eager", round), partner);
  } else {
    late_receive("eager", round, 8);
  }
}

static void messages(int rounds) {
  static void (*const kinds[])(int) = {blocking_receive,
                                       wildcard_receive,
                                       receive_and_wait,
                                       receive_and_wait_for_all,
                                       receive_and_wait_for_any,
                                       receive_and_wait_for_some,
                                       exchange,
                                       exchange_in_place,
                                       persistent,
                                       probe,
                                       matched_probe,
                                       synchronous_send,
                                       synchronous_send_and_wait,
                                       large_send,
                                       large_send_and_wait,
                                       eager_send};
  memset(out, 1, sizeof out);  // else the first large message pays for the pages
  memset(in, 1, sizeof in);
  is_odd = rank % 2 == 1;
  partner = is_odd ? rank - 1 : rank + 1;
  MPI_Comm reversed;
  // Whoever has just started and touched much memory may lose its processor between reading the clock and the
  // call.
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  CALL(MPI_Comm_split, everybody, 0, -rank, &reversed);
  collective("nxn", "reversed", rank, -1);
  for (int round = 0; round < rounds; ++round) {
    is_reversed = round % 2 == 1;
    comm = is_reversed ? reversed : everybody;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
      settle();
      kinds[i](round);
    }
  }
  MPI_Comm_free(&reversed);
}

// --- collectives ---

typedef struct {
  MPI_Comm comm;
  const char* name;  // also tells apart communicators with the same operations
  int rank, size;
} Group;

static const char* operation(const Group* group, const char* name, int round) {
  static char key[48];
  snprintf(key, sizeof key, "%.12s %.16s %d", group->name, name, round);
  return key;
}

static void late(const Group* group, int who) {
  if (group->rank == who) load_batch(kLateMs);
}

static void on_barrier(const Group* g, int who, int round) {
  late(g, who);
  CALL(MPI_Barrier, g->comm);
  collective("barrier", operation(g, "barrier", round), g->rank, -1);
}

static void on_allreduce(const Group* g, int who, int round) {
  long sum, one = 1;
  late(g, who);
  CALL(MPI_Allreduce, &one, &sum, 1, MPI_LONG, MPI_SUM, g->comm);
  collective("nxn", operation(g, "allreduce", round), g->rank, -1);
}

static void on_alltoall(const Group* g, int who, int round) {
  late(g, who);
  CALL(MPI_Alltoall, out, 16, MPI_CHAR, in, 16, MPI_CHAR, g->comm);
  collective("nxn", operation(g, "alltoall", round), g->rank, -1);
}

static void on_allgather(const Group* g, int who, int round) {
  late(g, who);
  CALL(MPI_Allgather, out, 16, MPI_CHAR, in, 16, MPI_CHAR, g->comm);
  collective("nxn", operation(g, "allgather", round), g->rank, -1);
}

static void on_reduce_scatter(const Group* g, int who, int round) {
  late(g, who);
  CALL(MPI_Reduce_scatter_block, out, in, 1, MPI_INT, MPI_BXOR, g->comm);
  collective("nxn", operation(g, "reduce_scatter", round), g->rank, -1);
}

static void on_broadcast(const Group* g, int who, int round) {  // the root is late
  late(g, who);
  CALL(MPI_Bcast, in, 64, MPI_CHAR, who, g->comm);
  collective("1xn", operation(g, "bcast", round), g->rank, who);
}

static void on_scatter(const Group* g, int who, int round) {
  late(g, who);
  CALL(MPI_Scatter, out, 16, MPI_CHAR, in, 16, MPI_CHAR, who, g->comm);
  collective("1xn", operation(g, "scatter", round), g->rank, who);
}

static void on_reduce(const Group* g, int who, int round) {  // the root is early
  const int root = (who + 1) % g->size;
  long sum, one = 1;
  late(g, who);
  CALL(MPI_Reduce, &one, &sum, 1, MPI_LONG, MPI_SUM, root, g->comm);
  collective("nx1", operation(g, "reduce", round), g->rank, root);
}

static void on_gather(const Group* g, int who, int round) {
  const int root = (who + 1) % g->size;
  late(g, who);
  CALL(MPI_Gather, out, 16, MPI_CHAR, in, 16, MPI_CHAR, root, g->comm);
  collective("nx1", operation(g, "gather", round), g->rank, root);
}

static void on_scan(const Group* g, int who, int round) {  // ranks behind the late one wait
  long sum, one = 1;
  (void)who;
  late(g, 0);
  CALL(MPI_Scan, &one, &sum, 1, MPI_LONG, MPI_SUM, g->comm);
  collective("scan", operation(g, "scan", round), g->rank, -1);
}

// Nonblocking: what waits is the call that completes it.
static void on_started_allreduce(const Group* g, int who, int round) {
  MPI_Request request;
  long sum, one = 1;
  late(g, who);
  CALL(MPI_Iallreduce, &one, &sum, 1, MPI_LONG, MPI_SUM, g->comm, &request);
  const uint64_t start_ns = own.enter_ns;
  compute(kLateMs / 4);
  CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
  collective_from("nxn", operation(g, "iallreduce", round), g->rank, -1, start_ns);
}

static void on_started_barrier(const Group* g, int who, int round) {
  MPI_Request request;
  late(g, who);
  CALL(MPI_Ibarrier, g->comm, &request);
  const uint64_t start_ns = own.enter_ns;
  CALL(MPI_Waitall, 1, &request, MPI_STATUSES_IGNORE);
  collective_from("barrier", operation(g, "ibarrier", round), g->rank, -1, start_ns);
}

static void on_started_broadcast(const Group* g, int who, int round) {
  MPI_Request request;
  late(g, who);
  CALL(MPI_Ibcast, in, 64, MPI_CHAR, who, g->comm, &request);
  const uint64_t start_ns = own.enter_ns;
  CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
  collective_from("1xn", operation(g, "ibcast", round), g->rank, who, start_ns);
}

static void all_collectives(const Group* group, int rounds) {
  static void (*const kinds[])(const Group*, int, int) = {
      on_barrier,           on_allreduce,       on_alltoall,         on_allgather, on_reduce_scatter,
      on_broadcast,         on_scatter,         on_reduce,           on_gather,    on_scan,
      on_started_allreduce, on_started_barrier, on_started_broadcast};
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
      settle();
      kinds[i](group, (int)(uniform() * group->size), round);
    }
  }
}

static Group split(const char* name, int colour, int key) {
  Group made = {.name = name};
  char label[48];
  static int count;
  snprintf(label, sizeof label, "split %d", count++);
  CALL(MPI_Comm_split, everybody, colour, key, &made.comm);
  collective("nxn", label, rank, -1);
  MPI_Comm_rank(made.comm, &made.rank);
  MPI_Comm_size(made.comm, &made.size);
  return made;
}

static void collectives(int rounds) {
  const Group world = {everybody, "world", rank, size};
  all_collectives(&world, rounds);
  Group reversed = split("reversed", 0, -rank);
  all_collectives(&reversed, rounds);
  Group half = split(rank % 2 == 0 ? "even" : "odd", rank % 2, rank);
  all_collectives(&half, rounds);
  MPI_Comm_free(&half.comm);
  MPI_Comm_free(&reversed.comm);
}

// --- who delays whom ---

static void step(int round, double late_ms, double work_ms) {
  const int who = (int)(uniform() * size);
  const double ms = late_ms * (0.5 + uniform());
  char key[48];
  snprintf(key, sizeof key, "step %d", round);
  if (rank == who) load_batch(ms);
  if (work_ms > 0) compute(work_ms);
  if (round % 2 == 0) {
    CALL(MPI_Barrier, everybody);
    collective("barrier", key, rank, -1);
  } else {
    long sum, one = 1;
    CALL(MPI_Allreduce, &one, &sum, 1, MPI_LONG, MPI_SUM, everybody);
    collective("nxn", key, rank, -1);
  }
}

static void straggler(int rounds) {
  for (int round = 0; round < rounds; ++round) step(round, 150, 30);
}

static void many(int rounds) {
  for (int round = 0; round < rounds; ++round) step(round, 2, 0);
}

static void pass_on(const char* name, int round, void (*work)(int round)) {
  if (rank > 0) {
    CALL(MPI_Recv, in, 8, MPI_CHAR, rank - 1, 1, everybody, MPI_STATUS_IGNORE);
    received(message(name, round, rank - 1, rank), rank - 1);
  }
  work(round);
  if (rank < size - 1) {
    CALL(MPI_Send, out, 8, MPI_CHAR, rank + 1, 1, everybody);
    sent(message(name, round, rank, rank + 1), rank + 1);
  }
}

static void first_is_late(int round) {
  if (rank == 0) load_batch(60);
  if (rank == 1 && round % 2 == 1) checkpoint(40);
}

static void chain(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    settle();
    pass_on("chain", round, first_is_late);
  }
}

static void equal_work(int round) {
  (void)round;
  compute(40);
}

static void pipeline(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    settle();
    pass_on("pipeline", round, equal_work);
  }
}

static void balanced(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    settle();
    compute(50);
  }
}

// --- one-sided ---

static void one_sided(int rounds) {
  static int memory[16];
  MPI_Win window;
  MPI_Group world, other;
  is_odd = rank % 2 == 1;
  partner = is_odd ? rank - 1 : rank + 1;
  settle();
  CALL(MPI_Win_create, memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, everybody, &window);
  collective("nxn", "create", rank, -1);
  MPI_Comm_group(everybody, &world);
  MPI_Group_incl(world, 1, &partner, &other);
  for (int round = 0; round < rounds; ++round) {
    const Group all = {everybody, "window", rank, size};
    settle();
    late(&all, (int)(uniform() * size));
    CALL(MPI_Win_fence, 0, window);
    collective("barrier", operation(&all, "open", round), rank, -1);
    MPI_Put(&rank, 1, MPI_INT, partner, 0, 1, MPI_INT, window);
    late(&all, (int)(uniform() * size));
    CALL(MPI_Win_fence, 0, window);
    collective("barrier", operation(&all, "close", round), rank, -1);

    // Odd ranks let even ones write into their memory: first too late, then for too long.
    settle();
    if (is_odd) {
      unpack_message(kLateMs);
      CALL(MPI_Win_post, other, 0, window);
      sent(outgoing("post", round), partner);
      CALL(MPI_Win_wait, window);
      received(incoming("complete", round), partner);
    } else {
      CALL(MPI_Win_start, other, 0, window);
      received(incoming("post", round), partner);
      MPI_Put(&rank, 1, MPI_INT, partner, 0, 1, MPI_INT, window);
      prepare_message(kLateMs);
      CALL(MPI_Win_complete, window);
      sent(outgoing("complete", round), partner);
    }
  }
  MPI_Group_free(&other);
  MPI_Group_free(&world);
  settle();
  CALL(MPI_Win_free, &window);
  collective("barrier", "free", rank, -1);
}

// --- threads ---

typedef struct {
  MPI_Comm comm;
  int number, rounds;
} Worker;

static void* exchange_on_thread(void* argument) {
  const Worker* const worker = argument;
  thread_number = worker->number;
  for (int round = 0; round < worker->rounds; ++round) {
    char name[16];
    snprintf(name, sizeof name, "thread %d", worker->number);
    if (is_odd) {
      if (worker->number == 0) {
        load_batch(60);
      } else {
        checkpoint(45);
      }
      CALL(MPI_Send, out, 8, MPI_CHAR, partner, 1, worker->comm);
      sent(outgoing(name, round), partner);
    } else {
      CALL(MPI_Recv, in + 8 * worker->number, 8, MPI_CHAR, partner, 1, worker->comm, MPI_STATUS_IGNORE);
      received(incoming(name, round), partner);
    }
  }
  return NULL;
}

static void threads(int rounds) {
  Worker workers[2];
  pthread_t second;
  is_odd = rank % 2 == 1;
  partner = is_odd ? rank - 1 : rank + 1;
  for (int i = 0; i < 2; ++i) {
    workers[i] = (Worker){.number = i, .rounds = rounds};
    CALL(MPI_Comm_dup, everybody, &workers[i].comm);
    collective("nxn", i == 0 ? "dup 0" : "dup 1", rank, -1);
  }
  settle();
  if (pthread_create(&second, NULL, exchange_on_thread, &workers[1]) != 0) abort();
  exchange_on_thread(&workers[0]);
  pthread_join(second, NULL);
  settle();
  for (int i = 0; i < 2; ++i) MPI_Comm_free(&workers[i].comm);
}

// --- partitioned communication ---

// Open MPI 5.0 has these, and calls itself MPI 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

enum { kParts = 4, kPartBytes = 1 << 16 };

static void init_partitioned(MPI_Request* request) {
  if (is_odd) {
    MPI_Psend_init(out, kParts, kPartBytes, MPI_CHAR, in_comm(partner), 1, comm, MPI_INFO_NULL, request);
  } else {
    MPI_Precv_init(in, kParts, kPartBytes, MPI_CHAR, in_comm(partner), 1, comm, MPI_INFO_NULL, request);
  }
}

static uint64_t start_partitioned(MPI_Request* request) {
  CALL(MPI_Start, request);
  return own.enter_ns;
}

// The partition that comes last lets the receiver wait, not those before it.
static void late_partition(int round) {
  MPI_Request request;
  init_partitioned(&request);
  for (int i = 0; i < 3; ++i) {
    char name[16];
    snprintf(name, sizeof name, "part%d", i);
    const uint64_t start_ns = start_partitioned(&request);
    if (is_odd) {
      MPI_Pready(2, request);
      prepare_message(kLateMs / 2);
      MPI_Pready(0, request);
      prepare_message(kLateMs / 2);
      if (i == 0) {
        MPI_Pready(1, request);
        CALL(MPI_Pready, 3, request);
      } else if (i == 1) {
        CALL(MPI_Pready_list, 2, ((int[]){3, 1}), request);
      } else {
        MPI_Pready(1, request);
        CALL(MPI_Pready_range, 3, 3, request);
      }
      sent(outgoing(name, round), partner);
      CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
      send_done(outgoing(name, round), partner);
    } else {
      CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
      received_from(incoming(name, round), partner, start_ns);
    }
  }
  MPI_Request_free(&request);
}

// The sender waits for the call that starts the receive, not for the one that made it.
static void late_start(int round) {
  MPI_Request request;
  init_partitioned(&request);
  for (int i = 0; i < 2; ++i) {
    if (!is_odd) unpack_message(kLateMs);
    const uint64_t start_ns = start_partitioned(&request);
    if (is_odd) {
      CALL(MPI_Pready_range, 0, kParts - 1, request);
      sent(outgoing(i == 0 ? "start0" : "start1", round), partner);
      CALL(MPI_Waitall, 1, &request, MPI_STATUSES_IGNORE);
      send_done(outgoing(i == 0 ? "start0" : "start1", round), partner);
    } else {
      CALL(MPI_Wait, &request, MPI_STATUS_IGNORE);
      received_from(incoming(i == 0 ? "start0" : "start1", round), partner, start_ns);
    }
  }
  MPI_Request_free(&request);
}

// Two requests of one tag: the second one's message is sent before the first one's, and asked for after it.
static void other_order(int round) {
  MPI_Request requests[2];
  for (int i = 0; i < 2; ++i) init_partitioned(&requests[i]);
  uint64_t start_ns[2];
  for (int i = 0; i < 2; ++i) start_ns[i] = start_partitioned(&requests[i]);
  if (is_odd) {
    for (int i = 1; i >= 0; --i) {
      prepare_message(kLateMs);
      CALL(MPI_Pready_range, 0, kParts - 1, requests[i]);
      sent(outgoing(i == 0 ? "first" : "second", round), partner);
    }
    CALL(MPI_Waitall, 2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; ++i) send_done(outgoing(i == 0 ? "first" : "second", round), partner);
  } else {
    for (int i = 0; i < 2; ++i) {
      CALL(MPI_Wait, &requests[i], MPI_STATUS_IGNORE);
      received_from(incoming(i == 0 ? "first" : "second", round), partner, start_ns[i]);
    }
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
}

static void partitioned(int rounds) {
  static void (*const kinds[])(int) = {late_partition, late_start, other_order};
  memset(out, 1, sizeof out);
  memset(in, 1, sizeof in);
  is_odd = rank % 2 == 1;
  partner = is_odd ? rank - 1 : rank + 1;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
      settle();
      kinds[i](round);
    }
  }
}

// Calls that ask are written down as one, which is as long as they are together: "polls", and of the call
// that makes the last partition "ready".
static void polled(int rounds) {
  MPI_Request request;
  is_odd = rank % 2 == 1;
  partner = is_odd ? rank - 1 : rank + 1;
  init_partitioned(&request);
  for (int round = 0; round < rounds; ++round) {
    settle();
    MPI_Start(&request);
    if (is_odd) {
      MPI_Pready_range(0, kParts - 2, request);
      prepare_message(5 * kLateMs);
      CALL(MPI_Pready, kParts - 1, request);
      note("ready", outgoing("polled", round));
    } else {
      uint64_t spent_ns = 0;
      for (int part = 0; part < kParts; ++part) {
        for (int flag = 0; !flag; spent_ns += own.exit_ns - own.enter_ns) {
          own.enter_ns = now_ns();
          MPI_Parrived(request, part, &flag);
          own.exit_ns = now_ns();
        }
      }
      own.enter_ns = own.exit_ns - spent_ns;
      note("polls", incoming("polled", round));
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
}

static MPI_Session session;

static void begin_session(void) {
  MPI_Group all;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  MPI_Group_rank(all, &rank);
  MPI_Group_size(all, &size);
  if (rank == 0) load_batch(kLateMs);
  CALL(MPI_Comm_create_from_group, all, "waits", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &everybody);
  collective("nxn", "create", rank, -1);
  MPI_Group_free(&all);
}

static void end_session(void) {
  CALL(MPI_Comm_disconnect, &everybody);
  collective("barrier", "disconnect", rank, -1);
  MPI_Session_finalize(&session);
}

#else

static void needs_mpi_4(int rounds) {
  (void)rounds;
  fprintf(stderr, "waits: the MPI library has no partitioned communication and no sessions\n");
  exit(77);
}
#define partitioned needs_mpi_4
#define polled needs_mpi_4
static void begin_session(void) { needs_mpi_4(0); }
static void end_session(void) {}

#endif

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(int rounds);
    int rounds;
  } kScenarios[] = {{"messages", messages, 2},    {"collectives", collectives, 1},
                    {"straggler", straggler, 12}, {"many", many, 2000},
                    {"chain", chain, 10},         {"pipeline", pipeline, 8},
                    {"balanced", balanced, 20},   {"one_sided", one_sided, 4},
                    {"threads", threads, 10},     {"partitioned", partitioned, 2},
                    {"polled", polled, 3}};
  if (argc < 3) return 2;
  // The clock that is the same on all nodes, when the others are made to differ.
  if (getenv("WAITS_REAL_TIME") != NULL) note_clock = CLOCK_REALTIME;
  int level;
  const bool is_threads = strcmp(argv[1], "threads") == 0, is_session = getenv("WAITS_SESSION") != NULL;
  const uint64_t begin_ns = now_ns(), ready_at_begin_ns = ready_ns();
  if (is_session) {
    begin_session();
  } else {
    MPI_Init_thread(&argc, &argv, is_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    everybody = MPI_COMM_WORLD;
    MPI_Comm_rank(everybody, &rank);
    MPI_Comm_size(everybody, &size);
  }
  comm = everybody;
  if (is_threads && level != MPI_THREAD_MULTIPLE) {
    fprintf(stderr, "waits: no MPI_THREAD_MULTIPLE\n");
    MPI_Abort(everybody, 77);
  }
  random_state = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
  uniform();
  bool is_known = false;
  for (size_t i = 0; i < sizeof kScenarios / sizeof *kScenarios; ++i) {
    if (strcmp(argv[1], kScenarios[i].name) != 0) continue;
    is_known = true;
    settle();
    kScenarios[i].run(argc > 3 ? atoi(argv[3]) : kScenarios[i].rounds);
  }
  if (is_session) {
    end_session();
  } else {
    CALL(MPI_Finalize);
    collective("barrier", "finalize", rank, -1);
  }
  did("", begin_ns);
  notes[note_count - 1].what = "program";
  notes[note_count - 1].ready_at_enter_ns = ready_at_begin_ns;
  notes[note_count - 1].ready_at_exit_ns = ready_ns();
  write_notes(argv[2]);
  return is_known ? 0 : 2;
}
