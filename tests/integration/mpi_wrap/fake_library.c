// SPDX-License-Identifier: BSD-3-Clause
// An MPI library for one process. Like a library with the interface of the MPI standard, it may have Open
// MPI's variables or MPICH's name, whatever its interface. FAKE_ABI_MAJOR: the answer of MPI_Abi_get_version;
// if it is not defined, the library lacks that function. It has only what is needed to record the start and
// end of MPI.
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
int PMPI_Abi_get_version(int* major, int* minor) {
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
