// SPDX-License-Identifier: BSD-3-Clause
// The starter: a preload object that turns a process that Slurm started as PROGRAM ARGUMENTS into
// `clusterprof record --started -- PROGRAM ARGUMENTS`, before main, in the same process. Slurm has no call
// that changes what a task executes (docs/design/0012-slurm-activation.md). It is loaded into every process
// of a job that is to be recorded. So it depends on nothing: it needs no libc of any kind, resolves only
// symbols that may be missing, and takes no memory before it is sure. It cannot change errno, because it does
// not use it.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cstddef>
#include <initializer_list>

#include "formats/wire/site_counts.h"
#include "formats/wire/site_switch.h"
#include "slurm/start/decide.hpp"
#include "slurm/start/system_call.h"

extern "C" {
// Missing in C libraries other than glibc. These do not pass arguments to constructors.
[[gnu::weak]] const char* gnu_get_libc_version();
[[gnu::weak]] unsigned long getauxval(unsigned long type);
[[gnu::weak]] extern char** environ;
// Of AddressSanitizer's run time.
[[gnu::weak]] void __asan_init();
}

namespace clusterprof::start {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

std::size_t length(const char* text) noexcept {
  std::size_t bytes = 0;
  while (text[bytes] != '\0') ++bytes;
  return bytes;
}

char* append(char* out, const char* text) noexcept {
  while (*text != '\0') *out++ = *text++;
  *out = '\0';
  return out;
}

// A line of at most some hundred bytes, written at once.
class Line {
 public:
  Line() noexcept : at_(text_) {}
  Line& add(const char* text) noexcept {
    while (*text != '\0' && at_ < text_ + sizeof text_) *at_++ = *text++;
    return *this;
  }
  void write() noexcept { system_call(SYS_write, 2, as_word(text_), at_ - text_); }

