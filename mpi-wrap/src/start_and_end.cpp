// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/start_and_end.hpp"

#include <atomic>

#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/requests.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/type_size.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {
namespace {

std::atomic<bool> world_started;

void announce(int size) noexcept {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  const auto get_version = CLUSTERPROF_LIBRARY(MPI_Get_library_version);
  if (get_version == nullptr || get_version(version, &length) != MPI_SUCCESS) version[0] = '\0';
  agent->mpi_started(state.world_rank, first_rank() + size, version);
}

#if CLUSTERPROF_MPI_HAS_4_0

// Sessions that are open. Those that find no row are counted only.
struct SessionRow {
  MPI_Session handle;
  bool is_open;
  bool is_ending;  // a thread is in MPI_Session_finalize
};
constexpr int kSessionRows = 64;

struct Sessions {
  SessionRow rows[kSessionRows];
  int open, ending, without_row;
  std::uint32_t recording;  // how often all were forgotten
  // The last session ends the recording, since there has been no MPI_Init.
  bool end_recording;
  // The session that the group of all processes was made from, which keeps it in use; kNoSessionRow: none.
  int group_from = kNoSessionRow;

  int row_of(MPI_Session handle) const noexcept {
    for (int i = 0; i < kSessionRows; ++i)
      if (rows[i].is_open && !rows[i].is_ending && rows[i].handle == handle) return i;
    return kNoSessionRow;
  }
  int add(MPI_Session handle) noexcept {
    ++open;
    for (int i = 0; i < kSessionRows; ++i) {
      if (rows[i].is_open) continue;
      rows[i] = {handle, true, false};
      return i;
    }
    ++without_row;
    return kNoSessionRow;
  }
};
constinit Sessions sessions{};
SpinLock sessions_lock;  // taken before those of communicators and worlds

// Without MPI_Init the world is the process set that contains all processes.
bool find_world_of_session(int row, int& size) noexcept {
  const auto from_pset = CLUSTERPROF_LIBRARY(MPI_Group_from_session_pset);
  const auto group_size = CLUSTERPROF_LIBRARY(MPI_Group_size);
  MPI_Group all;
  if (from_pset == nullptr || group_size == nullptr ||
      from_pset(sessions.rows[row].handle, "mpi://WORLD", &all) != MPI_SUCCESS ||
      group_size(all, &size) != MPI_SUCCESS || !start_without_world(all)) {
    return false;
  }
  sessions.group_from = row;
  return true;
}

#endif

// The recording no longer depends on sessions.
void leave_sessions(bool forget) noexcept {
#if CLUSTERPROF_MPI_HAS_4_0
  const LockIf held(sessions_lock, true);
  if (forget) {
    const std::uint32_t recording = sessions.recording + 1;
    sessions = {};
    sessions.recording = recording;
  }
  sessions.end_recording = false;
  sessions.group_from = kNoSessionRow;
#else
  (void)forget;
#endif
}

}  // namespace

void start_world() noexcept {
  if (world_started.exchange(true)) return;
  leave_sessions(false);
  int provided = MPI_THREAD_SINGLE;
  const auto query_thread = CLUSTERPROF_LIBRARY(MPI_Query_thread);
  // Never taken back: several threads may use a session that is open.
  if (query_thread != nullptr && query_thread(&provided) == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE)
    state.shared = true;
  find_type_sizes();
  if (!start_communicators()) return;
  state.running = true;
  announce(communicator_of(key_of(handles.comm_world))->size);
}

void forget_world() noexcept {
  state.running = false;
  forget_requests();
  forget_communicators();
  forget_entries();
  leave_sessions(true);
  world_started.store(false);
}

void end_world() noexcept {
  if (!state.running) return;
  if (!state.attached) write_open_requests();  // else a call that is not ours may have completed some
  agent->mpi_ended();
  state.running = false;
  end_communicators();
}

void start_if_initialised() noexcept {
  int initialised = 0, finalised = 0;
  const auto is_initialised = CLUSTERPROF_LIBRARY(MPI_Initialized);
  const auto is_finalised = CLUSTERPROF_LIBRARY(MPI_Finalized);
  if (is_initialised == nullptr || is_finalised == nullptr) return;
  if (is_initialised(&initialised) == MPI_SUCCESS && initialised != 0 &&
      is_finalised(&finalised) == MPI_SUCCESS && finalised == 0) {
    start_world();
  }
}

#if CLUSTERPROF_MPI_HAS_4_0

// What a session asks for is not known, nor does MPI_Query_thread tell what it gets.
void expect_session() noexcept { state.shared = true; }

void start_session(MPI_Session session) noexcept {
  const LockIf held(sessions_lock, true);
  const int row = sessions.add(session);
  if (sessions.open != 1 || state.running) return;
  int size = 0;
  find_type_sizes();
  if (!find_world_of_session(row, size)) return;
  state.running = true;
  sessions.end_recording = true;
  announce(size);
}

SessionEnd begin_session_end(MPI_Session session) noexcept {
  const LockIf held(sessions_lock, true);
  SessionEnd end{session, sessions.row_of(session), sessions.recording, false, false};
  if (end.row == kNoSessionRow && sessions.without_row == 0) return end;  // of before this recording
  end.is_known = true;
  end.is_last = sessions.open - sessions.ending == 1;
  ++sessions.ending;
  if (end.row != kNoSessionRow) sessions.rows[end.row].is_ending = true;
  if (!sessions.end_recording) return end;
  if (end.is_last) agent->mpi_ended();
  if (end.is_last || (end.row != kNoSessionRow && end.row == sessions.group_from)) {
    end_communicators();
    sessions.group_from = kNoSessionRow;
  }
  return end;
}

void finish_session_end(const SessionEnd& end, bool has_ended) noexcept {
  if (!end.is_known) return;
  const LockIf held(sessions_lock, true);
  if (end.recording != sessions.recording) return;
  --sessions.ending;
  if (end.row != kNoSessionRow) {
    sessions.rows[end.row].is_ending = false;
    sessions.rows[end.row].is_open = !has_ended;
  }
  if (has_ended) {
    --sessions.open;
    if (end.row == kNoSessionRow) --sessions.without_row;
  }
  if (!sessions.end_recording) return;
  if (sessions.open == 0) {
    sessions.end_recording = false;
    if (!state.attached) write_open_requests();
    state.running = false;
    return;
  }
  // From a session that stays.
  int size = 0;
  for (int i = 0; i < kSessionRows && sessions.group_from == kNoSessionRow; ++i)
    if (sessions.rows[i].is_open && !sessions.rows[i].is_ending && find_world_of_session(i, size)) return;
}

#endif

}  // namespace clusterprof::mpi_wrap
