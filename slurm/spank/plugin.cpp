// SPDX-License-Identifier: BSD-3-Clause
// spank_clusterprof.so: `srun --clusterprof[=OPTIONS]`, and the same for sbatch and salloc. It sets the
// variables that make the starter (slurm/start) begin; everything that a job may depend on returns success.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/unique_fd.hpp"
#include "formats/wire/site_counts.h"
#include "slurm/activation/activation.hpp"

// Symbols that Slurm looks up.
#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>

// Constants have external linkage only if they are declared so.
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
SPANK_PLUGIN(clusterprof, 1)
}
#pragma GCC visibility pop

namespace clusterprof::slurm {
namespace {

// Step numbers that Slurm uses for things other than steps of tasks (SLURM_EXTERN_CONT, SLURM_BATCH_SCRIPT,
// SLURM_INTERACTIVE_STEP).
constexpr uint32_t kExternStep = 0xfffffffc;
constexpr uint32_t kBatchStep = 0xfffffffb;
constexpr uint32_t kInteractiveStep = 0xfffffffa;
constexpr int kMaxVariableBytes = 1 << 16;

// State of one process: it lives as long as srun, or as the step's daemon.
struct State {
  Site site;
  std::optional<std::string> option;
};
State& state() {
  static State the_state;
  return the_state;
}

const char kNothing[] = "";

// Where this plugin really is. Empty: not known.
std::string own_path() {
  Dl_info info{};
  if (::dladdr(kNothing, &info) == 0 || info.dli_fname == nullptr) return {};
  char* const path = ::realpath(info.dli_fname, nullptr);
  if (path == nullptr) return {};
  std::string plugin = path;
  ::free(path);
  return plugin;
}

std::optional<std::string> own_variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// The task's environment, not this process's.
JobVariable variables_of(spank_t spank) {
  return [spank](const char* name) -> std::optional<std::string> {
    std::vector<char> value(kMaxVariableBytes);
    const spank_err_t error = ::spank_getenv(spank, name, value.data(), kMaxVariableBytes);
    if (error != ESPANK_SUCCESS) return std::nullopt;
    return std::string(value.data());
  };
}

struct User {
  std::string name, home;
};

User user_of(uid_t uid, const JobVariable& job) {
  User user{job("USER").value_or(""), job("HOME").value_or("")};
  std::vector<char> space(1 << 14);
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, space.data(), space.size(), &found) == 0 && found != nullptr) {
    user.name = entry.pw_name;
    if (user.home.empty()) user.home = entry.pw_dir;
  }
  return user;
}

// Avoids the directory service if possible, because all tasks of a large job would ask it at once.
std::string home_of(uid_t uid, const JobVariable& job) {
  std::string home = job("HOME").value_or("");
  return home.empty() ? user_of(uid, job).home : home;
}

std::string name_of(uid_t uid, const JobVariable& job) {
  std::string name = job("SLURM_JOB_USER").value_or("");
  return name.empty() ? user_of(uid, job).name : name;
}

// The reason why our preload cannot work in this program. Empty: none can be seen.
std::string unlike_ours(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  const auto read_at = [&file](void* to, size_t bytes, uint64_t at) {
    return ::pread(file.get(), to, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  };
  Elf64_Ehdr head{};
  if (file.get() < 0 || !read_at(&head, sizeof head, 0) || ::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return {};
  if (head.e_ident[EI_CLASS] != ELFCLASS64) return "is a 32-bit program";
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(&segment, sizeof segment, head.e_phoff + i * sizeof segment)) return {};
    if (segment.p_type != PT_INTERP) continue;
    char loader[128] = {};
    if (segment.p_filesz < sizeof loader && read_at(loader, segment.p_filesz, segment.p_offset) &&
        ::strstr(loader, "/ld-musl") != nullptr)
      return "is linked to musl";
    return {};
  }
  return "is statically linked";
}

// Returns what Slurm should do with the option: it may refuse a submission, but nothing inside a running job.
int on_option(int /*value*/, const char* argument, int remote) {
  try {
    // Steps inherit the job's option as text, and in that an argument that was not given is "(null)".
    state().option = argument == nullptr || ::strcmp(argument, "(null)") == 0 ? "" : argument;
    if (remote != 0) return 0;
    const auto request = parse_request(*state().option);
    if (request) return 0;
    const bool in_job = ::getenv("SLURM_JOB_ID") != nullptr;
    slurm_error("clusterprof: --clusterprof: %s%s", request.error().message.c_str(),
                in_job ? "; the step runs unrecorded" : "");
    return in_job ? 0 : -1;
  } catch (...) {
    return 0;
  }
}

char g_name[] = "clusterprof";
char g_argument[] = "options";
char g_usage[] =
    "record where the tasks spend their time; options of `clusterprof record` without dashes, separated by "
    "commas, as "
    "in rate=500,no-mpi; off: do not record";
spank_option g_option = {g_name, g_argument, g_usage, 2, 0, on_option};

bool is_first_task(spank_t spank) {
  uint32_t task = 0;
  return ::spank_get_item(spank, S_TASK_GLOBAL_ID, &task) == ESPANK_SUCCESS && task == 0;
}

void say_from_first_task(spank_t spank, const std::string& text) {
  if (is_first_task(spank)) slurm_spank_log("clusterprof: %s", text.c_str());
}

