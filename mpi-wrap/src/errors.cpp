// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/errors.hpp"

#include <string.h>

#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

SpinLock lock;

struct ErrorName {
  int error_class;
  char name[wire::kMpiErrorNameBytes];
};
#define CLUSTERPROF_ERROR(name) \
  { name, #name }
// The numbers differ from library to library.
constexpr ErrorName kNames[] = {CLUSTERPROF_ERROR(MPI_ERR_BUFFER),
                                CLUSTERPROF_ERROR(MPI_ERR_COUNT),
                                CLUSTERPROF_ERROR(MPI_ERR_TYPE),
                                CLUSTERPROF_ERROR(MPI_ERR_TAG),
                                CLUSTERPROF_ERROR(MPI_ERR_COMM),
                                CLUSTERPROF_ERROR(MPI_ERR_RANK),
                                CLUSTERPROF_ERROR(MPI_ERR_REQUEST),
                                CLUSTERPROF_ERROR(MPI_ERR_ROOT),
                                CLUSTERPROF_ERROR(MPI_ERR_GROUP),
                                CLUSTERPROF_ERROR(MPI_ERR_OP),
                                CLUSTERPROF_ERROR(MPI_ERR_TOPOLOGY),
                                CLUSTERPROF_ERROR(MPI_ERR_DIMS),
                                CLUSTERPROF_ERROR(MPI_ERR_ARG),
                                CLUSTERPROF_ERROR(MPI_ERR_UNKNOWN),
                                CLUSTERPROF_ERROR(MPI_ERR_TRUNCATE),
                                CLUSTERPROF_ERROR(MPI_ERR_OTHER),
                                CLUSTERPROF_ERROR(MPI_ERR_INTERN),
                                CLUSTERPROF_ERROR(MPI_ERR_IN_STATUS),
                                CLUSTERPROF_ERROR(MPI_ERR_PENDING),
                                CLUSTERPROF_ERROR(MPI_ERR_ACCESS),
                                CLUSTERPROF_ERROR(MPI_ERR_AMODE),
                                CLUSTERPROF_ERROR(MPI_ERR_ASSERT),
                                CLUSTERPROF_ERROR(MPI_ERR_BAD_FILE),
                                CLUSTERPROF_ERROR(MPI_ERR_BASE),
                                CLUSTERPROF_ERROR(MPI_ERR_CONVERSION),
                                CLUSTERPROF_ERROR(MPI_ERR_DISP),
                                CLUSTERPROF_ERROR(MPI_ERR_DUP_DATAREP),
                                CLUSTERPROF_ERROR(MPI_ERR_FILE_EXISTS),
                                CLUSTERPROF_ERROR(MPI_ERR_FILE_IN_USE),
                                CLUSTERPROF_ERROR(MPI_ERR_FILE),
                                CLUSTERPROF_ERROR(MPI_ERR_INFO_KEY),
                                CLUSTERPROF_ERROR(MPI_ERR_INFO_NOKEY),
                                CLUSTERPROF_ERROR(MPI_ERR_INFO_VALUE),
                                CLUSTERPROF_ERROR(MPI_ERR_INFO),
                                CLUSTERPROF_ERROR(MPI_ERR_IO),
                                CLUSTERPROF_ERROR(MPI_ERR_KEYVAL),
                                CLUSTERPROF_ERROR(MPI_ERR_LOCKTYPE),
                                CLUSTERPROF_ERROR(MPI_ERR_NAME),
                                CLUSTERPROF_ERROR(MPI_ERR_NO_MEM),
                                CLUSTERPROF_ERROR(MPI_ERR_NOT_SAME),
                                CLUSTERPROF_ERROR(MPI_ERR_NO_SPACE),
                                CLUSTERPROF_ERROR(MPI_ERR_NO_SUCH_FILE),
                                CLUSTERPROF_ERROR(MPI_ERR_PORT),
                                CLUSTERPROF_ERROR(MPI_ERR_QUOTA),
                                CLUSTERPROF_ERROR(MPI_ERR_READ_ONLY),
                                CLUSTERPROF_ERROR(MPI_ERR_RMA_ATTACH),
                                CLUSTERPROF_ERROR(MPI_ERR_RMA_CONFLICT),
                                CLUSTERPROF_ERROR(MPI_ERR_RMA_FLAVOR),
                                CLUSTERPROF_ERROR(MPI_ERR_RMA_RANGE),
                                CLUSTERPROF_ERROR(MPI_ERR_RMA_SHARED),
                                CLUSTERPROF_ERROR(MPI_ERR_RMA_SYNC),
                                CLUSTERPROF_ERROR(MPI_ERR_SERVICE),
                                CLUSTERPROF_ERROR(MPI_ERR_SIZE),
                                CLUSTERPROF_ERROR(MPI_ERR_SPAWN),
                                CLUSTERPROF_ERROR(MPI_ERR_UNSUPPORTED_DATAREP),
                                CLUSTERPROF_ERROR(MPI_ERR_UNSUPPORTED_OPERATION),
                                CLUSTERPROF_ERROR(MPI_ERR_WIN)};
#undef CLUSTERPROF_ERROR

// Open MPI raises an error on MPI_COMM_WORLD, which by default ends the job, where it is asked about a code
// that it does not know. Calls return such codes: what a callback of the program has returned, or a number of
// its own.
bool may_ask_about(int code) noexcept {
#if CLUSTERPROF_MPI_STANDARD
  constexpr int kLast = MPI_ERR_ABI;
#else
  constexpr int kLast = MPI_ERR_LASTCODE;
#endif
  return !library_is_open_mpi || (code > MPI_SUCCESS && code <= kLast);
}

// What the library says of the class, or of the code where the program has made the class. Without the name,
// which Open MPI puts before it.
void take_text(wire::MpiError& row, int error) noexcept {
  const auto error_string = CLUSTERPROF_LIBRARY(MPI_Error_string);
  if (error_string == nullptr) return;
  char text[MPI_MAX_ERROR_STRING + 1];
  int length = 0;
  for (const int code : {row.error_class, error}) {
    if (!may_ask_about(code)) continue;
    memset(text, 0, sizeof text);
    if (error_string(code, text, &length) != MPI_SUCCESS || text[0] == 0) continue;
    const char* from = text;
    const std::size_t name = strlen(row.name);
    if (name != 0 && strncmp(text, row.name, name) == 0 && strncmp(text + name, ": ", 2) == 0)
      from += name + 2;
    memcpy(row.text, from, strnlen(from, sizeof row.text - 1));
    if (char* const end = strchr(row.text, '\n')) *end = 0;
    return;
  }
}

}  // namespace

