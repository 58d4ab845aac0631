// SPDX-License-Identifier: BSD-3-Clause
// Worlds that spawn others, and know all the traffic there is: "sent SOURCE DESTINATION BYTES" in ranks of
// the run, which every world is told on its command line.
//   spawn SCENARIO            the first world
//   spawn child FIRST CALLERS WHAT...   a spawned one: its first rank, its callers' ranks ("0,1"), what to do
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMaxBytes = 1 << 16, kMaxProcesses = 16 };
static char out[kMaxBytes], in[kMaxBytes];
static int rank, size, first;  // in its world, and of that in the run

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void sent(int source, int destination, int bytes) {
  printf("sent %d %d %d\n", source, destination, bytes);
}

static void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  fprintf(stderr, "%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void ring(MPI_Comm comm, const int* run_ranks, int unit) {
  int me, all;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &all);
  const int to = (me + 1) % all, from = (me + all - 1) % all;
  MPI_Sendrecv(out, unit * (me + 1), MPI_BYTE, to, 3, in, kMaxBytes, MPI_BYTE, from, 3, comm,
               MPI_STATUS_IGNORE);
  sent(run_ranks[me], run_ranks[to], unit * (me + 1));
}

// Both sides at once: everybody sends to everybody of the other side, and then around the merged
// communicator.
static void exchange(MPI_Comm inter, int is_child, const int* callers, int caller_count, int child_first,
                     int child_count) {
  int me, i, run_ranks[kMaxProcesses];
  MPI_Comm merged;
  MPI_Request requests[kMaxProcesses];
  MPI_Comm_rank(inter, &me);
  const int others = is_child ? caller_count : child_count;
  const int mine = is_child ? child_first + me : callers[me];
  for (i = 0; i < others; ++i) {
    const int bytes = is_child ? 2000 + 100 * me + i : 1000 * (me + 1) + i;
    MPI_Isend(out, bytes, MPI_BYTE, i, 5, inter, &requests[i]);
    sent(mine, is_child ? callers[i] : child_first + i, bytes);
  }
  for (i = 0; i < others; ++i) MPI_Recv(in, kMaxBytes, MPI_BYTE, i, 5, inter, MPI_STATUS_IGNORE);
  MPI_Waitall(others, requests, MPI_STATUSES_IGNORE);
  check(MPI_Intercomm_merge(inter, is_child, &merged), "merge");
  for (i = 0; i < caller_count; ++i) run_ranks[i] = callers[i];
  for (i = 0; i < child_count; ++i) run_ranks[caller_count + i] = child_first + i;
  ring(merged, run_ranks, 7);
  MPI_Barrier(merged);
  MPI_Comm_free(&merged);
}

static void own_traffic(void) {
  int run_ranks[kMaxProcesses], i, one = 1, sum = 0;
  for (i = 0; i < size; ++i) run_ranks[i] = first + i;
  ring(MPI_COMM_WORLD, run_ranks, 64);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != size) MPI_Abort(MPI_COMM_WORLD, 8);
}

static const char* text_of(const int* ranks, int count) {
  static char text[256];
  int length = 0;
  for (int i = 0; i < count; ++i) length += sprintf(text + length, "%s%d", i == 0 ? "" : ",", ranks[i]);
  return text;
}

// Over `comm`, whose members are the run's ranks `callers`; returns where that leads.
static MPI_Comm spawn(const char* command, MPI_Comm comm, const int* callers, int caller_count,
                      int child_first, int child_count, MPI_Info info, char* what) {
  char first_text[16], callers_text[256];
  char* arguments[] = {"child", first_text, callers_text, what, "with blanks", "", NULL};
  int codes[kMaxProcesses];
  MPI_Comm made = MPI_COMM_NULL;
  snprintf(first_text, sizeof first_text, "%d", child_first);
  snprintf(callers_text, sizeof callers_text, "%s", text_of(callers, caller_count));
  check(MPI_Comm_spawn(command, arguments, child_count, info, 0, comm, &made, codes), "spawn");
  return made;
}