void note_what_cannot_be_recorded(spank_t spank) {
  if (!is_first_task(spank)) return;
  int count = 0;
  char** words = nullptr;
  if (::spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1) return;
  if (const std::string why = unlike_ours(words[0]); !why.empty())
    slurm_spank_log("clusterprof: %s %s: not recorded", words[0], why.c_str());
}

// For the site (formats/wire/site_counts.h): by the first task of the step on this node.
void count_unrecorded(spank_t spank, const JobVariable& job, const std::string& reason) {
  int task = 0;
  if (::spank_get_item(spank, S_TASK_ID, &task) != ESPANK_SUCCESS || task != 0) return;
  count_as_unrecorded(job, reason);
}

void prepare_task(spank_t spank) {
  uint32_t step = 0;
  if (::spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step == kExternStep) return;
  const bool has_tasks = step != kBatchStep && step != kInteractiveStep;

  const JobVariable job = variables_of(spank);
  uid_t uid = 0;
  ::spank_get_item(spank, S_JOB_UID, &uid);
  const Site& site = state().site;
  const UserFacts facts{[&] { return has_opted_out(home_of(uid, job)); }, [&] { return name_of(uid, job); }};
  Decision decision = decide(state().option, site, job, facts);
  if (decision.kind == Decision::kNothing) return;
  if (has_tasks && !decision.reason.empty()) count_unrecorded(spank, job, decision.reason);
  if (has_tasks && !decision.problem.empty()) count_unrecorded(spank, job, wire::kWhyBadRequest);
  if (is_explained(decision, job))
    say_from_first_task(spank, "not recorded: " + decision.explanation + " (" + decision.reason + ")");
  // srun has already complained about a wrong option, but nobody has about a wrong variable.
  if (!decision.problem.empty() && !state().option)
    say_from_first_task(spank, decision.problem + "; not recorded");
  if (decision.kind == Decision::kActivate) {
    if (const char* const off = off_file(); off != nullptr) {
      if (has_tasks) count_unrecorded(spank, job, wire::kWhyTurnedOff);
      if (decision.is_asked_for) say_from_first_task(spank, off_text(off) + "; not recorded");
      decision.kind = Decision::kStrip;
    } else if (const std::string problem = obstacle(site); !problem.empty()) {
      if (has_tasks) count_unrecorded(spank, job, wire::kWhyPrefixMissing);
      say_from_first_task(spank, problem + "; not recorded");
      int task = 0;
      if (::spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task == 0)
        slurm_info("clusterprof: %s; not recorded", problem.c_str());  // to this node's log
      decision.kind = Decision::kStrip;
    } else if (has_tasks) {
      note_what_cannot_be_recorded(spank);
    }
  }
  const Step started{has_tasks, facts.name, [&] { return home_of(uid, job); }};
  for (const auto& [name, value] : activate(decision, site, started, job)) {
    if (value.empty()) {
      ::spank_unsetenv(spank, name.c_str());
    } else {
      ::spank_setenv(spank, name.c_str(), value.c_str(), 1);
    }
  }
}

// Prolog and epilog have work to do on the nodes of jobs that asked for recording. They get this as
// SPANK_CLUSTERPROF.
void tell_prolog(spank_t spank) {
  const UserFacts facts{[] { return has_opted_out(home_of(::getuid(), own_variable)); },
                        [] { return name_of(::getuid(), own_variable); }};
  if (decide_unfiltered(state().option, state().site, own_variable, facts).kind == Decision::kActivate)
    ::spank_job_control_setenv(spank, "CLUSTERPROF", "1", 1);
}

void begin(spank_t spank, int count, char** words) {
  const spank_context_t context = ::spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return;
  state().site = parse_site(std::vector<std::string>(words, words + count));
  const std::string plugin = own_path();
  if (state().site.prefix.empty()) state().site.prefix = prefix_of(plugin);
  if (state().site.starter.empty()) state().site.starter = starter_beside(plugin);
  if (context == S_CTX_REMOTE) {
    for (const std::string& problem : state().site.problems)
      slurm_error("clusterprof: plugstack.conf: %s", problem.c_str());
  }
  if (const spank_err_t error = ::spank_option_register(spank, &g_option); error != ESPANK_SUCCESS)
    slurm_error("clusterprof: --clusterprof: %s", ::spank_strerror(error));
}

template <typename Work>
int succeed(Work&& work) {
  try {
    work();
  } catch (...) {
    slurm_error("clusterprof: out of memory; not recorded");
  }
  return 0;
}

}  // namespace
}  // namespace clusterprof::slurm

extern "C" {

int slurm_spank_init(spank_t spank, int count, char* words[]) {
  return clusterprof::slurm::succeed([&] { clusterprof::slurm::begin(spank, count, words); });
}

int slurm_spank_init_post_opt(spank_t spank, int /*count*/, char* /*words*/[]) {
  const spank_context_t context = ::spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR) return 0;
  return clusterprof::slurm::succeed([&] { clusterprof::slurm::tell_prolog(spank); });
}

int slurm_spank_task_init(spank_t spank, int /*count*/, char* /*words*/[]) {
  return clusterprof::slurm::succeed([&] { clusterprof::slurm::prepare_task(spank); });
}

}  // extern "C"
