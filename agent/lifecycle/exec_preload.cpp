// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/exec_preload.h"

#include <alloca.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/lifecycle/options.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/glibc_loader.h"

namespace clusterprof::agent {
namespace {

constexpr char kVariable[] = "LD_PRELOAD=";
constexpr std::size_t kVariableBytes = sizeof kVariable - 1;

bool is_preload(const char* variable) noexcept { return strncmp(variable, kVariable, kVariableBytes) == 0; }

// Null if the program would get none.
const char* preload_of(char* const* environment) noexcept {
  if (environment == nullptr) return nullptr;
  for (; *environment != nullptr; ++environment) {
    if (is_preload(*environment)) return *environment + kVariableBytes;
  }
  return nullptr;
}

// Those that are seen from the root directory that the process has now.
bool is_there(const char* path) noexcept { return raw_syscall(SYS_faccessat, AT_FDCWD, path, R_OK) >= 0; }

// With all signals blocked, since a handler of the program might jump out of here and leave it open.
class OpenFile {
 public:
  OpenFile(int folder, const char* path) noexcept
      : mask_(block_all_signals()),
        descriptor_(raw_syscall(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) raw_syscall(SYS_close, descriptor_);
    restore_signals(mask_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const noexcept { return static_cast<int>(descriptor_); }

 private:
  const std::uint64_t mask_;
  const long descriptor_;
};

std::size_t read_at(int descriptor, void* to, std::size_t bytes, std::uint64_t at) noexcept {
  const long result = raw_syscall(SYS_pread64, descriptor, to, bytes, at);
  return result < 0 ? 0 : static_cast<std::size_t>(result);
}

enum class Loads { kYes, kNo, kScript };

constexpr std::size_t kInterpreterBytes = 256;  // what Linux reads of a script's first line

// Whether our objects can be loaded with the program in this file. Also yes if that cannot be known, and for
// static programs, which load nothing. For a script, `interpreter` is the program that executes it.
Loads loads_ours(int descriptor, char (&interpreter)[kInterpreterBytes]) noexcept {
  union {
    char text[kInterpreterBytes];
    Elf64_Ehdr header;
  } begin;
  const std::size_t bytes = read_at(descriptor, &begin, sizeof begin, 0);
  if (bytes >= 2 && begin.text[0] == '#' && begin.text[1] == '!') {
    begin.text[bytes < sizeof begin ? bytes : sizeof begin - 1] = 0;
    const char* const word = begin.text + 2 + strspn(begin.text + 2, " \t");
    const std::size_t length = strcspn(word, " \t\n");
    memcpy(interpreter, word, length);
    interpreter[length] = 0;
    return Loads::kScript;
  }
  if (bytes < sizeof begin.header || memcmp(begin.text, ELFMAG, SELFMAG) != 0) return Loads::kYes;
  if (begin.header.e_ident[EI_CLASS] != ELFCLASS64 || begin.header.e_machine != EM_X86_64) return Loads::kNo;
  // It comes before everything that is loaded.
  constexpr unsigned kSegments = 8;
  for (unsigned i = 0; i < begin.header.e_phnum && i < kSegments; ++i) {
    Elf64_Phdr segment;
    if (read_at(descriptor, &segment, sizeof segment, begin.header.e_phoff + i * sizeof segment) !=
            sizeof segment ||
        segment.p_type == PT_LOAD)
      break;
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_filesz >= sizeof interpreter ||
        read_at(descriptor, interpreter, segment.p_filesz, segment.p_offset) != segment.p_filesz)
      break;
    interpreter[segment.p_filesz] = 0;
    return wire::is_glibc_loader(interpreter) && wire::has_glibcs_libraries(interpreter, is_there)
               ? Loads::kYes
               : Loads::kNo;
  }
  return Loads::kYes;
}

[[gnu::noinline]] bool program_loads_ours(int folder, const char* path) noexcept {
  constexpr int kScripts = 5;  // of scripts, as in Linux
  char interpreter[kInterpreterBytes];
  for (int i = 0; i < kScripts; ++i) {
    Loads loads;
    if (*path == 0) {
      loads = loads_ours(folder, interpreter);
    } else {
      const OpenFile file(folder, path);
      if (file.descriptor() < 0) return true;
      loads = loads_ours(file.descriptor(), interpreter);
    }
    if (loads != Loads::kScript) return loads == Loads::kYes;
    path = interpreter;
    folder = AT_FDCWD;
    if (*path == 0) return true;
  }
  return true;
}

// Calls with each entry's text, its length and its place among ours, or -1.
template <typename Function>
void for_each_entry(const char* preload, Function function) noexcept {
  while (*preload != 0) {
    const std::size_t length = strcspn(preload, ": ");
    if (length != 0) function(preload, length, own_preload(preload, length));
    preload += length;
    if (*preload != 0) ++preload;
  }
}

PreloadSet ours_in(const char* preload) noexcept {
  PreloadSet ours = 0;
  for_each_entry(preload, [&ours](const char*, std::size_t, int place) {
    if (place >= 0) ours |= PreloadSet{1} << place;
  });
  return ours;
}

PreloadSet missing_of(PreloadSet ours) noexcept {
  PreloadSet missing = 0;
  for (int place = 0; ours >> place != 0; ++place) {
    const PreloadSet one = PreloadSet{1} << place;
    if ((ours & one) != 0 && !is_there(own_preload_path(place))) missing |= one;
  }
  return missing;
}

}  // namespace

PreloadSet unusable_preloads(int folder, const char* path, char* const* environment) noexcept {
  const char* const preload = preload_of(environment);
  if (preload == nullptr || path == nullptr) return 0;
  const PreloadSet ours = ours_in(preload);
  if (ours == 0) return 0;
  const PreloadSet missing = missing_of(ours);
  return missing == ours || program_loads_ours(folder, path) ? missing : ours;
}

PreloadSet unusable_preloads_of_command(const char* file, char* const* environment) noexcept {
  if (file == nullptr) return 0;
  if (*file == 0 || strchr(file, '/') != nullptr) return unusable_preloads(AT_FDCWD, file, environment);
  if (preload_of(environment) == nullptr) return 0;
  const char* directories = getenv("PATH");
  if (directories == nullptr) directories = "/bin:/usr/bin";
  const std::size_t name = strlen(file) + 1;
  const std::size_t longest = strlen(directories);
  if (name > NAME_MAX + 1 || longest > PATH_MAX) return unusable_preloads(AT_FDCWD, file, environment);
  char* const path = static_cast<char*>(alloca(longest + 1 + name));
  for (const char* next = directories;; ++next) {
    const std::size_t length = strcspn(next, ":");
    memcpy(path, next, length);
    path[length] = '/';
    memcpy(path + length + 1, file, name);
    const char* const candidate = length == 0 ? file : path;
    if (raw_syscall(SYS_faccessat, AT_FDCWD, candidate, X_OK) >= 0)
      return unusable_preloads(AT_FDCWD, candidate, environment);
    next += length;
    if (*next == 0) return unusable_preloads(AT_FDCWD, file, environment);
  }
}

std::size_t changed_environment_bytes(char* const* environment) noexcept {
  std::size_t bytes = sizeof(char*);
  for (; *environment != nullptr; ++environment) {
    bytes += sizeof(char*);
    if (is_preload(*environment)) bytes += strlen(*environment) + 1;
  }
  return bytes;
}

char* const* changed_environment(PreloadSet left_out, char* const* environment, void* memory) noexcept {
  std::size_t variables = 0;
  while (environment[variables] != nullptr) ++variables;
  char** const changed = static_cast<char**>(memory);
  char* text = static_cast<char*>(memory) + (variables + 1) * sizeof(char*);
  char** to = changed;
  for (; *environment != nullptr; ++environment) {
    if (!is_preload(*environment)) {
      *to++ = *environment;
      continue;
    }
    char* const variable = text;
    memcpy(text, kVariable, kVariableBytes);
    text += kVariableBytes;
    char* const entries = text;
    for_each_entry(*environment + kVariableBytes, [&](const char* entry, std::size_t length, int place) {
      if (place >= 0 && (left_out >> place & 1) != 0) return;
      if (text != entries) *text++ = ':';
      memcpy(text, entry, length);
      text += length;
    });
    if (text != entries) *to++ = variable;
    *text++ = 0;
  }
  *to = nullptr;
  return changed;
}

}  // namespace clusterprof::agent
