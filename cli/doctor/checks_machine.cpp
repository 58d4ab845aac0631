// SPDX-License-Identifier: BSD-3-Clause
// Checks the kernel's support for sampling, clocks, the limits of this process, and memory.
#include <errno.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/leading_number.hpp"
#include "cli/doctor/checks.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kSampling = "sampling";
constexpr const char* kLimits = "limits";

// agent/lifecycle/segment.cpp: the size of a rank's memory file with few threads in a large job, and the
// address space that it may take. It uses much less of it (docs/design/0005-cost-of-the-agent.md).
constexpr std::uint64_t kMinMemoryFileBytes = 11'000'000;
constexpr std::uint64_t kAddressSpacePart = 4;
constexpr std::uint64_t kUsedPerRankBytes = 32'000'000;
// Shared memory that MPI libraries use for each rank on their own: 4 MB for Open MPI, less for MPICH.
constexpr std::uint64_t kMpiSharedPerRankBytes = 5'000'000;

std::string limit_text(std::uint64_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

std::uint64_t number_of(const std::string& text, std::uint64_t otherwise = 0) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && rest != text.data() ? number : otherwise;
}

bool has_flag(const std::string& cpuinfo, const char* flag) {
  return (" " + field_of(cpuinfo, "flags") + " ").find(std::string(" ") + flag + " ") != std::string::npos;
}

// 6.15 of "6.15.3-1-amd64", as 6015
int kernel_number(const std::string& release) {
  const auto major = leading_number(release);
  const std::size_t dot = release.find('.');
  const auto minor =
      dot == std::string::npos ? std::nullopt : leading_number(std::string_view(release).substr(dot + 1));
  constexpr int kMost = 999;  // what is higher is no number of a kernel
  if (!major || !minor || *major < 0 || *minor < 0 || *major > kMost || *minor > kMost) return 0;
  return *major * 1000 + *minor;
}

}  // namespace

void check_kernel(const Context& context, Checks& out) {
  constexpr int kFirstWithExitInfo = 6015;
  const CallProbes calls = context.system.try_calls();
  const std::string release = context.system.kernel_release();
  Check check{"sampling.kernel", kSampling, "kernel", Status::kOk, release, "", "", {}};
  std::vector<std::string> refused;
  for (const auto& [name, error] :
       {std::pair("memfd_create", calls.memory_file), std::pair("abstract sockets", calls.abstract_socket)})
    if (error != 0) refused.push_back(std::string(name) + " (" + std::strerror(error) + ")");
  if (!refused.empty()) {
    check.status = Status::kFail;
    check.found += ": refuses " + joined(refused);
    check.costs = "nothing can be recorded";
    check.fix = "admin: Linux 3.17 or newer, and no security module or seccomp profile that forbids these";
  } else if (calls.process_handle != 0) {
    check.found += ": no pidfd_open";
    check.costs =
        "the end of a killed rank is noticed a little later, and its signal is not known unless the "
        "launcher says it";
    check.fix = "admin: Linux 5.3 or newer";
  } else if (kernel_number(release) < kFirstWithExitInfo) {
    check.costs = "the signal that killed a rank is not always known (from Linux 6.15 on it is)";
  }
  out.push_back(check);
}

void check_timers(const Context& context, Checks& out) {
  const int error = context.system.try_calls().thread_timer;
  Check check{"sampling.timers", kSampling, "timers", Status::kOk, "", "", "", {}};
  // Each thread has up to two; all processes of the user on the node share the limit.
  const std::string queue = field_of(context.system.read("/proc/self/status").value_or(""), "SigQ");
  const std::uint64_t used = number_of(queue);
  const std::size_t slash = queue.find('/');
  const bool known = slash != std::string::npos && !acts_for_another(context.system);
  const std::uint64_t most = known ? number_of(queue.substr(slash + 1)) : 0;
  const std::uint64_t wanted = 16ull * context.system.processors();
  if (error != 0 && error != EAGAIN) {
    check.status = Status::kFail;
    check.found = std::string("timer_create is refused: ") + std::strerror(error);
    check.costs = "no samples: only MPI calls and totals are recorded";
    check.fix = "admin: no security module or seccomp profile that forbids timer_create";
  } else if (error == EAGAIN || (known && most - std::min(used, most) < wanted)) {
    check.status = error == EAGAIN ? Status::kFail : Status::kWarn;
    check.found = known ? std::to_string(used) + " of " + std::to_string(most) + " pending signals in use"
                        : "no more can be made";
    check.costs = "threads beyond that are not sampled (dropped: timer_failed)";
    check.fix = "you: ulimit -i " + std::to_string(std::max<std::uint64_t>(4 * wanted, 4096)) +
                "; admin: sigpending in /etc/security/limits.d, LimitSIGPENDING= of slurmd";
  } else {
    check.found = "per thread, on its CPU clock";
    if (known)
      check.found += "; " + std::to_string(used) + " of " + std::to_string(most) + " pending signals in use";
  }
  check.facts = {{"timer_create", error == 0 ? "works" : std::strerror(error)},
                 {"pending signals", known ? std::to_string(most) : "not known"}};
  out.push_back(check);
}

