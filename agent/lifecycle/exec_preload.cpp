// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/exec_preload.h"

#include <alloca.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "agent/lifecycle/options.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/glibc_loader.h"
#include "formats/wire/preload_entry.h"

namespace clusterprof::agent {
namespace {

constexpr char kVariable[] = "LD_PRELOAD=";
constexpr std::size_t kVariableBytes = sizeof kVariable - 1;

bool is_preload(const char* variable) noexcept { return strncmp(variable, kVariable, kVariableBytes) == 0; }

// Asks the kernel which memory can be read, once for several reads of the same page.
class ReadableMemory {
 public:
  // The byte at `address`.
  bool has(const void* address) noexcept {
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1);
    if (page == known_) return true;
    if (page == 0) return false;  // and no address for the call
    // The call reads the eight bytes first and then refuses what it is asked to do with them.
    constexpr long kNoSuchAction = -1;
    if (raw_syscall(SYS_rt_sigprocmask, kNoSuchAction, page, nullptr, sizeof(std::uint64_t)) == -EFAULT)
      return false;
    known_ = page;
    return true;
  }
  bool has_pointer(char* const* place) noexcept {
    return has(place) && has(reinterpret_cast<const char*>(place) + sizeof(char*) - 1);
  }
  // All of a text up to its end.
  bool has_text(const char* text) noexcept {
    for (;;) {
      if (!has(text)) return false;
      const std::size_t here = kPage - (reinterpret_cast<std::uintptr_t>(text) & (kPage - 1));
      if (memchr(text, 0, here) != nullptr) return true;
      text += here;
    }
  }
  bool has_variable_name(const char* text) noexcept {
    for (std::size_t i = 0; i < kVariableBytes; ++i) {
      if (!has(text + i)) return false;
      if (text[i] != kVariable[i]) return true;
    }
    return true;
  }

