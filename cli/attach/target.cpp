// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/target.hpp"

#include <elf.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/base_name.hpp"
#include "base/leading_number.hpp"
#include "base/stat_fields.hpp"
#include "cli/attach/read_text.hpp"

namespace clusterprof::cli::attach {
namespace {

constexpr std::string_view kStandby =
    "; a program that is started with clusterprof --standby needs none of this";

// The words behind "Name:" in a status file; empty: it has no such line.
std::vector<std::string> words_of(const std::string& status, const std::string& name) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    return {std::istream_iterator<std::string>(rest), {}};
  }
  return {};
}

int number_of(const std::string& status, const std::string& name) {
  const std::vector<std::string> words = words_of(status, name);
  return words.empty() ? 0 : leading_number(words[0]).value_or(0);
}

SystemCallFilter filter_of(const std::string& status) {
  return {number_of(status, "Seccomp"), number_of(status, "Seccomp_filters")};
}

std::string link_at(const std::string& path) {
  std::array<char, 256> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string find_other_namespace(const std::string& target, const std::string& own) {
  for (const auto& [file, name] : {std::pair("mnt", "mount"),
                                   {"net", "network"},
                                   {"pid", "process id"},
                                   {"user", "user"},
                                   {"time", "time"}}) {
    const std::string theirs = link_at(target + "/ns/" + file);
    if (!theirs.empty() && theirs != link_at(own + "/ns/" + file)) return name;
  }
  // chroot(2): the agent's file has another name there.
  const std::string root = link_at(target + "/root");
  return root.empty() || root == link_at(own + "/root") ? "" : "mount";
}

Machine machine_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) ||
      !std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident))
    return Machine::kUnknown;
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Machine::k32Bit;
  return header.e_machine == EM_X86_64 ? Machine::kX86_64 : Machine::kOther;
}

// Lines as "55d0-55d1 r-xp 00000000 08:01 123   /usr/bin/true".
std::vector<std::string> objects_in(const std::string& maps) {
  std::vector<std::string> objects;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.find(' '), slash = line.find('/');
    if (blank == std::string::npos || slash == std::string::npos || line.size() < blank + 5) continue;
    if (line[blank + 3] != 'x') continue;
    std::string path = line.substr(slash);
    if (std::find(objects.begin(), objects.end(), path) == objects.end()) objects.push_back(std::move(path));
  }
  return objects;
}

bool has_object(const TargetFacts& target, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(target.objects.begin(), target.objects.end(), [&](const std::string& path) {
    const std::string_view name = base_name(path);
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  });
}

bool is_of_libc(const std::string& path) {
  const std::string_view name = base_name(path);
  return name.starts_with("libc.so.6") || name.starts_with("libc-2.");
}
constexpr std::string_view kDeleted = " (deleted)";  // as the kernel says it

// By the flags in /proc/PID/stat: PF_KTHREAD of the kernel's include/linux/sched.h.
bool is_of_the_kernel(const std::string& stat) {
  constexpr unsigned long kOfTheKernel = 0x00200000;
  constexpr std::size_t kFlags = 9 - 3;
  const std::vector<std::string> fields = stat_fields(stat);
  return fields.size() > kFlags && (std::strtoul(fields[kFlags].c_str(), nullptr, 10) & kOfTheKernel) != 0;
}

}  // namespace

