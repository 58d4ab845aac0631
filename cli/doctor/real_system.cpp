// SPDX-License-Identifier: BSD-3-Clause
// Implements System, what the checks of `clusterprof doctor` see of a machine, for the machine it runs on.
// Tests use a fake (tests/unit/doctor/fake_system.hpp).
#include "cli/doctor/real_system.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <grp.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/leading_number.hpp"
#include "base/unique_fd.hpp"
#include "cli/doctor/child_process.hpp"
#include "cli/doctor/directory_trial.hpp"
#include "cli/doctor/elf_facts.hpp"
#include "cli/doctor/papi_facts.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr std::size_t kMaxFileBytes = 4 << 20;
constexpr std::chrono::milliseconds kProbePatience{1000}, kPapiPatience{20'000}, kDirectoryPatience{15'000};

int open_event(const EventProbe& probe) {
  perf_event_attr event = {};
  event.size = sizeof event;
  event.type = probe.type;
  event.config = probe.config;
  event.disabled = 1;
  event.exclude_kernel = probe.in_kernel ? 0 : 1;
  event.exclude_hv = 1;
  const UniqueFd fd(
      static_cast<int>(::syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  return fd ? 0 : errno;
}

int try_memory_file() {
  const UniqueFd file(::memfd_create("clusterprof-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), 1 << 20) != 0) return errno;
  void* const memory =
      ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) return errno;
  std::memset(memory, 1, 4096);
  ::munmap(memory, 1 << 20);
  return ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 ? 0 : errno;
}

int try_thread_timer() {
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMAX;
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  int timer = -1;
  if (::syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) return errno;
  ::syscall(SYS_timer_delete, timer);
  return 0;
}

int try_abstract_socket() {
  const UniqueFd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection) return errno;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "clusterprof-doctor-" + std::to_string(::getpid());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::bind(connection.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0 ? 0 : errno;
}

int try_process_handle() {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return handle ? 0 : errno;
}

class ThisMachine final : public System {
 public:
  [[nodiscard]] std::optional<std::string> read(const std::string& path) const override {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) return {};
    std::string text;
    char buffer[16384];
    while (text.size() < kMaxFileBytes) {
      const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return {};
      if (got == 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

  [[nodiscard]] std::vector<std::string> list(const std::string& directory) const override {
    std::vector<std::string> names;
    if (DIR* const stream = ::opendir(directory.c_str())) {
      while (const dirent* const entry = ::readdir(stream))
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
          names.emplace_back(entry->d_name);
      ::closedir(stream);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] FileFacts look(const std::string& path) const override {
    FileFacts facts;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      facts.error = errno;
      return facts;
    }
    facts.is_directory = S_ISDIR(status.st_mode);
    facts.mode = status.st_mode & 07777;
    facts.owner = status.st_uid;
    facts.may_read = ::access(path.c_str(), R_OK) == 0;
    facts.may_execute = ::access(path.c_str(), X_OK) == 0;
    return facts;
  }

  [[nodiscard]] std::string resolve(const std::string& path) const override {
    char real[PATH_MAX];
    return ::realpath(path.c_str(), real) == nullptr ? std::string() : std::string(real);
  }

  [[nodiscard]] std::optional<Space> space(const std::string& path) const override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) return {};
    return Space{std::uint64_t{status.f_blocks} * status.f_frsize,
                 std::uint64_t{status.f_bavail} * status.f_frsize, status.f_favail, status.f_files};
  }

  [[nodiscard]] Environment environment() const override { return process_environment(); }
  [[nodiscard]] uid_t user() const override { return ::geteuid(); }

  [[nodiscard]] std::string host() const override {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
  }

  [[nodiscard]] std::string libc_version() const override { return ::gnu_get_libc_version(); }
  [[nodiscard]] std::string kernel_release() const override {
    utsname name = {};
    return ::uname(&name) == 0 ? name.release : "";
  }

  [[nodiscard]] unsigned processors() const override {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
    const long online = ::sysconf(_SC_NPROCESSORS_ONLN);  // more than fit into the set
    return online < 1 ? 1u : static_cast<unsigned>(online);
  }

  [[nodiscard]] Limit limit(int resource) const override {
    rlimit limits = {RLIM_INFINITY, RLIM_INFINITY};
    ::getrlimit(static_cast<__rlimit_resource>(resource), &limits);
    return {limits.rlim_cur, limits.rlim_max};
  }

  [[nodiscard]] std::optional<ElfDependencies> needed_by(const std::string& path) const override {
    return read_elf_dependencies(path);
  }
  [[nodiscard]] std::optional<ElfFacts> elf(const std::string& path) const override {
    return read_elf_facts(path);
  }
  [[nodiscard]] std::optional<std::uint32_t> exported_number(const std::string& path,
                                                             const std::string& symbol) const override {
    return read_exported_number(path, symbol);
  }
  [[nodiscard]] std::string find_library(const std::string& name, const std::string& for_object,
                                         const ElfDependencies& object) const override {
    const char* const path = environment()("LD_LIBRARY_PATH");
    return cli::find_library(name, for_object, object, path == nullptr ? "" : path);
  }

  [[nodiscard]] std::vector<int> try_events(uid_t user,
                                            const std::vector<EventProbe>& probes) const override {
    const auto try_all = [&probes] {
      std::vector<int> errors;
      for (const EventProbe& probe : probes) errors.push_back(open_event(probe));
      return errors;
    };
    if (user == ::geteuid()) return try_all();
    bool timed_out = false;
    const std::optional<std::string> text = run_in_child(
        kProbePatience,
        [&]() -> std::string {
          if (::setgroups(0, nullptr) != 0 || ::setresuid(user, user, user) != 0) return "";
          std::string errors;
          for (const int error : try_all()) errors += std::to_string(error) + "\n";
          return errors;
        },
        timed_out);
    std::vector<int> errors;
    for (std::size_t at = 0; text && at < text->size(); at = text->find('\n', at) + 1)
      errors.push_back(leading_number(std::string_view(*text).substr(at)).value_or(EIO));
    return errors.size() == probes.size() ? errors : try_all();
  }

  [[nodiscard]] CallProbes try_calls() const override {
    return {try_memory_file(), try_thread_timer(), try_abstract_socket(), try_process_handle()};
  }

  [[nodiscard]] ClockSync clock_sync() const override {
    timex state = {};
    const int result = ::adjtimex(&state);
    if (result < 0) return {};
    return {true, result != TIME_ERROR && (state.status & STA_UNSYNC) == 0, state.maxerror};
  }

  [[nodiscard]] CommandOutcome run(const std::vector<std::string>& command,
                                   std::chrono::milliseconds patience) const override {
    return run_command(command, patience);
  }

  [[nodiscard]] PapiFacts papi() const override {
    bool timed_out = false;
    const std::optional<std::string> text = run_in_child(kPapiPatience, ask_papi, timed_out);
    if (text) return papi_facts_of(*text);
    PapiFacts facts;
    facts.library = "libpapi.so.7";
    facts.problem = timed_out ? "it does not answer" : "it crashes when it starts";
    return facts;
  }

  [[nodiscard]] DirectoryFacts try_directory(const std::string& path) const override {
    DirectoryFacts facts;
    const std::optional<std::string> text = run_in_child(
        kDirectoryPatience, [&] { return try_run_directory(path); }, facts.timed_out);
    if (text) return directory_facts_of(*text);
    facts.problem = facts.timed_out ? "it does not answer" : "it cannot be tried";
    return facts;
  }
};

}  // namespace

std::unique_ptr<System> this_machine() { return std::make_unique<ThisMachine>(); }

}  // namespace clusterprof::cli::doctor