void check_clock(const Context& context, Checks& out) {
  const std::string directory = "/sys/devices/system/clocksource/clocksource0/";
  const auto current = context.system.read(directory + "current_clocksource");
  if (!current) return;
  const std::string source = first_line(*current);
  Check check{"sampling.clock", kSampling, "clock", Status::kOk, source, "", "", {}};
  // Read without a system call.
  const bool is_fast = source == "tsc" || source == "kvm-clock" || source.starts_with("hyperv_clocksource") ||
                       source == "arch_sys_counter";
  if (!is_fast) {
    check.status = Status::kWarn;
    check.found += ", read by a system call";
    check.costs = "each MPI call and sample takes 1 to 2 us longer";
    const std::string offered =
        first_line(context.system.read(directory + "available_clocksource").value_or(""));
    check.fix = (" " + offered + " ").find(" tsc ") != std::string::npos
                    ? "admin: echo tsc > " + directory + "current_clocksource (boot option tsc=reliable)"
                    : "admin: find out why the kernel has given up tsc (dmesg | grep -i tsc)";
  }
  out.push_back(check);
}

void check_synchronised(const Context& context, Checks& out) {
  const ClockSync sync = context.system.clock_sync();
  Check check{"sampling.clock_sync", kSampling, "time of day", Status::kOk, "", "", "", {}};
  if (!sync.known) {
    check.found = "the kernel does not tell whether it is synchronised";
  } else if (sync.synchronised) {
    char text[64];
    std::snprintf(text, sizeof text, "synchronised, to %.1f ms",
                  static_cast<double>(sync.greatest_error_us) / 1000);
    check.found = text;
  } else {
    check.status = Status::kWarn;
    check.found = "not synchronised with other nodes";
    check.costs =
        "where nodes cannot compare clocks over MPI (no MPI, --clock-sync never) their time lines are "
        "apart; runs may be listed in the wrong order";
    check.fix = "admin: run chrony or ntpd on all nodes";
  }
  check.facts = {{"clock", !sync.known         ? "not known"
                           : sync.synchronised ? "synchronised"
                                               : "not synchronised"}};
  out.push_back(check);
}

void check_frequency(const Context& context, Checks& out) {
  const std::string directory = "/sys/devices/system/cpu/cpu0/cpufreq/";
  const auto governor = context.system.read(directory + "scaling_governor");
  Check check{"sampling.frequency", kSampling, "CPU frequency", Status::kOk, "", "", "", {}};
  if (!governor) {
    check.found = "not governed by this kernel";
    out.push_back(check);
    return;
  }
  const std::string name = first_line(*governor);
  const std::string driver = first_line(context.system.read(directory + "scaling_driver").value_or(""));
  check.found = name + " (" + driver + ")";
  // The processor chooses the frequency itself there; powersave is only a hint.
  const bool by_processor =
      driver == "intel_pstate" || driver.starts_with("amd-pstate") || driver == "amd_pstate_epp";
  if (name != "performance" && !(by_processor && name == "powersave") && name != "schedutil") {
    check.status = Status::kWarn;
    check.costs = "the same program takes different times: compare runs with care";
    check.fix = "admin: cpupower frequency-set -g performance (Slurm: srun --cpu-freq=performance)";
  }
  out.push_back(check);
}

void check_virtualisation(const Context& context, Checks& out) {
  const System& system = context.system;
  Check check{"sampling.virtual", kSampling, "machine", Status::kOk, "", "", "", {}};
  const bool is_virtual = has_flag(system.read("/proc/cpuinfo").value_or(""), "hypervisor");
  const std::string product = first_line(system.read("/sys/class/dmi/id/sys_vendor").value_or(""));
  check.found = is_virtual ? "virtual" + (product.empty() ? "" : " (" + product + ")") : "no virtual machine";
  check.facts = {{"machine", check.found}};
  // user nice system idle iowait irq softirq steal, in ticks since the machine started
  constexpr std::size_t kFields = 8;
  unsigned long long t[kFields] = {};
  std::istringstream stat(first_line(system.read("/proc/stat").value_or("")));
  std::string cpu;
  stat >> cpu;
  std::size_t fields = 0;
  while (cpu == "cpu" && fields < kFields && stat >> t[fields]) ++fields;
  const unsigned long long busy = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
  const double stolen =
      fields == kFields && busy > 0 ? 100.0 * static_cast<double>(t[7]) / static_cast<double>(busy) : 0;
  if (is_virtual && stolen > 0.05) {
    char text[64];
    std::snprintf(text, sizeof text, ", %.1f %% of its running time stolen", stolen);
    check.found += text;
  }
  if (stolen >= 3) {
    check.status = Status::kWarn;
    check.costs = "time that other machines on the same host take looks like the program's own";
    check.fix = "admin: do not share the host's processors, or measure elsewhere";
  } else if (is_virtual) {
    check.costs = "timers leave the virtual machine: rates above 250 Hz slow programs down by some percent";
  }
  out.push_back(check);
}