TargetFacts read_target(pid_t pid, const std::string& proc) {
  TargetFacts target;
  target.pid = pid;
  const std::string directory = proc + "/" + std::to_string(pid);
  const std::string status = read_text(directory + "/status");
  if (status.empty()) return target;
  target.exists = true;
  const std::vector<std::string> state = words_of(status, "State");
  if (!state.empty()) target.state = state[0][0];
  target.process = number_of(status, "Tgid");
  // The collector and the like are beside this program. `clusterprof` itself may wait for the program.
  const std::filesystem::path program = link_at(directory + "/exe");
  const auto own_folder = std::filesystem::path(link_at(proc + "/self/exe")).parent_path();
  target.is_own_program =
      program.filename() == "clusterprof" || (!own_folder.empty() && program.parent_path() == own_folder);
  for (const std::string& word : words_of(status, "Uid"))
    target.uids.push_back(static_cast<uid_t>(std::strtoul(word.c_str(), nullptr, 10)));
  target.uids.resize(std::min<std::size_t>(target.uids.size(), 3));  // not that of the file system
  target.tracer = number_of(status, "TracerPid");
  target.filter = filter_of(status);
  const std::vector<std::string> features = words_of(status, "x86_Thread_features");
  target.has_shadow_stack = std::find(features.begin(), features.end(), "shstk") != features.end();
  if (words_of(status, "VmSize").empty() && target.state != 'Z') {
    target.is_kernel_thread = is_of_the_kernel(read_text(directory + "/stat"));
    // While a process ends, it has no memory any more, either.
    if (!target.is_kernel_thread) target.state = 'X';
  }
  target.other_namespace = find_other_namespace(directory, proc + "/self");
  target.machine = machine_of(directory + "/exe");
  target.objects = objects_in(read_text(directory + "/maps"));
  target.knows_objects = !target.objects.empty();
  return target;
}

OwnFacts read_own(const std::string& proc) {
  OwnFacts own;
  const std::string status = read_text(proc + "/self/status");
  own.uid = ::geteuid();
  const std::vector<std::string> capabilities = words_of(status, "CapEff");
  if (!capabilities.empty())
    own.may_trace_all = (std::strtoull(capabilities[0].c_str(), nullptr, 16) >> CAP_SYS_PTRACE & 1) != 0;
  own.filter = filter_of(status);
  const std::string scope = read_text(proc + "/sys/kernel/yama/ptrace_scope");
  if (!scope.empty()) own.ptrace_scope = leading_number(scope).value_or(0);
  return own;
}

MpiFlavour flavour_of(const TargetFacts& target) {
  MpiFlavour found = MpiFlavour::kNone;
  for (const std::string& path : target.objects) {
    const MpiFlavour flavour = flavour_of_library(std::string(base_name(path)));
    // Below it there may be a library with an interface of its own.
    if (flavour == MpiFlavour::kStandard) return flavour;
    if (found == MpiFlavour::kNone) found = flavour;
  }
  return found;
}