static int child(char** argv) {
  MPI_Comm parent;
  int callers[kMaxProcesses], count = 0;
  char directory[4096];
  first = atoi(argv[2]);
  for (char* word = strtok(argv[3], ","); word != NULL; word = strtok(NULL, ","))
    callers[count++] = atoi(word);
  const char* what = argv[4];
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) return 7;
  const char* name = strrchr(argv[0], '/');
  printf("child %d of %d: %s '%s' '%s'\n", rank, size, name == NULL ? argv[0] : name + 1, argv[5], argv[6]);
  own_traffic();
  if (strcmp(what, "exchange") == 0 || strcmp(what, "grand") == 0) {
    exchange(parent, 1, callers, count, first, size);
  } else if (strcmp(what, "late") == 0) {
    if (rank == 1) {
      usleep(400000);
      const double send_s = now_s();
      MPI_Send(out, 10, MPI_BYTE, 0, 1, parent);
      printf("sends at %.6f s\n", send_s);
    }
  } else if (strcmp(what, "where") == 0) {
    const char* variable = getenv("SPAWN_TEST_VARIABLE");
    printf("child %d: in %s, variable %s\n", rank, getcwd(directory, sizeof directory),
           variable == NULL ? "not set" : variable);
  } else if (strcmp(what, "outlive") == 0) {
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    sleep(1);
    printf("child %d ends\n", rank);
    exit(0);
  } else if (strcmp(what, "fail") == 0) {
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    fflush(stdout);
    exit(rank == 1 ? 3 : 0);
  }
  if (strcmp(what, "grand") == 0) {
    const int self = first + rank, grandchild = first + size;
    if (rank == 0) {
      MPI_Comm made = spawn(argv[0], MPI_COMM_SELF, &self, 1, grandchild, 2, MPI_INFO_NULL, "exchange");
      exchange(made, 0, &self, 1, grandchild, 2);
      MPI_Comm_disconnect(&made);
    }
  }
  MPI_Comm_disconnect(&parent);
  MPI_Finalize();
  return 0;
}

