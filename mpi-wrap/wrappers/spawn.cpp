// SPDX-License-Identifier: BSD-3-Clause
// Hand-written wrappers: MPI_Comm_spawn and MPI_Comm_spawn_multiple. The MPI library's daemons start the new
// processes, and their environment has nothing of ours. So the root puts the launcher in front of the
// commands; the new processes then start as the ranks of the first world did
// (docs/design/0008-spawned-worlds.md).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/wire/mpi_functions.h"
#include "mpi-wrap/generated/wrappers.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/communicator_registry.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/record.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::size_t kPathBytes = 4096;

using wire::SpawnObstacle;

bool is_executable(const char* directory, std::size_t directory_bytes, const char* name) noexcept {
  char path[kPathBytes];
  const int length = directory_bytes == 0 ? snprintf(path, sizeof(path), "%s", name)
                                          : snprintf(path, sizeof(path), "%.*s/%s",
                                                     static_cast<int>(directory_bytes), directory, name);
  struct stat status {};
  return length > 0 && length < static_cast<int>(sizeof(path)) && stat(path, &status) == 0 &&
         S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

// True if the process that starts the command will find it, as far as can be told from here.
bool can_be_found(const char* command, const char* working_directory) noexcept {
  if (command[0] == '/') return is_executable(nullptr, 0, command);
  if (strchr(command, '/') != nullptr) {
    return is_executable(working_directory, strlen(working_directory), command);
  }
  const char* list = getenv("PATH");
  while (list != nullptr) {
    const char* end = strchrnul(list, ':');
    if (*list == '/' && is_executable(list, static_cast<std::size_t>(end - list), command)) return true;
    list = *end == '\0' ? nullptr : end + 1;
  }
  return false;
}

// Keys of an Info that affect how the command is found.
struct Hints {
  char working_directory[kPathBytes];
  bool other_path;  // the command is looked for in another PATH than ours
};

bool is_harmless(const char* key) noexcept {
  for (const char* known : {"add-host", "add-hostfile", "bind_to", "display_map", "env", "host", "hostfile",
                            "hosts", "map_by", "mapper", "mpi_initial_errhandler", "npernode", "ompi_param",
                            "ompi_stdin_target", "pernode", "personality", "ppr", "rank_by", "wdir"}) {
    if (strcmp(key, known) == 0) return true;
  }
  return false;
}

bool sets_path(const char* environment) noexcept {
  for (const char* line = environment; line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (strncmp(line, "PATH=", 5) == 0) return true;
  }
  return false;
}

// False: the Info has a key that we do not know.
bool read_hints(MPI_Info info, Hints& hints) noexcept {
  hints.working_directory[0] = '\0';
  hints.other_path = false;
#if CLUSTERPROF_MPI_OPENMPI
  static const auto none = static_cast<MPI_Info>(library_symbol("ompi_mpi_info_null"));
  if (none == nullptr) return false;
#else
  const MPI_Info none = MPI_INFO_NULL;
#endif
  if (info == none) return true;
  const auto get_nkeys = CLUSTERPROF_LIBRARY(MPI_Info_get_nkeys);
  const auto get_nthkey = CLUSTERPROF_LIBRARY(MPI_Info_get_nthkey);
  const auto get_valuelen = CLUSTERPROF_LIBRARY(MPI_Info_get_valuelen);
  const auto get = CLUSTERPROF_LIBRARY(MPI_Info_get);
  int keys = 0;
  if (get_nkeys == nullptr || get_nthkey == nullptr || get_valuelen == nullptr || get == nullptr ||
      get_nkeys(info, &keys) != MPI_SUCCESS) {
    return false;
  }
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "", value[kPathBytes] = "";
    int length = 0, found = 0;
    if (get_nthkey(info, i, key) != MPI_SUCCESS || !is_harmless(key)) return false;
    const bool directory = strcmp(key, "wdir") == 0, environment = strcmp(key, "env") == 0;
    if (!directory && !environment) continue;
    if (get_valuelen(info, key, &length, &found) != MPI_SUCCESS || found == 0 || length < 0 ||
        length >= static_cast<int>(sizeof(value)) || get(info, key, length, value, &found) != MPI_SUCCESS) {
      return false;
    }
    if (directory) memcpy(hints.working_directory, value, sizeof(value));
    if (environment && sets_path(value)) hints.other_path = true;
  }
  return true;
}