std::optional<Refused> refusal_of(const TargetFacts& target, const OwnFacts& own) {
  const auto refuse = [](Refusal why, std::string text) { return Refused{why, std::move(text)}; };
  if (!target.exists) return refuse(Refusal::kGone, "there is no such process");
  if (target.state == 'Z' || target.state == 'X') return refuse(Refusal::kGone, "it has ended");
  if (target.is_kernel_thread)
    return refuse(Refusal::kKernelThread,
                  "it is a thread of the kernel: give the number of a program's process");
  if (target.process != 0 && target.process != target.pid)
    return refuse(Refusal::kThread, "it is a thread of process " + std::to_string(target.process) +
                                        ": give that number, and all its threads are recorded");
  if (target.is_own_program)
    return refuse(Refusal::kOwnProgram,
                  "it is a process of clusterprof itself: give the number of the program's process");
  if (std::any_of(target.uids.begin(), target.uids.end(), [&](uid_t uid) { return uid != own.uid; })) {
    const bool mixed = std::any_of(target.uids.begin(), target.uids.end(),
                                   [&](uid_t uid) { return uid != target.uids.front(); });
    if (mixed)
      return refuse(Refusal::kOtherUser,
                    "it has changed its user (setuid), and the kernel lets nobody look into it" +
                        std::string(kStandby));
    return refuse(Refusal::kOtherUser, "it belongs to user " + std::to_string(target.uids.front()) +
                                           ": call clusterprof attach as that user, also if you are root");
  }
  if (!target.other_namespace.empty())
    return refuse(Refusal::kNamespace, "it is in another " + target.other_namespace +
                                           " namespace, as in a container: call clusterprof attach in there");
  if (target.tracer != 0)
    return refuse(Refusal::kTraced, "process " + std::to_string(target.tracer) +
                                        " traces it, as a debugger or strace does: end that first");
  if (target.state == 'T' || target.state == 't')
    return refuse(Refusal::kStopped,
                  "it is stopped: continue it first (kill -CONT " + std::to_string(target.pid) + ")");
  if (target.machine == Machine::k32Bit)
    return refuse(Refusal::k32Bit, "it is a 32-bit program, which clusterprof does not record");
  if (target.machine == Machine::kOther)
    return refuse(Refusal::kOtherMachine, "it is a program for another kind of processor than x86-64");
  if (target.filter.mode == 1 ||
      (target.filter.mode == 2 && (own.filter.mode != 2 || target.filter.count != own.filter.count)))
    return refuse(
        Refusal::kFilter,
        "it has a filter of system calls (seccomp) of its own, which may kill it for calls of ours" +
            std::string(kStandby));
  if (target.has_shadow_stack)
    return refuse(Refusal::kShadowStack,
                  "it has a shadow stack (x86_Thread_features: shstk), so that nothing can be called in it" +
                      std::string(kStandby));
  if (!target.knows_objects) return std::nullopt;  // the kernel will say what is wrong
  if (has_object(target, {"ld-musl", "libc.musl"}))
    return refuse(Refusal::kOtherLibc, "it is linked to musl, not to glibc: it cannot be recorded");
  if (std::none_of(target.objects.begin(), target.objects.end(), is_of_libc))
    return refuse(Refusal::kStatic,
                  "it is linked statically, or without glibc, so that nothing can be loaded into it: link it "
                  "dynamically");
  if (std::any_of(target.objects.begin(), target.objects.end(),
                  [](const std::string& path) { return is_of_libc(path) && path.ends_with(kDeleted); }))
    return refuse(Refusal::kReplaced,
                  "its libc has been replaced on disk since it was started, by an update: start it anew");
  if (has_object(target, {"libasan", "libtsan", "libmsan", "libclang_rt."}))
    return refuse(
        Refusal::kSanitizer,
        "it is checked by a sanitizer of the compiler, which does not know threads that it has not made");
  // Before glibc 2.34 threads were a library of their own, and loading that later is not safe.
  if (has_object(target, {"libc-2."}) && !has_object(target, {"libpthread"}))
    return refuse(Refusal::kNoThreads,
                  "its glibc is older than 2.34, and it has no libpthread loaded: start it with clusterprof");
  return std::nullopt;
}

Refused not_permitted(const TargetFacts& target, const OwnFacts& own) {
  const auto refuse = [](std::string text) { return Refused{Refusal::kNotPermitted, std::move(text)}; };
  if (own.ptrace_scope == 3)
    return refuse(
        "the kernel lets nobody trace processes until it is started anew (kernel.yama.ptrace_scope=3)" +
        std::string(kStandby));
  if (own.ptrace_scope > 0 && !own.may_trace_all)
    return refuse(
        "the kernel does not let you trace processes that you have not started (kernel.yama.ptrace_scope=" +
        std::to_string(own.ptrace_scope) + "): an administrator may set it to 0" + std::string(kStandby));
  if (own.filter.mode == 2)
    return refuse(
        "a filter of system calls (seccomp) forbids ptrace here, as in most containers: allow it "
        "(--cap-add=SYS_PTRACE for docker and podman)" +
        std::string(kStandby));
  return refuse("the kernel does not permit it: process " + std::to_string(target.pid) +
                " has capabilities that you lack, or is protected (not dumpable)" + std::string(kStandby));
}

}  // namespace clusterprof::cli::attach
