// SPDX-License-Identifier: BSD-3-Clause
// An MPI library for one process. Like a library with the interface of the MPI standard, it may have Open
// MPI's variables or MPICH's name, whatever its interface. FAKE_ABI_MAJOR: the answer of MPI_Abi_get_version;
// if it is not defined, the library lacks that function. It has only what is needed to record the start and
// end of MPI. FAKE_PARTITIONED: and partitioned messages, of which it checks how long they are.
#include <string.h>

#if FAKE_OPENMPI
typedef void* handle;
char ompi_mpi_comm_world[8], ompi_mpi_comm_self[8], ompi_mpi_comm_null[8], ompi_mpi_datatype_null[8];
#else
typedef int handle;
#endif

static int initialised, finalised;

int PMPI_Init(int* argc, char*** argv) {
  (void)argc, (void)argv;
  initialised = 1;
  return 0;
}
int PMPI_Finalize(void) {
  finalised = 1;
  return 0;
}
int PMPI_Initialized(int* flag) {
  *flag = initialised;
  return 0;
}
int PMPI_Finalized(int* flag) {
  *flag = finalised;
  return 0;
}
int PMPI_Get_library_version(char* version, int* length) {
  strcpy(version, FAKE_OPENMPI ? "Open MPI" : "MPICH Version: 4.3.0");
  *length = (int)strlen(version);
  return 0;
}
#ifdef FAKE_ABI_MAJOR
extern void fake_library_asked(void) __attribute__((weak));  // of first_calls.c
int PMPI_Abi_get_version(int* major, int* minor) {
  if (fake_library_asked) fake_library_asked();
  *major = FAKE_ABI_MAJOR;
  *minor = 0;
  return 0;
}
#endif
int PMPI_Query_thread(int* provided) {
  *provided = 0;
  return 0;
}
int PMPI_Comm_size(handle comm, int* size) {
  (void)comm;
  *size = 1;
  return 0;
}
int PMPI_Comm_rank(handle comm, int* rank) {
  (void)comm;
  *rank = 0;
  return 0;
}
int PMPI_Comm_test_inter(handle comm, int* flag) {
  (void)comm;
  *flag = 0;
  return 0;
}
int PMPI_Comm_group(handle comm, handle* group) {
  *group = comm;
  return 0;
}
int PMPI_Comm_remote_group(handle comm, handle* group) {
  *group = comm;
  return 0;
}
int PMPI_Group_size(handle group, int* size) {
  (void)group;
  *size = 1;
  return 0;
}
int PMPI_Group_free(handle* group) {
  (void)group;
  return 0;
}
int PMPI_Group_translate_ranks(handle group, int count, const int ranks[], handle other, int others[]) {
  (void)group, (void)other;
  memcpy(others, ranks, (size_t)count * sizeof(int));
  return 0;
}

// --- partitioned messages of large_partitions.c ---

#if FAKE_PARTITIONED

enum { kParts = 3, kTag = 7 };
static const long long kElements = (1LL << 33) + 5;
#if FAKE_OPENMPI
char ompi_mpi_byte[8], ompi_mpi_info_null[8], ompi_request_null[8];
static char requests[2];
#define REQUEST(which) (&requests[which])
#else
#define REQUEST(which) (0x2c000001 + (which))
#endif

// Statuses as those of the family, with the size where it keeps it; the standard's is asked for.
struct status {
#if defined(FAKE_ABI_MAJOR)
  int source, tag, error, internal[5];
#elif FAKE_OPENMPI
  int source, tag, error, cancelled;
  unsigned long bytes;
#else
  int bytes_low, bytes_high_and_cancelled, source, tag, error;
#endif
};

static int begin(int which, int parts, long long count, int peer, int tag, handle* request) {
  *request = REQUEST(which);
  return parts != kParts || count != kElements || peer != 0 || tag != kTag;
}
int PMPI_Psend_init(const void* buffer, int parts, long long count, handle type, int dest, int tag,
                    handle comm, handle info, handle* request) {
  (void)buffer, (void)type, (void)comm, (void)info;
  return begin(0, parts, count, dest, tag, request);
}
int PMPI_Precv_init(void* buffer, int parts, long long count, handle type, int source, int tag, handle comm,
                    handle info, handle* request) {
  (void)buffer, (void)type, (void)comm, (void)info;
  return begin(1, parts, count, source, tag, request);
}
int PMPI_Start(handle* request) {
  (void)request;
  return 0;
}
int PMPI_Pready_range(int low, int high, handle request) {
  (void)low, (void)high, (void)request;
  return 0;
}
int PMPI_Wait(handle* request, struct status* status) {
  (void)request;
  *status = (struct status){.source = 0, .tag = kTag};
  const unsigned long long bytes = kParts * kElements;
#if defined(FAKE_ABI_MAJOR)
  memcpy(status->internal, &bytes, sizeof bytes);
#elif FAKE_OPENMPI
  status->bytes = bytes;
#else
  status->bytes_low = (int)(bytes & 0xffffffffu);
  status->bytes_high_and_cancelled = (int)(bytes >> 32 << 1);
#endif
  return 0;
}
int PMPI_Request_free(handle* request) {
  (void)request;
  return 0;
}
int PMPI_Type_size_x(handle type, long long* size) {
  (void)type;
  *size = 1;
  return 0;
}
#if defined(FAKE_ABI_MAJOR)
int PMPI_Get_count_c(const struct status* status, handle type, long long* count) {
  (void)type;
  memcpy(count, status->internal, sizeof *count);
  return 0;
}
int PMPI_Test_cancelled(const struct status* status, int* flag) {
  (void)status;
  *flag = 0;
  return 0;
}
#endif

// The program is linked to these, and finds ours in front of them.
#pragma weak MPI_Init = PMPI_Init
#pragma weak MPI_Finalize = PMPI_Finalize
#pragma weak MPI_Psend_init = PMPI_Psend_init
#pragma weak MPI_Precv_init = PMPI_Precv_init
#pragma weak MPI_Start = PMPI_Start
#pragma weak MPI_Pready_range = PMPI_Pready_range
#pragma weak MPI_Wait = PMPI_Wait
#pragma weak MPI_Request_free = PMPI_Request_free

#endif