SpawnObstacle find_obstacle(const char* command, int processes, MPI_Info info) noexcept {
  Hints hints;
  if (command == nullptr || *command == '\0' || processes < 0) return SpawnObstacle::kArguments;
  if (!read_hints(info, hints)) return SpawnObstacle::kInfo;
  if (hints.other_path && strchr(command, '/') == nullptr) return SpawnObstacle::kInfo;
  return can_be_found(command, hints.working_directory) ? SpawnObstacle::kNone : SpawnObstacle::kCommand;
}

// One call. On the root it replaces the command lines by ones with the launcher in front.
class Spawn {
 public:
  Spawn(MPI_Comm handle, int root) noexcept {
    if (!state.running || spawn_command() == nullptr) return;
    communicator_ = hold_communicator(key_of(handle));
    if (communicator_ == nullptr) {
      if (discover_communicator(handle) == nullptr) return;
      communicator_ = hold_communicator(key_of(handle));
    }
    if (communicator_ == nullptr || communicator_->inter) return;
    takes_part_ = true;
    is_root_ = communicator_->rank == root;
    call_ = {communicator_->identity, communicator_->children, &communicator_->peers};
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
  ~Spawn() {
    free_pages(memory_, memory_bytes_);
    if (communicator_ != nullptr) drop_reference(communicator_);
  }

  // On the root, before the call. Returns false and changes nothing unless all commands can be recorded.
  bool rewrite(int count, char* const* commands, char** const* arguments, const int* processes,
               const MPI_Info* infos) noexcept {
    if (!is_root_) return false;
    const SpawnObstacle obstacle = try_to_rewrite(count, commands, arguments, processes, infos);
    if (obstacle != SpawnObstacle::kNone && obstacle != SpawnObstacle::kArguments)
      note_unrecorded(spawn_command()->worlds_directory, state.world_rank, obstacle);
    if (obstacle != SpawnObstacle::kNone) forget_call(spawn_command()->worlds_directory, call_);
    return obstacle == SpawnObstacle::kNone;
  }

  char* const* commands() const noexcept { return commands_; }
  char** const* arguments() const noexcept { return arguments_; }

  // After the call.
  void ended(std::uint32_t op, std::uint64_t start, int returned, MPI_Comm callers,
             const MPI_Comm* made) noexcept {
    const bool succeeded = returned == MPI_SUCCESS;
    Record record(op, start, succeeded);
    record.use(callers);
    settle_world(record, succeeded, made);
    record.finish();
    if (!succeeded) [[unlikely]]
      record.failed(returned);
    if (record.counts()) record.collective_ended();
  }

 private:
  void settle_world(Record& record, bool succeeded, const MPI_Comm* made) noexcept {
    if (is_root_ && world_.number != 0 && !succeeded)
      withdraw_world(spawn_command()->worlds_directory, call_, world_);
    if (!record.counts()) return;
    if (takes_part_ && !is_root_) world_ = find_world(spawn_command()->worlds_directory, call_);
    if (world_.number == 0) {
      record.make_communicator(Derivation::kChild, *made);
    } else {
      register_spawned_world(communicator_, *made, world_.first);
    }
  }

  SpawnObstacle try_to_rewrite(int count, char* const* commands, char** const* arguments,
                               const int* processes, const MPI_Info* infos) noexcept {
    if (count < 1 || commands == nullptr || processes == nullptr || infos == nullptr)
      return SpawnObstacle::kArguments;
    const SpawnCommand& words = *spawn_command();
    std::int64_t all = 0;
    for (int i = 0; i < count; ++i) {
      const SpawnObstacle found = find_obstacle(commands[i], processes[i], infos[i]);
      if (found != SpawnObstacle::kNone) return found;
      all += processes[i];
    }
    if (all < 1) return SpawnObstacle::kArguments;
    if (all > wire::kMaxRunRanks) return SpawnObstacle::kNumbers;
    if (!is_executable(nullptr, 0, words.launcher)) return SpawnObstacle::kLauncher;
    if (!allocate_memory(count, arguments, words)) return SpawnObstacle::kNumbers;
    world_ = make_world(call_, static_cast<std::int32_t>(all));
    if (world_.number == 0) return SpawnObstacle::kNumbers;
    write_lines(count, commands, arguments, words);
    return SpawnObstacle::kNone;
  }

  static std::size_t word_count(char** const* arguments, int line) noexcept {
    std::size_t words = 0;
    if (arguments == nullptr || arguments[line] == nullptr) return 0;
    while (arguments[line][words] != nullptr) ++words;
    return words;
  }

  // Per command: its line, and the launcher for a command; then the lines; then the launcher's last option.
  bool allocate_memory(int count, char** const* arguments, const SpawnCommand& words) noexcept {
    const auto lines = static_cast<std::size_t>(count);
    const std::size_t ours = static_cast<std::size_t>(words.count) + 3;  // "--", the command, the end
    std::size_t pointers = 2 * lines;
    for (int i = 0; i < count; ++i) pointers += ours + word_count(arguments, i);
    memory_bytes_ = pointers * sizeof(char*) + strlen(words.options[words.count - 1]) + 32;
    memory_ = allocate_pages(memory_bytes_);
    text_ = memory_ == nullptr ? nullptr : static_cast<char*>(memory_) + pointers * sizeof(char*);
    return memory_ != nullptr;
  }

  void write_lines(int count, char* const* commands, char** const* arguments,
                   const SpawnCommand& words) noexcept {
    static char separator[] = "--";
    const auto lines = static_cast<std::size_t>(count);
    const char* const last = words.options[words.count - 1];
    snprintf(text_, strlen(last) + 32, "%s%d:%d", last, world_.number, world_.first);
    commands_ = static_cast<char**>(memory_);
    arguments_ = reinterpret_cast<char***>(commands_ + lines);
    char** place = commands_ + 2 * lines;
    for (int i = 0; i < count; ++i) {
      commands_[i] = const_cast<char*>(words.launcher);
      arguments_[i] = place;
      for (int w = 0; w + 1 < words.count; ++w) *place++ = const_cast<char*>(words.options[w]);
      *place++ = text_;
      *place++ = separator;
      *place++ = commands[i];
      const std::size_t more = word_count(arguments, i);
      for (std::size_t w = 0; w < more; ++w) *place++ = arguments[i][w];
      *place++ = nullptr;
    }
  }

  Communicator* communicator_ = nullptr;  // of the callers; null: none that we know
  bool takes_part_ = false, is_root_ = false;
  SpawnCall call_{};
  NewWorld world_{};
  void* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  char* text_ = nullptr;
  char** commands_ = nullptr;
  char*** arguments_ = nullptr;
};

}  // namespace
}  // namespace clusterprof::mpi_wrap