 private:
  char text_[600];
  char* at_;
};

const char* error_text(long error) noexcept {
  switch (error) {
    case ENOENT:
      return "No such file or directory";
    case EACCES:
      return "Permission denied";
    case E2BIG:
      return "Argument list too long";
    case ENOMEM:
      return "Cannot allocate memory";
    case ENOEXEC:
      return "Exec format error";
    default:
      return "cannot be executed";
  }
}

void say_unrecorded(const char* const* variables, const char* what, const char* why) noexcept {
  if (!speaks_for_all(variables)) return;
  Line().add("clusterprof: ").add(what).add(": ").add(why).add("; the command runs unrecorded\n").write();
}

// A file server may take this long to show the launcher.
constexpr timespec kPatience = {2, 0};

// In a child process: has the file server answer for this file, and keeps nothing else open meanwhile.
[[noreturn]] void ask_file_server(const char* path, long done) noexcept {
  if (done != 0) system_call(SYS_dup3, done, 0, 0);
#if defined(SYS_close_range)
  const bool closed = system_call(SYS_close_range, 1, ~0u, 0) == 0;
#else
  const bool closed = false;
#endif
  constexpr long kUsualFiles = 1024;
  for (long fd = 1; !closed && fd < kUsualFiles; ++fd) system_call(SYS_close, fd);
  const long file = system_call(SYS_openat, AT_FDCWD, as_word(path), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file >= 0) {
    char begin[64];
    system_call(SYS_read, file, as_word(begin), sizeof begin);
  }
  for (;;) system_call(SYS_exit_group, 0);
}

// False if the file system of this file does not answer in time. Opening a file there, or executing it, could
// then take for ever, and only another process can be given up. The program must not find that process: it
// ends without a signal, so waiting for any child does not return it.
bool answers(const char* path) noexcept {
  int ends[2];
  if (system_call(SYS_pipe2, as_word(ends), O_CLOEXEC) != 0) return true;  // nobody can look
  const long child = system_call(SYS_clone, 0);
  if (child == 0) ask_file_server(path, ends[1]);
  system_call(SYS_close, ends[1]);
  bool is_done = true;
  if (child > 0) {
    pollfd end = {ends[0], 0, 0};
    timespec left = kPatience;  // the kernel counts it down
    long ready = 0;
    do {
      ready = system_call(SYS_ppoll, as_word(&end), 1, as_word(&left), 0, 8);
    } while (ready == -EINTR);
    is_done = ready != 0;
    if (!is_done) system_call(SYS_kill, child, SIGKILL);
    // Where not even SIGKILL ends a process that waits for a file server, it is left behind.
    constexpr timespec kMoment = {0, 1'000'000};
    constexpr int kMoments = 100;
    for (int i = 0;
         system_call(SYS_wait4, child, 0, is_done ? __WALL : __WALL | WNOHANG, 0) == 0 && i < kMoments; ++i)
      system_call(SYS_nanosleep, as_word(&kMoment), 0);
  }
  system_call(SYS_close, ends[0]);
  return is_done;
}

void count_unrecorded(const char* const* variables, const char* reason) noexcept {
  if (!speaks_for_node(variables)) return;
  const auto call = [](long number, long a, long b, long c, long d) {
    return system_call(number, a, b, c, d);
  };
  wire::count_recording(call, wire::kCountsDirectory, value_of(variables, "SLURM_JOB_ID"),
                        value_of(variables, "SLURM_STEP_ID"), wire::kCountUnrecorded, reason);
}

bool is_off() noexcept {
  return wire::off_file([](const char* path) {
           return system_call(SYS_faccessat, AT_FDCWD, as_word(path), 0) == 0;
         }) != nullptr;
}

enum class Kind { kProgram, kScript, kOther };

Kind kind_of(const char* path) noexcept {
  // A user who may execute a program may not be allowed to read it.
  if (const long fd = system_call(SYS_openat, AT_FDCWD, as_word(path), O_RDONLY | O_CLOEXEC | O_NOCTTY);
      fd >= 0) {
    char begin[2];
    const long bytes = system_call(SYS_read, fd, as_word(begin), sizeof begin);
    system_call(SYS_close, fd);
    if (bytes == 2 && begin[0] == '#' && begin[1] == '!') return Kind::kScript;
  }
  struct stat given, running;
  const bool known = system_call(SYS_newfstatat, AT_FDCWD, as_word(path), as_word(&given), 0) == 0 &&
                     system_call(SYS_newfstatat, AT_FDCWD, as_word(kSelf), as_word(&running), 0) == 0;
  return known && given.st_dev == running.st_dev && given.st_ino == running.st_ino ? Kind::kProgram
                                                                                   : Kind::kOther;
}

// Called as /lib64/ld-linux-x86-64.so.2 PROGRAM, the loader has taken its own words out of argv.
bool is_loader(const char* executable) noexcept {
  const char* base = executable;
  for (const char* at = executable; *at != '\0'; ++at) {
    if (*at == '/') base = at + 1;
  }
  return base[0] == 'l' && base[1] == 'd' &&
         (base[2] == '-' || base[2] == '.' || (base[2] == '6' && base[3] == '4'));
}

// Returns only if the process should continue as it is.
void become_recorded(const char* path, const char* executable, int argc, char** argv,
                     char** variables) noexcept {
  const char* const launcher = value_of(variables, kStartVariable);
  remove_starter(variables);
  const Kind kind = is_loader(executable) ? Kind::kOther : kind_of(path);
  const int first = kind == Kind::kOther ? -1 : first_argument(path, kind == Kind::kScript, argc, argv);
  if (first < 0) {
    say_unrecorded(variables, path, "cannot tell what its command line was");
    return;
  }
  if (!answers(launcher)) {
    count_unrecorded(variables, wire::kWhyPrefixHangs);
    say_unrecorded(variables, launcher, "its file system does not answer");
    return;
  }

  constexpr int kMaxWordsBefore = 6;
  const std::size_t words = kMaxWordsBefore + 1 + static_cast<std::size_t>(argc - first);
  const std::size_t bytes = words * sizeof(char*) + length(path) + length(argv[0]) + 32;
  const long memory = system_call(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory < 0 && memory > -4096) {
    say_unrecorded(variables, launcher, error_text(-memory));
    return;
  }
  auto** const command = reinterpret_cast<const char**>(memory);
  char* const name = reinterpret_cast<char*>(command + words);
  char* const program = append(append(name, "--argv0="), argv[0]) + 1;
  bool has_directory = false;
  for (const char* at = path; *at != '\0'; ++at) has_directory = has_directory || *at == '/';
  // Without a slash it was found here, and not by PATH.
  append(append(program, has_directory ? "" : "./"), path);

  std::size_t at = 0;
  for (const char* const word : {launcher, "record", "--started"}) command[at++] = word;
  // The kernel has dropped the name that a script was called by.
  if (kind == Kind::kProgram && !same(argv[0], path)) command[at++] = name;
  for (const char* const word : {"--", static_cast<const char*>(program)}) command[at++] = word;
  for (int i = first; i < argc; ++i) command[at++] = argv[i];
  command[at] = nullptr;
  const long result = system_call(SYS_execve, as_word(launcher), as_word(command), as_word(variables));
  count_unrecorded(variables, wire::kWhyPrefixMissing);
  say_unrecorded(variables, launcher, error_text(-result));
  system_call(SYS_munmap, memory, static_cast<long>(bytes));
}

[[gnu::constructor]] void start(int argc, char** argv, char** envp) noexcept {
  if (gnu_get_libc_version == nullptr || getauxval == nullptr || argc < 1) return;
  // libc may not have set it yet, or an earlier constructor may have changed it.
  char** const variables = &environ != nullptr && environ != nullptr ? environ : envp;
  if (variables == nullptr || value_of(variables, kStartVariable) == nullptr) return;
  const auto* const path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (path == nullptr) return;

  char executable[4096];
  const long bytes =
      system_call(SYS_readlinkat, AT_FDCWD, as_word(kSelf), as_word(executable), sizeof executable - 1);
  executable[bytes > 0 ? bytes : 0] = '\0';
  const Process process{path, executable, variables, system_call(SYS_getpid)};
  Action action = decide(process);
  if (action == Action::kStart) {
    if (const char* const reason = reason_against(process); reason != nullptr) {
      count_unrecorded(variables, reason);
      if (is_explained(variables) && speaks_for_all(variables))
        Line()
            .add("clusterprof: ")
            .add(path)
            .add(": not recorded, as the site says (")
            .add(reason)
            .add(")\n")
            .write();
      action = action_against(process);
    }
  }
  switch (action) {
    case Action::kLeave:
    case Action::kStepAside:
      // AddressSanitizer ends the program if it is not the first library. So execute the program once more,
      // without us.
      if (__asan_init != nullptr && !is_loader(executable)) {
        remove_starter(variables);
        const char* const program = kind_of(path) == Kind::kProgram ? path : executable;
        system_call(SYS_execve, as_word(program), as_word(argv), as_word(variables));
      }
      if (action == Action::kStepAside) remove_starter(variables);
      return;
    case Action::kSubmit:
      remove_starter(variables);
      remove_option(variables);
      return;
    case Action::kStart:
      if (is_off()) {
        count_unrecorded(variables, wire::kWhyTurnedOff);
        remove_starter(variables);
        return;
      }
      become_recorded(path, executable, argc, argv, variables);
      return;
  }
}

}  // namespace
}  // namespace clusterprof::start