 private:
  static constexpr std::uintptr_t kPage = 4096;
  std::uintptr_t known_ = 1;  // no page begins there
};

// The value of LD_PRELOAD; null if there is none. False: not all of the environment can be read.
bool find_preload(char* const* environment, const char*& preload) noexcept {
  preload = nullptr;
  if (environment == nullptr) return true;
  ReadableMemory pointers, texts;
  for (;; ++environment) {
    if (!pointers.has_pointer(environment)) return false;
    if (*environment == nullptr) return true;
    if (!texts.has_variable_name(*environment)) return false;
    if (!is_preload(*environment)) continue;
    if (!texts.has_text(*environment)) return false;
    if (preload == nullptr) preload = *environment + kVariableBytes;
  }
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

using wire::UnrecordedReason;

struct Look {
  bool is_script = false;
  UnrecordedReason unrecorded =
      UnrecordedReason::kCount;   // kCount: our objects are loaded, or it cannot be known
  bool has_usual_loader = false;  // wire::kUsualLoader
};

// Whether the loader ignores LD_PRELOAD, since the program gets privileges that its user does not have.
bool gets_privileges(int descriptor) noexcept {
  struct stat status;
  if (raw_syscall(SYS_fstat, descriptor, &status) < 0) return false;
  const bool sets_user = (status.st_mode & S_ISUID) != 0;
  const bool sets_group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0;
  const bool has_capabilities = raw_syscall(SYS_fgetxattr, descriptor, "security.capability", nullptr, 0) > 0;
  if (!sets_user && !sets_group && !has_capabilities) return false;
  const auto user = static_cast<uid_t>(raw_syscall(SYS_geteuid));
  const auto group = static_cast<gid_t>(raw_syscall(SYS_getegid));
  return ((sets_user && status.st_uid != user) || (sets_group && status.st_gid != group) ||
          (has_capabilities && user != 0)) &&
         raw_syscall(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

constexpr std::size_t kInterpreterBytes = 256;  // what Linux reads of a script's first line

// For a script, `interpreter` is the program that executes it.
Look look_at(int descriptor, char (&interpreter)[kInterpreterBytes]) noexcept {
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
    return {.is_script = true};
  }
  if (bytes < sizeof begin.header || memcmp(begin.text, ELFMAG, SELFMAG) != 0) return {};
  if (begin.header.e_ident[EI_CLASS] != ELFCLASS64 || begin.header.e_machine != EM_X86_64)
    return {.unrecorded = UnrecordedReason::kOtherMachine};
  // It comes before everything that is loaded.
  constexpr unsigned kSegments = 8;
  for (unsigned i = 0; i < begin.header.e_phnum && i < kSegments; ++i) {
    Elf64_Phdr segment;
    if (read_at(descriptor, &segment, sizeof segment, begin.header.e_phoff + i * sizeof segment) !=
        sizeof segment)
      return {};
    if (segment.p_type == PT_LOAD) return {.unrecorded = UnrecordedReason::kStaticProgram};
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_filesz >= sizeof interpreter ||
        read_at(descriptor, interpreter, segment.p_filesz, segment.p_offset) != segment.p_filesz)
      return {};
    interpreter[segment.p_filesz] = 0;
    if (!wire::is_glibc_loader(interpreter)) return {.unrecorded = UnrecordedReason::kOtherLibrary};
    if (!wire::has_glibcs_libraries(interpreter, is_there))
      return {.unrecorded = UnrecordedReason::kLibrariesMissing};
    return {
        .unrecorded = gets_privileges(descriptor) ? UnrecordedReason::kPrivileges : UnrecordedReason::kCount,
        .has_usual_loader = strcmp(interpreter, wire::kUsualLoader) == 0};
  }
  return {};
}

// Of a script: of the program that executes it.
[[gnu::noinline]] Look look_at_program(int folder, const char* path) noexcept {
  constexpr int kScripts = 5;  // of scripts, as in Linux
  char interpreter[kInterpreterBytes];
  for (int i = 0; i < kScripts; ++i) {
    Look look;
    if (*path == 0) {
      look = look_at(folder, interpreter);
    } else {
      const OpenFile file(folder, path);
      if (file.descriptor() < 0) return {};
      look = look_at(file.descriptor(), interpreter);
    }
    // The loader itself, called with a program as its argument, is no static program.
    if (look.unrecorded == UnrecordedReason::kStaticProgram && wire::is_glibc_loader(path))
      return {.has_usual_loader = strcmp(path, wire::kUsualLoader) == 0};
    if (!look.is_script) return look;
    path = interpreter;
    folder = AT_FDCWD;
    if (*path == 0) break;
  }
  return {};
}

// The loader of such a program ignores our objects silently.
bool ignores_preloads(UnrecordedReason reason) noexcept {
  return reason == UnrecordedReason::kStaticProgram || reason == UnrecordedReason::kPrivileges;
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

struct OurEntries {
  PreloadSet all = 0, with_token = 0;
};

OurEntries ours_in(const char* preload) noexcept {
  OurEntries ours;
  for_each_entry(preload, [&ours](const char*, std::size_t length, int place) {
    if (place < 0) return;
    ours.all |= PreloadSet{1} << place;
    if (length != strlen(own_preload_path(place))) ours.with_token |= PreloadSet{1} << place;
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

// Of a program that was not found: libc may still find it, as after the file actions of posix_spawnp. Our
// entries stay as they are, since musl ends a program that has them without the token.
PreloadFate fate_of_unknown(char* const* environment) noexcept {
  PreloadFate fate = preload_fate(AT_FDCWD, "", environment);
  fate.plain = 0;
  return fate;
}

}  // namespace

PreloadFate preload_fate(int folder, const char* path, char* const* environment) noexcept {
  const char* preload = nullptr;
  if (path == nullptr || !ReadableMemory().has_text(path) || !find_preload(environment, preload)) return {};
  const OurEntries ours = preload == nullptr ? OurEntries{} : ours_in(preload);
  if (ours.all == 0) return {.unrecorded = UnrecordedReason::kOtherEnvironment};
  const PreloadSet missing = missing_of(ours.all);
  if (missing == ours.all)
    return {.left_out = missing, .unrecorded = UnrecordedReason::kNotVisible, .readable = true};
  const Look look = look_at_program(folder, path);
  const bool is_loaded = look.unrecorded == UnrecordedReason::kCount;
  PreloadFate fate = {.unrecorded = look.unrecorded, .readable = true};
  fate.left_out = is_loaded || ignores_preloads(look.unrecorded) ? missing : ours.all;
  // As of a program that may not be read.
  if (is_loaded && !look.has_usual_loader) fate.plain = ours.with_token & ~missing;
  return fate;
}

PreloadFate preload_fate_of_command(const char* file, char* const* environment) noexcept {
  if (file == nullptr) return {};
  if (*file == 0 || strchr(file, '/') != nullptr) return preload_fate(AT_FDCWD, file, environment);
  const char* directories = getenv("PATH");
  if (directories == nullptr) directories = "/bin:/usr/bin";
  const std::size_t name = strlen(file) + 1;
  if (name > NAME_MAX + 1) return fate_of_unknown(environment);
  const std::size_t room = std::min<std::size_t>(strlen(directories), PATH_MAX - 1);
  char* const path = static_cast<char*>(alloca(room + 1 + name));
  for (const char* next = directories;; ++next) {
    const std::size_t length = strcspn(next, ":");
    if (length <= room) {  // libc skips longer ones, too
      memcpy(path, next, length);
      path[length] = '/';
      memcpy(path + length + 1, file, name);
      const char* const candidate = length == 0 ? file : path;
      if (raw_syscall(SYS_faccessat, AT_FDCWD, candidate, X_OK) >= 0)
        return preload_fate(AT_FDCWD, candidate, environment);
    }
    next += length;
    if (*next == 0) return fate_of_unknown(environment);
  }
}

void count_unrecorded(UnrecordedReason reason, std::int64_t change) noexcept {
  if (reason == UnrecordedReason::kCount || g_options.no_children) return;
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr) return;
  segment->unrecorded_programs[static_cast<std::size_t>(reason)].fetch_add(static_cast<std::uint64_t>(change),
                                                                           std::memory_order_relaxed);
}

std::uint32_t copy_command(const char* program, char* const* arguments, char* to,
                           std::uint32_t room) noexcept {
  std::uint32_t used = 0;
  const auto add = [&](const char* word) {
    const std::size_t length = strnlen(word, room - used);
    memcpy(to + used, word, length);
    used += static_cast<std::uint32_t>(length);
    if (used < room) to[used++] = 0;
  };
  ReadableMemory pointers, texts;
  for (; arguments != nullptr && used < room; ++arguments) {
    if (!pointers.has_pointer(arguments) || *arguments == nullptr || !texts.has_text(*arguments)) break;
    add(*arguments);
  }
  if (used == 0) add(program);
  return used;
}

bool are_small(char* const* arguments, char* const* environment) noexcept {
  constexpr std::size_t kSmall = 64 * 1024;  // Linux takes 128 KiB at least
  ReadableMemory pointers, texts;
  std::size_t bytes = 0;
  for (char* const* text : {arguments, environment}) {
    if (text == nullptr) return false;
    for (;; ++text) {
      if (!pointers.has_pointer(text)) return false;
      if (*text == nullptr) break;
      if (!texts.has_text(*text)) return false;
      bytes += sizeof(char*) + strlen(*text) + 1;
      if (bytes > kSmall) return false;
    }
  }
  return true;
}

EnvironmentSize environment_size(char* const* environment) noexcept {
  EnvironmentSize size = {};
  for (; *environment != nullptr; ++environment) {
    ++size.pointers;
    if (is_preload(*environment)) size.text_bytes += strlen(*environment) + 1;
  }
  return size;
}

char* const* changed_environment(const PreloadFate& fate, const char* variable, char* const* environment,
                                 EnvironmentSize size, void* memory) noexcept {
  char** const changed = static_cast<char**>(memory);
  char* text = static_cast<char*>(memory) + (size.pointers + 2) * sizeof(char*);
  const char* const end = text + size.text_bytes;
  char** to = changed;
  const std::size_t name_bytes =
      variable == nullptr ? 0 : static_cast<std::size_t>(strchr(variable, '=') - variable) + 1;
  for (std::size_t i = 0; environment[i] != nullptr; ++i) {
    char* const entry_text = environment[i];
    if (i == size.pointers) return nullptr;
    if (variable != nullptr && strncmp(entry_text, variable, name_bytes) == 0) continue;
    if (!is_preload(entry_text)) {
      *to++ = entry_text;
      continue;
    }
    if (strlen(entry_text) >= static_cast<std::size_t>(end - text)) return nullptr;
    char* const shortened = text;
    memcpy(text, kVariable, kVariableBytes);
    text += kVariableBytes;
    char* const entries = text;
    for_each_entry(entry_text + kVariableBytes, [&](const char* entry, std::size_t length, int place) {
      const PreloadSet one = place >= 0 ? PreloadSet{1} << place : 0;
      if ((fate.left_out & one) != 0) return;
      if (text != entries) *text++ = ':';
      if ((fate.plain & one) != 0) {  // it is shorter than the entry
        entry = own_preload_path(place);
        length = strlen(entry);
      }
      memcpy(text, entry, length);
      text += length;
    });
    if (text != entries) *to++ = shortened;
    *text++ = 0;
  }
  if (variable != nullptr) *to++ = const_cast<char*>(variable);
  *to = nullptr;
  return changed;
}

}  // namespace clusterprof::agent