void check_ptrace(const Context& context, Checks& out) {
  const auto text = context.system.read("/proc/sys/kernel/yama/ptrace_scope");
  Check check{"sampling.ptrace", kSampling, "ptrace", Status::kOk, "", "", "", {}};
  const std::string scope = text ? first_line(*text) : "";
  check.found = text ? "ptrace_scope=" + scope : "not restricted (no Yama)";
  if (scope == "1") {
    check.costs = "only a process's parents may attach to it (recording needs no ptrace)";
    check.fix = "admin: sysctl -w kernel.yama.ptrace_scope=0";
  } else if (text && scope != "0") {
    check.status = Status::kWarn;
    check.costs = "users cannot attach to running processes, with any tool (recording needs no ptrace)";
    check.fix = scope == "3" ? "admin: kernel.yama.ptrace_scope=1 in /etc/sysctl.d and a restart"
                             : "admin: sysctl -w kernel.yama.ptrace_scope=1";
  }
  out.push_back(check);
}

void check_limits(const Context& context, Checks& out) {
  // The limits of a prolog are slurmd's, not the job's.
  if (acts_for_another(context.system)) return;
  const System& system = context.system;
  constexpr std::uint64_t kFewFiles = 1024, kFewTasks = 256;

  const Limit files = system.limit(RLIMIT_NOFILE);
  Check check{"limits.files", kLimits, "open files", Status::kOk, limit_text(files.soft), "", "", {}};
  if (files.soft < kFewFiles) {
    check.status = Status::kWarn;
    check.costs =
        "an eighth of these may be performance events, so some threads of a program with many have no "
        "counters; a collector serves fewer processes";
    check.fix = files.hard > files.soft
                    ? "you: ulimit -n " + std::to_string(std::min<std::uint64_t>(files.hard, 4096))
                    : "admin: nofile in /etc/security/limits.d";
  }
  out.push_back(check);

  const Limit tasks = system.limit(RLIMIT_NPROC);
  check = {"limits.processes", kLimits, "processes", Status::kOk, limit_text(tasks.soft), "", "", {}};
  if (tasks.soft < std::max<std::uint64_t>(kFewTasks, 8ull * system.processors())) {
    check.status = Status::kWarn;
    check.costs =
        "each recorded process has one thread more, and a node a few processes: these may not start, and the "
        "ranks then run unrecorded";
    check.fix = tasks.hard > tasks.soft ? "you: ulimit -u " + limit_text(tasks.hard)
                                        : "admin: nproc in /etc/security/limits.d";
  }
  out.push_back(check);

  const Limit locked = system.limit(RLIMIT_MEMLOCK);
  const bool has_fabric = !system.list("/sys/class/infiniband").empty();
  check = {"limits.locked", kLimits, "locked memory", Status::kOk, "", "", "", {}};
  check.found = (locked.soft == RLIM_INFINITY ? std::string("unlimited") : bytes_text(locked.soft)) +
                " (clusterprof locks none)";
  if (has_fabric && locked.soft != RLIM_INFINITY) {
    check.status = Status::kWarn;
    check.costs = "MPI cannot register its buffers with the network: slow or no messages between nodes";
    check.fix = "admin: memlock unlimited in /etc/security/limits.d, LimitMEMLOCK=infinity of slurmd";
  }
  out.push_back(check);

  const Limit file = system.limit(RLIMIT_FSIZE), space = system.limit(RLIMIT_AS);
  check = {"limits.sizes", kLimits, "sizes", Status::kOk, "", "", "", {}};
  check.found = "files " + (file.soft == RLIM_INFINITY ? std::string("unlimited") : bytes_text(file.soft)) +
                ", address space " +
                (space.soft == RLIM_INFINITY ? std::string("unlimited") : bytes_text(space.soft));
  if (file.soft < kMinMemoryFileBytes || space.soft / kAddressSpacePart < kMinMemoryFileBytes) {
    check.status = Status::kFail;
    check.costs =
        "ranks run unrecorded: a rank's memory file has up to 260 MB of addresses, at least 10 MB, and takes "
        "no more than a quarter of the address space";
    check.fix = "you: ulimit -f unlimited; ulimit -v unlimited";
  }
  out.push_back(check);
}

