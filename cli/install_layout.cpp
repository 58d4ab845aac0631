// SPDX-License-Identifier: BSD-3-Clause
#include "cli/install_layout.hpp"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "cli/message.hpp"

namespace clusterprof::cli {
namespace {

// 0 when it can be executed, else why not.
int execution_error(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

Result<std::string> own_path() {
  char self[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0)
    return Error{std::string("cannot find out where clusterprof is installed: ") + std::strerror(errno)};
  return std::string(self, static_cast<std::size_t>(length));
}

// The directory that many names above `path`; empty: the root.
std::string without_names(std::string path, int names) {
  for (int i = 0; i < names; ++i) path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path;
}

InstallLayout layout_below(const std::string& prefix) {
  const std::string programs = prefix + "/libexec/clusterprof/";
  return {prefix + "/bin/clusterprof", programs + "collector", programs + "analyze",
          prefix + "/lib/clusterprof"};
}

CommandLookup not_executable(const std::string& command, int error) {
  return {"", kExitNotExecutable, command + ": " + std::strerror(error)};
}

// The programs that users do not call by name are in one folder.
std::string beside(const std::string& program, const std::string& name) {
  return program.substr(0, program.rfind('/') + 1) + name;
}

// "-openmpi", "-mpich"; empty without MPI.
std::string suffix_of(MpiFlavour flavour) {
  switch (flavour) {
    case MpiFlavour::kOpenMpi:
      return "-openmpi";
    case MpiFlavour::kMpich:
      return "-mpich";
    case MpiFlavour::kStandard:  // no program of ours is built for it
    case MpiFlavour::kNone:
      break;
  }
  return {};
}

}  // namespace

std::string InstallLayout::mpi_preload(MpiFlavour flavour) const {
  switch (flavour) {
    case MpiFlavour::kOpenMpi:
      return preload_directory + "/libclusterprof_mpi_openmpi.so";
    case MpiFlavour::kMpich:
      return preload_directory + "/libclusterprof_mpi_mpich.so";
    case MpiFlavour::kStandard:
      return preload_directory + "/libclusterprof_mpi_abi.so";
    case MpiFlavour::kNone:
      break;
  }
  return {};
}

std::string InstallLayout::browser() const { return beside(analyze, "tui"); }

std::string InstallLayout::doctor() const { return beside(analyze, "doctor"); }

std::string InstallLayout::attacher() const { return beside(analyze, "attach"); }

std::string InstallLayout::self_test_program(MpiFlavour flavour) const {
  return beside(analyze, "self-test" + suffix_of(flavour));
}

std::string InstallLayout::merge_program(MpiFlavour flavour) const {
  const std::string suffix = suffix_of(flavour);
  return suffix.empty() ? std::string() : beside(analyze, "merge" + suffix);
}

std::string InstallLayout::prefix() const { return without_names(launcher, 2); }

Result<InstallLayout> find_install_layout() {
  auto self = own_path();
  if (!self) return self.error();
  InstallLayout layout = layout_below(without_names(self.value(), 2));
  layout.launcher = std::move(self).value();
  return layout;
}

Result<InstallLayout> find_install_layout_of_helper() {
  const auto self = own_path();
  if (!self) return self.error();
  return layout_below(without_names(self.value(), 3));
}

CommandLookup find_command(const std::string& command) {
  if (command.find('/') != std::string::npos) {
    const int error = execution_error(command);
    if (error == 0) return {command, 0, ""};
    if (error == ENOENT || error == ENOTDIR)
      return {"", kExitNotFound, command + ": " + std::strerror(error)};
    return not_executable(command, error);
  }
  const char* const variable = std::getenv("PATH");
  const std::string list = variable == nullptr ? "/bin:/usr/bin" : variable;
  int denied = 0;
  for (std::size_t at = 0; at <= list.size() && !command.empty();) {
    std::size_t end = list.find(':', at);
    if (end == std::string::npos) end = list.size();
    const std::string directory = list.substr(at, end - at);
    const std::string path = (directory.empty() ? "." : directory) + "/" + command;
    const int error = execution_error(path);
    if (error == 0) return {path, 0, ""};
    if (error == EACCES && denied == 0) denied = error;
    at = end + 1;
  }
  if (denied != 0) return not_executable(command, denied);
  return {"", kExitNotFound, command + ": command not found"};
}

}  // namespace clusterprof::cli