using namespace clusterprof;
using namespace clusterprof::mpi_wrap;

int clusterprof_wrap_MPI_Comm_spawn(const char* command, char* argv[], int maxprocs, MPI_Info info, int root,
                                    MPI_Comm comm, MPI_Comm* intercomm, int array_of_errcodes[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Comm_spawn);
  const std::uint64_t start =
      enter(wire::kMPI_Comm_spawn, [&] { return Intent(wire::kMPI_Comm_spawn, key_of(comm)).rooted(root); });
  if (start == 0) {
    const int returned = real(command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes);
    if (returned == MPI_SUCCESS) release(key_of(*intercomm));
    return returned;
  }
  Spawn spawn(comm, root);
  char* const only_command = const_cast<char*>(command);
  const bool ours = spawn.rewrite(1, &only_command, &argv, &maxprocs, &info);
  const int returned = real(ours ? spawn.commands()[0] : command, ours ? spawn.arguments()[0] : argv,
                            maxprocs, info, root, comm, intercomm, array_of_errcodes);
  spawn.ended(wire::kMPI_Comm_spawn, start, returned, comm, intercomm);
  return returned;
}

int clusterprof_wrap_MPI_Comm_spawn_multiple(int count, char* array_of_commands[], char** array_of_argv[],
                                             const int array_of_maxprocs[], const MPI_Info array_of_info[],
                                             int root, MPI_Comm comm, MPI_Comm* intercomm,
                                             int array_of_errcodes[]) {
  const auto real = CLUSTERPROF_REAL(MPI_Comm_spawn_multiple);
  const std::uint64_t start = enter(wire::kMPI_Comm_spawn_multiple, [&] {
    return Intent(wire::kMPI_Comm_spawn_multiple, key_of(comm)).rooted(root);
  });
  if (start == 0) {
    const int returned = real(count, array_of_commands, array_of_argv, array_of_maxprocs, array_of_info, root,
                              comm, intercomm, array_of_errcodes);
    if (returned == MPI_SUCCESS) release(key_of(*intercomm));
    return returned;
  }
  Spawn spawn(comm, root);
  const bool ours = spawn.rewrite(count, array_of_commands, array_of_argv, array_of_maxprocs, array_of_info);
  const int returned = real(count, ours ? const_cast<char**>(spawn.commands()) : array_of_commands,
                            ours ? const_cast<char***>(spawn.arguments()) : array_of_argv, array_of_maxprocs,
                            array_of_info, root, comm, intercomm, array_of_errcodes);
  spawn.ended(wire::kMPI_Comm_spawn_multiple, start, returned, comm, intercomm);
  return returned;
}