void check_shared_memory(const Context& context, Checks& out) {
  Check check{"limits.shm", kLimits, "/dev/shm", Status::kOk, "", "", "", {}};
  const FileFacts facts = context.system.look("/dev/shm");
  std::optional<Space> space;
  if (facts.error == 0) space = context.system.space("/dev/shm");
  const std::uint64_t wanted = kMpiSharedPerRankBytes * context.system.processors();
  if (!space) {
    check.status = Status::kWarn;
    check.found = "missing";
    check.costs =
        "MPI libraries have no shared memory between ranks, or do not start (clusterprof needs none of it)";
    check.fix = "admin: mount -t tmpfs -o mode=1777 tmpfs /dev/shm";
  } else {
    check.found = bytes_text(space->total_bytes) + ", " + bytes_text(space->free_bytes) + " free";
    check.facts = {{"size", bytes_text(space->total_bytes)}};
    if (space->free_bytes < wanted) {
      check.status = Status::kWarn;
      check.costs = "MPI libraries want about " + bytes_text(kMpiSharedPerRankBytes) + " per rank there, " +
                    bytes_text(wanted) + " for a rank per processor (clusterprof needs none of it)";
      check.fix = "you: docker run --shm-size=" + std::to_string(2 * wanted / 1'000'000 + 1) +
                  "m, or remove leftovers in /dev/shm; admin: mount -o remount,size=50% /dev/shm";
    }
  }
  out.push_back(check);
}

void check_cgroup(const Context& context, Checks& out) {
  if (acts_for_another(context.system)) return;  // not the job's group
  const System& system = context.system;
  Check check{"limits.cgroup", kLimits, "control group", Status::kOk, "", "", "", {}};
  // Every parent group sets a limit, too.
  std::uint64_t room = UINT64_MAX, tasks = UINT64_MAX;
  std::uint64_t least_memory = UINT64_MAX, least_tasks = UINT64_MAX;
  const auto look = [&](const std::string& mount, std::string group, const char* most, const char* used,
                        std::uint64_t& least, std::uint64_t& least_limit) {
    while (true) {
      const auto limit = system.read(mount + group + "/" + most),
                 use = system.read(mount + group + "/" + used);
      // Without a limit: "max", or a number of pages beyond any memory.
      if (limit && use) {
        const std::uint64_t bytes = number_of(*limit, UINT64_MAX), taken = number_of(*use);
        if (bytes < UINT64_MAX / 4) {
          least = std::min(least, bytes - std::min(bytes, taken));
          least_limit = std::min(least_limit, bytes);
        }
      }
      if (group.empty() || group == "/") return;
      const std::size_t slash = group.rfind('/');
      group.resize(slash == std::string::npos ? 0 : slash);
    }
  };
  const std::string groups = system.read("/proc/self/cgroup").value_or("");
  for (std::size_t at = 0; at < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string entry = groups.substr(at, end - at);
    at = end + 1;
    const std::size_t first = entry.find(':'), second = entry.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + entry.substr(first + 1, second - first - 1) + ",",
                      group = entry.substr(second + 1);
    if (controllers == ",,") {
      look("/sys/fs/cgroup", group, "memory.max", "memory.current", room, least_memory);
      look("/sys/fs/cgroup", group, "pids.max", "pids.current", tasks, least_tasks);
    }
    if (controllers.find(",memory,") != std::string::npos)
      look("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes", room,
           least_memory);
    if (controllers.find(",pids,") != std::string::npos)
      look("/sys/fs/cgroup/pids", group, "pids.max", "pids.current", tasks, least_tasks);
  }
  check.found =
      (room == UINT64_MAX ? std::string("memory not limited") : bytes_text(room) + " of memory left") + ", " +
      (tasks == UINT64_MAX ? std::string("tasks not limited") : std::to_string(tasks) + " tasks left");
  check.facts = {{"memory", least_memory == UINT64_MAX ? "not limited" : bytes_text(least_memory)},
                 {"tasks", least_tasks == UINT64_MAX ? "not limited" : std::to_string(least_tasks)}};
  const std::uint64_t wanted = kUsedPerRankBytes * system.processors();
  std::vector<std::string> costs, fixes;
  if (room < wanted) {
    costs.push_back("a recorded rank takes up to " + bytes_text(kUsedPerRankBytes) + " more (" +
                    bytes_text(wanted) +
                    " for a rank per processor): the program may be killed when memory runs out");
    fixes.emplace_back("you: ask for more memory (srun --mem, docker run --memory)");
  }
  if (tasks < 4ull * system.processors()) {
    costs.emplace_back("each recorded process has one thread more: some may not start");
    fixes.emplace_back("admin: TasksMax= of the service, docker run --pids-limit");
  }
  if (!costs.empty()) check.status = Status::kWarn;
  check.costs = joined(costs, "; ");
  check.fix = joined(fixes, "; ");
  out.push_back(check);
}

}  // namespace clusterprof::cli::doctor