int main(int argc, char** argv) {
  const int world[] = {0, 1, 2, 3};
  MPI_Comm made;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 2) return 2;
  if (strcmp(argv[1], "child") == 0) return child(argv);
  const char* scenario = argv[1];
  own_traffic();
  if (strcmp(scenario, "exchange") == 0 || strcmp(scenario, "grand") == 0) {
    made = spawn(argv[0], MPI_COMM_WORLD, world, size, size, 3, MPI_INFO_NULL, argv[1]);
    exchange(made, 0, world, size, size, 3);
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "twice") == 0) {
    MPI_Comm second = spawn(argv[0], MPI_COMM_WORLD, world, size, size, 3, MPI_INFO_NULL, "exchange");
    exchange(second, 0, world, size, size, 3);
    made = spawn(argv[0], MPI_COMM_WORLD, world, size, size + 3, 2, MPI_INFO_NULL, "exchange");
    exchange(made, 0, world, size, size + 3, 2);
    MPI_Comm_disconnect(&second);
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "multiple") == 0) {
    char *first_arguments[] = {"child", "2", "0,1", "exchange", "one", "", NULL},
         *second_arguments[] = {"child", "2", "0,1", "exchange", "two", "", NULL};
    char *commands[] = {argv[0], argv[2]}, **arguments[] = {first_arguments, second_arguments};
    const int processes[] = {1, 2};
    const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    // Only those of the root count.
    if (rank == 1) {
      check(MPI_Comm_spawn_multiple(0, NULL, NULL, NULL, NULL, 0, MPI_COMM_WORLD, &made, MPI_ERRCODES_IGNORE),
            "spawn");
    } else {
      check(MPI_Comm_spawn_multiple(2, commands, arguments, processes, infos, 0, MPI_COMM_WORLD, &made,
                                    MPI_ERRCODES_IGNORE),
            "spawn");
    }
    exchange(made, 0, world, size, size, 3);
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "nodes") == 0) {
    // Each child where clusterprof takes it to be on a node of its own.
    char *arguments[] = {"child", "2", "0,1", "exchange", "", "", NULL}, **both[] = {arguments, arguments};
    char* commands[] = {argv[0], argv[0]};
    const int processes[] = {1, 1};
    MPI_Info infos[2];
    for (int i = 0; i < 2; ++i) {
      MPI_Info_create(&infos[i]);
      MPI_Info_set(infos[i], "env", i == 0 ? "CLUSTERPROF_NODE=b" : "CLUSTERPROF_NODE=c");
    }
    check(MPI_Comm_spawn_multiple(2, commands, both, processes, infos, 0, MPI_COMM_WORLD, &made,
                                  MPI_ERRCODES_IGNORE),
          "spawn");
    exchange(made, 0, world, size, size, 2);
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "at-once") == 0) {
    // Which of the two gets which ranks is open, so there is nothing to be said about their bytes.
    char* arguments[] = {"silent", NULL};
    check(MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &made, MPI_ERRCODES_IGNORE),
          "spawn");
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "silent") == 0) {
    MPI_Comm_get_parent(&made);
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "irregular") == 0) {
    // Not in order, not all, and the root is not the first one.
    const int order[] = {3, 0, 2};
    MPI_Group everybody, group;
    MPI_Comm some;
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    MPI_Group_incl(everybody, 3, order, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &some);
    if (some != MPI_COMM_NULL) {
      made = spawn(argv[0], some, order, 3, size, 2, MPI_INFO_NULL, "exchange");
      exchange(made, 0, order, 3, size, 2);
      MPI_Comm_disconnect(&made);
    }
  } else if (strcmp(scenario, "late") == 0) {
    made = spawn(argv[0], MPI_COMM_WORLD, world, size, size, 3, MPI_INFO_NULL, argv[1]);
    if (rank == 0) {
      const double begin_s = now_s();
      MPI_Recv(in, 10, MPI_BYTE, 1, 1, made, MPI_STATUS_IGNORE);
      printf("waits from %.6f s on\n", begin_s);
    }
    MPI_Comm_disconnect(&made);
  } else if (strcmp(scenario, "where") == 0 || strcmp(scenario, "unknown-key") == 0) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", argv[2]);
    MPI_Info_set(info, "env", "SPAWN_TEST_VARIABLE=is set");
    if (strcmp(scenario, "unknown-key") == 0) MPI_Info_set(info, "path", "/nowhere");
    made = spawn(argv[3], MPI_COMM_WORLD, world, size, size, 2, info, "where");
    MPI_Comm_disconnect(&made);
    MPI_Info_free(&info);
  } else if (strcmp(scenario, "host") == 0) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", argv[2]);
    made = spawn(argv[0], MPI_COMM_WORLD, world, size, size, 2, info, "exchange");
    exchange(made, 0, world, size, size, 2);
    MPI_Comm_disconnect(&made);
    MPI_Info_free(&info);
  } else if (strcmp(scenario, "missing") == 0) {
    int codes[3] = {-1, -1, -1}, class = -1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int result =
        MPI_Comm_spawn("/no/such/command", MPI_ARGV_NULL, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &made, codes);
    MPI_Error_class(result, &class);
    printf("rank %d: class %d\n", rank, class);
  } else if (strcmp(scenario, "too-many") == 0) {
    int class = -1;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const int result = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 5, MPI_INFO_NULL, 0, MPI_COMM_SELF, &made,
                                      MPI_ERRCODES_IGNORE);
    MPI_Error_class(result, &class);
    printf("class %d\n", class);
    fflush(stdout);
    _exit(4);
  } else {  // outlive, fail
    made = spawn(argv[0], MPI_COMM_WORLD, world, size, size, 2, MPI_INFO_NULL, argv[1]);
    MPI_Comm_disconnect(&made);
  }
  MPI_Finalize();
  printf("rank %d is done\n", rank);
  return 0;
}