[[gnu::cold]] int error_class_of(int error) noexcept {
  if (library_is_open_mpi) return error;  // its codes are classes, but for those that programs make
  const auto class_of = CLUSTERPROF_LIBRARY(MPI_Error_class);
  int found = MPI_SUCCESS;
  return class_of != nullptr && class_of(error, &found) == MPI_SUCCESS ? found : MPI_SUCCESS;
}

[[gnu::cold]] void note_error(const EndedCall& call, std::uint32_t op, int error,
                              const KnownMessage& about) noexcept {
  if (call.segment == nullptr || call.paused || !state.running) return;
  const int error_class = error_class_of(error);
  if (error_class == MPI_SUCCESS) return;
  const LockIf held(lock, true);
  for (wire::MpiError& row : call.segment->mpi_errors) {
    if (row.ready.load(std::memory_order_relaxed) == 0) {
      row.site = call.site;
      row.op = static_cast<std::uint16_t>(op);
      row.error_class = error_class;
      row.peer = about.peer;
      row.tag = about.tag;
      row.message = about.number;
      row.channel = about.channel;
      row.first_ns = call.enter_ns;
      row.count.store(1, std::memory_order_relaxed);
      for (const ErrorName& one : kNames)
        if (one.error_class == error_class) memcpy(row.name, one.name, sizeof row.name);
      take_text(row, error);
      row.ready.store(1, std::memory_order_release);
      return;
    }
    if (row.site == call.site && row.op == op && row.error_class == error_class && row.peer == about.peer &&
        row.tag == about.tag && row.channel == about.channel) {
      row.count.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiErrorTableFull));
}

}  // namespace clusterprof::mpi_wrap
